#!/bin/sh
# Which heads look from a verb to its subject? The pattern is a function in a file of Python; the command names both.
#   sh own_pattern.sh [MODEL]
set -eu
attnscan classify "The keys to the old cabinet are on the table ." --model "${1:-bundled}" \
    --pattern "$(dirname "$0")/own_pattern.py:subject_verb" --all --top 5

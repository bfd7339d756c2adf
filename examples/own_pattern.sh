#!/bin/sh
# A pattern of one's own is a function, so this one is Python; the model is yours.
#   sh own_pattern.sh [MODEL]
set -eu
python "$(dirname "$0")/own_pattern.py" "${1:-bundled}"

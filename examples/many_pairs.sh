#!/bin/sh
# Many pairs, in a run that may be killed: the same command goes on from where it was.
#   sh many_pairs.sh [PAIRS] [MODEL]
set -eu
pairs=${1:-$(dirname "$0")/pairs.csv}
model=${2:-bundled}

attnscan heads --pairs "$pairs" --model "$model" --predictive off --skip-bad --state scan.state --csv > heads.csv
attnscan heads --pairs "$pairs" --model "$model" --predictive off --skip-bad --per-pair scores.parquet > ranking.txt

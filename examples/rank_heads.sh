#!/bin/sh
# Which heads of my fine-tuned model look at delimiters, and what does the map of all its heads look like?
#   sh rank_heads.sh [MODEL] [PAIRS]        MODEL: a directory or a hub id
set -eu
model=${1:-bundled}
pairs=${2:-$(dirname "$0")/pairs.csv}

attnscan models "$model"                                             # can it be read, and what can be scored?
attnscan heads --model "$model" --pairs "$pairs" --pattern delimiter --top 5
attnscan heads --model "$model" --pairs "$pairs" --predictive off                       # what every head does, and the map
attnscan heads --model "$model" --pairs "$pairs" --predictive off --csv > heads.csv

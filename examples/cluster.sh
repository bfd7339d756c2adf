#!/bin/sh
# The same ranking on all machines of a Ray cluster (pip install 'attnscan[ray]'). Without an address, on this one alone.
#   sh cluster.sh [ADDRESS] [PAIRS] [MODEL]        ADDRESS: auto on a machine of the cluster
set -eu
address=${1:-local}
pairs=${2:-$(dirname "$0")/pairs.csv}
model=${3:-bundled}

attnscan heads --pairs "$pairs" --model "$model" --predictive off --pattern next-word --top 5 \
    --engine ray --ray-address "$address" --workers 2

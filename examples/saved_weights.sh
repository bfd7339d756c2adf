#!/bin/sh
# Score attention that was saved elsewhere, without a model. saved_weights.py shows how JAX or NumPy writes such a file.
set -eu
attnscan classify "I went to the store." --predictive off --save-weights weights.npz --csv > by_model.csv
attnscan classify --weights weights.npz
attnscan show 0-2 --weights weights.npz --top 3
attnscan report --weights weights.npz -o page.html

"""Inputs through a model, to results.

options.py     what a scan computes, which heads are ablated, and what users are told meanwhile
scanner.py     a model made ready: encode, run, score
one_input.py   what every head does on one input, and which words help to predict which
weights.py     saved weights of one input, scored without a model
pair_scan.py   many pairs or trees through a model: a stream to batches; a scan that can stop
word_links.py  the words that heads of cross attention link, over many pairs
ray.py         the same by the workers of a Ray cluster
state.py       what a scan has seen and summed, of a run or a shard; states in files
per_pair.py    every pair's scores in a Parquet file, and what that says of itself
"""

"""Patterns and attention to sums.

patterns.py    the seven patterns
targets.py     patterns applied to a batch
readout.py     targets read off weights
scorer.py      a consumer of attention: one batch to sums
sums.py        sums that add, and what follows from them
resampling.py  how often labels stay when words are drawn anew
predictive.py  the pattern that asks the model
"""

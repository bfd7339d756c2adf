"""Patterns and attention to sums.

pattern.py     what a pattern is: its target and all that is said of it
patterns.py    the seven patterns
cross.py       the patterns of cross attention
alignment.py   a consumer of cross attention: links of words, and how many are right
own_patterns.py  patterns of a user's own, from a Python file
targets.py     patterns applied to a batch
readout.py     targets read off weights
scorer.py      a consumer of attention: one batch to sums
sums.py        sums that add, and what follows from them
merging.py     a batch by its words, and what is kept of a mask for all layers that have it
parts.py       what profiles are made of, for some inputs under one mask
profile.py     a consumer of attention: one batch to what profiles are fitted from
profile_sums.py  sums that add, and the fit
label_sums.py  what labels over many pairs are told to be sure by: sums that add
block_sums.py  sums of blocks of pairs, for resamples
classes.py     a consumer of attention: one batch to sums class by class
relations.py   a consumer of attention: one batch to sums by relation of a treebank
relation_sums.py   these sums, which add, and what they say of every head
statements.py  the rule by which a head is stated
resampling.py  how often labels stay when words or pairs are resampled
questions.py   what the model is asked about one input for predictive
predictive.py  the pattern that asks the model
"""

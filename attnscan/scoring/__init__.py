"""Patterns and attention to sums.

patterns.py    what a pattern is; the seven, and those of a user's own, from a Python file
cross.py       the patterns of cross attention
targets.py     patterns applied to a batch
units.py       a batch by its words, what is kept of a mask for all layers that have it, and sums of pairs or words
scorer.py      a consumer of attention: targets read off weights, one batch to sums
classes.py     a consumer of attention: one batch to sums class by class
blocks.py      named sums by blocks of pairs, which add; ratios, errors and resamples of these
statements.py  the rule by which a head has a habit
labels.py      scores, labels and shares of classes of every head, and in how many resamples labels stay
relations.py   a consumer of attention: one batch to sums by relation of a treebank
relation_sums.py   these sums, which add, and what they say of every head
predictive.py  the pattern that asks the model, and what it is asked about one input
"""

"""Patterns and attention to sums.

patterns.py    what a pattern is; the seven, and those of a user's own, from a Python file
cross.py       the patterns of cross attention
units.py       a batch by its words: attention between these, targets that patterns set, sums of pairs or words
scorer.py      two consumers of attention: one batch to sums by pattern, and by class of keys
blocks.py      named sums by blocks of pairs, which add; ratios, errors and resamples of these
labels.py      scores, habits, labels and shares of classes of every head, and in how many resamples labels stay
relations.py   a consumer of attention: one batch to sums by relation of a treebank, and what these say of every head
predictive.py  the pattern that asks the model, and the questions about an input or a sample of pairs
"""

"""Patterns and attention to sums.

patterns.py        what a pattern is; ours, and those of a user's own, from a Python file
cross.py           the patterns of cross attention
units.py           a batch by its words: attention between these, targets, sums of pairs or words
layout.py          the targets of some inputs under one mask, laid out once for all heads
pattern_scorer.py  a consumer of attention: one batch to sums by pattern
class_scorer.py    a consumer of attention: one batch to sums by class of keys
word_links.py      a consumer of cross attention: which words heads link, and how well
pair_sums.py       each pair's sums from one run of a batch
blocks.py          named sums by blocks of pairs, which add; ratios, errors and resamples of these
labels.py          scores, habits, labels and shares of classes; in how many resamples labels stay
relations.py       a consumer of attention: one batch to sums by relation; their result
"""

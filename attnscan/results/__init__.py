"""What is found, as frozen tables, and how it is written: numpy and pandas, no torch.

grid.py            heads, their names and their order in a model
signature.py       where a result comes from, and by which reading of attention it is
label_rules.py     how patterns take part in labels
habits.py          classes of keys, and the habits that are unions of them
columns.py         the columns of the tables of heads, declared once
schemas.py         a table that a command writes: what each column is, and its JSON Schema
choices.py         what the options of studies may be, and their defaults
notebook.py        what shows results in HTML, which the package registers once
lazy.py            pandas and scipy, imported when first used
intervals.py       what standard errors say: intervals, p-values, false discoveries
scores.py          every head's score on every pattern; its label, else its habit; how sure that is
heads.py           every head on one input or over many pairs: labels, scores, ranks, weights
word_links.py      which words heads of cross attention link, a line for each pair
card.py            everything about a head; what a checkpoint is, and what can be scored in it
predictions.py     which words help to predict which; what a model says before and after a change
attention.py       one input's weights, queries and keys; which part of these is asked for
explanation.py     how heads make their patterns
ablation.py        what heads are worth
syntax.py          which heads follow which relations of a treebank; its sentences and their trees
comparison.py      which heads attend alike, and what sets two models apart
trace.py           what heads come to do over the checkpoints of a run, and since when
files.py           tables of several kinds of attention as one; tables to CSV, JSON, Excel and more
"""

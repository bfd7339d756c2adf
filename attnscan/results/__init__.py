"""What is found, as frozen tables, and how it is written: numpy and pandas, no torch.

terms.py           words and defaults that results and options share
intervals.py       what standard errors say: intervals, p-values, false discoveries
scores.py          every head's score on every pattern
behaviour.py       what each head does in a word: its label, else its statement beside the average head; how sure
card.py            everything about a head
signature.py       where a result comes from, and by what heads were read
heads.py           every head on one input or over many pairs: labels, scores, ranks
change.py          what is changed in one input or its model, and what that then says
profile.py         where every head's attention goes
dependencies.py    which words help to predict which
attention.py       one input's weights, queries and keys
head_weights.py    some heads' weights, cut to some tokens
explanation.py     how heads make their patterns
ablation.py        what heads are worth
syntax.py          which heads follow which relations of a treebank
trees.py           sentences of a treebank as a model reads them
comparison.py      which heads attend alike, and what sets two models apart
checkpoint.py      what a checkpoint is, and what can be scored in it
grid.py            a model's heads: how many, in what order, by what names
tables.py          tables to CSV, JSON, Parquet, Markdown, Excel workbooks; only this module rounds
files.py           a file is written whole or not at all
"""

"""What programs hold -> pairs: lists, data frames, data sets, loaders.

kinds.py    which kinds are taken, and which refused
items.py    texts, tuples, rows and batches, one by one
tables.py   tables of any library to rows
loaders.py  loaders of torch and data sets of Hugging Face, item by item
"""

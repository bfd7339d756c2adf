"""What goes in: files and objects -> pairs -> tokens -> batches.

sentence.py     an input: a text, its words and what is said of each; a pair, where it was read, and its tokens
option.py       options declared once, and held to what they take
files.py        names -> files, opened and unpacked
read.py         files -> lines or cells -> rows
annotations.py  what files say of words: treebanks in CoNLL-U, gold alignments
records.py      rows, objects of Python and data frames of any library -> records, with where they are from
weights.py      saved attention weights, .npz, in and out
encode.py       a pair to its tokens, one by one or many at once; how tokenizers write tokens; which make a word
batch.py        tokenized inputs to batches; a vocabulary's whole words, and which of these are related
data/           the sentence pairs that attnscan ships
"""

"""What goes in: files and objects -> pairs -> tokens -> batches.

sentence.py         a text, its words and what is said of each; pairs, and where they were read
option.py           options declared once, and held to what they take
files.py            names -> files, opened and unpacked
read.py             files -> lines or cells -> rows -> records with file and line
conllu.py           treebanks in CoNLL-U
frames.py           objects of Python and data frames of any library -> records
weights.py          saved attention weights, .npz, in and out
tokens.py           how tokenizers write their tokens; which are whole words, and which of these are frequent
encode.py           a pair to a tokenized input, one by one or many at once; which tokens make a word
alignments.py       files of gold alignments, and the links of a pair's words
batch.py            tokenized inputs to batches; words that are near each other in a model's embeddings
data/               the sentence pairs that attnscan ships
"""

"""What goes in: files and objects -> pairs -> tokens -> batches.

sentence.py      an input: a text, its words and what is said of each; a pair, and its tokens
option.py        options declared once, and held to what they take
files.py         names -> files, opened and unpacked
decoding.py      bytes of a text file -> lines
read.py          files -> records, by their formats; the pairs that attnscan ships
report.py        how a file is read: what its readers find out about it
delimited.py     CSV and TSV: separators, quotes, and whether the first line names the columns
json_records.py  JSON documents and JSON lines
tables.py        Parquet, Arrow and workbooks
workbook.py      how far a workbook's sheet extends, and which rows hold formulas alone
annotations.py   what files say of words: treebanks in CoNLL-U, gold alignments
links.py         links between words: JSON lines of one's own, and the trees of treebanks
records.py       rows, objects of Python and data frames of any library -> records
weights.py       saved attention weights, .npz, in and out
tool_weights.py  attention as other tools hand it out: steps of `generate`, TransformerLens' caches
encode.py        a pair to its tokens, one by one or many at once; which tokens make a word
spelling.py      how tokenizers write words: marks of starts and ends
vocabulary.py    a vocabulary's whole words, and which of them are frequent
batch.py         tokenized inputs to batches
data/            the sentence pairs that attnscan ships
"""

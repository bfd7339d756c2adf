"""What goes in: files and objects -> pairs -> tokens -> batches.

pairs.py            pairs of sentences, and the files that they come from
columns.py          which columns of a file hold them, and how files are read
places/             names to files to streams of bytes, wherever they are
readers.py          streams of bytes to rows, by their format
formats/            one module a format
parts.py            a large file as parts that are read side by side
objects/            what programs hold, to pairs
weights.py          saved attention weights, .npz, in and out
tokens.py           how tokenizers write their tokens
vocabulary.py       which tokens are whole words, and which of these are frequent
tokenizer_calls.py  what a tokenizer raises, as one line; how long it may take
patience.py         work that may never end, waited for only so long
tokenized.py        what tokenizers make of pairs, one by one or many at once
encode.py           a pair to an encoded input
batch.py            encoded inputs to batches
related.py          words that are near each other in a model's embeddings
data/               the sentence pairs that attnscan ships
"""

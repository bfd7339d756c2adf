"""What goes in: files -> pairs -> tokens -> batches.

pairs.py            pairs of sentences, and the files that they come from
columns.py          which columns of a file hold them, and how files are read
names.py            what a file's name tells: format, packing, scheme
readers.py          CSV, TSV, JSONL, text and Parquet files to rows
objects.py          objects of Python to pairs: which kinds there are
items.py            texts, tuples, rows and batches, one by one
tables.py           tables of any library to rows
loaders.py          loaders of torch and data sets of Hugging Face, item by item
descriptors.py      names of what is open already, such as /dev/stdin
places.py           names to files to streams of bytes, wherever they are
remote.py           files on a network, which may not answer
stores.py           S3, GCS, Azure, HDFS and the Hugging Face Hub
web.py              http:// and https://
compression.py      gzip, bzip2, xz and Zstandard, unpacked in bounded memory
patience.py         work that may never end, waited for only so long
weights.py          saved attention weights, .npz, in and out
tokens.py           how tokenizers write their tokens
vocabulary.py       which tokens are whole words, and which of these are frequent
tokenizer_calls.py  what a tokenizer raises, as one line; how long it may take
encode.py           a pair to an encoded input; only this module meets tokenizers
batch.py            encoded inputs to batches
related.py          words that are near each other in a model's embeddings
data/               the sentence pairs that attnscan ships
"""

"""Names -> files -> streams of bytes: on this machine, on the web, in stores; compressed or not.

files.py        files, globs, directories and URIs -> files, opened
names.py        the format, the compression and the scheme that a name says
remote.py       files on a network, with timeouts; http:// and https://
stores.py       S3, GCS, Azure, HDFS and the Hugging Face Hub; why a network could not be read
compression.py  gzip, bzip2, xz and Zstandard, in bounded memory
"""

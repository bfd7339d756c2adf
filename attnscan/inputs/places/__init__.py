"""Names -> files -> streams of bytes: on this machine, on the web, in stores; plain or packed.

files.py        what names stand for: files, globs, directories, URIs; and how they are opened
names.py        what a file's name tells: format, packing, scheme
descriptors.py  names of what is open already, such as /dev/stdin
remote.py       files on a network, which may not answer
stores.py       S3, GCS, Azure, HDFS and the Hugging Face Hub
web.py          http:// and https://
compression.py  gzip, bzip2, xz and Zstandard, unpacked in bounded memory
"""

"""Names -> files -> streams of bytes: on this machine, on the web, in stores; compressed or not.

files.py   files, globs, directories and URIs -> files, opened; gzip, bzip2, xz and Zstandard
names.py   the format, the compression and the scheme that a name says
"""

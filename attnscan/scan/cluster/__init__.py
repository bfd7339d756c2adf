"""The scan on a Ray cluster.

scan.py            the pipeline
blocks.py          runs of records of a part of a file, the same however often it is read
connection.py      to a cluster; what share of it each worker takes, and how often each was started
worker.py          what runs there
progress.py        what blocks add up to, each once; how far a scan is, in a file too
pair_directory.py  --per-pair as a directory
"""

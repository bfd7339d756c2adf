"""The scan on a Ray cluster.

scan.py            the pipeline
blocks.py          runs of records of a part of a file, the same however often it is read
connection.py      to a cluster, and what share of it each worker takes
worker.py          what runs there
lives.py           how often each worker has been started
totals.py          what blocks add up to, each once
progress.py        how far a scan is, in a file too
pair_directory.py  --per-pair as a directory
"""

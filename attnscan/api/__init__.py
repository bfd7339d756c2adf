"""What `import attnscan` offers, for notebooks and programs; options are those of `ScanOptions`, by name.

one_input.py   classify, score_weights, explain, dependencies, page, picture
many_pairs.py  rank_heads, rank_files, profile
studies.py     explain_over, ablate, similar, compare
shards.py      load, shard, finish
given.py       what callers give, made what the rooms below take
source.py      the pairs that they give, and what is called while these are read
"""

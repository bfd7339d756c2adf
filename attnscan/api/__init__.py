"""What `import attnscan` offers, for notebooks and programs; options are those of `ScanOptions`, by name.

one_input.py   classify, score_weights, explain, dependencies, page, picture
many_pairs.py  rank_heads, rank_files, explain_over, ablate, similar, compare
given.py       what callers give, made what the rooms below take
"""

"""What `import attnscan` offers, for notebooks and programs: a function is named as its command.

one_input.py   classify, show, predictive
many_pairs.py  heads, profile; load, shard, finish
studies.py     explain, head, ablate, similar, compare, syntax; patterns, models
views.py       report, plot
arguments.py   one call: its options checked, its pairs read, its model made ready
"""

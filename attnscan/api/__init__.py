"""What `import attnscan` offers, for notebooks and programs: a function is named as its command.

one_input.py           classify, show, predictive
many_pairs.py          heads, profile; load, shard, finish
one_head.py            explain, head
studies.py             ablate, similar, compare
syntax.py              syntax, and what report and head take of it
about.py               patterns, models
training.py            trace; TrainerCallback, for transformers' Trainer
pictures_and_pages.py  report, plot
word_links.py          the links between words that show writes
readings.py            with_reading: by weight or what heads carry, special tokens in or out
rendering.py           what a notebook shows of a result, and its page
option_groups.py       what each function takes by name, in typed groups
signatures.py          the signatures of functions, made of what they declare
options.py             the options of a call, checked
pairs_as_read.py       pairs
pairs_input.py         the pairs that callers give
open_model.py          one call: its options checked, its pairs ready, its model opened
"""

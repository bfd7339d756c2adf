"""Somebody else's model: find it, load it, run it, look inside.

sources.py  what a model's name means; which models can run now; their fingerprints
loading.py  a source, or a caller's model, to a loaded model, its tokenizer and device; languages; task heads
running.py  run a model and put it back; its failures and calls of attention; what memory allows; work side by side
tap.py      attention, layer by layer, as blocks to a consumer; a consumer that keeps one input's
watch.py    a model's own eager attention, call by call
carried.py  what heads carry: the output projections, and weights times the norms of values
writing.py  a source and its target to an encoded input; targets that an encoder-decoder writes
"""

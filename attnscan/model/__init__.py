"""Somebody else's model: find it, load it, run it, look inside.

sources.py          what a model's name means; which models can run now
loading.py          a source, or a caller's model, to a loaded model; its task heads; languages; adapters
loaded.py           that model, its tokenizer and its device, and what tells it from another of its name
running.py          somebody else's model: run and put back, its failures, what memory allows, work side by side
attention_block.py  what a consumer is shown: a part of one layer's attention; a consumer that keeps one input's
tap.py              attention, layer by layer, to a consumer; which calls are of which layer, learnt from a probe run
watch.py            a model's own eager attention, call by call
carried.py          what heads carry: the output projections, and weights times the norms of values
writing.py          a source and its target to an encoded input; targets that an encoder-decoder writes
"""

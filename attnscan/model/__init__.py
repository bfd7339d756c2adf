"""Somebody else's model: find it, load it, run it, look inside.

sources.py          what a model's name means; a model of the hub at one commit, on all machines the same
catalog.py          which models can run now
loading.py          a source to a loaded model: from safetensors alone, with no code of its own; its task heads
loaded.py           that model, its tokenizer and its device
in_memory.py        a model that a program holds already, run in place
fingerprint.py      what tells a model from another of its name: weights, config, modules as they print, tokenizer
running.py          somebody else's model: run and put back, its failures, what memory allows, work side by side
attention_block.py  what a consumer is shown: a part of one layer's attention; a consumer that keeps one input's
tap.py              attention, layer by layer, to a consumer; which calls are of which layer, learnt from a probe run
watch.py            a model's own eager attention, call by call
carried.py          what heads carry: the output projections, and weights times the norms of values
writing.py          a source and its target to an encoded input; targets that an encoder-decoder writes
"""

"""Somebody else's model: find it, load it, run it, look inside.

sources.py          what a model's name means; a model of the hub at one commit, on all machines the same
catalog.py          which models can run now
loading.py          a source to a loaded model, on a device: from safetensors alone, with no code of its own
languages.py        languages of multilingual translators
loaded.py           that model, its device, and how much of a batch that takes
in_memory.py        a model that a program holds already, run in place
fingerprint.py      what tells a model from another of its name: weights, config, modules as they print, tokenizer
task_heads.py       next-sentence and classifier heads
running.py          somebody else's model: run and put back, its failures, what memory allows, work side by side
attention_block.py  what a consumer is shown: a part of one layer's attention; a consumer that keeps one input's
tap.py              attention, layer by layer, to a consumer; what heads put out, to be changed
watch.py            a model's own eager attention, call by call
calls.py            which calls are of which kind and layer, learnt from a probe run
carried.py          what heads carry: the output projections, and weights times the norms of values
writing.py          a source and its target to an encoded input; targets that an encoder-decoder writes
"""

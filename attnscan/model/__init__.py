"""Somebody else's model: find it, load it, run it, look inside.

sources.py             what a model's name means; a model of the hub at one commit, on all machines the same
catalog.py             which models can run now
loading.py             a source to a loaded model, on a device: from safetensors alone, with no code of its own
loaded.py              that model, its device, and how much of a batch that takes
in_memory.py           a model that a program holds already, run without leaving a trace
fingerprint.py         what tells a model from another of its name: weights, config, modules as they print, tokenizer
task_heads.py          next-sentence and classifier heads
running.py             forward passes, their failures, halves where memory is short
attention_block.py     what a consumer is shown: a part of one layer's attention; norms of what heads carry
tap.py                 attention, layer by layer, to a consumer
attention_function.py  our attention function in place of the model's; which keys a query may see
kinds.py               which calls are an encoder's, a decoder's, or look across; which keys a target sees
writing.py             a source and its target to an encoded input; targets that an encoder-decoder writes
output_tap.py          what heads put out, to be changed in a run to the end
keeper.py              a consumer that keeps one input's attention
threads.py             read ahead; work side by side on replicas
"""

"""Somebody else's model: find it, load it, run it, look inside.

sources.py              what a model's name means; which models can run now; their fingerprints
loading.py              a source to a loaded model, its tokenizer and device
in_memory.py            a caller's model to a loaded model
checkpoint.py           a checkpoint's weights as a model of transformers
adapters.py             adapters (LoRA), merged into the model that they change
architecture.py         the parts of a model: its encoder, its decoder
devices.py              where a model runs, and how many tokens a batch has there
languages.py            the languages of a translator's texts
task_heads.py           a model with a task head that its checkpoint has trained
forward.py              run a model and put it back; its inputs; how it fails
probe.py                which calls of attention are of which kind and layer, learnt from a run
attention_functions.py  our attention function among those of transformers
attention_block.py      a part of one layer's attention
tap.py                  attention, layer by layer, as blocks to a consumer
watch.py                a model's own eager attention, call by call
keeper.py               a consumer that keeps one input's attention
carried.py              what heads carry: output projections; weights times the norms of values
predictive.py           ask a model which words help to predict which
memory.py               what main memory allows
device_memory.py        inputs that a device's memory does not hold: halved until they fit
threads.py              work side by side
relatedness.py          which words are related, by the model's own embeddings
continuation.py         what a decoder writes behind a text
writing.py              a source and its target to an encoded input; targets that a model writes
"""

"""Score attention from JAX, Flax or an old notebook: arrays in, no model.

`attention` is [layer, head, query, key] of one input, after the softmax. From Flax it is

    out = model(**inputs, output_attentions=True)
    attention = numpy.stack([layer[0] for layer in out.attentions])

The arrays here are made up: two layers of two heads, of which 0-1 looks at the next token and 1-0
at `[SEP]`.
"""

from __future__ import annotations

import numpy as np

import attnscan

tokens = ["[CLS]", "the", "cat", "sat", "[SEP]", "a", "dog", "ran", "[SEP]"]
segments = [0, 0, 0, 0, 0, 1, 1, 1, 1]
count = len(tokens)
attention = np.full((2, 2, count, count), 1 / count, dtype=np.float32)
attention[0, 1] = np.eye(count, k=1)
attention[0, 1, -1, 0] = 1
attention[1, 0] = np.eye(count)[4]

arrays = {"attention": attention, "tokens": tokens, "segments": segments}
result = attnscan.classify(weights=arrays, name="from-jax")
print(result.to_frame(["next-word", "delimiter"]).round(3).to_string(index=False))

# The command line reads the file: attnscan classify --weights from_jax.npz
np.savez("from_jax.npz", **arrays)  # type: ignore[arg-type]

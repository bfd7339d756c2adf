"""Attention as other tools hand it out, as arrays that `weights_of` takes.

These are what `generate` of transformers returns, a tuple for each step, and caches with
TransformerLens' names, such as `blocks.3.attn.hook_pattern`.
"""

import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import WeightsError

_HOOK = re.compile(r"blocks\.(\d+)\.attn\.hook_pattern")
"""What TransformerLens calls the attention weights of a layer."""


def plain_arrays(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays by name, where attention may also be a cache or the steps of `generate`.

    A cache may stand in the place of the mapping or of its `attention`. Tokens that were written
    and never read have no row, and are left out. Raises: WeightsError.
    """
    plain = {name: value for name, value in arrays.items() if not _HOOK.fullmatch(str(name))}
    if len(plain) < len(arrays):
        plain["attention"] = _cached_layers(arrays)
    elif hasattr(plain.get("attention"), "keys"):
        plain["attention"] = _cached_layers(plain["attention"])
    for name in ("attention", "decoder_attention", "cross_attention"):
        if _is_generation(plain.get(name)):
            plain[name] = join_steps(plain[name])
            side = "" if name == "attention" else "decoder_"
            _leave_out_unread(plain, side, n_read=plain[name].shape[2])
    return plain


def segments_from(sentence_b_start: int, n_tokens: int) -> list[int]:
    """Segments by the number of B's first token, as BertViz counts it.

    Raises: WeightsError if there is no such token.
    """
    try:
        start = operator.index(sentence_b_start)
    except TypeError:
        start = 0  # no number at all
    if not 0 < start < n_tokens:
        raise WeightsError(
            f"sentence_b_start is {sentence_b_start!r:.60}, and there are {n_tokens} tokens",
            "give the number of B's first token, such as token_type_ids[0].tolist().index(1)",
        )
    return [int(place >= start) for place in range(n_tokens)]


def join_steps(steps: Sequence[Sequence[Any]]) -> NDArray[np.float32]:
    """The attention of `generate(output_attentions=True)` as that of one run over all tokens.

    Each step has the rows of the tokens that it reads: the first step those of the prompt, each
    later one that of the token written before it. Of a decoder's own attention, keys that come
    later get 0; of cross attention, every step sees the whole source.

    Shape: of each layer of a step [1, head, query, key]; returns [layer, head, query, key].
    Raises: WeightsError for several sequences at once, or steps that do not continue each other.
    """
    layers_of_steps = [list(map(_as_array, step)) for step in steps]
    _check_alike(layers_of_steps)
    n_layers = len(layers_of_steps[0])
    n_heads = layers_of_steps[0][0].shape[1]
    queries = [layers[0].shape[2] for layers in layers_of_steps]
    last_queries = np.cumsum(queries).tolist()
    n_queries = last_queries[-1]
    n_keys = n_queries
    if _sees_source(layers_of_steps, last_queries):
        n_keys = layers_of_steps[0][0].shape[3]
        seen_by_step = [n_keys] * len(steps)
    else:
        seen_by_step = last_queries
    joined = np.zeros((n_layers, n_heads, n_queries, n_keys), np.float32)
    for step, layers in enumerate(layers_of_steps):
        seen = seen_by_step[step]
        place = slice(last_queries[step] - queries[step], last_queries[step])
        for number, layer in enumerate(layers):
            rows = layer[0]
            if rows.shape[-1] < seen or rows[..., seen:].any():
                raise WeightsError(
                    f"step {step} of generate sees {rows.shape[-1]} tokens in place of {seen}",
                    "generate with the whole cache: no window, no assistant model, no beams",
                )
            joined[number, :, place, :seen] = rows[..., :seen]
    return joined


def _cached_layers(cache: Any) -> list[Any]:
    """The layers of a cache by TransformerLens' names, in order.

    Raises: WeightsError if there is none, or one is missing.
    """
    layers = {}
    for name in cache.keys():  # noqa: SIM118  (TransformerLens' cache is no mapping)
        match = _HOOK.fullmatch(str(name))
        if match is not None:
            layers[int(match[1])] = cache[name]
    missing = sorted(set(range(max(layers, default=0) + 1)) - set(layers))
    if missing:
        raise WeightsError(
            f"the cache has no 'blocks.{missing[0]}.attn.hook_pattern'",
            "cache the attention of every layer: run_with_cache(...) without a filter",
        )
    return [layers[number] for number in sorted(layers)]


def _is_generation(weights: Any) -> bool:
    """Whether weights are a sequence of steps, each a sequence of layers."""
    if not isinstance(weights, list | tuple):
        return False
    return any(isinstance(step, list | tuple) and _has_tensors(step) for step in weights)


def _has_tensors(step: Sequence[Any]) -> bool:
    return all(getattr(layer, "ndim", 0) == 4 for layer in step)


def _as_array(layer: Any) -> NDArray[np.float32]:
    if hasattr(layer, "detach"):
        layer = layer.detach().cpu().float().numpy()
    return np.asarray(layer, np.float32)


def _check_alike(layers_of_steps: Sequence[Sequence[NDArray[np.float32]]]) -> None:
    """Raises: WeightsError unless all steps have the same layers and heads, of one sequence."""
    shapes = {(len(layers), *(layers[0].shape[:2] if layers else ())) for layers in layers_of_steps}
    if len(shapes) > 1 or (0,) in shapes:
        raise WeightsError(
            "the steps of generate differ in layers, heads or sequences",
            "give .attentions, .decoder_attentions or .cross_attentions of one call",
        )
    n_sequences = layers_of_steps[0][0].shape[0]
    if n_sequences != 1:
        raise WeightsError(
            f"generate wrote {n_sequences} sequences at once",
            "generate one at a time, and no beams",
        )


def _sees_source(
    layers_of_steps: Sequence[Sequence[NDArray[np.float32]]], last_queries: Sequence[int]
) -> bool:
    """Whether steps look at a source: as many keys in each, and more than had been written.

    A cache of fixed size has as many keys in each step, too, but no weight on later ones.
    """
    n_keys = {layers[0].shape[3] for layers in layers_of_steps}
    if len(n_keys) > 1:
        return False
    later = [
        layers[0][..., last:].any()
        for layers, last in zip(layers_of_steps, last_queries, strict=True)
    ]
    return any(later)


def _leave_out_unread(arrays: dict[str, Any], side: str, *, n_read: int) -> None:
    """Take away the token that was written last, which was predicted and not read."""
    tokens = arrays.get(f"{side}tokens")
    if tokens is None or len(tokens) != n_read + 1:
        return
    arrays[f"{side}tokens"] = tokens[:-1]
    if side:
        arrays.setdefault("predicted_tokens", tokens[1:])
    for name in (f"{side}segments", f"{side}special"):
        if name in arrays and len(arrays[name]) == n_read + 1:
            arrays[name] = arrays[name][:-1]

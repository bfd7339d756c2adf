"""Saved weights of one input, scored without their model."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from attnscan.errors import OptionError
from attnscan.inputs.batch import collate
from attnscan.inputs.weights import SavedWeights, encode_tokens
from attnscan.model.attention_block import AttentionBlock, expand_to_both_texts, visible_keys
from attnscan.results.attention import Attention, Selection
from attnscan.results.grid import Grid
from attnscan.results.heads import HeadScores
from attnscan.results.signature import EVERY_READING, Signature
from attnscan.scan.one_input import ScoredInput, make_scorers, result_of_input, with_attention
from attnscan.scan.options import ScanOptions, note
from attnscan.scoring.units import Targets
from attnscan.text import counted, hashed


def classify_weights(
    saved: SavedWeights, name: str, options: ScanOptions, *, keep: bool | Selection = False
) -> HeadScores:
    """Score and label every head by saved weights of a model of that `name`.

    No words count as related. With `keep`, the result carries the weights.
    Raises: OptionError for what needs more than weights.
    """
    if options.reading.carried:
        raise OptionError(
            "saved weights do not hold what heads carry",
            "leave out ``by=carried``, or name a model",
        )
    if saved.left_out:
        was = "was" if saved.left_out == 1 else "were"
        note(f"{counted(saved.left_out, 'token')} of padding {was} left out")
    sees_later = np.triu(saved.attention, 1).any()
    options = options.with_causal_patterns(causal=saved.source == 0 and not sees_later)
    encoded = encode_tokens(saved, options.unit)
    targets = Targets(collate([encoded]), options.patterns, by_query=True)
    scored = ScoredInput(encoded, targets, options)
    readings = [options.reading]
    if isinstance(keep, Selection) and keep.every_reading:
        readings = [reading for reading in EVERY_READING if not reading.carried]
    scorers = make_scorers(targets, readings)
    grid = Grid(saved.attention.shape[:2], options.kind)
    for block in _blocks(saved, grid):
        scorers["weight"].take(block)
    signature = _sign(saved, name, options)
    result = result_of_input(signature, scored, scorers, "there is no model to ask")
    if not keep:
        return result
    attention = Attention.of(saved, encoded.sentence, encoded.unit, options.kind)
    result = with_attention(result, attention, scored)
    return result.cut(keep) if isinstance(keep, Selection) else result


def _blocks(saved: SavedWeights, grid: Grid) -> Iterator[AttentionBlock]:
    """The weights, layer by layer, as a model's run would show them."""
    everything = slice(None)
    for layer, visible in enumerate(_visible_by_layer(saved)):
        yield AttentionBlock(
            grid=grid,
            layer=layer,
            inputs=everything,
            heads=everything,
            weights=torch.from_numpy(saved.attention[layer])[None],
            visible=visible,
            query=None,
            key=None,
            scaling=None,
        )


def _visible_by_layer(saved: SavedWeights) -> Iterator[Tensor]:
    """Which keys each query may see, of every layer: the same object where it is the same."""
    layers, _, queries, keys = saved.attention.shape
    is_used = saved.attention.any(axis=(0, 1, 2))
    present = torch.tensor(~np.array(saved.padding)[:keys] | is_used)[None]
    if saved.source:
        cells = present[:, None].expand(1, queries, keys)
        visible = expand_to_both_texts(cells, [(queries, keys)])
        for _ in range(layers):
            yield visible
        return
    visible = torch.zeros(0)
    for weights in torch.from_numpy(saved.attention):
        layer_visible = visible_keys(weights[None], present)
        if not torch.equal(visible, layer_visible):
            visible = layer_visible
        yield visible


def _sign(saved: SavedWeights, name: str, options: ScanOptions) -> Signature:
    tokens = [token.encode(errors="replace") for token in saved.tokens]
    return options.make_signature(
        model=name,
        revision=None,
        transformers=None,
        dtype=str(saved.attention.dtype),
        device="cpu",
        input_hash=hashed(saved.attention.tobytes(), *tokens),
        read_by="file",
        predictive="off",
        pairs_read=1,
    )

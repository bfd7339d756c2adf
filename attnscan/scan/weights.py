"""Saved weights of one input, scored without their model."""

from typing import Any

import numpy as np
import torch

from attnscan.errors import OptionError
from attnscan.inputs.batch import collate
from attnscan.inputs.weights import SavedWeights, encode_tokens
from attnscan.model.attention_block import AttentionBlock, expand_to_both_texts, visible_keys
from attnscan.results.attention import Attention, Selection
from attnscan.results.heads import HeadScores
from attnscan.results.terms import Grid
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import InputScorers, result_of_input, with_attention
from attnscan.scoring.units import Targets
from attnscan.text import hashed


def classify_weights(
    saved: SavedWeights, name: str, options: ScanOptions, *, keep: bool | Selection = False
) -> HeadScores:
    """Score and label every head by saved weights of a model of that `name`. No words count as related.

    With `keep`, the result carries the weights. Raises: OptionError for what needs more than weights.
    """
    if options.reading.carried:
        raise OptionError(
            "saved weights do not hold what heads carry", "leave out --by carried, or name a model"
        )
    options = options.with_causal_patterns(
        causal=saved.source == 0 and not np.triu(saved.attention, 1).any()
    )
    encoded, everything = encode_tokens(saved, options.unit), slice(None)
    grid = Grid(saved.attention.shape[:2], options.kind)
    targets = Targets(collate([encoded]), options.patterns, by_query=True)
    scorers = InputScorers(targets, options, keep=bool(keep))
    queries, keys = saved.attention.shape[2:]
    present = torch.tensor(~np.array(saved.padding)[:keys] | saved.attention.any(axis=(0, 1, 2)))[
        None
    ]
    visible = torch.zeros(0)
    if saved.source:
        visible = expand_to_both_texts(present[:, None].expand(1, queries, keys), [(queries, keys)])
    for layer, weights in enumerate(torch.from_numpy(saved.attention)[:, None]):
        if not saved.source and not torch.equal(
            visible, layer_visible := visible_keys(weights, present)
        ):
            visible = layer_visible
        unknown: dict[str, Any] = dict.fromkeys(("query", "key", "scaling", "logits"))
        block = AttentionBlock(grid, layer, everything, everything, weights, visible, **unknown)
        for consumer in scorers.consumers:
            consumer(block)
    signature = options.make_signature(
        model=name,
        revision=None,
        transformers=None,
        dtype=str(saved.attention.dtype),
        device="cpu",
        input_hash=hashed(
            saved.attention.tobytes(), *(token.encode(errors="replace") for token in saved.tokens)
        ),
        read_by="file",
        predictive="off",
        pairs_read=1,
    )
    result = result_of_input(
        signature, encoded, options, {"weight": scorers}, "there is no model to ask"
    )
    if not keep:
        return result
    result = with_attention(
        result, Attention.of(saved, encoded.sentence, encoded.unit, options.kind), targets
    )
    return result.cut(keep) if isinstance(keep, Selection) else result

"""Describes one checkpoint and what can be scored in it, by running two short sentences."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from attnscan.inputs.sentence import EncodedInput, Pair
from attnscan.model.loading import NO_LIMIT
from attnscan.results.card import Checkpoint
from attnscan.results.choices import MEASURES
from attnscan.results.label_rules import DELIMITER
from attnscan.results.scores import FloatArray
from attnscan.scan.scanner import Scanner
from attnscan.studies.losses import losses_of

_PROBE = Pair("the cat sat on the mat.", "the cat ran to the cat.")  # every pattern has words in it


def examine(scanner: Scanner) -> Checkpoint:
    """Run a checkpoint. Raises: CaptureError if its attention cannot be read."""
    loaded = scanner.loaded
    encoded = scanner.encode(_PROBE)
    sums = scanner.score([encoded])
    losses = losses_of(loaded, MEASURES, 0, {})
    not_available = {name: loss for name, loss in losses.items() if isinstance(loss, str)}
    grid = scanner.grid()
    facts: dict[str, Any] = {
        "family": str(loaded.model.config.model_type),
        "architecture": type(loaded.model).__name__,
        "layers": grid.shape[0],
        "heads": grid.shape[1],
    }
    if grid.layers:
        facts["attention_in"] = grid.layers
    facts |= {
        "read_by": scanner.signature().read_by,
        "template": _template(encoded),
        "longest_input": loaded.limit if loaded.limit < NO_LIMIT else None,
        "segment_ids": _reads_segments(scanner, encoded, sums),
        "mask_token": loaded.tokenizer.mask_token,
        "masked_lm_head": loaded.masked_lm is not None,
        "next_sentence_head": "next-sentence" not in not_available,
        "classifier_head": "classifier" not in not_available,
    }
    return Checkpoint(
        model=loaded.source.name,
        facts=facts,
        patterns=_why_not_scored(scanner, sums),
        measures={name: not_available.get(name) for name in MEASURES},
    )


def _template(encoded: EncodedInput) -> str:
    """The special tokens around sentences, which stand as A and B."""
    letters = [
        token if sentence < 0 else "AB"[sentence]
        for token, sentence in zip(encoded.tokens, encoded.sentence, strict=True)
    ]
    template: list[str] = []
    for (letter, sentence), run in groupby(zip(letters, encoded.sentence, strict=True)):
        template += [letter] * (len(list(run)) if sentence < 0 else 1)
    return " ".join(template)


def _reads_segments(
    scanner: Scanner, encoded: EncodedInput, sums: Mapping[str, FloatArray]
) -> bool:
    """Whether scores change when all segment ids are 0."""
    inputs = dict(encoded.model_inputs)
    if "token_type_ids" in inputs:
        inputs["token_type_ids"] = [0] * len(inputs["token_type_ids"])
    zeroed_sums = scanner.score([replace(encoded, model_inputs=inputs)])
    weight = "every_key.weight"
    return not np.allclose(zeroed_sums[weight], sums[weight], atol=1e-6)


def _why_not_scored(scanner: Scanner, sums: Mapping[str, FloatArray]) -> dict[str, str | None]:
    """Of each pattern, why it cannot be scored; None where it can."""
    reasons: dict[str, str | None] = {}
    n = np.moveaxis(sums["every_key.n"], -1, 0)
    for pattern, pattern_n in zip(scanner.options.patterns, n, strict=True):
        reasons[pattern.id] = None
        if pattern.target is None:
            if scanner.measure is None:
                reasons[pattern.id] = scanner.why_no_measure
        elif not pattern_n.any():
            if pattern.id == DELIMITER:
                reason = "the tokenizer inserts no special tokens"
            elif scanner.is_causal:
                reason = "no token sees a later one, so no word is eligible"
            else:
                reason = "the tokenizer does not write the same word alike"
            reasons[pattern.id] = reason
    return reasons

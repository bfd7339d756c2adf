"""Describes one checkpoint and what can be scored in it, by running two short sentences through it."""

from dataclasses import replace
from itertools import groupby

import numpy as np

from attnscan.inputs.sentence import Pair
from attnscan.model.loading import NO_LIMIT
from attnscan.results.card import Checkpoint
from attnscan.results.choices import MEASURES
from attnscan.results.label_rules import DELIMITER
from attnscan.scan.scanner import Scanner
from attnscan.studies.losses import losses_of

_PROBE = Pair("the cat sat on the mat.", "the cat ran to the cat.")  # every pattern has words in it


def examine(scanner: Scanner) -> Checkpoint:
    """Run a checkpoint. Raises: CaptureError if its attention cannot be read."""
    loaded, encoded, grid = scanner.loaded, scanner.encode(_PROBE), scanner.grid()
    inputs, sums = encoded.model_inputs, scanner.score([encoded])
    flat = {
        name: [0] * len(ids) if name == "token_type_ids" else ids for name, ids in inputs.items()
    }
    of_flat = scanner.score([replace(encoded, model_inputs=flat)])
    without = {
        name: reason
        for name, reason in losses_of(loaded, MEASURES, 0, {}).items()
        if isinstance(reason, str)
    }
    letters = [
        token if at < 0 else "AB"[at]
        for token, at in zip(encoded.tokens, encoded.sentence, strict=True)
    ]
    runs = groupby(zip(letters, encoded.sentence, strict=True))
    facts = {
        "family": str(loaded.model.config.model_type),
        "architecture": type(loaded.model).__name__,
        "layers": grid.shape[0],
        "heads": grid.shape[1],
        **({"attention_in": grid.layers} if grid.layers else {}),
        "read_by": scanner.signature().read_by,
        "template": " ".join(
            letter for (letter, at), run in runs for _ in (run if at < 0 else "1")
        ),
        "longest_input": loaded.limit if loaded.limit < NO_LIMIT else None,
        "segment_ids": not np.allclose(
            of_flat["every_key.weight"], sums["every_key.weight"], atol=1e-6
        ),
        "mask_token": loaded.tokenizer.mask_token,
        "masked_lm_head": loaded.masked_lm is not None,
        "next_sentence_head": "next-sentence" not in without,
        "classifier_head": "classifier" not in without,
    }
    not_scored = {}
    for pattern, n in zip(
        scanner.options.patterns, np.moveaxis(sums["every_key.n"], -1, 0), strict=True
    ):
        if pattern.target is None and scanner.measure is None:
            not_scored[pattern.id] = scanner.why_no_measure
        elif pattern.target is not None and not n.any():
            not_scored[pattern.id] = (
                "the tokenizer inserts no special tokens"
                if pattern.id == DELIMITER
                else "no token sees a later one, so no word is eligible"
                if scanner.is_causal
                else "the tokenizer does not write the same word alike"
            )
    patterns = {pattern.id: not_scored.get(pattern.id) for pattern in scanner.options.patterns}
    return Checkpoint(
        loaded.source.name, facts, patterns, {name: without.get(name) for name in MEASURES}
    )

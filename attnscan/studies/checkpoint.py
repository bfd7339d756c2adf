"""What one checkpoint is and what can be scored in it, found by running two short sentences through it."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import torch

from attnscan.inputs.batch import EncodedInput, collate
from attnscan.inputs.sentence import Pair
from attnscan.model.attention_block import AttentionKeeper
from attnscan.model.loaded import NO_LIMIT, position_rows
from attnscan.results.attention import Attention
from attnscan.results.checkpoint import Checkpoint
from attnscan.scan.scanner import Scanner
from attnscan.scoring.targets import Targets
from attnscan.studies.losses import not_measured

_PROBE = Pair("the cat sat on the mat.", "the cat ran to the cat.")  # every pattern has words in it


def examine(scanner: Scanner) -> Checkpoint:
    """Run a checkpoint. Raises: CaptureError if its attention cannot be read."""
    loaded, encoded = scanner.loaded, scanner.encode(_PROBE)
    attention = _attention(scanner, encoded)
    layers, heads = attention.grid.shape
    without_head = not_measured(loaded)
    return Checkpoint(
        model=loaded.source.name,
        family=str(loaded.model.config.model_type),
        architecture=type(loaded.model).__name__,
        layers=layers,
        heads=heads,
        attention_in=attention.layers,
        read_by=scanner.read_by,
        template=_template(encoded),
        longest_input=loaded.limit if loaded.limit < NO_LIMIT else None,
        positions=_positions(loaded.model),
        segment_ids=_heeds_segments(scanner, encoded, attention),
        mask_token=loaded.tokenizer.mask_token,
        masked_lm_head=loaded.masked_lm is not None,
        next_sentence_head="next-sentence" not in without_head,
        classifier_head="classifier" not in without_head,
        saved_as=next(iter(getattr(loaded.model.config, "architectures", None) or ()), None),
        not_measured=without_head,
        not_scored=_not_scored(scanner, encoded, attention),
        patterns=tuple(pattern.id for pattern in scanner.options.patterns),
    )


def _attention(scanner: Scanner, encoded: EncodedInput) -> Attention:
    keeper = AttentionKeeper()
    scanner.score([encoded], also=lambda _: keeper)
    return keeper.attention(encoded)


def _template(encoded: EncodedInput) -> str:
    """Each run of a sentence's tokens as its letter.

    >>> _template(EncodedInput(("[CLS]", "a", "cat", "[SEP]"), (-1, 0, 0, -1), (0, 1, 2, 3), (False,) * 4))
    '[CLS] A [SEP]'
    """
    tokens = zip(encoded.tokens, encoded.sentence, strict=True)
    places = groupby(
        (text if sentence < 0 else "AB"[sentence], i * (sentence < 0)) for i, (text, sentence) in enumerate(tokens)
    )
    return " ".join(text for (text, _), _ in places)


def _positions(model: Any) -> str | None:
    """By the names that parts of it bear in every family; not every family has such."""
    kinds = {
        "absolute": position_rows(model) is not None,
        "rotary": any("Rotary" in type(module).__name__ for module in model.modules()),
        "relative": any(re.search(r"\brel(ative)?_", name) for name, _ in model.named_parameters()),
    }
    return " and ".join(kind for kind, there in kinds.items() if there) or None


def _heeds_segments(scanner: Scanner, encoded: EncodedInput, attention: Attention) -> bool:
    """Whether weights change when every token is said to be of sentence A."""
    given = encoded.model_inputs.get("token_type_ids")
    if not given or not any(given):
        return False
    without = replace(encoded, model_inputs={**encoded.model_inputs, "token_type_ids": [0] * len(given)})
    return not np.allclose(_attention(scanner, without).weights, attention.weights, atol=1e-6)


def _not_scored(scanner: Scanner, encoded: EncodedInput, attention: Attention) -> dict[str, str]:
    """Patterns without a target in these two sentences, or with one that no query may see."""
    patterns = [pattern for pattern in scanner.options.patterns if pattern.target is not None]
    targets = Targets(collate([encoded]), patterns)
    visible = torch.from_numpy(attention.visible).any(0)[None]
    why: dict[str, str] = {}
    masks = torch.ones_like(visible), visible
    for pattern, open_to_all, seen in zip(patterns, *map(targets.under, masks), strict=True):
        if not open_to_all.any():
            why[pattern.id] = _WITHOUT_TARGET.get(pattern.id, "the tokenizer does not write the same word alike")
        elif not seen.any():
            why[pattern.id] = "no token sees a later one, so no word is eligible"
    if scanner.measure is None:
        why |= {p.id: scanner.why_no_measure for p in scanner.options.patterns if p.target is None}
    return {pattern.id: why[pattern.id] for pattern in scanner.options.patterns if pattern.id in why}


_WITHOUT_TARGET = {"delimiter": "the tokenizer inserts no special tokens"}

"""Where attention goes, from the sums that labels rest on: shares of classes of keys, with errors. Numpy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from attnscan.results.behaviour import CLASSES, SPECIAL_CLASSES, WORD_CLASSES, ClassShares
from attnscan.results.scores import FloatArray, Scores
from attnscan.results.signature import Reading
from attnscan.scoring.blocks import error, ratio, residuals
from attnscan.scoring.cross import ALL_PATTERNS

_WORDS = [CLASSES.index(name) for name in WORD_CLASSES]
_BUILT_IN = frozenset(pattern.id for pattern in ALL_PATTERNS)


def class_shares(units: Mapping[str, FloatArray], scores: Scores, reading: Reading, *, of_pairs: bool) -> ClassShares:
    """The shares of all classes from the sums of pairs, or from those of one input's words, which have no errors.

    `units` are named as in `labels.Units`. Patterns of one's own have their scores, beside the classes.
    """
    table = scores.table(reading.among_words)
    own = [place for place, name in enumerate(scores.patterns) if name not in _BUILT_IN]
    of_own = [values[..., own] for values in (table.score, table.se, table.chance)]
    of_words = _shares(units["on"][..., _WORDS], units["even"][..., _WORDS], units["words"])
    special = _shares(units["special"], units["even_special"], units["all_words"])
    parts = (
        [np.broadcast_to(values, (*scores.grid.shape, values.shape[-1])) for values in part]
        for part in (of_words, of_own, special)
    )
    share, se, chance = (np.concatenate(values, -1) for values in zip(*parts, strict=True))
    if not of_pairs:
        se = np.full_like(se, np.nan)
    return ClassShares((*WORD_CLASSES, *(scores.patterns[place] for place in own), *SPECIAL_CLASSES), share, se, chance)


def _shares(on: FloatArray, even: FloatArray, words: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean shares, their errors, and shares of even attention.

    Shape: `on` and `even` [unit, layer, head, class], `words` [unit, layer, head, 1] -> [layer, head, class] each.
    """
    return ratio(on, words), error(residuals(on, words)), ratio(even, words)

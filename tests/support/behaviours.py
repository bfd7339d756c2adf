"""Heads that do what a test says: five of one layer, or any number that do any number of things."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from small_results import SIGNATURE, result_of

from attnscan.results.behaviour import AVERAGE, Behaviours, Labels, Stability, Statements
from attnscan.results.ranking import Ranking
from attnscan.results.scores import Scores
from attnscan.scoring.statements import candidates

NAMES = ("next-word", "next-3", "even")
STATED = ("next-3", "next-word", "even", AVERAGE, AVERAGE)
# Patterns: next-word, identical, cross-sentence (a part of identical), delimiter; chance is 0.2 everywhere
ABOVE = [[0.9, 0, 0, 0], [0.2, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0.5]]


def behaviours_of(
    statement: Sequence[str] = STATED, stability: Sequence[float] | None = None, stays: Sequence[float] = (1,) * 5
) -> Behaviours:
    """By attention weights, special tokens included; the average head gives 0.1, 0.2 and 0.5 to the candidates."""
    scores = result_of(ABOVE).scores
    share = np.array([[[0.7, 0.6, 0.1], [0.3, 0.4, 0.2], [0.1, 0.1, 0.8], [0.1, 0.1, 0.5], [0.0, 0.1, 0.1]]])
    winner = np.array([[NAMES.index(name) if name in NAMES else -1 for name in statement]])
    statements = Statements(NAMES, share, share * 0, np.array([0.1, 0.2, 0.5]), winner, np.array([stays], dtype=float))
    kept = None if stability is None else Stability(*[np.array([stability], dtype=float)] * 2)
    return Behaviours(Labels(scores, False, stability=kept), statements, special=True)


def doing(layers: int, heads: int, kinds: int) -> Ranking:
    """Heads that do so many things, the patterns first; the last head is like the average one."""
    names, _ = candidates(special=False)
    seven, count = ("next-word", "previous-word", "identical", "bag-of-words"), layers * heads
    number = np.arange(count) % kinds
    above = np.where(number[:, None] == np.arange(len(seven)), 0.9, 0.0)
    scores = result_of([[0.0] * 4] * count).scores
    table = replace(
        scores.every_key,
        **{
            name: getattr(scores.every_key, name).reshape(layers, heads, 4)
            for name in ("chance", "se", "n", "pairs", "effective_pairs", "share", "itself")
        },
        score=(0.2 + 0.8 * above).reshape(layers, heads, 4),
        share_chance=None,
    )
    patterns = tuple(
        replace(scored, id=name, part_of=None, of_others=False)
        for scored, name in zip(scores.scored, seven, strict=True)
    )
    labels = Labels(
        Scores(patterns, table, table, np.ones((layers, heads))),
        True,
        stability=Stability(*[np.full((layers, heads), 0.5)] * 2),
    )
    winner = np.where(number < len(seven), -1, number - len(seven))
    winner[-1] = -1
    share = np.full((layers, heads, len(names)), 0.456)
    statements = Statements(
        names,
        share,
        0 * share,
        np.full(len(names), 0.123),
        winner.reshape(layers, heads),
        np.full((layers, heads), 0.5),
    )
    return Ranking(labels.scores, replace(SIGNATURE, by="carried"), labels=labels, statements=statements)

"""What a screen and a notebook both tell of a result, as plain data: neither of them works it out by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from attnscan.results.classification import Classification
from attnscan.results.heads import Head
from attnscan.results.scores import MIXED, ScoreTable
from attnscan.safe_text import plain


@dataclass(frozen=True)
class PatternRow:
    """How many heads follow a pattern, and which follow it most."""

    pattern: str
    counts: tuple[str, str]
    """Of heads by their label, and by their label on words; empty if the pattern was not measured."""
    strongest: tuple[tuple[Head, float], ...]
    """Heads with their scores, best first."""
    why_none: str
    """Why there are no strongest heads; empty if there are."""


def token_lines(result: Classification) -> dict[str, list[tuple[str, bool]]]:
    """The units of sentence A and of B, each with whether it is special; a closing delimiter goes with its sentence."""
    lines: dict[str, list[tuple[str, bool]]] = {}
    current = 0
    for text, sentence in zip(result.units, result.sentence, strict=True):
        current = max(current, sentence)
        lines.setdefault("AB"[current], []).append((plain(text.strip()) or "␣", sentence < 0))
    return lines


def pattern_rows(
    result: Classification, patterns: Iterable[str], top: int, *, without_delimiters: bool = False
) -> Iterator[PatternRow]:
    """A row for each pattern with its `top` strongest heads, and one for the heads without a pattern."""
    scores = result.scores.table(without_delimiters).score
    for pattern in (*patterns, MIXED):
        heads, on_words = (str(int((labels == pattern).sum())) for labels in (result.label, result.content_label))
        counts = heads, "–" if pattern == "delimiter" else on_words
        if pattern == MIXED:
            yield PatternRow(pattern, counts, (), "no pattern is far enough above chance")
        elif pattern in result.not_measured:
            yield PatternRow(pattern, ("", ""), (), f"not measured: {plain(result.not_measured[pattern])}")
        elif np.isnan(score := scores[..., result.scores.patterns.index(pattern)]).all():
            yield PatternRow(pattern, counts, (), "no word of this input is eligible")
        else:
            order = result.ranking(pattern, without_delimiters=without_delimiters)[:top]
            best = [divmod(int(flat), score.shape[1]) for flat in order]
            yield PatternRow(pattern, counts, tuple((head, float(score[head])) for head in best), "")


def notes(result: Classification) -> tuple[str, ...]:
    """What to know of the rows' counts and scores, a line each."""
    above = f"heads: by label, {result.threshold:g} above chance or more. on words: delimiters left out."
    return (above, *map(plain, result.notes))


def worth(table: ScoreTable, place: tuple[int, int, int]) -> Iterator[str]:
    """A score, its standard error, chance, how far above it, and what it rests on; nothing for NaN."""
    for name in ("score", "se", "chance", "above_chance"):
        value = getattr(table, name)[place]
        yield "" if np.isnan(value) else f"{value:.3f}"
    yield f"{table.n[place]:,}"
    yield f"{table.pairs[place]:,}"

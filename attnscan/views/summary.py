"""What a screen and a notebook both tell of a result, as plain data: neither of them works it out by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from attnscan.results.classification import LEAST_WORDS, RESAMPLINGS, STAYS, Classification
from attnscan.results.heads import Head, head_name
from attnscan.results.ranking import Ranking
from attnscan.results.scores import MIXED, ScoreTable
from attnscan.safe_text import plain

_CLOSE = 5  # heads that cannot be told from the best: so many are named


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
    return (above, *sureness(result), *map(plain, result.notes))


def sureness(result: Classification) -> Iterator[str]:
    """How many labels stay when the input's words are drawn anew."""
    if result.stability is not None:
        stays = [
            "none can be told"
            if np.isnan(share).all()
            else f"{int((share >= STAYS).sum())} of {np.isfinite(share).sum()}"
            for share in (result.stability.label, result.stability.content_label)
        ]
        yield (
            f"Labels that stay in {STAYS:.0%} of {RESAMPLINGS:,} resamplings of these words: {stays[0]}; "
            f"on words: {stays[1]}."
        )
        few, few_on_words = (
            int(np.isnan(share).sum()) for share in (result.stability.label, result.stability.content_label)
        )
        if few or few_on_words:
            yield f"{few} labels, and {few_on_words} on words, rest on fewer than {LEAST_WORDS} words, too few to tell."


def worth(table: ScoreTable, place: tuple[int, int, int]) -> dict[str, str]:
    """A score, its interval, chance, how far above it, how much is the word itself, what it rests on; "" for NaN."""
    numbers = {name: getattr(table, name)[place] for name in ("score", "chance", "above_chance", "itself")}
    texts = {name: "" if np.isnan(value) else f"{value:.3f}" for name, value in numbers.items()}
    low, high = (bound[place] for bound in table.interval)
    texts["interval"] = "" if np.isnan(low) else f"{low:.3f}–{high:.3f}"
    return texts | {name: f"{getattr(table, name)[place]:,}" for name in ("n", "pairs")}


def ranked_by(result: Ranking) -> str:
    """By which pairs heads are ranked, if not by those of the scores; empty if by the same."""
    if result.ranked_by is None:
        return ""
    chosen, told = (int(scores.every_key.pairs.max()) for scores in (result.ranked_by, result.scores))
    return f"Heads are ranked by {chosen:,} pairs; the scores are those of the other {told:,}."


def told_apart(result: Ranking, pattern: str, *, without_delimiters: bool = False) -> str:
    """Which heads cannot be told from the best one, and about how many pairs would tell; empty if there are none."""
    leads = result.leads(pattern, without_delimiters=without_delimiters)
    if np.isnan(leads.se[:1]).any():
        p = result.scores.patterns.index(pattern)
        few = result.scores.table(without_delimiters).pairs[..., p].max() < 2
        return (
            "One pair cannot tell heads apart: give at least two."
            if few
            else "Leads have no errors in so large a model."
        )
    close = result.close_to_best(pattern, without_delimiters=without_delimiters)
    if not close:
        return ""
    order = result.order(pattern, without_delimiters=without_delimiters)
    best = head_name(divmod(int(order[0]), result.scores.grid[1]))
    more = f" and {len(close) - _CLOSE} more" if len(close) > _CLOSE else ""
    said = f"{best} cannot be told from {', '.join(map(head_name, close[:_CLOSE]))}{more}"
    needed = result.pairs_to_tell(pattern, without_delimiters=without_delimiters)
    said += f"; about {needed:,} pairs would tell it from the next" if needed is not None else ""
    luck = "" if result.ranked_by else " The best of close heads is in part the luckiest: --split takes luck out."
    return f"{said}.{luck}"

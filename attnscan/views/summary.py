"""What screens, pages and notebooks say alike of scores, as plain data: what they are worth, or why there are none."""

from __future__ import annotations

import numpy as np

from attnscan.results.behaviour import Labels
from attnscan.results.classification import Classification
from attnscan.results.grid import Grid
from attnscan.results.ranking import Ranking
from attnscan.results.scores import ScoreTable
from attnscan.results.terms import counted
from attnscan.safe_text import plain

NOT_MEASURED = "not measured"
_CLOSE = 5  # heads that cannot be distinguished from the best: so many are named


def token_lines(result: Classification) -> dict[str, list[tuple[str, bool]]]:
    """The units of sentence A and of B, each with whether it is special; a closing delimiter goes with its sentence."""
    lines: dict[str, list[tuple[str, bool]]] = {}
    current = 0
    for text, sentence in zip(result.units, result.sentence, strict=True):
        current = max(current, sentence)
        lines.setdefault("AB"[current], []).append((plain(text.strip()) or "␣", sentence < 0))
    return lines


def why_unscored(result: Classification | Ranking, pattern: str) -> str:
    """Why heads have no score for a pattern, and so no rank: all of them, or some; empty if every head has a score."""
    of_input = isinstance(result, Classification)
    rank = result.ranking if isinstance(result, Classification) else result.order
    ranked, heads = len(rank(pattern)), len(result.scores.grid)
    if ranked:
        return "" if ranked == heads else f"no word is eligible for {heads - ranked} of {heads} heads"
    if isinstance(result, Classification) and pattern in result.not_measured:
        return f"{NOT_MEASURED}: {plain(result.not_measured[pattern])}"
    if pattern == "predictive" and result.signature.predictive == "off":
        return f"{NOT_MEASURED}: the model was not asked"
    p, halves = result.scores.patterns.index(pattern), [result.scores]
    halves += [result.ranked_by] if isinstance(result, Ranking) and result.ranked_by is not None else []
    eligible = [bool(scores.every_key.n[..., p].any()) for scores in halves]
    if result.reading.among_words and all(eligible):
        return "no word is eligible with special tokens removed"
    half = "one half of " if any(eligible) else ""
    return f"no word of {half}{'this input' if of_input else 'these pairs'} is eligible"


def reading_title(labels: Labels, *, among_words: bool) -> str:
    """What heads are called by: what they carry or where they look, with special tokens or without."""
    return f"what each head {'carries' if labels.norm else 'looks at'}{' among words' if among_words else ''}"


def why_unsure(labels: Labels) -> str:
    """What it means that a label is not sure."""
    changed = f"the label changed in more than 5 % of bootstrap resamples of the {labels.drawn}"
    return f"{changed}, or they are too few"


def worth(table: ScoreTable, place: tuple[int, int, int]) -> dict[str, str]:
    """A score, its interval, chance, how far above it, how much is the word itself, what it rests on; "" for NaN."""
    numbers = {name: getattr(table, name)[place] for name in ("score", "chance", "above_chance", "itself")}
    texts = {name: "" if np.isnan(value) else f"{value:.3f}" for name, value in numbers.items()}
    low, high = (bound[place] for bound in table.interval)
    texts["interval"] = "" if np.isnan(low) else f"{low:.3f}–{high:.3f}"
    return texts | {name: f"{getattr(table, name)[place]:,}" for name in ("n", "pairs")}


def none_does(table: ScoreTable, pattern: int, threshold: float) -> str:
    """That no head follows a pattern, if so, and how near the best one comes; empty if some head does."""
    above = table.above_chance[..., pattern]
    if np.isnan(above).all() or np.nanmax(above) >= threshold:
        return ""
    best, by = Grid.of(above)[np.nanargmax(above)].name, round(float(np.nanmax(above)), 2)
    away = f"{abs(by):.2f} {'above' if by > 0 else 'below'} chance" if by else "at chance"
    return f"No head follows this pattern. Closest: {best}, {away} (a label needs {threshold:g} above)."


def ranked_by(result: Ranking) -> str:
    """By which pairs heads are ranked, if not by those of the scores; empty if by the same."""
    if result.ranked_by is None:
        return ""
    chosen, told = (int(scores.every_key.pairs.max()) for scores in (result.ranked_by, result.scores))
    return f"Heads are ranked by {counted(chosen, 'pair')}; the scores are those of the other {told:,}."


def told_apart(result: Ranking, pattern: str) -> str:
    """Which heads are not distinguished from the best, and about how many pairs would do it; empty if none."""
    leads = result.leads(pattern)
    if np.isnan(leads.se[:1]).any():
        p = result.scores.patterns.index(pattern)
        few = result.table.pairs[..., p].max() < 2
        return (
            "One pair gives no standard errors: give at least two."
            if few
            else "Leads have no standard errors in a model of so many heads."
        )
    close = result.close_to_best(pattern)
    if not close:
        return ""
    order = result.order(pattern)
    best = result.scores.grid[order[0]].name
    more = f" and {len(close) - _CLOSE} more" if len(close) > _CLOSE else ""
    said = f"{best} cannot be distinguished from {', '.join(head.name for head in close[:_CLOSE])}{more}"
    needed = result.pairs_to_tell(pattern)
    said += f"; about {counted(needed, 'pair')} would distinguish it from the next" if needed is not None else ""
    luck = "" if result.ranked_by else "--split ranks and scores close heads on separate pairs, without luck."
    return f"{said}.{luck}"

"""What screens, pages and notebooks say alike of what heads do, in plain words, and of what scores are worth."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnscan.results.behaviour import RESAMPLINGS, Kind, Labels
from attnscan.results.card import Card
from attnscan.results.grid import Grid, Head
from attnscan.results.heads import HeadScores
from attnscan.results.scores import ScoreTable
from attnscan.results.signature import Reading
from attnscan.results.terms import DELIMITER, counted
from attnscan.safe_text import plain
from attnscan.views.palette import GROUPS, style_of, words

NOT_MEASURED = "not measured"
UNSURE = "?: the label changed in more than 5 % of bootstrap resamples"
_CLOSE = 5  # heads that cannot be distinguished from the best: so many are named


def kinds_of(labels: Labels) -> list[tuple[str, Kind]]:
    """The group of each kind that some head has, and the kind; by groups, most heads first, at last those that rest."""
    order = [*GROUPS, "own"]
    among = [(style_of(kind.name).group, kind) for kind in labels.kinds.values() if kind.name != DELIMITER]
    grouped = sorted(among, key=lambda entry: order.index(entry[0]))
    return grouped + ([("rest", labels.resting)] if labels.resting.heads else [])


def summary(result: HeadScores) -> str:
    """How many heads follow a pattern, have another habit, show none, and rest."""
    labels = result.labels
    heads, follow, none = len(labels.grid), int(labels.follows.sum()), int((labels.among_words == "").sum())
    said = f"{follow} of {counted(heads, 'head')} {'follows' if follow == 1 else 'follow'} a pattern"
    if labels.statements is None:
        said += f", and {none} {'follows' if none == 1 else 'follow'} none."
    else:
        habit = heads - follow - none
        shows = f"{none} {'shows' if none == 1 else 'show'} none"
        if labels.drawn == "pairs":
            shows += f" that {counted(labels.units, 'pair')} could tell from the average head"
        said += f", {habit} {'has' if habit == 1 else 'have'} another habit, and {shows}."
    if rests := int(labels.rests.sum()):
        whose = "its" if rests == 1 else "their"
        what = f"what {'it carries' if rests == 1 else 'they carry'} comes from"
        what = what if labels.reading.carried else f"{whose} attention is on"
        said += f" {counted(rests, 'head rests', 'heads rest')}: more than half of {what} special tokens."
    return said


def nothing(labels: Labels) -> str:
    """What is said of a head that shows no habit, and by how much that was looked for."""
    if labels.statements is None:
        return "follows no pattern"
    return f"no distinct habit that {counted(labels.units, labels.drawn[:-1])} could show"


def by_reading(reading: Reading) -> str:
    """How attention was read, if not by weight among words; else empty."""
    parts = ["by what heads carry"] if reading.carried else []
    return " · ".join([*parts, *([] if reading.among_words else ["special tokens in"])])


def does(card: Card) -> str:
    """What a head does with its numbers, as its card begins."""
    labels, head, rests = card.ranking.labels, card.head, ""
    if labels.rests[head.place]:
        resting = labels.numbers(DELIMITER, head).share
        what = "what it carries comes from" if labels.reading.carried else "its attention is on"
        rests = f" It rests: {resting:.2f} of {what} special tokens."
    if card.look.measure.own:
        return f"{head.name}  {statement(labels, head)}.{rests}"
    told = _numbers(labels, card.look.measure.name, head)
    return f"{head.name}  {nothing(labels)}; it comes nearest to {told}.{rests}"


def statement(labels: Labels, head: Head) -> str:
    """What a head does with its numbers, as `the next 3 words 0.63, average head 0.12, 3rd of 72`."""
    name = str(labels.among_words[head.place])
    return _numbers(labels, name, head) if name else nothing(labels)


def _numbers(labels: Labels, name: str, head: Head) -> str:
    numbers = labels.numbers(name, head)
    chance = f", even attention {numbers.chance:.2f}" if numbers.chance else ""
    told = f"{words(name)} {numbers.share:.2f}, average head {numbers.average:.2f}{chance}"
    return f"{told}, {_ordinal(numbers.rank)} of {len(labels.grid)}"


def how_sure(labels: Labels, head: Head) -> str:
    """A head's label, and in how many resamples it stays; empty where it has none, or nothing was resampled."""
    label = str(labels.label[head.place])
    if not label or labels.stays is None:
        return ""
    stays = float(labels.stays[head.place])
    if np.isnan(stays):
        return f"Label {label}: too few {labels.drawn} to tell whether it stays."
    resamples = f"{RESAMPLINGS:,} bootstrap resamples of the {labels.drawn}"
    return f"Label {label}: the same in {100 * stays:.0f} % of {resamples}."


def _ordinal(number: int) -> str:
    """A rank in words.

    >>> [_ordinal(number) for number in (1, 2, 3, 11, 22, 113)]
    ['1st', '2nd', '3rd', '11th', '22nd', '113th']
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def notes_of(result: HeadScores, *, listed: bool = False) -> Iterator[str]:
    """What else there is to know of an input: which words are related and, unless a list says so, what has no score."""
    yield from map(plain, result.notes)
    for pattern in () if listed else result.scores.patterns:
        if (why := why_unscored(result, pattern)) and not why.endswith("switched off"):
            yield f"{plain(pattern)}: {why}"


def token_lines(result: HeadScores) -> dict[str, list[tuple[str, bool]]]:
    """The units of sentence A and of B, each with whether it is special; a closing delimiter goes with its sentence."""
    lines: dict[str, list[tuple[str, bool]]] = {}
    current = 0
    for text, sentence in zip(result.units, result.sentence, strict=True):
        current = max(current, sentence)
        lines.setdefault("AB"[current], []).append((plain(text.strip()) or "␣", sentence < 0))
    return lines


def why_unscored(result: HeadScores, pattern: str) -> str:
    """Why heads have no score for a pattern, and so no rank: all of them, or some; empty if every head has a score."""
    ranked, heads = len(result.order(pattern)), len(result.grid)
    if ranked:
        return "" if ranked == heads else f"no word is eligible for {heads - ranked} of {heads} heads"
    if pattern in result.not_measured:
        return f"{NOT_MEASURED}: {plain(result.not_measured[pattern])}"
    if pattern == "predictive" and result.signature.predictive == "off":
        return "switched off"
    p = result.scores.patterns.index(pattern)
    halves = (result.scores, result.ranked_by or result.scores)
    eligible = [bool(scores.every_key.n[..., p].any()) for scores in halves]
    if result.reading.among_words and all(eligible):
        return "no word is eligible with special tokens removed"
    half = "one half of " if any(eligible) else ""
    return f"no word of {half}{'this input' if result.of_input else 'these pairs'} is eligible"


def why_unsure(labels: Labels) -> str:
    """What it means that a label is not sure."""
    return f"{UNSURE.removeprefix('?: ')} of the {labels.drawn}, or they are too few"


def worth(table: ScoreTable, place: tuple[int, int, int]) -> dict[str, str]:
    """A score, its interval, chance, how far above it, how much is the word itself, what it rests on; "" for NaN."""
    numbers = {name: getattr(table, name)[place] for name in ("score", "chance", "above_chance", "itself")}
    texts = {name: "" if np.isnan(value) else f"{value:.3f}" for name, value in numbers.items()}
    low, high = (bound[place] for bound in table.interval)
    texts["interval"] = "" if np.isnan(low) else f"{low:.3f}–{high:.3f}"
    return texts | {name: f"{getattr(table, name)[place]:,}" for name in ("n", "pairs")}


def none_does(table: ScoreTable, grid: Grid, pattern: int, threshold: float) -> str:
    """That no head follows a pattern, if so, and how near the best one comes; empty if some head does."""
    above = table.above_chance[..., pattern]
    if np.isnan(above).all() or np.nanmax(above) >= threshold:
        return ""
    best, by = grid[np.nanargmax(above)].name, round(float(np.nanmax(above)), 2)
    away = f"{abs(by):.2f} {'above' if by > 0 else 'below'} chance" if by else "at chance"
    return f"No head follows this pattern. Closest: {best}, {away} (a label needs {threshold:g} above)."


def ranked_by(result: HeadScores) -> str:
    """By which pairs heads are ranked, if not by those of the scores; empty if by the same."""
    if result.ranked_by is None:
        return ""
    chosen, told = (int(scores.every_key.pairs.max()) for scores in (result.ranked_by, result.scores))
    return f"Heads are ranked by {counted(chosen, 'pair')}; the scores are those of the other {told:,}."


def told_apart(result: HeadScores, pattern: str) -> str:
    """Which heads are not distinguished from the best, and about how many pairs would do it; empty if none."""
    leads = result.leads(pattern, of_best=True)
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
    luck = "" if result.ranked_by else " --split ranks and scores close heads on separate pairs, without luck."
    return f"{said}.{luck}"

"""What screens, pages and notebooks say alike of what heads do, in plain words, and of what scores are worth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from attnscan.results.behaviour import RESAMPLINGS, Kind, Labels
from attnscan.results.card import Card
from attnscan.results.grid import Head
from attnscan.results.heads import HeadScores
from attnscan.results.terms import RESTING, counted
from attnscan.safe_text import plain
from attnscan.views.palette import COLORS, GROUPS, style_of, words
from attnscan.views.table import Column, Table

NOT_MEASURED = "not measured"
_CLOSE = 5  # heads that cannot be distinguished from the best: so many are named


def kinds_of(labels: Labels) -> list[tuple[str, Kind]]:
    """The group of each kind that some head has, and the kind; by groups, most heads first, at last those that rest."""
    order = [*GROUPS, "own"]
    among = [(style_of(kind.name).group, kind) for kind in labels.kinds.values() if kind.name not in RESTING]
    grouped = sorted(among, key=lambda entry: order.index(entry[0]))
    return grouped + [("rest", kind) for kind in labels.resting]


def summary(result: HeadScores) -> str:
    """How many heads follow a pattern, have another habit, show none, and rest."""
    labels = result.labels
    follow, none, rests = (int(heads.sum()) for heads in (labels.follows, labels.among_words == "", labels.rests))

    def verb(number: int, plural: str) -> str:
        return plural if number != 1 else {"have": "has", "carry": "carries"}.get(plural, f"{plural}s")

    said = f"{follow} of {counted(len(labels.grid), 'head')} {verb(follow, 'follow')} a pattern"
    if labels.statements is None:
        said += f", and {none} {verb(none, 'follow')} none."
    else:
        habit = len(labels.grid) - follow - none
        said += f", {habit} {verb(habit, 'have')} another habit, and {none} {verb(none, 'show')} none"
        told = f" that {counted(labels.units, 'pair')} could tell from the average head"
        said += f"{told if labels.drawn == 'pairs' else ''}."
    if rests:
        they, their = ("it", "its") if rests == 1 else ("they", "their")
        carried = f"what {they} {verb(rests, 'carry')} comes from"
        what = carried if labels.reading.carried else f"{their} attention is on"
        places = " or ".join(words(kind.name) for kind in labels.resting)
        said += f" {counted(rests, 'head rests', 'heads rest')}: more than half of {what} {places}."
    return said


def does(card: Card) -> str:
    """What a head does with its numbers, as its card begins."""
    labels, head, told = card.ranking.labels, card.head, ""
    if labels.rests[head.place]:
        what = "what it carries comes from" if labels.reading.carried else "its attention is on"
        name = str(labels.label[head.place])
        told = f" It rests: {labels.numbers(name, head).share:.2f} of {what} {words(name)}."
    said = statement(labels, head)
    if not card.look.measure.own:
        said += f"; it comes nearest to {_numbers(labels, card.look.measure.name, head)}"
    return f"{head.name}  {said}.{told}"


def statement(labels: Labels, head: Head) -> str:
    """What a head does with its numbers, as `the next 3 words 0.63, average head 0.12, 3rd of 72`.

    Of a head that does nothing, by how much that was looked for.
    """
    if name := str(labels.among_words[head.place]):
        return _numbers(labels, name, head)
    if labels.statements is None:
        return "follows no pattern"
    return f"no distinct habit that {counted(labels.units, labels.drawn[:-1])} could show"


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


def why_unsure(labels: Labels) -> str:
    """What it means that a label is not sure."""
    return f"the label changed in more than 5 % of bootstrap resamples of the {labels.drawn}, or they are too few"


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


def best_heads(result: HeadScores, pattern: str, top: int) -> Table:
    """The best heads of a pattern, with what their scores are worth."""
    table, p, leads = result.table, result.scores.patterns.index(pattern), result.leads(pattern)
    of_others = result.scores.scored[p].of_others
    columns = [Column("head"), Column("score", ">.3f"), Column("95 % interval", ">"), Column("lead", ">", 1)]
    columns += [Column("self", ">.3f", 3)] if of_others else []
    columns += [Column("chance", ">.3f", 4), Column("above", ">.3f"), Column("n", ">,", 2), Column("pairs", ">,", 5)]
    rows: list[list[Any]] = []
    for rank, number in enumerate(result.order(pattern)[:top]):
        head = result.grid[number]
        place = (*head.place, p)
        low, high = (bound[place] for bound in table.interval)
        lead = ""  # where there is no next head, or nobody knows
        if rank < len(leads.se) and not np.isnan(leads.se[rank]):
            lead = f"{'' if leads.sure[rank] else '≈ '}{leads.difference[rank]:.3f}"
        rows.append([head.name, table.score[place], "" if np.isnan(low) else f"{low:.3f}–{high:.3f}", lead])
        rows[-1] += [table.itself[place]] if of_others else []
        rows[-1] += [table.chance[place], table.above_chance[place], table.n[place], table.pairs[place]]
        sure = low > table.chance[place]  # false for NaN
        rows[-1].append((max(0.0, table.above_chance[place]) if sure else 0.0, COLORS.get(pattern, "default")))
    return Table([*columns, Column("above chance", "bar")], rows)


def none_does(result: HeadScores, pattern: str, threshold: float) -> str:
    """That no head follows a pattern, if so, and how near the best one comes; empty if some head does."""
    above = result.table.above_chance[..., result.scores.patterns.index(pattern)]
    if np.isnan(above).all() or np.nanmax(above) >= threshold:
        return ""
    best, by = result.grid[np.nanargmax(above)].name, round(float(np.nanmax(above)), 2)
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
    if np.isnan(result.leads(pattern).se[:1]).any():
        if result.table.pairs[..., result.scores.patterns.index(pattern)].max() < 2:
            return "One pair gives no standard errors: give at least two."
        return "Leads have no standard errors in a model of so many heads."
    if not (close := result.close_to_best(pattern)):
        return ""
    best = result.grid[result.order(pattern)[0]].name
    more = f" and {len(close) - _CLOSE} more" if len(close) > _CLOSE else ""
    said = f"{best} cannot be distinguished from {', '.join(head.name for head in close[:_CLOSE])}{more}"
    luck = "" if result.ranked_by else " --split ranks and scores close heads on separate pairs, without luck."
    return f"{said}.{luck}"

"""What screens and notebooks both say of what heads do: letters, words, and the sentences above and below a map."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnscan.results.behaviour import CANDIDATES, RESAMPLINGS, STAYS, Behaviours, Kind
from attnscan.results.card import Card
from attnscan.results.classification import Classification
from attnscan.results.grid import Head
from attnscan.results.ranking import Ranking
from attnscan.results.scores import MIXED
from attnscan.results.terms import counted
from attnscan.safe_text import plain
from attnscan.views.palette import letter
from attnscan.views.summary import why_unscored

_WORDS = {candidate.id: candidate.words for candidate in CANDIDATES}


def words(kind: Kind) -> str:
    """A pattern's name, as options and tables have it, or what heads with a statement attend to."""
    return plain(kind.name) if kind.labelled else _WORDS[kind.name]


def summary(result: Classification | Ranking) -> str:
    """How many heads follow a pattern, how many have a statement, how many neither, and by which reading."""
    behaviours = result.behaviours
    heads, follow, own = len(behaviours.grid), int(behaviours.labelled.sum()), int(behaviours.own.sum())
    said = f"By {reading(result)}, {follow} of {counted(heads, 'head follows', 'heads follow')} a pattern"
    if behaviours.statements is None:
        return f"{said}; the others are mixed."
    others = counted(own - follow, "does something else of its own", "do something else of their own")
    return f"{said}, {others}, and {counted(heads - own, 'is', 'are')} like the average head."


def reading(result: Classification | Ranking) -> str:
    """What tells what heads do: what they carry or their weights, among words or with special tokens."""
    behaviours = result.behaviours
    among = "" if behaviours.special else " among words"
    if behaviours.labels.norm:
        return f"what they carry{among}"
    unknown = " (what they carry is not known here)" if result.behaviour.carried else ""
    return f"their attention weights{among}{unknown}"


def remarks(result: Classification | Ranking) -> Iterator[str]:
    """Which patterns no head follows, which were not scored and why, and how many labels and statements stay."""
    behaviours = result.behaviours
    patterns = [kind for kind in behaviours.kinds if kind.labelled and not kind.heads]
    none = [plain(kind.name) for kind in patterns if not np.isnan(kind.average)]
    if none:
        yield f"No head follows {' or '.join([', '.join(none[:-1]), none[-1]] if none[1:] else none)}."
    for kind in patterns:
        place = behaviours.labels.scores.patterns.index(kind.name)
        if not behaviours.labels.scores.every_key.n[..., place].any():
            yield f"{plain(kind.name)}: {why_unscored(result, kind.name)}."
    if (sure := behaviours.sure()) is not None:
        follow, own = int(behaviours.labelled.sum()), int(behaviours.own.sum())
        groups = [f"{sure[0]} of {counted(follow, 'head')} with a pattern"] if follow else []
        if behaviours.statements is not None and own > follow:
            others = counted(own - follow, "other" if follow else "head")
            groups.append(f"{sure[1]} of {others}{'' if follow else ' with a statement'}")
        rest = "; the rest have a ?" if behaviours.unsure.any() else ""
        resamples = f"{RESAMPLINGS:,} bootstrap resamples of the {behaviours.labels.drawn}"
        if groups:
            stay = "stays" if own == 1 else "stay"
            yield f"{' and '.join(groups)} {stay} the same in {STAYS * 100:g} % of {resamples}{rest}."


def legend(behaviours: Behaviours) -> str:
    """How to read a map of behaviours, and their numbers."""
    return (
        f"Map: layers down, heads across; {letter(MIXED)} {nothing(behaviours)}. "
        "Numbers: scores of patterns, or shares of attention on what is named; average: over all heads."
    )


def does(card: Card) -> str:
    """What a head does with its numbers, as its card begins."""
    measure, behaviours = card.look.measure, card.ranking.behaviours
    numbers = _numbers(behaviours, measure.name, card.head, labelled=measure.labelled)
    asked = "?" if behaviours.unsure[card.head.place] and measure.own else ""
    by = f"by {reading(card.ranking)}"
    if measure.own:
        return f"{card.head.name}{asked}  {numbers}, {by}."
    return f"{card.head.name}  is like the average head, {by}; most beyond it: {numbers}."


def statement(behaviours: Behaviours, head: Head) -> str:
    """What a head does with its numbers, as `next 3 words 0.63, average head 0.12, 3rd of 72`, or `mixed`."""
    if not behaviours.own[head.place]:
        return nothing(behaviours)
    labelled = bool(behaviours.labelled[head.place])
    return _numbers(behaviours, str(behaviours.kind[head.place]), head, labelled=labelled)


def nothing(behaviours: Behaviours) -> str:
    """What is said of a head that does nothing of its own."""
    return MIXED if behaviours.statements is None else "like the average head"


def _numbers(behaviours: Behaviours, name: str, head: Head, *, labelled: bool) -> str:
    stated = behaviours.numbers(name, head, labelled=labelled)
    chance = f", even attention {stated['chance']:.2f}" if stated["chance"] else ""
    told = f"{plain(name) if labelled else _WORDS[name]} {stated['share']:.2f}, average head {stated['average']:.2f}"
    return f"{told}{chance}, {_ordinal(int(stated['rank']))} of {len(behaviours.grid)}"


def _ordinal(number: int) -> str:
    """A rank in words.

    >>> [_ordinal(number) for number in (1, 2, 3, 11, 22, 113)]
    ['1st', '2nd', '3rd', '11th', '22nd', '113th']
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"

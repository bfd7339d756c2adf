"""What screens, pages and notebooks say alike of what heads do, in letters and words, and of what scores are worth."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnscan.results.behaviour import CANDIDATES, RESAMPLINGS, STAYS, Behaviours, Kind, Labels
from attnscan.results.card import Card
from attnscan.results.classification import Classification
from attnscan.results.grid import Grid, Head
from attnscan.results.ranking import Ranking
from attnscan.results.scores import MIXED, ScoreTable
from attnscan.results.terms import counted
from attnscan.safe_text import plain
from attnscan.views.palette import letter

_WORDS = {candidate.id: candidate.words for candidate in CANDIDATES}

NOT_MEASURED = "not measured"
_CLOSE = 5  # heads that cannot be distinguished from the best: so many are named


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
    luck = "" if result.ranked_by else " --split ranks and scores close heads on separate pairs, without luck."
    return f"{said}.{luck}"

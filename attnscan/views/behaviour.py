"""What screens, pages and notebooks say alike, in plain words.

It is about what heads do, and what scores are worth.
"""

from collections.abc import Iterator

import numpy as np

from attnscan.results.card import Card
from attnscan.results.grid import Grid, Head
from attnscan.results.heads import HeadScores
from attnscan.results.scores import RESAMPLINGS, HeadKind, Labels
from attnscan.text import counted, plain
from attnscan.views.palette import GROUPS, style_of, words

NOT_MEASURED = "not measured"


def attention_phrase(grid: Grid) -> str:
    """` of decoder attention`, for the heads of an encoder-decoder; empty for other models."""
    return f" of {grid.kind.word} attention" if grid.kind.letter else ""


def kinds_of(labels: Labels) -> list[tuple[str, HeadKind]]:
    """The group of each kind that some head has, and the kind.

    They are in the order of groups, most heads first, heads that rest last.
    """
    order = [*GROUPS, "own"]
    among_words = [(style_of(kind.name).group, kind) for kind in labels.kinds.values()]
    resting = [("rest", kind) for kind in labels.resting]
    return sorted(among_words, key=lambda entry: order.index(entry[0])) + resting


def summary(result: HeadScores) -> str:
    """How many heads follow a pattern, have another habit, show none, and rest."""
    labels = result.labels
    heads = len(result.grid)
    follow = int(labels.follows.sum())
    none = int((labels.among_words == "").sum())
    text = f"{follow} of {counted(heads, 'head')} {_verb(follow, 'follow')} a pattern, "
    if labels.habits is None:
        text += f"and {none} {_verb(none, 'follow')} none."
    else:
        habit = heads - follow - none
        text += (
            f"{habit} {_verb(habit, 'have')} another habit, and {none} {_verb(none, 'show')} none"
        )
        if labels.resampled == "pairs":
            text += f" that {counted(labels.units, 'pair')} could tell from the average head"
        text += "."
    return text + _resting(labels)


def _resting(labels: Labels) -> str:
    """How many heads rest, and on what; empty if none does."""
    resting = int(labels.rests.sum())
    if not resting:
        return ""
    if labels.reading.carried:
        they = "it" if resting == 1 else "they"
        half = f"what {they} {_verb(resting, 'carry')} comes from"
    else:
        their = "its" if resting == 1 else "their"
        half = f"{their} attention is on"
    places = " or ".join(words(kind.name) for kind in labels.resting)
    heads = counted(resting, "head rests", "heads rest")
    return f" {heads}: more than half of {half} {places}."


def held_summary(result: HeadScores) -> str:
    """How many sure labels are the same in a second corpus; empty if there is none."""
    if result.held is None:
        return ""
    sure = (result.label != "") & ~result.labels.unsure
    same = int((sure & ~result.changed).sum())
    sure_labels = counted(int(sure.sum()), "sure label")
    return f"{same} of {sure_labels} {_verb(same, 'are')} the same on {_held_pairs(result.held)}."


def _held_pairs(held: HeadScores) -> str:
    return f"the {counted(held.signature.pairs_read, 'held pair')}"


def held_statement(result: HeadScores, head: Head) -> str:
    """What a head does in a second corpus, beside this one; empty if there is none."""
    if result.held is None:
        return ""
    label = str(result.held.label[head.place])
    same = "the same label" if label == result.label[head.place] else "another label"
    text = f"On {_held_pairs(result.held)}: {same}, {label or 'no distinct habit'}"
    share = float(result.held_share[head.place])
    if np.isnan(share):
        return f"{text}."
    return f"{text}; {words(str(result.among_words[head.place]))} {share:.2f}."


def _verb(number: int, plural: str) -> str:
    if number != 1:
        return plural
    return {"have": "has", "carry": "carries", "are": "is"}.get(plural, f"{plural}s")


def does(card: Card) -> str:
    """What a head does with its numbers, as its card begins."""
    labels = card.ranking.labels
    head = card.head
    text = statement(labels, head)
    if not labels.among_words[head.place]:
        text += f"; it comes nearest to {_numbers(labels, card.main_kind, head)}"
    if labels.rests[head.place]:
        name = str(labels.label[head.place])
        part = "what it carries comes from" if labels.reading.carried else "its attention is on"
        text += f". It rests: {labels.numbers(name, head).share:.2f} of {part} {words(name)}"
    return f"{head.name}  {text}."


def statement(labels: Labels, head: Head) -> str:
    """What a head does, with its numbers.

    Of one that does nothing it says by how many pairs that was looked for.
    """
    name = str(labels.among_words[head.place])
    if name:
        return _numbers(labels, name, head)
    if labels.habits is None:
        return "follows no pattern"
    return f"no distinct habit that {counted(labels.units, labels.resampled[:-1])} could show"


def _numbers(labels: Labels, name: str, head: Head) -> str:
    share, chance, average, rank = labels.numbers(name, head)
    even = f", even attention {chance:.2f}" if chance else ""
    ranked = f"{_ordinal(rank)} of {len(labels.grid)}"
    return f"{words(name)} {share:.2f}, average head {average:.2f}{even}, {ranked}"


def _ordinal(rank: int) -> str:
    """`1st`, `2nd`, `11th`."""
    if rank % 100 in (11, 12, 13):
        return f"{rank}th"
    ending = {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank}{ending}"


def how_sure(labels: Labels, head: Head) -> str:
    """A head's label, and in how many resamples it stays.

    It is empty where the head has none, or nothing was resampled.
    """
    label = str(labels.label[head.place])
    if not label or labels.label_stability is None:
        return ""
    stays = float(labels.label_stability[head.place])
    if np.isnan(stays):
        return f"Label {label}: too few {labels.resampled} to tell whether it stays."
    resamples = f"{RESAMPLINGS:,} bootstrap resamples of {resampled_from(labels)}"
    return f"Label {label}: the same in {100 * stays:.0f} % of {resamples}."


def why_unsure(labels: Labels) -> str:
    """What it means that a label is not sure."""
    resamples = f"bootstrap resamples of {resampled_from(labels)}"
    return f"the label changed in more than 5 % of {resamples}, or they are too few"


def resampled_from(labels: Labels) -> str:
    """What resamples are drawn from."""
    if labels.groups:
        return f"{labels.groups} groups"
    return "this corpus" if labels.resampled == "pairs" else "the words"


def notes_of(result: HeadScores, *, listed: bool = False) -> Iterator[str]:
    """What else there is to know of an input.

    It is which words are related and, unless a list says so, what has no score.
    """
    yield from map(plain, result.notes)
    for pattern in () if listed else result.scores.patterns:
        reason = why_unscored(result, pattern)
        if reason and not reason.endswith("switched off"):
            yield f"{plain(pattern)}: {reason}"


def why_unscored(result: HeadScores, pattern: str) -> str:
    """Why heads have no score for a pattern, and so no rank: all of them, or some.

    It is empty if every head has a score.
    """
    ranked = len(result.order(pattern))
    heads = len(result.grid)
    if ranked == heads:
        return ""
    if ranked:
        return f"no word is eligible for {heads - ranked} of {heads} heads"
    if pattern in result.not_measured:
        return f"{NOT_MEASURED}: {plain(result.not_measured[pattern])}"
    if pattern == "predictive" and result.signature.predictive == "off":
        return "switched off"
    subject = "this input" if result.is_one_input else "these pairs"
    return f"no word of {subject} is eligible"


def none_does(result: HeadScores, pattern: str, threshold: float) -> str:
    """That no head follows a pattern, if so, and how near the best one comes.

    It is empty if some head does.
    """
    above = result.table.above_chance[..., result.scores.place_of(pattern)]
    if np.isnan(above).all() or np.nanmax(above) >= threshold:
        return ""
    best = result.grid[np.nanargmax(above)].name
    by = float(np.nanmax(above))
    side = "above" if by >= 0 else "below"
    closest = f"{best}, {abs(by):.2f} {side} chance (a label needs {threshold:g} above)"
    return f"No head follows this pattern. Closest: {closest}."


def ranked_by(result: HeadScores) -> str:
    """By which pairs heads are ranked, if not by those of the scores; empty if by the same."""
    if result.ranked_by is None:
        return ""
    ranking = counted(int(result.ranked_by.every_key.pairs.max()), "pair")
    scored = int(result.scores.every_key.pairs.max())
    return f"Heads are ranked by {ranking}; the scores are those of the other {scored:,}."

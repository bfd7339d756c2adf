"""What screens, pages and notebooks say alike of what heads do, in plain words, and of what scores are worth."""

from collections.abc import Iterator

import numpy as np

from attnscan.results.card import Card
from attnscan.results.grid import Grid, Head
from attnscan.results.heads import HeadScores
from attnscan.results.label_rules import RESTING
from attnscan.results.scores import RESAMPLINGS, HeadKind, Labels
from attnscan.text import counted, plain
from attnscan.views.palette import GROUPS, style_of, words

NOT_MEASURED = "not measured"


def of_attention(grid: Grid) -> str:
    """Of which attention of an encoder-decoder heads are; nothing of other models."""
    return f" of {grid.kind.word} attention" if grid.kind.letter else ""


def kinds_of(labels: Labels) -> list[tuple[str, HeadKind]]:
    """The group of each kind that some head has, and the kind; by groups, most heads first, special tokens last.

    Where these are keys, heads that look at them most are a kind, whether or not they rest.
    """
    order = [*GROUPS, "own"]
    among = [
        (style_of(kind.name).group, kind)
        for kind in labels.kinds.values()
        if kind.name not in RESTING
    ]
    special = {kind.name: ("rest", kind) for kind in labels.resting}
    special |= {
        kind.name: ("special", kind) for kind in labels.kinds.values() if kind.name in RESTING
    }
    return sorted(among, key=lambda entry: order.index(entry[0])) + list(special.values())


def summary(result: HeadScores) -> str:
    """How many heads follow a pattern, have another habit, show none, and rest."""
    labels, heads = result.labels, len(result.grid)
    follow, none, resting = (
        int(which.sum()) for which in (labels.follows, labels.among_words == "", labels.rests)
    )
    text = f"{follow} of {counted(heads, 'head')} {_verb(follow, 'follow')} a pattern, "
    if labels.habits is None:
        text += f"and {none} {_verb(none, 'follow')} none."
    else:
        habit = heads - follow - none
        by_pairs = f" that {counted(labels.units, 'pair')} could tell from the average head" * (
            labels.resampled == "pairs"
        )
        text += f"{habit} {_verb(habit, 'have')} another habit, and {none} {_verb(none, 'show')} none{by_pairs}."
    if resting:
        they, their = ("it", "its") if resting == 1 else ("they", "their")
        carried = f"what {they} {_verb(resting, 'carry')} comes from"
        half = carried if labels.reading.carried else f"{their} attention is on"
        places = " or ".join(words(kind.name) for kind in labels.resting)
        text += (
            f" {counted(resting, 'head rests', 'heads rest')}: more than half of {half} {places}."
        )
    return text


def _verb(number: int, plural: str) -> str:
    return plural if number != 1 else {"have": "has", "carry": "carries"}.get(plural, f"{plural}s")


def does(card: Card) -> str:
    """What a head does with its numbers, as its card begins."""
    labels, head = card.ranking.labels, card.head
    text = statement(labels, head)
    if not labels.among_words[head.place]:
        text += f"; it comes nearest to {_numbers(labels, card.main_kind, head)}"
    if labels.rests[head.place]:
        name = str(labels.label[head.place])
        part = "what it carries comes from" if labels.reading.carried else "its attention is on"
        text += f". It rests: {labels.numbers(name, head).share:.2f} of {part} {words(name)}"
    return f"{head.name}  {text}."


def statement(labels: Labels, head: Head) -> str:
    """What a head does with its numbers; of one that does nothing, by how many pairs that was looked for."""
    if name := str(labels.among_words[head.place]):
        return _numbers(labels, name, head)
    if labels.habits is None:
        return "follows no pattern"
    return f"no distinct habit that {counted(labels.units, labels.resampled[:-1])} could show"


def _numbers(labels: Labels, name: str, head: Head) -> str:
    share, chance, average, rank = labels.numbers(name, head)
    even = f", even attention {chance:.2f}" if chance else ""
    ending = (
        "th" if rank % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    )
    return f"{words(name)} {share:.2f}, average head {average:.2f}{even}, {rank}{ending} of {len(labels.grid)}"


def how_sure(labels: Labels, head: Head) -> str:
    """A head's label, and in how many resamples it stays; empty where it has none, or nothing was resampled."""
    label = str(labels.label[head.place])
    if not label or labels.label_stability is None:
        return ""
    if np.isnan(stays := float(labels.label_stability[head.place])):
        return f"Label {label}: too few {labels.resampled} to tell whether it stays."
    resamples = f"{RESAMPLINGS:,} bootstrap resamples of the {labels.resampled}"
    return f"Label {label}: the same in {100 * stays:.0f} % of {resamples}."


def why_unsure(labels: Labels) -> str:
    """What it means that a label is not sure."""
    return f"the label changed in more than 5 % of bootstrap resamples of the {labels.resampled}, or they are too few"


def notes_of(result: HeadScores, *, listed: bool = False) -> Iterator[str]:
    """What else there is to know of an input: which words are related and, unless a list says so, what has no score."""
    yield from map(plain, result.notes)
    for pattern in () if listed else result.scores.patterns:
        if (reason := why_unscored(result, pattern)) and not reason.endswith("switched off"):
            yield f"{plain(pattern)}: {reason}"


def why_unscored(result: HeadScores, pattern: str) -> str:
    """Why heads have no score for a pattern, and so no rank: all of them, or some; empty if every head has a score."""
    ranked, heads = len(result.order(pattern)), len(result.grid)
    if ranked:
        return (
            "" if ranked == heads else f"no word is eligible for {heads - ranked} of {heads} heads"
        )
    if pattern in result.not_measured:
        return f"{NOT_MEASURED}: {plain(result.not_measured[pattern])}"
    if pattern == "predictive" and result.signature.predictive == "off":
        return "switched off"
    return f"no word of {'this input' if result.is_one_input else 'these pairs'} is eligible"


def none_does(result: HeadScores, pattern: str, threshold: float) -> str:
    """That no head follows a pattern, if so, and how near the best one comes; empty if some head does."""
    above = result.table.above_chance[..., result.scores.place_of(pattern)]
    if np.isnan(above).all() or np.nanmax(above) >= threshold:
        return ""
    best, by = result.grid[np.nanargmax(above)].name, np.nanmax(above)
    return f"No head follows this pattern. Closest: {best}, {by:.2f} above chance (a label needs {threshold:g} above)."


def ranked_by(result: HeadScores) -> str:
    """By which pairs heads are ranked, if not by those of the scores; empty if by the same."""
    if result.ranked_by is None:
        return ""
    ranking, scored = (
        int(scores.every_key.pairs.max()) for scores in (result.ranked_by, result.scores)
    )
    return f"Heads are ranked by {counted(ranking, 'pair')}; the scores are those of the other {scored:,}."

"""What a screen and a notebook both tell of a result, as plain data: neither of them works it out by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from attnscan.results.classification import Classification
from attnscan.results.grid import Grid, Head
from attnscan.results.labels import FEWEST, RESAMPLINGS, STAYS, Labels
from attnscan.results.profile import FAMILIES
from attnscan.results.ranking import Ranking
from attnscan.results.scores import MIXED, FloatArray, ScoreTable, best_first
from attnscan.results.terms import counted
from attnscan.safe_text import plain

NOT_MEASURED = "not measured"
_CLOSE = 5  # heads that cannot be told from the best: so many are named


@dataclass(frozen=True)
class PatternRow:
    """How many heads follow a pattern, and which follow it most."""

    pattern: str
    counts: tuple[str, ...]
    """Of heads by each label, as `count_names` names them; empty if the pattern was not measured."""
    strongest: tuple[tuple[Head, float], ...]
    """Heads with their scores, best first."""
    why_none: str
    """Why there are no strongest heads, or that those do not follow the pattern; empty if there are some that do."""


def token_lines(result: Classification) -> dict[str, list[tuple[str, bool]]]:
    """The units of sentence A and of B, each with whether it is special; a closing delimiter goes with its sentence."""
    lines: dict[str, list[tuple[str, bool]]] = {}
    current = 0
    for text, sentence in zip(result.units, result.sentence, strict=True):
        current = max(current, sentence)
        lines.setdefault("AB"[current], []).append((plain(text.strip()) or "␣", sentence < 0))
    return lines


def readings_of(result: Classification | Ranking) -> dict[str, Labels]:
    """By which labels heads are counted: that of what they carry comes first, where it can be had."""
    if isinstance(result, Classification):
        if result.carried is None:
            return {"heads": result.labels}
        return {"carry": result.with_norm(True).labels, "look": result.with_norm(False).labels}
    own = result.known_labels()
    if result.carried is not None:
        return {"carry": result.carried, "look": own}
    return {"carry" if own.norm else "heads": own}


def mapped(result: Classification | Ranking) -> Labels:
    """The labels that the map shows."""
    return result.mapped.labels if isinstance(result, Classification) else result.mapped


def count_names(result: Classification | Ranking) -> tuple[str, ...]:
    """What a row counts: heads by each of `readings_of`, and then on the map."""
    return (*readings_of(result), "map")


def _counts(result: Classification | Ranking, pattern: str) -> tuple[str, ...]:
    """How many heads have a label, as `count_names` names them; the map, which is of words, has no delimiter's."""
    counts = (str(int((labels.label == pattern).sum())) for labels in readings_of(result).values())
    on_map = "–" if pattern == "delimiter" else str(int((mapped(result).content_label == pattern).sum()))
    return (*counts, on_map)


def strongest_by(result: Classification) -> str:
    """What the strongest heads of a row are the strongest by."""
    return "strongest heads" if result.carried is None else f"strongest by {_quantity(result)}"


def _quantity(result: Classification) -> str:
    return "what they carry" if result.signature.norm else "weight"


def pattern_rows(
    result: Classification, patterns: Iterable[str], top: int, *, without_delimiters: bool = False
) -> Iterator[PatternRow]:
    """A row for each pattern with its `top` strongest heads, and one for the heads without a pattern."""
    scores = result.scores.table(without_delimiters).score
    for pattern in (*patterns, MIXED):
        counts = _counts(result, pattern)
        if pattern == MIXED:
            yield PatternRow(pattern, counts, (), _of_mixed(result))
        elif len(order := result.ranking(pattern, without_delimiters=without_delimiters)):
            score = scores[..., result.scores.patterns.index(pattern)]
            best = [result.scores.grid[number] for number in order[:top]]
            why_none = "" if _some_head_does(result, pattern) else "no head does this; the nearest:"
            yield PatternRow(pattern, counts, tuple((head, float(score[head.place])) for head in best), why_none)
        else:
            counts = ("",) * len(counts) if pattern in result.not_measured else counts
            yield PatternRow(pattern, counts, (), why_unscored(result, pattern, without_delimiters=without_delimiters))


def _some_head_does(result: Classification, pattern: str) -> bool:
    """Whether a head is far enough above chance for a label, by what is looked at, carried, or done on words."""
    place = result.scores.patterns.index(pattern)
    tables = [result.scores.every_key, result.scores.words_only]
    tables += [] if result.carried is None else [result.carried.scores.every_key, result.by_weight.every_key]
    return any((table.above_chance[..., place] >= result.threshold).any() for table in tables)  # false for NaN


@dataclass(frozen=True)
class LabelRow:
    """How many heads follow a pattern over many pairs, and which do."""

    pattern: str
    counts: tuple[str, ...]
    """Of heads, as `count_names` names them; empty if the pattern has no scores."""
    heads: tuple[tuple[Head, bool], ...]
    """Those on the map, the ones that are farthest above chance first, and whether each is unsure."""
    why_none: str = ""
    """Why the pattern has no scores; empty if it has."""


def label_rows(result: Ranking) -> Iterator[LabelRow]:
    """A row for each pattern, and one for the heads without a pattern, which are not named.

    The map is of words alone, where no head follows `delimiter`: those that do so with every key are named there.
    """
    for pattern in (*result.scores.patterns, MIXED):
        counts = _counts(result, pattern)
        if pattern == MIXED:
            yield LabelRow(pattern, counts, ())
        elif len(result.order(pattern)):
            yield LabelRow(pattern, counts, tuple(_followers(mapped(result), pattern)))
        else:
            yield LabelRow(pattern, ("",) * len(counts), (), why_unscored(result, pattern))


def why_unscored(result: Classification | Ranking, pattern: str, *, without_delimiters: bool = False) -> str:
    """Why heads have no score for a pattern, and so no rank: all of them, or some; empty if every head has a score."""
    of_input = isinstance(result, Classification)
    rank = result.ranking if isinstance(result, Classification) else result.order
    ranked, heads = len(rank(pattern, without_delimiters=without_delimiters)), len(result.scores.grid)
    if ranked:
        return "" if ranked == heads else f"no word is eligible for {heads - ranked} of {heads} heads"
    if isinstance(result, Classification) and pattern in result.not_measured:
        return f"{NOT_MEASURED}: {plain(result.not_measured[pattern])}"
    if pattern == "predictive" and result.signature.predictive == "off":
        return f"{NOT_MEASURED}: the model was not asked"
    p, halves = result.scores.patterns.index(pattern), [result.scores]
    halves += [result.ranked_by] if isinstance(result, Ranking) and result.ranked_by is not None else []
    eligible = [bool(scores.every_key.n[..., p].any()) for scores in halves]
    if without_delimiters and all(eligible):
        return "no word is eligible with special tokens removed"
    half = "one half of " if any(eligible) else ""
    return f"no word of {half}{'this input' if of_input else 'these pairs'} is eligible"


def _followers(labels: Labels, pattern: str) -> list[tuple[Head, bool]]:
    """The heads that follow a pattern, those farthest above chance first, and whether each is unsure."""
    which, unsure, table = labels.content_label, labels.content_unsure, labels.scores.words_only
    if pattern == "delimiter":
        which, unsure, table = labels.label, labels.unsure, labels.scores.every_key
    above, grid = table.above_chance[..., labels.scores.patterns.index(pattern)], labels.scores.grid
    order = [grid[number] for number in best_first(above)]
    return [(head, bool(unsure[head.place])) for head in order if which[head.place] == pattern]


def label_notes(result: Classification | Ranking) -> Iterator[str]:
    """How to read the counts, and how many of the labels would stay."""
    readings, on_map = readings_of(result), mapped(result)
    over = "" if isinstance(result, Classification) else " over all pairs"
    by = {name: f"by {'what they carry' if labels.norm else 'their weights'}" for name, labels in readings.items()}
    by["map"] = f"by {'what they carry' if on_map.norm else 'their weights'} among words"
    which = "; ".join(f"{name}: {how}" for name, how in by.items())
    yield f"Heads by label, {on_map.threshold:g} above chance or more{over}. {which}."
    shares = {name: labels.stability.label for name, labels in readings.items() if labels.stability is not None}
    if on_map.stability is not None:
        yield from sureness(shares | {"map": on_map.stability.content_label}, on_map.drawn)


def leading_part(result: Classification, head: Head) -> str:
    """What a head does most by its profile, in words; empty where there is none."""
    strongest = [] if result.profile is None else result.profile.strongest(head)
    return strongest[0][0] if strongest else ""


def _of_mixed(result: Classification) -> str:
    """What heads without a pattern do most, by their profiles: of what they carry, where that can be had."""
    none, result = "no pattern is far enough above chance", result.mapped
    if result.profile is None or not (mixed := result.label == MIXED).any():
        return none
    spent = result.profile.by_family()[mixed]
    counts = Counter(FAMILIES[most] for most in spent.argmax(-1)[spent.any(-1)])
    most = ", ".join(f"{name} {count}" for name, count in counts.most_common())
    return f"{none}; most goes to {most}" if most else none


def notes(result: Classification) -> tuple[str, ...]:
    """What to know of the rows' counts and scores, a line each."""
    return (*label_notes(result), *_most_output(result), *map(plain, result.notes))


def _most_output(result: Classification) -> Iterator[str]:
    """Which heads put out the largest share of their layers' output."""
    if result.carried is not None and len(order := best_first(output := result.carried.output)[:_CLOSE]):
        heads = [result.scores.grid[number] for number in order]
        most = ", ".join(f"{head.name} {output[head.place]:.2f}" for head in heads)
        yield f"Most of a layer's output, where an equal part is {1 / output.shape[1]:.2f}: {most}."


def map_title(labels: Labels) -> str:
    """What a map of all heads shows."""
    return reading_title(labels, among_words=True)


def reading_title(labels: Labels, *, among_words: bool) -> str:
    """What heads are called by: what they carry or where they look, with special tokens or without."""
    return f"what each head {'carries' if labels.norm else 'looks at'}{' among words' if among_words else ''}"


def map_note(labels: Labels) -> str:
    """How to read the map."""
    rests = "comes from" if labels.norm else "rests on"
    note = f"Map: {map_title(labels)}; layers down, heads across; small letter: half or more {rests} delimiters."
    return note + unsure_note(labels)


def unsure_note(labels: Labels) -> str:
    """What a question mark says, if there is one on the map; begins with a space."""
    return f" ?: {why_unsure(labels)}." if labels.content_unsure.any() else ""


def why_unsure(labels: Labels) -> str:
    """What it means that a label is not sure."""
    return f"not sure; {labels.drawn} drawn anew would change it, or are too few to tell"


def sureness(shares: Mapping[str, FloatArray], drawn: str) -> Iterator[str]:
    """How many labels stay when words or pairs are drawn anew. Shape: `shares` of resamplings, each [layer, head]."""
    if not shares:
        return
    stay = ", ".join(f"{name} {_stay(share)}" for name, share in shares.items())
    yield f"Labels that stay in {STAYS:.0%} of {RESAMPLINGS:,} resamplings of these {drawn}: {stay}."
    few = {name: int(np.isnan(share).sum()) for name, share in shares.items()}
    if any(few.values()):
        told = ", ".join(f"{name} {count}" for name, count in few.items())
        yield f"Labels that rest on fewer than {FEWEST} {drawn}, too few to tell: {told}."


def _stay(share: FloatArray) -> str:
    if np.isnan(share).all():
        return "none can be told"
    return f"{int((share >= STAYS).sum())} of {np.isfinite(share).sum()}"


def worth(table: ScoreTable, place: tuple[int, int, int]) -> dict[str, str]:
    """A score, its interval, chance, how far above it, how much is the word itself, what it rests on; "" for NaN."""
    numbers = {name: getattr(table, name)[place] for name in ("score", "chance", "above_chance", "itself")}
    texts = {name: "" if np.isnan(value) else f"{value:.3f}" for name, value in numbers.items()}
    low, high = (bound[place] for bound in table.interval)
    texts["interval"] = "" if np.isnan(low) else f"{low:.3f}–{high:.3f}"
    return texts | {name: f"{getattr(table, name)[place]:,}" for name in ("n", "pairs")}


def none_does(table: ScoreTable, pattern: int, threshold: float) -> str:
    """That no head follows a pattern, if so, and how far above chance the best one is; empty if some head does."""
    above = table.above_chance[..., pattern]
    if np.isnan(above).all() or np.nanmax(above) >= threshold:
        return ""
    best = Grid.of(above)[np.nanargmax(above)].name
    farthest = f"{best} is the farthest above chance, by {np.nanmax(above):.2f}"
    return f"No head does this: {farthest}, and a label takes {threshold:g}."


def ranked_by(result: Ranking) -> str:
    """By which pairs heads are ranked, if not by those of the scores; empty if by the same."""
    if result.ranked_by is None:
        return ""
    chosen, told = (int(scores.every_key.pairs.max()) for scores in (result.ranked_by, result.scores))
    return f"Heads are ranked by {counted(chosen, 'pair')}; the scores are those of the other {told:,}."


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
    best = result.scores.grid[order[0]].name
    more = f" and {len(close) - _CLOSE} more" if len(close) > _CLOSE else ""
    said = f"{best} cannot be told from {', '.join(head.name for head in close[:_CLOSE])}{more}"
    needed = result.pairs_to_tell(pattern, without_delimiters=without_delimiters)
    said += f"; about {counted(needed, 'pair')} would tell it from the next" if needed is not None else ""
    luck = "" if result.ranked_by else " The best of close heads is in part the luckiest: --split takes luck out."
    return f"{said}.{luck}"

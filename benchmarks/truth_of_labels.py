"""Labels a second time, without attnscan: patterns, classes, habits, M, E, A, their errors, the
rule and the drawings.

What heads carry is worked out from transformers' own hidden states, for BERTs and MPNets alone.
Plain loops give every word's keys their classes and patterns; numpy adds up, and resamples by
attnscan's own draw. `truth.py` runs it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache

import numpy as np
import torch
from by_loops import (
    NAN,
    PATTERNS,
    Checkpoint,
    Head,
    Input,
    Measured,
    Score,
    by_query,
    class_of,
    followed,
    mean_of,
    whole_words,
)
from by_loops import targets as targets_of
from scipy.special import rel_entr
from tally import (
    PAIR,
    Pairs,
    Row,
    Tally,
    command,
    hash_of,
    head_of,
    over,
    shipped,
    shipped_genres,
)

ODDS = 1.5
MIN_SHARE = 0.10
RESAMPLES = 1_000
MIN_GROUPS = 5
MIN_UNITS = 5
EVERY = 6  # of the shipped pairs each sixth is read: words are gone through in plain loops
NEXT_3 = ("next", "next-2-3")
PREVIOUS_3 = ("previous", "previous-2-3")
NEXT_8 = (*NEXT_3, "next-4-8")
PREVIOUS_8 = (*PREVIOUS_3, "previous-4-8")
AFTER = (*NEXT_8, "later")
BEFORE = (*PREVIOUS_8, "earlier")
CANDIDATES = {
    "itself": ("itself",),
    "identical": ("identical",),
    "cross-sentence": ("cross-sentence",),
    "next-word": ("next",),
    "next-3": NEXT_3,
    "next-8": NEXT_8,
    "previous-word": ("previous",),
    "previous-3": PREVIOUS_3,
    "previous-8": PREVIOUS_8,
    "within-1": ("next", "previous"),
    "within-3": (*NEXT_3, *PREVIOUS_3),
    "after": AFTER,
    "before": BEFORE,
    "punctuation": ("punctuation",),
    "own-sentence": ("itself", "identical", *AFTER, *BEFORE),
    "other-sentence": ("cross-sentence", "elsewhere"),
    "frequent-words": ("frequent",),
    "rare-words": ("rare",),
    "even": ("even",),
    "same-keys": ("same keys",),
}
NAMES = tuple(CANDIDATES)
READINGS = (("weight", "out"), ("weight", "in"), ("carried", "out"), ("carried", "in"))
"""Whether heads are read by weight or by what they carry, and whether special tokens are keys;
first, the default.
"""
Matrices = dict[Head, tuple[list[list[float]], list[float]]]
"""Every head's rows, and how long the vector is that it carries from each key; 1 by weight."""


@dataclass(frozen=True)
class Unit:
    """The sums of a pair, or of a word of one input: of patterns, of each habit's share and of that
    share by chance.
    """

    n: np.ndarray | float
    patterns: np.ndarray
    """Shape: [head, pattern, number of `Measured`]."""
    on: np.ndarray
    """Shape: [head, habit], as `even`."""
    even: np.ndarray


@dataclass(frozen=True)
class Does:
    """What a head does, its share and the average head's, and in which share of bootstrap resamples
    its label stays.
    """

    label: str
    among_words: str
    share: float
    average: float
    stays: float


def labels(checkpoint: Checkpoint) -> Iterator[Tally]:
    """The label of every head on one input, and over some of the pairs that attnscan ships, by
    every reading; once by their genres.
    """
    pairs = shipped()[::EVERY]
    genres = shipped_genres()[::EVERY]
    one = checkpoint.read(PAIR)
    for by, special in READINGS:
        options = (
            "--model",
            checkpoint.name,
            "--no-related",
            "--predictive",
            "off",
            "--by",
            by,
            "--special",
            special,
        )
        title = f"labels by {by}, special {special}"
        rows = command("classify", *PAIR, *options)
        words = list(_measure_words(checkpoint, one, by, special))
        yield from _compare(f"classify, {title}", rows, words, by_pair=False)
        measured = _measure_pairs(checkpoint, pairs, by, special)
        rows = over(pairs, "heads", *options)
        units, groups = _group(pairs, measured, _lengths(checkpoint, pairs))
        yield from _compare(f"heads, {title}", rows, units, groups)
        rows = over(pairs, "heads", *options, genres=genres)
        units, groups = _group(pairs, measured, _genres(genres))
        yield from _compare(f"heads by genre, {title}", rows, units, groups)


def label_heads(checkpoint: Checkpoint, pairs: Pairs) -> dict[Head, Does]:
    """What every head does over some pairs, by the default reading."""
    measured = _measure_pairs(checkpoint, pairs, "weight", "out")
    does = _decide(*_group(pairs, measured, _lengths(checkpoint, pairs)))
    heads = checkpoint.shape[1]
    return {divmod(number, heads): head_does for number, head_does in enumerate(does)}


def _measure_pairs(checkpoint: Checkpoint, pairs: Pairs, by: str, special: str) -> list[Unit]:
    """One unit for each pair."""
    measured = []
    for pair in pairs:
        words = stack(_measure_words(checkpoint, checkpoint.read(pair), by, special))
        measured.append(add_up(words, np.ones(len(words.n))))
    return measured


def _lengths(checkpoint: Checkpoint, pairs: Pairs) -> list[str]:
    """The bin of length of each pair, as attnscan numbers them."""
    counts = [len(checkpoint.read(pair).words) for pair in pairs]
    return [f"{int(2 * np.log2(count)):06x}" for count in counts]


def _genres(genres: Sequence[str]) -> list[str]:
    """The number of each genre, as attnscan sorts them."""
    return [f"{int(hash_of(genre)[:6], 16) | 1 << 23:06x}" for genre in genres]


def _group(
    pairs: Pairs, units: Sequence[Unit], groups: Sequence[str]
) -> tuple[list[Unit], list[str] | None]:
    """The units in the order in which attnscan draws them, and their groups.

    Groups are None where fewer than five have five pairs.
    """
    hashes = [hash_of(*pair) for pair in pairs]
    places = range(len(pairs))
    sizes = Counter(groups)
    if sum(size >= MIN_UNITS for size in sizes.values()) < MIN_GROUPS:
        return [units[place] for place in sorted(places, key=hashes.__getitem__)], None
    order = sorted(places, key=lambda place: (groups[place], hashes[place]))
    return [units[place] for place in order], [groups[place] for place in order]


@cache
def frequent_ids(checkpoint: Checkpoint) -> frozenset[int]:
    """The hundred words that come first in the vocabulary."""
    return frozenset(whole_words(checkpoint)[0][:100])


@torch.inference_mode()
def taken(checkpoint: Checkpoint, one: Input) -> dict[Head, tuple[torch.Tensor, torch.Tensor]]:
    """Every head's weights [query, key], and the keys' values once they are projected [key,
    hidden].
    """
    output = checkpoint.run(one.inputs, output_hidden_states=True)
    found = {}
    for layer, weights in enumerate(output.attentions):
        _, _, value, dense = checkpoint.projections(layer)
        values = value(output.hidden_states[layer][0])
        heads = weights.shape[1]
        size = values.shape[1] // heads
        for head in range(heads):
            span = slice(head * size, (head + 1) * size)
            found[layer, head] = weights[0, head], values[:, span] @ dense.weight[:, span].T
    return found


def _read_heads(checkpoint: Checkpoint, one: Input, by: str) -> Matrices:
    """Weights, each times how long the key's projected value is, as shares of the row.

    By weight, all lengths are 1.
    """
    matrices = {}
    for head, (weights, vectors) in taken(checkpoint, one).items():
        lengths = vectors.norm(dim=-1) if by == "carried" else torch.ones(len(vectors))
        rows = weights * lengths
        matrices[head] = (rows / rows.sum(-1, keepdim=True)).tolist(), lengths.tolist()
    return matrices


def _measure_words(checkpoint: Checkpoint, one: Input, by: str, special: str) -> Iterator[Unit]:
    """One unit for each word: its row over words alone, or over all keys, adding up to 1."""
    words = one.words
    ids = one.inputs["input_ids"]
    names = NAMES
    target = targets_of(one)
    matrices = _read_heads(checkpoint, one, by)
    frequent = frequent_ids(checkpoint)
    keys = words if special == "out" else list(range(len(one.sentence)))
    kinds = {
        j: "frequent" if ids[j] in frequent else "rare"
        for j in words
        if ids[j] in frequent or one.content[j]
    }
    patterns = [
        by_query(one, matrix, target, special, lengths) for matrix, lengths in matrices.values()
    ]
    weights = np.array([matrix for matrix, _ in matrices.values()])[:, words][:, :, keys]
    rows = weights / weights.sum(-1, keepdims=True)  # Shape: [head, word, key]
    rows_of_others = (rows.sum(1, keepdims=True) - rows) / max(1, len(words) - 1)
    lengths = np.array([lengths for _, lengths in matrices.values()])[:, keys]
    chance = lengths / lengths.sum(-1, keepdims=True)  # Shape: [head, key]
    for place, i in enumerate(words):
        belongs = np.zeros((len(keys), len(names)), bool)
        for key, j in enumerate(keys):
            classes = {class_of(one, i, j), kinds.get(j)}
            belongs[key] = [not classes.isdisjoint(CANDIDATES[name]) for name in names]
        row = rows[:, place]
        on = row @ belongs
        on[:, names.index("even")] = np.minimum(row, 1 / len(keys)).sum(-1)
        on[:, names.index("same-keys")] = np.minimum(row, rows_of_others[:, place]).sum(-1)
        measured = []
        for queries in patterns:
            found = [queries[pattern].get(i, Measured()) for pattern in PATTERNS]
            measured.append([(m.weight, m.n, m.chance, m.itself, m.whole) for m in found])
        yield Unit(1, np.array(measured), on, chance @ belongs)


def stack(units: Iterable[Unit]) -> Unit:
    """Units in one: each array has a place for each of them first."""
    listed = list(units)
    arrays = {}
    for field in fields(Unit):
        arrays[field.name] = np.array([getattr(unit, field.name) for unit in listed])
    return Unit(**arrays)


def add_up(units: Unit, times: np.ndarray) -> Unit:
    """The sum of units that `stack` has put in one, each so many times."""
    sums = {}
    for field in fields(Unit):
        sums[field.name] = np.tensordot(times, getattr(units, field.name), 1)
    return Unit(**sums)


class Means:
    """M and E of every head, and A, habit by habit. Shape: [head, habit] and [habit]."""

    def __init__(self, unit: Unit) -> None:
        self.names = NAMES
        self.share = unit.on / unit.n
        self.chance = unit.even / unit.n
        self.average = self.share.mean(0)
        self.even = self.names.index("even")
        self.same = self.names.index("same-keys")

    @property
    def above(self) -> np.ndarray:
        """Whether the odds of a share are 1.5 times the average head's and even attention's.

        Shape: [head, habit].
        """
        reference = np.maximum(self.average, self.chance)
        reference[:, self.same] = np.maximum(reference[:, self.same], self.share[:, self.even])
        with np.errstate(divide="ignore"):
            odds = self.share / (1 - self.share)
            odds_of_reference = reference / (1 - reference)
        return (odds > ODDS * odds_of_reference) & (self.share > MIN_SHARE)

    def best(self, qualified: np.ndarray) -> np.ndarray:
        """Each head's habit that is farthest from the average head, by relative entropy, or -1.

        Shape: [head].
        """
        rest = (1 - self.share).clip(0)
        rest_of_average = (1 - self.average).clip(0)
        distance = rel_entr(self.share, self.average) + rel_entr(rest, rest_of_average)
        return np.where(qualified.any(1), np.where(qualified, distance, -1).argmax(1), -1)


def _drawings(count: int, groups: Sequence[str] | None) -> np.ndarray:
    """How often each unit is drawn in each resample, as attnscan draws them.

    Without groups, as many units as there are. With groups, which stand together, two thirds as
    many groups, and of each of these as many units as it has. Shape: [resample, unit].
    """
    rng = np.random.default_rng(0)
    if groups is None:
        return rng.multinomial(count, np.full(count, 1 / count), size=RESAMPLES).astype(float)
    names = list(dict.fromkeys(groups))
    of_groups = rng.multinomial(
        round(len(names) * 2 / 3), np.full(len(names), 1 / len(names)), size=RESAMPLES
    )
    parts = []
    for name, times in zip(names, of_groups.T, strict=True):
        size = list(groups).count(name)
        parts.append(rng.multinomial(times * size, np.full(size, 1 / size)))
    return np.concatenate(parts, 1).astype(float)


def _decide(
    units: Sequence[Unit], groups: Sequence[str] | None = None, *, by_pair: bool = True
) -> list[Does]:
    """What every head does by some pairs, of groups or of none, or by the words of one input."""
    stacked = stack(units)
    whole = add_up(stacked, np.ones(len(units)))
    means = Means(whole)
    heads = np.arange(len(whole.on))
    habits = means.best(means.above)
    first = [_name(whole, head, habits[head]) for head in heads]
    rare = np.zeros(whole.patterns.shape[:2], bool)
    if by_pair:  # a pattern that fewer than five pairs have does not compete in resamples
        rare = (stacked.patterns[..., 1] > 0).sum(0) < MIN_UNITS
    holds = np.zeros(len(heads))
    same = np.zeros(len(heads))
    for times in _drawings(len(units), groups):
        resample = add_up(stacked, times)
        resample.patterns[rare] = 0
        again = Means(resample)
        best = again.best(again.above)
        holds += again.above[heads, habits]
        same += [_name(resample, head, best[head])[0] == first[head][0] for head in heads]
    habits = np.where(holds >= 0.95 * RESAMPLES, habits, -1)
    does = []
    scores = [_scores(whole, head) for head in heads]
    for head in heads:
        label, among, _ = _name(whole, head, habits[head])
        share = average = NAN
        if among in PATTERNS:  # a habit that has the name of a pattern has its score
            share = scores[head][among].mean()
            average = mean_of([of_head[among].mean() for of_head in scores])
        elif among:
            habit = means.names.index(among)
            share = float(means.share[head][habit])
            average = float(means.average[habit])
        rest_on = [
            unit
            for unit in units
            if label not in PATTERNS or unit.patterns[head, PATTERNS.index(label), 1]
        ]
        if first[head][2]:  # a habit's label rests on every unit, whatever its name
            rest_on = units
        stays = same[head] / RESAMPLES if label and len(rest_on) >= 5 else NAN
        does.append(Does(label, among, share, average, stays))
    return does


def _scores(unit: Unit, head: int) -> dict[str, Score]:
    return {
        p: Score([Measured(*sums)])
        for p, sums in zip(PATTERNS, unit.patterns[head].tolist(), strict=True)
    }


def _name(unit: Unit, head: int, habit: int) -> tuple[str, str, bool]:
    """The label, what the head does among words, and whether the label is a habit; the habit -1 is
    none.
    """
    scores = _scores(unit, head)
    pattern = followed(scores)
    among = pattern or (NAMES[habit] if habit >= 0 else "")
    if scores["delimiter"].n and scores["delimiter"].mean() > 0.5:
        return "delimiter", among, False
    return among, among, not pattern and habit >= 0


def _compare(
    table: str,
    rows: list[Row],
    units: Sequence[Unit],
    groups: Sequence[str] | None = None,
    *,
    by_pair: bool = True,
) -> Iterator[Tally]:
    """What a table says that each head does beside what these units say."""
    tally = Tally(table)
    stay = Tally(f"{table}, stay", 0.0021, "two of a thousand drawings, which rounding may turn")
    expected = _decide(units, groups, by_pair=by_pair)
    tally.same("heads", len(rows), len(expected))
    heads = 1 + max(head_of(row)[1] for row in rows)
    for row in rows:
        (layer, head) = head_of(row)
        does = expected[layer * heads + head]
        tally.same(f"{layer}-{head} label", row["label"], does.label)
        tally.same(f"{layer}-{head} among_words", row["among_words"], does.among_words)
        tally.row(row, f"{layer}-{head}", share=does.share, average=does.average)
        stay.row(row, f"{layer}-{head}", label_stays=does.stays)
    yield tally
    yield stay

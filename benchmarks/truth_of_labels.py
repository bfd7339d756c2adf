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
    NUMBERS,
    PATTERNS,
    Checkpoint,
    Head,
    Input,
    class_of,
    every_query,
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
MIN_REST = 1e-4
RESAMPLES = 1_000
MIN_GROUPS = 5
MIN_UNITS = 5
MIN_ON_WORDS = 1e-6
THRESHOLD = 0.25
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
PATTERN_NAMES = np.array([*PATTERNS, ""])
HABIT_NAMES = np.array([*NAMES, ""])
"""By place; the place -1 has no name."""


@dataclass(frozen=True)
class Unit:
    """The sums of a pair, or of a word of one input: of patterns, of each habit's share and of that
    share by chance.
    """

    n: np.ndarray
    """Words whose rows have weight left for keys that count. Shape: [head]."""
    patterns: np.ndarray
    """Shape: [head, pattern, number of `Measured`]."""
    on: np.ndarray
    """Shape: [head, habit], as `even`."""
    even: np.ndarray

    @property
    def above_chance(self) -> np.ndarray:
        """Of every pattern, -inf where it has none. Shape: [head, pattern]."""
        weight, n, chance, *_ = np.moveaxis(self.patterns, -1, 0)
        by_chance = chance / n
        above = (weight / n - by_chance) / (1 - by_chance)
        return np.where((n > 0) & (by_chance < 1 - 1e-9), above, -np.inf)


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


def labels(checkpoint: Checkpoint, by: str, special: str) -> Iterator[Tally]:
    """The label of every head on one input, and over some of the pairs that attnscan ships, by
    one reading; once by their genres.
    """
    pairs = shipped()[::EVERY]
    genres = shipped_genres()[::EVERY]
    reading = ("--by", by, "--special", special)
    options = ("--model", checkpoint.name, "--no-related", "--predictive", "off", *reading)
    title = f"labels by {by}, special {special}"
    rows = command("classify", *PAIR, *options)
    words = list(_measure_words(checkpoint, checkpoint.read(PAIR), by, special))
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


def _read_heads(checkpoint: Checkpoint, one: Input, by: str) -> tuple[np.ndarray, np.ndarray]:
    """Weights, each times how long the key's projected value is, as shares of the row; and these
    lengths. By weight, all lengths are 1.

    Shape: [head, query, key] and [head, key], heads of all layers.
    """
    weights, vectors = map(torch.stack, zip(*taken(checkpoint, one).values(), strict=True))
    lengths = vectors.norm(dim=-1)
    if by == "weight":
        lengths = torch.ones_like(lengths)
    rows = weights * lengths[:, None]
    return (rows / rows.sum(-1, keepdim=True)).double().numpy(), lengths.double().numpy()


def _measure_words(checkpoint: Checkpoint, one: Input, by: str, special: str) -> Iterator[Unit]:
    """One unit for each word: its row over words alone, or over all keys, adding up to 1.

    A head that leaves next to nothing for these keys has no row there.
    """
    words = one.words
    ids = one.inputs["input_ids"]
    names = NAMES
    target = targets_of(one)
    of_all_keys, lengths = _read_heads(checkpoint, one, by)
    frequent = frequent_ids(checkpoint)
    keys = words if special == "out" else list(range(len(one.sentence)))
    kinds = {
        j: "frequent" if ids[j] in frequent else "rare"
        for j in words
        if ids[j] in frequent or one.content[j]
    }
    patterns = every_query(one, of_all_keys, target, special, lengths)
    without = np.zeros((len(lengths), NUMBERS))  # a word that is no query of a pattern
    weights = of_all_keys[:, words][:, :, keys]
    left = weights.sum(-1)
    known = left >= MIN_ON_WORDS
    rows = weights * (known / left)[..., None]  # Shape: [head, word, key]
    others = (known.sum(1) - 1).clip(1)[:, None, None]
    rows_of_others = (rows.sum(1, keepdims=True) - rows) / others
    # Shape: [head, key]
    chance = lengths[:, keys] / lengths[:, keys].sum(-1, keepdims=True)
    for place, i in enumerate(words):
        belongs = np.zeros((len(keys), len(names)), bool)
        for key, j in enumerate(keys):
            classes = {class_of(one, i, j), kinds.get(j)}
            belongs[key] = [not classes.isdisjoint(CANDIDATES[name]) for name in names]
        row = rows[:, place]
        on = row @ belongs
        on[:, names.index("even")] = np.minimum(row, 1 / len(keys)).sum(-1)
        on[:, names.index("same-keys")] = np.minimum(row, rows_of_others[:, place]).sum(-1)
        measured = [patterns[pattern].get(i, without) for pattern in PATTERNS]
        has_row = known[:, place].astype(float)
        yield Unit(has_row, np.stack(measured, 1), on, has_row[:, None] * (chance @ belongs))


def stack(units: Iterable[Unit]) -> Unit:
    """Units in one: each array has a place for each of them first."""
    listed = list(units)
    arrays = {}
    for field in fields(Unit):
        arrays[field.name] = np.array([getattr(unit, field.name) for unit in listed])
    return Unit(**arrays)


def add_up(units: Unit, times: np.ndarray) -> Unit:
    """The sum of units that `stack` has put in one, each so many times.

    Of several resamples [resample, unit], arrays have a place for each of them first.
    """
    sums = {}
    for field in fields(Unit):
        sums[field.name] = np.tensordot(times, getattr(units, field.name), 1)
    return Unit(**sums)


class Means:
    """M and E of every head, and A, habit by habit. Shape: [head, habit] and [1, habit]."""

    def __init__(self, unit: Unit) -> None:
        n = unit.n[..., None]
        self.share = unit.on / n
        self.chance = unit.even / n
        self.average = self.share.mean(-2, keepdims=True)

    @property
    def above(self) -> np.ndarray:
        """Whether the odds of a share are 1.5 times the average head's and even attention's.

        Shape: [head, habit].
        """
        reference = np.maximum(self.average, self.chance)
        even = NAMES.index("even")
        same = NAMES.index("same-keys")
        reference[..., same] = np.maximum(reference[..., same], self.share[..., even])
        odds = self.share / (1 - self.share).clip(MIN_REST)
        odds_of_reference = reference / (1 - reference).clip(MIN_REST)
        return (odds > ODDS * odds_of_reference) & (self.share > MIN_SHARE)

    def best(self, qualified: np.ndarray) -> np.ndarray:
        """Each head's habit that is farthest from the average head, by relative entropy, or -1.

        Shape: [head].
        """
        rest = (1 - self.share).clip(0)
        rest_of_average = (1 - self.average).clip(0)
        distance = rel_entr(self.share, self.average) + rel_entr(rest, rest_of_average)
        return np.where(qualified.any(-1), np.where(qualified, distance, -1).argmax(-1), -1)


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
    first_habits = means.best(means.above)
    first, _, rests_on_habit = _name(whole, first_habits)
    resamples = add_up(stacked, _drawings(len(units), groups))
    if by_pair:  # a pattern that fewer than five pairs have does not compete in resamples
        rare = (stacked.patterns[..., 1] > 0).sum(0) < MIN_UNITS
        resamples.patterns[:, rare] = 0
    again = Means(resamples)
    names, *_ = _name(resamples, again.best(again.above))
    stays = (names == first).mean(0)
    holds = again.above[:, heads, first_habits].mean(0)
    labels, among, _ = _name(whole, np.where(holds >= 0.95, first_habits, -1))
    does = []
    for head in heads:
        label = str(labels[head])
        rest_on = len(units)
        if label in PATTERNS and not rests_on_habit[head]:  # a habit's rests on every unit
            rest_on = np.count_nonzero(stacked.patterns[:, head, PATTERNS.index(label), 1])
        does.append(
            Does(
                label=label,
                among_words=str(among[head]),
                **_shares(whole, means, head, str(among[head])),
                stays=float(stays[head]) if label and rest_on >= MIN_UNITS else NAN,
            )
        )
    return does


def _shares(unit: Unit, means: Means, head: int, among: str) -> dict[str, float]:
    """A head's share of what it does among words, and the average head's.

    A habit that has the name of a pattern has its score.
    """
    if not among:
        return {"share": NAN, "average": NAN}
    shares = means.share[:, NAMES.index(among)] if among in NAMES else np.empty(0)
    if among in PATTERNS:
        weight, n, *_ = np.moveaxis(unit.patterns[:, PATTERNS.index(among)], -1, 0)
        shares = weight / n
    return {"share": float(shares[head]), "average": float(shares.mean())}


def _follow(unit: Unit) -> np.ndarray:
    """The place of the pattern that each head follows, or -1. `delimiter` does not compete."""
    part = PATTERNS.index("cross-sentence")
    same = PATTERNS.index("identical")
    above = unit.above_chance
    weight, _, _, itself, _ = np.moveaxis(unit.patterns[..., same, :], -1, 0)
    above[..., same] = np.where(itself > 2 / 3 * weight, -np.inf, above[..., same])
    weight, _, _, _, whole = np.moveaxis(unit.patterns[..., part, :], -1, 0)
    is_part = (above[..., part] > above[..., same]) | ((whole > 0) & (weight >= 2 / 3 * whole))
    above[..., same] = above[..., [same, part]].max(-1)
    above[..., [part, PATTERNS.index("delimiter")]] = -np.inf
    best = above.argmax(-1)
    best = np.where((best == same) & is_part, part, best)
    return np.where(above.max(-1) >= THRESHOLD, best, -1)


@np.errstate(divide="ignore", invalid="ignore")  # resamples in which a pattern has no queries
def _name(unit: Unit, habits: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The labels, what the heads do among words, and whether the label is a habit; the habit -1 is
    none.
    """
    patterns = _follow(unit)
    among = np.where(patterns >= 0, PATTERN_NAMES[patterns], HABIT_NAMES[habits])
    weight, n, *_ = np.moveaxis(unit.patterns[..., PATTERNS.index("delimiter"), :], -1, 0)
    rests = weight / n > 0.5
    is_habit = (patterns < 0) & (habits >= 0) & ~rests
    return np.where(rests, "delimiter", among), among, is_habit


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

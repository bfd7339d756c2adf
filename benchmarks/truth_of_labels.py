"""Labels a second time, without attnscan: patterns, classes, habits, M, E, A, their errors, the rule and the drawings.

What heads carry is worked out from transformers' own hidden states, for BERTs alone. Every sum is a plain loop over
words and keys; numpy adds up what is drawn, by attnscan's own draw. `truth.py` runs it.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields

import numpy as np
import torch
from by_loops import NAN, PATTERNS, Checkpoint, Head, Input, Measured, Score, by_query, followed, mean_of, whole_words
from by_loops import targets as targets_of
from scipy.stats import t as student
from tally import PAIR, Row, Tally, command, hash_of, head_of, over, shipped

MARGIN, DRAWN = 0.10, 1_000
NEXT_3, PREVIOUS_3 = ("next", "next 2-3"), ("previous", "previous 2-3")
NEXT_8, PREVIOUS_8 = (*NEXT_3, "next 4-8"), (*PREVIOUS_3, "previous 4-8")
AFTER, BEFORE = (*NEXT_8, "later"), (*PREVIOUS_8, "earlier")
CANDIDATES = {
    "itself": ("itself",),
    "identical": ("identical",),
    "cross-sentence": ("cross",),
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
    "other-sentence": ("cross", "elsewhere"),
    "frequent-words": ("frequent",),
    "rare-words": ("rare",),
    "start": ("start",),
    "middle": ("middle",),
    "end": ("end",),
    "delimiter": ("start", "middle", "end"),
    "even": ("even",),
    "same-keys": ("same keys",),
}
SPECIAL = ("start", "middle", "end", "delimiter")
READINGS = (("weight", "out"), ("weight", "in"), ("carried", "out"), ("carried", "in"))
"""What of heads is read, and whether special tokens are keys; the first is the one that attnscan uses unasked."""
Matrices = dict[Head, tuple[list[list[float]], list[float]]]
"""Every head's rows, and how long the vector is that it carries from each key; 1 by weight."""


def names_of(special: str) -> tuple[str, ...]:
    """The candidates of a reading, those of special tokens only where these are keys."""
    return tuple(name for name in CANDIDATES if special == "in" or name not in SPECIAL)


@dataclass(frozen=True)
class Unit:
    """What a pair, or a word of one input, adds up to: patterns, each habit's share and that by chance."""

    n: float
    patterns: np.ndarray
    """Shape: [head, pattern, number of `Measured`]."""
    on: np.ndarray
    """Shape: [head, habit], as `even`."""
    even: np.ndarray


@dataclass(frozen=True)
class Does:
    """What a head does, with its number and the average head's, and in how many drawings its label stays."""

    label: str
    among_words: str
    share: float
    average: float
    stays: float


def labels(checkpoint: Checkpoint) -> Iterator[Tally]:
    """The label of every head on one input, and over all pairs that attnscan ships, by every reading."""
    one, frequent = checkpoint.read(PAIR), frequent_ids(checkpoint)
    for by, special in READINGS:
        asked = ("--model", checkpoint.name, "--no-related", "--predictive", "off", "--by", by, "--special", special)
        words = list(_by_word(one, _read(checkpoint, one, by), frequent, special))
        rows, what = command("classify", *PAIR, *asked), f"labels by {by}, special {special}"
        yield from _compared(f"classify, {what}", rows, words, special, of_pairs=False)
        rows, units = over(shipped(), "heads", *asked), _of_pairs(checkpoint, shipped(), by, special)
        yield from _compared(f"heads, {what}", rows, units, special, of_pairs=True)


def label_of(checkpoint: Checkpoint, pairs: Sequence[tuple[str, str]]) -> dict[Head, str]:
    """Every head's label over some pairs, by the reading that attnscan uses unasked."""
    return {head: does.label for head, does in does_of(checkpoint, pairs).items()}


def does_of(checkpoint: Checkpoint, pairs: Sequence[tuple[str, str]]) -> dict[Head, Does]:
    """What every head does over some pairs, by the same reading."""
    told = _told(_of_pairs(checkpoint, pairs, "weight", "out"), "out", of_pairs=True)
    return {divmod(number, 12): does for number, does in enumerate(told)}


def _of_pairs(checkpoint: Checkpoint, pairs: Sequence[tuple[str, str]], by: str, special: str) -> list[Unit]:
    """In the order in which attnscan draws them."""
    frequent, units = frequent_ids(checkpoint), []
    for pair in sorted(pairs, key=lambda pair: hash_of(*pair)):
        one = checkpoint.read(pair)
        units.append(_adding(list(_by_word(one, _read(checkpoint, one, by), frequent, special)))())
    return units


def _read(checkpoint: Checkpoint, one: Input, by: str) -> Matrices:
    if by == "carried":
        return carried(checkpoint, one)
    even = [1.0] * len(one.sentence)
    layers = enumerate(checkpoint.weights(one))
    return {(layer, head): (matrix, even) for layer, own in layers for head, matrix in enumerate(own)}


def frequent_ids(checkpoint: Checkpoint) -> frozenset[int]:
    """The hundred words that come first in the vocabulary."""
    return frozenset(whole_words(checkpoint)[0][:100])


@torch.inference_mode()
def taken(checkpoint: Checkpoint, one: Input) -> dict[Head, tuple[torch.Tensor, torch.Tensor]]:
    """Every head's weights [query, key], and the keys' values once they are projected [key, hidden]."""
    output, found = checkpoint.run(one.inputs, output_hidden_states=True), {}
    layers = zip(checkpoint.network.encoder.layer, output.attentions, output.hidden_states, strict=False)
    for number, (layer, weights, states) in enumerate(layers):
        size, values = layer.attention.self.attention_head_size, layer.attention.self.value(states[0])
        for head in range(weights.shape[1]):
            own = slice(head * size, (head + 1) * size)
            found[number, head] = weights[0, head], values[:, own] @ layer.attention.output.dense.weight[:, own].T
    return found


def carried(checkpoint: Checkpoint, one: Input) -> Matrices:
    """The weight times how long the key's value is once it is projected; and that length."""
    heads = {head: (weights, vectors.norm(dim=-1)) for head, (weights, vectors) in taken(checkpoint, one).items()}
    return {head: ((weights * length).tolist(), length.tolist()) for head, (weights, length) in heads.items()}


def _class(one: Input, i: int, j: int) -> str:
    """The first class that fits, of a word and a key."""
    if one.sentence[j] < 0:
        return "start" if j < one.words[0] else "end" if j > one.words[-1] else "middle"
    same, distance, side = one.sentence[i] == one.sentence[j], abs(i - j), "next" if j > i else "previous"
    if i == j:
        return "itself"
    if one.content[i] and one.content[j] and one.text[i] == one.text[j]:
        return "identical" if same else "cross"
    if same and distance <= 3:
        return side if distance == 1 else f"{side} 2-3"
    if not one.content[j]:
        return "punctuation"
    if not same:
        return "elsewhere"
    return f"{side} 4-8" if distance <= 8 else ("later" if j > i else "earlier")


def _by_word(one: Input, matrices: Matrices, frequent: frozenset[int], special: str) -> Iterator[Unit]:
    """Each word by itself: its row over words alone, or over all keys, adding up to 1."""
    words, ids, target = one.words, one.inputs["input_ids"], targets_of(one)
    keys = words if special == "out" else list(range(len(one.sentence)))
    kinds = {j: "frequent" if ids[j] in frequent else "rare" if one.content[j] else "" for j in words}
    patterns = {head: by_query(one, matrix, target, special, lengths) for head, (matrix, lengths) in matrices.items()}
    rows = {
        (head, i): {j: matrix[i][j] / sum(matrix[i][k] for k in keys) for j in keys}
        for head, (matrix, _) in matrices.items()
        for i in words
    }
    columns = {(head, j): sum(rows[head, i][j] for i in words) for head in matrices for j in keys}
    for i in words:
        classes, on, even = {j: _class(one, i, j) for j in keys}, {}, {}
        for head, (_, lengths) in matrices.items():
            row, others, total = rows[head, i], max(1, len(words) - 1), sum(lengths[j] for j in keys)
            sums = _added(classes, kinds, row)
            sums["even"] = sum(min(value, 1 / len(keys)) for value in row.values())
            sums["same keys"] = sum(min(value, (columns[head, j] - value) / others) for j, value in row.items())
            on[head] = _of_candidates(sums, special)
            even[head] = _of_candidates(_added(classes, kinds, {j: lengths[j] / total for j in keys}), special)
        own = [[astuple(of[p].get(i, Measured())) for p in PATTERNS] for of in patterns.values()]
        yield Unit(1, np.array(own), np.array(list(on.values())), np.array(list(even.values())))


def _added(classes: Mapping[int, str], kinds: Mapping[int, str], row: Mapping[int, float]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for j, value in row.items():
        sums[classes[j]] = sums.get(classes[j], 0.0) + value
        if j in kinds:
            sums[kinds[j]] = sums.get(kinds[j], 0.0) + value
    return sums


def _of_candidates(sums: Mapping[str, float], special: str) -> list[float]:
    return [sum(sums.get(part, 0.0) for part in CANDIDATES[name]) for name in names_of(special)]


def _adding(units: Sequence[Unit]) -> Callable[..., Unit]:
    """What adds up units, each as often as it is told."""
    stacks = [np.array([getattr(unit, field.name) for unit in units]) for field in fields(Unit)]

    def add(times: np.ndarray | None = None) -> Unit:
        return Unit(*(np.tensordot(np.ones(len(units)) if times is None else times, stack, 1) for stack in stacks))

    return add


class Means:
    """M and E of every head, and A, habit by habit. Shape: [head, habit] and [habit]."""

    def __init__(self, unit: Unit, special: str) -> None:
        self.names = names_of(special)
        self.share, self.chance = unit.on / unit.n, unit.even / unit.n
        self.average = self.share.mean(0)
        self.even, self.same = self.names.index("even"), self.names.index("same-keys")

    @property
    def above(self) -> np.ndarray:
        """Whether a habit is above the average head and even attention by the margin. Shape: [head, habit]."""
        found = np.minimum(self.share - self.average, self.share - self.chance) > MARGIN
        found[:, self.same] &= self.share[:, self.same] - self.share[:, self.even] > MARGIN
        return found

    def sure(self, units: Sequence[Unit]) -> np.ndarray:
        """The test over pairs, at a level that counts all heads and candidates. Shape: [head, habit]."""
        k, n = len(units), sum(unit.n for unit in units)
        q = float(student.ppf(1 - 0.025 / self.share.size, k - 1))
        on, even = (
            np.array([(getattr(unit, of) - mean * unit.n) / n for unit in units])
            for of, mean in (("on", self.share), ("even", self.chance))
        )

        def beyond(other: np.ndarray, off: np.ndarray) -> np.ndarray:
            error = np.sqrt(k / (k - 1) * ((on - off) ** 2).sum(0))
            return self.share - other - q * error > MARGIN

        found = beyond(self.average, on.mean(1, keepdims=True)) & beyond(self.chance, even)
        to_even = beyond(self.share[:, [self.even]], on[..., [self.even]])
        found[:, self.same] &= to_even[:, self.same]
        return found

    def best(self, head: int, qualified: np.ndarray) -> int | None:
        """The one that is farthest from the average head, by relative entropy."""
        places = np.flatnonzero(qualified[head]).tolist()
        return max(places, key=lambda c: _gain(self.share[head, c], self.average[c]), default=None)


def _gain(m: float, a: float) -> float:
    return sum(p * math.log(p / q) for p, q in ((m, a), (1 - m, 1 - a)) if p > 0)


def _told(units: Sequence[Unit], special: str, *, of_pairs: bool) -> list[Does]:
    """What every head does by some pairs, or by the words of one input."""
    add = _adding(units)
    whole, rng, count = add(), np.random.default_rng(0), len(units)
    means, heads = Means(whole, special), range(len(whole.on))
    qualified = means.above & means.sure(units) if of_pairs else means.above
    habit = [means.best(head, qualified) for head in heads]
    first = [_does(whole, special, head, habit[head]) for head in heads]
    holds, same = [0] * len(heads), [0] * len(heads)
    for _ in range(DRAWN):  # as many units as there are, drawn with replacement, as attnscan draws them
        drawn = add(rng.multinomial(count, np.full(count, 1 / count)).astype(float))
        again = Means(drawn, special)
        above = again.above
        for head in heads:
            holds[head] += habit[head] is not None and above[head, habit[head]]
            same[head] += _does(drawn, special, head, again.best(head, above))[0] == first[head][0]
    told, scores = [], [_scores(whole, head) for head in heads]
    for head in heads:
        label, among, _ = _does(whole, special, head, habit[head] if holds[head] >= 0.95 * DRAWN else None)
        share = average = NAN
        if among in PATTERNS and followed(scores[head], special):
            share, average = scores[head][among].mean(), mean_of([of[among].mean() for of in scores])
        elif among:
            share, average = (float(of[means.names.index(among)]) for of in (means.share[head], means.average))
        rest_on = [unit for unit in units if label not in PATTERNS or unit.patterns[head, PATTERNS.index(label), 1]]
        # a habit's label rests on every unit, whatever its name
        stays = same[head] / DRAWN if label and len(units if first[head][2] else rest_on) >= 5 else NAN
        told.append(Does(label, among, share, average, stays))
    return told


def _scores(unit: Unit, head: int) -> dict[str, Score]:
    return {p: Score([Measured(*own)]) for p, own in zip(PATTERNS, unit.patterns[head].tolist(), strict=True)}


def _does(unit: Unit, special: str, head: int, habit: int | None) -> tuple[str, str, bool]:
    """The label, what the head does among words, and whether the label is a habit."""
    scores = _scores(unit, head)
    pattern = followed(scores, special)
    among = pattern or ("" if habit is None else names_of(special)[habit])
    if scores["delimiter"].n and scores["delimiter"].mean() > 0.5:
        return "delimiter", among, False
    return among, among, not pattern and habit is not None


def _compared(
    table: str, rows: Sequence[Row], units: Sequence[Unit], special: str, *, of_pairs: bool
) -> Iterator[Tally]:
    """What each head does beside the same of these units."""
    tally, stay = Tally(table), Tally(f"{table}, stay", 0.0021, "two of a thousand drawings, which rounding may turn")
    told = _told(units, special, of_pairs=of_pairs)
    tally.same("heads", len(rows), len(told))
    for row in rows:
        (layer, head), does = head_of(row), told[12 * int(row["layer"]) + int(row["head"])]
        tally.same(f"{layer}-{head} label", row["label"], does.label)
        tally.same(f"{layer}-{head} among_words", row["among_words"], does.among_words)
        tally.row(row, f"{layer}-{head}", share=does.share, average=does.average)
        stay.row(row, f"{layer}-{head}", label_stays=does.stays)
    yield tally
    yield stay

"""Labels a second time, without attnscan: patterns, classes, habits, M, E, A, their errors, the rule and the drawings.

What heads carry is worked out from transformers' own hidden states, for BERTs alone. Every sum is a plain loop over
words and keys; numpy adds up what is drawn, by attnscan's own draw. `truth.py` runs it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from by_loops import NAN, PATTERNS, Checkpoint, Head, Input, Measured, Score, added, by_query, followed, whole_words
from by_loops import targets as targets_of
from scipy.stats import t as student
from written import PAIR, Row, Tally, command, hash_of, head_of, over, shipped

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
    """What a pair, or a word of one input, adds up to, by head: patterns, each habit's share and that by chance."""

    n: float
    patterns: Mapping[Head, Mapping[str, Measured]]
    on: Mapping[Head, Sequence[float]]
    even: Mapping[Head, Sequence[float]]


def labels(checkpoint: Checkpoint) -> Iterator[Tally]:
    """The label of every head on one input, and over all pairs that attnscan ships, by every reading."""
    one, frequent = checkpoint.read(PAIR), frequent_ids(checkpoint)
    for by, special in READINGS:
        asked = ("--model", checkpoint.name, "--no-related", "--predictive", "off", "--by", by, "--special", special)
        words = list(_by_word(one, _read(checkpoint, one, by), frequent, special))
        rows, what = command("classify", *PAIR, *asked), f"labels by {by}, special {special}"
        yield from _compared(f"classify, {what}", rows, words, special, of_pairs=False)
        rows, pairs = over(shipped(), "heads", *asked), sorted(shipped(), key=lambda pair: hash_of(*pair))
        units = [_of_pair(checkpoint, pair, by, frequent, special) for pair in pairs]  # as attnscan draws them
        yield from _compared(f"heads, {what}", rows, units, special, of_pairs=True)


def label_of(checkpoint: Checkpoint, pairs: Sequence[tuple[str, str]]) -> dict[Head, str]:
    """Every head's label over some pairs, by the reading that attnscan uses unasked."""
    frequent = frequent_ids(checkpoint)
    units = [
        _of_pair(checkpoint, pair, "weight", frequent, "out") for pair in sorted(pairs, key=lambda pair: hash_of(*pair))
    ]
    return {head: did.label for head, did in _told(units, "out", of_pairs=True).items()}


def _of_pair(checkpoint: Checkpoint, pair: Sequence[str], by: str, frequent: frozenset[int], special: str) -> Unit:
    one = checkpoint.read(pair)
    return _sum(list(_by_word(one, _read(checkpoint, one, by), frequent, special)))


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
def carried(checkpoint: Checkpoint, one: Input) -> Matrices:
    """The weight times how long the key's value is once it is projected; and that length."""
    told, found = checkpoint.run(one.inputs, output_hidden_states=True), {}
    layers = zip(checkpoint.network.encoder.layer, told.attentions, told.hidden_states, strict=False)
    for number, (layer, weights, states) in enumerate(layers):
        size, values = layer.attention.self.attention_head_size, layer.attention.self.value(states[0])
        for head in range(weights.shape[1]):
            own = slice(head * size, (head + 1) * size)
            length = (values[:, own] @ layer.attention.output.dense.weight[:, own].T).norm(dim=-1)
            found[number, head] = (weights[0, head] * length).tolist(), length.tolist()
    return found


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
        own = {head: {p: found.get(i, Measured()) for p, found in of.items()} for head, of in patterns.items()}
        yield Unit(1, own, on, even)


def _added(classes: Mapping[int, str], kinds: Mapping[int, str], row: Mapping[int, float]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for j, value in row.items():
        sums[classes[j]] = sums.get(classes[j], 0.0) + value
        if j in kinds:
            sums[kinds[j]] = sums.get(kinds[j], 0.0) + value
    return sums


def _of_candidates(sums: Mapping[str, float], special: str) -> list[float]:
    return [sum(sums.get(part, 0.0) for part in CANDIDATES[name]) for name in names_of(special)]


def _sum(units: Sequence[Unit]) -> Unit:
    heads, first = units[0].on, units[0]

    def total(name: str, head: Head) -> list[float]:
        return [sum(values) for values in zip(*(getattr(unit, name)[head] for unit in units), strict=True)]

    patterns = {
        head: {p: added([unit.patterns[head][p] for unit in units]) for p in first.patterns[head]} for head in heads
    }
    on, even = ({head: total(name, head) for head in heads} for name in ("on", "even"))
    return Unit(sum(unit.n for unit in units), patterns, on, even)


@dataclass(frozen=True)
class Means:
    """M and E of every head, and A, habit by habit."""

    names: Sequence[str]
    share: Mapping[Head, Sequence[float]]
    chance: Mapping[Head, Sequence[float]]
    average: Sequence[float]

    def above(self, head: Head) -> list[int]:
        """The habits that are above the average head and even attention by the margin."""
        m, e = self.share[head], self.chance[head]
        return [
            c
            for c, name in enumerate(self.names)
            if m[c] - self.average[c] > MARGIN
            and m[c] - e[c] > MARGIN
            and (name != "same-keys" or m[c] - m[self.names.index("even")] > MARGIN)
        ]

    def best(self, head: Head, qualified: Sequence[int]) -> int | None:
        """The one that is farthest from the average head, by relative entropy."""
        return max(qualified, key=lambda c: _gain(self.share[head][c], self.average[c]), default=None)


def _gain(m: float, a: float) -> float:
    return sum(p * math.log(p / q) for p, q in ((m, a), (1 - m, 1 - a)) if p > 0)


def _means(unit: Unit, special: str) -> Means:
    share, chance = (
        {head: [value / unit.n for value in values] for head, values in of.items()} for of in (unit.on, unit.even)
    )
    average = [sum(values) / len(share) for values in zip(*share.values(), strict=True)]
    return Means(names_of(special), share, chance, average)


def _sure(units: Sequence[Unit], means: Means, head: Head, c: int) -> bool:
    """The test over pairs, at a level that counts all heads and candidates."""
    heads, k, n = list(units[0].on), len(units), sum(u.n for u in units)
    q = float(student.ppf(1 - 0.025 / (len(heads) * len(means.names)), k - 1))

    def off(of: str, head: Head, c: int, mean: float) -> list[float]:
        return [(getattr(u, of)[head][c] - mean * u.n) / n for u in units]

    m, own = means.share[head][c], off("on", head, c, means.share[head][c])
    of_heads = [off("on", other, c, means.share[other][c]) for other in heads]
    average = [sum(values) / len(heads) for values in zip(*of_heads, strict=True)]
    pairs = [(means.average[c], average), (means.chance[head][c], off("even", head, c, means.chance[head][c]))]
    if means.names[c] == "same-keys":
        e = means.names.index("even")
        pairs.append((means.share[head][e], off("on", head, e, means.share[head][e])))
    spreads = [sum((a - b) ** 2 for a, b in zip(own, other, strict=True)) for _, other in pairs]
    errors = [math.sqrt(k / (k - 1) * spread) for spread in spreads]
    return all(m - other - q * error > MARGIN for (other, _), error in zip(pairs, errors, strict=True))


@dataclass(frozen=True)
class Does:
    """What a head does, with its number and the average head's, and in how many drawings its label stays."""

    label: str
    among_words: str
    share: float
    average: float
    stays: float


def _told(units: Sequence[Unit], special: str, *, of_pairs: bool) -> dict[Head, Does]:
    """What every head does by some pairs, or by the words of one input."""
    whole = _sum(units)
    means, heads = _means(whole, special), list(whole.on)
    habit = {}
    for head in heads:
        qualified = [c for c in means.above(head) if not of_pairs or _sure(units, means, head, c)]
        habit[head] = means.best(head, qualified)
    first = {head: _does(whole, special, head, habit[head]) for head in heads}
    holds, same = dict.fromkeys(heads, 0), dict.fromkeys(heads, 0)
    for drawn in _drawings(units):
        again = _means(drawn, special)
        for head in heads:
            above = again.above(head)
            holds[head] += habit[head] in above
            same[head] += _does(drawn, special, head, again.best(head, above))[0] == first[head][0]
    told, scores = {}, _scores(whole)
    for head in heads:
        kept = habit[head] if holds[head] >= 0.95 * DRAWN else None
        label, among, _ = _does(whole, special, head, kept)
        share = average = NAN
        if among in PATTERNS and followed(scores[head], special):
            known = [of[among].mean() for of in scores.values()]
            share, average = scores[head][among].mean(), sum(known) / len(known)
        elif among:
            place = means.names.index(among)
            share, average = means.share[head][place], means.average[place]
        rest_on = [unit for unit in units if label not in PATTERNS or unit.patterns[head][label].n]
        if first[head][2]:  # a habit's label rests on every unit, whatever its name
            rest_on = list(units)
        stays = same[head] / DRAWN if label and len(rest_on) >= 5 else NAN
        told[head] = Does(label, among, share, average, stays)
    return told


def _scores(unit: Unit) -> dict[Head, dict[str, Score]]:
    return {head: {p: Score([measured]) for p, measured in own.items()} for head, own in unit.patterns.items()}


def _does(unit: Unit, special: str, head: Head, habit: int | None) -> tuple[str, str, bool]:
    """The label, what the head does among words, and whether the label is a habit."""
    scores = {p: Score([measured]) for p, measured in unit.patterns[head].items()}
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
    tally.same("heads", sorted(map(head_of, rows)), sorted(told))
    for row in rows:
        head, does = head_of(row), told[head_of(row)]
        tally.same(f"{head} label", row["label"], does.label)
        tally.same(f"{head} among_words", row["among_words"], does.among_words)
        tally.row(row, f"{head}", share=does.share, average=does.average)
        stay.row(row, f"{head}", label_stays=does.stays)
    yield tally
    yield stay


def _drawings(units: Sequence[Unit]) -> Iterator[Unit]:
    """As many units as there are, drawn with replacement and added up, again and again."""
    count, heads, names = len(units), list(units[0].on), ("weight", "n", "chance", "itself", "whole")
    on, even = (np.array([[getattr(u, of)[head] for head in heads] for u in units]) for of in ("on", "even"))
    patterns = np.array(
        [[[[getattr(u.patterns[h][p], name) for name in names] for p in PATTERNS] for h in heads] for u in units]
    )
    n, rng = np.array([float(u.n) for u in units]), np.random.default_rng(0)
    for _ in range(DRAWN):
        times = rng.multinomial(count, np.full(count, 1 / count)).astype(float)
        of_heads = np.tensordot(times, patterns, 1).tolist()
        measured = {
            head: {p: Measured(*values) for p, values in zip(PATTERNS, own, strict=True)}
            for head, own in zip(heads, of_heads, strict=True)
        }
        sums = (dict(zip(heads, np.tensordot(times, values, 1).tolist(), strict=True)) for values in (on, even))
        yield Unit(float(times @ n), measured, *sums)

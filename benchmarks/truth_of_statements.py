"""Statements a second time, without attnscan: classes, candidates, M, E, A, their errors, the rule and the drawings.

What heads carry is worked out from transformers' own hidden states, for BERTs alone. Every sum is a plain loop over
words and keys; numpy adds up what is drawn, by attnscan's own draw. `truth.py` runs it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from by_loops import NAN, Checkpoint, Head, Input, whole_words
from scipy.stats import t as student
from written import Row, Tally, command, head_of, over, shipped

PAIR = ("The old cat sat on the mat, and the cat slept.", "A dog saw the old cat on its mat.")
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
READINGS = (("carried", "out"), ("carried", "in"), ("weight", "out"), ("weight", "in"))
"""What of heads is read, and whether special tokens are keys; the first is the one that attnscan states heads by."""


def names_of(special: str) -> tuple[str, ...]:
    """The candidates of a reading, those of special tokens only where these are keys."""
    return tuple(name for name in CANDIDATES if special == "in" or name not in SPECIAL)


@dataclass(frozen=True)
class Unit:
    """What a pair, or a word of one input, adds up to: words, and by head each candidate's share and that by chance."""

    n: int
    on: Mapping[Head, Sequence[float]]
    even: Sequence[float]


def statements(checkpoint: Checkpoint) -> Iterator[Tally]:
    """The statement of every head on one input, and over all pairs that attnscan ships, by every reading."""
    one, frequent = checkpoint.read(PAIR), frequent_ids(checkpoint)
    for by, special in READINGS:
        asked = ("--model", checkpoint.name, "--no-related", "--predictive", "off", "--by", by, "--special", special)
        words = [_sum([unit]) for unit in _by_word(one, _read(checkpoint, one, by), frequent, special)]
        rows, what = command("classify", *PAIR, *asked), f"statements by {by}, special {special}"
        yield from _compared(f"classify, {what}", rows, words, names_of(special), of_pairs=False)
        rows, pairs = over(shipped(), "heads", *asked, "--labels"), sorted(shipped(), key=_hash)
        units = [_of_pair(checkpoint, pair, by, frequent, special) for pair in pairs]  # as attnscan draws them
        yield from _compared(f"heads --labels, {what}", rows, units, names_of(special), of_pairs=True)


def _of_pair(checkpoint: Checkpoint, pair: Sequence[str], by: str, frequent: frozenset[int], special: str) -> Unit:
    one = checkpoint.read(pair)
    return _sum(list(_by_word(one, _read(checkpoint, one, by), frequent, special)))


def _read(checkpoint: Checkpoint, one: Input, by: str) -> list[list[list[list[float]]]]:
    return carried(checkpoint, one) if by == "carried" else checkpoint.weights(one)


def _hash(pair: Sequence[str]) -> str:
    texts = [text.encode() for text in pair]
    return hashlib.sha256(b"".join(len(text).to_bytes(8, "big") + text for text in texts)).hexdigest()


def frequent_ids(checkpoint: Checkpoint) -> frozenset[int]:
    """The hundred words that come first in the vocabulary."""
    return frozenset(whole_words(checkpoint)[0][:100])


def carried(checkpoint: Checkpoint, one: Input) -> list[list[list[list[float]]]]:
    """By layer, head, query and key: the weight times how long the key's value is once it is projected."""
    tensors = {name: torch.tensor([values]) for name, values in one.inputs.items()}
    with torch.inference_mode():
        told = checkpoint.network(**tensors, output_attentions=True, output_hidden_states=True)
        layers = []
        for layer, weights, states in zip(
            checkpoint.network.encoder.layer, told.attentions, told.hidden_states, strict=False
        ):
            heads, size = weights.shape[1], layer.attention.self.attention_head_size
            values = layer.attention.self.value(states[0])
            of_heads = []
            for head in range(heads):
                own = slice(head * size, (head + 1) * size)
                length = (values[:, own] @ layer.attention.output.dense.weight[:, own].T).norm(dim=-1)
                of_heads.append((weights[0, head] * length).tolist())
            layers.append(of_heads)
    return layers


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


def _by_word(
    one: Input, matrices: Sequence[Sequence[Sequence[Sequence[float]]]], frequent: frozenset[int], special: str
) -> Iterator[Unit]:
    """Each word by itself: its row over words alone, or over all keys, adding up to 1."""
    words, ids = one.words, one.inputs["input_ids"]
    keys = words if special == "out" else list(range(len(one.sentence)))
    kinds = {j: "frequent" if ids[j] in frequent else "rare" if one.content[j] else "" for j in words}
    heads = {(layer, head): matrix for layer, own in enumerate(matrices) for head, matrix in enumerate(own)}
    rows = {
        (head, i): {j: matrix[i][j] / sum(matrix[i][k] for k in keys) for j in keys}
        for head, matrix in heads.items()
        for i in words
    }
    columns = {(head, j): sum(rows[head, i][j] for i in words) for head in heads for j in keys}
    for i in words:
        classes = {j: _class(one, i, j) for j in keys}
        even, on = _added(classes, kinds, dict.fromkeys(keys, 1 / len(keys))), {}
        for head in heads:
            row, others = rows[head, i], max(1, len(words) - 1)
            sums = _added(classes, kinds, row)
            sums["even"] = sum(min(value, 1 / len(keys)) for value in row.values())
            sums["same keys"] = sum(min(value, (columns[head, j] - value) / others) for j, value in row.items())
            on[head] = _of_candidates(sums, special)
        yield Unit(1, on, _of_candidates(even, special))


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
    on = {head: [sum(values) for values in zip(*(u.on[head] for u in units), strict=True)] for head in units[0].on}
    return Unit(sum(u.n for u in units), on, [sum(values) for values in zip(*(u.even for u in units), strict=True)])


@dataclass(frozen=True)
class Means:
    """M of every head, E and A, candidate by candidate."""

    names: Sequence[str]
    share: Mapping[Head, Sequence[float]]
    chance: Sequence[float]
    average: Sequence[float]

    def above(self, head: Head) -> list[int]:
        """The candidates that are above the average head and even attention by the margin."""
        m = self.share[head]
        return [
            c
            for c, name in enumerate(self.names)
            if m[c] - self.average[c] > MARGIN
            and m[c] - self.chance[c] > MARGIN
            and (name != "same-keys" or m[c] - m[self.names.index("even")] > MARGIN)
        ]

    def best(self, head: Head, qualified: Sequence[int]) -> int | None:
        """The one that is farthest from the average head, by relative entropy."""
        return max(qualified, key=lambda c: _gain(self.share[head][c], self.average[c]), default=None)


def _gain(m: float, a: float) -> float:
    return sum(p * math.log(p / q) for p, q in ((m, a), (1 - m, 1 - a)) if p > 0)


def _means(names: Sequence[str], n: float, on: Mapping[Head, Sequence[float]], even: Sequence[float]) -> Means:
    share = {head: [value / n for value in values] for head, values in on.items()}
    average = [sum(values) / len(share) for values in zip(*share.values(), strict=True)]
    return Means(names, share, [value / n for value in even], average)


def _sure(units: Sequence[Unit], means: Means, head: Head, c: int) -> bool:
    """The test over pairs, at a level that counts all heads and candidates."""
    heads, k, n = list(units[0].on), len(units), sum(u.n for u in units)
    q = float(student.ppf(1 - 0.025 / (len(heads) * len(means.names)), k - 1))
    own = [(u.on[head][c] - means.share[head][c] * u.n) / n for u in units]
    average = [sum((u.on[h][c] - means.share[h][c] * u.n) / n for h in heads) / len(heads) for u in units]
    even = [(u.even[c] - means.chance[c] * u.n) / n for u in units]
    pairs = [
        (means.share[head][c] - means.average[c], average),
        (means.share[head][c] - means.chance[c], even),
    ]
    if means.names[c] == "same-keys":
        e = means.names.index("even")
        spread = [(u.on[head][e] - means.share[head][e] * u.n) / n for u in units]
        pairs.append((means.share[head][c] - means.share[head][e], spread))
    return all(
        difference - q * math.sqrt(k / (k - 1) * sum((a - b) ** 2 for a, b in zip(own, other, strict=True))) > MARGIN
        for difference, other in pairs
    )


def _compared(
    table: str, rows: Sequence[Row], units: Sequence[Unit], names: Sequence[str], *, of_pairs: bool
) -> Iterator[Tally]:
    """Every column of statements beside the same of these units."""
    whole = _sum(units)
    means = _means(names, whole.n, whole.on, whole.even)
    winner = {}
    for head in whole.on:
        qualified = [c for c in means.above(head) if not of_pairs or _sure(units, means, head, c)]
        winner[head] = means.best(head, qualified)
    holds, again = dict.fromkeys(whole.on, 0), dict.fromkeys(whole.on, 0)
    for drawn in _drawings(names, units):
        for head, best in winner.items():
            above = drawn.above(head)
            holds[head] += best in above
            again[head] += best is not None and drawn.best(head, above) == best
    tally, stay = Tally(table), Tally(f"{table} stay", 0.0021, "two of a thousand drawings, which rounding may turn")
    tally.same("heads", sorted(map(head_of, rows)), sorted(whole.on))
    for row in rows:
        head = head_of(row)
        best = winner[head] if holds[head] >= 0.95 * DRAWN else None
        tally.same(f"{head} statement", row["statement"], "average" if best is None else names[best])
        expected = dict.fromkeys(("share", "chance", "average", "rank"), NAN)
        if best is not None:
            m = means.share[head][best]
            rank = 1 + sum(means.share[other][best] > m for other in means.share)
            expected = {"share": m, "chance": means.chance[best], "average": means.average[best], "rank": rank}
        tally.row(row, f"{head}", **{f"statement_{name}": value for name, value in expected.items()})
        stay.row(row, f"{head}", statement_stays=NAN if best is None else again[head] / DRAWN)
    yield tally
    yield stay


def _drawings(names: Sequence[str], units: Sequence[Unit]) -> Iterator[Means]:
    """M, E and A of as many units as there are, drawn with replacement, again and again."""
    count, heads = len(units), list(units[0].on)
    on = np.array([[u.on[head] for head in heads] for u in units])
    even, n = np.array([u.even for u in units]), np.array([float(u.n) for u in units])
    rng = np.random.default_rng(0)
    for _ in range(DRAWN):
        times = rng.multinomial(count, np.full(count, 1 / count)).astype(float)
        summed = np.tensordot(times, on, 1).tolist()
        yield _means(names, times @ n, dict(zip(heads, summed, strict=True)), (times @ even).tolist())

"""What `truth.py` does, for the tables that say more than scores: similar, compare and ablate."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence

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
    every_head,
    false_discovery_rates,
    targets,
)
from scipy.stats import t as student
from truth_of_labels import label_of
from written import Row, Tally, head_of, over, shipped

PAIRS = 4
SWITCHED_OFF: tuple[Head, Head] = ((0, 2), (1, 8))
CONTROLS = 8


def scores_of(checkpoint: Checkpoint, pairs: Sequence[tuple[str, str]]) -> dict[Head, dict[str, Score]]:
    """Every head's scores among words; `predictive` is not asked for."""
    of_pairs = []
    for pair in pairs:
        one = checkpoint.read(pair)
        of_pairs.append(every_head(one, checkpoint.weights(one), targets(one)))
    return scores_over(of_pairs)


def scores_over(of_pairs: Sequence[Mapping[Head, Mapping[str, Measured]]]) -> dict[Head, dict[str, Score]]:
    """Every head's scores, from what it has in every pair."""
    return {
        head: {pattern: Score([own[head][pattern] for own in of_pairs]) for pattern in PATTERNS} for head in of_pairs[0]
    }


def similar(checkpoint: Checkpoint) -> Iterator[Tally]:
    """The Jensen-Shannon divergence of every two heads, groups and the map."""
    pairs, tally = shipped(PAIRS), Tally("similar")
    asked = ("--model", checkpoint.name, "--queries", "999", "--nearest", "71")
    rows = {head_of(row): row for row in over(pairs, "similar", *asked)}
    labels, order = label_of(checkpoint, pairs), sorted(rows)
    apart = _divergences(checkpoint, pairs)
    between = np.zeros((len(order), len(order)))
    for a, b in itertools.combinations(range(len(order)), 2):
        between[a, b] = between[b, a] = apart[order[a], order[b]].mean()
    groups = sorted(_grouped(between.tolist(), 0.1), key=lambda group: (-len(group), group))
    places = np.abs(_placed(between))
    for place, head in enumerate(order):
        row, what = rows[head], str(head)
        others = [tuple(map(int, row[f"nearest_{i}"].split("-"))) for i in range(1, 72)]
        tally.same(f"{what} others", sorted([*others, head]), order)
        for i, other in enumerate(others, 1):
            score = apart[min(head, other), max(head, other)]
            tally.row(row, what, **{f"divergence_{i}": score.mean(), f"se_{i}": score.se})
        tally.same(f"{what} label", row["label"], labels[head])
        tally.same(f"{what} group", int(row["group"]), 1 + next(i for i, own in enumerate(groups) if place in own))
        for axis, column in enumerate("xy"):  # an axis may point either way
            tally.compare(f"{what} {column}", row[column].removeprefix("'").removeprefix("-"), places[place, axis])
    yield tally


def _divergences(checkpoint: Checkpoint, pairs: Sequence[tuple[str, str]]) -> dict[tuple[Head, Head], Score]:
    """H of the mean less the mean of both H, summed over a pair's words."""
    found: dict[tuple[Head, Head], list[Measured]] = {}
    for pair in pairs:
        one = checkpoint.read(pair)
        rows = {
            (layer, head): [_among(matrix[i], one.words) for i in one.words]
            for layer, matrices in enumerate(checkpoint.weights(one))
            for head, matrix in enumerate(matrices)
        }
        own = {head: [_entropy(row) for row in of_head] for head, of_head in rows.items()}
        for a, b in itertools.combinations(sorted(rows), 2):
            both = zip(rows[a], rows[b], own[a], own[b], strict=True)
            total = sum(_entropy([(x + y) / 2 for x, y in zip(p, q, strict=True)]) - (h + k) / 2 for p, q, h, k in both)
            found.setdefault((a, b), []).append(Measured(total, len(one.words)))
    return {both: Score(of_pairs) for both, of_pairs in found.items()}


def _among(row: Sequence[float], words: Sequence[int]) -> list[float]:
    """A row's weights on words, renormalised."""
    total = sum(row[j] for j in words)
    return [row[j] / total for j in words]


def _entropy(weights: Sequence[float]) -> float:
    return -sum(w * math.log(w) for w in weights if w > 0)


def _grouped(between: Sequence[Sequence[float]], within: float) -> list[list[int]]:
    """Groups by average linkage: the nearest two are joined while they are nearer than `within` on average."""
    groups = [[i] for i in range(len(between))]
    while len(groups) > 1:
        apart = [
            (sum(between[i][j] for i in a for j in b) / (len(a) * len(b)), x, y)
            for (x, a), (y, b) in itertools.combinations(enumerate(groups), 2)
        ]
        least, x, y = min(apart)
        if least >= within:
            break
        groups[x] = sorted(groups[x] + groups.pop(y))
    return groups


def _placed(between: np.ndarray) -> np.ndarray:
    """Classical scaling in two dimensions; a divergence is a squared distance."""
    centre = np.eye(len(between)) - 1 / len(between)
    values, vectors = np.linalg.eigh(-centre @ between @ centre / 2)
    return vectors[:, [-1, -2]] * np.sqrt(values[[-1, -2]])


def compare(checkpoint: Checkpoint) -> Iterator[Tally]:
    """A model beside itself with every weight changed a little."""
    pairs, tally = shipped(PAIRS), Tally("compare")
    with tempfile.TemporaryDirectory() as directory:
        other = Checkpoint(checkpoint.directory)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for values in other.network.parameters():
                noise = torch.randn(values.shape, generator=generator)
                values += 0.2 * values.std(correction=0) * noise
        other.network.save_pretrained(directory)
        other.tokenizer.save_pretrained(directory)
        rows = over(pairs, "compare", checkpoint.name, directory)
    ours, theirs = scores_of(checkpoint, pairs), scores_of(other, pairs)
    labels_a, labels_b = label_of(checkpoint, pairs), label_of(other, pairs)
    p = [_p_value(row, ours, theirs) for row in rows]
    rates = false_discovery_rates(p)
    tally.same("rows", len(rows), len(ours) * (len(PATTERNS) - 1))  # `predictive` is not compared
    for place, row in enumerate(rows):
        head, pattern = head_of(row), row["pattern"]
        a, b = ours[head][pattern], theirs[head][pattern]
        expected = {"score_a": a.mean(), "score_b": b.mean(), "difference": b.mean() - a.mean()}
        expected |= {"se": a.se_beside(b), "n": a.n, "pairs": a.pairs}
        if "p" in row:
            expected |= {"p": p[place], "fdr": rates[place]}
        tally.row(row, f"{head} {pattern}", **expected)
        tally.same(f"{head} label_a", row["label_a"], labels_a[head])
        tally.same(f"{head} label_b", row["label_b"], labels_b[head])
    if "p" not in rows[0]:
        tally.table += " (without p, fdr)"
    yield tally


def _p_value(row: Row, ours: Mapping[Head, Mapping[str, Score]], theirs: Mapping[Head, Mapping[str, Score]]) -> float:
    """Two-sided, by t with one degree of freedom fewer than pairs."""
    a, b = (scores[head_of(row)][row["pattern"]] for scores in (ours, theirs))
    se = a.se_beside(b)
    if math.isnan(se):
        return NAN
    t = abs(b.mean() - a.mean()) / se if b.mean() != a.mean() else 0.0
    return 2 * float(student.sf(t, a.pairs - 1))


def ablate(checkpoint: Checkpoint) -> Iterator[Tally]:
    """Two heads switched off, beside drawn others of their layers: 1 - cosine of the vector at [CLS]."""
    pairs, tally = shipped(PAIRS), Tally("ablate --measure cls")
    named = ",".join(f"{layer}-{head}" for layer, head in SWITCHED_OFF)
    asked = ("--heads", named, "--measure", "cls", "--draws", str(CONTROLS))
    (row,) = over(pairs, "ablate", *asked, "--model", checkpoint.name)
    controls = _controls()
    inputs = [checkpoint.read(pair) for pair in pairs]
    intact = [_vector(checkpoint, one, ()) for one in inputs]
    turned = {
        off: [1 - _cosine(_vector(checkpoint, one, off), own) for one, own in zip(inputs, intact, strict=True)]
        for off in (SWITCHED_OFF, *controls)
    }
    others = [sum(turned[off]) / len(pairs) for off in controls]
    mean = sum(others) / CONTROLS
    variance = sum((value - mean) ** 2 for value in others) / (CONTROLS - 1)
    by_pair = [
        Measured(own - sum(turned[off][k] for off in controls) / CONTROLS, 1.0)
        for k, own in enumerate(turned[SWITCHED_OFF])
    ]
    effect, drawn_of = Score(by_pair), 11 * 11
    by_draw = variance / CONTROLS * (1 - CONTROLS / drawn_of if "controls" in row else 1.0)
    ablated = sum(turned[SWITCHED_OFF]) / len(pairs)
    expected = {"intact": 0.0, "ablated": ablated, "control": mean, "effect": effect.mean()}
    expected |= {"se": math.sqrt(effect.se**2 + by_draw), "n": len(pairs), "pairs": len(pairs), "overlap": 0.0}
    if "controls" in row:
        rank = 1 + sum(value >= ablated for value in others)
        expected |= {"controls": CONTROLS, "spread": math.sqrt(variance), "rank": rank, "p": rank / (CONTROLS + 1)}
    tally.row(row, named, **expected)
    yield tally


def _controls() -> list[tuple[Head, ...]]:
    """The sets that attnscan draws: numpy's generator, seeded with the seed and the heads' numbers; all distinct."""
    generator = np.random.default_rng([0, *itertools.chain.from_iterable(SWITCHED_OFF)])
    found: list[tuple[Head, ...]] = []
    for _ in range(CONTROLS):
        drawn = []
        for layer, own in SWITCHED_OFF:
            others = [head for head in range(12) if head != own]
            drawn.append((layer, others[generator.permutation(len(others))[0]]))
        found.append(tuple(drawn))
    assert len(set(found)) == CONTROLS, "take another number of draws: attnscan draws again what it has drawn before"
    return found


def _vector(checkpoint: Checkpoint, one: Input, off: Sequence[Head]) -> list[float]:
    """The last hidden state at [CLS], the outputs of some heads set to zero before the output projection."""

    def hook(own: Sequence[int]) -> Callable[..., object]:
        def switch(_: object, given: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
            changed = given[0].clone()
            for head in own:
                changed[..., head * 32 : (head + 1) * 32] = 0
            return (changed,)

        return switch

    handles = [
        layer.attention.output.dense.register_forward_pre_hook(hook([head for at, head in off if at == number]))
        for number, layer in enumerate(checkpoint.network.encoder.layer)
    ]
    try:
        return checkpoint.run(one.inputs).last_hidden_state[0, 0].tolist()
    finally:
        for handle in handles:
            handle.remove()


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    length = math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / length

"""What `truth.py` does, for explain: neurons, and the score again with positions shuffled and segments changed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
from by_loops import NAN, PATTERNS, Checkpoint, Head, Input, Rows, Score, added, every_head, targets
from truth_of_labels import label_of
from truth_of_studies import PAIRS, scores_over
from written import Tally, head_of, over, shipped

SHUFFLES = 8
Vectors = list[list[float]]
Change = Callable[[Input], list[dict[str, list[int]]]]


def _shuffled(one: Input, number: int, seed: int = 0) -> list[int]:
    """The words' positions among themselves, as attnscan draws them: by seed, number and the input's token ids."""
    drawn = np.random.default_rng([seed, number, *one.inputs["input_ids"]]).permutation(one.words).tolist()
    return [drawn[one.words.index(i)] if i in one.words else i for i in range(len(one.text))]


CHANGES: dict[str, Change] = {
    "positions_shuffled": lambda one: [{"position_ids": _shuffled(one, number)} for number in range(SHUFFLES)],
    "segments_zeroed": lambda one: [{"token_type_ids": [0] * len(one.text)}],
    "segments_swapped": lambda one: [{"token_type_ids": [1 - s for s in one.inputs["token_type_ids"]]}],
}
"""What the model reads in place of what it would, by the column that says so; several times where it is drawn."""


def explain(checkpoint: Checkpoint) -> Iterator[Tally]:
    """Neurons, and the score again with positions shuffled and segments changed, of every head."""
    pairs, tally = shipped(PAIRS), Tally("explain")
    rows = over(pairs, "explain", "all", "--model", checkpoint.name)
    inputs = [checkpoint.read(pair) for pair in pairs]
    target = [targets(one) for one in inputs]
    scores = scores_over(
        [every_head(one, checkpoint.weights(one), own) for one, own in zip(inputs, target, strict=True)]
    )
    called = label_of(checkpoint, pairs)
    again = {name: _changed(checkpoint, inputs, target, change) for name, change in CHANGES.items()}
    seen = [_queries_and_keys(checkpoint, one) for one in inputs]
    tally.same("heads", [head_of(row) for row in rows], sorted(scores))
    for row in rows:
        head, pattern = head_of(row), row["pattern"]
        score, label = scores[head][pattern], called[head]
        tally.same(f"{head} label", row["label"], label)
        nearest = max(PATTERNS, key=lambda name, head=head: np.nan_to_num(scores[head][name].above_chance, nan=-1))
        tally.same(f"{head} pattern", pattern, label if label in PATTERNS else nearest)
        expected = {"score": score.mean(), "chance": score.mean("chance"), "above_chance": score.above_chance}
        expected |= {"n": score.n, "pairs": score.pairs, "se": score.se}
        for name in CHANGES:
            changed = again[name][head][pattern]
            expected |= {name: changed.mean(), f"{name}_se": changed.se, f"{name}_fall_se": score.se_beside(changed)}
        rows_of = [own[pattern] for own in target]
        expected |= _neurons(inputs, rows_of, [own[head] for own in seen])
        tally.row(row, f"{head} {pattern}", **expected)
    yield tally


def _changed(
    checkpoint: Checkpoint, inputs: Sequence[Input], target: Sequence[Rows], change: Change
) -> dict[Head, dict[str, Score]]:
    """The scores again; of a change that is drawn, a pair counts once, by its mean over the draws."""
    kept = []
    for one, own in zip(inputs, target, strict=True):
        drawn = [every_head(one, checkpoint.weights(one, **changed), own) for changed in change(one)]
        times = [1 / len(drawn)] * len(drawn)
        kept.append({head: {p: added([each[head][p] for each in drawn], times) for p in PATTERNS} for head in drawn[0]})
    return scores_over(kept)


def _queries_and_keys(checkpoint: Checkpoint, one: Input) -> dict[Head, tuple[Vectors, Vectors]]:
    """Every head's, by token and neuron."""
    found: dict[tuple[int, str], torch.Tensor] = {}
    handles = []
    for at, layer in enumerate(checkpoint.network.encoder.layer):
        for name in ("query", "key"):
            module = getattr(layer.attention.self, name)

            def keep(_: object, __: object, given: torch.Tensor, place: tuple[int, str] = (at, name)) -> None:
                found[place] = given[0].view(given.shape[1], 12, -1).transpose(0, 1)

            handles.append(module.register_forward_hook(keep))
    checkpoint.run(one.inputs)
    for handle in handles:
        handle.remove()
    layers = len(checkpoint.network.encoder.layer)
    heads = itertools.product(range(layers), range(12))
    return {(at, h): (found[at, "query"][h].tolist(), found[at, "key"][h].tolist()) for at, h in heads}


def _neurons(
    inputs: Sequence[Input], rows: Sequence[Mapping[int, Mapping[int, float]]], seen: Sequence[tuple[Vectors, Vectors]]
) -> dict[str, float]:
    """Effective neurons, stability and sign agreement of one head on one pattern."""
    effective: list[float] = []
    overlaps: list[float] = []
    agree: list[bool] = []
    for one, of_query, (queries, keys) in zip(inputs, rows, seen, strict=True):
        strongest = {}
        for i, target in of_query.items():
            others = [j for j in range(len(one.text)) if j not in target]
            q, on_target, elsewhere = queries[i], _mean_key(keys, target), _mean_key(keys, others)
            contrast = [x * (a - b) / math.sqrt(len(q)) for x, a, b in zip(q, on_target, elsewhere, strict=True)]
            effective.append(sum(map(abs, contrast)) ** 2 / sum(c * c for c in contrast))
            strongest[i] = set(sorted(range(len(q)), key=lambda n: -abs(contrast[n]))[:4])
            own, other = ([j for j in one.words if (one.sentence[j] == one.sentence[i]) is it] for it in (True, False))
            if other:
                inside, across = _mean_key(keys, own), _mean_key(keys, other)
                products = [sum(q[n] * key[n] for n in strongest[i]) for key in (inside, across)]
                agree.append(products[0] > 0 > products[1])
        overlaps += [len(a & b) / len(a | b) for a, b in itertools.combinations(strongest.values(), 2)]
    return {
        "effective_neurons": sum(effective) / len(effective),
        "stability": sum(overlaps) / len(overlaps),
        "sign_agreement": sum(agree) / len(agree) if agree else NAN,
    }


def _mean_key(keys: Vectors, places: object) -> list[float]:
    some = [keys[j] for j in places]
    return [sum(values) / len(some) for values in zip(*some, strict=True)]

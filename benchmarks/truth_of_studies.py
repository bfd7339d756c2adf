"""What `truth.py` does, for the tables that say more than scores: similar, compare, ablate and explain."""

import itertools
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import by_loops as loops
import numpy as np
import torch
from by_loops import PATTERNS, Checkpoint, Head, Input
from scipy.spatial.distance import cosine, jensenshannon
from scipy.stats import t as student
from tally import Row, Tally, head_of, over, shipped
from truth_of_labels import does_of, label_of

PAIRS = 4
SWITCHED_OFF: tuple[Head, Head] = ((0, 2), (1, 8))
CONTROLS = SHUFFLES = 8


def scores_of(checkpoint: Checkpoint, pairs: Sequence[tuple[str, str]]) -> dict[Head, dict[str, loops.Score]]:
    """Every head's scores among words; `predictive` is not asked for."""
    inputs = [checkpoint.read(pair) for pair in pairs]
    return scores_over([loops.every_head(one, checkpoint.weights(one), loops.targets(one)) for one in inputs])


def scores_over(of_pairs: Sequence[Mapping[Head, Mapping[str, loops.Measured]]]) -> dict[Head, dict[str, loops.Score]]:
    """Every head's scores, from what it has in every pair."""
    return {
        head: {pattern: loops.Score([own[head][pattern] for own in of_pairs]) for pattern in PATTERNS}
        for head in of_pairs[0]
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


def _divergences(checkpoint: Checkpoint, pairs: Sequence[tuple[str, str]]) -> dict[tuple[Head, Head], loops.Score]:
    """Jensen-Shannon divergences of rows among words, summed over a pair's words."""
    found: dict[tuple[Head, Head], list[loops.Measured]] = {}
    for pair in pairs:
        one = checkpoint.read(pair)
        rows = {
            (layer, head): np.array(matrix)[np.ix_(one.words, one.words)]
            for layer, matrices in enumerate(checkpoint.weights(one))
            for head, matrix in enumerate(matrices)
        }
        for a, b in itertools.combinations(sorted(rows), 2):
            total = float((jensenshannon(rows[a], rows[b], axis=1) ** 2).sum())
            found.setdefault((a, b), []).append(loops.Measured(total, len(one.words)))
    return {both: loops.Score(of_pairs) for both, of_pairs in found.items()}


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
    rates = loops.false_discovery_rates(p)
    tally.same("rows", len(rows), len(ours) * (len(PATTERNS) - 1))  # `predictive` is not compared
    for place, row in enumerate(rows):
        head, pattern = head_of(row), row["pattern"]
        a, b = ours[head][pattern], theirs[head][pattern]
        expected = {"score_a": a.mean(), "score_b": b.mean(), "difference": b.mean() - a.mean()}
        expected |= {"se": a.se_beside(b), "n": a.n, "pairs": a.pairs, "p": p[place], "fdr": rates[place]}
        tally.row(row, f"{head} {pattern}", **expected)
        tally.same(f"{head} label_a", row["label_a"], labels_a[head])
        tally.same(f"{head} label_b", row["label_b"], labels_b[head])
    yield tally


def _p_value(
    row: Row, ours: Mapping[Head, Mapping[str, loops.Score]], theirs: Mapping[Head, Mapping[str, loops.Score]]
) -> float:
    """Two-sided, by t with one degree of freedom fewer than pairs."""
    a, b = (scores[head_of(row)][row["pattern"]] for scores in (ours, theirs))
    se = a.se_beside(b)
    if math.isnan(se):
        return loops.NAN
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
        off: [float(cosine(_vector(checkpoint, one, off), own)) for one, own in zip(inputs, intact, strict=True)]
        for off in (SWITCHED_OFF, *controls)
    }
    others = [sum(turned[off]) / len(pairs) for off in controls]
    mean = sum(others) / CONTROLS
    variance = sum((value - mean) ** 2 for value in others) / (CONTROLS - 1)
    by_pair = [
        loops.Measured(own - sum(turned[off][k] for off in controls) / CONTROLS, 1.0)
        for k, own in enumerate(turned[SWITCHED_OFF])
    ]
    effect, ablated = loops.Score(by_pair), sum(turned[SWITCHED_OFF]) / len(pairs)
    by_draw = variance / CONTROLS * (1 - CONTROLS / 11**2)  # of so many sets that could be drawn
    rank = 1 + sum(value >= ablated for value in others)
    expected = {"intact": 0.0, "ablated": ablated, "control": mean, "effect": effect.mean(), "overlap": 0.0}
    expected |= {"se": math.sqrt(effect.se**2 + by_draw), "n": len(pairs), "pairs": len(pairs)}
    expected |= {"controls": CONTROLS, "spread": math.sqrt(variance), "rank": rank, "p": rank / (CONTROLS + 1)}
    tally.row(row, named, **expected)
    yield tally


def _controls() -> list[tuple[Head, ...]]:
    """The sets that attnscan draws: numpy's generator, seeded with the seed and the heads' numbers; all distinct."""
    generator = np.random.default_rng([0, *itertools.chain.from_iterable(SWITCHED_OFF)])

    def drawn(layer: int, own: int) -> Head:
        others = [head for head in range(12) if head != own]
        return layer, others[generator.permutation(len(others))[0]]

    found = [tuple(drawn(*head) for head in SWITCHED_OFF) for _ in range(CONTROLS)]
    assert len(set(found)) == CONTROLS, "take another number of draws: attnscan draws again what it has drawn before"
    return found


def _vector(checkpoint: Checkpoint, one: Input, off: Sequence[Head]) -> list[float]:
    """The last hidden state at [CLS], the outputs of some heads set to zero before the output projection."""

    def silence(_: object, given: tuple[torch.Tensor], *, head: int) -> tuple[torch.Tensor]:
        changed = given[0].clone()
        changed[..., head * 32 : (head + 1) * 32] = 0
        return (changed,)

    layers = checkpoint.network.encoder.layer
    handles = [
        layers[layer].attention.output.dense.register_forward_pre_hook(partial(silence, head=head))
        for layer, head in off
    ]
    vector: list[float] = checkpoint.run(one.inputs).last_hidden_state[0, 0].tolist()
    for handle in handles:
        handle.remove()
    return vector


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
    target = [loops.targets(one) for one in inputs]
    scores = scores_over(
        [loops.every_head(one, checkpoint.weights(one), own) for one, own in zip(inputs, target, strict=True)]
    )
    called = does_of(checkpoint, pairs)
    again = {name: _changed(checkpoint, inputs, target, change) for name, change in CHANGES.items()}
    seen = [_queries_and_keys(checkpoint, one) for one in inputs]
    tally.same("heads", [head_of(row) for row in rows], sorted(scores))
    for row in rows:
        head, pattern = head_of(row), row["pattern"]
        score, among = scores[head][pattern], called[head].among_words
        tally.same(f"{head} label", row["label"], called[head].label)
        nearest = max(PATTERNS, key=lambda name, head=head: np.nan_to_num(scores[head][name].above_chance, nan=-1))
        tally.same(f"{head} pattern", pattern, among if among in PATTERNS else nearest)
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
    checkpoint: Checkpoint, inputs: Sequence[Input], target: Sequence[loops.Rows], change: Change
) -> dict[Head, dict[str, loops.Score]]:
    """The weights again, by the queries that count unchanged; of a change that is drawn, by their mean over draws."""
    kept = []
    for one, own in zip(inputs, target, strict=True):
        plain = loops.every_head(one, checkpoint.weights(one), own)
        # Where a query has nothing left for words, its score is 0
        drawn = [loops.every_head(one, checkpoint.weights(one, **changed), own) for changed in change(one)]
        times = [1 / len(drawn)] * len(drawn)
        means = {h: {p: loops.added([each[h][p] for each in drawn], times) for p in PATTERNS} for h in plain}
        kept.append({h: {p: replace(means[h][p], n=plain[h][p].n) for p in PATTERNS} for h in plain})
    return scores_over(kept)


def _queries_and_keys(checkpoint: Checkpoint, one: Input) -> dict[Head, tuple[Vectors, Vectors]]:
    """Every head's, by token and neuron, from the states that its layer reads."""
    found = {}
    with torch.inference_mode():
        states = checkpoint.run(one.inputs, output_hidden_states=True).hidden_states
        for at, layer in enumerate(checkpoint.network.encoder.layer):
            both = (getattr(layer.attention.self, name)(states[at][0]) for name in ("query", "key"))
            query, key = (part.view(len(part), 12, -1).transpose(0, 1).tolist() for part in both)
            found |= {(at, head): (query[head], key[head]) for head in range(12)}
    return found


def _neurons(
    inputs: Sequence[Input], rows: Sequence[Mapping[int, Mapping[int, float]]], seen: Sequence[tuple[Vectors, Vectors]]
) -> dict[str, float]:
    """Effective neurons, stability and sign agreement of one head on one pattern."""
    effective, overlaps, agree = list[float](), list[float](), list[bool]()
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
        "effective_neurons": loops.mean_of(effective),
        "stability": loops.mean_of(overlaps),
        "sign_agreement": loops.mean_of(agree),
    }


def _mean_key(keys: Vectors, places: object) -> list[float]:
    return [loops.mean_of(values) for values in zip(*(keys[j] for j in places), strict=True)]

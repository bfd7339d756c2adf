"""What `truth.py` does for the tables of studies: similar, compare, ablate and explain."""

import itertools
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import by_loops as loops
import numpy as np
import torch
from by_loops import PATTERNS, Checkpoint, Head, Input, Measures
from scipy.spatial.distance import cosine, jensenshannon
from scipy.stats import t as student
from tally import Pairs, Tally, head_of, over, shipped
from truth_of_labels import label_heads

PAIRS = 4
SWITCHED_OFF: tuple[Head, Head] = ((0, 2), (1, 8))
CONTROLS = SHUFFLES = 8
MIN_ON_WORDS = 1e-6
Scores = dict[Head, dict[str, loops.Score]]
"""Every head's score on every pattern."""


def score_heads(checkpoint: Checkpoint, pairs: Pairs) -> Scores:
    """Every head's scores among words; `predictive` is not asked for."""
    inputs = [checkpoint.read(pair) for pair in pairs]
    return gather_scores(
        [loops.every_head(one, checkpoint.weights(one), loops.targets(one)) for one in inputs]
    )


def gather_scores(of_pairs: Sequence[Measures]) -> Scores:
    """Every head's scores, from its sums in every pair."""
    scores: Scores = {head: {} for head in of_pairs[0]}
    for head, pattern in itertools.product(scores, PATTERNS):
        scores[head][pattern] = loops.Score([heads[head][pattern] for heads in of_pairs])
    return scores


def similar(checkpoint: Checkpoint) -> Iterator[Tally]:
    """The Jensen-Shannon divergence of every two heads, groups and the map."""
    pairs = shipped(PAIRS)
    tally = Tally("similar")
    heads = math.prod(checkpoint.shape)
    options = ("--model", checkpoint.name, "--queries", "999", "--nearest", str(heads - 1))
    rows = {head_of(row): row for row in over(pairs, "similar", *options)}
    does = label_heads(checkpoint, pairs)
    order = sorted(rows)
    divergences = _measure_divergences(checkpoint, pairs)
    matrix = np.zeros((len(order), len(order)))
    for a, b in itertools.combinations(range(len(order)), 2):
        matrix[a, b] = matrix[b, a] = divergences[order[a], order[b]].mean()
    groups = sorted(_group(matrix.tolist(), 0.1), key=lambda group: (-len(group), group))
    points = np.abs(_scale(matrix))
    for place, head in enumerate(order):
        row = rows[head]
        what = str(head)
        others = [tuple(map(int, row[f"nearest_{i}"].split("-"))) for i in range(1, heads)]
        tally.same(f"{what} others", sorted([*others, head]), order)
        for i, other in enumerate(others, 1):
            score = divergences[min(head, other), max(head, other)]
            tally.row(row, what, **{f"divergence_{i}": score.mean(), f"se_{i}": score.se})
        tally.same(f"{what} label", row["label"], does[head].label)
        group = next(number for number, places in enumerate(groups, 1) if place in places)
        tally.same(f"{what} group", int(row["group"]), group)
        for axis, column in enumerate("xy"):  # an axis may point either way
            tally.compare(
                f"{what} {column}",
                row[column].removeprefix("'").removeprefix("-"),
                points[place, axis],
            )
    yield tally


def _measure_divergences(
    checkpoint: Checkpoint, pairs: Pairs
) -> dict[tuple[Head, Head], loops.Score]:
    """Jensen-Shannon divergences of rows among words, summed over a pair's words."""
    found: dict[tuple[Head, Head], list[loops.Measured]] = {}
    for pair in pairs:
        one = checkpoint.read(pair)
        rows = checkpoint.weights(one)[:, :, one.words][..., one.words]
        without_words = rows.sum(-1, keepdims=True) < MIN_ON_WORDS
        rows = np.concatenate([rows * ~without_words, without_words], -1)
        for a, b in itertools.combinations(np.ndindex(rows.shape[:2]), 2):
            total = float((jensenshannon(rows[a], rows[b], axis=1) ** 2).sum())
            found.setdefault((a, b), []).append(loops.Measured(total, len(one.words)))
    return {heads: loops.Score(of_pairs) for heads, of_pairs in found.items()}


def _group(divergences: Sequence[Sequence[float]], within: float) -> list[list[int]]:
    """Groups by average linkage: the nearest two are joined while they are nearer than `within` on
    average.
    """
    groups = [[i] for i in range(len(divergences))]
    while len(groups) > 1:
        distances = []
        for (x, a), (y, b) in itertools.combinations(enumerate(groups), 2):
            between = [divergences[i][j] for i, j in itertools.product(a, b)]
            distances.append((sum(between) / len(between), x, y))
        least, x, y = min(distances)
        if least >= within:
            break
        groups[x] = sorted(groups[x] + groups.pop(y))
    return groups


def _scale(divergences: np.ndarray) -> np.ndarray:
    """Classical scaling in two dimensions; a divergence is a squared distance."""
    centre = np.eye(len(divergences)) - 1 / len(divergences)
    values, vectors = np.linalg.eigh(-centre @ divergences @ centre / 2)
    return vectors[:, [-1, -2]] * np.sqrt(values[[-1, -2]])


def compare(checkpoint: Checkpoint) -> Iterator[Tally]:
    """A model beside itself with every weight changed a little."""
    pairs = shipped(PAIRS)
    tally = Tally("compare")
    with tempfile.TemporaryDirectory() as directory:
        other = Checkpoint(checkpoint.directory)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for values in other.network.parameters():
                values += (
                    0.2 * values.std(correction=0) * torch.randn(values.shape, generator=generator)
                )
        other.network.save_pretrained(directory)
        other.tokenizer.save_pretrained(directory)
        rows = over(pairs, "compare", checkpoint.name, directory)
    ours = score_heads(checkpoint, pairs)
    theirs = score_heads(other, pairs)
    does_a = label_heads(checkpoint, pairs)
    does_b = label_heads(other, pairs)
    scores = [
        (ours[head_of(row)][row["pattern"]], theirs[head_of(row)][row["pattern"]]) for row in rows
    ]
    p = [_test_difference(a, b) for a, b in scores]
    tally.same("rows", len(rows), len(ours) * (len(PATTERNS) - 1))  # `predictive` is not compared
    for row, (a, b), p_value, rate in zip(
        rows, scores, p, loops.false_discovery_rates(p), strict=True
    ):
        head = head_of(row)
        difference = b.mean() - a.mean()
        expected = {
            "score_a": a.mean(),
            "score_b": b.mean(),
            "difference": difference,
            "se": a.se_beside(b),
        }
        expected |= {"n": a.n, "pairs": a.pairs, "p": p_value, "fdr": rate}
        tally.row(row, f"{head} {row['pattern']}", **expected)
        tally.same(f"{head} label_a", row["label_a"], does_a[head].label)
        tally.same(f"{head} label_b", row["label_b"], does_b[head].label)
    yield tally


def _test_difference(a: loops.Score, b: loops.Score) -> float:
    """The two-sided p-value, by t with one degree of freedom fewer than pairs."""
    difference = abs(b.mean() - a.mean())
    se = a.se_beside(b)
    if math.isnan(se):
        return loops.NAN
    return 2 * float(student.sf(difference / se if difference else 0.0, a.pairs - 1))


def ablate(checkpoint: Checkpoint) -> Iterator[Tally]:
    """Two heads switched off, beside drawn others of their layers: 1 - cosine of the vector at
    [CLS].
    """
    pairs = shipped(PAIRS)
    tally = Tally("ablate --measure cls")
    named = ",".join(f"{layer}-{head}" for layer, head in SWITCHED_OFF)
    options = ("--heads", named, "--measure", "cls", "--draws", str(CONTROLS))
    (row,) = over(pairs, "ablate", *options, "--model", checkpoint.name)
    inputs = [checkpoint.read(pair) for pair in pairs]
    intact = [_run_without(checkpoint, one, ()) for one in inputs]
    sets = (SWITCHED_OFF, *_draw_controls(checkpoint.shape[1]))
    falls = np.zeros((len(sets), len(inputs)))  # the set that is tested, then controls
    for row_of_set, heads in zip(falls, sets, strict=True):
        for place, (one, vector) in enumerate(zip(inputs, intact, strict=True)):
            row_of_set[place] = cosine(_run_without(checkpoint, one, heads), vector)
    ablated, *controls = falls.mean(1)
    variance = np.var(controls, ddof=1)
    effect = loops.Score([loops.Measured(fall, 1.0) for fall in falls[0] - falls[1:].mean(0)])
    possible = (checkpoint.shape[1] - 1) ** 2  # sets that could be drawn
    by_draw = variance / CONTROLS * (1 - CONTROLS / possible)
    rank = 1 + sum(control >= ablated for control in controls)
    expected = {
        "intact": 0.0,
        "ablated": ablated,
        "control": np.mean(controls),
        "effect": effect.mean(),
        "overlap": 0.0,
    }
    expected |= {"se": math.sqrt(effect.se**2 + by_draw), "n": len(pairs), "pairs": len(pairs)}
    expected |= {
        "controls": CONTROLS,
        "spread": math.sqrt(variance),
        "rank": rank,
        "p": rank / (CONTROLS + 1),
    }
    tally.row(row, named, **expected)
    yield tally


def _draw_controls(heads: int) -> list[tuple[Head, ...]]:
    """The sets that attnscan draws: numpy's generator, seeded with the seed and the heads' numbers;
    all distinct.
    """
    generator = np.random.default_rng([0, *itertools.chain.from_iterable(SWITCHED_OFF)])

    def drawn(layer: int, number: int) -> Head:
        others = [head for head in range(heads) if head != number]
        return layer, others[generator.permutation(len(others))[0]]

    found = []
    for _ in range(CONTROLS):
        found.append(tuple(itertools.starmap(drawn, SWITCHED_OFF)))
    assert len(set(found)) == CONTROLS, (
        "take another number of draws: attnscan draws again what it has drawn before"
    )
    return found


def _run_without(checkpoint: Checkpoint, one: Input, heads: Sequence[Head]) -> list[float]:
    """The last hidden state at [CLS], the outputs of some heads set to zero before the output
    projection.
    """

    def silence(_: object, inputs: tuple[torch.Tensor], *, head: int) -> tuple[torch.Tensor]:
        changed = inputs[0].clone()
        size = changed.shape[-1] // checkpoint.shape[1]
        changed[..., head * size : (head + 1) * size] = 0
        return (changed,)

    handles = []
    for layer, head in heads:
        *_, dense = checkpoint.projections(layer)
        handles.append(dense.register_forward_pre_hook(partial(silence, head=head)))
    vector: list[float] = checkpoint.run(one.inputs).last_hidden_state[0, 0].tolist()
    for handle in handles:
        handle.remove()
    return vector


Vectors = tuple[np.ndarray, np.ndarray]
"""A head's queries and keys. Shape: each [token, neuron]."""
Change = Callable[[Checkpoint, Input], list[np.ndarray]]
"""The weights of a changed input, several where the change is drawn.

Shape: each [layer, head, query, key].
"""


def _shuffle(one: Input, number: int, seed: int = 0) -> list[int]:
    """The words' positions among themselves, as attnscan draws them: by seed, number and the
    input's token ids.
    """
    drawn = (
        np.random.default_rng([seed, number, *one.inputs["input_ids"]])
        .permutation(one.words)
        .tolist()
    )
    return [drawn[one.words.index(i)] if i in one.words else i for i in range(len(one.text))]


def shuffle_positions(checkpoint: Checkpoint, one: Input) -> list[np.ndarray]:
    """The weights with words at other positions, once for each drawing.

    An MPNet looks the distances of words up by their places: there words are given in another
    order, and their weights are put back.
    """
    drawn = [_shuffle(one, number) for number in range(SHUFFLES)]
    if not hasattr(checkpoint.network.encoder, "relative_attention_bias"):
        return [checkpoint.weights(one, position_ids=order) for order in drawn]
    found = []
    for order in drawn:
        ids = list(one.inputs["input_ids"])
        for i, place in enumerate(order):
            ids[place] = one.inputs["input_ids"][i]
        found.append(checkpoint.weights(one, input_ids=ids)[:, :, order][..., order])
    return found


def zero_segments(checkpoint: Checkpoint, one: Input) -> list[np.ndarray]:
    """The weights with all segment ids 0; none where the model has no segments."""
    if "token_type_ids" not in one.inputs:
        return []
    return [checkpoint.weights(one, token_type_ids=[0] * len(one.text))]


def swap_segments(checkpoint: Checkpoint, one: Input) -> list[np.ndarray]:
    """The weights with segment ids exchanged; none where the model has no segments."""
    if "token_type_ids" not in one.inputs:
        return []
    swapped = [1 - segment for segment in one.inputs["token_type_ids"]]
    return [checkpoint.weights(one, token_type_ids=swapped)]


CHANGES: dict[str, Change] = {
    "positions_shuffled": shuffle_positions,
    "segments_zeroed": zero_segments,
    "segments_swapped": swap_segments,
}
"""By column."""


def explain(checkpoint: Checkpoint) -> Iterator[Tally]:
    """Neurons, and the score again with positions shuffled and segments changed, of every head."""
    pairs = shipped(PAIRS)
    tally = Tally("explain")
    rows = over(pairs, "explain", "all", "--model", checkpoint.name)
    inputs = [checkpoint.read(pair) for pair in pairs]
    targets = [loops.targets(one) for one in inputs]
    plain = [
        loops.every_head(one, checkpoint.weights(one), rows)
        for one, rows in zip(inputs, targets, strict=True)
    ]
    scores = gather_scores(plain)
    does = label_heads(checkpoint, pairs)
    scores_by_change: dict[str, Scores | None] = {}
    for column, change in CHANGES.items():
        changed = [change(checkpoint, one) for one in inputs]
        scores_by_change[column] = None
        if all(changed):
            of_pairs = zip(inputs, targets, plain, changed, strict=True)
            scores_by_change[column] = gather_scores([_measure_changed(*pair) for pair in of_pairs])
    vectors = [_read_vectors(checkpoint, one) for one in inputs]
    tally.same("heads", [head_of(row) for row in rows], sorted(scores))
    for row in rows:
        head = head_of(row)
        pattern = row["pattern"]
        score = scores[head][pattern]
        among = does[head].among_words
        tally.same(f"{head} label", row["label"], does[head].label)
        nearest = max(
            PATTERNS,
            key=lambda name, head=head: np.nan_to_num(scores[head][name].above_chance, nan=-1),
        )
        tally.same(f"{head} pattern", pattern, among if among in PATTERNS else nearest)
        expected = {
            "score": score.mean(),
            "chance": score.mean("chance"),
            "above_chance": score.above_chance,
        }
        expected |= {"n": score.n, "pairs": score.pairs, "se": score.se}
        for name, changed_scores in scores_by_change.items():
            if changed_scores is None:
                expected |= dict.fromkeys((name, f"{name}_se", f"{name}_fall_se"), loops.NAN)
                continue
            changed_score = changed_scores[head][pattern]
            expected |= {
                name: changed_score.mean(),
                f"{name}_se": changed_score.se,
                f"{name}_fall_se": score.se_beside(changed_score),
            }
        expected |= explain_neurons(
            inputs, [rows[pattern] for rows in targets], [of_heads[head] for of_heads in vectors]
        )
        tally.row(row, f"{head} {pattern}", **expected)
    yield tally


def _measure_changed(
    one: Input, rows: loops.Rows, plain: Measures, changed: Sequence[np.ndarray]
) -> Measures:
    """Other weights, by the queries that count unchanged; of a change that is drawn, by their mean
    over draws.
    """
    # Where a query has no weight left for words, its score is 0
    draws = [loops.every_head(one, weights, rows) for weights in changed]
    times = [1 / len(draws)] * len(draws)
    means: Measures = {head: {} for head in plain}
    for head, pattern in itertools.product(plain, PATTERNS):
        mean = loops.added([draw[head][pattern] for draw in draws], times)
        means[head][pattern] = replace(mean, n=plain[head][pattern].n)
    return means


def _by_head(vectors: torch.Tensor, heads: int) -> np.ndarray:
    """Shape: [token, heads × size] -> [head, token, size]."""
    return vectors.view(len(vectors), heads, -1).transpose(0, 1).double().numpy()


def _read_vectors(checkpoint: Checkpoint, one: Input) -> dict[Head, Vectors]:
    """Every head's, from the states that its layer reads."""
    found = {}
    with torch.inference_mode():
        states = checkpoint.run(one.inputs, output_hidden_states=True).hidden_states
        layers, heads = checkpoint.shape
        for layer in range(layers):
            to_query, to_key, *_ = checkpoint.projections(layer)
            query = _by_head(to_query(states[layer][0]), heads)
            key = _by_head(to_key(states[layer][0]), heads)
            for head in range(heads):
                found[layer, head] = (query[head], key[head])
    return found


def explain_neurons(
    inputs: Sequence[Input],
    targets: Sequence[Mapping[int, Mapping[int, float]]],
    vectors: Sequence[Vectors],
) -> dict[str, float]:
    """Effective neurons, stability and sign agreement of one head on one pattern."""
    effective = list[float]()
    overlaps = list[float]()
    agree = list[bool]()
    for one, target_of, (queries, keys) in zip(inputs, targets, vectors, strict=True):
        strongest = {}
        for i, target in target_of.items():
            elsewhere = [j for j in range(len(one.text)) if j not in target]
            contrast = (
                queries[i]
                * (keys[list(target)].mean(0) - keys[elsewhere].mean(0))
                / math.sqrt(len(queries[i]))
            )
            effective.append(np.abs(contrast).sum() ** 2 / (contrast**2).sum())
            top = np.argsort(-np.abs(contrast), kind="stable")[:4]
            strongest[i] = set(top)
            inside = [j for j in one.words if one.sentence[j] == one.sentence[i]]
            across = [j for j in one.words if one.sentence[j] != one.sentence[i]]
            if across:
                products = [
                    queries[i, top] @ keys[places].mean(0)[top] for places in (inside, across)
                ]
                agree.append(products[0] > 0 > products[1])
        overlaps += [
            len(a & b) / len(a | b) for a, b in itertools.combinations(strongest.values(), 2)
        ]
    return {
        "effective_neurons": loops.mean_of(effective),
        "stability": loops.mean_of(overlaps),
        "sign_agreement": loops.mean_of(agree),
    }

"""How heads make their patterns: neurons of queries and keys, and what happens when the model reads something else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from attnscan.inputs.sentence import EncodedInput, Record
from attnscan.model.tap import AttentionKeeper
from attnscan.results.attention import Chosen
from attnscan.results.explanation import CAUSES, ROTATIONS, SHUFFLED, Explanations
from attnscan.results.scores import FloatArray, Labels
from attnscan.results.terms import Head, Reading
from attnscan.scan.local import OnBad
from attnscan.scan.options import silent
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import labels_by, no_pair
from attnscan.scoring.blocks import KINDS, Blocks, PairSums, error, ratio, residuals
from attnscan.scoring.labels import habits_of
from attnscan.scoring.scorer import pair_sums
from attnscan.scoring.units import Targets
from attnscan.studies.interventions import changeable, changed_runs
from attnscan.studies.neurons import NeuronScorer
from attnscan.studies.passes import sums_over


def explain(
    scanner: Scanner,
    records: Iterable[Record],
    heads: Sequence[Head] | None = None,
    pattern: str | None = None,
    on_bad: OnBad | None = None,
    *,
    labels: Labels | None = None,
    neurons: bool = True,
) -> Explanations:
    """Explain heads for one pattern or each head's own, called as by `labels`. Raises: InputError without a pair."""
    scanner = scanner.exact()
    options, grid, (by_words, not_available) = scanner.options, scanner.grid(), changeable(scanner)
    work = partial(_measure, scanner.changed(progress=silent), by_words, (heads or tuple(grid)) if neurons else ())
    sums, seen = sums_over(scanner, records, work, "explaining heads by pairs", on_bad)
    if sums is None:
        raise no_pair("to explain by")
    if not sums["moved"]:
        not_available = {SHUFFLED: "there are no two words to shuffle", **not_available}
    if sums["neurons"] is None and neurons:
        not_available["neurons"] = "this architecture shows no queries and keys"
    names = (*(known.id for known in options.patterns), *habits_of(special=not options.reading.among_words)[0])
    labels = labels or labels_by(sums["pairs"].sums, options, grid.layers)
    means = np.full((3, 1 + ROTATIONS, *grid.shape, len(names)), np.nan)
    if sums["neurons"] is not None:
        with np.errstate(invalid="ignore", divide="ignore"):
            means = sums["neurons"][::2] / sums["neurons"][1::2]
    return Explanations(
        labels=labels,
        names=names,
        **_numbers(sums["changes"].sums, not_available),
        neurons=means,
        not_available=not_available,
        signature=scanner.signature(**seen.signature_fields),
        heads=tuple(heads or grid),
        pattern=pattern,
    )


def explain_input(
    scanner: Scanner, record: Record, encoded: EncodedInput, heads: Sequence[Head], pattern: str | None = None
) -> Explanations:
    """Explain heads by one input, of which their attention is kept; their labels are those of `classify`."""
    scanner = scanner.exact()
    chosen = Chosen(scanner.grid(), tuple(range(len(encoded.tokens))), tuple(heads))
    scanner.check_room(len(encoded.tokens), chosen, copies=1)
    labels, keeper = scanner.classify(record.pair, encoded).labels, AttentionKeeper(chosen=chosen)
    scanner.run(scanner.collate([encoded]).model_inputs, keeper)
    explained = explain(scanner, [record], heads, pattern, labels=labels)
    return replace(explained, attention=keeper.attention(encoded))


def _measure(
    scanner: Scanner, by_words: bool | None, heads: Sequence[Head], inputs: Sequence[EncodedInput]
) -> dict[str, Any]:
    """Score a batch as it is, and with everything changed that can be, and some heads' neurons: sums that add."""
    batch, options = scanner.collate(inputs), scanner.options
    targets = Targets(batch, options.patterns, scanner.helps(inputs))
    neurons = [NeuronScorer(targets, options.seed, heads)] if heads else []
    unchanged = pair_sums(targets, options.reading, partial(scanner.run, batch.model_inputs), neurons)
    sums, draws = columns_of(unchanged, options.reading), dict[str, list[FloatArray]]()
    for cause, run in changed_runs(scanner, batch, by_words):
        again = pair_sums(targets, options.reading, run)
        draws.setdefault(cause, []).append(columns_of(again, options.reading)["weight"])
    for cause, drawn in draws.items():
        sums[cause] = np.mean(drawn, axis=0)
        variance = np.var(drawn, axis=0, ddof=1) / len(drawn) if len(drawn) > 1 else np.full_like(drawn[0], np.nan)
        sums[f"{cause} error"] = np.sqrt(variance)
    keys = [encoded.known_pair.key for encoded in inputs]
    return {
        "pairs": Blocks.of(keys, unchanged),
        "changes": Blocks.of(keys, sums),
        "neurons": neurons[0].sums() if neurons else None,
        "moved": sum(sum(s >= 0 for s in encoded.sentence[: encoded.source or None]) > 1 for encoded in inputs),
    }


def columns_of(sums: PairSums, reading: Reading) -> dict[str, FloatArray]:
    """Each pair's `weight` on patterns and behind them on habits, `n` words that count, and weight by `chance`.

    Shape: each [pair, layer, head, pattern or habit]; `pairs` is 1 where any word counts.
    """
    kind, (_, members) = KINDS[reading.among_words], habits_of(special=not reading.among_words)
    habits = {"weight": sums["on"] @ members, "n": sums["n"] * members.any(0), "chance": sums["even"] @ members}
    columns = {name: np.concatenate([sums[f"{kind}.{name}"], of_habits], -1) for name, of_habits in habits.items()}
    return columns | {"pairs": (columns["n"] > 0).astype(float)}


def _numbers(sums: PairSums, not_available: Mapping[str, str]) -> dict[str, Any]:
    """The scores as they are and after each of `CAUSES`; of several draws, a pair counts once, by its means."""
    weight, n, pairs = sums["weight"], sums["n"], sums["pairs"].sum(0)
    unknown = np.full(pairs.shape, np.nan)
    rows = [[ratio(weight, n), error(residuals(weight, n)), unknown]]
    for cause in CAUSES:
        rows.append([unknown] * 3)
        if cause not in not_available:
            after, of_draws = sums[cause], ratio(sums[f"{cause} error"], n)
            errors = [error(residuals(values, n)) for values in (after, weight - after)]
            rows[-1] = [ratio(after, n), *(np.where(pairs == 1, of_draws, of_pairs) for of_pairs in errors)]
    score, se, fall_se = np.stack(rows, axis=1)
    counts = {"n": n.sum(0).astype(np.int64), "pairs": pairs.astype(np.int64)}
    return {"score": score, "se": se, "fall_se": fall_se, "chance": ratio(sums["chance"], n), **counts}

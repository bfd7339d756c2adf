"""How heads make their patterns: neurons of queries and keys, and what happens when the model reads something else.

A *neuron* is one of the d dimensions of a head. What it adds to the logit of a key is q_n k_n scaled. The *contrast*
of a query is what each neuron adds to its target keys beyond what it adds to the others. Rotating queries and keys
together changes no weight, so that what rotated bases show as well is no finding.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnscan.inputs.batch import EncodedBatch
from attnscan.inputs.sentence import EncodedInput, Record
from attnscan.model.attention_block import AttentionBlock
from attnscan.model.keeper import AttentionKeeper
from attnscan.results.attention import Chosen
from attnscan.results.explanation import CAUSES, ROTATIONS, SHUFFLED, Explanations
from attnscan.results.grid import AttentionKind, Head
from attnscan.results.scores import FloatArray, Labels
from attnscan.results.signature import AttentionView
from attnscan.scan.one_input import classify_input
from attnscan.scan.options import silent
from attnscan.scan.pair_scan import OnBad, sum_over_pairs
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import labels_from_sums, no_pair, sums_by_group
from attnscan.scoring.blocks import KEY_SETS, PairSums, SumsByName, error, ratio, residuals
from attnscan.scoring.labels import habits_of
from attnscan.scoring.pair_sums import pair_sums
from attnscan.scoring.units import Targets
from attnscan.studies.interventions import changeable, changed_runs

_STRONGEST = 4
_MOST_QUERIES = 1024  # of an input: what two have in common is counted for every two
_SILENT = 1e-4  # of the strongest neuron's contrast: one with less takes no part


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
    work = partial(
        _measure,
        replace(scanner, progress=silent),
        by_words,
        (heads or tuple(grid)) if neurons else (),
    )
    sums, seen = sum_over_pairs(scanner, records, work, "explaining heads by pairs", on_bad)
    if sums is None:
        raise no_pair("to explain by")
    if not sums["moved"]:
        not_available = {SHUFFLED: "there are no two words to shuffle", **not_available}
    if sums["neurons"] is None and neurons:
        not_available["neurons"] = "this architecture shows no queries and keys"
    names = (
        *(scored.id for scored in options.patterns),
        *habits_of(special=not options.reading.words_only)[0],
    )
    labels = labels or labels_from_sums(sums, options, grid.layers)
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
    scanner: Scanner,
    record: Record,
    encoded: EncodedInput,
    heads: Sequence[Head],
    pattern: str | None = None,
) -> Explanations:
    """Explain heads by one input, of which their attention is kept; their labels are those of `classify`."""
    scanner = scanner.exact()
    chosen = Chosen(scanner.grid(), tuple(range(len(encoded.tokens))), tuple(heads))
    scanner.check_room(len(encoded.tokens), chosen, copies=1)
    labels, keeper = (
        classify_input(scanner, record.pair, encoded).labels,
        AttentionKeeper(chosen=chosen),
    )
    scanner.run(scanner.collate([encoded]).model_inputs, keeper)
    return replace(
        explain(scanner, [record], heads, pattern, labels=labels),
        attention=keeper.attention(encoded),
    )


def _measure(
    scanner: Scanner, by_words: bool | None, heads: Sequence[Head], inputs: Sequence[EncodedInput]
) -> dict[str, Any]:
    """Score a batch as it is, and with everything changed that can be, and some heads' neurons: sums that add."""
    batch, options = scanner.collate(inputs), scanner.options
    targets = Targets(batch, options.patterns, scanner.word_dependencies(inputs))
    neurons = [NeuronScorer(targets, options.seed, heads)] if heads else []
    unchanged = pair_sums(
        targets, options.reading, partial(scanner.run, batch.model_inputs), neurons
    )
    sums, draws = columns_of(unchanged, options.reading), dict[str, list[FloatArray]]()
    for cause, run in changed_runs(scanner, batch, by_words):
        again = pair_sums(targets, options.reading, run)
        draws.setdefault(cause, []).append(columns_of(again, options.reading)["weight"])
    for cause, drawn in draws.items():
        sums[cause] = np.mean(drawn, axis=0)
        variance = (
            np.var(drawn, axis=0, ddof=1) / len(drawn)
            if len(drawn) > 1
            else np.full_like(drawn[0], np.nan)
        )
        sums[f"{cause} error"] = np.sqrt(variance)
    keys = [encoded.known_pair.key for encoded in inputs]
    return {
        **sums_by_group(inputs, unchanged),
        "changes": PairSums.of(keys, sums),
        "neurons": neurons[0].sums() if neurons else None,
        "moved": sum(
            sum(s >= 0 for s in encoded.sentence[: encoded.source or None]) > 1
            for encoded in inputs
        ),
    }


def columns_of(sums: SumsByName, reading: AttentionView) -> dict[str, FloatArray]:
    """Each pair's `weight` on patterns and behind them on habits, `n` words that count, and weight by `chance`.

    Shape: each [pair, layer, head, pattern or habit]; `pairs` is 1 where any word counts.
    """
    kind, (_, members) = KEY_SETS[reading.words_only], habits_of(special=not reading.words_only)
    habits = {
        "weight": sums["on"] @ members,
        "n": sums["n"] * members.any(0),
        "chance": sums["even"] @ members,
    }
    columns = {
        name: np.concatenate([sums[f"{kind}.{name}"], of_habits], -1)
        for name, of_habits in habits.items()
    }
    return columns | {"pairs": (columns["n"] > 0).astype(float)}


def _numbers(sums: SumsByName, not_available: Mapping[str, str]) -> dict[str, Any]:
    """The scores as they are and after each of `CAUSES`; of several draws, a pair counts once, by its means."""
    weight, n, pairs = sums["weight"], sums["n"], sums["pairs"].sum(0)
    unknown = np.full(pairs.shape, np.nan)
    rows = [[ratio(weight, n), error(residuals(weight, n)), unknown]]
    for cause in CAUSES:
        rows.append([unknown] * 3)
        if cause not in not_available:
            after, of_draws = sums[cause], ratio(sums[f"{cause} error"], n)
            errors = [error(residuals(values, n)) for values in (after, weight - after)]
            rows[-1] = [
                ratio(after, n),
                *(np.where(pairs == 1, of_draws, of_pairs) for of_pairs in errors),
            ]
    score, se, fall_se = np.stack(rows, axis=1)
    return {
        "score": score,
        "se": se,
        "fall_se": fall_se,
        "chance": ratio(sums["chance"], n),
        "n": n.sum(0).astype(np.int64),
        "pairs": pairs.astype(np.int64),
    }


@lru_cache(maxsize=1024)
def rotations(seed: int, layer: int, head: int, size: int) -> Tensor:
    """A head's own basis, then random ones, the same for all inputs. Shape: [basis, size, size]."""
    draw = torch.Generator().manual_seed(
        int(np.random.default_rng([seed, layer, head]).integers(1 << 62))
    )
    turned = [
        torch.nn.init.orthogonal_(torch.empty(size, size), generator=draw) for _ in range(ROTATIONS)
    ]
    return torch.stack([torch.eye(size), *turned])


class NeuronScorer:
    """A consumer that measures the neurons of one batch of tokens, of all heads or of some."""

    def __init__(self, targets: Targets, seed: int, only: Sequence[Head] | None = None) -> None:
        self._targets, self._seed = targets, seed
        self._only = None if only is None else {head.place for head in only}
        self._sums: dict[tuple[int, int, int], FloatArray] = {}
        """By layer, head and first input of a block. Shape: each [sum, basis, pattern]."""
        self._shape: tuple[int, ...] = 0, 0

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; of models that show no queries there is nothing to take."""
        if block.query is None or block.key is None or block.scaling is None:
            return
        self._shape = block.grid.shape
        step = -(
            -block.query.shape[2] // _MOST_QUERIES
        )  # of a long input, queries that are spread evenly
        ((of_units,),) = self._targets.units.blocks(block, all_queries=True)
        means = partial(
            self._means, of_units.batch, step, across=block.grid.kind is AttentionKind.CROSS
        )
        for place, head in enumerate(range(*block.heads.indices(block.grid.shape[1]))):
            if self._only is None or (block.layer, head) in self._only:
                query, key = (
                    block.query[:, place, ::step].float() * block.scaling,
                    block.key[:, place].float(),
                )
                bases = rotations(self._seed, block.layer, head, query.shape[-1]).to(query.device)
                measured = self._measure(query, key, bases, *of_units.cached("neurons", means))
                self._sums[block.layer, head, block.inputs.start] = measured

    def sums(self) -> FloatArray | None:
        """The batch's sums, as of `neuron_sums`; None without queries. Shape: [sum, basis, layer, head, pattern]."""
        if not self._sums:
            return None
        total = np.zeros((6, 1 + ROTATIONS, *self._shape, len(self._targets.patterns)))
        for (layer, head, _), sums in self._sums.items():
            total[:, :, layer, head] += sums
        return total

    def _means(
        self, batch: EncodedBatch, step: int, *, across: bool
    ) -> tuple[dict[int, Tensor], Tensor, Tensor]:
        """Rows of weights that take means over keys, by their values.

        By pattern, over target keys less over the other visible ones, zero if not eligible; then over words of the
        query's sentence, and of the other one. Shape: each [batch, query, key].
        """
        assert batch.visible is not None
        visible, contrasts = batch.visible[:, ::step], dict[int, Tensor]()
        targets, same_sentence = self._targets.of(batch), batch.same_sentence[:, ::step]
        words = batch.word[:, batch.queries, None][:, ::step] & batch.word[:, None, batch.keys]
        for p, target in enumerate(targets):
            matrix = target[:, ::step].float()
            remaining = visible & (matrix == 0)
            eligible = matrix.any(-1, keepdim=True) & remaining.any(-1, keepdim=True)
            if eligible.any():
                contrasts[p] = (_mean(matrix) - _mean(remaining.float())) * eligible
        # Across, all keys are of the other text, and no query has words of its own sentence beside them
        return (
            contrasts,
            _mean(same_sentence.float()),
            _mean((words & ~same_sentence & (not across)).float()),
        )

    def _measure(
        self,
        query: Tensor,
        key: Tensor,
        bases: Tensor,
        contrasts: dict[int, Tensor],
        inside: Tensor,
        outside: Tensor,
    ) -> FloatArray:
        """One head's sums of all patterns. Shape: `query` and `key` [batch, token, neuron] -> [sum, basis, pattern]."""
        sums = np.zeros((6, len(bases), len(self._targets.patterns)))
        turned, has_both = query @ bases[:, None], (inside.any(-1) & outside.any(-1)).float()
        adds_inside, adds_outside = (
            turned * (means @ key @ bases[:, None]) for means in (inside, outside)
        )
        for p, means in contrasts.items():
            head_sums = neuron_sums(
                turned * (means @ key @ bases[:, None]), adds_inside, adds_outside, has_both
            )
            sums[..., p] = head_sums.cpu().double().sum(-1).numpy()
        return sums


def neuron_sums(contrast: Tensor, inside: Tensor, outside: Tensor, has_both: Tensor) -> Tensor:
    """Sum over queries: effective neurons, then how many queries; the overlap of two queries' strongest neurons,
    then of how many twos; agreeing signs, then of how many.

    A query's signs agree if its strongest neurons add to words of its sentence and take from those of the other.
    Shape: what neurons add [basis, batch, query, neuron], `has_both` [batch, query], 0 or 1 -> [sum, basis, batch].
    """
    size, strength = contrast.abs(), contrast.square().sum(-1)
    counted = (strength > 0).float()
    effective = size.sum(-1).square() / strength.clip(torch.finfo(torch.float32).tiny) * counted
    best, which = size.topk(min(_STRONGEST, size.shape[-1]), dim=-1)
    takes_part = (best > _SILENT * best[..., :1]).float() * counted[..., None]
    strong = torch.zeros_like(size).scatter_(-1, which, takes_part)
    shared, members, number = strong @ strong.mT, strong.sum(-1), counted.sum(-1)
    union = members[..., :, None] + members[..., None, :] - shared
    twos = (shared / union.clip(1)).sum((-1, -2)) - number  # every query overlaps with itself by 1
    agree = ((inside * strong).sum(-1) > 0) & ((outside * strong).sum(-1) < 0)
    sums = (
        effective.sum(-1),
        number,
        twos / 2,
        number * (number - 1) / 2,
        (agree * has_both * counted).sum(-1),
    )
    return torch.stack([*sums, (has_both * counted).sum(-1)])


def _mean(mask: Tensor) -> Tensor:
    """A row of weights that takes the mean over a mask's keys, by their values; zero where there are none."""
    return mask / mask.sum(-1, keepdim=True).clip(torch.finfo(torch.float32).tiny)

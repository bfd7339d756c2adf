"""How heads make their patterns: neurons of queries and keys, and what follows from a change.

A *neuron* is one of the d dimensions of a head. What it adds to the logit of a key is q_n k_n
scaled. The *contrast* of a query is what each neuron adds to its target keys beyond what it adds
to the others. Rotating queries and keys together changes no weight, so that what rotated bases
show as well is no finding.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnscan.inputs.batch import EncodedBatch
from attnscan.inputs.sentence import EncodedInput, Record
from attnscan.model.attention_block import AttentionBlock, Consumer
from attnscan.model.keeper import AttentionKeeper
from attnscan.results.attention import Chosen
from attnscan.results.explanation import CAUSES, ROTATIONS, SHUFFLED, SHUFFLES, Explanations
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
FindChanges = Callable[[Scanner, EncodedBatch], Iterator[tuple[str, Callable[[Consumer], None]]]]
"""As `changed_runs` says, what a model reads of a batch under each change."""
_TINY = torch.finfo(torch.float32).tiny


def explain(  # noqa: PLR0913  # its callers choose all of it
    scanner: Scanner,
    records: Iterable[Record],
    heads: Sequence[Head] | None = None,
    pattern: str | None = None,
    on_bad: OnBad | None = None,
    *,
    labels: Labels | None = None,
    neurons: bool = True,
    shuffles: int = SHUFFLES,
) -> Explanations:
    """Explain heads for one pattern or each head's own, called as by `labels`.

    Words of each input are shuffled so many times.
    Raises: InputError without a pair.
    """
    scanner = scanner.exact()
    grid = scanner.grid()
    by_words, not_available = changeable(scanner)
    selected = tuple(heads or grid)
    work = partial(
        _sum_changes,
        replace(scanner, progress=silent),
        partial(changed_runs, by_words=by_words, shuffles=shuffles),
        selected if neurons else (),
    )
    sums, seen = sum_over_pairs(scanner, records, work, "explaining heads by pairs", on_bad)
    if sums is None:
        raise no_pair("to explain by")
    if not sums["shuffled"]:
        not_available = {SHUFFLED: "there are no two words to shuffle", **not_available}
    if sums["neurons"] is None and neurons:
        not_available["neurons"] = "this architecture shows no queries and keys"
    if labels is None:
        labels = labels_from_sums(sums, scanner.options, grid.layers)
    patterns = [scored.id for scored in scanner.options.patterns]
    habits, _ = habits_of()
    names = (*patterns, *habits)
    return Explanations(
        labels=labels,
        names=names,
        **_numbers(sums["changes"].sums, not_available),
        neurons=_neuron_means(sums["neurons"], (*grid.shape, len(names))),
        not_available=not_available,
        signature=scanner.signature(**seen.signature_fields),
        heads=selected,
        pattern=pattern,
    )


def _neuron_means(sums: FloatArray | None, shape: tuple[int, ...]) -> FloatArray:
    """The means of neurons' sums, which alternate with their counts; NaN without.

    Shape: [sum, basis, layer, head, pattern] -> [mean, basis, layer, head, pattern].
    """
    if sums is None:
        return np.full((3, 1 + ROTATIONS, *shape), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: FloatArray = sums[::2] / sums[1::2]
    return means


def explain_input(
    scanner: Scanner,
    record: Record,
    encoded: EncodedInput,
    heads: Sequence[Head],
    pattern: str | None = None,
) -> Explanations:
    """Explain heads by one input, of which their attention is kept.

    Their labels are those of `classify`.
    """
    scanner = scanner.exact()
    chosen = Chosen(scanner.grid(), tuple(range(len(encoded.tokens))), tuple(heads))
    scanner.check_room(len(encoded.tokens), chosen, copies=1)
    labels = classify_input(scanner, record.pair, encoded).labels
    keeper = AttentionKeeper(chosen=chosen)
    scanner.run(scanner.collate([encoded]).model_inputs, keeper)
    explanations = explain(scanner, [record], heads, pattern, labels=labels)
    return replace(explanations, attention=keeper.attention(encoded))


def _sum_changes(
    scanner: Scanner,
    find_changes: FindChanges,
    heads: Sequence[Head],
    inputs: Sequence[EncodedInput],
) -> dict[str, Any]:
    """Score a batch as it is and with everything changed that can be; measure heads' neurons.

    Returns sums that add: by group, of `changes`, of `neurons`, and how many inputs have words
    to be `shuffled`.
    """
    options = scanner.options
    batch = scanner.collate(inputs)
    targets = Targets(batch, options.patterns, scanner.word_dependencies(inputs))
    scorer = NeuronScorer(targets, options.seed, heads) if heads else None
    observers = [] if scorer is None else [scorer]
    run = partial(scanner.run, batch.model_inputs)
    unchanged = pair_sums(targets, options.reading, run, observers)
    sums = columns_of(unchanged, options.reading)
    draws: dict[str, list[FloatArray]] = {}
    for cause, run_changed in find_changes(scanner, batch):
        changed = pair_sums(targets, options.reading, run_changed)
        weight = columns_of(changed, options.reading)["weight"]
        draws.setdefault(cause, []).append(weight)
    for cause, drawn in draws.items():
        sums[cause] = np.mean(drawn, axis=0)
        sums[f"{cause} error"] = _error_of_mean(drawn)
    keys = [encoded.known_pair.key for encoded in inputs]
    return {
        **sums_by_group(inputs, unchanged),
        "changes": PairSums.of(keys, sums),
        "neurons": None if scorer is None else scorer.sums(),
        "shuffled": sum(_has_two_words(encoded) for encoded in inputs),
    }


def _error_of_mean(drawn: Sequence[FloatArray]) -> FloatArray:
    """The standard error of the mean over draws; NaN of a single one."""
    if len(drawn) < 2:
        return np.full_like(drawn[0], np.nan)
    errors: FloatArray = np.sqrt(np.var(drawn, axis=0, ddof=1) / len(drawn))
    return errors


def _has_two_words(encoded: EncodedInput) -> bool:
    """Whether the input, or its source, has words to shuffle."""
    sentences = encoded.sentence[: encoded.source or None]
    return sum(sentence >= 0 for sentence in sentences) > 1


def columns_of(sums: SumsByName, reading: AttentionView) -> dict[str, FloatArray]:
    """Each pair's `weight` on patterns and behind them on habits, and weight by `chance`.

    `n` counts the words, and `pairs` is 1 where there is any.
    Shape: each [pair, layer, head, pattern or habit].
    """
    key_set = KEY_SETS[reading.words_only]
    _, members = habits_of()
    habits = {
        "weight": sums["on"] @ members,
        "n": sums["n"] * members.any(0),
        "chance": sums["even"] @ members,
    }
    columns = {
        name: np.concatenate([sums[f"{key_set}.{name}"], values], -1)
        for name, values in habits.items()
    }
    columns["pairs"] = (columns["n"] > 0).astype(float)
    return columns


def _numbers(sums: SumsByName, not_available: Mapping[str, str]) -> dict[str, Any]:
    """The scores as they are and after each of `CAUSES`, with their errors.

    Of several draws, a pair counts once, by its means.
    """
    weight = sums["weight"]
    n = sums["n"]
    clusters = (n > 0).sum(0)
    unknown = np.full(clusters.shape, np.nan)
    score = [ratio(weight, n)]
    se = [error(residuals(weight, n))]
    fall_se = [unknown]
    for cause in CAUSES:
        if cause in not_available:
            score.append(unknown)
            se.append(unknown)
            fall_se.append(unknown)
            continue
        after = sums[cause]
        score.append(ratio(after, n))
        # With a single distinct pair, what remains is the error of the draws
        draw_error = ratio(sums[f"{cause} error"], n)
        se.append(np.where(clusters == 1, draw_error, error(residuals(after, n))))
        fall_se.append(np.where(clusters == 1, draw_error, error(residuals(weight - after, n))))
    return {
        "score": np.stack(score),
        "se": np.stack(se),
        "fall_se": np.stack(fall_se),
        "chance": ratio(sums["chance"], n),
        "n": n.sum(0).astype(np.int64),
        "pairs": sums["pairs"].sum(0).astype(np.int64),
        "clusters": clusters,
    }


@lru_cache(maxsize=1024)
def rotations(seed: int, layer: int, head: int, size: int) -> Tensor:
    """A head's own basis, then random ones, the same for all inputs. Shape: [basis, size, size]."""
    head_seed = int(np.random.default_rng([seed, layer, head]).integers(1 << 62))
    generator = torch.Generator().manual_seed(head_seed)
    turned = [
        torch.nn.init.orthogonal_(torch.empty(size, size), generator=generator)
        for _ in range(ROTATIONS)
    ]
    return torch.stack([torch.eye(size), *turned])


@dataclass(frozen=True)
class _KeyMeans:
    """Rows of weights that take means over keys, by their values. Shape: [batch, query, key]."""

    contrasts: Mapping[int, Tensor]
    """By pattern, over target keys less over the other visible ones; zero if not eligible."""
    inside: Tensor
    """Over words of the query's sentence."""
    outside: Tensor
    """Over words of the other sentence."""


class NeuronScorer:
    """A consumer that measures the neurons of one batch of tokens, of all heads or of some."""

    def __init__(self, targets: Targets, seed: int, only: Sequence[Head] | None = None) -> None:
        self._targets = targets
        self._seed = seed
        self._only = None if only is None else {head.place for head in only}
        self._sums: dict[tuple[int, int, int], FloatArray] = {}
        """By layer, head and first input of a block. Shape: each [sum, basis, pattern]."""
        self._shape: tuple[int, ...] = (0, 0)

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; of models that show no queries there is nothing to take."""
        if block.query is None or block.key is None or block.scaling is None:
            return
        self._shape = block.grid.shape
        # Of a long input, queries that are spread evenly
        step = math.ceil(block.query.shape[2] / _MOST_QUERIES)
        ((unit_block,),) = self._targets.units.blocks(block, all_queries=True)
        is_cross = block.grid.kind is AttentionKind.CROSS
        make = partial(self._key_means, unit_block.batch, step, is_cross=is_cross)
        means = unit_block.cached("neurons", make)
        first_head, last_head, _ = block.heads.indices(block.grid.shape[1])
        for place, head in enumerate(range(first_head, last_head)):
            if self._only is not None and (block.layer, head) not in self._only:
                continue
            query = block.query[:, place, ::step].float() * block.scaling
            key = block.key[:, place].float()
            bases = rotations(self._seed, block.layer, head, query.shape[-1]).to(query.device)
            sums = self._sum_head(query, key, bases, means)
            self._sums[block.layer, head, block.inputs.start] = sums

    def sums(self) -> FloatArray | None:
        """The batch's sums, as of `neuron_sums`; None without queries.

        Shape: [sum, basis, layer, head, pattern].
        """
        if not self._sums:
            return None
        total = np.zeros((6, 1 + ROTATIONS, *self._shape, len(self._targets.patterns)))
        for (layer, head, _), sums in self._sums.items():
            total[:, :, layer, head] += sums
        return total

    def _key_means(self, batch: EncodedBatch, step: int, *, is_cross: bool) -> _KeyMeans:
        """Over which keys of each query means are taken, of every `step`th query."""
        assert batch.visible is not None
        visible = batch.visible[:, ::step]
        contrasts: dict[int, Tensor] = {}
        for p, target in enumerate(self._targets.of(batch)):
            matrix = target[:, ::step].float()
            remaining = visible & (matrix == 0)
            eligible = matrix.any(-1, keepdim=True) & remaining.any(-1, keepdim=True)
            if eligible.any():
                contrasts[p] = (_mean(matrix) - _mean(remaining.float())) * eligible
        same_sentence = batch.same_sentence[:, ::step]
        words = batch.word[:, batch.queries, None][:, ::step] & batch.word[:, None, batch.keys]
        other_sentence = words & ~same_sentence
        if is_cross:  # all keys are of the other text: no query has words of its own beside them
            other_sentence = torch.zeros_like(other_sentence)
        return _KeyMeans(contrasts, _mean(same_sentence.float()), _mean(other_sentence.float()))

    def _sum_head(self, query: Tensor, key: Tensor, bases: Tensor, means: _KeyMeans) -> FloatArray:
        """One head's sums of all patterns.

        Shape: `query` and `key` [batch, token, neuron] -> [sum, basis, pattern].
        """
        sums = np.zeros((6, len(bases), len(self._targets.patterns)))
        turned = query @ bases[:, None]
        has_both = (means.inside.any(-1) & means.outside.any(-1)).float()

        def add_to(rows: Tensor) -> Tensor:
            """What neurons add to the logits of the keys that rows take the mean of."""
            return turned * (rows @ key @ bases[:, None])

        inside = add_to(means.inside)
        outside = add_to(means.outside)
        for p, rows in means.contrasts.items():
            head_sums = neuron_sums(add_to(rows), inside, outside, has_both)
            sums[..., p] = head_sums.cpu().double().sum(-1).numpy()
        return sums


def neuron_sums(contrast: Tensor, inside: Tensor, outside: Tensor, has_both: Tensor) -> Tensor:
    """Sum over queries how neurons make a pattern.

    The sums are effective neurons, then how many queries; the overlap of two queries' strongest
    neurons, then of how many twos; agreeing signs, then of how many. A query's signs agree if its
    strongest neurons add to words of its sentence and take from those of the other.
    Shape: what neurons add [basis, batch, query, neuron], `has_both` [batch, query], 0 or 1 ->
    [sum, basis, batch].
    """
    size = contrast.abs()
    strength = contrast.square().sum(-1)
    counted = (strength > 0).float()
    effective = size.sum(-1).square() / strength.clip(_TINY) * counted
    best, which = size.topk(min(_STRONGEST, size.shape[-1]), dim=-1)
    takes_part = (best > _SILENT * best[..., :1]).float() * counted[..., None]
    strong = torch.zeros_like(size).scatter_(-1, which, takes_part)
    number = counted.sum(-1)
    members = strong.sum(-1)
    shared = strong @ strong.mT
    union = members[..., :, None] + members[..., None, :] - shared
    overlap = (shared / union.clip(1)).sum((-1, -2)) - number  # a query overlaps with itself by 1
    agree = ((inside * strong).sum(-1) > 0) & ((outside * strong).sum(-1) < 0)
    return torch.stack(
        [
            effective.sum(-1),
            number,
            overlap / 2,
            number * (number - 1) / 2,
            (agree * has_both * counted).sum(-1),
            (has_both * counted).sum(-1),
        ]
    )


def _mean(mask: Tensor) -> Tensor:
    """Weights that take the mean over a mask's keys, by their values; zero where there are none."""
    return mask / mask.sum(-1, keepdim=True).clip(_TINY)

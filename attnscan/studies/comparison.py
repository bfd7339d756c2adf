"""Holds heads against each other: all heads of one model, or those of two, over a stream of pairs.

Heads attend alike where the Jensen-Shannon divergence of their attention is small:

    JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2, in nats, from 0 (the same weights) to ln 2 (no key in common),

as in Clark et al., "What Does BERT Look At?" (2019), here averaged over queries of words. Every two heads need a
logarithm for each key, so of each input some queries are drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnscan.errors import InputError, ModelError
from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.related import Relation
from attnscan.inputs.sentence import Pair, Record
from attnscan.inputs.tokens import Units
from attnscan.model.attention_block import AttentionBlock, Consumer
from attnscan.model.running import check_finite
from attnscan.results.behaviour import Labels
from attnscan.results.comparison import Comparison, Similarity
from attnscan.results.signature import Reading
from attnscan.results.terms import LEAST, QUERIES, WITHIN, Match
from attnscan.scan.local import OnBad, each, skip
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import Seen, no_pair
from attnscan.scoring.blocks import Blocks, PairSums, error, ratio, residuals
from attnscan.scoring.classes import ClassScorer
from attnscan.scoring.labels import labels_of, scores_of, units_of
from attnscan.scoring.targets import Targets
from attnscan.scoring.units import LEAST_LEFT
from attnscan.studies.passes import drawn, sums_over

_PROBE = Pair("I went to the store.", "At the store, I bought fresh strawberries.")


def similar(
    scanner: Scanner,
    records: Iterable[Record],
    queries: int = QUERIES,
    within: float = WITHIN,
    on_bad: OnBad | None = None,
) -> Similarity:
    """How far apart all heads are, by at most `queries` words of each pair. Raises: InputError if there is no pair."""
    scanner = scanner.exact().with_options(labelled=True)

    def compare_heads(inputs: Sequence[EncodedInput]) -> Blocks:
        keeper = RowKeeper(inputs, queries, scanner.options.seed, scanner.options.reading)
        sums = _labelled_sums(scanner, inputs, keeper)
        sums["apart"] = np.stack([divergences(rows).numpy() for rows in keeper.rows()])
        sums["queries"] = np.array([[[float(len(own))]] for own in keeper.queries])
        return Blocks.of([encoded.known_pair.key for encoded in inputs], sums)

    total, seen = sums_over(scanner, records, compare_heads, "comparing heads by pairs", on_bad)
    if total is None or not total.sums["queries"].any():
        raise no_pair("to compare heads by")
    apart, counts = total.sums["apart"], total.sums["queries"]
    se, labels = error(residuals(apart, counts)), _labels(scanner, total.sums)
    return Similarity(
        ratio(apart, counts), se, labels, int(counts.sum()), scanner.signature(**seen.signature_fields), within
    )


def compare(
    scanner_a: Scanner,
    scanner_b: Scanner,
    records: Iterable[Record],
    match: Match = "place",
    on_bad: OnBad | None = None,
    least: float = LEAST,
) -> Comparison:
    """What sets two models apart on some pairs; `match="nearest"` holds each head against the most similar one.

    Raises: InputError if there is no pair that both can read; ModelError if their heads cannot be matched.
    """
    same_tokens = scanner_a.loaded.tokenizer.get_vocab() == scanner_b.loaded.tokenizer.get_vocab()
    same_tokens &= scanner_a.encode(_PROBE).model_inputs == scanner_b.encode(_PROBE).model_inputs
    if match == "nearest" and not same_tokens:
        names = " and ".join(own.loaded.source.name for own in (scanner_a, scanner_b))
        what = f"{names} use different tokens, so their weights cannot be compared"
        raise ModelError(what, "leave out --match nearest, or compare models of one tokenizer")
    if match == "place" and scanner_a.grid() != scanner_b.grid():
        what = f"the two models have {scanner_a.grid()} and {scanner_b.grid()} heads, which have no places in common"
        raise ModelError(what, "--match nearest finds the most similar head of each, in models of one tokenizer")
    relation, alike = None, "only identical words count: the two models use different tokens."
    if scanner_a.relation is None or scanner_b.relation is None:
        alike = "only identical words count: --no-related."
    elif same_tokens:
        relation = _related_by_both(scanner_a.relation, scanner_b.relation)
        alike = "words are related where the embeddings of both models say so."
    a, b = (own.with_options(labelled=True).exact().changed(relation=relation) for own in (scanner_a, scanner_b))
    options, skipped = a.options, Seen()

    def read_by_b() -> Iterator[Record]:
        nonlocal skipped
        for record in records:
            if options.attention != "encoder" and record.pair.b is None:
                what = f"{record.where} has no target, and each of the two models would write another"
                raise InputError(what, "give pairs of source and target")
            (encoded,) = b.encode_all([record.pair])
            if not isinstance(encoded, InputError):
                yield record
                continue
            skip(record, encoded, b.options, on_bad)
            skipped = skipped.and_then(record, options, skipped=True)

    def score_both(inputs: Sequence[EncodedInput]) -> dict[str, Any]:
        sums, keepers = dict[str, Any](), list[RowKeeper]()
        for model, scanner in zip("ab", (a, b), strict=True):
            own = inputs if scanner is a else [b.encode(encoded.known_pair) for encoded in inputs]
            keepers.append(RowKeeper(own, QUERIES if match == "nearest" else 0, options.seed, options.reading))
            of_model = _labelled_sums(scanner, own, *(keepers[-1:] if match == "nearest" else []))
            sums |= {f"{model}.{name}": values for name, values in of_model.items()}
        of_both = zip(*(keeper.rows() for keeper in keepers), strict=True) if match == "nearest" else ()
        apart = [divergences(torch.cat([ours, theirs.to(ours.device)])) for ours, theirs in of_both]
        asked = sum(map(len, keepers[0].queries))
        return {"blocks": Blocks.of([own.known_pair.key for own in inputs], sums), "apart": sum(apart), "asked": asked}

    total, seen = sums_over(a, read_by_b(), score_both, "pairs through both models", on_bad, [b])
    if total is None:
        raise no_pair("that both models read")
    sums = total["blocks"].sums
    ours, theirs = ({name[2:]: values for name, values in sums.items() if name[0] == model} for model in "ab")
    labels, shape, heads = (_labels(a, ours), _labels(b, theirs)), a.grid().shape, len(a.grid())
    matched, divergence = np.moveaxis(np.indices(shape), 0, -1), np.full(shape, np.nan)
    if match == "nearest":
        apart = (total["apart"][:heads, heads:] / total["asked"]).numpy()
        matched = np.stack(np.unravel_index(apart.argmin(1).reshape(shape), b.grid().shape), -1)
        divergence = apart.min(1).reshape(shape)
    residual_a, residual_b = (own.table.residual for own in labels)
    assert residual_a is not None and residual_b is not None
    se = error(residual_b[:, matched[..., 0], matched[..., 1]] - residual_a)
    both = seen.joined(skipped, 0).signature_fields
    signature_a, signature_b = (scanner.signature(**both) for scanner in (a, b))
    return Comparison(labels, se, matched, divergence, match, (signature_a, signature_b), least, alike)


def _related_by_both(first: Relation, second: Relation) -> Relation:
    """Words are related where both of two models say so."""

    def related(inputs: Sequence[Units]) -> Tensor:
        ours = first(inputs)
        return ours & second(inputs).to(ours.device)

    return related


def _labelled_sums(scanner: Scanner, inputs: Sequence[EncodedInput], *others: Consumer) -> dict[str, Any]:
    """Each input's own sums for scores and labels; `others` see the attention as well."""
    classes = list[ClassScorer]()

    def beside(targets: Targets) -> Consumer:
        classes.append(ClassScorer(targets.units, special=not scanner.options.reading.among_words))
        return partial(each, (*others, *classes))

    return {**scanner.score(inputs, also=beside), **classes[0].sums()}


def _labels(scanner: Scanner, sums: PairSums) -> Labels:
    """What every head does, with its scores, by sums over pairs."""
    options, grid = scanner.options, scanner.grid()
    scores = scores_of(sums, [pattern.scored for pattern in options.patterns], options.kind, grid.layers)
    return labels_of(scores, units_of(sums, options.reading), options.reading, options.threshold, options.seed)


class RowKeeper:
    """A consumer that keeps the rows of some queries of each input, of every head."""

    def __init__(self, inputs: Sequence[EncodedInput], most: int, seed: int, reading: Reading) -> None:
        """At most so many words ask, drawn by the input and the seed; among words, rows are renormalised over these."""
        self._among_words = reading.among_words
        self.queries: list[list[int]] = []
        """Those of each input, by token."""
        self._keys: list[Tensor] = []
        self._kept: list[dict[tuple[int, int], Tensor]] = [{} for _ in inputs]
        for encoded in inputs:
            word = np.array(encoded.sentence) >= 0
            asks = np.flatnonzero(word & (np.arange(len(word)) >= encoded.source))
            self.queries.append(drawn(encoded, asks.tolist(), most, seed))
            keys = word[: encoded.source or None] | (not self._among_words)
            self._keys.append(torch.from_numpy(np.flatnonzero(keys)))

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; one that comes again replaces what it said before."""
        for number, weights in enumerate(block.weights, block.inputs.indices(len(self.queries))[0]):
            queries = torch.tensor(self.queries[number], dtype=torch.int64) - block.rows.start
            rows = weights[:, queries[:, None], self._keys[number]]
            rows = rows / rows.sum(-1, keepdim=True).clip(LEAST_LEFT) if self._among_words else rows
            self._kept[number][block.layer, block.heads.indices(block.grid.shape[1])[0]] = rows

    def rows(self) -> list[Tensor]:
        """Of each input. Shape: [head, query x key]. Raises: CaptureError if the model's attention is not finite."""
        of_inputs = [torch.cat([kept[place] for place in sorted(kept)]).flatten(1) for kept in self._kept]
        for rows in of_inputs:
            check_finite(rows, "the attention weights")
        return of_inputs


def divergences(rows: Tensor) -> Tensor:
    """The divergence between every two heads, summed over queries. In nats.

    Shape: `rows` [head, query x key], each query's weights adding up to 1 -> [head, head], float64 on the CPU.
    """
    half, entropy = rows / 2, rows.new_zeros(len(rows), len(rows))
    for head in range(len(rows)):  # one head beside those behind it at a time stays in the cache
        mean = half[head] + half[head:]
        logs = mean.clip(torch.finfo(mean.dtype).tiny).log_()  # three times as fast as torch.xlogy
        entropy[head, head:] = -logs.mul_(mean).sum(-1)
    total = entropy.cpu().double()
    own = total.diagonal()
    upper = (total - (own[:, None] + own) / 2).clip(0).triu(1)
    return upper + upper.T

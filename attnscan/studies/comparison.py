"""Holds heads against each other: all heads of one model, or those of two, over a stream of pairs.

Heads attend alike where the Jensen-Shannon divergence H((p + q) / 2) - (H(p) + H(q)) / 2 of their attention is small:
in nats, from 0 (the same weights) to ln 2 (no key in common), averaged over some queries of words of each input.
Source: Clark et al., "What Does BERT Look At?" (2019).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from attnscan.errors import InputError, ModelError
from attnscan.inputs.batch import Relation
from attnscan.inputs.sentence import EncodedInput, Pair, Record
from attnscan.inputs.vocabulary import Units
from attnscan.model.attention_block import AttentionBlock
from attnscan.model.forward import check_finite
from attnscan.results.choices import MAX_DIVERGENCE, MIN_DIFFERENCE, QUERIES, Match
from attnscan.results.comparison import Comparison, Similarity
from attnscan.results.scores import FloatArray
from attnscan.results.signature import AttentionView
from attnscan.scan.pair_scan import OnBad, draw_numbers, skip, sum_over_pairs
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanProgress, labels_from_sums, no_pair, sums_by_group
from attnscan.scoring.blocks import PairSums, error, ratio, residuals
from attnscan.scoring.units import EPSILON

_PROBE = Pair("I went to the store.", "At the store, I bought fresh strawberries.")


def similar(
    scanner: Scanner,
    records: Iterable[Record],
    queries: int = QUERIES,
    within: float = MAX_DIVERGENCE,
    on_bad: OnBad | None = None,
) -> Similarity:
    """Compare all heads by at most `queries` words of each pair. Raises: InputError if there is no pair."""
    scanner = scanner.exact().with_options(labelled=True)

    def compare_heads(inputs: Sequence[EncodedInput]) -> dict[str, PairSums]:
        keeper = RowKeeper(inputs, queries, scanner.options.seed, scanner.options.reading)
        sums = sums_by_group(inputs, scanner.score(inputs, observers=[keeper]))
        compared = {
            "apart": np.stack([divergences(rows).numpy() for rows in keeper.rows()]),
            "queries": np.array([[[float(len(places))]] for places in keeper.queries]),
        }
        keys = [encoded.known_pair.key for encoded in inputs]
        return {**sums, "compared": PairSums.of(keys, compared)}

    total, seen = sum_over_pairs(
        scanner, records, compare_heads, "comparing heads by pairs", on_bad
    )
    if total is None or not total["compared"].sums["queries"].any():
        raise no_pair("to compare heads by")
    apart, counts = total["compared"].sums["apart"], total["compared"].sums["queries"]
    labels = labels_from_sums(total, scanner.options, scanner.grid().layers)
    return Similarity(
        ratio(apart, counts),
        error(residuals(apart, counts)),
        labels,
        int(counts.sum()),
        scanner.signature(**seen.signature_fields),
        within,
    )


def compare(
    scanner_a: Scanner,
    scanner_b: Scanner,
    records: Iterable[Record],
    match: Match = "place",
    on_bad: OnBad | None = None,
    least: float = MIN_DIFFERENCE,
) -> Comparison:
    """Compare two models on some pairs. Raises: InputError if both read none; ModelError as `_in_common`."""
    relation, alike = _in_common(scanner_a, scanner_b, match)
    a, b = (
        replace(scanner.with_options(labelled=True).exact(), relation=relation)
        for scanner in (scanner_a, scanner_b)
    )
    options, skipped, nearest = a.options, ScanProgress(), match == "nearest"

    def read_by_b() -> Iterator[Record]:
        nonlocal skipped
        for record in records:
            if options.attention != "encoder" and record.pair.b is None:
                raise InputError(
                    f"{record.where} has no target, and each of the two models would write another",
                    "give pairs of source and target",
                )
            (encoded,) = b.encode_all([record.pair])
            if isinstance(encoded, InputError):
                skip(record, encoded, b.options, on_bad)
                skipped = skipped.add(record, options, skipped=True)
            else:
                yield record

    def score_both(inputs: Sequence[EncodedInput]) -> dict[str, Any]:
        sums, keepers = dict[str, Any](), list[RowKeeper]()
        for model, scanner in zip("ab", (a, b), strict=True):
            tokenized = inputs
            if scanner is b:
                tokenized = [b.encode(encoded.known_pair) for encoded in inputs]
            if nearest:
                keepers.append(RowKeeper(tokenized, QUERIES, options.seed, options.reading))
            pair_sums = scanner.score(tokenized, observers=keepers[-1:])
            sums[model] = sums_by_group(inputs, pair_sums)
        of_both = zip(*(keeper.rows() for keeper in keepers), strict=True)
        apart = [divergences(torch.cat([ours, theirs.to(ours.device)])) for ours, theirs in of_both]
        return {
            **sums,
            "apart": sum(apart),
            "queries": sum(map(len, keepers[0].queries)) if nearest else 0,
        }

    total, seen = sum_over_pairs(
        a, read_by_b(), score_both, "pairs through both models", on_bad, [b]
    )
    if total is None:
        raise no_pair("that both models read")
    labels = []
    for model, scanner in zip("ab", (a, b), strict=True):
        labels.append(labels_from_sums(total[model], options, scanner.grid().layers))
    shape, heads = a.grid().shape, len(a.grid())
    matched, divergence = np.moveaxis(np.indices(shape), 0, -1), np.full(shape, np.nan)
    if nearest:
        apart = (total["apart"][:heads, heads:] / total["queries"]).numpy()
        matched = np.stack(np.unravel_index(apart.argmin(1).reshape(shape), b.grid().shape), -1)
        divergence = apart.min(1).reshape(shape)
    residual_a, residual_b = (
        cast(FloatArray, labels_of_model.table.residual) for labels_of_model in labels
    )
    se = error(residual_b[:, matched[..., 0], matched[..., 1]] - residual_a)
    counts = seen.merge(skipped, 0).signature_fields
    signature_a, signature_b = (scanner.signature(**counts) for scanner in (a, b))
    return Comparison(
        (labels[0], labels[1]),
        se,
        matched,
        divergence,
        match,
        (signature_a, signature_b),
        least,
        alike,
    )


def _in_common(a: Scanner, b: Scanner, match: Match) -> tuple[Relation | None, str]:
    """Find the relation that both models share, and say it in words. Raises: ModelError if heads cannot be matched."""
    same_tokens = a.loaded.tokenizer.get_vocab() == b.loaded.tokenizer.get_vocab()
    same_tokens &= a.encode(_PROBE).model_inputs == b.encode(_PROBE).model_inputs
    if match == "nearest" and not same_tokens:
        names = f"{a.loaded.source.name} and {b.loaded.source.name}"
        raise ModelError(
            f"{names} use different tokens, so their weights cannot be compared",
            "leave out --match nearest, or compare models of one tokenizer",
        )
    if match == "place" and a.grid() != b.grid():
        raise ModelError(
            f"the two models have {a.grid()} and {b.grid()} heads, which have no places in common",
            "pass --match nearest, which compares each head with the most similar one, in models of one tokenizer",
        )
    if a.relation is None or b.relation is None:
        return None, "only identical words count: --no-related."
    if not same_tokens:
        return None, "only identical words count: the two models use different tokens."
    first, second = a.relation, b.relation

    def related(inputs: Sequence[Units]) -> Tensor:
        ours = first(inputs)
        return ours & second(inputs).to(ours.device)

    return related, "words are related where the embeddings of both models say so."


class RowKeeper:
    """A consumer that keeps the rows of some queries of each input, of every head."""

    def __init__(
        self, inputs: Sequence[EncodedInput], most: int, seed: int, reading: AttentionView
    ) -> None:
        """At most so many words ask, drawn by the input and the seed; among words, rows are renormalised over these."""
        self._among_words = reading.words_only
        self.queries, self._keys = list[list[int]](), list[Tensor]()  # of each input, by token
        self._kept: list[dict[tuple[int, int], Tensor]] = [{} for _ in inputs]
        for encoded in inputs:
            word = np.array(encoded.sentence) >= 0
            asks = np.flatnonzero(word & (np.arange(len(word)) >= encoded.source))
            self.queries.append(draw_numbers(encoded, asks.tolist(), most, seed))
            keys = word[: encoded.source or None] | (not self._among_words)
            self._keys.append(torch.from_numpy(np.flatnonzero(keys)))

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; one that comes again replaces what it said before."""
        for number, weights in enumerate(block.weights, block.inputs.indices(len(self.queries))[0]):
            queries = torch.tensor(self.queries[number], dtype=torch.int64) - block.rows.start
            rows = weights[:, queries[:, None], self._keys[number]]
            rows = rows / rows.sum(-1, keepdim=True).clip(EPSILON) if self._among_words else rows
            self._kept[number][block.layer, block.heads.indices(block.grid.shape[1])[0]] = rows

    def rows(self) -> list[Tensor]:
        """Of each input. Shape: [head, query x key]. Raises: CaptureError if the model's attention is not finite."""
        of_inputs = [
            torch.cat([blocks[place] for place in sorted(blocks)]).flatten(1)
            for blocks in self._kept
        ]
        check_finite(torch.stack([rows.sum() for rows in of_inputs]), "the attention weights")
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
    entropy_of_head = total.diagonal()
    upper = (total - (entropy_of_head[:, None] + entropy_of_head) / 2).clip(0).triu(1)
    return upper + upper.T

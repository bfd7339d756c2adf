"""Holds heads against each other: all heads of one model, or those of two, over a stream of pairs.

Heads attend alike where the Jensen-Shannon divergence H((p + q) / 2) - (H(p) + H(q)) / 2 of their
attention is small: in nats, from 0 (the same weights) to ln 2 (no key in common), averaged over
some queries of words of each input.
Source: Clark et al., "What Does BERT Look At?" (2019).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnscan.errors import InputError, ModelError
from attnscan.inputs.batch import Relation
from attnscan.inputs.sentence import EncodedInput, Pair, Record
from attnscan.inputs.vocabulary import Units
from attnscan.model.attention_block import AttentionBlock
from attnscan.model.forward import check_finite
from attnscan.results.attention import MIN_ON_WORDS
from attnscan.results.choices import MAX_DIVERGENCE, MIN_DIFFERENCE, QUERIES, Match
from attnscan.results.comparison import Comparison, Similarity
from attnscan.results.scores import FloatArray, IntArray
from attnscan.results.signature import AttentionView
from attnscan.scan.options import ScanOptions
from attnscan.scan.pair_scan import OnBad, draw_numbers, skip, sum_over_pairs
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanProgress, labels_from_sums, no_pair, sums_by_group
from attnscan.scoring.blocks import PairSums, error, ratio, residuals

_PROBE = Pair("I went to the store.", "At the store, I bought fresh strawberries.")


def similar(
    scanner: Scanner,
    records: Iterable[Record],
    queries: int = QUERIES,
    within: float = MAX_DIVERGENCE,
    on_bad: OnBad | None = None,
) -> Similarity:
    """Compare all heads by at most `queries` words of each pair.

    Raises: InputError if there is no pair.
    """
    scanner = scanner.exact().with_options(labelled=True)
    options = scanner.options

    def compare_heads(inputs: Sequence[EncodedInput]) -> dict[str, PairSums]:
        keeper = RowKeeper(inputs, queries, options.seed, options.reading)
        sums = sums_by_group(inputs, scanner.score(inputs, observers=[keeper]))
        keys = [encoded.known_pair.key for encoded in inputs]
        return {**sums, "compared": PairSums.of(keys, keeper.sums())}

    doing = "comparing heads by pairs"
    total, seen = sum_over_pairs(scanner, records, compare_heads, doing, on_bad)
    if total is None or not total["compared"].sums["queries"].any():
        raise no_pair("to compare heads by")
    apart = total["compared"].sums["apart"]
    counts = total["compared"].sums["queries"]
    return Similarity(
        divergence=ratio(apart, counts),
        se=error(residuals(apart, counts)),
        labels=labels_from_sums(total, options, scanner.grid().layers),
        queries=int(counts.sum()),
        signature=scanner.signature(**seen.signature_fields),
        within=within,
    )


def compare(
    scanner_a: Scanner,
    scanner_b: Scanner,
    records: Iterable[Record],
    match: Match = "place",
    on_bad: OnBad | None = None,
    least: float = MIN_DIFFERENCE,
) -> Comparison:
    """Compare two models on some pairs.

    Raises: InputError if both read none; ModelError as `_relation_in_common`.
    """
    relation, alike = _relation_in_common(scanner_a, scanner_b, match)
    a = replace(scanner_a.with_options(labelled=True).exact(), relation=relation)
    b = replace(scanner_b.with_options(labelled=True).exact(), relation=relation)
    skipped = ScanProgress()

    def read_by_b() -> Iterator[Record]:
        nonlocal skipped
        for record in records:
            _check_has_target(record, a.options)
            (encoded,) = b.encode_all([record.pair])
            if isinstance(encoded, InputError):
                skip(record, encoded, b.options, on_bad)
                skipped = skipped.add(record, a.options, skipped=True)
            else:
                yield record

    work = partial(_score_both, a, b, nearest=match == "nearest")
    total, seen = sum_over_pairs(a, read_by_b(), work, "pairs through both models", on_bad, [b])
    if total is None:
        raise no_pair("that both models read")
    labels_a = labels_from_sums(total["a"], a.options, a.grid().layers)
    labels_b = labels_from_sums(total["b"], a.options, b.grid().layers)
    if match == "nearest":
        apart = (total["apart"] / total["queries"]).numpy()
        matched, divergence = _nearest_heads(apart, a.grid().shape, b.grid().shape)
    else:
        matched = np.moveaxis(np.indices(a.grid().shape), 0, -1)
        divergence = np.full(a.grid().shape, np.nan)
    residual_a = labels_a.table.residual
    residual_b = labels_b.table.residual
    assert residual_a is not None and residual_b is not None
    counts = seen.merge(skipped, 0).signature_fields
    return Comparison(
        model_labels=(labels_a, labels_b),
        se=error(residual_b[:, matched[..., 0], matched[..., 1]] - residual_a),
        matched=matched,
        divergence=divergence,
        match=match,
        signatures=(a.signature(**counts), b.signature(**counts)),
        least=least,
        alike=alike,
    )


def _check_has_target(record: Record, options: ScanOptions) -> None:
    """Raises: InputError if each of two encoder-decoders would write a target of its own."""
    if options.attention != "encoder" and record.pair.b is None:
        raise InputError(
            f"{record.where} has no target, and each of the two models would write another",
            "give pairs of source and target",
        )


def _score_both(
    a: Scanner, b: Scanner, inputs: Sequence[EncodedInput], *, nearest: bool
) -> dict[str, Any]:
    """The sums of some pairs by both models; for `nearest`, also how far apart their heads are."""
    inputs_b = [b.encode(encoded.known_pair) for encoded in inputs]
    keepers: list[RowKeeper] = []
    if nearest:
        seed = a.options.seed
        reading = a.options.reading
        keepers = [RowKeeper(some, QUERIES, seed, reading) for some in (inputs, inputs_b)]
    both: dict[str, Any] = {
        "a": sums_by_group(inputs, a.score(inputs, observers=keepers[:1])),
        "b": sums_by_group(inputs, b.score(inputs_b, observers=keepers[1:])),
    }
    if nearest:
        keeper_a, keeper_b = keepers
        both["queries"] = sum(len(queries) for queries in keeper_a.queries)
        both["apart"] = sum(
            divergences_between(rows_a, rows_b)
            for rows_a, rows_b in zip(keeper_a.rows(), keeper_b.rows(), strict=True)
        )
    return both


def divergences_between(rows: Tensor, other_rows: Tensor) -> Tensor:
    """The divergence of each head of one model from each of another. Shape: as `divergences`."""
    apart = divergences(torch.cat([rows, other_rows.to(rows.device)]))
    return apart[: len(rows), len(rows) :]


def _nearest_heads(
    apart: FloatArray, shape: tuple[int, ...], other_shape: tuple[int, ...]
) -> tuple[IntArray, FloatArray]:
    """The head of another model that is most like each, and its divergence.

    Shape: `apart` [head, other head] -> [layer, head, 2], [layer, head].
    """
    nearest = apart.argmin(1).reshape(shape)
    matched = np.stack(np.unravel_index(nearest, other_shape), -1)
    return matched, apart.min(1).reshape(shape)


def _relation_in_common(a: Scanner, b: Scanner, match: Match) -> tuple[Relation | None, str]:
    """Find the relation that both models share, and say it in words.

    Raises: ModelError if heads cannot be matched.
    """
    same_tokens = a.loaded.tokenizer.get_vocab() == b.loaded.tokenizer.get_vocab()
    same_tokens &= a.encode(_PROBE).model_inputs == b.encode(_PROBE).model_inputs
    if match == "nearest" and not same_tokens:
        names = f"{a.loaded.source.name} and {b.loaded.source.name}"
        raise ModelError(
            f"{names} use different tokens, so their weights cannot be compared",
            "leave out ``match=nearest``, or compare models of one tokenizer",
        )
    if match == "place" and a.grid() != b.grid():
        raise ModelError(
            f"the two models have {a.grid()} and {b.grid()} heads, which have no places in common",
            "pass ``match=nearest``, which compares each head with the most similar one, "
            "in models of one tokenizer",
        )
    if a.relation is None or b.relation is None:
        return None, "only identical words count: --no-related."
    if not same_tokens:
        return None, "only identical words count: the two models use different tokens."
    relation_a = a.relation
    relation_b = b.relation

    def related(inputs: Sequence[Units]) -> Tensor:
        ours = relation_a(inputs)
        return ours & relation_b(inputs).to(ours.device)

    return related, "words are related where the embeddings of both models say so."


class RowKeeper:
    """A consumer that keeps the rows of some queries of each input, of every head."""

    def __init__(
        self, inputs: Sequence[EncodedInput], most: int, seed: int, reading: AttentionView
    ) -> None:
        """At most so many words are queries, drawn by the input and the seed.

        Among words, rows are renormalised over these.
        """
        self._among_words = reading.words_only
        self.queries: list[list[int]] = []
        """Of each input, the tokens whose rows are kept."""
        self._keys: list[Tensor] = []
        self._kept: list[dict[tuple[int, int], Tensor]] = [{} for _ in inputs]
        """Of each input, rows by layer and first head of a block."""
        for encoded in inputs:
            is_word = np.array(encoded.sentence) >= 0
            is_query = is_word & (np.arange(len(is_word)) >= encoded.source)
            queries = np.flatnonzero(is_query).tolist()
            self.queries.append(draw_numbers(encoded, queries, most, seed))
            is_key = is_word[: encoded.source or None]
            if not self._among_words:
                is_key = np.ones_like(is_key)
            self._keys.append(torch.from_numpy(np.flatnonzero(is_key)))

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; one that comes again replaces what it said before."""
        first_input, _, _ = block.inputs.indices(len(self.queries))
        first_head, _, _ = block.heads.indices(block.grid.shape[1])
        for number, weights in enumerate(block.weights, first_input):
            queries = torch.tensor(self.queries[number], dtype=torch.int64) - block.rows.start
            rows = weights[:, queries[:, None], self._keys[number]]
            if self._among_words:
                on_words = rows.sum(-1, keepdim=True)
                has_words = on_words >= MIN_ON_WORDS
                rows = rows / on_words.clip(MIN_ON_WORDS) * has_words
                # What has no weight on words has all of it on one more key
                rows = torch.cat([rows, (~has_words).to(rows.dtype)], -1)
            self._kept[number][block.layer, first_head] = rows

    def rows(self) -> list[Tensor]:
        """Of each input. Shape: [head, query x key], with one more key among words.

        Raises: CaptureError if the model's attention is not finite.
        """
        rows = []
        for blocks in self._kept:
            in_order = [blocks[place] for place in sorted(blocks)]
            rows.append(torch.cat(in_order).flatten(1))
        check_finite(torch.stack([values.sum() for values in rows]), "the attention weights")
        return rows

    def sums(self) -> dict[str, FloatArray]:
        """How far `apart` heads are, summed over `queries`, which are counted.

        Shape: [input, head, head], [input, 1, 1]. Raises: as `rows`.
        """
        counts = [[[float(len(queries))]] for queries in self.queries]
        apart = [divergences(rows).numpy() for rows in self.rows()]
        return {"apart": np.stack(apart), "queries": np.array(counts)}


def divergences(rows: Tensor) -> Tensor:
    """The divergence between every two heads, summed over queries. In nats.

    Shape: `rows` [head, query x key], each query's weights adding up to 1 -> [head, head], float64
    on the CPU.
    """
    half = rows / 2
    entropy = rows.new_zeros(len(rows), len(rows))
    for head in range(len(rows)):  # one head beside those behind it at a time stays in the cache
        mean = half[head] + half[head:]
        logs = mean.clip(torch.finfo(mean.dtype).tiny).log_()  # three times as fast as torch.xlogy
        entropy[head, head:] = -logs.mul_(mean).sum(-1)
    total = entropy.cpu().double()
    head_entropy = total.diagonal()
    upper = (total - (head_entropy[:, None] + head_entropy) / 2).clip(0).triu(1)
    return upper + upper.T

"""Runs two models over the same pairs, and keeps of each pair what both say: a stream in, a comparison out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from attnscan.errors import InputError, ModelError
from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.related import Both, Relation
from attnscan.inputs.sentence import Pair, Place, Record
from attnscan.results.comparison import Comparison
from attnscan.results.scores import FloatArray, IntArray
from attnscan.results.terms import LEAST, QUERIES, Match
from attnscan.scan.local import OnBad, scan
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanState, no_pair
from attnscan.scoring.blocks import Blocks, PairSums, added, error
from attnscan.scoring.labels import labels_of, scores_of, units_of
from attnscan.studies.passes import sums_over
from attnscan.studies.similarity import RowKeeper, divergences

_BLOCK = 256  # pairs that both models read before the next ones
_PROBE = Pair("I went to the store.", "At the store, I bought fresh strawberries.")


def compare(
    scanner_a: Scanner,
    scanner_b: Scanner,
    read: Callable[[], Iterator[Record]],
    match: Match = "place",
    on_bad: OnBad | None = None,
    least: float = LEAST,
) -> Comparison:
    """What sets two models apart on pairs that `read` begins anew: twice for `match="nearest"`.

    Raises: InputError if there is no pair that both can read; ModelError if their heads cannot be matched.
    """
    relation, alike = _one_relation(scanner_a, scanner_b)
    scanners = [
        scanner.with_options(labelled=True).exact().with_relation(relation) for scanner in (scanner_a, scanner_b)
    ]
    options, grids = scanners[0].options, [scanner.grid() for scanner in scanners]
    pairs = read if options.attention == "encoder" else lambda: map(_with_target, read())
    if match == "nearest":
        matched, divergence = nearest_heads(scanners[0], scanners[1], pairs(), on_bad)
    elif grids[0] == grids[1]:
        matched, divergence = np.moveaxis(np.indices(grids[0].shape), 0, -1), np.full(grids[0].shape, np.nan)
    else:
        raise ModelError(
            f"the two models have {grids[0]} and {grids[1]} heads, which have no places in common",
            "--match nearest finds the most similar head of each"
            if _read_alike(scanner_a, scanner_b)
            else "compare models of one size, or of one tokenizer",
        )
    sums_a, sums_b, states = _scan_both(scanners, pairs(), on_bad)
    in_place = {name: values[:, matched[..., 0], matched[..., 1]] for name, values in sums_b.items()}
    scored = [pattern.scored for pattern in options.patterns]
    a, b, own_b = (
        scores_of(sums, scored, options.kind, grid.layers)
        for sums, grid in ((sums_a, grids[0]), (in_place, grids[0]), (sums_b, grids[1]))
    )
    labels_a, labels_b = (
        labels_of(scores, units_of(sums, options.reading), options.reading, options.threshold, options.seed)
        for scores, sums in ((a, sums_a), (own_b, sums_b))
    )
    table_a, table_b = (scores.table(options.reading.among_words) for scores in (a, b))
    assert table_a.residual is not None and table_b.residual is not None
    return Comparison(
        a=a,
        b=b,
        se=error(table_b.residual - table_a.residual),
        matched=matched,
        divergence=divergence,
        match=match,
        pairs=int(a.every_key.pairs.max()),
        signatures=(scanners[0].signature(states[0].seen), scanners[1].signature(states[1].seen)),
        of_models=(labels_a, labels_b),
        least=least,
        alike=alike,
    )


def _scan_both(
    scanners: Sequence[Scanner], records: Iterator[Record], on_bad: OnBad | None
) -> tuple[PairSums, PairSums, list[ScanState]]:
    """Both models' sums over the same blocks of those pairs that both read. Raises: InputError if there is none."""
    total: list[Blocks | None] = [None, None]
    states = [ScanState(scanner.options) for scanner in scanners]
    told = (on_bad, None if on_bad is None else lambda _: None)  # the first model has told of a bad pair
    while block := list(itertools.islice(records, _BLOCK)):
        placed = [replace(record, place=Place(row=row)) for row, record in enumerate(block)]
        kept: list[dict[int, PairSums]] = [{}, {}]
        for which, scanner in enumerate(scanners):
            doing, keep = f"pairs through model {'AB'[which]}", partial(_keep_pairs, kept[which])
            states[which] = scan(scanner, placed, states[which], told[which], doing=doing, on_pairs=keep)
        if common := sorted(kept[0].keys() & kept[1].keys()):
            keys = [block[row].pair.key for row in common]
            for which, of_pairs in enumerate(kept):
                names = of_pairs[common[0]]
                sums = {name: np.stack([of_pairs[row][name] for row in common]) for name in names}
                total[which] = added(total[which], Blocks.of(keys, sums))
    a, b = total
    if a is None or b is None:
        raise no_pair("that both models read")
    most = min(a.most, b.most)
    return a.limited(most).sums, b.limited(most).sums, states


def _keep_pairs(kept: dict[int, PairSums], places: Sequence[Place], sums: Mapping[str, FloatArray]) -> None:
    for number, place in enumerate(places):
        kept[place.row] = {name: values[number] for name, values in sums.items()}


def nearest_heads(
    scanner_a: Scanner, scanner_b: Scanner, records: Iterable[Record], on_bad: OnBad | None = None
) -> tuple[IntArray, FloatArray]:
    """The head of the other model that attends most like each head of the one, and how far apart the two are.

    Shape: [layer, head, 2] and [layer, head], in nats.
    Raises: ModelError if the two read other tokens; InputError if there is no pair.
    """
    if not _read_alike(scanner_a, scanner_b):
        raise ModelError(
            f"{scanner_a.loaded.source.name} and {scanner_b.loaded.source.name} use different tokens, "
            "so their weights cannot be compared",
            "leave out --match nearest" if scanner_a.grid() == scanner_b.grid() else "compare models of one tokenizer",
        )

    def compare_heads(inputs: Sequence[EncodedInput]) -> dict[str, FloatArray]:
        """How far apart the two models' heads are, summed over some queries of each input."""
        options = scanner_a.options
        keepers = [RowKeeper(inputs, QUERIES, options.seed, options.reading) for _ in range(2)]
        for scanner, keeper in zip((scanner_a, scanner_b), keepers, strict=True):
            scanner.run(scanner.collate(inputs).model_inputs, keeper)
        apart = [
            divergences(torch.cat([ours, theirs.to(ours.device)]))[: len(ours), len(ours) :].numpy()
            for ours, theirs in zip(keepers[0].rows(), keepers[1].rows(), strict=True)
        ]
        return {"apart": np.sum(apart, 0), "queries": np.array(sum(map(len, keepers[0].queries)))}

    reader, other = sorted((scanner_a, scanner_b), key=lambda scanner: scanner.loaded.limit)
    total, _ = sums_over(reader, records, compare_heads, "matching heads by pairs", on_bad, [other])
    if total is None or not total["queries"]:
        raise no_pair("to match heads by")
    shape, others = scanner_a.grid().shape, scanner_b.grid().shape
    apart = total["apart"] / total["queries"]
    return np.stack(np.unravel_index(apart.argmin(1).reshape(shape), others), -1), apart.min(1).reshape(shape)


def _with_target(record: Record) -> Record:
    """A record that has a target. Raises: InputError if it has none."""
    if record.pair.b is None:
        raise InputError(
            f"{record.where} has no target, and each of the two models would write another",
            "give pairs of source and target",
        )
    return record


def _one_relation(scanner_a: Scanner, scanner_b: Scanner) -> tuple[Relation | None, str]:
    """Which words are related for both models, so that both are scored on the same queries; and that in a sentence."""
    if scanner_a.relation is None or scanner_b.relation is None:
        return None, "only identical words count: --no-related."
    if not _read_alike(scanner_a, scanner_b):
        return None, "only identical words count: the two models use different tokens."
    return Both(scanner_a.relation, scanner_b.relation), "words are related where the embeddings of both models say so."


def _read_alike(scanner_a: Scanner, scanner_b: Scanner) -> bool:
    """Whether two tokenizers give the same numbers."""
    same = scanner_a.loaded.tokenizer.get_vocab() == scanner_b.loaded.tokenizer.get_vocab()
    return same and scanner_a.encode(_PROBE).model_inputs == scanner_b.encode(_PROBE).model_inputs

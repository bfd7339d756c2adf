"""Runs two models over the same pairs, and keeps of each pair what both say: a stream in, a comparison out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from attnscan.errors import InputError, ModelError
from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.related import Both, Relation
from attnscan.inputs.sentence import Pair, Place, Record
from attnscan.results.comparison import Comparison
from attnscan.results.grid import Head
from attnscan.results.scores import FloatArray, IntArray, ScoreTable
from attnscan.results.terms import LEAST, QUERIES, Match
from attnscan.scan.local import OnBad, Stream, scan
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanState, no_pair
from attnscan.scoring.blocks import Blocks, PairSums, added, error
from attnscan.scoring.labels import labels_of, scores_of, units_of
from attnscan.studies.similarity import RowKeeper, divergences, queries_of

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
    (relation, alike), options = _one_relation(scanner_a, scanner_b), scanner_a.options
    scanner_a, scanner_b = (scanner.with_options(labelled=True) for scanner in (scanner_a, scanner_b))
    known = read if options.attention == "encoder" else lambda: map(_with_target, read())
    scanner_a, scanner_b = scanner_a.exact().with_relation(relation), scanner_b.exact().with_relation(relation)
    grids = scanner_a.grid(), scanner_b.grid()
    if match == "place":
        if grids[0] != grids[1]:
            raise ModelError(
                f"the two models have {' and '.join(map(str, grids))} heads, which have no places in common",
                "--match nearest finds the most similar head of each",
            )
        matched, divergence = _places(grids[0], grids[0].shape), np.full(grids[0].shape, np.nan)
    else:
        matched, divergence = nearest_heads(scanner_a, scanner_b, known(), on_bad)
    sums, states = _scanned(scanner_a, scanner_b, known(), matched, on_bad)
    if not sums:
        raise no_pair("that both models read")
    scored, layers = [pattern.scored for pattern in options.patterns], [grid.layers for grid in grids]
    a, own_b, b = (
        scores_of(blocks.sums, scored, options.kind, layers[number])
        for blocks, number in zip(sums, (0, 1, 0), strict=True)
    )
    rule = options.reading, options.threshold, options.seed
    of_models = [
        labels_of(scores, units_of(blocks.sums, options.reading), *rule)
        for scores, blocks in zip((a, own_b), sums, strict=False)
    ]
    return Comparison(
        a=a,
        b=b,
        se=_se_between(*(scores.table(options.reading.among_words) for scores in (a, b))),
        matched=matched,
        divergence=divergence,
        match=match,
        pairs=int(a.every_key.pairs.max()),
        signatures=(scanner_a.signature(states[0].seen), scanner_b.signature(states[1].seen)),
        of_models=(of_models[0], of_models[1]),
        least=least,
        alike=alike,
    )


def _se_between(a: ScoreTable, b: ScoreTable) -> FloatArray:
    """The standard errors of the differences of scores over the same pairs. Shape: [layer, head, pattern]."""
    assert a.residual is not None and b.residual is not None
    return error(b.residual - a.residual)


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


def _scanned(
    scanner_a: Scanner, scanner_b: Scanner, records: Iterator[Record], matched: IntArray, on_bad: OnBad | None
) -> tuple[list[Blocks], list[ScanState]]:
    """Both models' sums over the pairs that both read, and those of b with its heads in the places that they match."""
    total: list[Blocks | None] = [None] * 3
    states = [ScanState(scanner_a.options), ScanState(scanner_b.options)]
    unheard = None if on_bad is None else lambda _: None  # the first model has told of it
    while block := list(itertools.islice(records, _BLOCK)):
        kept: list[dict[int, PairSums]] = [{}, {}]
        placed = [replace(record, place=Place(row=row)) for row, record in enumerate(block)]
        for which, (scanner, hear) in enumerate(((scanner_a, on_bad), (scanner_b, unheard))):
            doing = f"pairs through model {'AB'[which]}"
            own = kept[which]

            def keep(places: Sequence[Place], sums: Mapping[str, FloatArray], own: Any = own) -> None:
                for number, place in enumerate(places):
                    own[place.row] = {name: values[number] for name, values in sums.items()}

            states[which] = scan(scanner, placed, states[which], hear, doing=doing, on_pairs=keep)
        common = sorted(kept[0].keys() & kept[1].keys())
        if common:
            ours, theirs = (_stacked([sums[row] for row in common]) for sums in kept)
            in_place = {name: values[:, matched[..., 0], matched[..., 1]] for name, values in theirs.items()}
            keys = [block[row].pair.key for row in common]
            of_block = (Blocks.of(keys, sums) for sums in (ours, theirs, in_place))
            total = [added(before, own) for before, own in zip(total, of_block, strict=True)]
    return [blocks for blocks in total if blocks is not None], states


def _stacked(pairs: Sequence[PairSums]) -> dict[str, FloatArray]:
    return {name: np.stack([sums[name] for sums in pairs]) for name in pairs[0]}


def nearest_heads(
    scanner_a: Scanner,
    scanner_b: Scanner,
    records: Iterable[Record],
    on_bad: OnBad | None = None,
) -> tuple[IntArray, FloatArray]:
    """The head of the other model that attends most like each head of the one, and how far apart the two are.

    Shape: [layer, head, 2] and [layer, head], in nats.
    Raises: ModelError if the two read other tokens; InputError if there is no pair.
    """
    if not _read_alike(scanner_a, scanner_b):
        raise ModelError(
            f"{scanner_a.loaded.source.name} and {scanner_b.loaded.source.name} use different tokens, "
            "so their weights cannot be compared",
            "leave out --match nearest",
        )
    reader = min((scanner_a, scanner_b), key=lambda scanner: scanner.loaded.limit)
    shape, others = scanner_a.grid().shape, scanner_b.grid()
    total: FloatArray | None = None
    n = 0

    stream, other = Stream(reader, records, on_bad), scanner_b if reader is scanner_a else scanner_a
    with closing(stream.worked(partial(_apart, (scanner_a, scanner_b)), other)) as looked:
        for looks, _ in looked:
            for divergence, queries in itertools.chain.from_iterable(looks):
                total, n = divergence if total is None else total + divergence, n + queries
            reader.tell("matching heads by pairs", stream.done)
    if total is None or not n:
        raise no_pair("to match heads by")
    return _places([others[number] for number in total.argmin(1)], shape), (total.min(1) / n).reshape(shape)


def _places(heads: Iterable[Head], shape: tuple[int, int]) -> IntArray:
    """The layers and numbers of some heads. Shape: [layer, head, 2], the first two by `shape`."""
    return np.array([head.place for head in heads], dtype=np.int64).reshape(*shape, 2)


def _apart(scanners: tuple[Scanner, Scanner], inputs: Sequence[EncodedInput]) -> list[tuple[FloatArray, int]]:
    """Of each input, how far apart two models' heads are, summed over its queries, and how many queries that is."""
    options = scanners[0].options
    drawn = [queries_of(encoded, QUERIES, options.seed) for encoded in inputs]
    keepers = [RowKeeper(drawn, inputs, options.reading) for _ in scanners]
    for scanner, keeper in zip(scanners, keepers, strict=True):
        scanner.run(scanner.collate(inputs).model_inputs, keeper)
    return [
        (divergences(torch.cat([ours, theirs.to(ours.device)]))[: len(ours), len(ours) :].numpy(), len(queries))
        for ours, theirs, queries in zip(*(keeper.rows() for keeper in keepers), drawn, strict=True)
    ]


def _read_alike(scanner_a: Scanner, scanner_b: Scanner) -> bool:
    """Whether two tokenizers give the same numbers."""
    same = scanner_a.loaded.tokenizer.get_vocab() == scanner_b.loaded.tokenizer.get_vocab()
    return same and scanner_a.encode(_PROBE).model_inputs == scanner_b.encode(_PROBE).model_inputs

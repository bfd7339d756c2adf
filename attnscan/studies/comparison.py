"""Runs two models over the same pairs, and keeps of each pair what both say: a stream in, a comparison out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
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
from attnscan.results.scores import FloatArray, IntArray
from attnscan.results.signature import Reading
from attnscan.results.terms import LEAST, QUERIES, Match
from attnscan.scan.local import OnBad, Stream, scan
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanState, no_pair
from attnscan.scoring.labels import LabelSums, labels_of, units_of
from attnscan.scoring.sums import Adding, PairSums, RatioProducts, ScoreSums, added
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
    if sums is None:
        raise no_pair("that both models read")
    layers = [grid.layers for grid in grids]
    scores = sums.a.finish(options.kind, layers[0]), sums.b.finish(options.kind, layers[0])
    kept = (scores[0], sums.labels_a), (sums.own_b.finish(options.kind, layers[1]), sums.labels_b)
    rule = options.reading, options.threshold, options.seed
    of_models = [labels_of(own, labels.units(), *rule) for own, labels in kept]
    return Comparison(
        a=scores[0],
        b=scores[1],
        se=sums.se_of_difference(options.reading),
        matched=matched,
        divergence=divergence,
        match=match,
        pairs=int(sums.a.every_key.pairs.max()),
        signatures=(scanner_a.signature(states[0].seen), scanner_b.signature(states[1].seen)),
        of_models=(of_models[0], of_models[1]),
        least=least,
        alike=alike,
    )


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


@dataclass(frozen=True)
class _PairedSums(Adding):
    """What has been summed of pairs that both models have scored."""

    a: ScoreSums
    b: ScoreSums
    products: RatioProducts
    """Of the two models' weights on target, by the reading. Shape: [layer, head, pattern]."""
    own_b: ScoreSums
    """Of b, each head in its own place."""
    labels_a: LabelSums
    """What a's labels follow from."""
    labels_b: LabelSums
    """What b's labels follow from, each head in its own place."""

    @classmethod
    def of(
        cls,
        ours: PairSums,
        theirs: PairSums,
        matched: IntArray,
        like: ScoreSums,
        keys: Sequence[str],
        options: ScanOptions,
    ) -> _PairedSums:
        """Of some pairs, in the same order, given what each is found by; `like` says what the patterns are."""
        unmatched = theirs
        theirs = {name: values[:, matched[..., 0], matched[..., 1]] for name, values in unmatched.items()}
        kind = "words_only" if options.reading.among_words else "every_key"
        unknown = np.full((1, 1), np.nan)  # entropy is not among what is told of single pairs
        sums_a, sums_b, own_b = (
            ScoreSums.of(sums, like.scored, *[np.broadcast_to(unknown, sums["n"].shape[1:3])] * 2)
            for sums in (ours, theirs, unmatched)
        )
        products = RatioProducts.of(*(sums[f"{kind}.{name}"] for sums in (ours, theirs) for name in ("weight", "n")))
        a, b = (LabelSums.of(units_of(sums, sums, options.reading), like.scored, keys) for sums in (ours, unmatched))
        return cls(sums_a, sums_b, products, own_b, a, b)

    def se_of_difference(self, reading: Reading) -> FloatArray:
        """Standard errors of differences of scores by the reading. Shape: [layer, head, pattern]."""
        a, b = (sums.words_only if reading.among_words else sums.every_key for sums in (self.a, self.b))
        return a.se_of_difference(b, self.products)


def _scanned(
    scanner_a: Scanner, scanner_b: Scanner, records: Iterator[Record], matched: IntArray, on_bad: OnBad | None
) -> tuple[_PairedSums | None, list[ScanState]]:
    """Both models' sums over the pairs that both read, block by block."""
    total: _PairedSums | None = None
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
            like = states[0].sums.told
            assert like is not None  # a pair was scored
            keys = [block[row].pair.key for row in common]
            of_block = _PairedSums.of(ours, theirs, matched, like, keys, scanner_a.options)
            total = added(total, of_block)
    return total, states


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

"""A closer look at some heads, word by word: distances, linked words, examples, heads alike, and why.

The first pairs are read once more, one by one, by the reading that tells what heads do: what they carry among words, if
nothing else is asked for, or weights where that is not known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray

from attnscan.errors import InputError, ModelError
from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.pairs import Pair, Record
from attnscan.model.attention_block import AttentionBlock
from attnscan.model.keeper import AttentionKeeper
from attnscan.results.card import DISTANCES, Example, Link, Look, Measure
from attnscan.results.grid import Head
from attnscan.results.head_explanation import CAUSES, HeadExplanation
from attnscan.results.profile import Profile
from attnscan.results.reading import By
from attnscan.results.scores import FloatArray
from attnscan.results.terms import QUERIES
from attnscan.scan.events import Progress, Steps
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import Seen
from attnscan.scan.stream import OnBad
from attnscan.scoring.classes import ClassScorer
from attnscan.scoring.profile import Profiler
from attnscan.scoring.profile_sums import fitted
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.statements import candidates
from attnscan.scoring.sums import RatioSums, added
from attnscan.scoring.targets import Targets
from attnscan.studies.divergence import divergences
from attnscan.studies.interventions import Positions, shuffled, why_no_segments, with_segments

LOOKED_AT = 64
"""Pairs, at most, that are looked at word by word."""
EXPLAINED_BY = 16
"""Pairs, at most, that are read with something changed."""
_CELLS = 1 << 22  # pairs of words that links are counted over, at most
_SHUFFLES = 4
_LINKS, _EXAMPLES, _ALIKE = 10, 3, 5
_FEWEST = 5  # eligible words of an example

Sums = tuple[FloatArray, FloatArray]
"""S and n of each pair. Shape: [pair]."""


def looks(
    scanner: Scanner, records: Iterable[Record], measures: Mapping[Head, Measure], on_bad: OnBad | None = None
) -> Steps[dict[Head, Look]]:
    """Look at some heads, each by what it is told by; tells of pairs that are done.

    Raises: InputError if there is no pair that can be read.
    """
    behaviour = scanner.options.behaviour
    carried = behaviour.carried and not isinstance(scanner.carrying, str)
    by: By = "carried" if carried else "weight"
    scanner = scanner.exact().with_options(by=by, special=behaviour.special)
    seen = _Seen(scanner, measures)
    for record in islice(records, LOOKED_AT):
        try:
            encoded = scanner.encode(record.pair)
        except InputError as error:
            if on_bad is None:
                raise
            on_bad(error)
            continue
        yield from seen.take(record.pair, encoded)
        yield Progress("looking at heads, pair by pair", len(seen.pairs))
    if not seen.pairs:
        raise InputError("no pair can be read", "give pairs of sentences")
    why, not_available = yield from _explained(scanner, seen.inputs[:EXPLAINED_BY], measures)
    profile = seen.profile()
    return {head: seen.look(head, why[head], not_available, profile) for head in measures}


@dataclass
class _Seen:
    """What was seen of the pairs so far."""

    scanner: Scanner
    measures: Mapping[Head, Measure]
    pairs: list[Pair] = field(default_factory=list)
    inputs: list[EncodedInput] = field(default_factory=list)
    examples: dict[Head, list[Example]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self._numbers: dict[str, int] = {}
        """Of texts of words."""
        self._codes: list[NDArray[np.int64]] = []
        self._inputs: list[NDArray[np.int64]] = []
        """Which input each pair of words stands in."""
        self._shares: list[FloatArray] = []
        """Of each pair of words, the average head's share and those of the heads. Shape: [1 + head, cell]."""
        self._cells = 0
        self._distance = np.zeros((1 + len(self.measures), len(DISTANCES)))
        self._at_distance = np.zeros(len(DISTANCES))
        self._apart: FloatArray | None = None
        self._profile: dict[str, FloatArray] | None = None
        self._parts: tuple[str, ...] = ()
        self._queries = 0

    def take(self, pair: Pair, encoded: EncodedInput) -> Steps[None]:
        """Look at one pair."""
        keeper = AttentionKeeper()
        measurer = yield from _Measurer.of(self.scanner, [encoded], self.measures)
        among_words = self.scanner.options.reading.among_words
        profiler = Profiler(measurer.batch, (), special=not among_words)

        def consume(block: AttentionBlock) -> None:
            for take in (measurer, profiler, keeper):
                take(replace(block, query=None, key=None))

        self.scanner.run(measurer.batch.model_inputs, consume)
        profile = {name: sums.sum(0, keepdims=True) for name, sums in profiler.sums().items()}
        self._profile, self._parts = added(self._profile, profile), profiler.parts
        self.pairs.append(pair)
        self.inputs.append(encoded)
        attention = keeper.attention(encoded).in_words(encoded.units)
        sentence = np.array(attention.sentence)
        words, keys = np.flatnonzero(sentence >= 0), np.flatnonzero(sentence >= (0 if among_words else -1))
        rows = attention.weights[:, :, words][..., keys].astype(np.float64)
        left = rows.sum(-1, keepdims=True)
        rows /= np.where(left > 0, left, 1)
        units = tuple(attention.tokens[key].strip() for key in keys)
        queries = np.searchsorted(keys, words)  # their places among the keys
        shares = np.stack([rows.mean((0, 1)), *(rows[head.place] for head in self.measures)])
        self._count_links(units, queries, shares)
        self._count_distances(sentence[keys], queries, shares)
        self._compare(rows)
        second = int(np.searchsorted(keys, np.flatnonzero(sentence == 1)[:1]).sum()) or len(keys)
        for number, (head, (total, n)) in enumerate(measurer.sums().items(), 1):
            if n[0] >= _FEWEST:
                beyond = shares[number] - shares[0]
                row, key = (int(place) for place in np.unravel_index(beyond.argmax(), beyond.shape))
                query = int(queries[row])
                share = float(total[0] / n[0])
                self.examples[head].append(Example(units, second, query, key, share, pair.texts))
                self.examples[head].sort(key=lambda example: -example.share)
                del self.examples[head][_EXAMPLES:]

    def _count_links(self, units: Sequence[str], queries: NDArray[np.int64], shares: FloatArray) -> None:
        if (self._cells + shares[0].size) > _CELLS and self._codes:
            return
        self._cells += shares[0].size
        ids = np.array([self._numbers.setdefault(unit, len(self._numbers)) for unit in units], dtype=np.int64)
        self._codes.append((ids[queries, None] << 32 | ids).ravel())
        self._inputs.append(np.full(shares[0].size, len(self._inputs)))
        self._shares.append(shares.reshape(len(shares), -1))

    def _count_distances(self, sentence: NDArray[np.int64], queries: NDArray[np.int64], shares: FloatArray) -> None:
        place = np.arange(len(sentence))
        own = sentence[queries, None] == sentence
        offset = np.where(own, place - place[queries, None], DISTANCES[-1] + 1)
        for number, distance in enumerate(DISTANCES):
            there = offset == distance
            self._distance[:, number] += (shares * there).sum((1, 2))
            self._at_distance[number] += there.sum()

    def _compare(self, rows: FloatArray) -> None:
        heads, length, keys = rows.shape[0] * rows.shape[1], *rows.shape[2:]
        queries = np.unique(np.linspace(0, length - 1, min(length, QUERIES)).astype(int))
        drawn = torch.from_numpy(np.ascontiguousarray(rows.reshape(heads, length, keys)[:, queries])).float()
        apart = divergences(drawn.flatten(1)).numpy()
        self._apart = apart if self._apart is None else self._apart + apart
        self._queries += len(queries)

    def profile(self) -> Profile:
        """What every head does in full, over all pairs."""
        assert self._profile is not None
        return Profile(self._parts, fitted(self._profile), self.scanner.signature(Seen()))

    def look(self, head: Head, why: HeadExplanation, not_available: Mapping[str, str], profile: Profile) -> Look:
        """What all pairs together say of a head."""
        number = 1 + list(self.measures).index(head)
        with np.errstate(invalid="ignore", divide="ignore"):
            distance = self._distance / self._at_distance
        return Look(
            measure=self.measures[head],
            distance=distance[number],
            average_distance=distance[0],
            links=tuple(self._links(number)),
            examples=tuple(self.examples[head]),
            alike=tuple(self._alike(head)),
            why=why,
            not_available=not_available,
            profile=profile,
            pairs=len(self.pairs),
        )

    def _links(self, number: int) -> list[Link]:
        """Pairs of words by their mean excess times the root of how often they stand in one input, largest first.

        Those of several inputs go before those of a single one, which are of its subject.
        """
        codes, inverse, count = np.unique(np.concatenate(self._codes), return_inverse=True, return_counts=True)
        shares, inverse = np.concatenate(self._shares, axis=1), inverse.ravel()
        own, average = (np.bincount(inverse, weights=shares[row]) / count for row in (number, 0))
        first, last = np.full(len(codes), len(self.pairs)), np.zeros(len(codes))
        np.minimum.at(first, inverse, np.concatenate(self._inputs))
        np.maximum.at(last, inverse, np.concatenate(self._inputs))
        order = np.lexsort((-(own - average) * np.sqrt(count), first == last))
        texts = list(self._numbers)
        return [
            Link(
                texts[int(codes[place]) >> 32],
                texts[int(codes[place]) & 0xFFFFFFFF],
                float(own[place]),
                float(average[place]),
                int(count[place]),
            )
            for place in order[:_LINKS]
            if own[place] > average[place]
        ]

    def _alike(self, head: Head) -> list[tuple[Head, float]]:
        assert self._apart is not None
        grid = self.scanner.grid()
        apart = self._apart[grid.index(head)] / self._queries
        order = [number for number in np.argsort(apart, kind="stable") if grid[number] != head]
        return [(grid[number], float(apart[number])) for number in order[:_ALIKE]]


class _Measurer:
    """A consumer that measures heads on a batch, as often as it is run."""

    def __init__(self, targets: Targets, measures: Mapping[Head, Measure], special: bool) -> None:
        self.batch, self._measures, self._targets, self._special = targets.batch, measures, targets, special
        self._classes = ClassScorer(targets.batch, special=special)
        self._scorer = Scorer(targets)
        self._stated = any(not measure.labelled for measure in measures.values())
        self._labelled = any(measure.labelled for measure in measures.values())
        self._layers = {head.layer for head in measures}

    @classmethod
    def of(cls, scanner: Scanner, inputs: Sequence[EncodedInput], measures: Mapping[Head, Measure]) -> Steps[_Measurer]:
        """Measure some inputs, of which the model is asked for predictive words if a head is told by these."""
        asks = any(measure.name == "predictive" for measure in measures.values())
        helps = (yield from scanner.asking(inputs)) if asks else ()
        names = {measure.name for measure in measures.values() if measure.labelled}
        patterns = [known for known in scanner.options.patterns if known.id in names]
        return cls(Targets(scanner.collate(inputs), patterns, helps), measures, scanner.options.reading.special == "in")

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        if block.layer not in self._layers:
            return
        if self._stated:
            self._classes(block)
        if self._labelled:
            self._scorer(block)

    def sums(self) -> dict[Head, Sums]:
        """S and n of each pair and head, once every block has come."""
        return {head: self._of(head, measure)[:2] for head, measure in self._measures.items()}

    def chance(self, head: Head) -> FloatArray:
        """What S would be by even attention. Shape: [pair]."""
        return self._of(head, self._measures[head])[2]

    def _of(self, head: Head, measure: Measure) -> tuple[FloatArray, FloatArray, FloatArray]:
        at = (slice(None), *head.place)
        if measure.labelled:
            sums, table = self._scorer.pair_sums(), "every_key" if self._special else "words_only"
            p = [known.id for known in self._targets.scored].index(measure.name)
            weight, n, chance = (sums[f"{table}.{name}"][at][:, p] for name in ("weight", "n", "chance"))
            return weight, n, chance
        names, members = candidates(special=self._special)
        column = members[:, names.index(measure.name)]
        classes = self._classes.sums()
        return classes["on"][at] @ column, classes["n"][at][:, 0], classes["even"][at] @ column


def _explained(
    scanner: Scanner, inputs: Sequence[EncodedInput], measures: Mapping[Head, Measure]
) -> Steps[tuple[dict[Head, HeadExplanation], dict[str, str]]]:
    """What heads do with positions shuffled or segment ids changed, over some inputs, and what cannot be changed."""
    measurer = yield from _Measurer.of(scanner, inputs, measures)
    model_inputs, model = measurer.batch.model_inputs, scanner.loaded.model
    scanner.run(model_inputs, measurer)
    plain, chance = measurer.sums(), {head: measurer.chance(head) for head in measures}
    changed: dict[str, dict[Head, Sums]] = {}
    not_available: dict[str, str] = {}
    try:
        positions = Positions(model, model_inputs)
    except ModelError as error:
        not_available["positions"] = error.what
    else:
        width, drawn = measurer.batch.word.shape[1], []
        for number in range(_SHUFFLES):
            yield Progress("positions shuffled", number, _SHUFFLES)
            order = shuffled(inputs, width, scanner.options.seed, number).to(measurer.batch.word.device)
            with positions.reordered(model_inputs, order) as reordered:
                scanner.run(reordered, measurer)
            drawn.append(measurer.sums())
        changed["positions_shuffled"] = {
            head: (np.mean([sums[head][0] for sums in drawn], axis=0), plain[head][1]) for head in measures
        }
    if (why := why_no_segments(model, model_inputs)) is not None:
        not_available["segments"] = why
    else:
        for name, swapped in (("segments_zeroed", False), ("segments_swapped", True)):
            scanner.run(with_segments(model_inputs, swapped=swapped), measurer)
            changed[name] = measurer.sums()
    explained = {
        head: _explanation(head, measure, plain[head], chance[head], {name: of[head] for name, of in changed.items()})
        for head, measure in measures.items()
    }
    return explained, not_available


def _explanation(
    head: Head, measure: Measure, plain: Sums, chance: FloatArray, changed: Mapping[str, Sums]
) -> HeadExplanation:
    as_it_is = RatioSums.of(*plain)
    by_chance = float(RatioSums.of(chance, plain[1]).ratio)
    after = {name: RatioSums.of(total, plain[1]) for name, (total, _) in changed.items()}
    falls = {name: RatioSums.of(plain[0] - total, plain[1]) for name, (total, _) in changed.items()}
    unknown = dict.fromkeys(CAUSES, float("nan"))
    score = float(as_it_is.ratio)
    return HeadExplanation(
        head=head,
        label=measure.name,
        label_stays=float("nan"),
        unsure=False,
        pattern=measure.name,
        clause="",
        score=score,
        chance=by_chance,
        above_chance=(score - by_chance) / (1 - by_chance) if by_chance < 1 else float("nan"),
        se=float(as_it_is.se),
        neurons={},
        causes=unknown | {name: float(sums.ratio) for name, sums in after.items()},
        cause_se=unknown | {name: float(sums.se) for name, sums in after.items()},
        fall_se=unknown | {name: float(sums.se) for name, sums in falls.items()},
        n=int(plain[1].sum()),
        pairs=int((plain[1] > 0).sum()),
    )

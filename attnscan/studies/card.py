"""A closer look at some heads, word by word: distances, linked words, examples, heads alike, and why.

The first pairs are read once more, by the same reading: attention weights among words, if nothing else is asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import InputError
from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.sentence import Record
from attnscan.model.attention_block import AttentionBlock, AttentionKeeper, Consumer
from attnscan.results.attention import Attention, Chosen
from attnscan.results.card import DISTANCES, Example, Link, Look, Measure
from attnscan.results.grid import Head
from attnscan.results.head_explanation import CAUSES, HeadExplanation
from attnscan.results.scores import FloatArray
from attnscan.results.terms import QUERIES
from attnscan.scan.local import OnBad
from attnscan.scan.scanner import Scanner
from attnscan.scoring.blocks import error, ratio, residuals
from attnscan.scoring.classes import ClassScorer
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.statements import habits_of
from attnscan.scoring.targets import Targets
from attnscan.studies.interventions import positions_of, under_changes
from attnscan.studies.similarity import RowKeeper, divergences

LOOKED_AT = 128
"""Pairs, at most, that are looked at word by word."""
EXPLAINED_BY = 16
"""Pairs, at most, that are read with something changed."""
_ROWS = 1 << 27  # weights of an input's rows that are looked at: 1 GB in float64
_CELLS = 1 << 22  # pairs of words that links are counted over, at most
_TOGETHER = 1 << 17  # weights of a head in inputs that are read together: eight of 128 tokens
_SHUFFLES = 4
_LINKS, _EXAMPLES, _ALIKE = 10, 3, 5
_FEWEST = 5  # eligible words of an example


def looks(
    scanner: Scanner, records: Iterable[Record], measures: Mapping[Head, Measure], on_bad: OnBad | None = None
) -> dict[Head, Look]:
    """Look at some heads, each by what it is told by; tells of pairs that are done.

    Raises: InputError if there is no pair that can be read.
    """
    scanner = scanner.exact()
    inputs: list[EncodedInput] = []
    for record in islice(records, LOOKED_AT):
        try:
            inputs.append(scanner.encode(record.pair))
        except InputError as error:
            if on_bad is None:
                raise
            on_bad(error)
    if not inputs:
        raise InputError("no pair can be read", "give pairs of sentences")
    seen, done = _Seen(scanner, measures, inputs), 0
    for numbers in _alike_in_length(inputs):
        seen.take(numbers)
        done += len(numbers)
        scanner.tell("looking at heads, by pairs", done, len(inputs))
    why, not_available = _explained(scanner, inputs[:EXPLAINED_BY], measures, seen.measured)
    return {head: seen.look(head, why[head], not_available) for head in measures}


def _alike_in_length(inputs: Sequence[EncodedInput]) -> Iterator[list[int]]:
    """The places of inputs that are read together: of about one length, and so few that their weights take no room."""
    batch: list[int] = []
    for number in sorted(range(len(inputs)), key=lambda number: len(inputs[number].tokens)):
        if batch and (len(batch) + 1) * len(inputs[number].tokens) ** 2 > _TOGETHER:
            yield batch
            batch = []
        batch.append(number)
    yield batch


class _Seen:
    """What was seen of the pairs so far."""

    def __init__(self, scanner: Scanner, measures: Mapping[Head, Measure], inputs: Sequence[EncodedInput]) -> None:
        self.scanner, self.measures, self.inputs = scanner, measures, inputs
        self.measured = {head: np.zeros((3, len(inputs))) for head in measures}
        """S and n of each input, and what S would be by even attention. Shape: [3, input]."""
        self._examples: dict[Head, list[Example]] = defaultdict(list)
        self._numbers: dict[str, int] = {}
        """Of texts of words."""
        self._codes: list[NDArray[np.int64]] = []
        self._inputs: list[NDArray[np.int64]] = []
        """Which input each pair of words stands in."""
        self._shares: list[FloatArray] = []
        """Of each pair of words, the average head's share and those of the heads. Shape: [1 + head, cell]."""
        self._cells = 0
        self._distance = np.zeros((1 + len(measures), len(DISTANCES)))
        self._words = 0
        self._apart: FloatArray | float = 0.0
        self._queries = 0

    def take(self, numbers: Sequence[int]) -> None:
        """Look at some inputs."""
        inputs = [self.inputs[number] for number in numbers]
        measurer = _Measurer.of(self.scanner, inputs, self.measures)
        keepers = [AttentionKeeper(chosen=self._rows(encoded)) for encoded in inputs]
        options = self.scanner.options
        rows = RowKeeper(inputs, QUERIES, options.seed, options.reading)

        def consume(block: AttentionBlock) -> None:
            rows(block)
            bare = replace(block, query=None, key=None)
            if block.layer in measurer.layers:
                measurer(bare)
            first, _, _ = block.inputs.indices(len(inputs))
            for row, weights in enumerate(block.weights):
                length, place = len(inputs[first + row].tokens), slice(first + row, first + row + 1)
                keepers[first + row](replace(bare, inputs=place, weights=weights[None, :, :length, :length]))

        self.scanner.run(measurer.batch.model_inputs, consume)
        for head, measured in self.measured.items():
            measured[:, numbers] = measurer.of_pairs(head)
        for own, asked in zip(rows.rows(), rows.queries, strict=True):
            self._apart = self._apart + divergences(own).numpy()
            self._queries += len(asked)
        for number, keeper in zip(numbers, keepers, strict=True):
            self._look_at(number, keeper.attention(self.inputs[number]).in_words(self.inputs[number].units))

    def _rows(self, encoded: EncodedInput) -> Chosen:
        """The rows of all heads that are looked at: those of all words or, of a long input, of some spread over it."""
        grid, tokens = self.scanner.grid(), np.arange(len(encoded.tokens))
        sentence, unit = np.array(encoded.unit_sentence), np.array(encoded.unit)
        words = np.flatnonzero((sentence >= 0) & (np.arange(len(sentence)) >= unit[encoded.source]))
        most = max(1, min(len(words), _ROWS // (len(grid) * len(tokens))))
        some = words[np.linspace(0, len(words) - 1, most).astype(int)]
        return Chosen(grid, tuple(tokens[np.isin(unit, some)].tolist()), tuple(grid))

    def _look_at(self, number: int, attention: Attention) -> None:
        """Count what an input's words have of each other, and see whether it is an example."""
        sentence, among_words = np.array(attention.sentence), self.scanner.options.reading.among_words
        last = attention.source or len(sentence)  # in cross attention, the target's words behind it ask
        words, keys = np.array(attention.rows), np.flatnonzero(sentence[:last] >= (0 if among_words else -1))
        rows = attention.weights[..., keys].astype(np.float64)
        left = rows.sum(-1, keepdims=True)
        rows /= np.where(left > 0, left, 1)
        places = np.concatenate([keys, words]) if attention.source else keys
        units = tuple(attention.tokens[place].strip() for place in places)
        queries = len(keys) + np.arange(len(words)) if attention.source else np.searchsorted(keys, words)
        shares = np.stack([rows.mean((0, 1)), *(rows[attention.place(head)] for head in self.measures)])
        self._count_links(units, queries, shares)
        if attention.source:
            self._add_distances(_from_same_place(sentence, words, keys), shares)
        else:
            self._count_distances(sentence[keys], queries, shares)
        second = int(np.searchsorted(keys, np.flatnonzero(sentence == 1)[:1]).sum()) or len(keys)
        for own, (head, measured) in zip(shares[1:], self.measured.items(), strict=True):
            total, n, _ = measured[:, number]
            if n >= _FEWEST:
                beyond = own - shares[0]
                row, key = (int(place) for place in np.unravel_index(beyond.argmax(), beyond.shape))
                texts, query = self.inputs[number].known_pair.texts, int(queries[row])
                self._examples[head].append(Example(units, second, query, key, float(total / n), texts))
                self._examples[head].sort(key=lambda example: -example.share)
                del self._examples[head][_EXAMPLES:]

    def _count_links(self, units: Sequence[str], queries: NDArray[np.int64], shares: FloatArray) -> None:
        if (self._cells + shares[0].size) > _CELLS and self._codes:
            return
        self._cells += shares[0].size
        ids = np.array([self._numbers.setdefault(unit, len(self._numbers)) for unit in units], dtype=np.int64)
        self._codes.append((ids[queries, None] << 32 | ids[: shares.shape[-1]]).ravel())
        self._inputs.append(np.full(shares[0].size, len(self._inputs)))
        self._shares.append(shares.reshape(len(shares), -1))

    def _count_distances(self, sentence: NDArray[np.int64], queries: NDArray[np.int64], shares: FloatArray) -> None:
        place = np.arange(len(sentence))
        own = sentence[queries, None] == sentence
        self._add_distances(np.where(own, place - place[queries, None], DISTANCES[-1] + 1), shares)

    def _add_distances(self, offset: NDArray[np.int64], shares: FloatArray) -> None:
        """Count what is given to keys at each offset. Shape: `offset` [query, key]."""
        for number, distance in enumerate(DISTANCES):
            there = offset == distance
            self._distance[:, number] += (shares * there).sum((1, 2))
        self._words += shares.shape[1]

    def look(self, head: Head, why: HeadExplanation, not_available: Mapping[str, str]) -> Look:
        """What all pairs together say of a head."""
        number = 1 + list(self.measures).index(head)
        with np.errstate(invalid="ignore", divide="ignore"):
            distance = self._distance / self._words
        return Look(
            measure=self.measures[head],
            distance=distance[number],
            average_distance=distance[0],
            links=tuple(self._links(number)),
            examples=tuple(self._examples[head]),
            alike=tuple(self._alike(head)),
            why=why,
            not_available=not_available,
            pairs=len(self.inputs),
        )

    def _links(self, number: int) -> list[Link]:
        """Pairs of words by their mean excess times the root of how often they stand in one input, largest first.

        Those of several inputs go before those of a single one, which are of its subject.
        """
        codes, inverse, count = np.unique(np.concatenate(self._codes), return_inverse=True, return_counts=True)
        shares, inverse = np.concatenate(self._shares, axis=1), inverse.ravel()
        own, average = (np.bincount(inverse, weights=shares[row]) / count for row in (number, 0))
        first, last = np.full(len(codes), len(self.inputs)), np.zeros(len(codes))
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
        grid = self.scanner.grid()
        apart = np.asarray(self._apart)[grid.index(head)] / self._queries
        order = [number for number in np.argsort(apart, kind="stable") if grid[number] != head]
        return [(grid[number], float(apart[number])) for number in order[:_ALIKE]]


class _Measurer:
    """A consumer that measures heads on a batch, as often as it is run."""

    def __init__(self, targets: Targets, measures: Mapping[Head, Measure], special: bool) -> None:
        self.batch, self._measures, self._targets, self._special = targets.batch, measures, targets, special
        self._classes = ClassScorer(targets.batch, special=special)
        self._scorer = Scorer(targets)
        takers: dict[bool, Consumer] = {True: self._scorer, False: self._classes}
        self._takers = [takers[labelled] for labelled in {measure.labelled for measure in measures.values()}]
        self.layers = {head.row for head in measures}
        """Those of the heads."""

    @classmethod
    def of(cls, scanner: Scanner, inputs: Sequence[EncodedInput], measures: Mapping[Head, Measure]) -> _Measurer:
        """Measure some inputs, of which the model is asked for predictive words if a head is told by these."""
        asks = any(measure.name == "predictive" for measure in measures.values())
        helps = scanner.asking(inputs) if asks else ()
        names = {measure.name for measure in measures.values() if measure.labelled}
        patterns = [known for known in scanner.options.patterns if known.id in names]
        return cls(Targets(scanner.collate(inputs), patterns, helps), measures, scanner.options.reading.special == "in")

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        if block.layer in self.layers:
            for take in self._takers:
                take(block)

    def of_pairs(self, head: Head) -> FloatArray:
        """S and n of each pair, once every block has come, and what S would be by even attention. Shape: [3, pair]."""
        measure = self._measures[head]
        at = (slice(None), *head.place)
        if measure.labelled:
            sums, table = self._scorer.sums(), "every_key" if self._special else "words_only"
            p = [known.id for known in self._targets.scored].index(measure.name)
            weight, n, chance = (sums[f"{table}.{name}"][at][:, p] for name in ("weight", "n", "chance"))
            return np.stack([weight, n, chance])
        names, members = habits_of(special=self._special)
        column = members[:, names.index(measure.name)]
        classes = self._classes.sums()
        return np.stack([classes["on"][at] @ column, classes["n"][at][:, 0], classes["even"][at] @ column])


def _from_same_place(
    sentence: NDArray[np.int64], words: NDArray[np.int64], keys: NDArray[np.int64]
) -> NDArray[np.int64]:
    """How far source words stand behind the one at a target word's own place, as `same_place` has it.

    Shape: `sentence` [token], `words` of the target [query], `keys` of the source [key] -> [query, key].
    """
    target, source = np.flatnonzero(sentence == 1), np.flatnonzero(sentence == 0)
    last, place = len(target) - 1, np.searchsorted(target, words)
    goal = (2 * place * (len(source) - 1) + last) // max(1, 2 * last)
    offset = np.searchsorted(source, keys) - goal[:, None]
    return np.where(np.isin(keys, source), offset, DISTANCES[-1] + 1)


def _explained(
    scanner: Scanner, inputs: Sequence[EncodedInput], measures: Mapping[Head, Measure], plain: Mapping[Head, FloatArray]
) -> tuple[dict[Head, HeadExplanation], dict[str, str]]:
    """What heads do with positions shuffled or segment ids changed, over some inputs, and what cannot be changed.

    Shape: `plain`, what they do otherwise, as `_Measurer.of_pairs`, of more inputs.
    """
    measurer = _Measurer.of(scanner, inputs, measures)
    positions = positions_of(scanner)

    def measured(run: Callable[[Consumer], None]) -> dict[Head, FloatArray]:
        run(measurer)
        return {head: measurer.of_pairs(head)[0] for head in measures}

    scanner.tell("positions and segments changed")
    drawn, not_available = under_changes(scanner, measurer.batch, positions, _SHUFFLES, measured)
    explained = {}
    for head, measure in measures.items():
        after = {name: np.mean([totals[head] for totals in draws], axis=0) for name, draws in drawn.items()}
        explained[head] = _explanation(head, measure, plain[head][:, : len(inputs)], after)
    return explained, not_available


def _explanation(head: Head, measure: Measure, plain: FloatArray, after: Mapping[str, FloatArray]) -> HeadExplanation:
    total, n, even = plain
    unknown = dict.fromkeys(CAUSES, float("nan"))
    score, by_chance = float(ratio(total, n)), float(ratio(even, n))
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
        se=float(error(residuals(total, n))),
        neurons={},
        causes=unknown | {name: float(ratio(again, n)) for name, again in after.items()},
        cause_se=unknown | {name: float(error(residuals(again, n))) for name, again in after.items()},
        fall_se=unknown | {name: float(error(residuals(total - again, n))) for name, again in after.items()},
        n=int(n.sum()),
        pairs=int((n > 0).sum()),
    )

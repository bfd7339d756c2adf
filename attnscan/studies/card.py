"""A closer look at some heads, word by word: distances, linked words, examples, heads alike, and why.

The first pairs are read once more, by the same reading: attention weights among words, if nothing else is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attnscan.errors import InputError
from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.sentence import Record
from attnscan.model.attention_block import AttentionBlock, AttentionKeeper, Consumer
from attnscan.results.attention import Attention, Chosen
from attnscan.results.card import DISTANCES, Example, Link, Look, Measure
from attnscan.results.explanation import CAUSES, HeadExplanation
from attnscan.results.grid import Head
from attnscan.results.scores import FloatArray
from attnscan.results.terms import QUERIES
from attnscan.scan.local import OnBad
from attnscan.scan.scanner import Scanner
from attnscan.scoring.blocks import error, ratio, residuals
from attnscan.scoring.classes import ClassScorer
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.statements import habits_of
from attnscan.scoring.targets import Targets
from attnscan.studies.comparison import RowKeeper, divergences
from attnscan.studies.interventions import positions_of, under_changes, why_not_changed

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
        except InputError as bad:
            if on_bad is None:
                raise
            on_bad(bad)
    if not inputs:
        raise InputError("no pair can be read", "give pairs of sentences")
    seen, done = _Seen(scanner, measures, inputs), 0
    for numbers in _alike_in_length(inputs):
        seen.take(numbers)
        done += len(numbers)
        scanner.tell("looking at heads, by pairs", done, len(inputs))
    why, not_available = _explained(scanner, inputs[:EXPLAINED_BY], measures, seen.measured)
    links = seen.links()
    return {
        head: Look(
            measure=measure,
            distance=seen.distance[number] / max(1, seen.words),
            average_distance=seen.distance[0] / max(1, seen.words),
            links=tuple(links[head]),
            examples=tuple(seen.examples[head]),
            alike=tuple(seen.alike(head)),
            why=why[head],
            not_available=not_available,
            pairs=len(inputs),
        )
        for number, (head, measure) in enumerate(measures.items(), 1)
    }


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
        self.examples: dict[Head, list[Example]] = {head: [] for head in measures}
        self.distance = np.zeros((1 + len(measures), len(DISTANCES)))
        """Sums of shares at each distance, the average head's first."""
        self.words = 0
        self._cells: list[pd.DataFrame] = []
        """A row for each two words of an input: both texts, the average head's share, and each head's."""
        self._apart, self._queries = np.zeros((len(scanner.grid()),) * 2), 0

    def take(self, numbers: Sequence[int]) -> None:
        """Look at some inputs."""
        inputs = [self.inputs[number] for number in numbers]
        measurer = _Measurer(self.scanner, inputs, self.measures)
        keepers = [AttentionKeeper(chosen=self._rows(encoded)) for encoded in inputs]
        rows = RowKeeper(inputs, QUERIES, self.scanner.options.seed, self.scanner.options.reading)

        def consume(block: AttentionBlock) -> None:
            rows(block)
            bare = replace(block, query=None, key=None)
            measurer(bare)
            first, _, _ = block.inputs.indices(len(inputs))
            for number, weights in enumerate(block.weights, first):
                length, place = len(inputs[number].tokens), slice(number, number + 1)
                keepers[number](replace(bare, inputs=place, weights=weights[None, :, :length, :length]))

        self.scanner.run(measurer.batch.model_inputs, consume)
        for head, measured in self.measured.items():
            measured[:, numbers] = measurer.of_pairs(head)
        for own, asked in zip(rows.rows(), rows.queries, strict=True):
            self._apart += divergences(own).numpy()
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
        across = attention.source > 0  # then the target's words, behind the source's, ask
        words = np.array(attention.rows)
        keys = np.flatnonzero(sentence[: attention.source or None] >= (0 if among_words else -1))
        rows = attention.weights[..., keys].astype(np.float64)
        left = rows.sum(-1, keepdims=True)
        rows /= np.where(left > 0, left, 1)
        shares = np.stack([rows.mean((0, 1)), *(rows[attention.place(head)] for head in self.measures)])
        units = np.array([text.strip() for text in attention.tokens], dtype=object)
        if across:
            offset = _from_same_place(sentence, words, keys)
        else:
            own = sentence[words, None] == sentence[keys]
            offset = np.arange(len(keys)) - np.searchsorted(keys, words)[:, None]
            offset = np.where(own, offset, DISTANCES[-1] + 1)
        for column, distance in enumerate(DISTANCES):
            self.distance[:, column] += (shares * (offset == distance)).sum((1, 2))
        self.words += len(words)
        if not self._cells or sum(map(len, self._cells)) + shares[0].size <= _CELLS:
            texts = {"query": np.repeat(units[words], len(keys)), "key": np.tile(units[keys], len(words))}
            columns: list[Any] = ["average", *self.measures]
            of_heads = pd.DataFrame(shares.reshape(len(shares), -1).T, columns=columns)
            self._cells.append(pd.DataFrame({**texts, "input": number}).join(of_heads))
        places = np.concatenate([keys, words]) if across else keys
        asks = len(keys) + np.arange(len(words)) if across else np.searchsorted(keys, words)
        second = int(np.searchsorted(keys, np.flatnonzero(sentence == 1)[:1]).sum()) or len(keys)
        for (head, measured), own_shares in zip(self.measured.items(), shares[1:], strict=True):
            total, n, _ = measured[:, number]
            if n >= _FEWEST:
                beyond = own_shares - shares[0]
                row, key = np.unravel_index(beyond.argmax(), beyond.shape)
                texts_read = self.inputs[number].known_pair.texts
                shown = tuple(units[places])
                example = Example(shown, second, int(asks[row]), int(key), float(total / n), texts_read)
                examples = sorted([*self.examples[head], example], key=lambda example: -example.share)
                self.examples[head] = examples[:_EXAMPLES]

    def links(self) -> dict[Head, list[Link]]:
        """Pairs of words by their mean excess times the root of how often they stand in one input, largest first.

        Those of several inputs go before those of a single one, which are of its subject.
        """
        grouped = pd.concat(self._cells, ignore_index=True).groupby(["query", "key"], sort=False)
        means, counts = grouped.mean(), grouped.size().to_numpy()
        single = (grouped["input"].nunique() == 1).to_numpy()
        found: dict[Head, list[Link]] = {}
        for head in self.measures:
            own, average = means[head].to_numpy(), means["average"].to_numpy()
            order = np.lexsort((-(own - average) * np.sqrt(counts), single))[:_LINKS]
            found[head] = [
                Link(query, key, float(own[at]), float(average[at]), int(counts[at]))
                for at in order
                for query, key in [means.index[at]]
                if own[at] > average[at]
            ]
        return found

    def alike(self, head: Head) -> list[tuple[Head, float]]:
        """The heads that attend most alike, nearest first."""
        grid = self.scanner.grid()
        apart = self._apart[grid.index(head)] / self._queries
        order = [number for number in np.argsort(apart, kind="stable") if grid[number] != head]
        return [(grid[number], float(apart[number])) for number in order[:_ALIKE]]


class _Measurer:
    """A consumer that measures heads on a batch, as often as it is run."""

    def __init__(self, scanner: Scanner, inputs: Sequence[EncodedInput], measures: Mapping[Head, Measure]) -> None:
        """The model is asked for predictive words if a head is told by these."""
        asks = any(measure.name == "predictive" for measure in measures.values())
        names = {measure.name for measure in measures.values() if measure.labelled}
        patterns = [known for known in scanner.options.patterns if known.id in names]
        self._targets = Targets(scanner.collate(inputs), patterns, scanner.helps(inputs) if asks else ())
        self.batch, self._measures, self._special = (
            self._targets.batch,
            measures,
            scanner.options.reading.special == "in",
        )
        self._classes, self._scorer = ClassScorer(self._targets.units, special=self._special), Scorer(self._targets)
        kinds = {measure.labelled for measure in measures.values()}
        self._takers: list[Consumer] = [self._scorer] * (True in kinds) + [self._classes] * (False in kinds)
        self._layers = {head.row for head in measures}

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        for take in self._takers if block.layer in self._layers else ():
            take(block)

    def of_pairs(self, head: Head) -> FloatArray:
        """S and n of each pair, once every block has come, and what S would be by even attention. Shape: [3, pair]."""
        measure, at = self._measures[head], (slice(None), *head.place)
        if measure.labelled:
            sums, table = self._scorer.sums(), "every_key" if self._special else "words_only"
            p = [known.id for known in self._targets.patterns].index(measure.name)
            return np.stack([sums[f"{table}.{name}"][at][:, p] for name in ("weight", "n", "chance")])
        names, members = habits_of(special=self._special)
        column, classes = members[:, names.index(measure.name)], self._classes.sums()
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
    measurer, positions = _Measurer(scanner, inputs, measures), positions_of(scanner)

    def measure_again(run: Callable[[Consumer], None]) -> dict[Head, FloatArray]:
        run(measurer)
        return {head: measurer.of_pairs(head)[0] for head in measures}

    scanner.tell("positions and segments changed")
    drawn = under_changes(scanner, measurer.batch, positions, _SHUFFLES, measure_again)
    unknown, explained = dict.fromkeys(CAUSES, float("nan")), {}
    for head, measure in measures.items():
        total, n, even = plain[head][:, : len(inputs)]
        after = {name: np.mean([totals[head] for totals in draws], axis=0) for name, draws in drawn.items()}
        score, chance = float(ratio(total, n)), float(ratio(even, n))
        explained[head] = HeadExplanation(
            head=head,
            label=measure.name,
            label_stays=float("nan"),
            unsure=False,
            pattern=measure.name,
            clause="",
            score=score,
            chance=chance,
            above_chance=(score - chance) / (1 - chance) if chance < 1 else float("nan"),
            se=float(error(residuals(total, n))),
            neurons={},
            causes=unknown | {name: float(ratio(again, n)) for name, again in after.items()},
            cause_se=unknown | {name: float(error(residuals(again, n))) for name, again in after.items()},
            fall_se=unknown | {name: float(error(residuals(total - again, n))) for name, again in after.items()},
            n=int(n.sum()),
            pairs=int((n > 0).sum()),
        )
    return explained, why_not_changed(scanner, positions)

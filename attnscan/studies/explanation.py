"""How heads make their patterns: neurons of queries and keys, and what happens when the model reads something else.

Every change is a run of the model over the same batch, scored against the same targets; all heads at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnscan.errors import ModelError
from attnscan.inputs.batch import EncodedBatch, EncodedInput
from attnscan.inputs.pairs import Record
from attnscan.model.attention_block import AttentionBlock, Cut
from attnscan.model.keeper import AttentionKeeper
from attnscan.results.attention import Attention, Chosen
from attnscan.results.behaviour import Labels
from attnscan.results.explanation import Explanations
from attnscan.results.grid import Head
from attnscan.results.head_explanation import CAUSES, NeuronTable
from attnscan.results.scores import Scores
from attnscan.results.terms import SHUFFLES, THRESHOLD
from attnscan.scan.events import Progress, Steps, outcome
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import Seen, no_pair
from attnscan.scan.stream import OnBad, Stream
from attnscan.scoring.resampling import LabelSums, stability
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.sums import PairSums, ScoreSums, added
from attnscan.scoring.targets import Targets
from attnscan.studies.interventions import SEGMENTS, SHUFFLED, CauseSums, Positions, changed, shuffled, why_no_segments
from attnscan.studies.neurons import NeuronScorer, NeuronSums, Rotations


def explain(
    scanner: Scanner,
    records: Iterable[Record],
    heads: Sequence[Head] | None = None,
    pattern: str | None = None,
    on_bad: OnBad | None = None,
) -> Steps[Explanations]:
    """Explain heads (all, by default) by a stream of pairs, for one pattern or for each head's own.

    Raises: InputError if there is no pair, or one cannot be read.
    """
    scanner = scanner.exact()
    explainer, sums = _Explainer(scanner, heads, pattern), _Measured()
    stream = Stream(scanner, records, on_bad)
    with closing(stream.worked(explainer.look, scanner.crew)) as looks:
        for of_batches, _ in looks:
            for of_batch in of_batches:
                sums += of_batch
            yield Progress("explaining heads by pairs", stream.done)
    return explainer.finish(sums, stream.seen)


def explain_input(
    scanner: Scanner,
    record: Record,
    heads: Sequence[Head] | None = None,
    pattern: str | None = None,
    encoded: EncodedInput | None = None,
) -> Steps[Explanations]:
    """Explain heads by one input, of which their attention is kept; `encoded` if the scanner has encoded it already.

    Raises: InputError if it cannot be read.
    """
    scanner = scanner.exact()
    explainer = _Explainer(scanner, heads, pattern)
    encoded = encoded or scanner.encode(record.pair)
    chosen = None
    if heads is not None:
        chosen = Chosen(scanner.grid(), tuple(range(len(encoded.tokens))), tuple(heads))
    scanner.check_room(len(encoded.tokens), chosen, copies=1)
    sums = yield from explainer.looking(scanner, [encoded], AttentionKeeper(chosen=chosen))
    seen = Seen.of(record.pair, truncated=encoded.truncated)
    return explainer.finish(sums, seen)


@dataclass(frozen=True)
class _Measured:
    """What was measured of some batches. They add."""

    scores: ScoreSums | None = None
    pairs: LabelSums | None = None
    neurons: NeuronSums | None = None
    """None if the model shows no queries."""
    causes: Mapping[str, CauseSums] = field(default_factory=dict)
    not_available: Mapping[str, str] = field(default_factory=dict)
    moved: bool = False
    """Whether any word stood elsewhere when positions were shuffled."""
    words: PairSums | None = None
    """Of the one input that is kept: what labels are told to be sure by, in place of pairs."""
    attention: Attention | None = None
    """Of the one input that is kept."""

    def __add__(self, other: _Measured) -> _Measured:
        return _Measured(
            added(self.scores, other.scores),
            added(self.pairs, other.pairs),
            added(self.neurons, other.neurons),
            added(self.causes, other.causes),
            {**other.not_available, **self.not_available},
            self.moved or other.moved,
            self.words or other.words,
            self.attention or other.attention,
        )


class _Explainer:
    """Looks at batches, by any replica of the model, and finishes what was found into explanations."""

    def __init__(self, scanner: Scanner, heads: Sequence[Head] | None, pattern: str | None) -> None:
        self._scanner, self._heads, self._pattern = scanner, heads, pattern
        self._positions: dict[int, Positions | str] = {}
        """By the id of a model, the way to its positions; or why there is none."""
        self._rotations = Rotations(scanner.options.seed)

    def look(self, scanner: Scanner, inputs: Sequence[EncodedInput]) -> _Measured:
        """Score a batch as it is, and with everything changed that can be."""
        return outcome(self.looking(scanner, inputs))

    def looking(
        self, scanner: Scanner, inputs: Sequence[EncodedInput], keeper: AttentionKeeper | None = None
    ) -> Steps[_Measured]:
        """Score a batch and tell what is being measured; a `keeper` keeps its one input."""
        batch = scanner.collate(inputs)
        helps = yield from scanner.asking(inputs)
        targets = Targets(batch, scanner.options.patterns, helps)
        scorer = Scorer(targets)
        words = None if keeper is None else Scorer(targets, by_query=True)
        neurons = NeuronScorer(targets, self._rotations, self._heads, self._pattern)

        def consume(block: AttentionBlock) -> None:
            scorer(block)
            neurons(block)
            for consumer in (keeper, words):
                if consumer is not None:
                    consumer(block)

        yield Progress("neurons of queries and keys")
        scanner.run(batch.model_inputs, consume, cut=Cut(batch.unit))
        keys = [encoded.known_pair.key for encoded in inputs]
        sums = _Measured(
            scores=scorer.sums(),
            pairs=LabelSums.of(scorer.pair_sums(), targets.scored, keys, THRESHOLD),
            neurons=neurons.sums(),
            words=None if words is None else words.word_sums(),
            attention=None if keeper is None else keeper.attention(inputs[0]),
        )
        return sums + (yield from self._changed(scanner, scorer, batch))

    def _changed(self, scanner: Scanner, scorer: Scorer, batch: EncodedBatch) -> Steps[_Measured]:
        """Score a batch with everything changed that can be."""
        model, seed, drawn = scanner.loaded.model, scanner.options.seed, dict[str, list[Scorer]]()
        positions = self._positions_of(model, batch.model_inputs)
        yield Progress("positions and segments changed")
        with closing(changed(model, batch, positions, seed, SHUFFLES)) as changes:
            for name, inputs in changes:
                again = scorer.fresh()
                scanner.run(inputs, again, cut=Cut(batch.unit))
                drawn.setdefault(name, []).append(again)
        not_available = {SHUFFLED: positions} if isinstance(positions, str) else {}
        if (why := why_no_segments(model, batch.model_inputs)) is not None:
            not_available |= dict.fromkeys(SEGMENTS, why)
        width, pairs = batch.word.shape[1], scorer.pair_sums()
        orders = (shuffled(batch.inputs, width, seed, number) for number in range(SHUFFLES if SHUFFLED in drawn else 0))
        return _Measured(
            causes={name: CauseSums.of(pairs, scorers) for name, scorers in drawn.items()},
            not_available=not_available,
            moved=any(bool((order != torch.arange(width)).any()) for order in orders),
        )

    def _positions_of(self, model: Any, model_inputs: dict[str, Tensor]) -> Positions | str:
        """The way to the positions of the model or of a replica, each looked at once; or why there is none."""
        if id(model) not in self._positions:
            try:
                self._positions[id(model)] = Positions(model, model_inputs, self._scanner.options.kind)
            except ModelError as error:
                self._positions[id(model)] = error.what
        return self._positions[id(model)]

    def finish(self, sums_of_all: _Measured, seen: Seen) -> Explanations:
        """What all batches together say. Raises: InputError if there was none."""
        if sums_of_all.scores is None or sums_of_all.pairs is None:
            raise no_pair("to explain by")
        scores, not_available = sums_of_all.scores.finish(self._scanner.options.kind), dict(sums_of_all.not_available)
        causes = {name: sums.finish() for name, sums in sums_of_all.causes.items()}
        shuffled_scores = causes.get(SHUFFLED)
        if shuffled_scores is not None and _same(shuffled_scores[0], scores):
            del causes[SHUFFLED]
            not_available[SHUFFLED] = (
                "the model ignores position ids" if sums_of_all.moved else "there are no two words to shuffle"
            )
        if sums_of_all.neurons is None:
            not_available["neurons"] = "this architecture shows no queries and keys"
        shape = (*scores.grid.shape, len(scores.patterns))
        units = sums_of_all.pairs.units() if sums_of_all.words is None else sums_of_all.words
        return Explanations(
            labels=Labels(scores, False, THRESHOLD, stability(scores, units, THRESHOLD, self._scanner.options.seed)),
            neurons=NeuronTable.unknown(shape) if sums_of_all.neurons is None else sums_of_all.neurons.finish(),
            causes={name: causes[name][0] for name in CAUSES if name in causes},
            fall_se={name: causes[name][1] for name in CAUSES if name in causes},
            not_available=not_available,
            signature=self._scanner.signature(seen),
            heads=tuple(self._heads or scores.grid),
            pattern=self._pattern,
            attention=sums_of_all.attention,
        )


def _same(scores: Scores, other: Scores) -> bool:
    """Whether every head did the same, so that what was changed was not read."""
    pairs = ((scores.entropy, other.entropy), (scores.every_key.score, other.every_key.score))
    return all(np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True) for a, b in pairs)

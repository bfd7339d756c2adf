"""How heads make their patterns: neurons of queries and keys, and what happens when the model reads something else.

Every change is a run of the model over the same batch, scored against the same targets; all heads at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from attnscan.errors import ModelError
from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.pairs import Pair, Record
from attnscan.model.attention_block import AttentionBlock
from attnscan.model.keeper import AttentionKeeper
from attnscan.results.attention import Attention
from attnscan.results.explanation import Explanations
from attnscan.results.head_explanation import CAUSES
from attnscan.results.heads import Head
from attnscan.results.labels import Labels
from attnscan.results.neurons import NeuronTable
from attnscan.results.scores import Scores
from attnscan.results.terms import SHUFFLES, THRESHOLD, OnStep
from attnscan.scan.scanner import Scanner
from attnscan.scan.seen import Seen, no_pair
from attnscan.scan.stream import OnBad, OnBatch, Stream
from attnscan.scoring.label_sums import LabelSums, key_of
from attnscan.scoring.resampling import stability
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.sums import ScoreSums
from attnscan.scoring.targets import Targets
from attnscan.studies.causes import CauseSums
from attnscan.studies.interventions import Positions, shuffled, why_no_segments, with_segments
from attnscan.studies.neurons import NeuronScorer, NeuronSums
from attnscan.studies.rotations import Rotations


def explain(
    scanner: Scanner,
    records: Iterable[Record],
    heads: Sequence[Head] | None = None,
    pattern: str | None = None,
    on_bad: OnBad | None = None,
    on_batch: OnBatch | None = None,
) -> Explanations:
    """Explain heads (all, by default) by a stream of pairs, for one pattern or for each head's own.

    Raises: InputError if there is no pair, or one cannot be read.
    """
    explainer = _Explainer(scanner, heads, pattern)
    stream = Stream(scanner, records, on_bad, on_batch)
    with closing(stream.batches()) as batches:
        for batch in batches:
            explainer.take(batch)
    return explainer.finish(stream.seen)


def explain_input(
    scanner: Scanner,
    record: Record,
    heads: Sequence[Head] | None = None,
    pattern: str | None = None,
    encoded: EncodedInput | None = None,
    on_step: OnStep | None = None,
) -> Explanations:
    """Explain heads by one input, whose attention is kept; `encoded` if the scanner has encoded it already.

    `on_step` is told what is being measured.

    Raises: InputError if it cannot be read.
    """
    explainer = _Explainer(scanner, heads, pattern, on_step)
    encoded = encoded or scanner.encode(record.pair)
    attention = explainer.take([encoded], keep=True)
    seen = Seen().and_then(record, scanner.options, truncated=encoded.truncated, skipped=False)
    return explainer.finish(seen, attention)


SumsOfKind = TypeVar("SumsOfKind", ScoreSums, LabelSums, NeuronSums, CauseSums)


class _Explainer:
    """Takes batches, and finishes into explanations."""

    def __init__(
        self, scanner: Scanner, heads: Sequence[Head] | None, pattern: str | None, on_step: OnStep | None = None
    ) -> None:
        self._scanner, self._heads, self._pattern = scanner, heads, pattern
        self._tell: OnStep = on_step or (lambda _doing, _done, _total=None: None)
        self._scores: ScoreSums | None = None
        self._pairs: LabelSums | None = None
        self._words: Scorer | None = None
        """What labels are told to be sure by: pairs or, of the one input that is kept, its words."""
        self._neurons: NeuronSums | None = None
        self._causes: dict[str, CauseSums] = {}
        self._not_available: dict[str, str] = {}
        self._positions: Positions | None = None
        self._rotations = Rotations(scanner.options.seed)
        self._looked = self._moved = False

    def take(self, inputs: Sequence[EncodedInput], keep: bool = False) -> Attention | None:
        """Score a batch as it is, and with everything changed that can be; with `keep`, return its attention."""
        scanner = self._scanner
        batch = scanner.collate(inputs)
        helps = scanner.helps(inputs, partial(self._tell, "predictive words: hidden sequences"))
        targets = Targets(batch, scanner.options.patterns, helps)
        scorer, keeper = Scorer(targets), AttentionKeeper()
        self._words = words = Scorer(targets, by_query=True) if keep else None
        neurons = NeuronScorer(targets, self._rotations, self._heads, self._pattern)

        def consume(block: AttentionBlock) -> None:
            scorer(block)
            neurons(block)
            if words is not None:
                keeper(block)
                words(block)

        self._tell("neurons of queries and keys", 0)
        scanner.run(batch.model_inputs, consume)
        self._scores = _added(self._scores, scorer.sums())
        keys = [key_of(Pair(*one.sentences)) for one in inputs]
        self._pairs = _added(self._pairs, LabelSums.of(scorer.pair_sums(), targets.scored, keys, THRESHOLD))
        if (of_batch := neurons.sums()) is not None:
            self._neurons = _added(self._neurons, of_batch)
        self._shuffle(scorer, batch.model_inputs, inputs)
        self._change_segments(scorer, batch.model_inputs)
        return keeper.attention(inputs[0]) if keep else None

    def _again(self, scorer: Scorer, model_inputs: dict[str, Tensor]) -> Scorer:
        """A scorer of the same batch that has seen it with something changed."""
        again = scorer.fresh()
        self._scanner.run(model_inputs, again)
        return again

    def _take_cause(self, name: str, scorer: Scorer, drawn: list[Scorer]) -> None:
        self._causes[name] = _added(self._causes.get(name), CauseSums.of(scorer.pair_sums(), drawn))

    def _shuffle(self, scorer: Scorer, model_inputs: dict[str, Tensor], inputs: Sequence[EncodedInput]) -> None:
        scanner, name = self._scanner, "positions_shuffled"
        if not self._looked:
            self._looked = True
            try:
                self._positions = Positions(scanner.loaded.model, model_inputs)
            except ModelError as error:
                self._not_available[name] = error.what
        if self._positions is None:
            return
        width, drawn = model_inputs["input_ids"].shape[1], []
        for number in range(SHUFFLES):
            order = shuffled(inputs, width, scanner.options.seed + number).to(model_inputs["input_ids"].device)
            self._moved |= bool((order != torch.arange(width, device=order.device)).any())
            self._tell("positions shuffled", number, SHUFFLES)
            with self._positions.reordered(model_inputs, order) as changed:
                drawn.append(self._again(scorer, changed))
        self._take_cause(name, scorer, drawn)

    def _change_segments(self, scorer: Scorer, model_inputs: dict[str, Tensor]) -> None:
        why = why_no_segments(self._scanner.loaded.model, model_inputs)
        for name, swapped in (("segments_zeroed", False), ("segments_swapped", True)):
            if why is None:
                self._take_cause(name, scorer, [self._again(scorer, with_segments(model_inputs, swapped=swapped))])
            else:
                self._not_available.setdefault(name, why)

    def finish(self, seen: Seen, attention: Attention | None = None) -> Explanations:
        """What all batches together say.

        Raises: InputError if there was none.
        """
        if self._scores is None or self._pairs is None:
            raise no_pair("to explain by")
        scores = self._scores.finish()
        causes = {name: sums.finish() for name, sums in self._causes.items()}
        moved = causes.get("positions_shuffled")
        if moved is not None and _same(moved[0], scores):
            del causes["positions_shuffled"]
            self._not_available["positions_shuffled"] = (
                "the model takes no notice of positions that are given to it"
                if self._moved
                else "there are no two words to shuffle"
            )
        if self._neurons is None:
            self._not_available["neurons"] = "this architecture shows no queries and keys"
        layers, width = scores.grid
        shape = (layers, width, len(scores.patterns))
        units = self._pairs.units() if self._words is None else self._words.word_sums()
        return Explanations(
            labels=Labels(scores, False, THRESHOLD, stability(scores, units, THRESHOLD, self._scanner.options.seed)),
            neurons=NeuronTable.unknown(shape) if self._neurons is None else self._neurons.finish(),
            causes={name: causes[name][0] for name in CAUSES if name in causes},
            fall_se={name: causes[name][1] for name in CAUSES if name in causes},
            not_available=self._not_available,
            signature=self._scanner.signature(seen),
            heads=tuple(self._heads or ((layer, head) for layer in range(layers) for head in range(width))),
            pattern=self._pattern,
            attention=attention,
        )


def _added(total: SumsOfKind | None, more: SumsOfKind) -> SumsOfKind:
    return more if total is None else total + more


def _same(one: Scores, other: Scores) -> bool:
    """Whether every head did the same, so that what was changed was not read."""
    pairs = ((one.entropy, other.entropy), (one.every_key.score, other.every_key.score))
    return all(np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True) for a, b in pairs)

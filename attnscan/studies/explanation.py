"""How heads make their patterns: neurons of queries and keys, and what happens when the model reads something else.

Every change is a run of the model over the same batch, scored against the same targets; all heads at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from attnscan.errors import ModelError
from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.pairs import Record
from attnscan.model.keeper import AttentionKeeper
from attnscan.model.tap import AttentionBlock
from attnscan.results.attention import Attention
from attnscan.results.explanation import CAUSES, Explanations, NeuronTable
from attnscan.results.heads import Head
from attnscan.results.scores import Scores
from attnscan.scan.scanner import Scanner
from attnscan.scan.seen import Seen, no_pair
from attnscan.scan.stream import OnBad, OnBatch, Stream
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.sums import ScoreSums
from attnscan.scoring.targets import targets_of
from attnscan.studies.interventions import SHUFFLES, Positions, shuffled, why_no_segments, with_segments
from attnscan.studies.neurons import NeuronScorer, NeuronSums


@dataclass
class _Found:
    """What has been summed so far."""

    scores: ScoreSums | None = None
    neurons: NeuronSums | None = None
    causes: dict[str, ScoreSums] = field(default_factory=dict)
    not_available: dict[str, str] = field(default_factory=dict)

    def add(self, scores: ScoreSums, neurons: NeuronSums | None, causes: Mapping[str, ScoreSums]) -> None:
        """Add one batch."""
        self.scores = scores if self.scores is None else self.scores + scores
        if neurons is not None:
            self.neurons = neurons if self.neurons is None else self.neurons + neurons
        for name, sums in causes.items():
            self.causes[name] = self.causes[name] + sums if name in self.causes else sums


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
) -> Explanations:
    """Explain heads by one input, whose attention is kept; `encoded` if the scanner has encoded it already.

    Raises: InputError if it cannot be read.
    """
    explainer = _Explainer(scanner, heads, pattern)
    encoded = encoded or scanner.encode(record.pair)
    attention = explainer.take([encoded], keep=True)
    seen = Seen().and_then(record.pair, scanner.options, truncated=encoded.truncated, skipped=False)
    return explainer.finish(seen, attention)


class _Explainer:
    """Takes batches, and finishes into explanations."""

    def __init__(self, scanner: Scanner, heads: Sequence[Head] | None, pattern: str | None) -> None:
        self._scanner, self._heads, self._pattern = scanner, heads, pattern
        self._found = _Found()
        self._positions: Positions | None = None
        self._looked = self._moved = False

    def take(self, inputs: Sequence[EncodedInput], keep: bool = False) -> Attention | None:
        """Score a batch as it is, and with everything changed that can be; with `keep`, return its attention."""
        scanner = self._scanner
        batch = scanner.collate(inputs)
        found = [scanner.help(one) for one in inputs] if scanner.measure is not None else []
        targets = targets_of(batch, scanner.options.patterns, [each for each in found if each is not None])
        scorer, neurons, keeper = (
            Scorer(batch, targets),
            NeuronScorer(batch, targets, self._heads, self._pattern),
            AttentionKeeper(),
        )

        def consume(block: AttentionBlock) -> None:
            scorer(block)
            neurons(block)
            if keep:
                keeper(block)

        scanner.run(batch.model_inputs, consume)
        causes = self._shuffled(scorer, batch.model_inputs, inputs)
        causes |= self._other_segments(scorer, batch.model_inputs)
        self._found.add(scorer.sums(), neurons.sums(), causes)
        return keeper.attention(inputs[0]) if keep else None

    def _shuffled(
        self, scorer: Scorer, model_inputs: dict[str, Tensor], inputs: Sequence[EncodedInput]
    ) -> dict[str, ScoreSums]:
        scanner, name = self._scanner, "positions_shuffled"
        if not self._looked:
            self._looked = True
            try:
                self._positions = Positions(scanner.loaded.model, model_inputs)
            except ModelError as error:
                self._found.not_available[name] = error.what
        if self._positions is None:
            return {}
        width = model_inputs["input_ids"].shape[1]
        total: ScoreSums | None = None
        for number in range(SHUFFLES):
            order = shuffled(inputs, width, scanner.options.seed + number).to(model_inputs["input_ids"].device)
            self._moved |= bool((order != torch.arange(width, device=order.device)).any())
            again = scorer.fresh()
            with self._positions.reordered(model_inputs, order) as changed:
                scanner.run(changed, again)
            total = again.sums() if total is None else total + again.sums()
        assert total is not None
        return {name: total}

    def _other_segments(self, scorer: Scorer, model_inputs: dict[str, Tensor]) -> dict[str, ScoreSums]:
        why = why_no_segments(self._scanner.loaded.model, model_inputs)
        if why is not None:
            self._found.not_available.setdefault("segments_zeroed", why)
            self._found.not_available.setdefault("segments_swapped", why)
            return {}
        causes = {}
        for name, swapped in (("segments_zeroed", False), ("segments_swapped", True)):
            again = scorer.fresh()
            self._scanner.run(with_segments(model_inputs, swapped=swapped), again)
            causes[name] = again.sums()
        return causes

    def finish(self, seen: Seen, attention: Attention | None = None) -> Explanations:
        """What all batches together say.

        Raises: InputError if there was none.
        """
        found, scanner = self._found, self._scanner
        if found.scores is None:
            raise no_pair("to explain by")
        scores = found.scores.finish()
        causes = {name: sums.finish() for name, sums in found.causes.items()}
        moved = causes.get("positions_shuffled")
        if moved is not None and _same(moved, scores):
            del causes["positions_shuffled"]
            found.not_available["positions_shuffled"] = (
                "the model takes no notice of positions that are given to it"
                if self._moved
                else "there are no two words to shuffle"
            )
        if found.neurons is None:
            found.not_available["neurons"] = "this architecture shows no queries and keys"
        layers, width = scores.grid
        empty = np.full((layers, width, len(scores.patterns)), np.nan)
        return Explanations(
            scores=scores,
            neurons=NeuronTable(empty, empty, empty) if found.neurons is None else found.neurons.finish(),
            causes={name: causes[name] for name in CAUSES if name in causes},
            not_available=found.not_available,
            signature=scanner.signature(seen),
            heads=tuple(self._heads or ((layer, head) for layer in range(layers) for head in range(width))),
            pattern=self._pattern,
            attention=attention,
        )


def _same(one: Scores, other: Scores) -> bool:
    """Whether every head did the same, so that what was changed was not read."""
    pairs = ((one.entropy, other.entropy), (one.every_key.score, other.every_key.score))
    return all(np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True) for a, b in pairs)

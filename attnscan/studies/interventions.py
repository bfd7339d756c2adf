"""What can be changed in what a model reads, and what that makes of the scores: does a head's pattern depend on it?

Positions are changed where the model looks them up: the embedding that gives its rows one after the other is theirs, in
every family (RoBERTa counts from 2, DistilBERT takes no position ids). Models with rotary embeddings take position ids.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnscan.errors import ModelError
from attnscan.inputs.batch import EncodedBatch, EncodedInput
from attnscan.model.running import forward
from attnscan.results.grid import AttentionKind
from attnscan.results.scores import FloatArray, Scores
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.sums import Adding, PairSums, RatioSums, ScoreSums
from attnscan.studies.draws import generator

_MOST_OFFSET = 8  # rows that a family keeps for itself before its first position's
SHUFFLED = "positions_shuffled"
SEGMENTS = {"segments_zeroed": False, "segments_swapped": True}
"""The changes of segment ids, and whether 0 and 1 are exchanged."""
ModelInputs = dict[str, Tensor]
_WEIGHT, _N = "words_only.weight", "words_only.n"


class Positions:
    """The way to a model's positions, found by running it once; of an encoder-decoder, to those of one text.

    That text is the target for the decoder's own attention, and the source, whose words are keys, for cross attention.
    Raises: ModelError if it has no positions that can be moved.
    """

    def __init__(self, model: Any, probe: ModelInputs, kind: AttentionKind = AttentionKind.ONLY) -> None:
        self._model, self.text = model, "decoder_input_ids" if kind is AttentionKind.DECODER else "input_ids"
        alone = {name: values[:1] for name, values in probe.items()}
        alone["attention_mask"] = torch.ones_like(alone["input_ids"])
        self._embedding = _position_embedding(model, alone, self.text, _reader(model, kind))
        if self._embedding is None and kind is not AttentionKind.ONLY:
            raise ModelError("the model looks up no position embeddings")
        if self._embedding is None and "position_ids" not in inspect.signature(model.forward).parameters:
            raise ModelError("the model takes no position ids and looks up no position embeddings")
        if self._embedding is None and not _counts_from_zero(model, alone):
            raise ModelError("the model computes its own positions")  # as I-BERT does, from 2

    @contextmanager
    def reordered(self, inputs: ModelInputs, order: Tensor) -> Iterator[ModelInputs]:
        """The model reads these inputs with other positions: at place i of the text that of place `order[i]`.

        Shape: `order` is [batch, token].
        """
        if self._embedding is None:
            yield {**inputs, "position_ids": order}
            return

        rows, thread = len(order), threading.get_ident()  # other threads run the same model as it is

        def note_rows(_: torch.nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            nonlocal rows
            if threading.get_ident() != thread:
                return
            rows = len(given[0] if given else named["input_ids"])  # the tap runs small batches repeated

        def reorder(_: torch.nn.Module, __: tuple[Any, ...], given: Tensor) -> Tensor:
            if threading.get_ident() != thread:
                return given
            places = order.repeat(rows // len(order), 1)[..., None]
            return given.expand(rows, -1, -1).gather(1, places.expand(-1, -1, given.shape[-1]))

        handles = [
            self._model.register_forward_pre_hook(note_rows, with_kwargs=True),
            self._embedding.register_forward_hook(reorder),
        ]
        try:
            yield inputs
        finally:
            for handle in handles:
                handle.remove()


def shuffled(inputs: Sequence[EncodedInput], width: int, seed: int, number: int = 0) -> Tensor:
    """An order of each input's places: its words among themselves, everything else where it was.

    Of cross attention, those of the source. The order of an input depends on the seed, the shuffle's number and its
    tokens alone. Shape: [batch, width].
    """
    order = np.tile(np.arange(width), (len(inputs), 1))
    for row, encoded in zip(order, inputs, strict=True):
        words = np.flatnonzero(np.array(encoded.sentence[: encoded.source or None]) >= 0)
        row[words] = generator(seed, number, *encoded.model_inputs["input_ids"]).permutation(words)
    return torch.from_numpy(order)


def changed(
    model: Any, batch: EncodedBatch, positions: Positions | str, seed: int, shuffles: int
) -> Generator[tuple[str, ModelInputs], None, None]:
    """What the model reads in place of a batch, change by change, by the names of `CAUSES`; positions so many times.

    To be closed: positions are reordered inside the model until the next change is asked for. `positions` may be why
    they cannot be changed.
    """
    if isinstance(positions, Positions):
        for number in range(shuffles):
            width = batch.model_inputs[positions.text].shape[1]
            order = shuffled(batch.inputs, width, seed, number).to(batch.word.device)
            with positions.reordered(batch.model_inputs, order) as reordered:
                yield SHUFFLED, reordered
    if why_no_segments(model, batch.model_inputs) is None:
        for name, swapped in SEGMENTS.items():
            yield name, with_segments(batch.model_inputs, swapped=swapped)


def with_segments(inputs: ModelInputs, *, swapped: bool) -> ModelInputs:
    """A model's inputs with all segment ids 0, or with 0 and 1 exchanged."""
    segments = inputs["token_type_ids"]
    changed = torch.where(segments <= 1, 1 - segments, segments) if swapped else torch.zeros_like(segments)
    return {**inputs, "token_type_ids": changed}


def why_no_segments(model: Any, inputs: ModelInputs) -> str | None:
    """Why segments cannot be changed, if they cannot."""
    if "token_type_ids" not in inputs or "token_type_ids" not in inspect.signature(model.forward).parameters:
        return "the model reads no segment ids"
    kinds = getattr(model.config, "type_vocab_size", 2)
    return None if isinstance(kinds, int) and kinds >= 2 else "the model has one segment embedding for all"


def _counts_from_zero(model: Any, alone: ModelInputs) -> bool:
    """Whether position ids 0, 1, 2, ... are those that the model takes when it is given none, on one input."""
    counted = torch.arange(alone["input_ids"].shape[1], device=alone["input_ids"].device)[None]
    with suppress(ModelError):  # a model that cannot run says so when it is scored
        plain, same = (forward(model, inputs)[0] for inputs in (alone, {**alone, "position_ids": counted}))
        return torch.allclose(plain, same, atol=1e-3, equal_nan=True)
    return True


def _reader(model: Any, kind: AttentionKind) -> Any:
    """What reads the text whose positions are changed."""
    if kind is AttentionKind.ONLY:
        return model
    return model.get_decoder() if kind is AttentionKind.DECODER else model.get_encoder()


def _position_embedding(model: Any, alone: ModelInputs, text: str, reader: Any) -> torch.nn.Embedding | None:
    """The embedding that gives its rows one after the other for one input, if any."""
    length = alone[text].shape[1]
    positions: list[torch.nn.Embedding] = []

    def look(module: torch.nn.Embedding, _: tuple[Any, ...], given: Any) -> None:
        if isinstance(given, Tensor) and given.ndim == 3 and given.shape[1] == length > 1:
            for first in range(min(_MOST_OFFSET, module.num_embeddings - length) + 1):
                if torch.equal(given[0], module.weight[first : first + length]):
                    positions.append(module)
                    return

    words = model.get_input_embeddings()
    embeddings = [
        embedding
        for embedding in reader.modules()
        if isinstance(embedding, torch.nn.Embedding) and embedding is not words
    ]
    handles = [embedding.register_forward_hook(look) for embedding in embeddings]
    try:
        with suppress(ModelError):  # a model that cannot run says so when it is scored
            forward(model, alone)
    finally:
        for handle in handles:
            handle.remove()
    return positions[0] if positions else None


@dataclass(frozen=True)
class CauseSums(Adding):
    """Sums over pairs of the scores after a change. They add.

    Of a change that is drawn several times, a pair counts once, as one cluster, by its means over the draws. Words that
    count are those that do without the change: a change may leave some no weight on words.
    """

    scores: ScoreSums
    falls: RatioSums
    """Of what each pair's weight on target falls by."""
    variance: FloatArray
    """Of the variance that each pair's mean S has by its draws; NaN of a single draw. Shape: [layer, head, pattern]."""

    @classmethod
    def of(cls, plain: PairSums, drawn: Sequence[Scorer]) -> CauseSums:
        """Of one batch: what its pairs have as they are, and what every draw of the change makes of them."""
        draws = len(drawn)
        sums = [scorer.sums() for scorer in drawn]
        pairs: dict[str, FloatArray] = {}
        squares = np.zeros_like(plain[_WEIGHT])
        for scorer in drawn:
            of_draw = scorer.pair_sums()
            squares += of_draw[_WEIGHT] ** 2
            pairs = {name: values + pairs.get(name, 0.0) for name, values in of_draw.items()}
        pairs = {name: values / draws for name, values in pairs.items()} | {_N: plain[_N]}
        spread = (squares - draws * pairs[_WEIGHT] ** 2).clip(0)
        alone = np.full_like(spread, np.nan)
        return cls(
            scores=ScoreSums.of(
                pairs,
                sums[0].scored,
                entropy=np.mean([of_draw.entropy for of_draw in sums], axis=0),
                words=sums[0].words,
            ),
            falls=RatioSums.of(plain[_WEIGHT] - pairs[_WEIGHT], pairs[_N]),
            variance=(spread / (draws * (draws - 1)) if draws > 1 else alone).sum(0),
        )

    def finish(self) -> tuple[Scores, FloatArray]:
        """The scores after the change, and the standard errors of what they fall by. Shape: [layer, head, pattern].

        Clustered by pair; of one pair alone, over the draws.
        """
        scores = self.scores.finish()
        table = scores.words_only
        with np.errstate(invalid="ignore", divide="ignore"):
            of_draws = np.sqrt(self.variance) / self.falls.n
        se, fall_se = (np.where(table.pairs == 1, of_draws, by_pair) for by_pair in (table.se, self.falls.se))
        return replace(scores, words_only=replace(table, se=se)), fall_se

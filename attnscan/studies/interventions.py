"""What can be changed in what a model reads, and what that makes of the scores: does a head's pattern depend on it?

Where words see each other both ways, positions are shuffled by giving the words in another order and putting their
attention back in its place: so all follows that tells a model of positions, be it embeddings, a table of relative
positions, rotations, windows or convolutions. In a causal model the order of words decides what they see as well. There
position embeddings or position ids are reordered, if that is seen to change all that the model knows of positions.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from attnscan.errors import ModelError
from attnscan.inputs.batch import EncodedBatch, EncodedInput
from attnscan.inputs.sentence import Pair
from attnscan.model.attention_block import AttentionBlock, Consumer
from attnscan.model.running import forward
from attnscan.results.grid import AttentionKind
from attnscan.results.scores import FloatArray, Scores
from attnscan.results.terms import Scored
from attnscan.scan.scanner import Scanner
from attnscan.scoring.blocks import Blocks, PairSums, error, ratio, residuals
from attnscan.scoring.labels import scores_of
from attnscan.studies.passes import generator

_MOST_OFFSET = 8  # rows that a family keeps for itself before its first position's
_SAME = 1e-5  # weights that differ by less are the same but for rounding
_EVEN = 1e-4
_TEXT = "the cat sat on the mat"
SHUFFLED = "positions_shuffled"
SEGMENTS = {"segments_zeroed": False, "segments_swapped": True}
"""The changes of segment ids, and whether 0 and 1 are exchanged."""
ModelInputs = dict[str, Tensor]
Run = Callable[[ModelInputs, Consumer], None]
Restore = Callable[[Consumer], Consumer]
"""Lets a consumer see every word at its own place again."""
T = TypeVar("T")
_WEIGHT, _N = "words_only.weight", "words_only.n"


def as_it_comes(consume: Consumer) -> Consumer:
    """Let a consumer see blocks as they are."""
    return consume


def _probe(scanner: Scanner) -> ModelInputs:
    """A few words, on which changes are tried."""
    pair = Pair(_TEXT) if scanner.options.kind is AttentionKind.ONLY else Pair(_TEXT, _TEXT)
    return scanner.collate([scanner.encode(pair)]).model_inputs


def positions_of(scanner: Scanner) -> Positions | str:
    """How a scanner's model is read at other positions, tried on a few words; or why it cannot be."""
    try:
        return Positions(scanner.loaded.model, scanner.tap.run, _probe(scanner), scanner.options.kind)
    except ModelError as error:
        return error.what


def why_not_changed(scanner: Scanner, positions: Positions | str) -> dict[str, str]:
    """Why `positions` or `segments` cannot be changed in this model, if they cannot."""
    segments = why_no_segments(scanner.loaded.model, _probe(scanner))
    fixed = {"positions": positions if isinstance(positions, str) else None, "segments": segments}
    return {what: why for what, why in fixed.items() if why is not None}


class Positions:
    """How a model's words are read at other positions, tried on one input; of an encoder-decoder, those of one text.

    That text is the target for the decoder's own attention, and the source, whose words are keys, for cross attention.
    Raises: ModelError if no change of positions is seen to change attention.
    """

    def __init__(self, model: Any, run: Run, probe: ModelInputs, kind: AttentionKind = AttentionKind.ONLY) -> None:
        """`run` shows the model's attention on a batch to a consumer; the first of a `probe` is tried."""
        self._model, self._kind = model, kind
        self.text = "decoder_input_ids" if kind is AttentionKind.DECODER else "input_ids"
        alone = {name: values[:1] for name, values in probe.items()}
        plain = _shown(run, alone)
        both_ways = any(bool(block.visible[:1, :, :].triu(1).any()) for block in plain)
        self.by_words = both_ways or kind is AttentionKind.CROSS
        """Whether words are given in another order; else their positions are."""
        self._embedding = None
        if not self.by_words:
            self._embedding = _position_embedding(model, alone, self.text, kind)
            self._check_causal(run, alone, plain)
        order = torch.arange(alone[self.text].shape[1], device=alone[self.text].device)[None]
        order[:, 1:-1] = order[:, 1:-1].flip(1)
        if self._same(run, alone, plain, order):
            raise ModelError("attention stays the same wherever words stand")

    @contextmanager
    def moved(self, inputs: ModelInputs, order: Tensor) -> Iterator[tuple[ModelInputs, Restore]]:
        """What the model reads so that the word at place i of the text has the position of place `order[i]`.

        And what lets a consumer of its attention see the words at their own places. Shape: `order` is [batch, token].
        """
        if self.by_words:
            yield _reordered(inputs, order), lambda consume: _restored(consume, order, self._kind)
        elif self._embedding is None:
            yield {**inputs, "position_ids": order}, as_it_comes
        else:
            with _embeddings_moved(self._model, self._embedding, order):
                yield inputs, as_it_comes

    def places(self, order: Tensor) -> Tensor:
        """Where the model's output of each token stands. Shape: [batch, token], as `order`."""
        return order if self.by_words else torch.arange(order.shape[1], device=order.device).expand_as(order)

    def _same(self, run: Run, alone: ModelInputs, plain: Sequence[AttentionBlock], order: Tensor) -> bool:
        """Whether attention is the same in another order."""
        with self.moved(alone, order) as (inputs, restore):
            after = _shown(run, inputs, restore)
        return all(torch.allclose(a.weights, b.weights, rtol=0, atol=_SAME) for a, b in zip(plain, after, strict=True))

    def _check_causal(self, run: Run, alone: ModelInputs, plain: Sequence[AttentionBlock]) -> None:
        """See that equal words at equal positions attend evenly: else the model knows more than can be changed."""
        if self._embedding is None and self._kind is not AttentionKind.ONLY:
            raise ModelError("the model looks up no position embeddings")
        if self._embedding is None and "position_ids" not in inspect.signature(self._model.forward).parameters:
            raise ModelError("the model takes no position ids and looks up no position embeddings")
        ids = alone[self.text]
        if not self._same(run, alone, plain, torch.arange(ids.shape[1], device=ids.device)[None]):
            raise ModelError("the model computes its own positions")
        equal = {**alone, self.text: ids[:, :1].expand_as(ids).contiguous()}
        with self.moved(equal, torch.zeros_like(ids)) as (inputs, _):
            for block in _shown(run, inputs):
                hidden = ~block.visible[:1, : block.rows.stop, : block.columns.stop][:, None]
                most = block.weights.masked_fill(hidden, 0).amax(-1)
                if (most - block.weights.masked_fill(hidden, 1).amin(-1)).amax() > _EVEN:
                    raise ModelError("the model knows positions by more than embeddings and position ids")


def _shown(run: Run, inputs: ModelInputs, restore: Restore = as_it_comes) -> list[AttentionBlock]:
    """All blocks of one input."""
    blocks: list[AttentionBlock] = []
    run(inputs, restore(blocks.append))
    return blocks


def _reordered(inputs: ModelInputs, order: Tensor) -> ModelInputs:
    """The inputs with the token of place i at place `order[i]`, its segment with it; a target stays as it is."""
    back = order.argsort(1)
    rows = torch.arange(len(order), device=order.device)[:, None]
    return {n: values if n.startswith("decoder_") else values[rows, back] for n, values in inputs.items()}


_AXES = {"weights": (2, 3), "logits": (2, 3), "query": (2,), "output": (2,), "idle": (2,)}
_AXES |= {"key": (2,), "value": (2,), "value_norms": (2,)}
"""Which axes of a block's tensors are of tokens; in cross attention, words of the source are keys alone."""
_OF_QUERIES = ("query", "output", "idle")


def _restored(consume: Consumer, order: Tensor, kind: AttentionKind) -> Consumer:
    """Put the words of reordered inputs back to their places, before a consumer sees a block."""

    def put_back(block: AttentionBlock) -> None:
        places, moved = order[block.inputs, : block.weights.shape[-1]], {}
        for name, axes in _AXES.items():
            values = getattr(block, name)
            if kind is AttentionKind.CROSS:
                axes = () if name in _OF_QUERIES else axes[-1:]
            for axis in axes if values is not None else ():
                index = places.view(len(places), *(places.shape[1] if a == axis else 1 for a in range(1, values.ndim)))
                values = values.gather(axis, index.expand(*values.shape[:axis], -1, *values.shape[axis + 1 :]))
            moved[name] = values
        consume(replace(block, **moved))

    return put_back


@contextmanager
def _embeddings_moved(model: Any, embedding: torch.nn.Embedding, order: Tensor) -> Iterator[None]:
    """Let the position embedding of place `order[i]` stand at place i, in this thread's runs.

    A model may run on the batch several times over, or on parts of it, one behind the other.
    """
    thread, rows = threading.get_ident(), slice(0, 0)

    def note_rows(_: torch.nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        nonlocal rows
        if threading.get_ident() == thread:
            count, start = len(given[0] if given else named["input_ids"]), rows.stop % len(order)
            rows = slice(start, start + count)

    def reorder(_: torch.nn.Module, __: tuple[Any, ...], given: Tensor) -> Tensor:
        if threading.get_ident() != thread:
            return given
        numbers = torch.arange(rows.start, rows.stop, device=order.device) % len(order)
        places = order[numbers, : given.shape[-2], None].expand(-1, -1, given.shape[-1])
        return given.expand(len(numbers), -1, -1).gather(1, places)

    handles = [
        model.register_forward_pre_hook(note_rows, with_kwargs=True),
        embedding.register_forward_hook(reorder),
    ]
    try:
        yield
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


def under_changes(
    scanner: Scanner,
    batch: EncodedBatch,
    positions: Positions | str,
    shuffles: int,
    measure: Callable[[Callable[[Consumer], None]], T],
) -> dict[str, list[T]]:
    """What is measured of a batch under each change that is possible, by its name in `CAUSES`; of each shuffle.

    `measure` is given what shows a consumer the model's attention under one change, with words at their own places.
    """
    measured: dict[str, list[T]] = {}
    inputs = batch.model_inputs

    def under(name: str, changed: ModelInputs, restore: Restore) -> None:
        result = measure(lambda consume: scanner.run(changed, restore(consume)))
        measured.setdefault(name, []).append(result)

    if isinstance(positions, Positions):
        for number in range(shuffles):
            order = shuffled(batch.inputs, inputs[positions.text].shape[1], scanner.options.seed, number)
            with positions.moved(inputs, order.to(batch.word.device)) as (moved, restore):
                under(SHUFFLED, moved, restore)
    if why_no_segments(scanner.loaded.model, inputs) is None:
        for name, swapped in SEGMENTS.items():
            under(name, with_segments(inputs, swapped=swapped), as_it_comes)
    return measured


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


def _position_embedding(model: Any, alone: ModelInputs, text: str, kind: AttentionKind) -> torch.nn.Embedding | None:
    """The embedding that gives its rows one after the other for one input, if any."""
    length, reader = alone[text].shape[1], model.get_decoder() if kind is AttentionKind.DECODER else model
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


def cause_sums(keys: Sequence[str], plain: PairSums, drawn: Sequence[PairSums]) -> Blocks:
    """Sums over pairs, by their keys, of the scores after a change, given what these are before and after each draw.

    Of a change that is drawn several times, a pair counts once, as one cluster, by its means over the draws. Words that
    count are those that do without the change: a change may leave some no weight on words.
    Beside the sums of scores, `falls` is what each pair's weight on target falls by, and `variance` that which its mean
    has by its draws; NaN of a single draw.
    """
    draws = len(drawn)
    means: dict[str, FloatArray] = {name: np.mean([of_draw[name] for of_draw in drawn], axis=0) for name in plain}
    means |= {name: plain[name] for name in (_N, "words_only.pairs")}
    squares = np.sum([of_draw[_WEIGHT] ** 2 for of_draw in drawn], axis=0)
    spread = (squares - draws * means[_WEIGHT] ** 2).clip(0)
    means["falls"] = plain[_WEIGHT] - means[_WEIGHT]
    means["variance"] = spread / (draws * (draws - 1)) if draws > 1 else np.full_like(spread, np.nan)
    return Blocks.of(keys, means)


def scores_after(sums: PairSums, scored: Sequence[Scored]) -> tuple[Scores, FloatArray]:
    """The scores after a change, and the standard errors of what they fall by. Shape: [layer, head, pattern].

    Clustered by pair; of one pair alone, over the draws.
    """
    scores, n = scores_of(sums, scored), sums[_N]
    of_draws = np.sqrt(ratio(sums["variance"], n) / n.sum(0))
    table, fall_se = scores.words_only, error(residuals(sums["falls"], n))
    se, fall_se = (np.where(table.pairs == 1, of_draws, by_pair) for by_pair in (table.se, fall_se))
    return replace(scores, words_only=replace(table, se=se)), fall_se

"""One input: what every head does on it, and which of its words help to predict which."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from torch import Tensor

from attnscan.errors import CaptureError, InputError, ModelError, OptionError
from attnscan.inputs.alignments import unit_links
from attnscan.inputs.batch import collate
from attnscan.inputs.encode import bare, encode_tokens
from attnscan.inputs.sentence import EncodedInput, Pair
from attnscan.inputs.weights import SavedWeights
from attnscan.model.tap import AttentionBlock, AttentionKeeper, Consumer, of_both_texts, visible_keys
from attnscan.results.attention import Attention, Chosen
from attnscan.results.head_weights import Selection
from attnscan.results.heads import HeadScores
from attnscan.results.predictions import Dependencies
from attnscan.results.scores import FloatArray, Scores
from attnscan.results.terms import By, Grid, Reading, Signature, Special
from attnscan.scan.options import ScanOptions
from attnscan.scoring.cross import LINKED_PATTERNS
from attnscan.scoring.labels import labels_of, scores_of, units_of
from attnscan.scoring.scorer import ClassScorer, Scorer
from attnscan.scoring.units import Targets
from attnscan.text import hashed

if TYPE_CHECKING:  # saved weights are scored without transformers, and these import it
    from attnscan.model.carried import OutputProjections
    from attnscan.scan.scanner import Scanner


def classify(
    scanner: Scanner, pair: Pair, encoded: EncodedInput | None = None, *, keep: bool | Selection = False
) -> HeadScores:
    """What every head of the model does on one input, which may be `encoded` already.

    With `keep`, the result carries the attention of all layers, token by token whatever the unit, or what a selection
    names of it. Raises: InputError, ModelError if the model cannot read the input; SelectionError for heads or tokens
    that are not there; MemoryFullError if memory does not hold what is kept.
    """
    encoded, chosen = encoded or scanner.encode(pair), None
    if isinstance(keep, Selection):
        chosen = keep.chosen(scanner.grid(), encoded.tokens, encoded.segments, encoded.unit, encoded.source)
    scanner.check_room(len(encoded.tokens), chosen, copies=2 if chosen else int(bool(keep)))
    reading = InputReading(scanner, pair, encoded, keep=bool(keep), chosen=chosen)
    scanner.tap.run(reading.batch.model_inputs, reading.take)
    return reading.result()


class InputReading:
    """One input as a scanner's model reads it: takes the attention while the model runs, then says what heads do."""

    def __init__(
        self, scanner: Scanner, pair: Pair, encoded: EncodedInput, *, keep: bool = False, chosen: Chosen | None = None
    ) -> None:
        """`chosen` is the part of its attention that is kept; where that is of some heads, there are no habits."""
        self._scanner, self._pair, self._encoded, options = scanner, pair, encoded, scanner.options
        self.batch, self._helps = scanner.collate([encoded]), scanner.helps([encoded])
        self._targets = Targets(self.batch, options.patterns, self._helps, by_query=True)
        in_full = chosen is None or chosen.heads is None
        self._projections: OutputProjections | None = None
        self._why_not_carried = ""
        if (keep and in_full) or options.reading.carried:
            try:
                self._projections = scanner.projections
            except CaptureError as error:
                self._why_not_carried = error.what
        readings: tuple[By, ...] = ("weight",) if self._projections is None else ("weight", "carried")
        self._scorers = {by: _Scorers(self._targets, options, keep=keep, in_full=in_full) for by in readings}
        norms = None if self._projections is None else self._projections.of_values
        self._keeper = AttentionKeeper(norms, chosen) if keep else None
        self._outputs = torch.zeros(0)

    def run(
        self,
        model_inputs: dict[str, Tensor],
        on_output: Callable[[int, Tensor], None] | None = None,
        restore: Callable[[Consumer], Consumer] = lambda consume: consume,
    ) -> None:
        """Run the model on the batch's inputs, or on others that it reads in their place.

        `on_output` may change what heads put out; `restore` puts words that are read elsewhere back to their places.
        Raises: CaptureError.
        """
        self._scanner.tap.run(model_inputs, restore(self.take), on_output)

    def take(self, block: AttentionBlock) -> None:
        """Take one block of attention while the model runs."""
        for consumer in self._scorers["weight"].consumers:
            consumer(block)
        if self._projections is not None:
            carried = self._projections.carried(block)
            for consumer in self._scorers["carried"].consumers:
                consumer(carried)
            outputs = self._projections.outputs(block)[0]
            if self._outputs.shape[:2] != block.grid.shape:
                self._outputs = outputs.new_zeros(*block.grid.shape, block.tokens)
            self._outputs[block.layer, block.heads, block.rows] = outputs
        if self._keeper is not None:
            self._keeper(block)

    def result(self) -> HeadScores:
        """What every head does; how sure that is, is worked out when it is asked for.

        Raises: CaptureError if the model's attention is not finite.
        """
        scanner, encoded, options = self._scanner, self._encoded, self._scanner.options
        signature = scanner.signature(input_hash=self._pair.key, pairs_read=1, pairs_truncated=int(encoded.truncated))
        result = _result(signature, encoded, options, self._scorers, None if self._helps else scanner.why_no_measure)
        related, links = self.batch.related_pairs, unit_links(encoded) if encoded.source else ()
        notes = [*(own.description for own in self._helps), self._why_not_carried, _named(related, encoded.units)]
        result = replace(result, notes=tuple(filter(None, notes)), related=related, links=links)
        if not links:
            linked = [pattern.id for pattern in options.patterns if pattern in LINKED_PATTERNS]
            unknown = dict.fromkeys(linked, "no gold links of these words are known")
            result = replace(result, not_measured={**result.not_measured, **unknown})
        if self._projections is not None:
            result = replace(result, output=_shares_of_output(self._outputs, encoded))
        return result if self._keeper is None else _kept(result, self._keeper.attention(encoded), self._targets)


def dependencies(scanner: Scanner, pair: Pair, encoded: EncodedInput | None = None) -> Dependencies:
    """Which words of one input help to predict which. Raises: InputError; ModelError if the model cannot be asked."""
    scanner = scanner.exact()
    encoded = encoded or scanner.encode(pair)
    helps = scanner.helps([encoded])
    if not helps:
        what = f"predictive words cannot be measured with {scanner.loaded.source.name}: {scanner.why_no_measure}"
        raise ModelError(what, "use a model that was trained with a mask token, such as BERT or RoBERTa")
    if np.isnan(helps[0].values).all():
        raise InputError("predictive words cannot be measured: the input has a single word", "give two words or more")
    signature = scanner.signature(input_hash=pair.key, pairs_read=1, pairs_truncated=int(encoded.truncated))
    return Dependencies(encoded.units, encoded.unit_sentence, helps[0], signature)


def classify_weights(
    saved: SavedWeights, name: str, options: ScanOptions, *, keep: bool | Selection = False
) -> HeadScores:
    """What every head does by its saved weights alone, of a model of that `name`. No words count as related.

    With `keep`, the result carries the weights. Raises: OptionError for what needs more than weights.
    """
    if options.reading.carried:
        raise OptionError("saved weights do not hold what heads carry", "leave out --by carried, or name a model")
    options = options.of_attention(causal=saved.source == 0 and not np.triu(saved.attention, 1).any())
    encoded, grid, everything = encode_tokens(saved, options.unit), Grid.of(saved.attention, options.kind), slice(None)
    targets = Targets(collate([encoded]), options.patterns, by_query=True)
    scorers = _Scorers(targets, options, keep=bool(keep))
    queries, keys = saved.attention.shape[2:]
    seen = torch.tensor(~np.array(saved.padding)[:keys] | saved.attention.any(axis=(0, 1, 2)))[None]
    visible = torch.zeros(0)
    if saved.source:
        visible = of_both_texts(seen[:, None].expand(1, queries, keys), [(queries, keys)])
    for layer, weights in enumerate(torch.from_numpy(saved.attention)[:, None]):
        if not saved.source and not torch.equal(visible, layer_visible := visible_keys(weights, seen)):
            visible = layer_visible
        unknown: dict[str, Any] = dict.fromkeys(("query", "key", "scaling", "logits"))
        block = AttentionBlock(grid, layer, everything, everything, weights, visible, **unknown)
        for consumer in scorers.consumers:
            consumer(block)
    signature = options.signed(
        model=name,
        revision=None,
        transformers=None,
        dtype=str(saved.attention.dtype),
        device="cpu",
        input_hash=hashed(saved.attention.tobytes(), *(token.encode(errors="replace") for token in saved.tokens)),
        read_by="file",
        predictive="off",
        pairs_read=1,
    )
    result = _result(signature, encoded, options, {"weight": scorers}, "there is no model to ask")
    if not keep:
        return result
    result = _kept(result, Attention.of(saved, encoded.sentence, encoded.unit, options.kind), targets)
    return keep.cut(result) if isinstance(keep, Selection) else result


class _Scorers:
    """Consumers of the attention of one input, by weight or by what heads carry: scores and habits, word by word.

    With `keep`, habits are counted with special tokens in and out, else as the options say. Without `in_full`, when the
    attention of some heads alone is kept, there are no habits.
    """

    def __init__(self, targets: Targets, options: ScanOptions, *, keep: bool, in_full: bool = True) -> None:
        wanted: tuple[Special, ...] = get_args(Special) if keep else (options.reading.special,)
        self.words, self.classes = Scorer(targets), dict[Special, ClassScorer | None]()
        for special in wanted:
            self.classes[special] = ClassScorer(targets.units, special=special == "in") if in_full else None
        self.consumers: list[Consumer] = [self.words, *filter(None, self.classes.values())]


def _result(
    signature: Signature, encoded: EncodedInput, options: ScanOptions, scorers: Mapping[By, _Scorers], why: str | None
) -> HeadScores:
    """What scorers have seen of an input; `why` the model was not asked for what it alone can tell, if it was not."""
    scored, scores, labels = [pattern.scored for pattern in options.patterns], dict[By, Scores](), dict[Reading, Any]()
    for by, own in scorers.items():
        scores[by] = scores_of(own.words.sums(), scored, options.kind, signature.layers)
        words = own.words.word_sums()
        for special, classes in own.classes.items():
            reading = Reading(by, special)
            units = {} if classes is None else units_of(words | classes.sums(), reading)
            arguments = scores[by], units, reading, options.threshold, options.seed
            labels[reading] = partial(labels_of, *arguments, of_pairs=False)
    asked = () if why is None else (pattern.id for pattern in options.patterns if pattern.target is None)
    of_input: dict[str, Any] = {"units": encoded.units, "sentence": encoded.unit_sentence, "shown": options.shown}
    return HeadScores(signature, scores, labels, not_measured=dict.fromkeys(asked, why or ""), **of_input)


def _kept(result: HeadScores, attention: Attention, targets: Targets) -> HeadScores:
    """A result with the input's attention and, under the masks that this had, the patterns' targets."""
    if attention.visible is None:
        return replace(result, attention=attention)
    rows = None if attention.chosen is None else attention.chosen.rows
    return replace(result, attention=attention, targets=targets.of_layers(attention.visible, rows))


def _shares_of_output(lengths: Tensor, encoded: EncodedInput) -> FloatArray:
    """How much each head puts out, as a share of its layer's; of a word, the mean of its pieces.

    Shape: `lengths` [layer, head, query] -> [layer, head].
    """
    unit, of_word = np.array(encoded.unit), np.array(encoded.sentence) >= 0
    together = (lengths.cpu().numpy().astype(np.float64) * (of_word / np.bincount(unit)[unit])).sum(-1)
    with np.errstate(invalid="ignore"):
        output: FloatArray = together / together.sum(-1, keepdims=True)
    return output


def _named(related: Sequence[tuple[int, int]], units: Sequence[str]) -> str:
    """A line that lists related words, each pair once; empty if there is no pair."""
    pairs: dict[frozenset[str], tuple[str, ...]] = {}
    for places in related:
        words = tuple(bare(units[place]) for place in places)
        pairs.setdefault(frozenset(words), words)
    return f"related words: {', '.join(map(' – '.join, pairs.values()))}" if pairs else ""

"""One input: what every head does on it, and which of its words help to predict which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, get_args

import numpy as np
import torch
from torch import Tensor

from attnscan.errors import InputError, ModelError, OptionError
from attnscan.hashing import hashed
from attnscan.inputs.alignments import unit_links
from attnscan.inputs.batch import EncodedInput, collate
from attnscan.inputs.encode import encode_tokens
from attnscan.inputs.sentence import Pair
from attnscan.inputs.tokens import bare
from attnscan.inputs.weights import SavedWeights
from attnscan.model.attention_block import (
    AttentionBlock,
    AttentionKeeper,
    Consumer,
    OnOutput,
    of_both_texts,
    visible_keys,
)
from attnscan.results.attention import Attention, Chosen
from attnscan.results.dependencies import Dependencies, Help
from attnscan.results.grid import Grid
from attnscan.results.head_weights import Selection
from attnscan.results.heads import HeadScores
from attnscan.results.scores import FloatArray
from attnscan.results.signature import By, Reading, Special
from attnscan.scan.options import ScanOptions
from attnscan.scoring.classes import ClassScorer
from attnscan.scoring.cross import LINKED_PATTERNS
from attnscan.scoring.labels import labels_of, scores_of, units_of
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.targets import Targets

if TYPE_CHECKING:  # saved weights are scored without transformers, and these import it
    from attnscan.scan.scanner import Scanner


def classify(
    scanner: Scanner, pair: Pair, encoded: EncodedInput | None = None, *, keep: bool | Selection = False
) -> HeadScores:
    """What every head of the model does on one input; tells how many hidden sequences are done.

    With `keep`, the result carries the attention of all layers, token by token whatever the unit, or what a selection
    names of it; without, no more than one layer's weights exist at a time. `encoded` is the pair if the scanner has
    encoded it already.

    Raises: InputError, ModelError if the model cannot read the input; SelectionError for heads or tokens that are not
    there; MemoryFullError if memory does not hold what is kept.
    """
    encoded = encoded or scanner.encode(pair)
    chosen = None
    if isinstance(keep, Selection):
        chosen = keep.chosen(scanner.grid(), encoded.tokens, encoded.segments, encoded.unit, encoded.source)
        scanner.check_room(len(encoded.tokens), chosen, copies=2)
    else:
        scanner.check_room(len(encoded.tokens), copies=int(keep))
    helps = scanner.helps([encoded])
    reading = InputReading(scanner, pair, encoded, helps, keep=bool(keep), chosen=chosen)
    scanner.tap.run(reading.batch.model_inputs, reading.take)
    return reading.result()


class InputReading:
    """One input as a scanner's model reads it: takes the attention while the model runs, then says what heads do."""

    def __init__(
        self,
        scanner: Scanner,
        pair: Pair,
        encoded: EncodedInput,
        helps: Sequence[Help],
        *,
        keep: bool = False,
        chosen: Chosen | None = None,
    ) -> None:
        """`helps` is what `Scanner.helps` says of the input, `chosen` the part of its attention that is kept.

        Where that is of some heads, labels by the reading are made without habits.
        """
        self._scanner, self._pair, self._encoded, self._helps = scanner, pair, encoded, helps
        self.batch, options = scanner.collate([encoded]), scanner.options
        self._targets = Targets(self.batch, options.patterns, helps, by_query=True)
        in_full = chosen is None or chosen.heads is None
        carrying = scanner.carrying if (keep and in_full) or options.reading.carried else None
        self._not_carried = carrying if isinstance(carrying, str) else ""
        self._projections = None if isinstance(carrying, str) else carrying
        readings: tuple[By, ...] = ("weight",) if self._projections is None else ("weight", "carried")
        self._scorers = {by: _Scorers(self._targets, options, keep=keep, in_full=in_full) for by in readings}
        norms = None if self._projections is None else self._projections.of_values
        self._keeper = AttentionKeeper(norms, chosen) if keep else None
        self._outputs = torch.zeros(0)

    def run(
        self,
        model_inputs: dict[str, Tensor],
        on_output: OnOutput | None = None,
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
            carried, outputs = self._projections.carried(block), self._projections.outputs(block)[0]
            for consumer in self._scorers["carried"].consumers:
                consumer(carried)
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
        cut = int(encoded.truncated)
        signature = scanner.signature(input_hash=self._pair.key, pairs_read=1, pairs_truncated=cut)
        result = HeadScores(signature, {}, units=encoded.units, sentence=encoded.unit_sentence, shown=options.shown)
        for by, scorers in self._scorers.items():
            result = scorers.added(result, by, options)
        related = self.batch.related_pairs
        descriptions = [help_of_words.description for help_of_words in self._helps]
        notes = (*descriptions, *filter(None, [self._not_carried]), *_named(related, encoded.units))
        not_measured = _not_measured(options, None if self._helps else scanner.why_no_measure)
        links = unit_links(encoded) if encoded.source else ()
        if not links:
            linked = (pattern.id for pattern in options.patterns if pattern in LINKED_PATTERNS)
            not_measured |= dict.fromkeys(linked, "no gold links of these words are known")
        output = None if self._projections is None else _shares_of_output(self._outputs, encoded)
        result = replace(result, not_measured=not_measured, notes=notes, related=related, links=links, output=output)
        return result if self._keeper is None else _kept(result, self._keeper.attention(encoded), self._targets)


def dependencies(scanner: Scanner, pair: Pair, encoded: EncodedInput | None = None) -> Dependencies:
    """Which words of one input help to predict which, without looking at any head; `encoded` as for `classify`.

    Raises: InputError; ModelError if the model cannot be asked.
    """
    scanner = scanner.exact()
    encoded = encoded or scanner.encode(pair)
    helps = scanner.helps([encoded])
    if not helps:
        raise ModelError(
            f"predictive words cannot be measured with {scanner.loaded.source.name}: {scanner.why_no_measure}",
            "use a model that was trained with a mask token, such as BERT or RoBERTa",
        )
    if np.isnan(helps[0].values).all():
        raise InputError("predictive words cannot be measured: the input has a single word", "give two words or more")
    cut = int(encoded.truncated)
    signature = scanner.signature(input_hash=pair.key, pairs_read=1, pairs_truncated=cut)
    return Dependencies(encoded.units, encoded.unit_sentence, helps[0], signature)


def classify_weights(
    saved: SavedWeights, name: str, options: ScanOptions, *, keep: bool | Selection = False
) -> HeadScores:
    """What every head does by its saved weights alone. Without a model no words count as related.

    `name` stands for the model in the result. With `keep`, the result carries the weights.

    Raises: OptionError for what needs more than weights.
    """
    if options.reading.carried:
        raise OptionError("saved weights do not hold what heads carry", "leave out --by carried, or name a model")
    options = options.of_attention(causal=saved.source == 0 and not np.triu(saved.attention, 1).any())
    encoded = encode_tokens(saved, options.unit)
    batch = collate([encoded])
    grid = Grid.of(saved.attention, options.kind)
    targets = Targets(batch, options.patterns, by_query=True)
    scorers = _Scorers(targets, options, keep=bool(keep))
    everything, source, (queries, keys) = slice(None), saved.source, saved.attention.shape[2:]
    seen = torch.tensor(~np.array(saved.padding)[:keys] | saved.attention.any(axis=(0, 1, 2)))[None]
    visible = torch.zeros(0)
    if source:
        visible = of_both_texts(seen[:, None].expand(1, queries, keys), [(queries, keys)])
    for layer, weights in enumerate(torch.from_numpy(saved.attention)[:, None]):
        if not source and not torch.equal(visible, layer_visible := visible_keys(weights, seen)):
            visible = layer_visible
        given = (grid, layer, everything, everything, weights, visible, None, None, None, None)
        block = AttentionBlock(*given)
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
    result = HeadScores(signature, {}, units=encoded.units, sentence=encoded.unit_sentence, shown=options.shown)
    result = scorers.added(result, "weight", options)
    result = replace(result, not_measured=_not_measured(options, "there is no model to ask"))
    if not keep:
        return result
    result = _kept(result, Attention.of(saved, encoded.sentence, encoded.unit, options.kind), targets)
    return keep.cut(result) if isinstance(keep, Selection) else result


def _kept(result: HeadScores, attention: Attention, targets: Targets) -> HeadScores:
    """A result with the input's attention and, under the masks that this had, the patterns' targets."""
    if attention.visible is None:
        return replace(result, attention=attention)
    rows = None if attention.chosen is None else attention.chosen.rows
    return replace(result, attention=attention, targets=targets.of_layers(attention.visible, rows))


class _Scorers:
    """Consumers of the attention of one input by weight or by what heads carry: scores and habits, word by word.

    With `keep`, habits are counted with special tokens in and out, else as the options say. Without `in_full`, when the
    attention of some heads alone is kept, there are no habits.
    """

    def __init__(self, targets: Targets, options: ScanOptions, *, keep: bool, in_full: bool = True) -> None:
        self.words, self._classes = Scorer(targets), dict[Special, ClassScorer | None]()
        for special in get_args(Special) if keep else (options.reading.special,):
            self._classes[special] = ClassScorer(targets.units, special=special == "in") if in_full else None
        self.consumers: list[Consumer] = [self.words, *filter(None, self._classes.values())]

    def added(self, result: HeadScores, by: By, options: ScanOptions) -> HeadScores:
        """Add scores and labels to a result."""
        layers, scored = result.signature.layers, [pattern.scored for pattern in options.patterns]
        scores = scores_of(self.words.sums(), scored, options.kind, layers)
        words, labels_by = self.words.word_sums(), dict(result.labels_by)
        for special, classes in self._classes.items():
            reading = Reading(by, special)
            units = {} if classes is None else units_of(words | classes.sums(), reading)
            work = partial(labels_of, scores, units, reading, options.threshold, options.seed, of_pairs=False)
            labels_by[reading] = work
        return replace(result, scores_by={**result.scores_by, by: scores}, labels_by=labels_by)


def _shares_of_output(lengths: Tensor, encoded: EncodedInput) -> FloatArray:
    """How much each head puts out, as a share of its layer's; of a word, the mean of its pieces.

    Shape: `lengths` [layer, head, query] -> [layer, head].
    """
    unit, of_word = np.array(encoded.unit), np.array(encoded.sentence) >= 0
    together = (lengths.cpu().numpy().astype(np.float64) * (of_word / np.bincount(unit)[unit])).sum(-1)
    with np.errstate(invalid="ignore"):
        output: FloatArray = together / together.sum(-1, keepdims=True)
    return output


def _not_measured(options: ScanOptions, why: str | None) -> dict[str, str]:
    """The patterns that only the model can tell, if there is a reason why it was not asked."""
    return {} if why is None else {pattern.id: why for pattern in options.patterns if pattern.target is None}


def _named(related: Sequence[tuple[int, int]], units: Sequence[str]) -> list[str]:
    """A line that lists related words, each pair once; none if there is no pair."""
    texts = (tuple(bare(units[place]) for place in pair) for pair in related)
    pairs: dict[frozenset[str], tuple[str, ...]] = {}
    for words in texts:
        pairs.setdefault(frozenset(words), words)
    return [f"related words: {', '.join(map(' – '.join, pairs.values()))}"] if pairs else []

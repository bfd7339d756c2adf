"""One input through a model: what every head does on it, and which words help to predict which."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from attnscan.errors import CaptureError, InputError, ModelError
from attnscan.inputs.annotations import unit_links
from attnscan.inputs.sentence import EncodedInput, Pair
from attnscan.inputs.spelling import bare
from attnscan.model.attention_block import AttentionBlock
from attnscan.model.carried import OutputProjections
from attnscan.model.keeper import AttentionKeeper
from attnscan.results.attention import Attention, Chosen, Selection
from attnscan.results.heads import HeadScores
from attnscan.results.predictions import Dependencies
from attnscan.results.scores import FloatArray, Scores
from attnscan.results.signature import AttentionView, By, Signature, Special
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scoring.blocks import KEY_SETS
from attnscan.scoring.class_scorer import ClassScorer
from attnscan.scoring.cross import LINKED_PATTERNS
from attnscan.scoring.labels import labels_of, scores_of
from attnscan.scoring.pattern_scorer import PatternScorer
from attnscan.scoring.units import Targets, show_units


def classify_input(
    scanner: Scanner,
    pair: Pair,
    encoded: EncodedInput | None = None,
    *,
    keep: bool | Selection = False,
) -> HeadScores:
    """Score and label every head on one input, which may be `encoded` already.

    With `keep`, the result carries the attention of all layers, token by token whatever the unit,
    or what a selection names of it.
    Raises: InputError, ModelError if the model cannot read the input; SelectionError for heads or
    tokens that are not there; MemoryFullError if memory does not hold what is kept.
    """
    if encoded is None:
        encoded = scanner.encode(pair)
    chosen = None
    copies = int(bool(keep))
    if isinstance(keep, Selection):
        chosen = keep.chosen(
            scanner.grid(), encoded.tokens, encoded.segments, encoded.unit, encoded.source
        )
        copies = 2
    scanner.check_room(len(encoded.tokens), chosen, copies)
    reading = InputReading(scanner, pair, encoded, keep=bool(keep), chosen=chosen)
    scanner.tap.run(reading.batch.model_inputs, reading.take)
    return reading.result()


def find_dependencies(
    scanner: Scanner, pair: Pair, encoded: EncodedInput | None = None
) -> Dependencies:
    """Measure which words of one input help to predict which.

    Raises: InputError; ModelError if the model cannot be asked.
    """
    scanner = scanner.exact()
    if encoded is None:
        encoded = scanner.encode(pair)
    if scanner.measure is None:
        name = scanner.loaded.source.name
        raise ModelError(
            f"predictive words cannot be measured with {name}: {scanner.why_no_measure}",
            "use a model that was trained with a mask token, such as BERT or RoBERTa",
        )
    (dependencies,) = scanner.word_dependencies([encoded])
    if np.isnan(dependencies.values).all():
        raise InputError(
            "predictive words cannot be measured: the input is one word, or punctuation",
            "give two words or more",
        )
    signature = scanner.signature(
        input_hash=pair.key, pairs_read=1, pairs_truncated=int(encoded.truncated)
    )
    return Dependencies(encoded.units, encoded.unit_sentence, dependencies, signature)


class InputReading:
    """One input as a scanner's model reads it: takes its attention, then says what heads do."""

    def __init__(
        self,
        scanner: Scanner,
        pair: Pair,
        encoded: EncodedInput,
        *,
        keep: bool = False,
        chosen: Chosen | None = None,
    ) -> None:
        """`chosen` is the part of its attention that is kept.

        Where that is of some heads, there are no habits.
        """
        options = scanner.options
        self._scanner = scanner
        self._pair = pair
        self._encoded = encoded
        self.batch = scanner.collate([encoded])
        self._word_dependencies = scanner.word_dependencies([encoded])
        self._targets = Targets(
            self.batch, options.patterns, self._word_dependencies, by_query=True
        )
        in_full = chosen is None or chosen.heads is None
        self._projections: OutputProjections | None = None
        self._why_not_carried = ""
        if (keep and in_full) or options.reading.carried:
            try:
                self._projections = scanner.projections
            except CaptureError as error:
                self._why_not_carried = error.what
        kinds: list[By] = ["weight"]
        if self._projections is not None:
            kinds.append("carried")
        self._scorers = {
            by: InputScorers(self._targets, options, keep=keep, in_full=in_full) for by in kinds
        }
        self._keeper: AttentionKeeper | None = None
        if keep:
            norms = None if self._projections is None else self._projections.value_norms
            self._keeper = AttentionKeeper(norms, chosen)
        self._outputs = torch.zeros(0)

    def take(self, block: AttentionBlock) -> None:
        """Take one block of attention while the model runs."""
        self._scorers["weight"].take(block)
        if self._projections is not None:
            carried = self._projections.to_carried(block)
            self._scorers["carried"].take(carried)
            outputs = self._projections.output_norms(block)[0]
            if self._outputs.shape[:2] != block.grid.shape:
                self._outputs = outputs.new_zeros(*block.grid.shape, block.tokens)
            self._outputs[block.layer, block.heads, block.rows] = outputs
        if self._keeper is not None:
            self._keeper(block)

    def result(self) -> HeadScores:
        """Make the result of the input; how sure labels are is computed when it is read.

        Raises: CaptureError if the model's attention is not finite.
        """
        scanner = self._scanner
        encoded = self._encoded
        signature = scanner.signature(
            input_hash=self._pair.key, pairs_read=1, pairs_truncated=int(encoded.truncated)
        )
        why_no_measure = None if self._word_dependencies else scanner.why_no_measure
        result = result_of_input(signature, encoded, scanner.options, self._scorers, why_no_measure)
        related = self.batch.related_pairs
        links = unit_links(encoded) if encoded.source else ()
        notes = [
            *(dependencies.description for dependencies in self._word_dependencies),
            self._why_not_carried,
            _related_words(related, encoded.units),
        ]
        result = replace(
            result, notes=tuple(note for note in notes if note), related=related, links=links
        )
        if not links:
            result = replace(result, not_measured=self._without_links(result.not_measured))
        if self._projections is not None:
            result = replace(result, output=_shares_of_output(self._outputs, encoded))
        if self._keeper is not None:
            result = with_attention(result, self._keeper.attention(encoded), self._targets)
        return result

    def _without_links(self, not_measured: Mapping[str, str]) -> dict[str, str]:
        """The patterns that are not measured, with those that need gold links."""
        linked = [
            pattern.id for pattern in self._scanner.options.patterns if pattern in LINKED_PATTERNS
        ]
        unlinked = dict.fromkeys(linked, "no gold links of these words are known")
        return {**not_measured, **unlinked}


class InputScorers:
    """Consumers of one input's attention, by weight or by what heads carry, word by word.

    With `keep`, habits are counted with special tokens in and out, else as the options say. Without
    `in_full`, when the attention of some heads alone is kept, there are no habits.
    """

    def __init__(
        self, targets: Targets, options: ScanOptions, *, keep: bool, in_full: bool = True
    ) -> None:
        wanted: tuple[Special, ...] = get_args(Special) if keep else (options.reading.special,)
        self._units = targets.units
        self.scorer = PatternScorer(targets)
        self.class_scorers: dict[Special, ClassScorer | None] = dict.fromkeys(wanted)
        if in_full:
            for special in wanted:
                scorer = ClassScorer(targets.units, special=special == "in")
                self.class_scorers[special] = scorer

    def take(self, block: AttentionBlock) -> None:
        """Take one block."""
        class_scorers = [scorer for scorer in self.class_scorers.values() if scorer is not None]
        show_units(self._units, [self.scorer, *class_scorers], block)


def result_of_input(
    signature: Signature,
    encoded: EncodedInput,
    options: ScanOptions,
    scorers: Mapping[By, InputScorers],
    why_no_measure: str | None,
) -> HeadScores:
    """Make a result of what scorers have summed.

    `why_no_measure` says why `predictive` was not measured, if so.
    """
    scored = [pattern.scored for pattern in options.patterns]
    scores: dict[By, Scores] = {}
    labels: dict[AttentionView, Any] = {}
    for by, input_scorers in scorers.items():
        sums = input_scorers.scorer.sums()
        scores[by] = scores_of(sums, scored, options.kind, signature.layers)
        word_sums = input_scorers.scorer.word_sums()
        for special, class_scorer in input_scorers.class_scorers.items():
            reading = AttentionView(by, special)
            label_sums: dict[str, FloatArray] = {}
            if class_scorer is not None:
                label_sums = _sums_of_key_set(word_sums, reading) | class_scorer.sums()
            labels[reading] = partial(
                labels_of,
                scores[by],
                label_sums,
                reading,
                options.threshold,
                options.seed,
                by_pair=False,
            )
    not_measured = {}
    if why_no_measure is not None:
        not_measured = {
            pattern.id: why_no_measure for pattern in options.patterns if pattern.target is None
        }
    return HeadScores(
        signature=signature,
        scores_by=scores,
        labels_by=labels,
        not_measured=not_measured,
        units=encoded.units,
        sentence=encoded.unit_sentence,
        shown=options.shown,
    )


def _sums_of_key_set(
    sums: Mapping[str, FloatArray], reading: AttentionView
) -> dict[str, FloatArray]:
    """Those sums that labels of a reading are made of; no others are kept."""
    key_set = KEY_SETS[reading.words_only]
    return {name: values for name, values in sums.items() if name.startswith(key_set)}


def with_attention(result: HeadScores, attention: Attention, targets: Targets) -> HeadScores:
    """A result with the input's attention and the patterns' targets, under the masks it had."""
    if attention.visible is None:
        return replace(result, attention=attention)
    rows = None if attention.chosen is None else attention.chosen.rows
    layer_targets = targets.by_layer(attention.visible, rows)
    return replace(result, attention=attention, targets=layer_targets)


def _shares_of_output(lengths: Tensor, encoded: EncodedInput) -> FloatArray:
    """Compute each head's share of its layer's output; a word counts by the mean of its pieces.

    Shape: `lengths` [layer, head, query] -> [layer, head].
    """
    unit = np.array(encoded.unit)
    is_word = np.array(encoded.sentence) >= 0
    share_of_word = is_word / np.bincount(unit)[unit]
    together = (lengths.cpu().numpy().astype(np.float64) * share_of_word).sum(-1)
    with np.errstate(invalid="ignore"):
        output: FloatArray = together / together.sum(-1, keepdims=True)
    return output


def _related_words(related: Sequence[tuple[int, int]], units: Sequence[str]) -> str:
    """A line that lists related words, each pair once; empty if there is no pair."""
    pairs: dict[frozenset[str], tuple[str, ...]] = {}
    for places in related:
        words = tuple(bare(units[place]) for place in places)
        pairs.setdefault(frozenset(words), words)
    if not pairs:
        return ""
    return "related words: " + ", ".join(" – ".join(words) for words in pairs.values())

"""One input through a model: what every head does on it, and which words help to predict which."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from attnscan.errors import CaptureError, InputError, ModelError
from attnscan.inputs.annotations import unit_links
from attnscan.inputs.sentence import EncodedInput, Pair
from attnscan.inputs.spelling import bare
from attnscan.model.attention_block import AttentionBlock
from attnscan.model.carried import OutputProjections, to_carried
from attnscan.model.keeper import AttentionKeeper
from attnscan.results.attention import Attention, Chosen, Selection
from attnscan.results.heads import HeadScores
from attnscan.results.predictions import Dependencies
from attnscan.results.scores import FloatArray, Labels, Scores
from attnscan.results.signature import EVERY_READING, AttentionView, By, Signature, Special
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scoring.class_scorer import ClassScorer
from attnscan.scoring.cross import LINKED_PATTERNS
from attnscan.scoring.labels import labels_of, scores_of
from attnscan.scoring.pattern_scorer import PatternScorer
from attnscan.scoring.units import Targets, Units, show_units
from attnscan.scoring.word_links import AlignmentScorer
from attnscan.text import counted


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
    readings: Sequence[AttentionView] = (scanner.options.reading,)
    chosen = None
    copies = int(bool(keep))
    if isinstance(keep, Selection):
        chosen = keep.chosen(
            scanner.grid(), encoded.tokens, encoded.segments, encoded.unit, encoded.source
        )
        copies = 2
        if keep.every_reading:
            readings = EVERY_READING
    scanner.check_room(len(encoded.tokens), chosen, copies)
    reading = InputReading(
        scanner, pair, encoded, keep=bool(keep), chosen=chosen, readings=readings
    )
    with scanner.batch_limit().around_one(len(encoded.tokens)):
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
    return Dependencies(
        units=encoded.units,
        sentence=encoded.unit_sentence,
        help=dependencies,
        signature=signature,
    )


@dataclass(frozen=True)
class ScoredInput:
    """What an input's attention was scored against: by this, other readings can be scored."""

    encoded: EncodedInput
    targets: Targets
    options: ScanOptions


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
        readings: Sequence[AttentionView] = (),
    ) -> None:
        """`readings` are those to be scored; none for that of the options.

        `chosen` is the part of the attention that is kept. Where that is of some heads, there are
        no habits.
        """
        options = scanner.options
        self._scanner = scanner
        self._pair = pair
        self.batch = scanner.collate([encoded])
        self._word_dependencies = scanner.word_dependencies([encoded])
        targets = Targets(self.batch, options.patterns, self._word_dependencies, by_query=True)
        self._scored = ScoredInput(encoded, targets, options)
        in_full = chosen is None or chosen.heads is None
        self._projections: OutputProjections | None = None
        self._why_not_carried = ""
        if (keep and in_full) or options.reading.carried:
            try:
                self._projections = scanner.projections
            except CaptureError as error:
                self._why_not_carried = error.what
        readings = readings or (options.reading,)
        if self._projections is None:
            readings = [reading for reading in readings if not reading.carried]
        self._scorers = make_scorers(targets, readings, in_full=in_full)
        self._keeper: AttentionKeeper | None = None
        if keep:
            norms = None if self._projections is None else self._projections.value_norms
            self._keeper = AttentionKeeper(norms, chosen)
        self._outputs = torch.zeros(0)

    def take(self, block: AttentionBlock) -> None:
        """Take one block of attention while the model runs."""
        if "weight" in self._scorers:
            self._scorers["weight"].take(block)
        if self._projections is not None:
            if "carried" in self._scorers:
                self._scorers["carried"].take(self._projections.to_carried(block))
            outputs = self._projections.output_norms(block)[0]
            if self._outputs.shape[:2] != block.grid.shape:
                self._outputs = outputs.new_zeros(*block.grid.shape, block.tokens)
            self._outputs[block.layer, block.heads, block.rows] = outputs
        if self._keeper is not None:
            self._keeper(block)

    def result(self) -> HeadScores:
        """Make the result of the input, with its labels and how sure they are.

        Raises: CaptureError if the model's attention is not finite.
        """
        scanner = self._scanner
        encoded = self._scored.encoded
        signature = scanner.signature(
            input_hash=self._pair.key, pairs_read=1, pairs_truncated=int(encoded.truncated)
        )
        why_no_measure = None if self._word_dependencies else scanner.why_no_measure
        result = result_of_input(signature, self._scored, self._scorers, why_no_measure)
        related = self.batch.related_pairs
        links = unit_links(encoded) if encoded.source else ()
        notes = [
            _written_part(scanner.options, encoded),
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
            result = with_attention(result, self._keeper.attention(encoded), self._scored)
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

    Habits are counted with special tokens in, out, or both. Without `in_full`, when the attention
    of some heads alone is kept, there are no habits.
    """

    def __init__(
        self, targets: Targets, special: Sequence[Special], *, in_full: bool = True
    ) -> None:
        self._units = targets.units
        self._scorer = PatternScorer(targets)
        self._alignment_scorer: AlignmentScorer | None = None
        if targets.batch.is_query is not None:
            self._alignment_scorer = AlignmentScorer(Units(targets.batch))
        self._class_scorers: dict[Special, ClassScorer | None] = dict.fromkeys(special)
        if in_full:
            for name in special:
                self._class_scorers[name] = ClassScorer(targets.units, special=name == "in")

    def take(self, block: AttentionBlock) -> None:
        """Take one block, in which what heads carry stands in place of weights where it is read."""
        class_scorers = [scorer for scorer in self._class_scorers.values() if scorer is not None]
        show_units(self._units, [self._scorer, *class_scorers], block)
        if self._alignment_scorer is not None:
            self._alignment_scorer(block)

    def scores(self, options: ScanOptions, signature: Signature) -> Scores:
        """Every head's scores. Raises: CaptureError if the model's attention is not finite."""
        scored = [pattern.scored for pattern in options.patterns]
        sums = self._scorer.sums()
        if self._alignment_scorer is not None:
            sums |= self._alignment_scorer.sums()
        return scores_of(sums, scored, options.kind, signature.layers)

    def labels(self, by: By, scores: Scores, options: ScanOptions) -> dict[AttentionView, Labels]:
        """What every head does, and how sure that is, with special tokens in, out, or both."""
        word_sums = self._scorer.word_sums()
        labels = {}
        for special, class_scorer in self._class_scorers.items():
            reading = AttentionView(by, special)
            sums: dict[str, FloatArray] = {}
            if class_scorer is not None:
                sums = {**word_sums, **class_scorer.sums()}
            labels[reading] = labels_of(
                scores, sums, reading, options.threshold, options.seed, by_pair=False
            )
        return labels


def make_scorers(
    targets: Targets, readings: Sequence[AttentionView], *, in_full: bool = True
) -> dict[By, InputScorers]:
    """The scorers of some readings: those of the same rows share one."""
    special: dict[By, list[Special]] = {}
    for reading in readings:
        special.setdefault(reading.by, []).append(reading.special)
    return {by: InputScorers(targets, names, in_full=in_full) for by, names in special.items()}


def _written_part(options: ScanOptions, encoded: EncodedInput) -> str:
    """How many tokens of sentence B a decoder has written; nothing where B was given."""
    if options.write is None:
        return ""
    written = sum(side == 1 for side in encoded.sentence)
    return f"sentence B was written by the model: {counted(written, 'token')}"


def result_of_input(
    signature: Signature,
    scored: ScoredInput,
    scorers: Mapping[By, InputScorers],
    why_no_measure: str | None,
) -> HeadScores:
    """Make a result of what scorers have summed.

    `why_no_measure` says why `predictive` was not measured, if so.
    """
    options = scored.options
    scores: dict[By, Scores] = {}
    labels: dict[AttentionView, Labels] = {}
    for by, input_scorers in scorers.items():
        scores[by] = input_scorers.scores(options, signature)
        labels |= input_scorers.labels(by, scores[by], options)
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
        units=scored.encoded.units,
        sentence=scored.encoded.unit_sentence,
        shown=options.shown,
    )


def with_attention(result: HeadScores, attention: Attention, scored: ScoredInput) -> HeadScores:
    """A result with the input's attention and the patterns' targets, under the masks it had."""
    if attention.visible is None:
        return replace(result, attention=attention)
    rows = None if attention.chosen is None else attention.chosen.rows
    layer_targets = scored.targets.by_layer(attention.visible, rows)
    result = replace(result, attention=attention, targets=layer_targets)
    return replace(result, scored_input=scored) if attention.is_whole else result


def add_readings(result: HeadScores, readings: Sequence[AttentionView]) -> HeadScores:
    """A result with the scores and labels of more readings, from the attention that it has kept.

    Its attention is whole. Readings of what heads carry need the norms of values.
    """
    scored: ScoredInput = result.scored_input
    # What was kept is in main memory, wherever the model ran
    targets = replace(scored.targets, batch=scored.targets.batch.to(torch.device("cpu")))
    scores = dict(result.scores_by)
    labels = dict(result.labels_by)
    for by, input_scorers in make_scorers(targets, readings).items():
        for block in _kept_blocks(result.kept_attention(), carried=by == "carried"):
            input_scorers.take(block)
        scores[by] = input_scorers.scores(scored.options, result.signature)
        labels |= input_scorers.labels(by, scores[by], scored.options)
    in_order = {reading: labels[reading] for reading in EVERY_READING if reading in labels}
    return replace(result, scores_by=scores, labels_by=in_order)


def _kept_blocks(attention: Attention, *, carried: bool) -> Iterator[AttentionBlock]:
    """The attention that was kept, layer by layer, as the model's run showed it."""
    assert attention.visible is not None
    everything = slice(None)
    keys = slice(0, attention.keys)
    queries = slice(attention.source, None)
    masks: dict[bytes, Tensor] = {}  # layers of one mask share it, and what follows from it
    for layer, layer_visible in enumerate(attention.visible):
        visible = masks.setdefault(layer_visible.tobytes(), torch.from_numpy(layer_visible)[None])
        block = AttentionBlock(
            grid=attention.grid,
            layer=layer,
            inputs=everything,
            heads=everything,
            weights=torch.from_numpy(attention.weights[layer][None, :, queries, keys]),
            visible=visible,
            query=None,
            key=None,
            scaling=None,
        )
        if carried:
            assert attention.norms is not None
            block = to_carried(block, torch.from_numpy(attention.norms[layer][None, :, keys]))
        yield block


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

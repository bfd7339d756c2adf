"""A model made ready: tokenize, run under the tap, score every head, one batch at a time.

Below the scanner stands what every head does on one input, and which of its words help to predict which.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from types import TracebackType
from typing import Any, Self, get_args

import numpy as np
import torch
from torch import Tensor

from attnscan.errors import CaptureError, InputError, ModelError
from attnscan.inputs.annotations import unit_links
from attnscan.inputs.batch import EncodedBatch, Relation, collate
from attnscan.inputs.encode import bare
from attnscan.inputs.sentence import EncodedInput, Pair, Place
from attnscan.model.attention_block import AttentionBlock, Consumer
from attnscan.model.carried import OutputProjections, output_projections
from attnscan.model.forward import eval_mode
from attnscan.model.keeper import AttentionKeeper
from attnscan.model.loading import LoadedModel, load, no_encoder_decoder
from attnscan.model.memory import check_memory
from attnscan.model.sources import Source, choose, short
from attnscan.model.tap import AttentionTap
from attnscan.model.threads import most_workers
from attnscan.model.writing import encode_translations, shift_right, write_target, writes_text
from attnscan.results.attention import Attention, Chosen, Selection
from attnscan.results.heads import HeadScores
from attnscan.results.predictions import Dependencies, WordDependencies
from attnscan.results.scores import FloatArray, Scores
from attnscan.results.terms import AttentionKind, AttentionView, By, Grid, Signature, Special
from attnscan.scan.options import OnProgress, ScanOptions, silent
from attnscan.scoring.blocks import KEY_SETS
from attnscan.scoring.cross import LINKED_PATTERNS
from attnscan.scoring.labels import labels_of, scores_of
from attnscan.scoring.predictive import MaskedQueries, help_between_words, measure_of
from attnscan.scoring.scorer import ClassScorer, Scorer, pair_sums
from attnscan.scoring.units import Targets

OnPairs = Callable[[Sequence[Place], Mapping[str, FloatArray]], object]
"""Given the places of some pairs and their own sums, as `Scorer.sums` names them."""
_OF_WATCHED = 4  # of a layer's weights, that a model's own attention and scoring hold at once
_BYTES_OF_TOKEN = 150_000  # that a run over a long input takes on a CPU
_SHORT = 1024  # tokens: no more can fill a memory


class Scanner:
    """A loaded model, tapped, and ready for any number of pairs. Close it, or use it in a `with`.

    The model is the one that the options name, or that of a `source` that was chosen or loaded before.
    Raises: ModelError, DeviceError if the model cannot be loaded on the device.
    """

    def __init__(
        self,
        options: ScanOptions,
        source: Source | LoadedModel | None = None,
        progress: OnProgress = silent,
    ) -> None:
        self.options, self.progress = options, progress
        if isinstance(source, LoadedModel):
            self.loaded = source
        else:
            languages = options.source_language, options.target_language
            self.loaded = load(
                source or choose(options.model),
                options.device,
                options.dtype,
                options.attention,
                languages,
            )
        if options.kind is not AttentionKind.ONLY and not writes_text(self.loaded.model):
            if self.loaded.original is not None or not self.loaded.model.config.is_encoder_decoder:
                raise no_encoder_decoder(self.loaded.source.name, options.attention)
            raise ModelError(
                f"{self.loaded.source.name} was loaded without its decoder, for --attention encoder alone",
                "give the model's name in place of what load() returned",
            )
        self.measure, self.why_no_measure = measure_of(self.loaded, options.predictive)
        if options.kind is not AttentionKind.ONLY:
            self.measure, self.why_no_measure = (
                None,
                "it is measured with encoders and models that only decode",
            )
        if all(pattern.target is not None for pattern in options.patterns):
            self.measure, self.why_no_measure = None, "not asked for"
        elif self.measure is None and options.predictive not in ("auto", "off"):
            message = f"--predictive {options.predictive} cannot be measured with {self.loaded.source.name}"
            raise ModelError(f"{message}: {self.why_no_measure}", "leave the option out")
        self.tap = AttentionTap(self.loaded.scored, kind=options.kind)
        is_exact = self.loaded.scored is self.loaded.model
        self._exact_tap = (
            self.tap if is_exact else AttentionTap(self.loaded.model, kind=options.kind)
        )
        self._taps = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as taps:
            taps.enter_context(
                eval_mode(
                    self.loaded.model if self.loaded.original is None else self.loaded.original
                )
            )
            for tap in {self.tap, self._exact_tap}:
                taps.enter_context(tap)
            if self.options.reading.carried:
                _ = self.projections  # refused before a pair is read
            self._taps = taps.pop_all()
        self.options = self.options.with_causal_patterns(
            causal=self.options.kind is AttentionKind.ONLY and self.is_causal
        )
        return self if self.options.relations is None else self.exact()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._taps.__exit__(kind, error, at)

    def replace(self, **attributes: Any) -> Self:
        """A scanner of this model, under this tap, with other attributes; closing is left to this one."""
        scanner = copy(self)
        vars(scanner).update(attributes)
        return scanner

    def with_options(self, **changes: Any) -> Self:
        """A scanner of this model, under this tap, that reads by other options."""
        return self.replace(options=replace(self.options, **changes))

    def exact(self) -> Self:
        """A scanner of this model in its weights' number format, on a CPU float32 whatever scores are made in."""
        loaded = replace(self.loaded, scored=self.loaded.model)
        return self.replace(relation=self.relation, loaded=loaded, tap=self._exact_tap)

    def tell(self, doing: str, done: int | None = None, total: int | None = None) -> None:
        """Tell what runs now, how much of it is done, and how much there is."""
        self.progress(doing, done, total)

    def workers(self, most: int, longest: int) -> int:
        """The number of threads, `most` at most, that score inputs of that length at the same time."""
        # Made once, before any thread asks for it
        _ = self.relation, self.options.reading.carried and self.projections
        _ = self.options.relations is not None and self.is_causal
        return min(max(1, most), most_workers(self.loaded, self.options.batch_tokens, longest))

    def grid(self) -> Grid:
        """The heads of the model. Raises: CaptureError if it has none."""
        return self.tap.calls.grid

    def check_room(self, tokens: int, chosen: Chosen | None = None, copies: int = 0) -> None:
        """Check that main memory holds a run over one long input, and so many copies of its weights besides.

        These are of all heads or of what is `chosen`; where the model computes its own attention, one layer's weights
        of all heads are held besides. Raises: MemoryFullError.
        """
        (layers, heads), rows = self.grid().shape, tokens
        kept_heads = layers * heads
        if chosen is not None:
            rows, kept_heads = (
                len(chosen.rows),
                kept_heads if chosen.heads is None else len(chosen.heads),
            )
        cells = copies * kept_heads * rows * tokens + (
            0 if self.tap.calls.uses_tap else _OF_WATCHED * heads * tokens**2
        )
        if tokens > _SHORT:
            remedy = "use a shorter input, fewer heads, or fewer queries by --window I-J"
            run = _BYTES_OF_TOKEN * tokens if self.loaded.device.type == "cpu" else 0
            check_memory(run + 4 * cells, f"an input of {tokens:,} tokens", remedy)

    def encode(self, pair: Pair) -> EncodedInput:
        """Tokenize one pair. Raises: InputError, ModelError if the model cannot read it."""
        (encoded,) = self.encode_all([pair])
        if isinstance(encoded, InputError):
            raise encoded
        return encoded

    def encode_all(self, pairs: Sequence[Pair]) -> Iterator[EncodedInput | InputError]:
        """Tokenize some pairs; the error in the place of one that cannot be read. Raises: ModelError if none can."""
        options = self.options
        pairs = [pair.by_spaces for pair in pairs] if options.words == "spaces" else pairs
        if options.kind is not AttentionKind.ONLY:
            return self._encode_translations(pairs)
        return self.loaded.encode_all(pairs, options.unit, truncate=options.on_long == "truncate")

    def _encode_translations(self, pairs: Sequence[Pair]) -> Iterator[EncodedInput | InputError]:
        """Tokenize sources and targets, which the model writes where they are missing."""
        loaded, options = self.loaded, self.options
        model, tokenizer, limit = loaded.model, loaded.tokenizer, loaded.limit
        write = partial(write_target, model, tokenizer, most=options.max_target_tokens, limit=limit)
        completed = [
            pair if pair.b is not None else write(pair) for pair in pairs
        ]  # or the error in its place
        translations = [pair for pair in completed if isinstance(pair, Pair)]
        truncate, query = (
            options.on_long == "truncate",
            options.query if options.attention == "cross" else None,
        )
        encoded = encode_translations(
            tokenizer,
            translations,
            options.unit,
            limit,
            truncate,
            partial(shift_right, model),
            query,
        )
        for pair in completed:
            read = next(encoded) if isinstance(pair, Pair) else pair
            if isinstance(read, EncodedInput):
                loaded.check_ids(
                    read.model_inputs["input_ids"] + read.model_inputs["decoder_input_ids"]
                )
            yield read

    def collate(self, inputs: Sequence[EncodedInput]) -> EncodedBatch:
        """Inputs as one batch, where the model is, with the words that are related in its embeddings."""
        return collate(inputs, self.loaded.pad_id, self.relation, self.loaded.vocabulary).to(
            self.loaded.device
        )

    def probe(self, text: str = "the") -> dict[str, Tensor]:
        """A short text as the model reads it, on which something is tried; where there is a target, it is that, too."""
        pair = Pair(text) if self.options.kind is AttentionKind.ONLY else Pair(text, text)
        return self.collate([self.encode(pair)]).model_inputs

    def word_dependencies(self, inputs: Sequence[EncodedInput]) -> list[WordDependencies]:
        """Measure which words of each input help to predict which; empty if that is not measured."""
        if self.measure is None:
            return []
        return self.answers(
            [MaskedQueries(encoded, self.options.predictive_words) for encoded in inputs]
        )

    def answers(
        self, questions: Sequence[MaskedQueries], doing: str = "predictive words: hidden sequences"
    ) -> list[WordDependencies]:
        """Ask the model; the progress counts hidden sequences, under the text `doing`."""
        assert self.measure is not None
        tell, most = partial(self.tell, doing), self.options.batch_tokens
        return help_between_words(
            self.loaded, questions, self.measure, batch_tokens=most, tell=tell
        )

    def score(
        self,
        inputs: Sequence[EncodedInput],
        word_dependencies: Sequence[WordDependencies] = (),
        observers: Sequence[Consumer] = (),
        only: Sequence[str] | None = None,
    ) -> dict[str, FloatArray]:
        """Run one batch and score every head on it, on `predictive` given each input's help: each pair's sums.

        They are of labels, too, if options say `labelled`. `observers` see the attention as well.
        With `only`, these patterns alone are scored, and `entropy` and `rows`, which another run has summed, are 0.
        """
        self.check_room(max(len(encoded.tokens) for encoded in inputs))
        batch = self.collate(inputs)
        targets = Targets(batch, self.options.patterns, word_dependencies, only)
        reading = self.options.reading if self.options.labelled and only is None else None
        sums = pair_sums(targets, reading, partial(self.run, batch.model_inputs), observers)
        return (
            sums if only is None else sums | {name: sums[name] * 0 for name in ("entropy", "rows")}
        )

    def classify(
        self, pair: Pair, encoded: EncodedInput | None = None, *, keep: bool | Selection = False
    ) -> HeadScores:
        """Score and label every head on one input, which may be `encoded` already.

        With `keep`, the result carries the attention of all layers, token by token whatever the unit, or what a
        selection names of it. Raises: InputError, ModelError if the model cannot read the input; SelectionError for
        heads or tokens that are not there; MemoryFullError if memory does not hold what is kept.
        """
        encoded, chosen = encoded or self.encode(pair), None
        if isinstance(keep, Selection):
            chosen = keep.chosen(
                self.grid(), encoded.tokens, encoded.segments, encoded.unit, encoded.source
            )
        self.check_room(len(encoded.tokens), chosen, copies=2 if chosen else int(bool(keep)))
        reading = InputReading(self, pair, encoded, keep=bool(keep), chosen=chosen)
        self.tap.run(reading.batch.model_inputs, reading.take)
        return reading.result()

    def dependencies(self, pair: Pair, encoded: EncodedInput | None = None) -> Dependencies:
        """Measure which words of one input help to predict which.

        Raises: InputError; ModelError if the model cannot be asked.
        """
        scanner = self.exact()
        encoded = encoded or scanner.encode(pair)
        word_dependencies = scanner.word_dependencies([encoded])
        if not word_dependencies:
            raise ModelError(
                f"predictive words cannot be measured with {scanner.loaded.source.name}: {scanner.why_no_measure}",
                "use a model that was trained with a mask token, such as BERT or RoBERTa",
            )
        if np.isnan(word_dependencies[0].values).all():
            raise InputError(
                "predictive words cannot be measured: the input is one word, or punctuation",
                "give two words or more",
            )
        signature = scanner.signature(
            input_hash=pair.key, pairs_read=1, pairs_truncated=int(encoded.truncated)
        )
        return Dependencies(encoded.units, encoded.unit_sentence, word_dependencies[0], signature)

    def run(self, model_inputs: dict[str, Tensor], consume: Consumer) -> None:
        """Run the model as far as its last layer's weights, shown to a consumer block by block.

        By a reading of what heads carry, it is shown that in their place. Raises: CaptureError.
        """
        carried = self.projections.to_carried if self.options.reading.carried else None
        self.tap.run(
            model_inputs, consume if carried is None else lambda block: consume(carried(block))
        )

    @cached_property
    def is_causal(self) -> bool:
        """Whether words see none behind them, found by running the model on some."""
        later: list[bool] = []  # whether any word sees one behind it, block by block
        self.run(
            self.probe("the the the"),
            lambda block: later.append(bool(block.visible[:1, :, :].triu(1).any())),
        )
        return not any(later)

    @cached_property
    def projections(self) -> OutputProjections:
        """The projection of heads into hidden states. Raises: CaptureError if the architecture does not show it."""
        return output_projections(self._exact_tap, self.probe())

    @cached_property
    def relation(self) -> Relation | None:
        """The relation of words by the model's own embeddings; None if identical words alone count."""
        return self.loaded.relatedness.related if self.options.related else None

    def signature(
        self, *, fingerprint: bool = False, input_hash: str = "", **counts: int
    ) -> Signature:
        """Make a result's signature, with the model's fingerprint if that is wanted, or its name tells no weights."""
        import transformers

        loaded = self.loaded
        return self.options.make_signature(
            model=loaded.source.name,
            revision=loaded.source.revision,
            transformers=str(transformers.__version__),
            dtype=str(loaded.scored.dtype).removeprefix("torch."),
            device=loaded.device.type,
            read_by="tap" if self.tap.calls.uses_tap else "watch",
            predictive=self.measure or "off",
            layers=self.grid().layers,
            fingerprint=short(loaded.fingerprint)
            if fingerprint or loaded.original is not None
            else None,
            input_hash=input_hash,
            **counts,
        )


class InputReading:
    """One input as a scanner's model reads it: takes the attention while the model runs, then says what heads do."""

    def __init__(
        self,
        scanner: Scanner,
        pair: Pair,
        encoded: EncodedInput,
        *,
        keep: bool = False,
        chosen: Chosen | None = None,
    ) -> None:
        """`chosen` is the part of its attention that is kept; where that is of some heads, there are no habits."""
        self._scanner, self._pair, self._encoded, options = scanner, pair, encoded, scanner.options
        self.batch, self._word_dependencies = (
            scanner.collate([encoded]),
            scanner.word_dependencies([encoded]),
        )
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
        readings: tuple[By, ...] = (
            ("weight",) if self._projections is None else ("weight", "carried")
        )
        self._scorers = {
            by: InputScorers(self._targets, options, keep=keep, in_full=in_full) for by in readings
        }
        norms = None if self._projections is None else self._projections.value_norms
        self._keeper = AttentionKeeper(norms, chosen) if keep else None
        self._outputs = torch.zeros(0)

    def take(self, block: AttentionBlock) -> None:
        """Take one block of attention while the model runs."""
        for consumer in self._scorers["weight"].consumers:
            consumer(block)
        if self._projections is not None:
            carried = self._projections.to_carried(block)
            for consumer in self._scorers["carried"].consumers:
                consumer(carried)
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
        scanner, encoded, options = self._scanner, self._encoded, self._scanner.options
        signature = scanner.signature(
            input_hash=self._pair.key, pairs_read=1, pairs_truncated=int(encoded.truncated)
        )
        result = result_of_input(
            signature,
            encoded,
            options,
            self._scorers,
            None if self._word_dependencies else scanner.why_no_measure,
        )
        related, links = self.batch.related_pairs, unit_links(encoded) if encoded.source else ()
        notes = [
            *(help_of_words.description for help_of_words in self._word_dependencies),
            self._why_not_carried,
            _related_words(related, encoded.units),
        ]
        result = replace(result, notes=tuple(filter(None, notes)), related=related, links=links)
        if not links:
            linked = [pattern.id for pattern in options.patterns if pattern in LINKED_PATTERNS]
            unlinked = dict.fromkeys(linked, "no gold links of these words are known")
            result = replace(result, not_measured={**result.not_measured, **unlinked})
        if self._projections is not None:
            result = replace(result, output=_shares_of_output(self._outputs, encoded))
        if self._keeper is not None:
            result = with_attention(result, self._keeper.attention(encoded), self._targets)
        return result


class InputScorers:
    """Consumers of the attention of one input, by weight or by what heads carry: scores and habits, word by word.

    With `keep`, habits are counted with special tokens in and out, else as the options say. Without `in_full`, when the
    attention of some heads alone is kept, there are no habits.
    """

    def __init__(
        self, targets: Targets, options: ScanOptions, *, keep: bool, in_full: bool = True
    ) -> None:
        wanted: tuple[Special, ...] = get_args(Special) if keep else (options.reading.special,)
        self.scorer, self.classes = Scorer(targets), dict[Special, ClassScorer | None]()
        for special in wanted:
            self.classes[special] = (
                ClassScorer(targets.units, special=special == "in") if in_full else None
            )
        self.consumers: list[Consumer] = [self.scorer, *filter(None, self.classes.values())]


def result_of_input(
    signature: Signature,
    encoded: EncodedInput,
    options: ScanOptions,
    scorers: Mapping[By, InputScorers],
    why_no_measure: str | None,
) -> HeadScores:
    """Make a result of what scorers have summed; `why_no_measure` says why `predictive` was not measured, if so."""
    scored, scores, labels = (
        [pattern.scored for pattern in options.patterns],
        dict[By, Scores](),
        dict[AttentionView, Any](),
    )
    for by, scorers_of_reading in scorers.items():
        scores[by] = scores_of(
            scorers_of_reading.scorer.sums(), scored, options.kind, signature.layers
        )
        words = scorers_of_reading.scorer.word_sums()
        for special, classes in scorers_of_reading.classes.items():
            reading = AttentionView(by, special)
            of_kind = {
                name: values
                for name, values in words.items()
                if name.startswith(KEY_SETS[reading.words_only])
            }
            sums = (
                {} if classes is None else of_kind | classes.sums()
            )  # no others are kept until labels are read
            labels[reading] = partial(
                labels_of,
                scores[by],
                sums,
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
    of_input: dict[str, Any] = {
        "units": encoded.units,
        "sentence": encoded.unit_sentence,
        "shown": options.shown,
    }
    return HeadScores(signature, scores, labels, not_measured=not_measured, **of_input)


def with_attention(result: HeadScores, attention: Attention, targets: Targets) -> HeadScores:
    """A result with the input's attention and, under the masks that this had, the patterns' targets."""
    if attention.visible is None:
        return replace(result, attention=attention)
    rows = None if attention.chosen is None else attention.chosen.rows
    return replace(result, attention=attention, targets=targets.by_layer(attention.visible, rows))


def _shares_of_output(lengths: Tensor, encoded: EncodedInput) -> FloatArray:
    """Compute each head's share of its layer's output; a word counts by the mean of its pieces.

    Shape: `lengths` [layer, head, query] -> [layer, head].
    """
    unit, of_word = np.array(encoded.unit), np.array(encoded.sentence) >= 0
    together = (lengths.cpu().numpy().astype(np.float64) * (of_word / np.bincount(unit)[unit])).sum(
        -1
    )
    with np.errstate(invalid="ignore"):
        output: FloatArray = together / together.sum(-1, keepdims=True)
    return output


def _related_words(related: Sequence[tuple[int, int]], units: Sequence[str]) -> str:
    """A line that lists related words, each pair once; empty if there is no pair."""
    pairs: dict[frozenset[str], tuple[str, ...]] = {}
    for places in related:
        words = tuple(bare(units[place]) for place in places)
        pairs.setdefault(frozenset(words), words)
    return f"related words: {', '.join(map(' – '.join, pairs.values()))}" if pairs else ""

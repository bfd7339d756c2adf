"""A model made ready to score: tokenize, run under the tap, score every head, one batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from types import TracebackType
from typing import Any

from torch import Tensor

from attnscan.errors import InputError, ModelError
from attnscan.inputs.batch import EncodedBatch, Relation, collate
from attnscan.inputs.sentence import EncodedInput, Pair, Place
from attnscan.model.carried import OutputProjections, output_projections
from attnscan.model.loading import LoadedModel, load, no_encoder_decoder
from attnscan.model.running import at_rest, check_memory, most_workers
from attnscan.model.sources import Source, choose, short
from attnscan.model.tap import AttentionBlock, Consumer, Tap
from attnscan.model.writing import encode_translations, shifted, writes_text, written
from attnscan.results.attention import Chosen
from attnscan.results.predictions import Help
from attnscan.results.scores import FloatArray
from attnscan.results.terms import AttentionKind, Grid, Reading, Signature
from attnscan.scan.options import OnProgress, ScanOptions, silent
from attnscan.scoring.predictive import Questions, help_between_words, measure_of
from attnscan.scoring.scorer import ClassScorer, Scorer
from attnscan.scoring.units import Targets

OnPairs = Callable[[Sequence[Place], Mapping[str, FloatArray]], object]
"""Given the places of some pairs and their own sums, as `Scorer.sums` names them."""
_OF_WATCHED = 4  # of a layer's weights, that a model's own attention and scoring hold at once
_BYTES_OF_TOKEN = 150_000  # that a run over a long input takes on a CPU
_SHORT = 1024  # tokens: no more can fill a memory


class Scanner:
    """A loaded model, tapped, and ready for any number of pairs. Close it, or use it in a `with`.

    The model is the one that the options name, or that of a `source` that was chosen or loaded before.
    Raises: ModelError, DeviceError if the model cannot be had on the device.
    """

    def __init__(
        self, options: ScanOptions, source: Source | LoadedModel | None = None, progress: OnProgress = silent
    ) -> None:
        self.options, self.progress = options, progress
        if isinstance(source, LoadedModel):
            self.loaded = source
        else:
            languages = options.source_language, options.target_language
            chosen = source or choose(options.model)
            self.loaded = load(chosen, options.device, options.dtype, options.attention, languages)
        if options.kind is not AttentionKind.ONLY and not writes_text(self.loaded.model):
            if self.loaded.given is not None or not self.loaded.model.config.is_encoder_decoder:
                raise no_encoder_decoder(self.loaded.source.name, options.attention)
            what = f"{self.loaded.source.name} was loaded without its decoder, for --attention encoder alone"
            raise ModelError(what, "give the model's name in place of what load() returned")
        self.measure, self.why_no_measure = measure_of(self.loaded, options.predictive)
        if options.kind is not AttentionKind.ONLY:
            self.measure, self.why_no_measure = None, "it is measured with encoders and models that only decode"
        if all(pattern.target is not None for pattern in options.patterns):
            self.measure, self.why_no_measure = None, "not asked for"
        elif self.measure is None and options.predictive not in ("auto", "off"):
            what = f"--predictive {options.predictive} cannot be measured with {self.loaded.source.name}"
            raise ModelError(f"{what}: {self.why_no_measure}", "leave the option out")
        self.tap = Tap(self.loaded.scored, kind=options.kind)
        is_exact = self.loaded.scored is self.loaded.model
        self._exact_tap = self.tap if is_exact else Tap(self.loaded.model, kind=options.kind)
        self._taps = ExitStack()

    def __enter__(self) -> Scanner:
        with ExitStack() as taps:
            taps.enter_context(at_rest(self.loaded.model if self.loaded.given is None else self.loaded.given))
            for tap in {self.tap, self._exact_tap}:
                taps.enter_context(tap)
            if self.options.reading.carried:
                _ = self.projections  # refused before a pair is read
            self._taps = taps.pop_all()
        self.options = self.options.of_attention(causal=self.options.kind is AttentionKind.ONLY and self.is_causal)
        return self if self.options.relations is None else self.exact()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._taps.__exit__(kind, error, at)

    def changed(self, **attributes: Any) -> Scanner:
        """A scanner of this model, under this tap, with other attributes; closing is left to this one."""
        other = copy(self)
        vars(other).update(attributes)
        return other

    def with_options(self, **changes: Any) -> Scanner:
        """A scanner of this model, under this tap, that reads by other options."""
        return self.changed(options=replace(self.options, **changes))

    def exact(self) -> Scanner:
        """A scanner of this model in its weights' number format, on a CPU float32 whatever scores are made in."""
        exact = replace(self.loaded, scored=self.loaded.model)
        return self.changed(relation=self.relation, loaded=exact, tap=self._exact_tap)

    def tell(self, doing: str, done: int | None = None, total: int | None = None) -> None:
        """Tell what runs now, how much of it is done, and how much there is."""
        self.progress(doing, done, total)

    def workers(self, most: int, longest: int) -> int:
        """How many threads, at most so many, are to score inputs of that length at the same time."""
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
        kept = layers * heads
        if chosen is not None:
            rows, kept = len(chosen.rows), kept if chosen.heads is None else len(chosen.heads)
        cells = copies * kept * rows * tokens + (0 if self.tap.calls.tapped else _OF_WATCHED * heads * tokens**2)
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
        write = partial(written, model, tokenizer, most=options.max_target_tokens, limit=limit)
        whole = [pair if pair.b is not None else write(pair) for pair in pairs]
        there = [pair for pair in whole if isinstance(pair, Pair)]
        truncate, query = options.on_long == "truncate", options.query if options.attention == "cross" else None
        shift = partial(shifted, model)
        encoded = encode_translations(tokenizer, there, options.unit, limit, truncate, shift, query)
        for pair in whole:
            read = next(encoded) if isinstance(pair, Pair) else pair
            if isinstance(read, EncodedInput):
                loaded.check_ids(read.model_inputs["input_ids"] + read.model_inputs["decoder_input_ids"])
            yield read

    def collate(self, inputs: Sequence[EncodedInput]) -> EncodedBatch:
        """Inputs as one batch, where the model is, with the words that are related in its embeddings."""
        return collate(inputs, self.loaded.pad_id, self.relation, self.loaded.vocabulary).to(self.loaded.device)

    def probe(self, text: str = "the") -> dict[str, Tensor]:
        """A short text as the model reads it, on which something is tried; where there is a target, it is that, too."""
        pair = Pair(text) if self.options.kind is AttentionKind.ONLY else Pair(text, text)
        return self.collate([self.encode(pair)]).model_inputs

    def helps(self, inputs: Sequence[EncodedInput]) -> list[Help]:
        """Which words of each input help to predict which; nothing if that is not measured."""
        if self.measure is None:
            return []
        return self.answers([Questions(encoded, self.options.predictive_words) for encoded in inputs])

    def answers(self, questions: Sequence[Questions], doing: str = "predictive words: hidden sequences") -> list[Help]:
        """What the model answers; tells how many hidden sequences are done, as what is `doing`."""
        assert self.measure is not None
        tell, most = partial(self.tell, doing), self.options.batch_tokens
        return help_between_words(self.loaded, questions, self.measure, batch_tokens=most, tell=tell)

    def score(
        self,
        inputs: Sequence[EncodedInput],
        helps: Sequence[Help] = (),
        others: Sequence[Consumer] = (),
        only: Sequence[str] | None = None,
    ) -> dict[str, FloatArray]:
        """Run one batch and score every head on it, on `predictive` given each input's help: each pair's sums.

        They are of labels, too, if options say `labelled`. `others` see the attention as well.
        With `only`, the patterns named count alone, and the sums add nothing to the others.
        """
        self.check_room(max(len(encoded.tokens) for encoded in inputs))
        batch = self.collate(inputs)
        targets = Targets(batch, self.options.patterns, helps, only)
        reading = self.options.reading if self.options.labelled and only is None else None
        sums = pair_sums(targets, reading, partial(self.run, batch.model_inputs), others)
        return sums if only is None else sums | {name: sums[name] * 0 for name in ("entropy", "rows")}

    def run(self, model_inputs: dict[str, Tensor], consume: Consumer) -> None:
        """Run the model as far as its last layer's weights, shown to a consumer block by block.

        By a reading of what heads carry, it is shown that in their place. Raises: CaptureError.
        """
        carried = self.projections.carried if self.options.reading.carried else None
        self.tap.run(model_inputs, consume if carried is None else lambda block: consume(carried(block)))

    @cached_property
    def is_causal(self) -> bool:
        """Whether words see none behind them, by running the model on some."""
        seen: list[bool] = []
        inputs = self.probe("the the the")
        self.run(inputs, lambda block: seen.append(bool(block.visible[:1, :, :].triu(1).any())))
        return not any(seen)

    @cached_property
    def projections(self) -> OutputProjections:
        """How heads are projected into the hidden states. Raises: CaptureError if the architecture does not show it."""
        return output_projections(self._exact_tap, self.probe())

    @cached_property
    def relation(self) -> Relation | None:
        """Which words are related, by the model's own embeddings; None if identical ones alone count."""
        return self.loaded.relatedness.related if self.options.related else None

    def signature(self, *, fingerprint: bool = False, input_hash: str = "", **counts: int) -> Signature:
        """Where a result comes from; with the model's fingerprint if that is wanted, or its name tells no weights."""
        import transformers

        loaded = self.loaded
        return self.options.signed(
            model=loaded.source.name,
            revision=loaded.source.revision,
            transformers=str(transformers.__version__),
            dtype=str(loaded.scored.dtype).removeprefix("torch."),
            device=loaded.device.type,
            read_by="tap" if self.tap.calls.tapped else "watch",
            predictive=self.measure or "off",
            layers=self.grid().layers,
            fingerprint=short(loaded.fingerprint) if fingerprint or loaded.given is not None else None,
            input_hash=input_hash,
            **counts,
        )


def pair_sums(
    targets: Targets, labelled: Reading | None, run: Callable[[Consumer], object], others: Sequence[Consumer] = ()
) -> dict[str, FloatArray]:
    """Each pair's sums for scores and, if they are to be `labelled` by a reading, for habits; `others` see the run."""
    scorers: list[Scorer | ClassScorer] = [Scorer(targets)]
    if labelled is not None:
        scorers.append(ClassScorer(targets.units, special=not labelled.among_words))
    consumers = *scorers, *others

    def show(block: AttentionBlock) -> None:
        for consumer in consumers:
            consumer(block)

    run(show)
    return {name: sums for scorer in scorers for name, sums in scorer.sums().items()}

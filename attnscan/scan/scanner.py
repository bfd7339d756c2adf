"""A model made ready: tokenize, run under the tap, score every head, one batch at a time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

from torch import Tensor

from attnscan.errors import InputError, ModelError
from attnscan.inputs.batch import EncodedBatch, Relation, collate
from attnscan.inputs.sentence import EncodedInput, Pair
from attnscan.model.architecture import no_encoder_decoder, writes_text
from attnscan.model.attention_block import AttentionBlock, Consumer
from attnscan.model.carried import OutputProjections, output_projections
from attnscan.model.continuation import write_continuation
from attnscan.model.device_memory import BatchLimit
from attnscan.model.forward import eval_mode
from attnscan.model.loading import LoadedModel, load
from attnscan.model.memory import check_memory
from attnscan.model.predictive import MaskedQueries, help_between_words, measure_of
from attnscan.model.sources import Source, choose, short
from attnscan.model.tap import AttentionTap, block_cells
from attnscan.model.threads import most_workers
from attnscan.model.writing import encode_translations, shift_right, write_target
from attnscan.results.attention import Chosen
from attnscan.results.columns import MEAN_COLUMNS
from attnscan.results.grid import AttentionKind, Grid
from attnscan.results.predictions import HelpMeasure, WordDependencies
from attnscan.results.scores import FloatArray
from attnscan.results.signature import Signature
from attnscan.scan.options import OnProgress, ScanOptions, note, silent
from attnscan.scoring.pair_sums import pair_sums
from attnscan.scoring.units import Targets

_COPIES_OF_WEIGHTS = 4  # of a layer's or block's, that attention and scoring hold at once
_BYTES_PER_TOKEN = 150_000  # that a run over a long input takes on a CPU
_SHORT = 1024  # tokens: no more can fill a memory


@dataclass(frozen=True)
class Scanner:
    """A loaded model under its tap, ready for any number of pairs: `open_scanner` yields one."""

    options: ScanOptions
    loaded: LoadedModel
    tap: AttentionTap
    """Of the model that scores, which may run in half precision."""
    exact_tap: AttentionTap
    """Of the model in its weights' number format."""
    relation: Relation | None
    """Of words, by the model's own embeddings; None if identical words alone count."""
    measure: HelpMeasure | None
    """Which words help to predict which; None if that is not measured."""
    why_no_measure: str
    is_causal: bool = False
    """Whether words see none behind them."""
    progress: OnProgress = silent

    def with_options(self, **changes: Any) -> Self:
        """A scanner of this model, under this tap, that reads by other options."""
        return replace(self, options=replace(self.options, **changes))

    def exact(self) -> Self:
        """A scanner of this model in its weights' number format.

        On a CPU that is float32, whatever scores are made in.
        """
        loaded = replace(self.loaded, scored=self.loaded.model)
        return replace(self, loaded=loaded, tap=self.exact_tap)

    def tell(self, doing: str, done: int | None = None, total: int | None = None) -> None:
        """Tell what runs now, how much of it is done, and how much there is."""
        self.progress(doing, done, total)

    def workers(self, most: int, longest: int) -> int:
        """The number of threads, `most` at most, that score inputs of that length at once."""
        if self.options.reading.carried:
            _ = self.projections  # made once, before any thread asks for it
        return min(max(1, most), most_workers(self.loaded, self.options.batch_tokens, longest))

    def grid(self) -> Grid:
        """The heads of the model. Raises: CaptureError if it has none."""
        return self.tap.calls.grid

    def check_room(self, tokens: int, chosen: Chosen | None = None, copies: int = 0) -> None:
        """Check that main memory holds a run over one long input, and `copies` of its weights.

        These are of all heads or of what is `chosen`; where the model computes its own attention,
        one layer's weights of all heads are held besides. Raises: MemoryFullError.
        """
        if tokens <= _SHORT:
            return
        layers, heads = self.grid().shape
        rows = tokens if chosen is None else len(chosen.rows)
        kept_heads = layers * heads
        if chosen is not None and chosen.heads is not None:
            kept_heads = len(chosen.heads)
        cells = copies * kept_heads * rows * tokens
        if not self.tap.calls.uses_tap:
            cells += _COPIES_OF_WEIGHTS * heads * tokens**2
        run = _BYTES_PER_TOKEN * tokens if self.loaded.device.type == "cpu" else 0
        remedy = "use a shorter input, fewer heads, or fewer queries by ``window`` I-J"
        check_memory(run + 4 * cells, f"an input of {tokens:,} tokens", remedy)

    def memory_of_input(self, tokens: int) -> int:
        """About how many bytes a device's memory has to hold for one input, beside the model."""
        _, heads = self.grid().shape
        cells = heads * tokens**2
        if self.tap.calls.uses_tap:
            cells = block_cells(tokens, heads, on_cpu=False)
        return _COPIES_OF_WEIGHTS * 4 * cells

    def batch_limit(self) -> BatchLimit:
        """What the device's memory holds of batches, of which nothing is known yet."""
        return BatchLimit(self.loaded.device, self.memory_of_input, note)

    def encode(self, pair: Pair) -> EncodedInput:
        """Tokenize one pair. Raises: InputError, ModelError if the model cannot read it."""
        (encoded,) = self.encode_all([pair])
        if isinstance(encoded, InputError):
            raise encoded
        return encoded

    def encode_or_write(self, pair: Pair) -> EncodedInput:
        """Tokenize one pair, whose sentence B a decoder writes if the options say so.

        Raises: InputError, ModelError if the model cannot read it, or does not write.
        """
        encoded = self.encode(pair)
        write = self.options.write
        if write is None:
            return encoded
        if pair.b is not None:
            raise InputError(
                "sentence B is given, and ``write`` makes one", "leave one of them out"
            )
        if self.options.kind is not AttentionKind.ONLY:
            return encoded  # where B is missing, an encoder-decoder has written it
        if not self.is_causal:
            raise ModelError(
                f"{self.loaded.source.name} does not write: it reads words on both sides",
                "give sentence B, or a model that was trained to write, such as GPT-2",
            )
        self.tell("writing sentence B")
        return write_continuation(self.loaded, encoded, write)

    def encode_all(self, pairs: Sequence[Pair]) -> Iterator[EncodedInput | InputError]:
        """Tokenize some pairs; the error in the place of one that cannot be read.

        Raises: ModelError if none can.
        """
        options = self.options
        if options.words == "spaces":
            pairs = [pair.by_spaces for pair in pairs]
        if options.kind is not AttentionKind.ONLY:
            return self._encode_translations(pairs)
        return self.loaded.encode_all(pairs, options.unit, truncate=options.on_long == "truncate")

    def _encode_translations(self, pairs: Sequence[Pair]) -> Iterator[EncodedInput | InputError]:
        """Tokenize sources and targets, which the model writes where they are missing."""
        loaded = self.loaded
        completed = [self._complete(pair) for pair in pairs]
        encoded = encode_translations(
            loaded.tokenizer,
            [pair for pair in completed if isinstance(pair, Pair)],
            self.options.unit,
            loaded.limit,
            self.options.on_long == "truncate",
            partial(shift_right, loaded.model),
            self.options.query if self.options.attention == "cross" else None,
        )
        for pair in completed:
            read = next(encoded) if isinstance(pair, Pair) else pair
            if isinstance(read, EncodedInput):
                inputs = read.model_inputs
                loaded.check_ids(inputs["input_ids"] + inputs["decoder_input_ids"])
            yield read

    def _complete(self, pair: Pair) -> Pair | InputError:
        """A pair with its target, which the model writes where it is missing; or the error."""
        if pair.b is not None:
            return pair
        return write_target(
            self.loaded.model,
            self.loaded.tokenizer,
            pair,
            most=self.options.max_target_tokens,
            limit=self.loaded.limit,
        )

    def collate(self, inputs: Sequence[EncodedInput]) -> EncodedBatch:
        """Inputs as one batch, where the model is, with the words that are related."""
        batch = collate(inputs, self.loaded.pad_id, self.relation, self.loaded.vocabulary)
        return batch.to(self.loaded.device)

    def probe(self, text: str = "the") -> dict[str, Tensor]:
        """A short text as the model reads it, on which something is tried.

        Where there is a target, the text is that, too.
        """
        has_target = self.options.kind is not AttentionKind.ONLY
        pair = Pair(text, text) if has_target else Pair(text)
        return self.collate([self.encode(pair)]).model_inputs

    def word_dependencies(self, inputs: Sequence[EncodedInput]) -> list[WordDependencies]:
        """Measure which words of each input help to predict which.

        The list is empty if that is not measured.
        """
        if self.measure is None:
            return []
        most = self.options.predictive_words
        return self.answers([MaskedQueries(encoded, most) for encoded in inputs])

    def answers(
        self, questions: Sequence[MaskedQueries], doing: str = "predictive words: hidden sequences"
    ) -> list[WordDependencies]:
        """Ask the model; the progress counts hidden sequences, under the text `doing`."""
        assert self.measure is not None
        return help_between_words(
            self.loaded,
            questions,
            self.measure,
            batch_tokens=self.options.batch_tokens,
            limit=self.batch_limit(),
            tell=partial(self.tell, doing),
        )

    def score(
        self,
        inputs: Sequence[EncodedInput],
        word_dependencies: Sequence[WordDependencies] = (),
        observers: Sequence[Consumer] = (),
        only: Sequence[str] | None = None,
    ) -> dict[str, FloatArray]:
        """Run one batch and score every head on it, on `predictive` given each input's help.

        Returns each pair's sums; those of labels, too, if options say `labelled`. `observers` see
        the attention as well. With `only`, these patterns alone are scored, and what
        another run has summed over `rows` is 0.
        """
        self.check_room(longest_of(inputs))
        batch = self.collate(inputs)
        targets = Targets(
            batch=batch,
            patterns=self.options.patterns,
            word_dependencies=word_dependencies,
            only=only,
        )
        reading = self.options.reading if self.options.labelled and only is None else None
        sums = pair_sums(targets, reading, partial(self.run, batch.model_inputs), observers)
        if only is not None:
            for name in (*(column.name for column in MEAN_COLUMNS), "rows"):
                sums[name] = sums[name] * 0
        return sums

    def run(self, model_inputs: dict[str, Tensor], consume: Consumer) -> None:
        """Run the model as far as its last layer's weights, shown to a consumer block by block.

        By a reading of what heads carry, it is shown that in their place. Raises: CaptureError.
        """
        if not self.options.reading.carried:
            self.tap.run(model_inputs, consume)
            return
        to_carried = self.projections.to_carried
        self.tap.run(model_inputs, lambda block: consume(to_carried(block)))

    @cached_property
    def projections(self) -> OutputProjections:
        """The projection of heads into hidden states.

        Raises: CaptureError if the architecture does not show it.
        """
        return output_projections(self.exact_tap, self.probe())

    def signature(
        self, *, fingerprint: bool = False, input_hash: str = "", **counts: int
    ) -> Signature:
        """Make a result's signature.

        It has the model's fingerprint if that is wanted, or its name tells no weights.
        """
        import transformers

        loaded = self.loaded
        has_fingerprint = fingerprint or loaded.original is not None
        return self.options.make_signature(
            model=loaded.source.name,
            revision=loaded.source.revision,
            transformers=str(transformers.__version__),
            dtype=str(loaded.scored.dtype).removeprefix("torch."),
            device=loaded.device.type,
            read_by="tap" if self.tap.calls.uses_tap else "watch",
            predictive=self.measure or "off",
            layers=self.grid().layers,
            fingerprint=short(loaded.fingerprint) if has_fingerprint else None,
            input_hash=input_hash,
            **counts,
        )


def longest_of(inputs: Sequence[EncodedInput]) -> int:
    """How many tokens the longest of some inputs has; 1 of none."""
    return max((len(encoded.tokens) for encoded in inputs), default=1)


@contextmanager
def open_scanner(
    options: ScanOptions,
    source: Source | LoadedModel | None = None,
    progress: OnProgress = silent,
) -> Iterator[Scanner]:
    """Yield a scanner of the model that the options name.

    Or of a `source` that was chosen or loaded before. Raises: ModelError, DeviceError if the model
    cannot be loaded on the device; CaptureError if its attention cannot be read as options say.
    """
    loaded = source if isinstance(source, LoadedModel) else _load(options, source)
    _check_target(loaded, options)
    measure, why_no_measure = _choose_measure(loaded, options)
    tap = AttentionTap(loaded.scored, kind=options.kind)
    exact_tap = tap
    if loaded.scored is not loaded.model:
        exact_tap = AttentionTap(loaded.model, kind=options.kind)
    model = loaded.model if loaded.original is None else loaded.original
    with eval_mode(model), tap, nullcontext() if exact_tap is tap else exact_tap:
        scanner = Scanner(
            options=options,
            loaded=loaded,
            tap=tap,
            exact_tap=exact_tap,
            relation=loaded.relatedness.related if options.related else None,
            measure=measure,
            why_no_measure=why_no_measure,
            progress=progress,
        )
        if options.reading.carried:
            _ = scanner.projections  # refused before a pair is read
        is_causal = _sees_none_behind(scanner)
        causal_patterns = is_causal and options.kind is AttentionKind.ONLY
        options = options.with_causal_patterns(causal=causal_patterns)
        scanner = replace(scanner, options=options, is_causal=is_causal)
        yield scanner if options.relations is None else scanner.exact()


def _load(options: ScanOptions, source: Source | None) -> LoadedModel:
    languages = (options.source_language, options.target_language)
    source = source or choose(options.model)
    return load(source, options.device, options.dtype, options.attention, languages)


def _check_target(loaded: LoadedModel, options: ScanOptions) -> None:
    """Raises: ModelError if attention of a target is asked for, and the model writes none."""
    if options.kind is AttentionKind.ONLY or writes_text(loaded.model):
        return
    if loaded.original is not None or not loaded.model.config.is_encoder_decoder:
        raise no_encoder_decoder(loaded.source.name, options.attention)
    raise ModelError(
        f"{loaded.source.name} was loaded without its decoder, for ``attention=encoder`` alone",
        "give the model's name in place of what load() returned",
    )


def _choose_measure(loaded: LoadedModel, options: ScanOptions) -> tuple[HelpMeasure | None, str]:
    """How `predictive` is measured, or None and the reason.

    Raises: ModelError if the measure that was asked for is not available.
    """
    if all(pattern.target is not None for pattern in options.patterns):
        return None, "not asked for"
    measure, reason = measure_of(loaded, options.predictive)
    if options.kind is not AttentionKind.ONLY:
        measure = None
        reason = "it is measured with encoders and models that only decode"
    if measure is None and options.predictive not in ("auto", "off"):
        name = loaded.source.name
        raise ModelError(
            f"``predictive={options.predictive}`` cannot be measured with {name}: {reason}",
            "leave the option out",
        )
    return measure, reason


def _sees_none_behind(scanner: Scanner) -> bool:
    """Whether words see none behind them, found by running the model on some."""
    sees_later: list[bool] = []  # block by block

    def look(block: AttentionBlock) -> None:
        sees_later.append(bool(block.visible[:1, :, :].triu(1).any()))

    scanner.tap.run(scanner.probe("the the the"), look)
    return not any(sees_later)

"""One call of the library: its options checked, its pairs ready to be read, its model opened."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from attnscan.api.option_groups import READING_NAMES, Patterns
from attnscan.api.options import model_name, scan_options
from attnscan.api.pairs_input import (
    Pairs,
    PairsInput,
    check_no_reading,
    pairs_input,
    single_input,
)
from attnscan.api.signatures import options_of
from attnscan.errors import OptionError
from attnscan.inputs.sentence import EncodedInput, Text
from attnscan.results.grid import Heads, heads_written, parse_heads
from attnscan.results.signature import Signature
from attnscan.scan.options import OnProgress, ScanOptions, note, note_inputs, progress_of, warn

if TYPE_CHECKING:
    from attnscan.scan.scanner import Scanner

NAMED = (str, os.PathLike, type(None))
"""Types that name a model; any other value is a model in memory."""


@dataclass(frozen=True)
class ModelRequest:
    """A model as a caller gives it, and how it is run."""

    model: Any
    tokenizer: Any
    options: ScanOptions

    @property
    def is_named(self) -> bool:
        """Whether the model is named, and not in memory."""
        return isinstance(self.model, NAMED)


@dataclass(frozen=True)
class LibraryCall:
    """One call of the library: what it reads, by which options and model."""

    request: ModelRequest
    progress: OnProgress
    pairs: PairsInput
    heads: str | None
    """The heads that were named, which have to be there."""
    names: list[str]
    """The patterns that were asked for; none for all."""
    held: PairsInput | None = None
    """A second corpus, on which the same is asked."""

    @property
    def step(self) -> OnProgress:
        """Report progress, with the number of pairs as its total."""
        return self.pairs.counted_by(self.progress)

    @property
    def options(self) -> ScanOptions:
        """The options of the scan."""
        return self.request.options

    def with_options(self, **changes: Any) -> LibraryCall:
        """The call with other options of the scan."""
        options = replace(self.options, **changes)
        return replace(self, request=replace(self.request, options=options))

    def with_held(self, held: PairsInput | None) -> LibraryCall:
        """The call with a second corpus."""
        return replace(self, held=held)

    def with_model(self, model: Any, tokenizer: Any) -> LibraryCall:
        """The call with another model, which it names or holds."""
        options = replace(self.options, model=model_name(model))
        return replace(self, request=ModelRequest(model, tokenizer, options))

    def with_relations(self, *, subtypes: bool) -> LibraryCall:
        """The call with options for inputs with links."""
        options = self.options.with_relations(subtypes=subtypes)
        return replace(self, request=replace(self.request, options=options))

    @contextmanager
    def open_model(self, passes: int = 1) -> Iterator[Scanner]:
        """Make the model ready while a block runs, once pairs can be read in so many passes.

        Raises: as `open_models`; SelectionError for heads that do not exist.
        """
        self.pairs.ready(passes)
        if self.held is not None:
            self.held.ready()
        with open_models([self.request], self.step) as (scanner,):
            if self.heads is not None:
                scanner.grid().select(self.heads)
            yield scanner

    def note(
        self, scanner: Scanner, signature: Signature, encoded: EncodedInput | None = None
    ) -> None:
        """Say how inputs were read; of a single one, also what was lost as it was tokenized."""
        length = None if encoded is None else scanner.loaded.limit
        note_inputs([signature], bad=self.pairs.bad, length=length, dtype=self.options.dtype)
        if encoded is not None:
            from attnscan.inputs.encode import notes_of

            for line in notes_of(scanner.loaded.tokenizer, [encoded]):
                note(line)


def call_input(
    options: Mapping[str, Any],
    a: Text | None = None,
    b: Text | None = None,
    pairs: Pairs = None,
    *,
    id: str | int | None = None,
    labels: Iterable[str] | None = None,
) -> PairsInput:
    """What a call reads: a sentence, or two, or else many pairs, as `pairs_input` takes them.

    Raises: OptionError if both are given, or how to read pairs where none are; InputError for what
    is no text.
    """
    reading = {name: options[name] for name in READING_NAMES if name in options}
    on_bad = options.get("on_bad")
    if a is None and b is None:
        return pairs_input(
            pairs, reading, on_bad=on_bad, id=id, labels=labels, seed=options.get("seed", 0)
        )
    if pairs is not None:
        raise OptionError(
            "a sentence and ``pairs`` were both given",
            "give a sentence, or two, or ``pairs``, but not both",
        )
    check_no_reading(reading, on_bad)
    return single_input(a, b)


def held_input(options: Mapping[str, Any], inputs: PairsInput, held: Pairs) -> PairsInput | None:
    """A second corpus beside the pairs of a call, read as these are.

    Raises: OptionError beside one input, or beside gold links.
    """
    if held is None:
        return None
    if inputs.single is not None or options.get("alignments") is not None:
        raise OptionError(
            "``held`` is beside many pairs without ``alignments``",
            "give ``pairs``, or leave it out",
        )
    return call_input({name: options[name] for name in options if name != "seed"}, pairs=held)


def library_call(
    function: str,
    options: Mapping[str, Any],
    pairs: PairsInput,
    *,
    many: bool | None = None,
    pattern: Patterns = (),
    heads: Heads | None = None,
    **decided: Any,
) -> LibraryCall:
    """Check the options of a call that reads these pairs.

    `many` says whether several inputs are read, by default unless there is a single one. `decided`
    are options of the scan that callers do not give.

    Raises: as `scan_options`; TypeError for an option that the function does not take;
    SelectionError for what names no head.
    """
    options_of(function).check_names(options)
    heads_text = None if heads is None else heads_written(heads)
    if heads_text is not None:
        parse_heads(heads_text)
    pairs = pairs.aligned(options.get("alignments"))
    names, checked = scan_options(
        function,
        options,
        many=pairs.single is None if many is None else many,
        heads=heads_text,
        pattern=pattern,
        **decided,
    )
    return LibraryCall(
        request=ModelRequest(options.get("model"), options.get("tokenizer"), checked),
        progress=progress_of(options.get("progress")),
        pairs=pairs,
        heads=heads_text,
        names=names,
    )


@contextmanager
def open_models(requests: Sequence[ModelRequest], step: OnProgress) -> Iterator[list[Scanner]]:
    """Make models ready while a block runs.

    All are found before the first is loaded and torch is imported.

    Raises: ModelError, DeviceError if a model cannot be loaded on the device; OptionError for
    anything but a model.
    """
    sources = [_find_source(request, step) for request in requests]
    scanners = list[Any]()
    with ExitStack() as stack:
        for request, source in zip(requests, sources, strict=True):
            if request.is_named:
                step(f"loading {source.name}", None, None)
            else:
                stack.enter_context(source.in_use)
            import torch

            from attnscan.scan.scanner import open_scanner

            scanner = stack.enter_context(open_scanner(request.options, source, step))
            if source is not request.model:  # else `load` has given its warning
                warn(scanner.loaded.note)
            # in the format of the weights, whatever the caller's autocast asks of its own runs
            stack.enter_context(torch.autocast(scanner.loaded.device.type, enabled=False))
            scanners.append(scanner)
        yield scanners


def _find_source(request: ModelRequest, step: OnProgress) -> Any:
    """Find the source of a model; one in memory, or one that `load` returned, is as it is now."""
    options = request.options
    if request.is_named:
        if request.tokenizer is not None:
            raise OptionError("a named model has its own tokenizer", "leave tokenizer out")
        from attnscan.model.sources import choose

        step("looking for a model", None, None)
        source = choose(options.model)
        note(source.note)
        return source
    from attnscan.model.in_memory import adopt, wrap
    from attnscan.model.loading import LoadedModel

    is_loaded = isinstance(request.model, LoadedModel)
    languages = (options.source_language, options.target_language)
    if is_loaded and (request.tokenizer is not None or any(languages)):
        raise OptionError(
            "a loaded model keeps its own tokenizer and languages", "give them to load()"
        )
    if options.device != "auto" or options.dtype != "auto":
        elsewhere = "leave them out, and use model.to(...) before"
        raise OptionError(
            "a model that is in memory keeps its own device and dtype",
            "give them to load()" if is_loaded else elsewhere,
        )
    if not is_loaded:
        return adopt(request.model, request.tokenizer, options.attention, languages)
    loaded = request.model
    if loaded.original is None:
        return loaded
    return wrap(loaded.original, loaded.tokenizer, options.attention)

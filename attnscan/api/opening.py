"""Models made ready for a call: by name, as `load` returned them, or a program's own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from attnscan.errors import InputError, OptionError
from attnscan.results.terms import counted
from attnscan.scan.options import ScanOptions
from attnscan.scan.progress import OnProgress, note, silent, warn

if TYPE_CHECKING:
    from attnscan.inputs.batch import EncodedInput
    from attnscan.model.in_memory import Model, Tokenizer
    from attnscan.model.sources import Source
    from attnscan.scan.scanner import Scanner

_NAMED = 5  # unknown words, at most


def is_name(model: Model) -> bool:
    """Whether a model is named, by text or by path, or is the default."""
    return model is None or isinstance(model, str | os.PathLike)


@contextmanager
def opened(
    options: ScanOptions, model: Model = None, tokenizer: Tokenizer = None, progress: OnProgress = silent
) -> Iterator[Scanner]:
    """A model made ready while a block runs. Raises: as `opened_all`."""
    with opened_all([options], [model], [tokenizer], progress) as (scanner,):
        yield scanner


@contextmanager
def opened_all(
    choices: Sequence[ScanOptions],
    models: Sequence[Model],
    tokenizers: Sequence[Tokenizer],
    progress: OnProgress = silent,
) -> Iterator[list[Scanner]]:
    """Several models made ready, all found before the first is loaded and torch is imported.

    Raises: ModelError, DeviceError if a model cannot be had on the device; OptionError for what is no model.
    """
    from attnscan.model.sources import choose

    for options, model, tokenizer in zip(choices, models, tokenizers, strict=True):
        _check_given(model, tokenizer, options)
    sources: list[Source | None] = [None] * len(choices)
    if any(map(is_name, models)):
        progress("looking for a model", None, None)
        sources = [
            choose(options.model) if is_name(model) else None for options, model in zip(choices, models, strict=True)
        ]
    for chosen in filter(None, sources):
        note(chosen.note)
    with ExitStack() as stack:
        scanners = []
        for options, model, tokenizer, source in zip(choices, models, tokenizers, sources, strict=True):
            if source is not None:
                progress(f"loading {source.name}", None, None)
            from attnscan.scan.scanner import Scanner

            if source is None:
                from attnscan.model.in_memory import adopted, renewed
                from attnscan.model.loaded import LoadedModel

                held = model
                if not isinstance(held, LoadedModel):
                    languages = options.source_language, options.target_language
                    held = adopted(held, tokenizer, options.attention, languages)
                elif held.given is not None:
                    held = renewed(held, options.attention)
                stack.enter_context(held.in_use)
                scanners.append(stack.enter_context(Scanner(options, held, progress)))
            else:
                scanners.append(stack.enter_context(Scanner(options, source, progress)))
            warn(scanners[-1].loaded.note)
        _leave_autocast(stack)
        yield scanners


def _leave_autocast(stack: ExitStack) -> None:
    """Compute in the number format of the model's weights, whatever the caller's autocast asks of its own runs.

    A result's signature says in which format it was computed, and sums of many runs add.
    """
    torch = sys.modules["torch"]
    for device in ("cpu", "cuda", "mps"):
        if torch.is_autocast_enabled(device):
            stack.enter_context(torch.autocast(device, enabled=False))


def _check_given(model: Model, tokenizer: Tokenizer, options: ScanOptions) -> None:
    """Raises: OptionError for a tokenizer beside a name, or a device or number format beside a model in memory."""
    if is_name(model):
        if tokenizer is not None:
            raise OptionError(
                "a tokenizer goes with a model in memory alone", "leave it out: a named model has its own"
            )
        return
    from attnscan.model.loaded import LoadedModel

    is_loaded = isinstance(model, LoadedModel)
    if is_loaded and tokenizer is not None:
        raise OptionError("a tokenizer goes with a model in memory alone", "leave it out: a loaded model has its own")
    for name in ("device", "dtype"):
        if getattr(options, name) != "auto":
            remedy = "give it to load()" if is_loaded else f"leave {name} out, and use model.to(...) before"
            raise OptionError(f"a model that is in memory keeps its own {name}", remedy)
    if is_loaded and (options.source_language or options.target_language):
        raise OptionError("a loaded model keeps its own languages", "give them to load()")


def note_words(scanner: Scanner, inputs: Iterable[EncodedInput | InputError]) -> None:
    """Say how some inputs were read: special tokens that were typed, and words that no space divides."""
    from attnscan.inputs.encode import notes_of

    encoded = [read for read in inputs if not isinstance(read, InputError)]
    for line in notes_of(scanner.loaded.tokenizer, encoded):
        note(line)


def note_unknown_words(scanner: Scanner, encoded: EncodedInput) -> None:
    """Say which words of one input the model cannot see for what they are."""
    from attnscan.inputs.encode import unknown_words

    if words := unknown_words(scanner.loaded.tokenizer, encoded):
        named = dict.fromkeys(words)
        more = f" and {counted(len(named) - _NAMED, 'other')}" if len(named) > _NAMED else ""
        how = f"{counted(len(words), 'word')} of the input {'is' if len(words) == 1 else 'are'} unknown to the model"
        unknown = scanner.loaded.tokenizer.unk_token
        note(f"{how}, which reads {unknown} instead: {', '.join(list(named)[:_NAMED])}{more}")

"""What a run holds while it lasts, models opened for it, notes on its inputs; and runs of one input, or of several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from attnscan.errors import InputError
from attnscan.results.terms import counted
from attnscan.run.events import Answer, Loading, Note, Progress, Work
from attnscan.run.reading import Ledger, on_bad_of
from attnscan.run.requests import Classify, ClassifyEach, InMemory, Load, Predictive, WeightsInput
from attnscan.scan.options import ScanOptions

if TYPE_CHECKING:
    from attnscan.inputs.batch import EncodedInput
    from attnscan.model.loaded import LoadedModel
    from attnscan.model.sources import Dtype, Source
    from attnscan.results.classification import Classification
    from attnscan.results.dependencies import Dependencies
    from attnscan.results.signature import Signature
    from attnscan.scan.scanner import Scanner


WITHOUT_TAP = "this architecture is read by output_attentions, which keeps the weights of all layers in memory"
_NAMED = 5  # unknown words, at most


@dataclass
class Running:
    """What a run holds while it lasts."""

    scanner: Scanner | None = None
    """A model that is open already, with the request's options, and stays so."""
    stack: ExitStack = field(default_factory=ExitStack)
    """What is closed at the end."""
    ledger: Ledger = field(default_factory=Ledger)


def _source_of(name: str | None) -> Work[Source]:
    """The model of a name, before torch is imported: a wrong name is answered at once. Raises: ModelError."""
    from attnscan.model.sources import choose

    yield Progress("looking for a model")
    source = choose(name)
    if source.note:
        yield Note(source.note)
    return source


def opened_all(
    running: Running, choices: Sequence[ScanOptions], memory: Sequence[InMemory | None]
) -> Work[list[Scanner]]:
    """Several models made ready, all found before the first is loaded. Raises: as `opened`."""
    sources: list[Source | None] = []
    for options, held in zip(choices, memory, strict=True):
        sources.append(None if held is not None else (yield from _source_of(options.model)))
    scanners: list[Scanner] = []
    for options, held, source in zip(choices, memory, sources, strict=True):
        scanners.append((yield from opened(running, options, held, source)))
    return scanners


def opened(
    running: Running,
    options: ScanOptions,
    memory: InMemory | None = None,
    source: Source | None = None,
) -> Work[Scanner]:
    """A model made ready until the run ends: the one that is open, the one in memory, or the one that options name.

    Raises: ModelError, DeviceError if the model cannot be had on the device.
    """
    if running.scanner is not None:
        return running.scanner
    if memory is None:
        source = source or (yield from _source_of(options.model))
        yield Loading(source.name)
    from attnscan.scan.scanner import Scanner

    if memory is None:
        scanner = running.stack.enter_context(Scanner(options, source))
        if scanner.loaded.note:
            yield Note(scanner.loaded.note, warns=True)
        return scanner
    from attnscan.model.in_memory import adopted, renewed
    from attnscan.model.loaded import LoadedModel

    held = memory.model
    if not isinstance(held, LoadedModel):
        held = adopted(held, memory.tokenizer, options.attention)
    elif held.given is not None:
        held = renewed(held, options.attention)
    running.stack.enter_context(held.in_use)
    return running.stack.enter_context(Scanner(options, held))


def load(request: Load, running: Running) -> Work[LoadedModel]:
    """A model for later runs. Raises: as `opened`."""
    scanner = yield from opened(running, request.options, request.memory)
    return scanner.loaded


def notes_of_inputs(
    *signatures: Signature, bad: int = 0, length: int | None = None, dtype: Dtype = "auto"
) -> Iterator[Note]:
    """How inputs were read: without a tap, cut, or not at all. Of two models on the same pairs, the first counts.

    `bad` records were skipped; `length` is that of an input that is alone, as the model read it; `dtype` was asked for.
    """
    for signature in signatures:
        if signature.read_by == "output_attentions":
            yield Note(f"{signature.model}: {WITHOUT_TAP}" if len(signatures) > 1 else WITHOUT_TAP)
    first = signatures[0]
    if dtype not in ("auto", first.dtype):
        yield Note(f"computed in {first.dtype}: on a CPU, {dtype} is for scores alone")
    if bad:
        yield Note(f"{counted(bad, 'bad record')} {'was' if bad == 1 else 'were'} skipped")
    if first.pairs_truncated and length is not None:
        yield Note(f"the input was cut to the {length} tokens that the model reads")
    elif first.pairs_truncated:
        yield Note(f"{first.pairs_truncated} of {first.pairs_read} inputs were cut to what the model reads")
    if first.pairs_skipped:
        yield Note(f"{first.pairs_skipped} of {first.pairs_read} inputs were skipped")


def notes_of_words(scanner: Scanner, inputs: Iterable[EncodedInput | InputError]) -> Iterator[Note]:
    """How some inputs were read: special tokens that were typed, and words that no space divides."""
    from attnscan.inputs.encode import notes_of

    encoded = [read for read in inputs if not isinstance(read, InputError)]
    yield from map(Note, notes_of(scanner.loaded.tokenizer, encoded))


def notes_of_unknown_words(scanner: Scanner, encoded: EncodedInput) -> Iterator[Note]:
    """Which words of one input the model cannot see for what they are."""
    from attnscan.inputs.encode import unknown_words

    if words := unknown_words(scanner.loaded.tokenizer, encoded):
        named = dict.fromkeys(words)
        more = f" and {counted(len(named) - _NAMED, 'other')}" if len(named) > _NAMED else ""
        how = f"{counted(len(words), 'word')} of the input {'is' if len(words) == 1 else 'are'} unknown to the model"
        unknown = scanner.loaded.tokenizer.unk_token
        yield Note(f"{how}, which reads {unknown} instead: {', '.join(list(named)[:_NAMED])}{more}")


def classify(request: Classify, running: Running) -> Work[Classification]:
    """What every head does on one input, or by saved weights alone.

    Raises: WeightsError, InputError if it cannot be read.
    """
    if isinstance(request.input, WeightsInput):
        return (yield from _classify_weights(request, request.input))
    scanner = yield from opened(running, request.options, request.memory)
    yield Progress("scoring every head")
    from attnscan.scan import one_input

    encoded = scanner.encode(request.input)
    result = yield from one_input.classify(scanner, request.input, encoded, keep=request.keep)
    yield from notes_of_inputs(result.signature, length=scanner.loaded.limit)
    yield from notes_of_words(scanner, [encoded])
    yield from notes_of_unknown_words(scanner, encoded)
    return result


def _classify_weights(request: Classify, given: WeightsInput) -> Work[Classification]:
    from attnscan.inputs.weights import read_weights, weights_of

    weights, of = given.weights, (request.options.attention, request.options.query)
    # read before torch is imported: a bad file is answered at once
    saved = read_weights(weights, *of) if isinstance(weights, Path) else weights_of(weights, *of)
    yield Loading(given.name)
    from attnscan.scan.one_input import classify_weights

    yield Progress(f"scoring {given.name}")
    return classify_weights(saved, given.name, request.options, keep=request.keep)


def classify_each(request: ClassifyEach, running: Running) -> Work[Signature]:
    """What every head does on each of several inputs, as answers; returns the signature of all.

    Raises: InputError for an input that cannot be read, with its place, or if there is none.
    """
    pairs, ledger = request.pairs.ready(running.ledger), running.ledger
    on_bad, records = on_bad_of(pairs, ledger), pairs.read(ledger)
    scanner = yield from opened(running, request.options, request.memory)
    yield Progress("scoring inputs")
    from attnscan.scan import one_input
    from attnscan.scan.state import Seen, no_pair

    signature, seen = None, Seen()
    for record in records:
        try:
            result = yield from one_input.classify(scanner, record.pair, keep=request.keep)
        except InputError as error:
            placed = type(error)(f"{record.where}: {error.what}", error.remedy)
            if on_bad is None:
                raise placed from None
            on_bad(placed)
            continue
        seen = seen.joined(Seen.of(record.pair, truncated=result.signature.pairs_truncated > 0), 0)
        signature = replace(result.signature, **seen.signature_fields)
        yield Answer(record, result, signature)
        yield Progress("scoring inputs", seen.read)
    if signature is None:
        raise no_pair("to score")
    yield from notes_of_inputs(signature, bad=ledger.bad)
    return signature


def predictive(request: Predictive, running: Running) -> Work[Dependencies]:
    """Which words of one input help to predict which. Raises: InputError; ModelError if the model cannot be asked."""
    scanner = yield from opened(running, request.options, request.memory)
    yield Progress("hiding words")
    from attnscan.scan import one_input

    encoded = scanner.encode(request.pair)
    result = yield from one_input.dependencies(scanner, request.pair, encoded)
    yield from notes_of_inputs(result.signature, length=scanner.loaded.limit, dtype=request.options.dtype)
    yield from notes_of_unknown_words(scanner, encoded)
    return result

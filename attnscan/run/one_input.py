"""One input, or several one by one: what every head does, and which words help to predict which."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from attnscan.errors import InputError
from attnscan.run.events import Answer, Interrupted, Loading, Progress, Work
from attnscan.run.reading import on_bad_of
from attnscan.run.requests import Classify, ClassifyEach, Predictive, WeightsInput
from attnscan.run.running import Running, notes_of_inputs, notes_of_unknown_words, opened

if TYPE_CHECKING:
    from attnscan.results.classification import Classification
    from attnscan.results.dependencies import Dependencies
    from attnscan.results.signature import Signature


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
    """What every head does on each of several inputs, as answers; returns the signature of all, or those up to Ctrl-C.

    Raises: InputError for an input that cannot be read, with its place, or if there is none.
    """
    pairs, ledger = request.pairs.ready(running.ledger), running.ledger
    on_bad, records = on_bad_of(pairs, ledger), pairs.read(ledger)
    scanner = yield from opened(running, request.options, request.memory)
    yield Progress("scoring inputs")
    from attnscan.scan import one_input
    from attnscan.scan.state import Seen, no_pair

    signature, seen = None, Seen()
    try:
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
    except KeyboardInterrupt as cause:
        if signature is None:
            raise
        running.interrupted = True
        yield Interrupted(seen.read, cause)
    if signature is None:
        raise no_pair("to score")
    if not running.interrupted:
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

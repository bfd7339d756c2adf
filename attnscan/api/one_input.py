"""What `import attnscan` offers for one input: what heads do, their weights, and which words help to predict which."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, overload

from numpy.typing import ArrayLike

from attnscan.api.arguments import (
    File,
    LibraryCall,
    Pairs,
    Patterns,
    check_no_reading,
    file_to_write,
    parse_window,
    split_kinds,
)
from attnscan.errors import CaptureError, InputError, ModelError, OptionError
from attnscan.inputs.sentence import Pair, Text
from attnscan.inputs.weights import read_weights, weights_of, write_weights
from attnscan.results.attention import Selection
from attnscan.results.choices import Side
from attnscan.results.files import ResultsByKind, check_suffix, write_file
from attnscan.results.grid import Heads
from attnscan.results.heads import HeadScores, HeadWeights
from attnscan.results.predictions import Dependencies
from attnscan.scan.options import OnProgress, progress_of
from attnscan.views.notebook import heads_html

Weights = str | os.PathLike[str] | Mapping[str, ArrayLike] | Sequence[Any]
"""A file `.npz`, or the arrays that it would hold."""


@overload
def classify(
    a: Text | None = None, b: Text | None = None, *, attention: Literal["all"], **options: Any
) -> ResultsByKind[HeadScores]: ...
@overload
def classify(
    a: Text | None = None, b: Text | None = None, *, weights: Weights | None = None, **options: Any
) -> HeadScores: ...
@overload
def classify(*, pairs: Pairs, **options: Any) -> Iterator[HeadScores]: ...
def classify(
    a: Text | None = None,
    b: Text | None = None,
    *,
    pairs: Pairs = None,
    weights: Weights | None = None,
    tokens: Sequence[str] | None = None,
    name: str | None = None,
    pattern: Patterns = (),
    keep_attention: bool | Selection = True,
    save_weights: File | None = None,
    model: Any = None,
    tokenizer: Any = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> HeadScores | Iterator[HeadScores] | ResultsByKind[HeadScores]:
    """What every head of a model does on one sentence, or on a pair. `to_frame()` is its table.

    `.attention` holds the weights, queries and keys of all layers, unless `keep_attention` is False; `save_weights` is
    a file `.npz` for the weights. With `weights`, heads are classified by these alone: a file `.npz`, its arrays, or
    `outputs.attentions` of transformers with its `tokens`; `name` then stands for the model. With `pairs`, an iterator
    gives the result of each. With `attention="all"`, the encoder of an encoder-decoder reads the source alone.

    Shape: `attention` of `weights` is [layer, head, query, key]; `tokens`, `segments` and perhaps `special` have one
    entry a token.
    Raises: AttnscanError, which says what to do about it; WeightsError if weights are no softmax weights of one input.
    """
    options |= {"model": model, "tokenizer": tokenizer, "progress": progress}
    if tokens is not None and weights is None:
        weights = ()  # as models without attention show it
    if (a is not None) + (pairs is not None) + (weights is not None) != 1:
        inputs = "no input was" if a is pairs is weights is None else "several inputs were"
        raise OptionError(f"{inputs} given", "give a sentence, or two, or --weights FILE.npz")
    path = file_to_write(save_weights)
    if path is not None:
        if a is None or options.get("by") == "carried":
            raise OptionError(
                "--save-weights is of one input, by attention weight",
                "leave --by and --weights out",
            )
        check_suffix(path, ".npz", "--save-weights")
        keep_attention = True
    if pairs is not None:
        return _each(
            LibraryCall("classify", options, pairs=pairs, many=False, pattern=pattern),
            keep=keep_attention,
        )
    results, attention = dict[Any, HeadScores](), options.get("attention") or "encoder"
    kinds = split_kinds(
        options if path is None or attention == "encoder" else {**options, "attention": "all"}
    )
    for kind_options in kinds:
        call = LibraryCall("classify", kind_options, a, b, many=False, pattern=pattern)
        if weights is not None:
            result = _by_weights(call, weights, name, tokens, keep_attention)
        else:
            pair = call.pairs.single
            assert pair is not None
            pair = (
                pair.source if len(kinds) > 1 and kind_options["attention"] == "encoder" else pair
            )
            try:
                with call.open_model() as scanner:
                    from attnscan.scan.one_input import classify_input

                    scanner.tell("scoring every head")
                    encoded = scanner.encode(pair)
                    result = classify_input(scanner, pair, encoded, keep=keep_attention)
                    call.note(scanner, result.signature, encoded)
            except (CaptureError, ModelError):
                if (
                    kind_options.get("attention", "encoder") in (attention, None)
                    or attention == "all"
                ):
                    raise
                continue  # what cannot be read of a model is left out of the file
        results[call.options.attention] = replace(
            result, html=heads_html, pattern=tuple(call.names)
        )
    if path is not None:
        write_file(
            path, write_weights(*(result.kept_attention().saved() for result in results.values()))
        )
    return ResultsByKind(results) if attention == "all" else results[attention]


def _each(call: LibraryCall, keep: bool | Selection) -> Iterator[HeadScores]:
    """Classify each of several inputs. Raises: InputError, with the place of one that cannot be read."""
    with call.open_model() as scanner:
        from attnscan.scan.one_input import classify_input

        for record in call.pairs.read():
            try:
                result = classify_input(scanner, record.pair, keep=keep)
            except InputError as error:
                raise type(error)(f"{record.where}: {error.what}", error.remedy) from None
            yield replace(result, html=heads_html, pattern=tuple(call.names))


def _by_weights(
    call: LibraryCall,
    weights: Weights,
    name: str | None,
    tokens: Sequence[str] | None,
    keep: bool | Selection,
) -> HeadScores:
    """Classify saved weights; a bad file is refused before torch is imported.

    Raises: OptionError for weights without tokens, or for options of a model; WeightsError.
    """
    check_no_reading(call.reading)
    if call.model is not None or call.alignments is not None:
        raise OptionError(
            "--weights needs no model, and has tokens alone", "leave out --model and --alignments"
        )
    of = call.options.attention, call.options.query
    if isinstance(weights, str | os.PathLike):
        path = Path(weights)
        name, saved = name or path.name, read_weights(path, *of)
    else:
        if tokens is None and not isinstance(weights, Mapping):
            raise OptionError(
                "weights are attention without its tokens",
                "give tokens=, such as tokenizer.convert_ids_to_tokens(input_ids[0])",
            )
        arrays = dict(weights) if isinstance(weights, Mapping) else {"attention": weights}
        name, saved = (
            name or "weights",
            weights_of(arrays if tokens is None else arrays | {"tokens": tokens}, *of),
        )
    progress_of(call.progress)(f"scoring {name}", None, None)
    from attnscan.scan.weights import classify_weights

    return classify_weights(saved, name, call.options, keep=keep)


def show(
    heads: Heads,
    a: Text | None = None,
    b: Text | None = None,
    *,
    weights: Weights | None = None,
    average: bool = False,
    token: str | int | None = None,
    from_sentence: Side | None = None,
    to_sentence: Side | None = None,
    window: Sequence[int] | str | None = None,
    model: Any = None,
    tokenizer: Any = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> HeadWeights:
    """The weights of some heads on one sentence, or on a pair, or with `average` their mean.

    Queries and keys are those of one `token` (a query), those from a sentence A or B to A or B, or those of a `window`,
    both ends included. `to_frame()` has a row a query and key. Of cross attention, B asks and A is read.

    Raises: as `classify`; SelectionError for heads or tokens that do not exist.
    """
    options = {
        "predictive": "off",
        **options,
        "model": model,
        "tokenizer": tokenizer,
        "progress": progress,
    }
    call = LibraryCall("show", options, a, b, many=False, heads=heads)
    selection = Selection(call.heads, token, from_sentence, to_sentence, parse_window(window))
    options |= {"attention": call.options.attention, "keep_attention": selection}
    result: HeadScores = classify(a, b, weights=weights, **options)
    return result.weights(selection, average=average)


def predictive(
    a: Text,
    b: Text | None = None,
    *,
    model: Any = None,
    tokenizer: Any = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> Dependencies:
    """Which words of one sentence, or of a pair, help the model to predict which others.

    Raises: as `classify`; ModelError if the model cannot be asked.
    """
    options |= {"model": model, "tokenizer": tokenizer, "progress": progress}
    call = LibraryCall("predictive", options, a, b)
    if call.options.predictive == "off":
        raise OptionError(
            "--predictive off measures nothing", "leave it out, or choose cpmi or distance"
        )
    pair = call.pairs.single or Pair(a, b)
    with call.open_model() as scanner:
        from attnscan.scan.one_input import find_dependencies

        scanner.tell("hiding words")
        encoded = scanner.encode(pair)
        result = find_dependencies(scanner, pair, encoded)
        call.note(scanner, result.signature, encoded)
    return result

"""What `import attnscan` offers for one input: what heads do, their weights, and what the model predicts by what."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from attnscan.api.arguments import (
    KINDS,
    Patterns,
    note_words,
    of_kind,
    opened,
    reading_of,
    scan_options,
    window_of,
)
from attnscan.api.pairs import Links, OnBad, Pairs, check_no_reading, linked, pairs_input
from attnscan.errors import CaptureError, InputError, ModelError, OptionError
from attnscan.inputs.frames import pair_of
from attnscan.inputs.sentence import Record, Text
from attnscan.inputs.weights import read_weights, weights_of, write_weights
from attnscan.results.dependencies import Dependencies
from attnscan.results.files import check_suffix, check_writable, write_file
from attnscan.results.grid import Heads, heads_written
from attnscan.results.head_weights import HeadWeights, Selection
from attnscan.results.heads import HeadScores, OfKinds
from attnscan.results.signature import Signature
from attnscan.results.terms import AttentionName, Side
from attnscan.scan.options import OnProgress, ScanOptions, note_inputs
from attnscan.views.notebook import heads_html

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from attnscan.model.in_memory import Model, Tokenizer

Weights: TypeAlias = "str | os.PathLike[str] | Mapping[str, ArrayLike] | Sequence[Any]"
"""A file `.npz`, or the arrays that it would hold."""


@overload
def classify(
    a: Text | None = None, b: Text | None = None, *, attention: Literal["all"], **options: Any
) -> OfKinds[HeadScores]: ...
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
    alignments: Links = None,
    keep_attention: bool | Selection = True,
    save_weights: str | os.PathLike[str] | None = None,
    on_bad: OnBad | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> HeadScores | Iterator[HeadScores] | OfKinds[HeadScores]:
    """What every head of a model does on one sentence, or on a pair. `to_frame()` is its table.

    A notebook shows its labels and scores, and below them the views of `attnscan report`, offline.

    `model` is a hub id, a directory or `bundled`, as on the command line; or a model of transformers that is in memory,
    with its `tokenizer`, which are left as they are. `pattern` may be a function of your own, like those of
    `attnscan.scoring.patterns`, to be scored beside the seven. `.attention` holds the weights, queries and keys of all
    layers; with `keep_attention=False` it is None, and no more than one layer's weights exist at a time. `save_weights`
    is a file `.npz` for the weights.

    With `weights` in place of a sentence, heads are classified by these alone, from anywhere: a file `.npz`, or the
    arrays that it would hold, or `outputs.attentions` of transformers with its `tokens`; `name` then stands for the
    model in the result. With `pairs`, an iterator gives the result of each, one by one, by a model
    that is loaded once.

    For encoder-decoders see `heads`; with `attention="all"` the encoder reads the source alone. Of cross attention,
    `.attention` has the target's tokens behind the source's.

    Shape: `attention` of `weights` is [layer, head, query, key]; `tokens`, `segments` and perhaps `special` have one
    entry a token.
    Raises: AttnscanError, which says what to do about it; WeightsError if weights are no softmax weights of one input.
    """
    reading, everything = reading_of("classify", options), options.get("attention") == "all"
    if tokens is not None and weights is None and a is None:
        weights = ()  # as models without attention show it
    if (a is not None) + (pairs is not None) + (weights is not None) != 1:
        remedy = "give a sentence, or two, or --weights FILE.npz, or --pairs, and one of them"
        raise OptionError("classify takes one input, or --pairs", remedy)
    if pairs is not None:
        if save_weights is not None or everything:
            raise OptionError("--save-weights and --attention all are for one input", "leave out --pairs")
        how: dict[str, Any] = {"model": model, "tokenizer": tokenizer, "progress": progress, "on_bad": on_bad}
        how |= {"pattern": pattern, "alignments": alignments, "keep_attention": keep_attention}
        return (result for _, result, _ in classify_pairs(pairs, **how, **options, **reading))
    check_no_reading(reading, on_bad)
    if alignments is not None and weights is not None:
        raise OptionError("--alignments is of words, and --weights has tokens alone", "leave it out")
    keep, path = keep_attention, None if save_weights is None else Path(save_weights)
    if path is not None:
        if weights is not None:
            raise OptionError("--save-weights needs a model", "leave it out: --weights FILE.npz is saved already")
        if options.get("by") == "carried":
            raise OptionError("--save-weights always saves attention weights", "leave out --by carried")
        check_suffix(path, ".npz", "--save-weights")
        check_writable(path)
        keep = True
    results: dict[AttentionName, HeadScores] = {}
    for kind in KINDS if everything else KINDS[:1]:
        own = of_kind(kind, options) if everything else options
        links = alignments if kind == "cross" or not everything else None
        names, asked = scan_options(model, own, pattern, many=False, alignments=links)
        if weights is not None:
            result = _by_weights(weights, name, tokens, model, asked, keep, progress)
        else:
            pair = linked(pair_of(a, b), links)
            pair = pair.source if everything and kind == "encoder" else pair
            with opened(asked, model, tokenizer, progress) as scanner:
                scanner.tell("scoring every head")
                from attnscan.scan import one_input

                encoded = scanner.encode(pair)
                result = one_input.classify(scanner, pair, encoded, keep=keep)
                note_inputs([result.signature], length=scanner.loaded.limit)
                note_words(scanner, [encoded], single=True)
        results[asked.attention] = replace(result, html=heads_html, pattern=tuple(names))
    if path is not None:
        others = () if everything else _of_other_kinds(a, b, options, model, tokenizer, progress)
        saved = [result.kept_attention().saved() for result in (*results.values(), *others)]
        write_file(path, write_weights(*saved))
    return OfKinds(results) if everything else next(iter(results.values()))


def _of_other_kinds(a: Text | None, b: Text | None, options: Mapping[str, Any], *how: Any) -> Iterator[HeadScores]:
    """Of an encoder-decoder the other kinds of attention that it has: a file has all."""
    asked, (model, tokenizer, progress) = options.get("attention"), how
    for kind in KINDS if asked not in (None, "encoder") else ():
        if kind != asked:
            own: Any = {name: value for name, value in of_kind(kind, options).items() if name != "query"}
            texts = (pair_of(a, b).source.a, None) if kind == "encoder" else (a, b)
            own |= {"model": model, "tokenizer": tokenizer, "progress": progress}
            with suppress(CaptureError, ModelError):
                yield classify(*texts, keep_attention=True, **own)


def _by_weights(
    weights: Weights,
    name: str | None,
    tokens: Sequence[str] | None,
    model: Model,
    options: ScanOptions,
    keep: bool | Selection,
    progress: OnProgress | None,
) -> HeadScores:
    """What every head does by saved weights alone; a bad file is answered before torch is imported.

    Raises: OptionError for what are none, or a `model`; WeightsError.
    """
    if model is not None:
        raise OptionError("--weights needs no model", "leave out --model")
    of = options.attention, options.query
    if isinstance(weights, str | os.PathLike):
        path = Path(weights)
        name, saved = name or path.name, read_weights(path, *of)
    else:
        if tokens is None and not isinstance(weights, Mapping):
            remedy = "give tokens=, such as tokenizer.convert_ids_to_tokens(input_ids[0])"
            raise OptionError("weights are attention without its tokens", remedy)
        arrays = dict(weights) if isinstance(weights, Mapping) else {"attention": weights}
        name, saved = name or "weights", weights_of(arrays if tokens is None else arrays | {"tokens": tokens}, *of)
    if progress is not None:
        progress(f"scoring {name}", None, None)
    from attnscan.scan.one_input import classify_weights

    return classify_weights(saved, name, options, keep=keep)


def classify_pairs(
    pairs: Pairs,
    *,
    pattern: Patterns = (),
    alignments: Links = None,
    keep_attention: bool = True,
    on_bad: OnBad | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> Iterator[tuple[Record, HeadScores, Signature]]:
    """Each of several inputs, what every head does on it, and the signature of all up to it; one by one.

    Raises: InputError for an input that cannot be read, with its place, or if there is none.
    """
    reading = reading_of("classify", options)
    names, asked = scan_options(model, options, pattern, many=False, alignments=alignments)
    given = pairs_input(pairs, reading, seed=options.get("seed", 0), on_bad=on_bad).aligned(alignments)

    def each() -> Iterator[tuple[Record, HeadScores, Signature]]:
        records = given.ready().read()
        with opened(asked, model, tokenizer, given.counted_by(progress)) as scanner:
            scanner.tell("scoring inputs")
            from attnscan.scan import one_input
            from attnscan.scan.state import Seen, no_pair

            signature, seen = None, Seen()
            for record in records:
                try:
                    result = one_input.classify(scanner, record.pair, keep=keep_attention)
                except InputError as error:
                    placed = type(error)(f"{record.where}: {error.what}", error.remedy)
                    if given.skips is None:
                        raise placed from None
                    given.skips(placed)
                    continue
                seen = seen.joined(Seen.of(record.pair, truncated=result.signature.pairs_truncated > 0), 0)
                signature = replace(result.signature, **seen.signature_fields)
                yield record, replace(result, html=heads_html, pattern=tuple(names)), signature
                scanner.tell("scoring inputs", seen.read)
            if signature is None:
                raise no_pair("to score")
            note_inputs([signature], bad=given.bad)

    return each()


def show(
    heads: Heads,
    a: Text | None = None,
    b: Text | None = None,
    *,
    weights: Weights | None = None,
    alignments: Links = None,
    average: bool = False,
    token: str | None = None,
    from_sentence: Side | None = None,
    to_sentence: Side | None = None,
    window: Sequence[int] | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> HeadWeights:
    """The weights of some heads on one sentence, or on a pair, or with `average` their mean.

    Of the queries and keys those of one `token` (a query), those from a sentence A or B to A or B, and those whose
    indices are in a `window`, both ends included. `to_frame()` has a row a query and key.

    Of an encoder-decoder, heads `"c1-0"` are of cross attention: B, or what the model writes, asks, A is read, each
    counts its own tokens, and a `window` is of A. See `heads`.

    Raises: as `classify`; SelectionError for heads or tokens that are not there.
    """
    reading_of("show", options)
    options = {"predictive": "off", **options}
    if (a is not None) == (weights is not None):
        raise OptionError("show takes one input", "give a sentence, or two, or --weights FILE.npz, but not both")
    named = heads_written(heads)
    _, asked = scan_options(model, options, many=False, heads=named, alignments=alignments)
    selection = Selection(named, token, from_sentence, to_sentence, window_of(window))
    how: dict[str, Any] = {"model": model, "tokenizer": tokenizer, "progress": progress}
    how |= {**options, "attention": asked.attention, "keep_attention": selection}
    result = classify(a, b, weights=weights, alignments=alignments, **how)
    return selection.of(result, average=average)


def predictive(
    a: Text,
    b: Text | None = None,
    *,
    model: Model = None,
    tokenizer: Tokenizer = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> Dependencies:
    """Which words of one sentence, or of a pair, help the model to predict which others.

    Raises: as `classify`; ModelError if the model cannot be asked.
    """
    reading_of("predictive", options)
    if options.get("predictive") == "off":
        raise OptionError("--predictive off measures nothing", "leave it out, or choose cpmi or distance")
    _, asked = scan_options(model, options, many=False)
    pair = pair_of(a, b)
    with opened(asked, model, tokenizer, progress) as scanner:
        scanner.tell("hiding words")
        from attnscan.scan import one_input

        encoded = scanner.encode(pair)
        result = one_input.dependencies(scanner, pair, encoded)
        note_inputs([result.signature], length=scanner.loaded.limit, dtype=asked.dtype)
        note_words(scanner, [encoded], single=True)
    return result

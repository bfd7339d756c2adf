"""What `import attnscan` offers for one input: what heads do, their weights, and what the model predicts by what."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from attnscan.api.arguments import OfAttention, Patterns, file_of, library, memory_of, scan_options, text_of
from attnscan.api.pairs import Callbacks, OnProgress, Pairs, pairs_of
from attnscan.errors import CaptureError, ModelError, OptionError
from attnscan.inputs.frames import pair_of
from attnscan.inputs.read import FileReading
from attnscan.inputs.sentence import Text
from attnscan.inputs.weights import write_weights
from attnscan.model.in_memory import Model, Tokenizer
from attnscan.results.classification import Classification
from attnscan.results.dependencies import Dependencies
from attnscan.results.files import write_file
from attnscan.results.grid import Heads, heads_written
from attnscan.results.head_weights import HeadWeights, Selection
from attnscan.results.kinds import OfKinds
from attnscan.results.terms import AttentionName, Side
from attnscan.run.engine import run
from attnscan.run.events import Answer, Skipped
from attnscan.run.reading import FilePairs
from attnscan.run.requests import Classify, ClassifyEach, Predictive, WeightsInput
from attnscan.scan.local import OnBad
from attnscan.scan.options import ScanOptions
from attnscan.views.notebook import classification_html

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Weights: TypeAlias = "str | os.PathLike[str] | Mapping[str, ArrayLike] | Sequence[Any]"
"""A file `.npz`, or the arrays that it would hold."""


@overload
def classify(
    a: Text | None = None, b: Text | None = None, *, attention: Literal["all"], **options: Any
) -> OfKinds[Classification]: ...
@overload
def classify(
    a: Text | None = None, b: Text | None = None, *, weights: Weights | None = None, **options: Any
) -> Classification: ...
@overload
def classify(*, pairs: Pairs, **options: Any) -> Iterator[Classification]: ...
@library(ScanOptions(), FileReading(), FilePairs(), without=("predictive_pairs",), shared=OfAttention)
def classify(
    a: Text | None = None,
    b: Text | None = None,
    *,
    pairs: Pairs = None,
    weights: Weights | None = None,
    tokens: Sequence[str] | None = None,
    name: str | None = None,
    pattern: Patterns = (),
    truncate: bool = False,
    keep_attention: bool = True,
    save_weights: str | os.PathLike[str] | None = None,
    on_bad: OnBad | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Any,
) -> Classification | Iterator[Classification] | OfKinds[Classification]:
    """What every head of a model does on one sentence, or on a pair. `to_frame()` is its table.

    A notebook shows its labels and scores, and below them the views of `attnscan report`, offline.

    `model` is a hub id, a directory or `bundled`, as on the command line; or a model of transformers that is in memory,
    with its `tokenizer`, which are left as they are. `pattern` may be a function of your own, like those of
    `attnscan.scoring.patterns`, to be scored beside the seven. `.attention` holds the weights, queries and keys of all
    layers; with `keep_attention=False` it is None, and no more than one layer's weights exist at a time. `save_weights`
    is a file `.npz` for the weights.

    With `weights` in place of a sentence, heads are classified by these alone, from anywhere: a file `.npz`, or the
    arrays that it would hold, or `outputs.attentions` of transformers with its `tokens`; `name` then stands for the
    model in the result. With `pairs`, an iterator gives the
    result of each, one by one, by a model that is loaded once.

    For encoder-decoders see `heads`; with `attention="all"` the encoder reads the source alone. Of cross attention,
    `.attention` has the target's tokens behind the source's.

    Shape: `attention` of `weights` is [layer, head, query, key]; `tokens`, `segments` and perhaps `special` have one
    entry a token.
    Raises: AttnscanError, which says what to do about it; WeightsError if weights are no softmax weights of one input.
    """
    of = OfAttention.of(options, takes_all=True)
    if of.attention == "all":
        if pairs is not None or save_weights is not None or weights is not None:
            raise OptionError(
                "all kinds of attention are classified on one input",
                'give a sentence, or two, or attention="encoder", "decoder" or "cross"',
            )
        how: Any = {"pattern": pattern, "truncate": truncate, "keep_attention": keep_attention, "on_bad": on_bad}
        how |= {"model": model, "tokenizer": tokenizer}
        results: dict[AttentionName, Classification] = {}
        for kind, own in of.kinds().items():
            source, target = own.texts(a, b)
            results[kind] = classify(source, target, weights=None, **how, **options | vars(own))
        return OfKinds(results)
    if tokens is not None and weights is None and a is None:
        weights = ()  # as models without attention show it
    names, every = of.patterns(pattern)
    asked = scan_options(model, options, on_long="truncate" if truncate else "error", patterns=every, **of.scanned)
    memory, kept = memory_of(model, tokenizer, asked), file_of("save_weights", save_weights)
    keep = bool(keep_attention) if kept is None else Selection(is_saved=True)
    if (a is not None) + (pairs is not None) + (weights is not None) != 1:
        raise OptionError(
            "classify takes one input", "give a sentence, or two, or pairs=, or weights=, and one of them"
        )
    if of.alignments is not None and weights is not None:
        raise OptionError("alignments are of words, and weights have tokens alone", "leave alignments out")
    if pairs is not None:
        if kept is not None:
            raise OptionError("save_weights is of one input", "save each result's attention")
        read = of.pairs(pairs_of(pairs, options, on_bad=on_bad))
        return _each(ClassifyEach(read, asked, memory, bool(keep)), on_bad, tuple(names))
    given = weights_input(weights, name, tokens) if weights is not None else of.pair(pair_of(a, b))
    request = Classify(given, asked, memory, keep)
    result = Callbacks(on_bad).answer(request, Classification)
    if kept is not None:
        kinds = [result]
        for other in request.beside:  # a file has all kinds that there are
            with suppress(CaptureError, ModelError):
                kinds.append(Callbacks(on_bad).answer(other, Classification))
        write_file(kept, write_weights(*(kind.kept_attention().saved() for kind in kinds)))
    return replace(result, html=classification_html, pattern=tuple(names))


def weights_input(weights: Weights, name: str | None = None, tokens: Sequence[str] | None = None) -> WeightsInput:
    """Saved weights by a file or arrays, and what stands for the model in results."""
    if not isinstance(weights, str | os.PathLike | Mapping):
        if tokens is None:
            remedy = "give tokens=, such as tokenizer.convert_ids_to_tokens(input_ids[0])"
            raise OptionError("weights are attention without its tokens", remedy)
        weights = {"attention": weights}
    if tokens is not None and isinstance(weights, Mapping):
        weights = {**weights, "tokens": tokens}
    held = weights if isinstance(weights, Mapping) else file_of("weights", weights)
    if held is None:
        raise OptionError("weights are missing", "give a file .npz, or the arrays that it would hold")
    return WeightsInput(held, name or ("weights" if isinstance(held, Mapping) else held.name))


def _each(request: ClassifyEach, on_bad: OnBad | None, pattern: tuple[str, ...]) -> Iterator[Classification]:
    for event in run(request):
        if isinstance(event, Answer):
            yield replace(event.value, html=classification_html, pattern=pattern)
        elif isinstance(event, Skipped) and on_bad is not None:
            on_bad(event.error)


@library(
    ScanOptions(predictive="off"), without=("unit", "words", "predictive_words", "predictive_pairs"), shared=OfAttention
)
def show(
    heads: Heads,
    a: Text | None = None,
    b: Text | None = None,
    *,
    weights: Weights | None = None,
    average: bool = False,
    token: str | None = None,
    from_: Side | None = None,
    to: Side | None = None,
    window: Sequence[int] | None = None,
    truncate: bool = False,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Any,
) -> HeadWeights:
    """The weights of some heads on one sentence, or on a pair, or with `average` their mean.

    Of the queries and keys those of one `token` (a query), those `from_` sentence A or B `to` A or B, and those whose
    indices are in a `window`, both ends included. `to_frame()` has a row a query and key.

    Of an encoder-decoder, heads `"c1-0"` are of cross attention: B, or what the model writes, asks, A is read, each
    counts its own tokens, and a `window` is of A. See `heads`.

    Raises: as `classify`; SelectionError for heads or tokens that are not there.
    """
    if (a is not None) + (weights is not None) != 1:
        raise OptionError("show takes one input", "give a sentence, or two, or weights=, and one of them")
    named = heads_written(heads)
    of = OfAttention.of(options, named)
    _, patterns = of.patterns(())
    asked = scan_options(model, options, on_long="truncate" if truncate else "error", patterns=patterns, **of.scanned)
    selection = Selection(named, text_of("token", token), from_, to, window_of(window))
    selection.check_attention(asked.attention)
    given = weights_input(weights) if weights is not None else of.pair(pair_of(a, b))
    request = Classify(given, asked, memory_of(model, tokenizer, asked), selection)
    return selection.of(Callbacks().answer(request, Classification), average=bool(average))


def window_of(window: Sequence[int] | None) -> tuple[int, int] | None:
    """The first and the last index, if they are given. Raises: OptionError for what is no window."""
    match window:
        case None:
            return None
        case (int(first), int(last)) if 0 <= first <= last:
            return first, last
    raise OptionError(f"window is {window!r:.60}", "give the first and the last index, as (10, 40)")


@library(ScanOptions(), without=("by", "special", "related", "predictive_pairs", "seed", "threshold"))
def predictive(
    a: Text,
    b: Text | None = None,
    *,
    truncate: bool = False,
    on_progress: OnProgress | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Any,
) -> Dependencies:
    """Which words of one sentence, or of a pair, help the model to predict which others.

    Raises: as `classify`; ModelError if the model cannot be asked.
    """
    asked = scan_options(model, options, on_long="truncate" if truncate else "error")
    request = Predictive(pair_of(a, b), asked, memory_of(model, tokenizer, asked))
    return Callbacks(on_progress=on_progress).answer(request, Dependencies)

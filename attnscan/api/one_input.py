"""What `import attnscan` offers for one input.

What heads do, their weights, and which words help to predict which.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack, overload

from attnscan.api.open_model import LibraryCall, call_input, library_call
from attnscan.api.option_groups import (
    ATTENTION,
    HEADS,
    PAIRS_TO_LINK,
    PATTERN,
    READING_NAMES,
    SENTENCE_A,
    SENTENCE_B,
    TOKEN,
    VOTE,
    WEIGHTS,
    WINDOW,
    AnyAttentionName,
    ClassifyOptions,
    DependenciesOptions,
    File,
    Patterns,
    ShowOptions,
    Weights,
)
from attnscan.api.options import file_to_write, parse_window, split_kinds
from attnscan.api.pairs_input import Pairs, check_no_reading, single_input
from attnscan.api.signatures import library_function
from attnscan.api.word_links import VOTE_ALONE, link_words
from attnscan.errors import CaptureError, InputError, ModelError, OptionError
from attnscan.inputs.option import Option
from attnscan.inputs.sentence import QuerySide, Text
from attnscan.results.choices import Side
from attnscan.results.files import ResultsByKind, check_suffix, write_file
from attnscan.results.grid import AttentionName, Heads

if TYPE_CHECKING:
    from attnscan.results.attention import Attention, Selection
    from attnscan.results.heads import HeadScores, HeadWeights
    from attnscan.results.predictions import Dependencies
    from attnscan.results.word_links import WordLinks


@dataclass(frozen=True)
class _SavedInput:
    """Weights in place of a model's, and what else is given of them."""

    weights: Weights
    tokens: Sequence[str] | None
    sentence_b_start: int | None
    name: str | None

    def read(self, attention: AttentionName, query: QuerySide) -> tuple[str, Any]:
        """The name that stands for a model, and the weights.

        Raises: OptionError for weights without tokens, or two that say where B starts;
        WeightsError.
        """
        from attnscan.inputs.weights import read_weights, weights_of

        if isinstance(self.weights, str | os.PathLike):
            if self.sentence_b_start is not None:
                raise OptionError(
                    "sentence_b_start is for weights in memory",
                    "save an array 'segments' in the file: 0 for tokens of A, 1 for those of B",
                )
            path = Path(self.weights)
            return self.name or path.name, read_weights(path, attention, query)
        return self.name or "weights", weights_of(self._arrays(), attention, query)

    def _arrays(self) -> dict[str, Any]:
        """The arrays that a file of these weights would hold."""
        arrays: dict[str, Any]
        if isinstance(self.weights, Mapping):
            arrays = dict(self.weights)
        elif self.tokens is None:
            raise OptionError(
                "weights are attention without its tokens",
                "give classify tokens=tokenizer.convert_ids_to_tokens(input_ids[0])",
            )
        else:
            arrays = {"attention": self.weights}
        if self.tokens is not None:
            arrays["tokens"] = self.tokens
        if self.sentence_b_start is not None:
            arrays["segments"] = self._segments(arrays)
        return arrays

    def _segments(self, arrays: Mapping[str, Any]) -> list[int]:
        """Of which sentence each token is, by the number of B's first token."""
        from attnscan.inputs.tool_weights import segments_from

        if "segments" in arrays:
            raise OptionError("'segments' say where B starts, too", "leave out sentence_b_start")
        if "tokens" not in arrays:
            raise OptionError(
                "sentence_b_start counts tokens, and there are no 'tokens'",
                "give tokens=, or leave it out for the texts of an encoder-decoder",
            )
        assert self.sentence_b_start is not None
        return segments_from(self.sentence_b_start, len(arrays["tokens"]))


@overload
def classify(
    a: Text | None = None,
    b: Text | None = None,
    *,
    attention: Literal["all"],
    weights: Weights | None = None,
    tokens: Sequence[str] | None = None,
    sentence_b_start: int | None = None,
    name: str | None = None,
    pattern: Patterns = (),
    keep_attention: bool | Selection = True,
    save_weights: File | None = None,
    **options: Unpack[ClassifyOptions],
) -> ResultsByKind[HeadScores]: ...
@overload
def classify(
    a: Text | None = None,
    b: Text | None = None,
    *,
    weights: Weights | None = None,
    tokens: Sequence[str] | None = None,
    sentence_b_start: int | None = None,
    name: str | None = None,
    pattern: Patterns = (),
    keep_attention: bool | Selection = True,
    save_weights: File | None = None,
    attention: AttentionName | None = None,
    **options: Unpack[ClassifyOptions],
) -> HeadScores: ...
@overload
def classify(
    *,
    pairs: Pairs,
    pattern: Patterns = (),
    keep_attention: bool | Selection = True,
    attention: AttentionName | None = None,
    **options: Unpack[ClassifyOptions],
) -> Iterator[HeadScores]: ...
@library_function()
def classify(  # noqa: PLR0913  # a user of the library names them
    a: Annotated[Text | None, SENTENCE_A] = None,
    b: Annotated[Text | None, SENTENCE_B] = None,
    *,
    pairs: Pairs = None,
    weights: Annotated[Weights | None, WEIGHTS] = None,
    tokens: Sequence[str] | None = None,
    sentence_b_start: int | None = None,
    name: str | None = None,
    pattern: Annotated[Patterns, PATTERN] = (),
    keep_attention: bool | Selection = True,
    save_weights: Annotated[
        File | None, Option("Also save the attention weights.", metavar="FILE.npz")
    ] = None,
    attention: Annotated[AnyAttentionName | None, ATTENTION] = None,
    **options: Unpack[ClassifyOptions],
) -> HeadScores | Iterator[HeadScores] | ResultsByKind[HeadScores]:
    """What every head of a model does on one sentence, or on a pair. `to_frame()` is its table.

    `.attention` holds the weights, queries and keys of all layers, unless `keep_attention` is
    False; `save_weights` is a file `.npz` for the weights. With `weights`, heads are classified by
    these alone: a file `.npz`, its arrays, or `outputs.attentions` of transformers with its
    `tokens` and, of a pair, `sentence_b_start`, the number of B's first token; `name` then stands
    for the model. With `pairs`, an iterator gives the result of each.
    With `attention="all"`, the encoder of an encoder-decoder reads the source alone.

    Shape: `attention` of `weights` is [layer, head, query, key]; `tokens`, `segments` and perhaps
    `special` have one entry a token.
    Raises: AttnscanError, which says what to do about it; WeightsError if weights are no softmax
    weights of one input.
    """
    given = {**options, "attention": attention}
    saved = _saved_input(weights, tokens, sentence_b_start, name)
    _check_one_input(a, pairs, saved)
    path = file_to_write(save_weights)
    if path is not None:
        _check_saving(path, a, given)
        return _classify_and_save(partial(_classify_input, (a, b), pattern, True), given, path)
    if pairs is not None:
        return _classify_each(pairs, given, pattern, keep_attention)
    classify_kind: ClassifyKind = partial(_classify_input, (a, b), pattern, keep_attention)
    if saved is not None:
        classify_kind = partial(_classify_weights, saved, pattern, keep_attention)
    if attention == "all":
        return ResultsByKind(_classify_kinds(classify_kind, given))
    return classify_kind(given)


def _saved_input(
    weights: Weights | None,
    tokens: Sequence[str] | None,
    sentence_b_start: int | None,
    name: str | None,
) -> _SavedInput | None:
    """What is read in place of a model's weights, if anything is.

    Raises: OptionError for a place in weights that are not given.
    """
    if weights is None:
        if sentence_b_start is not None:
            raise OptionError(
                "sentence_b_start is for weights=", "leave it out: b is the sentence B"
            )
        if tokens is None:
            return None
        weights = ()  # as models without attention show it
    return _SavedInput(weights, tokens, sentence_b_start, name)


def _check_one_input(a: Text | None, pairs: Pairs, saved: _SavedInput | None) -> None:
    """Raises: OptionError unless there is one input, or one source of inputs."""
    inputs = [given for given in (a, pairs, saved) if given is not None]
    if len(inputs) != 1:
        number = "several inputs were" if inputs else "no input was"
        raise OptionError(f"{number} given", "give a sentence, or two, or ``weights=FILE.npz``")


def _check_saving(path: Path, a: Text | None, options: Mapping[str, Any]) -> None:
    """Raises: OptionError if there are no weights to save; OutputError for another suffix."""
    if a is None or options.get("by") == "carried":
        raise OptionError(
            "``save_weights`` is of one input, by attention weight",
            "leave ``by`` and ``weights`` out",
        )
    check_suffix(path, ".npz", "``save_weights``")


def _classify_input(
    sentences: tuple[Text | None, Text | None],
    pattern: Patterns,
    keep: bool | Selection,
    options: Mapping[str, Any],
    *,
    source_only: bool = False,
) -> HeadScores:
    """Classify one sentence, or a pair, by a model; of a pair, perhaps the source alone."""
    a, b = sentences
    call = library_call("classify", options, call_input(options, a, b), many=False, pattern=pattern)
    pair = call.pairs.single
    assert pair is not None
    if source_only:
        pair = pair.source
    with call.open_model() as scanner:
        from attnscan.scan.one_input import classify_input

        encoded = scanner.encode_or_write(pair)
        scanner.tell("scoring every head")
        result = classify_input(scanner, encoded.known_pair, encoded, keep=keep)
        call.note(scanner, result.signature, encoded)
    return replace(result, pattern=tuple(call.names))


def _classify_weights(
    saved: _SavedInput,
    pattern: Patterns,
    keep: bool | Selection,
    options: Mapping[str, Any],
    *,
    source_only: bool = False,  # noqa: ARG001  # saved weights are of what was read
) -> HeadScores:
    """Classify saved weights; a bad file is refused before torch is imported.

    Raises: OptionError for weights without tokens, or for options of a model; WeightsError.
    """
    call = library_call("classify", options, call_input(options), many=False, pattern=pattern)
    check_no_reading({name: options[name] for name in READING_NAMES if name in options})
    if options.get("model") is not None or options.get("alignments") is not None:
        raise OptionError(
            "``weights`` needs no model, and has tokens alone",
            "leave out ``model`` and ``alignments``",
        )
    name, weights = saved.read(call.options.attention, call.options.query)
    call.progress(f"scoring {name}", None, None)
    from attnscan.scan.weights import classify_weights

    result = classify_weights(weights, name, call.options, keep=keep)
    return replace(result, pattern=tuple(call.names))


ClassifyKind = Callable[..., "HeadScores"]
"""Classifies one input by one kind of attention, which the options name."""


def _classify_kinds(classify_kind: ClassifyKind, options: Mapping[str, Any]) -> dict[Any, Any]:
    """Classify one input by each kind of an encoder-decoder's attention.

    The encoder reads the source alone.
    """
    results = {}
    for kind_options in split_kinds(options):
        kind = kind_options["attention"]
        results[kind] = classify_kind(kind_options, source_only=kind == "encoder")
    return results


def _classify_and_save(
    classify_kind: ClassifyKind, options: Mapping[str, Any], path: Path
) -> HeadScores | ResultsByKind[HeadScores]:
    """Classify one input, and save the weights of all kinds of attention that can be read."""
    asked = options["attention"] or "encoder"
    if asked == "encoder":
        results = {asked: classify_kind(options)}
    else:
        results = {}
        for kind_options in split_kinds({**options, "attention": "all"}):
            kind = kind_options["attention"]
            try:
                results[kind] = classify_kind(kind_options, source_only=kind == "encoder")
            except (CaptureError, ModelError):
                if asked in (kind, "all"):
                    raise
    from attnscan.inputs.weights import write_weights

    arrays = [result.kept_attention().saved() for result in results.values()]
    write_file(path, write_weights(*arrays))
    return ResultsByKind(results) if asked == "all" else results[asked]


def _classify_each(
    pairs: Pairs, options: Mapping[str, Any], pattern: Patterns, keep: bool | Selection
) -> Iterator[HeadScores]:
    """Classify each of several inputs.

    Raises: InputError, with the place of one that cannot be read.
    """
    inputs = call_input(options, pairs=pairs)
    call = library_call("classify", options, inputs, many=False, pattern=pattern)
    return _classify_records(call, keep)


def _classify_records(call: LibraryCall, keep: bool | Selection) -> Iterator[HeadScores]:
    with call.open_model() as scanner:
        from attnscan.scan.one_input import classify_input

        for record in call.pairs.read():
            try:
                result = classify_input(scanner, record.pair, keep=keep)
            except InputError as error:
                raise type(error)(f"{record.where}: {error.what}", error.remedy) from None
            yield replace(result, pattern=tuple(call.names))


@overload
def show(
    heads: Heads,
    *,
    pairs: Pairs,
    vote: bool = False,
    **options: Unpack[ShowOptions],
) -> WordLinks: ...
@overload
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
    **options: Unpack[ShowOptions],
) -> HeadWeights: ...
@library_function(predictive="off")
def show(  # noqa: PLR0913  # a user of the library names them
    heads: Annotated[Heads, HEADS],
    a: Annotated[Text | None, SENTENCE_A] = None,
    b: Annotated[Text | None, SENTENCE_B] = None,
    *,
    pairs: Annotated[Pairs, PAIRS_TO_LINK] = None,
    vote: Annotated[bool, VOTE] = False,
    weights: Annotated[Weights | None, WEIGHTS] = None,
    average: Annotated[bool, Option("Show the mean of the heads.")] = False,
    token: Annotated[str | int | None, TOKEN] = None,
    from_sentence: Annotated[Side | None, Option("Only queries of A or B.")] = None,
    to_sentence: Annotated[Side | None, Option("Only keys of A or B.")] = None,
    window: Annotated[Sequence[int] | str | None, WINDOW] = None,
    **options: Unpack[ShowOptions],
) -> HeadWeights | WordLinks:
    """The weights of some heads on one sentence, or on a pair, or with `average` their mean.

    Queries and keys are those of one `token` (a query), those from a sentence A or B to A or B, or
    those of a `window`, both ends included. `to_frame()` has a row a query and key. Of cross
    attention, B asks and A is read.

    With `pairs`, the result has the links between words that a head of cross attention makes, or
    with `vote` those that more than half of several heads make: `.lines` has a line for each pair,
    such as "0-0 1-2", as `alignments=` takes them.

    Raises: as `classify`; SelectionError for heads or tokens that do not exist.
    """
    shown = {
        "weights": weights,
        "average": average,
        "token": token,
        "from_sentence": from_sentence,
        "to_sentence": to_sentence,
        "window": window,
    }
    if pairs is not None:
        inputs = call_input(options, a, b, pairs)
        return link_words(inputs, heads, options, shown, vote=vote)
    if vote:
        raise OptionError(VOTE_ALONE, "give ``pairs``, or leave it out")
    from attnscan.results.attention import Selection

    call = library_call("show", options, call_input(options, a, b), many=False, heads=heads)
    selection = Selection(
        heads=call.heads,
        token=token,
        from_=from_sentence,
        to=to_sentence,
        window=parse_window(window),
    )
    chosen: dict[str, Any] = {"predictive": "off", **options}
    chosen["attention"] = call.options.attention
    result: HeadScores = classify(a, b, weights=weights, keep_attention=selection, **chosen)
    note_window(selection, result.kept_attention())
    return result.weights(selection, average=average)


def note_window(selection: Selection, attention: Attention) -> None:
    """Say so where a window ends behind an input's last token."""
    from attnscan.scan.options import note

    last = attention.keys - 1
    if selection.window is not None and selection.window[1] > last:
        first, end = selection.window
        note(f"--window {first}-{end} ends behind the input, which has tokens 0 to {last}")


@library_function()
def predictive(
    a: Annotated[Text, SENTENCE_A],
    b: Annotated[Text | None, SENTENCE_B] = None,
    **options: Unpack[DependenciesOptions],
) -> Dependencies:
    """Which words of one sentence, or of a pair, help the model to predict which others.

    Raises: as `classify`; ModelError if the model cannot be asked.
    """
    call = library_call("predictive", options, single_input(a, b))
    if call.options.predictive == "off":
        raise OptionError(
            "``predictive=off`` measures nothing", "leave it out, or choose cpmi or distance"
        )
    pair = call.pairs.single
    assert pair is not None
    with call.open_model() as scanner:
        from attnscan.scan.one_input import find_dependencies

        scanner.tell("hiding words")
        encoded = scanner.encode(pair)
        result = find_dependencies(scanner, pair, encoded)
        call.note(scanner, result.signature, encoded)
    return result

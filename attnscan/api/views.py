"""What `import attnscan` offers to look at heads: the offline page, and pictures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any, get_args

from attnscan.api.arguments import OfAttention, check_kind, file_of, library, listed, memory_of, scan_options, text_of
from attnscan.api.one_input import Weights, weights_input, window_of
from attnscan.api.pairs import Callbacks, OnProgress, Pairs, pairs_of
from attnscan.errors import OptionError, needs
from attnscan.inputs.frames import pair_of
from attnscan.inputs.option import Option, check_known, check_within
from attnscan.inputs.read import FileReading
from attnscan.inputs.sentence import Sentence, Text
from attnscan.model.in_memory import Model, Tokenizer
from attnscan.results.classification import Classification
from attnscan.results.files import write_file
from attnscan.results.grid import Heads, heads_written
from attnscan.results.head_weights import Selection
from attnscan.results.ranking import Ranking
from attnscan.results.trees import TreesRead, sentence_numbers
from attnscan.run.reading import FilePairs
from attnscan.run.requests import Classify, Rank, ReadTrees
from attnscan.scan.local import OnBad
from attnscan.scan.options import OnLong, ScanOptions
from attnscan.views.page.frame import Page
from attnscan.views.page.kinds import kinds_page
from attnscan.views.page.page import page as page_of
from attnscan.views.page.page import page_options
from attnscan.views.page.trees import trees_page
from attnscan.views.pictures.look import COLUMN, Picture, PictureFile

if TYPE_CHECKING:
    from attnscan.views.pictures.picture import Drawable, Kind

_MOST_MEGABYTES = 10_000


@dataclass(frozen=True)
class _Given:
    """What is looked at where no sentence or result is given, and how it is read: what both functions take by name."""

    pairs: Pairs = None
    weights: Weights | None = None
    truncate: bool = False
    on_long: OnLong = "truncate"
    on_bad: OnBad | None = None
    on_progress: OnProgress | None = None
    model: Model = None
    tokenizer: Tokenizer = None


@dataclass(frozen=True)
class _OfKinds(_Given, OfAttention):
    """Likewise, and which attention of an encoder-decoder is read."""


def _result(a: Any, b: Text | None, options: dict[str, Any], of_pairs: dict[str, Any], keep: Selection | None) -> Any:
    """What is to be looked at, made with the options that pairs need besides; of one input with what is to `keep`.

    Raises: as `run`; OptionError if more than one thing is given.
    """
    given = _Given(**{field.name: options[field.name] for field in fields(_Given)})
    if (a is not None) + (given.pairs is not None) + (given.weights is not None) > 1:
        raise OptionError(
            "several things were given to look at", "give one: a result, a sentence or two, pairs= or weights="
        )
    if a is not None and not isinstance(a, str | Sentence):
        if isinstance(a, Classification) and keep is not None and keep.window is not None:
            a = keep.cut(a)
        by, special = options["by"], options["special"]
        if isinstance(a, Ranking) and (by or a.reading.by, special or a.reading.special) != astuple(a.reading):
            raise OptionError(f"this ranking is {a.reading}", "make it with by and special: heads(..., by=, special=)")
        return a.with_reading(options["by"], options["special"]) if isinstance(a, Classification) else a
    told = Callbacks(given.on_bad, given.on_progress)
    if a is None and given.weights is None:
        asked = scan_options(given.model, options, on_long=given.on_long, **of_pairs)
        pairs = pairs_of(given.pairs, options, on_bad=given.on_bad)
        return told.answer(Rank(pairs, asked, memory_of(given.model, given.tokenizer, asked)), Ranking)
    asked = scan_options(given.model, options, on_long="truncate" if given.truncate else "error")
    read = pair_of(a, b) if given.weights is None else weights_input(given.weights)
    return told.answer(
        Classify(read, asked, memory_of(given.model, given.tokenizer, asked), keep or False), Classification
    )


def _kinds(a: Text, b: Text | None, options: dict[str, Any], keep: Selection) -> list[Classification]:
    """An encoder-decoder's kinds of attention on a source and a target, if there is one: one of them, or all.

    Raises: as `_result`.
    """
    of, results = OfAttention.of(options, takes_all=True), []
    for own in of.kinds().values() if of.attention == "all" else [of]:
        given = _Given(**{field.name: options[field.name] for field in fields(_Given)})
        on_long: OnLong = "truncate" if given.truncate else "error"
        asked = scan_options(given.model, options, on_long=on_long, patterns=own.patterns(())[1], **own.scanned)
        memory, told = memory_of(given.model, given.tokenizer, asked), Callbacks(given.on_bad, given.on_progress)
        request = Classify(own.pair(pair_of(*own.texts(a, b))), asked, memory, keep)
        results.append(told.answer(request, Classification))
    return results


def _trees(a: Any, treebank: Pairs, sentences: str | None, options: dict[str, Any]) -> TreesRead:
    """Some sentences of a treebank with their trees. Raises: as `run`; OptionError if something else is given, too."""
    given = _Given(**{field.name: options[field.name] for field in fields(_Given)})
    if a is not None or given.pairs is not None or given.weights is not None:
        raise OptionError("one thing can be looked at", "give a treebank alone")
    numbers = () if sentences is None else sentence_numbers(text_of("sentences", sentences) or "")
    asked = scan_options(given.model, options, on_long="truncate" if given.truncate else "error")
    trees = pairs_of(treebank, options, on_bad=given.on_bad)
    request = ReadTrees(trees, asked, memory_of(given.model, given.tokenizer, asked), numbers)
    return Callbacks(given.on_bad, given.on_progress).answer(request, TreesRead)


@library(ScanOptions(), FileReading(), FilePairs(), shared=_OfKinds)
def report(
    a: Text | Classification | Ranking | None = None,
    b: Text | None = None,
    *,
    heads: Heads | None = None,
    neurons: bool = True,
    size: float | None = None,
    window: Sequence[int] | None = None,
    treebank: Pairs = None,
    sentences: str | None = None,
    output: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Page:
    """The offline page of `attnscan report`: `.html` is the file's text, `.notes` say what there was no room for.

    It is of one input, of saved `weights`, of many pairs, or of a result of `classify` or `heads` that is there
    already. `heads` are those whose weights it carries, by default as many as fit into `size` megabytes (2, or any
    number if heads are named); with `neurons`, their queries and keys, too. Of a long input it shows the passage whose
    first and last tokens are the `window`. The page of many pairs has labels and how
    sure they are, scores with errors and where attention goes. It has no weights, and
    takes no heads. Of a `treebank`, as `syntax` takes it, the page has some `sentences` by their numbers ("3,17" or
    "1-8", the first eight by default) with their trees, and what heads follow in all.
    `attention` is one of an encoder-decoder's, or "all" for a page with a switch between them; see `heads`. The page is
    written to `output`, if that is given.

    Raises: as `heads`; OptionError if a result's attention was not kept, a ranking has no labels, or no page has such a
    size; SelectionError for heads that the model has not got.
    """
    path = file_of("output", output)
    if size is not None:
        check_within("size", size, Option("in megabytes", least=0.001, most=_MOST_MEGABYTES), whole=False)
    of_pairs = {"labelled": True}
    keep = Selection(window=window_of(window), is_drawn=True)
    if options["attention"] not in (None, "encoder"):
        if not isinstance(a, str | Sentence) or heads is not None or window is not None:
            raise OptionError(
                "attention is of one input that is read whole", "give a source, and leave out heads and window"
            )
        of_kinds = _kinds(a, b, options, keep)
        made = kinds_page(of_kinds, page_options(of_kinds[0], neurons=bool(neurons), megabytes=size))
        if path is not None:
            write_file(path, made.html.encode())
        return made
    options = options | OfAttention.of(options).scanned
    if treebank is None:
        if sentences is not None:
            raise OptionError("sentences are of a treebank", "give treebank, or leave them out")
        result = _result(a, b, options, of_pairs, keep)
        check_kind("result", result, Classification, Ranking)
    else:
        if window is not None:
            raise OptionError("a window is of one input", "leave it out, or give a sentence")
        result = _trees(a, treebank, sentences, options)
    asked = page_options(result, heads, neurons=bool(neurons), megabytes=size)
    page = page_of(result, asked) if treebank is None else trees_page(result, asked)
    if path is not None:
        write_file(path, page.html.encode())
    return page


@library(ScanOptions(), FileReading(), FilePairs(), shared=_Given)
def plot(
    a: Text | Drawable | None = None,
    b: Text | None = None,
    *,
    kind: Kind | None = None,
    heads: Heads = (),
    lines: bool = False,
    width: float = COLUMN,
    window: Sequence[int] | None = None,
    pattern: Sequence[str] | str | None = None,
    format: Picture | None = None,
    output: str | os.PathLike[str] | None = None,
    **options: Any,
) -> bytes:
    """A picture as the content of a PNG, SVG or PDF file, `width` inches wide; it is written to `output`, if given.

    It is of one input, of saved `weights`, of many pairs, or of a result that is there already. Of one input or a
    classification it is the `map`, all `scores`, their best and mean by `layers`, or the weights of some `heads` (kind
    `head`), as heat maps or as `lines`, on all tokens or on those of a `window`; `by` and `special` say by which
    reading. Of an ablation, a similarity or a comparison there is one kind each: what heads are worth, with errors; a
    map of all heads, where near ones attend alike; every head's score in one model against that in the other, for some
    patterns or all. Many pairs and a ranking have the map, scores and layers. Of the result of `syntax` it is the map
    of what heads follow, above bars of accuracy.

    Raises: as `heads`; OptionError if the result has no such picture, or the picture no such option; OutputError if
    matplotlib is not installed; SelectionError for heads that are not there, or too many for the width.
    """
    with needs("pictures need matplotlib", "plot"):
        from attnscan.views.pictures.picture import picture
    path = file_of("output", output)
    suffix = "" if path is None else path.suffix.lower().removeprefix(".")
    chosen = format or (suffix if suffix in get_args(Picture) else "svg")
    check_known("format", chosen, get_args(Picture))
    if kind is not None and kind not in ("map", "scores", "layers"):
        options["predictive"] = "off"  # weights alone are drawn
    of_pairs = {"labelled": kind in (None, "map")}
    written = "" if isinstance(heads, tuple) and not heads else heads_written(heads)
    keep = Selection(written or None, window=window_of(window), is_drawn=True) if kind == "head" else None
    result = _result(a, b, options, of_pairs, keep)
    drawn = picture(
        result,
        kind,
        PictureFile(get_args(Picture)[get_args(Picture).index(chosen)], width),
        heads=written or (),
        lines=lines,
        patterns=None if pattern is None else listed("pattern", pattern),
    )
    if path is not None:
        write_file(path, drawn)
    return drawn

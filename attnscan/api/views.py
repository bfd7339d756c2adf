"""What `import attnscan` offers to look at heads: the offline page, and pictures."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from attnscan.api.arguments import (
    LibraryCall,
    Pairs,
    check_names,
    file_to_write,
    list_texts,
    parse_window,
)
from attnscan.api.many_pairs import rank_pairs
from attnscan.api.one_input import Weights, classify
from attnscan.api.studies import read_trees
from attnscan.errors import OptionError, check_known, needs
from attnscan.inputs.option import Option, check_within
from attnscan.inputs.sentence import Sentence, Text
from attnscan.results.attention import Selection
from attnscan.results.files import Picture, write_file
from attnscan.results.grid import Heads, attention_named, heads_written
from attnscan.results.heads import HeadScores
from attnscan.scan.options import OnProgress, progress_of
from attnscan.views.palette import PICTURE_WIDTH

if TYPE_CHECKING:
    from attnscan.views.page.page import Page
    from attnscan.views.pictures import Drawable, PictureKind


def report(
    a: Text | HeadScores | None = None,
    b: Text | None = None,
    *,
    pairs: Pairs = None,
    weights: Weights | None = None,
    treebank: Pairs = None,
    held: Pairs = None,
    sentences: str | None = None,
    heads: Heads | None = None,
    neurons: bool = True,
    size: float | None = None,
    window: Sequence[int] | str | None = None,
    output: str | os.PathLike[str] | None = None,
    model: Any = None,
    tokenizer: Any = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> Page:
    """The offline page of `attnscan report`: `.html` is the file's text, `.notes` say what there was no room for.

    It is of one input, of saved `weights`, of many pairs, of a result of `classify` or `heads`, or of some `sentences`
    ("3,17" or "1-8", by default eight) of a `treebank`, with trees. `held` is a second corpus of pairs, and the page
    says whether heads do the same there. `heads` are those whose weights it carries, by
    default as many as fit into `size` megabytes (2, or any number if heads are named); with `neurons`, their queries
    and keys, too. Of a long input it shows the tokens of the `window`, first and last. The page is written to `output`.

    Raises: as `heads`; OptionError if a result's attention was not kept, or a ranking has no labels.
    """
    options |= {"model": model, "tokenizer": tokenizer, "progress": progress}
    if size is not None:
        check_within("size", size, Option("in megabytes", least=0.001, most=10_000), whole=False)
    path = file_to_write(output)
    over_pairs, kind = a is None and weights is None, options.get("attention")
    if window is not None and kind in ("cross", "all"):
        raise OptionError("--window is for the page of one text", "leave it out")
    if heads is not None and kind == "all":
        raise OptionError(
            "--heads is of one kind of attention", "name encoder, decoder or cross as --attention"
        )
    if treebank is None and sentences is not None:
        raise OptionError("--sentences is for --treebank", "name a treebank, or leave it out")
    if treebank is not None and not (over_pairs and pairs is None):
        raise OptionError("several things were given to look at", "give --treebank alone")
    of_one_input = window is not None or not neurons or kind not in (None, "encoder")
    if over_pairs and (of_one_input or (heads is not None and treebank is None)):
        raise OptionError(
            "--heads, --window, --no-neurons and --attention are for one input's page",
            "leave them out",
        )
    if held is not None and (not over_pairs or treebank is not None):
        raise OptionError("--held is beside many pairs", "give --pairs, or leave it out")
    keep = Selection(window=parse_window(window), is_drawn=True)
    trees = None if treebank is None else read_trees(treebank, sentences, options)
    results = (
        [trees.sentences[0].result]
        if trees
        else _results("report", a, b, pairs, weights, heads, options, keep, held=held)
    )
    if not isinstance(results[0], HeadScores):
        raise OptionError(
            f"there is no page of a {type(a).__name__}", "give what classify or heads returns"
        )
    from attnscan.views.page.page import PageOptions, page, trees_page

    progress_of(options.get("progress"))("writing the page", None, None)
    look = PageOptions(heads, neurons, size and size * 1e6)
    written = trees_page(trees, look) if trees else page(results, look)
    if path is not None:
        write_file(path, written.html.encode())
    return written


def plot(
    a: Text | Drawable | None = None,
    b: Text | None = None,
    *,
    pairs: Pairs = None,
    weights: Weights | None = None,
    kind: PictureKind | None = None,
    heads: Heads | None = None,
    lines: bool = False,
    width: float = PICTURE_WIDTH,
    window: Sequence[int] | str | None = None,
    pattern: Sequence[str] | str | None = None,
    format: Picture | None = None,
    output: str | os.PathLike[str] | None = None,
    model: Any = None,
    tokenizer: Any = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> bytes:
    """A picture as the content of a PNG, SVG or PDF file, `width` inches wide; it is written to `output`, if given.

    It is of one input, of saved `weights`, of many pairs, or of a result that is there already: the `map`, all
    `scores`, their best and mean by `layers`, the `profile` of where attention goes, or, of one input, the weights of
    some `heads` (kind `head`), as heat maps or as `lines`, on all tokens or on those of a `window`. Of an ablation, a
    similarity, a comparison (for some patterns or all) or a syntax there is one kind each.

    Raises: as `heads`; OptionError if there is no such picture; OutputError if matplotlib is not installed;
    SelectionError for heads that do not exist, or too many for the width.
    """
    options |= {"model": model, "tokenizer": tokenizer, "progress": progress}
    path = file_to_write(output)
    file_format: Any = format or ("svg" if path is None else path.suffix.lower()[1:])
    check_known("picture format", file_format, get_args(Picture))
    if not 2 <= width <= 20:
        raise OptionError(f"the picture's width is {width:g} inches", "give 2 to 20")
    is_result = a is not None and not isinstance(a, str | Sentence)
    if kind != "head" and not is_result and (heads is not None or lines or window is not None):
        raise OptionError("--heads, --lines and --window are for --kind head", "leave them out")
    if kind == "head" and (heads is None or (a is None and weights is None)):
        raise OptionError(
            "--kind head draws heads on one input", "name them, as --heads 2-0, and give a sentence"
        )
    with needs("pictures need matplotlib", "plot"):
        import matplotlib  # noqa: F401
    from attnscan.views.pictures import picture

    if kind not in (None, "map", "scores", "layers"):
        options = {**options, "predictive": "off"}  # weights alone are drawn
    head_names = None if heads is None else heads_written(heads)
    keep = (
        Selection(head_names, window=parse_window(window), is_drawn=True)
        if kind == "head"
        else False
    )
    (result,) = _results(
        "plot",
        a,
        b,
        pairs,
        weights,
        heads,
        options,
        keep,
        labelled=kind in (None, "map", "profile"),
    )
    progress_of(options.get("progress"))("drawing", None, None)
    patterns = None if pattern is None else list_texts("pattern", pattern)
    drawn = picture(
        result, kind, file_format, width, heads=head_names, lines=lines, patterns=patterns
    )
    if path is not None:
        write_file(path, drawn)
    return drawn


def _results(
    function: str,
    a: Any,
    b: Text | None,
    pairs: Pairs,
    weights: Weights | None,
    heads: Heads | None,
    options: Mapping[str, Any],
    keep: Selection | bool,
    *,
    labelled: bool = True,
    held: Pairs = None,
) -> list[Any]:
    """Make the results to draw: of one input by each kind of attention, of many pairs, or the result that was given."""
    check_names(function, options)
    if (a is not None) + (pairs is not None) + (weights is not None) > 1:
        raise OptionError(
            "several things were given to look at",
            "give a sentence, or two, or --pairs or --weights",
        )
    if a is None and weights is None:
        call = LibraryCall(function, options, pairs=pairs, labelled=labelled, held=held)
        return [rank_pairs(call)]
    if weights is not None or isinstance(a, str | Sentence):
        input_options = {
            name: value for name, value in options.items() if name != "predictive_pairs"
        }
        if heads is not None and input_options.get("attention") != "all":
            input_options["attention"] = attention_named(
                heads_written(heads), input_options.get("attention")
            )
        result: Any = classify(a, b, weights=weights, keep_attention=keep, **input_options)
        return list(result.values()) if input_options.get("attention") == "all" else [result]
    if not isinstance(a, HeadScores):
        return [a]
    if isinstance(keep, Selection) and keep.window is not None and a.is_one_input:
        a = a.cut(keep)
    return [a.with_reading(options.get("by"), options.get("special"))]

"""What `import attnscan` offers to look at heads: the offline page, and pictures."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from attnscan.api.arguments import KINDS, SCAN, listed, reading_of, scan_options, window_of
from attnscan.api.many_pairs import ranked
from attnscan.api.one_input import Weights, classify
from attnscan.api.pairs import Links, OnBad, Pairs, check_no_reading, pairs_input
from attnscan.api.studies import read_trees, syntax
from attnscan.errors import OptionError, needs
from attnscan.inputs.option import Option, check_known, check_within
from attnscan.inputs.sentence import Sentence, Text
from attnscan.results.files import write_file
from attnscan.results.grid import Heads, attention_named, heads_written
from attnscan.results.head_weights import Selection
from attnscan.results.heads import HeadScores
from attnscan.results.trees import sentence_numbers
from attnscan.scan.options import OnProgress, progress_of
from attnscan.views.pictures.look import COLUMN, Picture, PictureFile

if TYPE_CHECKING:
    from attnscan.model.in_memory import Model, Tokenizer
    from attnscan.views.page.frame import Page
    from attnscan.views.pictures.picture import Drawable, Kind

_MOST_MEGABYTES = 10_000


def report(
    a: Text | HeadScores | None = None,
    b: Text | None = None,
    *,
    pairs: Pairs = None,
    weights: Weights | None = None,
    treebank: Pairs = None,
    sentences: str | None = None,
    heads: Heads | None = None,
    neurons: bool = True,
    size: float | None = None,
    window: Sequence[int] | None = None,
    alignments: Links = None,
    output: str | os.PathLike[str] | None = None,
    on_bad: OnBad | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> Page:
    """The offline page of `attnscan report`: `.html` is the file's text, `.notes` say what there was no room for.

    It is of one input, of saved `weights`, of many pairs, or of a result of `classify` or `heads` that is there
    already. `heads` are those whose weights it carries, by default as many as fit into `size` megabytes (2, or any
    number if heads are named); with `neurons`, their queries and keys, too. Of a long input it shows the passage whose
    first and last tokens are the `window`. The page of many pairs has labels and how
    sure they are, scores with errors and where attention goes. It has no weights, and takes no heads.
    Of a `treebank`, as `syntax` takes it, the page has some `sentences` by their numbers ("3,17" or
    "1-8", the first eight by default) with their trees, and what heads follow in all.
    `attention` is one of an encoder-decoder's, or "all" for a page with a switch between them; see `heads`. The page is
    written to `output`, if that is given.

    Raises: as `heads`; OptionError if a result's attention was not kept, a ranking has no labels, or no page has such a
    size; SelectionError for heads that the model has not got.
    """
    reading, step = reading_of("report", options), progress_of(progress)
    if size is not None:
        check_within("size", size, Option("in megabytes", least=0.001, most=_MOST_MEGABYTES), whole=False)
    of_input = isinstance(a, str | Sentence) or weights is not None
    many = a is None and weights is None and treebank is None
    _check_one_source(a, pairs, weights, treebank)
    named = None if heads is None else heads_written(heads)
    kind = options.get("attention") or attention_named(named or "")
    if kind != "encoder" and not of_input:
        raise OptionError("--attention is for the page of one input", "give a sentence, or leave it out")
    if sentences is not None and treebank is None:
        raise OptionError("--sentences is for --treebank", "name a treebank, or leave it out")
    if treebank is not None and (window is not None or not neurons):
        raise OptionError("--window and --no-neurons are for the page of one input", "leave them out")
    if window is not None and kind in ("cross", "all"):
        raise OptionError("--window is for the page of one text", "leave it out")
    if named is not None and kind == "all":
        raise OptionError("--heads is of one kind of attention", "name encoder, decoder or cross as --attention")
    if many and (named is not None or window is not None or not neurons):
        what = "--heads, --window and --no-neurons"
        raise OptionError(f"{what} are for the page of a sentence, or two: it holds weights", "leave them out")
    _check_reading(reading, on_bad, many=a is None and weights is None, treebank=treebank)
    from attnscan.views.page.kinds import kinds_page
    from attnscan.views.page.page import page, page_options
    from attnscan.views.page.trees import trees_page

    keep = Selection(window=window_of(window), is_drawn=True)
    how: dict[str, Any] = {"model": model, "tokenizer": tokenizer, "progress": progress}
    looks: dict[str, Any] = {"neurons": neurons, "megabytes": size}
    if of_input:
        results = _of_input(a, b, weights, options, named, alignments, keep, how)
        step("writing the page", None, None)
        made = kinds_page(results, page_options(results[0], heads, **looks))
    elif treebank is not None:
        numbers = () if sentences is None else sentence_numbers(sentences)
        _, asked = scan_options(model, options, many=False)
        trees = read_trees(treebank, reading, numbers, asked, on_bad=on_bad, **how)
        made = trees_page(trees, page_options(trees, heads, **looks))
    else:
        if a is None:
            _, asked = scan_options(model, options, many=True, labelled=True)
            result: Any = ranked(pairs_input(pairs, reading, seed=options.get("seed", 0), on_bad=on_bad), asked, **how)
        else:
            result = _read_again(a, options, keep)
        if not isinstance(result, HeadScores):
            remedy = "give a sentence, or what classify or heads returns"
            raise OptionError(f"there is no page of a {type(result).__name__}", remedy)
        step("writing the page", None, None)
        made = page(result, page_options(result, heads, **looks))
    if output is not None:
        write_file(Path(output), made.html.encode())
    return made


def _check_one_source(*sources: object) -> None:
    """Raises: OptionError if more than one thing is given to look at."""
    if sum(source is not None for source in sources) > 1:
        raise OptionError(
            "several things were given to look at", "give one: a sentence or two, --pairs, --weights or --treebank"
        )


def _read_again(result: Any, options: Mapping[str, Any], keep: Selection | None) -> Any:
    """A result that is there already, by the reading that is asked for."""
    if not isinstance(result, HeadScores):
        return result
    if result.of_input and keep is not None and keep.window is not None:
        result = keep.cut(result)
    return result.with_reading(options.get("by"), options.get("special"))


def _of_input(
    a: Any,
    b: Text | None,
    weights: Weights | None,
    options: Mapping[str, Any],
    heads: str | None,
    alignments: Links,
    keep: Selection | bool,
    how: Mapping[str, Any],
) -> list[HeadScores]:
    """One input by the attention that is read, or by each kind of an encoder-decoder's."""
    options = {name: value for name, value in options.items() if name in SCAN["classify"]}
    read: Any = options.get("attention")
    options["attention"] = read = read if read == "all" else attention_named(heads or "", read)
    own: Any = {"weights": weights, "alignments": alignments, "keep_attention": keep, **how, **options}
    result: Any = classify(a, b, **own)
    return list(result.values()) if read == "all" else [result]


def plot(
    a: Text | Drawable | None = None,
    b: Text | None = None,
    *,
    pairs: Pairs = None,
    weights: Weights | None = None,
    treebank: Pairs = None,
    held: Pairs = None,
    kind: Kind | None = None,
    heads: Heads = (),
    lines: bool = False,
    width: float = COLUMN,
    window: Sequence[int] | None = None,
    pattern: Sequence[str] | str | None = None,
    alignments: Links = None,
    format: Picture | None = None,
    output: str | os.PathLike[str] | None = None,
    on_bad: OnBad | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> bytes:
    """A picture as the content of a PNG, SVG or PDF file, `width` inches wide; it is written to `output`, if given.

    It is of one input, of saved `weights`, of many pairs, or of a result that is there already. Of one input or a
    classification it is the `map`, all `scores`, their best and mean by `layers`, the `profile` of where attention
    goes, or the weights of some `heads` (kind `head`), as heat maps or as `lines`, on all tokens or on those of a
    `window`; `by` and `special` say by which reading. Of an ablation, a similarity or a comparison there is one kind
    each: what heads are worth, with errors; a map of all heads, where near ones attend alike; every head's score in one
    model against that in the other, for some patterns or all. Many pairs and a ranking have the map, scores, layers and
    profile. Of a `treebank`, or the result of `syntax`, it is the map of what heads follow, above bars of accuracy.
    Of an encoder-decoder, `attention` says what is read, or the letters of `heads`, as "c1-0".

    Raises: as `heads`; OptionError if the result has no such picture, or the picture no such option; OutputError if
    matplotlib is not installed; SelectionError for heads that are not there, or too many for the width.
    """
    reading, path = reading_of("plot", options), None if output is None else Path(output)
    suffix = "" if path is None else path.suffix.lower().removeprefix(".")
    look = PictureFile(format or (suffix if suffix in get_args(Picture) else "svg"), width)  # type: ignore[arg-type]
    named = None if isinstance(heads, tuple) and not heads else heads_written(heads)
    is_result = a is not None and not isinstance(a, str | Sentence)
    _check_one_source(a, pairs, weights, treebank)
    if not is_result:
        many = a is None and weights is None
        _check_picture(kind, options, many=many, treebank=treebank, held=held)
        for option, value in (("--heads", named), ("--lines", lines), ("--window", window)):
            if value and kind != "head":
                raise OptionError(f"{option} is for --kind head", "leave it out")
        if kind == "head" and not named:
            raise OptionError("--kind head needs --heads", "name some, as --heads 2-0")
        _check_reading(reading, on_bad, many=many, treebank=treebank)
    with needs("pictures need matplotlib", "plot"):
        from attnscan.views.pictures.picture import picture
    if kind not in (None, "map", "scores", "layers"):
        options = {**options, "predictive": "off"}  # weights alone are drawn
    selection = Selection(named, window=window_of(window), is_drawn=True) if kind == "head" else None
    how: dict[str, Any] = {"model": model, "tokenizer": tokenizer, "progress": progress}
    if is_result:
        result: Any = _read_again(a, options, selection)
    elif treebank is not None:
        scanned = {name: value for name, value in options.items() if name not in ("predictive", "attention")}
        result = syntax(treebank, held=held, on_bad=on_bad, **how, **scanned, **reading)
    elif a is not None or weights is not None:
        (result,) = _of_input(a, b, weights, options, named, alignments, selection or False, how)
    else:
        asks: dict[str, Any] = {"heads": named, "alignments": alignments, "labelled": kind in (None, "map", "profile")}
        _, asked = scan_options(model, options, many=True, **asks)
        result = ranked(
            pairs_input(pairs, reading, seed=options.get("seed", 0), on_bad=on_bad).aligned(alignments), asked, **how
        )
    progress_of(progress)("drawing", None, None)
    patterns = None if pattern is None else listed("pattern", pattern)
    drawn = picture(result, kind, look, heads=named or (), lines=lines, patterns=patterns)
    if path is not None:
        write_file(path, drawn)
    return drawn


def _check_reading(reading: Mapping[str, Any], on_bad: OnBad | None, *, many: bool, treebank: object) -> None:
    """Raises: OptionError if an option says how to read pairs, where none are read."""
    if treebank is not None:
        check_no_reading({name: value for name, value in reading.items() if name != "skip_bad"})
    elif not many:
        check_no_reading(reading, on_bad)


def _check_picture(kind: str | None, options: Mapping[str, Any], *, many: bool, treebank: object, held: object) -> None:
    """Raises: OptionError before the work for what the kind of picture does not go with."""
    if options.get("attention") is not None:
        check_known("attention", options["attention"], KINDS)
    if kind == "head" and many:
        raise OptionError("--kind head draws one input", "give a sentence, or two")
    if kind == "syntax" and treebank is None:
        raise OptionError("--kind syntax needs --treebank FILE.conllu", "name one")
    if kind not in (None, "syntax") and (treebank is not None or held is not None):
        raise OptionError("--treebank and --held are for --kind syntax", "leave them out")
    if held is not None and treebank is None:
        raise OptionError("--held is a second treebank", "name the first as --treebank")
    if treebank is not None and (other := {"attention", "unit", "related", "threshold"} & options.keys()):
        raise OptionError(f"--{min(other).replace('related', 'no-related')} is not for --kind syntax", "leave it out")

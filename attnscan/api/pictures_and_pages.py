"""What `import attnscan` offers to look at heads: the offline page, and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Unpack, get_args

from attnscan.api.many_pairs import rank_pairs
from attnscan.api.one_input import classify
from attnscan.api.open_model import call_input, held_input, library_call
from attnscan.api.option_groups import (
    HELD,
    LINKS,
    PAIRS,
    SENTENCE_A,
    SENTENCE_B,
    TREEBANK,
    WEIGHTS,
    WINDOW,
    File,
    PlotOptions,
    ReportOptions,
    Weights,
)
from attnscan.api.options import file_to_write, parse_window
from attnscan.api.pairs_input import LinkRecords, Pairs, list_texts
from attnscan.api.signatures import library_function, options_of
from attnscan.api.syntax import read_linked
from attnscan.errors import OptionError, check_known, needs
from attnscan.inputs.option import Option
from attnscan.inputs.sentence import Sentence, Text
from attnscan.results.files import Picture, write_file
from attnscan.results.grid import Heads, attention_named, heads_written
from attnscan.scan.options import progress_of
from attnscan.views.palette import PICTURE_WIDTH

if TYPE_CHECKING:
    from attnscan.results.attention import Selection
    from attnscan.results.heads import HeadScores
    from attnscan.views.page.page import Page
    from attnscan.views.pictures.picture import Drawable, PictureKind


@dataclass(frozen=True)
class _Subject:
    """What is looked at: an input, many pairs, saved weights, or a result."""

    a: Any
    b: Text | None
    pairs: Pairs
    weights: Weights | None

    @property
    def is_pairs(self) -> bool:
        """Whether it is many pairs, perhaps those that ship with attnscan."""
        return self.a is None and self.weights is None

    @property
    def is_result(self) -> bool:
        """Whether it is a result that is there already."""
        return self.a is not None and not isinstance(self.a, str | Sentence)

    def check(self) -> None:
        """Raises: OptionError if several things are looked at."""
        given = [thing for thing in (self.a, self.pairs, self.weights) if thing is not None]
        if len(given) > 1:
            raise OptionError(
                "several things were given to look at",
                "give a sentence, or two, or ``pairs`` or ``weights``",
            )


@library_function()
def report(  # noqa: PLR0913  # a user of the library names them
    a: Annotated[Text | HeadScores | None, SENTENCE_A] = None,
    b: Annotated[Text | None, SENTENCE_B] = None,
    *,
    pairs: Annotated[Pairs, PAIRS] = None,
    weights: Annotated[Weights | None, WEIGHTS] = None,
    treebank: Annotated[Pairs, TREEBANK] = None,
    links: Annotated[LinkRecords, LINKS] = None,
    held: Annotated[Pairs, HELD] = None,
    heads: Annotated[
        Heads | None,
        Option(
            "Include weights of these heads: 2-0,6-11, layer:2. [default: as many as fit]",
            metavar="HEADS",
        ),
    ] = None,
    neurons: Annotated[
        bool,
        Option("Include queries and keys of heads.", off="Leave out queries and keys of heads."),
    ] = True,
    size: Annotated[
        float | None,
        Option(
            "Largest size of the page. [default: 2, or what --heads needs]",
            metavar="MB",
            least=0.001,
            most=10_000,
        ),
    ] = None,
    sentences: Annotated[
        str | None,
        Option("Sentences with trees or links: 3,17. [default: 1-8]", metavar="NUMBERS"),
    ] = None,
    window: Annotated[Sequence[int] | str | None, WINDOW] = None,
    output: File | None = None,
    **options: Unpack[ReportOptions],
) -> Page:
    """The offline page of `attnscan report`.

    `.html` is the file's text, `.notes` say what there was no room for. It is of one input, of
    saved `weights`, of many pairs, of a result of `classify` or `heads`, or of some `sentences`
    ("3,17" or "1-8", by default eight) of a `treebank`, with trees, or of `links`. `held` is a
    second corpus of pairs, and the page says whether heads do the same there. `heads` are those
    whose weights it carries, by default as many as fit into `size` megabytes (2, or any number if
    heads are named); with `neurons`, their queries and keys, too. Of a long input it shows the
    tokens of the `window`, first and last. The page is written to `output`.

    Raises: as `heads`; OptionError if a result's attention was not kept, or a ranking has no
    labels.
    """
    from attnscan.results.attention import Selection
    from attnscan.results.heads import HeadScores

    options_of("report").check_values(size=size)
    path = file_to_write(output)
    subject = _Subject(a, b, pairs, weights)
    attention = options.get("attention")
    if window is not None and attention in ("cross", "all"):
        raise OptionError("``window`` is for the page of one text", "leave it out")
    if heads is not None and attention == "all":
        raise OptionError(
            "``heads`` is of one kind of attention",
            "name encoder, decoder or cross as ``attention``",
        )
    has_links = treebank is not None or links is not None
    _check_links(subject, sentences, has_links=has_links)
    for_one_input = window is not None or not neurons or attention not in (None, "encoder")
    for_heads = heads is not None and not has_links
    if subject.is_pairs and (for_one_input or for_heads):
        raise OptionError(
            "``heads``, ``window``, ``neurons=False`` and ``attention`` are for one input's page",
            "leave them out",
        )
    if held is not None and (not subject.is_pairs or has_links):
        raise OptionError("``held`` is beside many pairs", "give ``pairs``, or leave it out")
    keep = Selection(window=parse_window(window), is_drawn=True, every_reading=True)
    linked = None
    if has_links:
        linked = read_linked(treebank, links, sentences, options)
        results = [linked.inputs[0].result]
    else:
        results = _results("report", subject, heads, options, keep, held=held)
    if not isinstance(results[0], HeadScores):
        raise OptionError(
            f"there is no page of a {type(a).__name__}", "give what classify or heads returns"
        )
    from attnscan.views.page.page import PageOptions, links_page, page

    progress_of(options.get("progress"))("writing the page", None, None)
    look = PageOptions(heads, neurons, None if size is None else size * 1e6)
    written = page(results, look) if linked is None else links_page(linked, look)
    if path is not None:
        write_file(path, written.html.encode())
    return written


def _check_links(subject: _Subject, sentences: str | None, *, has_links: bool) -> None:
    """Raises: OptionError if sentences are chosen where no links are given, or more is."""
    if not has_links and sentences is not None:
        raise OptionError(
            "``sentences`` is for ``treebank`` and ``links``", "name one of them, or leave it out"
        )
    if has_links and not (subject.is_pairs and subject.pairs is None):
        raise OptionError(
            "several things were given to look at", "give ``treebank`` or ``links`` alone"
        )


@library_function()
def plot(  # noqa: PLR0913  # a user of the library names them
    a: Annotated[Text | Drawable | None, SENTENCE_A] = None,
    b: Annotated[Text | None, SENTENCE_B] = None,
    *,
    pairs: Annotated[Pairs, PAIRS] = None,
    weights: Annotated[Weights | None, WEIGHTS] = None,
    kind: PictureKind | None = None,
    heads: Annotated[
        Heads | None, Option("Heads to draw: 2-0,6-11, layer:2 or all.", metavar="HEADS")
    ] = None,
    lines: Annotated[bool, Option("Draw weights as lines, for --kind head.")] = False,
    width: Annotated[
        float, Option("Width of the picture.", metavar="INCHES", least=2, most=20)
    ] = PICTURE_WIDTH,
    window: Annotated[Sequence[int] | str | None, WINDOW] = None,
    pattern: Sequence[str] | str | None = None,
    format: Picture | None = None,
    output: File | None = None,
    **options: Unpack[PlotOptions],
) -> bytes:
    """A picture as the content of a PNG, SVG or PDF file, `width` inches wide.

    It is written to `output`, if given. It is of one input, of saved `weights`, of many pairs, or
    of a result that is there already: the `map`, all `scores`, their best and mean by `layers`, the
    `profile` of where attention goes, or, of one input, the weights of some `heads` (kind `head`),
    as heat maps or as `lines`, on all tokens or on those of a `window`. Of an ablation, a
    similarity, a comparison (for some patterns or all) or a syntax there is one kind each.

    Raises: as `heads`; OptionError if there is no such picture; OutputError if matplotlib is not
    installed; SelectionError for heads that do not exist, or too many for the width.
    """
    from attnscan.results.attention import Selection

    path = file_to_write(output)
    suffix = "svg" if path is None else path.suffix.lower()[1:]
    file_format: Any = format or suffix
    check_known("picture format", file_format, get_args(Picture))
    if not 2 <= width <= 20:
        raise OptionError(f"the picture's width is {width:g} inches", "give 2 to 20")
    subject = _Subject(a, b, pairs, weights)
    has_head_options = heads is not None or lines or window is not None
    if kind != "head" and not subject.is_result and has_head_options:
        raise OptionError(
            "``heads``, ``lines`` and ``window`` are for ``kind=head``", "leave them out"
        )
    if kind == "head" and (heads is None or subject.is_pairs):
        raise OptionError(
            "``kind=head`` draws heads on one input",
            "name them, as ``heads=2-0``, and give a sentence",
        )
    with needs("pictures need matplotlib", "plot"):
        import matplotlib  # noqa: F401
    from attnscan.views.pictures.picture import picture

    chosen: dict[str, Any] = {**options}
    if kind not in (None, "map", "scores", "layers"):
        chosen["predictive"] = "off"  # weights alone are drawn
    head_names = None if heads is None else heads_written(heads)
    keep: Selection | bool = False
    if kind == "head":
        keep = Selection(head_names, window=parse_window(window), is_drawn=True)
    labelled = kind in (None, "map", "profile")
    (result,) = _results("plot", subject, heads, chosen, keep, labelled=labelled)
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
    subject: _Subject,
    heads: Heads | None,
    options: Mapping[str, Any],
    keep: Selection | bool,
    *,
    labelled: bool = True,
    held: Pairs = None,
) -> list[Any]:
    """The results to draw.

    Of one input there is one for each kind of attention; of many pairs, or where a result was
    given, one.
    """
    from attnscan.api.readings import with_every_reading, with_reading
    from attnscan.results.attention import Selection
    from attnscan.results.heads import HeadScores

    options_of(function).check_names(options)
    subject.check()
    if subject.is_pairs:
        inputs = call_input(options, pairs=subject.pairs)
        call = library_call(function, options, inputs, labelled=labelled)
        return [rank_pairs(call.with_held(held_input(options, inputs, held)))]
    if not subject.is_result:
        return _classify(subject, heads, options, keep)
    result = subject.a
    if not isinstance(result, HeadScores):
        return [result]
    result = with_reading(result, options.get("by"), options.get("special"))
    if isinstance(keep, Selection):
        if keep.every_reading:
            result = with_every_reading(result)
        if keep.window is not None and result.is_one_input:
            result = result.cut(keep)
    return [result]


def _classify(
    subject: _Subject, heads: Heads | None, options: Mapping[str, Any], keep: Selection | bool
) -> list[HeadScores]:
    """Classify one input by each kind of attention that is asked for."""
    chosen = {name: options[name] for name in options if name != "predictive_pairs"}
    if heads is not None and chosen.get("attention") != "all":
        chosen["attention"] = attention_named(heads_written(heads), chosen.get("attention"))
    result: Any = classify(
        subject.a, subject.b, weights=subject.weights, keep_attention=keep, **chosen
    )
    return list(result.values()) if chosen.get("attention") == "all" else [result]

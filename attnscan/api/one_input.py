"""What `import attnscan` offers for one input."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, get_args

from attnscan.api.given import (
    check_kind,
    check_known,
    checked,
    explained,
    listed,
    memory_of,
    options_of,
    without_norm,
)
from attnscan.api.source import Callbacks
from attnscan.errors import OptionError, needs
from attnscan.inputs.objects import pair_of
from attnscan.model.in_memory import Model, Tokenizer
from attnscan.results.classification import Classification
from attnscan.results.dependencies import Dependencies
from attnscan.results.explanation import Explanations
from attnscan.results.grid import Heads, heads_written
from attnscan.results.ranking import Ranking
from attnscan.run.requests import Classify, Explain, Predictive, WeightsInput
from attnscan.scan.options import Choices
from attnscan.views.notebook import classification_html
from attnscan.views.page.frame import SIZE, Page, PageOptions
from attnscan.views.page.page import page as page_of
from attnscan.views.pictures.look import COLUMN, Look, Picture

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from attnscan.views.pictures.picture import Drawable, Kind


@checked
def classify(
    a: str,
    b: str | None = None,
    *,
    model: Model = None,
    tokenizer: Tokenizer = None,
    keep_attention: bool = True,
    **options: Unpack[Choices],
) -> Classification:
    """What every head of a model does on one sentence, or on a pair. `to_frame()` is its table.

    A notebook shows its labels and scores, and below them the views of `attnscan report`, offline.

    `model` is a hub id, a directory or `bundled`, as on the command line; or a model of transformers that is in memory,
    with its `tokenizer`, which are left as they are. `patterns` may be `[*PATTERNS, my_pattern]`, where `my_pattern` is
    a function like those of `attnscan.scoring.patterns`. `.attention` holds the weights, queries and keys of all
    layers; with `keep_attention=False` it is None, and no more than one layer's weights exist at a time.

    Raises: AttnscanError, which says what to do about it.
    """
    asked, pair = options_of(model, options), pair_of(a, b)
    memory = memory_of(model, tokenizer, asked)
    result: Classification = Callbacks().answer(Classify(pair, asked, memory, keep=bool(keep_attention)))
    return replace(result, html=classification_html)


@checked
def score_weights(
    weights: str | os.PathLike[str] | Mapping[str, ArrayLike],
    *,
    name: str | None = None,
    **options: Unpack[Choices],
) -> Classification:
    """What every head does by its weights alone, from anywhere: a file `.npz`, or the arrays that it would hold.

    Shape: `attention` [layer, head, query, key]; `tokens`, `segments` and perhaps `special`, one entry a token.
    `name` stands for the model in the result.
    Raises: WeightsError if they are no softmax weights of one input; OptionError.
    """
    held = weights if isinstance(weights, Mapping) else Path(weights)
    given = WeightsInput(held, name or ("weights" if isinstance(held, Mapping) else held.name))
    result: Classification = Callbacks().answer(Classify(given, options_of(None, options), keep=True))
    return replace(result, html=classification_html)


@checked
def explain(
    a: str,
    b: str | None = None,
    *,
    heads: Heads = "all",
    pattern: str | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Unpack[Choices],
) -> Explanations:
    """How heads make their patterns, by one sentence or pair. `to_frame()` has a row a head, `[2, 0]` is one's.

    `heads` are `"2-0,6-11"`, `"layer:2"`, `"all"`, or (layer, head) each; `pattern` is what to explain, by
    default each head's own label.

    Raises: as `classify`; SelectionError for heads that the model has not got.
    """
    pair, named, asked = pair_of(a, b), heads_written(heads), explained(model, pattern, options)
    memory = memory_of(model, tokenizer, asked)
    result: Explanations = Callbacks().answer(Explain(pair, asked, memory, named, pattern))
    return result


@checked
def dependencies(
    a: str, b: str | None = None, *, model: Model = None, tokenizer: Tokenizer = None, **options: Unpack[Choices]
) -> Dependencies:
    """Which words of one sentence, or of a pair, help the model to predict which others.

    Raises: as `classify`; ModelError if the model cannot be asked.
    """
    pair, asked = pair_of(a, b), options_of(model, without_norm(options, "predictive words"))
    result: Dependencies = Callbacks().answer(Predictive(pair, asked, memory_of(model, tokenizer, asked)))
    return result


@checked
def page(
    result: Classification | Ranking,
    *,
    heads: Heads | None = None,
    neurons: bool = True,
    megabytes: float | None = None,
) -> Page:
    """The offline page of `attnscan report`: `.html` is the file's text, `.notes` say what there was no room for.

    `heads` are those whose weights it carries, by default as many as fit into `megabytes` (2, or any number if heads
    are named); with `neurons`, their queries and keys, too. The page of a ranking of many pairs has labels and how sure
    they are, scores with errors and, if it was made with `profile=True`, profiles. It has no weights, and takes no
    heads.

    Raises: OptionError if the result's attention was not kept, a ranking has no labels, or no page has such a size;
    SelectionError for heads that the model has not got.
    """
    check_kind("result", result, Classification, Ranking)
    if megabytes is not None and not (isinstance(megabytes, int | float) and 0 < megabytes <= 10_000):
        raise OptionError(f"megabytes is {megabytes}", "give more than 0, up to 10000")
    carried = None
    if heads is not None:
        if isinstance(result, Ranking):
            raise OptionError("a page of many pairs holds no head's weights", "leave out heads")
        carried = tuple(result.kept_attention().grid.select(heads))
    size = int(megabytes * 1_000_000) if megabytes else SIZE if heads is None else None
    return page_of(result, PageOptions(carried, neurons, size))


@checked
def picture(
    result: Drawable,
    kind: Kind | None = None,
    *,
    format: Picture = "svg",
    width: float = COLUMN,
    heads: Heads = (),
    lines: bool = False,
    without_delimiters: bool = False,
    patterns: Sequence[str] | None = None,
) -> bytes:
    """A picture of a result as the content of a PNG, SVG or PDF file, `width` inches wide.

    Of a classification it is the `map`, all `scores`, their best and mean by `layers`, or the weights of some `heads`
    (kind `head`), as heat maps or as `lines`; `scores` and `layers` can be drawn `without_delimiters`. Of an ablation,
    a similarity or a comparison there is one kind each: what heads are worth, with errors; a map of all heads, where
    near ones attend alike; every head's score in one model against that in the other, for some `patterns` or all. Of a
    profile it is what every head's attention consists of (`profile`), or how that of some `heads` falls off with
    `distance`. A ranking of many pairs has the map, scores and layers and, if it was made with `profile=True`, those of
    a profile.

    Raises: OptionError if the result has no such picture, or the picture no such option; OutputError if matplotlib is
    not installed; SelectionError for heads that are not there, or too many for the width.
    """
    with needs("pictures need matplotlib", "plot"):
        from attnscan.views.pictures.picture import picture as drawn
    check_known("format", format, get_args(Picture))
    return drawn(
        result,
        kind,
        Look(format, width),
        heads=() if isinstance(heads, tuple) and not heads else heads_written(heads),
        lines=lines,
        without_delimiters=without_delimiters,
        patterns=None if patterns is None else listed("patterns", patterns),
    )

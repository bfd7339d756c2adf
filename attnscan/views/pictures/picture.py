"""Pictures of a result, for papers and slides: results to the bytes of a PNG, SVG or PDF file."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal

from matplotlib.text import Text

from attnscan.errors import OptionError, nearest
from attnscan.results.ablation import Ablation
from attnscan.results.comparison import Comparison, Similarity
from attnscan.results.grid import Heads
from attnscan.results.heads import HeadScores
from attnscan.results.profile import Profile
from attnscan.results.syntax import Syntax
from attnscan.views.pictures.ablation import ablation_figure
from attnscan.views.pictures.figure import drawing, missing_letters, to_bytes
from attnscan.views.pictures.head_weights import weights_figure
from attnscan.views.pictures.look import LackingLetters, PictureFile
from attnscan.views.pictures.map import map_figure
from attnscan.views.pictures.scores import (
    comparison_figure,
    layers_figure,
    profile_figure,
    scores_figure,
    similarity_figure,
)
from attnscan.views.pictures.syntax import syntax_figure

Drawable = HeadScores | Profile | Ablation | Similarity | Comparison | Syntax
Kind = Literal["map", "scores", "layers", "profile", "head", "ablation", "similarity", "comparison", "syntax"]

_KINDS: dict[type, tuple[Kind, ...]] = {
    HeadScores: ("map", "scores", "layers", "profile", "head"),
    Profile: ("profile",),
    Ablation: ("ablation",),
    Similarity: ("similarity",),
    Comparison: ("comparison",),
    Syntax: ("syntax",),
}
_FOR_KINDS: dict[str, tuple[Kind, ...]] = {
    "heads": ("head",),
    "lines": ("head",),
    "patterns": ("comparison",),
}


def picture(
    result: Drawable,
    kind: Kind | None = None,
    look: PictureFile = PictureFile(),
    *,
    heads: Heads = (),
    lines: bool = False,
    patterns: Sequence[str] | None = None,
) -> bytes:
    """What `attnscan.plot` says, as a file's content: the same bytes for the same result.

    Raises: OptionError if the result has no such picture, or the picture no such option; SelectionError for heads that
    are not there, or too many for the width. Warns: LackingLetters.
    """
    kind = _kind_of(result, kind)
    given = {"heads": heads != (), "lines": lines}
    _check_options(kind, given | {"patterns": patterns is not None})
    command = "classify" if isinstance(result, HeadScores) and result.of_input else "heads"
    with drawing():
        match result:
            case Ablation():
                figure = ablation_figure(result, look.width)
            case Similarity():
                figure = similarity_figure(result, look.width)
            case Comparison():
                figure = comparison_figure(result, _scored(patterns, result.patterns), look.width)
            case Syntax():
                figure = syntax_figure(result, look.width)
            case HeadScores() if kind == "head":
                chosen, about = result.scores.grid.select(heads), (result.shown, result.links)
                figure = weights_figure(result.shown_attention, chosen, look.width, *about, lines)
            case Profile():
                figure = profile_figure(result, look.width)
            case _ if kind == "profile":
                figure = profile_figure(result.profile, look.width)
            case _ if kind == "map":
                figure = map_figure(result.labels, look.width, command)
            case _ if kind == "layers":
                figure = layers_figure(result, look.width, command)
            case _:
                figure = scores_figure(result, look.width, command)
        signature = result.signatures[0] if isinstance(result, Comparison) else result.signature
        content = to_bytes(figure, look.format, signature, kind)
    if letters := set().union(*(missing_letters(text.get_text()) for text in figure.findobj(Text))):
        warnings.warn(LackingLetters(letters, look.format), stacklevel=2)
    return content


def _kind_of(result: Drawable, kind: Kind | None) -> Kind:
    """Which picture of the result is meant, by default its first."""
    name, kinds = type(result).__name__, _KINDS.get(type(result), ())
    if isinstance(result, HeadScores) and not result.of_input:
        name, kinds = "HeadScores of many pairs", kinds[:-1]
    if not kinds:
        remedy = "give a " + " or a ".join(drawable.__name__ for drawable in _KINDS)
        raise OptionError(f"there is no picture of a {name}", remedy)
    if kind not in (None, *kinds):
        raise _unknown(f"a {name} has no picture '{kind}'", str(kind), kinds)
    return kind or kinds[0]


def _check_options(kind: Kind, given: dict[str, bool]) -> None:
    """Each option is for some kinds of pictures alone; a picture of heads needs them."""
    for option, kinds in _FOR_KINDS.items():
        if given[option] and kind not in kinds:
            raise OptionError(f"the picture '{kind}' has no {option}", f"{option} is for {' and '.join(kinds)}")
    if kind == "head" and not given["heads"]:
        raise OptionError(f"the picture '{kind}' needs heads", 'name them, such as heads="2-0,6-11"')


def _scored(patterns: Sequence[str] | None, scored: Sequence[str]) -> Sequence[str]:
    for pattern in patterns or ():
        if pattern not in scored:
            raise _unknown(f"there is no pattern '{pattern}'", pattern, scored)
    return patterns or scored


def _unknown(what: str, name: str, known: Sequence[str]) -> OptionError:
    return OptionError(what, nearest(name, known, f"there is {', '.join(known)}"))

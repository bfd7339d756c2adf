"""A picture of a result, for papers and slides: the bytes of a PNG, SVG or PDF file.

matplotlib lays out every figure; nothing of it that is global is touched: no pyplot, no settings of
the user's.
"""

import io
import json
import re
import warnings
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Literal

import matplotlib.style
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager

from attnscan.errors import OptionError, check_known
from attnscan.results.ablation import Ablation
from attnscan.results.comparison import Comparison, Similarity
from attnscan.results.files import Picture
from attnscan.results.heads import HeadScores, Profile
from attnscan.results.signature import Signature
from attnscan.results.syntax import Syntax
from attnscan.results.trace import Trace
from attnscan.text import plain
from attnscan.views import palette
from attnscan.views.palette import PICTURE_WIDTH
from attnscan.views.pictures.scores import draw_layers, draw_map, draw_profile, draw_scores
from attnscan.views.pictures.studies import (
    draw_ablation,
    draw_comparison,
    draw_similarity,
    draw_syntax,
    draw_trace,
)
from attnscan.views.pictures.weights import draw_weights

Drawable = HeadScores | Profile | Ablation | Similarity | Comparison | Syntax | Trace
PictureKind = Literal[
    "map",
    "scores",
    "layers",
    "profile",
    "head",
    "ablation",
    "similarity",
    "comparison",
    "syntax",
    "trace",
]

FONTS_OF_SCRIPTS = {
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
}
_FIGURES: dict[str, tuple[Any, Callable[..., Figure]]] = {
    "map": (HeadScores, draw_map),
    "scores": (HeadScores, draw_scores),
    "layers": (HeadScores, draw_layers),
    "profile": (HeadScores | Profile, draw_profile),
    "head": (HeadScores, draw_weights),
    "ablation": (Ablation, draw_ablation),
    "similarity": (Similarity, draw_similarity),
    "comparison": (Comparison, draw_comparison),
    "syntax": (Syntax, draw_syntax),
    "trace": (Trace, draw_trace),
}
"""By kind: of which results there is such a picture, and the function that draws it."""
_PICTURE_WITH_OPTION = {"heads": "head", "lines": "head", "patterns": "comparison"}


def picture(
    result: Drawable,
    kind: PictureKind | None = None,
    format: Picture = "svg",
    width: float = PICTURE_WIDTH,
    **options: Any,
) -> bytes:
    """Draw what `attnscan.plot` says, as a file's content: the same bytes for the same result.

    Options are `heads` and `lines` of the kind `head`, and `patterns` of a comparison. Warns of
    letters without a font.
    Raises: OptionError if the result has no such picture, or the picture no such option;
    SelectionError for heads that are not there, or too many for the width.
    """
    subject = f"picture of a {type(result).__name__}"
    figures = {name: draw for name, (drawn, draw) in _FIGURES.items() if isinstance(result, drawn)}
    if not figures:
        raise OptionError(f"there is no {subject}", "give what a command of attnscan returns")
    chosen: str = kind or next(iter(figures))
    check_known(subject, chosen, list(figures))
    options = {option: value for option, value in options.items() if value}
    for option in options:
        drawn_by = _PICTURE_WITH_OPTION[option]
        if drawn_by != chosen:
            reason = f"the picture '{chosen}' has no {option}"
            raise OptionError(reason, f"{option} is for {drawn_by}")
    signature = result.signatures[0] if isinstance(result, Comparison) else result.signature
    metadata = _metadata(signature, chosen, format)
    scripts = sorted(FONTS_OF_SCRIPTS & {*fontManager.get_font_names()})
    style = palette.PAPER_STYLE | {"font.family": ["DejaVu Sans", *scripts]}
    file = io.BytesIO()
    with (
        warnings.catch_warnings(record=True) as caught,
        matplotlib.style.context(style, after_reset=True),
    ):
        warnings.simplefilter("always")
        figure = figures[chosen](result, width, **options)
        figure.savefig(file, format=format, dpi=300, metadata=metadata)
    messages = " ".join(str(warning.message) for warning in caught)
    missing = {chr(int(code)) for code in re.findall(r"Glyph (\d+)", messages)}
    if missing:
        letters = " ".join(sorted(missing)[:12])
        warnings.warn(
            f"no font here has {letters}: install one, as Noto Sans is for most scripts",
            stacklevel=3,
        )
    return file.getvalue()


def _metadata(signature: Signature, kind: str, format: Picture) -> dict[str, str | None]:
    """What a file says of itself: how it was made, and no date, so that its bytes are the same."""
    subject = "Subject" if format == "pdf" else "Description"
    metadata: dict[str, str | None] = {
        "Title": plain(f"attnscan plot --kind {kind}: {signature.title}"),
        subject: json.dumps(asdict(signature)),
    }
    if format == "svg":
        metadata["Date"] = None
    if format == "pdf":
        metadata["CreationDate"] = None
    return metadata

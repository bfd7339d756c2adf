"""Pictures of a result, for papers and slides: results to the bytes of a PNG, SVG or PDF file."""

from __future__ import annotations

from collections.abc import Sequence

from attnscan.results.ablation import Ablation
from attnscan.results.attention import Attention
from attnscan.results.classification import Classification
from attnscan.results.comparison import Comparison
from attnscan.results.heads import Head
from attnscan.results.signature import Signature
from attnscan.results.similarity import Similarity
from attnscan.views.pictures.ablation import ablation_sheet
from attnscan.views.pictures.comparison import comparison_sheet
from attnscan.views.pictures.head_weights import heads_sheet, lines_sheet
from attnscan.views.pictures.look import Look
from attnscan.views.pictures.map import map_sheet
from attnscan.views.pictures.scores import layers_sheet, scores_sheet
from attnscan.views.pictures.sheet import Sheet, drawing
from attnscan.views.pictures.similarity import similarity_sheet


def map_picture(result: Classification, look: Look = Look()) -> bytes:
    """What each head does on words, as the map on the terminal."""
    with drawing():
        return _file(map_sheet(result, look.width), look, result.signature, "map")


def scores_picture(result: Classification, look: Look = Look(), *, without_delimiters: bool = False) -> bytes:
    """Every head's score for each pattern, on one scale."""
    table = result.scores.words_only if without_delimiters else result.scores.every_key
    with drawing():
        return _file(scores_sheet(result, look.width, table, look.vector), look, result.signature, "scores")


def layers_picture(result: Classification, look: Look = Look(), *, without_delimiters: bool = False) -> bytes:
    """The best and the mean score of every layer for each pattern."""
    table = result.scores.words_only if without_delimiters else result.scores.every_key
    with drawing():
        return _file(layers_sheet(result, look.width, table), look, result.signature, "layers")


def heads_picture(
    attention: Attention, heads: Sequence[Head], signature: Signature, look: Look = Look(), *, lines: bool = False
) -> bytes:  # fmt: skip
    """Some heads' weights, token by token: as heat maps, or as lines.

    Raises: SelectionError if these are too many heads for the width.
    """
    with drawing():
        sheet = (
            lines_sheet(attention, heads, look.width)
            if lines
            else heads_sheet(attention, heads, look.width, look.vector)
        )
        return _file(sheet, look, signature, "head")


def ablation_picture(found: Ablation, look: Look = Look()) -> bytes:
    """What heads are worth, with errors; of single heads, in the layer x head grid."""
    with drawing():
        return _file(ablation_sheet(found, look.width), look, found.signature, "ablation")


def similarity_picture(found: Similarity, look: Look = Look()) -> bytes:
    """A map of all heads, where near ones attend alike."""
    with drawing():
        return _file(similarity_sheet(found, look.width), look, found.signature, "similarity")


def comparison_picture(found: Comparison, patterns: Sequence[str], look: Look = Look()) -> bytes:
    """Every head's score in one model against that in the other."""
    with drawing():
        return _file(comparison_sheet(found, patterns, look.width), look, found.signatures[0], "comparison")


def _file(sheet: Sheet, look: Look, signature: Signature, kind: str) -> bytes:
    return sheet.to_bytes(look.format, signature, kind)

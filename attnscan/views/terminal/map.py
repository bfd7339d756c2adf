"""The map on screens: the layer x head grid of what each head does on words."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from attnscan.results.grid import Head
from attnscan.results.labels import Labels
from attnscan.results.scores import MIXED
from attnscan.views.palette import PARKS, mark
from attnscan.views.summary import map_title, unsure_note
from attnscan.views.terminal.parts import color_of, flowed, named, wrapped

_RULER = 7  # columns of layer numbers


def map_view(labels: Labels, width: int) -> Iterator[RenderableType]:
    """Every head's letter, subdued where it mostly rests on delimiters, questioned where its label would not stay."""
    layers, heads = labels.scores.grid.shape
    cell = next((size for size in (3, 2) if _RULER + size * heads <= width), 1)
    yield Text(f"Map: {map_title(labels)}; layers down, heads across", style="bold")
    every = 1 if cell == 3 else 5
    ruler = "".join((f"{head:>2}" if head % every == 0 else "").ljust(cell) for head in range(heads))
    yield Text(" " * (_RULER - 1) + (ruler if cell > 1 else f" 0 to {heads - 1}"), style="dim")
    for layer in range(layers):
        line = Text.assemble((f"{layer:>{_RULER - 2}}  ", "dim"))
        for head in range(heads):
            line.append_text(_cell(labels, Head(layer, head), cell))
        yield line
    shown = [name for name in (*labels.scores.patterns, MIXED) if (labels.content_label == name).any()]
    yield from flowed((named(name) for name in shown), width)
    rests = "what the head carries comes from" if labels.norm else "the head's weight rests on"
    yield from wrapped(f"Small letter: half or more of {rests} delimiters.{unsure_note(labels)}", width)


def _cell(labels: Labels, head: Head, size: int) -> Text:
    """A head's letter and, if its label is unsure, a question mark; that alone where there is room for no more."""
    label, parking = str(labels.content_label[head.place]), float(labels.parking[head.place])
    asked = "?" if labels.content_unsure[head.place] else ""
    text = asked or mark(label, parking) if size == 1 else mark(label, parking) + asked
    how = "bold {}" if parking < PARKS else "{} dim" if parking >= 0.9 else "{}"
    return Text(text.ljust(size), style=how.format(color_of(label)))

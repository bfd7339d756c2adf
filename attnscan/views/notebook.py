"""What a notebook shows of a result: HTML with inline styles, and nothing from elsewhere.

It needs no script, but for the page of `report` in a frame of its own where the attention was kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from markupsafe import Markup

from attnscan.results.behaviour import Labels
from attnscan.results.card import Cards
from attnscan.results.grid import Head
from attnscan.results.head_weights import MOST_DRAWN
from attnscan.results.heads import HeadScores
from attnscan.results.signature import Reading
from attnscan.safe_text import plain
from attnscan.views.behaviour import (
    best_heads,
    kinds_of,
    statement,
    summary,
    token_lines,
    told_apart,
    why_unscored,
    why_unsure,
)
from attnscan.views.palette import RESTING_OPACITY, letter, on_white, paper_color, readable_on, words
from attnscan.views.table import Column, Table
from attnscan.views.terminal.card import cards_view
from attnscan.views.terminal.parts import render

_STRONGEST = 5
_CELL = "width:1.5em;height:1.5em;padding:0;text-align:center"
_FRAME = "width:100%;height:680px;border:0"
# The page says how tall it is, and its frame follows, to a screen or so, beyond which long lists scroll. It never
# shrinks: parts of the page take what height there is. Where a notebook runs no scripts, it scrolls.
_FOLLOW = (
    "window.addEventListener('message',e=>{if(e.source===this.contentWindow)"
    "this.style.height=Math.max(this.offsetHeight,Math.min(1300,Number(e.data.attnscan)||0))+'px'})"
)
_PAGE_SIZE = 1_000_000  # bytes: a notebook keeps what it shows
_FAINT = "opacity:0.65"


def heads_html(result: HeadScores) -> str:
    """What every head does, if labels are there: by kinds, and on the map, whose cells have the scores as tooltips.

    Of one input its tokens and, where the attention was kept, the page of `report`; of many pairs the best heads of
    each pattern.
    """
    parts = [_title(result), *(_tokens(result) if result.of_input else ())]
    if result.has_labels:
        parts += [_line(summary(result)), *_kinds(result.labels)]
    if result.of_input:
        parts += [*(_line(plain(note), _FAINT) for note in result.notes), _views(result)]
    else:
        parts += _best(result)
    return str(Markup('<div style="font-size:13px">{}</div>').format(Markup("").join(parts)))


def cards_html(cards: Cards) -> str:
    """The cards as a terminal of 120 columns shows them."""
    return str(Markup('<pre style="line-height:1.2">{}</pre>').format(render(cards_view(cards, 120), 120)))


def _line(content: str, style: str = "") -> Markup:
    return Markup('<p style="margin:0.2em 0;{}">{}</p>').format(style, content)


def _title(result: HeadScores) -> Markup:
    signature, grid = result.signature, result.grid
    details = [f"{signature.device} {signature.dtype}"]
    details += [str(signature.reading)] if signature.reading != Reading() else []
    details += [] if result.of_input else [signature.counts]
    text = Markup('<b>{}</b> {} = {} heads <span style="{}">{}</span>')
    return _line(text.format(plain(signature.title), grid, len(grid), _FAINT, ", ".join(details)))


def _tokens(result: HeadScores) -> Iterator[Markup]:
    """The units of each sentence in a line; a sentence's closing delimiter goes with it."""
    for name, tokens in token_lines(result).items():
        # isolated, so that a word from right to left leaves the words around it where they are
        texts = (Markup('<bdi style="{}">{}</bdi>').format(_FAINT * special, text) for text, special in tokens)
        yield _line(Markup("<b>{}</b> {}").format(name, Markup(" ").join(texts)))


def _kinds(labels: Labels) -> Iterator[Markup]:
    """By kinds with their strongest heads, then head by head on the map."""
    rows: list[tuple[Any, ...]] = []
    before = ""
    for group, kind in kinds_of(labels):
        strongest = ((head.name, labels.numbers(kind.name, head).share) for head in kind.heads[:_STRONGEST])
        texts = ", ".join(f"{name} {share:.2f}" for name, share in strongest)
        name = Markup("{} {}").format(_swatch(kind.name), words(kind.name))
        rows.append(("" if group == before else group, name, len(kind.heads), kind.average, texts))
        before = group
    titles = Column(""), Column("kind"), Column("heads", ">"), Column("average", ">.2f"), Column("strongest heads")
    yield Table(titles, rows).html()
    yield _map(labels)
    unsure = f"; ? {why_unsure(labels)}" if labels.unsure.any() else ""
    legend = f"Layers down, heads across; {letter('')} {words('')}; pale: rests on special tokens{unsure}."
    yield _line(legend, _FAINT)


def _map(labels: Labels) -> Markup:
    """The layer x head grid of what every head does."""
    number = Markup('<th style="{}">{}</th>')
    lines = [Markup("").join(number.format(_CELL, text) for text in ("", *range(labels.grid.shape[1])))]
    for layer in labels.grid.numbers:
        cells = (_head(labels, head) for head in labels.grid.layer_of(Head(layer, 0)))
        lines.append(number.format(_CELL, layer) + Markup("").join(cells))
    rows = Markup("").join(map(Markup("<tr>{}</tr>").format, lines))
    return Markup('<table style="font:inherit;color:inherit;margin:0.5em 0;border-spacing:1px">{}</table>').format(rows)


def _head(labels: Labels, head: Head) -> Markup:
    name, unsure, rests = (values[head.place] for values in (labels.among_words, labels.unsure, labels.rests))
    color = on_white(paper_color(name), RESTING_OPACITY) if rests else paper_color(name)
    scores = zip(labels.scores.patterns, labels.table.score[head.place], strict=True)
    measured = ", ".join(f"{plain(pattern)} {score:.2f}" for pattern, score in scores if not np.isnan(score))
    does = statement(labels, head) + ", not sure" * bool(unsure) + ", rests on special tokens" * bool(rests)
    style = f"{_CELL};background:{color};color:{readable_on(color)}"
    title = f"{head.name}: {does}\n{measured}"
    return Markup('<td style="{}" title="{}">{}</td>').format(style, title, letter(name) + "?" * bool(unsure))


def _swatch(name: str) -> Markup:
    color = paper_color(name)
    style = f"display:inline-block;width:1.4em;text-align:center;background:{color};color:{readable_on(color)}"
    return Markup('<span style="{}">{}</span>').format(style, letter(name))


def _best(result: HeadScores) -> Iterator[Markup]:
    """The best heads of each pattern, with what scores are worth."""
    for pattern in result.scores.patterns:
        name = Markup("{} {}").format(_swatch(pattern), plain(pattern))
        if not len(result.order(pattern)):
            yield _line(Markup("{} {}").format(name, why_unscored(result, pattern)))
            continue
        yield _line(name)
        table = best_heads(result, pattern, _STRONGEST)
        yield Table(table.columns[:-1], [row[:-1] for row in table.rows]).html()
        yield _line(told_apart(result, pattern), _FAINT)


def _views(result: HeadScores) -> Markup:
    """The page of `report` in a frame of its own, which may run its scripts, save its table, and reach nothing else."""
    attention = result.attention
    if attention is None or len(attention.rows) > MOST_DRAWN or (attention.chosen and attention.chosen.heads):
        return Markup("")
    from attnscan.views.page.frame import PageOptions
    from attnscan.views.page.page import page

    made = page(result, PageOptions(size=_PAGE_SIZE))
    allowed = 'sandbox="allow-scripts allow-downloads" title="Every head"'
    frame = f'<iframe {allowed} style="{{}}" onload="{{}}" srcdoc="{{}}"></iframe>'
    return Markup(frame).format(_FRAME, _FOLLOW, made.html)

"""What a notebook shows of a result: HTML with inline styles, and nothing from elsewhere.

It needs no script, but for the page of `report` in a frame of its own where the attention was kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from markupsafe import Markup

from attnscan.results.behaviour import Labels
from attnscan.results.card import Cards
from attnscan.results.grid import Grid, Head
from attnscan.results.head_weights import MOST_DRAWN
from attnscan.results.heads import HeadScores
from attnscan.results.signature import Reading, Signature
from attnscan.safe_text import plain
from attnscan.views.behaviour import (
    kinds_of,
    statement,
    summary,
    token_lines,
    told_apart,
    why_unscored,
    why_unsure,
    worth,
)
from attnscan.views.palette import RESTING_OPACITY, letter, on_white, paper_color, readable_on, words
from attnscan.views.terminal.card import cards_view
from attnscan.views.terminal.parts import render

_STRONGEST = 5
_TABLE = "font:inherit;color:inherit;margin:0.5em 0;border-spacing:1px"
_CELL = "width:1.5em;height:1.5em;padding:0;text-align:center"
_LINE = "margin:0.2em 0"
_LEFT = "text-align:left;padding:0 1em 0 0"
_NUMBER = "text-align:right;padding:0 1em 0 0"
_FRAME = "width:100%;height:680px;border:0"
# The page says how tall it is, and its frame follows, to a screen or so, beyond which long lists scroll. It never
# shrinks: parts of the page take what height there is. Where a notebook runs no scripts, it scrolls.
_FOLLOW = (
    "window.addEventListener('message',e=>{if(e.source===this.contentWindow)"
    "this.style.height=Math.max(this.offsetHeight,Math.min(1300,Number(e.data.attnscan)||0))+'px'})"
)
_PAGE_SIZE = 1_000_000  # bytes: a notebook keeps what it shows
_FAINT = "opacity:0.65"


def classification_html(result: HeadScores) -> str:
    """The tokens, what every head does by kinds, and the map of all heads; a cell's tooltip has the head's scores."""
    notes = (Markup('<p style="{};{}">{}</p>').format(_LINE, _FAINT, plain(note)) for note in result.notes)
    title = _title(result.signature, result.scores.grid)
    return _whole((title, _tokens(result), _said(result), *_kinds(result.labels), *notes, _views(result)))


def ranking_html(result: HeadScores) -> str:
    """What every head does, if labels are there; then the best heads of each pattern, with what scores are worth."""
    title = _title(result.signature, result.scores.grid, result.signature.counts)
    styles = (_LEFT, _LEFT, *[_NUMBER] * 6)
    names = ("pattern", "head", "score", "95 % interval", "chance", "above chance", "n", "pairs")
    numbers = ("score", "interval", "chance", "above_chance", "n", "pairs")
    rows = [_row("th", zip(names, styles, strict=True))]
    for p, pattern in enumerate(result.scores.patterns):
        name = Markup("{} {}").format(_swatch(pattern), plain(pattern))
        if not len(result.order(pattern)):
            rows.append(_row("td", zip((name, why_unscored(result, pattern)), styles[:2], strict=True)))
            continue
        for head_number in result.order(pattern)[:_STRONGEST]:
            head = result.scores.grid[head_number]
            row = worth(result.table, (*head.place, p))
            texts = (name, head.name, *(row[number] for number in numbers))
            rows.append(_row("td", zip(texts, styles, strict=True)))
            name = Markup("")
        if told := told_apart(result, pattern):
            rows.append(Markup('<tr><td></td><td colspan="7" style="{};{}">{}</td></tr>').format(_LEFT, _FAINT, told))
    best = Markup('<table style="{}">{}</table>').format(_TABLE, Markup("").join(rows))
    return _whole((title, *((_said(result), *_kinds(result.labels)) if result.has_labels else ()), best))


def _kinds(labels: Labels) -> Iterator[Markup]:
    """What heads do in two sentences, by kinds with their strongest heads, and head by head on the map."""
    styles = (_LEFT, _LEFT, _NUMBER, _NUMBER, _LEFT)
    rows = [_row("th", zip(("", "kind", "heads", "average", "strongest heads"), styles, strict=True))]
    before = ""
    for group, kind in kinds_of(labels):
        of_kind = [(head, labels.numbers(kind.name, head).share) for head in kind.heads[:_STRONGEST]]
        strongest = ", ".join(f"{head.name} {share:.2f}" for head, share in of_kind)
        name = Markup("{} {}").format(_swatch(kind.name), words(kind.name))
        texts = ("" if group == before else group, name, str(len(kind.heads)), f"{kind.average:.2f}", strongest)
        rows.append(_row("td", zip(texts, styles, strict=True)))
        before = group
    yield Markup('<table style="{}">{}</table>').format(_TABLE, Markup("").join(rows))
    yield _map(labels)
    unsure = f"; ? {why_unsure(labels)}" if labels.unsure.any() else ""
    legend = f"Layers down, heads across; {letter('')} {words('')}; pale: rests on special tokens{unsure}."
    yield Markup('<p style="{};{}">{}</p>').format(_LINE, _FAINT, legend)


def cards_html(cards: Cards) -> str:
    """The cards as a terminal of 120 columns shows them."""
    return str(Markup('<pre style="line-height:1.2">{}</pre>').format(render(cards_view(cards, 120), 120)))


def _title(signature: Signature, grid: Grid, *more: str) -> Markup:
    reading = [str(signature.reading)] if signature.reading != Reading() else []
    details = ", ".join((f"{signature.device} {signature.dtype}", *reading, *more))
    return Markup('<p style="{}"><b>{}</b> {} = {} heads <span style="{}">{}</span></p>').format(
        _LINE, plain(signature.title), grid, len(grid), _FAINT, details
    )


def _whole(parts: Iterable[Markup]) -> str:
    return str(Markup('<div style="font-size:13px">{}</div>').format(Markup("").join(parts)))


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


def _tokens(result: HeadScores) -> Markup:
    """The units of each sentence in a line; a sentence's closing delimiter goes with it."""
    lines = []
    for name, tokens in token_lines(result).items():
        # isolated, so that a word from right to left leaves the words around it where they are
        marked = (
            Markup('<bdi style="{}">{}</bdi>').format(_FAINT if special else "", text) for text, special in tokens
        )
        lines.append(Markup('<p style="{}"><b>{}</b> {}</p>').format(_LINE, name, Markup(" ").join(marked)))
    return Markup("").join(lines)


def _said(result: HeadScores) -> Markup:
    return Markup('<p style="{}">{}</p>').format(_LINE, summary(result))


def _map(labels: Labels) -> Markup:
    """The layer x head grid of what every head does."""
    heads = labels.grid.shape[1]
    rows = [_row("th", (("", _CELL), *((str(head), _CELL) for head in range(heads))))]
    for row, layer in enumerate(labels.grid.numbers):
        cells = Markup("").join(_head(labels, labels.grid[row * heads + head]) for head in range(heads))
        rows.append(Markup('<tr><th style="{}">{}</th>{}</tr>').format(_CELL, layer, cells))
    return Markup('<table style="{}">{}</table>').format(_TABLE, Markup("").join(rows))


def _head(labels: Labels, head: Head) -> Markup:
    name, unsure = str(labels.among_words[head.place]), bool(labels.unsure[head.place])
    color = on_white(paper_color(name), RESTING_OPACITY) if labels.rests[head.place] else paper_color(name)
    scores = zip(labels.scores.patterns, labels.table.score[head.place], strict=True)
    measured = ", ".join(f"{plain(pattern)} {score:.2f}" for pattern, score in scores if not np.isnan(score))
    does = f"{statement(labels, head)}{', not sure' if unsure else ''}"
    rests = ", rests on special tokens" if labels.rests[head.place] else ""
    style = f"{_CELL};background:{color};color:{readable_on(color)}"
    title = f"{head.name}: {does}{rests}\n{measured}"
    return Markup('<td style="{}" title="{}">{}</td>').format(style, title, letter(name) + "?" * unsure)


def _swatch(name: str) -> Markup:
    color = paper_color(name)
    style = f"display:inline-block;width:1.4em;text-align:center;background:{color};color:{readable_on(color)}"
    return Markup('<span style="{}">{}</span>').format(style, letter(name))


def _row(tag: str, cells: Iterable[tuple[str, str]]) -> Markup:
    """A table's row of texts and their styles."""
    made = (Markup('<{} style="{}">{}</{}>').format(tag, style, text, tag) for text, style in cells)
    return Markup("<tr>{}</tr>").format(Markup("").join(made))

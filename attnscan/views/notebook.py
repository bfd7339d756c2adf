"""What a notebook shows of a result: HTML with inline styles, and nothing from elsewhere.

It needs no script, but for the page of `report` in a frame of its own where the attention was kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from markupsafe import Markup

from attnscan.results.classification import Classification
from attnscan.results.grid import Grid, Head
from attnscan.results.labels import Labels
from attnscan.results.ranking import Ranking
from attnscan.results.signature import Signature
from attnscan.safe_text import plain
from attnscan.views.palette import letter, mark, on_white, opacity, paper_color, readable_on
from attnscan.views.summary import (
    count_names,
    label_notes,
    label_rows,
    map_note,
    notes,
    pattern_rows,
    strongest_by,
    token_lines,
    told_apart,
    why_unscored,
    worth,
)

_STRONGEST = 5
_NAMED = 24  # heads of a pattern, at most
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
    "this.style.height=Math.max(this.offsetHeight,Math.min(1200,Number(e.data.attnscan)||0))+'px'})"
)
_PAGE_SIZE = 1_000_000  # bytes: a notebook keeps what it shows
_FAINT = "opacity:0.65"


def classification_html(result: Classification) -> str:
    """The tokens, the heads of each pattern, and the map of all heads; a cell's tooltip has the head's scores."""
    title = _title(result.signature, result.scores.grid)
    below = Markup("").join(
        Markup('<p style="{};{}">{}</p>').format(_LINE, _FAINT, note)
        for note in (*notes(result), map_note(result.mapped.labels))
    )
    parts = (title, _tokens(result), _patterns(result), below, _map(result.mapped.labels), _views(result))
    return _whole(parts)


def ranking_html(result: Ranking) -> str:
    """Which head does what, if labels are there: the counts, the map, how sure they are; then the best heads of each
    pattern, with what their scores are worth.
    """
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
            row = worth(result.scores.every_key, (*head.place, p))
            texts = (name, head.name, *(row[number] for number in numbers))
            rows.append(_row("td", zip(texts, styles, strict=True)))
            name = Markup("")
        if told := told_apart(result, pattern):
            rows.append(Markup('<tr><td></td><td colspan="7" style="{};{}">{}</td></tr>').format(_LEFT, _FAINT, told))
    best = Markup('<table style="{}">{}</table>').format(_TABLE, Markup("").join(rows))
    return _whole((title, *(_labels(result) if result.labels is not None else ()), best))


def _labels(result: Ranking) -> Iterator[Markup]:
    """How many heads follow each pattern over all pairs, and which; the map, and how sure both are."""
    counted = ((name, _NUMBER) for name in count_names(result))
    rows = [_row("th", (("pattern", _LEFT), *counted, ("which", _LEFT)))]
    for row in label_rows(result):
        name = Markup("{} {}").format(_swatch(row.pattern), plain(row.pattern))
        named = [head.name + "?" * unsure for head, unsure in row.heads]
        more = [f"and {len(named) - _NAMED} more"] if len(named) > _NAMED else []
        which = row.why_none or ", ".join(named[:_NAMED] + more)
        rows.append(_row("td", ((name, _LEFT), *((count, _NUMBER) for count in row.counts), (which, _LEFT))))
    yield Markup('<table style="{}">{}</table>').format(_TABLE, Markup("").join(rows))
    for line in (*label_notes(result), map_note(result.mapped)):
        yield Markup('<p style="{};{}">{}</p>').format(_LINE, _FAINT, line)
    yield _map(result.mapped)


def _title(signature: Signature, grid: Grid, *more: str) -> Markup:
    carried = ["by what heads carry"] if signature.norm else []
    details = ", ".join((f"{signature.device} {signature.dtype}", *carried, *more))
    return Markup('<p style="{}"><b>{}</b> {} = {} heads <span style="{}">{}</span></p>').format(
        _LINE, plain(signature.title), grid, len(grid), _FAINT, details
    )


def _whole(parts: Iterable[Markup]) -> str:
    return str(Markup('<div style="font-size:13px">{}</div>').format(Markup("").join(parts)))


def _views(result: Classification) -> Markup:
    """The page of `report` in a frame of its own, which may run its scripts, save its table, and reach nothing else."""
    if result.attention is None:
        return Markup("")
    from attnscan.views.page.frame import PageOptions
    from attnscan.views.page.page import page

    made = page(result, PageOptions(size=_PAGE_SIZE))
    allowed = 'sandbox="allow-scripts allow-downloads" title="Every head"'
    frame = f'<iframe {allowed} style="{{}}" onload="{{}}" srcdoc="{{}}"></iframe>'
    return Markup(frame).format(_FRAME, _FOLLOW, made.html)


def _tokens(result: Classification) -> Markup:
    """The units of each sentence in a line; a sentence's closing delimiter goes with it."""
    lines = []
    for name, tokens in token_lines(result).items():
        # isolated, so that a word from right to left leaves the words around it where they are
        marked = (
            Markup('<bdi style="{}">{}</bdi>').format(_FAINT if special else "", text) for text, special in tokens
        )
        lines.append(Markup('<p style="{}"><b>{}</b> {}</p>').format(_LINE, name, Markup(" ").join(marked)))
    return Markup("").join(lines)


def _patterns(result: Classification) -> Markup:
    """How many heads each pattern has, and the strongest ones."""
    counted = ((name, _NUMBER) for name in count_names(result))
    header = _row("th", (("pattern", _LEFT), *counted, (strongest_by(result), _LEFT)))
    rows = []
    for row in pattern_rows(result, result.scores.patterns, _STRONGEST):
        name = Markup("{} {}").format(_swatch(row.pattern), plain(row.pattern))
        strongest = " ".join(
            [
                *([row.why_none] if row.why_none else []),
                ", ".join(f"{h.name} {score:.2f}" for h, score in row.strongest),
            ]
        )
        rows.append(_row("td", ((name, _LEFT), *((count, _NUMBER) for count in row.counts), (strongest, _LEFT))))
    return Markup('<table style="{}">{}{}</table>').format(_TABLE, header, Markup("").join(rows))


def _map(labels: Labels) -> Markup:
    """The layer x head grid of content labels, paler and in small letters where a head rests on delimiters."""
    layers, heads = labels.scores.grid.shape
    rows = [_row("th", (("", _CELL), *((str(head), _CELL) for head in range(heads))))]
    for layer in range(layers):
        cells = Markup("").join(_head(labels, Head(layer, head)) for head in range(heads))
        rows.append(Markup('<tr><th style="{}">{}</th>{}</tr>').format(_CELL, layer, cells))
    return Markup('<table style="{}">{}</table>').format(_TABLE, Markup("").join(rows))


def _head(labels: Labels, head: Head) -> Markup:
    label, parking, unsure = (
        str(labels.content_label[head.place]),
        float(labels.parking[head.place]),
        labels.content_unsure[head.place],
    )
    color = on_white(paper_color(label), opacity(parking))
    scores = zip(labels.scores.patterns, labels.scores.every_key.score[head.place], strict=True)
    measured = ", ".join(f"{plain(pattern)} {score:.2f}" for pattern, score in scores if not np.isnan(score))
    sure = ", not sure" if unsure else ""
    tooltip = f"{head.name}: {plain(str(labels.label[head.place]))}, on words {plain(label)}{sure}\n{measured}"
    style = f"{_CELL};background:{color};color:{readable_on(color)}"
    text = mark(label, parking) + ("?" if unsure else "")
    return Markup('<td style="{}" title="{}">{}</td>').format(style, tooltip, text)


def _swatch(pattern: str) -> Markup:
    color = paper_color(pattern)
    style = f"display:inline-block;width:1.4em;text-align:center;background:{color};color:{readable_on(color)}"
    return Markup('<span style="{}">{}</span>').format(style, letter(pattern))


def _row(tag: str, cells: Iterable[tuple[str, str]]) -> Markup:
    """A table's row of texts and their styles."""
    made = (Markup('<{} style="{}">{}</{}>').format(tag, style, text, tag) for text, style in cells)
    return Markup("<tr>{}</tr>").format(Markup("").join(made))

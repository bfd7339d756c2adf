"""The picture of `syntax`: what each head follows, and how often the best head of each relation is right."""

from __future__ import annotations

import numpy as np

from attnscan.results.grid import Head
from attnscan.results.intervals import half_width
from attnscan.results.syntax import DEPENDENT, FEW, FEWEST, HEAD, Row, Syntax
from attnscan.results.terms import counted
from attnscan.views.palette import INK, SYNTAX_COLORS, syntax_opacity
from attnscan.views.pictures.lettering import shortened, width_of, wrapped
from attnscan.views.pictures.map import (
    LARGEST_CELL,
    HeadCell,
    check_heads_can_be_seen,
    draw_heads,
    letter_size,
    ruler_width,
    rulers,
)
from attnscan.views.pictures.sheet import FAINT, LINE, LONGEST, MARGIN, Box, KeyEntry, Sheet, draw_key, height_of

_PITCH = 0.182  # inches, of a relation's row
_BARS = 0.095, 0.06  # how high: the best head, the best fixed rule
_OFFSET = "#8a8a8a"
_GAP = 0.12  # between the two directions
_MOST_MAP = 0.45  # of the longest picture's height


def syntax_sheet(result: Syntax, width: float) -> Sheet:
    """The map of heads by what they follow; below it bars of accuracy by relation, one column a direction."""
    inner, (layers, heads) = width - 2 * MARGIN, result.grid.shape
    left = ruler_width(layers)
    side = min(LARGEST_CELL, (width - left - MARGIN) / heads, _MOST_MAP * LONGEST / layers)
    check_heads_can_be_seen(side, result.grid, width, "syntax --treebank FILE")
    grid = Box(max(left, (width - side * heads) / 2), MARGIN + 2 * LINE, side * heads, side * layers)
    title = wrapped(
        f"Map: what heads follow in {counted(result.sentences, 'sentence')}, {result.signature.reading}.", inner
    )
    key = _map_key(result, lettered=letter_size(side) is not None)
    titled = grid.y + grid.height + 0.07
    keyed = titled + LINE * len(title) + 0.03
    bars = keyed + height_of(key, inner) + 0.08
    relations = _relations(result)
    about, bars_key = wrapped(_about(result), inner), _bars_key()
    few = f"Below {FEW} sentences, results may not hold in other texts."
    notes = wrapped(few, inner) if result.sentences < FEW else []
    top, below = bars + len(about) * LINE, 0.0
    if relations:
        top, below = top + 1.2 * LINE, 1.3 * LINE + height_of(bars_key, inner)
    room = max(1, int((LONGEST - top - below - LINE * len(notes) - MARGIN) / _PITCH))
    if len(relations) > room:
        notes += wrapped(f"{room} of {len(relations)} relations: attnscan syntax --all has all.", inner)
    relations = relations[:room]
    bottom = top + _PITCH * len(relations)
    sheet = Sheet(width, bottom + below + LINE * len(notes) + MARGIN)
    rulers(sheet, grid, result.grid)
    draw_heads(sheet, grid, result.grid, lambda head: _cell(result.letter(head)))
    sheet.lines(title, titled)
    draw_key(sheet, key, keyed)
    sheet.lines(about, bars)
    if relations:
        _columns(sheet, result, relations, top)
        draw_key(sheet, bars_key, bottom + 1.3 * LINE)
    sheet.lines(notes, bottom + below, FAINT)
    return sheet


def _cell(mark: str) -> HeadCell:
    return SYNTAX_COLORS[mark.upper()], syntax_opacity(mark), mark


def _map_key(result: Syntax, *, lettered: bool) -> list[KeyEntry]:
    """What letters and colours say, and how many heads have each."""
    marks = [result.letter(head) for head in result.grid]
    entries = []
    for said in result.legend():
        color, opacity, mark = _cell(said[0])
        if count := marks.count(mark):
            entries.append(KeyEntry(f"{said[2:]} ({count})", color, opacity, mark))
    return entries if lettered else [*entries, KeyEntry("no room for letters: --width gives more")]


def _about(result: Syntax) -> str:
    if not _relations(result):
        return f"No relation is in {FEWEST} sentences, so that none has an accuracy."
    held = "; dot: that head in the second treebank" if result.held is not None else ""
    return f"Accuracy: how often the most attended other word is the right one, {result.signature.reading}{held}."


def _bars_key() -> list[KeyEntry]:
    return [
        KeyEntry("best head, in its kind's colour", SYNTAX_COLORS["S"]),
        KeyEntry("best fixed rule", _OFFSET),
        KeyEntry("line: its gain over the distance, 95 %"),
        KeyEntry("*: it holds by Holm"),
    ]


def _relations(result: Syntax) -> list[str]:
    """Those with an accuracy: what states a head first, then by the best head's gain."""
    best: dict[str, tuple[bool, float]] = {}
    for number, row in enumerate(result.rows):
        if len(order := result.order(number)):
            place = (*result.grid[int(order[0])].place, number)
            worth = bool(result.stated[place]), float(np.nan_to_num(result.gain[place]))
            best[row.relation] = max(worth, best.get(row.relation, worth))
    return sorted(best, key=lambda relation: best[relation], reverse=True)


def _columns(sheet: Sheet, result: Syntax, relations: list[str], top: float) -> None:
    """A row for each relation, with its name, and bars in both directions."""
    named = min(0.3 * sheet.width, max(map(width_of, relations))) + 0.06
    head_name = width_of("00-00*") + 0.04
    wide = (sheet.width - 2 * MARGIN - named - _GAP) / 2
    for i, relation in enumerate(relations):
        sheet.text(MARGIN, top + (i + 0.45) * _PITCH, shortened(relation, named - 0.06))
    for column, (direction, title) in enumerate(((HEAD, "word → head"), (DEPENDENT, "head → word"))):
        x = MARGIN + named + column * (wide + _GAP)
        box = Box(x, top, wide - head_name, _PITCH * len(relations))
        sheet.text(x, top - 0.6 * LINE, shortened(title, wide))
        for value in (0, 0.5, 1) if box.width > 4 * width_of("0.5") else (0, 1):
            at = box.x + value * box.width
            sheet.line([at, at], [box.y, box.y + box.height], "#d9d9d9", 0.5)
            sheet.text(at, box.y + box.height + 0.6 * LINE, f"{value:g}", align="center")
        for i, relation in enumerate(relations):
            if (row := Row(relation, direction)) in result.rows:
                _row(sheet, result, result.rows.index(row), Box(box.x, top + i * _PITCH, box.width, _PITCH))


def _row(sheet: Sheet, result: Syntax, row: int, box: Box) -> None:
    """The two bars of a relation in a direction, and the best head's name and interval."""
    order = result.order(row)
    if not len(order):
        sheet.text(box.x + 0.02, box.y + 0.45 * _PITCH, shortened("too few", box.width), color=FAINT)
        return
    head: Head = result.grid[int(order[0])]
    place = (*head.place, row)
    values = result.accuracy[place], result.of_rows.rule_accuracy[row]
    color, opacity, _ = _cell(result.rows[row].letter)
    y = box.y + 0.01
    for value, height, (shade, seen) in zip(values, _BARS, ((color, opacity), (_OFFSET, 1)), strict=True):
        sheet.box(Box(box.x, y, box.width * float(np.nan_to_num(value)), height), shade, seen)
        y += height
    middle = box.y + 0.01 + _BARS[0] / 2
    half = half_width(result.se[place], max(2, result.clusters))
    if not np.isnan(half):
        ends = np.clip([values[0] - half, values[0] + half], 0, 1)
        sheet.line(list(box.x + box.width * ends), [middle, middle], INK, 0.8)
    if not np.isnan(held := result.of_held("accuracy")[place]):
        sheet.line([box.x + box.width * held], [middle], INK, marker="o")
    text = head.name + "*" * bool(result.holds[place])
    sheet.text(box.x + box.width + 0.08, box.y + 0.45 * _PITCH, text)

"""Workbooks as pandas, openpyxl, XlsxWriter and LibreOffice write them, and what is to be read of each."""

from __future__ import annotations

import io
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import xlsxwriter

from attnscan.errors import PairsError
from attnscan.inputs.columns import FileReading
from attnscan.inputs.pairs import Pair, read_pairs

SOFFICE = shutil.which("soffice")

Rows = Sequence[Sequence[Any]]
AB, CD, EF = Pair("a cat", "sat"), Pair("c", "d"), Pair("e", "f")
TABLE: Rows = (("text1", "text2"), AB.texts, CD.texts)
ODD = (
    "_x000D_",
    "_x005F_",
    "x005F_",
    " a ",
    "=1+1",
    "#N/A",
    "007",
    "👩\u200d🚀",
    "\u202eabc",
    "a\tb",
    "a\nb",
    "<b>&amp;",
)
BESIDE: Rows = (("id", "text"), (7, "a"), (datetime(2024, 1, 5, 8, 30), "b"), (True, "c"), (0.5, "d"), (None, "e"))
IDS = ("7", "2024-01-05 08:30:00", "True", "0.5", None)
_HEADING = "a heading of the sheet before"


@dataclass(frozen=True)
class Book:
    """A workbook."""

    name: str
    write: Callable[[Path], object]
    expected: tuple[Pair, ...] | str = (AB, CD)
    """Its pairs, or what is said of it or of its first bad row, in part."""
    note: str = ""
    """What is told of it, in part."""
    ids: tuple[str | None, ...] | None = None
    """What its column `id` says, if it is asked for."""
    resaved: tuple[Pair, ...] | str | None = None
    """What is read once LibreOffice has saved it again, where that differs."""


def books() -> Iterator[Book]:
    """All that libraries of Python write."""
    yield Book("pandas", by_pandas)
    yield Book("pandas, with its index", partial(by_pandas, index=True))
    yield Book("pandas, down and to the right", partial(by_pandas, startrow=3, startcol=2))
    for by, write in (("openpyxl", by_openpyxl), ("XlsxWriter", by_xlsxwriter)):
        yield Book(f"a table, {by}", partial(write, TABLE))
        yield Book(f"cells far away, {by}", partial(write, TABLE, far=True), (AB, CD, EF))
        yield Book(
            f"numbers, dates and truths beside, {by}", partial(write, BESIDE), tuple(map(Pair, "abcde")), ids=IDS
        )
        for what, cell in (("number", 5), ("truth", True), ("date", datetime(2024, 1, 5))):
            rows = (*TABLE, ("e", cell))
            yield Book(f"a {what} for a sentence, {by}", partial(write, rows), "row 4: sentence B is not text")
        yield Book(f"no sentence, {by}", partial(write, (*TABLE, ("e", None))), "row 4: sentence B is missing")
        told = "its first visible sheet of cells is read, 'mine'"
        yield Book(f"a hidden sheet first, {by}", partial(write, TABLE, before="hidden"), note=told)
        charts = Book(f"charts first, {by}", partial(write, TABLE, before="charts"), note=told, resaved="is empty")
        yield charts  # LibreOffice has no sheets of charts: it puts the chart on one of cells
        yield Book(f"two sheets, {by}", partial(write, TABLE, behind=True), note="its first sheet is read, 'mine'")
    yield from _by_features()
    yield from _edited()


def _by_features() -> Iterator[Book]:
    """What one library alone writes as Excel does."""
    texts = [("text",), *((text,) for text in ODD)]
    yield Book("odd texts, XlsxWriter", partial(by_xlsxwriter, texts), tuple(map(Pair, ODD)))
    yield Book(
        "odd texts in cells, XlsxWriter", partial(by_xlsxwriter, texts, constant_memory=True), tuple(map(Pair, ODD))
    )
    control = [("text",), ("a cat\r",), ("b\x07",)]
    yield Book("control characters, XlsxWriter", partial(by_xlsxwriter, control), (Pair("a cat\r"), Pair("b\x07")))
    raw = [("text",), ("a cat_x000D_",), ("_x005F_x000d_ _x005f_",)]
    yield Book("escapes, openpyxl", partial(by_openpyxl, raw), (Pair("a cat\r"), Pair("_x000d_ _")))
    since_1904 = partial(by_xlsxwriter, BESIDE, date_1904=True)
    yield Book("days since 1904, XlsxWriter", since_1904, tuple(map(Pair, "abcde")), ids=IDS)
    yield Book(
        "a formula that was never computed, openpyxl",
        partial(by_openpyxl, [*TABLE, ("e", '="f"')]),
        "row 4: sentence B is missing",
        resaved=(AB, CD, EF),
    )
    features: dict[str, tuple[Callable[[Any, Any], object], tuple[Pair, ...] | str]] = {
        "rich text": (lambda bold, sheet: sheet.write_rich_string("A2", "a ", bold, "c", "at"), (AB, CD)),
        "a formula": (lambda _, sheet: sheet.write_formula("B3", '="d"', value="d"), (AB, CD)),
        "an error": (lambda _, sheet: sheet.write_formula("B3", "=NA()", value="#N/A"), "row 3: sentence B is missing"),
        "merged cells": (lambda bold, sheet: sheet.merge_range("A3:A4", "c", bold), (AB, CD)),
        "merged cells of two pairs": (
            lambda bold, sheet: sheet.merge_range("A2:A3", "c", bold),
            "row 3: sentence A is missing",
        ),
        "a hidden row and column": (
            lambda _, sheet: (
                sheet.set_row(2, options={"hidden": True}),
                sheet.set_column("B:B", options={"hidden": True}),
            ),
            (AB, CD),
        ),
    }
    for name, (change, expected) in features.items():
        yield Book(f"{name}, XlsxWriter", partial(by_xlsxwriter, TABLE, change=change), expected)


def _edited() -> Iterator[Book]:
    """What other programs write, or nobody should: XlsxWriter's table with something else in its parts."""
    sheet, texts, main = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml", "xl/workbook.xml"
    guide = ("<t>sat</t>", '<t>sat</t><rPh sb="0" eb="1"><t>KYATTO</t></rPh>')
    strict = [
        ("http://schemas.openxmlformats.org/spreadsheetml/2006/main", "http://purl.oclc.org/ooxml/spreadsheetml/main"),
        ("http://schemas.openxmlformats.org/officeDocument/2006/", "http://purl.oclc.org/ooxml/officeDocument/"),
    ]
    yield Book("phonetic guides", _changed({texts: [guide]}))
    yield Book("an extent that is wrong", _changed({sheet: [('ref="A1:B3"', 'ref="A1"')]}))
    yield Book("cells without places", _changed({sheet: [(f' r="{cell}"', "") for cell in ("A1", "B1", "A3", "B3")]}))
    yield Book("rows without numbers", _changed({sheet: [(f'<row r="{row}"', "<row") for row in "123"]}))
    yield Book("strict Open XML", _changed(dict.fromkeys((sheet, texts, main, "xl/_rels/workbook.xml.rels"), strict)))
    yield Book("paths from the top", _changed({"xl/_rels/workbook.xml.rels": [('Target="', 'Target="/xl/')]}))
    nothing = '<row r="4"><c r="A4" t="str"><f>""</f><v></v></c></row></sheetData>'
    yield Book("a formula that shows nothing", _changed({sheet: [("</sheetData>", nothing)]}))
    unsound = "is not a valid .xlsx file"
    laughs = "".join(f'<!ENTITY {after} "{f"&{before};" * 10}">' for before, after in pairwise("abcdefghij"))
    entities = f"<?xml version='1.0'?><!DOCTYPE sst [<!ENTITY a 'aaaaaaaaaa'>{laughs}]>"
    bomb = f"{entities}<x:sst xmlns:x='x'><x:si><x:t>&j;</x:t></x:si></x:sst>"
    yield Book("entities that grow", _changed({texts: [(None, bomb)]}), unsound)
    cells = "<x:worksheet xmlns:x='x'><x:row>" + "<x:c/>" * 600_000 + "</x:row></x:worksheet>"
    yield Book("a row of 600,000 cells", _changed({sheet: [(None, cells)]}), unsound)
    yield Book("a row beyond the last", _changed({sheet: [('<row r="3"', '<row r="1048577"')]}), unsound)
    yield Book("rows in disorder", _changed({sheet: [('<row r="3"', '<row r="2"')]}), unsound)
    yield Book("a text that is not there", _changed({sheet: [("<v>5</v>", "<v>6</v>")]}), unsound)
    yield Book(
        "no sheet", _changed({main: [('<sheet name="mine" sheetId="1" r:id="rId1"/>', "")]}), "no sheet of cells"
    )
    yield Book(
        "all hidden", _changed({main: [(' r:id="rId1"', ' state="veryHidden" r:id="rId1"')]}), "no sheet of cells"
    )
    password = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504)
    yield Book("a password", lambda path: path.write_bytes(password), "is an .xls file, or has a password")


def by_pandas(path: Path, **options: Any) -> None:
    """The table as a data frame saves itself."""
    pd.DataFrame(TABLE[1:], columns=TABLE[0]).to_excel(path, **{"index": False, **options})


def by_openpyxl(rows: Rows, path: Path, *, before: str = "", behind: bool = False, far: bool = False) -> None:
    """Rows on a sheet with others before or behind it, and with texts in its last row and column."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    if before == "hidden":
        book.create_sheet("first").append([_HEADING])
        book["first"].sheet_state = "hidden"
    if before == "charts":
        book.create_chartsheet("first").add_chart(openpyxl.chart.BarChart())
    sheet = book.create_sheet("mine")
    for row in rows:
        sheet.append(row)
    if far:
        sheet["XFD2"], sheet["A1048576"], sheet["B1048576"] = "far", *EF.texts
    if behind:
        book.create_sheet("last").append([_HEADING])
    book.active = sheet
    book.save(path)


def by_xlsxwriter(
    rows: Rows,
    path: Path,
    *,
    before: str = "",
    behind: bool = False,
    far: bool = False,
    change: Callable[[Any, Any], object] = lambda *_: None,
    **options: bool,
) -> None:
    """As `by_openpyxl`; `change` is given a bold format and the sheet."""
    settings = {"strings_to_formulas": False, "default_date_format": "d.m.yyyy hh:mm", **options}
    with xlsxwriter.Workbook(path, settings) as book:
        if before == "hidden":
            (first := book.add_worksheet("first")).write("A1", _HEADING)
            first.hide()
        charts = book.add_chartsheet("first") if before == "charts" else None
        sheet = book.add_worksheet("mine")
        sheet.activate()
        sheet.set_first_sheet()
        if charts is not None:
            (chart := book.add_chart({"type": "column"})).add_series({"values": "=mine!$A$1:$A$3"})
            charts.set_chart(chart)
        for number, row in enumerate(rows):
            sheet.write_row(number, 0, row)
        change(book.add_format({"bold": True}), sheet)
        if far:
            sheet.write("XFD2", "far")
            sheet.write_row("A1048576", EF.texts)
        if behind:
            book.add_worksheet("last").write("A1", _HEADING)


def _changed(changes: dict[str, list[tuple[str | None, str]]]) -> Callable[[Path], None]:
    """The table with some texts replaced in some parts; a text of None is the whole part."""

    def write(path: Path) -> None:
        by_xlsxwriter(TABLE, path)
        with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as old:
            parts = {name: old.read(name).decode() for name in old.namelist()}
        for name, replaced in changes.items():
            for before, after in replaced:
                changed = after if before is None else parts[name].replace(before, after)
                parts[name] = changed
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
            for name, text in parts.items():
                new.writestr(name, text)

    return write


def by_libreoffice(directory: Path) -> Iterator[tuple[Book, Path]]:
    """The sound ones as LibreOffice saves them again."""
    sound, saved = dict[Path, Book](), directory / "saved"
    saved.mkdir()
    for number, book in enumerate(books()):
        if not isinstance(book.expected, str) or book.expected.startswith("row "):
            book.write(path := directory / f"{number}.xlsx")
            sound[path] = book
    assert SOFFICE is not None
    profile = f"-env:UserInstallation=file://{directory}/profile"
    command = [SOFFICE, "--headless", profile, "--convert-to", "xlsx", "--outdir", str(saved), *map(str, sound)]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    for path, book in sound.items():
        expected = book.expected if book.resaved is None else book.resaved
        yield replace(book, name=f"{book.name}, LibreOffice", expected=expected), saved / path.name


def holds(book: Book, path: Path) -> bool:
    """Whether a workbook was read. Raises: AssertionError if it was read or refused otherwise than expected."""
    expected = book.expected
    notes, bad = list[str](), list[PairsError]()
    try:
        records = list(read_pairs([str(path)], FileReading(id=book.ids and "id"), bad.append, notes.append))
    except PairsError as error:
        bad, records = [error], []
    if isinstance(expected, str):
        assert bad and expected in bad[0].what, f"{book.name}: {bad or records}"
        assert all(error.remedy and str(error).isprintable() for error in bad), bad
        return False
    assert not bad and tuple(record.pair for record in records) == expected, f"{book.name}: {bad or records}"
    assert book.ids is None or tuple(record.place.id for record in records) == book.ids, records
    assert any(book.note in note for note in notes) or (not book.note and not notes), f"{book.name}: {notes}"
    return True

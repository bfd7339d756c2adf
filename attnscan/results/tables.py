"""Results -> bytes: CSV, TSV, JSON, JSON lines, Markdown, Parquet, Excel. The one place where numbers are rounded."""

from __future__ import annotations

import io
import json
import math
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from attnscan.errors import OutputError, needs
from attnscan.safe_text import json_plain, plain

if TYPE_CHECKING:
    import pandas as pd

Format = Literal["table", "csv", "tsv", "json", "jsonl", "markdown", "parquet", "xlsx"]
DECIMALS = 6
MOST_ROWS = 1_048_576  # of a sheet, the names of columns included
LONGEST_TEXT = 32_767  # UTF-16 units in a cell of a workbook
_FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_NO_OPERANDS = frozenset(string.punctuation + " ") - frozenset('_\\"')
_NUMBER = re.compile(r"-[0-9]+(\.[0-9]+)?")
_LITERAL = 127  # characters, each of at most two UTF-16 units: Excel takes 255 of these in one literal
_NOT_XML = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MEASURED = 1000  # rows that a column's width is taken from


def of_kinds(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables of an encoder-decoder's kinds of attention as one, told by the column `kind`; one alone as it is."""
    if len(frames) == 1:
        return frames[0]
    import pandas as pd

    named = [frame if "kind" in frame else frame.assign(kind="encoder") for frame in frames]
    together = pd.concat([frame.drop(columns="kind") for frame in named], ignore_index=True)
    together.insert(list(together.columns).index("layer"), "kind", [kind for frame in named for kind in frame["kind"]])
    together.attrs = {str(frame["kind"].iloc[0]): frame.attrs for frame in named}
    return together


def render(frame: pd.DataFrame, format: Format, *, decimal_comma: bool = False) -> bytes:
    """A table as the bytes of a file. Text is UTF-8 with Unix line ends.

    Floats have six decimals, and NaN is an empty cell (null in JSON). With `decimal_comma`, CSV and TSV have a comma
    for the point in numbers, and CSV a semicolon between cells.
    Raises: OutputError if a format's library is not installed, or the table is too large for a workbook.
    """
    check_library(format)
    match format:
        case "parquet":
            content: bytes = frame.to_parquet(index=False)
            return content
        case "xlsx":
            return workbook(frame)
        case "csv" | "tsv":
            text = _delimited(frame, "\t" if format == "tsv" else ";" if decimal_comma else ",", decimal_comma)
        case "markdown":
            text = _markdown(frame)
        case "jsonl":
            text = json_plain("".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in _records(frame)))
        case _:
            text = _json(frame)
    return text.encode()


def render_object(value: Mapping[Any, Any]) -> bytes:
    """A JSON object, an entry a line, its numbers rounded as everywhere."""
    entries = (f"{json.dumps(name)}: {json.dumps(_rounded(item), ensure_ascii=False)}" for name, item in value.items())
    return json_plain("{\n" + ",\n".join(entries) + "\n}\n").encode()


def check_library(format: str) -> None:
    """Raises: OutputError if what writes a format is not installed: to be told before a run."""
    if format == "parquet":
        with needs("writing Parquet needs pyarrow", "parquet"):
            import pyarrow  # noqa: F401
    if format == "xlsx":
        with needs("writing an Excel workbook needs xlsxwriter", "excel"):
            import xlsxwriter  # noqa: F401


def safe_cell(text: str) -> str:
    r"""A text cell that no terminal obeys, and that a spreadsheet shows as it is.

    What would be a formula is written as one that gives the text: any other mark before it would be shown as well.
    A sign alone is none, nor is a negative number, nor are signs that stand for nothing one can calculate with.

    >>> safe_cell("model"), safe_cell("-"), safe_cell("a\x1b[0m"), safe_cell("-abc"), safe_cell('="x"&A1')
    ('model', '-', 'a\\x1b[0m', '="-abc"', '="=""x""&A1"')
    >>> [safe_cell(text) for text in ("==", "+49", " @SUM(A1)", "--", "-0.25")]
    ['="=="', '="+49"', '=" @SUM(A1)"', '--', '-0.25']
    """
    shown = plain(text)
    bare = shown.strip()
    calculates = bare.startswith("=") or not _NO_OPERANDS.issuperset(bare[1:])
    if len(bare) < 2 or not bare.startswith(_FORMULA_STARTS) or _NUMBER.fullmatch(bare) or not calculates:
        return shown
    parts = (shown[at : at + _LITERAL].replace('"', '""') for at in range(0, len(shown), _LITERAL))
    return "=" + "&".join(f'"{part}"' for part in parts)


def _delimited(frame: pd.DataFrame, separator: str, decimal_comma: bool) -> str:
    texts = frame.select_dtypes(include=["object", "string"]).columns
    safe = frame.assign(**{name: frame[name].map(safe_cell, na_action="ignore") for name in texts})
    decimal = "," if decimal_comma else "."
    return safe.to_csv(index=False, sep=separator, decimal=decimal, float_format=f"%.{DECIMALS}f", lineterminator="\n")


def _values(frame: pd.DataFrame) -> pd.DataFrame:
    """A table of Python's own values, with None for what is missing."""
    return frame.astype(object).where(frame.notna(), None)


def _rounded(value: Any) -> Any:
    """A value with every number in it rounded, or None for NaN, however deep."""
    match value:
        case dict():
            return {str(name): _rounded(item) for name, item in value.items()}
        case list() | tuple():
            return [_rounded(item) for item in value]
        case float():
            return None if math.isnan(value) else round(value, DECIMALS)
        case _:
            return value


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [_rounded(row) for row in _values(frame).to_dict(orient="records")]


def _json(frame: pd.DataFrame) -> str:
    """What `attrs` say of the result, then a record for each head, on a line of its own."""
    about = json.dumps(_rounded(frame.attrs), ensure_ascii=False, indent=2).removesuffix("}").rstrip()
    rows = ",\n".join(f"    {json.dumps(record, ensure_ascii=False)}" for record in _records(frame))
    return json_plain(f'{about}{"," if frame.attrs else ""}\n  "{_rows_of(frame)}": [\n{rows}\n  ]\n}}\n')


def _rows_of(frame: pd.DataFrame) -> str:
    return "heads" if "head" in frame.columns else "rows"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.{DECIMALS}f}" if isinstance(value, float) else str(value)


def _markdown(frame: pd.DataFrame) -> str:
    def line(cells: Sequence[Any]) -> str:
        texts = (plain(_cell(cell)).replace("\\", r"\\").replace("|", r"\|") for cell in cells)
        return f"| {' | '.join(texts)} |\n"

    rule = " | ".join("---:" if kind.kind in "if" else "---" for kind in frame.dtypes)
    rows = map(line, _values(frame).itertuples(index=False, name=None))
    return line(list(frame.columns)) + f"| {rule} |\n" + "".join(rows)


def workbook(frame: pd.DataFrame) -> bytes:
    """The bytes of an .xlsx file: the rows, and on a second sheet what `attrs` say of them, a line a value.

    A number is a number in full precision, text is text whatever it begins with, what is missing is empty. Rows are
    written one by one, so that memory holds the compressed file and no more. The same table gives the same bytes.
    Raises: OutputError if Excel has no room for it, or the disk.
    """
    if len(frame) + 1 > MOST_ROWS:
        what = f"{len(frame):,} rows are more than a sheet of a workbook holds, {MOST_ROWS - 1:,}"
        raise OutputError(what, "write .csv or .parquet, or take fewer heads")
    from xlsxwriter.exceptions import XlsxFileError

    try:
        with TemporaryDirectory() as place:
            return _workbook(frame, place)
    except (OSError, XlsxFileError) as error:
        cause = error.args[0] if isinstance(error, XlsxFileError) and error.args else error
        remedy = "free some space, or set TMPDIR"
        raise OutputError(f"cannot write the workbook: {getattr(cause, 'strerror', None) or cause}", remedy) from None


def _workbook(frame: pd.DataFrame, place: str) -> bytes:
    """The workbook; its sheets lie in a folder meanwhile."""
    import pandas as pd
    import xlsxwriter

    book = xlsxwriter.Workbook(content := io.BytesIO(), {"constant_memory": True, "tmpdir": place})
    book.set_properties({"created": datetime(1980, 1, 1)})  # the first date that an archive can name
    bold, decimals, quoted = map(book.add_format, ({"bold": True}, {"num_format": "0.000000"}, {"quote_prefix": True}))

    def write_text(sheet: Any, row: int, column: int, text: str, style: Any = None) -> int:
        """As text, also when somebody edits it: without the prefix, Excel would read a number or a formula anew."""
        text = _NOT_XML.sub(lambda match: plain(match.group()), text)
        if len(text.encode("utf-16-le")) > 2 * LONGEST_TEXT:
            what = f"a text of {len(text):,} characters is longer than a cell of a workbook holds, {LONGEST_TEXT:,}"
            raise OutputError(what, "write .csv or .parquet")
        if text.startswith("<r>") and text.endswith("</r>"):  # XlsxWriter takes that for XML of its own
            return int(sheet.write_rich_string(row, column, text[:1], quoted, text[1:], quoted))
        style = style or (None if text[:1].isalpha() else quoted)
        return int(sheet.write_string(row, column, text, style)) if text else 0

    def write_float(sheet: Any, row: int, column: int, value: float, _: Any = None) -> int:
        if math.isinf(value):  # no cell holds that number
            return write_text(sheet, row, column, str(value))
        return 0 if math.isnan(value) else int(sheet.write_number(row, column, value, decimals))

    tables = {_rows_of(frame): _values(frame)}
    if frame.attrs:
        tables["about"] = pd.DataFrame(list(entries(frame.attrs)), columns=["name", "value"], dtype=object)
    try:
        for title, table in tables.items():
            sheet = book.add_worksheet(title)
            sheet.add_write_handler(str, write_text)
            sheet.add_write_handler(float, write_float)
            for column, name in enumerate(table):
                longest = max(map(len, map(_cell, table[name].head(_MEASURED))), default=0)
                sheet.set_column(
                    column, column, min(max(8, len(str(name)), longest) + 3, 60)
                )  # 3 for the filter's button
            sheet.freeze_panes(1, 0)
            sheet.write_row(0, 0, table.columns, bold)
            for row, values in enumerate(table.itertuples(index=False, name=None), 1):
                sheet.write_row(row, 0, values)
            sheet.autofilter(0, 0, len(table), len(table.columns) - 1)
        book.close()
    finally:
        for sheet in book.worksheets():
            with suppress(OSError):  # of a full disk, which has been told
                sheet.row_data_fh.close()
    return content.getvalue()


def entries(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Each single value in something nested, and the way to it.

    >>> list(entries({"signature": {"model": "m", "by": "weight"}, "tokens": ["[CLS]", "cat"]}))
    [('signature.model', 'm'), ('signature.by', 'weight'), ('tokens.0', '[CLS]'), ('tokens.1', 'cat')]
    """
    within = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else None
    if within is None:
        yield name, value
        return
    for key, inner in within:
        yield from entries(inner, f"{name}.{key}" if name else str(key))

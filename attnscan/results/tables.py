"""Results -> bytes: CSV, TSV, JSON, JSON lines, Markdown, Parquet, Excel. The one place where numbers are rounded.

An Excel workbook has a table's rows on one sheet, what is known about them on another. Cells are typed: a number is a
number in full precision, text is text whatever it begins with, what is missing is empty. Rows are written one by one,
so that memory holds the compressed file and no more. The same table gives the same bytes.
"""

from __future__ import annotations

import io
import json
import math
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import chain, islice
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from attnscan.errors import OutputError, needs
from attnscan.safe_text import json_plain, plain

if TYPE_CHECKING:
    import pandas as pd

DECIMALS = 6

_FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_NO_OPERANDS = frozenset(string.punctuation + " ") - frozenset('_\\"')
_NUMBER = re.compile(r"-[0-9]+(\.[0-9]+)?")
_LITERAL = 127  # characters, each of at most two UTF-16 units: Excel takes 255 of these in one literal
Format = Literal["table", "csv", "tsv", "json", "jsonl", "markdown", "parquet", "xlsx"]

MOST_ROWS = 1_048_576  # of a sheet, the names of columns included
LONGEST_TEXT = 32_767  # UTF-16 units in a cell
_NUMBER_FORMAT = "0.000000"
_NOT_XML = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MADE = datetime(1980, 1, 1)  # the first date that an archive can name
_WIDTHS = (8, 60)  # of a column, in characters
_ROOM = 3  # beside the name, for the filter's button
_MEASURED = 1000  # rows that a column's width is taken from
_CHUNK = 10_000  # rows turned into Python's own numbers at a time


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
    if format == "parquet":
        return _parquet(frame)
    if format == "xlsx":
        return workbook(frame)
    point, separator = (",", ";") if decimal_comma else (".", ",")
    makers: dict[str, Callable[[pd.DataFrame], str]] = {
        "csv": partial(_csv, separator=separator, point=point),
        "tsv": partial(_csv, separator="\t", point=point),
        "json": _json,
        "jsonl": _jsonl,
        "markdown": _markdown,
    }
    return makers[format](frame).encode("utf-8")


def render_object(value: Mapping[Any, Any]) -> bytes:
    """A JSON object, an entry a line, its numbers rounded as everywhere."""
    entries = (f"{json.dumps(name)}: {json.dumps(_rounded(item), ensure_ascii=False)}" for name, item in value.items())
    return json_plain("{\n" + ",\n".join(entries) + "\n}\n").encode("utf-8")


def check_library(format: str) -> None:
    """Raises: OutputError if what writes a format is not installed: to be told before a run."""
    if format == "parquet":
        with needs("writing Parquet needs pyarrow", "parquet"):
            import pyarrow  # noqa: F401
    if format == "xlsx":
        _check_xlsxwriter()


def safe_cell(text: str) -> str:
    r"""A text cell that no terminal obeys, and that a spreadsheet shows as it is.

    What would be a formula is written as one that gives the text: any other mark before it would be shown as well.

    >>> safe_cell("model"), safe_cell("-"), safe_cell("a\x1b[0m"), safe_cell("-abc"), safe_cell('="x"&A1')
    ('model', '-', 'a\\x1b[0m', '="-abc"', '="=""x""&A1"')
    """
    shown = plain(text)
    return _giving(shown) if _is_formula(shown) else shown


def _is_formula(text: str) -> bool:
    """Whether a spreadsheet would take a text for a formula: Excel more than what begins with an equals sign.

    A sign alone is none, nor is a negative number, nor are signs that stand for nothing one can calculate with.

    >>> [_is_formula(text) for text in ("=1", "==", "+49", "-abc", " @SUM(A1)", "=", "-", "--", "-0.25", "a=1")]
    [True, True, True, True, True, False, False, False, False, False]
    """
    bare = text.strip()
    if len(bare) < 2 or not bare.startswith(_FORMULA_STARTS) or _NUMBER.fullmatch(bare):
        return False
    return bare.startswith("=") or not _NO_OPERANDS.issuperset(bare[1:])


def text_of(cell: str) -> str:
    """The text that `safe_cell` made a formula of; any other cell as it is.

    >>> text_of('="=""x""&A1"'), text_of("model")
    ('="x"&A1', 'model')
    """
    if not cell.startswith('="'):
        return cell
    return re.sub('""|"&"', lambda quotes: '"' if quotes[0] == '""' else "", cell[2:-1])


def _giving(text: str) -> str:
    parts = (text[at : at + _LITERAL] for at in range(0, len(text), _LITERAL))
    return "=" + "&".join(f'"{part.replace(chr(34), chr(34) * 2)}"' for part in parts)


def _csv(frame: pd.DataFrame, separator: str, point: str) -> str:
    texts = frame.select_dtypes(include=["object", "string"]).columns
    safe = frame.assign(**{name: frame[name].map(safe_cell, na_action="ignore") for name in texts})
    text = safe.to_csv(
        index=False, sep=separator, decimal=point, float_format=f"%.{DECIMALS}f", lineterminator="\n", na_rep=""
    )
    assert isinstance(text, str)
    return text


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [_rounded(row) for row in _with_nan(frame).to_dict(orient="records")]


def _with_nan(frame: pd.DataFrame) -> pd.DataFrame:
    """A table with NaN for what a column of whole numbers lacks."""
    whole = frame.select_dtypes(include=["Int64"]).columns
    return frame.assign(**{name: frame[name].astype(object).fillna(math.nan) for name in whole})


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


def _json(frame: pd.DataFrame) -> str:
    """What `attrs` say of the result, then a record for each head, on a line of its own."""
    about = json.dumps(_rounded(frame.attrs), ensure_ascii=False, indent=2).removesuffix("}").rstrip()
    name = "heads" if "head" in frame.columns else "rows"
    rows = ",\n".join(f"    {json.dumps(record, ensure_ascii=False)}" for record in _records(frame))
    comma = "," if frame.attrs else ""
    return json_plain(f'{about}{comma}\n  "{name}": [\n{rows}\n  ]\n}}\n')


def _jsonl(frame: pd.DataFrame) -> str:
    return json_plain("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in _records(frame)))


def _markdown(frame: pd.DataFrame) -> str:
    def cell(value: Any) -> str:
        if isinstance(value, float):
            return "" if math.isnan(value) else f"{value:.{DECIMALS}f}"
        return plain(str(value)).replace("\\", "\\\\").replace("|", "\\|")

    def line(cells: list[str]) -> str:
        return f"| {' | '.join(cells)} |\n"

    rows = [line([cell(value) for value in row]) for row in _with_nan(frame).itertuples(index=False, name=None)]
    rule = ["---:" if kind.kind in "if" else "---" for kind in frame.dtypes]
    return line([cell(name) for name in frame.columns]) + line(rule) + "".join(rows)


def _parquet(frame: pd.DataFrame) -> bytes:
    check_library("parquet")
    content: bytes = frame.to_parquet(index=False)
    return content


def workbook(frame: pd.DataFrame) -> bytes:
    """The bytes of an .xlsx file: the rows, and what `attrs` say of them, a line a value, if they say anything.

    Raises: OutputError if Excel has no room for it, or XlsxWriter is not installed.
    """
    _check_xlsxwriter()
    if len(frame) + 1 > MOST_ROWS:
        raise OutputError(
            f"{len(frame):,} rows are more than a sheet of a workbook holds, {MOST_ROWS - 1:,}",
            "write .csv or .parquet, or take fewer heads",
        )
    from xlsxwriter.exceptions import XlsxFileError

    try:
        with TemporaryDirectory() as place:
            return _bytes(frame, place)
    except (OSError, XlsxFileError) as error:
        cause = error.args[0] if isinstance(error, XlsxFileError) and error.args else error
        remedy = "free some space, or set TMPDIR"
        raise OutputError(f"cannot write the workbook: {getattr(cause, 'strerror', None) or cause}", remedy) from None


def _bytes(frame: pd.DataFrame, place: str) -> bytes:
    """The workbook; its sheets lie in a folder meanwhile."""
    import xlsxwriter

    book = xlsxwriter.Workbook(content := io.BytesIO(), {"constant_memory": True, "tmpdir": place})
    book.set_properties({"created": _MADE})
    chunks = (frame.iloc[start : start + _CHUNK] for start in range(0, len(frame), _CHUNK))
    rows = (row for chunk in chunks for row in zip(*(_values(chunk[name]) for name in chunk), strict=True))
    try:
        _fill(book, "heads" if "head" in frame.columns else "rows", [str(name) for name in frame.columns], rows)
        if frame.attrs:
            _fill(book, "about", ["name", "value"], entries(frame.attrs))
        book.close()
    finally:
        for sheet in book.worksheets():
            with suppress(OSError):  # of a full disk, which has been told
                sheet.row_data_fh.close()
    return content.getvalue()


def _check_xlsxwriter() -> None:
    """Raises: OutputError if XlsxWriter is not installed."""
    with needs("writing an Excel workbook needs xlsxwriter", "excel"):
        import xlsxwriter  # noqa: F401


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


def _values(column: pd.Series[Any]) -> list[Any]:
    """A column as Python's own values, with None for what is missing from whole numbers."""
    return column.astype(object).where(column.notna(), None).tolist()


def _fill(book: Any, title: str, names: list[str], rows: Iterator[tuple[Any, ...]]) -> None:
    """Add a sheet: the names of its columns are bold, and stay in sight."""
    sheet, put = book.add_worksheet(title), _putting(book)
    first = list(islice(rows, _MEASURED))
    for column, name in enumerate(names):
        texts = (f"{row[column]:.6f}" if isinstance(row[column], float) else str(row[column]) for row in first)
        width = max(_WIDTHS[0], len(name), *map(len, texts)) + _ROOM
        sheet.set_column(column, column, min(width, _WIDTHS[1]))
    sheet.freeze_panes(1, 0)
    sheet.write_row(0, 0, names, book.add_format({"bold": True}))
    last = 0
    for last, row in enumerate(chain(first, rows), 1):
        for column, value in enumerate(row):
            put(sheet, last, column, value)
    sheet.autofilter(0, 0, last, len(names) - 1)


def _putting(book: Any) -> Callable[[Any, int, int, Any], None]:
    """What writes a value into a cell: a text as text, also when somebody edits it, and nothing for what is missing.

    Raises: OutputError for a text that is too long for a cell.
    """
    decimals, quoted = book.add_format({"num_format": "0.000000"}), book.add_format({"quote_prefix": True})

    def put(sheet: Any, row: int, column: int, value: Any) -> None:
        if isinstance(value, str) or (isinstance(value, float) and math.isinf(value)):  # no cell holds that number
            text = _NOT_XML.sub(lambda match: plain(match.group()), str(value))
            if len(text.encode("utf-16-le")) > 2 * LONGEST_TEXT:
                what = f"a text of {len(text):,} characters is longer than a cell of a workbook holds, {LONGEST_TEXT:,}"
                raise OutputError(what, "write .csv or .parquet")
            if text.startswith("<r>") and text.endswith("</r>"):  # XlsxWriter takes that for XML of its own
                sheet.write_rich_string(row, column, text[:1], quoted, text[1:], quoted)
            elif text:  # without the prefix a number, a date or a formula would be read again when edited
                sheet.write_string(row, column, text, None if text[0].isalpha() else quoted)
        elif isinstance(value, float) and not math.isnan(value):
            sheet.write_number(row, column, value, decimals)
        elif not isinstance(value, float):
            sheet.write(row, column, value)

    return put

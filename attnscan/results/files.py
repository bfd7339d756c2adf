"""Results to files: tables as CSV, TSV, JSON, JSON lines, Markdown, Parquet, Excel; each written whole or not at all.

Tables of several kinds of attention become one. Numbers of files are rounded here alone. A pipe, a device or
`/dev/stdout` is written to as it stands.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar

from attnscan.errors import OutputError, needs
from attnscan.inputs.files import path_of, scheme_of, shown
from attnscan.results.grid import AttentionName
from attnscan.results.lazy import pd
from attnscan.text import json_plain, plain

Format = Literal["table", "csv", "tsv", "json", "jsonl", "markdown", "parquet", "xlsx"]
Picture = Literal["png", "svg", "pdf"]
"""Formats of pictures."""
DECIMALS = 6
_LONGEST_TEXT = 32_767  # characters of a workbook's cell
MOST_ROWS = 1_048_576  # of a sheet, the names of columns included
_LIBRARIES = {
    "parquet": ("pyarrow", "writing Parquet needs pyarrow", "parquet"),
    "xlsx": ("xlsxwriter", "writing an Excel workbook needs xlsxwriter", "excel"),
}
_FORMULA = re.compile(r"(?!-[0-9]+(\.[0-9]+)?$)(=.|[=+\-@＝＋－＠].*[^!#-/:-@\[\]^`{-~ ])")
_DESCRIPTORS = re.compile(r"/dev/(stdout|stderr|fd/\d+)")
_LITERAL = (
    127  # characters, each of at most two UTF-16 units: Excel takes 255 of these in one literal
)


def join_kinds(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables of an encoder-decoder's kinds of attention as one, with a column `kind`; a single table as it is."""
    if len(frames) == 1:
        return frames[0]
    labelled = [frame if "kind" in frame else frame.assign(kind="encoder") for frame in frames]
    together = pd.concat(labelled, ignore_index=True)
    together.insert(list(together.columns).index("layer"), "kind", together.pop("kind"))
    together.attrs = {str(frame["kind"].iloc[0]): frame.attrs for frame in labelled}
    return together


Result = TypeVar("Result", bound=Any)


class ResultsByKind(dict[AttentionName, Result]):
    """A result for each kind of attention of an encoder-decoder: `results["cross"]` is that of `attention="cross"`."""

    def to_frame(self, *columns: Any, **options: Any) -> pd.DataFrame:
        """The tables of all kinds as one, with a column `kind`; takes the arguments of each result's `to_frame`."""
        return join_kinds([result.to_frame(*columns, **options) for result in self.values()])


def render(frame: pd.DataFrame, format: Format, *, decimal_comma: bool = False) -> bytes:
    """A table as the bytes of a file: six decimals, NaN an empty cell. Raises: OutputError if it cannot be."""
    check_library(format)
    match format:
        case "parquet":
            return bytes(frame.to_parquet(index=False))
        case "xlsx":
            return _workbook(frame)
        case "csv" | "tsv":
            separator = "\t" if format == "tsv" else ";" if decimal_comma else ","
            style: dict[str, Any] = {
                "sep": separator,
                "decimal": "," if decimal_comma else ".",
                "lineterminator": "\n",
            }
            text = str(
                _with_texts(frame, safe_cell).to_csv(
                    index=False, float_format=f"%.{DECIMALS}f", **style
                )
            )
        case "markdown":
            text = _markdown(frame)
        case "jsonl":
            text = "".join(f"{_json(record)}\n" for record in _records(frame))
        case _:
            return render_object({**frame.attrs, _rows_of(frame): _records(frame)})
    return text.encode()


def render_object(value: Mapping[Any, Any]) -> bytes:
    """A JSON object, an entry a line and a list of objects one a line, its numbers rounded as everywhere."""
    entries = []
    for name, item in value.items():
        is_table = isinstance(item, list) and bool(item) and isinstance(item[0], dict)
        text = "[\n" + ",\n".join(map(_json, item)) + "\n]" if is_table else _json(item)
        entries.append(f"{_json(str(name))}: {text}")
    return ("{\n" + ",\n".join(entries) + "\n}\n").encode()


def check_library(format: str) -> None:
    """Raises: OutputError if the library for a format is not installed; called before a run."""
    if format in _LIBRARIES:
        library, need, extra = _LIBRARIES[format]
        with needs(need, extra):
            import_module(library)


def safe_cell(text: str) -> str:
    r"""A text cell that no terminal obeys, and that a spreadsheet shows as it is: a formula is written as its text.

    >>> [safe_cell(text) for text in ("model", "-", "a\x1b[0m", "-abc", '="x"&A1', "-0.25")]
    ['model', '-', 'a\\x1b[0m', '="-abc"', '="=""x""&A1"', '-0.25']
    """
    safe = plain(text)
    if not _FORMULA.match(safe.strip()):
        return safe
    parts = (safe[at : at + _LITERAL].replace('"', '""') for at in range(0, len(safe), _LITERAL))
    return "=" + "&".join(f'"{part}"' for part in parts)


def _with_texts(frame: pd.DataFrame, change: Callable[[str], str]) -> pd.DataFrame:
    """The table with all its texts changed."""
    columns = frame.select_dtypes(include=["object", "string"])
    return frame.assign(
        **columns.map(lambda value: change(value) if isinstance(value, str) else value)
    )


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


def _json(value: Any) -> str:
    return json_plain(json.dumps(_rounded(value), ensure_ascii=False))


def _records(frame: pd.DataFrame) -> list[dict[Any, Any]]:
    """The rows as Python's own values, with None for missing ones."""
    return frame.astype(object).where(frame.notna(), None).to_dict(orient="records")


def _rows_of(frame: pd.DataFrame) -> str:
    return "heads" if "head" in frame.columns else "rows"


def _markdown(frame: pd.DataFrame) -> str:
    def written(cell: Any) -> str:
        text = (
            "" if cell is None else f"{cell:.{DECIMALS}f}" if isinstance(cell, float) else str(cell)
        )
        return plain(text).replace("\\", r"\\").replace("|", r"\|")

    rule = ["---:" if kind.kind in "if" else "---" for kind in frame.dtypes]
    rows = [
        map(written, frame.columns),
        rule,
        *(map(written, record.values()) for record in _records(frame)),
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _workbook(frame: pd.DataFrame) -> bytes:
    """An .xlsx file: the rows with numbers in full precision, and on a second sheet what `attrs` say of them."""
    if len(frame) + 1 > MOST_ROWS:
        message = (
            f"{len(frame):,} rows are more than a sheet of a workbook holds, {MOST_ROWS - 1:,}"
        )
        raise OutputError(message, "write .csv or .parquet, or take fewer heads")
    if any(
        len(str(cell)) > _LONGEST_TEXT
        for cell in frame.select_dtypes(exclude="number").to_numpy().flat
    ):
        raise OutputError(
            f"a cell of a workbook holds {_LONGEST_TEXT:,} characters at most",
            "write .csv or .parquet",
        )
    sheets = {_rows_of(frame): frame}
    if frame.attrs:
        about = pd.json_normalize({str(name): value for name, value in frame.attrs.items()}).iloc[0]
        values = [str(list(value)) if isinstance(value, list | tuple) else value for value in about]
        sheets["about"] = pd.DataFrame(
            {"name": about.index, "value": pd.Series(values, dtype=object)}
        )
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    content = io.BytesIO()
    with pd.ExcelWriter(content, engine="xlsxwriter", engine_kwargs={"options": options}) as book:
        book.book.set_properties(
            {"created": datetime(1980, 1, 1)}
        )  # the first date that an archive can name
        for title, table in sheets.items():
            _with_texts(table, plain).to_excel(
                book, sheet_name=title, index=False, freeze_panes=(1, 0)
            )
            book.sheets[title].autofit()
    return content.getvalue()


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all. Raises: OutputError if it cannot be written."""
    check_writable(path)
    with explained(path):
        if is_stream(path):
            with path.open("ab") as stream:
                stream.write(content)
            return
        temporary = create_temporary(path)
        try:
            temporary.write_bytes(content)
            settle(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def is_stream(path: Path) -> bool:
    """Whether a path is a pipe, a device or an open descriptor such as `/dev/stdout`: what no file may replace."""
    with explained(path):
        is_special = path.exists() and not path.is_file() and not path.is_dir()
        return is_special or _DESCRIPTORS.fullmatch(str(path)) is not None


def create_temporary(path: Path) -> Path:
    """Create an empty file beside `path`, to be written and then renamed by `settle`, or removed. Raises: OSError."""
    target = path.resolve()  # through a link, to the file that it means
    temporary = target.with_name(f".{target.name[:50]}.{secrets.token_hex(4)}")
    temporary.touch(exist_ok=False)
    return temporary


def settle(temporary: Path, path: Path) -> None:
    """Rename a written temporary file to `path`: a crash leaves the older file or the whole new one."""
    target = path.resolve()
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())  # a name must not reach the disk before what it names
    if target.exists():
        temporary.chmod(target.stat().st_mode)
    temporary.replace(target)


def check_suffix(path: Path, suffix: str, option: str) -> None:
    """Raises: OutputError for a file by another suffix, likely one that was meant to be read; a stream needs none."""
    if path.suffix.lower() != suffix and not is_stream(path):
        raise OutputError(
            f"{option} writes a {suffix} file, and {path} is not one",
            f"name it {path.stem}{suffix}",
        )


def local_path(name: str) -> Path:
    """The file on this machine that a path or a `file://` stands for. Raises: OutputError for any other address."""
    scheme = scheme_of(name)
    if scheme not in ("", "file"):
        raise OutputError(
            f"cannot write {shown(name)}: it is not on this machine", "name a file on this machine"
        )
    return Path(path_of(name) if scheme else name)


def check_writable(path: Path) -> None:
    """Find out before a long run whether its result could be written. Raises: OutputError."""
    with explained(path):
        parent = path.resolve().parent
        if path.is_dir():
            raise OutputError(f"{path} is a directory", "name a file in it", path)
        if not is_stream(path) and not parent.is_dir():
            raise OutputError(
                f"cannot write {path}: there is no directory {parent}",
                "make it, or name another",
                path,
            )
        is_locked = path.exists() and not os.access(path, os.W_OK)
        if is_locked or not (
            is_stream(path) or os.access(parent, os.W_OK)
        ):  # it is written beside, then renamed
            raise OutputError(
                f"cannot write {path}: no permission to write there", "choose another place", path
            )


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of the system into OutputError, except for a pipe whose reader has closed it."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (OSError, RuntimeError) as error:  # the latter of a loop of links before Python 3.13
        reason = getattr(error, "strerror", None) or error
        raise OutputError(f"cannot write {path}: {reason}", "choose another place", path) from None

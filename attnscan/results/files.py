"""Tables to CSV, TSV, JSON, JSON lines, Markdown, Parquet and Excel, written whole or not at all.

Tables of several kinds of attention become one. Numbers of files are rounded here alone. A pipe, a
device or `/dev/stdout` is written to as it stands.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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
_DESCRIPTOR_FILES = Path("/proc/self/fd")
_DESCRIPTORS = re.compile(r"/dev/(stdout|stderr|fd/\d+)")
_LITERAL = 127
"""Characters, each of at most two UTF-16 units: Excel takes 255 of these in one literal."""


def join_kinds(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Join tables of an encoder-decoder's kinds of attention, with a column `kind`.

    A single table stays as it is.
    """
    if len(frames) == 1:
        return frames[0]
    with_kind = [frame if "kind" in frame else frame.assign(kind="encoder") for frame in frames]
    joined = pd.concat(with_kind, ignore_index=True)
    joined.insert(list(joined.columns).index("layer"), "kind", joined.pop("kind"))
    joined.attrs = {"schema": frames[0].attrs.get("schema")}
    for frame in with_kind:
        about = {name: value for name, value in frame.attrs.items() if name != "schema"}
        joined.attrs[str(frame["kind"].iloc[0])] = about
    return joined


Result = TypeVar("Result", bound=Any)


class ResultsByKind(dict[AttentionName, Result]):
    """A result for each kind of attention of an encoder-decoder.

    `results["cross"]` is that of `attention="cross"`.
    """

    def to_frame(self, *columns: Any, **options: Any) -> pd.DataFrame:
        """The tables of all kinds as one, with a column `kind`.

        Takes the arguments of each result's `to_frame`.
        """
        return join_kinds([result.to_frame(*columns, **options) for result in self.values()])


def render(
    frame: pd.DataFrame,
    format: Format,
    *,
    decimal_comma: bool = False,
    about: Mapping[str, Any] | None = None,
) -> bytes:
    """A table as the bytes of a file: six decimals, NaN an empty cell.

    JSON and workbooks hold its `attrs` and what else is to be said `about` it.
    Raises: OutputError if it cannot be.
    """
    check_library(format)
    match format:
        case "parquet":
            return bytes(frame.to_parquet(index=False))
        case "xlsx":
            return _workbook(frame, {**frame.attrs, **(about or {})})
        case "tsv":
            text = _delimited(frame, "\t", decimal_comma=decimal_comma)
        case "csv":
            text = _delimited(frame, ";" if decimal_comma else ",", decimal_comma=decimal_comma)
        case "markdown":
            text = _markdown(frame)
        case "jsonl":
            text = "".join(f"{_json(record)}\n" for record in _records(frame))
        case _:
            rows = {_rows_of(frame): _records(frame)}
            return render_object({**frame.attrs, **(about or {}), **rows})
    return text.encode()


def _delimited(frame: pd.DataFrame, separator: str, *, decimal_comma: bool) -> str:
    """A table as CSV or TSV."""
    cells = _with_texts(frame, safe_cell)
    text = cells.to_csv(
        index=False,
        sep=separator,
        decimal="," if decimal_comma else ".",
        float_format=f"%.{DECIMALS}f",
        lineterminator="\n",
    )
    return str(text)


def render_object(value: Mapping[Any, Any]) -> bytes:
    """A JSON object, an entry a line and of a list of objects one a line.

    Numbers are rounded, as everywhere.
    """
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
    r"""A text cell that no terminal obeys, and that a spreadsheet shows as it is.

    A formula is written as its text.

    >>> [safe_cell(text) for text in ("model", "-", "a\x1b[0m", "-abc", '="x"&A1', "-0.25")]
    ['model', '-', 'a\\x1b[0m', '="-abc"', '="=""x""&A1"', '-0.25']
    """
    safe = plain(text)
    if not _FORMULA.match(safe.strip()):
        return safe
    literals = []
    for start in range(0, len(safe), _LITERAL):
        part = safe[start : start + _LITERAL].replace('"', '""')
        literals.append(f'"{part}"')
    return "=" + "&".join(literals)


def _with_texts(frame: pd.DataFrame, change: Callable[[str], str]) -> pd.DataFrame:
    """The table with all its texts changed."""

    def changed(cell: Any) -> Any:
        return change(cell) if isinstance(cell, str) else cell

    return frame.assign(**frame.select_dtypes(include=["object", "string"]).map(changed))


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
    """A table of Markdown, with numbers on the right."""
    rows = [
        [_markdown_cell(name) for name in frame.columns],
        ["---:" if kind.kind in "if" else "---" for kind in frame.dtypes],
    ]
    rows += [_markdown_row(record) for record in _records(frame)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _markdown_row(record: Mapping[Any, Any]) -> list[str]:
    return [_markdown_cell(value) for value in record.values()]


def _markdown_cell(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:.{DECIMALS}f}" if isinstance(value, float) else str(value)
    return plain(text).replace("\\", r"\\").replace("|", r"\|")


def _workbook(frame: pd.DataFrame, about: Mapping[Any, Any]) -> bytes:
    """An .xlsx file: the rows in full precision, and on a second sheet what they are `about`."""
    _check_fits_sheet(frame)
    sheets = {_rows_of(frame): frame}
    if about:
        sheets["about"] = _about_sheet(about)
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
    content = io.BytesIO()
    with pd.ExcelWriter(content, engine="xlsxwriter", engine_kwargs={"options": options}) as book:
        # The first date that an archive can name, so that equal tables make equal files
        book.book.set_properties({"created": datetime(1980, 1, 1)})
        for title, table in sheets.items():
            cells = _with_texts(table, plain)
            cells.to_excel(book, sheet_name=title, index=False, freeze_panes=(1, 0))
            book.sheets[title].autofit()
    return content.getvalue()


def _check_fits_sheet(frame: pd.DataFrame) -> None:
    """Raises: OutputError for more rows than a sheet holds, or a longer text than a cell holds."""
    if len(frame) + 1 > MOST_ROWS:
        limit = f"more than a sheet of a workbook holds, {MOST_ROWS - 1:,}"
        message = f"{len(frame):,} rows are {limit}"
        raise OutputError(message, "write .csv or .parquet, or take fewer heads")
    cells = frame.select_dtypes(exclude="number").to_numpy()
    if any(len(str(cell)) > _LONGEST_TEXT for cell in cells.flat):
        message = f"a cell of a workbook holds {_LONGEST_TEXT:,} characters at most"
        raise OutputError(message, "write .csv or .parquet")


def _about_sheet(about: Mapping[Any, Any]) -> pd.DataFrame:
    """What a table is about, a name and a value a row.

    Values of an inner dictionary are named `outer.inner`.
    """
    flat = pd.json_normalize({str(name): value for name, value in about.items()}).iloc[0]
    values = [str(list(value)) if isinstance(value, list | tuple) else value for value in flat]
    return pd.DataFrame({"name": flat.index, "value": pd.Series(values, dtype=object)})


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
            temporary.path.write_bytes(content)
            settle(temporary, path)
        finally:
            temporary.discard()


def is_stream(path: Path) -> bool:
    """Whether a path is what no file may replace.

    A pipe, a device or an open descriptor such as `/dev/stdout`.
    """
    with explained(path):
        is_special = path.exists() and not path.is_file() and not path.is_dir()
        return is_special or _DESCRIPTORS.fullmatch(str(path)) is not None


@dataclass(frozen=True)
class Temporary:
    """A file to be written, which then gets its name by `settle`, or is removed."""

    path: Path
    """Where to write it."""
    descriptor: int | None = None
    """Of a file that has no name, and so is gone with a process that is killed."""

    def discard(self) -> None:
        """Remove it, unless it has got its name."""
        if self.descriptor is None:
            self.path.unlink(missing_ok=True)
        else:
            os.close(self.descriptor)


def create_temporary(path: Path) -> Temporary:
    """Create an empty file in the directory of `path`, without a name where the system can.

    Raises: OSError.
    """
    target = path.resolve()  # through a link, to the file that it means
    without_name = getattr(os, "O_TMPFILE", None)  # of Linux, and there not of every file system
    if without_name is not None and _DESCRIPTOR_FILES.is_dir():
        with suppress(OSError):
            descriptor = os.open(target.parent, without_name | os.O_RDWR, 0o666)
            return Temporary(_DESCRIPTOR_FILES / str(descriptor), descriptor)
    temporary = _beside(target)
    temporary.touch(exist_ok=False)
    return Temporary(temporary)


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name[:50]}.{secrets.token_hex(4)}")


def settle(temporary: Temporary, path: Path) -> None:
    """Give a written temporary file the name `path`.

    A crash leaves the older file or the whole new one.
    """
    target = path.resolve()
    with temporary.path.open("rb+") as file:
        os.fsync(file.fileno())  # a name must not reach the disk before what it names
    named = temporary.path
    if temporary.descriptor is not None:
        named = _beside(target)
        _link(temporary, named)
    try:
        if target.exists():
            named.chmod(target.stat().st_mode)
        named.replace(target)
    except OSError:
        named.unlink(missing_ok=True)
        raise


def _link(temporary: Temporary, named: Path) -> None:
    """Give a file without a name one. No name replaces another, so it is renamed at once."""
    directory = os.open(named.parent, os.O_RDONLY)
    try:
        # with a directory, the system follows the link of the descriptor
        os.link(temporary.path, named, src_dir_fd=directory, follow_symlinks=True)
    finally:
        os.close(directory)


def check_suffix(path: Path, suffix: str, option: str) -> None:
    """Refuse a file by another suffix, which is likely one that was meant to be read.

    A stream needs none. Raises: OutputError.
    """
    if path.suffix.lower() != suffix and not is_stream(path):
        message = f"{option} writes a {suffix} file, and {path} is not one"
        raise OutputError(message, f"name it {path.stem}{suffix}")


def local_path(name: str) -> Path:
    """The file on this machine that a path or a `file://` stands for.

    Raises: OutputError for any other address.
    """
    scheme = scheme_of(name)
    if scheme not in ("", "file"):
        message = f"cannot write {shown(name)}: it is not on this machine"
        raise OutputError(message, "name a file on this machine")
    return Path(path_of(name) if scheme else name)


def check_writable(path: Path) -> None:
    """Find out before a long run whether its result could be written. Raises: OutputError."""
    with explained(path):
        parent = path.resolve().parent
        if path.is_dir():
            raise OutputError(f"{path} is a directory", "name a file in it", path)
        if not is_stream(path) and not parent.is_dir():
            message = f"cannot write {path}: there is no directory {parent}"
            raise OutputError(message, "make it, or name another", path)
        may_replace = not path.exists() or os.access(path, os.W_OK)
        # A file is written beside its place, then renamed
        may_write = is_stream(path) or os.access(parent, os.W_OK)
        if not (may_replace and may_write):
            message = f"cannot write {path}: no permission to write there"
            raise OutputError(message, "choose another place", path)


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

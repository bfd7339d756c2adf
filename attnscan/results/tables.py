"""Results -> bytes: CSV, TSV, JSON, JSON lines, Markdown, Parquet. The one place where numbers are rounded."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from attnscan.errors import needs
from attnscan.safe_text import json_plain, plain

if TYPE_CHECKING:
    import pandas as pd

DECIMALS = 6

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
Format = Literal["table", "csv", "tsv", "json", "jsonl", "markdown", "parquet"]


def render(frame: pd.DataFrame, format: Format) -> bytes:
    """A table as the bytes of a file. Text is UTF-8 with Unix line ends.

    Floats have six decimals, and NaN is an empty cell (null in JSON).
    Raises: OutputError if a format's library is not installed.
    """
    if format == "parquet":
        return _parquet(frame)
    makers: dict[str, Callable[[pd.DataFrame], str]] = {
        "csv": _csv,
        "tsv": partial(_csv, separator="\t"),
        "json": _json,
        "jsonl": _jsonl,
        "markdown": _markdown,
    }
    return makers[format](frame).encode("utf-8")


def render_object(value: dict[str, Any]) -> bytes:
    """A JSON object, an entry a line, its numbers rounded as everywhere."""
    entries = (f"{json.dumps(name)}: {json.dumps(_rounded(each), ensure_ascii=False)}" for name, each in value.items())
    return json_plain("{\n" + ",\n".join(entries) + "\n}\n").encode("utf-8")


def safe_cell(text: str) -> str:
    r"""A text cell that no spreadsheet runs as a formula and no terminal obeys.

    >>> safe_cell("=HYPERLINK(1)"), safe_cell("model"), safe_cell("a\x1b[0m")
    ("'=HYPERLINK(1)", 'model', 'a\\x1b[0m')
    """
    guarded = f"'{text}" if text.startswith(_FORMULA_STARTS) else text
    return plain(guarded)


def _csv(frame: pd.DataFrame, separator: str = ",") -> str:
    texts = frame.select_dtypes(include=["object", "string"]).columns
    safe = frame.assign(**{name: frame[name].map(safe_cell, na_action="ignore") for name in texts})
    text = safe.to_csv(index=False, sep=separator, float_format=f"%.{DECIMALS}f", lineterminator="\n", na_rep="")
    assert isinstance(text, str)
    return text


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [_rounded(row) for row in _with_nan(frame).to_dict(orient="records")]


def _with_nan(frame: pd.DataFrame) -> pd.DataFrame:
    """The same with NaN for what a column of whole numbers lacks."""
    whole = frame.select_dtypes(include=["Int64"]).columns
    return frame.assign(**{name: frame[name].astype(object).fillna(math.nan) for name in whole})


def _rounded(value: Any) -> Any:
    """The same with every number rounded, or None for NaN, however deep."""
    match value:
        case dict():
            return {str(name): _rounded(each) for name, each in value.items()}
        case list() | tuple():
            return [_rounded(each) for each in value]
        case float():
            return None if math.isnan(value) else round(value, DECIMALS)
        case _:
            return value


def _json(frame: pd.DataFrame) -> str:
    """What `attrs` say of the result, then a record for each head, on a line of its own."""
    about = json.dumps(frame.attrs, ensure_ascii=False, indent=2).removesuffix("}").rstrip()
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
    with needs("writing Parquet needs pyarrow", "parquet"):
        import pyarrow  # noqa: F401
    content: bytes = frame.to_parquet(index=False)
    return content

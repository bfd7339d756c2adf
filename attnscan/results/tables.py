"""Results -> bytes: CSV, TSV, JSON, JSON lines, Markdown, Parquet, Excel. The one place where numbers are rounded."""

from __future__ import annotations

import json
import math
import re
import string
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from attnscan.errors import needs
from attnscan.safe_text import json_plain, plain

if TYPE_CHECKING:
    import pandas as pd

DECIMALS = 6

_FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
_NO_OPERANDS = frozenset(string.punctuation + " ") - frozenset('_\\"')
_NUMBER = re.compile(r"-[0-9]+(\.[0-9]+)?")
_LITERAL = 127  # characters, each of at most two UTF-16 units: Excel takes 255 of these in one literal
Format = Literal["table", "csv", "tsv", "json", "jsonl", "markdown", "parquet", "xlsx"]


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
        from attnscan.results.workbook import workbook

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
        from attnscan.results.workbook import check_xlsxwriter

        check_xlsxwriter()


def safe_cell(text: str) -> str:
    r"""A text cell that no terminal obeys, and that a spreadsheet shows as it is.

    What would be a formula is written as one that gives the text: any other mark before it would be shown as well.

    >>> safe_cell("model"), safe_cell("-"), safe_cell("a\x1b[0m"), safe_cell("-abc"), safe_cell('="x"&A1')
    ('model', '-', 'a\\x1b[0m', '="-abc"', '="=""x""&A1"')
    """
    shown = plain(text)
    return _giving(shown) if is_formula(shown) else shown


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would take a text for a formula: Excel more than what begins with an equals sign.

    A sign alone is none, nor is a negative number, nor are signs that stand for nothing one can calculate with.

    >>> [is_formula(text) for text in ("=1", "==", "+49", "-abc", " @SUM(A1)", "=", "-", "--", "-0.25", "a=1")]
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

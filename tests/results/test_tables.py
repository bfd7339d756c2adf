"""What is written can be read back, rounded here and nowhere else, and is safe in a spreadsheet."""

import csv
import io
import json
import math
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.csv_cells import text_of

from attnscan.errors import OutputError
from attnscan.inputs.weights import SavedWeights
from attnscan.results.files import DECIMALS, MOST_ROWS, Format, render, safe_cell
from attnscan.scan.options import ScanOptions
from attnscan.scan.weights import classify_weights
from attnscan.text import plain

OPTIONS_PAGE = Path(__file__).parents[2] / "docs" / "commands" / "options.md"
NAN = math.nan
PATTERNS = (
    "next-word",
    "previous-word",
    "identical",
    "cross-sentence",
    "predictive",
    "delimiter",
    "bag-of-words",
)

texts = st.text(st.characters(codec="utf-8"))
starts = st.sampled_from(["", "=", "+", "-", "@", "\t", "\r", "\n", "|", '"', ",", "'"])
cells = st.builds(str.__add__, starts, texts)
formulas = st.builds(
    str.__add__, st.sampled_from("=+-@＝"), st.text('=+-@"&;A1_\\ ()é😀\n', max_size=400) | texts
)
examples = settings(deadline=None)


def two_heads(name: str = "saved.npz") -> pd.DataFrame:
    """One layer on `[CLS] a b [SEP]`: head 0 looks at the next token, head 1 at all four."""
    ahead = np.roll(np.eye(4, dtype=np.float32), 1, axis=1)
    attention = np.stack([ahead, np.full((4, 4), 0.25, np.float32)])[None]
    special = (True, False, False, True)
    saved = SavedWeights(attention, ("[CLS]", "a", "b", "[SEP]"), (0,) * 4, special, (False,) * 4)
    return classify_weights(saved, name, ScanOptions()).to_frame(PATTERNS)


def test_csv_of_classify_to_the_byte() -> None:
    assert render(two_heads(), "csv").decode() == (
        "model,layer,head,name,label,label_stays,among_words,share,average,"
        "next-word,previous-word,identical,cross-sentence,predictive,delimiter,bag-of-words,entropy\n"
        "saved.npz,0,0,L0H0,next-word,,next-word,1.000000,0.750000,1.000000,,,,,0.500000,0.500000,0.000000\n"
        "saved.npz,0,1,L0H1,,,,,,0.500000,0.500000,,,,0.500000,1.000000,1.386294\n"
    )


@pytest.mark.parametrize(("format", "separator"), [("csv", ","), ("tsv", "\t")])
@examples
@given(names=st.lists(cells, min_size=1))
def test_any_text_comes_back_safe(format: Format, separator: str, names: list[str]) -> None:
    frame = pd.DataFrame({"model": pd.Series(names, dtype=object), "layer": 0})
    content = render(frame, format)
    assert content.count(b"\n") == len(names) + 1
    assert b"\r" not in content
    _, *rows = csv.reader(io.StringIO(content.decode(), newline=""), delimiter=separator)
    assert rows == [[safe_cell(name), "0"] for name in names]


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        *(
            (text, f'="{text}"')
            for text in ("=1+1", "+49", "-1-2", "-based", "-😀", "@SUM(A1)", " =1", "＝1", "＠x")
        ),
        ("+\n", '="+\\n"'),
        ('=HYPERLINK("http://x","y")', '="=HYPERLINK(""http://x"",""y"")"'),
        ('="', '="="""'),
        ("=" + "x" * 299, '="=' + "x" * 126 + '"&"' + "x" * 127 + '"&"' + "x" * 46 + '"'),
        *(
            (each, each)
            for each in (
                "=",
                "+",
                "-",
                "@",
                "＝",
                "--",
                "-=",
                "+-",
                "@@",
                "- -",
                "-->",
                "-0.25",
                "-5",
            )
        ),
        ("\t=1", r"\t=1"),
        ("\r=1", r"\r=1"),
        *((each, each) for each in ("'=1", "a=1", "bert-base-uncased", "##s", "")),
    ],
)
def test_a_text_that_would_run_becomes_a_formula_that_gives_it(text: str, cell: str) -> None:
    assert safe_cell(text) == cell


@examples
@given(cells | formulas)
def test_every_text_comes_back_from_a_formula(text: str) -> None:
    r"""Literals of at most 255 units of UTF-16, with ampersands between; a number may stay."""
    cell = safe_cell(text)
    literal = '"(?:[^"]|"")*"'
    assert text_of(cell) == plain(text)
    assert (
        not cell.startswith("=")
        or cell.strip() == "="
        or re.fullmatch(f"={literal}(&{literal})*", cell)
    )
    assert all(len(part.encode("utf-16-le")) <= 2 * 257 for part in re.findall(literal, cell))
    if cell[:1] in ("+", "-", "@") and not re.fullmatch(r"-\d+(\.\d+)?", cell.strip()):
        assert not re.search(r'[\w"\\]', cell)


def test_pandas_has_the_texts_back_by_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["-", "--", "-abc", '="', '"&"', "=" + '"&' * 200, "a", "", "+1", "@x=" * 99]
    monkeypatch.chdir(tmp_path)
    Path("tokens.csv").write_bytes(render(pd.DataFrame({"token": texts, "score": 0.5}), "csv"))
    (code,) = re.findall(
        r"```python\n(.*?)```", OPTIONS_PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["table"]["token"].tolist() == texts


def test_numbers_with_a_comma() -> None:
    frame = pd.DataFrame(
        {"token": ["a;b", "a,b", "-x"], "score": [-0.5, 1e-7, NAN], "n": [-1, 2, 3]}
    )
    assert render(frame, "csv", decimal_comma=True).decode() == (
        'token;score;n\n"a;b";-0,500000;-1\na,b;0,000000;2\n"=""-x""";;3\n'
    )
    assert render(frame, "tsv", decimal_comma=True).decode().splitlines()[1] == "a;b\t-0,500000\t-1"


def test_heads_are_records_beside_what_the_result_says_of_itself() -> None:
    frame = two_heads()
    content = render(frame, "json")
    assert sum(line.startswith(b'{"model": "saved.npz"') for line in content.splitlines()) == 2
    read = json.loads(content)
    assert list(read) == [*frame.attrs, "heads"]
    assert {name: read[name] for name in frame.attrs} == json.loads(json.dumps(frame.attrs))
    assert [list(head) for head in read["heads"]] == [[*frame.columns]] * 2
    names = ["saved.npz", 0, 1, "L0H1", "", None, "", None, None]
    scores = [0.5, 0.5, None, None, None, 0.5, 1.0]
    assert [*read["heads"][1].values()] == [*names, *scores, 1.386294]


@pytest.mark.parametrize("format", ["json", "jsonl"])
@examples
@given(name=cells, values=st.lists(st.floats(allow_infinity=False), min_size=1))
def test_any_value_comes_back(format: Format, name: str, values: list[float]) -> None:
    frame = pd.DataFrame({"head": pd.Series([name] * len(values), dtype=object), "score": values})
    content = render(frame, format).decode()
    assert plain(content.replace("\n", "")) == content.replace("\n", "")
    read = (
        json.loads(content)["heads"]
        if format == "json"
        else list(map(json.loads, content.split("\n")[:-1]))
    )
    assert [each["head"] for each in read] == [name] * len(values)
    for each, value in zip(read, values, strict=True):
        assert (
            each["score"] is None if math.isnan(value) else each["score"] == round(value, DECIMALS)
        )


def test_a_markdown_table_to_the_byte() -> None:
    frame = pd.DataFrame({"model": ["m", "n"], "layer": [0, 11], "score": [0.5, NAN]})
    assert render(frame, "markdown").decode() == (
        "| model | layer | score |\n| --- | ---: | ---: |\n| m | 0 | 0.500000 |\n| n | 11 |  |\n"
    )


def test_a_text_stays_in_its_markdown_cell() -> None:
    cells = {"a|b": r"a\|b", "a\nb": r"a\\nb", "\\|": r"\\\|", "=1": "=1", "\x1b[1m": r"\\x1b[1m"}
    lines = render(pd.DataFrame({"model": [*cells]}), "markdown").decode().splitlines()
    assert lines[2:] == [f"| {cell} |" for cell in cells.values()]


def test_parquet_comes_back_unrounded() -> None:
    pytest.importorskip("pyarrow")
    frame = two_heads("=a,b\n")
    back = pd.read_parquet(io.BytesIO(render(frame, "parquet")))
    pd.testing.assert_frame_equal(back, frame)
    assert back["entropy"][1] == frame["entropy"][1] != round(frame["entropy"][1], DECIMALS)


def test_whole_numbers_stay_whole_where_one_is_missing() -> None:
    frame = pd.DataFrame({"set": ["x", "y"], "rank": pd.array([3, None], dtype="Int64")})
    assert render(frame, "csv") == b"set,rank\nx,3\ny,\n"
    assert render(frame, "jsonl") == b'{"set": "x", "rank": 3}\n{"set": "y", "rank": null}\n'
    assert json.loads(render(frame, "json"))["rows"] == [
        {"set": "x", "rank": 3},
        {"set": "y", "rank": None},
    ]
    assert render(frame, "markdown") == b"| set | rank |\n| --- | ---: |\n| x | 3 |\n| y |  |\n"
    assert pd.read_parquet(io.BytesIO(render(frame, "parquet")))["rank"].dtype == "Int64"


KEPT = [
    *(
        "-",
        "--",
        "=1+1",
        "+49",
        "-abc",
        "@x",
        '="',
        '"',
        "'=1",
        "=" + "x" * 300,
        "😀",
        "👩\u200d🚀",
        "http://x",
    ),
    *(
        "007",
        "1/2",
        "2-11",
        "TRUE",
        "#N/A",
        " a ",
        "1e5",
        "שלום",
        "[CLS]",
        "##s",
        "<b>&amp;",
        "\u00a0",
    ),
]
ESCAPED = {
    "\x07": r"\x07",
    "\x1b[0m": r"\x1b[0m",
    "a\tb": r"a\tb",
    "\ud800": r"\ud800",
    "\uffff": r"\uffff",
}


def opened(frame: pd.DataFrame) -> openpyxl.Workbook:
    return openpyxl.load_workbook(io.BytesIO(render(frame, "xlsx")))


def text_column(texts: list[str]) -> pd.DataFrame:
    return pd.DataFrame({"token": pd.Series(texts, dtype=object), "score": 0.5})


def typed() -> pd.DataFrame:
    numbers = {
        "head": [0, 11],
        "score": [1 / 3, np.nan],
        "weight": np.array([0.5, 1e-9], np.float32),
    }
    numbers |= {
        "rank": pd.array([3, None], dtype="Int64"),
        "ratio": [np.inf, -2.0],
        "ready": [True, False],
    }
    frame = pd.DataFrame({"model": ["m", "n"], **numbers})
    frame.attrs = {
        "signature": {"model": "=m", "pairs_read": 2, "revision": None},
        "units": ["[CLS]"],
    }
    return frame


def test_cells_are_typed_and_what_is_missing_is_empty() -> None:
    sheet = opened(typed())["heads"]
    header, first, second = sheet.iter_rows(values_only=True)
    assert header == tuple(typed().columns)
    assert first == ("m", 0, pytest.approx(1 / 3, rel=1e-15), 0.5, 3, "inf", True)
    assert second == ("n", 11, None, pytest.approx(1e-9), None, -2, False)
    assert [cell.data_type for cell in sheet[2]] == ["s", "n", "n", "n", "n", "s", "b"]
    assert sheet.freeze_panes == "A2"
    assert opened(text_column(["x" * 20]))["rows"].column_dimensions["A"].width > 18


def test_what_is_known_about_the_rows_is_on_a_sheet_of_its_own() -> None:
    book = opened(typed())
    assert book.sheetnames == ["heads", "about"]
    about = [("signature.model", "=m"), ("signature.pairs_read", 2), ("signature.revision", None)]
    assert sorted(book["about"].iter_rows(min_row=2, values_only=True)) == [
        *about,
        ("units", "['[CLS]']"),
    ]
    assert book["about"]["B2"].data_type == "s"
    assert opened(pd.DataFrame({"family": ["bert"]})).sheetnames == ["rows"]


def test_text_is_text_whatever_it_begins_with() -> None:
    written = [
        row[0] for row in opened(text_column([*KEPT, *ESCAPED]))["rows"].iter_rows(min_row=2)
    ]
    assert [cell.value for cell in written] == [*KEPT, *ESCAPED.values()]
    assert {cell.data_type for cell in written} == {"s"}


def test_the_same_table_gives_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    first = render(typed(), "xlsx")
    tomorrow = time.time() + 86_400
    monkeypatch.setattr(time, "time", lambda: tomorrow)  # by which an archive dates what it holds
    assert render(typed(), "xlsx") == first


def test_what_a_sheet_cannot_hold_is_an_error() -> None:
    with pytest.raises(
        OutputError, match=r"1,048,576 rows are more than .* 1,048,575; write \.csv or \.parquet"
    ):
        render(pd.DataFrame({"head": np.zeros(MOST_ROWS, np.int8)}), "xlsx")
    render(pd.DataFrame({"text": ["x" * 32_767]}), "xlsx")
    with pytest.raises(
        OutputError, match=r"a cell .* 32,767 characters at most; write \.csv or \.parquet"
    ):
        render(pd.DataFrame({"text": ["x" * 32_768], "head": [1]}), "xlsx")

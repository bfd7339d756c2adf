"""Sentences that no writer would write, through every command that takes sentences."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

from hypothesis import strategies as st
from support.csv_cells import text_of
from support.hostile.runs import HEADS, LAYERS, check, readable, run

from attnscan.results.files import safe_cell

NASTY = (
    *(
        "\x00",
        "\x1b[2J\x1b]0;title\x07",
        "\x9b31m",
        "\x1b]8;;file:///etc/passwd\x1b\\",
        "\r\n",
        "\t",
        "\b\b\b",
        "\x7f",
    ),
    *(
        "[bold]",
        "[/]",
        "[link=file:///]",
        "[red on blink]",
        "\\[",
        ":smile:",
        "{{7*7}}",
        "{% raw %}",
        "${x}",
        "%s%n",
    ),
    *(
        "\u202e",
        "\u2066",
        "\u200f",
        "\u200d",
        "\u200b",
        "\u2060",
        "\ufeff",
        "\ufe0f",
        "\u2028",
        "\u0345" * 40,
    ),
    *(
        "=1+1",
        "+cmd|' /C calc'!A0",
        "-2+3",
        "@SUM(A1)",
        '=HYPERLINK("http://x")',
        "\t=1",
        "'",
        '"',
        ",",
        ";",
    ),
    *("</script>", "<img src=x onerror=alert(1)>", "<!--", "]]>", "&lt;", "|", "\\", "`", "---"),
    *(
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "[PAD]",
        "<s>",
        "</s>",
        "<mask>",
        "<pad>",
        "##s",
        "Ġ",
        "▁",
        "</w>",
        "@@",
    ),
    *(
        "👩\u200d🚀",
        "🏳️\u200d🌈",
        "שלום",
        "مرحبا",
        "日本語",
        "ﷺ",
        "ẞ",
        "İ",
        "ﬁ",
        "\ud800",
        "\udfff",
        "\U0010ffff",
    ),
)
_words = st.one_of(
    st.sampled_from((*NASTY, "the", "cat", "sat", "on", "a", "mat", ".")),
    st.text(
        st.characters(codec=None), max_size=12
    ),  # of all categories, lone surrogates and unassigned included
)
_long_words = st.builds(
    lambda text, size: (text * size)[:size],
    st.text(min_size=1, max_size=3),
    st.sampled_from((1, 101, 10_000, 100_000)),
)
sentences = st.one_of(st.lists(_words, min_size=1, max_size=12).map(" ".join), _long_words)
pairs = st.tuples(sentences, st.none() | sentences)

_FLAGS = {
    "classify": (("--all",), ("--unit", "word"), ("--pattern", "identical"), ()),
    "show": (("--token", "1"), ("--average",), ("--top", "3"), ()),
    "explain": (("--token", "1"), ("--pattern", "identical"), ()),
    "report": (("--no-neurons",), ("--unit", "word"), ()),
    "heads": (
        ("--skip-bad",),
        ("--skip-bad", "--on-long", "skip"),
        ("--unit", "word", "--skip-bad"),
        (),
    ),
}
_FORMATS = ("csv", "json", "table", "tsv", "jsonl", "markdown")


def commands(
    model: Path, directory: Path, pair: tuple[str, str | None], number: int
) -> Iterator[bool]:
    """Run a pair through every command that takes sentences, in turning formats; yields whether
    each took it.

    Raises: AssertionError at the first that does what it must not.
    """
    sentences = [each for each in pair if each is not None]
    file = directory / "pairs.jsonl"
    page = directory / "page.html"
    file.write_text(json.dumps({"sentence_a": sentences[0], "sentence_b": sentences[-1]}) + "\n")
    for command, flags in _FLAGS.items():
        chosen = flags[number % len(flags)]
        form = _FORMATS[number // 4 % len(_FORMATS)]
        common = ["--model", model, "--no-related", "--predictive", "off", *chosen]
        common += ["-o", page] if command == "report" else ["--format", form]
        if command == "heads":
            result = run(command, *common, "--pairs", file)
        else:
            named = ["0-1"] if command in ("show", "explain") else []
            result = run(command, *common, "--on-long", "truncate", "--", *named, *sentences)
        done = check(result)
        if done and command == "report":
            text = page.read_text(encoding="utf-8")
            assert readable(text) and text.count("</script>") == text.count("<script"), (
                "a page with a text's own markup"
            )
        elif done and form in ("csv", "tsv"):
            _check_table(result.stdout, "," if form == "csv" else "\t", command, chosen)
        elif done and form == "json":
            json.loads(result.stdout)
        yield done


def _check_table(text: str, separator: str, command: str, flags: tuple[str, ...]) -> None:
    """Every row has the columns of the first line; there are as many as heads; no cell is a
    formula.
    """
    header, *rows = csv.reader(io.StringIO(text), delimiter=separator)
    assert {len(row) for row in rows} <= {len(header)} and header[0] == "model", (
        "cells that spill over"
    )
    if command in ("classify", "heads"):
        assert len(rows) == LAYERS * HEADS, len(rows)
    if command == "show" and not flags:
        assert len(rows) == len({row[header.index("query")] for row in rows}) ** 2, len(rows)
    for name in {"query_token", "key_token"} & {*header}:
        cells = [row[header.index(name)] for row in rows]
        assert cells == [safe_cell(text_of(cell)) for cell in cells], (
            "a cell that a spreadsheet runs"
        )

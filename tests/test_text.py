"""Text from outside is safe to show, and text that is safe already stays as it is."""

import json
import sys
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attnscan.errors import AttnscanError
from attnscan.text import json_plain, plain

BIDI = set(map(chr, [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]))
OBEYED = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), *BIDI, "\u2028", "\u2029", "\ufeff"]
HALVES = [chr(0xD800), chr(0xDBFF), chr(0xDC00), chr(0xDFFF)]

hostile = st.text(st.characters() | st.sampled_from([*OBEYED, *HALVES]))
harmless = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]))
examples = settings(deadline=None)


def obeyed(text: str) -> list[str]:
    """The characters of `text` that a terminal could obey or could not write."""
    return [c for c in text if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in BIDI]


@examples
@given(hostile)
def test_nothing_that_a_terminal_obeys_survives(text: str) -> None:
    shown = plain(text)
    assert obeyed(shown) == [] and plain(shown) == shown
    assert len(shown.splitlines()) <= 1
    assert shown.encode().decode() == shown


def test_no_character_at_all_is_forgotten() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    assert obeyed(plain(every)) == []
    assert obeyed(json_plain(every[0x20:])) == []  # below that, JSON has escaped them


@examples
@given(harmless)
@example("[bold]red[/bold] 👩\u200d🚀 ❤\ufe0f שלום עולם سلام a\u00a0b naïve, Ġthe ▁the ##s C:\\new")
def test_words_of_every_script_are_unchanged(text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x00\x7f\x9b", r"\x00\x7f\x9b"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\u2066a\u2069", r"\u2066a\u2069"),
        ("\u200b\ufeff", r"\u200b\ufeff"),
        ("\udcff", r"\udcff"),
    ],
)
def test_an_unsafe_character_is_written_as_its_escape(text: str, shown: str) -> None:
    assert plain(text) == shown


def whole(text: str) -> str:
    """`text` with adjacent halves joined: JSON has no way to keep them apart."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


@examples
@given(hostile, st.sampled_from([None, 2]), st.booleans())
def test_json_stays_the_same_value(text: str, indent: int | None, ascii_only: bool) -> None:
    dumped = json.dumps([text, {text: 1}], ensure_ascii=ascii_only, indent=indent)
    shown = json_plain(dumped)
    assert set(obeyed(shown)) <= {"\n"}  # which `indent` put there
    assert shown.encode().decode() == shown
    value, (key,) = json.loads(shown)
    assert whole(value) == whole(key) == whole(text)


@examples
@given(hostile, hostile)
def test_an_error_is_one_line_whatever_it_quotes(what: str, remedy: str) -> None:
    line = str(AttnscanError(what, remedy))
    assert obeyed(line) == []
    assert len(line.splitlines()) <= 1

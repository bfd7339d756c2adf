"""Text is read as it was encoded, or said to be guessed, and damage costs one record and no letter elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pair_files import HEADER, Make

from attnscan.errors import OptionError, PairsError
from attnscan.inputs.read import FileReading, read_pairs

CELLS = st.text(st.characters(codec="cp1252", exclude_characters='\0\r\n\t"'), min_size=1, max_size=9).filter(str.strip)
GUESSED = "it is not UTF-8, and is read as Windows-1252 (--encoding NAME if it is not)"
GERMAN = [("Die Müller zahlen 5 €", "„Größe“"), ("plain", "cells")]
BYTE = "character 2 is a byte that is not UTF-8, or half of one"


def read(path: str, encoding: str | None = None) -> tuple[list[tuple[str, ...]], list[str], list[str]]:
    """The pairs, what was told, and what was bad, without the file's name."""
    notes: list[str] = []
    bad: list[PairsError] = []
    records = read_pairs([path], FileReading(encoding=encoding), bad.append, notes.append)
    texts = [record.pair.texts for record in records]
    return texts, [note.partition(": ")[2] for note in notes], [error.what.rpartition("/")[2] for error in bad]


def table(pairs: list[tuple[str, ...]], between: str = "\t") -> str:
    return "".join(between.join(row) + "\r\n" for row in [("sentence1", "sentence2"), *pairs])


@pytest.mark.parametrize(
    ("codec", "asked", "notes"),
    [
        ("utf-8-sig", None, []),
        ("utf-16", None, []),
        ("cp1252", None, [GUESSED]),
        ("cp1252", "windows-1252", []),
        ("utf-16-le", "utf-16-le", []),
        ("utf-8-sig", "utf-8", []),
        ("utf-16", "cp1252", []),  # a mark is no guess
    ],
)
@pytest.mark.parametrize("name", ["p.tsv", "p.tsv.gz", "p.csv"])
def test_the_same_pairs_in_every_encoding(
    make: Make, name: str, codec: str, asked: str | None, notes: list[str]
) -> None:
    content = table(GERMAN, "," if "csv" in name else "\t").encode(codec)
    assert read(make(name, content), asked) == (GERMAN, notes, [])


def test_what_excel_saves_in_german(make: Make) -> None:
    content = 'Nr;text1;text2\r\n1;"eins; zwei";Größe\r\n2;drei;vier\r\n'.encode("cp1252")
    texts, notes, _ = read(make("p.csv", content))
    assert texts == [("eins; zwei", "Größe"), ("drei", "vier")]
    assert notes == ["its columns are read as separated by semicolons", GUESSED]


@pytest.mark.parametrize(("codec", "text"), [("gb18030", "我，你"), ("shift_jis", "日本語"), ("koi8-r", "Кошка спит")])
def test_others_are_asked_for(make: Make, codec: str, text: str) -> None:
    assert read(make("p.txt", text.encode(codec)), codec) == ([(text,)], [], [])


def test_json_of_every_layout(make: Make) -> None:
    for name, content in (("p.json", '[{"text": "Größe"}]'), ("p.jsonl", '{"text": "Größe"}\n')):
        assert read(make(name, content.encode("cp1252"))) == ([("Größe",)], [GUESSED], [])
        assert read(make(name, content.encode("utf-16"))) == ([("Größe",)], [], [])


@pytest.mark.parametrize(
    ("codec", "line", "asked", "why"),
    [
        ("utf-8", b"c,d\xff\n", None, BYTE),
        ("ascii", b"c,d\xff\n", "utf-8", BYTE),
        ("cp1252", b"c,d\x81\n", "cp1252", BYTE),
        ("utf-16-le", b"c\0,\0\0\xd8d\0\n\0", None, "character 1 is a byte that is not UTF-8, or half of one"),
    ],
)
def test_damage_costs_its_own_record(make: Make, codec: str, line: bytes, asked: str | None, why: str) -> None:
    good, last = HEADER + "x,y\n" + ("Gras,b\n" if codec == "ascii" else "Größe,b\n"), "e,f\n"
    mark = b"\xff\xfe" if codec.startswith("utf-16") else b""
    path = make("p.csv", mark + good.encode(codec) + line + last.encode(codec))
    texts, notes, bad = read(path, asked)
    assert [pair[1] for pair in texts] == ["y", "b", "f"] and notes == []
    assert bad == [f"p.csv:4: sentence B is not valid Unicode: its {why}"]


@pytest.mark.parametrize("name", ["utf-99", "", "zip", "a\0b"])
def test_what_is_no_encoding(name: str) -> None:
    with pytest.raises(OptionError, match="there is no text encoding"):
        FileReading(encoding=name)


@given(pairs=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6), codec=st.sampled_from(["utf-16", "cp1252"]))
def test_any_table_comes_back(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, ...]], codec: str
) -> None:
    path: Path = tmp_path_factory.getbasetemp() / "p.tsv"
    path.write_bytes(table(pairs).encode(codec))
    assert read(str(path), codec) == (pairs, [], [])
    texts, notes, bad = read(str(path))
    as_utf8 = table(pairs).encode(codec).decode("utf-8", "ignore").isascii()
    assert (texts == pairs and not bad) or (codec == "cp1252" and not as_utf8), (texts, notes, bad)

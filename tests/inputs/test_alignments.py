"""Gold alignments: what a line links, and lines that link nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnscan.errors import InputError, PairsError
from attnscan.inputs.alignments import Alignments, linked, links_of
from attnscan.inputs.sentence import Pair, Place, Record, Sentence

PAIR = Pair("le chat noir", "the black cat")


@pytest.mark.parametrize(
    ("line", "links"),
    [
        ("", {}),
        ("0-0 1-2 2-1", {0: [0], 1: [2], 2: [1]}),
        ("2-1 0-1 0-1", {1: [0, 2]}),
    ],
)
def test_a_line_links_words_between_spaces(line: str, links: dict[int, list[int]]) -> None:
    assert dict(links_of(linked(PAIR, line))) == links


def test_given_words_are_counted_in_place_of_those_between_spaces() -> None:
    source = Sentence("du vin", [(0, 1), (1, 2), (3, 6)])
    pair = linked(Pair(source, Sentence("some wine", [(0, 4), (5, 9)], {"upos": ["DET", "NOUN"]})), "2-1")
    assert dict(links_of(pair)) == {1: [2]} and pair.sentences[1].tags["upos"] == ("DET", "NOUN")


def test_pairs_of_other_links_are_other_pairs() -> None:
    keys = {pair.key for pair in (PAIR, linked(PAIR, ""), linked(PAIR, "0-0"), linked(PAIR, "0-1"))}
    assert len(keys) == 4


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("0-0 x", "'x' is no link"),
        ("0?0", "is no link"),
        ("3-0", "names word 3 of the source, whose last is word 2"),
        ("0-3", "names word 3 of the target"),
    ],
)
def test_what_is_no_alignment_of_the_pair_is_said(line: str, why: str) -> None:
    with pytest.raises(InputError, match=why.replace("?", r"\?")) as refused:
        linked(PAIR, line)
    assert refused.value.remedy


def test_a_source_alone_has_nothing_to_align() -> None:
    with pytest.raises(InputError, match="no target"):
        linked(Pair("le chat"), "0-0")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("0-0\n", "has 1 lines, and there is a pair 2"),
        ("0-0\n0-0\n0-0\n", "has 3 lines, and the pairs end with pair 2"),
        ("0-0\n9-0\n", "links:2: the link 9-0"),
    ],
)
def test_a_line_belongs_to_the_record_of_its_number(tmp_path: Path, lines: str, why: str) -> None:
    (file := tmp_path / "links").write_text(lines)
    with pytest.raises(PairsError, match=why):
        list(Alignments.read(file).linked(Record(PAIR, "", place=Place("p", row)) for row in (1, 2)))


def test_a_record_that_is_skipped_keeps_its_line(tmp_path: Path) -> None:
    (file := tmp_path / "links").write_text("0-0\n1-1\n2-2\n")
    records = Alignments.read(file).linked(Record(PAIR, "", place=Place("p", row)) for row in (1, 3))
    assert [dict(links_of(record.pair)) for record in records] == [{0: [0]}, {2: [2]}]


def test_a_file_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(PairsError, match="cannot read the alignments"):
        Alignments.read(tmp_path / "none")

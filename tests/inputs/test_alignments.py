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
    assert len({pair.key for pair in (PAIR, linked(PAIR, ""), linked(PAIR, "0-0"), linked(PAIR, "0-1"))}) == 4


@pytest.mark.parametrize(
    ("pair", "line", "why"),
    [
        (PAIR, "0-0 x", "'x' links no words of 3 in the source and 3 in the target"),
        (PAIR, "0?0", "links no words"),
        (PAIR, "3-0", "'3-0' links no words"),
        (PAIR, "0-3", "'0-3' links no words"),
        (Pair("le chat"), "0-0", "no target"),
    ],
)
def test_what_is_no_alignment_of_the_pair_is_said(pair: Pair, line: str, why: str) -> None:
    with pytest.raises(InputError) as refused:
        linked(pair, line)
    assert why in refused.value.what and refused.value.remedy


@pytest.mark.parametrize(
    ("lines", "rows", "why"),
    [
        ("0-0\n", (1, 2), "has 1 lines, and there is a pair 2, or pairs are in several files"),
        ("0-0\n0-0\n0-0\n", (1, 2), "has 3 lines, and the pairs end with pair 2"),
        ("0-0\n9-0\n", (1, 2), "links:2: '9-0' links no words"),
        ("0-0\n1-1\n2-2\n", (1, 3), None),  # one that is skipped keeps its line
    ],
)
def test_a_line_belongs_to_the_record_of_its_number(
    tmp_path: Path, lines: str, rows: tuple[int, ...], why: str | None
) -> None:
    (file := tmp_path / "links").write_text(lines)
    records = Alignments.read(file).linked(Record(PAIR, "", place=Place("p", row)) for row in rows)
    if why is None:
        assert [dict(links_of(record.pair)) for record in records] == [{0: [0]}, {2: [2]}]
    else:
        with pytest.raises(PairsError, match=why):
            list(records)
    with pytest.raises(PairsError, match="cannot read the alignments"):
        Alignments.read(tmp_path / "none")

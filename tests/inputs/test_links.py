"""Files of links: words through both sentences, and a line for everything that is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.links import written
from support.pair_files import Make

import attnscan
from attnscan.errors import InputError, PairsError
from attnscan.inputs.links import links_in
from attnscan.inputs.read import read_linked
from attnscan.inputs.sentence import Link, Pair, Record

CATS = {
    "text": "Anna's cat sat.",
    "text_b": "Her dog, too.",
    "words": ["Anna", "'s", "cat", "sat", ".", "Her", "dog", "too"],
    "links": [["coref", 5, 0], ["same:kind", 6, 2]],
    "tags": ["NAME", None, "N", "V", ".", "P", "N", "A"],
    "document": "d1",
}


def read(path: str) -> list[Record]:
    return list(read_linked([path]))


def words(pair: Pair) -> list[list[str]]:
    return [[s.word(number) for number in range(len(s.words or ()))] for s in pair.sentences]


def test_words_are_numbered_through_both_sentences(tmp_path: Path) -> None:
    (record,) = read(written(tmp_path / "a.jsonl", [CATS]))
    pair = record.pair
    assert words(pair) == [["Anna", "'s", "cat", "sat", "."], ["Her", "dog", "too"]]
    assert links_in(pair) == (Link("coref", 5, 0), Link("same:kind", 6, 2))
    assert pair.sentences[1].tags == {"document": ("d1",) * 3, "tag": ("P", "N", "A")}
    assert record.where == f"{tmp_path}/a.jsonl:1"


def test_words_are_between_spaces_where_none_are_given(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", [{"text": "a  cat", "text_b": "ran .", "links": []}])
    assert words(read(path)[0].pair) == [["a", "cat"], ["ran", "."]]


def test_a_word_may_have_no_characters(tmp_path: Path) -> None:
    item = {"text": "del gato", "words": ["del", "", "gato"], "links": [["det", 1, 2]]}
    (record,) = read(written(tmp_path / "a.jsonl", [item]))
    assert record.pair.sentences[0].words == ((0, 3), (3, 3), (4, 8))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "is not valid JSON: "),
        ("[1]", 'it is [1], where {"text": ..., "links": [...]} is expected'),
        ({"text": "a b"}, "its 'links' is missing"),
        ({"links": []}, "its 'text' is missing"),
        ({"text": "a b", "link": []}, "its key is 'link': did you mean 'links'?"),
        ({"text": 1, "links": []}, "its 'text' is 1, and no string"),
        ({"text": " ", "links": []}, "sentence A is empty"),
        ({"text": "a", "text_b": "", "links": []}, "sentence B is empty"),
        ({"text": "a", "text_b": 2, "links": []}, "its 'text_b' is 2, and no string"),
        ({"text": "a b", "words": "a b", "links": []}, "its 'words' is 'a b', and no list"),
        ({"text": "a b", "words": ["a", 1], "links": []}, "its 'words' has 1 in it, which is no"),
        (
            {"text": "a b c", "words": ["a", "c"], "links": []},
            "its word 1 is 'c', and the text goes on with 'b c'",
        ),
        (
            {"text": "b a", "words": ["a", "b"], "links": []},
            "its word 0 is 'a', and the text goes on with 'b a'",
        ),
        ({"text": "a b", "words": ["a"], "links": []}, "the text goes on with 'b' behind its"),
        (
            {"text": "a", "text_b": "b", "words": ["a"], "links": []},
            "the text goes on with 'b' behind its last word",
        ),
        ({"text": "a b", "links": "x"}, "its 'links' is 'x', and no list"),
        (
            {"text": "a b", "links": [["x", 0]]},
            "its link ['x', 0] is none such as [\"coref\", 5, 1]: a relation",
        ),
        (
            {"text": "a b", "links": [[1, 0, 1]]},
            "the relation of its link [1, 0, 1] is no string of at",
        ),
        ({"text": "a b", "links": [[" ", 0, 1]]}, "printable characters that is not blank"),
        ({"text": "a b", "links": [[":x", 0, 1]]}, "printable characters that is not blank"),
        ({"text": "a b", "links": [["x\ty", 0, 1]]}, "is no string of at most 100 printable"),
        (
            {"text": "a b", "links": [["x", 0, 2]]},
            "its link ['x', 0, 2] has the word 2, and its 2 words are numbered from 0",
        ),
        ({"text": "a b", "links": [["x", -1, 0]]}, "has the word -1"),
        ({"text": "a b", "links": [["x", 0, 1.0]]}, "has 1.0, which is not the number of a word"),
        ({"text": "a b", "links": [["x", True, 0]]}, "has True, which is not the number"),
        ({"text": "a b", "links": [["x", 1, 1]]}, "leads from a word to itself"),
        ({"text": "a b", "links": [], "tags": ["X"]}, "its 'tags' are 1, and its words 2"),
        ({"text": "a b", "links": [], "tags": "XY"}, "its 'tags' are no list, and its words 2"),
        ({"text": "a b", "links": [["x" * 101, 0, 1]]}, "is no string of at most 100 printable"),
        ({"text": "a b", "links": [], "tags": [1, 2]}, "its 'tags' have 1 in it, which is no"),
        ({"text": "a b", "links": [], "document": 1.5}, "its 'document' is 1.5, and no string"),
    ],
)
def test_a_bad_line_is_refused_with_its_number(make: Make, line: Any, why: str) -> None:
    text = line if isinstance(line, str) else json.dumps(line)
    path = make("a.jsonl", f"{json.dumps(CATS)}\n\n{text}\n")
    with pytest.raises(PairsError) as refused:
        read(path)
    assert refused.value.what.startswith(f"{path}:3: ")
    assert why in refused.value.what
    assert "\n" not in str(refused.value) and refused.value.remedy.startswith("correct it")
    good: list[InputError] = []
    assert len(list(read_linked([path], good.append))) == len(good) == 1


def test_bytes_that_are_not_utf8_are_refused(make: Make) -> None:
    path = make("a.jsonl", b'{"text": "a b", "links": []}\n{"text": "caf\xe9 x", "links": []}\n')
    with pytest.raises(PairsError, match=r"a\.jsonl:2: it is not UTF-8: save the file as UTF-8"):
        read(path)


def test_keys_that_are_not_read_are_noted_once(tmp_path: Path) -> None:
    items = [{**CATS, "id": 1}, {**CATS, "id": 2, "source": "x"}]
    notes: list[str] = []
    path = written(tmp_path / "a.jsonl", items)
    list(read_linked([path], None, notes.append))
    assert notes == [f"{path}: the keys {keys} are not read" for keys in ("id", "source")]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("t.conllu", r"is a treebank, and no file of links; give it as treebank"),
        ("t.csv", r"is not a file of links; write JSON lines, into a file \.jsonl"),
        ("t.json", r"is not a file of links; write JSON lines, into a file \.jsonl"),
    ],
)
def test_a_file_of_another_kind_is_refused(make: Make, name: str, why: str) -> None:
    with pytest.raises(PairsError, match=why):
        read(make(name, "x\n"))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", r"a\.jsonl is empty: it has no record; write lines such as"),
        ('{"text": "a b", "links": []}\n', "there is no link in 1 record; give each"),
    ],
)
def test_a_file_without_links_is_refused(make: Make, content: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        attnscan.syntax(links=make("a.jsonl", content), model="bundled")


def test_kinds_of_links_are_limited(make: Make) -> None:
    lines = [{"text": "a b", "links": [[f"r{number}", 0, 1]]} for number in range(600)]
    path = make("a.jsonl", "\n".join(map(json.dumps, lines)))
    with pytest.raises(InputError, match=r"a\.jsonl:500: up to here there are 501 relations"):
        attnscan.syntax(links=path, model="bundled")


def test_equal_texts_with_other_links_are_other_pairs() -> None:
    one = Pair("a b", links=[("x", 0, 1)])
    other = Pair("a b", links=[("x", 1, 0)])
    assert one != other and one.key != other.key
    assert one.text_key_after("0") == other.text_key_after("0") == Pair("a b").text_key_after("0")

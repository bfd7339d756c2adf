"""Sentences whose words are given, by a program, gold alignments or a treebank."""

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.frozen_classes import classes_that_can_change
from support.handwritten_inputs import input_of
from support.pair_files import Make, refusal, skipping

from attnscan import inputs
from attnscan.errors import InputError, PairsError
from attnscan.inputs.annotations import (
    Alignments,
    copy_links,
    link_words,
    links_of,
    unit_links,
)
from attnscan.inputs.read import read_pairs
from attnscan.inputs.sentence import NO_WORD, EncodedInput, Pair, Place, Record, Sentence

TEXT = "Dogs don't."
WORDS = [(0, 4), (5, 7), (7, 10), (10, 11)]
PAIR = Pair("le chat noir", "the black cat")


@pytest.mark.parametrize(
    ("words", "tags"),
    [
        *(
            (words, {})
            for words in (
                [(0, 4), (5, 12)],
                [(-1, 4)],
                [(4, 0)],
                [(0, 4), (3, 7)],
                [(5, 7), (0, 4)],
            )
        ),
        *((words, {}) for words in ([(0, 4), (5.0, 7.0)], ["Dogs"], 4)),
        (WORDS, {"upos": ["NOUN"]}),
        (WORDS, {"upos": 4}),
        (WORDS, {"upos": ["NOUN", ["AUX"], "PART", "PUNCT"]}),
        (WORDS, ["NOUN"] * 4),
    ],
)
def test_words_are_spans_in_order_and_tags_have_a_value_each(words: Any, tags: Any) -> None:
    with pytest.raises(
        InputError, match="in order and without overlap, and for each tag a value a word"
    ) as refused:
        Sentence(TEXT, words, tags)
    assert (
        refused.value.what
        == f"words is {words!r:.60}, in a text of 11 characters, and tags {tags!r:.60}"
    )


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (
            lambda: Sentence(TEXT, tags={"upos": ["NOUN"]}),
            "tags are given and words are not; give words=",
        ),
        (lambda: Sentence(b"dogs"), "the text of a sentence is of the class bytes"),  # type: ignore[arg-type]
        (lambda: Pair("dogs", Sentence(" ", [])), "sentence B is empty"),
        (
            lambda: link_words(PAIR, "0-0 x"),
            "'x' links no words of 3 in the source and 3 in the target",
        ),
        (lambda: link_words(PAIR, "0?0"), "links no words"),
        (lambda: link_words(PAIR, "3-0"), "'3-0' links no words"),
        (lambda: link_words(PAIR, "0-3"), "'0-3' links no words"),
        (lambda: link_words(Pair("le chat"), "0-0"), "no target"),
    ],
)
def test_what_is_no_sentence_pair_or_alignment(build: Callable[[], object], why: str) -> None:
    with pytest.raises(InputError, match=why) as refused:
        build()
    assert refused.value.remedy


def test_no_caller_changes_what_another_reads() -> None:
    """But what is known of a file, which grows while it is read."""
    assert classes_that_can_change(inputs) == ["FileReport"]


def test_arrays_of_numpy_are_plain_values() -> None:
    """As a parser's tables give them; and what was given can be changed afterwards."""
    heads = np.array([1, 1, 1, 1])
    sentence = Sentence(TEXT, np.array(WORDS), {"head": heads, "name": np.array([False] * 4)})  # type: ignore[dict-item]
    heads[:] = 0
    assert sentence == Sentence(TEXT, WORDS, {"head": [1, 1, 1, 1], "name": [False] * 4})
    assert {type(value) for value in sentence.tags["head"]} == {int}
    assert {type(value) for value in sentence.tags["name"]} == {bool}
    assert pickle.loads(pickle.dumps(sentence)) == sentence
    assert hash(sentence) == hash(Sentence(TEXT, WORDS))


CUTS = st.lists(st.integers(0, 12), max_size=14).map(sorted)


@given(
    cuts=CUTS,
    pieces=st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted).map(tuple), max_size=9
    ),
)
def test_pieces_find_their_words_as_plain_loops_do(
    cuts: list[int], pieces: list[tuple[int, int]]
) -> None:
    words = list(zip(cuts[::2], cuts[1::2], strict=False))
    expected = []
    for first, last in pieces:
        shared = [len(set(range(first, last)) & set(range(*word))) for word in words]
        expected.append(shared.index(max(shared)) if any(shared) else NO_WORD)
    assert Sentence("x" * 12, words).words_of(pieces) == expected


def test_keys_depend_on_sentences_words_tags_and_links() -> None:
    """They have other scores. A text that looks like annotations is another sentence.

    The first digits of keys number blocks of pairs in states on disk, so keys must not change.
    """
    assert Pair("the cat").key == "675822dce541fb43946458d70cdc163c8ef1f8449dfecdb03fdc90bb80f7d15d"
    plain = Pair(TEXT)
    words = Pair(Sentence(TEXT, WORDS))
    annotations = json.dumps([WORDS, {}])
    pairs = [
        plain,
        *(Pair("Dogs", "don't."), Pair("Dogs d", "on't."), Pair(f"{TEXT} ")),
        words,
        Pair(TEXT, annotations),
        Pair(Sentence(TEXT, [])),
        Pair(Sentence(TEXT, WORDS[:3])),
        Pair(TEXT, Sentence(TEXT, WORDS)),
        Pair(Sentence(TEXT, WORDS), TEXT),
        *(
            Pair(Sentence(TEXT, WORDS, {"head": [value] * 4}))
            for value in (1, "1", 1.5, True, None)
        ),
        Pair(Sentence(TEXT, WORDS, {"governor": [1] * 4})),
        *(PAIR, link_words(PAIR, ""), link_words(PAIR, "0-0"), link_words(PAIR, "0-1")),
    ]
    assert (
        len({pair.key for pair in pairs})
        == len({pair.key_after("7") for pair in pairs})
        == len(pairs)
    )
    assert Pair("the cat").key_after("0") not in {
        Pair("the cat").key,
        Pair("0", "the cat").key_after(""),
    }
    assert (
        Pair(Sentence(TEXT)) == plain == Pair(TEXT, None) and Pair(Sentence(TEXT)).key == plain.key
    )
    order = [
        Sentence(TEXT, [(0, 4)], dict(tags))
        for tags in ([("a", [1]), ("b", [2])], [("b", [2]), ("a", [1])])
    ]
    assert order[0] == order[1] and Pair(order[0]).key == Pair(order[1]).key


@pytest.mark.parametrize(
    ("line", "links"),
    [
        ("", {}),
        ("0-0 1-2 2-1", {0: [0], 1: [2], 2: [1]}),
        ("2-1 0-1 0-1", {1: [0, 2]}),
    ],
)
def test_a_line_links_words_between_spaces(line: str, links: dict[int, list[int]]) -> None:
    assert dict(links_of(link_words(PAIR, line))) == links


def test_given_words_are_counted_in_place_of_those_between_spaces() -> None:
    source = Sentence("du vin", [(0, 1), (1, 2), (3, 6)])
    pair = link_words(
        Pair(source, Sentence("some wine", [(0, 4), (5, 9)], {"upos": ["DET", "NOUN"]})), "2-1"
    )
    assert dict(links_of(pair)) == {1: [2]} and pair.sentences[1].tags["upos"] == ("DET", "NOUN")


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
    file = tmp_path / "links"
    file.write_text(lines)
    records = Alignments.read(file).linked(Record(PAIR, "", place=Place("p", row)) for row in rows)
    if why is None:
        assert [dict(links_of(record.pair)) for record in records] == [{0: [0]}, {2: [2]}]
    else:
        with pytest.raises(PairsError, match=why):
            list(records)
    with pytest.raises(PairsError, match="pairs are in several files"):
        list(Alignments.read(file).linked(Record(PAIR, "", place=Place(name, 1)) for name in "pq"))
    with pytest.raises(PairsError, match="cannot read the alignments"):
        Alignments.read(tmp_path / "none")


class TestLinksOfUnits:
    """The links of an input whose target's tokens stand behind its source's."""

    PAIR = link_words(Pair("le chat", "the black cat"), "0-0 1-2 1-1")
    WORDS = (0, 1, 1, NO_WORD, 0, 1, 2, NO_WORD)  # `chat` is of two tokens

    def encoded(self, **changes: Any) -> EncodedInput:
        """Four tokens of the source, four of the target."""
        whole = input_of("le ch ##at </s> the black cat </s>")
        return replace(whole, pair=self.PAIR, source=4, words=self.WORDS, **changes)

    def test_a_unit_is_linked_with_those_of_its_source_words(self) -> None:
        links = [(4, 0), (5, 1), (5, 2), (6, 1), (6, 2)]
        assert list(unit_links(self.encoded())) == links

    def test_merged_words_are_units(self) -> None:
        merged = self.encoded(unit=(0, 1, 1, 2, 3, 4, 5, 6))
        assert list(unit_links(merged)) == [(3, 0), (4, 1), (5, 1)]

    def test_without_source_words_or_pair_there_are_none(self) -> None:
        assert unit_links(replace(self.encoded(), source=0)) == ()
        assert unit_links(replace(self.encoded(), words=())) == ()
        assert unit_links(replace(self.encoded(), pair=None)) == ()


def test_a_single_pair_has_the_links_of_the_only_line() -> None:
    linked = Alignments("links", ("1-0",)).link_single(PAIR)
    assert dict(links_of(linked)) == {0: [1]}
    with pytest.raises(PairsError, match="links has 2 lines, and the pairs end with pair 1"):
        Alignments("links", ("1-0", "0-0")).link_single(PAIR)


def test_of_a_link_that_is_none_forty_characters_are_shown() -> None:
    with pytest.raises(InputError) as caught:
        link_words(PAIR, "x" * 50)
    assert (
        caught.value.what == f"'{'x' * 40}' links no words of 3 in the source and 3 in the target"
    )


def test_links_are_copied_to_a_pair_of_as_many_words() -> None:
    linked = link_words(PAIR, "0-0 1-2")
    assert dict(links_of(copy_links(Pair("il mio gatto", "my own cat"), linked))) == {
        0: [0],
        2: [1],
    }
    other = Pair("il gatto", "my own cat")
    assert copy_links(other, linked) is other


def row(
    number: str, form: str, head: str = "_", deprel: str = "_", upos: str = "X", misc: str = "_"
) -> str:
    return f"{number}\t{form}\t_\t{upos}\t_\t_\t{head}\t{deprel}\t_\t{misc}\n"


def block(text: str | None, *words: str, more: str = "") -> str:
    """A sentence of a treebank; of each word, what `row` takes, between spaces."""
    said = "" if text is None else f"# text = {text}\n"
    return more + said + "".join(row(*word.split()) for word in words) + "\n"


LATIN = block(
    "Il parle du chat.",
    "1 Il 2 nsubj PRON",
    "2 parle 0 root VERB",
    "3-4 du",
    "3 de 5 case ADP",
    "4 le 5 det DET",
    "5 chat 2 obl NOUN SpaceAfter=No",
    "5.1 parle _ _",
    "6 . 2 punct PUNCT",
    more="# newdoc id = d1\n# sent_id = s1\n",
)
CYRILLIC = block("Кошка спит.", "1 Кошка 2 nsubj", "2 спит 0 root X SpaceAfter=No", "3 . 2 punct")
HAN = block(
    None,
    "1 我 2 nsubj X SpaceAfter=No",
    "2 爱 0 root X Gloss=love|SpaceAfter=No",
    "3 猫 2 obj X SpaceAfter=No",
    "4 。 2 punct",
    more="# newdoc\n# text_en = I love cats.\n",
)
ARABIC = block(
    "وقال الرجل.",
    "1-2 وقال",
    "1 و 2 cc",
    "2 قال 0 root",
    "3 الرجل 2 nsubj X SpaceAfter=No",
    "4 . 2 punct",
)
TREEBANK = LATIN + CYRILLIC + HAN + ARABIC
SPANS = [
    [
        (0, 2),
        (3, 8),
        (9, 11),
        (11, 11),
        (12, 16),
        (16, 17),
    ],  # "du" is neither "de" nor "le": the first has it
    [(0, 5), (6, 10), (10, 11)],
    [(0, 1), (1, 2), (2, 3), (3, 4)],
    [(0, 1), (1, 4), (5, 10), (10, 11)],
]


def sentences(path: str) -> list[Sentence]:
    return [record.pair.sentences[0] for record in read_pairs([path])]


class TestReader:
    def test_every_word_is_where_the_text_has_it(self, make: Make) -> None:
        for name, end in (("t.conllu", "\n"), ("t.conllu.gz", "\n"), ("dos.conllu", "\r\n")):
            path = make(name, TREEBANK.replace("\n", end))
            assert [sentence.words for sentence in sentences(path)] == [
                tuple(spans) for spans in SPANS
            ]
        assert sentences(path)[2].text == "我爱猫。"

    def test_tags_are_heads_relations_parts_of_speech_and_documents(self, make: Make) -> None:
        path = make("t.conllu", TREEBANK)
        latin, cyrillic, han, arabic = sentences(path)
        assert latin.tags["upos"] == ("PRON", "VERB", "ADP", "DET", "NOUN", "PUNCT")
        assert latin.tags["deprel"] == ("nsubj", "root", "case", "det", "obl", "punct")
        assert latin.tags["head"] == (1, None, 4, 4, 1, 1)
        assert latin.tags["document"][0] == cyrillic.tags["document"][0] == "d1"
        assert han.tags["document"][0] == arabic.tags["document"][0] != "d1"
        assert [record.place.id for record in read_pairs([path])] == ["s1", None, None, None]

    def test_the_first_word_may_be_a_head(self, make: Make) -> None:
        path = make("t.conllu", block("Sit down", "1 Sit 0 root VERB", "2 down 1 advmod ADV"))
        assert sentences(path)[0].tags["head"] == (None, 0)

    @pytest.mark.parametrize(
        ("content", "where", "why"),
        [
            (
                "# text = a b\n1\ta\t_\tX\t_\t_\t0\troot\t_\n\n",
                2,
                "its number of columns is 9, where CoNLL-U has 10",
            ),
            (block("a b", "1 a 2 x", "2 b 1 x"), 2, "0 words have the head 0"),
            (
                block("a b c", "1 a 0 root", "2 b 3 x", "3 c 2 x"),
                3,
                "the heads of words 2, 3 go in a circle",
            ),
            (block("a", "1 a 2 x"), 2, "the head of word 1 ('a') is '2', and words are 1 to 1"),
            (
                block("a b", "1 a", "2 b"),
                2,
                "word 1 ('a') is '_', and words are 1 to 2: only treebanks with trees",
            ),
            (
                block("a c", "1 a 0 root", "2 b 1 x"),
                3,
                "the form is 'b', and the text goes on with 'c'",
            ),
            (block("a b", "1 a 0 root"), 2, "the text goes on with 'b' after all forms"),
            (block("a", "2 a 0 root"), 2, "its number is '2', where word 1 follows"),
            (block("a", "1-2 a", "1 a 0 root"), 3, "without those of its last token"),
            ("# sent_id = 1\n\n", 1, "ends without words"),
        ],
    )
    def test_refused_with_file_and_line(
        self, make: Make, content: str, where: int, why: str
    ) -> None:
        error = refusal(make("t.conllu", content))
        assert f"t.conllu:{where}: " in error.what and why in error.what

    def test_bad_sentences_are_left_out(self, make: Make) -> None:
        good, bad = skipping(make("t.conllu", CYRILLIC + block("x y", "1 x 0 root") + HAN))
        assert [record.pair.a for record in good] == ["Кошка спит.", "我爱猫。"]
        assert bad == ["t.conllu:7: the text goes on with 'y' after all forms"]

    def test_twenty_characters_of_the_text_are_shown(self, make: Make) -> None:
        text = "a" * 30
        error = refusal(make("t.conllu", block(text, "1 b 0 root")))
        assert error.what.endswith(f"the form is 'b', and the text goes on with '{'a' * 20}'")
        error = refusal(make("t.conllu", block(f"b {text}", "1 b 0 root")))
        assert error.what.endswith(f"the text goes on with '{'a' * 20}' after all forms")

    def test_a_file_may_end_without_a_blank_line(self, make: Make) -> None:
        path = make("t.conllu", "\n\n" + CYRILLIC + "\n" + HAN.rstrip("\n"))
        assert [sentence.text for sentence in sentences(path)] == ["Кошка спит.", "我爱猫。"]

    def test_a_text_that_is_no_sentence_is_a_bad_record(self, make: Make) -> None:
        good, bad = skipping(make("t.conllu", CYRILLIC + block("a\0", "1 a\0 0 root")))
        assert len(good) == 1
        assert bad == ["t.conllu:6: sentence A has a NUL character"]


@pytest.mark.parametrize("space", ["\u00a0", "\u3000", "\u2009"])
def test_words_of_alignments_stand_between_ascii_spaces(space: str) -> None:
    pair = link_words(Pair(f"il pèse 10{space}000\tkilos", "it weighs 10,000 kilos"), "2-2 3-3")
    source = pair.sentences[0]
    words = [source.word(number) for number in range(len(source.words or ()))]
    assert words == ["il", "pèse", f"10{space}000", "kilos"]
    assert list(links_of(pair)) == [(2, [2]), (3, [3])]


@pytest.mark.parametrize("comment", ["# text[orig] = Cats", "# text_en = Cats", "# texts = Cats"])
def test_other_comments_are_not_the_text(tmp_path: Path, comment: str) -> None:
    word = "1\tDogs\tdog\tNOUN\t_\t_\t0\troot\t_\t_"
    path = tmp_path / "trees.conllu"
    path.write_text(f"# text = Dogs\n{comment}\n{word}\n\n", encoding="utf-8")
    assert [record.pair.a for record in read_pairs([str(path)])] == ["Dogs"]

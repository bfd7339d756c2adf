"""Treebanks are read as CoNLL-U says, with every word where the text has it; what is no tree is refused by its line."""

from __future__ import annotations

import pytest
from pair_files import Make, refusal, skipping

from attnscan.inputs.read import read_pairs
from attnscan.inputs.sentence import Sentence


def line(number: str, form: str, head: str = "_", deprel: str = "_", upos: str = "X", misc: str = "_") -> str:
    return f"{number}\t{form}\t_\t{upos}\t_\t_\t{head}\t{deprel}\t_\t{misc}"


def block(text: str | None, *lines: str, more: str = "") -> str:
    said = "" if text is None else f"# text = {text}\n"
    return more + said + "\n".join(lines) + "\n\n"


GLUED = "SpaceAfter=No"
LATIN = block(
    "Il parle du chat.",
    line("1", "Il", "2", "nsubj", "PRON"),
    line("2", "parle", "0", "root", "VERB"),
    line("3-4", "du"),
    line("3", "de", "5", "case", "ADP"),
    line("4", "le", "5", "det", "DET"),
    line("5", "chat", "2", "obl", "NOUN", GLUED),
    line("5.1", "parle", "_", "_"),
    line("6", ".", "2", "punct", "PUNCT"),
    more="# newdoc id = d1\n# sent_id = s1\n",
)
CYRILLIC = block(
    "Кошка спит.",
    line("1", "Кошка", "2", "nsubj"),
    line("2", "спит", "0", "root", misc=GLUED),
    line("3", ".", "2", "punct"),
)
HAN = block(
    None,
    line("1", "我", "2", "nsubj", misc=GLUED),
    line("2", "爱", "0", "root", misc=f"Gloss=love|{GLUED}"),
    line("3", "猫", "2", "obj", misc=GLUED),
    line("4", "。", "2", "punct"),
    more="# newdoc\n# text_en = I love cats.\n",
)
ARABIC = block(
    "وقال الرجل.",
    line("1-2", "وقال"),
    line("1", "و", "2", "cc"),
    line("2", "قال", "0", "root"),
    line("3", "الرجل", "2", "nsubj", misc=GLUED),
    line("4", ".", "2", "punct"),
)
TREEBANK = LATIN + CYRILLIC + HAN + ARABIC
SPANS = [
    [(0, 2), (3, 8), (9, 11), (11, 11), (12, 16), (16, 17)],  # "du" is neither "de" nor "le": the first has it
    [(0, 5), (6, 10), (10, 11)],
    [(0, 1), (1, 2), (2, 3), (3, 4)],
    [(0, 1), (1, 4), (5, 10), (10, 11)],
]


def sentences(path: str) -> list[Sentence]:
    return [record.pair.sentences[0] for record in read_pairs([path])]


class TestReader:
    def test_every_word_is_where_the_text_has_it(self, make: Make) -> None:
        for path in (make("t.conllu", TREEBANK), make("t.conllu.gz", TREEBANK)):
            assert [sentence.words for sentence in sentences(path)] == [tuple(spans) for spans in SPANS]
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

    @pytest.mark.parametrize(
        ("content", "where", "why"),
        [
            (block("a b", "1\ta\t_\tX\t_\t_\t0\troot\t_"), 2, "its number of columns is 9, where CoNLL-U has 10"),
            ("The cat sat.\n", 1, "its number of columns is 1, where CoNLL-U has 10"),
            (block("a b", line("1", "a", "2", "x"), line("2", "b", "1", "x")), 2, "0 words have the head 0"),
            (block("a b", line("1", "a", "0", "root"), line("2", "b", "0", "root")), 2, "2 words have the head 0"),
            (
                block("a b c", line("1", "a", "0", "root"), line("2", "b", "3", "x"), line("3", "c", "2", "x")),
                3,
                "the heads of words 2, 3 go in a circle",
            ),
            (block("a", line("1", "a", "2", "x")), 2, "the head of word 1 ('a') is '2', and words are 1 to 1"),
            (
                block("a b", line("1", "a"), line("2", "b")),
                2,
                "the head of word 1 ('a') is '_', and words are 1 to 2: only treebanks with trees",
            ),
            (
                block("a c", line("1", "a", "0", "root"), line("2", "b", "1", "x")),
                3,
                "the form is 'b', and the text goes on with 'c'",
            ),
            (block("a b", line("1", "a", "0", "root")), 2, "the text goes on with 'b' after all forms"),
            (block("a", line("2", "a", "0", "root")), 2, "its number is '2', where word 1 follows"),
            (block("a", line("1-2", "a"), line("1", "a", "0", "root")), 3, "without those of its last token"),
            (block("a", line("1", "a", "0", "root"), line("1-2", "a")), 3, "its number is '1-2', where word 2 follows"),
            ("# sent_id = 1\n\n", 1, "ends without words"),
        ],
    )
    def test_refused_with_file_and_line(self, make: Make, content: str, where: int, why: str) -> None:
        error = refusal(make("t.conllu", content))
        assert f"t.conllu:{where}: " in error.what and why in error.what

    def test_bad_sentences_are_left_out(self, make: Make) -> None:
        good, bad = skipping(make("t.conllu", CYRILLIC + block("x y", line("1", "x", "0", "root")) + HAN))
        assert [record.pair.a for record in good] == ["Кошка спит.", "我爱猫。"]
        assert bad == ["t.conllu:7: the text goes on with 'y' after all forms"]

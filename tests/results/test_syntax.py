"""What heads do beside a treebank: which gains are stated and how, tables, sentences by number."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from support.small_results import SIGNATURE, result_of
from support.toy_bert import save_toy_bert
from support.treebanks import planted

import attnscan
import attnscan.api.pictures_and_pages  # it declares `report`, whose options `read_linked` takes
from attnscan.api.syntax import read_linked
from attnscan.errors import OptionError, SelectionError
from attnscan.inputs.sentence import Pair, Sentence
from attnscan.results.attention import Attention
from attnscan.results.grid import Head
from attnscan.results.syntax import (
    DEPENDENT,
    HEAD,
    NOTHING,
    RULES,
    ReadInput,
    Row,
    Syntax,
    check_relation,
    sentence_numbers,
)

COUNT = 35


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("3", (3,)), (" 1-3 , 2,9", (1, 2, 3, 9)), ("50-99", tuple(range(50, 100)))],
)
def test_sentences_go_by_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert sentence_numbers(text) == numbers


@pytest.mark.parametrize(
    "text", ["", "0", "3-1", "1,", "-3", "a", "1-51", "1-999999999", "\u0663\ud800", "9" * 99]
)
def test_others_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"names no sentences|names more than 50"):
        sentence_numbers(text)


@pytest.mark.parametrize("by", ["weight", "carried"])
def test_accuracies_count_the_words_that_are_attended_to_most(by: str, tmp_path: Path) -> None:
    plan = {(0, 0): "articles to nouns", (0, 1): "previous-word"}
    model = str(save_toy_bert(tmp_path / "m", 2, 3, plan, carries=True))
    trees = tmp_path / "some.conllu"
    trees.write_text("\n\n".join(planted().split("\n\n")[:COUNT]) + "\n\n", encoding="utf-8")
    options = {"model": model, "by": by, "predictive": "off"}
    with pytest.warns(UserWarning, match="35 sentences are few: below 200"):
        read = read_linked(str(trees), None, f"1-{COUNT}", options)
    assert [tree.number for tree in read.inputs] == list(range(1, COUNT + 1))
    assert read.syntax.sentences == COUNT
    with pytest.warns(UserWarning, match="few"):
        syntax = attnscan.syntax(str(trees), model=model, by=by)
    np.testing.assert_allclose(read.syntax.accuracy, syntax.accuracy)
    up = np.zeros((2, 3))
    down = np.zeros((2, 3))
    for tree in read.inputs:
        most = tree.most_attended(by)  # type: ignore[arg-type]
        tags = tree.pair.sentences[0].tags
        word = tags["deprel"].index("det")
        head = int(tags["head"][word])  # type: ignore[arg-type]
        up += most[..., word] == head
        down += most[..., head] == word
    for direction, hits in ((HEAD, up), (DEPENDENT, down)):
        row = syntax.rows.index(Row("det", direction))
        np.testing.assert_allclose(syntax.accuracy[..., row], hits / COUNT)
    assert up[0, 0] == COUNT
    assert 0 < up[1].sum() < 3 * COUNT


def test_a_word_without_a_token_attends_to_none_and_is_attended_by_none() -> None:
    """The second of three words has two tokens, the third none; special tokens do not count."""
    weights = np.array([[0.4, 0.1, 0.2, 0.2, 0.1]] * 5, np.float32)[None, None]
    attention = Attention(
        tokens=("[CLS]", "a", "b", "##b", "[SEP]"),
        sentence=(-1, 0, 0, 0, -1),
        segments=(0,) * 5,
        weights=weights,
        visible=None,
        query=None,
        key=None,
    )
    tree = ReadInput(
        number=1,
        pair=Pair(Sentence("a bb c", [(0, 1), (2, 4), (5, 6)])),
        owners=(-1, 0, 1, 1, -1),
        result=replace(result_of([[0.1, 0, 0, 0]]), attention=attention),
    )
    assert tree.most_attended("weight").tolist() == [[[1, 0, -1]]]


ROWS = (
    Row("all", HEAD),
    Row("nsubj", HEAD),
    Row("obj", HEAD),
    Row("det", DEPENDENT),
    Row("punct", HEAD),
)
ALL, SUBJECT, OBJECT, DETERMINER, PUNCTUATION = range(len(ROWS))
N_HEADS = 3


def small(gains: dict[tuple[int, int], float] | None = None, **changed: Any) -> Syntax:
    """One layer of heads by five rows: gains by head and row hold, and all others are 0."""
    gain = np.zeros((1, N_HEADS, len(ROWS)))
    for (head, row), value in (gains or {}).items():
        gain[0, head, row] = value
    fields: dict[str, Any] = {
        "rows": ROWS,
        "n": np.arange(5) + 100,
        "met": np.full(5, 30),
        "rule": np.array(RULES[:5]),
        "rule_accuracy": np.arange(5) / 10,
        "accuracy": 0.5 + gain / 2,
        "weight": np.full(gain.shape, 0.3),
        "weight_among_words": np.full(gain.shape, 0.4),
        "chance": np.full(gain.shape, 0.1),
        "gain": gain,
        "se": np.full(gain.shape, 0.01),
        "p_holm": np.where(gain == 0, 1.0, 0.001),
        "uuas": np.array([[0.25, 0.5, 0.75]]),
        "chain_uuas": 0.4,
        "clusters": 7,
        "row_clusters": np.arange(5) + 3,
        "words": 500,
        "wordless": 3,
        "signature": replace(SIGNATURE, pairs_read=40, pairs_skipped=1),
    }
    return Syntax(**(fields | changed))


def stated(**changed: float) -> bool:
    """Whether a gain is stated, by all of its numbers with some changed."""
    result = small({(0, SUBJECT): 0.2})
    arrays = {name: np.full(result.gain.shape, value) for name, value in changed.items()}
    return bool(replace(result, **arrays).stated[0, 0, SUBJECT])


def test_a_gain_that_holds_with_weight_is_stated() -> None:
    assert stated()


@pytest.mark.parametrize(
    ("name", "stays", "fails"),
    [
        ("p_holm", 0.0499, 0.05),
        ("gain", 0.001, 0.0),
        ("weight_among_words", 0.1, 0.099),
        ("weight", 0.151, 0.149),
        ("chance", 0.199, 0.201),
    ],
)
def test_a_gain_is_stated_up_to_a_limit(name: str, stays: float, fails: float) -> None:
    """Of 0.05 after Holm, above 0, 0.1 among words, and 1.5 times even attention."""
    assert stated(**{name: stays})
    assert not stated(**{name: fails})


def test_what_is_not_known_is_not_stated() -> None:
    for name in ("p_holm", "gain", "weight", "weight_among_words"):
        assert not stated(**{name: np.nan})


def test_punctuation_states_nothing() -> None:
    result = small({(0, PUNCTUATION): 0.5})
    assert result.holds[0, 0, PUNCTUATION]
    assert not result.stated.any()
    assert result.statements == {}


def test_the_largest_gain_states_a_head_and_all_comes_last() -> None:
    result = small({(0, SUBJECT): 0.2, (0, OBJECT): 0.3, (1, ALL): 0.9, (1, DETERMINER): 0.1})
    assert result.main_rows == {Head(0, 0): OBJECT, Head(0, 1): DETERMINER}
    assert small({(2, ALL): 0.1}).main_rows == {Head(0, 2): ALL}


def test_relations_of_one_group_make_one_statement() -> None:
    several = small({(0, SUBJECT): 0.2, (0, OBJECT): 0.3, (0, ALL): 0.4})
    assert several.statements == {Head(0, 0): "argument → its head"}
    one = small({(0, OBJECT): 0.3, (0, ALL): 0.4, (0, DETERMINER): 0.1})
    assert one.statements == {Head(0, 0): "object → its verb"}


def test_a_map_has_letters_of_groups_and_says_what_they_are() -> None:
    result = small({(0, SUBJECT): 0.2, (1, DETERMINER): 0.3})
    assert [result.letter(head) for head in result.grid] == ["S", "f", NOTHING]
    assert result.legend() == [
        "S argument",
        "f head of: function word",
        f"{NOTHING} nothing of these",
    ]


@pytest.mark.parametrize(
    ("row", "group", "words"),
    [
        (Row("nsubj:pass", HEAD), "argument", "subject → its verb"),
        (Row("amod", DEPENDENT), "modifier", "noun → its adjective"),
        (Row("list", HEAD), "conjunct", "list → its head"),
        (Row("of-our-own", HEAD), "link", "of-our-own → its target"),
        (Row("all", DEPENDENT), "dependent", "head → its dependent"),
    ],
)
def test_a_relation_has_a_group_and_words(row: Row, group: str, words: str) -> None:
    assert (row.group, row.words()) == (group, words)


def test_a_relation_to_dependents_has_a_small_letter() -> None:
    assert (Row("amod", HEAD).letter, Row("amod", DEPENDENT).letter) == ("M", "m")


def test_rules_are_distances_parts_of_speech_same_words_and_places() -> None:
    assert RULES[:2] == ("1 before", "1 behind")
    assert RULES[18:22] == ("10 before", "10 behind", "ADJ before", "ADJ behind")
    assert RULES[-3:] == ("same word before", "same word behind", "same place")
    assert len(RULES) == 2 * (10 + 17) + 3


def test_a_table_has_a_row_for_each_head_of_each_relation() -> None:
    frame = small().to_frame()
    assert frame["relation"].tolist() == np.repeat([r.relation for r in ROWS], N_HEADS).tolist()
    assert frame["direction"].tolist() == np.repeat([r.direction for r in ROWS], N_HEADS).tolist()
    assert frame["head"].tolist() == [0, 1, 2] * len(ROWS)
    assert frame["n"].tolist() == np.repeat(np.arange(5) + 100, N_HEADS).tolist()
    assert frame["rule"].tolist() == np.repeat(RULES[:5], N_HEADS).tolist()
    assert frame["rule_accuracy"].tolist() == np.repeat(np.arange(5) / 10, N_HEADS).tolist()
    assert frame["uuas"].tolist() == [0.25, 0.5, 0.75] * len(ROWS)


def test_a_table_of_a_relation_has_its_rows_alone() -> None:
    frame = small({(1, OBJECT): 0.2}).to_frame("obj", heads=["0-2", "0-1"])
    assert frame["relation"].tolist() == ["obj", "obj"]
    assert frame["head"].tolist() == [2, 1]
    assert frame["gain"].tolist() == [0, 0.2]
    assert frame["stated"].tolist() == [False, True]


def test_a_table_counts_sentences_words_and_gains() -> None:
    attrs = small({(0, OBJECT): 0.2, (1, ALL): 0.3}).to_frame().attrs
    assert attrs["sentences"] == 39
    assert attrs["words"] == 500
    assert attrs["words_without_token"] == 3
    assert attrs["clusters"] == 7
    assert attrs["chain_uuas"] == 0.4
    assert attrs["gains_that_hold"] == 2


@pytest.mark.parametrize(("met", "rule"), [(30, RULES[0]), (29, None)])
def test_a_rare_relation_has_no_rule(met: int, rule: str | None) -> None:
    assert small(met=np.full(5, met)).to_frame()["rule"][0] == rule


def test_a_relation_that_is_not_there_is_refused_with_the_nearest() -> None:
    with pytest.raises(SelectionError, match="no relation 'objj'; did you mean 'obj'"):
        small().to_frame("objj")
    with pytest.raises(SelectionError, match="no relation 'x'; there are det, obj"):
        check_relation("x", ["det", "obj", "det"])


def test_the_best_head_of_a_relation_has_the_highest_accuracy() -> None:
    accuracy = np.zeros((1, N_HEADS, len(ROWS)))
    accuracy[0, :, OBJECT] = [0.2, 0.6, 0.5]
    accuracy[0, :, SUBJECT] = np.nan
    result = small(accuracy=accuracy)
    best = result.best()
    assert best["relation"].tolist() == ["all", "obj", "det", "punct"]
    assert best["head"].tolist() == [0, 1, 0, 0]
    assert result.order(OBJECT).tolist() == [1, 2, 0]
    assert result.order(SUBJECT).tolist() == []


def test_rows_of_a_head_begin_with_what_is_stated() -> None:
    """The gain of punctuation is the largest, and states nothing."""
    result = small({(1, PUNCTUATION): 0.5, (1, OBJECT): 0.2, (1, SUBJECT): 0.3})
    rows = result.head_rows(Head(0, 1))
    assert rows["relation"].tolist()[:3] == ["nsubj", "obj", "punct"]
    gain = result.gain.copy()
    gain[0, 1, SUBJECT] = np.nan
    assert "nsubj" not in replace(result, gain=gain).head_rows(Head(0, 1))["relation"].tolist()


def test_an_interval_of_a_gain_is_by_the_clusters_of_its_row() -> None:
    result = small()
    widths = result.half_widths(result.to_frame("obj"))
    assert widths.tolist() == pytest.approx([0.01 * stats.t(5 - 1).ppf(0.975)] * N_HEADS)


def test_columns_of_a_head_say_what_states_it() -> None:
    result = small({(1, OBJECT): 0.2})
    assert result.head_columns(Head(0, 1)) == {
        "syntax_label": "obj dep->head",
        "syntax_statement": "object → its verb",
        "letter": "S",
        "uuas": 0.5,
        "chain_uuas": 0.4,
    }
    assert result.head_columns(Head(0, 0))["syntax_label"] is None
    assert result.head_columns(Head(0, 0))["syntax_statement"] is None


def test_a_second_treebank_is_held_against_the_same_rows() -> None:
    rows = (Row("case", HEAD), Row("det", DEPENDENT), *ROWS[1:3], Row("punct", HEAD))
    held = small({(0, rows.index(ROWS[DETERMINER])): 0.4}, rows=rows)
    result = replace(small({(0, OBJECT): 0.2}), held=held)
    assert result.held_values("gain")[0, 0].tolist()[1:] == [0, 0, 0.4, 0]
    frame = result.to_frame()
    others = frame[frame["relation"] == "all"]
    assert others["held_gain"].isna().all()
    assert others["held_holds"].isna().all()
    assert frame["held_holds"].dtype == "boolean"
    assert frame.attrs["held_signature"]["model"] == "toy"


def test_without_a_second_treebank_nothing_is_held() -> None:
    frame = small().to_frame()
    assert frame[["held_gain", "held_p_holm", "held_holds"]].isna().all(axis=None)
    assert "held_signature" not in frame.attrs

"""Links of one's own are measured as treebanks are, and a head that follows them is told."""

from pathlib import Path

import numpy as np
import pytest
import torch
from pandas.testing import assert_frame_equal
from support.links import LinkRecord, antecedents, as_links, written
from support.toy_bert import save_toy_bert
from support.treebanks import planted_file
from transformers import AutoTokenizer, BertConfig, BertModel

import attnscan
from attnscan.errors import OptionError, SelectionError
from attnscan.results.grid import Head
from attnscan.results.syntax import DEPENDENT, HEAD, Row, Syntax

PLAN = {
    (0, 0): "articles to nouns",
    (0, 1): "previous-word",
    (1, 0): "next-word",
    (1, 1): "identical",
}
OF_TREES = ["uuas", "chain_uuas"]
NOUNS = ("cat", "dog", "mat", "store")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_toy_bert(tmp_path_factory.mktemp("toy"), 2, 3, PLAN))


@pytest.fixture(scope="module")
def coreference(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("links") / "coref.jsonl", antecedents())


@pytest.fixture(scope="module")
def result(toy: str, coreference: str) -> Syntax:
    with pytest.warns(UserWarning, match="96 inputs are few: below 200"):
        return attnscan.syntax(links=coreference, model=toy)


@pytest.mark.parametrize("options", [{}, {"special": "in"}, {"subtypes": True}])
def test_a_treebank_written_as_links_gives_its_table(
    toy: str, tmp_path: Path, options: dict[str, object]
) -> None:
    treebank = planted_file(tmp_path)
    if "subtypes" in options:
        text = Path(treebank).read_text(encoding="utf-8")
        Path(treebank).write_text(text.replace("\tdet\t", "\tdet:x\t"), encoding="utf-8")
    trees = attnscan.syntax(treebank, model=toy, **options)
    links = attnscan.syntax(links=as_links(treebank), model=toy, **options)
    ours = links.to_frame()
    theirs = trees.to_frame()
    assert_frame_equal(ours.drop(columns=OF_TREES), theirs.drop(columns=OF_TREES))
    assert ours[OF_TREES].isna().all().all() and theirs[OF_TREES].notna().all().all()
    assert ours.attrs["gains_that_hold"] == theirs.attrs["gains_that_hold"] > 0
    assert trees.has_trees and not links.has_trees


def test_a_head_that_looks_at_the_antecedent_is_found(result: Syntax) -> None:
    row = result.rows.index(Row("coref", HEAD))
    assert result.accuracy[0, 0, row] == pytest.approx(1)
    assert result.rule_accuracy[row] < 0.5
    assert result.statements == {Head(0, 0): "coref → its target"}
    assert result.letter(Head(0, 0)) == "L"
    assert np.argwhere(result.stated).tolist() == [[0, 0, row]]


def test_a_head_that_does_what_a_rule_does_is_not_found(result: Syntax) -> None:
    row = result.rows.index(Row("next", HEAD))
    assert result.accuracy[1, 0, row] == pytest.approx(1)
    assert result.rule[row] == "1 behind" and result.gain[1, 0, row] == pytest.approx(0)


def test_an_untrained_model_has_no_gain(tmp_path: Path, toy: str, coreference: str) -> None:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=21,
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=32,
    )
    BertModel(config).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(toy).save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="few"):
        random = attnscan.syntax(links=coreference, model=str(tmp_path))
    assert not random.stated.any() and not random.main_rows


def same_words() -> list[LinkRecord]:
    """40 records with a noun twice, at changing distances; the second may have a capital."""
    records = []
    for number in range(40):
        noun = NOUNS[number % 4]
        between = ["straw", "sat", "ran", "on", "to"][: 1 + number % 5]
        words = ["the", noun, *between, noun.upper() if number % 2 else noun, "."]
        link = ["again", len(between) + 2, 1]
        records.append({"text": " ".join(words), "words": words, "links": [link]})
    return records


@pytest.mark.filterwarnings("ignore:.* are few")
def test_the_nearest_same_word_is_a_rule(toy: str) -> None:
    result = attnscan.syntax(links=same_words(), model=toy)
    found = result.to_frame("again").drop_duplicates("direction")
    assert found["rule"].tolist() == ["same word before", "same word behind"]
    assert found["rule_accuracy"].tolist() == [1, 1]
    row = result.rows.index(Row("again", DEPENDENT))
    assert result.accuracy[1, 1, row] == pytest.approx(1)  # the head that looks at equal words
    assert not result.stated.any() and not result.holds.any()


def pairs() -> list[LinkRecord]:
    """40 pairs of other words, in which each word is linked with that in its place."""
    records = []
    for number in range(40):
        a = ["the", NOUNS[number % 4], *["straw"] * (number % 3), "sat"]
        b = ["a", NOUNS[(number + 1) % 4], *["on"] * (number % 3), "ran"]
        links = [["match", len(a) + place, place] for place in range(len(a))]
        records.append({"text": " ".join(a), "text_b": " ".join(b), "links": links})
    return records


@pytest.mark.filterwarnings("ignore:.* are few")
def test_the_same_place_in_the_other_sentence_is_a_rule(toy: str) -> None:
    result = attnscan.syntax(links=pairs(), model=toy)
    found = result.to_frame("match").drop_duplicates("direction")
    assert found["rule"].tolist() == ["same place"] * 2
    assert found["rule_accuracy"].tolist() == [1, 1]
    assert found["n"].tolist() == [sum(3 + number % 3 for number in range(40))] * 2
    assert result.words == 2 * found["n"].iloc[0] and result.wordless == 0


@pytest.mark.filterwarnings("ignore:.* are few")
def test_tags_of_ones_own_make_rules(toy: str) -> None:
    records = antecedents()
    for record in records:
        (*_, last) = record["links"]
        tags = ["T" if word == last[2] else "F" for word in range(last[2] + 1)]
        record["tags"] = tags
        record["links"] = [["end", word, last[2]] for word in range(last[2])]
    result = attnscan.syntax(links=records, model=toy)
    row = result.rows.index(Row("end", HEAD))
    assert result.rule[row] == "T behind" and result.rule_accuracy[row] == 1


@pytest.mark.filterwarnings("ignore:.* are few")
def test_second_inputs_are_of_either_kind(toy: str, coreference: str, tmp_path: Path) -> None:
    treebank = planted_file(tmp_path)
    links = written(tmp_path / "trees.jsonl", as_links(treebank))
    held = attnscan.syntax(treebank, held=links, model=toy)
    again = attnscan.syntax(links=links, held=[treebank], model=toy)
    assert held.held is not None and not held.held.has_trees
    assert again.held is not None and again.held.has_trees
    for one in (held, again):
        assert one.to_frame()["held_gain"].equals(one.to_frame()["gain"].rename("held_gain"))
    other = attnscan.syntax(links=coreference, held=treebank, model=toy)
    rows = other.to_frame()
    assert rows["held_gain"].notna().eq(rows["relation"] == "all").all()


@pytest.mark.filterwarnings("ignore:.* are few")
def test_a_state_resumes(toy: str, tmp_path: Path, result: Syntax) -> None:
    records = antecedents()
    halves = [written(tmp_path / "a.jsonl", records[:40]), written(tmp_path / "b.jsonl", records)]
    written(tmp_path / "b.jsonl", records[40:])
    state = tmp_path / "state"
    first = attnscan.syntax(links=halves[0], model=toy, state=state)
    assert first.sentences == 40
    whole = attnscan.syntax(links=halves, model=toy, state=state)
    assert_frame_equal(whole.to_frame(), result.to_frame(), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.* are few")
def test_a_program_gives_records_or_an_iterator(toy: str, result: Syntax) -> None:
    for records in (antecedents(), iter(antecedents())):
        ours = attnscan.syntax(links=records, model=toy)
        assert_frame_equal(ours.to_frame(), result.to_frame())


class TestRefusals:
    def test_two_kinds_at_once(self, toy: str, coreference: str) -> None:
        with pytest.raises(OptionError, match="treebank and links were both given; give one"):
            attnscan.syntax("t.conllu", links=coreference, model=toy)

    def test_a_relation_that_is_not_there(self, toy: str, coreference: str) -> None:
        with pytest.raises(SelectionError, match="the links have no relation 'corf'; did you mean"):
            attnscan.syntax(links=coreference, relation="corf", model=toy)

    def test_what_is_no_list_of_records(self, toy: str) -> None:
        with pytest.raises(OptionError, match="links is of the class dict; give a file, or a list"):
            attnscan.syntax(links={"text": "a b", "links": []}, model=toy)  # type: ignore[arg-type]

"""Heads that are made to follow a relation are told, and those that keep a distance are not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from support.toy_bert import save_toy_bert
from support.treebanks import planted_file
from transformers import AutoTokenizer, BertConfig, BertModel

import attnscan
from attnscan.errors import InputError, OptionError, StateError, TooLongError
from attnscan.inputs.read import read_pairs
from attnscan.inputs.sentence import Sentence
from attnscan.results.grid import Head
from attnscan.results.syntax import DEPENDENT, HEAD, Row, Syntax

PLAN = {
    (0, 0): "articles to nouns",
    (0, 1): "previous-word",
    (1, 0): "next-word",
    (1, 2): "delimiter",
}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_toy_bert(tmp_path_factory.mktemp("toy"), 2, 3, PLAN))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> str:
    return planted_file(tmp_path_factory.mktemp("trees"))


@pytest.fixture(scope="module")
def result(toy: str, planted: str) -> Syntax:
    return attnscan.syntax(planted, model=toy)


def at(result: Syntax, relation: str, direction: str) -> int:
    return result.rows.index(Row(relation, direction))


def test_a_head_that_follows_determiners_is_told(result: Syntax) -> None:
    det = at(result, "det", HEAD)
    place = (0, 0, det)
    assert (
        result.accuracy[place] == pytest.approx(1) and result.holds[place] and result.stated[place]
    )
    assert result.rule_accuracy[det] == pytest.approx(1 / 3, abs=0.1)
    assert result.statements[Head(0, 0)] == "determiner → its noun"
    assert (
        result.head_columns(Head(0, 0))["syntax_label"] == "det dep->head"
        and result.letter(Head(0, 0)) == "F"
    )


def test_a_head_that_keeps_a_distance_is_not(result: Syntax) -> None:
    """It is right as often as the rule is, which is a third of the time or always."""
    amod = at(result, "det", DEPENDENT)
    subject = at(result, "nsubj", DEPENDENT)
    assert 0.2 < result.accuracy[0, 1, amod] < 0.5 and result.accuracy[0, 1, subject] == 1
    for head in (Head(0, 1), Head(1, 0)):
        assert not result.stated[head.place].any() and head not in result.main_rows
        assert np.nanmax(result.gain[head.place]) < 0.05 and not result.holds[head.place].any()
    assert_allclose(result.uuas[0, 1], result.chain_uuas)
    assert not result.stated[1].any()


def test_every_number_of_a_head_by_hand(result: Syntax, planted: str) -> None:
    """All rows of `previous-word` are known: the word before; of the first, all are equal."""
    records = [record.pair.sentences[0] for record in read_pairs([planted])]
    heads = [sentence.tags["head"] for sentence in records]
    pairs = []
    shares = []
    for sentence_heads in heads:
        last = len(sentence_heads) - 1
        for word, head in enumerate(sentence_heads):
            if head is not None and word != last:
                pairs.append((word, head))
        shares += [1 / len(sentence_heads)] * len(sentence_heads[2:])
    everything = at(result, "all", HEAD)
    assert result.n[everything] == len(pairs) and result.met[everything] == len(records) == 288
    assert result.accuracy[0, 1, everything] == pytest.approx(
        np.mean([head == abs(word - 1) for word, head in pairs])
    )
    assert result.words == sum(len(sentence_heads) for sentence_heads in heads)
    assert (result.wordless, result.clusters) == (0, 24)
    assert result.chance[0, 0, everything] == pytest.approx(np.mean(shares), abs=0.01)


def test_an_untrained_model_gets_nothing(tmp_path: Path, toy: str, planted: str) -> None:
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
    random = attnscan.syntax(planted, model=str(tmp_path))
    assert not random.stated.any() and not random.main_rows


def assert_equal(one: Syntax, other: Syntax) -> None:
    assert (one.rows, one.clusters, one.words) == (other.rows, other.clusters, other.words)
    for name in ("accuracy", "weight", "chance", "gain", "se", "p_holm", "uuas"):
        assert_allclose(
            getattr(one, name), getattr(other, name), rtol=1e-5, atol=1e-9, err_msg=name
        )
    for name in ("n", "met", "rule", "rule_accuracy"):
        assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert replace(one.signature, fingerprint=None) == replace(other.signature, fingerprint=None)


@pytest.fixture(scope="module")
def halved(planted: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The treebank in two files, in another order; the first has fewer relations."""
    directory = tmp_path_factory.mktemp("halves")
    blocks = Path(planted).read_text(encoding="utf-8").split("# newdoc")[:0:-1]
    plain = [block for block in blocks if "amod" not in block]
    assert 0 < len(plain) < len(blocks)
    for name, some in (("a", plain), ("b", [block for block in blocks if "amod" in block])):
        (directory / f"{name}.conllu").write_text(
            "".join(f"# newdoc{block}" for block in some), encoding="utf-8"
        )
    return str(directory / "a.conllu"), str(directory / "b.conllu")


@pytest.mark.filterwarnings("ignore:.* sentences are few")
def test_a_state_takes_more_treebanks(
    result: Syntax, toy: str, halved: tuple[str, str], tmp_path: Path
) -> None:
    state = tmp_path / "state"
    first = attnscan.syntax(halved[0], model=toy, state=state)
    assert first.sentences == 96
    assert_equal(attnscan.syntax(halved, model=toy, state=state), result)
    assert_equal(attnscan.syntax(halved, model=toy, state=state, held=halved[1]), result)
    for changed, match in (
        ({"subtypes": True}, "its relations is universal, and here it is subtypes"),
        ({"seed": 1}, "its seed is 0"),
        ({"special": "in"}, "its special is out"),
        ({"treebank": halved[1]}, "other pairs than these"),
    ):
        with pytest.raises(StateError, match=match):
            attnscan.syntax(**{"treebank": halved, "model": toy, "state": state, **changed})
    with pytest.raises(StateError, match="its unit is word"):
        attnscan.heads(["the cat"], model=toy, state=state, predictive="off")


def test_a_second_treebank_tells_gains_again(toy: str, planted: str, result: Syntax) -> None:
    both = attnscan.syntax(planted, held=planted, model=toy)
    assert both.held is not None and (both.held_values("holds") == both.holds).all()
    assert_allclose(both.held_values("gain"), result.gain)
    frame = both.to_frame("det")
    assert_allclose(frame["held_gain"], frame["gain"])
    assert frame["held_holds"].tolist() == frame["holds"].tolist() and frame["holds"].any()


def test_a_relation_in_few_sentences_has_no_numbers(toy: str, planted: str, tmp_path: Path) -> None:
    text = Path(planted).read_text(encoding="utf-8").split("\n\n")
    (tmp_path / "few.conllu").write_text("\n\n".join(text[:29]) + "\n\n", encoding="utf-8")
    with pytest.warns(UserWarning, match="29 sentences are few"):
        few = attnscan.syntax(tmp_path / "few.conllu", model=toy)
    assert np.isnan(few.accuracy).all() and not few.holds.any() and few.best().empty
    assert (few.to_frame()["n"] > 0).all() and few.to_frame()["rule"].isna().all()


class TestRefusals:
    def test_sentences_without_trees(self, toy: str, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("The cat sat.\n", encoding="utf-8")
        for treebank in (
            tmp_path / "a.txt",
            ["the cat sat ."],
            [Sentence("the cat", [(0, 3)], {"upos": ["DET"]})],
        ):
            with pytest.raises(
                InputError, match=r"a sentence without a tree; name a treebank in CoNLL-U"
            ):
                attnscan.syntax(treebank, model=toy)

    def test_no_sentence(self, toy: str, tmp_path: Path) -> None:
        (tmp_path / "a.conllu").write_text("\n\n", encoding="utf-8")
        with pytest.raises(InputError, match="there is no sentence in the treebank"):
            attnscan.syntax(tmp_path / "a.conllu", model=toy)
        with pytest.raises(OptionError, match="there is no treebank"):
            attnscan.syntax(None, model=toy)

    def test_a_sentence_longer_than_the_model(self, toy: str, tmp_path: Path) -> None:
        rows = "\n".join(f"{i}\tcat\t_\tNOUN\t_\t_\t{i - 1}\tconj\t_\t_" for i in range(1, 41))
        (tmp_path / "a.conllu").write_text(f"{rows}\n\n", encoding="utf-8")
        with pytest.raises(TooLongError, match=r"a\.conllu:1: the input is 42 tokens long"):
            attnscan.syntax(tmp_path / "a.conllu", model=toy)
        with pytest.raises(
            InputError, match="no sentence of the treebank, or of the links, is left"
        ):
            attnscan.syntax(tmp_path / "a.conllu", model=toy, on_long="skip")

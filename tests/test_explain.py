"""How heads make their patterns: constructed heads, whose ways are known; a trained model; and every family."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from families import TAPPED, UNTAPPED, Collected, tiny_inputs, tiny_model
from numpy.testing import assert_allclose
from toy import save_toy_bert
from typer.testing import CliRunner
from written import input_of

from attnscan.attention import Attention
from attnscan.capture import Tap
from attnscan.cli import app
from attnscan.errors import InputError, ModelError
from attnscan.explaining.explain import explain, explain_input
from attnscan.explaining.explanation import CAUSES, Explanations, HeadExplanation
from attnscan.explaining.interventions import Positions, shuffled
from attnscan.options import ScanOptions
from attnscan.pairs import Pair, Record, shipped_pairs
from attnscan.scanner import Scanner

NEXT, THREE, IDENTICAL, FIRST, NOTHING = (0, 0), (0, 1), (0, 2), (1, 0), (1, 1)
PLAN = {
    NEXT: "next-word",
    THREE: "delimiter by three neurons",
    IDENTICAL: "identical",
    FIRST: "bag of first sentence",
}
LONG_AND_SHORT = Pair("the cat sat on the mat and the dog ran to a store", "a dog ran .")
ARTICLE = ("I went to the store.", "At the store, I bought fresh strawberries.")


def _record(pair: Pair) -> Record:
    return Record(pair, "here")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_toy_bert(tmp_path_factory.mktemp("explained"), 2, 4, PLAN))


@pytest.fixture(scope="module")
def found(toy: str) -> Explanations:
    with Scanner(ScanOptions(model=toy, predictive="off")) as scanner:
        return explain_input(scanner, _record(LONG_AND_SHORT))


def _of(found: Explanations, head: tuple[int, int], pattern: str) -> HeadExplanation:
    return Explanations(**{**vars(found), "pattern": pattern})[head]


def test_a_head_that_reads_positions_needs_them_and_a_neuron_for_each(found: Explanations) -> None:
    head = found[NEXT]
    assert (head.label, head.pattern) == ("next-word", "next-word")
    assert head.score == pytest.approx(1, abs=1e-4)
    assert head.causes["positions_shuffled"] < 0.25
    assert head.stability < 0.1 and head.effective_neurons == pytest.approx(1, abs=0.01)
    assert head.causes["segments_zeroed"] == head.causes["segments_swapped"] == pytest.approx(head.score)
    assert head.conclusion.startswith("0-0 finds the next word by position: with the words' positions shuffled its")
    assert head.conclusion.endswith("segments do not matter.")


def test_a_head_of_three_neurons_has_three_and_always_the_same(found: Explanations) -> None:
    head = found[THREE]
    assert head.label == "delimiter"
    assert head.effective_neurons == pytest.approx(3, abs=0.01)
    assert head.stability == pytest.approx(1)
    assert head.conclusion == (
        "0-1 rests on delimiters by content: with the words' positions shuffled it stays (1.00 → 1.00); "
        "segments do not matter."
    )


def test_a_head_that_reads_words_needs_neither_positions_nor_segments(found: Explanations) -> None:
    head = found[IDENTICAL]
    assert head.label == "identical"
    assert all(score == pytest.approx(head.score, abs=1e-4) for score in head.causes.values())
    assert "finds identical words by content" in head.conclusion


def test_a_head_that_reads_segments_follows_them(found: Explanations) -> None:
    """Most words stand in A. With segments exchanged, what this head did for them it does for the few of B."""
    head = _of(found, FIRST, "bag-of-words")
    words_of_a, words_of_b = 13, 4
    assert head.score == pytest.approx(words_of_a / (words_of_a + words_of_b), abs=1e-3)
    assert head.causes["segments_swapped"] == pytest.approx(words_of_b / (words_of_a + words_of_b), abs=1e-3)
    assert head.causes["segments_zeroed"] != pytest.approx(head.score, abs=0.01)
    assert head.causes["positions_shuffled"] == pytest.approx(head.score, abs=1e-4)
    assert "by segment: with all segment ids 0 its bag-of-words score falls" in head.conclusion
    assert "; with the segment ids exchanged it falls from 0.76 to 0.24;" in head.conclusion


def test_a_head_that_does_nothing_is_not_explained_away(found: Explanations) -> None:
    head = found[NOTHING]
    assert head.label == "mixed"
    assert "does not follow" in head.conclusion
    assert np.isnan(head.effective_neurons)  # no neuron tells anything


def test_sign_agreement_of_a_head_whose_neurons_tell_sentences_apart() -> None:
    """Neurons by hand: one is positive in A and negative in B, on both sides; the other has one sign throughout."""
    from attnscan.batch import collate
    from attnscan.capture import AttentionBlock
    from attnscan.explaining.neurons import NeuronScorer
    from attnscan.patterns import PATTERNS
    from attnscan.scanner import targets_of

    batch = collate([input_of("[CLS] a b [SEP] c d [SEP]")])
    signs = torch.tensor([0.0, 1, 1, 0, -1, -1, 0])
    telling = torch.stack([signs, torch.zeros(7)], -1)
    alike = torch.stack([torch.where(signs != 0, 1.0, 0), torch.zeros(7)], -1)
    neurons = torch.stack([telling, alike])[None]
    visible = torch.ones(1, 7, 7, dtype=torch.bool)
    scorer = NeuronScorer(batch, targets_of(batch, PATTERNS))
    every = slice(None)
    weights = torch.full((1, 2, 7, 7), 1 / 7)
    scorer(AttentionBlock((1, 2), 0, every, every, weights, visible, neurons, neurons, 1.0, None))
    sums = scorer.sums()
    assert sums is not None
    bag = [pattern.id for pattern in PATTERNS].index("bag-of-words")
    table = sums.finish()
    assert table.sign_agreement[0, :, bag].tolist() == [1, 0]
    assert_allclose(table.effective[0, :, bag], [1, 1], atol=1e-6)


def test_pairs_say_what_their_inputs_say_one_by_one(toy: str) -> None:
    pairs = [Pair("the cat sat on the mat", "a dog ran"), Pair("i went to the store ."), Pair("a cat", "the cat ran")]
    with Scanner(ScanOptions(model=toy, predictive="off")) as scanner:
        together = explain(scanner, [_record(pair) for pair in pairs])
        backwards = explain(scanner, [_record(pair) for pair in reversed(pairs)])
        alone = [explain_input(scanner, _record(pair)) for pair in pairs]
    assert together.signature.pairs_read == 3
    for name in CAUSES:
        one, other = together.causes[name].every_key, backwards.causes[name].every_key
        assert_allclose(one.score, other.score, atol=1e-12)
        total = sum(np.nan_to_num(each.causes[name].every_key.score * each.causes[name].every_key.n) for each in alone)
        assert_allclose(np.nan_to_num(one.score * one.n), total, atol=1e-5)
    assert_allclose(together.neurons.stability, backwards.neurons.stability, atol=1e-12)


def test_one_run_for_some_heads_says_what_a_run_for_all_says(toy: str, found: Explanations) -> None:
    with Scanner(ScanOptions(model=toy, predictive="off")) as scanner:
        some = explain_input(scanner, _record(LONG_AND_SHORT), [THREE])
    assert some.heads == (THREE,)
    assert some[THREE].row() == found[THREE].row()


def test_a_shuffle_moves_words_among_themselves_and_nothing_else() -> None:
    encoded = input_of("[CLS] a b c d e [SEP] f g [SEP]")
    encoded.model_inputs["input_ids"] = list(range(10))
    order = shuffled([encoded], 12, seed=0)[0]
    assert sorted(order.tolist()) == list(range(12))
    assert order[[0, 6, 9, 10, 11]].tolist() == [0, 6, 9, 10, 11]
    assert order.tolist() != list(range(12))
    assert torch.equal(order, shuffled([encoded, encoded], 12, seed=0)[1])
    assert not torch.equal(order, shuffled([encoded], 12, seed=1)[0])


def test_a_single_word_has_nothing_to_shuffle(toy: str) -> None:
    with Scanner(ScanOptions(model=toy, predictive="off")) as scanner:
        found = explain_input(scanner, _record(Pair("cat")))
    assert found.not_available["positions_shuffled"] == "there are no two words to shuffle"
    assert "cannot be explained here" in _of(found, NEXT, "next-word").conclusion


def test_no_pair_is_an_error(toy: str) -> None:
    with Scanner(ScanOptions(model=toy, predictive="off")) as scanner, pytest.raises(InputError, match="no pair"):
        explain(scanner, [])


# Families


def _weights(tap: Tap, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Shape: [layer, head, query, key]."""
    found = Collected()
    tap.run(inputs, found)
    return torch.stack([found.layer(layer)[0] for layer in sorted(found.blocks)])


# Relative ones, or sinusoids and tables that are looked up otherwise
NOT_MOVED = {"xlnet", "roformer", "t5", "mt5", "umt5", "switch_transformers", "bloom"}
NOT_MOVED |= {"marian", "pegasus", "m2m_100", "bigbird_pegasus", "ibert"}


@pytest.mark.parametrize("family", [*TAPPED, *UNTAPPED])
def test_positions_of_every_family_can_be_moved_or_are_said_not_to_be(family: str) -> None:
    """The order that things stand in changes nothing; another changes the weights of models that have positions."""
    model = tiny_model(family, {**TAPPED, **UNTAPPED}[family])
    inputs = {name: values[:1] for name, values in tiny_inputs().items()}
    as_it_is = torch.arange(12)[None]
    other = torch.cat([as_it_is[:, :1], as_it_is[:, 1:11].flip(1), as_it_is[:, 11:]], 1)
    try:
        positions = Positions(model, inputs)
    except ModelError:
        assert family in NOT_MOVED
        return
    with Tap(model) as tap:
        plain = _weights(tap, inputs)
        with positions.reordered(inputs, as_it_is) as same:
            assert_allclose(_weights(tap, same), plain, atol=1e-6)
        with positions.reordered(inputs, other) as changed:
            moved = _weights(tap, changed)
        assert torch.equal(_weights(tap, inputs), plain)  # nothing is left behind
    assert (family in NOT_MOVED) == torch.equal(moved, plain)


# The command


def _run(*arguments: str) -> str:
    result = CliRunner(env={"COLUMNS": "80", "ATTNSCAN_MODEL": "bundled"}).invoke(app, ["explain", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_bundled_models_heads_over_the_pairs_that_come_along() -> None:
    pairs = [record for record, _ in zip(shipped_pairs(), range(30), strict=False)]
    with Scanner(ScanOptions(model="bundled", predictive="off")) as scanner:
        found = explain(scanner, pairs)
    previous, following = _of(found, (0, 2), "previous-word"), _of(found, (1, 8), "next-word")
    assert previous.score > 0.95 and previous.causes["positions_shuffled"] < 0.1
    assert following.score > 0.5 and following.causes["positions_shuffled"] < 0.1
    identical = _of(found, (2, 9), "identical")
    assert identical.causes["positions_shuffled"] > 0.8 * identical.score


def test_the_screen_of_one_head_and_token() -> None:
    text = _run("0-2", *ARTICLE, "--token", "store#2")
    assert "store  token 10" in text
    assert text.splitlines()[4].split()[:3] == ["9", "the", "1.000"]
    assert "0-2 finds the previous word by position" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_every_head_in_rows() -> None:
    lines = _run("--all", *ARTICLE, "--csv").splitlines()
    assert len(lines) == 1 + 72
    assert lines[0] == (
        "model,layer,head,label,pattern,score,chance,above_chance,effective_neurons,stability,sign_agreement,"
        "positions_shuffled,segments_zeroed,segments_swapped,n,pairs,conclusion"
    )
    one = _run("0-2", *ARTICLE, "--csv").splitlines()[1]
    assert one == lines[3]


def test_json_holds_queries_keys_and_products_in_full() -> None:
    found = json.loads(_run("1-8", *ARTICLE, "--format", "json"))
    head = found["heads"][0]
    query, key, products = (np.array(head[name]) for name in ("query", "key", "products"))
    assert products.shape == (19, 19, 32) and len(found["tokens"]) == 19
    assert_allclose(products, query[:, None] * key[None] * head["scaling"], atol=1e-4)
    logits = products.sum(-1)
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    assert_allclose(weights, head["weights"], atol=1e-4)


def test_a_tokens_keys_as_rows() -> None:
    header, *rows = _run("0-2", *ARTICLE, "--token", "5", "--csv").splitlines()
    columns = header.split(",")
    assert columns[:9] == ["model", "layer", "head", "query", "query_token", "key", "key_token", "weight", "logit"]
    assert columns[9:] == [f"neuron_{n}" for n in range(32)] and len(rows) == 19
    for row in rows:
        cells = row.split(",")[-33:]
        assert float(cells[0]) == pytest.approx(sum(map(float, cells[1:])), abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["12-0", "a b"], 1, "12-0: this model has layers 0 to 5"),
        (["0-2", "a b", "--token", "x"], 1, "the input has no token 'x'"),
        (["nonsense", "a b"], 1, "'nonsense' names no head"),
        ([], 2, "name heads"),
        (["0-2", "--token", "x"], 2, "--token is a token of one input"),
        (["0-2", "a b", "--pairs", "x.csv"], 2, "sentences or --pairs"),
        (["0-2", "-p", "predictive"], 2, "predictive is explained by one input"),
        (["0-2", "a b", "-p", "delimeter"], 2, "did you mean 'delimiter'?"),
        (["--all", "a", "b", "c"], 2, "--all takes the place of HEADS"),
    ],
)
def test_what_cannot_be_explained(arguments: list[str], code: int, message: str) -> None:
    result = CliRunner(env={"COLUMNS": "200", "ATTNSCAN_MODEL": "bundled"}).invoke(app, ["explain", *arguments])
    assert result.exit_code == code
    assert message in result.stderr and not result.stdout


def test_a_model_without_segments_says_so(tmp_path: Path) -> None:
    """Also one without queries to see: its causes are measured all the same."""
    from toy import _tokenizer

    for family, neurons in (("distilbert", True), ("mpnet", False)):
        settings = {**TAPPED, **UNTAPPED}[family]
        directory = tmp_path / family
        tiny_model(family, settings).save_pretrained(directory)
        _tokenizer().save_pretrained(directory)
        with Scanner(ScanOptions(model=str(directory), predictive="off")) as scanner:
            found = explain_input(scanner, _record(Pair("the cat sat on the mat", "a cat ran")))
        assert "segments_swapped" in found.not_available and "positions_shuffled" in found.causes
        assert ("neurons" in found.not_available) != neurons
        assert isinstance(found.attention, Attention) and (found.attention.query is not None) == neurons
        row = found.to_frame().iloc[0]
        assert np.isnan(row["segments_zeroed"]) and not np.isnan(row["positions_shuffled"])

"""How heads make their patterns: constructed heads; neurons by hand and in rotated bases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from by_loops import targets
from numpy.testing import assert_allclose
from pandas.testing import assert_frame_equal
from support.ablation_effects import saved_with_tokenizer
from support.families import TAPPED, UNTAPPED, tiny_model
from support.handwritten_inputs import batch_of
from support.reference_scores import Written
from support.toy_bert import save_toy_bert
from torch import Tensor
from truth_of_studies import explain_neurons

import attnscan
from attnscan.errors import InputError
from attnscan.inputs.sentence import Pair, Record
from attnscan.model import tap
from attnscan.model.attention_block import AttentionBlock
from attnscan.results.explanation import (
    CAUSES,
    ROTATIONS,
    SHUFFLED,
    Explanations,
    sign,
)
from attnscan.results.grid import Grid, Head
from attnscan.results.scores import FloatArray
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner, open_scanner
from attnscan.scoring.patterns import PATTERNS
from attnscan.scoring.units import Targets
from attnscan.studies import explanation
from attnscan.studies.explanation import NeuronScorer, explain, explain_input, rotations

NEXT = Head(0, 0)
THREE = Head(0, 1)
IDENTICAL = Head(0, 2)
FIRST = Head(1, 0)
NOTHING = Head(1, 1)
PLAN = {
    NEXT.place: "next-word",
    THREE.place: "delimiter by three neurons",
    IDENTICAL.place: "identical",
    FIRST.place: "bag of first sentence",
}
LONG_AND_SHORT = Pair("the cat sat on the mat and the dog ran to a store", "a dog ran .")


def _record(pair: Pair) -> Record:
    return Record(pair, "here")


def _explained(scanner: Scanner, pair: Pair, heads: Sequence[Head] | None = None) -> Explanations:
    return explain_input(
        scanner, _record(pair), scanner.encode(pair), heads or tuple(scanner.grid())
    )


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_toy_bert(tmp_path_factory.mktemp("explained"), 2, 4, PLAN))


@pytest.fixture(scope="module")
def found(toy: str) -> Explanations:
    with open_scanner(ScanOptions(model=toy, predictive="off")) as scanner:
        return _explained(scanner, LONG_AND_SHORT)


def test_a_head_that_reads_positions_needs_them(found: Explanations) -> None:
    head = found[NEXT]
    assert head.label == head.pattern == "next-word" and head.score == pytest.approx(1, abs=1e-4)
    assert head["positions_shuffled"] < 0.25
    assert head["stability"] < 0.1 and head["effective_neurons"] == pytest.approx(1, abs=0.01)
    assert head["segments_zeroed"] == head["segments_swapped"] == pytest.approx(head.score)
    assert head.conclusion.startswith(
        "0-0 follows next-word by position: its next-word score of 1.00 falls to 0."
    )
    assert head.conclusion.endswith("stays at 1.00 with the segment ids exchanged.")


def test_heads_that_read_words_need_neither_positions_nor_segments(found: Explanations) -> None:
    """The first of them by three neurons, which are always the same."""
    head = found[THREE]
    assert head["effective_neurons"] == pytest.approx(3, abs=0.01) and head[
        "stability"
    ] == pytest.approx(1)
    assert head["effective_neurons_rotated"] > 8 and sign(head, "effective_neurons") == "<"
    assert head.conclusion == (
        "0-1 follows delimiter by content: its delimiter score of 1.00 stays at 1.00 "
        "with the words' positions shuffled, stays at 1.00 with all segment ids 0, "
        "stays at 1.00 with the segment ids exchanged."
    )
    for head, label in ((found[THREE], "delimiter"), (found[IDENTICAL], "identical")):
        assert head.label == label and f"follows {label} by content" in head.conclusion
        assert all(head[cause] == pytest.approx(head.score, abs=1e-4) for cause in CAUSES)


def test_a_head_that_reads_segments_follows_them(found: Explanations) -> None:
    """With segments exchanged, what the head did for the many words of A it does for B's few."""
    head = replace(found, pattern="bag-of-words")[FIRST]
    words_of_a = 13
    words_of_b = 4
    assert (
        head.score == pytest.approx(1, abs=1e-3) and head.n == words_of_a
    )  # the others give nothing to words
    assert head["segments_swapped"] == pytest.approx(words_of_b / words_of_a, abs=1e-3)
    assert head["segments_zeroed"] != pytest.approx(head.score, abs=0.01)
    assert head["positions_shuffled"] == pytest.approx(head.score, abs=1e-4)
    assert (
        head.by == "by segment"
        and "falls to 0.31 with the segment ids exchanged" in head.conclusion
    )


def test_pairs_say_what_their_inputs_say_one_by_one(toy: str) -> None:
    pairs = [
        Pair("the cat sat on the mat", "a dog ran"),
        Pair("i went to the store ."),
        Pair("a cat", "the cat ran"),
    ]
    with open_scanner(ScanOptions(model=toy, predictive="off")) as scanner:
        together = explain(scanner, [_record(pair) for pair in pairs])
        backwards = explain(scanner, [_record(pair) for pair in reversed(pairs)])
        alone = [_explained(scanner, pair) for pair in pairs]
    assert together.signature.pairs_read == 3
    assert_allclose(together.score, backwards.score, atol=1e-12)
    total = sum(np.nan_to_num(each.score * each.n) for each in alone)
    assert_allclose(np.nan_to_num(together.score * together.n), total, atol=1e-5)
    assert_allclose(together.neurons, backwards.neurons, atol=1e-12)


def test_ranges_of_queries_explain_as_whole_rows_do(
    toy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neurons, causes, and what is kept of the heads that are asked for."""
    record = _record(Pair("the cat sat on the mat .", "a cat ran on the mat"))
    heads = [NOTHING, THREE]
    with open_scanner(ScanOptions(model=toy, predictive="off")) as scanner:
        whole = _explained(scanner, record.pair, heads)
        monkeypatch.setattr(tap, "_BLOCK_CELLS", 1)
        ranges = _explained(scanner, record.pair, heads)
    assert_frame_equal(ranges.to_frame(), whole.to_frame(), atol=1e-4)
    assert whole.attention is not None and ranges.attention is not None
    assert_allclose(ranges.attention.weights, whole.attention.weights, atol=1e-6)
    assert whole.attention.weights.shape[:2] == (1, 2) and whole.attention.place(heads[1]) == (0, 1)


def test_no_pair_is_an_error(toy: str) -> None:
    with (
        open_scanner(ScanOptions(model=toy, predictive="off")) as scanner,
        pytest.raises(InputError, match="no pair"),
    ):
        explain(scanner, [])


@pytest.mark.parametrize("family", ["distilbert", "qwen3", "mpnet"])
def test_a_model_without_segments_says_so(tmp_path: Path, family: str) -> None:
    """The keys of the second are grouped, and the third is watched."""
    model = saved_with_tokenizer(tmp_path, tiny_model(family, {**TAPPED, **UNTAPPED}[family]))
    with open_scanner(ScanOptions(model=model, predictive="off")) as scanner:
        found = _explained(scanner, Pair("the cat sat on the mat", "a cat ran"))
    assert "segments_swapped" in found.not_available and not {"positions_shuffled", "neurons"} & {
        *found.not_available
    }
    assert found.attention is not None and found.attention.query is not None
    row = found.to_frame().iloc[0]
    assert (
        row[["effective_neurons_rotated", "stability_rotated_sd", "positions_shuffled"]]
        .notna()
        .all()
    )
    assert np.isnan(row["segments_zeroed"])


def test_a_head_of_relative_positions_goes_by_position(tmp_path: Path) -> None:
    """MPNet looks relative positions up in a table: absolute ones do not reach this head."""
    whole = tiny_model("mpnet", UNTAPPED["mpnet"])
    with torch.no_grad():
        for layer in whole.encoder.layer:
            for projection in (layer.attention.attn.q, layer.attention.attn.k):
                torch.nn.init.zeros_(projection.weight)
        bias = whole.encoder.relative_attention_bias.weight
        bias.zero_()[17, 0] = 40.0  # one to the right
    model = saved_with_tokenizer(tmp_path, whole)
    pairs = [(pair.a, pair.b or "a dog ran") for pair in (LONG_AND_SHORT, Pair("i went to"))]
    for found in (
        attnscan.explain("0-0", *pairs[0], model=model, predictive="off"),
        attnscan.explain("0-0", pairs=pairs, model=model, predictive="off"),
    ):
        head = found["0-0"]
        assert head.score > 0.99 and head[SHUFFLED] < 0.3 and head.by == "by position"
        assert head.conclusion.startswith("0-0 follows next-word by position: ")
    card = attnscan.head("0-0", pairs=pairs, model=model)["0-0"]
    assert card.why.by == "by position"
    assert card.evidence.endswith("; segments cannot be changed here")


def test_of_what_cannot_be_changed_nothing_is_concluded(tmp_path: Path) -> None:
    """BLOOM is causal, and biased by distance."""
    model = saved_with_tokenizer(tmp_path, tiny_model("bloom", UNTAPPED["bloom"]))
    for found in (
        attnscan.explain("0-0", "the cat sat on the mat", model=model, predictive="off"),
        attnscan.explain(
            "0-0",
            pairs=[("the cat sat on the mat",), ("a dog ran",)],
            model=model,
            predictive="off",
        ),
    ):
        assert set(found.not_available) - {"neurons"} == {
            SHUFFLED,
            "segments_zeroed",
            "segments_swapped",
        }
        assert found["0-0"].by == "" and "content" not in found["0-0"].conclusion
    cards = attnscan.head("0-0", pairs=["the cat sat on the mat", "a dog ran"], model=model)
    assert cards["0-0"].why.by == ""
    assert cards["0-0"].evidence == "positions and segments cannot be changed here"


TEXT = "[CLS] a b a . [SEP] c a b [SEP]"


def _measured(query: Tensor, key: Tensor, seed: int = 0) -> FloatArray:
    """Of one layer's only block. Shape: [measure, basis, layer, head, pattern]; queries, keys each
    [batch, head, token, neuron].
    """
    batch = batch_of(*[TEXT] * len(query))
    scorer = NeuronScorer(Targets(batch, PATTERNS), seed)
    visible = torch.ones(len(batch), *query.shape[2:3] * 2, dtype=torch.bool)
    every = slice(None)
    weights = torch.softmax(query @ key.transpose(2, 3), -1)
    grid = Grid((1, query.shape[1]))
    scorer(AttentionBlock(grid, 0, every, every, weights, visible, query, key, 0.5, None))
    sums = scorer.sums()
    assert sums is not None
    with np.errstate(invalid="ignore"):
        means: FloatArray = sums[::2] / sums[1::2]
    return means


def _by_loops(pattern: str, query: Tensor, key: Tensor, every: int = 1) -> list[float]:
    """Effective neurons, stability and sign agreement on one pattern, of every nth query of TEXT.

    Shape: `query` and `key` [token, neuron].
    """
    one = Written(TEXT.split(), batch_of(TEXT).inputs[0].sentence).seeing(None)
    rows = {i: row for i, row in targets(one)[pattern].items() if i % every == 0}
    return list(
        explain_neurons([one], [rows], [(query.double().numpy(), key.double().numpy())]).values()
    )


@pytest.mark.parametrize("size", [8, 32, 256])
def test_neurons_in_every_basis_equal_a_plain_loop(size: int) -> None:
    """Two heads of one input, every pattern, own basis and rotated ones."""
    query, key = torch.randn(2, 1, 2, 10, size, generator=torch.Generator().manual_seed(size))
    found = _measured(query, key, seed=7)
    turns = torch.stack([rotations(7, 0, head, size) for head in range(2)], 1)
    for head, (p, pattern), basis in product(range(2), enumerate(PATTERNS), range(ROTATIONS + 1)):
        turned = (each[0, head].double() @ turns[basis, head].double() for each in (query, key))
        expected = _by_loops(pattern.id, *turned)
        assert_allclose(
            found[:, basis, 0, head, p], expected, rtol=1e-4, err_msg=f"{pattern.id} basis {basis}"
        )


@pytest.mark.parametrize("size", [8, 64, 256])
def test_a_rotation_changes_no_logit(size: int) -> None:
    identity, *turns = rotations(0, 2, 3, size)
    assert torch.equal(identity, torch.eye(size)) and len(turns) == ROTATIONS
    query, key = torch.randn(2, 40, size, generator=torch.Generator().manual_seed(0)) / size**0.25
    for turn in turns:
        assert_allclose((query @ turn) @ (key @ turn).T, query @ key.T, atol=1e-5)
        assert (turn.diagonal() < 0.99).any()  # it is no identity
    for other in ((1, 2, 3), (0, 3, 3), (0, 2, 4)):
        assert not torch.allclose(turns[0], rotations(*other, size)[1], atol=0.1)


def test_of_a_long_input_queries_spread_over_it_are_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every third of ten: of the words those at 3 and 6."""
    monkeypatch.setattr(explanation, "_MOST_QUERIES", 4)
    query, key = torch.randn(2, 1, 1, 10, 8, generator=torch.Generator().manual_seed(0))
    expected = _by_loops("bag-of-words", query[0, 0], key[0, 0], every=3)
    place = [pattern.id for pattern in PATTERNS].index("bag-of-words")
    assert_allclose(_measured(query, key)[:, 0, 0, 0, place], expected, rtol=1e-4)

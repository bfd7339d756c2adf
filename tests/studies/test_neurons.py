"""Which neurons a head rests on, from neurons by hand, and beside the same in rotated bases."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor
from written import batch_of, input_of

from attnscan.inputs.batch import EncodedBatch, EncodedInput, collate
from attnscan.model.attention_block import AttentionBlock
from attnscan.results.explanation import NEURON_MEASURES, NeuronTable, neurons_conclusion
from attnscan.results.grid import Grid, Head
from attnscan.results.scores import FloatArray
from attnscan.scoring.patterns import PATTERNS
from attnscan.scoring.targets import Targets
from attnscan.studies import neurons
from attnscan.studies.neurons import ROTATIONS, SUMS, NeuronScorer, neuron_table, orthogonal, rotations


def test_sign_agreement_of_a_head_whose_neurons_tell_sentences_apart() -> None:
    """Neurons by hand: one is positive in A and negative in B, on both sides; the other has one sign throughout."""
    batch = collate([input_of("[CLS] a b [SEP] c d [SEP]")])
    signs = torch.tensor([0.0, 1, 1, 0, -1, -1, 0])
    telling = torch.stack([signs, torch.zeros(7)], -1)
    alike = torch.stack([torch.where(signs != 0, 1.0, 0), torch.zeros(7)], -1)
    by_hand = torch.stack([telling, alike])[None]
    scorer = NeuronScorer(Targets(batch, PATTERNS), 0)
    scorer(_block(batch, by_hand, by_hand))
    sums = scorer.sums()
    assert sums is not None
    bag = [pattern.id for pattern in PATTERNS].index("bag-of-words")
    table = neuron_table(sums)
    assert table.sign_agreement[0, 0, :, bag].tolist() == [1, 0]
    assert_allclose(table.effective[0, 0, :, bag], [1, 1], atol=1e-6)


def _block(batch: EncodedBatch, query: Tensor, key: Tensor) -> AttentionBlock:
    """One layer's only block, of queries and keys. Shape: each [batch, head, token, neuron]."""
    visible = torch.ones(len(batch), query.shape[2], query.shape[2], dtype=torch.bool)
    weights = torch.softmax(query @ key.transpose(2, 3), -1)
    grid = Grid((1, query.shape[1]))
    return AttentionBlock(grid, 0, slice(None), slice(None), weights, visible, query, key, 0.5, None)


def _plain(one: EncodedInput, target: FloatArray, query: FloatArray, key: FloatArray) -> tuple[float, float, float]:
    """One input's effective neurons, stability and sign agreement on one pattern, in loops. Shape: [token, neuron]."""
    effective, strongest, agree = [], [], []
    words = [i for i, sentence in enumerate(one.sentence) if sentence >= 0]
    for i in range(len(query)):
        on, off = [j for j in range(len(key)) if target[i, j] > 0], [j for j in range(len(key)) if target[i, j] == 0]
        if not on or not off:
            continue
        mean = sum(target[i, j] * key[j] for j in on) / sum(target[i, j] for j in on)
        contrast = query[i] * (mean - sum(key[j] for j in off) / len(off))
        effective.append(float(sum(abs(contrast)) ** 2 / sum(contrast**2)))
        strongest.append(set(sorted(range(len(contrast)), key=lambda n: -abs(contrast[n]))[:4]))
        sides = [[j for j in words if (one.sentence[j] == one.sentence[i]) == own] for own in (True, False)]
        if i in words and all(sides):
            inside, across = (sum(query[i][n] * key[j][n] for j in js for n in strongest[-1]) for js in sides)
            agree.append(inside > 0 > across)
    overlaps = [len(a & b) / len(a | b) for a, b in combinations(strongest, 2)]
    return tuple(float(np.mean(each)) if each else np.nan for each in (effective, overlaps, agree))  # type: ignore[return-value]


@pytest.mark.parametrize("size", [8, 32, 256])
def test_neurons_in_every_basis_equal_a_plain_loop(size: int) -> None:
    """Two heads of one input, every pattern, own basis and rotated ones."""
    batch = batch_of("[CLS] a b a . [SEP] c a b [SEP]")
    rng = torch.Generator().manual_seed(size)
    query, key = torch.randn(2, 1, 2, 10, size, generator=rng)
    targets = Targets(batch, PATTERNS)
    scorer = NeuronScorer(targets, 7)
    scorer(_block(batch, query, key))
    sums = scorer.sums()
    assert sums is not None
    table = neuron_table(sums)
    matrices = targets.under(torch.ones(1, 10, 10, dtype=torch.bool))
    own = torch.eye(size).expand(1, 2, size, size)
    turns = torch.cat([own, torch.stack([rotations(7, 0, head, size) for head in range(2)], 1)])
    for head, (p, target), basis in product(range(2), enumerate(matrices), range(ROTATIONS + 1)):
        turned = [(each[0, head].double() @ turns[basis, head].double()).numpy() for each in (query, key)]
        expected = _plain(batch.inputs[0], target[0].double().numpy(), *turned)
        for name, value in zip(_NAMES, expected, strict=True):
            found = getattr(table, name)[basis, 0, head, p]
            assert_allclose(found, value, rtol=1e-4, err_msg=f"{name} {PATTERNS[p].id} basis {basis}")


_NAMES = ("effective", "stability", "sign_agreement")


def _measured(query: Tensor, key: Tensor, text: str = "[CLS] a b a . [SEP] c a b [SEP]") -> NeuronTable:
    batch = batch_of(*[text] * len(query))
    scorer = NeuronScorer(Targets(batch, PATTERNS), 0)
    scorer(_block(batch, query, key))
    sums = scorer.sums()
    assert sums is not None
    return neuron_table(sums)


BAG, DELIMITER, NEXT = (
    [pattern.id for pattern in PATTERNS].index(name) for name in ("bag-of-words", "delimiter", "next-word")
)


def test_one_neuron_that_does_it_all_is_many_in_rotated_bases() -> None:
    """It tells special tokens from words: no rotation leaves that to one neuron, so that something is said of it."""
    key = torch.zeros(1, 1, 10, 32)
    key[0, 0, [0, 5, 9], 3] = 1
    query = torch.zeros(1, 1, 10, 32)
    query[..., 3] = 1
    found = _measured(query, key).in_bases([Head(0, 0)], DELIMITER)
    assert found["effective_neurons"].own == pytest.approx(1) and found["stability"].own == pytest.approx(1)
    assert found["effective_neurons"].rotated > 8 and found["effective_neurons"].sign == "<"
    assert (
        found["stability"].rotated == pytest.approx(1) and found["stability"].sign == "≈"
    )  # one direction in any basis
    said = neurons_conclusion(found)
    assert said.startswith("It has effective neurons below the range of rotated bases (1.00; ")
    assert "stability" in said and said.endswith(
        "in the range of rotated bases, and say nothing about the model's own neurons."
    )


def test_random_queries_and_keys_have_no_basis_of_their_own() -> None:
    """Of 60 heads of nothing but noise about one in twenty stands apart, by each measure."""
    rng = torch.Generator().manual_seed(1)
    table = _measured(*torch.randn(2, 3, 60, 10, 32, generator=rng))
    assert_allclose(np.mean(table.effective[0, 0, :, BAG]), 14.1, atol=0.2)  # as simulated for products of Gaussians
    assert_allclose(np.mean(table.effective[1:, ..., BAG]), 14.1, atol=0.2)
    assert_allclose(np.mean(table.stability[0, 0, :, NEXT]), 0.075, atol=0.02)
    assert np.mean(table.stability[0, 0, :, BAG]) > 0.12  # words of a sentence share their targets
    for name in NEURON_MEASURES:
        signs = [table.in_bases([Head(0, head)], BAG)[name].sign for head in range(60)]
        assert signs.count("≈") >= 52
    together = table.in_bases([Head(0, head) for head in range(60)], BAG)
    assert {measure.sign for measure in together.values()} == {"≈"}


def test_a_second_pass_without_queries_leaves_nothing_of_the_first() -> None:
    """A model that turns out not to call the tap shows all blocks once more, without queries."""
    batch = batch_of("[CLS] a b [SEP]")
    scorer = NeuronScorer(Targets(batch, PATTERNS), 0)
    block = _block(batch, torch.ones(1, 1, 4, 8), torch.ones(1, 1, 4, 8))
    scorer(block)
    assert scorer.sums() is not None
    scorer(replace(block, query=None, key=None, scaling=None, logits=None))
    assert scorer.sums() is None


def test_a_batch_worked_on_in_parts_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    query, key = torch.randn(2, 2, 3, 10, 16, generator=torch.Generator().manual_seed(2))
    whole = _measured(query, key)
    monkeypatch.setattr(neurons, "_TOGETHER", 2000)  # two bases at once
    for name in _NAMES:
        assert_allclose(getattr(_measured(query, key), name), getattr(whole, name), rtol=1e-6)


@pytest.mark.parametrize("size", [8, 32, 64, 256])
def test_a_rotation_changes_no_logit(size: int) -> None:
    turns = rotations(0, 2, 3, size)
    assert turns.shape == (ROTATIONS, size, size) and turns.dtype == torch.float32
    query, key = torch.randn(2, 40, size, generator=torch.Generator().manual_seed(0)) / size**0.25
    for turn in turns:
        assert_allclose((query @ turn) @ (key @ turn).T, query @ key.T, atol=1e-5)
        assert (turn.diagonal() < 0.99).any()  # it is no identity
    for other in ((1, 2, 3), (0, 3, 3), (0, 2, 4)):
        assert not torch.allclose(turns, rotations(*other, size), atol=0.1)


def test_no_direction_is_preferred() -> None:
    """Entries have mean 0. Left as QR gives them, those of the diagonal would lie well below it."""
    turns = orthogonal(np.random.default_rng(0), 4000, 4)
    assert_allclose(turns.mean(0), np.zeros((4, 4)), atol=0.04)
    assert_allclose((turns**2).mean(0), np.full((4, 4), 0.25), atol=0.02)
    plain, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((4000, 4, 4)))
    assert np.abs(plain.mean(0)).max() > 0.2


def test_of_a_long_input_queries_spread_over_it_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third of ten: of the words those at 3 and 6."""
    monkeypatch.setattr(neurons, "_MOST_QUERIES", 4)
    batch = batch_of("[CLS] a b a . [SEP] c a b [SEP]")
    query, key = torch.randn(2, 1, 1, 10, 8, generator=torch.Generator().manual_seed(0))
    targets = Targets(batch, PATTERNS)
    scorer = NeuronScorer(targets, 7)
    scorer(_block(batch, query, key))
    sums = scorer.sums()
    assert sums is not None and sums[SUMS.index("queries"), 0, 0, 0, BAG] == 2
    target = targets.under(torch.ones(1, 10, 10, dtype=torch.bool))[BAG][0].double().numpy()
    target[[row for row in range(10) if row % 3]] = 0
    expected = _plain(batch.inputs[0], target, query[0, 0].double().numpy(), key[0, 0].double().numpy())
    table = neuron_table(sums)
    assert_allclose([getattr(table, name)[0, 0, 0, BAG] for name in _NAMES], expected, rtol=1e-4)

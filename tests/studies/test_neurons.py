"""Which neurons a head rests on, from neurons by hand, and beside the same in rotated bases."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor
from written import batch_of

from attnscan.inputs.batch import EncodedBatch
from attnscan.inputs.sentence import EncodedInput
from attnscan.model.tap import AttentionBlock
from attnscan.results.explanation import ROTATIONS
from attnscan.results.scores import FloatArray
from attnscan.results.terms import Grid
from attnscan.scoring.patterns import PATTERNS
from attnscan.scoring.units import Targets
from attnscan.studies import explanation
from attnscan.studies.explanation import NeuronScorer, rotations

TEXT = "[CLS] a b a . [SEP] c a b [SEP]"
BAG, DELIMITER, NEXT = (
    [pattern.id for pattern in PATTERNS].index(name) for name in ("bag-of-words", "delimiter", "next-word")
)


def _block(batch: EncodedBatch, query: Tensor, key: Tensor) -> AttentionBlock:
    """One layer's only block, of queries and keys. Shape: each [batch, head, token, neuron]."""
    visible = torch.ones(len(batch), query.shape[2], query.shape[2], dtype=torch.bool)
    weights = torch.softmax(query @ key.transpose(2, 3), -1)
    grid = Grid((1, query.shape[1]))
    return AttentionBlock(grid, 0, slice(None), slice(None), weights, visible, query, key, 0.5, None)


def _measured(query: Tensor, key: Tensor, batch: EncodedBatch | None = None, seed: int = 0) -> FloatArray:
    """Shape: [measure, basis, layer, head, pattern]."""
    batch = batch_of(*[TEXT] * len(query)) if batch is None else batch
    scorer = NeuronScorer(Targets(batch, PATTERNS), seed)
    scorer(_block(batch, query, key))
    sums = scorer.sums()
    assert sums is not None
    with np.errstate(invalid="ignore"):
        means: FloatArray = sums[::2] / sums[1::2]
    return means


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
    batch = batch_of(TEXT)
    rng = torch.Generator().manual_seed(size)
    query, key = torch.randn(2, 1, 2, 10, size, generator=rng)
    matrices = Targets(batch, PATTERNS).of(batch.under(torch.ones(1, 10, 10, dtype=torch.bool)))
    found, turns = _measured(query, key, seed=7), torch.stack([rotations(7, 0, head, size) for head in range(2)], 1)
    for head, (p, target), basis in product(range(2), enumerate(matrices), range(ROTATIONS + 1)):
        turned = [(each[0, head].double() @ turns[basis, head].double()).numpy() for each in (query, key)]
        expected = _plain(batch.inputs[0], target[0].double().numpy(), *turned)
        assert_allclose(found[:, basis, 0, head, p], expected, rtol=1e-4, err_msg=f"{PATTERNS[p].id} basis {basis}")


@pytest.mark.parametrize("size", [8, 64, 256])
def test_a_rotation_changes_no_logit(size: int) -> None:
    own, *turns = rotations(0, 2, 3, size)
    assert torch.equal(own, torch.eye(size)) and len(turns) == ROTATIONS
    query, key = torch.randn(2, 40, size, generator=torch.Generator().manual_seed(0)) / size**0.25
    for turn in turns:
        assert_allclose((query @ turn) @ (key @ turn).T, query @ key.T, atol=1e-5)
        assert (turn.diagonal() < 0.99).any()  # it is no identity
    for other in ((1, 2, 3), (0, 3, 3), (0, 2, 4)):
        assert not torch.allclose(turns[0], rotations(*other, size)[1], atol=0.1)


def test_of_a_long_input_queries_spread_over_it_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third of ten: of the words those at 3 and 6."""
    monkeypatch.setattr(explanation, "_MOST_QUERIES", 4)
    batch = batch_of(TEXT)
    query, key = torch.randn(2, 1, 1, 10, 8, generator=torch.Generator().manual_seed(0))
    target = Targets(batch, PATTERNS).of(batch.under(torch.ones(1, 10, 10, dtype=torch.bool)))[BAG][0].double().numpy()
    target[[row for row in range(10) if row % 3]] = 0
    expected = _plain(batch.inputs[0], target, query[0, 0].double().numpy(), key[0, 0].double().numpy())
    assert_allclose(_measured(query, key)[:, 0, 0, 0, BAG], expected, rtol=1e-4)

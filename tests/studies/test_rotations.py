"""Rotations of a head's queries and keys: orthogonal, the same for every input, of each head its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from attnscan.studies.rotations import ROTATIONS, Rotations, orthogonal


@pytest.mark.parametrize("size", [8, 32, 64, 256])
def test_a_rotation_changes_no_logit(size: int) -> None:
    turns = Rotations(0).of(2, [0, 3], size)
    assert turns.shape == (ROTATIONS, 2, size, size) and turns.dtype == torch.float32
    query, key = torch.randn(2, 2, 40, size, generator=torch.Generator().manual_seed(0)) / size**0.25
    plain = query @ key.transpose(1, 2)
    for turn in turns:
        assert_allclose((query @ turn) @ (key @ turn).transpose(1, 2), plain, atol=1e-5)
        assert (turn.diagonal(dim1=1, dim2=2) < 0.99).any()  # it is no identity


def test_a_heads_rotations_depend_on_seed_layer_and_head_alone() -> None:
    one, other = Rotations(3), Rotations(3)
    other.of(0, [5], 8)
    assert torch.equal(one.of(1, [0, 2], 8)[:, 1], other.of(1, [2], 8)[:, 0])
    alike = [Rotations(seed).of(layer, [head], 8) for seed, layer, head in ((3, 1, 2), (4, 1, 2), (3, 2, 2), (3, 1, 3))]
    assert not any(torch.allclose(alike[0], each, atol=0.1) for each in alike[1:])


def test_no_direction_is_preferred() -> None:
    """Entries have mean 0. Left as QR gives them, those of the diagonal would lie well below it."""
    turns = orthogonal(np.random.default_rng(0), 4000, 4)
    assert_allclose(turns.mean(0), np.zeros((4, 4)), atol=0.04)
    assert_allclose((turns**2).mean(0), np.full((4, 4), 0.25), atol=0.02)
    plain, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((4000, 4, 4)))
    assert np.abs(plain.mean(0)).max() > 0.2

"""Divergences between heads, whatever the tiles that they are computed in."""

from __future__ import annotations

import pytest
import torch
from numpy.testing import assert_allclose

from attnscan.studies import divergence
from attnscan.studies.divergence import divergences


@pytest.mark.parametrize("tile", [1, 500, 10**9])
def test_tiles_change_nothing(monkeypatch: pytest.MonkeyPatch, tile: int) -> None:
    torch.manual_seed(0)
    rows = torch.rand(7, 3, 11).softmax(-1).flatten(1)
    whole = divergences(rows)
    monkeypatch.setattr(divergence, "_TILE", tile)
    assert_allclose(divergences(rows), whole, atol=1e-6)
    assert torch.equal(whole, whole.T)

"""Which keys a query may see is told from saved weights."""

from __future__ import annotations

import torch

from attnscan.model.tap import visible_keys


def test_a_causal_mask_is_told_beside_padding() -> None:
    """Two tokens of padding in front spread over everything, as softmax does where all is hidden; words look back."""
    weights = torch.tensor([[0.25] * 4, [0.25] * 4, [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.5, 0.5]])[None, None]
    visible = visible_keys(weights, torch.tensor([[False, False, True, True]]))[0]
    assert visible[2:].tolist() == [[False, False, True, False], [False, False, True, True]]


def test_without_padding_every_distance_that_any_head_attends_to_is_seen() -> None:
    ahead = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    visible = visible_keys(torch.stack([ahead, torch.eye(3)])[None], torch.ones(1, 3, dtype=torch.bool))[0]
    assert visible.tolist() == [[True, True, False], [False, True, True], [False, False, True]]

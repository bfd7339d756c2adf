"""What is kept of one input's attention: all of it, or some heads and some queries' rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from support.families import TAPPED, eager_attention, tiny_model
from support.handwritten_inputs import input_of
from torch import Tensor

from attnscan.model.attention_block import AttentionBlock
from attnscan.model.keeper import AttentionKeeper
from attnscan.model.tap import AttentionTap
from attnscan.results.attention import Attention, Chosen
from attnscan.results.grid import Grid

pytestmark = pytest.mark.usefixtures("quiet")

INPUT = input_of("[CLS] the cat sat [SEP]")
IDS = torch.tensor([[5, 6, 7, 8, 9]])
GRID = Grid((3, 4))


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_model("bert", TAPPED["bert"])


@pytest.fixture(scope="module")
def weights(model: Any) -> np.ndarray[Any, Any]:
    """Of all heads, as transformers gives them. Shape: [layer, head, query, key]."""
    return torch.cat(eager_attention(model, {"input_ids": IDS})).numpy()


def _kept(
    model: Any,
    chosen: Chosen | None = None,
    norms: Callable[[AttentionBlock], Tensor] | None = None,
) -> Attention:
    keeper = AttentionKeeper(norms, chosen)
    with AttentionTap(model) as tap:
        tap.run({"input_ids": IDS, "attention_mask": torch.ones_like(IDS)}, keeper)
    return keeper.attention(INPUT)


def test_every_heads_weights_are_kept(model: Any, weights: np.ndarray[Any, Any]) -> None:
    kept = _kept(model)
    np.testing.assert_allclose(kept.weights, weights, atol=1e-6)
    assert kept.grid == GRID
    assert kept.visible is not None
    assert kept.visible.shape == (3, 5, 5)
    assert kept.visible.all()


def test_weights_come_of_the_queries_and_keys_beside_them(
    model: Any, weights: np.ndarray[Any, Any]
) -> None:
    kept = _kept(model)
    assert kept.query is not None
    assert kept.key is not None
    scaling = np.array(kept.scaling)[:, None, None, None]
    logits = torch.from_numpy(scaling * (kept.query @ kept.key.swapaxes(2, 3)))
    np.testing.assert_allclose(logits.softmax(-1), weights, atol=1e-6)


def test_chosen_rows_of_chosen_heads_are_kept_alone(
    model: Any, weights: np.ndarray[Any, Any]
) -> None:
    heads = tuple(GRID.select("2-1,0-3"))
    kept = _kept(model, Chosen(GRID, (1, 4), heads))
    assert kept.weights.shape == (1, 2, 2, 5)
    for number, head in enumerate(heads):
        np.testing.assert_allclose(kept.weights[0, number], weights[head.place][[1, 4]], atol=1e-6)
    assert kept.visible is None


def test_chosen_rows_of_all_heads_are_kept(model: Any, weights: np.ndarray[Any, Any]) -> None:
    kept = _kept(model, Chosen(GRID, (0, 3)))
    np.testing.assert_allclose(kept.weights, weights[:, :, [0, 3]], atol=1e-6)
    assert kept.visible is not None
    assert kept.visible.shape == (3, 2, 5)


def test_norms_are_kept_of_every_key(model: Any) -> None:
    def norms(block: AttentionBlock) -> Tensor:
        assert block.value is not None
        return block.value.norm(dim=-1) + 100 * block.layer

    assert _kept(model).norms is None
    kept = _kept(model, norms=norms)
    assert kept.norms is not None
    assert kept.norms.shape == (3, 4, 5)
    assert (kept.norms.min((1, 2)) // 100).tolist() == [0, 1, 2]


def test_of_heads_of_several_widths_no_queries_are_kept() -> None:
    """Gemma 4's heads are wider in some layers than in others."""
    kept = _kept(tiny_model("gemma4_text", TAPPED["gemma4_text"]))
    assert (kept.query, kept.key, kept.scaling) == (None, None, ())
    assert kept.weights.shape == (3, 4, 5, 5)

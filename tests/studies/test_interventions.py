"""Positions shuffled and moved: words among themselves, in every family that has positions."""

from __future__ import annotations

import pytest
import torch
from families import TAPPED, UNTAPPED, Collected, tiny_inputs, tiny_model
from numpy.testing import assert_allclose
from written import input_of

from attnscan.errors import ModelError
from attnscan.model.tap import Tap
from attnscan.studies.interventions import Positions, shuffled


def test_a_shuffle_moves_words_among_themselves_and_nothing_else() -> None:
    encoded = input_of("[CLS] a b c d e [SEP] f g [SEP]")
    encoded.model_inputs["input_ids"] = list(range(10))
    order = shuffled([encoded], 12, seed=0)[0]
    assert sorted(order.tolist()) == list(range(12))
    assert order[[0, 6, 9, 10, 11]].tolist() == [0, 6, 9, 10, 11]
    assert order.tolist() != list(range(12))
    assert torch.equal(order, shuffled([encoded, encoded], 12, seed=0)[1])
    assert not torch.equal(order, shuffled([encoded], 12, seed=1)[0])


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


def test_inputs_of_a_small_batch_that_runs_repeated_keep_their_own_orders() -> None:
    """Two inputs of three tokens run as many times over: each is moved as it is alone."""
    model = tiny_model("bert", TAPPED["bert"])
    inputs = {name: values[:2, :3] for name, values in tiny_inputs().items()}
    orders = torch.tensor([[0, 2, 1], [2, 1, 0]])
    positions = Positions(model, inputs)
    with Tap(model) as tap:
        with positions.reordered(inputs, orders) as changed:
            found = Collected()
            tap.run(changed, found)
            together = found.layer(0)
        for row in (0, 1):
            alone = {name: values[row : row + 1] for name, values in inputs.items()}
            with positions.reordered(alone, orders[row : row + 1]) as changed:
                assert_allclose(_weights(tap, changed)[0], together[row], atol=1e-6)

"""Positions shuffled and moved: words among themselves, in every family that has positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from families import TAPPED, UNTAPPED, Collected, tiny_inputs, tiny_model
from numpy.testing import assert_allclose
from written import input_of

from attnscan.errors import ModelError
from attnscan.model.tap import Tap
from attnscan.results.terms import Scored
from attnscan.scoring.sums import PAIR_SUMS, RatioSums, ScoreSums
from attnscan.studies.interventions import CauseSums, Positions, shuffled

N = np.array([3.0, 5.0, 2.0])
PLAIN = np.array([2.4, 3.5, 1.9])
DRAWS = np.array([[0.3, 1.0, 0.2], [0.5, 0.4, 0.4], [0.1, 0.7, 0.9], [0.7, 0.5, 0.1]])


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
NOT_MOVED |= {"marian", "pegasus", "m2m_100", "bigbird_pegasus", "prophetnet", "ibert"}


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
        assert tap.calls.tapped  # found out before positions are changed
        with positions.reordered(inputs, orders) as changed:
            found = Collected()
            tap.run(changed, found)
            together = found.layer(0)
        for row in (0, 1):
            alone = {name: values[row : row + 1] for name, values in inputs.items()}
            with positions.reordered(alone, orders[row : row + 1]) as changed:
                assert_allclose(_weights(tap, changed)[0], together[row], atol=1e-6)


class _Scored:
    """What a scorer says that has seen one head and one pattern on some pairs. Shape: `weight` is [pair]."""

    def __init__(self, weight: np.ndarray[Any, Any], pairs: slice) -> None:
        n, weight = N[pairs], weight[pairs]
        values = (weight, n, 0.1 * n, weight, 0 * n)
        of_pairs = {name: value[:, None, None, None] for name, value in zip(PAIR_SUMS, values, strict=True)}
        self._pairs = {f"{kind}.{name}": v for kind in ("every_key", "words_only") for name, v in of_pairs.items()}

    def pair_sums(self) -> dict[str, Any]:
        return self._pairs

    def sums(self) -> ScoreSums:
        return ScoreSums.of(self._pairs, (Scored("next-word"),), entropy=np.array([[2.0]]), words=4.0)


def _sums(pairs: slice, draws: np.ndarray[Any, Any] = DRAWS) -> CauseSums:
    drawn: Any = [_Scored(draw, pairs) for draw in draws]
    return CauseSums.of(_Scored(PLAIN, pairs).pair_sums(), drawn)


def test_draws_are_averaged_before_a_pair_is_counted() -> None:
    """Four draws of one pair are no four pairs."""
    scores, fall_se = _sums(slice(3)).finish()
    mean, table = DRAWS.mean(0), scores.words_only
    assert table.pairs.item() == 3 and table.n.item() == N.sum()
    assert_allclose(table.score.item(), mean.sum() / N.sum())
    assert_allclose(table.se.item(), RatioSums.of(mean, N).se)
    assert_allclose(fall_se.item(), RatioSums.of(PLAIN - mean, N).se)
    assert scores.entropy.item() == pytest.approx(0.5)
    of_draws_as_pairs = RatioSums.of(DRAWS.ravel(), np.tile(N, len(DRAWS))).se
    assert of_draws_as_pairs > 1.4 * table.se.item()  # what it had been, and was wrong


def test_the_error_of_one_pair_is_that_over_its_draws() -> None:
    scores, fall_se = _sums(slice(1)).finish()
    expected = (DRAWS[:, 0] / N[0]).std(ddof=1) / len(DRAWS) ** 0.5
    assert_allclose([scores.words_only.se.item(), fall_se.item()], expected)


def test_of_one_pair_and_one_draw_there_is_no_error() -> None:
    scores, fall_se = _sums(slice(1), DRAWS[:1]).finish()
    assert np.isnan([scores.words_only.se.item(), fall_se.item()]).all()
    assert scores.words_only.score.item() == pytest.approx(0.1)


def test_batches_add_to_what_they_are_together() -> None:
    (whole, fall_se), (added, added_fall_se) = _sums(slice(3)).finish(), (_sums(slice(1)) + _sums(slice(1, 3))).finish()
    for name in ("score", "se", "n", "pairs"):
        assert_allclose(getattr(added.words_only, name), getattr(whole.words_only, name))
    assert_allclose(added_fall_se, fall_se)

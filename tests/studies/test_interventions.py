"""Positions shuffled and moved: words among themselves, in every family that has positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from families import TAPPED, TAPPED_DECODERS, UNTAPPED, UNTAPPED_DECODERS, Collected, tiny_inputs, tiny_model
from numpy.testing import assert_allclose
from written import input_of

from attnscan.errors import ModelError
from attnscan.model.tap import Tap
from attnscan.results.scores import Scores
from attnscan.results.terms import Scored
from attnscan.scoring.blocks import PAIR_SUMS, Blocks, error, residuals
from attnscan.studies.interventions import Positions, Restore, as_it_comes, cause_sums, scores_after, shuffled

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


def _weights(tap: Tap, inputs: dict[str, torch.Tensor], restore: Restore = as_it_comes) -> torch.Tensor:
    """Shape: [layer, head, query, key]."""
    found = Collected()
    tap.run(inputs, restore(found))
    return torch.stack([found.layer(layer)[0] for layer in sorted(found.blocks)])


NOT_MOVED = {"bloom", "mobilebert"}  # causal and biased by distance; with random weights, even but for rounding
BY_POSITIONS = {*TAPPED_DECODERS, *UNTAPPED_DECODERS} - NOT_MOVED
SMALL = {name: values[:1] for name, values in tiny_inputs().items()}
IN_ORDER = torch.arange(12)[None]
OTHER = torch.cat([IN_ORDER[:, :1], IN_ORDER[:, 1:11].flip(1), IN_ORDER[:, 11:]], 1)


@pytest.mark.parametrize("family", [*TAPPED, *UNTAPPED])
def test_positions_of_every_family_can_be_moved_or_are_said_not_to_be(family: str) -> None:
    """The order that things stand in changes nothing; another changes the weights of models that have positions."""
    with Tap(tiny_model(family, {**TAPPED, **UNTAPPED}[family])) as tap:
        if family in NOT_MOVED:
            with pytest.raises(ModelError):
                Positions(tap.model, tap.run, SMALL)
            return
        positions, plain = Positions(tap.model, tap.run, SMALL), _weights(tap, SMALL)
        with positions.moved(SMALL, IN_ORDER) as (same, restore):
            assert_allclose(_weights(tap, same, restore), plain, atol=1e-6)
        with positions.moved(SMALL, OTHER) as (changed, restore):
            moved = _weights(tap, changed, restore)
        assert torch.equal(_weights(tap, SMALL), plain)  # nothing is left behind
    assert (moved - plain).abs().max() > 1e-5
    assert positions.by_words == (family not in BY_POSITIONS)


@pytest.mark.parametrize("family", ["bert", "deberta", "mpnet"])
def test_words_in_another_order_are_positions_in_another_order(family: str) -> None:
    """Words that stand elsewhere, at the positions that they had, are looked at as before, whatever tells positions."""
    with Tap(tiny_model(family, {**TAPPED, **UNTAPPED}[family])) as tap:
        plain = _weights(tap, SMALL)
        elsewhere = {name: values[:, OTHER[0]] for name, values in SMALL.items()}
        with Positions(tap.model, tap.run, SMALL).moved(elsewhere, OTHER) as (inputs, restore):
            again = _weights(tap, inputs, restore)
    assert_allclose(again, plain[:, :, OTHER[0]][..., OTHER[0]], atol=1e-6)


@pytest.mark.parametrize("family", ["bert", "mpnet", "gpt2", "gpt_neo", "llama"])
def test_inputs_of_a_batch_keep_their_own_orders(family: str) -> None:
    """Small batches run repeated, and watched models length by length: each input is moved as it is alone."""
    inputs = {name: values[:, :5] for name, values in tiny_inputs().items()}
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    inputs["attention_mask"][1, 3:] = 0
    orders = torch.tensor([[0, 2, 1, 3, 4], [0, 2, 1, 3, 4], [0, 3, 2, 1, 4]])[: len(inputs["input_ids"])]
    with Tap(tiny_model(family, {**TAPPED, **UNTAPPED}[family])) as tap:
        positions, found = Positions(tap.model, tap.run, {k: v[:1] for k, v in inputs.items()}), Collected()
        with positions.moved(inputs, orders) as (changed, restore):
            tap.run(changed, restore(found))
        for row in range(len(orders)):
            length = int(inputs["attention_mask"][row].sum())
            alone = {name: values[row : row + 1, :length] for name, values in inputs.items()}
            with positions.moved(alone, orders[row : row + 1, :length]) as (changed, restore):
                own = _weights(tap, changed, restore)
            assert_allclose(own[0], found.layer(0)[row, :, :length, :length], atol=1e-6)


def test_positions_that_are_told_twice_are_not_half_changed() -> None:
    """A causal model with position embeddings whose second layer is biased by distance as well."""
    model = tiny_model("gpt2", TAPPED["gpt2"])

    def closer(_: Any, __: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        mask = named["attention_mask"]
        return (), {**named, "attention_mask": mask + torch.arange(mask.shape[-1])}

    with Tap(model) as tap:
        assert not Positions(model, tap.run, SMALL).by_words
        model.h[1].attn.register_forward_pre_hook(
            lambda module, given, named: (given, closer(module, given, named)[1]), with_kwargs=True
        )
        with pytest.raises(ModelError, match="more than embeddings"):
            Positions(model, tap.run, SMALL)


def test_a_model_without_positions_is_said_to_have_none() -> None:
    model = tiny_model("bert", TAPPED["bert"])
    torch.nn.init.zeros_(model.embeddings.position_embeddings.weight)
    with Tap(model) as tap, pytest.raises(ModelError, match="stays the same wherever words stand"):
        Positions(model, tap.run, SMALL)


def _scored(weight: np.ndarray[Any, Any], pairs: slice) -> dict[str, Any]:
    """What a scorer says that has seen one head and one pattern on some pairs. Shape: `weight` is [pair]."""
    n, weight = N[pairs], weight[pairs]
    values = (weight, n, 0.1 * n, weight, 0 * n, 1.0 * (n > 0))
    of_pairs = {name: value[:, None, None, None] for name, value in zip((*PAIR_SUMS, "pairs"), values, strict=True)}
    sums = {f"{kind}.{name}": v for kind in ("every_key", "words_only") for name, v in of_pairs.items()}
    return sums | {"entropy": 2 * np.ones((len(n), 1, 1, 1)), "rows": 4 * np.ones((len(n), 1, 1, 1))}


def _sums(pairs: slice, draws: np.ndarray[Any, Any] = DRAWS) -> Blocks:
    keys = [f"{number:016x}" for number in range(len(N))][pairs]
    return cause_sums(keys, _scored(PLAIN, pairs), [_scored(draw, pairs) for draw in draws])


def _after(sums: Blocks) -> tuple[Scores, np.ndarray[Any, Any]]:
    return scores_after(sums.sums, [Scored("next-word")])


def _se(total: np.ndarray[Any, Any], n: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return error(residuals(total, n))


def test_draws_are_averaged_before_a_pair_is_counted() -> None:
    """Four draws of one pair are no four pairs."""
    scores, fall_se = _after(_sums(slice(3)))
    mean, table = DRAWS.mean(0), scores.words_only
    assert table.pairs.item() == 3 and table.n.item() == N.sum()
    assert_allclose(table.score.item(), mean.sum() / N.sum())
    assert_allclose(table.se.item(), _se(mean, N))
    assert_allclose(fall_se.item(), _se(PLAIN - mean, N))
    assert scores.entropy.item() == pytest.approx(0.5)
    of_draws_as_pairs = _se(DRAWS.ravel(), np.tile(N, len(DRAWS)))
    assert of_draws_as_pairs > 1.4 * table.se.item()  # what it had been, and was wrong


def test_the_error_of_one_pair_is_that_over_its_draws() -> None:
    scores, fall_se = _after(_sums(slice(1)))
    expected = (DRAWS[:, 0] / N[0]).std(ddof=1) / len(DRAWS) ** 0.5
    assert_allclose([scores.words_only.se.item(), fall_se.item()], expected)


def test_of_one_pair_and_one_draw_there_is_no_error() -> None:
    scores, fall_se = _after(_sums(slice(1), DRAWS[:1]))
    assert np.isnan([scores.words_only.se.item(), fall_se.item()]).all()
    assert scores.words_only.score.item() == pytest.approx(0.1)


def test_batches_add_to_what_they_are_together() -> None:
    (whole, fall_se), (added, added_fall_se) = _after(_sums(slice(3))), _after(_sums(slice(1)) + _sums(slice(1, 3)))
    for name in ("score", "se", "n", "pairs"):
        assert_allclose(getattr(added.words_only, name), getattr(whole.words_only, name))
    assert_allclose(added_fall_se, fall_se)

"""Positions shuffled and moved: words among themselves, in every family that has positions."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from support.families import (
    TAPPED,
    TAPPED_DECODERS,
    UNTAPPED,
    UNTAPPED_DECODERS,
    Collected,
    tiny_inputs,
    tiny_model,
)
from support.handwritten_inputs import input_of

from attnscan.errors import ModelError
from attnscan.model.tap import AttentionTap
from attnscan.results.grid import AttentionKind
from attnscan.scoring.blocks import PairSums, error, residuals
from attnscan.studies.explanation import _numbers
from attnscan.studies.interventions import (
    Restore,
    keep_order,
    move_words,
    reads_by_words,
    shuffle_words,
)


def test_a_shuffle_moves_words_among_themselves_and_nothing_else() -> None:
    encoded = input_of("[CLS] a b c d e [SEP] f g [SEP]")
    encoded.model_inputs["input_ids"] = list(range(10))
    order = shuffle_words([encoded], 12, seed=0)[0]
    assert sorted(order.tolist()) == list(range(12))
    assert order[[0, 6, 9, 10, 11]].tolist() == [0, 6, 9, 10, 11]
    assert order.tolist() != list(range(12))
    assert torch.equal(order, shuffle_words([encoded, encoded], 12, seed=0)[1])
    assert not torch.equal(order, shuffle_words([encoded], 12, seed=1)[0])


def _weights(
    tap: AttentionTap, inputs: dict[str, torch.Tensor], restore: Restore = keep_order
) -> torch.Tensor:
    """Shape: [layer, head, query, key]."""
    found = Collected()
    tap.run(inputs, restore(found))
    return torch.stack([found.layer(layer)[0] for layer in sorted(found.blocks)])


NOT_MOVED = {
    "bloom",
    "mobilebert",
}  # causal and biased by distance; with random weights, even but for rounding
BY_POSITIONS = {*TAPPED_DECODERS, *UNTAPPED_DECODERS} - NOT_MOVED
SMALL = {name: values[:1] for name, values in tiny_inputs().items()}
IN_ORDER = torch.arange(12)[None]
OTHER = torch.cat([IN_ORDER[:, :1], IN_ORDER[:, 1:11].flip(1), IN_ORDER[:, 11:]], 1)


def _found(tap: AttentionTap) -> bool:
    """How a model is read at other positions, tried on a probe without a tokenizer."""
    options = SimpleNamespace(kind=AttentionKind.ONLY)
    loaded = SimpleNamespace(model=tap.model)
    scanner: Any = SimpleNamespace(options=options, loaded=loaded, tap=tap, probe=lambda _: SMALL)
    return reads_by_words(scanner)


@pytest.mark.parametrize("family", [*TAPPED, *UNTAPPED])
def test_positions_of_every_family_move_or_are_said_not_to(family: str) -> None:
    """The order as it is changes nothing; another changes the weights of models with positions."""
    with AttentionTap(tiny_model(family, {**TAPPED, **UNTAPPED}[family])) as tap:
        if family in NOT_MOVED:
            with pytest.raises(ModelError):
                _found(tap)
            return
        by_words = _found(tap)
        plain = _weights(tap, SMALL)
        assert_allclose(
            _weights(tap, *move_words(SMALL, IN_ORDER, by_words=by_words)), plain, atol=1e-6
        )
        elsewhere = _weights(tap, *move_words(SMALL, OTHER, by_words=by_words))
    assert (elsewhere - plain).abs().max() > 1e-5
    assert by_words == (family not in BY_POSITIONS)


@pytest.mark.parametrize("family", ["bert", "deberta", "mpnet"])
def test_words_in_another_order_are_positions_in_another_order(family: str) -> None:
    """Words that stand elsewhere, at the positions that they had, are looked at as before."""
    with AttentionTap(tiny_model(family, {**TAPPED, **UNTAPPED}[family])) as tap:
        plain = _weights(tap, SMALL)
        elsewhere = {name: values[:, OTHER[0]] for name, values in SMALL.items()}
        again = _weights(tap, *move_words(elsewhere, OTHER, by_words=True))
    assert_allclose(again, plain[:, :, OTHER[0]][..., OTHER[0]], atol=1e-6)


@pytest.mark.parametrize("family", ["bert", "mpnet", "gpt2", "gpt_neo", "llama"])
def test_inputs_of_a_batch_keep_their_own_orders(family: str) -> None:
    """Small batches run repeated, watched models length by length: each input moves as if alone."""
    inputs = {name: values[:, :5] for name, values in tiny_inputs().items()}
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    inputs["attention_mask"][1, 3:] = 0
    orders = torch.tensor([[0, 2, 1, 3, 4], [0, 2, 1, 3, 4], [0, 3, 2, 1, 4]])[
        : len(inputs["input_ids"])
    ]
    by_words = family in ("bert", "mpnet")
    with AttentionTap(tiny_model(family, {**TAPPED, **UNTAPPED}[family])) as tap:
        found = Collected()
        changed, restore = move_words(inputs, orders, by_words=by_words)
        tap.run(changed, restore(found))
        for row in range(len(orders)):
            length = int(inputs["attention_mask"][row].sum())
            alone = {name: values[row : row + 1, :length] for name, values in inputs.items()}
            weights = _weights(
                tap, *move_words(alone, orders[row : row + 1, :length], by_words=by_words)
            )
            assert_allclose(weights[0], found.layer(0)[row, :, :length, :length], atol=1e-6)


def test_positions_that_are_told_twice_are_not_half_changed() -> None:
    """A causal model with position embeddings whose second layer is biased by distance as well."""
    model = tiny_model("gpt2", TAPPED["gpt2"])

    def closer(
        _: Any, inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        mask = named["attention_mask"]
        return inputs, {**named, "attention_mask": mask + torch.arange(mask.shape[-1])}

    with AttentionTap(model) as tap:
        assert not _found(tap)
        model.h[1].attn.register_forward_pre_hook(closer, with_kwargs=True)
        with pytest.raises(ModelError, match="more than position ids"):
            _found(tap)


def test_a_model_without_positions_is_said_to_have_none() -> None:
    model = tiny_model("bert", TAPPED["bert"])
    torch.nn.init.zeros_(model.embeddings.position_embeddings.weight)
    with (
        AttentionTap(model) as tap,
        pytest.raises(ModelError, match="stays the same wherever words stand"),
    ):
        _found(tap)


N = np.array([3.0, 5.0, 2.0])
PLAIN = np.array([2.4, 3.5, 1.9])
N_CONTROL_SETS = np.array([[0.3, 1.0, 0.2], [0.5, 0.4, 0.4], [0.1, 0.7, 0.9], [0.7, 0.5, 0.1]])


def _after(pairs: slice, draws: np.ndarray[Any, Any] = N_CONTROL_SETS) -> np.ndarray[Any, Any]:
    """The score after a change, its error, and the fall's, of a head and pattern on some pairs."""
    keys = [f"{number:016x}" for number in range(len(N))][pairs]
    draws = draws[:, pairs]
    n = N[pairs]
    spread = draws.std(0, ddof=1) / len(draws) ** 0.5 if len(draws) > 1 else np.full(len(n), np.nan)
    sums = {
        "weight": PLAIN[pairs],
        "n": n,
        "chance": 0.1 * n,
        "pairs": 1.0 * (n > 0),
        "segments_zeroed": draws.mean(0),
    }
    sums["segments_zeroed error"] = spread
    blocks = PairSums.of(keys, {name: values[:, None, None, None] for name, values in sums.items()})
    numbers = _numbers(blocks.sums, {"positions_shuffled": "", "segments_swapped": ""})
    return np.array([numbers[name][2].item() for name in ("score", "se", "fall_se")])


def _se(total: np.ndarray[Any, Any], n: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return error(residuals(total, n))


def test_draws_are_averaged_before_a_pair_is_counted() -> None:
    """Four draws of one pair are no four pairs."""
    mean = N_CONTROL_SETS.mean(0)
    found = _after(slice(3))
    assert_allclose(found, [mean.sum() / N.sum(), _se(mean, N), _se(PLAIN - mean, N)])
    assert _se(N_CONTROL_SETS.ravel(), np.tile(N, len(N_CONTROL_SETS))) > 1.4 * found[1]


def test_the_error_of_one_pair_is_that_over_its_draws() -> None:
    expected = (N_CONTROL_SETS[:, 0] / N[0]).std(ddof=1) / len(N_CONTROL_SETS) ** 0.5
    assert_allclose(_after(slice(1))[1:], [expected, expected])
    assert_allclose(_after(slice(1), N_CONTROL_SETS[:1]), [0.1, np.nan, np.nan])

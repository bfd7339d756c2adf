"""What heads are worth: exactly, where one head alone carries the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ablated import DRAWS, PAIRS, each_of, reader_of, saved_with_tokenizer
from families import UNTAPPED, tiny_model
from toy_mlm import CARRIER, LOSS, LOSS_WITHOUT, save_toy_mlm, sentence

from attnscan.errors import CaptureError, InputError
from attnscan.inputs.pairs import Pair, Record
from attnscan.results.ablation import Ablation
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.studies.ablation import ablate, effect_beside_controls, sums_beside_controls

LENGTHS = (3, 7, 5, 9, 4, 8)  # so that one word is hidden, and never two neighbours


@pytest.fixture(scope="module")
def chain() -> Callable[[], Iterator[Record]]:
    return reader_of(*(Pair(sentence(length)) for length in LENGTHS))


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scanner]:
    directory = save_toy_mlm(tmp_path_factory.mktemp("worth"))
    with Scanner(ScanOptions(model=str(directory), predictive="off")) as scanner:
        yield scanner


@pytest.fixture(scope="module")
def worth(toy: Scanner, chain: Callable[[], Iterator[Record]]) -> Ablation:
    return ablate(toy, chain, each_of(CARRIER, (0, 1), (1, 1)))


def test_the_head_that_carries_the_answer_costs_the_analytic_amount_and_others_nothing(worth: Ablation) -> None:
    carrier, _, other_layer = worth.effects
    assert carrier.quantity.name == "masked-lm"
    assert carrier.intact == pytest.approx(LOSS, abs=1e-4)
    assert carrier.ablated == pytest.approx(LOSS_WITHOUT, abs=1e-4)
    assert carrier.control == pytest.approx(LOSS, abs=1e-4)
    assert carrier.effect == pytest.approx(LOSS_WITHOUT - LOSS, abs=1e-4)
    assert carrier.se == pytest.approx(0, abs=1e-4)
    assert (carrier.n, carrier.pairs) == (sum(max(1, round(0.15 * length)) for length in LENGTHS), len(LENGTHS))
    assert other_layer.effect == pytest.approx(0, abs=1e-5)


def test_effects_of_the_sums_are_those_of_the_formula() -> None:
    rng = np.random.default_rng(0)
    n = rng.integers(1, 6, 40).astype(float)
    sums = rng.random((40, 4)) * n[:, None]
    compared = [(1, [2, 3]), (1, []), (1, [2])]
    halves = (sums_beside_controls(sums[some, None], n[some, None], compared) for some in (slice(25), slice(25, None)))
    added = [a + b for a, b in zip(*halves, strict=True)]
    (control,), (effect,), (se,) = effect_beside_controls(added, 4, [2, 3])
    difference = sums[:, 1] - sums[:, 2:].mean(1)
    means = sums[:, 2:].sum(0) / n.sum()
    assert control == pytest.approx(means.mean())
    assert effect == pytest.approx(difference.sum() / n.sum())
    variance = ((difference - effect * n) ** 2).sum() / n.sum() ** 2 + means.var(ddof=1) / 2
    assert se == pytest.approx(variance**0.5)
    assert np.isnan(effect_beside_controls(added, 5, [])).all()
    (control,), (effect,), (se,) = effect_beside_controls(added, 6, [2])
    assert control == pytest.approx(means[0]) and np.isfinite(effect) and np.isnan(se)  # one draw tells of no spread


def test_a_head_whose_controls_hold_the_answer_is_worth_less_than_they(worth: Ablation) -> None:
    """Of the draws among three others, some are the carrier; the error says how uncertain that makes the effect."""
    useless = worth.effects[1]
    share = sum(CARRIER in control for control in useless.set.controls) / DRAWS
    assert 0 < share < 1
    assert useless.effect == pytest.approx(-share * (LOSS_WITHOUT - LOSS), abs=1e-4)
    draws = np.array([(CARRIER in control) * (LOSS_WITHOUT - LOSS) for control in useless.set.controls])
    assert useless.se == pytest.approx(draws.std(ddof=1) / DRAWS**0.5, abs=1e-4)


def test_a_heads_mean_says_as_little_as_nothing_does(toy: Scanner, chain: Callable[[], Iterator[Record]]) -> None:
    """The mean over all words names no single word, so the answer is lost; heads that put out nothing lose nothing."""
    carrier, idle = ablate(toy, chain, each_of(CARRIER, (1, 1), by="mean")).effects
    assert carrier.ablated > LOSS + 1
    assert idle.ablated == pytest.approx(LOSS, abs=1e-4)


@pytest.mark.parametrize("batch_tokens", [1, 20, 10_000])
def test_batches_and_shared_forwards_change_nothing(
    toy: Scanner, chain: Callable[[], Iterator[Record]], worth: Ablation, batch_tokens: int
) -> None:
    other = ablate(toy.with_options(batch_tokens=batch_tokens), chain, each_of(CARRIER, (0, 1), (1, 1)))
    for one, again in zip(worth.effects, other.effects, strict=True):
        for name in ("intact", "ablated", "control", "effect", "se"):
            assert getattr(again, name) == pytest.approx(getattr(one, name), abs=1e-5)


@pytest.mark.parametrize("by", ["zero", "mean"])
def test_a_batch_that_the_accelerator_has_no_room_for_is_halved(
    toy: Scanner, chain: Callable[[], Iterator[Record]], of_little_memory: Any, by: str
) -> None:
    asked = each_of(CARRIER, (0, 1), by=by)
    expected = ablate(toy, chain, asked)
    with of_little_memory(toy.loaded.model, 6) as sizes:
        found = ablate(toy, chain, asked)
    assert max(sizes) > 6
    for one, again in zip(expected.effects, found.effects, strict=True):
        assert again.effect == pytest.approx(one.effect, abs=1e-5) and again.n == one.n


def test_an_architecture_beside_the_tap_is_refused(tmp_path: Path) -> None:
    model = saved_with_tokenizer(tmp_path / "deberta", tiny_model("deberta-v2", UNTAPPED["deberta-v2"]))
    with (
        Scanner(ScanOptions(model=model, predictive="off")) as scanner,
        pytest.raises(CaptureError, match="switched off"),
    ):
        ablate(scanner, reader_of(*PAIRS), each_of((0, 1)))


def test_no_pair_is_an_error(toy: Scanner) -> None:
    for by in ("zero", "mean"):
        with pytest.raises(InputError, match="there is no pair"):
            ablate(toy, reader_of(), each_of(CARRIER, by=by))

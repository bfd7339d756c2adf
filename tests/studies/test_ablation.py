"""What heads are worth: exactly, where one head alone carries the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from ablated import each_of, reader_of
from toy_mlm import CARRIER, LOSS, LOSS_WITHOUT, save_toy_mlm, sentence

from attnscan.errors import InputError
from attnscan.inputs.sentence import Pair, Record
from attnscan.results.ablation import Ablation, HeadSet, Quantity
from attnscan.results.scores import FloatArray
from attnscan.results.terms import Head, Replacement
from attnscan.scan.options import AblationRequest, ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import half
from attnscan.scoring.blocks import error, residuals
from attnscan.studies.ablation import _effect, ablate

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
    return ablate(toy, chain, each_of(CARRIER, Head(0, 1), Head(1, 1)))


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


def test_a_head_whose_controls_hold_the_answer_is_worth_less_than_they(worth: Ablation) -> None:
    """Of its layer's three others, all of which were taken, one is the carrier."""
    useless = worth.effects[1]
    assert useless.set.controls == ((Head(0, 0),), (Head(0, 2),), (Head(0, 3),))
    assert useless.others == pytest.approx((LOSS_WITHOUT, LOSS, LOSS), abs=1e-4)
    assert useless.effect == pytest.approx(-(LOSS_WITHOUT - LOSS) / 3, abs=1e-4)
    assert useless.spread == pytest.approx((LOSS_WITHOUT - LOSS) / 3**0.5, abs=1e-4)
    assert useless.se == pytest.approx((LOSS_WITHOUT - LOSS) / 3, abs=1e-4)


def test_the_ranks_of_the_head_that_carries_the_answer_and_of_those_that_do_not(worth: Ablation) -> None:
    assert [(effect.rank, effect.p) for effect in worth.effects] == [(1, 1 / 4), (4, 1), (4, 1)]


def test_a_heads_mean_says_as_little_as_nothing_does(toy: Scanner, chain: Callable[[], Iterator[Record]]) -> None:
    """The mean over all words names no single word, so the answer is lost; heads that put out nothing lose nothing."""
    carrier, idle = ablate(toy, chain, each_of(CARRIER, Head(1, 1), replace="mean")).effects
    assert carrier.ablated > LOSS + 1
    assert idle.ablated == pytest.approx(LOSS, abs=1e-4)


@pytest.mark.parametrize("batch_tokens", [1, 20, 10_000])
def test_batches_and_shared_forwards_change_nothing(
    toy: Scanner, chain: Callable[[], Iterator[Record]], worth: Ablation, batch_tokens: int
) -> None:
    other = ablate(toy.with_options(batch_tokens=batch_tokens), chain, each_of(CARRIER, Head(0, 1), Head(1, 1)))
    for one, again in zip(worth.effects, other.effects, strict=True):
        for name in ("intact", "ablated", "control", "effect", "se", "spread", "rank"):
            assert getattr(again, name) == pytest.approx(getattr(one, name), abs=1e-5)


def test_no_pair_is_an_error(toy: Scanner) -> None:
    for replace in ("zero", "mean"):
        with pytest.raises(InputError, match=r"no pair (can be measured|to average heads over)"):
            ablate(toy, reader_of(), each_of(CARRIER, replace=replace))


@pytest.mark.parametrize("replace", ["zero", "mean"])
def test_heads_that_a_scan_chose_are_measured_on_the_other_half(toy: Scanner, replace: Replacement) -> None:
    pairs = [Pair(sentence(length)) for length in range(3, 15)]
    measured = [pair for pair in pairs if half(pair, 0) == 1]
    chosen = ablate(toy, reader_of(*pairs), AblationRequest(("previous-word",), replace=replace))
    (effect,) = chosen.effects
    assert effect.set.heads == (CARRIER,)
    assert (chosen.choosing_pairs, chosen.measured_pairs) == (len(pairs) - len(measured), len(measured))
    assert effect.pairs == len(measured) and chosen.signature.pairs_read == len(pairs)
    named = ablate(toy, reader_of(*measured), AblationRequest(heads="0-0", replace=replace))
    assert (named.choosing_pairs, named.measured_pairs) == (0, len(measured))
    assert (effect.intact, effect.ablated) == pytest.approx((named.effects[0].intact, named.effects[0].ablated))
    assert effect.n == named.effects[0].n


def _se(sums: FloatArray) -> float:
    """The error of a set beside its controls. Shape: [pair, set], the set first."""
    controls = tuple((Head(0, number),) for number in range(1, sums.shape[1]))
    off, n = HeadSet("x", (Head(0, 0),), controls, len(controls)), np.ones(len(sums))
    return _effect(off, Quantity("x", "nats"), np.column_stack([n, sums]), n).se


def test_the_error_is_of_pairs_and_of_controls_however_many_there_could_be() -> None:
    """The set costs each pair so much more than its controls, which cost every pair the same."""
    losses, difference = np.array([1.0, 1.5, 1.25]), np.array([0.5, 0.75, 0.25])
    sums = np.column_stack([difference + losses.mean(), np.tile(losses, (3, 1))])
    by_pair = float(error(residuals(difference, np.ones(3))))
    assert _se(sums) == pytest.approx((by_pair**2 + 0.25**2 / 3) ** 0.5)
    assert np.isnan(_se(sums[:, :2])) and np.isnan(_se(sums[:1]))  # one control, or one pair, tells of no spread

"""What an effect says of the model."""

import math

import pytest
from support.ablation_effects import effect_of
from support.small_results import SIGNATURE

from attnscan.results.ablation import Ablation, Effect, HeadSet, Quantity
from attnscan.results.files import render
from attnscan.results.grid import Grid, Head

ACCURACY = Quantity("next-sentence", "accuracy", larger_is_better=True)


def test_an_effect_stands_beside_the_mean_of_its_controls() -> None:
    effect = effect_of(2.0, (1.0, 1.5, 1.25))
    assert (effect.control, effect.effect, effect.spread) == (1.25, 0.75, 0.25)


def test_an_interval_of_an_effect_is_by_t() -> None:
    effect = effect_of(2.0, (1.0,), se=0.1, pairs=11)
    assert effect.interval == pytest.approx(0.2228, abs=1e-4)


def test_a_fall_of_what_is_better_large_is_a_loss() -> None:
    assert effect_of(0.5, (0.75,), quantity=ACCURACY).loss == 0.25
    assert effect_of(0.5, (0.75,)).loss == -0.25


@pytest.mark.parametrize(
    ("ablated", "others", "rank"),
    [
        (2.0, (1.0, 1.5, 1.25), 1),
        (2.0, (2.0, 3.0, 1.25), 3),
        (2.0, (1.9999999, 1.99), 2),  # the first is less by rounding alone
        (0.5, (1.0, 3.0, 1.25), 4),
        (0.0, (0.0,), 2),
    ],
)
def test_the_rank_among_the_controls_and_its_p(
    ablated: float, others: tuple[float, ...], rank: int
) -> None:
    effect = effect_of(ablated, others)
    assert (effect.rank, effect.p) == (rank, rank / (len(others) + 1))
    falling = effect_of(1 - ablated, tuple(1 - other for other in others), quantity=ACCURACY)
    assert falling.rank == rank


@pytest.mark.parametrize(
    ("others", "conclusion", "leads"),
    [
        ((1.0,) * 20, "costs more than other heads (8.0 errors above zero, rank 1 of 21)", True),
        (
            (0.5,) * 9 + (2.5,) * 2,  # nine errors above zero, and 3rd of 12
            "is not seen to cost more than other heads (9.1 errors above zero, rank 3 of 12)",
            False,
        ),
        (
            (1.0,) * 11,
            "is not seen to cost more than other heads "
            "(8.0 errors above zero, rank 1 of 12; 11 controls cannot tell more)",
            True,
        ),
    ],
)
def test_the_rank_concludes_and_not_the_error(
    others: tuple[float, ...], conclusion: str, leads: bool
) -> None:
    effect = effect_of(2.0, others)
    assert (effect.conclusion, effect.leads) == (conclusion, leads)


def test_without_controls_or_a_measurement_there_is_no_rank() -> None:
    for effect in (effect_of(2.0, ()), effect_of(math.nan, (math.nan, math.nan))):
        numbers = (effect.control, effect.effect, effect.spread, effect.rank, effect.p)
        assert all(map(math.isnan, numbers))
        assert effect.conclusion == ""
    assert math.isnan(effect_of(2.0, (1.0,)).spread)  # one control has none


def test_rows_leave_empty_what_is_not_there() -> None:
    effects = (effect_of(2.0, (1.0, 1.5), name="x"), effect_of(2.0, (), name="y"))
    found = Ablation(
        effects=effects,
        grid=Grid((1, 4)),
        replace="zero",
        draws=20,
        chosen_by="label",
        choosing_pairs=5,
        measured_pairs=6,
        signature=SIGNATURE,
    )
    header, *rows = render(found.to_frame(), "csv").decode().splitlines()
    numbers = "intact,ablated,control,effect,se,spread,controls,rank,p,overlap,n,pairs"
    assert header == f"model,set,heads,measure,{numbers},conclusion"
    assert rows == [
        "toy,x,1,masked-lm,1.000000,2.000000,1.250000,0.750000,0.125000,0.353553,2,1,0.333333,0.000000,9,5,"
        '"is not seen to cost more than other heads '
        '(6.0 errors above zero, rank 1 of 3; 2 controls cannot tell more)"',
        "toy,y,1,masked-lm,1.000000,2.000000,,,0.125000,,0,,,,9,5,",
    ]
    attrs = found.to_frame().attrs
    assert (attrs["choosing_pairs"], attrs["measured_pairs"]) == (5, 6)
    assert attrs["possible_controls"] == {"x": 2, "y": 0}


def ablation_of(*effects: Effect) -> Ablation:
    return Ablation(
        effects=effects,
        grid=Grid((1, 4)),
        replace="zero",
        draws=20,
        chosen_by="label",
        choosing_pairs=5,
        measured_pairs=6,
        signature=SIGNATURE,
    )


@pytest.mark.parametrize(
    ("name", "heads", "is_single"),
    [
        ("0-1", (Head(0, 1),), True),
        ("next-word", (Head(0, 1),), False),
        ("0-1", (Head(0, 1), Head(0, 2)), False),
    ],
)
def test_a_head_that_is_named_as_itself_is_single(
    name: str, heads: tuple[Head, ...], is_single: bool
) -> None:
    assert HeadSet(name, heads).is_single == is_single


def test_an_ablation_is_of_single_heads_where_every_set_is() -> None:
    single = effect_of(2.0, (1.0,), name="0-0")
    several = effect_of(2.0, (1.0,), name="next-word")
    assert ablation_of(single).alone
    assert not ablation_of(single, several).alone


def test_effects_are_listed_by_what_was_measured() -> None:
    nats = effect_of(2.0, (1.0,))
    accuracy = effect_of(0.5, (0.75,), quantity=ACCURACY)
    by_quantity = ablation_of(nats, accuracy, nats).by_quantity
    assert by_quantity == {nats.quantity: [nats, nats], ACCURACY: [accuracy]}


def test_controls_may_share_heads_with_the_set() -> None:
    heads = (Head(0, 0), Head(0, 1), Head(1, 0), Head(1, 1))
    controls = ((Head(0, 0), Head(0, 2), Head(1, 2), Head(1, 3)),)
    assert HeadSet("x", heads, controls).overlap == 0.25
    assert math.isnan(HeadSet("x", heads).overlap)


def test_a_set_without_heads_has_no_effect() -> None:
    effect = Effect.of(
        HeadSet("x", ()), ACCURACY, (1.0, 2.0, 1.5), se=0.1, n=9, pairs=5, clusters=5
    )
    assert math.isnan(effect.ablated)
    assert math.isnan(effect.effect)
    assert effect.others == (1.5,)


def test_nineteen_controls_can_tell_and_fewer_cannot() -> None:
    """A p of 0.05 is that of the first of twenty."""
    assert effect_of(2.0, (1.0,) * 19).conclusion.startswith("costs more than other heads")
    assert "18 controls cannot tell more" in effect_of(2.0, (1.0,) * 18).conclusion
    assert not effect_of(2.0, (3.0, *(1.0,) * 18)).leads
    assert effect_of(2.0, (3.0, *(1.0,) * 38)).leads


def test_an_effect_without_an_error_is_told_by_its_rank() -> None:
    assert effect_of(2.0, (1.0,) * 19, se=0.0).conclusion == (
        "costs more than other heads (rank 1 of 20)"
    )
    assert effect_of(0.5, (1.0,)).conclusion == (
        "is not seen to cost more than other heads (4.0 errors below zero, rank 2 of 2)"
    )

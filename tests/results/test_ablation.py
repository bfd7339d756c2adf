"""What an effect says of the model."""

from __future__ import annotations

from dataclasses import replace

from attnscan.results.ablation import Effect, HeadSet, Quantity


def test_accuracy_that_falls_is_a_loss() -> None:
    one = Effect(HeadSet("x", ((0, 0),)), Quantity("next-sentence", "accuracy", True), 1, 0.5, 0.75, -0.25, 0, 1, 1)
    assert one.loss == 0.25
    assert replace(one, quantity=Quantity("masked-lm", "nats")).loss == -0.25

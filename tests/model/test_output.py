"""What heads put out: shown as the model makes it, in every family that the tap reads, and changed where asked."""

from __future__ import annotations

import pytest
import torch
from families import TAPPED, UNTAPPED, tiny_inputs, tiny_model
from torch import Tensor

from attnscan.model.tap import Tap

pytestmark = pytest.mark.usefixtures("quiet")


def _zeroed(output: Tensor) -> None:
    output[:] = 0


@pytest.mark.parametrize("family", [*TAPPED, *UNTAPPED])
def test_with_nothing_changed_a_model_says_what_it_says_itself(family: str) -> None:
    model, inputs = tiny_model(family, {**TAPPED, **UNTAPPED}[family]), tiny_inputs()
    shapes: list[tuple[int, torch.Size]] = []
    with torch.inference_mode():
        itself = model(**inputs).last_hidden_state
    with Tap(model) as tap:
        seen = tap.output(inputs, lambda layer, output: shapes.append((layer, output.shape[:3]))).last_hidden_state
        none = tap.output(inputs, lambda _, output: _zeroed(output)).last_hidden_state
    present = inputs["attention_mask"].bool()
    torch.testing.assert_close(seen[present], itself[present], atol=2e-5, rtol=1e-4)
    assert shapes == [(layer, (2, 12, 2 if family == "convbert" else 4)) for layer in range(3)]
    assert (none - seen)[present].abs().max() > 2e-5


def test_a_head_at_zero_is_a_head_whose_columns_the_projection_lacks() -> None:
    model, inputs = tiny_model("bert", TAPPED["bert"]), tiny_inputs()

    def off(layer: int, output: Tensor) -> None:
        if layer == 1:
            output[:, :, 2] = 0

    with Tap(model) as tap:
        found = tap.output(inputs, off).last_hidden_state
    with torch.no_grad():
        model.encoder.layer[1].attention.output.dense.weight[:, 16:24] = 0  # four heads of eight
        expected = model(**inputs).last_hidden_state
    torch.testing.assert_close(found[0], expected[0], atol=1e-6, rtol=1e-5)

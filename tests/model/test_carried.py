"""What heads carry: their projection is found in every family, and adds up to the model's own."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.families import NOT_CARRIED, TAPPED, UNTAPPED, Collected, tiny_inputs, tiny_model
from torch import Tensor
from torch.nn import Embedding, LayerNorm, Linear, Sequential

from attnscan.errors import CaptureError
from attnscan.model.attention_block import AttentionBlock
from attnscan.model.carried import OutputProjections, output_projections
from attnscan.model.tap import AttentionTap
from attnscan.results.grid import Grid

_LENGTHS = (12, 8)  # of the inputs, without padding


def _projections(model: Any) -> OutputProjections:
    with AttentionTap(model) as tap:
        return output_projections(tap, tiny_inputs())


def _blocks(model: Any) -> dict[int, list[AttentionBlock]]:
    collected = Collected()
    with AttentionTap(model) as tap:
        tap.run(tiny_inputs(), collected)
    return collected.blocks


def _projected(model: Any) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Of each linear module that was run: its weight, its bias, and what it put out.

    Shape: [in, out], [out], [2, 12, out].
    """
    ran: list[tuple[Tensor, Tensor, Tensor]] = []

    def note(module: Any, _arguments: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.numel() == 24 * output.shape[-1]:
            weight = module.weight.detach()
            if isinstance(module, Embedding):
                return
            weight = weight if type(module).__name__ == "Conv1D" else weight.T
            bias = (
                torch.zeros(output.shape[-1])
                if getattr(module, "bias", None) is None
                else module.bias.detach()
            )
            ran.append((weight, bias, output.detach().reshape(2, 12, -1)))

    hooks = [
        m.register_forward_hook(note)
        for m in model.modules()
        if getattr(m, "weight", torch.zeros(0)).ndim == 2
    ]
    with torch.inference_mode():
        model(**tiny_inputs())
    for hook in hooks:
        hook.remove()
    return ran


CARRIED = {
    name: settings for name, settings in {**TAPPED, **UNTAPPED}.items() if name not in NOT_CARRIED
}
_UNSEEN = ("xlnet", "ibert", "falcon")  # whose projections are no linear modules, or give pairs


def test_xlnets_projection_is_a_parameter_of_its_own() -> None:
    model = tiny_model("xlnet", CARRIED["xlnet"])
    for layer, triangle in zip(model.layer, _projections(model).triangles, strict=True):
        slices = layer.rel_attn.o.detach().permute(1, 2, 0)  # to [head, value, hidden]
        torch.testing.assert_close(triangle @ triangle.mT, slices @ slices.mT, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("family", [family for family in CARRIED if family not in _UNSEEN])
def test_what_heads_put_out_adds_up_to_what_the_projection_does(family: str) -> None:
    model = tiny_model(family, CARRIED[family])
    projections = _projections(model)
    blocks = _blocks(model)
    ran = _projected(model)
    assert len(blocks) == len(projections.triangles)
    for layer, parts in blocks.items():
        errors = []
        for weight, bias, output in ran:
            heads = parts[0].grid.shape[1]
            if weight.shape[0] % heads or any(
                part.value.shape[-1] != weight.shape[0] // heads for part in parts
            ):  # type: ignore[union-attr]
                continue
            slices = weight.reshape(heads, -1, weight.shape[1])
            found = torch.zeros_like(output) + bias
            norms_error = 0.0
            for part in parts:
                assert part.value is not None
                length = part.weights.shape[-1]
                transformed = part.value @ slices[part.heads]
                found[part.inputs, :length] += (part.weights @ transformed).sum(1)
                norms = projections.value_norms(part)
                norms_error = max(
                    norms_error, float((norms - transformed.norm(dim=-1)).abs().max() / norms.max())
                )
            off = max(float((found - output)[i, :n].abs().max()) for i, n in enumerate(_LENGTHS))
            errors.append((off / float(output.abs().max()), norms_error))
        assert min(map(max, errors)) < 1e-5, f"no module of {family} puts out layer {layer}'s heads"


@pytest.mark.parametrize("family", NOT_CARRIED)
def test_a_family_that_does_not_show_it_is_refused_by_name(family: str) -> None:
    model = tiny_model(family, {**TAPPED, **UNTAPPED}[family])
    with pytest.raises(
        CaptureError, match=f"{type(model).__name__} carry cannot be computed"
    ) as refused:
        _projections(model)
    assert "\n" not in str(refused.value)


class _Gated(torch.nn.Module):
    """A projection of what heads put out, times a gate that sees the same."""

    def __init__(self, dense: Linear) -> None:
        super().__init__()
        self.dense = dense
        self.gate = Linear(dense.in_features, dense.out_features)

    def forward(self, states: Tensor) -> Tensor:
        projected: Tensor = self.dense(states) * self.gate(states).sigmoid()
        return projected


@pytest.mark.parametrize("put_between", [lambda dense: Sequential(LayerNorm(32), dense), _Gated])
def test_a_module_between_heads_and_projection_is_refused(
    put_between: Callable[[Any], Any],
) -> None:
    model = tiny_model("bert", TAPPED["bert"])
    output = model.encoder.layer[1].attention.output
    output.dense = put_between(output.dense)
    with pytest.raises(CaptureError, match=r"(in|of) layer 1"):
        _projections(model.eval())


def test_a_row_of_keys_without_values_is_zero() -> None:
    projections = OutputProjections((torch.eye(2)[None],))
    value = torch.tensor([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]])[None, None]
    weights = torch.tensor([[0.0, 0.0, 1.0], [0.1, 0.0, 0.9], [0.1, 0.1, 0.8]])[None, None]
    visible = torch.ones(1, 3, 3, dtype=torch.bool)
    every = slice(None)
    block = AttentionBlock(
        grid=Grid((1, 1)),
        layer=0,
        inputs=every,
        heads=every,
        weights=weights,
        visible=visible,
        query=None,
        key=None,
        scaling=1.0,
        value=value,
    )
    carried = projections.to_carried(block)
    expected = torch.tensor([[0, 0, 0], [1, 0, 0], [5 / 7, 2 / 7, 0]])
    torch.testing.assert_close(carried.weights[0, 0], expected)

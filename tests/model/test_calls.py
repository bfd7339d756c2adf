"""The kinds of attention of an encoder-decoder: each is what eager attention shows of it, padded and not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from families import ENCODER_DECODERS, UNTAPPED, tiny_encoder_decoder, tiny_translations
from torch import Tensor
from transformers import AutoConfig, AutoModel

from attnscan.errors import CaptureError
from attnscan.model.tap import AttentionBlock, Tap
from attnscan.results.terms import AttentionKind, Grid

pytestmark = pytest.mark.usefixtures("quiet")
KINDS = [AttentionKind.ENCODER, AttentionKind.DECODER, AttentionKind.CROSS]
_SOURCES, _TARGETS = (12, 8), (5, 9)
_SIZES = {
    AttentionKind.ENCODER: tuple(zip(_SOURCES, _SOURCES, strict=True)),
    AttentionKind.DECODER: tuple(zip(_TARGETS, _TARGETS, strict=True)),
    AttentionKind.CROSS: tuple(zip(_TARGETS, _SOURCES, strict=True)),
}


def _blocks(model: Any, kind: AttentionKind, inputs: dict[str, Tensor]) -> tuple[list[AttentionBlock], Tap]:
    blocks: list[AttentionBlock] = []
    with Tap(model, kind=kind) as tap:
        tap.run(inputs, blocks.append)
    return blocks, tap


def _alone(model: Any, kind: AttentionKind, number: int) -> tuple[Tensor, ...]:
    """Each layer's weights of one input without padding, as transformers gives them. Shape: [head, query, key]."""
    inputs, stops = tiny_translations(), {"": _SOURCES[number], "decoder_": _TARGETS[number]}
    own = {
        name: values[number : number + 1, : stops["decoder_" if name.startswith("decoder_") else ""]]
        for name, values in inputs.items()
    }
    with torch.no_grad():
        shown = model(**own, output_attentions=True, use_cache=False)[f"{kind.name.lower()}_attentions"]
    return tuple(layer[0] for layer in shown)


@pytest.mark.parametrize("family", ENCODER_DECODERS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_in_a_padded_batch_is_what_eager_attention_shows_of_each_input_alone(
    family: str, kind: AttentionKind
) -> None:
    if kind is AttentionKind.ENCODER and family in ("led", "longt5", "pegasus_x"):
        with pytest.raises(
            CaptureError, match=r"weights of shape|no softmax"
        ):  # a token looks at its neighbours, or at parts of the text
            _blocks(tiny_encoder_decoder(family), kind, tiny_translations())
        return
    model = tiny_encoder_decoder(family)
    expected = [_alone(model, kind, number) for number in range(2)]
    blocks, tap = _blocks(tiny_encoder_decoder(family, None), kind, tiny_translations())
    assert tap.calls.tapped == (kind.letter in ENCODER_DECODERS[family][1])
    layers, heads = len(expected[0]), len(expected[0][0])
    assert {block.grid for block in blocks} == {Grid((layers, heads), kind)}
    assert layers == (3 if kind is AttentionKind.ENCODER else 2)
    covered = set()
    for block in blocks:
        for row, number in enumerate(range(*block.inputs.indices(2))):
            queries, keys = _SIZES[kind][number]
            assert block.weights.shape[2:] == (queries, keys)
            torch.testing.assert_close(
                block.weights[row], expected[number][block.layer][block.heads], atol=1e-6, rtol=0
            )
            seen = block.visible[slice(number, number + 1), block.rows, block.columns][0]
            assert torch.equal(seen, (expected[number][block.layer] > 0).any(0))
            covered |= {(number, block.layer, head) for head in range(*block.heads.indices(heads))}
    assert len(covered) == 2 * layers * heads


def test_cross_attention_of_other_shapes_than_the_texts_is_refused() -> None:
    """ProphetNet's has a row for each of several streams of every target token."""
    torch.manual_seed(0)
    model = AutoModel.from_config(AutoConfig.for_model("prophetnet", **UNTAPPED["prophetnet"])).eval()
    with pytest.raises(
        CaptureError, match=r"ProphetNetModel computes (weights of shape|no softmax attention)"
    ) as refused:
        _blocks(model, AttentionKind.CROSS, tiny_translations())
    assert "\n" not in str(refused.value) and refused.value.remedy

"""The kinds of attention of an encoder-decoder: each is what eager attention shows of it, padded and not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from families import ENCODER_DECODERS, UNTAPPED, tiny_encoder_decoder, tiny_model, tiny_translations
from torch import Tensor
from transformers import AutoConfig, AutoModel

from attnscan.errors import CaptureError
from attnscan.model import tap as tapping
from attnscan.model.attention_block import AttentionBlock
from attnscan.model.masks import Behind
from attnscan.model.tap import Tap
from attnscan.results.grid import AttentionKind

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
    assert {block.grid.shapes for block in blocks} == {((kind, layers, heads),)}
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


def test_a_targets_tokens_have_their_places_behind_the_sources() -> None:
    blocks, _ = _blocks(tiny_encoder_decoder("bart"), AttentionKind.CROSS, tiny_translations())
    for block in blocks:
        ((target, source),) = [_SIZES[AttentionKind.CROSS][number] for number in range(*block.inputs.indices(2))]
        assert (block.rows, block.columns) == (slice(source, source + target), slice(0, source))
        assert block.tokens == source + target


def test_what_is_visible_of_places_behind_each_other_is_a_rectangle() -> None:
    visible = Behind(torch.tensor([[[True, False], [True, True]]]), [(2, 2)])
    every = slice(None)
    assert visible[every, every, every][0].int().tolist() == [[0] * 4, [0] * 4, [1, 0, 0, 0], [1, 1, 0, 0]]
    assert visible[slice(0, 1), slice(2, 4), slice(0, 2)][0].tolist() == [[True, False], [True, True]]


@pytest.mark.parametrize(("kind", "ran"), [(AttentionKind.ENCODER, 0), (AttentionKind.DECODER, 1)])
def test_the_pass_ends_after_the_last_call_that_is_needed(kind: AttentionKind, ran: int) -> None:
    """Reading the encoder runs no layer of the decoder; its own last layer does not reach what looks across."""
    model = tiny_encoder_decoder("bart")
    with Tap(model, kind=kind) as tap:
        tap.run(tiny_translations(), lambda _: None)  # the first run is preceded by one that tells kinds apart
        seen = []
        for layer in model.decoder.layers:
            layer.encoder_attn.register_forward_hook(lambda *_: seen.append(1))
        tap.run(tiny_translations(), lambda _: None)
    assert len(seen) == ran


def test_blocks_of_any_size_make_up_the_same_rectangles(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_encoder_decoder("t5")
    whole, _ = _blocks(model, AttentionKind.CROSS, tiny_translations())
    monkeypatch.setattr(tapping, "_BLOCK", 100)
    pieces, _ = _blocks(model, AttentionKind.CROSS, tiny_translations())
    assert len(pieces) > len(whole)
    for block in pieces:
        (other,) = (big for big in whole if (big.layer, big.inputs) == (block.layer, block.inputs))
        torch.testing.assert_close(block.weights, other.weights[:, block.heads], atol=1e-6, rtol=0)


def test_cross_attention_of_other_shapes_than_the_texts_is_refused() -> None:
    """ProphetNet's has a row for each of several streams of every target token."""
    torch.manual_seed(0)
    model = AutoModel.from_config(AutoConfig.for_model("prophetnet", **UNTAPPED["prophetnet"])).eval()
    with pytest.raises(
        CaptureError, match=r"ProphetNetModel computes (weights of shape|no softmax attention)"
    ) as refused:
        _blocks(model, AttentionKind.CROSS, tiny_translations())
    assert "\n" not in str(refused.value) and refused.value.remedy


@pytest.mark.parametrize("kind", [AttentionKind.DECODER, AttentionKind.CROSS])
def test_a_model_without_that_kind_is_refused_in_one_line(kind: AttentionKind) -> None:
    with pytest.raises(CaptureError) as refused:
        _blocks(tiny_model("bert", {"vocab_size": 60}), kind, tiny_translations())
    assert "\n" not in str(refused.value) and refused.value.remedy

"""The tap: what it runs, holds and leaves behind; kinds of attention; threads on one model."""

import gc
import itertools
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from support.families import (
    ENCODER_DECODERS,
    TAPPED,
    UNTAPPED,
    VOCABULARY,
    Collected,
    eager_attention,
    tiny_encoder_decoder,
    tiny_inputs,
    tiny_model,
    tiny_translations,
)
from support.frozen_classes import classes_that_can_change
from torch import Tensor
from transformers import AutoConfig, AutoModel

import attnscan.model
from attnscan.errors import CaptureError
from attnscan.model import tap as capture
from attnscan.model.attention_block import AttentionBlock, visible_keys
from attnscan.model.attention_functions import fused_attention
from attnscan.model.tap import AttentionTap, block_cells
from attnscan.results.grid import AttentionKind, Grid

pytestmark = pytest.mark.usefixtures("quiet")
FAMILIES = {**TAPPED, **UNTAPPED}


def _captured(model: Any, inputs: dict[str, torch.Tensor]) -> tuple[Collected, AttentionTap]:
    collected = Collected()
    with AttentionTap(model) as tap:
        tap.run(inputs, collected)
    return collected, tap


def test_no_more_than_one_layers_weights_are_alive() -> None:
    model = tiny_model("bert", TAPPED["bert"])
    alive: list[weakref.ref[torch.Tensor]] = []
    counts = []

    def consume(block: AttentionBlock) -> None:
        alive.append(weakref.ref(block.weights))
        gc.collect()
        counts.append(sum(reference() is not None for reference in alive))

    with AttentionTap(model) as tap:
        tap.run(tiny_inputs(), consume)
    assert counts == [1] * 6  # a block for each length in each layer


@pytest.mark.parametrize("budget", [1, 12 * 12, 3 * 12 * 12, 5 * 12 * 12, 10**9])
def test_blocks_of_any_size_make_up_the_same_layers(
    monkeypatch: pytest.MonkeyPatch, budget: int
) -> None:
    model = tiny_model("bert", TAPPED["bert"])
    inputs = tiny_inputs()
    monkeypatch.setattr(capture, "_BLOCK_CELLS", 10**9)
    whole, _ = _captured(model, inputs)
    monkeypatch.setattr(capture, "_BLOCK_CELLS", budget)
    pieces, _ = _captured(model, inputs)
    for layer in whole.blocks:
        torch.testing.assert_close(pieces.layer(layer), whole.layer(layer), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("tokens", "heads", "cells"),
    [
        (100, 12, 12 * 100**2),
        (512, 12, 4 * 512**2),  # of a million
        (1024, 12, 1024**2),
        (2048, 12, 2048**2),  # one head at least
    ],
)
def test_a_block_on_a_cpu_is_of_a_million_weights(tokens: int, heads: int, cells: int) -> None:
    assert block_cells(tokens, heads, on_cpu=True) == cells


@pytest.mark.parametrize(("tokens", "heads"), [(4096, 16), (8192, 4), (20_000, 1)])
def test_a_block_elsewhere_is_of_268_million_weights(tokens: int, heads: int) -> None:
    assert block_cells(tokens, 99, on_cpu=False) == heads * tokens**2


@pytest.mark.parametrize("is_causal", [True, False])
def test_without_a_mask_every_key_is_seen(is_causal: bool) -> None:
    """Also in a module that calls itself causal: the mask decides."""
    module = torch.nn.Module()
    module.is_causal = is_causal
    query, key, value = torch.randn(3, 1, 2, 5, 4, generator=torch.Generator().manual_seed(0))
    output = fused_attention(module, query, key, value, None, scaling=0.5)
    expected = (query @ key.mT * 0.5).softmax(-1) @ value
    torch.testing.assert_close(output, expected.transpose(1, 2))


def test_weights_are_those_of_eager_attention_to_the_last_bit() -> None:
    """Also where queries are scaled by no power of two, as in heads of 8 dimensions.

    Logits are far apart.
    """
    model = tiny_model("bert", TAPPED["bert"] | {"hidden_size": 16, "num_attention_heads": 2})
    for layer in model.encoder.layer:
        layer.attention.self.query.weight.data *= 100
    inputs = {
        "input_ids": torch.randint(
            5, VOCABULARY, (16, 12), generator=torch.Generator().manual_seed(1)
        )
    }
    collected, _ = _captured(model, inputs)
    for layer, weights in enumerate(eager_attention(model, inputs)):
        assert torch.equal(collected.layer(layer), weights)


def test_only_what_follows_a_run_can_change() -> None:
    assert classes_that_can_change(attnscan.model) == ["BatchLimit", "_Run", "_Product"]


@pytest.mark.parametrize("family", ["bert", "deberta-v2"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_closed_tap_leaves_the_model_as_it_was(family: str, fails: bool) -> None:
    model = tiny_model(family, FAMILIES[family])
    inputs = tiny_inputs()
    output = model(**inputs).last_hidden_state
    with pytest.raises(ZeroDivisionError) if fails else nullcontext(), AttentionTap(model) as tap:
        tap.run(inputs, lambda _: 1 // (not fails))
    assert model.config._attn_implementation == "eager"
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert torch.equal(model(**inputs).last_hidden_state, output)


def test_what_fails_inside_the_model_is_said_in_one_line() -> None:
    model = tiny_model("bert", TAPPED["bert"])
    inputs = tiny_inputs()
    inputs["input_ids"][0, 0] = 10**6
    with (
        pytest.raises(CaptureError, match="BertModel fails on this input") as caught,
        AttentionTap(model) as tap,
    ):
        tap.run(inputs, lambda _: None)
    assert "\n" not in str(caught.value)


def test_inputs_that_a_model_does_not_take_are_left_out() -> None:
    """A general tokenizer gives segment ids to models that have none; RoBERTa has one kind only."""
    inputs = tiny_inputs()
    inputs["token_type_ids"] = torch.ones_like(inputs["input_ids"])
    for family in ("distilbert", "roberta", "gpt2"):
        settings = {**TAPPED[family], **({"type_vocab_size": 1} if family == "roberta" else {})}
        collected, tap = _captured(tiny_model(family, settings), inputs)
        assert tap.calls.uses_tap and len(collected.blocks) == 3


@pytest.mark.parametrize(
    ("family", "number"),
    [
        *(
            (family, torch.bfloat16) for family in FAMILIES if family != "gemma4_text"
        ),  # its logits are not scaled
        *(
            (family, torch.float16)
            for family in ("bert", "modernbert", "llama", "deberta-v2", "t5")
        ),
    ],
)
def test_a_model_in_half_precision_is_read_in_whole(family: str, number: torch.dtype) -> None:
    """Its softmax is in float32: rows sum to 1 as halves would not.

    Weights differ by what the model rounds.
    """
    inputs = tiny_inputs()
    expected = eager_attention(tiny_model(family, FAMILIES[family]), inputs)
    collected, tap = _captured(tiny_model(family, FAMILIES[family]).to(number), inputs)
    rounding = torch.finfo(number).eps
    for layer, reference in enumerate(expected):
        weights = collected.layer(layer)
        assert weights.dtype == torch.float32
        real = inputs["attention_mask"].bool()[:, None, :].expand(weights.shape[:3])
        torch.testing.assert_close(
            weights[real], reference[real], atol=4 * rounding, rtol=8 * rounding
        )
        if tap.calls.uses_tap:
            torch.testing.assert_close(
                weights[real].sum(-1), torch.ones(int(real.sum())), atol=1e-6, rtol=0
            )


def test_logits_of_half_precision_are_products_in_float32() -> None:
    """A product that is itself rounded to bfloat16 keeps three digits of each logit."""
    collected, _ = _captured(tiny_model("bert", TAPPED["bert"]).bfloat16(), tiny_inputs())
    for block in itertools.chain.from_iterable(collected.blocks.values()):
        assert block.query is not None and block.key is not None
        logits = block.query.double() @ block.key.double().mT * block.scaling
        keys = logits.shape[-1]
        hidden = ~block.visible[block.inputs, None, :keys, :keys]
        exact = logits.masked_fill(hidden, -torch.inf).softmax(-1)
        rounded = logits.bfloat16().double().masked_fill(hidden, -torch.inf).softmax(-1)
        torch.testing.assert_close(block.weights.double(), exact, atol=1e-7, rtol=1e-6)
        assert (exact - rounded).abs().max() > 1e-6  # a control


@pytest.mark.parametrize(
    ("family", "scaling"), [("gptj", 8**-0.5), ("xglm", 1.0), ("squeezebert", 8**-0.5)]
)
def test_weights_that_are_watched_are_of_scaled_products(family: str, scaling: float) -> None:
    """Whether a family divides them, scales queries before, or folds heads into the batch."""
    collected, _ = _captured(tiny_model(family, UNTAPPED[family]), tiny_inputs())
    for block in itertools.chain.from_iterable(collected.blocks.values()):
        assert block.query is not None
        assert block.key is not None
        assert block.scaling == pytest.approx(scaling)
        products = block.query @ block.key.mT * scaling
        size = products.shape[-1]
        seen = block.visible[block.inputs, :size, :size][:, None].expand_as(products)
        weights = products.masked_fill(~seen, -torch.inf).softmax(-1)
        torch.testing.assert_close(block.weights, weights, atol=1e-7, rtol=1e-6)


def test_a_causal_mask_is_told_beside_padding() -> None:
    """Two tokens of padding in front spread over everything, and words look back.

    So does softmax where all is hidden.
    """
    weights = torch.tensor([[0.25] * 4, [0.25] * 4, [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.5, 0.5]])[
        None, None
    ]
    visible = visible_keys(weights, torch.tensor([[False, False, True, True]]))[0]
    assert visible[2:].tolist() == [[False, False, True, False], [False, False, True, True]]


def test_layers_with_other_masks_are_told_apart() -> None:
    """GPT-Neo's second layer of three sees four tokens; what it sees is watched."""
    collected, tap = _captured(tiny_model("gpt_neo", UNTAPPED["gpt_neo"]), tiny_inputs())
    assert not tap.calls.uses_tap
    causal = torch.ones(12, 12, dtype=torch.bool).tril()
    local = causal & ~causal.tril(-4)
    for layer, expected in enumerate((causal, local, causal)):
        assert torch.equal(collected.visible(layer)[0], expected)


def test_every_distance_that_any_head_attends_to_is_seen() -> None:
    ahead = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    visible = visible_keys(
        torch.stack([ahead, torch.eye(3)])[None], torch.ones(1, 3, dtype=torch.bool)
    )[0]
    assert visible.tolist() == [[True, True, False], [False, True, True], [False, False, True]]


def _zeroed(output: Tensor) -> None:
    output[:] = 0


@pytest.mark.parametrize("family", FAMILIES)
def test_with_nothing_changed_a_model_says_what_it_says_itself(family: str) -> None:
    model = tiny_model(family, FAMILIES[family])
    inputs = tiny_inputs()
    shapes: list[tuple[int, torch.Size]] = []
    with torch.inference_mode():
        itself = model(**inputs).last_hidden_state
    with AttentionTap(model) as tap:
        seen = tap.output(
            inputs, lambda layer, output: shapes.append((layer, output.shape[:3]))
        ).last_hidden_state
        none = tap.output(inputs, lambda _, output: _zeroed(output)).last_hidden_state
    present = inputs["attention_mask"].bool()
    torch.testing.assert_close(seen[present], itself[present], atol=2e-5, rtol=1e-4)
    assert shapes == [(layer, (2, 12, 2 if family == "convbert" else 4)) for layer in range(3)]
    assert (none - seen)[present].abs().max() > 2e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_threads_on_one_model_show_what_it_shows_alone(family: str) -> None:
    model = tiny_model(family, FAMILIES[family])
    inputs = tiny_inputs()
    gate = threading.Barrier(3)

    def read(row: int) -> list[torch.Tensor]:
        collected = Collected()

        def consume(block: Any) -> None:
            if (block.layer, block.inputs.start, block.heads.start) == (1, 0, 0):
                gate.wait(60)  # all are in the midst of their second layer
            collected(block)

        tap.run({name: values[[row % 2]] for name, values in inputs.items()}, consume)
        return [collected.layer(layer) for layer in sorted(collected.blocks)]

    with AttentionTap(model) as tap, ThreadPoolExecutor(3) as pool:
        together = list(pool.map(read, range(3)))
        gate = threading.Barrier(1)
        for row, shown in enumerate(together):
            torch.testing.assert_close(shown, read(row), atol=1e-6, rtol=0)


KINDS = [AttentionKind.ENCODER, AttentionKind.DECODER, AttentionKind.CROSS]
_SOURCES = (12, 8)
_TARGETS = (5, 9)


def _blocks(
    model: Any, kind: AttentionKind, inputs: dict[str, Tensor]
) -> tuple[list[AttentionBlock], AttentionTap]:
    blocks: list[AttentionBlock] = []
    with AttentionTap(model, kind=kind) as tap:
        tap.run(inputs, blocks.append)
    return blocks, tap


def _alone(model: Any, kind: AttentionKind, number: int) -> tuple[Tensor, ...]:
    """Each layer's weights of one input without padding, as transformers gives them.

    Shape: [head, query, key].
    """
    inputs = tiny_translations()
    stops = {"": _SOURCES[number], "decoder_": _TARGETS[number]}
    unpadded = {
        name: values[
            number : number + 1, : stops["decoder_" if name.startswith("decoder_") else ""]
        ]
        for name, values in inputs.items()
    }
    with torch.no_grad():
        shown = model(**unpadded, output_attentions=True, use_cache=False)[
            f"{kind.name.lower()}_attentions"
        ]
    return tuple(layer[0] for layer in shown)


@pytest.mark.parametrize("family", ENCODER_DECODERS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_in_a_padded_batch_is_that_of_each_input_alone(
    family: str, kind: AttentionKind
) -> None:
    if kind is AttentionKind.ENCODER and family in ("led", "longt5", "pegasus_x"):
        with pytest.raises(
            CaptureError, match=r"weights of shape|no softmax"
        ):  # of neighbours, or parts of the text
            _blocks(tiny_encoder_decoder(family), kind, tiny_translations())
        return
    model = tiny_encoder_decoder(family)
    expected = [_alone(model, kind, number) for number in range(2)]
    blocks, tap = _blocks(tiny_encoder_decoder(family, None), kind, tiny_translations())
    assert tap.calls.uses_tap == (kind.letter in ENCODER_DECODERS[family][1])
    layers = len(expected[0])
    heads = len(expected[0][0])
    assert {block.grid for block in blocks} == {Grid((layers, heads), kind)}
    assert layers == (3 if kind is AttentionKind.ENCODER else 2)
    covered = set()
    for block in blocks:
        for row, number in enumerate(range(*block.inputs.indices(2))):
            alone = expected[number][block.layer]
            torch.testing.assert_close(block.weights[row], alone[block.heads], atol=1e-6, rtol=0)
            seen = block.visible[slice(number, number + 1), block.rows, block.columns][0]
            assert torch.equal(seen, (alone > 0).any(0))
            covered |= {(number, block.layer, head) for head in range(*block.heads.indices(heads))}
    assert len(covered) == 2 * layers * heads


def test_cross_attention_of_other_shapes_is_refused() -> None:
    """ProphetNet's has a row for each of several streams of every target token."""
    torch.manual_seed(0)
    model = AutoModel.from_config(
        AutoConfig.for_model("prophetnet", **UNTAPPED["prophetnet"])
    ).eval()
    with pytest.raises(
        CaptureError, match=r"ProphetNetModel computes (weights of shape|no softmax attention)"
    ) as refused:
        _blocks(model, AttentionKind.CROSS, tiny_translations())
    assert "\n" not in str(refused.value) and refused.value.remedy

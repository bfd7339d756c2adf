"""The tap: what it runs, what it holds, and what it leaves behind: nothing. Families are in `test_families.py`."""

from __future__ import annotations

import gc
import itertools
import weakref
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from families import TAPPED, UNTAPPED, VOCABULARY, Collected, eager_attention, tiny_inputs, tiny_model

from attnscan.errors import CaptureError
from attnscan.model import tap as capture
from attnscan.model.tap import AttentionBlock, Tap

pytestmark = pytest.mark.usefixtures("quiet")
FAMILIES = {**TAPPED, **UNTAPPED}


def _captured(model: Any, inputs: dict[str, torch.Tensor]) -> tuple[Collected, Tap]:
    collected = Collected()
    with Tap(model) as tap:
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

    with Tap(model) as tap:
        tap.run(tiny_inputs(), consume)
    assert counts == [1] * 6  # a block for each length in each layer


@pytest.mark.parametrize("budget", [1, 12 * 12, 3 * 12 * 12, 5 * 12 * 12, 10**9])
def test_blocks_of_any_size_make_up_the_same_layers(monkeypatch: pytest.MonkeyPatch, budget: int) -> None:
    model, inputs = tiny_model("bert", TAPPED["bert"]), tiny_inputs()
    monkeypatch.setattr(capture, "_BLOCK", 10**9)
    whole, _ = _captured(model, inputs)
    monkeypatch.setattr(capture, "_BLOCK", budget)
    pieces, _ = _captured(model, inputs)
    for layer in whole.blocks:
        torch.testing.assert_close(pieces.layer(layer), whole.layer(layer), atol=1e-6, rtol=0)


def test_weights_are_those_of_eager_attention_to_the_last_bit() -> None:
    """Also where queries are scaled by no power of two, as in heads of 8 dimensions, and logits are far apart."""
    model = tiny_model("bert", TAPPED["bert"] | {"hidden_size": 16, "num_attention_heads": 2})
    for layer in model.encoder.layer:
        layer.attention.self.query.weight.data *= 100
    inputs = {"input_ids": torch.randint(5, VOCABULARY, (16, 12), generator=torch.Generator().manual_seed(1))}
    collected, _ = _captured(model, inputs)
    for layer, weights in enumerate(eager_attention(model, inputs)):
        assert torch.equal(collected.layer(layer), weights)


@pytest.mark.parametrize("family", ["bert", "deberta-v2"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_closed_tap_leaves_the_model_as_it_was_also_if_a_consumer_fails(family: str, fails: bool) -> None:
    model, inputs = tiny_model(family, FAMILIES[family]), tiny_inputs()
    output = model(**inputs).last_hidden_state
    with pytest.raises(ZeroDivisionError) if fails else nullcontext(), Tap(model) as tap:
        tap.run(inputs, lambda _: 1 // (not fails))
    assert model.config._attn_implementation == "eager"
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert torch.equal(model(**inputs).last_hidden_state, output)


def test_what_fails_inside_the_model_is_said_in_one_line() -> None:
    model, inputs = tiny_model("bert", TAPPED["bert"]), tiny_inputs()
    inputs["input_ids"][0, 0] = 10**6
    with pytest.raises(CaptureError, match="BertModel fails on this input") as caught, Tap(model) as tap:
        tap.run(inputs, lambda _: None)
    assert "\n" not in str(caught.value)


def test_inputs_that_a_model_does_not_take_are_left_out() -> None:
    """A general tokenizer gives segment ids to models that have none; RoBERTa has one kind only."""
    inputs = tiny_inputs()
    inputs["token_type_ids"] = torch.ones_like(inputs["input_ids"])
    for family in ("distilbert", "roberta", "gpt2"):
        settings = {**TAPPED[family], **({"type_vocab_size": 1} if family == "roberta" else {})}
        collected, tap = _captured(tiny_model(family, settings), inputs)
        assert tap.calls.tapped and len(collected.blocks) == 3


@pytest.mark.parametrize(
    ("family", "number"),
    [
        *((family, torch.bfloat16) for family in FAMILIES),
        *((family, torch.float16) for family in ("bert", "modernbert", "llama", "deberta-v2", "t5")),
    ],
)
def test_a_model_in_half_precision_is_read_in_whole(family: str, number: torch.dtype) -> None:
    """Its softmax is in float32: rows sum to 1 as halves would not, and weights differ by what the model rounds."""
    inputs = tiny_inputs()
    expected = eager_attention(tiny_model(family, FAMILIES[family]), inputs)
    collected, tap = _captured(tiny_model(family, FAMILIES[family]).to(number), inputs)
    rounding = torch.finfo(number).eps
    for layer, reference in enumerate(expected):
        weights = collected.layer(layer)
        assert weights.dtype == torch.float32
        real = inputs["attention_mask"].bool()[:, None, :].expand(weights.shape[:3])
        torch.testing.assert_close(weights[real], reference[real], atol=4 * rounding, rtol=8 * rounding)
        if tap.calls.tapped:
            torch.testing.assert_close(weights[real].sum(-1), torch.ones(int(real.sum())), atol=1e-6, rtol=0)


def test_on_a_cpu_logits_of_half_precision_are_those_of_its_queries_and_keys_to_float32() -> None:
    """A product that is itself rounded to bfloat16 keeps three digits of each logit."""
    collected, _ = _captured(tiny_model("bert", TAPPED["bert"]).bfloat16(), tiny_inputs())
    for block in itertools.chain.from_iterable(collected.blocks.values()):
        assert block.query is not None and block.key is not None and block.logits is not None
        exact = block.query.double() @ block.key.double().mT * block.scaling
        seen = block.visible[block.inputs, : exact.shape[-1], : exact.shape[-1]][:, None].expand_as(exact)
        torch.testing.assert_close(block.logits[seen].double(), exact[seen], atol=1e-7, rtol=1e-6)
        assert (exact - exact.bfloat16()).abs().max() > 1e-6  # a control

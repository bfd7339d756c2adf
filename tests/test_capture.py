"""The tap against eager attention, family by family, and what it leaves behind: nothing."""

from __future__ import annotations

import gc
import weakref
from collections import defaultdict
from typing import Any

import pytest
import torch
from families import TAPPED, UNTAPPED, WITHOUT_ATTENTION, tiny_inputs, tiny_model
from transformers import AttentionInterface, AttentionMaskInterface, AutoModel
from transformers.utils import logging

from attnscan import capture
from attnscan.capture import AttentionBlock, Tap
from attnscan.errors import CaptureError

FAMILIES = {**TAPPED, **UNTAPPED}


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logging.set_verbosity(logging.CRITICAL)


class Collected:
    """All blocks of a run, put together again to whole layers."""

    def __init__(self) -> None:
        self.blocks: dict[int, list[AttentionBlock]] = defaultdict(list)

    def __call__(self, block: AttentionBlock) -> None:
        self.blocks[block.layer].append(block)

    def layer(self, number: int, name: str = "weights") -> torch.Tensor:
        """Shape: [batch, head, query, key], or of queries or keys; 0 on padding that was left out."""
        parts = [(block, getattr(block, name)) for block in self.blocks[number]]
        batch = max(block.inputs.stop or len(part) for block, part in parts)
        heads = max(block.heads.stop or part.shape[1] for block, part in parts)
        rows, columns = (max(part.shape[axis] for _, part in parts) for axis in (2, 3))
        whole = torch.full((batch, heads, rows, columns), torch.nan)
        for block, part in parts:
            whole[block.inputs, block.heads] = 0
            whole[block.inputs, block.heads, : part.shape[2], : part.shape[3]] = part
        return whole


def _eager(model: Any, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        output = model(**inputs, output_attentions=True)
    return output.get("attentions") or output["encoder_attentions"]


def _captured(model: Any, inputs: dict[str, torch.Tensor]) -> tuple[Collected, Tap]:
    collected = Collected()
    with Tap(model) as tap:
        tap.run(inputs, collected)
    return collected, tap


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_equal_eager_attention(family: str) -> None:
    model, inputs = tiny_model(family, FAMILIES[family]), tiny_inputs()
    present = inputs["attention_mask"].bool()
    expected = _eager(model, inputs)
    collected, tap = _captured(model, inputs)
    assert tap.works == (family in TAPPED)
    assert len(collected.blocks) == len(expected)
    if tap.works:
        assert [block.weights.shape[2:] for block in collected.blocks[0]] == [(12, 12), (8, 8)]
    for layer, reference in enumerate(expected):
        weights = collected.layer(layer)
        assert collected.blocks[layer][0].grid == (len(expected), reference.shape[1])
        real = present[:, None, :].expand(weights.shape[:3])  # queries of padding mean nothing
        torch.testing.assert_close(weights[real], reference.float()[real], atol=1e-6, rtol=0)
        torch.testing.assert_close(weights[real].sum(-1), torch.ones(int(real.sum())), atol=1e-5, rtol=0)
        assert (weights[1, :, :8, 8:] == 0).all()  # nothing on padding


@pytest.mark.parametrize("family", TAPPED)
def test_weights_follow_from_queries_keys_and_visible_keys(family: str) -> None:
    model, inputs = tiny_model(family, FAMILIES[family], "sdpa"), tiny_inputs()
    collected, _ = _captured(model, inputs)
    for layer in collected.blocks:
        query, key = collected.layer(layer, "query"), collected.layer(layer, "key")
        visible = collected.blocks[layer][0].visible[:, None]
        scores = (query @ key.transpose(2, 3)) * _scaling(model)
        weights = scores.masked_fill(~visible, -torch.inf).softmax(-1)
        real = inputs["attention_mask"].bool()[:, None, :].expand(weights.shape[:3])
        torch.testing.assert_close(weights[real], collected.layer(layer)[real], atol=1e-5, rtol=0)


def _scaling(model: Any) -> float:
    """As the model's own attention says, found without a table of names."""
    modules = [module for module in model.modules() if isinstance(getattr(module, "scaling", None), float)]
    return modules[0].scaling if modules else 8**-0.5


@pytest.mark.parametrize("family", ["gpt2", "llama", "mistral", "modernbert", "gemma2"])
def test_keys_that_a_query_may_not_see(family: str) -> None:
    """Causal models see no later key; windows end; what cannot be seen has no weight, and all else some."""
    collected, _ = _captured(tiny_model(family, FAMILIES[family]), tiny_inputs())
    places = torch.arange(12)
    offset = places[None, :] - places[:, None]
    windows = {"gpt2": 12, "llama": 12, "mistral": 4, "gemma2": None, "modernbert": None}
    for layer in collected.blocks:
        visible = collected.blocks[layer][0].visible[0]
        if family == "modernbert":  # every second layer looks two tokens to either side
            assert torch.equal(visible, offset.abs() <= 2 if layer % 2 else torch.ones(12, 12, dtype=torch.bool))
        elif windows[family]:
            assert torch.equal(visible, (offset <= 0) & (offset > -windows[family]))
        weights = collected.layer(layer)[0]
        assert ((weights > 0) == visible).all()


@pytest.mark.parametrize("family", WITHOUT_ATTENTION)
def test_architectures_without_attention_are_refused_by_name(family: str) -> None:
    model = tiny_model(family, WITHOUT_ATTENTION[family])
    with pytest.raises(CaptureError, match=type(model).__name__), Tap(model) as tap:
        tap.run(tiny_inputs(), lambda _: None)


def test_nothing_after_the_last_layers_weights_runs() -> None:
    model = tiny_model("bert", TAPPED["bert"])
    ran = []
    for number, layer in enumerate(model.encoder.layer):
        layer.output.register_forward_hook(lambda *_, number=number: ran.append(number))
    _captured(model, tiny_inputs())
    assert ran == [0, 1]


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


def _traces(model: Any) -> tuple[object, ...]:
    return (
        model.config._attn_implementation,
        sorted(AttentionInterface._global_mapping),
        sorted(AttentionMaskInterface._global_mapping),
        sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()),
    )


@pytest.mark.parametrize("family", ["bert", "deberta-v2"])
def test_a_closed_tap_leaves_the_model_as_it_was(family: str) -> None:
    model, inputs = tiny_model(family, FAMILIES[family]), tiny_inputs()
    before, output = _traces(model), model(**inputs).last_hidden_state
    _captured(model, inputs)
    assert _traces(model) == before
    torch.testing.assert_close(model(**inputs).last_hidden_state, output)


def test_a_consumers_error_comes_through_and_the_tap_is_removed() -> None:
    model = tiny_model("bert", TAPPED["bert"])
    before = _traces(model)
    with pytest.raises(ZeroDivisionError), Tap(model) as tap:
        tap.run(tiny_inputs(), lambda _: 1 // 0)
    assert _traces(model) == before


def test_what_fails_inside_the_model_is_said_in_one_line() -> None:
    model, inputs = tiny_model("bert", TAPPED["bert"]), tiny_inputs()
    inputs["input_ids"][0, 0] = 10**6
    with pytest.raises(CaptureError, match="BertModel fails on this input") as caught, Tap(model) as tap:
        tap.run(inputs, lambda _: None)
    assert "\n" not in str(caught.value)


def test_two_taps_do_not_disturb_each_other() -> None:
    one, other = (tiny_model(family, TAPPED[family]) for family in ("bert", "roberta"))
    first, second = Collected(), Collected()
    with Tap(one) as tap_one, Tap(other) as tap_other:
        tap_one.run(tiny_inputs(), first)
        tap_other.run(tiny_inputs(), second)
    assert len(first.blocks) == len(second.blocks) == 3


def test_the_bundled_model_with_and_without_padding(bundled_dir: Any) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(bundled_dir)
    model = AutoModel.from_pretrained(bundled_dir, attn_implementation="eager").eval()
    texts = ["I went to the store.", "At the store, I bought fresh strawberries."]
    for inputs in (tokenizer(texts, padding=True, return_tensors="pt"), tokenizer(*texts, return_tensors="pt")):
        present = inputs["attention_mask"].bool()
        collected, _ = _captured(model, dict(inputs))
        for layer, reference in enumerate(_eager(model, dict(inputs))):
            real = present[:, None, :].expand(reference.shape[:3])
            torch.testing.assert_close(collected.layer(layer)[real], reference[real], atol=1e-6, rtol=0)


def test_inputs_that_a_model_does_not_take_are_left_out() -> None:
    """A general tokenizer gives segment ids to models that have none; RoBERTa has one kind only."""
    inputs = tiny_inputs()
    inputs["token_type_ids"] = torch.ones_like(inputs["input_ids"])
    for family in ("distilbert", "roberta", "gpt2"):
        settings = {**TAPPED[family], **({"type_vocab_size": 1} if family == "roberta" else {})}
        collected, tap = _captured(tiny_model(family, settings), inputs)
        assert tap.works and len(collected.blocks) == 3

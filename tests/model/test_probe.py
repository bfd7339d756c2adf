"""How a model's attention is found out: which calls are of which layer, and what is refused."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from support.families import REFUSED, TAPPED, UNTAPPED, tiny_model

from attnscan.errors import CaptureError
from attnscan.model import probe
from attnscan.model.probe import ModelCalls, ProbedCall, find_calls
from attnscan.results.grid import AttentionKind, Grid

LAYERS = 3  # as many as the config of the model says

Calls = list[ProbedCall]


def _call(
    layer: int, shape: tuple[int, int] = (5, 5), heads: int = 4, *, is_plain: bool = True
) -> ProbedCall:
    return ProbedCall(layer=layer, heads=heads, shape=shape, is_plain=is_plain)


def _calls(layers: Sequence[int]) -> Calls:
    return [_call(layer) for layer in layers]


def _find(
    monkeypatch: pytest.MonkeyPatch,
    by_tap: Calls,
    by_watch: Calls,
    kind: AttentionKind = AttentionKind.ONLY,
) -> ModelCalls:
    """What is found out of a model of three layers, if these are the calls in its two runs."""
    monkeypatch.setattr(probe, "_run_with_tap", lambda *_: by_tap)
    monkeypatch.setattr(probe, "_run_with_watch", lambda *_: by_watch)
    return find_calls(tiny_model("bert", TAPPED["bert"]), kind)


@pytest.mark.parametrize(
    ("by_tap", "by_watch", "uses_tap"),
    [
        ([0, 1, 2], [], True),
        ([0, 1], [0, 1, 2], False),  # one layer calls another function
        ([0, 1], [0, 1], True),  # a layer without attention
        ([], [0, 1, 2], False),
    ],
)
def test_the_watch_reads_what_shows_the_tap_too_few_layers(
    monkeypatch: pytest.MonkeyPatch, by_tap: list[int], by_watch: list[int], uses_tap: bool
) -> None:
    found = _find(monkeypatch, _calls(by_tap), _calls(by_watch))
    assert found.uses_tap == uses_tap
    layers = by_tap if uses_tap else by_watch
    assert found.count == found.grid.shape[0] == len(layers)


@pytest.mark.parametrize(
    ("modules", "numbers"),
    [
        ([0, 1, 2], (0, 1, 2)),
        ([1, 4, 6], (1, 4, 6)),  # only some layers have attention
        ([0, 0, 0], ()),  # layers share a module
        ([-1, -1, -1], ()),
        ([2, 1, 0], ()),
    ],
)
@pytest.mark.parametrize("uses_tap", [True, False])
def test_layers_are_called_by_their_modules_numbers(
    monkeypatch: pytest.MonkeyPatch, uses_tap: bool, modules: list[int], numbers: tuple[int, ...]
) -> None:
    calls = _calls(modules)
    found = _find(monkeypatch, calls if uses_tap else [], calls)
    assert found.grid == Grid((3, 4), AttentionKind.ONLY, numbers)
    assert found.layers == {0: 0, 1: 1, 2: 2}


def test_calls_of_other_kinds_are_counted_and_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = [_call(0), _call(1)]
    decoder = [_call(0, (3, 3)), _call(0, (3, 5), 2), _call(1, (3, 3)), _call(1, (3, 5), 2)]
    found = _find(monkeypatch, encoder + decoder, encoder + decoder, AttentionKind.CROSS)
    assert found.layers == {3: 0, 5: 1}
    assert found.count == 6
    assert found.grid == Grid((2, 2), AttentionKind.CROSS)


@pytest.mark.parametrize(
    ("calls", "kind", "said"),
    [
        ([], "ONLY", "computes no softmax attention over all tokens"),
        ([_call(0)], "DECODER", "computes no softmax attention of its decoder kind over all"),
        ([_call(0), _call(1, (3, 3))], "ONLY", "pools its tokens: not all layers have as many"),
        ([_call(0, (2, 9))], "ONLY", "computes weights of shape [2, 9], where each of 5 tokens"),
        ([_call(0, (2, 9))], "CROSS", "computes weights of shape [2, 9], where each of 5 tokens"),
        (
            [_call(0), _call(1, is_plain=False)],
            "ONLY",
            "computes numbers in layer 1 that are not a softmax over the tokens",
        ),
        ([_call(0), _call(1, heads=2)], "ONLY", "has more heads in some layers than in others"),
        (_calls([0, 0, 1, 1]), "ONLY", "computes several attentions in a layer"),
    ],
)
def test_it_is_said_why_an_architecture_is_not_read(
    monkeypatch: pytest.MonkeyPatch, calls: Calls, kind: str, said: str
) -> None:
    with pytest.raises(CaptureError, match=re.escape(f"the architecture BertModel {said}")):
        _find(monkeypatch, [], calls, AttentionKind[kind])


@pytest.mark.parametrize("family", ["fnet", "gpt_oss", "canine", "lilt"])
def test_families_without_such_attention_are_refused_by_name(family: str) -> None:
    settings, why = REFUSED[family]
    model = tiny_model(family, settings)
    with pytest.raises(CaptureError, match=f"{type(model).__name__} .*{why}"):
        find_calls(model, AttentionKind.ONLY)


def test_a_model_that_does_not_take_eager_attention_is_refused() -> None:
    model: Any = tiny_model("deberta-v2", UNTAPPED["deberta-v2"])
    model.set_attn_implementation = lambda _: None
    model.config._attn_implementation = "sdpa"
    with pytest.raises(CaptureError, match="cannot be turned to eager attention once it is"):
        find_calls(model, AttentionKind.ONLY)


@pytest.mark.parametrize(
    ("last", "is_softmax"), [(0.5, True), (0.508, True), (0.531, False), (0.469, False)]
)
def test_a_softmax_in_half_precision_is_rounded_more(last: float, is_softmax: bool) -> None:
    weights = torch.tensor([[[[0.5, last]]]], dtype=torch.bfloat16)
    assert probe._may_be_softmax(weights) == is_softmax


@pytest.mark.parametrize(
    ("rows", "is_softmax"),
    [
        ([[0.5, 0.5], [1.0, 0.0]], True),
        ([[0.5, 0.5005], [1.0, 0.0]], True),
        ([[0.5, 0.502], [1.0, 0.0]], False),
        ([[0.5, 0.4], [1.0, 0.0]], False),
        ([[1.5, -0.5], [1.0, 0.0]], False),
        ([[float("nan"), 0.5], [1.0, 0.0]], True),
    ],
)
def test_a_softmax_is_told_by_its_rows(rows: list[list[float]], is_softmax: bool) -> None:
    """Numbers that are not finite are told later, as what they are."""
    weights = torch.tensor(rows)[None, None]
    assert probe._may_be_softmax(weights) == is_softmax

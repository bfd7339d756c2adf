"""What tells a model from another, and what does not: all that decides a number, and nothing else."""

from __future__ import annotations

import copy
import json
import shutil
import weakref
from collections.abc import Callable
from dataclasses import asdict
from enum import Enum
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
import torch
from families import TAPPED, UNTAPPED, tiny_inputs
from safetensors.torch import load_file, save_file
from tiny_checkpoints import SMALL, configured, loaded, save
from torch.nn.utils import prune
from transformers import AutoConfig, AutoModel, BertConfig, BertForMaskedLM, BertModel, ByT5Tokenizer

from attnscan.model.fingerprint import Description, described, fingerprint
from attnscan.model.running import accepted


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """One with random weights, and without a pooler, which is filled with random numbers when it is loaded."""
    return save(tmp_path / "model", BertModel(BertConfig(**SMALL), add_pooling_layer=False))


def _differ(first: Path, second: Path) -> list[str]:
    """The parts of two checkpoints that are not the same."""
    a, b = (asdict(loaded(directory).fingerprint) for directory in (first, second))
    assert (str(loaded(first).fingerprint) == str(loaded(second).fingerprint)) == (a == b)
    return [name for name in a if a[name] != b[name]]


def _last_weight(directory: Path) -> None:
    weights = load_file(directory / "model.safetensors")
    weights[sorted(weights)[-1]].view(-1)[-1] += 1e-4
    save_file(weights, directory / "model.safetensors", {"format": "pt"})


def _renamed_token(directory: Path) -> None:
    file = directory / "tokenizer.json"
    file.write_text(file.read_text().replace('"mat"', '"hat"'))


def _limit(directory: Path) -> None:
    file = directory / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"model_max_length": 17}))


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (_last_weight, ["weights"]),
        (lambda directory: configured(directory, initializer_range=0.5), ["config"]),
        (lambda directory: configured(directory, hidden_act="relu"), ["config", "modules"]),
        (_renamed_token, ["tokenizer"]),
        (_limit, ["tokenizer"]),
    ],
)
def test_each_part_is_told(
    checkpoint: Path, tmp_path: Path, change: Callable[[Path], object], parts: list[str]
) -> None:
    other = tmp_path / "other"
    shutil.copytree(checkpoint, other)
    assert _differ(checkpoint, other) == []
    change(other)
    assert _differ(checkpoint, other) == parts


def test_place_and_other_files_and_earlier_inputs_change_nothing(checkpoint: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "copy"
    shutil.copytree(checkpoint, other)
    (other / "README.md").write_text("Another one")
    save_file({"weight": torch.ones(1)}, other / "adapter.safetensors")
    model = loaded(other)
    model.tokenizer("the cat sat", truncation=True, max_length=4, padding="max_length")
    assert model.fingerprint == loaded(checkpoint).fingerprint


def test_a_head_that_runs_counts(tmp_path: Path) -> None:
    model = BertForMaskedLM(BertConfig(**SMALL))
    before = save(tmp_path / "one", model)
    with torch.no_grad():
        model.cls.predictions.bias[0] += 1
    assert _differ(before, save(tmp_path / "other", model)) == ["weights"]


def test_a_tokenizer_that_is_written_in_python_has_one_too(checkpoint: Path) -> None:
    model = loaded(checkpoint).model
    ours, same, longer = (fingerprint(model, ByT5Tokenizer(extra_ids=ids)) for ids in (9, 9, 10))
    assert ours == same and ours.tokenizer != longer.tokenizer


pytestmark = pytest.mark.usefixtures("quiet")


class Mode(Enum):
    LOUD = 1
    QUIET = 2


class Own(torch.nn.Linear):
    factor = 1.0

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self.factor * super().forward(input)


class Other(torch.nn.Linear):
    factor = 1.0

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self.factor + super().forward(input)


Other.__qualname__ = Own.__qualname__  # as one that was defined again in a notebook


class Held:
    """An object with content."""

    def __init__(self, value: object) -> None:
        self.value = value


def model() -> Any:
    torch.manual_seed(0)
    return BertModel(BertConfig(**SMALL)).eval()


def query(bert: Any) -> Any:
    return bert.encoder.layer[0].attention.self.query


def with_held(value: object) -> Description:
    bert = model()
    query(bert).held = value
    return described(bert)


def by(number: int) -> Callable[[], int]:
    return lambda: number


@pytest.mark.parametrize(
    ("value", "unlike"),
    [
        (1, 2),
        (1, 1.0),
        (1.0, 1.0 + 1e-9),
        (True, 1),
        ("a", "b"),
        (b"a", "a"),
        (None, False),
        (float("nan"), float("inf")),
        (Mode.LOUD, Mode.QUIET),
        (torch.float16, torch.bfloat16),
        ([1, [2, {"a": 3}]], [1, [2, {"a": 4}]]),
        ((1, 2), [1, 2]),
        ({1, 2}, {1, 3}),
        ({"a": 1}, {"b": 1}),
        (torch.ones(2), torch.zeros(2)),
        (torch.ones(2), torch.ones(2, 1)),
        (torch.nn.functional.relu, torch.nn.functional.gelu),
        (partial(torch.nn.functional.gelu, approximate="tanh"), partial(torch.nn.functional.gelu, approximate="none")),
        (by(1), by(2)),
        (lambda values: values * 2, lambda values: values * 3),
        (Own, Other),
        (Held(1), Held([1])),
        (Held(Held(1)), Held(Held(2))),
        ([torch.nn.Linear(3, 3).weight], [torch.nn.Linear(3, 3).weight]),
        (torch.nn.Tanh(), torch.nn.ReLU()),
        ([torch.nn.Dropout(0.1)], [torch.nn.Dropout(0.2)]),
    ],
)
def test_every_kind_of_value_counts(value: object, unlike: object) -> None:
    first, second = with_held(value), with_held(unlike)
    assert first.digest != second.digest
    assert first.opaque is None and second.opaque is None
    assert first == with_held(value) == with_held(copy.deepcopy(value))  # but no place in memory


def _of_class(kind: type) -> Callable[[Any], object]:
    return lambda bert: setattr(query(bert), "__class__", kind)


CHANGES: dict[str, Callable[[Any], object]] = {
    "a scale": lambda bert: setattr(bert.encoder.layer[0].attention.self, "scaling", 0.1),
    "an epsilon": lambda bert: setattr(bert.embeddings.LayerNorm, "eps", 1.0),
    "an activation": lambda bert: setattr(bert.encoder.layer[0].intermediate, "intermediate_act_fn", torch.nn.ReLU()),
    "positions": lambda bert: bert.embeddings.position_ids.copy_(bert.embeddings.position_ids.flip(1)),
    "a class": _of_class(Own),
    "another class of that name": _of_class(Other),
    "a hook": lambda bert: query(bert).register_forward_hook(lambda _module, _inputs, output: output * 2),
    "a hook before": lambda bert: query(bert).register_forward_pre_hook(lambda *_: None),
    "pruning": lambda bert: prune.l1_unstructured(query(bert), "weight", 0.5),
    "a forward": lambda bert: setattr(query(bert), "forward", lambda states: states),
    "a layer": lambda bert: bert.encoder.layer.append(bert.encoder.layer[0]),
    "a config of its own": lambda bert: setattr(
        bert.encoder.layer[0].attention.self, "config", BertConfig(hidden_act="relu")
    ),
}


def test_whatever_decides_a_number_counts() -> None:
    digests = {described(model()).digest}
    for change in CHANGES.values():
        change(bert := model())
        digests.add(described(bert).digest)
    assert len(digests) == 1 + len(CHANGES)


@pytest.mark.parametrize(
    "change",
    [
        lambda bert: bert.train(),
        lambda bert: bert.requires_grad_(False),
        lambda bert: bert.double().float(),
        lambda bert: bert.activation_checkpointing_enable(),
        lambda bert: bert.set_attn_implementation("eager"),
        lambda bert: setattr(bert.config, "_name_or_path", "elsewhere"),
        lambda bert: bert(**tiny_ids(), output_attentions=True),
        lambda bert: bert.enable_input_require_grads(),
        lambda bert: setattr(bert, "pooler", None),
    ],
)
def test_what_decides_none_does_not(change: Callable[[Any], object]) -> None:
    change(bert := model())
    assert described(bert) == described(model())


def tiny_ids() -> dict[str, torch.Tensor]:
    return {"input_ids": torch.tensor([[2, 5, 6, 3]])}


def test_code_that_others_have_written_is_told_and_what_cannot_be_written_out() -> None:
    plain = described(model())
    assert plain.foreign is None and plain.opaque is None
    assert with_held(Own).foreign == f"{__name__}.Own"
    assert "<lambda>" in str(with_held(lambda: None).foreign)
    for value in (weakref.ref(Own), (number for number in ()), Lock()):
        held = with_held([value])
        assert held.opaque == "encoder.layer.0.attention.self.query.held", value
    cycle: list[object] = []
    cycle.append(cycle)
    assert with_held(cycle).opaque is not None


@pytest.mark.parametrize("name", {**TAPPED, **UNTAPPED})
def test_every_family_is_written_out_and_loading_and_running_change_nothing(tmp_path: Path, name: str) -> None:
    torch.manual_seed(0)
    AutoModel.from_config(AutoConfig.for_model(name, **{**TAPPED, **UNTAPPED}[name])).save_pretrained(tmp_path)
    plain, eager = (AutoModel.from_pretrained(tmp_path, attn_implementation=kind).eval() for kind in (None, "eager"))
    first = described(plain)
    assert first.foreign is None and first.opaque is None and described(eager) == first
    encoder = eager.get_encoder() if eager.config.is_encoder_decoder else eager
    with torch.inference_mode():
        encoder(**accepted(encoder, tiny_inputs()))
    if name != "switch_transformers":  # it notes the number format of what it was given last
        assert described(eager) == first

"""Directories of adapters (LoRA): merged into their model by peft, or refused in one line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.tiny_checkpoints import SMALL, refusal, save
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM

from attnscan.model import checkpoint
from attnscan.model.loading import load
from attnscan.model.sources import Source, choose

PLACE = "encoder.layer.0.attention.self.query"
A = torch.full((1, 16), 0.5)
B = torch.arange(16.0)[:, None]


def _adapter(directory: Path, base: Path | None, prefix: str = "bert.", place: str = PLACE) -> Path:
    directory.mkdir()
    about = {"peft_type": "LORA"} | ({} if base is None else {"base_model_name_or_path": str(base)})
    (directory / "adapter_config.json").write_text(json.dumps(about))
    start = f"base_model.model.{prefix}{place}"
    weights = {f"{start}.lora_A.weight": A, f"{start}.lora_B.weight": B}
    save_file(weights, directory / "adapter_model.safetensors")
    return directory


class _Peft:
    """Peft, as far as it is called: of names it knows those of the model that it is given."""

    def __init__(self, model: torch.nn.Module, weights: dict[str, Tensor]) -> None:
        parts = {f"base_model.model.{name}" for name, _ in model.named_modules()}
        self.model = model
        self.known = {
            name: value for name, value in weights.items() if name.split(".lora_")[0] in parts
        }

    @classmethod
    def from_pretrained(cls, model: torch.nn.Module, directory: str, config: Any) -> _Peft:
        assert config.task_type is None
        return cls(model, load_file(Path(directory) / "adapter_model.safetensors"))

    def merge_and_unload(self) -> torch.nn.Module:
        for start in {name.split(".lora_")[0] for name in self.known}:
            part = self.model.get_submodule(start.removeprefix("base_model.model."))
            part.weight.data += (
                self.known[f"{start}.lora_B.weight"] @ self.known[f"{start}.lora_A.weight"]
            )
        return self.model


@pytest.fixture
def peft(monkeypatch: pytest.MonkeyPatch) -> None:
    """Peft is there while an adapter is merged; transformers, which asks too, has none."""
    module = ModuleType("peft")
    config = SimpleNamespace(from_pretrained=lambda _: SimpleNamespace(task_type="CAUSAL_LM"))
    vars(module).update(
        PeftModel=_Peft, PeftConfig=config, get_peft_model_state_dict=lambda adapted: adapted.known
    )
    merged = checkpoint.merge_adapter

    def with_peft(model: Any, source: Source) -> None:
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "peft", module)
            merged(model, source)

    monkeypatch.setattr(checkpoint, "merge_adapter", with_peft)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    return save(tmp_path / "base", BertForMaskedLM(BertConfig(**SMALL)))


@pytest.mark.usefixtures("peft")
@pytest.mark.parametrize("prefix", ["bert.", ""])
def test_an_adapter_is_merged_into_the_model_that_it_names(
    tmp_path: Path, base: Path, prefix: str
) -> None:
    directory = _adapter(tmp_path / "adapter", base, prefix)
    before = load(choose(str(base)))
    adapted = load(choose(str(directory)))
    assert adapted.source.name == str(directory) and adapted.masked_lm is not None
    for (name, weight), (_, changed) in zip(
        before.model.state_dict().items(), adapted.model.state_dict().items(), strict=True
    ):
        expected = weight + B @ A if name == f"{PLACE}.weight" else weight
        torch.testing.assert_close(changed, expected, rtol=0, atol=1e-6)
    assert str(before.fingerprint) != str(adapted.fingerprint)


@pytest.mark.usefixtures("peft")
def test_an_adapter_of_another_model_is_refused(tmp_path: Path, base: Path) -> None:
    directory = _adapter(tmp_path / "adapter", base, place="encoder.layer.7.attention.self.query")
    assert "has weights without a place" in refusal(lambda: load(choose(str(directory))))


@pytest.mark.parametrize(
    ("named", "words"),
    [
        (True, "the package peft is not installed"),
        (False, "does not name the model that it changes"),
    ],
)
def test_what_is_missing_is_said(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, named: bool, words: str
) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    directory = _adapter(tmp_path / "adapter", base if named else None)
    assert words in refusal(lambda: load(choose(str(directory))))

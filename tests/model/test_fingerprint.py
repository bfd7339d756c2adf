"""What tells a model from another, and what does not: all that decides a number, and nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_checkpoints import SMALL, configured, loaded, save
from transformers import BertConfig, BertForMaskedLM, BertModel

from attnscan.model.sources import short


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """One with random weights, and without a pooler, which is filled with random numbers when it is loaded."""
    return save(tmp_path / "model", BertModel(BertConfig(**SMALL), add_pooling_layer=False))


def _differ(first: Path, second: Path) -> list[str]:
    """The parts of two checkpoints that are not the same."""
    a, b = (loaded(directory).fingerprint for directory in (first, second))
    assert (short(a) == short(b)) == (a == b)
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

"""Checkpoints on disk and in the hub's cache."""

from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from tiny_checkpoints import SMALL, save
from transformers import BertConfig, BertModel

from attnscan.model import sources


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    """A BERT of one layer and two heads."""
    torch.manual_seed(0)
    return save(tmp_path / "bert", BertModel(BertConfig(**SMALL)))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub."""
    path = tmp_path / "hub"
    path.mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(path))
    return path


@pytest.fixture
def nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model is named, and the hub does not answer."""
    monkeypatch.delenv("ATTNSCAN_MODEL", raising=False)
    monkeypatch.setattr(sources, "hub_answers", lambda *_: False)


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Lets this process ask a hub, whose address a test patches in."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch

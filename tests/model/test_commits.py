"""Models of the hub at one commit, from a hub on this machine whose main moves."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from model_hub import ID, ModelHub, model_hub
from tiny_checkpoints import SMALL, refusal, save
from transformers import BertConfig, BertForMaskedLM

from attnscan.model.loading import LoadedModel, load, task_head
from attnscan.model.sources import Source, choose

pytestmark = pytest.mark.usefixtures("cache")  # an empty one

A, B, GONE = "a" * 40, "b" * 40, "c" * 40


@pytest.fixture(scope="module")
def commits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two of one model, with other weights, and one of its pickles alone."""
    made = tmp_path_factory.mktemp("commits")
    for seed, name in enumerate((A, B)):
        torch.manual_seed(seed)
        save(made / name, BertForMaskedLM(BertConfig(**SMALL)))
    shutil.copytree(made / A, made / "pickled", ignore=shutil.ignore_patterns("*.safetensors"))
    (made / "pickled" / "pytorch_model.bin").touch()
    return {A: made / A, B: made / B, "d" * 40: made / "pickled"}


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> Callable[[ModelHub], ModelHub]:
    """Lets this process ask a hub."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)

    def ask(hub: ModelHub) -> ModelHub:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", hub.address)
        monkeypatch.setattr("transformers.utils.hub._hf_api", None)  # made once, it keeps the address of its time
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.address + "/{repo_id}/resolve/{revision}/{filename}"
        )
        return hub

    return ask


@pytest.fixture
def moving(commits: dict[str, Path], online: Callable[[ModelHub], ModelHub]) -> Iterator[ModelHub]:
    """A hub whose main moves after it was asked for once."""
    with model_hub(commits, [A, B]) as hub:
        yield online(hub)


def weights(loaded: LoadedModel) -> float:
    return float(loaded.embedding.sum())


def weights_of(directory: Path) -> float:
    return weights(load(Source("tiny", str(directory))))


class TestOneMachine:
    def test_config_tokenizer_weights_and_heads_are_of_one_commit(
        self, moving: ModelHub, commits: dict[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        loaded = load(choose(ID))
        assert isinstance(task_head(loaded, "next-sentence"), str)  # it has none, which only its weights tell
        assert weights(loaded) == weights_of(commits[A])
        assert loaded.source == Source(ID, ID, A)
        assert moving.commits_read == {A}
        assert {name: moving.fetched(name) for name in ("model.safetensors", "tokenizer.json", "config.json")} == {
            "model.safetensors": 1,
            "tokenizer.json": 1,
            "config.json": 1,
        }
        # Whoever is offline later finds it
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        source = choose(ID)
        assert (source.revision, Path(source.location).is_dir()) == (A, True)
        assert weights(load(source)) == weights(loaded)


class TestPinned:
    @pytest.mark.usefixtures("moving")
    def test_a_model_that_the_hub_does_not_have_is_one_line(self) -> None:
        assert "cannot load the model org/none" in refusal(lambda: load(Source("org/none", "org/none")))

    def test_a_commit_that_is_gone_is_one_line(self, moving: ModelHub) -> None:
        line = refusal(lambda: load(Source(ID, ID, GONE)))
        assert f"cannot load the model {ID}: " in line and not moving.commits_read

    def test_pickles_are_not_fetched(self, commits: dict[str, Path], online: Callable[[ModelHub], ModelHub]) -> None:
        with model_hub(commits, ["d" * 40]) as hub:
            online(hub)
            assert f"cannot load the model {ID}" in refusal(lambda: load(Source(ID, ID)))
            assert hub.fetched("pytorch_model.bin") == 0

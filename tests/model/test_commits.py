"""Models of the hub at one commit, from a hub on this machine whose main moves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hub_cache import in_cache
from huggingface_hub import constants
from model_hub import ID, ModelHub, model_hub
from tiny_checkpoints import SMALL, refusal, save
from transformers import BertConfig, BertForMaskedLM

from attnscan.model.loaded import LoadedModel
from attnscan.model.loading import load, load_to_tokenize
from attnscan.model.sources import BUNDLED, DEFAULT_MODEL, Source, at_commit, cached, choose, pinned
from attnscan.model.task_heads import task_head

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


def test_the_hub_of_these_tests_has_two_models(commits: dict[str, Path]) -> None:
    assert weights_of(commits[A]) != weights_of(commits[B])


class TestOneMachine:
    def test_config_tokenizer_weights_and_heads_are_of_one_commit(
        self, moving: ModelHub, commits: dict[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        loaded = load(choose(ID))
        assert isinstance(task_head(loaded, "next-sentence"), str)  # it has none, which only its weights tell
        assert weights(loaded) == weights_of(commits[A])
        assert (loaded.revision, loaded.source) == (A, Source(ID, ID, A))
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

    def test_a_hub_that_does_not_say_is_asked_as_before(
        self, moving: ModelHub, commits: dict[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Transformers looks for weights that the hub has converted, so a model is not given up here."""
        monkeypatch.setattr("huggingface_hub.HfApi.list_repo_files", lambda *_, **__: [])
        assert weights(load(choose(ID))) == weights_of(commits[B])
        assert moving.commits_read == {A, B}


class TestPinned:
    def test_it_is_what_main_is_now(self, moving: ModelHub) -> None:
        assert pinned(Source(ID, ID)) == Source(ID, ID, A)
        assert pinned(Source(ID, ID)) == Source(ID, ID, B)
        assert moving.fetched("model.safetensors") == 0

    def test_what_is_here_is_as_it_is(self, moving: ModelHub, commits: dict[str, Path]) -> None:
        for source in (Source("tiny", str(commits[A])), choose(BUNDLED), Source(ID, ID, GONE)):
            assert pinned(source) is source
        assert not moving.requests

    @pytest.mark.usefixtures("moving")
    def test_a_model_that_the_hub_does_not_have_is_one_line(self) -> None:
        line = refusal(lambda: pinned(Source("org/none", "org/none")))
        assert line.startswith("the hub refuses the model org/none: ") and "hf auth login" in line

    def test_pickles_are_named_before_anything_is_fetched(
        self, commits: dict[str, Path], online: Callable[[ModelHub], ModelHub]
    ) -> None:
        with model_hub(commits, ["d" * 40]) as hub:
            online(hub)
            line = refusal(lambda: pinned(Source(ID, ID)))
            assert f"{ID} at commit dddddddddddd has no weights as safetensors" in line
            assert hub.fetched("pytorch_model.bin") == 0


class TestAtCommit:
    @pytest.mark.usefixtures("moving")
    def test_another_one_in_the_cache_is_not_taken(self, commits: dict[str, Path], cache: Path) -> None:
        load(pinned(Source(ID, ID, B)))
        (cache / "models--org--tiny" / "refs").mkdir()
        (cache / "models--org--tiny" / "refs" / "main").write_text(B)
        assert choose(ID).revision == B  # what a worker loaded before
        loaded = load(at_commit(ID, A))
        assert (weights(loaded), loaded.revision) == (weights_of(commits[A]), A)

    def test_one_in_the_cache_needs_no_hub(
        self, moving: ModelHub, commits: dict[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        load(Source(ID, ID, A))
        moving.requests.clear()
        assert load(at_commit(ID, A)).revision == A
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        assert weights(load(at_commit(ID, A))) == weights_of(commits[A])
        assert not moving.requests

    def test_bert_base_is_found_under_its_other_name(self, cache: Path) -> None:
        snapshot = in_cache(cache, "google-bert/bert-base-uncased")
        assert at_commit(DEFAULT_MODEL, snapshot.name) == Source(DEFAULT_MODEL, str(snapshot), snapshot.name)

    def test_half_of_one_is_fetched_to_its_end(self, moving: ModelHub, commits: dict[str, Path], cache: Path) -> None:
        """Another worker fetches it at this time, or died while it did."""
        load(Source(ID, ID, A))
        (cache / "models--org--tiny" / "snapshots" / A / "tokenizer.json").unlink()
        (cache / "models--org--tiny" / "snapshots" / A / "tokenizer_config.json").unlink()
        moving.requests.clear()
        assert weights(load(at_commit(ID, A))) == weights_of(commits[A])
        assert moving.fetched("model.safetensors") == 0 and moving.commits_read == {A}

    def test_where_there_is_neither_one_line_says_what_to_do(self) -> None:
        line = refusal(lambda: at_commit(ID, A))
        assert line.startswith(f"the model {ID} at commit {A[:12]} is not in the cache of {os.uname().nodename}, ")
        assert f"hf download {ID} --revision {A}" in line

    def test_a_commit_that_is_gone_is_one_line(self, moving: ModelHub) -> None:
        assert f"cannot load the model {ID} at commit {GONE[:12]}: " in refusal(lambda: load(at_commit(ID, GONE)))
        assert not moving.commits_read

    def test_what_tokenizes_alone_fetches_no_weights(self, moving: ModelHub) -> None:
        assert load_to_tokenize(at_commit(ID, A)).device.type == "meta"
        assert moving.fetched("model.safetensors") == 0 and moving.commits_read == {A}

    @pytest.mark.usefixtures("moving")
    def test_a_directory_of_its_name_is_not_taken(
        self, commits: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        shutil.copytree(commits[B], ID)
        assert f"{tmp_path / ID} of " in refusal(lambda: at_commit(ID, A))


@pytest.mark.parametrize("there", [True, False])
def test_a_model_whose_weights_are_not_all_there_is_not_in_the_cache(cache: Path, there: bool) -> None:
    snapshot = in_cache(cache, ID, ("config.json", "vocab.txt", "model-1.safetensors"))
    parts = ["model-1.safetensors"] if there else ["model-1.safetensors", "model-2.safetensors"]
    index = {"weight_map": {f"weight {number}": part for number, part in enumerate(parts)}}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    assert (cached(ID) is not None) == there


_WORKER = f"""
import sys
from attnscan.model.sources import at_commit
from attnscan.model.loading import load
loaded = load(at_commit("{ID}", "{A}"))
print(loaded.revision, float(loaded.embedding.sum()))
"""


@pytest.mark.long
def test_processes_of_one_machine_fetch_each_file_once(commits: dict[str, Path], tmp_path: Path) -> None:
    """The weights are held back until all have asked for them."""
    workers = 3
    all_ask = threading.Barrier(workers)

    def wait(request: str) -> None:
        if request == f"HEAD {A}/model.safetensors":
            all_ask.wait(120)

    with model_hub(commits, [B]) as hub:
        hub.before = wait
        environment = {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
        started = [
            subprocess.Popen(
                [sys.executable, "-c", _WORKER], env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True
            )
            for _ in range(workers)
        ]
        said = [process.communicate(timeout=300)[0].split() for process in started]
    assert said == [[A, str(weights_of(commits[A]))]] * workers
    assert sum(request == f"HEAD {A}/model.safetensors" for request in hub.requests) == workers
    files = ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"]
    assert {name: hub.fetched(name) for name in files} == dict.fromkeys(files, 1)
    assert hub.commits_read == {A}

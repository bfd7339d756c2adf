"""Which model a run takes: the order of the choice, what is a checkpoint, and a hub whose main moves."""

import re
import shutil
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants, scan_cache_dir
from model_hub import COMMIT, ID, WHOLE, ModelHub, checkpoint, in_cache, model_hub
from tiny_checkpoints import SMALL, loaded, refusal, save
from transformers import BertConfig, BertForMaskedLM

from attnscan.model import sources
from attnscan.model.loading import load, task_head
from attnscan.model.sources import DEFAULT_MODEL, Catalog, Source, bundled, choose, hub_answers

pytestmark = pytest.mark.usefixtures("cache")  # an empty one
only_bundled = pytest.mark.usefixtures("nothing_else")


def never_asked(*_: object) -> bool:
    pytest.fail("the hub was asked")


@only_bundled
class TestOrder:
    """`--model`, `$ATTNSCAN_MODEL`, the cache, the hub, the bundled model, an error."""

    @pytest.fixture
    def everything(self, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Every way to a model is open; returns the one that the environment names."""
        in_cache(cache, "google-bert/bert-base-uncased")
        monkeypatch.setattr(sources, "hub_answers", lambda *_: True)
        monkeypatch.setenv("ATTNSCAN_MODEL", str(checkpoint(tmp_path / "from environment")))
        return tmp_path / "from environment"

    def test_first_the_name_that_is_given_then_the_environment(self, tmp_path: Path, everything: Path) -> None:
        given = str(checkpoint(tmp_path / "given"))
        assert choose(given) == Source(given, given)
        assert choose("bundled") == bundled()
        assert choose(None) == Source(str(everything), str(everything))

    @pytest.mark.parametrize("hub_id", ["bert-base-uncased", "google-bert/bert-base-uncased"])
    def test_then_the_cache_and_no_hub_is_asked(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch, hub_id: str
    ) -> None:
        snapshot = in_cache(cache, hub_id)
        monkeypatch.setattr(sources, "hub_answers", never_asked)
        assert choose(None) == Source(DEFAULT_MODEL, str(snapshot), revision=COMMIT)

    def test_then_the_hub(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sources, "hub_answers", lambda *_: True)
        assert choose(None) == Source(DEFAULT_MODEL, DEFAULT_MODEL)

    def test_then_the_bundled_model_with_a_note(self, bundled_dir: Path) -> None:
        source = choose(None)
        assert (source.name, source.location) == ("bundled", str(bundled_dir))
        assert "using the bundled all-MiniLM-L6-v2" in source.note
        assert len(source.note.splitlines()) == 1

    def test_then_an_error_that_lists_the_ways(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sources, "bundled_directory", lambda: None)
        line = refusal(lambda: choose(None))
        for way in ("model=DIR", "$ATTNSCAN_MODEL", "pip install 'attnscan[bundled]'"):
            assert way in line

    @pytest.mark.parametrize("files", [("config.json", "tokenizer.json", "pytorch_model.bin"), ("model.safetensors",)])
    def test_neither_an_empty_name_nor_half_a_model_in_the_cache_counts(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...]
    ) -> None:
        monkeypatch.setenv("ATTNSCAN_MODEL", "")
        in_cache(cache, "bert-base-uncased", files)
        assert choose(None).name == "bundled"


@only_bundled
class TestNamed:
    @pytest.mark.parametrize("by_environment", [True, False])
    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("org/model", "the hub does not answer"),
            ("bert-base-cased", "the hub does not answer"),
            ("./bert", "there is no directory ./bert"),
            ("/nowhere/bert", "there is no directory /nowhere/bert"),
            ("a b", "there is no directory a b"),
            ("a--b", "there is no directory a--b"),
            ("a..b", "there is no directory a..b"),
            ("~nobody-of-this-name/bert", "cannot read ~nobody-of-this-name/bert"),
            ("a" * 300, "File name too long"),
        ],
    )
    def test_a_named_model_is_never_replaced(
        self, cache: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str, by_environment: bool
    ) -> None:
        in_cache(cache, "bert-base-uncased")
        if by_environment:
            monkeypatch.setenv("ATTNSCAN_MODEL", name)
        assert words in refusal(lambda: choose(None if by_environment else name))

    def test_a_directory_goes_before_a_hub_id(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        checkpoint(tmp_path / "bert-base-uncased")
        monkeypatch.setattr(sources, "hub_answers", never_asked)
        assert choose("bert-base-uncased") == Source("bert-base-uncased", "bert-base-uncased")

    def test_a_file_is_no_model(self, tmp_path: Path) -> None:
        (tmp_path / "model.safetensors").touch()
        assert "has no config.json" in refusal(lambda: choose(str(tmp_path / "model.safetensors")))


@only_bundled
def test_a_choice_gives_a_silent_hub_up(online: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        online.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        online.setattr(sources, "hub_answers", partial(hub_answers, 0.2))
        assert choose(None).name == "bundled"
        assert "the hub does not answer" in refusal(lambda: choose("org/model"))


class TestCheckpoint:
    @pytest.mark.parametrize("tokenizer", ["tokenizer.json", "vocab.txt", "vocab.json", "spiece.model"])
    def test_config_weights_and_tokenizer_are_enough(self, tmp_path: Path, tokenizer: str) -> None:
        path = checkpoint(tmp_path / "model", ("config.json", "model.safetensors", tokenizer, "pytorch_model.bin"))
        assert choose(str(path)).location == str(path)
        (path / "model.safetensors").rename(path / "part.safetensors")
        (path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "part.safetensors"}}')
        assert choose(str(path)).location == str(path)
        (path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "other.safetensors"}}')
        assert "no safe weights (other.safetensors); pickles can run code" in refusal(lambda: choose(str(path)))

    @pytest.mark.parametrize(
        ("files", "words"),
        [
            ((), "has no config.json"),
            (("model.safetensors", "tokenizer.json"), "has no config.json"),
            (("config.json", "tokenizer.json", "model.ckpt"), "has no safe weights"),
            (("config.json", "model.safetensors"), "has no tokenizer"),
            (("adapter_config.json", "adapter_model.safetensors", "tokenizer.json"), "holds an adapter, and its"),
            ((*WHOLE, "adapter_config.json"), "has an adapter"),
        ],
    )
    def test_what_is_missing_is_said(self, tmp_path: Path, files: tuple[str, ...], words: str) -> None:
        path = checkpoint(tmp_path / "model", files)
        assert words in refusal(lambda: choose(str(path)))


@only_bundled
class TestCatalog:
    @pytest.fixture(autouse=True)
    def silent(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sources, "hub_answers", lambda: False)
        monkeypatch.setattr("huggingface_hub.scan_cache_dir", partial(scan_cache_dir, cache))

    def test_without_a_cache_it_is_the_bundled_model(self) -> None:
        now = Catalog.now()
        (entry,) = now.entries
        assert [entry[name] for name in ("model", "family", "layers", "heads")] == ["bundled", "bert", 6, 12]
        assert now.ready == ["bundled"]
        assert (now.default, now.hub) == ("bundled", False)

    def test_what_the_cache_holds_is_listed_with_what_can_run(self, cache: Path) -> None:
        in_cache(cache, "org/whole")
        in_cache(cache, "org/pickled", ("config.json", "pytorch_model.bin"))
        in_cache(cache, "org/empty", ("tokenizer.json",))
        in_cache(cache, "org/wordless", ("config.json", "model.safetensors"))
        _, pickled, whole, wordless = Catalog.now().entries
        assert [whole[name] for name in ("model", "layers", "heads", "state")] == ["org/whole", 2, 3, "ready"]
        assert pickled["model"] == "org/pickled"
        assert pickled["state"].startswith("cannot run: it has no safe weights")
        assert wordless["state"] == "cannot run: it has no tokenizer"
        assert re.fullmatch(r"cache [0-9a-f]{8}", whole["where"])

    @pytest.mark.parametrize("content", ["", "{", "[1]", "[" * 100_000])
    def test_a_config_that_cannot_be_read_is_said(self, cache: Path, content: str) -> None:
        (in_cache(cache, "org/broken") / "config.json").write_text(content)
        _, broken = Catalog.now().entries
        assert (broken["family"], broken["layers"]) == ("unknown", None)
        assert broken["state"] == "cannot run: config.json cannot be read"


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


def ask(hub: ModelHub, online: pytest.MonkeyPatch) -> None:
    """Let this process ask a hub."""
    online.setattr(constants, "ENDPOINT", hub.address)
    online.setattr("transformers.utils.hub._hf_api", None)  # made once, it keeps the address of its time
    template = hub.address + "/{repo_id}/resolve/{revision}/{filename}"
    online.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.fixture
def moving(commits: dict[str, Path], online: pytest.MonkeyPatch) -> Iterator[ModelHub]:
    """A hub whose main moves after it was asked for once."""
    with model_hub(commits, [A, B]) as hub:
        ask(hub, online)
        yield hub


def test_config_tokenizer_weights_and_heads_are_of_one_commit(
    moving: ModelHub, commits: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(choose(ID))
    assert isinstance(task_head(model, "next-sentence"), str)  # it has none, which only its weights tell
    assert torch.equal(model.embedding, loaded(commits[A]).embedding)
    assert model.source == Source(ID, ID, A) and moving.commits_read == {A}
    assert all(moving.fetched(name) == 1 for name in ("model.safetensors", "tokenizer.json", "config.json"))
    # Whoever is offline later finds it
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    source = choose(ID)
    assert (source.revision, Path(source.location).is_dir()) == (A, True)
    assert torch.equal(load(source).embedding, model.embedding)


def test_what_the_hub_does_not_have_is_one_line(moving: ModelHub) -> None:
    assert "cannot load the model org/none" in refusal(lambda: load(Source("org/none", "org/none")))
    line = refusal(lambda: load(Source(ID, ID, GONE)))
    assert f"cannot load the model {ID}: " in line and not moving.commits_read


def test_pickles_are_not_fetched(commits: dict[str, Path], online: pytest.MonkeyPatch) -> None:
    with model_hub(commits, ["d" * 40]) as hub:
        ask(hub, online)
        assert f"cannot load the model {ID}" in refusal(lambda: load(Source(ID, ID)))
        assert hub.fetched("pytorch_model.bin") == 0

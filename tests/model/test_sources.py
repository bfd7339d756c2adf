"""Which model a run takes: the order of choice, what is a checkpoint, and a hub that moves."""

import json
import re
import shutil
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants, scan_cache_dir
from support.model_hub import COMMIT, ID, WHOLE, ModelHub, checkpoint, in_cache, model_hub
from support.tiny_checkpoints import SMALL, loaded, refusal, save
from transformers import BertConfig, BertForMaskedLM

from attnscan.errors import ModelError
from attnscan.model import sources
from attnscan.model.loading import load
from attnscan.model.sources import DEFAULT_MODEL, Catalog, Source, bundled, choose, hub_answers
from attnscan.model.task_heads import task_head


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub, which does not answer."""
    path = tmp_path / "hub"
    path.mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(path))
    monkeypatch.setattr("huggingface_hub.scan_cache_dir", partial(scan_cache_dir, path))
    monkeypatch.setattr(sources, "hub_answers", lambda *_: False)
    return path


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Lets this process ask a hub, whose address a test patches in."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(sources, "hub_answers", hub_answers)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def never_asked(*_: object) -> bool:
    pytest.fail("the hub was asked")


def test_a_name_goes_before_all_other_ways(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, bundled_dir: Path
) -> None:
    """Each way is closed behind the one that was taken; no hub is asked before its turn."""
    directory = str(checkpoint(tmp_path / "given"))
    named = str(checkpoint(tmp_path / "from environment"))
    snapshot = in_cache(cache, "google-bert/bert-base-uncased")
    monkeypatch.setenv("ATTNSCAN_MODEL", named)
    monkeypatch.setattr(sources, "hub_answers", never_asked)
    assert choose(directory) == Source(directory, directory) and choose("bundled") == bundled()
    assert choose(None) == Source(named, named)
    monkeypatch.setenv("ATTNSCAN_MODEL", "")
    assert choose(None) == Source(DEFAULT_MODEL, str(snapshot), revision=COMMIT)
    shutil.rmtree(snapshot)
    monkeypatch.setattr(sources, "hub_answers", lambda *_: True)
    assert choose(None) == Source(DEFAULT_MODEL, DEFAULT_MODEL)
    monkeypatch.setattr(sources, "hub_answers", lambda *_: False)
    source = choose(None)
    assert (source.name, source.location) == ("bundled", str(bundled_dir))
    assert (
        "using the bundled all-MiniLM-L6-v2" in source.note and len(source.note.splitlines()) == 1
    )
    monkeypatch.setattr(sources, "bundled_directory", lambda: None)
    line = refusal(lambda: choose(None))
    assert all(
        way in line for way in ("model=DIR", "$ATTNSCAN_MODEL", "pip install 'attnscan[bundled]'")
    )


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (WHOLE, DEFAULT_MODEL),
        (("config.json", "tokenizer.json", "pytorch_model.bin"), "bundled"),
        (("model.safetensors",), "bundled"),
    ],
)
def test_a_model_in_the_cache_counts_under_its_old_name_too(
    cache: Path, files: tuple[str, ...], name: str
) -> None:
    in_cache(cache, "bert-base-uncased", files)
    assert choose(None).name == name


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
        self,
        cache: Path,
        monkeypatch: pytest.MonkeyPatch,
        name: str,
        words: str,
        by_environment: bool,
    ) -> None:
        in_cache(cache, "bert-base-uncased")
        if by_environment:
            monkeypatch.setenv("ATTNSCAN_MODEL", name)
        assert words in refusal(lambda: choose(None if by_environment else name))

    def test_a_directory_goes_before_a_hub_id(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        checkpoint(tmp_path / "bert-base-uncased")
        monkeypatch.setattr(sources, "hub_answers", never_asked)
        assert choose("bert-base-uncased") == Source("bert-base-uncased", "bert-base-uncased")

    def test_a_file_is_no_model(self, tmp_path: Path) -> None:
        (tmp_path / "model.safetensors").touch()
        assert "has no config.json" in refusal(lambda: choose(str(tmp_path / "model.safetensors")))


def test_a_choice_gives_a_silent_hub_up(online: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        online.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        online.setattr(sources, "hub_answers", partial(hub_answers, 0.2))
        assert choose(None).name == "bundled"
        assert "the hub does not answer" in refusal(lambda: choose("org/model"))


class TestCheckpoint:
    @pytest.mark.parametrize(
        "tokenizer", ["tokenizer.json", "vocab.txt", "vocab.json", "spiece.model"]
    )
    def test_config_weights_and_tokenizer_are_enough(self, tmp_path: Path, tokenizer: str) -> None:
        path = checkpoint(
            tmp_path / "model", ("config.json", "model.safetensors", tokenizer, "pytorch_model.bin")
        )
        assert choose(str(path)).location == str(path)
        (path / "model.safetensors").rename(path / "part.safetensors")
        (path / "model.safetensors.index.json").write_text(
            '{"weight_map": {"a": "part.safetensors"}}'
        )
        assert choose(str(path)).location == str(path)
        (path / "model.safetensors.index.json").write_text(
            '{"weight_map": {"a": "other.safetensors"}}'
        )
        assert "no safe weights (other.safetensors); pickles can run code" in refusal(
            lambda: choose(str(path))
        )

    @pytest.mark.parametrize(
        ("files", "words"),
        [
            ((), "has no config.json"),
            (("model.safetensors", "tokenizer.json"), "has no config.json"),
            (("config.json", "tokenizer.json", "model.ckpt"), "has no safe weights"),
            (("config.json", "model.safetensors"), "has no tokenizer"),
            (
                ("adapter_config.json", "adapter_model.safetensors", "tokenizer.json"),
                "holds an adapter, and its",
            ),
            ((*WHOLE, "adapter_config.json"), "has an adapter"),
        ],
    )
    def test_what_is_missing_is_said(
        self, tmp_path: Path, files: tuple[str, ...], words: str
    ) -> None:
        path = checkpoint(tmp_path / "model", files)
        assert words in refusal(lambda: choose(str(path)))


class TestDirectories:
    """Where in a directory a model is, and what is said where it is not."""

    @pytest.fixture
    def sentence_model(self, tmp_path: Path) -> Path:
        """As sentence-transformers before 2.0 saved it."""
        path = tmp_path / "sentence-model"
        checkpoint(path / "0_Transformer")
        (path / "config.json").write_text('{"__version__": "0.3.8"}')
        module = "sentence_transformers.models."
        modules = [
            {"idx": 0, "path": "0_Transformer", "type": f"{module}Transformer"},
            {"idx": 1, "path": "1_Pooling", "type": f"{module}Pooling"},
        ]
        (path / "modules.json").write_text(json.dumps(modules))
        return path

    def test_modules_json_names_the_inner_directory(self, sentence_model: Path) -> None:
        source = choose(str(sentence_model))
        assert source == Source(str(sentence_model), str(sentence_model / "0_Transformer"))

    def test_a_broken_modules_json_names_none(self, sentence_model: Path) -> None:
        (sentence_model / "modules.json").write_text("[{}]")
        line = refusal(lambda: choose(str(sentence_model)))
        assert "has no weights (model.safetensors)" in line
        assert f"name the directory inside that has: {sentence_model}/0_Transformer" in line

    def test_modules_json_names_no_place_elsewhere(self, sentence_model: Path) -> None:
        text = (sentence_model / "modules.json").read_text()
        (sentence_model / "modules.json").write_text(text.replace("0_Tr", "../0_Tr"))
        checkpoint(sentence_model.parent / "0_Transformer")
        assert "has no weights" in refusal(lambda: choose(str(sentence_model)))

    def test_without_weights_no_pickles_are_spoken_of(self, tmp_path: Path) -> None:
        path = checkpoint(tmp_path / "model", ("config.json", "tokenizer.json"))
        line = refusal(lambda: choose(str(path)))
        assert "has no weights (model.safetensors)" in line and "pickles" not in line


class TestCatalog:
    def test_bundled_and_cached_models_are_listed(self, cache: Path) -> None:
        assert (Catalog.now().ready, Catalog.now().default, Catalog.now().hub) == (
            ["bundled"],
            "bundled",
            False,
        )
        in_cache(cache, "org/whole")
        in_cache(cache, "org/pickled", ("config.json", "pytorch_model.bin"))
        in_cache(cache, "org/empty", ("tokenizer.json",))
        in_cache(cache, "org/wordless", ("config.json", "model.safetensors"))
        shipped, pickled, whole, wordless = Catalog.now().entries
        assert [shipped[name] for name in ("model", "family", "layers", "heads")] == [
            "bundled",
            "bert",
            6,
            12,
        ]
        assert [whole[name] for name in ("model", "layers", "heads", "state")] == [
            "org/whole",
            2,
            3,
            "ready",
        ]
        assert pickled["model"] == "org/pickled"
        assert pickled["state"].startswith("cannot run: it has no safe weights")
        assert wordless["state"] == "cannot run: it has no tokenizer"
        assert re.fullmatch(r"cache [0-9a-f]{8}", whole["where"])

    def test_cached_model_one_level_down_is_ready(self, cache: Path) -> None:
        snapshot = in_cache(cache, "org/inner", ("config.json",))
        checkpoint(snapshot / "0_Transformer")
        modules = [{"path": "0_Transformer", "type": "sentence_transformers.models.Transformer"}]
        (snapshot / "modules.json").write_text(json.dumps(modules))
        _, inner = Catalog.now().entries
        assert (inner["model"], inner["state"], inner["layers"]) == ("org/inner", "ready", 2)

    @pytest.mark.parametrize("content", ["", "{", "[1]", "[" * 100_000])
    def test_a_config_that_cannot_be_read_is_said(self, cache: Path, content: str) -> None:
        (in_cache(cache, "org/broken") / "config.json").write_text(content)
        _, broken = Catalog.now().entries
        assert (broken["family"], broken["layers"]) == ("unknown", None)
        assert broken["state"] == "cannot run: config.json cannot be read"


A = "a" * 40
B = "b" * 40
GONE = "c" * 40


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
    """Let this process ask it."""
    online.setattr(constants, "ENDPOINT", hub.address)
    online.setattr(
        "transformers.utils.hub._hf_api", None
    )  # made once, it keeps the address of its time
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
    assert isinstance(
        task_head(model, "next-sentence"), str
    )  # it has none, which only its weights tell
    assert torch.equal(model.embedding, loaded(commits[A]).embedding)
    assert model.source == Source(ID, ID, A) and moving.commits_read == {A}
    assert all(
        moving.fetched(name) == 1 for name in ("model.safetensors", "tokenizer.json", "config.json")
    )
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


@pytest.fixture
def one_level_down(commits: dict[str, Path], tmp_path: Path) -> Path:
    """A model as sentence-transformers before 2.0 put it on the hub, with its pickle beside."""
    root = tmp_path / "hub"
    shutil.copytree(commits[A], root / "0_Transformer")
    (root / "0_Transformer" / "pytorch_model.bin").touch()
    (root / "1_Pooling").mkdir()
    (root / "1_Pooling" / "config.json").write_text("{}")
    (root / "config.json").write_text('{"__version__": "0.3.8"}')
    module = "sentence_transformers.models."
    modules = [
        {"idx": 0, "path": "0_Transformer", "type": f"{module}Transformer"},
        {"idx": 1, "path": "1_Pooling", "type": f"{module}Pooling"},
    ]
    (root / "modules.json").write_text(json.dumps(modules))
    return root


@pytest.mark.parametrize("revision", [None, A])
def test_hub_model_one_level_down_is_fetched(
    one_level_down: Path,
    commits: dict[str, Path],
    online: pytest.MonkeyPatch,
    monkeypatch: pytest.MonkeyPatch,
    revision: str | None,
) -> None:
    name = ID if revision is None else f"{ID}@{revision}"
    with model_hub({A: one_level_down}, [A]) as hub:
        ask(hub, online)
        model = load(choose(name))
        assert torch.equal(model.embedding, loaded(commits[A]).embedding)
        assert (model.source.name, model.source.revision) == (name, A)
        assert Path(model.source.location).name == "0_Transformer"
        assert hub.fetched("pytorch_model.bin") == 0
        assert not any("1_Pooling" in request for request in hub.requests)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert torch.equal(load(choose(name)).embedding, model.embedding)


def test_a_revision_of_a_hub_model_is_named_behind_an_at_sign() -> None:
    source = choose("some/model@step1000", hub=lambda: True)
    assert (source.name, source.location) == ("some/model@step1000", "some/model")
    assert source.arguments["revision"] == "step1000"
    with pytest.raises(ModelError, match="revision step1000 of some/model is not in the local"):
        choose("some/model@step1000", hub=lambda: False)

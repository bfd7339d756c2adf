"""Which model a run takes: the order of the choice, what counts as a checkpoint, and a hub that is silent."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hub_cache import COMMIT, WHOLE, checkpoint, in_cache
from huggingface_hub import constants

from attnscan.errors import ModelError
from attnscan.model import sources
from attnscan.model.sources import (
    DEFAULT_MODEL,
    Source,
    bundled,
    choose,
    hub_answers,
)

pytestmark = pytest.mark.usefixtures("cache", "nothing_else")


def refusal(do: Callable[[], object]) -> str:
    """The line that says why there is no model."""
    with pytest.raises(ModelError) as caught:
        do()
    assert caught.value.remedy
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    return line


def never_asked(*_: object) -> bool:
    pytest.fail("the hub was asked")


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


class TestHub:
    @pytest.fixture(autouse=True)
    def online(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)

    @pytest.fixture
    def listening(self) -> Iterator[socket.socket]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            yield server

    def at(self, monkeypatch: pytest.MonkeyPatch, server: socket.socket) -> None:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")

    def test_a_choice_gives_a_silent_hub_up(self, monkeypatch: pytest.MonkeyPatch, listening: socket.socket) -> None:
        self.at(monkeypatch, listening)
        monkeypatch.setattr(sources, "hub_answers", partial(hub_answers, 0.2))
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

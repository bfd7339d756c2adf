"""Checkpoints that are damaged or bring code: refused in one line, and nothing of theirs is run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from huggingface_hub import constants
from one_run import classify
from safetensors.torch import load_file, save_file
from scans import RECORDS
from tiny_checkpoints import SMALL, configured, loaded, refusal
from transformers import BertConfig, BertModel
from work import similar

from attnscan.errors import CaptureError, ModelError
from attnscan.inputs.pairs import Pair
from attnscan.model import untrusted
from attnscan.model.untrusted import guarded
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner


class TestDamage:
    @pytest.mark.parametrize("state", ["main", "converted"])
    def test_what_a_model_of_the_hub_holds_is_counted_wherever_its_cache_has_it(
        self, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
    ) -> None:
        """The hub converts pickles by itself, in a state of the repository that is not its main one."""
        for slack in ("_WEIGHTS_MORE", "_TENSORS_MORE"):
            monkeypatch.setattr(untrusted, slack, 0)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
        snapshots = tmp_path / "models--org--model" / "snapshots"
        (snapshots / "main").mkdir(parents=True)
        (snapshots / state).mkdir(exist_ok=True)
        shutil.copy(bert / "model.safetensors", snapshots / state)
        with guarded("org/model"):
            BertModel(BertConfig(**SMALL))
        with pytest.raises(ValueError, match="asks for"), guarded("org/another"):
            BertModel(BertConfig(**SMALL))
        with guarded("org/model", state):  # a commit has its weights in its own state alone
            BertModel(BertConfig(**SMALL))
        with pytest.raises(ValueError, match="asks for"), guarded("org/model", "another"):
            BertModel(BertConfig(**SMALL))

    def test_a_truncated_file_is_refused(self, bert: Path) -> None:
        file = bert / "model.safetensors"
        content = file.read_bytes()
        for length in [0, 4, 8, 100, len(content) // 2, len(content) - 1]:
            file.write_bytes(content[:length])
            assert "cannot load the model tiny" in refusal(lambda: loaded(bert))

    @pytest.mark.parametrize("content", [b"nonsense", b"\xff" * 100, b"\x80\x02}q\x00.", b"<!DOCTYPE html>\n" * 9])
    def test_another_kind_of_file_is_refused(self, bert: Path, content: bytes) -> None:
        (bert / "model.safetensors").write_bytes(content)
        assert "cannot load the model tiny" in refusal(lambda: loaded(bert))

    def test_an_index_without_its_parts_is_refused(self, bert: Path) -> None:
        (bert / "model.safetensors").unlink()
        index = {"metadata": {}, "weight_map": {"embeddings.word_embeddings.weight": "../../part.safetensors"}}
        (bert / "model.safetensors.index.json").write_text(json.dumps(index))
        assert "cannot load the model tiny" in refusal(lambda: loaded(bert))

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_weights_that_are_not_finite_are_said(self, bert: Path, value: float) -> None:
        weights = load_file(bert / "model.safetensors")
        weights["embeddings.word_embeddings.weight"].fill_(value)
        save_file(weights, bert / "model.safetensors", {"format": "pt"})
        options = ScanOptions(model=str(bert))
        assert "not finite" in refusal(lambda: classify(Pair("the cat", "the mat"), options), CaptureError)
        with Scanner(options) as scanner:
            assert "not finite" in refusal(lambda: similar(scanner, RECORDS[:1], 8, 0.1), CaptureError)


class TestRemoteCode:
    """A checkpoint that brings code of its own: it is refused or loaded without it, and never run."""

    @pytest.fixture
    def marker(self, bert: Path, tmp_path: Path) -> Path:
        marker = tmp_path / "marker"
        code = f"from pathlib import Path\nPath({str(marker)!r}).touch()\n"
        for name in ("evil.py", "__init__.py"):
            (bert / name).write_text(code + "class Evil: pass\n")
        return marker

    @pytest.mark.parametrize("name", ["AutoConfig", "AutoModel", "AutoTokenizer"])
    def test_an_unknown_model_type_is_refused(self, bert: Path, marker: Path, name: str) -> None:
        own = ["evil.Evil", "evil.Evil"] if name == "AutoTokenizer" else "evil.Evil"
        configured(bert, model_type="evil", auto_map={"AutoConfig": "evil.Evil", name: own}, architectures=["Evil"])
        assert "cannot load the model tiny" in refusal(lambda: loaded(bert))
        assert not marker.exists()

    def test_a_known_model_type_is_loaded_without_it(self, bert: Path, marker: Path) -> None:
        configured(bert, auto_map={"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil"})
        assert isinstance(loaded(bert).model, BertModel)
        assert not marker.exists()

    def test_a_tokenizer_of_its_own_is_not_run(self, bert: Path, marker: Path) -> None:
        file = bert / "tokenizer_config.json"
        own = {"auto_map": {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}, "tokenizer_class": "Evil"}
        file.write_text(json.dumps(json.loads(file.read_text()) | own))
        try:
            loaded(bert)
        except ModelError as error:
            assert len(str(error).splitlines()) == 1
        assert not marker.exists()

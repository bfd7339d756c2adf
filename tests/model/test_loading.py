"""From a directory to a model that is ready to run, or one line; what tells models apart."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from support.tiny_checkpoints import SIZE, SMALL, configured, loaded, refusal, save, with_weights
from support.tokenizers_of_kinds import written_in_python
from transformers import (
    AutoConfig,
    AutoModel,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    BigBirdConfig,
    BigBirdForSequenceClassification,
    DistilBertConfig,
    RobertaConfig,
)
from transformers.utils import logging

from attnscan.errors import DeviceError, MemoryFullError, ModelError
from attnscan.inputs.sentence import Pair
from attnscan.model.forward import quiet_transformers
from attnscan.model.loading import load
from attnscan.model.sources import Device, Dtype, Source, fingerprint, short
from attnscan.model.task_heads import task_head


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    """A BERT of one layer and two heads."""
    torch.manual_seed(0)
    return save(tmp_path / "bert", BertModel(BertConfig(**SMALL)))


class TestLoading:
    @pytest.mark.parametrize(
        "stored", [torch.float32, torch.float16, torch.bfloat16, torch.float64]
    )
    def test_a_checkpoint_of_any_precision_is_ready_in_float32(
        self, tmp_path: Path, stored: torch.dtype
    ) -> None:
        before = BertModel(BertConfig(**SMALL)).to(stored)
        path = save(tmp_path / "bert", before)
        assert (
            load_file(path / "model.safetensors")["embeddings.word_embeddings.weight"].dtype
            == stored
        )
        model = load(Source("tiny", str(path), revision="abc"))
        assert {parameter.dtype for parameter in model.model.parameters()} == {torch.float32}
        assert (
            not model.model.training
            and not model.embedding.requires_grad
            and model.device.type == "cpu"
        )
        assert torch.equal(model.embedding, before.get_input_embeddings().weight.float())
        assert model.tokenizer("the cats")["input_ids"] == [2, 5, 6, 10, 3]
        assert (model.source.name, model.source.revision, model.pad_id) == ("tiny", "abc", 0)


@pytest.fixture
def with_warnings() -> Iterator[None]:
    """Transformers prints warnings and bars, as it does for most of its users."""
    verbosity = logging.get_verbosity()
    has_bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_warning()
    logging.enable_progress_bar()
    yield
    logging.set_verbosity(verbosity)
    if not has_bars:
        logging.disable_progress_bar()


@pytest.mark.usefixtures("with_warnings")
class TestQuiet:
    @pytest.fixture
    def classifier(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Path:
        """Of its head, transformers says that an encoder does not use it."""
        path = save(tmp_path / "bert", BertForSequenceClassification(BertConfig(**SMALL)))
        AutoModel.from_pretrained(path)
        assert "".join(capfd.readouterr()) != "", "a control"
        return path

    def test_loading_prints_nothing(
        self, classifier: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        loaded(classifier)
        assert "".join(capfd.readouterr()) == ""

    def test_it_is_quiet_until_the_last_run_has_ended(
        self, classifier: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with ExitStack() as later:
            with quiet_transformers():
                later.enter_context(quiet_transformers())
            AutoModel.from_pretrained(classifier)
            assert "".join(capfd.readouterr()) == ""

    def test_a_failure_leaves_warnings_and_bars_as_they_were(self, classifier: Path) -> None:
        (classifier / "model.safetensors").write_bytes(b"")
        refusal(lambda: loaded(classifier))
        assert logging.get_verbosity() == logging.WARNING
        assert logging.is_progress_bar_enabled()


@pytest.mark.loads_anew
def test_block_sparse_attention_is_set_to_full_once_and_said(tmp_path: Path) -> None:
    """Left to itself, Big Bird turns to full attention at its first short input, for good."""
    config = BigBirdConfig(
        **SMALL, attention_type="block_sparse", block_size=4, num_random_blocks=1
    )
    classifier = save(tmp_path / "classifier", BigBirdForSequenceClassification(config))
    model = loaded(classifier)
    head: Any = task_head(model, "classifier")
    assert model.model.attention_type == head.base_model.attention_type == "original_full"
    assert model.note.startswith("tiny: attention is computed in full") and "\n" not in model.note


@pytest.mark.parametrize("dtype", ["auto", "float32", "bfloat16", "float16"])
def test_on_a_cpu_half_precision_is_a_copy_that_is_scored(bert: Path, dtype: Dtype) -> None:
    """All else that is asked of the model, such as its embeddings, stays whole."""
    model = load(Source("tiny", str(bert)), "cpu", dtype)
    assert model.model.dtype == torch.float32
    asked_for = torch.float32 if dtype == "auto" else getattr(torch, dtype)
    assert model.scored.dtype == asked_for
    assert (model.scored is model.model) == (asked_for == torch.float32)


DISTILBERT = {"vocab_size": SIZE, "dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 8}


@pytest.mark.parametrize(
    ("config", "longest", "limit"),
    [
        (BertConfig(**SMALL), None, 32),
        (
            RobertaConfig(**SMALL),
            None,
            30,
        ),  # positions are counted from behind the padding token's, which is 1
        (DistilBertConfig(**DISTILBERT, max_position_embeddings=40), None, 40),
        (BertConfig(**SMALL), 7, 7),
        (
            AutoConfig.for_model(
                "mpt", d_model=16, n_heads=2, n_layers=1, vocab_size=SIZE, max_seq_len=24
            ),
            33,
            24,
        ),
        (BertConfig(**SMALL), 10**30, 32),
    ],
)
def test_limit_is_the_least_of_positions_and_tokenizer(
    tmp_path: Path, config: Any, longest: int | None, limit: int
) -> None:
    assert (
        loaded(save(tmp_path / "model", AutoModel.from_config(config), longest=longest)).limit
        == limit
    )


class TestDisagreement:
    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"num_hidden_layers": 3}, "lacks 32 weights: "),
            (
                {"intermediate_size": 9},
                "intermediate.dense.bias has shape [8], and its config asks for [9]",
            ),
            (
                {"vocab_size": 5},
                f"word_embeddings.weight has shape [{SIZE}, 16], and its config asks for [5, 16]",
            ),
            ({"num_attention_heads": 3}, "not a multiple of the number of attention heads"),
            ({"model_type": "no-such-model"}, "cannot load the model tiny"),
            (
                {"hidden_size": "16"},
                "for field 'hidden_size': TypeError: Field 'hidden_size' expected int",
            ),
        ],
    )
    def test_a_config_that_does_not_fit_the_weights_is_refused(
        self, bert: Path, settings: dict[str, Any], words: str
    ) -> None:
        assert words in refusal(lambda: loaded(configured(bert, **settings)))

    def test_a_tokenizer_larger_than_the_embedding_is_refused(self, tmp_path: Path) -> None:
        model = loaded(
            save(tmp_path / "bert", BertModel(BertConfig(**{**SMALL, "vocab_size": SIZE - 3})))
        )
        assert [*model.encode_all([Pair("on")], "token", truncate=False)]
        line = refusal(lambda: [*model.encode_all([Pair("the mat")], "token", truncate=False)])
        assert (
            f"gives token {SIZE - 3}, and the model knows {SIZE - 3}; "
            "the two do not belong together" in line
        )

    def test_names_with_a_wrappers_prefix_are_refused(self, bert: Path) -> None:
        weights = load_file(bert / "model.safetensors")
        save_file(
            {f"module.{name}": w for name, w in weights.items()},
            bert / "model.safetensors",
            {"format": "pt"},
        )
        assert "whose names begin with 'module.' or the like" in refusal(lambda: loaded(bert))

    @pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json"])
    @pytest.mark.parametrize("content", ["", "{", "[1]", "nonsense", "[" * 100_000])
    def test_a_broken_json_file_is_refused(self, bert: Path, name: str, content: str) -> None:
        (bert / name).write_text(content)
        assert "tiny" in refusal(lambda: loaded(bert))


@pytest.mark.parametrize(
    "error", [MemoryError(), OSError(12, "Cannot allocate memory"), RuntimeError("std::bad_alloc")]
)
def test_a_model_that_memory_does_not_hold_is_not_called_damaged(
    bert: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("attnscan.model.loading.load_checkpoint", fail)
    line = refusal(lambda: loaded(bert), MemoryFullError)
    assert "the model tiny does not fit into memory" in line and "belong together" not in line


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_missing_device_is_refused_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch, device: Device
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    line = refusal(lambda: load(Source("none", "no/such/directory"), device), DeviceError)
    assert f"device {device}" in line.replace("'", "").replace("=", " ") and "device='auto'" in line


BERT = ("bert", SMALL)
GPT2 = ("gpt2", {"vocab_size": SIZE, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32})
T5 = (
    "t5",
    {"vocab_size": SIZE, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2},
)
RELATIVE = "encoder.layer.0.attention.self.distance_embedding.weight"


def test_code_of_a_checkpoint_of_a_known_type_is_not_run(bert: Path, tmp_path: Path) -> None:
    """Neither its model's nor its tokenizer's; checkpoints of unknown types are among TRAPS."""
    marker = tmp_path / "marker"
    for name in ("evil.py", "__init__.py"):
        (bert / name).write_text(
            f"from pathlib import Path\nPath({str(marker)!r}).touch()\nclass Evil: pass\n"
        )
    configured(bert, auto_map={"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil"})
    assert isinstance(loaded(bert).model, BertModel)
    file = bert / "tokenizer_config.json"
    settings = {
        "auto_map": {"AutoTokenizer": ["evil.Evil", "evil.Evil"]},
        "tokenizer_class": "Evil",
    }
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))
    with suppress(ModelError):
        loaded(bert)
    assert not marker.exists()


def saved(directory: Path, kind: str, family: tuple[str, dict[str, Any]], **changes: Any) -> Path:
    config = AutoConfig.for_model(family[0], **family[1] | changes, pad_token_id=0)
    return save(directory, getattr(transformers, kind)(config))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda place: with_weights(saved(place, "BertModel", BERT), RELATIVE),
            f"holds, .*, 1 weight: {RELATIVE};",
        ),
        (
            lambda place: configured(
                saved(place, "BertForMaskedLM", BERT, num_hidden_layers=2), num_hidden_layers=1
            ),
            "16 weights: ",
        ),
        (
            lambda place: configured(saved(place, "GPT2LMHeadModel", GPT2), n_layer=1),
            "11 weights: ",
        ),
        (
            lambda place: configured(
                saved(place, "T5Model", T5), num_layers=1, num_decoder_layers=2
            ),
            "8 weights: ",
        ),
    ],
)
def test_weights_of_the_encoder_that_nothing_uses_are_refused(
    tmp_path: Path, make: Callable[[Path], Path], said: str
) -> None:
    make(tmp_path / "model")
    line = refusal(lambda: loaded(tmp_path / "model"))
    assert re.search(said, line) and "see that its config.json belongs to its weights" in line


def test_a_decoders_weights_are_needed_where_it_is_read(tmp_path: Path) -> None:
    path = saved(tmp_path / "model", "T5ForConditionalGeneration", T5)
    file = path / "model.safetensors"
    weights = load_file(file)
    name = "decoder.block.1.layer.1.EncDecAttention.k.weight"
    del weights[name]
    save_file(weights, file, {"format": "pt"})
    assert load(Source("tiny", str(path))).model.config.num_layers == 2
    line = refusal(lambda: load(Source("tiny", str(path)), attention="cross"))
    assert f"the checkpoint tiny lacks 1 weight: {name};" in line


def test_an_encoder_alone_has_no_attention_of_a_decoder(tmp_path: Path) -> None:
    path = saved(tmp_path / "model", "T5EncoderModel", T5, is_encoder_decoder=False)
    line = refusal(lambda: load(Source("tiny", str(path)), attention="cross"))
    assert "tiny is no encoder-decoder that writes text, and has no cross attention" in line


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """One without a pooler, which is filled with random numbers when it is loaded."""
    return save(tmp_path / "model", BertModel(BertConfig(**SMALL), add_pooling_layer=False))


def _differ(first: Path, second: Path) -> list[str]:
    """The parts of two checkpoints that are not the same."""
    a = loaded(first).fingerprint
    b = loaded(second).fingerprint
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
def test_a_fingerprint_tells_each_part(
    checkpoint: Path, tmp_path: Path, change: Callable[[Path], object], parts: list[str]
) -> None:
    other = tmp_path / "other"
    shutil.copytree(checkpoint, other)
    assert _differ(checkpoint, other) == []
    change(other)
    assert _differ(checkpoint, other) == parts


@pytest.mark.parametrize(
    ("options", "file", "is_told"),
    [
        ({}, None, False),
        ({"split_special_tokens": True}, None, True),
        ({"is_local": True, "local_files_only": True}, None, False),
        ({}, "vocab.txt", True),
        ({}, "bpe.codes", True),
        ({}, "README.md", False),
    ],
)
def test_a_tokenizer_in_python_is_known_by_its_files_and_settings(
    tmp_path: Path, options: dict[str, Any], file: str | None, is_told: bool
) -> None:
    """Wherever the files lie."""
    model = BertModel(BertConfig(**SMALL))
    prints = []
    for name in ("one", "other"):
        directory = tmp_path / name
        directory.mkdir()
        words = written_in_python(directory)
        if name == "other":
            words.init_kwargs |= options
            if file is not None:
                with (directory / file).open("a") as stream:
                    stream.write("zebra 1\n")
        prints.append(fingerprint(model, words)["tokenizer"])
    assert (prints[0] != prints[1]) == is_told


def test_place_and_earlier_inputs_change_no_fingerprint(checkpoint: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "copy"
    shutil.copytree(checkpoint, other)
    (other / "README.md").write_text("Another one")
    save_file({"weight": torch.ones(1)}, other / "adapter.safetensors")
    model = loaded(other)
    model.tokenizer("the cat sat", truncation=True, max_length=4, padding="max_length")
    assert model.fingerprint == loaded(checkpoint).fingerprint


def test_a_fingerprint_counts_a_head_that_runs(tmp_path: Path) -> None:
    model = BertForMaskedLM(BertConfig(**SMALL))
    before = save(tmp_path / "one", model)
    with torch.no_grad():
        model.cls.predictions.bias[0] += 1
    assert _differ(before, save(tmp_path / "other", model)) == ["weights"]

"""Checkpoints that are damaged or bring code are refused in one line; how much longer rules may make a text."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from draws import draws
from hostile.checkpoints import TOKENIZERS, ruled
from huggingface_hub import constants
from hypothesis import given, settings
from hypothesis import strategies as st
from one_run import classify
from safetensors.torch import load_file, save_file
from scans import RECORDS
from tiny_checkpoints import SIZE, SMALL, configured, loaded, refusal, save, with_weights
from tokenizers import Tokenizer
from tokenizers_of_kinds import KINDS, byte_level
from transformers import AutoConfig, BertConfig, BertModel
from typer.testing import CliRunner
from work import similar

import attnscan
from attnscan.cli.app import app
from attnscan.errors import CaptureError, ModelError
from attnscan.inputs.library_calls import TokenizerFailed, asked
from attnscan.inputs.pairs import Pair
from attnscan.model import loading
from attnscan.model.loading import Growth, check_files, check_rules, check_tokenizer, guarded
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner

BERT = ("bert", SMALL)
GPT2 = ("gpt2", {"vocab_size": SIZE, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32})
T5 = ("t5", {"vocab_size": SIZE, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2})
RELATIVE = "encoder.layer.0.attention.self.distance_embedding.weight"


class TestDamage:
    @pytest.mark.parametrize("state", ["main", "converted"])
    def test_what_a_model_of_the_hub_holds_is_counted_wherever_its_cache_has_it(
        self, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
    ) -> None:
        """The hub converts pickles by itself, in a state of the repository that is not its main one."""
        for slack in ("_WEIGHTS_MORE", "_TENSORS_MORE"):
            monkeypatch.setattr(loading, slack, 0)
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
    """A checkpoint of a known type that brings code of its own: it is never run; of unknown types, see TRAPS."""

    @pytest.fixture
    def marker(self, bert: Path, tmp_path: Path) -> Path:
        marker = tmp_path / "marker"
        code = f"from pathlib import Path\nPath({str(marker)!r}).touch()\n"
        for name in ("evil.py", "__init__.py"):
            (bert / name).write_text(code + "class Evil: pass\n")
        return marker

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


def saved(directory: Path, kind: str, family: tuple[str, dict[str, Any]], **changes: Any) -> Path:
    config = AutoConfig.for_model(family[0], **family[1] | changes, pad_token_id=0)
    return save(directory, getattr(transformers, kind)(config))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda place: with_weights(saved(place, "BertModel", BERT), RELATIVE), f"holds 1 weight .* load: {RELATIVE};"),
        (lambda place: with_weights(saved(place, "BertForMaskedLM", BERT), f"bert.{RELATIVE}"), "holds 1 weight of"),
        (
            lambda place: configured(saved(place, "BertModel", BERT, num_hidden_layers=2), num_hidden_layers=1),
            r"holds 16 weights of its encoder that transformers would not load: encoder\.layer\.1\..* and others",
        ),
        (
            lambda place: configured(saved(place, "BertForMaskedLM", BERT, num_hidden_layers=2), num_hidden_layers=1),
            "holds 16 weights",
        ),
        (lambda place: configured(saved(place, "GPT2LMHeadModel", GPT2), n_layer=1), "holds 11 weights"),
        (lambda place: configured(saved(place, "T5Model", T5), num_layers=1, num_decoder_layers=2), "holds 8 weights"),
    ],
)
def test_weights_of_the_encoder_that_nothing_uses_are_refused(
    tmp_path: Path, make: Callable[[Path], Path], said: str
) -> None:
    make(tmp_path / "model")
    line = refusal(lambda: loaded(tmp_path / "model"))
    assert re.search(said, line) and "see that config.json belongs to the weights" in line


@pytest.mark.parametrize(
    ("kind", "family", "heads"),
    [
        ("BertForQuestionAnswering", BERT, "qa_outputs"),
        ("BertForSequenceClassification", BERT, "classifier"),
        ("GPT2ForSequenceClassification", GPT2, "score"),
    ],
)
def test_a_head_that_nothing_uses_is_told(tmp_path: Path, kind: str, family: Any, heads: str) -> None:
    place = saved(tmp_path / "model", kind, family)
    note = f"attention does not depend on these other parts of the checkpoint {place}: {heads}"
    with pytest.warns(UserWarning, match=note):
        model = attnscan.load(place)
    assert model.note == note
    result = CliRunner().invoke(app, ["show", "0-0", "the cat sat", "--model", str(place)])
    assert result.exit_code == 0 and result.stderr.splitlines()[0] == f"attnscan: {note}"


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        ("BertModel", BERT),
        ("BertForMaskedLM", BERT),
        ("BertForPreTraining", BERT),
        ("ElectraForPreTraining", ("electra", SMALL | {"embedding_size": 16})),
        ("AlbertForPreTraining", ("albert", SMALL | {"embedding_size": 16})),
        ("RobertaForMaskedLM", ("roberta", SMALL)),
        ("GPT2LMHeadModel", GPT2),
        ("LlamaForCausalLM", ("llama", SMALL)),
        ("T5ForConditionalGeneration", T5),
        ("T5EncoderModel", T5),
    ],
)
def test_what_a_family_is_pretrained_with_is_expected(tmp_path: Path, kind: str, family: Any) -> None:
    assert loaded(saved(tmp_path / "model", kind, family)).note == ""


def test_buffers_that_were_saved_once_are_expected(tmp_path: Path) -> None:
    positions = torch.arange(32)[None]
    bert = saved(tmp_path / "bert", "BertForMaskedLM", BERT)
    with_weights(bert, "bert.embeddings.position_ids", "bert.embeddings.token_type_ids", values=positions)
    gpt2 = saved(tmp_path / "gpt2", "GPT2LMHeadModel", GPT2)
    with_weights(gpt2, "transformer.h.0.attn.bias", "transformer.h.0.attn.masked_bias", values=torch.tensor(-1e4))
    assert [loaded(place).note for place in (bert, gpt2)] == ["", ""]


A, B = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
CLS = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}


def replaced(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def charsmap(*texts: str, size: int = 8) -> str:
    """A map of letters in SentencePiece's format, with an empty trie."""
    return base64.b64encode(size.to_bytes(4, "little") + bytes(8) + "\0".join(texts).encode()).decode()


@pytest.mark.parametrize(
    ("rule", "growth"),
    [
        ({"type": "Lowercase"}, Growth(1, 0)),
        (replaced({"String": "a"}, "aaaaaaaaaa"), Growth(10, 0)),
        (replaced({"String": "``"}, '"'), Growth(1, 0)),
        (replaced({"String": "a"}, "ﷺ"), Growth(18, 0)),  # eighteen letters, once it is decomposed
        (replaced({"String": ""}, "ab"), Growth(3, 2)),
        (replaced({"Regex": " *"}, " "), Growth(2, 1)),
        (replaced({"Regex": " {2,}"}, "ab"), Growth(2, 0)),
        (replaced({"Regex": "\\s+"}, " "), Growth(1, 0)),
        (replaced({"Regex": " {0,2}"}, " "), Growth(2, 1)),
        (replaced({"Regex": "a|"}, " "), Growth(2, 1)),
        ({"type": "Prepend", "prepend": "▁"}, Growth(1, 1)),
        ({"type": "Precompiled", "precompiled_charsmap": charsmap("a", "abc", "")}, Growth(3, 0)),
        ({"type": "Precompiled", "precompiled_charsmap": None}, Growth(1, 0)),
        (
            {"type": "TemplateProcessing", "single": [CLS, A], "pair": [CLS, A, B, A], "special_tokens": {}},
            Growth(2, 1),
        ),
        (
            {
                "type": "TemplateProcessing",
                "single": [CLS, A],
                "pair": [CLS, A, CLS, B],
                "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2, 3, 4], "tokens": ["a", "b", "c"]}},
            },
            Growth(1, 6),
        ),
    ],
)
def test_growth_of_one_rule(rule: dict[str, Any], growth: Growth) -> None:
    assert loading._growth_of(rule) == growth


def test_growth_of_rules_in_a_row_and_within_each_other() -> None:
    tenfold, prefix = replaced({"String": "a"}, "a" * 10), {"type": "Prepend", "prepend": "aa"}
    inner = {"type": "Sequence", "normalizers": [prefix, tenfold]}
    growth = loading._growth({"type": "Sequence", "normalizers": [tenfold, inner]}, "normalizers")
    assert growth == Growth(100, 20)


@pytest.mark.parametrize("kind", KINDS)
def test_sound_tokenizers_are_taken(kind: str) -> None:
    check_tokenizer(KINDS[kind]())


@pytest.mark.parametrize(
    "name", ["XLNet", "Albert", "DebertaV2", "T5", "Camembert", "Llama", "Gemma", "CLIP", "BigBird", "Bert"]
)
def test_the_rules_of_published_families_are_far_within_the_limit(name: str) -> None:
    """Each with the map of letters that most of them have in their files, which makes eighteen letters of one."""
    rust = getattr(transformers, f"{name}Tokenizer")().backend_tokenizer
    steps = {part: getattr(rust, part) for part in ("normalizer", "pre_tokenizer", "post_processor")}
    rules = {part: json.loads(step.__getstate__()) for part, step in steps.items() if step is not None}
    own = [rules["normalizer"]] if "normalizer" in rules else []
    check_rules({**rules, "normalizer": {"type": "Sequence", "normalizers": [*own, MAP, {"type": "NFKC"}]}})


MAP = {"type": "Precompiled", "precompiled_charsmap": charsmap("صلى الله عليه وسلم")}

BERTS = ("clean_text", "handle_chinese_chars", "lowercase")

_letters = st.text("aāﷺ ", max_size=3)
_rules = st.one_of(
    st.builds(lambda old, new: replaced({"String": old}, new), st.text("aāﷺ ", min_size=1, max_size=2), _letters),
    st.builds(
        lambda old, new: replaced({"Regex": old}, new),
        st.sampled_from(["a*", " +", "(?=a)", ".", "a{2,}", "[a ]+"]),
        _letters,
    ),
    st.builds(lambda text: {"type": "Prepend", "prepend": text}, st.text("a ", min_size=1, max_size=3)),
    st.sampled_from(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel"]).map(
        lambda kind: {"type": kind}
    ),
    st.just({"type": "BertNormalizer", "strip_accents": None} | dict.fromkeys(BERTS, True)),
)


@settings(deadline=None, max_examples=draws(200))
@given(rules=st.lists(_rules, min_size=1, max_size=4), text=st.text("aāﷺ 中b", min_size=1, max_size=8))
def test_no_text_grows_more_than_is_said(rules: list[dict[str, Any]], text: str) -> None:
    whole = {"type": "Sequence", "normalizers": rules}
    empty = json.loads(byte_level().backend_tokenizer.to_str())
    rust = Tokenizer.from_str(json.dumps({**empty, "normalizer": whole}))
    growth = loading._growth(whole, "normalizers")
    try:
        longer = asked(rust.normalizer.normalize_str, text)
    except TokenizerFailed:  # the library itself trips over some that match nothing
        return
    assert len(longer) <= growth.times * loading._length_inserted(text) + growth.more


@pytest.mark.parametrize("name", [name for name in TOKENIZERS if "nine" in name or "map of letters" in name])
def test_rules_are_refused_before_they_are_loaded(tmp_path: Path, name: str) -> None:
    byte_level().save_pretrained(tmp_path)
    check_files(tmp_path)
    TOKENIZERS[name](tmp_path)
    with pytest.raises(ModelError, match=r"rules of its tokenizer|map of letters"):
        check_files(tmp_path)


def test_a_rule_that_is_spelled_in_escapes_is_found(tmp_path: Path) -> None:
    byte_level().save_pretrained(tmp_path)
    ruled(normalizer={"type": "Prepend", "prepend": "a" * 10**6})(tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_text(path.read_text().replace("Prepend", "Pr\\u0065pend").replace("ByteLevel", "Byt\\u0065Level"))
    with pytest.raises(ModelError, match="rules of its tokenizer"):
        check_files(tmp_path)


def test_a_tokenizer_larger_than_any_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    byte_level().save_pretrained(tmp_path)
    monkeypatch.setattr(loading, "MAX_TOKENIZER_BYTES", 1000)
    with pytest.raises(ModelError, match=r"its tokenizer.json is of \d+ bytes"):
        check_files(tmp_path)

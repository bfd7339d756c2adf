"""A model that a program holds in memory: scored as its checkpoint is, and left as it was found."""

import copy
import gc
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from support.checkpoints_of_kinds import CASES, saved
from support.families import TAPPED, UNTAPPED, tiny_model
from support.tiny_checkpoints import SMALL, refusal
from support.tiny_checkpoints import tokenizer as tiny_tokenizer
from support.tokenizers_of_kinds import wordpiece
from torch.testing import assert_close
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertModel,
)

import attnscan
from attnscan.errors import CaptureError, DeviceError, ModelError
from attnscan.inputs.sentence import Pair
from attnscan.model.forward import eval_mode
from attnscan.model.in_memory import adopt
from attnscan.model.loading import LoadedModel
from attnscan.model.sources import choose
from attnscan.model.task_heads import TaskHead, task_head
from attnscan.results.heads import HeadScores
from attnscan.scan.one_input import classify_input
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import open_scanner

pytestmark = [pytest.mark.usefixtures("quiet"), pytest.mark.loads_anew]
PAIR = Pair("the cat sat on the mat .", "the cat ran to the store .")


def state(model: Any, tokenizer: Any) -> dict[str, Any]:
    """All that could be found changed."""
    state_now: dict[str, Any] = {
        "config": copy.deepcopy(model.config.to_dict()),
        "attention": [
            module.config._attn_implementation
            for module in model.modules()
            if hasattr(module, "config")
        ],
        "random": (
            random.getstate(),
            torch.get_rng_state().tolist(),
            np.random.get_state()[1].tolist(),
        ),
        "tokenizer": tokenizer.backend_tokenizer.to_str(),
    }
    for name, module in model.named_modules():
        state_now[f"module {name}"] = id(module), module.training, sorted(vars(module))
        for kind, hooks in vars(module).items():
            if kind.endswith("_hooks"):
                state_now[f"{kind} {name}"] = list(hooks.items())
    for name, weights in (*model.named_parameters(), *model.named_buffers()):
        state_now[name] = (
            id(weights),
            weights._version,
            weights.dtype,
            weights.device,
            weights.requires_grad,
        )
        state_now[f"gradient {name}"] = (
            weights.grad if weights.grad is None else (id(weights.grad), weights.grad._version)
        )
    return state_now


def scored(source: LoadedModel | str, **options: Any) -> HeadScores:
    with open_scanner(
        ScanOptions(**options), choose(source) if isinstance(source, str) else source
    ) as scanner:
        return classify_input(scanner, PAIR)


def same(first: HeadScores, second: HeadScores) -> bool:
    """Whether every number is the same but for last bits.

    How a processor multiplies may hang on where weights lie.
    """
    ours = first.to_frame().drop(columns="model")
    theirs = second.to_frame().drop(columns="model")
    numbers = list(ours.select_dtypes("number"))
    near = np.allclose(
        ours[numbers].astype(float),
        theirs[numbers].astype(float),
        rtol=0,
        atol=1e-6,
        equal_nan=True,
    )
    rest = ours.drop(columns=numbers).equals(theirs.drop(columns=numbers))
    return near and rest and first.not_measured == second.not_measured


@pytest.mark.parametrize("name", CASES)
def test_every_family_scores_as_its_checkpoint_does(tmp_path: Path, name: str) -> None:
    directory = str(saved(CASES[name], tmp_path))
    model = AutoModel.from_pretrained(directory)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    if (
        name == "decoder that was sdpa"
    ):  # Falcon's classes choose their attention when they are made
        assert "cannot be turned" in refusal(lambda: scored(adopt(model, tokenizer)), CaptureError)
        model = AutoModel.from_pretrained(directory, attn_implementation="eager")
    model.train()
    before = state(model, tokenizer)
    ours = scored(adopt(model, tokenizer))
    assert state(model, tokenizer) == before
    assert same(ours, scored(directory))
    assert (
        ours.signature.model == f"{directory} (in memory)"
        and ours.signature.fingerprint is not None
    )


@pytest.mark.parametrize(
    ("kind", "family", "heads"),
    [
        ("BertForMaskedLM", "bert", ["masked-lm"]),
        ("BertForNextSentencePrediction", "bert", ["next-sentence"]),
        ("BertForSequenceClassification", "bert", ["classifier"]),
        ("DistilBertForMaskedLM", "distilbert", ["masked-lm"]),
        ("RobertaForMaskedLM", "roberta", ["masked-lm"]),
        ("ElectraForMaskedLM", "electra", ["masked-lm"]),
        ("ModernBertForMaskedLM", "modernbert", ["masked-lm"]),
        ("DebertaV2ForMaskedLM", "deberta-v2", ["masked-lm"]),
        ("GPT2LMHeadModel", "gpt2", []),
        ("T5ForConditionalGeneration", "t5", []),
    ],
)
def test_heads_are_those_of_the_checkpoint(
    tmp_path: Path, kind: str, family: str, heads: list[str]
) -> None:
    torch.manual_seed(0)
    tokenizer = wordpiece()
    config = AutoConfig.for_model(
        family, **{**TAPPED, **UNTAPPED}[family] | {"vocab_size": len(tokenizer)}
    )
    config.pad_token_id = 0
    model = getattr(transformers, kind)(config).train()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    before = state(model, tokenizer)
    loaded = adopt(model, tokenizer)
    result = scored(loaded)
    ours = task_heads(loaded)
    assert state(model, tokenizer) == before
    assert same(result, scored(str(tmp_path)))
    with open_scanner(ScanOptions(), choose(str(tmp_path))) as scanner:
        theirs = task_heads(scanner.loaded)
    assert list(ours) == list(theirs) == heads
    ids = torch.tensor([[2, 5, 6, 3]])
    for name in heads:
        weights = ours[name].state_dict()  # a pooler as well, where the caller's model has one
        assert all(
            torch.equal(weights[weight], value)
            for weight, value in theirs[name].state_dict().items()
        )
        with torch.inference_mode(), eval_mode(model):
            assert_close(
                ours[name](input_ids=ids).logits,
                theirs[name](input_ids=ids).logits,
                rtol=0,
                atol=1e-6,
            )


def task_heads(loaded: LoadedModel) -> dict[str, Any]:
    """The models with each trained head."""
    kinds: tuple[TaskHead, ...] = ("next-sentence", "classifier")
    heads = {"masked-lm": loaded.masked_lm} | {kind: task_head(loaded, kind) for kind in kinds}
    return {name: head for name, head in heads.items() if not isinstance(head, str | None)}


@pytest.fixture
def bert() -> Iterator[tuple[Any, Any]]:
    torch.manual_seed(0)
    yield BertForMaskedLM(BertConfig(**SMALL)), tiny_tokenizer()


def test_a_model_in_the_midst_of_its_training_is_left_as_it_was(bert: tuple[Any, Any]) -> None:
    model, tokenizer = bert
    plain = scored(adopt(model, tokenizer))
    model.train()
    model.bert.encoder.layer[0].eval()  # as one that is frozen
    model.bert.embeddings.requires_grad_(False)
    output = model(
        torch.tensor([[2, 5, 6, 3]]), output_attentions=True
    )  # transformers installs hooks of its own
    output.logits.sum().backward()
    model.noted = output.logits  # with its graph, which nothing can copy
    ran: list[str] = []
    model.bert.pooler = None
    model.bert.encoder.layer[0].register_forward_hook(
        lambda *_: ran.append("the caller's own hook")
    )
    model.set_attn_implementation("eager")
    tokenizer.padding_side = "left"
    tokenizer("the cat", truncation=True, max_length=3, padding="max_length")
    before = state(model, tokenizer)
    assert same(scored(adopt(model, tokenizer)), plain)
    assert state(model, tokenizer) == before
    assert model.noted is output.logits and model.config._attn_implementation == "eager" and ran


@pytest.mark.parametrize("raised", [RuntimeError, KeyboardInterrupt])
def test_an_error_leaves_it_as_it_was_too(
    bert: tuple[Any, Any], raised: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, tokenizer = bert
    model.train()
    before = state(model, tokenizer)

    def fail(*_: Any, **__: Any) -> None:
        raise raised("stop")

    loaded = adopt(model, tokenizer)
    monkeypatch.setattr(type(loaded.model.encoder.layer[0].attention), "forward", fail)
    with pytest.raises(CaptureError if raised is RuntimeError else KeyboardInterrupt):
        scored(loaded)
    assert state(model, tokenizer) == before


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_it_runs_in_its_own_number_format(bert: tuple[Any, Any], name: str) -> None:
    model, tokenizer = bert
    exact = scored(adopt(model, tokenizer), predictive="off")
    model = model.to(getattr(torch, name))
    before = state(model, tokenizer)
    rounded = scored(adopt(model, tokenizer), predictive="off")
    assert rounded.signature.dtype == name and state(model, tokenizer) == before
    assert rounded.signature.fingerprint != exact.signature.fingerprint
    scores: list[np.ndarray[Any, Any]] = [
        result.scores.every_key.score for result in (rounded, exact)
    ]
    assert np.nanmax(np.abs(scores[0] - scores[1])) < 0.02


def tiny(**changes: Any) -> Any:
    return BertModel(BertConfig(**SMALL | changes))


def on_two_devices() -> Any:
    model = tiny()
    model.embeddings.to("meta")
    return model


def quantized() -> Any:
    with warnings.catch_warnings(action="ignore"):  # torch says that it will go
        return torch.ao.quantization.quantize_dynamic(tiny(), {torch.nn.Linear}, torch.qint8)


@pytest.mark.parametrize(
    ("model", "tokenizer", "kind", "message"),
    [
        (tiny, lambda: None, ModelError, "without its tokenizer; give tokenizer=, too"),
        (tiny, lambda: "bert-base-uncased", ModelError, "tokenizer is of the class str"),
        (
            tiny,
            lambda: tiny_tokenizer().backend_tokenizer,
            ModelError,
            "tokenizer is of the class Tokenizer",
        ),
        (lambda: torch.nn.Linear(2, 2), tiny_tokenizer, ModelError, "model is of the class Linear"),
        (
            lambda: torch.nn.DataParallel(tiny()),
            tiny_tokenizer,
            ModelError,
            "what a wrapper holds (model.module, ",
        ),
        (lambda: BertModel, tiny_tokenizer, ModelError, "model is of the class type"),
        (on_two_devices, tiny_tokenizer, DeviceError, "not on one device, but on cpu, meta"),
        (lambda: tiny().to("meta"), tiny_tokenizer, DeviceError, "not on one device, but on meta"),
        (quantized, tiny_tokenizer, ModelError, "the model is quantized"),
    ],
)
def test_what_is_no_model_with_its_tokenizer(
    model: Callable[[], Any], tokenizer: Callable[[], Any], kind: Any, message: str
) -> None:
    assert message in refusal(lambda: adopt(model(), tokenizer()), kind)


def _scaled(layer: Any) -> None:
    layer.register_forward_hook(lambda _module, _inputs, output: 2 * output)


def _shifted(layer: Any) -> None:
    layer.register_forward_pre_hook(lambda _module, inputs: (inputs[0] + 1, *inputs[1:]))


def _patched(layer: Any) -> None:
    forward = layer.forward
    layer.forward = lambda *inputs, **named: -forward(*inputs, **named)


@pytest.mark.parametrize("change", [_scaled, _shifted, _patched, torch.nn.Module.double])
def test_it_is_read_as_its_owner_has_changed_it(change: Callable[[Any], object]) -> None:
    torch.manual_seed(0)
    model = BertModel(
        BertConfig(**SMALL | {"num_hidden_layers": 3, "initializer_range": 0.5})
    ).eval()
    model.encoder.layer[1] = model.encoder.layer[2]  # shared
    for part in (model.embeddings.LayerNorm, model.encoder.layer[0].attention.output.dense):
        change(part)
    if next(model.embeddings.LayerNorm.parameters()).dtype == torch.float64:
        model.double()
    tokenizer = tiny_tokenizer()
    result = attnscan.classify("the cat sat", model=model, tokenizer=tokenizer, predictive="off")
    model.set_attn_implementation("eager")
    with torch.no_grad():
        shown = model(
            **tokenizer("the cat sat", return_tensors="pt"), output_attentions=True
        ).attentions
    assert result.attention is not None
    np.testing.assert_allclose(
        result.attention.weights, torch.cat(shown).float().numpy(), atol=1e-6
    )


def _compile_model(model: Any) -> Any:
    model.compile(backend="eager")
    return model._compiled_call_impl


def _compile_forward(model: Any) -> Any:
    model.forward = torch.compile(model.forward, backend="eager")
    return model.forward


def _compile_forward_of_a_layer(model: Any) -> Any:
    return _compile_forward(model.h[1])


@pytest.mark.parametrize(
    "compile_part", [_compile_model, _compile_forward, _compile_forward_of_a_layer]
)
def test_a_compiled_model_is_watched_and_stays_compiled(
    compile_part: Callable[[Any], Any],
) -> None:
    model = tiny_model("bloom", UNTAPPED["bloom"])
    tokenizer = tiny_tokenizer()

    def frame() -> pd.DataFrame:
        result = attnscan.classify(
            "the cat sat", model=model, tokenizer=tokenizer, predictive="off"
        )
        return result.to_frame()

    plain = frame()
    compiled = compile_part(model)
    assert frame().equals(plain)
    held = (model._compiled_call_impl, model.forward, model.h[1].forward)
    assert any(part is compiled for part in held)


def test_no_copy_of_it_is_made(bert: tuple[Any, Any]) -> None:
    """Whatever runs has the modules, weights and buffers of the caller's model."""
    model, tokenizer = bert
    model.stream = (number for number in range(3))  # which nothing can copy
    loaded = adopt(model, tokenizer)
    assert (
        loaded.model is model.bert
        and loaded.masked_lm.bert is model.bert
        and loaded.masked_lm.cls is not None
    )
    held = {values.data_ptr() for values in (*model.parameters(), *model.buffers())}
    assert {
        values.data_ptr()
        for values in (*loaded.with_task_head.parameters(), *loaded.with_task_head.buffers())
    } <= held
    with open_scanner(ScanOptions(), loaded) as scanner:
        before = sum(type(held) is BertModel for held in gc.get_objects())
        classify_input(scanner, PAIR)
        assert sum(type(held) is BertModel for held in gc.get_objects()) == before
    assert loaded.tokenizer is not tokenizer

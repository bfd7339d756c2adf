"""What a call of the library tells meanwhile, and how it ends: by its result, an error, or
Ctrl-C.
"""

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.tokenizers_of_kinds import whole_words
from support.toy_bert import save_toy_bert
from transformers import BertConfig, BertForMaskedLM

import attnscan
from attnscan.errors import InputError, ModelError, SelectionError
from attnscan.scan import pair_scan

A = "the cat sat on the mat ."
B = "a dog ran ."
TEXTS = [
    "the cat sat on the mat .",
    "a dog ran to the store .",
    "i went to the store .",
    "the dog sat .",
    "a cat ran .",
]


@pytest.fixture(scope="module")
def how(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    plan = {(0, 0): "next-word", (1, 1): "previous-word"}
    model = save_toy_bert(tmp_path_factory.mktemp("calls") / "toy", 2, 2, plan)
    return {"model": str(model), "predictive": "off"}


class Steps(list[tuple[str, int | None, int | None]]):
    """What a call says that it does."""

    def __call__(self, *step: Any) -> None:
        self.append(step)

    @property
    def doing(self) -> list[str]:
        return list(dict.fromkeys(doing for doing, _, _ in self))


def test_one_input_is_told_step_by_step(how: dict[str, Any]) -> None:
    steps = Steps()
    result = attnscan.classify(A, B, keep_attention=False, progress=steps, **how)
    assert steps.doing == ["looking for a model", f"loading {how['model']}", "scoring every head"]
    assert result.label[0, 0] == "next-word"
    assert result.attention is None


def test_unpredicted_words_are_told_from_unasked_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "attnscan")
    tokenizer = whole_words()
    sizes = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
    }
    model = BertForMaskedLM(
        BertConfig(vocab_size=len(tokenizer), initializer_range=1e-3, **sizes)
    ).eval()
    attnscan.heads(TEXTS, model=model, tokenizer=tokenizer)
    assert [line for line in caplog.messages if line.startswith("predictive was asked of ")]


def test_missing_models_and_heads_are_told_before_the_work(how: dict[str, Any]) -> None:
    steps = Steps()
    model = how["model"]
    with pytest.raises(ModelError, match="nowhere"):
        attnscan.compare(model, "./nowhere", TEXTS, progress=steps)
    assert steps.doing == ["looking for a model"]
    calls: list[Callable[[], object]] = [
        lambda: attnscan.ablate(TEXTS, heads="9-0", model=model, progress=steps),
        lambda: attnscan.explain("9-0", pairs=TEXTS, model=model, progress=steps),
        lambda: attnscan.similar(TEXTS, heads="9-0", model=model, progress=steps),
        lambda: attnscan.compare(model, model, TEXTS, heads="9-0", progress=steps),
    ]
    for call in calls:
        with pytest.raises(SelectionError):
            call()
    assert not any(done for _, done, _ in steps)


def test_several_inputs_are_answered_one_by_one(how: dict[str, Any]) -> None:
    results = attnscan.classify(pairs=iter(TEXTS), **how)
    assert next(results).units[1] == "the"
    assert len(list(results)) == len(TEXTS) - 1
    with pytest.raises(InputError, match="2: sentence A is empty"):
        list(attnscan.classify(pairs=[TEXTS[0], " "], **how))


def test_ctrl_c_keeps_what_is_done_in_the_state(
    how: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pair_scan, "_BATCHES_IN_WINDOW", (1, 1))
    monkeypatch.setattr(pair_scan, "_TOKENS_IN_WINDOW", 1)
    more = {**how, "batch_tokens": 12, "state": tmp_path / "state.npz"}

    def interrupt(doing: str, done: int | None, _: int | None) -> None:
        if doing == "scoring pairs" and done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attnscan.heads(TEXTS * 4, progress=interrupt, **more)
    steps = Steps()
    ranking = attnscan.heads(TEXTS * 4, progress=steps, **more)
    first, second, *_ = (done for _, done, _ in steps if done)
    assert first == 2 < second  # the third is of a window that was not done
    assert ranking.signature.pairs_read == len(TEXTS * 4)


def test_a_long_run_says_how_long_it_takes_and_what_is_faster(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "attnscan")
    pairs = [
        (f"the cat {word} sat", "a dog ran")
        for word in ["one", "two", "three", "four", "five", "six"]
    ]
    attnscan.heads(pairs, model="bundled", predictive="off")
    assert not [line for line in caplog.messages if "on this machine" in line]
    for predictive, says in (
        ("off", "1 minute .*"),
        ("auto", "3 minutes .*; with predictive off about 1"),
    ):
        caplog.clear()
        clock = iter(range(0, 99, 20))  # it is asked at the start, twice, and after all pairs
        monkeypatch.setattr(
            "attnscan.api.many_pairs.time", type("Clock", (), {"monotonic": clock.__next__})
        )
        attnscan.heads(pairs, model="bundled", predictive=predictive)
        said = [line for line in caplog.messages if "on this machine" in line]
        assert len(said) == 1
        assert re.fullmatch(f"this takes about {says}", said[0])

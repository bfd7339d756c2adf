"""What `repr` and `print` say of results: few lines that answer, whatever the model's size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny_checkpoints import SMALL, save
from transformers import BertConfig, BertForMaskedLM

import attnscan

PAIRS = [("the cat sat on the mat .", "the cat sat ."), ("the mat sat .", "the cat ."), ("the cat .", "the mat .")]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    torch.manual_seed(0)
    settings = SMALL | {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 8, "initializer_range": 0.5}
    model: Any = save(tmp_path_factory.mktemp("shown") / "bert", BertForMaskedLM(BertConfig(**settings)))
    one, given = PAIRS[0], {"model": model}
    return {
        "classify": attnscan.classify(*one, **given),
        "heads": attnscan.heads(PAIRS, **given),
        "Profile": attnscan.profile(pairs=PAIRS, **given),
        "Explanations": attnscan.explain("all", *one, **given),
        "Dependencies": attnscan.predictive(*one, **given),
        "Ablation": attnscan.ablate(PAIRS, each=True, draws=2, **given),
        "Similarity": attnscan.similar(PAIRS, **given),
        "Comparison": attnscan.compare(model, model, PAIRS),
    }


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("classify", ["labels: ", "[CLS] the cat sat"]),
        ("heads", ["labels: ", "best heads: next-word ", "3 pairs"]),
        ("Profile", ["the average head's attention: ", "next 0.", "3 pairs"]),
        ("Explanations", [" 0-0 (", "and 12 more"]),
        ("Dependencies", ["nats by the masked-LM head", " helps "]),
        ("Ablation", ["by masked-lm: 0-0 ", "3 pairs"]),
        ("Similarity", ["most alike", "3 pairs"]),
        ("Comparison", ["0 heads change their label", "heads matched by place", "3 pairs"]),
    ],
)
def test_a_result_says_its_answer_in_a_few_lines(results: dict[str, Any], name: str, says: list[str]) -> None:
    text = repr(results[name])
    assert str(results[name]) == text and text.startswith(f"{type(results[name]).__name__} of ")
    assert 2 <= len(text.splitlines()) <= 5 and max(map(len, text.splitlines())) <= 280
    assert all(each in text for each in says), text


def test_what_comes_from_outside_is_safe_and_short(results: dict[str, Any]) -> None:
    result = results["classify"]
    hostile = replace(
        result, units=("\x1b[31m\n",) + ("word",) * 500, signature=replace(result.signature, model="\u202e" + "m" * 500)
    )
    text = repr(hostile)
    assert "\x1b" not in text and "\u202e" not in text and len(text) < 1000 and len(text.splitlines()) == 3


def test_what_a_result_is_made_of_is_one_line_of_shapes(results: dict[str, Any]) -> None:
    result, ranking = results["classify"], results["heads"]
    parts = [result.attention, result.scores, result.scores.every_key, result.labels]
    parts += [results["Dependencies"].help, ranking.labels]
    for part in parts:
        text = repr(part)
        assert len(text.splitlines()) == 1 and len(text) < 4000 and f"{type(part).__name__}(" in text
    assert f"weights=<{list(result.attention.weights.shape)} float32>" in repr(result.attention)

"""Saved weights of an encoder-decoder: what is read from a file is what the model shows, and what BertViz takes."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import translator
from command_line import misuse, run
from numpy.testing import assert_allclose, assert_array_equal
from tokenizers_of_kinds import ending
from transformers import AutoTokenizer

import attnscan
from attnscan.errors import WeightsError

pytestmark = pytest.mark.usefixtures("quiet")
PAIR = ("the cat sat on the mat .", "the dog sat too")
READINGS = [("encoder", "predicts"), ("decoder", "predicts"), ("cross", "predicts"), ("cross", "reads")]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose decoder has another number of layers, and whose tokenizer cuts words into pieces."""
    return translator.random(tmp_path_factory.mktemp("model"), ending())


@pytest.fixture(scope="module")
def file(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `--save-weights` writes."""
    path = tmp_path_factory.mktemp("saved") / "kinds.npz"
    run("classify", *PAIR, "--model", str(model), "--attention", "cross", "--save-weights", str(path), "--csv")
    return path


@cache
def shown(model: Path) -> dict[str, Any]:
    """What a user of BertViz has: what transformers shows, layer by layer, and the tokens that were read."""
    tokenizer, output = AutoTokenizer.from_pretrained(model), translator.eager(model, *PAIR)
    kinds = {f"{kind}_attention": output[f"{kind}_attentions"] for kind in ("encoder", "decoder", "cross")}
    with_gradients = {name: tuple(one.clone().requires_grad_() for one in layers) for name, layers in kinds.items()}
    source, target = (tokenizer.tokenize(text) for text in PAIR)
    return {**with_gradients, "encoder_tokens": [*source, "</s>"], "decoder_tokens": ["<pad>", *target]}


def _stacked(arrays: dict[str, Any]) -> dict[str, Any]:
    """Layers as one array, which a file can hold."""
    return {n: v if n.endswith("tokens") else torch.stack(v).detach().numpy() for n, v in arrays.items()}


def check_same(ours: attnscan.HeadScores, model: Path, kind: Any, query: Any, **options: Any) -> None:
    """The scores of the model under the same names, labels by weight, units and attention with them."""
    asked = {"attention": kind, "query": query, "related": False, "predictive": "off", **options}
    theirs = attnscan.classify(*PAIR[: 1 if kind == "encoder" else 2], model=model, **asked)
    assert ours.scores.grid == theirs.scores.grid and ours.scores.patterns == theirs.scores.patterns
    for name in ("score", "chance", "n"):
        pair = [getattr(result.scores.every_key, name) for result in (ours, theirs)]
        assert_allclose(*pair, atol=2e-6, err_msg=name)
    assert_array_equal(ours.labels.follows, theirs.labels.follows)
    assert_allclose(ours.shown_attention.weights, theirs.shown_attention.weights, atol=1e-6)


@pytest.mark.parametrize(("kind", "query"), READINGS)
@pytest.mark.parametrize("unit", ["token", "word"])
def test_scores_of_a_file_are_those_of_the_model(model: Path, file: Path, kind: Any, query: Any, unit: str) -> None:
    check_same(attnscan.classify(weights=file, attention=kind, query=query, unit=unit), model, kind, query, unit=unit)


@pytest.mark.parametrize(("kind", "query"), READINGS)
@pytest.mark.parametrize("held", ["tensors", "arrays", "file"])
def test_what_bertviz_takes_is_taken(model: Path, kind: Any, query: Any, held: str, tmp_path: Path) -> None:
    given: Any = shown(model)
    if held == "arrays":
        given = {n: v if n.endswith("tokens") else v[:, 0] for n, v in _stacked(given).items()}
    elif held == "file":
        np.savez(path := tmp_path / "bertviz.npz", **_stacked(given))
        given = path
    ours = attnscan.classify(weights=given, attention=kind, query=query)
    check_same(ours, model, kind, query)
    if query == "predicts" and kind == "cross":
        assert ours.units[-1] == "[?]" and ours.sentence[-1] == -1  # nobody says what the last position predicts


def test_a_page_of_a_file_has_every_kind_that_is_asked_for(model: Path, file: Path, tmp_path: Path) -> None:
    np.savez(theirs := tmp_path / "bertviz.npz", **_stacked(shown(model)))
    page = tmp_path / "page.html"
    for weights in (file, theirs):
        for attention, letters in (("all", ("", "d", "c")), ("cross", ("c",))):
            run("report", "--weights", str(weights), "--attention", attention, "-o", str(page))
            held = re.findall(r'id="(?:\w+:)?weights-([dc]?)\d+-\d+"', page.read_text())
            assert tuple(dict.fromkeys(held)) == letters


def test_heads_of_a_file_are_shown_and_drawn_by_their_letters(file: Path, tmp_path: Path) -> None:
    for head in ("c1-0", "d1-0"):
        assert head in run("show", head, "--weights", str(file)).stdout
    for title, options in {
        "Cross": ("--kind", "head", "--heads", "c1-0"),
        "of decoder": ("--attention", "decoder"),
    }.items():
        run("plot", "--weights", str(file), *options, "-o", str(path := tmp_path / "picture.svg"))
        assert f"{title} attention" in path.read_text(encoding="utf-8")


def test_what_a_file_does_not_hold_is_one_line(model: Path, file: Path, tmp_path: Path) -> None:
    arrays = {name: held for name, held in shown(model).items() if name != "decoder_attention"}
    with pytest.raises(WeightsError, match="no array 'decoder_attention'; give attention='encoder' or cross"):
        attnscan.classify(weights=arrays, attention="decoder")
    (links := tmp_path / "links").write_text("0-0\n")
    asked = ["classify", "--weights", str(file), "--attention", "cross", "--alignments", str(links)]
    assert "leave out --model and --alignments" in misuse(*asked)

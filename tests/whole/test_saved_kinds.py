"""Saved weights of an encoder-decoder: what is read from a file is what the model shows, and what BertViz takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rectangles
import torch
import translator
from command_line import run
from numpy.testing import assert_allclose, assert_array_equal
from tokenizers_of_kinds import ending
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from translator import TRANSLATOR
from typer.testing import CliRunner

import attnscan
from attnscan.cli.app import app
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
    tokenizer = AutoTokenizer.from_pretrained(model)
    whole = AutoModelForSeq2SeqLM.from_pretrained(model, attn_implementation="eager").eval()
    source, labels = (tokenizer(text, return_tensors="pt").input_ids for text in PAIR)
    read = whole.prepare_decoder_input_ids_from_labels(labels=labels)
    output = whole(input_ids=source, decoder_input_ids=read, output_attentions=True)  # with gradients, as users forget
    return {
        **{f"{kind}_attention": output[f"{kind}_attentions"] for kind in ("encoder", "decoder", "cross")},
        "encoder_tokens": tokenizer.convert_ids_to_tokens(source[0]),
        "decoder_tokens": tokenizer.convert_ids_to_tokens(read[0]),
    }


def _stacked(arrays: dict[str, Any]) -> dict[str, Any]:
    """Layers as one array, which a file can hold."""
    return {n: v if n.endswith("tokens") else torch.stack(v).detach().numpy() for n, v in arrays.items()}


@cache
def of_model(model: Path, kind: Any, query: Any, **options: Any) -> attnscan.HeadScores:
    texts = PAIR if kind != "encoder" else PAIR[:1]
    asked = {"attention": kind, "query": query, "related": False, "predictive": "off"}
    return attnscan.classify(*texts, model=model, **asked, **options)


def check_same(ours: attnscan.HeadScores, theirs: attnscan.HeadScores) -> None:
    """The same scores under the same names, and labels by weight with them."""
    assert ours.scores.grid == theirs.scores.grid and ours.scores.patterns == theirs.scores.patterns
    for name in ("score", "chance", "n"):
        pair = [getattr(result.scores.every_key, name) for result in (ours, theirs)]
        assert_allclose(*pair, atol=2e-6, err_msg=name)
    assert_array_equal(ours.labels.follows, theirs.labels.follows)


@pytest.mark.parametrize(("kind", "query"), READINGS)
@pytest.mark.parametrize("unit", ["token", "word"])
def test_scores_of_a_file_are_those_of_the_model(model: Path, file: Path, kind: Any, query: Any, unit: str) -> None:
    ours = attnscan.classify(weights=file, attention=kind, query=query, unit=unit)
    theirs = of_model(model, kind, query, unit=unit)
    check_same(ours, theirs)
    assert ours.units == theirs.units
    assert_allclose(ours.shown_attention.weights, theirs.shown_attention.weights, atol=1e-6)


@pytest.mark.parametrize(("kind", "query"), READINGS)
@pytest.mark.parametrize("held", ["tensors", "arrays", "file"])
def test_what_bertviz_takes_is_taken(model: Path, kind: Any, query: Any, held: str, tmp_path: Path) -> None:
    arrays = shown(model)
    given: Mapping[str, Any] | Path = arrays
    if held != "tensors":
        stacked = _stacked(arrays)
        given = {n: v if n.endswith("tokens") else v[:, 0] for n, v in stacked.items()}
        if held == "file":
            given = tmp_path / "bertviz.npz"
            np.savez(given, **stacked)
    ours = attnscan.classify(weights=given, attention=kind, query=query)
    check_same(ours, of_model(model, kind, query))
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


def test_scores_of_a_file_are_those_of_plain_loops(tmp_path: Path) -> None:
    source, target, links = translator.pairs(1)[0]
    path = tmp_path / "toy.npz"
    attnscan.classify(source, target, model=TRANSLATOR, attention="decoder", save_weights=path)
    for query in ("predicts", "reads"):
        expected = rectangles.scores(TRANSLATOR, [(source, target, links)], query)
        scores = attnscan.classify(weights=path, attention="cross", query=query).scores
        assert set(scores.patterns) < set(rectangles.PATTERNS)
        for pattern in scores.patterns:
            for head in scores.grid:
                score, chance, n = expected[pattern, *head.place]
                place = (*head.place, scores.patterns.index(pattern))
                ours = [getattr(scores.every_key, name)[place] for name in ("score", "chance", "n")]
                assert_allclose(ours, [score, chance, n], atol=1e-6, err_msg=f"{pattern} of {head.name}")


def test_the_kinds_of_a_file_are_those_of_one_run(model: Path, file: Path) -> None:
    """Of `all` the encoder's attention is of the source, too, whether it is shown or saved."""
    options = ("--attention", "all", "--csv", "--no-related", "--predictive", "off", "-p", "delimiter")
    ours = run("classify", "--weights", str(file), *options).stdout.splitlines()
    theirs = run("classify", *PAIR, "--model", str(model), *options).stdout.splitlines()
    scores = [[line.split(",")[1:4] + line.split(",")[7:8] for line in lines] for lines in (ours, theirs)]
    assert scores[0] == scores[1] and len(ours) == 1 + 3 * 4 + 2 * 4 + 2 * 4


def test_a_file_without_the_kind_says_which_there_are(model: Path) -> None:
    arrays = {name: held for name, held in shown(model).items() if name != "decoder_attention"}
    with pytest.raises(WeightsError, match="no array 'decoder_attention'; give attention='encoder' or cross"):
        attnscan.classify(weights=arrays, attention="decoder")


def test_heads_of_a_file_are_shown_by_their_letters(file: Path) -> None:
    assert "c1-0" in run("show", "c1-0", "--weights", str(file)).stdout
    assert "d1-0" in run("show", "d1-0", "--weights", str(file)).stdout


def test_heads_of_a_file_are_drawn(file: Path, tmp_path: Path) -> None:
    for name, options in {"head": ("--kind", "head", "--heads", "c1-0"), "map": ("--attention", "decoder")}.items():
        run("plot", "--weights", str(file), *options, "-o", str(path := tmp_path / f"{name}.svg"))
        assert f"{'Cross' if name == 'head' else 'of decoder'} attention" in path.read_text(encoding="utf-8")


def test_gold_links_need_a_model(file: Path, tmp_path: Path) -> None:
    (links := tmp_path / "links").write_text("0-0\n")
    asked = ["classify", "--weights", str(file), "--attention", "cross", "--alignments", str(links)]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 2 and "leave out --model and --alignments" in result.stderr

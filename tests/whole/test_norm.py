"""`--by carried`, what heads carry, through every command, against plain arithmetic on what modules put out."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from command_line import A, B, run
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from reference import PATTERNS, Written, entropy, scores
from toy import HEAD_SIZE, VOCABULARY, save_toy_bert
from transformers import BertModel
from typer.testing import CliRunner

import attnscan
from attnscan.cli.app import app
from attnscan.model.sources import choose

PAIRS = [(A, B), ("The cat sat on the mat.", "The cat lay on the rug."), ("One sentence, and no more of it.", None)]
TEXT = ("the cat sat on the mat .", "a dog ran to the store .")


def _refused(*arguments: str) -> str:
    outcome = CliRunner().invoke(app, list(arguments))
    assert outcome.exit_code != 0
    return " ".join(outcome.output.replace("│", " ").split())


def _table(*arguments: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(run(*arguments, "--csv").stdout))


def _carried(a: str, b: str | None) -> tuple[Written, NDArray[np.float64], NDArray[np.float64]]:
    """The bundled model's carried weights and what its heads put out, from its modules alone.

    Shape: [layer, head, query, key] and [layer, head].
    """
    from transformers import AutoTokenizer

    place = choose("bundled").location
    tokenizer = AutoTokenizer.from_pretrained(place)
    model = BertModel.from_pretrained(place, attn_implementation="eager").eval()
    values: list[torch.Tensor] = []
    for layer in model.encoder.layer:
        layer.attention.self.value.register_forward_hook(
            lambda _m, _i, output: values.append(output[0].detach().double())
        )
    encoded = tokenizer(a, b, return_tensors="pt")
    with torch.no_grad():
        weights = model(**encoded, output_attentions=True).attentions
    tokens = tokenizer.convert_ids_to_tokens(encoded["input_ids"][0])
    segments = encoded["token_type_ids"][0].tolist()
    sentence = [-1 if token in ("[CLS]", "[SEP]") else s for token, s in zip(tokens, segments, strict=True)]
    words = [i for i, each in enumerate(sentence) if each >= 0]
    carried, output, even = [], [], []
    for layer, alpha, value in zip(model.encoder.layer, weights, values, strict=True):
        projection = layer.attention.output.dense.weight.detach().double()  # [hidden, heads x value]
        rows, lengths, evenly = [], [], []
        for head, matrix in enumerate(alpha[0].double()):
            part = slice(head * value.shape[1] // 12, (head + 1) * value.shape[1] // 12)
            transformed = value[:, part] @ projection[:, part].T
            row = matrix * transformed.norm(dim=-1)
            rows.append((row / row.sum(-1, keepdim=True)).numpy())
            shares = transformed.norm(dim=-1) / transformed.norm(dim=-1).sum()
            evenly.append(shares.expand(len(tokens), -1).numpy())  # what even attention would carry
            lengths.append(float((matrix @ transformed).norm(dim=-1)[words].mean()))
        carried.append(rows)
        even.append(evenly)
        output.append(np.array(lengths) / sum(lengths))
    return Written(tokens, sentence), np.array(carried), np.array(output), np.array(even)


@pytest.fixture(scope="module")
def by_hand() -> list[tuple[Written, NDArray[np.float64], NDArray[np.float64]]]:
    return [_carried(a, b) for a, b in PAIRS]


def test_scores_are_those_of_plain_loops_over_what_is_carried(by_hand: list) -> None:  # type: ignore[type-arg]
    pairs = [(a, b) if b else a for a, b in PAIRS]
    ranking = attnscan.heads(pairs, model="bundled", related=False, predictive="off", by="carried")  # type: ignore[arg-type]
    inputs = [written for written, *_ in by_hand]
    for words_only in (False, True):
        table = ranking.scores.table(words_only)
        for layer, head in np.ndindex(6, 12):
            expected = scores(inputs, [carried[layer, head] for _, carried, *_ in by_hand], words_only=words_only)
            by_chance = scores(inputs, [even[layer, head] for *_, even in by_hand], words_only=words_only)
            for pattern in PATTERNS:
                place = layer, head, ranking.scores.patterns.index(pattern)
                found = [getattr(table, name)[place] for name in ("score", "se", "n", "pairs")]
                score, _, *rest, _ = expected[pattern]
                assert_allclose(found, [score, *rest], atol=2e-6, err_msg=f"{layer}-{head} {pattern}")
                assert_allclose(
                    table.chance[place], by_chance[pattern][0], atol=2e-6, err_msg=f"{layer}-{head} {pattern}"
                )
    for layer, head in np.ndindex(6, 12):
        expected_entropy = entropy(inputs, [carried[layer, head] for _, carried, *_ in by_hand])
        assert ranking.scores.entropy[layer, head] == pytest.approx(expected_entropy, abs=1e-5)


def test_one_input_says_what_is_carried_beside_its_weights(by_hand: list) -> None:  # type: ignore[type-arg]
    asked = {"model": "bundled", "related": False, "predictive": "off"}
    by_weight, by_norm = (attnscan.classify(A, B, by=by, **asked) for by in ("weight", "carried"))  # type: ignore[arg-type]
    _, carried, output, _ = by_hand[0]
    assert by_weight.attention is not None
    assert_allclose(by_weight.output, output, atol=1e-6)
    assert_allclose(by_weight.attention.carried.weights, carried, atol=1e-6)
    assert_allclose(by_weight.attention.carried.weights.sum(-1), 1, atol=1e-5)
    assert (by_weight.with_reading("carried").label == by_norm.label).all()
    assert not (by_weight.label == by_norm.label).all()
    assert (by_norm.signature.by, by_weight.signature.by) == ("carried", "weight")
    assert_allclose(by_norm.scores.every_key.score, by_weight.with_reading("carried").scores.every_key.score)
    assert_allclose(by_weight.output.sum(1), 1)


@pytest.fixture(scope="module")
def resting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose one head looks at delimiters, which have no value, and a little at the previous word."""
    directory = save_toy_bert(tmp_path_factory.mktemp("resting") / "toy", 1, 2, {(0, 0): "previous-word"})
    model = BertModel.from_pretrained(directory)
    attention, size = model.encoder.layer[0].attention, 2 * HEAD_SIZE
    mean = 3 / size
    spread = (mean - mean**2) ** 0.5
    with torch.no_grad():
        attention.self.query.weight[:HEAD_SIZE] *= 37 / 40  # the previous word's logit is 37
        attention.self.query.bias[:HEAD_SIZE] *= 37 / 40
        attention.self.query.bias[HEAD_SIZE - 1] = 40 * HEAD_SIZE**0.5  # and a delimiter's 40
        for word, token in enumerate(VOCABULARY):
            special = token in ("[CLS]", "[SEP]")
            neuron = HEAD_SIZE - 1 if special else word
            to = attention.self.key if special else attention.self.value
            to.weight[neuron, word] = spread
            to.bias[neuron] += mean
        attention.self.key.bias[HEAD_SIZE - 1] = 2 * mean - mean  # two words share the neuron, and one is there
        attention.output.dense.weight.copy_(torch.eye(size))
    assert len(VOCABULARY) < HEAD_SIZE  # the words come first in what a layer reads
    model.save_pretrained(directory)
    return directory


def test_a_head_that_rests_is_told_from_one_that_takes(resting: Path) -> None:
    found = attnscan.classify(*TEXT, model=str(resting), related=False, predictive="off")
    assert found.label[0, 0] == "delimiter" and found.among_words[0, 0] == "previous-word"
    assert found.with_reading("carried").label[0, 0] == "previous-word"
    ranked = attnscan.heads([TEXT], model=str(resting), predictive="off", by="carried")
    by_pattern = dict(zip(ranked.scores.patterns, ranked.scores.every_key.score[0, 0], strict=True))
    assert by_pattern["previous-word"] > 0.99
    assert by_pattern["delimiter"] < 0.1
    assert by_pattern["delimiter"] < found.scores.every_key.score[0, 0, ranked.scores.patterns.index("delimiter")] - 0.8


def test_a_head_that_carries_nothing_is_scored_on_nothing(resting: Path) -> None:
    """The second head of the planted layer has no values at all."""
    found = attnscan.classify("the cat sat .", model=str(resting), predictive="off")
    carried = found.with_reading("carried")
    assert (carried.scores.every_key.n[0, 1] == 0).all()
    assert np.isnan(carried.scores.entropy[0, 1])
    assert carried.label[0, 1] == ""
    assert found.output[0].tolist() == [1, 0]
    assert found.attention is not None
    assert (found.attention.carried.weights[0, 1] == 0).all()
    classified = run("classify", "the cat sat .", "--model", str(resting), "--by=carried", "--csv").stdout
    assert "nan" not in classified.lower()
    assert "nan" not in run("show", "0-1", "the cat sat .", "--model", str(resting), "--by=carried").stdout.lower()


def test_words_merge_the_rows_that_carry_something(resting: Path) -> None:
    """By words, a piece that takes nothing leaves its word to the other pieces."""
    found = attnscan.classify(
        "straw##berries i bought .", model=str(resting), unit="word", by="carried", predictive="off"
    )
    table = found.scores.every_key
    assert (table.score[0, 0][table.n[0, 0] > 0] <= 1 + 1e-6).all()


class TestCommands:
    @pytest.fixture
    def one(self, resting: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
        monkeypatch.chdir(resting.parent)  # so that screens have room for the model's name
        return (*TEXT, "--model", resting.name)

    @pytest.fixture
    def over(self, one: tuple[str, ...], tmp_path: Path) -> tuple[str, ...]:
        pairs = tmp_path / "pairs.tsv"
        pairs.write_text("sentence_a\tsentence_b\n" + "\t".join(TEXT) + "\nthe cat sat .\tthe cat ran .\n")
        return ("--pairs", str(pairs), *one[2:])

    def test_csv_of_one_input_is_that_of_the_carried_table(self, one: tuple[str, ...]) -> None:
        plain, normed = (_table("classify", *one, *norm) for norm in ((), ("--by=carried",)))
        expected = attnscan.classify(*TEXT, model=one[-1], by="carried").to_frame()
        assert normed["label"].fillna("").tolist() == expected["label"].tolist()
        assert normed["delimiter"][0] < plain["delimiter"][0] / 2

    def test_the_signature_and_the_line_that_names_the_model_say_which(
        self, one: tuple[str, ...], over: tuple[str, ...]
    ) -> None:
        for command in (
            ("classify", *one),
            ("classify", "--all", *one),
            ("show", "0-0", *one),
            ("heads", *over, "--predictive", "off"),
            ("similar", *over),
            ("compare", one[-1], one[-1], *over[:2]),
        ):
            for norm in ("--by=carried",), ():
                first = " ".join(run(*command, *norm).stdout.splitlines()[:4])  # below what the screen is of
                assert ("by what heads carry" in first) == bool(norm), command
        for norm in ("--by=carried",), ():
            told = json.loads(run("classify", *one, "--format", "json", *norm).stdout)
            assert told["signature"]["by"] == ("carried" if norm else "weight")

    def test_what_is_shown_of_a_head_is_what_it_carries(self, one: tuple[str, ...], resting: Path) -> None:
        attention = attnscan.classify(*TEXT, model=str(resting), predictive="off").attention
        assert attention is not None
        shown = _table("show", "0-0", *one, "--by=carried")["weight"].to_numpy().reshape(attention.weights.shape[2:])
        assert_allclose(shown, attention.carried.weights[0, 0], atol=1e-6)

    def test_pictures_are_of_what_is_carried(self, one: tuple[str, ...], tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        for kind in (["scores"], ["layers"], ["head", "--heads", "0-0"]):
            for name, norm in (("a", ()), ("b", ("--by=carried",))):
                run("plot", *one, "--kind", *kind, "-o", str(tmp_path / f"{name}.svg"), *norm)
            assert (tmp_path / "a.svg").read_bytes() != (tmp_path / "b.svg").read_bytes(), kind

    def test_similar_and_compare_are_of_what_is_carried(self, resting: Path) -> None:
        model: Any = str(resting)
        for by, least, most in (("weight", 0.8, 1.0), ("carried", 0.0, 0.2)):
            frame = attnscan.compare(model, model, [TEXT], by=by).to_frame()
            assert least <= frame[frame["pattern"] == "delimiter"]["score_a"].max() <= most
        plain, normed = (attnscan.similar([TEXT], model=model, by=by).divergence[0, 1] for by in ("weight", "carried"))
        assert abs(plain - normed) > 0.05

    def test_a_state_of_the_one_is_not_gone_on_with_by_the_other(self, over: tuple[str, ...], tmp_path: Path) -> None:
        command = ("heads", *over, "--predictive", "off", "--state", str(tmp_path / "state"))
        run(*command, "--by=carried")
        assert "its by is carried, and here it is weight" in _refused(*command)
        assert "4 pairs" not in run(*command, "--by=carried").stdout

    def test_saved_weights_do_not_tell_it(self, one: tuple[str, ...], tmp_path: Path) -> None:
        path = str(tmp_path / "weights.npz")
        run("classify", *one, "--save-weights", path, "--csv")
        for command in (("classify",), ("show", "0-0")):
            assert "saved weights do not hold what heads carry" in _refused(*command, "--weights", path, "--by=carried")
        assert "leave it out, or --by" in _refused("classify", *one, "--by=carried", "--save-weights", path)

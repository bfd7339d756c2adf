"""What heads are worth: exactly, where one head alone carries the answer; and on trained models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from families import TAPPED, UNTAPPED, tiny_model
from toy import _tokenizer
from toy_mlm import CARRIER, LOSS, LOSS_WITHOUT, save_toy_mlm, sentence
from transformers import AutoModelForSequenceClassification, BertConfig, BertForNextSentencePrediction
from typer.testing import CliRunner, Result

from attnscan.cli import app
from attnscan.errors import CaptureError, InputError, ModelError
from attnscan.options import ScanOptions
from attnscan.pairs import Pair, Record, shipped_pairs
from attnscan.scanner import Scanner
from attnscan.selection import Head
from attnscan.studies.ablate import AblationOptions, ablate
from attnscan.studies.ablation import Ablation, Effect, Quantity
from attnscan.studies.effect_sums import EffectSums
from attnscan.studies.head_sets import HeadSet, named_sets, with_controls
from attnscan.studies.measures import with_second_of

LENGTHS = (3, 7, 5, 9, 4, 8)  # so that one word is hidden, and never two neighbours

DRAWS = 8


def _records(*pairs: Pair, label: str | None = None) -> Callable[[], Iterator[Record]]:
    return lambda: iter([Record(pair, "here", label) for pair in pairs])


@pytest.fixture(scope="module")
def chain() -> Callable[[], Iterator[Record]]:
    return _records(*(Pair(sentence(length)) for length in LENGTHS))


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scanner]:
    directory = save_toy_mlm(tmp_path_factory.mktemp("worth"))
    with Scanner(ScanOptions(model=str(directory), predictive="off")) as scanner:
        yield scanner


def _asked(*sets: HeadSet, measures: tuple[str, ...] = (), by: str = "zero") -> AblationOptions:
    return AblationOptions(sets, "by name", by, DRAWS, measures)  # type: ignore[arg-type]


def _sets(*heads: Head, width: int = 4) -> list[HeadSet]:
    return named_sets({f"{layer}-{head}": [(layer, head)] for layer, head in heads}, width, DRAWS, 0)


@pytest.fixture(scope="module")
def worth(toy: Scanner, chain: Callable[[], Iterator[Record]]) -> Ablation:
    return ablate(toy, chain, _asked(*_sets(CARRIER, (0, 1), (1, 1))))


def test_the_head_that_carries_the_answer_costs_the_analytic_amount_and_others_nothing(worth: Ablation) -> None:
    carrier, _, other_layer = worth.effects
    assert carrier.quantity.name == "masked-lm"
    assert carrier.intact == pytest.approx(LOSS, abs=1e-4)
    assert carrier.ablated == pytest.approx(LOSS_WITHOUT, abs=1e-4)
    assert carrier.control == pytest.approx(LOSS, abs=1e-4)
    assert carrier.effect == pytest.approx(LOSS_WITHOUT - LOSS, abs=1e-4)
    assert carrier.se == pytest.approx(0, abs=1e-4)
    assert (carrier.n, carrier.pairs) == (sum(max(1, round(0.15 * length)) for length in LENGTHS), len(LENGTHS))
    assert other_layer.effect == pytest.approx(0, abs=1e-5)


def test_a_head_whose_controls_hold_the_answer_is_worth_less_than_they(worth: Ablation) -> None:
    """Of the draws among three others, some are the carrier; the error says how uncertain that makes the effect."""
    useless = worth.effects[1]
    share = sum(CARRIER in control for control in useless.set.controls) / DRAWS
    assert 0 < share < 1
    assert useless.effect == pytest.approx(-share * (LOSS_WITHOUT - LOSS), abs=1e-4)
    draws = np.array([(CARRIER in control) * (LOSS_WITHOUT - LOSS) for control in useless.set.controls])
    assert useless.se == pytest.approx(draws.std(ddof=1) / DRAWS**0.5, abs=1e-4)


def test_a_heads_mean_says_as_little_as_nothing_does(toy: Scanner, chain: Callable[[], Iterator[Record]]) -> None:
    """The mean over all words names no single word, so the answer is lost; heads that put out nothing lose nothing."""
    carrier, idle = ablate(toy, chain, _asked(*_sets(CARRIER, (1, 1)), by="mean")).effects
    assert carrier.ablated > LOSS + 1
    assert idle.ablated == pytest.approx(LOSS, abs=1e-4)


@pytest.mark.parametrize("batch_tokens", [1, 20, 10_000])
def test_batches_and_shared_forwards_change_nothing(
    toy: Scanner, chain: Callable[[], Iterator[Record]], worth: Ablation, batch_tokens: int
) -> None:
    other = ablate(toy.with_options(batch_tokens=batch_tokens), chain, _asked(*_sets(CARRIER, (0, 1), (1, 1))))
    for one, again in zip(worth.effects, other.effects, strict=True):
        for name in ("intact", "ablated", "control", "effect", "se"):
            assert getattr(again, name) == pytest.approx(getattr(one, name), abs=1e-5)


@pytest.mark.parametrize("by", ["zero", "mean"])
def test_a_batch_that_the_accelerator_has_no_room_for_is_halved(
    toy: Scanner, chain: Callable[[], Iterator[Record]], of_little_memory: Any, by: str
) -> None:
    asked = _asked(*_sets(CARRIER, (0, 1)), by=by)
    expected = ablate(toy, chain, asked)
    with of_little_memory(toy.loaded.model, 6) as sizes:
        found = ablate(toy, chain, asked)
    assert max(sizes) > 6
    for one, again in zip(expected.effects, found.effects, strict=True):
        assert again.effect == pytest.approx(one.effect, abs=1e-5) and again.n == one.n


def test_effects_of_the_sums_are_those_of_the_formula() -> None:
    rng = np.random.default_rng(0)
    n = rng.integers(1, 6, 40).astype(float)
    sums = rng.random((40, 4)) * n[:, None]
    kept = EffectSums(4, [(1, (2, 3)), (1, ())])
    kept.add(sums[:25], n[:25])
    kept.add(sums[25:], n[25:])
    control, effect, se = kept.effect(0)
    difference = sums[:, 1] - sums[:, 2:].mean(1)
    means = sums[:, 2:].sum(0) / n.sum()
    assert control == pytest.approx(means.mean())
    assert effect == pytest.approx(difference.sum() / n.sum())
    variance = ((difference - effect * n) ** 2).sum() / n.sum() ** 2 + means.var(ddof=1) / 2
    assert se == pytest.approx(variance**0.5)
    assert np.isnan(kept.effect(1)).all()


def test_controls_are_as_many_heads_of_the_same_layers() -> None:
    heads = [(0, 1), (0, 2), (2, 0)]
    found = with_controls("x", heads, 12, 20, 0)
    for control in found.controls:
        assert [layer for layer, _ in control] == [0, 0, 2] and len(set(control)) == 3
        assert not set(control) & set(heads)
    assert found.overlap == 0 and len(set(found.controls)) > 10
    assert with_controls("x", heads, 12, 20, 0) == found != with_controls("x", heads, 12, 20, 1)


def test_controls_of_crowded_layers_share_heads_with_the_set_and_say_so() -> None:
    found = with_controls("x", [(0, 0), (0, 1), (0, 2), (1, 0)], 4, 20, 0)
    assert all({(0, 3)} < set(control) for control in found.controls)
    assert found.overlap == pytest.approx(2 / 4)
    assert with_controls("x", [(0, head) for head in range(4)], 4, 20, 0).controls == ()


# Other measures


def _saved(directory: Path, model: torch.nn.Module) -> str:
    model.save_pretrained(directory)  # type: ignore[operator]
    _tokenizer().save_pretrained(directory)
    return str(directory)


def _config(**more: object) -> BertConfig:
    from toy import VOCABULARY

    torch.manual_seed(3)
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 16}
    return BertConfig(vocab_size=len(VOCABULARY), max_position_embeddings=40, initializer_range=0.8, **small, **more)


PAIRS = [
    Pair("the cat sat", "a dog ran"),
    Pair("i went to the store", "the mat"),
    Pair("the dog", "a cat sat on a mat"),
]


def test_a_classifiers_divergence_and_accuracy(tmp_path: Path) -> None:
    config = _config(num_labels=3, id2label={0: "yes", 1: "no", 2: "maybe"}, label2id={"yes": 0, "no": 1, "maybe": 2})
    whole = AutoModelForSequenceClassification.from_config(config).eval()
    model = _saved(tmp_path / "classifier", whole)
    everything = HeadSet("all", tuple((layer, head) for layer in range(2) for head in range(4)))
    with Scanner(ScanOptions(model=model, predictive="off")) as scanner:
        found = ablate(scanner, _records(*PAIRS, label="No"), _asked(everything, *_sets((0, 1))))
        with pytest.raises(InputError, match="pair 1 has the label 'never', and the model knows yes, no, maybe"):
            ablate(scanner, _records(*PAIRS, label="never"), _asked(*_sets((0, 1))))
        inputs = [scanner.encode(pair).model_inputs for pair in PAIRS]
    divergence, _, accuracy, _ = found.effects
    before, after = (_probabilities(whole, inputs, off) for off in (False, True))
    expected = (before * (before / after).log()).sum(-1).mean()
    assert (divergence.intact, divergence.n) == (0, 3)
    assert divergence.ablated == pytest.approx(float(expected), abs=1e-5) and divergence.ablated > 0.01
    assert accuracy.quantity.larger_is_better
    assert accuracy.intact == pytest.approx(float((before.argmax(-1) == 1).float().mean()))


def _probabilities(whole: torch.nn.Module, inputs: list[dict[str, list[int]]], off: bool) -> torch.Tensor:
    from copy import deepcopy

    whole = deepcopy(whole)
    if off:
        for layer in whole.bert.encoder.layer:  # type: ignore[union-attr]
            layer.attention.output.dense.weight.data.zero_()
    with torch.no_grad():
        logits = [whole(**{k: torch.tensor([v]) for k, v in one.items()}).logits[0] for one in inputs]
    return torch.stack(logits).softmax(-1)


def test_next_sentences_are_told_from_others(tmp_path: Path) -> None:
    model = _saved(tmp_path / "nsp", BertForNextSentencePrediction(_config()).eval())
    with Scanner(ScanOptions(model=model, predictive="off")) as scanner:
        found = ablate(scanner, _records(*PAIRS, Pair("a cat")), _asked(*_sets((0, 1))))
        inputs = [scanner.encode(pair) for pair in (*PAIRS, Pair("a cat"))]
    effect = found.effects[0]
    assert effect.quantity.name == "next-sentence" and effect.n == 6  # a pair and its other one; a single sentence none
    spliced = with_second_of(inputs[0], inputs[1], 512)
    assert spliced.tokens == ("[CLS]", "the", "cat", "sat", "[SEP]", "the", "mat", "[SEP]")
    assert spliced.model_inputs["token_type_ids"] == [0, 0, 0, 0, 0, 1, 1, 1]
    assert len(with_second_of(inputs[0], inputs[2], 8).tokens) == 8


def test_without_a_task_head_the_vector_of_the_input_counts(tmp_path: Path) -> None:
    for family in ("bert", "gpt2", "modernbert"):
        model = _saved(tmp_path / family, tiny_model(family, TAPPED[family]))
        with Scanner(ScanOptions(model=model, predictive="off")) as scanner:
            found = ablate(scanner, _records(*PAIRS), _asked(*_sets((0, 1), (2, 0))))
            with pytest.raises(ModelError, match="masked-lm cannot be measured"):
                ablate(scanner, _records(*PAIRS), _asked(*_sets((0, 1)), measures=("masked-lm",)))
        assert [effect.quantity.name for effect in found.effects] == ["cls", "cls"]
        assert all(effect.ablated > 0 and effect.intact == 0 for effect in found.effects)


def test_an_architecture_beside_the_tap_is_refused(tmp_path: Path) -> None:
    model = _saved(tmp_path / "deberta", tiny_model("deberta-v2", UNTAPPED["deberta-v2"]))
    with (
        Scanner(ScanOptions(model=model, predictive="off")) as scanner,
        pytest.raises(CaptureError, match="switched off"),
    ):
        ablate(scanner, _records(*PAIRS), _asked(*_sets((0, 1))))


def test_no_pair_is_an_error(toy: Scanner) -> None:
    for by in ("zero", "mean"):
        with pytest.raises(InputError, match="there is no pair"):
            ablate(toy, _records(), _asked(*_sets(CARRIER), by=by))


# The command


def _run(*arguments: str, stdin: str | None = None) -> Result:
    runner = CliRunner(env={"COLUMNS": "80", "ATTNSCAN_MODEL": "bundled"})
    return runner.invoke(app, ["ablate", *arguments], input=stdin)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("pairs") / "few.csv"
    rows = [record.pair for record, _ in zip(shipped_pairs(), range(6), strict=False)]
    path.write_text("sentence_a,sentence_b\n" + "".join(f'"{pair.a}","{pair.b}"\n' for pair in rows))
    return str(path)


def test_each_pattern_has_a_row_and_one_without_heads_says_so(few: str) -> None:
    result = _run("--pairs", few, "--predictive", "off", "--draws", "2")
    assert result.exit_code == 0, result.output
    text = result.stdout
    assert "cls  1 − cosine  intact 0.000  n 6" in text
    rows = {
        line.split()[1]: line for line in text.splitlines() if line[:2] in ("N ", "P ", "I ", "X ", "W ", "D ", "B ")
    }
    assert len(rows) == 6 and "no head" in rows["identical"]
    assert all(len(line) <= 80 for line in text.splitlines())


def test_the_best_heads_of_a_pattern_as_json(few: str) -> None:
    result = _run(
        "--pairs", few, "--pattern", "previous-word", "--top", "2", "--draws", "2", "-f", "json", "--predictive", "off"
    )
    found = json.loads(result.stdout)
    row = found["rows"][0]
    assert found["members"]["previous-word"].startswith("0-2") and row["heads"] == 2
    assert row["effect"] == pytest.approx(row["ablated"] - row["control"], abs=2e-6)
    assert found["chosen_by"] == "the 2 most above chance"


def test_each_head_in_turn_runs_every_set_once(few: str) -> None:
    header, *rows = _run("--pairs", few, "--heads", "layer:0", "--each", "--draws", "2", "--csv").stdout.splitlines()
    assert header == "model,set,heads,measure,intact,ablated,control,effect,se,overlap,n,pairs"
    assert [row.split(",")[1] for row in rows] == [f"0-{head}" for head in range(12)]


@pytest.mark.parametrize("arguments", [["--heads", "0-2,1-8"], ["--heads", "layer:0", "--each"]])
@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_pictures(few: str, arguments: list[str], suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"worth.{suffix}"
    result = _run("--pairs", few, *arguments, "--draws", "2", "-o", str(path))
    assert result.exit_code == 0, result.output
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG" if suffix == "png" else b"<?xml")
    assert suffix == "png" or b"cls: " in content


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--heads", "9-0"], 1, "9-0: this model has layers 0 to 5"),
        (["--heads", "x"], 1, "'x' names no head"),
        (["--heads", "0-0", "-p", "identical"], 2, "choose by a scan"),
        (["-p", "predictive", "--predictive", "off"], 2, "leaves no heads"),
        (["--measure", "bleu"], 2, "no measure 'bleu'"),
        (["--measure", "masked-lm", "--heads", "0-0"], 1, "masked-lm cannot be measured with bundled"),
        (["--pairs", "-"], 1, "standard input can be read only once, and this takes 2 passes; name a file"),
        (["--heads", "0-0", "-o", "x.gif"], 1, "cannot tell the format"),
    ],
)
def test_what_cannot_be_ablated(arguments: list[str], code: int, message: str) -> None:
    result = _run(*arguments, stdin="sentence_a,sentence_b\na,b\n")
    assert result.exit_code == code
    assert message in " ".join(result.stderr.split()) and not result.stdout


def test_standard_input_is_enough_for_named_heads() -> None:
    result = _run("--pairs", "-", "--heads", "0-2", "--draws", "2", "--csv", stdin="text\nthe cat sat\na dog\n")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1].endswith(",2,2")


def test_accuracy_that_falls_is_a_loss() -> None:
    one = Effect(HeadSet("x", ((0, 0),)), Quantity("next-sentence", "accuracy", True), 1, 0.5, 0.75, -0.25, 0, 1, 1)
    assert one.loss == 0.25
    assert replace(one, quantity=Quantity("masked-lm", "nats")).loss == -0.25

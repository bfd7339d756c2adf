"""What heads are worth: sets and controls, what a model loses, exactly where one head does all."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats
from support.ablation_effects import saved_with_tokenizer
from support.families import TAPPED, tiny_model
from support.toy_bert import VOCABULARY, save_toy_bert
from support.toy_mlm import CARRIER, LOSS, LOSS_WITHOUT, save_toy_mlm, sentence
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertForNextSentencePrediction,
)

from attnscan.errors import InputError, ModelError
from attnscan.inputs.sentence import Pair, Record
from attnscan.results.ablation import Ablation, HeadSet, Quantity
from attnscan.results.choices import Replacement
from attnscan.results.grid import Grid, Head
from attnscan.results.scores import FloatArray
from attnscan.scan.options import AblationRequest, ScanOptions
from attnscan.scan.scanner import Scanner, open_scanner
from attnscan.scan.state import half
from attnscan.scoring.blocks import error, residuals
from attnscan.studies.ablation import (
    _effect,
    ablate,
    requested_sets,
    sum_repeated,
    with_controls,
)
from attnscan.studies.losses import Loss, losses_of

LENGTHS = (3, 7, 5, 9, 4, 8)  # so that one word is hidden, and never two neighbours
PAIRS = [
    Pair("the cat sat", "a dog ran"),
    Pair("i went to the store", "the mat"),
    Pair("the dog", "a cat sat on a mat"),
]


def reader_of(*pairs: Pair, label: str | None = None) -> Callable[[], Iterator[Record]]:
    return lambda: iter([Record(pair, "here", label) for pair in pairs])


def each_of(
    *heads: Head, measures: tuple[str, ...] = (), replace: Replacement = "zero"
) -> AblationRequest:
    names = ",".join(head.name for head in heads)
    return AblationRequest(heads=names, each=True, draws=8, measures=measures, replace=replace)


@pytest.fixture(scope="module")
def chain() -> Callable[[], Iterator[Record]]:
    return reader_of(*(Pair(sentence(length)) for length in LENGTHS))


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scanner]:
    directory = save_toy_mlm(tmp_path_factory.mktemp("worth"))
    with open_scanner(ScanOptions(model=str(directory), predictive="off")) as scanner:
        yield scanner


@pytest.fixture(scope="module")
def worth(toy: Scanner, chain: Callable[[], Iterator[Record]]) -> Ablation:
    return ablate(toy, chain, each_of(CARRIER, Head(0, 1), Head(1, 1)))


def test_the_head_that_carries_the_answer_costs_what_it_should(
    worth: Ablation,
) -> None:
    carrier, _, other_layer = worth.effects
    assert carrier.quantity.name == "masked-lm"
    assert carrier.intact == pytest.approx(LOSS, abs=1e-4)
    assert carrier.ablated == pytest.approx(LOSS_WITHOUT, abs=1e-4)
    assert carrier.control == pytest.approx(LOSS, abs=1e-4)
    assert carrier.effect == pytest.approx(LOSS_WITHOUT - LOSS, abs=1e-4)
    assert carrier.se == pytest.approx(0, abs=1e-4)
    assert (carrier.n, carrier.pairs) == (
        sum(max(1, round(0.15 * length)) for length in LENGTHS),
        len(LENGTHS),
    )
    assert other_layer.effect == pytest.approx(0, abs=1e-5)
    assert [(effect.rank, effect.p) for effect in worth.effects] == [(1, 1 / 4), (4, 1), (4, 1)]


def test_a_head_without_the_answer_is_worth_less_than_its_controls(worth: Ablation) -> None:
    """Of its layer's three others, all of which were taken, one is the carrier."""
    useless = worth.effects[1]
    assert useless.set.controls == ((Head(0, 0),), (Head(0, 2),), (Head(0, 3),))
    assert useless.others == pytest.approx((LOSS_WITHOUT, LOSS, LOSS), abs=1e-4)
    assert useless.effect == pytest.approx(-(LOSS_WITHOUT - LOSS) / 3, abs=1e-4)
    assert useless.spread == pytest.approx((LOSS_WITHOUT - LOSS) / 3**0.5, abs=1e-4)
    assert useless.se == pytest.approx((LOSS_WITHOUT - LOSS) / 3, abs=1e-4)


def test_a_heads_mean_says_as_little_as_nothing_does(
    toy: Scanner, chain: Callable[[], Iterator[Record]]
) -> None:
    """The mean over all words names no single word, so the answer is lost.

    Heads that put out nothing lose nothing.
    """
    carrier, idle = ablate(toy, chain, each_of(CARRIER, Head(1, 1), replace="mean")).effects
    assert carrier.ablated > LOSS + 1
    assert idle.ablated == pytest.approx(LOSS, abs=1e-4)


@pytest.mark.parametrize("batch_tokens", [1, 20, 10_000])
def test_batches_and_shared_forwards_change_nothing(
    toy: Scanner, chain: Callable[[], Iterator[Record]], worth: Ablation, batch_tokens: int
) -> None:
    other = ablate(
        toy.with_options(batch_tokens=batch_tokens), chain, each_of(CARRIER, Head(0, 1), Head(1, 1))
    )
    for one, again in zip(worth.effects, other.effects, strict=True):
        for name in ("intact", "ablated", "control", "effect", "se", "spread", "rank"):
            assert getattr(again, name) == pytest.approx(getattr(one, name), abs=1e-5)


def test_no_pair_is_an_error(toy: Scanner) -> None:
    for replacement in ("zero", "mean"):
        with pytest.raises(InputError, match=r"no pair (can be measured|to average heads over)"):
            ablate(toy, reader_of(), each_of(CARRIER, replace=replacement))


@pytest.mark.parametrize("replace", ["zero", "mean"])
def test_heads_that_a_scan_chose_are_measured_on_the_other_half(
    toy: Scanner, replace: Replacement
) -> None:
    pairs = [Pair(sentence(length)) for length in range(3, 15)]
    measured = [pair for pair in pairs if half(pair, 0) == 1]
    chosen = ablate(toy, reader_of(*pairs), AblationRequest(("previous-word",), replace=replace))
    (effect,) = chosen.effects
    assert effect.set.heads == (CARRIER,)
    assert (chosen.choosing_pairs, chosen.measured_pairs) == (
        len(pairs) - len(measured),
        len(measured),
    )
    assert effect.pairs == len(measured) and chosen.signature.pairs_read == len(pairs)
    named = ablate(toy, reader_of(*measured), AblationRequest(heads="0-0", replace=replace))
    assert (named.choosing_pairs, named.measured_pairs) == (0, len(measured))
    assert (effect.intact, effect.ablated) == pytest.approx(
        (named.effects[0].intact, named.effects[0].ablated)
    )
    assert effect.n == named.effects[0].n


def _se(sums: FloatArray) -> float:
    """The error of a set beside its controls. Shape: [pair, set], the set first."""
    controls = tuple((Head(0, number),) for number in range(1, sums.shape[1]))
    off = HeadSet("x", (Head(0, 0),), controls, len(controls))
    n = np.ones(len(sums))
    return _effect(off, Quantity("x", "nats"), np.column_stack([n, sums]), n, len(sums)).se


def test_the_error_is_of_pairs_and_of_controls() -> None:
    """The set costs each pair so much more than its controls, which cost every pair the same."""
    losses = np.array([1.0, 1.5, 1.25])
    difference = np.array([0.5, 0.75, 0.25])
    sums = np.column_stack([difference + losses.mean(), np.tile(losses, (3, 1))])
    by_pair = float(error(residuals(difference, np.ones(3))))
    assert _se(sums) == pytest.approx((by_pair**2 + 0.25**2 / 3) ** 0.5)
    assert np.isnan(_se(sums[:, :2])) and np.isnan(
        _se(sums[:1])
    )  # one control, or one pair, tells of no spread


def test_repeated_pairs_make_no_interval_narrower() -> None:
    """Three pairs, given four times: three distinct ones, so t has two degrees of freedom."""
    off = HeadSet("x", (Head(0, 0),), ((Head(0, 1),), (Head(0, 2),)), 2)
    sums = np.array([[1.0, 3.0, 1.5, 1.0], [1.0, 2.0, 1.0, 1.5], [1.0, 2.5, 1.0, 1.0]])
    n = np.ones(3)
    once = _effect(off, Quantity("x", "nats"), sums, n, 3)
    keys = [*"abc"] * 4
    distinct = sum_repeated(keys, np.tile(sums, (4, 1)))
    often = _effect(off, Quantity("x", "nats"), distinct, sum_repeated(keys, np.ones(12)), 12)
    assert often.se == pytest.approx(once.se) and once.se > 0
    assert often.interval == pytest.approx(stats.t.ppf(0.975, 2) * once.se)
    assert (once.pairs, often.pairs, often.n) == (3, 12, 12)


PLANTED_PAIRS = [
    Pair("the cat sat on the mat", "a dog ran"),
    Pair("i went to the store", "i bought a cat"),
    Pair("a dog ran to the cat", "the mat"),
    Pair("the store", "i sat on a mat"),
    Pair("the dog bought a mat", "i ran"),
    Pair("a cat went on", "the dog sat"),
]
read_planted = reader_of(*PLANTED_PAIRS)
WIDTH = 5
LAYERS = 3
GRID = Grid((LAYERS, WIDTH))
some_heads = st.lists(st.sampled_from(list(GRID)), unique=True, max_size=8)


def in_half(which: int, *pairs: Pair) -> list[Pair]:
    return [pair for pair in pairs if half(pair, 0) == which]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scanner]:
    plan = {(0, 1): "next-word", (1, 0): "previous-word", (1, 2): "next-word"}
    directory = save_toy_bert(tmp_path_factory.mktemp("planted") / "toy", 2, 3, plan)
    with open_scanner(ScanOptions(model=str(directory), predictive="off")) as scanner:
        yield scanner


@pytest.mark.parametrize(
    ("request_of", "names"),
    [
        (AblationRequest(heads="0-1,1-2"), ["0-1,1-2"]),
        (AblationRequest(heads="layer:1", each=True), ["1-0", "1-1", "1-2"]),
        (AblationRequest(each=True), ["0-0", "0-1", "0-2", "1-0", "1-1", "1-2"]),
    ],
)
def test_heads_that_are_named_are_taken_without_a_scan(
    planted: Scanner, request_of: AblationRequest, names: list[str]
) -> None:
    def unread() -> Iterator[Any]:
        raise AssertionError

    found, chosen_by, seen = requested_sets(planted, unread, request_of)
    assert [chosen.name for chosen in found] == names and (chosen_by, seen.read) == ("by name", 0)
    assert all(list(chosen.heads) == planted.grid().select(chosen.name) for chosen in found)


def test_heads_that_follow_patterns_are_found_by_a_scan(planted: Scanner) -> None:
    request = AblationRequest(("previous-word", "next-word"), draws=2)
    steps: list[Any] = []
    telling = replace(planted, progress=lambda *step: steps.append(step))
    found, chosen_by, seen = requested_sets(telling, read_planted, request)
    assert [(chosen.name, chosen.heads) for chosen in found] == [
        ("next-word", (Head(0, 1), Head(1, 2))),
        ("previous-word", (Head(1, 0),)),
    ]
    choosing = in_half(0, *PLANTED_PAIRS)
    assert chosen_by == "label, 0.25 above chance" and steps[-1][1] == seen.read == len(choosing)
    assert (
        ablate(planted, read_planted, request).measured_pairs
        == len(PLANTED_PAIRS) - len(choosing)
        > 0
    )


def test_heads_that_another_pattern_labels_are_no_controls(planted: Scanner) -> None:
    """Layer 1 has one head beside those of two patterns, layer 0 two beside next-word's."""
    sets = {one.name: one for one in requested_sets(planted, read_planted, AblationRequest())[0]}
    assert sets["next-word"].controls == ((Head(0, 0), Head(1, 1)), (Head(0, 2), Head(1, 1)))
    assert sets["previous-word"].controls == ((Head(1, 1),),)
    named = requested_sets(planted, read_planted, AblationRequest(heads="1-0"))[0][0]
    assert named.controls == ((Head(1, 1),), (Head(1, 2),))


def test_of_each_pattern_that_is_scored_the_best_heads(planted: Scanner) -> None:
    found, chosen_by, _ = requested_sets(planted, read_planted, AblationRequest(top=1))
    assert chosen_by == "the 1 most above chance"
    best = {chosen.name: chosen.heads for chosen in found}
    assert best["previous-word"] == (Head(1, 0),) and len(best["next-word"]) == 1
    assert len(best) == 6 and "predictive" not in best  # which nobody asked the model for


@pytest.mark.parametrize(
    ("which", "what"), [(0, "no pair can be measured"), (1, "chooses the heads, and no pair fell")]
)
def test_a_half_without_pairs_is_an_error(planted: Scanner, which: int, what: str) -> None:
    pairs = in_half(which, *PLANTED_PAIRS)
    for request in (AblationRequest(), AblationRequest(top=1)):
        with pytest.raises(
            InputError, match=f"{what}.*; give more pairs, or name heads with heads"
        ):
            ablate(planted, reader_of(*pairs), request)
    assert ablate(planted, reader_of(*pairs), AblationRequest(heads="0-0")).measured_pairs == len(
        pairs
    )


@given(some_heads, some_heads, st.integers(1, 40), st.integers(0, 3))
@example(heads=[Head(0, head) for head in range(4)], barred=[], draws=40, seed=0)
def test_controls_are_drawn_of_all_that_could_be(
    heads: list[Head], barred: list[Head], draws: int, seed: int
) -> None:
    """As many heads of each layer as the set has: others, or the set's where these are few."""
    found = with_controls("x", heads, GRID, draws, seed, barred)
    choices = []
    shared = 0
    for layer in range(LAYERS):
        members = [head for head in heads if head.layer == layer]
        others = [head for head in GRID.select(f"layer:{layer}") if head not in (*heads, *barred)]
        short = max(0, len(members) - len(others))
        drawn = itertools.combinations(others, len(members) - short)
        filled = itertools.combinations(members, short)
        choices.append([(*some, *rest) for some, rest in itertools.product(drawn, filled)])
        shared += short
    possible = {tuple(sorted(itertools.chain(*choice))) for choice in itertools.product(*choices)}
    possible.discard(tuple(sorted(heads)))
    assert found.possible == len(possible) and set(found.controls) <= possible
    assert len(set(found.controls)) == len(found.controls) == min(draws, found.possible)
    if found.controls:
        assert found.overlap * len(heads) == pytest.approx(shared)


def _config(**more: object) -> BertConfig:
    torch.manual_seed(3)
    small = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 16,
    }
    return BertConfig(
        vocab_size=len(VOCABULARY),
        max_position_embeddings=40,
        initializer_range=0.8,
        **small,
        **more,
    )


def test_a_classifiers_divergence_and_accuracy(tmp_path: Path) -> None:
    config = _config(
        num_labels=3,
        id2label={0: "yes", 1: "no", 2: "maybe"},
        label2id={"yes": 0, "no": 1, "maybe": 2},
    )
    whole = AutoModelForSequenceClassification.from_config(config).eval()
    model = saved_with_tokenizer(tmp_path / "classifier", whole)
    with open_scanner(ScanOptions(model=model, predictive="off")) as scanner:
        found = ablate(scanner, reader_of(*PAIRS, label="No"), AblationRequest(heads="all"))
        alone = ablate(scanner, reader_of(*PAIRS, label="No"), each_of(Head(0, 1)))
        with pytest.raises(
            InputError, match="here has the label 'never', and the model knows yes, no, maybe"
        ):
            ablate(scanner, reader_of(*PAIRS, label="never"), each_of(Head(0, 1)))
        assert (
            ablate(scanner, reader_of(*PAIRS, label="-"), each_of(Head(0, 1))).effects[1].n == 0
        )  # nobody agreed
        inputs = [scanner.encode(pair).model_inputs for pair in PAIRS]
    divergence, accuracy = found.effects
    probabilities = []
    for _ in range(2):  # before and after
        with torch.no_grad():
            logits = []
            for model_inputs in inputs:
                tensors = {name: torch.tensor([ids]) for name, ids in model_inputs.items()}
                logits.append(whole(**tensors).logits[0])
        probabilities.append(torch.stack(logits).softmax(-1))
        for layer in whole.bert.encoder.layer:
            layer.attention.output.dense.weight.data.zero_()
    before, after = probabilities
    expected = (before * (before / after).log()).sum(-1).mean()
    assert (divergence.intact, divergence.n) == (0, 3)
    assert (
        divergence.ablated == pytest.approx(float(expected), abs=1e-5) and divergence.ablated > 0.01
    )
    assert accuracy.quantity.larger_is_better
    assert accuracy.intact == pytest.approx(float((before.argmax(-1) == 1).float().mean()))
    assert (
        0 < alone.effects[0].ablated != divergence.ablated
        and alone.effects[1].intact == accuracy.intact
    )


def test_next_sentences_are_told_from_others(tmp_path: Path) -> None:
    model = saved_with_tokenizer(tmp_path / "nsp", BertForNextSentencePrediction(_config()).eval())
    with open_scanner(ScanOptions(model=model, predictive="off")) as scanner:
        found = ablate(scanner, reader_of(*PAIRS, Pair("a cat")), each_of(Head(0, 1)))
        inputs = [scanner.encode(pair) for pair in (*PAIRS, Pair("a cat"))]
        loss = losses_of(scanner.loaded, ["next-sentence"], 0, {})["next-sentence"]
        assert isinstance(loss, Loss)
        questions = loss.questions(inputs)
    assert [question.input.tokens for question in questions[:3]] == [
        encoded.tokens for encoded in inputs[:3]
    ]
    assert [question.truth for question in questions] == [(0,)] * 3 + [
        (1,)
    ] * 3  # as the head is trained: 0 follows
    effect = found.effects[0]
    assert (
        effect.quantity.name == "next-sentence" and effect.n == 6
    )  # a pair and its other one; a single sentence none
    pairs = {question.input.known_pair.texts for question in questions[:3]}
    others = {question.input.known_pair.texts for question in questions[3:]}
    assert {a for a, _ in others} == {a for a, _ in pairs} and {b for _, b in others} == {
        b for _, b in pairs
    }
    assert not pairs & others


@pytest.mark.parametrize("family", ["bert", "gpt2", "modernbert"])
def test_without_a_task_head_the_vector_of_the_input_counts(tmp_path: Path, family: str) -> None:
    model = saved_with_tokenizer(tmp_path, tiny_model(family, TAPPED[family]))
    with open_scanner(ScanOptions(model=model, predictive="off")) as scanner:
        found = ablate(scanner, reader_of(*PAIRS), each_of(Head(0, 1), Head(2, 0)))
        with pytest.raises(ModelError, match="masked-lm cannot be measured"):
            ablate(scanner, reader_of(*PAIRS), each_of(Head(0, 1), measures=("masked-lm",)))
    assert [effect.quantity.name for effect in found.effects] == ["cls", "cls"]
    assert all(effect.ablated > 0 and effect.intact == 0 for effect in found.effects)

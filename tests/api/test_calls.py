"""What a call of the library tells meanwhile, and how it ends: by its result, an error, or Ctrl-C."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_results import SIGNATURE as UNREAD
from toy import save_toy_bert

import attnscan
from attnscan.api.pairs import one_input, pairs_input
from attnscan.errors import AttnscanError, InputError, ModelError, OptionError, PairsError, SelectionError, WeightsError
from attnscan.inputs.read import shipped_pairs
from attnscan.inputs.sentence import Pair
from attnscan.scan import local
from attnscan.scan.options import note_inputs
from attnscan.scan.scanner import Scanner

A, B = "the cat sat on the mat .", "a dog ran ."
TEXTS = [
    "the cat sat on the mat .",
    "a dog ran to the store .",
    "i went to the store .",
    "the dog sat .",
    "a cat ran .",
]
SIGNATURE = replace(UNREAD, pairs_read=9)


@pytest.fixture(scope="module")
def how(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    plan = {(0, 0): "next-word", (1, 1): "previous-word"}
    model = save_toy_bert(tmp_path_factory.mktemp("calls") / "toy", 2, 2, plan)
    return {"model": str(model), "predictive": "off"}


class Told(list[tuple[str, int | None, int | None]]):
    """What a call says that it does."""

    def __call__(self, *step: Any) -> None:
        self.append(step)

    @property
    def doing(self) -> list[str]:
        return list(dict.fromkeys(doing for doing, _, _ in self))


def test_one_input(how: dict[str, Any]) -> None:
    told = Told()
    result = attnscan.classify(A, B, keep_attention=False, progress=told, **how)
    assert told.doing == ["looking for a model", f"loading {how['model']}", "scoring every head"]
    assert result.label[0, 0] == "next-word" and result.attention is None


def test_many_pairs_with_a_bad_one(how: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    told, bad = Told(), list[InputError]()
    with caplog.at_level(logging.INFO, "attnscan"):
        attnscan.heads([" ", *TEXTS], progress=told, on_bad=bad.append, **how)
    assert told.doing[2:] == ["scoring pairs"] and told[-1] == ("scoring pairs", 5, 6)
    assert len(bad) == 1 and caplog.messages == ["1 bad record was skipped"]


def test_unknown_words_are_noted_and_some_are_named(how: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "attnscan")
    for sentence, said in (
        ("the ☃ cat and ☃", "3 words of the input are unknown to the model, which reads [UNK] instead: ☃, and"),
        (" ".join(["the", *"☃𓀀𓀁𓀂𓀃𓀄𓀅"]), "7 words of the input are unknown to the model, which reads [UNK] "),
    ):
        attnscan.classify(sentence, **how)
        attnscan.explain("0-0", sentence, **how)
        attnscan.predictive(sentence, **{**how, "predictive": "distance"})
        assert len(caplog.messages) == 3 and all(line.startswith(said) for line in caplog.messages)
        last = caplog.messages[-1]
        caplog.clear()
    assert last.endswith("𓀃 and 2 others")


def test_which_model_stands_in_for_the_default_is_noted(
    how: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from attnscan.model import sources

    choose = sources.choose
    monkeypatch.setattr(sources, "choose", lambda name: replace(choose(name), note="another one"))
    with caplog.at_level(logging.INFO, "attnscan"):
        attnscan.load(how["model"])
    assert caplog.messages == ["another one"]


def test_one_input_is_encoded_once(how: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Pair] = []
    encode = Scanner.encode

    def counted(self: Scanner, pair: Pair, *options: Any) -> Any:
        encoded.append(pair)
        return encode(self, pair, *options)

    monkeypatch.setattr(Scanner, "encode", counted)
    attnscan.classify(A, B, **how)
    attnscan.explain("0-0", A, B, **how)
    assert encoded.count(Pair(A, B)) == 2


def test_both_models_are_looked_for_before_the_first_is_loaded(how: dict[str, Any]) -> None:
    told = Told()
    with pytest.raises(ModelError, match="nowhere"):
        attnscan.compare(how["model"], "./nowhere", TEXTS, progress=told)
    assert told.doing == ["looking for a model"]


def test_heads_that_are_not_there_are_told_before_the_work(how: dict[str, Any]) -> None:
    told, model = Told(), how["model"]
    calls: list[Callable[[], object]] = [
        lambda: attnscan.similar(TEXTS, heads="9-0", model=model, progress=told),
        lambda: attnscan.compare(model, model, TEXTS, heads="9-0", progress=told),
    ]
    for call in calls:
        with pytest.raises(SelectionError):
            call()
    assert not any(done for _, done, _ in told)


def test_weights_need_no_model() -> None:
    arrays = {"attention": np.full((1, 2, 3, 3), 1 / 3), "tokens": ["[CLS]", "cat", "[SEP]"], "segments": [0, 0, 0]}
    assert attnscan.classify(weights=arrays, name="mine").signature.model == "mine"
    with pytest.raises(WeightsError):
        attnscan.classify(weights={})


def test_several_inputs_are_answered_one_by_one(how: dict[str, Any]) -> None:
    results = attnscan.classify(pairs=iter(TEXTS), **how)
    assert next(results).units[1] == "the" and len(list(results)) == len(TEXTS) - 1
    with pytest.raises(InputError, match="there is no pair to score"):
        list(attnscan.classify(pairs=[], **how))


def test_errors_are_raised_as_they_are_and_leave_no_model_in_use(how: dict[str, Any]) -> None:
    loaded = attnscan.load(how["model"])
    with pytest.raises(AttnscanError):
        attnscan.heads([" "], model=loaded)
    with pytest.raises(SelectionError):
        attnscan.ablate(TEXTS, heads="9-9", model=loaded)
    assert attnscan.classify(A, model=loaded, predictive="off").label[0, 0] == "next-word"


def test_ctrl_c_keeps_what_is_done_in_the_state(
    how: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(local, "_BATCHES_IN_WINDOW", (1, 1))
    monkeypatch.setattr(local, "_TOKENS_IN_WINDOW", 1)
    more = {**how, "batch_tokens": 12, "state": tmp_path / "state.npz"}

    def interrupt(doing: str, done: int | None, _: int | None) -> None:
        if doing == "scoring pairs" and done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attnscan.heads(TEXTS * 4, progress=interrupt, **more)
    told = Told()
    ranking = attnscan.heads(TEXTS * 4, progress=told, **more)
    assert next(done for _, done, _ in told if done) > 2  # the third is of a window that was not done
    assert ranking.signature.pairs_read == len(TEXTS * 4)


@pytest.mark.parametrize(
    ("changes", "bad", "length", "said"),
    [
        ({}, 0, None, []),
        ({"read_by": "file"}, 0, 5, []),
        ({"read_by": "watch"}, 0, None, []),
        ({"pairs_truncated": 1}, 0, 12, ["the input was cut to the 12 tokens that the model reads"]),
        ({"pairs_truncated": 2}, 0, None, ["2 of 9 inputs were cut to what the model reads"]),
        (
            {"pairs_truncated": 1, "pairs_skipped": 3},
            4,
            None,
            [
                "4 bad records were skipped",
                "1 of 9 inputs were cut to what the model reads",
                "3 of 9 inputs were skipped",
            ],
        ),
    ],
)
def test_what_is_noted_of_inputs(
    changes: dict[str, Any], bad: int, length: int | None, said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "attnscan"):
        note_inputs([replace(SIGNATURE, **changes)], bad=bad, length=length)
    assert caplog.messages == said


def test_of_two_models_the_first_counts(caplog: pytest.LogCaptureFixture) -> None:
    other = replace(SIGNATURE, model="other", pairs_skipped=2)
    with caplog.at_level(logging.INFO, "attnscan"):
        note_inputs([other, SIGNATURE], bad=1)
    assert caplog.messages == ["1 bad record was skipped", "2 of 9 inputs were skipped"]


@pytest.fixture
def bad_file(tmp_path: Path) -> str:
    """Five bad records among seven."""
    path = tmp_path / "bad.csv"
    path.write_text("text,label\na cat,yes\n" + " ,no\n" * 5 + "a dog,no\n")
    return str(path)


class TestPairsThatAreRead:
    def test_bad_records_are_told_and_counted_once(self, bad_file: str) -> None:
        told: list[InputError] = []
        pairs = pairs_input(bad_file, on_bad=told.append, labels=())
        for _ in range(2):
            assert [(record.pair.a, record.label) for record in pairs.read()] == [("a cat", "yes"), ("a dog", "no")]
        assert pairs.bad == len(told) == 5
        pairs.skip(InputError("bad.csv:2: no word"))  # what only a later pass finds
        assert pairs.bad == len(told) == 6

    def test_a_bad_record_ends_the_run_unless_it_is_to_be_skipped(self, bad_file: str) -> None:
        with pytest.raises(PairsError, match=r"bad\.csv:3"):
            list(pairs_input(bad_file).read())

    def test_without_files_the_pairs_are_those_that_attnscan_ships(self) -> None:
        assert list(pairs_input(None).read()) == list(shipped_pairs()) and pairs_input(None).how_many() == 102

    @pytest.mark.parametrize(("path", "name"), [("-", "standard input"), ("/dev/null", "/dev/null")])
    def test_what_can_be_read_once_is_not_read_twice(self, path: str, name: str) -> None:
        pairs = pairs_input(path)
        assert pairs.ready() is pairs
        with pytest.raises(PairsError, match=f"{name} can be read only once, and this takes 3 passes; name a file"):
            pairs.ready(3, "name a file")

    def test_what_is_wrong_with_the_first_record_is_said_at_once(self, bad_file: str) -> None:
        with pytest.raises(PairsError, match="there is no column 'x'"):
            pairs_input(bad_file, {"columns": "x"}).ready()
        with pytest.raises(PairsError, match="check the path"):
            pairs_input("x" * 5000 + ".csv").ready().read()

    def test_an_iterator_is_held_for_several_passes(self) -> None:
        pairs = pairs_input(iter(["a cat", "a dog"]), labels=["yes"]).sources().ready(2)
        for _ in range(2):
            assert [(record.pair.a, record.label) for record in pairs.read()] == [("a cat", "yes"), ("a dog", None)]

    def test_one_pair_is_one_record(self) -> None:
        pairs = one_input(Pair("a cat", "a dog"))
        assert [record.pair for record in pairs.read()] == [pairs.single] and pairs.how_many() == 1

    def test_how_files_are_read_is_of_no_sentence(self, how: dict[str, Any]) -> None:
        for given in ({"columns": "a"}, {"header": False}, {"quoting": "csv"}, {"on_bad": print}):
            with pytest.raises(OptionError, match="is for pairs"):
                attnscan.classify(A, **given, **how)

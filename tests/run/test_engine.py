"""What a run tells and in which order, and how it ends: by its result, an error, Ctrl-C or because nobody listens."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pandas.testing import assert_frame_equal

from attnscan.errors import AttnscanError, InputError, ModelError, SelectionError, WeightsError
from attnscan.inputs.frames import objects_in
from attnscan.inputs.sentence import Pair
from attnscan.model.loaded import LoadedModel
from attnscan.results.classification import Classification
from attnscan.results.explanation import Explanations
from attnscan.run import requests
from attnscan.run.engine import run
from attnscan.run.events import Loading, Note, Progress, Result, Skipped
from attnscan.run.reading import ObjectPairs
from attnscan.scan.options import AblationRequest, ScanOptions
from attnscan.scan.scanner import Scanner

PAIR = Pair("the cat sat on the mat .", "a dog ran .")
TEXTS = [
    "the cat sat on the mat .",
    "a dog ran to the store .",
    "i went to the store .",
    "the dog sat .",
    "a cat ran .",
]


def pairs_of(texts: list[Any] = TEXTS, *, skip_bad: bool = False) -> ObjectPairs:
    return ObjectPairs(objects_in(texts), skip_bad)


def value_of(request: requests.Request, scanner: Scanner | None = None) -> Any:
    *_, last = run(request, scanner)
    assert isinstance(last, Result)
    return last.value


class TestWhatIsTold:
    def test_one_input(self, options: ScanOptions, toy: Path) -> None:
        looking, loading, scoring, result = run(requests.Classify(PAIR, options))
        assert [looking, loading, scoring] == [
            Progress("looking for a model"),
            Loading(str(toy)),
            Progress("scoring every head"),
        ]
        assert isinstance(result, Result) and isinstance(result.value, Classification)
        assert result.value.label[0, 0] == "next-word" and result.value.attention is None

    def test_many_pairs_with_a_bad_one(self, options: ScanOptions) -> None:
        events = list(run(requests.Rank(pairs_of([" ", *TEXTS], skip_bad=True), options)))
        assert [event.doing for event in events if isinstance(event, Progress)] == [
            "looking for a model",
            *["scoring pairs"] * 2,
            "ranking heads",
        ]
        assert Progress("scoring pairs", 5) in events
        assert [type(event) for event in events if isinstance(event, Skipped | Note)] == [Skipped, Note]
        assert Note("1 bad record was skipped") in events

    def test_unknown_words_are_noted_and_some_are_named(self, options: ScanOptions) -> None:
        for sentence, said in (
            ("the ☃ cat and ☃", "3 words of the input are unknown to the model, which reads [UNK] instead: ☃, and"),
            (" ".join(["the", *"☃𓀀𓀁𓀂𓀃𓀄𓀅"]), "7 words of the input are unknown to the model, which reads [UNK] "),
        ):
            pair = Pair(sentence)
            for request in (
                requests.Classify(pair, options),
                requests.Explain(pair, options, heads="0-0"),
                requests.Predictive(pair, replace(options, predictive="distance")),
            ):
                *_, note, result = run(request)
                assert isinstance(note, Note) and note.text.startswith(said) and isinstance(result, Result)
        assert isinstance(note, Note) and note.text.endswith("𓀃 and 2 others")

    def test_which_model_stands_in_for_the_default_is_noted(
        self, options: ScanOptions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from attnscan.model import sources

        choose = sources.choose
        monkeypatch.setattr(sources, "choose", lambda name: replace(choose(name), note="another one"))
        _, note, *_ = run(requests.Load(options))
        assert note == Note("another one")


class TestOpening:
    def test_one_input_is_encoded_once(self, options: ScanOptions, monkeypatch: pytest.MonkeyPatch) -> None:
        encoded: list[Pair] = []
        encode = Scanner.encode

        def counted(self: Scanner, pair: Pair, options: ScanOptions | None = None) -> Any:
            encoded.append(pair)
            return encode(self, pair, options)

        monkeypatch.setattr(Scanner, "encode", counted)
        value_of(requests.Classify(PAIR, options, keep=True))
        value_of(requests.Explain(PAIR, options, heads="0-0"))
        assert encoded.count(PAIR) == 2

    def test_a_model_that_is_open_is_used_and_left_open(self, options: ScanOptions) -> None:
        with Scanner(options) as scanner:
            events = list(run(requests.Rank(pairs_of(), replace(options, model="./nowhere")), scanner))
            assert not any(isinstance(event, Loading) for event in events)
            scanner.score([scanner.encode(PAIR)])

    def test_a_model_in_memory_is_the_one_that_is_run(self, options: ScanOptions) -> None:
        loaded = value_of(requests.Load(options))
        assert isinstance(loaded, LoadedModel)
        memory = requests.InMemory(loaded)
        a, b = (
            value_of(requests.Classify(PAIR, o, m))
            for o, m in ((options, None), (ScanOptions(predictive="off"), memory))
        )
        assert_frame_equal(a.to_frame(), b.to_frame())

    def test_both_models_are_looked_for_before_the_first_is_loaded(self, options: ScanOptions) -> None:
        request = requests.Compare(pairs_of(), (options, replace(options, model="./nowhere")))
        told: list[object] = []
        with pytest.raises(ModelError, match="nowhere"):
            told.extend(run(request))
        assert not any(isinstance(event, Loading) for event in told)

    @pytest.mark.parametrize("study", [requests.Similar, requests.Compare])
    def test_heads_that_are_not_there_are_told_before_the_work(self, study: Any, options: ScanOptions) -> None:
        asked = (options, options) if study is requests.Compare else options
        told: list[Any] = []
        with pytest.raises(SelectionError):
            told.extend(run(study(pairs_of(), asked, heads="9-0")))
        assert not any(isinstance(event, Progress) and event.done for event in told)


class TestEnd:
    def test_weights_need_no_model(self) -> None:
        arrays = {"attention": np.full((1, 2, 3, 3), 1 / 3), "tokens": ["[CLS]", "cat", "[SEP]"], "segments": [0, 0, 0]}
        given = requests.WeightsInput(arrays, "mine")
        assert value_of(requests.Classify(given, ScanOptions())).signature.model == "mine"
        with pytest.raises(WeightsError):
            value_of(requests.Classify(replace(given, weights={}), ScanOptions()))

    def test_a_token_is_asked_about(self, options: ScanOptions) -> None:
        result = value_of(requests.Explain(PAIR, options, heads="0-0", token="dog"))
        assert isinstance(result, Explanations) and set(result.to_frame()["query_token"]) == {"dog"}

    def test_several_inputs_are_answered_one_by_one(self, options: ScanOptions) -> None:
        events = run(requests.ClassifyEach(pairs_of(), options))
        answers = [event for event in events if hasattr(event, "record")]
        assert [answer.record.pair.a for answer in answers] == TEXTS
        assert [answer.signature.pairs_read for answer in answers] == [1, 2, 3, 4, 5]
        with pytest.raises(InputError, match="there is no pair to score"):
            list(run(requests.ClassifyEach(pairs_of([]), options)))

    @pytest.mark.parametrize("closed_at", range(4))
    def test_a_run_that_nobody_listens_to_leaves_nothing_open(self, options: ScanOptions, closed_at: int) -> None:
        with Scanner(options) as scanner:
            events = run(requests.Rank(pairs_of(), options, requests.InMemory(scanner.loaded)))
            for _ in range(closed_at):
                next(events)
            events.close()
            assert scanner.loaded.in_use.acquire(blocking=False)
            scanner.loaded.in_use.release()

    def test_errors_go_through(self, options: ScanOptions) -> None:
        for request in (
            requests.Rank(pairs_of([" "]), options),
            requests.Ablate(pairs_of(), options, sets=AblationRequest(heads="9-9")),
            requests.Load(replace(options, model="./nowhere")),
        ):
            with pytest.raises(AttnscanError):
                list(run(request))


class TestCtrlC:
    def test_a_scan_keeps_what_is_done_in_its_state(
        self, options: ScanOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        from attnscan.scan import local

        monkeypatch.setattr(local, "_BATCHES_IN_WINDOW", (1, 1))
        monkeypatch.setattr(local, "_TOKENS_IN_WINDOW", 1)
        request = requests.Rank(pairs_of(TEXTS * 4), replace(options, batch_tokens=12), state=tmp_path / "state.npz")
        with pytest.raises(KeyboardInterrupt), closing(run(request)) as events:
            for event in events:
                if event == Progress("scoring pairs", 3):
                    raise KeyboardInterrupt
        told = list(run(request))
        (first, *_) = (event.done for event in told if isinstance(event, Progress) and event.done)
        assert first > 2  # the third is of a window that was not done
        assert isinstance(told[-1], Result) and told[-1].value.signature.pairs_read == len(TEXTS * 4)

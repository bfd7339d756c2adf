"""Every function of many pairs takes them in every shape, and tells what it does while it runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from tiny_checkpoints import SMALL, refusal, save
from transformers import BertConfig, BertForMaskedLM

import attnscan
from attnscan.api.arguments import PairsInput, _paths_in, pairs_input
from attnscan.errors import InputError, PairsError

A, B = "the cat sat on the mat .", "the cat sat ."
PAIRS = [(A, B), (B, A), (A, A), ("the mat .", B), (A, "the mat ."), (B, "cat on mat .")]
FRAME = pd.DataFrame(PAIRS, columns=["premise", "hypothesis"]).assign(key=list("abcdef"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    settings = SMALL | {"num_hidden_layers": 2, "hidden_size": 32, "initializer_range": 0.5}
    return save(tmp_path_factory.mktemp("source") / "bert", BertForMaskedLM(BertConfig(**settings)))


CALLS: dict[str, Callable[..., Any]] = {
    "heads": lambda pairs, model, **given: attnscan.heads(pairs, model=model, **given),
    "profile": lambda pairs, model, **given: attnscan.profile(pairs=pairs, model=model, **given),
    "explain": lambda pairs, model, **given: attnscan.explain([(0, 1)], pairs=pairs, model=model, **given),
    "ablate": lambda pairs, model, **given: attnscan.ablate(
        pairs, heads=[(0, 1)], draws=2, replace="mean", model=model, **given
    ),
    "similar": lambda pairs, model, **given: attnscan.similar(pairs, model=model, **given),
    "compare": lambda pairs, model, **given: attnscan.compare(model, model, pairs, match="nearest", **given),
}
each = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@each
def test_a_table_is_scored_by_its_rows(call: Callable[..., Any], model: Path) -> None:
    expected = call(PAIRS, model).to_frame()
    pd.testing.assert_frame_equal(call(FRAME, model).to_frame(), expected)
    pd.testing.assert_frame_equal(call(iter([FRAME[:2], FRAME[2:]]), model).to_frame(), expected)
    b_alone = call(FRAME.to_dict("records"), model, columns="hypothesis").to_frame()
    pd.testing.assert_frame_equal(b_alone, call([b for _, b in PAIRS], model).to_frame())


@each
def test_a_bad_pair_is_told_of_once_and_left_out(call: Callable[..., Any], model: Path) -> None:
    frame = pd.concat([FRAME[:2], pd.DataFrame({"premise": [None, "\u200b"], "hypothesis": [B, B]}), FRAME[2:]])
    for pairs in (frame, iter(frame[["premise", "hypothesis"]].to_dict("records"))):
        bad: list[InputError] = []
        found = call(pairs, model, on_bad=bad.append)
        assert [error.what.partition(":")[0] for error in bad] == ["row 3", "row 4"]
        pd.testing.assert_frame_equal(found.to_frame(), call(PAIRS, model).to_frame())
    assert refusal(lambda: call(frame, model), PairsError).startswith("row 3: sentence A is missing")


@each
def test_how_far_it_is(call: Callable[..., Any], model: Path) -> None:
    told: list[tuple[str, int | None, int | None]] = []
    call(FRAME, model, progress=lambda *step: told.append(step))
    last = {doing: (done, total) for doing, done, total in told}
    of_pairs = [step for doing, step in last.items() if doing.endswith(("pairs", "models")) and step[0] is not None]
    assert of_pairs and all(done == 6 and total in (6, None) for done, total in of_pairs)


@each
@pytest.mark.parametrize("error", [TypeError("mine"), KeyboardInterrupt()])
def test_what_a_function_raises_ends_the_run_as_it_is(
    call: Callable[..., Any], model: Path, error: BaseException
) -> None:
    def fail(*_: object) -> None:
        raise error

    for pairs, name in ((PAIRS, "progress"), ([(" ", B), *PAIRS], "on_bad")):
        with pytest.raises(type(error)) as caught:
            call(pairs, model, **{name: fail})
        assert caught.value is error


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (A, "check the path"),
        (5, "pairs is of the class int"),
        ({"a": A}, "give a list of dicts, or a dict of lists"),
        (pd.DataFrame({"a": [A], "b": [B]}), "the columns are 'a', 'b', and none is known"),
        ([None], "row 1: it is no text, list or object"),
        ([(A, B, A)], "row 1: it has 3 cells"),
        (pd.DataFrame({"text": []}), "there is no pair"),
    ],
)
def test_what_are_no_pairs(pairs: Any, message: str, model: Path) -> None:
    with pytest.raises(InputError, match=message):
        attnscan.heads(pairs, model=model)


def _pairs(pairs: Any, columns: Any = None, id: Any = None, labels: Any = None, *, skip_bad: bool = False) -> Any:
    return pairs_input(pairs, {"columns": columns, "skip_bad": skip_bad}, id=id, labels=labels)


def test_files_are_told_from_texts(tmp_path: Path) -> None:
    for given, paths in (
        ("pairs.csv", ("pairs.csv",)),
        (tmp_path, (str(tmp_path),)),
        (["a.csv", tmp_path / "b"], ("a.csv", str(tmp_path / "b"))),
        (("s3://bucket/*", "a.parquet"), ("s3://bucket/*", "a.parquet")),
    ):
        assert _paths_in(given) == paths
    for texts in (["It is in a.csv", "and so on."], iter(["a.csv"]), [("a.csv", "b.csv")], pd.Series(["a.csv"])):
        assert _paths_in(texts) is None and isinstance(_pairs(texts), PairsInput)


def test_labels_go_with_their_pairs() -> None:
    def labels(pairs: Any, given: Any) -> list[str | None]:
        source = _pairs(pairs, labels=given, skip_bad=True).ready(2)
        once, again = ([record.label for record in source.read()] for _ in range(2))
        assert once == again
        return once

    assert labels(iter(PAIRS[:3]), iter(["yes", "no"])) == ["yes", "no", None]
    assert labels([A, " ", B], ["yes", "no", "maybe"]) == ["yes", "maybe"]
    assert labels(FRAME.assign(label=range(6))[:2], ()) == ["0", "1"]
    assert labels(FRAME.assign(label=range(6))[:2], ["x", "y"]) == ["x", "y"]


def test_scores_of_pairs_say_whose_they_are(model: Path, tmp_path: Path) -> None:
    path, rows = tmp_path / "pairs.csv", tmp_path / "scores.parquet"
    FRAME.to_csv(path, index=False)
    for pairs in (FRAME, path):
        attnscan.heads(pairs, model=model, predictive_pairs=2, id="key", per_pair=rows)
        scores = pd.read_parquet(rows)
        assert sorted(set(zip(scores["pair"], scores["id"], strict=True))) == list(enumerate("abcdef", 1))
        assert set(scores["file"]) == {str(path) if pairs is path else ""}
        assert scores[scores["pattern"] == "predictive"]["pair"].nunique() == 2  # of a sample of pairs alone


def test_how_files_are_read_is_said_or_warned_of(tmp_path: Path) -> None:
    path, options = tmp_path / "p.tsv", {"columns": [3], "model": "bundled", "pattern": ["next-word"]}
    path.write_text('gj04\t1\t"Is it ""so""?"\ngj04\t0\tIt is.\n')
    with pytest.warns(UserWarning) as warned:
        guessed = attnscan.heads(path, **options)
    texts = [str(each.message).partition(": ")[2][:30] for each in warned]
    assert texts == ["its cells are quoted, and are ", "its first line looks like data"]
    assert {each.filename for each in warned} == {__file__}  # not a line of ours or of contextlib
    said = attnscan.heads(path, header=False, quoting="csv", **options)
    other = attnscan.heads(path, header=True, quoting="none", **options)
    assert guessed.signature.input_hash == said.signature.input_hash != other.signature.input_hash

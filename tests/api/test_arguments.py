"""What callers may give: models in memory, pairs in every shape, heads in every spelling, and one
line for all else.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from support.tiny_checkpoints import SMALL, refusal, save
from support.tiny_checkpoints import tokenizer as tiny_tokenizer
from transformers import BertConfig, BertForMaskedLM

import attnscan
from attnscan.api.pairs_input import PairsInput, _paths_in, pairs_input
from attnscan.errors import (
    AttnscanError,
    InputError,
    ModelError,
    OptionError,
    PairsError,
    TooLongError,
)
from attnscan.results.grid import Head

A = "the cat sat on the mat ."
B = "the cat sat ."
PAIRS = [(A, B), (B, A), (A, A)]
Arguments = dict[str, Any]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    settings = SMALL | {"num_hidden_layers": 2, "hidden_size": 32, "initializer_range": 0.5}
    return save(tmp_path_factory.mktemp("given") / "bert", BertForMaskedLM(BertConfig(**settings)))


@pytest.fixture(scope="module")
def by_name(checkpoint: Path) -> Arguments:
    return {"model": checkpoint}


@pytest.fixture(scope="module")
def in_memory(checkpoint: Path) -> Arguments:
    return {"model": BertForMaskedLM.from_pretrained(checkpoint), "tokenizer": tiny_tokenizer()}


OF_PAIRS: dict[str, Callable[..., Any]] = {
    "heads": attnscan.heads,
    "profile": lambda pairs, model, **options: attnscan.profile(
        pairs=pairs, model=model, **options
    ),
    "explain": lambda pairs, model, **options: attnscan.explain(
        [(0, 1)], pairs=pairs, model=model, **options
    ),
    "ablate": partial(attnscan.ablate, heads=[(0, 1)], draws=2, replace="mean"),
    "similar": attnscan.similar,
    "compare": lambda pairs, model, tokenizer=None, **options: attnscan.compare(
        model,
        model,
        pairs,
        **{"match": "nearest", "tokenizer_a": tokenizer, "tokenizer_b": tokenizer, **options},
    ),
}
CALLS: dict[str, Callable[..., Any]] = {
    **{name: partial(call, PAIRS) for name, call in OF_PAIRS.items()},
    "classify": partial(attnscan.classify, A, B),
    "explain one input": partial(attnscan.explain, "0-1", A, B),
    "profile one input": partial(attnscan.profile, A, B),
    "show": partial(attnscan.show, "0-1", A, B),
    "predictive": partial(attnscan.predictive, A, B),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_function_takes_a_model_that_is_in_memory(
    name: str, by_name: Arguments, in_memory: Arguments
) -> None:
    ours, theirs = (CALLS[name](**arguments).to_frame() for arguments in (in_memory, by_name))
    models = [column for column in ours.columns if column.startswith("model")]
    assert all(column.endswith("(in memory)") for column in ours[models].to_numpy().ravel())
    pd.testing.assert_frame_equal(
        ours.drop(columns=models), theirs.drop(columns=models), check_exact=True
    )


@pytest.mark.parametrize("name", [name for name in CALLS if name != "compare"])
def test_every_function_refuses_the_same(
    name: str, by_name: Arguments, in_memory: Arguments
) -> None:
    call = CALLS[name]
    model = in_memory["model"]
    tokenizer = in_memory["tokenizer"]
    for arguments, kind, said in (
        ({**in_memory, "device": "cpu"}, OptionError, "keeps its own device and dtype"),
        ({**by_name, "tokenizer": tokenizer}, OptionError, "a named model has its own tokenizer"),
        ({"model": model}, ModelError, "without its tokenizer; give tokenizer=, too"),
        (
            {"model": torch.nn.Linear(1, 1), "tokenizer": tokenizer},
            ModelError,
            "not a model of transformers",
        ),
    ):
        assert said in refusal(lambda arguments=arguments: call(**arguments), kind)
    function = name.partition(" ")[0]
    with pytest.raises(
        TypeError, match=rf"{function}\(\) got .* 'batch_token': did you mean 'batch_tokens'"
    ):
        call(**by_name, batch_token=1)


def test_what_is_no_sentence(by_name: Arguments) -> None:
    for call in (attnscan.classify, partial(attnscan.explain, "all"), attnscan.predictive):
        for sentences, message in (
            ((b"the cat",), "sentence A is of the class bytes, and not text; give a text"),
            ((A, float("nan")), "sentence B is of the class float, and not text"),
        ):
            assert message in refusal(
                lambda call=call, sentences=sentences: call(*sentences, **by_name), InputError
            )


HEADS: list[Any] = [
    "0-1,1-0",
    ((0, 1), (1, 0)),
    np.array([[0, 1], [1, 0]]),
    ["0-1", (np.int64(1), np.uint8(0))],
    iter([[0, 1], [1, 0]]),
    [Head(0, 1), Head(1, 0)],
]


@pytest.mark.parametrize("heads", HEADS, ids=lambda heads: type(heads).__name__)
def test_heads_are_named_in_many_ways(heads: Any, by_name: Arguments) -> None:
    assert attnscan.explain(heads, A, B, **by_name).heads == (Head(0, 1), Head(1, 0))


def test_a_head_may_stand_alone(by_name: Arguments) -> None:
    found = attnscan.explain((1, 0), A, B, **by_name)
    assert found.heads == (Head(1, 0),)
    assert found[np.int64(1), 0].equals(found["1-0"])
    effects = attnscan.ablate(PAIRS, heads=(np.int64(1), 0), draws=2, **by_name).effects
    assert {effect.set.heads for effect in effects} == {(Head(1, 0),)}
    result = attnscan.classify(A, B, **by_name)
    assert attnscan.plot(result, kind="head", heads=(1, 0)) == attnscan.plot(
        result, kind="head", heads="1-0"
    )
    assert (
        attnscan.report(result, heads=np.array([1, 0])).html
        == attnscan.report(result, heads="1-0").html
    )


def test_a_token_may_be_named_by_its_index(by_name: Arguments) -> None:
    assert {*attnscan.show("0-1", A, B, token=1, **by_name).to_frame()["query"]} == {1}


def test_a_window_ends_no_earlier_than_it_begins(by_name: Arguments) -> None:
    with pytest.raises(OptionError, match=r"\(4, 2\) is not a window"):
        attnscan.show("0-1", A, B, window=(4, 2), **by_name)


def test_too_long_an_input_is_cut_where_that_is_asked_for(by_name: Arguments) -> None:
    long = "the cat sat " * 200
    with pytest.raises(TooLongError):
        attnscan.classify(long, **by_name)
    assert (
        attnscan.classify(
            long, on_long="truncate", predictive="off", **by_name
        ).signature.pairs_truncated
        == 1
    )


def test_patterns_that_there_are_not(by_name: Arguments) -> None:
    result = attnscan.classify(A, B, **by_name)
    comparison = attnscan.compare(by_name["model"], by_name["model"], PAIRS)
    asks: list[Callable[[], object]] = [
        lambda: result.to_frame(["delimeter"]),
        lambda: result.order("delimeter"),
        lambda: attnscan.plot(comparison, pattern="delimeter"),
        lambda: attnscan.classify(A, pattern="delimeter", **by_name),
    ]
    for ask in asks:
        assert "did you mean 'delimiter'?" in refusal(ask, OptionError)
    one = attnscan.classify(A, pattern="delimiter", **by_name)
    assert "delimiter" in one.to_frame()
    assert "identical" not in one.to_frame()
    assert "identical" in one.scores.patterns


@pytest.mark.parametrize(
    ("call", "option", "value", "said"),
    [
        ("classify", "unit", "letter", "there is no unit 'letter'; give token or word"),
        ("classify", "special", "inn", "did you mean 'in'?"),
        ("classify", "related", "no", "related is 'no'; give True or False"),
        ("classify", "threshold", float("nan"), "threshold is nan; give a number, from 0 to 1"),
        ("classify", "seed", -1, "seed is -1; give a whole number, from 0"),
        ("classify", "words", "spaces", "words='spaces' is for units of words"),
        ("classify", "columns", "a", "columns is for pairs"),
        ("heads", "batch_tokens", 0, "batch_tokens is 0"),
        ("heads", "columns", ["a", "b", "c"], "3 columns were named"),
        ("heads", "quoting", "double", "there is no quoting 'double'"),
        ("heads", "per_pair", "scores.csv", "name it scores.parquet"),
        ("ablate", "measure", "bleu", "there is no measure 'bleu'"),
        ("ablate", "replace", "meen", "there is no replace 'meen'; did you mean 'mean'"),
        ("ablate", "draws", 1, "draws is 1"),
        ("ablate", "labels", [5], "labels has a int in it"),
        ("similar", "within", -0.1, "within is -0.1"),
        ("compare", "match", "name", "there is no match 'name'"),
    ],
)
def test_a_wrong_value_is_refused_in_a_line(
    call: str, option: str, value: Any, said: str, by_name: Arguments
) -> None:
    with pytest.raises(AttnscanError) as caught:
        CALLS[call](**by_name, **{option: value})
    assert said in str(caught.value)
    assert caught.value.remedy


def test_parameters_that_lack_or_are_too_many(by_name: Arguments) -> None:
    assert refusal(attnscan.classify, OptionError).startswith("no input was given")
    result = attnscan.classify(A, **by_name)
    with pytest.raises(TypeError, match=r"plot\(\) got an unexpected keyword argument 'foo'"):
        attnscan.plot(result, foo=1)
    wrong: Any = 5
    for call in (
        partial(attnscan.report, wrong),
        partial(attnscan.plot, wrong),
        partial(attnscan.plot, result, format="gif"),
    ):
        refusal(call, OptionError)


SIX = [(A, B), (B, A), (A, A), ("the mat .", B), (A, "the mat ."), (B, "cat on mat .")]
FRAME = pd.DataFrame(SIX, columns=["premise", "hypothesis"]).assign(key=list("abcdef"))


each = pytest.mark.parametrize("call", OF_PAIRS.values(), ids=OF_PAIRS)


@each
def test_a_table_is_scored_by_its_rows(call: Callable[..., Any], checkpoint: Path) -> None:
    expected = call(SIX, model=checkpoint).to_frame()
    pd.testing.assert_frame_equal(call(FRAME, model=checkpoint).to_frame(), expected)
    pd.testing.assert_frame_equal(
        call(iter([FRAME[:2], FRAME[2:]]), model=checkpoint).to_frame(), expected
    )
    b_alone = call(FRAME.to_dict("records"), model=checkpoint, columns="hypothesis").to_frame()
    pd.testing.assert_frame_equal(b_alone, call([b for _, b in SIX], model=checkpoint).to_frame())


@each
def test_a_bad_pair_is_told_of_once_and_left_out(
    call: Callable[..., Any], checkpoint: Path
) -> None:
    frame = pd.concat(
        [FRAME[:2], pd.DataFrame({"premise": [None, "\u200b"], "hypothesis": [B, B]}), FRAME[2:]]
    )
    for pairs in (frame, iter(frame[["premise", "hypothesis"]].to_dict("records"))):
        bad: list[InputError] = []
        found = call(pairs, model=checkpoint, on_bad=bad.append)
        assert [error.what.partition(":")[0] for error in bad] == ["row 3", "row 4"]
        pd.testing.assert_frame_equal(found.to_frame(), call(SIX, model=checkpoint).to_frame())
    assert refusal(lambda: call(frame, model=checkpoint), PairsError).startswith(
        "row 3: sentence A is missing"
    )


@each
def test_how_far_it_is(call: Callable[..., Any], checkpoint: Path) -> None:
    steps: list[tuple[str, int | None, int | None]] = []
    call(FRAME, model=checkpoint, progress=lambda *step: steps.append(step))
    last = {doing: (done, total) for doing, done, total in steps}
    of_pairs = [
        step
        for doing, step in last.items()
        if doing.endswith(("pairs", "models")) and step[0] is not None
    ]
    assert of_pairs
    assert all(done == 6 and total in (6, None) for done, total in of_pairs)


@each
@pytest.mark.parametrize("error", [TypeError("mine"), KeyboardInterrupt()])
def test_what_a_function_raises_ends_the_run_as_it_is(
    call: Callable[..., Any], checkpoint: Path, error: BaseException
) -> None:
    def fail(*_: object) -> None:
        raise error

    for pairs, name in ((SIX, "progress"), ([(" ", B), *SIX], "on_bad")):
        with pytest.raises(type(error)) as caught:
            call(pairs, model=checkpoint, **{name: fail})
        assert caught.value is error


def _pairs(
    pairs: Any, columns: Any = None, id: Any = None, labels: Any = None, *, skip_bad: bool = False
) -> Any:
    return pairs_input(pairs, {"columns": columns, "skip_bad": skip_bad}, id=id, labels=labels)


def test_files_are_told_from_texts(tmp_path: Path) -> None:
    for pairs, paths in (
        ("pairs.csv", ("pairs.csv",)),
        (tmp_path, (str(tmp_path),)),
        (["a.csv", tmp_path / "b"], ("a.csv", str(tmp_path / "b"))),
        (("s3://bucket/*", "a.parquet"), ("s3://bucket/*", "a.parquet")),
    ):
        assert _paths_in(pairs) == paths
    for texts in (
        ["It is in a.csv", "and so on."],
        iter(["a.csv"]),
        [("a.csv", "b.csv")],
        pd.Series(["a.csv"]),
    ):
        assert _paths_in(texts) is None
        assert isinstance(_pairs(texts), PairsInput)


def test_labels_go_with_their_pairs() -> None:
    def labels(pairs: Any, column: Any) -> list[str | None]:
        source = _pairs(pairs, labels=column, skip_bad=True).ready(2)
        once = [record.label for record in source.read()]
        assert once == [record.label for record in source.read()]
        return once

    assert labels(iter(SIX[:3]), iter(["yes", "no"])) == ["yes", "no", None]
    assert labels([A, " ", B], ["yes", "no", "maybe"]) == ["yes", "maybe"]
    assert labels(FRAME.assign(label=range(6))[:2], ()) == ["0", "1"]
    assert labels(FRAME.assign(label=range(6))[:2], ["x", "y"]) == ["x", "y"]


def test_scores_of_pairs_say_whose_they_are(checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    rows = tmp_path / "scores.parquet"
    FRAME.to_csv(path, index=False)
    for pairs in (FRAME, path):
        attnscan.heads(pairs, model=checkpoint, predictive_pairs=2, id="key", per_pair=rows)
        scores = pd.read_parquet(rows)
        assert sorted(set(zip(scores["pair"], scores["id"], strict=True))) == list(
            enumerate("abcdef", 1)
        )
        assert set(scores["file"]) == {str(path) if pairs is path else ""}
        assert (
            scores[scores["pattern"] == "predictive"]["pair"].nunique() == 2
        )  # of a sample of pairs alone


def test_how_files_are_read_is_said_or_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    options = {"columns": [3], "model": "bundled", "pattern": ["next-word"]}
    path.write_text('gj04\t1\t"Is it ""so""?"\ngj04\t0\tIt is.\n')
    with pytest.warns(UserWarning) as warned:
        guessed = attnscan.heads(path, **options)
    texts = [str(each.message).partition(": ")[2][:30] for each in warned]
    assert texts == ["its cells are quoted, and are ", "its first line looks like data"]
    said = attnscan.heads(path, header=False, quoting="csv", **options)
    other = attnscan.heads(path, header=True, quoting="none", **options)
    assert guessed.signature.input_hash == said.signature.input_hash != other.signature.input_hash


def test_words_between_spaces_are_as_given() -> None:
    of = {"model": "bundled", "predictive": "off", "related": False, "unit": "word"}
    spaced = attnscan.classify("the cat's mat, 我 爱猫", words="spaces", **of)
    expected = attnscan.classify(
        attnscan.Sentence("the cat's mat, 我 爱猫", [(0, 3), (4, 9), (10, 14), (15, 16), (17, 19)]),
        **of,
    )
    assert (
        spaced.units == expected.units == ("[CLS]", "the", "cat's", "mat,", "我", "爱猫", "[SEP]")
    )
    assert spaced.to_frame().drop(columns="model").equals(expected.to_frame().drop(columns="model"))
    assert "words between spaces" in spaced.signature.pattern_set
    assert spaced.signature.unit == "word"

"""What callers may give: models in memory to every function, heads in every spelling, and one line for all else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tiny_checkpoints import SMALL, refusal, save
from tiny_checkpoints import tokenizer as tiny_tokenizer
from transformers import BertConfig, BertForMaskedLM

import attnscan
from attnscan.errors import AttnscanError, InputError, ModelError, OptionError, TooLongError
from attnscan.results.terms import Head

A, B = "the cat sat on the mat .", "the cat sat ."
PAIRS = [(A, B), (B, A), (A, A)]
Given = dict[str, Any]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    settings = SMALL | {"num_hidden_layers": 2, "hidden_size": 32, "initializer_range": 0.5}
    return save(tmp_path_factory.mktemp("given") / "bert", BertForMaskedLM(BertConfig(**settings)))


@pytest.fixture(scope="module")
def by_name(checkpoint: Path) -> Given:
    return {"model": checkpoint}


@pytest.fixture(scope="module")
def in_memory(checkpoint: Path) -> Given:
    return {"model": BertForMaskedLM.from_pretrained(checkpoint), "tokenizer": tiny_tokenizer()}


CALLS: dict[str, Callable[..., Any]] = {
    "classify": lambda **given: attnscan.classify(A, B, **given),
    "explain": lambda **given: attnscan.explain("0-1", A, B, **given),
    "show": lambda **given: attnscan.show("0-1", A, B, **given),
    "predictive": lambda **given: attnscan.predictive(A, B, **given),
    "heads": lambda **given: attnscan.heads(PAIRS, **given),
    "profile": lambda **given: attnscan.profile(pairs=PAIRS, **given),
    "profile of one input": lambda **given: attnscan.profile(A, B, **given),
    "explain by pairs": lambda **given: attnscan.explain([(0, 1)], pairs=PAIRS, **given),
    "ablate": lambda **given: attnscan.ablate(PAIRS, heads=[(0, 1)], draws=2, **given),
    "similar": lambda **given: attnscan.similar(PAIRS, **given),
    "compare": lambda model, tokenizer=None, **given: attnscan.compare(
        model, model, PAIRS, tokenizer_a=tokenizer, tokenizer_b=tokenizer, **given
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_function_takes_a_model_that_is_in_memory(name: str, by_name: Given, in_memory: Given) -> None:
    ours, theirs = (CALLS[name](**given).to_frame() for given in (in_memory, by_name))
    models = [column for column in ours.columns if column.startswith("model")]
    assert all(column.endswith("(in memory)") for column in ours[models].to_numpy().ravel())
    pd.testing.assert_frame_equal(ours.drop(columns=models), theirs.drop(columns=models), check_exact=True)


@pytest.mark.parametrize("name", [name for name in CALLS if name != "compare"])
def test_every_function_refuses_the_same(name: str, by_name: Given, in_memory: Given) -> None:
    call, model, tokenizer = CALLS[name], in_memory["model"], in_memory["tokenizer"]
    for given, kind, said in (
        ({**in_memory, "device": "cpu"}, OptionError, "keeps its own device and dtype"),
        ({**by_name, "tokenizer": tokenizer}, OptionError, "a named model has its own tokenizer"),
        ({"model": model}, ModelError, "tokenizer is of the class NoneType"),
        ({"model": b"bert", "tokenizer": tokenizer}, ModelError, "not a model of transformers"),
        ({"model": torch.nn.Linear(1, 1), "tokenizer": tokenizer}, ModelError, "not a model of transformers"),
    ):
        assert said in refusal(lambda given=given: call(**given), kind)
    function = name.partition(" ")[0]
    with pytest.raises(TypeError, match=rf"{function}\(\) got .* 'batch_token': did you mean 'batch_tokens'"):
        call(**by_name, batch_token=1)


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ((b"the cat",), "sentence A is of the class bytes, and not text; give a text"),
        (([A, B],), "sentence A is of the class list, and not text"),
        ((A, float("nan")), "sentence B is of the class float, and not text"),
        ((" ",), "sentence A is empty"),
    ],
)
def test_what_is_no_sentence(sentences: Any, message: str, by_name: Given) -> None:
    for call in (attnscan.classify, partial(attnscan.explain, "all"), attnscan.predictive):
        assert message in refusal(lambda call=call: call(*sentences, **by_name), InputError)


HEADS: list[Any] = [
    "0-1,1-0",
    ((0, 1), (1, 0)),
    np.array([[0, 1], [1, 0]]),
    ["0-1", (np.int64(1), np.uint8(0))],
    iter([[0, 1], [1, 0]]),
    [Head(0, 1), Head(1, 0)],
]


@pytest.mark.parametrize("heads", HEADS, ids=lambda heads: type(heads).__name__)
def test_heads_are_named_in_many_ways(heads: Any, by_name: Given) -> None:
    assert attnscan.explain(heads, A, B, **by_name).heads == (Head(0, 1), Head(1, 0))


def test_a_head_may_stand_alone(by_name: Given) -> None:
    found = attnscan.explain((1, 0), A, B, **by_name)
    assert found.heads == (Head(1, 0),) and found[np.int64(1), 0].equals(found["1-0"])
    effects = attnscan.ablate(PAIRS, heads=(np.int64(1), 0), draws=2, **by_name).effects
    assert {effect.set.heads for effect in effects} == {(Head(1, 0),)}
    result = attnscan.classify(A, B, **by_name)
    assert attnscan.plot(result, kind="head", heads=(1, 0)) == attnscan.plot(result, kind="head", heads="1-0")
    assert attnscan.report(result, heads=np.array([1, 0])).html == attnscan.report(result, heads="1-0").html


def test_a_window_ends_no_earlier_than_it_begins(by_name: Given) -> None:
    with pytest.raises(OptionError, match=r"\(4, 2\) is not a window"):
        attnscan.show("0-1", A, B, window=(4, 2), **by_name)


def test_an_input_that_is_too_long_is_cut_where_that_is_asked_for(by_name: Given) -> None:
    long = "the cat sat " * 200
    with pytest.raises(TooLongError):
        attnscan.classify(long, **by_name)
    assert attnscan.classify(long, on_long="truncate", predictive="off", **by_name).signature.pairs_truncated == 1


def test_patterns_that_there_are_not(by_name: Given) -> None:
    result, comparison = attnscan.classify(A, B, **by_name), attnscan.compare(by_name["model"], by_name["model"], PAIRS)
    asks: list[Callable[[], object]] = [
        lambda: result.to_frame(["delimeter"]),
        lambda: result.order("delimeter"),
        lambda: attnscan.plot(comparison, pattern="delimeter"),
        lambda: attnscan.classify(A, pattern="delimeter", **by_name),
    ]
    for ask in asks:
        assert "did you mean 'delimiter'?" in refusal(ask, OptionError)
    one = attnscan.classify(A, pattern="delimiter", **by_name)
    assert "delimiter" in one.to_frame() and "identical" not in one.to_frame() and "identical" in one.scores.patterns


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
        ("ablate", "draws", 1, "draws is 1"),
        ("ablate", "labels", [5], "labels has a int in it"),
        ("similar", "within", -0.1, "within is -0.1"),
        ("compare", "match", "name", "there is no match 'name'"),
    ],
)
def test_a_wrong_value_is_refused_in_a_line(call: str, option: str, value: Any, said: str, by_name: Given) -> None:
    calls = {**CALLS, "ablate": lambda **given: attnscan.ablate(PAIRS, **{"heads": "0-0", "draws": 2, **given})}
    with pytest.raises(AttnscanError) as caught:
        calls[call](**by_name, **{option: value})
    assert said in str(caught.value) and caught.value.remedy


def test_parameters_that_lack_or_are_too_many(by_name: Given) -> None:
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

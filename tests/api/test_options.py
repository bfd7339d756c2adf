"""What a function takes: its signature, shown by `help`, and what is checked against it."""

import inspect
import pydoc
from itertools import chain
from typing import Any, get_args

import pytest

import attnscan
from attnscan.api.option_groups import READING_NAMES
from attnscan.api.signatures import options_of
from attnscan.inputs.option import declared
from attnscan.inputs.records import FileReading
from attnscan.results.choices import N_CONTROL_SETS
from attnscan.scan.options import ScanOptions

FUNCTIONS = [name for name in attnscan.__all__ if inspect.isfunction(getattr(attnscan, name))]
OPTIONS = {**declared(FileReading), **declared(ScanOptions)}


def _parameters(function: str) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(getattr(attnscan, function)).parameters)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_signature_names_every_option(function: str) -> None:
    parameters = _parameters(function)
    kinds = {parameter.kind for parameter in parameters.values()}
    assert kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    assert tuple(parameters) == options_of(function).names
    assert all(parameter.annotation != parameter.empty for parameter in parameters.values())


@pytest.mark.parametrize("function", FUNCTIONS)
def test_help_shows_every_option(function: str) -> None:
    shown = pydoc.plain(pydoc.render_doc(getattr(attnscan, function)))
    assert [name for name in _parameters(function) if f"{name}:" not in shown] == []
    assert "**options" not in shown


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_default_is_that_of_the_scan(function: str) -> None:
    """But where it depends on other arguments, or the function says that its own differs."""
    own = dict(options_of(function).defaults)
    for name in _parameters(function).keys() & OPTIONS.keys() - own.keys():
        default = _parameters(function)[name].default
        assert default in (None, OPTIONS[name].default), name
    assert own.items() <= {("predictive", "off"), ("on_long", "error")}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_words_are_those_that_are_checked(function: str) -> None:
    """So that an editor completes no other."""
    for name in _parameters(function).keys() & OPTIONS.keys() - {"model", "attention"}:
        expected = _words(OPTIONS[name].kind)
        shown = _words(_parameters(function)[name].annotation)
        assert shown == expected, name


def _words(kind: Any) -> set[str]:
    parts = [kind, *get_args(kind)]
    words = chain.from_iterable(map(get_args, parts))
    return {word for word in words if isinstance(word, str)}


def test_types_and_defaults_of_a_function() -> None:
    parameters = _parameters("ablate")
    assert parameters["draws"].annotation is int
    assert parameters["draws"].default == N_CONTROL_SETS
    assert set(get_args(parameters["replace"].annotation)) == {"zero", "mean"}
    assert parameters["heads"].annotation == "Heads | None"
    assert parameters["pairs"].default is None


def test_head_asks_for_no_predictive_words_by_itself() -> None:
    assert _parameters("head")["predictive"].default == "off"
    assert _parameters("heads")["predictive"].default == "auto"


@pytest.mark.parametrize("function", ["predictive", "serve"])
def test_functions_of_one_input_read_no_files(function: str) -> None:
    assert not set(READING_NAMES) & _parameters(function).keys()


def test_a_wrong_name_is_refused_with_the_right_one() -> None:
    message = r"show\(\) got an unexpected keyword argument 'averge': did you mean 'average'"
    with pytest.raises(TypeError, match=message):
        attnscan.show("0-0", "a cat", averge=True)  # type: ignore[call-overload, unused-ignore]


def test_a_name_like_no_other_is_refused_with_all() -> None:
    with pytest.raises(TypeError, match="its options are treebank, links, held, relation, "):
        attnscan.syntax("t.conllu", zzz=1)  # type: ignore[call-arg, unused-ignore]

"""Somebody else's model is run: what it is given, how it is put back, and what it says."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.families import TAPPED, tiny_model

from attnscan.errors import CaptureError, MemoryFullError
from attnscan.model.forward import (
    accepted_inputs,
    check_finite,
    eval_mode,
    first_line,
    forward,
    model_failure,
    named_arguments,
    restrict_task_head,
)

IDS = torch.tensor([[5, 6, 7]])
INPUTS = {"input_ids": IDS, "token_type_ids": IDS * 0, "unknown": IDS}


class Toy(torch.nn.Module):
    """A model whose forward takes a few inputs."""

    def __init__(self, **config: Any) -> None:
        super().__init__()
        self.config = SimpleNamespace(**config)

    def forward(
        self, input_ids: Any, token_type_ids: Any = None, use_cache: Any = None
    ) -> dict[str, Any]:
        return {"ids": input_ids, "segments": token_type_ids, "cache": use_cache}


class Wrapper(Toy):
    """A model that hands all arguments on."""

    def forward(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        return super().forward(*arguments, **options)


@pytest.mark.parametrize("kind", [Toy, Wrapper])
@pytest.mark.parametrize(
    ("config", "has_segments"),
    [({}, True), ({"type_vocab_size": 2}, True), ({"type_vocab_size": 1}, False)],
)
def test_a_model_is_given_what_its_forward_takes(
    kind: type[Toy], config: dict[str, Any], has_segments: bool
) -> None:
    accepted = accepted_inputs(kind(**config), INPUTS)
    expected = {"input_ids", "use_cache", *(["token_type_ids"] if has_segments else [])}
    assert accepted.keys() == expected
    assert accepted["use_cache"] is False
    assert forward(kind(**config), INPUTS)["ids"] is IDS


def test_what_reads_no_ids_has_no_arguments() -> None:
    assert not named_arguments(torch.nn.Linear(2, 2))


@pytest.mark.parametrize("training", [True, False])
def test_a_model_is_evaluated_and_put_back_module_by_module(training: bool) -> None:
    model = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Dropout()).train(training)
    model[1].train(not training)
    with pytest.raises(KeyError), eval_mode(model):
        assert not any(module.training for module in model.modules())
        raise KeyError
    assert [module.training for module in model.modules()] == [training, training, not training]


def test_a_head_works_on_the_places_that_are_asked_for() -> None:
    model = tiny_model("bert", TAPPED["bert"])
    ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
    places = (torch.tensor([1, 0, 1]), torch.tensor([2, 0, 0]))
    with torch.inference_mode():
        whole = model(input_ids=ids).last_hidden_state
        with restrict_task_head(model, places):
            part = model(input_ids=ids).last_hidden_state
        again = model(input_ids=ids).last_hidden_state
    assert torch.equal(part, whole[places][None])
    assert torch.equal(again, whole)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("one\ntwo"), "one"),
        (ValueError("one:\n  two\nthree"), "one: two"),
        (ValueError("one:"), "one"),
        (ValueError("one,"), "one"),
        (ValueError("\none"), "one"),
        (KeyError(), "KeyError"),
    ],
)
def test_the_first_line_of_an_error_says_something(error: Exception, line: str) -> None:
    assert first_line(error) == line


def test_what_a_model_says_is_cut_at_200_characters() -> None:
    failure = model_failure(Toy(), ValueError("x" * 300))
    assert isinstance(failure, CaptureError)
    assert failure.what == f"the model Toy fails on this input: {'x' * 200}"


def test_a_model_that_runs_out_of_memory_does_not_fail() -> None:
    failure = model_failure(Toy(), torch.OutOfMemoryError("CUDA out of memory"))
    assert isinstance(failure, MemoryFullError)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_refused(value: float) -> None:
    check_finite(torch.tensor([0.0, 1.0]), "the weights")
    with pytest.raises(CaptureError, match=r"the weights are not finite; .*try float32"):
        check_finite(torch.tensor([0.0, value]), "the weights")

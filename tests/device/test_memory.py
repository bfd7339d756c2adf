"""A device whose memory is full: batches are halved, down to one input, and then it is said."""

import logging
from typing import Any

import pandas as pd
import pytest
import torch
from support.device_models import DeviceModels
from transformers import AutoModelForMaskedLM, AutoTokenizer

import attnscan
from attnscan.errors import CaptureError, MemoryFullError

pytestmark = [pytest.mark.loads_anew, pytest.mark.filterwarnings("ignore")]
TEXT = "the cat " * 20
PAIRS = [(f"The {who} went to the store.", "It was old.") for who in ("man", "dog", "cat")] * 4


class Crowded:
    """A model that runs out of a device's memory above so many tokens at once."""

    def __init__(self, directory: str) -> None:
        self.model = AutoModelForMaskedLM.from_pretrained(directory)
        self.tokenizer = AutoTokenizer.from_pretrained(directory)
        self.most = 10**9
        self.ran: list[int] = []
        self.model.bert.register_forward_pre_hook(self._check, with_kwargs=True)

    def _check(self, _module: Any, arguments: Any, named: dict[str, Any]) -> None:
        ids = arguments[0] if arguments else named["input_ids"]
        tokens = ids.numel()
        self.ran.append(tokens)
        if tokens > self.most:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    def heads(self, pairs: Any = PAIRS, predictive: str = "off") -> pd.DataFrame:
        options = {"predictive": predictive, "related": False}
        return self.run("heads", pairs, **options).to_frame()

    def run(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Call a function by its name."""
        function = getattr(attnscan, name)
        return function(*arguments, model=self.model, tokenizer=self.tokenizer, **options)


@pytest.fixture
def crowded(models: DeviceModels) -> Crowded:
    return Crowded(models("masked-lm"))


def test_halved_batches_give_the_same_scores(crowded: Crowded) -> None:
    whole = crowded.heads()
    crowded.most = 60
    halved = crowded.heads()
    numbers = list(whole.select_dtypes("number"))
    pd.testing.assert_frame_equal(halved[numbers], whole[numbers], check_exact=False, atol=1e-6)


def test_each_halving_is_said_in_one_line(
    crowded: Crowded, caplog: pytest.LogCaptureFixture
) -> None:
    crowded.most = 60
    with caplog.at_level(logging.INFO):
        crowded.heads()
    lines = [line for line in caplog.messages if "do not fit into the memory of cpu" in line]
    assert [line.rpartition(" ")[2] for line in lines] == ["6", "3"]
    assert lines[0].startswith("12 inputs of ")


def test_later_batches_begin_at_the_size_that_fitted(crowded: Crowded) -> None:
    crowded.most = 60
    crowded.heads()
    too_large = [tokens for tokens in crowded.ran if tokens > crowded.most]
    assert len(too_large) == 2


def test_one_input_that_does_not_fit_says_what_it_takes(crowded: Crowded) -> None:
    crowded.most = 30
    with pytest.raises(MemoryFullError) as refused:
        crowded.heads([(TEXT, None), ("the dog " * 20, None)])
    line = str(refused.value)
    assert line.startswith("an input of 42 tokens takes about ")
    assert "GB beside the model, and the memory of cpu does not hold it" in line
    assert "\n" not in line


def test_hidden_sequences_are_halved_likewise(
    crowded: Crowded, caplog: pytest.LogCaptureFixture
) -> None:
    whole = crowded.run("predictive", *PAIRS[0]).to_frame()
    crowded.most = 60
    with caplog.at_level(logging.INFO):
        halved = crowded.run("predictive", *PAIRS[0]).to_frame()
    pd.testing.assert_frame_equal(halved, whole, check_exact=False, atol=1e-5)
    lines = [line for line in caplog.messages if "at once: going on with" in line]
    counts = [int(line.split()[0]) for line in lines]
    assert len(counts) > 2
    assert counts[1:] == [count // 2 for count in counts[:-1]]


def test_predictive_of_many_pairs_is_halved_likewise(crowded: Crowded) -> None:
    whole = crowded.heads(predictive="auto")
    crowded.most = 60
    halved = crowded.heads(predictive="auto")
    numbers = list(whole.select_dtypes("number"))
    pd.testing.assert_frame_equal(halved[numbers], whole[numbers], check_exact=False, atol=1e-5)


@pytest.mark.parametrize(
    "name", ["classify", "predictive", "profile", "plot", "report", "show", "explain", "head"]
)
def test_commands_of_one_input_say_what_it_takes(crowded: Crowded, name: str) -> None:
    crowded.most = 30
    heads = ["0-1"] if name in ("show", "explain", "head") else []
    with pytest.raises(MemoryFullError) as refused:
        crowded.run(name, *heads, TEXT)
    line = str(refused.value)
    assert line.startswith("an input of 42 tokens takes about ")
    assert "\n" not in line


def test_other_errors_halve_nothing(crowded: Crowded) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("shapes differ")

    crowded.model.bert.encoder.register_forward_pre_hook(fail)
    with pytest.raises(CaptureError, match="shapes differ"):
        crowded.heads()

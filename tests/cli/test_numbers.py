"""Every numeric option of every command at its extremes: a result, or one line that says what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hostile.options import NUMBERS, lines, options, prepared
from hostile.runs import check, run, save_tiny_model, served_for_a_moment

from attnscan.errors import OptionError
from attnscan.inputs.option import LARGEST
from attnscan.scan.options import ScanOptions

TOO_LARGE = ["1e308", "inf", "nan", str(2**63), str(2**64), str(10**22)]
OPTIONS = [(command, option) for command, option, values in options() if values[: len(NUMBERS)] == NUMBERS]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where commands have what they need; `hostile` tries each option there with values between the extremes, too."""
    prepared(directory := tmp_path_factory.mktemp("numbers"), save_tiny_model(tmp_path_factory.mktemp("tiny")))
    return directory


@pytest.mark.parametrize(("command", "option"), OPTIONS)
def test_what_cannot_be_counted_with_is_wrong_usage(
    command: str, option: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    for value in (*TOO_LARGE, "-1"):
        with served_for_a_moment():
            done = run(command, *lines()[command], option, value)
        assert not check(done) and done.exit_code == 2 and option in done.stderr, value


@pytest.mark.parametrize("name", ["seed", "batch_tokens", "predictive_words", "predictive_pairs"])
@pytest.mark.parametrize("value", [-1, 2**63, 2**64, 10**22, 1.5, float("inf"), float("nan"), True])
def test_options_in_python_have_the_same_bounds(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"{name} is {value}"):
        ScanOptions(**{name: value})
    assert ScanOptions(**{name: LARGEST})

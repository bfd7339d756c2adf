"""Long inputs are read some queries at a time: scores are those of the whole input."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from support.checkpoints_of_kinds import CASES, saved

import attnscan
from attnscan.model import tap
from attnscan.model.attention_block import seen_keys
from attnscan.scoring import units

pytestmark = pytest.mark.usefixtures("quiet")
A = "the cat sat on the mat , the cat ran to the mat ."
B = "a cat ran , the dog sat ; the cat and the dog sat ."


def _scores(checkpoint: Path, **options: Any) -> pd.DataFrame:
    result = attnscan.classify(A, B, model=checkpoint, predictive="off", **options)
    return result.to_frame().select_dtypes("number")


@pytest.mark.parametrize("by", ["weight", "carried"])
@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize(
    "kind",
    ["bert", "a window", "decoder with a window", "decoder without delimiters"],
)
def test_an_input_in_ranges_has_the_scores_of_the_whole_one(
    kind: str, unit: str, by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows of four tokens lie around few keys of the whole, which has 27 or more."""
    checkpoint = saved(CASES[kind], tmp_path)
    whole = _scores(checkpoint, unit=unit, by=by)
    widths = []

    def watch_seen_keys(visible: torch.Tensor, ranges: list[slice]) -> list[slice]:
        keys = seen_keys(visible, ranges)
        widths.extend(seen.stop - seen.start for seen in keys)
        return keys

    monkeypatch.setattr(tap, "_BLOCK_CELLS", 1)  # 16 queries
    monkeypatch.setattr(units, "CELLS", 300)  # fewer than ten queries
    monkeypatch.setattr(tap, "seen_keys", watch_seen_keys)
    monkeypatch.setattr(units, "seen_keys", watch_seen_keys)
    in_ranges = _scores(checkpoint, unit=unit, by=by)
    pd.testing.assert_frame_equal(in_ranges, whole, atol=1e-5, rtol=1e-5)
    assert (kind == "bert") == (min(widths) == max(widths))


def test_keys_are_seen_from_the_first_to_the_last() -> None:
    visible = torch.zeros(2, 6, 7, dtype=torch.bool)
    visible[0, 1, 2] = True
    visible[1, 0, 4] = True
    visible[1, 5, 0] = True
    ranges = [slice(0, 2), slice(2, 4), slice(4, 6)]
    assert seen_keys(visible, ranges) == [slice(2, 5), slice(0, 7), slice(0, 1)]

"""The best ground truth there is: heads planted in a constructed checkpoint are found, and no others."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from toy import Plan, save_toy_bert
from typer.testing import CliRunner

from attnscan.cli.app import app

A, B = "the cat sat on the mat .", "a cat ran to the store , i bought strawberries ."
SMALL: Plan = {
    (0, 0): "next-word",
    (2, 9): "next-word",
    (3, 5): "previous-word",
    (4, 11): "identical",
    (10, 10): "cross-sentence",
    (11, 3): "delimiter",
    (1, 1): "bag-of-words",
}
LARGE: Plan = {
    (0, 15): "previous-word",
    (7, 2): "next-word",
    (12, 0): "identical",
    (13, 8): "cross-sentence",
    (20, 4): "delimiter",
    (23, 15): "bag-of-words",
    (23, 0): "delimiter",
}


@pytest.fixture(scope="module", params=[(12, 12, SMALL), (24, 16, LARGE)], ids=["12x12", "24x16"])
def planted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plan, int, int]:
    layers, heads, plan = request.param
    return save_toy_bert(tmp_path_factory.mktemp("toy"), layers, heads, plan), plan, layers, heads


def _table(directory: Path, target: Path, *options: str) -> pd.DataFrame:
    outcome = CliRunner().invoke(app, ["classify", A, B, "--model", str(directory), "-o", str(target), *options])
    assert outcome.exit_code == 0, outcome.output
    return pd.read_csv(target).set_index(["layer", "head"])


OFF = ("--predictive", "off")


@pytest.mark.parametrize("options", [(), ("--unit", "word"), ("--no-related",)], ids=["tokens", "words", "unrelated"])
def test_planted_heads_are_found_and_nothing_else(
    planted: tuple[Path, Plan, int, int], tmp_path: Path, options: tuple[str, ...]
) -> None:
    directory, plan, layers, heads = planted
    asked = () if layers == 12 and not options else OFF  # once, for it takes long
    table = _table(directory, tmp_path / "heads.csv", *options, *asked)
    assert len(table) == layers * heads
    found = {place: label for place, label in table["among_words"].items() if label in plan.values()}
    assert found == {place: pattern for place, pattern in plan.items() if pattern != "delimiter"}
    resting = {place for place, pattern in plan.items() if pattern == "delimiter"}
    assert {place for place in table.index if table.loc[place, "label"] == "delimiter"} == resting
    for place, pattern in plan.items():
        # The file has six decimals; and the pieces of "strawberries" look at each other, or take two shares.
        assert table.loc[place, pattern] == pytest.approx(1, abs=0.05 if "word" in options else 2e-6)


def test_with_special_tokens_in_the_same_heads_are_found(planted: tuple[Path, Plan, int, int], tmp_path: Path) -> None:
    directory, plan, _, _ = planted
    table = _table(directory, tmp_path / "heads.csv", "--special=in", *OFF)
    assert {place: label for place, label in table["label"].items() if label in plan.values()} == dict(plan)


def test_a_head_that_attends_evenly_is_at_chance(planted: tuple[Path, Plan, int, int]) -> None:
    from one_run import classify

    from attnscan.inputs.sentence import Pair
    from attnscan.scan.options import ScanOptions

    directory, plan, _, _ = planted
    result = classify(Pair(A, B), ScanOptions(model=str(directory), predictive="off"))
    above = result.scores.every_key.above_chance
    measured = [p for p, name in enumerate(result.scores.patterns) if name != "predictive"]
    for place in {(layer, head) for layer in range(2) for head in range(5)} - set(plan):
        assert above[place][measured] == pytest.approx(0, abs=1e-6)

"""Where a result comes from goes with it: in JSON, Parquet and workbooks, and in a file of its own
beside any.
"""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import openpyxl
import pandas as pd
import pytest
from support.command_line import run
from support.hostile.options import lines, prepared
from support.hostile.runs import loaded_once, save_tiny_model

from attnscan.cli.commands_table import COMMAND_NAMES

UNSIGNED = {"patterns", "models", "pairs"}  # tables that come of no input
NO_TABLE = {"report", "plot", "serve"}
SIGNED = sorted(set(COMMAND_NAMES) - UNSIGNED - NO_TABLE)
OTHERS = {
    "explain --pairs": ["0-0", "--pairs", "pairs.csv", "--model", "model"],
    "explain --token": ["0-0", "the cat sat", "--token", "cat", "--model", "model"],
    "profile of one": ["the cat sat", "--model", "model"],
    "similar --matrix": ["--pairs", "pairs.csv", "--model", "model", "--matrix"],
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("signature")
    with loaded_once():
        prepared(directory, save_tiny_model(tmp_path_factory.mktemp("tiny")))
        yield directory


@pytest.fixture(autouse=True)
def place(scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where results go."""
    monkeypatch.chdir(scene)
    return tmp_path


def line_of(name: str) -> list[str]:
    return [name.split()[0], *(OTHERS[name] if name in OTHERS else lines()[name])]


@pytest.mark.parametrize("name", [*SIGNED, *OTHERS])
def test_every_command_writes_the_signature_of_its_json(place: Path, name: str) -> None:
    run(*line_of(name), "-o", str(place / "a.json"), "--signature", str(place / "of.json"))
    said = json.loads((place / "a.json").read_text())
    whole = json.loads((place / "of.json").read_text())
    assert "input_hash" in json.dumps(whole)
    assert {key: said[key] for key in whole} == whole


@pytest.mark.usefixtures("each_run_once")
@pytest.mark.parametrize("name", ["compare", "heads"])
def test_it_is_in_every_format_that_has_a_place_for_it(place: Path, name: str) -> None:
    for suffix in ("csv", "parquet", "xlsx"):
        run(
            *line_of(name),
            "-o",
            str(place / f"a.{suffix}"),
            "--signature",
            str(place / f"of-{suffix}.json"),
        )
    whole = json.loads((place / "of-csv.json").read_text())
    assert json.loads((place / "of-xlsx.json").read_text()) == whole
    signed = {key: value for key, value in whole.items() if key.startswith("signature")}
    read = pd.read_parquet(place / "a.parquet")
    assert {key: json.loads(json.dumps(read.attrs[key])) for key in signed} == signed
    book = openpyxl.load_workbook(place / "a.xlsx")
    about = dict(book["about"].iter_rows(min_row=2, values_only=True))  # type: ignore[arg-type]
    flat = pd.json_normalize(signed).iloc[0].to_dict()
    assert {key: about[key] for key in flat} == {
        k: str(v) if isinstance(v, list) else v for k, v in flat.items()
    }


@pytest.mark.usefixtures("each_run_once")
def test_numbers_with_a_comma_are_the_same_numbers() -> None:
    heads = line_of("heads")
    expected = pd.read_csv(io.StringIO(run(*heads, "--csv").stdout))
    for kind, separator in (("csv", ";"), ("tsv", "\t")):
        written = run(*heads, "--format", kind, "--decimal-comma").stdout
        pd.testing.assert_frame_equal(
            pd.read_csv(io.StringIO(written), sep=separator, decimal=","), expected
        )

"""What every command writes as JSON is valid by the schema that it names, column by column."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openpyxl
import pandas
import pytest
from jsonschema import Draft202012Validator
from support.command_line import run
from support.hostile.options import lines, prepared
from support.hostile.runs import loaded_once, save_tiny_model
from support.schemas import TABLES, schema_files

OPTIONS_PAGE = Path(__file__).parents[2] / "docs" / "commands" / "options.md"
OF_PAIRS = ["--pairs", "pairs.csv", "--model", "model"]
LINES = {name: [name, *line] for name, line in lines().items()}
LINES = {name: LINES[name] for name in LINES if name not in ("report", "plot", "serve")}
LINES |= {
    "catalog": ["models"],
    "explain of a token": ["explain", "0-0", "the cat sat", "--token", "cat", "--model", "model"],
    "explain over pairs": ["explain", "all", *OF_PAIRS],
    "head with all": ["head", "0-0", *OF_PAIRS, "--treebank", "trees.conllu", "--ablate"],
    "heads and held": ["heads", *OF_PAIRS, "--held", "pairs.csv", "--predictive", "off"],
    "own pattern": ["classify", "the cat sat", "--model", "model", "-p", "own.py:two_back"],
    "pairs with ids": ["pairs", "pairs.csv", "--model", "model", "--id", "sentence_a"],
    "profile of one": ["profile", "the cat sat", "--model", "model"],
    "ranking": ["heads", *OF_PAIRS, "--best", "--predictive", "off"],
    "show a mean": ["show", "all", "the cat sat", "--model", "model", "--average"],
    "similar --matrix": ["similar", *OF_PAIRS, "--matrix"],
    "syntax and held": [*LINES["syntax"], "--held", "trees.conllu"],
}
OWN = """
def two_back(batch):
    \"\"\"weight on the word before the one before\"\"\"
    return batch.same_sentence & (batch.offset == -2)
"""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("schemas")
    (directory / "own.py").write_text(OWN)
    with loaded_once():
        prepared(directory, save_tiny_model(tmp_path_factory.mktemp("tiny")))
        yield directory


@pytest.fixture(autouse=True)
def _place(scene: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(scene)


def written(*line: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run(*line, "--format", "json").stdout)
    return document


@pytest.mark.parametrize("name", sorted(LINES))
def test_output_is_valid_and_every_column_is_defined(name: str) -> None:
    document = written(*LINES[name])
    table = next(table for table in TABLES.values() if table.id == document["schema"])
    schema = json.loads(schema_files()[f"{table.name}.json"])
    errors = [error.message for error in Draft202012Validator(schema).iter_errors(document)]
    what_to_do = (
        "declare the column in its table beside the result, or in columns.py, and `make schema`"
    )
    assert not errors, f"{table.name}: {errors[:3]}; {what_to_do}"
    undefined = set(document[table.rows][0]) - set(document["columns"])
    assert not undefined, f"{table.name}: no definition of {sorted(undefined)}; {what_to_do}"
    assert all(document["columns"].values())


def test_every_table_is_written_by_some_command() -> None:
    ids = {written(*line)["schema"] for line in LINES.values()}
    assert ids == {table.id for table in TABLES.values()}


def test_a_list_of_heads_says_where_it_is_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "heads.json"
    run(*LINES["heads"], "-o", str(file))
    document = json.loads(file.read_text(encoding="utf-8"))
    signature = document["signature"]
    assert signature["revision"] is None
    assert all(signature[name] for name in ("model", "attnscan", "input_hash", "fingerprint"))
    options = {"pairs": ["pairs.csv"], "model": "model", "predictive": "off"}
    assert options.items() <= document["options"].items()
    assert document["columns"]["next-word"] == "weight on the next word of the sentence"
    (code,) = re.findall(r"by one line: `(.+)`", OPTIONS_PAGE.read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)
    frame = eval(code, {"pandas": pandas, "json": json, "Path": Path})
    assert list(frame) == list(document["columns"])
    assert len(frame) == 4


def test_a_secret_of_an_address_is_in_no_options() -> None:
    from attnscan.cli.output import _options_typed

    typed = _options_typed({"pairs": ["https://me:pass@host/pairs.csv?key=1"], "output": "x.json"})
    assert typed == {"pairs": ["https://host/pairs.csv"]}


def test_a_workbook_defines_its_columns(tmp_path: Path) -> None:
    file = tmp_path / "heads.xlsx"
    run(*LINES["heads"], "-o", str(file))
    rows = openpyxl.load_workbook(io.BytesIO(file.read_bytes()))["about"].iter_rows(
        min_row=2, values_only=True
    )
    about = {str(name): value for name, value in rows}
    assert about["schema"] == TABLES["heads"].id
    assert about["columns.label"] == "what the head does"
    assert about["options.model"] == "model"

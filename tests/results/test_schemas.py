"""The JSON Schemas in docs/schema/ are made of the tables' columns."""

import dataclasses
import json

import pytest
from jsonschema import Draft202012Validator
from support.schemas import DIRECTORY, TABLES, schema_files

from attnscan.results.columns import HEAD_COLUMNS, MEAN_COLUMNS
from attnscan.results.schemas import schema_of
from attnscan.results.signature import Signature

FILES = schema_files()


def test_files_are_as_they_are_made() -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in DIRECTORY.glob("*.json")}
    stale = sorted(name for name in {*FILES, *written} if FILES.get(name) != written.get(name))
    assert not stale, f"run `make schema`: docs/schema/ is not of today's columns: {stale}"


@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_schema_is_valid(name: str) -> None:
    schema = json.loads(FILES[f"{name}.json"])
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:attnscan:{name}:1"


def test_the_signature_is_described_whole() -> None:
    signature = schema_of(TABLES["heads"])["$defs"]["signature"]
    assert list(signature["properties"]) == [field.name for field in dataclasses.fields(Signature)]


def test_columns_of_heads_are_those_declared() -> None:
    properties = schema_of(TABLES["heads"])["properties"]["heads"]["items"]["properties"]
    for column in (*HEAD_COLUMNS, *MEAN_COLUMNS):
        assert properties[column.name]["description"] == column.about


def test_definitions_of_columns_and_patterns() -> None:
    columns = ["layer", "next-word", "my-own"]
    about = TABLES["heads"].definitions(columns, {"next-word": "weight on the next word"})
    assert about == {
        "layer": "the layer, from 0",
        "next-word": "weight on the next word",
        "my-own": "the score on a pattern of your own",
    }


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        ({"model": "m", "layer": 0, "head": 0, "name": "L0H0"}, "'pattern' is a required property"),
        ({"score": "much"}, "'much' is not of type 'number', 'null'"),
        ({"new": 1}, "'new' was unexpected"),
        ({"layer": None}, "None is not of type 'integer'"),
    ],
)
def test_a_wrong_row_is_found(row: dict[str, object], wrong: str) -> None:
    """A control."""
    items = schema_of(TABLES["ranking"])["properties"]["heads"]["items"]
    errors = [error.message for error in Draft202012Validator(items).iter_errors(row)]
    assert any(wrong in message for message in errors), errors

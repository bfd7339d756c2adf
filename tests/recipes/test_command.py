"""How to add a command, as docs/code.md says: a study with a table and a screen, in six files."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Recipe

PAIRS = "sentence_a,sentence_b\nthe cat sat,a dog ran\na cat ran,the dog sat\n"


@pytest.mark.long
def test_a_command_is_six_files(apply_recipe: Callable[[str], Recipe]) -> None:
    recipe = apply_recipe("command")
    assert len(recipe.files) <= 6
    Path(recipe.place, "pairs.csv").write_text(PAIRS)
    assert "  spread   Over how many keys every head" in recipe.attnscan("--help")
    shown = recipe.attnscan("spread", "--pairs", "pairs.csv")
    lines = shown.splitlines()
    assert lines[0].startswith("pairs  pairs.csv")
    assert lines[1].startswith("bundled")
    assert len(lines) == 3 + 10
    options = ("--pairs", "pairs.csv", "--special", "in", "--format", "json")
    document = json.loads(recipe.attnscan("spread", *options))
    assert document["schema"] == "urn:attnscan:spread:1"
    assert list(document["heads"][0]) == ["model", "layer", "head", "name", "keys"]
    assert len(document["heads"]) == 72
    assert document["columns"]["keys"] == "over how many keys it spreads a word's attention"


@pytest.mark.long
def test_its_function_is_one_of_the_library(apply_recipe: Callable[[str], Recipe]) -> None:
    printed = apply_recipe("command").python(
        "import inspect, json, attnscan\n"
        "found = attnscan.spread(['the cat sat', 'a dog ran'], by='carried')\n"
        "names = list(inspect.signature(attnscan.spread).parameters)\n"
        "print(json.dumps([len(found.to_frame()), found.signature.by, names]))\n"
    )
    rows, by, names = json.loads(printed)
    assert (rows, by) == (72, "carried")
    assert {"pairs", "model", "by", "seed"} <= set(names)

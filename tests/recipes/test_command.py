"""How to add a command, as docs/code.md says: a study with a table and a screen, in six files."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Recipe

PAIRS = "sentence_a,sentence_b\nthe cat sat,a dog ran\na cat ran,the dog sat\n"
SCRIPT = """
import inspect

found = attnscan.spread(["the cat sat", "a dog ran"], by="carried")
names = list(inspect.signature(attnscan.spread).parameters)
answer(printed("--help"), printed("spread", "--pairs", "pairs.csv"),
       printed("spread", "--pairs", "pairs.csv", "--special", "in", "--format", "json"),
       len(found.to_frame()), found.signature.by, names)
"""


@pytest.mark.long
def test_a_command_is_six_files(apply_recipe: Callable[[str], Recipe]) -> None:
    recipe = apply_recipe("command")
    assert len(recipe.files) <= 6
    Path(recipe.place, "pairs.csv").write_text(PAIRS)
    listed, shown, written, rows, by, names = recipe.answers(SCRIPT)
    assert "  spread   Over how many keys every head" in listed
    lines = shown.splitlines()
    assert lines[0].startswith("pairs  pairs.csv")
    assert lines[1].startswith("bundled")
    assert len(lines) == 3 + 10
    document = json.loads(written)
    assert document["schema"] == "urn:attnscan:spread:1"
    assert list(document["heads"][0]) == ["model", "layer", "head", "name", "keys"]
    assert len(document["heads"]) == 72
    assert document["columns"]["keys"] == "over how many keys it spreads a word's attention"
    assert (rows, by) == (72, "carried")
    assert {"pairs", "model", "by", "seed"} <= set(names)

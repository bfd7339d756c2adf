"""How to add a file format of pairs, as docs/code.md says: a reader and a suffix, in two files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Recipe

SCRIPT = """
from attnscan.errors import PairsError

bad = []
found = attnscan.shard("pairs.bars", predictive="off", on_bad=bad.append)
try:
    attnscan.shard("pairs.bars", predictive="off")
except PairsError as error:
    refused = error.what
screen = printed("heads", "--pairs", "pairs.bars", "--skip-bad", "-p", "N", "--predictive", "off")
answer(found.seen.read, [error.what for error in bad], refused, screen)
"""


@pytest.mark.long
def test_a_format_is_two_files(apply_recipe: Callable[[str], Recipe]) -> None:
    recipe = apply_recipe("format")
    assert len(recipe.files) <= 2
    lines = ["the cat sat ||| a dog ran", "alone", "a cat ran ||| the dog sat"]
    Path(recipe.place, "pairs.bars").write_text("\n".join(lines))
    read, bad, refused, screen = recipe.answers(SCRIPT)
    said = "pairs.bars:2: there are 1 sentences between bars"
    assert (read, bad, refused) == (2, [said], said)
    assert screen.startswith("2 pairs of pairs.bars")

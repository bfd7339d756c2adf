"""How to add a file format of pairs, as docs/code.md says: a reader and a suffix, in two files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Recipe

READ = """
import attnscan
from attnscan.errors import PairsError
bad = []
found = attnscan.shard("pairs.bars", predictive="off", on_bad=bad.append)
print(found.seen.read, [error.what for error in bad])
try:
    attnscan.shard("pairs.bars", predictive="off")
except PairsError as error:
    print(error.what)
"""


@pytest.mark.long
def test_a_format_is_two_files(apply_recipe: Callable[[str], Recipe]) -> None:
    recipe = apply_recipe("format")
    assert len(recipe.files) <= 2
    lines = ["the cat sat ||| a dog ran", "alone", "a cat ran ||| the dog sat"]
    Path(recipe.place, "pairs.bars").write_text("\n".join(lines))
    said = "pairs.bars:2: there are 1 sentences between bars"
    assert recipe.python(READ).splitlines() == [f"2 ['{said}']", said]
    screen = recipe.attnscan("heads", "--pairs", "pairs.bars", "--skip-bad", "-p", "N")
    assert screen.startswith("2 pairs of pairs.bars")

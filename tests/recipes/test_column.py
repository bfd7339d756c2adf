"""How to add a column, as docs/code.md says: the mean distance of attention, in two files."""

import json
from collections.abc import Callable

import pytest

from .conftest import Recipe

SCRIPT = """
import json
import attnscan

result = attnscan.classify("the cat sat", "a dog ran", predictive="off", keep_attention=True)
frame = result.to_frame()
many = attnscan.heads([("the cat sat", "a dog ran")] * 2, predictive="off").to_frame()
page = attnscan.report(result).html
print(json.dumps([list(frame), list(many), frame["distance"].between(0, 8).all().item(),
                  '"heading":"mean distance"' in page]))
"""


@pytest.mark.long
def test_a_column_is_two_files(apply_recipe: Callable[[str], Recipe]) -> None:
    recipe = apply_recipe("column")
    assert len(recipe.files) <= 2
    words = ("classify", "the cat sat", "a dog ran", "--predictive", "off")
    screen = recipe.attnscan(*words, "-p", "N", "--top", "2")
    assert "nats far\n" in screen
    assert "far: how far it looks" in screen
    table = recipe.attnscan(*words, "--csv")
    assert table.splitlines()[0].endswith(",entropy,distance")
    one, many, is_distance, is_on_page = json.loads(recipe.python(SCRIPT))
    assert one[-1] == many[-1] == "distance"
    assert is_distance
    assert is_on_page

"""How to add a column, as docs/code.md says: the mean distance of attention, in two files."""

from collections.abc import Callable

import pytest

from .conftest import Recipe

SCRIPT = """
words = ("classify", "the cat sat", "a dog ran", "--predictive", "off")
screen = printed(*words, "-p", "N", "--top", "2")
table = printed(*words, "--csv")
result = attnscan.classify("the cat sat", "a dog ran", predictive="off", keep_attention=True)
frame = result.to_frame()
many = attnscan.heads([("the cat sat", "a dog ran")] * 2, predictive="off").to_frame()
page = attnscan.report(result).html
answer(screen, table, list(frame), list(many), frame["distance"].between(0, 8).all().item(),
       '"heading":"mean distance"' in page)
"""


@pytest.mark.long
def test_a_column_is_two_files(apply_recipe: Callable[[str], Recipe]) -> None:
    recipe = apply_recipe("column")
    assert len(recipe.files) <= 2
    screen, table, one, many, is_distance, is_on_page = recipe.answers(SCRIPT)
    assert "nats far\n" in screen
    assert "far: how far it looks" in screen
    assert table.splitlines()[0].endswith(",entropy,distance")
    assert one[-1] == many[-1] == "distance"
    assert is_distance
    assert is_on_page

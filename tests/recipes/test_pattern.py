"""How to add a pattern, as docs/code.md says: the word two back, in one file."""

import json
from collections.abc import Callable

import pytest

from .conftest import Recipe

SCRIPT = """
import json
import attnscan

result = attnscan.classify("the cat sat", "a dog ran", predictive="off", keep_attention=True)
page = attnscan.report(result).html
print(json.dumps([list(result.to_frame()), [pattern.id for pattern in attnscan.PATTERNS],
                  '"id":"two-back"' in page]))
"""


@pytest.mark.long
def test_a_pattern_is_one_file(apply_recipe: Callable[[str], Recipe]) -> None:
    recipe = apply_recipe("pattern")
    assert len(recipe.files) == 1
    assert "2 two-back: weight on the word two back" in recipe.attnscan("patterns")
    ranked = ("heads", "--pattern", "2", "--predictive", "off", "--top", "3")
    assert "two-back" in recipe.attnscan(*ranked)
    table = recipe.attnscan("classify", "the cat sat", "--predictive", "off", "--csv")
    assert ",previous-word,two-back,identical," in table.splitlines()[0]
    columns, patterns, is_on_page = json.loads(recipe.python(SCRIPT))
    assert "two-back" in columns
    assert "two-back" in patterns
    assert is_on_page

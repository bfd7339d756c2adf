"""How to add a pattern, as docs/code.md says: the word two back, in one file."""

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Recipe

PAIRS = "sentence_a,sentence_b\nthe cat sat,a dog ran\na cat ran,the dog sat\n"
SCRIPT = """
result = attnscan.classify("the cat sat", "a dog ran", predictive="off", keep_attention=True)
page = attnscan.report(result).html
ranked = ("heads", "--pairs", "pairs.csv", "--pattern", "2", "--predictive", "off", "--top", "3")
answer(printed("patterns"), printed(*ranked),
       printed("classify", "the cat sat", "--predictive", "off", "--csv"),
       list(result.to_frame()), [pattern.id for pattern in attnscan.PATTERNS],
       '"id":"two-back"' in page)
"""


@pytest.mark.long
def test_a_pattern_is_one_file(apply_recipe: Callable[[str], Recipe]) -> None:
    recipe = apply_recipe("pattern")
    assert len(recipe.files) == 1
    Path(recipe.place, "pairs.csv").write_text(PAIRS)
    listed, ranked, table, columns, patterns, is_on_page = recipe.answers(SCRIPT)
    assert "2 two-back: weight on the word two back" in listed
    assert "two-back" in ranked
    assert ",previous-word,two-back,identical," in table.splitlines()[0]
    assert "two-back" in columns
    assert "two-back" in patterns
    assert is_on_page

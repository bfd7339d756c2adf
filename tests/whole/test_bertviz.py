"""docs/bertviz.md: each row says how BertViz is called, and what is called here, which runs."""

import ast
import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import attnscan
from attnscan.results.heads import HeadScores, HeadWeights
from attnscan.views.page.page import Page

PAGE = (Path(__file__).parents[2] / "docs" / "bertviz.md").read_text(encoding="utf-8")
SETTING = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
BOTH = {
    *("attention", "tokens", "sentence_b_start", "prettify_tokens", "encoder_attention"),
    *("decoder_attention", "cross_attention", "encoder_tokens", "decoder_tokens"),
    *("include_layers", "html_action"),
}
ARGUMENTS = {
    "head_view": {*BOTH, "layer", "heads"},
    "model_view": {*BOTH, "display_mode", "include_heads"},
    "neuron_view.show": {"display_mode", "layer", "head", "html_action"},
}
"""What functions of BertViz 1.4.1 take by name."""


def rows() -> Iterator[tuple[str, list[str]]]:
    """Of each row of the tables the call of BertViz, and the expressions that stand for it."""
    for left, right in re.findall(r"^\| (`.+?`) \| (`.+`.*) \|$", PAGE, re.MULTILINE):
        yield left.strip("`"), re.findall(r"`([^`]+)`", right)


@pytest.fixture(scope="module")
def names(bundled_dir: Path) -> dict[str, Any]:
    """What the page's first block defines, on the bundled model, and a translation's attention."""
    defined: dict[str, Any] = {}
    exec(SETTING.replace("bert-base-uncased", str(bundled_dir)), defined)
    source = ["das", "haus", "</s>"]
    target = ["<pad>", "the", "house", "is"]
    weights = {
        "encoder": torch.rand(2, 1, 3, 3, 3),
        "decoder": torch.rand(2, 1, 3, 4, 4).tril(),
        "cross": torch.rand(2, 1, 3, 4, 3),
    }
    for kind, values in weights.items():
        defined[kind] = tuple(values / values.sum(-1, keepdim=True))
    return defined | {"source": source, "target": target}


@pytest.mark.parametrize(("theirs", "ours"), rows(), ids=lambda value: str(value)[:50])
def test_a_row_of_the_tables_runs(theirs: str, ours: list[str], names: dict[str, Any]) -> None:
    call = next(node for node in ast.walk(ast.parse(theirs)) if isinstance(node, ast.Call))
    keywords = {keyword.arg for keyword in call.keywords}
    assert keywords <= ARGUMENTS[ast.unparse(call.func)]
    for expression in ours:
        made = eval(expression, dict(names))
        if isinstance(made, HeadScores):
            made = made.html
        if isinstance(made, Page):
            made = made.html
        if isinstance(made, HeadWeights):
            assert {head.name for head in made.heads} == {"2-3"}
        else:
            assert made.startswith("<!doctype html>")


def test_every_argument_of_the_views_is_in_a_row() -> None:
    calls = " ".join(theirs for theirs, _ in rows())
    named = set().union(*ARGUMENTS.values()) - {"attention", "tokens"}
    assert [name for name in sorted(named) if f"{name}=" not in calls] == []


def test_the_page_of_a_result_is_that_of_report(names: dict[str, Any]) -> None:
    result = names["result"]
    assert result.html == attnscan.report(result).html
    assert result.sentence.index(1) == names["start"]
    shown = re.search('srcdoc="(.*)"></iframe>', attnscan.report(result)._repr_html_(), re.DOTALL)
    assert shown is not None
    assert html.unescape(shown[1]) == result.html

"""What a notebook and a dashboard show of results."""

from typing import Any

import pytest
from support.small_results import result_of

from attnscan.results import notebook
from attnscan.results.notebook import render_html, render_page


def shout(result: Any) -> str:
    return repr(result).upper()


def test_a_result_is_rendered_by_what_is_registered_for_its_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = result_of([[0.1, 0, 0, 0]])
    monkeypatch.setattr(notebook, "RENDERERS", {"HeadScores": shout})
    monkeypatch.setattr(notebook, "PAGES", {"HeadScores": repr})
    assert render_html(result) == result._repr_html_() == repr(result).upper()
    assert render_page(result) == result.html == repr(result)


def test_a_result_that_nothing_renders_has_no_html(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "RENDERERS", {"Profile": shout})
    assert render_html(result_of([[0.1, 0, 0, 0]])) is None

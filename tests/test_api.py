"""What `import attnscan` offers: functions that stay functions, no torch before it is needed, a view in notebooks."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import attnscan
from attnscan.cli.app import app
from attnscan.errors import AttnscanError, InputError, OptionError, SelectionError
from attnscan.results.ablation import Ablation
from attnscan.results.comparison import Comparison, Similarity
from attnscan.results.dependencies import Dependencies
from attnscan.results.heads import HeadScores
from attnscan.views.notebook import heads_html
from attnscan.views.page.frame import Page

A, B = "I went to the store.", "At the store, I bought fresh strawberries."
NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook.ipynb"


@pytest.fixture(scope="module")
def article() -> HeadScores:
    return attnscan.classify(A, B, model="bundled", predictive="off")


def parsed(html: str) -> ET.Element:
    """The view, which is well-formed XML too."""
    return ET.fromstring(html)


@pytest.mark.long
def test_importing_needs_no_torch_and_every_module_leaves_the_functions_alone() -> None:
    script = (
        "import sys, importlib, pkgutil, attnscan\n"
        "assert not {'torch', 'numpy', 'pandas'} & set(sys.modules)\n"
        "assert set(attnscan.__all__) <= set(dir(attnscan))\n"
        "for module in pkgutil.walk_packages(attnscan.__path__, 'attnscan.'):\n"
        "    if not module.name.endswith('__main__'):\n"
        "        importlib.import_module(module.name)\n"
        "from types import ModuleType\n"
        "assert not [name for name in attnscan.__all__ if isinstance(getattr(attnscan, name), ModuleType)]\n"
        "assert callable(attnscan.classify) and callable(attnscan.heads)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_no_module_has_the_name_of_what_is_offered() -> None:
    modules = {module.name for module in pkgutil.iter_modules(attnscan.__path__)}
    assert modules & set(attnscan.__all__) == {"__version__"}  # set after that module is imported, and so a text
    assert isinstance(attnscan.__version__, str)
    with pytest.raises(AttributeError, match="has no attribute 'clasify'"):
        attnscan.clasify  # noqa: B018
    assert importlib.import_module("attnscan.scan.one_input")


def test_classify_is_what_the_command_line_says(article: HeadScores) -> None:
    from typer.testing import CliRunner

    result = CliRunner().invoke(app, ["classify", A, B, "--model", "bundled", "--predictive", "off", "--csv"])
    lines = [line.split(",") for line in result.stdout.splitlines()[1:]]
    frame = article.to_frame()
    assert [line[4] for line in lines] == list(frame["label"])
    assert [float(line[9]) for line in lines] == pytest.approx(list(frame["next-word"]), abs=1e-6)


def test_options_are_those_of_a_scan() -> None:
    words = attnscan.classify(A, B, model="bundled", unit="word", predictive="off")
    assert "strawberries" in words.units and words.signature.unit == "word"
    with pytest.raises(TypeError, match="'untis': did you mean 'unit'"):
        attnscan.classify(A, untis="word")
    with pytest.raises(InputError):
        attnscan.classify(" ", model="bundled")
    assert attnscan.AttnscanError is AttnscanError


def test_the_attention_comes_along(toy: str) -> None:
    result = attnscan.classify(A, model=toy, predictive="off")
    attention = result.attention
    assert isinstance(attention, attnscan.Attention)
    assert attention.tokens == result.units and attention.weights.shape[:2] == result.scores.grid.shape
    assert attnscan.classify(A, model=toy, predictive="off", keep_attention=False).attention is None


def test_heads_are_ranked_over_an_iterable(toy: str) -> None:
    pairs: list[Any] = [("the cat sat", "a dog ran"), ("the cat ran", None), "a dog sat"]
    ranking = attnscan.heads(iter(pairs), model=toy, predictive="off")
    assert ranking.signature.pairs_read == 3
    best = ranking.to_frame(["previous-word"], 1).iloc[0]
    assert (best["layer"], best["head"]) == (1, 1) and best["score"] > 0.9
    with pytest.raises(InputError):
        attnscan.heads([], model=toy)


def test_a_notebook_shows_the_screen(article: HeadScores) -> None:
    html = replace(article, attention=None)._repr_html_()
    text = "".join(parsed(html).itertext())
    assert "A [CLS] i went to the store" in text and "P the previous word" in text and "layers down" in text
    assert len(html) < 60_000


def test_a_notebook_shows_every_head_below_where_the_attention_was_kept(article: HeadScores) -> None:
    *_, frame = parsed(f"<div>{article._repr_html_()}</div>").iter("iframe")
    # not allow-same-origin: it cannot reach the notebook
    assert frame.attrib["sandbox"] == "allow-scripts allow-downloads"
    page = frame.attrib["srcdoc"]
    assert page.startswith("<!doctype html>") and "Content-Security-Policy" in page and len(page) < 1_000_000


def test_the_view_escapes_what_comes_from_outside(article: HeadScores) -> None:
    hostile = ('<script>alert("1")</script>', "<img onerror=x>", "a&b", '"', "\x1b[31m", "\u202eabc", "שלום", "\ufffe")
    units = (*hostile, *article.units[len(hostile) :])
    shown = replace(
        article, attention=None, units=units, signature=replace(article.signature, model="<b>'\"&"), notes=("<i>",)
    )
    root = parsed(heads_html(shown))
    text = "".join(root.itertext())
    assert all(part in text for part in (*hostile[:4], r"\x1b[31m", r"\u202eabc", "שלום", r"\ufffe", "<b>'\"&", "<i>"))
    assert {element.tag for element in root.iter()} == {"pre", "span"}


@pytest.mark.long
def test_the_example_notebook_runs_from_end_to_end(tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)  # they would go stale
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(tmp_path))
    data = [output["data"] for cell in notebook.cells for output in cell.get("outputs", ()) if "data" in output]
    assert {"text/html", "image/svg+xml"} <= {kind for shown in data for kind in shown}
    assert "the previous word" in data[0]["text/html"] and "0-2 1.00" in data[0]["text/html"]


PAIRS = [(A, B), ("The cat sat on the mat.", "The cat lay on the rug."), ("She sings.", "He sings, too.")]


def test_dependencies_are_those_of_the_command() -> None:
    helps = attnscan.predictive("I went home.", model="bundled", predictive_words=3)
    assert isinstance(helps, Dependencies) and helps.signature.predictive == "distance"
    assert len(helps.to_frame()) == 6  # each of three words by each other
    with pytest.raises(OptionError):
        attnscan.predictive("I went home.", model="bundled", predictive="off")


def test_files_rank_as_their_pairs_do(toy: str, tmp_path: Path) -> None:
    path, kept = tmp_path / "pairs.csv", tmp_path / "kept.parquet"
    path.write_text("x,y\n" + "\n".join(f'"{a}","{b}"' for a, b in PAIRS) + "\n,\n", encoding="utf-8")
    bad: list[InputError] = []
    options: Any = {"model": toy, "predictive": "off"}
    ranking = attnscan.heads(path, columns=["x", "y"], id="y", on_bad=bad.append, per_pair=kept, **options)
    assert ranking.to_frame().equals(attnscan.heads(PAIRS, **options).to_frame())
    assert [error.what.startswith(f"{path}:5") for error in bad] == [True]
    kept_rows = pd.read_parquet(kept)
    assert set(zip(kept_rows["pair"], kept_rows["id"], strict=True)) == {(i, b) for i, (_, b) in enumerate(PAIRS, 1)}
    assert ranking._repr_html_() is not None
    with pytest.raises(InputError):
        attnscan.heads([path], columns=["x", "y"], **options)


def test_heads_are_switched_off_by_name_and_by_pattern() -> None:
    by_name = attnscan.ablate(iter(PAIRS), heads=[(0, 2), (1, 8)], draws=2, replace="mean", model="bundled")
    assert isinstance(by_name, Ablation) and by_name.signature.pairs_read == 3
    assert [effect.set.name for effect in by_name.effects] == ["0-2,1-8"]
    named: Any = {"pattern": "next-word", "top": 1, "draws": 2, "predictive": "off", "model": "bundled"}
    by_pattern = attnscan.ablate(PAIRS, **named)
    assert [effect.set.name for effect in by_pattern.effects] == ["next-word"]
    assert [effect.set.heads for effect in by_pattern.effects] == [(attnscan.Head(1, 8),)]
    with pytest.raises(OptionError, match="did you mean 'masked-lm'"):
        attnscan.ablate(PAIRS, measure=["masked-ml"], model="bundled")
    with pytest.raises(SelectionError):
        attnscan.ablate(PAIRS, heads="9-9", model="bundled")
    with pytest.raises(OptionError, match="there is no replace 'meen'; did you mean 'mean'"):
        attnscan.ablate(PAIRS, replace="meen", model="bundled")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="there is no match 'nearst'; did you mean 'nearest'"):
        attnscan.compare("bundled", "bundled", PAIRS, match="nearst")  # type: ignore[arg-type]


def test_alike_and_apart(toy: str) -> None:
    alike = attnscan.similar(iter(PAIRS), queries=4, within=0.2, model=toy)
    assert isinstance(alike, Similarity) and alike.within == 0.2
    assert alike.to_matrix().shape[0] == 6
    apart = attnscan.compare(toy, toy, iter(PAIRS), match="nearest")
    assert isinstance(apart, Comparison) and apart.pairs == 3
    assert (apart.to_frame()["difference"] == 0).all() and "predictive" not in apart.patterns
    with pytest.raises(OptionError, match="predictive cannot be compared"):
        attnscan.compare(toy, toy, PAIRS, pattern="predictive")
    drawn = attnscan.plot(alike, format="png")
    assert drawn.startswith(b"\x89PNG")


def test_a_result_becomes_a_page_and_pictures(article: HeadScores) -> None:
    made = attnscan.report(article, heads="0-2", neurons=False)
    assert isinstance(made, Page) and made.html.startswith("<!doctype html>")
    assert len(made.html) < len(attnscan.report(article, heads=[(0, 2), (1, 8)]).html)
    assert any("heads" in note for note in attnscan.report(article, size=0.05).notes)
    svg = attnscan.plot(article, kind="head", heads="0-2", width=4)
    assert b"<svg" in svg and svg != attnscan.plot(article, kind="head", heads="0-2", width=5)
    with pytest.raises(OptionError, match="attention"):
        attnscan.report(replace(article, attention=None))
    with pytest.raises(OptionError, match="did you mean 'layers'"):
        attnscan.plot(article, kind="layer")  # type: ignore[arg-type]

"""What `import attnscan` offers: functions that stay functions, no torch before it is needed, a
view in notebooks.
"""

import importlib
import pkgutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

import attnscan
from attnscan.errors import OptionError
from attnscan.results.heads import HeadScores
from attnscan.views.notebook import heads_html
from attnscan.views.page.page import Page

NOTEBOOK = Path(__file__).parents[1] / "examples" / "first_steps.ipynb"


@pytest.mark.long
def test_importing_needs_no_torch() -> None:
    script = (
        "import sys, importlib, pkgutil, attnscan\n"
        "assert not {'torch', 'numpy', 'pandas'} & set(sys.modules)\n"
        "assert set(attnscan.__all__) <= set(dir(attnscan))\n"
        "for module in pkgutil.walk_packages(attnscan.__path__, 'attnscan.'):\n"
        "    if not module.name.endswith('__main__'):\n"
        "        importlib.import_module(module.name)\n"
        "from types import ModuleType\n"
        "values = [getattr(attnscan, name) for name in attnscan.__all__]\n"
        "assert not [value for value in values if isinstance(value, ModuleType)]\n"
        "assert callable(attnscan.classify) and callable(attnscan.heads)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_no_module_has_the_name_of_what_is_offered() -> None:
    modules = {module.name for module in pkgutil.iter_modules(attnscan.__path__)}
    assert modules & set(attnscan.__all__) == {
        "__version__"
    }  # set after that module is imported, and so a text
    assert isinstance(attnscan.__version__, str)
    with pytest.raises(AttributeError, match="has no attribute 'clasify'"):
        attnscan.clasify  # noqa: B018
    assert importlib.import_module("attnscan.scan.scanner")


def test_a_notebook_shows_every_head_of_kept_attention(
    article: HeadScores,
) -> None:
    *_, frame = ET.fromstring(f"<div>{article._repr_html_()}</div>").iter("iframe")
    # not allow-same-origin: it cannot reach the notebook
    assert frame.attrib["sandbox"] == "allow-scripts allow-downloads"
    page = frame.attrib["srcdoc"]
    assert (
        page.startswith("<!doctype html>")
        and "Content-Security-Policy" in page
        and len(page) < 1_000_000
    )


def test_the_view_escapes_what_comes_from_outside(article: HeadScores) -> None:
    hostile = (
        '<script>alert("1")</script>',
        "<img onerror=x>",
        "a&b",
        '"',
        "\x1b[31m",
        "\u202eabc",
        "שלום",
        "\ufffe",
    )
    units = (*hostile, *article.units[len(hostile) :])
    shown = replace(
        article,
        attention=None,
        units=units,
        signature=replace(article.signature, model="<b>'\"&"),
        notes=("<i>",),
    )
    root = ET.fromstring(heads_html(shown))
    text = "".join(root.itertext())
    assert all(
        part in text
        for part in (*hostile[:4], r"\x1b[31m", r"\u202eabc", "שלום", r"\ufffe", "<b>'\"&", "<i>")
    )
    assert {element.tag for element in root.iter()} == {"pre", "span"}


@pytest.mark.long
def test_the_example_notebook_runs_from_end_to_end(tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)  # they would go stale
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(tmp_path))
    data = []
    for cell in notebook.cells:
        streams = [
            output for output in cell.get("outputs", ()) if output["output_type"] == "stream"
        ]
        assert not [output for output in streams if output["name"] == "stderr"], "a warning"
        data += [output["data"] for output in cell.get("outputs", ()) if "data" in output]
    assert {"text/html", "image/svg+xml"} <= set().union(*data)
    assert "the previous word" in data[0]["text/html"] and "0-2 1.00" in data[0]["text/html"]
    assert len(notebook.cells) == 10


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

"""The README and docs show what the program prints, and every command and module is in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from readme import PAGES, README, updated
from typer.testing import CliRunner

import attnscan
from attnscan.cli import app

TEXT = README.read_text(encoding="utf-8")
MODULES = sorted(path.name for path in Path(attnscan.__file__).parent.rglob("*.py") if not path.name.startswith("__"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_output_in_pages_is_real(page: Path) -> None:
    """If this fails: run `make readme`, and look at what changed."""
    text = page.read_text(encoding="utf-8")
    assert updated(text) == text


@pytest.mark.parametrize("module", MODULES)
def test_every_module_is_in_the_tour(module: str) -> None:
    assert f"{module} " in TEXT.split("## How the code is laid out")[1].split("##")[0]


def test_every_option_of_classify_is_in_the_readme() -> None:
    words = CliRunner().invoke(app, ["classify", "--help"]).stdout.replace(",", " ").split()
    options = {word for word in words if word.startswith("--")} - {"--help"}
    assert not {option for option in options if option not in TEXT}


def test_every_check_that_the_readme_names_is_there() -> None:
    written = (README.parent / "tests" / "test_families.py").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", TEXT))
    assert named and not {name for name in named if f"def {name}(" not in written}

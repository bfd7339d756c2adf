"""`benchmarks/stale.py`, over a small repository whose tables are of one commit or another."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from stale import stale

Lines = Callable[[str], list[str]]
TABLE = "\n### {}\n\n<!-- of {}: {} -->\n\n| a | b |\n| --- | --- |\n"


def _git(root: Path, *words: str) -> str:
    who = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
    command = ["git", *who, *words]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


def _commit(root: Path, path: str, text: str) -> str:
    """Write a file, commit it, and return the commit's short name."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)
    _git(root, "add", "-A")
    _git(root, "commit", "--quiet", "-m", f"{path}: {text}")
    return _git(root, "rev-parse", "--short", "HEAD").strip()


@pytest.fixture
def first(tmp_path: Path) -> str:
    """The first commit of a repository with three files of code."""
    _git(tmp_path, "init", "--quiet")
    _commit(tmp_path, "measured.py", "1")
    _commit(tmp_path, "code/other.py", "1")
    return _commit(tmp_path, "code/scores.py", "1")


@pytest.fixture
def lines(tmp_path: Path, first: str) -> Lines:
    """What is said of some tables by hand, below those of a program that are of their code."""

    def told(tables: str) -> list[str]:
        results = tmp_path / "benchmarks" / "RESULTS.md"
        results.parent.mkdir(exist_ok=True)
        results.write_text(f"# Costs\n\n<!-- of {first}: measured.py -->\n\n## By hand\n{tables}")
        return list(stale(results))

    return told


def test_table_is_stale_once_its_code_changes(tmp_path: Path, first: str, lines: Lines) -> None:
    table = TABLE.format("Scores", first, "code/scores.py code/unused")
    _commit(tmp_path, "code/unused/a.py", "1")
    table_of_now = TABLE.format("Scores", _commit(tmp_path, "README", "1"), "code/scores.py")
    assert lines(table_of_now) == []
    _commit(tmp_path, "code/scores.py", "2")
    assert lines(table_of_now)[0].startswith("Scores: 1 commit has changed code/scores.py since ")
    told = f"Scores: 2 commits have changed code/scores.py code/unused since {first}"
    assert lines(table) == [told]


def test_other_code_makes_no_table_stale(tmp_path: Path, first: str, lines: Lines) -> None:
    _commit(tmp_path, "code/other.py", "2")
    scores = TABLE.format("Scores", first, "code/scores.py")
    both = TABLE.format("Both", first, "code")
    assert lines(scores) == []
    assert lines(scores + both) == [f"Both: 1 commit has changed code since {first}"]


def test_tables_that_a_program_writes_have_one_mark(tmp_path: Path, first: str) -> None:
    results = tmp_path / "benchmarks" / "RESULTS.md"
    results.parent.mkdir()
    results.write_text(f"# Costs\n\n<!-- of {first}: code -->\n\n| a |\n\n## By hand\n")
    assert list(stale(results)) == []
    _commit(tmp_path, "code/other.py", "2")
    told = f"What make bench writes: 1 commit has changed code since {first}"
    assert list(stale(results)) == [told]


def test_table_that_cannot_be_told_is_listed(first: str, lines: Lines) -> None:
    assert lines("\n### Bare\n\n| a |\n") == ["Bare: it does not say of which commit it is"]
    unknown = TABLE.format("Old", "abcdef12", "code")
    assert lines(unknown) == ["Old: commit abcdef12 is not known here"]
    moved = TABLE.format("Moved", first, "code/scores.py code/gone.py")
    assert lines(moved) == ["Moved: there is no code/gone.py"]

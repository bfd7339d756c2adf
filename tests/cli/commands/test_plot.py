"""`attnscan plot`: every kind as every file, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from drawn import size, texts
from typer.testing import CliRunner, Result

from attnscan.cli.app import app
from attnscan.inputs.weights import write_weights
from attnscan.results.attention import Attention

KINDS = (["map"], ["scores"], ["layers"], ["head", "--heads", "1-1"], ["head", "--heads", "1-1,0-2", "--lines"])


PAIRS = [("the cat sat", "a cat ran"), ("the dog ran", "a dog")]


def plot(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["plot", *arguments])


@pytest.mark.parametrize("format", ["svg", "pdf", "png"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(kind).replace("---", "-"))
def test_every_kind_as_every_file(kind: list[str], format: str, toy: str, tmp_path: Path) -> None:
    path = tmp_path / f"heads.{format.upper()}"
    result = plot("the cat sat", "a cat", "--model", toy, "--predictive", "off", "--kind", *kind, "-o", str(path))
    assert (result.exit_code, result.output) == (0, "")
    picture = path.read_bytes()
    assert picture.startswith({"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}[format])
    width, height = size(picture, format)
    assert width == pytest.approx(3.3, abs=0.01) and 0.5 < height <= 9.5


def test_a_window_of_a_head_is_drawn_and_no_more(toy: str, tmp_path: Path) -> None:
    path = tmp_path / "heads.svg"
    options = ("--model", toy, "--predictive", "off", "--kind", "head", "--heads", "1-1", "-o", str(path))
    assert plot("the cat sat on the mat", *options, "--window", "2-4").exit_code == 0
    assert {"cat", "sat", "on"} <= set(texts(path.read_bytes())) and "mat" not in texts(path.read_bytes())
    wrong = plot("the cat sat", "--model", toy, "--window", "2-4", "-o", str(path))
    assert wrong.exit_code == 2 and "--window are for --kind head" in wrong.stderr


def test_saved_weights_are_drawn_without_a_model(attention: Attention, tmp_path: Path) -> None:
    path, out = tmp_path / "weights.npz", tmp_path / "out.svg"
    path.write_bytes(write_weights(attention.saved()))
    for kind in KINDS:
        result = plot("--weights", str(path), "--unit", "word", "--kind", *kind, "-o", str(out))
        assert (result.exit_code, result.output) == (0, "")
    found = texts(out.read_bytes())
    assert "strawberries" in found and "##berries" not in found


def test_pairs_are_drawn(toy: str, tmp_path: Path) -> None:
    pairs, out = tmp_path / "pairs.tsv", tmp_path / "out.svg"
    pairs.write_text("one\ttwo\tmore\n" + "the cat sat\ta cat ran\tx\n" * 6 + "alone\n")
    options = ("--columns", "one,two", "--skip-bad", "--model", toy, "--predictive", "off")
    result = plot("--pairs", str(pairs), *options, "-o", str(out))
    assert result.exit_code == 0 and "1 bad record" in result.stderr
    shown = " ".join(texts(out.read_bytes()))
    assert "Map: what each head does, by attention weight, among words." in shown and "no distinct habit (3)" in shown


def test_without_the_library_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = plot("A b.", "-o", str(tmp_path / "heads.svg"))
    assert result.exit_code == 1
    assert result.output == (
        "attnscan: pictures need matplotlib, which is not installed; run: pip install 'attnscan[plot]'\n"
    )

"""`attnscan report`: a page in a file."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from pages import Elements
from toy import save_toy_bert
from treebanks import planted_file
from typer.testing import CliRunner

from attnscan.cli.app import app


class TestCommand:
    @pytest.fixture
    def weights(self, tmp_path: Path) -> Path:
        tokens = ["[CLS]", "the", "cat", "[SEP]", "[PAD]"]
        even = np.full((1, 2, 5, 5), 0.25)
        even[..., 4] = 0
        np.savez(tmp_path / "w.npz", attention=even, tokens=np.array(tokens), segments=np.zeros(5, int))
        return tmp_path / "w.npz"

    def test_it_writes_a_page_of_saved_weights(self, weights: Path, tmp_path: Path) -> None:
        path = tmp_path / "page.html"
        done = CliRunner().invoke(app, ["report", "--weights", str(weights), "-o", str(path)])
        assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
        elements = Elements(path.read_text(encoding="utf-8"))
        assert elements.facts["tokens"] == ["[CLS]", "the", "cat", "[SEP]"]
        assert elements.carried("weights") == [(0, 0), (0, 1)] and elements.carried("neurons") == []

    def test_pairs_have_a_page_of_their_own(self, tmp_path: Path) -> None:
        pairs, path = tmp_path / "pairs.csv", tmp_path / "page.html"
        pairs.write_text("x,y\n" + "".join(f"the cat {i} sat,a cat {i} ran\n" for i in range(6)))
        options = ["--columns", "x,y", "--model", "bundled", "--predictive", "off", "-o", str(path)]
        done = CliRunner().invoke(app, ["report", "--pairs", str(pairs), *options])
        assert done.exit_code == 0, done.output
        elements = Elements(path.read_text(encoding="utf-8"))
        assert elements.facts["readings"] == ["words"]
        assert elements.facts["profiles"]["weight"] and "6 pairs" in path.read_text(encoding="utf-8")

    def test_sentences_of_a_treebank_are_chosen_by_number(self, tmp_path: Path) -> None:
        model = str(save_toy_bert(tmp_path / "m", 1, 2, {(0, 0): "articles to nouns"}))
        path, trees = tmp_path / "page.html", planted_file(tmp_path)
        asked = ["report", "--treebank", trees, "--model", model, "--predictive", "off", "-o", str(path)]
        done = CliRunner().invoke(app, [*asked, "--sentences", "289"])
        assert (done.exit_code, path.exists()) == (1, False)
        assert done.stderr == "attnscan: there is no sentence 289; the treebank has 288 sentences\n"
        done = CliRunner().invoke(app, [*asked, "--sentences", "40,2-3"])
        assert (done.exit_code, done.output) == (0, "")
        inputs = Elements(path.read_text(encoding="utf-8")).data["inputs"]
        assert [each["key"] for each in inputs] == ["40", "2", "3"]

    def test_what_did_not_fit_is_said(self, tmp_path: Path) -> None:
        words = " ".join(["the cat sat on the mat and the dog ran"] * 6)
        path = tmp_path / "page.html"
        options = ["--model", "bundled", "--predictive", "off", "--size", "1", "-o", str(path)]
        done = CliRunner().invoke(app, ["report", words, *options])
        assert done.exit_code == 0, done.output
        assert re.search(r"attnscan: the queries and keys of \d+ of 72 heads fit in 1 MB", done.stderr)
        assert path.stat().st_size <= 1_000_000

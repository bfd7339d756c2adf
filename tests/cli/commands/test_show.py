"""One head's weights on screen: what is shown fits, and is what the rows say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.testing import assert_allclose
from show_command import ARTICLE, rows_of, screen_of

from attnscan.inputs.weights import write_weights
from attnscan.results.attention import Attention


def test_saved_weights_are_shown_without_a_model(attention: Attention, tmp_path: Path) -> None:
    path = tmp_path / "saved.npz"
    path.write_bytes(write_weights(attention.saved()))
    by_model, by_file = (
        rows_of("0-2", *ARTICLE, "--to-sentence", "B"),
        rows_of("0-2", "--weights", str(path), "--to-sentence", "B"),
    )
    assert set(by_file.pop("model")) == {"saved.npz"} and set(by_model.pop("model")) == {"bundled"}
    pd.testing.assert_frame_equal(by_file, by_model)
    assert "saved.npz" in screen_of("0-2", "--weights", str(path))


def test_the_map_marks_the_previous_word_of_every_word() -> None:
    lines = screen_of("0-2", *ARTICLE).splitlines()
    assert lines[:2] == [f"A  {ARTICLE[0]}", f"B  {ARTICLE[1]}"]
    assert lines[4] == "0-2  P previous-word"
    rows = [line for line in lines if line[:3].strip().isdigit()]
    assert len(rows) == 19
    for i, row in enumerate(rows[2:8], 2):
        assert row.index("██") == 14 + 2 * (i - 1), row  # the cell of the token before it


def test_a_long_input_is_a_list_that_says_how_to_see_more() -> None:
    long = " ".join(["the cat sat"] * 40)
    text = screen_of("0-2", long)
    assert "The 20 strongest of 14,884 weights" in text
    assert "--window 0-" in text and "--token" in text
    window = text.split("--window ")[1].split()[0]
    rows = [line for line in screen_of("0-2", long, "--window", window).splitlines() if line[:3].strip().isdigit()]
    assert len(rows) == int(window.split("-")[1]) + 1
    assert "strongest" not in screen_of("0-2", long, "--window", window)


def test_weights_on_screen_are_those_of_the_rows() -> None:
    frame = rows_of("2-9", *ARTICLE, "--token", "5").sort_values("weight", ascending=False, kind="stable")
    lines = screen_of("2-9", *ARTICLE, "--token", "5").splitlines()
    shown = [line.split() for line in lines if line.startswith("    ")]
    assert [int(cells[0]) for cells in shown] == frame["key"].tolist()
    assert_allclose([float(cells[2]) for cells in shown], np.asarray(frame["weight"]), atol=6e-4)

"""One head's weights on screen: what is shown fits, and is what the rows say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from show_command import ARTICLE, outcome_of, rows_of, screen_of

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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give a sentence, or two, or --weights FILE.npz"),
        (["The cat sat.", "--weights", "w.npz"], "give a sentence, or two, or --weights FILE.npz, but not both"),
        (["--weights", "w.npz", "--model", "bundled"], "--weights needs no model"),
        (["--weights", "w.npz", "-o", "w.npz"], "w.npz is named twice, and would be overwritten"),
    ],
)
def test_either_a_sentence_or_saved_weights(arguments: list[str], said: str) -> None:
    code, _, errors = outcome_of("0-2", *arguments, width=200)
    assert code == 2 and said in errors


def test_the_map_marks_the_previous_word_of_every_word() -> None:
    lines = screen_of("0-2", *ARTICLE).splitlines()
    assert lines[:2] == [f"A  {ARTICLE[0]}", f"B  {ARTICLE[1]}"]
    assert lines[4] == "0-2  P previous-word"
    rows = [line for line in lines if line[:3].strip().isdigit()]
    assert len(rows) == 19
    for i, row in enumerate(rows[2:8], 2):
        assert row.index("██") == 14 + 2 * (i - 1), row  # the cell of the token before it


@pytest.mark.parametrize(("width", "words"), [(40, 3), (40, 200), (60, 12), (80, 200), (120, 12)])
def test_no_line_is_wider_than_the_screen(width: int, words: int) -> None:
    text = screen_of("0-2,5-11", "straw" * 3 + " berries" * words, "the 語 cat", width=width)
    from rich.cells import cell_len

    assert max(map(cell_len, text.splitlines())) <= width


def test_a_long_input_is_a_list_that_says_how_to_see_more() -> None:
    long = " ".join(["the cat sat"] * 40)
    text = screen_of("0-2", long)
    assert "The 20 strongest of 14,884 weights" in text
    assert "--window 0-" in text and "--token" in text
    window = text.split("--window ")[1].split()[0]
    rows = [line for line in screen_of("0-2", long, "--window", window).splitlines() if line[:3].strip().isdigit()]
    assert len(rows) == int(window.split("-")[1]) + 1
    assert "strongest" not in screen_of("0-2", long, "--window", window)


def test_wide_letters_stand_above_their_columns() -> None:
    lines = screen_of("0-0", "a 語 b").splitlines()
    from rich.cells import cell_len

    header = next(line for line in lines if "語" in line and not line.startswith("A "))
    row = next(line for line in lines if line.startswith("  0 [CLS]"))
    assert cell_len(header.split("語")[0]) == len("  0 [CLS] ") + 2 * 2
    assert cell_len(row) >= len("  0 [CLS] ") + 2 * 5


def test_the_strongest_weights_are_listed_strongest_first() -> None:
    lines = [line for line in screen_of("2-9", *ARTICLE, "--top", "7").splitlines() if "→" in line]
    weights = [float(line.split("→")[1].split()[2]) for line in lines]
    assert len(weights) == 7 and weights == sorted(weights, reverse=True)


def test_hostile_words_are_text() -> None:
    text = screen_of("0-0", "[bold]x[/bold] \x1b[31mred", "=1+1 \u202eabc")
    assert "\x1b" not in text and "\u202e" not in text
    cells = {cell for line in screen_of("0-0", "=1+1 a", "--csv").splitlines() for cell in line.split(",")}
    assert {"=", "1", "+", "a"} <= cells  # none of which is a formula


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["6-0", "a b"], 1, "6-0: this model has layers 0 to 5; give a layer among these"),
        (["0-12", "a b"], 1, "0-12: this model has heads 0 to 11"),
        (["2_0", "a b"], 1, "'2_0' names no head; name heads as 2-0"),
        (["0-0", "a store", "--token", "stor"], 1, "did you mean 'store'?"),
        (["0-0", "a", "--from-sentence", "B"], 1, "no token of sentence B"),
        (["0-0", "a", "--window", "50-60"], 1, "the input has tokens 0 to 2"),
        (["0-0", "a", "--window", "9-5"], 2, "is not a window"),
        (["0-0", "a", "--from-sentence", "C"], 2, "--from"),
        (["0-0"], 2, "give a sentence, or two, or --weights FILE.npz"),
        (["0-0", ""], 1, "sentence A is empty"),
    ],
)
def test_what_cannot_be_shown(arguments: list[str], code: int, message: str) -> None:
    found, text, errors = outcome_of(*arguments, width=200)
    assert (found, text) == (code, "")
    assert message in errors


def test_weights_on_screen_are_those_of_the_rows() -> None:
    frame = rows_of("2-9", *ARTICLE, "--token", "5").sort_values("weight", ascending=False, kind="stable")
    lines = screen_of("2-9", *ARTICLE, "--token", "5").splitlines()
    shown = [line.split() for line in lines if line.startswith("    ")]
    assert [int(cells[0]) for cells in shown] == frame["key"].tolist()
    assert_allclose([float(cells[2]) for cells in shown], np.asarray(frame["weight"]), atol=6e-4)

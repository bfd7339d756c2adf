"""`attnscan profile`, by what it prints."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import A, B, run
from typer.testing import CliRunner

from attnscan.cli.app import app
from attnscan.results.profile import parts_of

ONE = ("profile", A, B, "--model", "bundled")


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    sentences = ["The cat sat on the mat.", "A dog ran to the store.", "I went home, and you did not."]
    rows = [f"{a}\t{b}" for a in sentences for b in sentences]
    path.write_text("sentence_a\tsentence_b\n" + "\n".join(rows) + "\n")
    return path


def _refused(*arguments: str) -> str:
    outcome = CliRunner().invoke(app, list(arguments))
    assert outcome.exit_code == 2
    return " ".join(outcome.output.replace("│", " ").split())


def _table(*arguments: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(run(*arguments, "--csv").stdout))


def test_a_line_for_every_head_with_its_parts() -> None:
    lines = run(*ONE).stdout.splitlines()
    assert sum(re.match(r"\d+-\d+ ", line) is not None for line in lines) == 72
    (line,) = (line for line in lines if line.startswith("0-2 "))
    assert re.match(r"0-2 +offset-1 0\.8\d .*\| explained 0\.\d\d, even 0\.\d\d", line)
    assert [line.split()[0] for line in lines[6:12]] == [str(layer) for layer in range(6)]
    assert "even: what even attention alone explains" in " ".join(lines)


def test_one_head_in_full(pairs: Path) -> None:
    screen = run("profile", "--pairs", str(pairs), "--model", "bundled", "--heads", "1-4").stdout
    assert "1-4  explained 0." in screen
    assert [int(line.split()[0]) for line in re.findall(r"^ +[-+]?\d+ +0\.\d.*$", screen, re.MULTILINE)] == [
        *range(-8, 9)
    ]
    several = run("profile", "--pairs", str(pairs), "--model", "bundled", "--heads", "1-4,0-2").stdout
    assert "By distance" not in several and len(re.findall(r"^\d-\d ", several, re.MULTILINE)) == 2


def test_csv_is_long_and_of_every_head(pairs: Path) -> None:
    table = _table("profile", "--pairs", str(pairs), "--model", "bundled")
    assert table.columns.tolist() == ["model", "layer", "head", "part", "share", "se", "explained", "explained_by_even"]
    assert len(table.groupby(["layer", "head"])) == 72
    assert set(table["part"]) <= set(parts_of())
    assert table["share"].between(0, 1.01).all() and table["explained"].between(0, 1).all()
    assert table["se"].notna().all()
    strongest = table.sort_values("share").groupby(["layer", "head"]).tail(1).set_index(["layer", "head"])["part"]
    assert strongest[0, 2] == "offset-1" and strongest[1, 8] == "offset+1"


def test_of_one_input_there_is_no_error() -> None:
    table = _table(*ONE, "--heads", "0-2", "--top", "2")
    assert len(table) == 2 and table["se"].isna().all()
    assert table["part"].tolist()[0] == "offset-1"


def test_by_norm_less_goes_to_special_tokens() -> None:
    weights, carried = (_table(*ONE, *options) for options in (("--special=in",), ("--by=carried", "--special=in")))
    special = [table[table["part"].isin(["start", "middle", "end"])]["share"].sum() for table in (weights, carried)]
    assert special[1] < special[0] / 2
    assert "by what heads carry" in run(*ONE, "--by=carried").stdout.splitlines()[2]


def test_what_is_asked_of_the_model_is_a_part() -> None:
    asked = _table(*ONE, "--predictive", "auto", "--predictive-words", "4")
    assert "predictive" in set(asked["part"])
    said = json.loads(run(*ONE, "--predictive", "auto", "--predictive-words", "4", "--format", "json").stdout)
    assert said["signature"]["predictive"] == "distance"


def test_a_state_is_gone_on_with(toy: str, pairs: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    command = ("profile", "--pairs", str(pairs), "--model", toy)
    whole = _table(*command)
    first = _table(*command, "--state", str(state))
    again = _table(*command, "--state", str(state))
    for found in (first, again):
        pd.testing.assert_frame_equal(found, whole)
    outcome = CliRunner().invoke(app, ["heads", *command[1:], "--predictive", "off", "--state", str(state)])
    assert outcome.exit_code == 1 and "belongs to another run: its " in " ".join(outcome.output.split())


def test_bad_records_are_skipped_and_counted(toy: str, pairs: Path) -> None:
    pairs.write_text(pairs.read_text() + "only one\n")
    outcome = run("profile", "--pairs", str(pairs), "--model", toy, "--skip-bad", "--heads", "0-2,1-1")
    assert "1 bad record was skipped" in outcome.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("a b", "--pairs", "x.tsv"), "give a sentence, or two, or --pairs, but not both"),
        (("a b", "--state", "x.json"), "--state is for many pairs"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: tuple[str, ...], says: str) -> None:
    assert says in _refused("profile", *arguments)


def test_heads_that_are_not_there_are_refused() -> None:
    outcome = CliRunner().invoke(app, [*ONE, "--heads", "9-9"])
    assert outcome.exit_code == 1 and outcome.output.count("\n") == 1


def test_a_decoders_parts_lie_before(tmp_path: Path) -> None:
    from families import TAPPED, tiny_model
    from tiny_checkpoints import save

    model = save(tmp_path / "gpt2", tiny_model("gpt2", TAPPED["gpt2"]))
    table = _table("profile", "the cat sat on the cat", "--model", str(model))
    assert not table["part"].str.startswith("offset+").drop(index=table.index[table["part"] == "offset+0"]).any()
    assert np.isfinite(table["share"]).all()


def test_saved_weights_have_profiles(tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    run("classify", A, B, "--model", "bundled", "--predictive", "off", "--save-weights", str(path), "--csv")
    saved, plain = _table("profile", "--weights", str(path)), _table(*ONE, "--no-related")
    pd.testing.assert_frame_equal(saved.drop(columns="model"), plain.drop(columns="model"), atol=2e-6)
    outcome = CliRunner().invoke(app, ["profile", "--weights", str(path), "--by=carried"])
    assert outcome.exit_code == 1 and "saved weights do not hold what heads carry" in outcome.output


def test_pictures_of_profiles(tmp_path: Path, pairs: Path) -> None:
    many = ("profile", "--pairs", str(pairs), "--model", "bundled", "--predictive", "off")
    run(*many, "-o", str(tmp_path / "all.svg"))
    assert "own-sentence" in (tmp_path / "all.svg").read_text()
    run(*many, "--heads", "1-4", "-o", str(tmp_path / "one.svg"))
    assert "words before" in (tmp_path / "one.svg").read_text()
    for kind in (("profile",), ("distance", "--heads", "1-4,0-2")):
        one = ("plot", A, B, "--model", "bundled", "--predictive", "off")
        run(*one, "--kind", *kind, "-o", str(tmp_path / "plot.svg"))
        assert (tmp_path / "plot.svg").read_bytes().startswith(b"<?xml")
    unnamed = _refused("plot", A, "--model", "bundled", "--kind", "distance", "-o", "x.svg")
    assert "--kind distance needs --heads" in unnamed

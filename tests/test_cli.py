"""The command line, by what it prints."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from io import BytesIO, StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import attnscan
from attnscan.cli import COMMANDS, app

A, B = "I went to the store.", "At the store, I bought fresh strawberries."
COLUMNS = (
    "model,layer,head,label,runner_up,content_label,next-word,previous-word,identical,cross-sentence,predictive,"
    "delimiter,bag-of-words,entropy"
)


def run(*arguments: str) -> Result:
    """Run a command that must succeed."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result


def classify(*options: str) -> Result:
    return run("classify", A, B, "--model", "bundled", *options)


def test_version() -> None:
    assert run("--version").stdout == f"attnscan {attnscan.__version__}\n"


def test_help_names_every_command_and_every_option_has_a_help_text() -> None:
    commands = re.findall(r"^  (\w+)  ", run("--help").stdout.split("Commands:")[1], re.MULTILINE)
    assert commands == list(COMMANDS) and len(commands) == 12
    lines = run("classify", "--help").stdout.splitlines()
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_the_list_of_commands_says_what_each_says_itself(command: str) -> None:
    """The list is written down apart, so that it imports no command."""
    assert COMMANDS[command] in " ".join(run(command, "--help").stdout.split())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("attnscan ", [*COMMANDS]),
        ("attnscan ex", ["explain"]),
        ("attnscan classify --pred", ["--predictive", "--predictive-words"]),
        ("attnscan classify A --device c", ["cpu", "cuda"]),
    ],
)
def test_shells_complete_commands_options_and_values(words: str, expected: list[str]) -> None:
    asked = {"_ATTNSCAN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [sys.executable, "-m", "attnscan"], capture_output=True, text=True, env={**os.environ, **asked}
    )
    assert (done.stdout.split(), done.stderr) == (expected, "")


def test_a_mistyped_command_is_told_the_nearest() -> None:
    result = CliRunner().invoke(app, ["clasify", A])
    assert result.exit_code == 2 and "Did you mean 'classify'?" in result.stderr


def test_csv_is_the_contracts_to_the_letter() -> None:
    lines = classify("--csv").stdout.splitlines()
    assert lines[0] == COLUMNS
    assert len(lines) == 1 + 72
    first = lines[1].split(",")
    assert first[:3] == ["bundled", "0", "0"]
    assert all(re.fullmatch(r"\d\.\d{6}", cell) for cell in first[6:])
    without = classify("--csv", "--predictive", "off").stdout.splitlines()
    assert without[1].split(",")[10] == ""  # not measured


@pytest.mark.parametrize("format", ["csv", "tsv", "json", "jsonl", "markdown", "parquet"])
def test_every_format_carries_the_same_table(format: str, tmp_path: Path) -> None:
    expected = pd.read_csv(StringIO(classify("--csv").stdout))
    suffix = {"markdown": "md"}.get(format, format)
    path = tmp_path / f"heads.{suffix}"
    assert classify("-o", str(path)).stdout == ""
    content = path.read_bytes()
    if format == "parquet":
        found = pd.read_parquet(BytesIO(content)).round(6)
    elif format == "json":
        found = pd.DataFrame(json.loads(content)["heads"])
    elif format == "jsonl":
        found = pd.read_json(BytesIO(content), lines=True)
    elif format == "markdown":
        rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in StringIO(content.decode())]
        found = pd.read_csv(StringIO("\n".join(",".join(row) for row in [rows[0], *rows[2:]])))
    else:
        found = pd.read_csv(BytesIO(content), sep="\t" if format == "tsv" else ",")
    found["predictive"] = found["predictive"].astype(float)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, atol=1e-6)
    if format != "parquet":
        assert classify("--format", format).stdout == content.decode()


def test_json_carries_the_signature_and_the_tokens() -> None:
    data = json.loads(classify("--format", "json").stdout)
    assert data["signature"]["model"] == "bundled" and data["signature"]["device"] == "cpu"
    assert data["units"][:3] == ["[CLS]", "i", "went"]
    assert data["not_measured"] == {} and "130 hidden sequences" in data["notes"][0]


def test_chosen_patterns_rank_the_rows_and_top_cuts_them() -> None:
    table = pd.read_csv(StringIO(classify("--csv", "--pattern", "delimiter", "-p", "next-word", "--top", "5").stdout))
    assert table.columns[6:].tolist() == ["delimiter", "next-word", "entropy"]
    assert len(table) == 5 and table["delimiter"].is_monotonic_decreasing
    whole = pd.read_csv(StringIO(classify("--csv").stdout))
    assert table["delimiter"].max() == whole["delimiter"].max()


def test_all_ranks_every_head() -> None:
    rows = re.findall(r"^\d+-\d+ ", classify("--all").stdout, re.MULTILINE)
    assert len(rows) == len(set(rows)) == 72


def test_threshold_makes_more_heads_mixed() -> None:
    loose, strict = (pd.read_csv(StringIO(classify("--csv", "--threshold", x).stdout)) for x in ("0", "0.9"))
    assert (loose["label"] == "mixed").sum() < (strict["label"] == "mixed").sum()
    assert set(strict["label"]) == {"mixed", "previous-word"}


def test_saved_weights_come_back_as_the_same_table(tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    options = ("--csv", "--no-related", "--predictive", "off", "--save-weights", str(path))
    before = pd.read_csv(StringIO(classify(*options).stdout))
    with np.load(path) as arrays:
        assert sorted(arrays) == ["attention", "segments", "special", "tokens"]
        assert arrays["attention"].shape == (6, 12, 19, 19)
    after = pd.read_csv(StringIO(run("classify", "--weights", str(path), "--csv").stdout))
    assert set(after["model"]) == {"weights.npz"}
    pd.testing.assert_frame_equal(before.drop(columns="model"), after.drop(columns="model"), atol=2e-6)


def test_a_single_sentence_has_no_cross_sentence() -> None:
    table = pd.read_csv(StringIO(run("classify", A, "--model", "bundled", "--csv").stdout))
    assert table["cross-sentence"].isna().all() and table["next-word"].notna().all()


def test_the_default_model_without_a_hub_is_the_bundled_one_and_says_so() -> None:
    result = run("classify", A, B, "--csv")
    assert result.stderr.count("\n") == 1 and "using the bundled all-MiniLM-L6-v2" in result.stderr
    assert result.stdout == classify("--csv").stdout


def test_a_model_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNSCAN_MODEL", "bundled")
    result = run("classify", A, B, "--csv")
    assert result.stderr == "" and result.stdout == classify("--csv").stdout


def test_a_real_process_prints_data_alone_on_stdout_and_stops_at_a_closed_pipe(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    command = f"{sys.executable} -m attnscan classify '{A}' '{B}' --model bundled --csv"
    script = f"set -o pipefail; {command} | head -1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, COLUMNS + "\n", "")


@pytest.mark.parametrize("arguments", ["patterns", "models"])
def test_a_closed_standard_output_is_one_line(arguments: str) -> None:
    script = f"{sys.executable} -m attnscan {arguments} >&-"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "attnscan: standard output is closed; name a file with -o\n")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_terminal_of_any_encoding_gets_every_line(encoding: str) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    for arguments in (["patterns"], ["classify", "שלום 😀", "--model", "bundled"]):
        command = [sys.executable, "-m", "attnscan", *arguments]
        done = subprocess.run(command, capture_output=True, env=environment)
        assert done.returncode == 0 and b"Traceback" not in done.stderr
        assert len(done.stdout.decode(encoding).splitlines()) > 20


def test_heads_ranks_the_pairs_that_come_along() -> None:
    result = run("heads", "--model", "bundled", "--pattern", "previous-word", "-p", "next-word", "--csv")
    table = pd.read_csv(StringIO(result.stdout))
    assert result.stdout.splitlines()[0] == "model,pattern,rank,layer,head,score,chance,above_chance,se,n,pairs"
    assert len(table) == 2 * 72 and table["pairs"].min() > 80
    best = table.groupby("pattern").first()
    assert best.loc["previous-word", ["layer", "head"]].tolist() == [0, 2]
    assert best.loc["next-word", ["layer", "head"]].tolist() == [1, 8]


def test_heads_over_the_wikipedia_pairs(shared: Path, tmp_path: Path) -> None:
    pairs = ("--pairs", str(shared / "text" / "wikitext2-pairs.tsv"), "--state", str(tmp_path / "scan.state"))
    options = ("heads", "--model", "bundled", *pairs, "-p", "previous-word", "-p", "next-word", "--top", "1")
    table = pd.read_csv(StringIO(run(*options, "--csv").stdout)).set_index("pattern")
    assert table.loc["previous-word", ["layer", "head"]].tolist() == [0, 2]
    assert table.loc["previous-word", "score"] >= 0.99
    assert table.loc["next-word", ["layer", "head"]].tolist() == [1, 8]
    assert table.loc["next-word", "score"] == pytest.approx(0.62, abs=0.02)
    assert set(table["pairs"]) == {447}
    text = run(*options).stdout  # from the state: nothing is left to do
    assert "447 pairs" in text and "0-2" in text


PAIRS_CSV = "sentence_a,sentence_b\nthe cat sat on the mat,a cat ran\nhe ran to a store,the store was red\n"


def test_heads_from_standard_input_and_with_bad_records() -> None:
    options = ["heads", "--model", "bundled", "-p", "next-word", "--csv", "--pairs", "-"]
    good = CliRunner().invoke(app, options, input=PAIRS_CSV)
    assert good.exit_code == 0, good.output
    bad = PAIRS_CSV.replace("he ran", '"",b\nhe ran')
    stopped = CliRunner().invoke(app, options, input=bad)
    assert stopped.exit_code == 1 and stopped.stdout == "" and ":3" in stopped.stderr
    skipped = CliRunner().invoke(app, [*options, "--skip-bad"], input=bad)
    assert skipped.stdout == good.stdout
    assert "1 bad records were skipped" in skipped.stderr


def test_heads_with_a_state_and_from_every_pairs_file(tmp_path: Path) -> None:
    pairs, state, per_pair = tmp_path / "pairs.csv", tmp_path / "state.json", tmp_path / "every.parquet"
    pairs.write_text(PAIRS_CSV)
    options = ("heads", "--model", "bundled", "--pairs", str(pairs), "-p", "next-word", "--csv")
    expected = run(*options).stdout
    assert run(*options, "--state", str(state)).stdout == expected
    assert run(*options, "--state", str(state)).stdout == expected  # nothing is left to do
    assert run(*options, "--per-pair", str(per_pair)).stdout == expected
    assert run("heads", "--from", str(per_pair), "--csv").stdout == expected
    other = CliRunner().invoke(app, ["heads", "--from", str(per_pair), "-p", "delimiter", "--csv"])
    assert (other.exit_code, other.stdout) == (1, "")
    assert "has no scores for delimiter: it holds next-word" in other.stderr
    both = CliRunner().invoke(app, [*options, "--state", str(state), "--per-pair", str(per_pair)])
    assert both.exit_code == 2


def test_interrupted_heads_prints_what_it_has_and_how_to_go_on(tmp_path: Path) -> None:
    """A real process, a real Ctrl-C, in the middle of a long scan."""
    import signal
    import time

    pairs, state = tmp_path / "pairs.csv", tmp_path / "state.json"
    pairs.write_text("text\n" + "the cat sat on the mat and the dog ran to the store\n" * 200_000)
    command = [
        sys.executable,
        "-m",
        "attnscan",
        "heads",
        "--pairs",
        str(pairs),
        "--model",
        "bundled",
        "-p",
        "next-word",
    ]
    running = subprocess.Popen(
        [*command, "--state", str(state)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not state.exists() and running.poll() is None:
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "1-8" in out and re.search(r"interrupted after \d+ pairs; the same command goes on", err)
    assert "Traceback" not in err


def test_predictive_prints_which_words_predict_which() -> None:
    text = run("predictive", A, B, "--model", "bundled").stdout
    row = next(line for line in text.splitlines() if line.startswith(" 16 ##berries"))
    assert row.rstrip().endswith("straw#15 0.67") and "██" in row
    table = pd.read_csv(StringIO(run("predictive", A, B, "--model", "bundled", "--csv").stdout))
    assert table.columns.tolist() == ["model", "query", "query_token", "key", "key_token", "help", "target"]
    assert len(table) == 13 * 15  # words that are asked about x other words
    best = table.loc[table["query_token"] == "straw"].sort_values("help").iloc[-1]
    assert (best["key_token"], best["target"]) == ("##berries", 1)


def test_models_lists_what_can_run() -> None:
    text = run("models").stdout
    assert re.search(r"bundled +bert +6 × 12 +ready", text)
    table = pd.read_csv(StringIO(run("models", "--csv").stdout))
    assert table.loc[table["model"] == "bundled", ["layers", "heads"]].to_numpy().tolist() == [[6, 12]]


def test_patterns_prints_all_seven() -> None:
    text = run("patterns").stdout
    for pattern in COLUMNS.split(",")[6:13]:
        assert re.search(rf"^[A-Z] {pattern}: ", text, re.MULTILINE)

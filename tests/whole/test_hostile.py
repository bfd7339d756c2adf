"""Hostile texts, strings, options, disks and moments; files and checkpoints have modules of their
own.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.hostile import kills, options, texts
from support.hostile.runs import check, loaded_once, run, save_tiny_model
from support.hypothesis_draws import draws

from attnscan.cli.commands_table import COMMAND_NAMES
from attnscan.cli.output import SUFFIXES
from attnscan.results.files import Picture

OBEYED = (
    "\x1b[2J",  # an empty screen
    "\x1b]0;mine\x07",  # a title
    "\x1b]8;;file:///etc/passwd\x1b\\",  # a link
    "\x1bP+q544e\x1b\\",  # a question that the terminal answers
    "\x9b31m",  # a colour, in one character less
    "\u202e",  # a line that runs backwards
    "\r",
)
GENERATE = (
    Phase.explicit,
    Phase.generate,
)  # to shrink a run of five commands takes minutes, and tells little more


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with loaded_once():
        yield save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.mark.long
@settings(
    max_examples=draws(30), deadline=None, phases=GENERATE, suppress_health_check=list(HealthCheck)
)
@given(pair=texts.pairs, number=st.integers(0, 1000))
def test_no_sentence_does_harm(
    tiny: Path, directory: Path, pair: tuple[str, str | None], number: int
) -> None:
    assert len(list(texts.commands(tiny, directory, pair, number))) == 5


@pytest.mark.parametrize("nasty", OBEYED)
def test_nothing_that_a_terminal_obeys_comes_out(nasty: str, tiny: Path, tmp_path: Path) -> None:
    """Names of files and columns, tokens of saved weights, strings of a config."""
    name = nasty.replace("/", "")
    columns = {"sentence_a": ["the cat", ""], f"more{nasty}": [nasty, nasty]}
    pd.DataFrame(columns).to_csv(pairs := tmp_path / f"{name}.tsv", index=False, sep="\t")
    weights = np.random.default_rng(0).dirichlet(np.ones(4), (2, 2, 4))
    tokens = np.array(["[CLS]", f"the{nasty}", nasty, "[SEP]"])
    np.savez(
        saved := tmp_path / f"{name}.npz",
        attention=weights,
        tokens=tokens,
        segments=np.zeros(4, int),
    )
    model = shutil.copytree(tiny, tmp_path / f"model{name}")
    config = json.loads((model / "config.json").read_text()) | {"hidden_act": f"gelu{nasty}"}
    (model / "config.json").write_text(json.dumps(config))
    for done in (
        run(
            "heads",
            "--model",
            tiny,
            "--pairs",
            pairs,
            "--skip-bad",
            "-p",
            "next-word",
            "--predictive",
            "off",
        ),
        run(
            "heads",
            "--model",
            tiny,
            "--pairs",
            pairs,
            "--columns",
            f"more{nasty}",
            "--predictive",
            "off",
        ),
        run("heads", "--model", tiny, "--pairs", tmp_path / name / name),
        run("classify", "--weights", saved, "--all"),
        run("show", "0-1", "--weights", saved, "--format", "json"),
        run("models", model),
    ):
        check(done)
    assert not check(run("classify", "the cat", "--model", model))


def test_extremes_of_options_give_a_result_or_one_line(tiny: Path, tmp_path: Path) -> None:
    assert set(options.lines()) == set(COMMAND_NAMES) and len(list(options.options())) > 130
    options.prepared(tmp_path, tiny)
    done = [
        trial() for trial in list(options.trials(tmp_path))[::61]
    ]  # no number of values is a multiple
    assert len(done) > 25 and any(done) and not all(done)


def test_the_list_of_writers_has_every_command_and_format() -> None:
    assert {f".{suffix}" for suffix in kills.TABLES} == set(SUFFIXES) and {*kills.PICTURES} == set(
        get_args(Picture)
    )
    listed = list(kills.writers())
    assert {writer.arguments[0] for writer in listed} == set(COMMAND_NAMES) - {"serve"}, (
        "which writes no file"
    )
    assert {writer.option for writer in listed} == {
        "-o",
        "--save-weights",
        "--per-pair",
        "--state",
        "--signature",
    }


@pytest.mark.long
@pytest.mark.parametrize(("kind", "count"), [("kills", 2), ("per-pair", 2), ("full-disks", 6)])
def test_runs_that_are_killed_or_starved_lose_nothing(
    kind: str, count: int, tmp_path: Path
) -> None:
    """By a process of its own with two threads, which run batches side by side: runs are forks of
    it.
    """
    command = [sys.executable, kills.__file__, kind, str(count), str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "2"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.splitlines()[-1]) > 0, "no fault struck"

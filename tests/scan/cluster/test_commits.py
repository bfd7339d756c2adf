"""A cluster whose workers load a model of the hub, while the hub's main moves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch
from model_hub import ID, ModelHub, model_hub
from numpy.testing import assert_allclose
from tiny_checkpoints import SMALL, save
from transformers import BertConfig, BertForMaskedLM

pytest.importorskip("ray")

A, B = "a" * 40, "b" * 40
SCAN = ["-m", "attnscan", "heads", "--on-long", "truncate", "--predictive-pairs", "2", "--csv"]

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("ray-alone")]


@pytest.fixture
def commits(tmp_path: Path) -> dict[str, Path]:
    """Two of one model, with other weights."""
    for seed, name in enumerate((A, B)):
        torch.manual_seed(seed)
        save(tmp_path / name, BertForMaskedLM(BertConfig(**SMALL)))
    return {A: tmp_path / A, B: tmp_path / B}


def scanned(arguments: list[str], **environment: str) -> pd.DataFrame:
    """The table that a process of its own prints."""
    file = Path(arguments[arguments.index("-o") + 1])
    command = [sys.executable, *SCAN, *arguments]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return pd.read_csv(file, keep_default_na=False)


def test_all_workers_load_the_commit_that_the_driver_found_and_a_state_that_it_was_begun_with(
    commits: dict[str, Path], tmp_path: Path
) -> None:
    pairs, state, signature = tmp_path / "pairs.txt", tmp_path / "state", tmp_path / "signature.json"
    pairs.write_text("the cat sat on the mat.\nthe mat sat.\nthe cats sat on mats.\n" * 8)
    local = {
        name: scanned(["--pairs", str(pairs), "--model", str(directory), "-o", str(tmp_path / f"{name}.csv")])
        for name, directory in commits.items()
    }
    numbers = local[A].select_dtypes("number").columns
    with pytest.raises(AssertionError):
        assert_allclose(local[A][numbers], local[B][numbers])

    def on_ray(hub: ModelHub, cache: str) -> pd.DataFrame:
        ray = ["--engine", "ray", "--workers", "2", "--block-pairs", "4", "--state", str(state)]
        place = ["--signature", str(signature), "-o", str(tmp_path / "ray.csv")]
        home = {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / cache), "HF_HUB_OFFLINE": "0"}
        return scanned(["--pairs", str(pairs), "--model", ID, *ray, *place], **home)

    with model_hub(commits, [A, B]) as hub:
        found = on_ray(hub, "here")
        assert hub.commits_read == {A} and hub.fetched("model.safetensors") == 1
        assert json.loads(signature.read_text())["signature"]["revision"] == A
        assert_allclose(found[numbers], local[A][numbers], rtol=1e-6)
        # Main is B now, and another machine has nothing in its cache
        again = on_ray(hub, "there")
        assert hub.commits_read == {A}
        pd.testing.assert_frame_equal(again, found)

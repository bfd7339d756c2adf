"""Every string of every file that is read, and every file's name, with what a terminal obeys in it.

Whatever is printed then, a screen, a table or a message, holds nothing that a terminal obeys.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hostile.runs import check, loaded_once, run, save_tiny_model
from hostile.values import OBEYED, changed, strings

from attnscan.results.signature import hashed

FORMATS = ("table", "csv", "json", "jsonl", "markdown")
TABLE = ("--format", "table")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with loaded_once():
        yield save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    file = tmp_path / "pairs.csv"
    file.write_text("sentence_a,sentence_b\nthe cat sat,a cat\na mat,the mat\n")
    return file


@pytest.fixture
def scan(tiny: Path, pairs: Path) -> tuple[object, ...]:
    return ("heads", "--model", tiny, "--pairs", pairs, "--predictive", "off", "--no-related", "-p", "next-word")


def test_what_every_pairs_scores_say_of_themselves(scan: tuple[object, ...], tmp_path: Path) -> None:
    """Patterns' names stand in the column, too."""
    whole, other = tmp_path / "whole.parquet", tmp_path / "other.parquet"
    assert check(run(*scan, "--per-pair", whole))
    table, about = pa.parquet.read_table(whole), json.loads(pa.parquet.read_metadata(whole).metadata[b"attnscan"])
    read = 0
    for place, data in changed(about, strings):
        names = data["patterns"] if place.startswith("patterns") else about["patterns"]
        rename = dict(zip(about["patterns"], names, strict=True))
        column = pa.array([rename[name] for name in table["pattern"].to_pylist()]).dictionary_encode()
        own = table.set_column(table.schema.get_field_index("pattern"), "pattern", column)
        pa.parquet.write_table(own.replace_schema_metadata({"attnscan": json.dumps(data)}), other)
        for kind in FORMATS if "model" in place or "patterns" in place else TABLE[1:]:
            read += check(run("heads", "--from", other, "--format", kind))
    assert read > 2 * len(about["signature"])
    for name in table["pattern"].combine_chunks().dictionary.to_pylist():
        strange = pa.array([each + OBEYED * (each == name) for each in table["pattern"].to_pylist()])
        own = table.set_column(table.schema.get_field_index("pattern"), "pattern", strange)
        pa.parquet.write_table(own.replace_schema_metadata({"attnscan": json.dumps(about)}), other)
        assert not check(run("heads", "--from", other))


def test_a_state(scan: tuple[object, ...], tmp_path: Path) -> None:
    state = tmp_path / "scan.state"
    assert check(run(*scan, "--state", state))
    written = json.loads(state.read_bytes())
    data = {name: value for name, value in written.items() if name not in ("format", "sha256")}
    light = {**data, "sums": {"told": None, "ranked": None}}
    for _, other in changed(light, strings):
        whole = {**other, "sums": data["sums"]}
        state.write_text(
            json.dumps({"format": written["format"], "sha256": hashed(json.dumps(whole).encode()), **whole})
        )
        check(run(*scan, "--state", state))


def test_saved_weights_and_their_name(tmp_path: Path) -> None:
    tokens = ["[CLS]", f"the{OBEYED}", f"{OBEYED}cat", OBEYED, "[SEP]"]
    file = tmp_path / f"weights{OBEYED}.npz"
    weights = np.random.default_rng(0).dirichlet(np.ones(5), (2, 2, 5))
    np.savez(file, attention=weights, tokens=np.array(tokens), segments=np.zeros(5, dtype=int))
    for kind in FORMATS:
        for command in (("classify",), ("classify", "--all"), ("show", "0-1"), ("show", "0-1", "--token", "1")):
            assert check(run(*command, "--weights", file, "--format", kind))
    assert check(run("report", "--weights", file, "-o", tmp_path / "page.html"))
    assert check(run("report", "--weights", file, "-o", "-"))
    assert check(run("plot", "--weights", file, "--kind", "head", "--heads", "0-1", "-o", tmp_path / "head.svg"))
    np.savez(file, attention=weights * 2, tokens=np.array(tokens), segments=np.zeros(5, dtype=int))
    assert not check(run("classify", "--weights", file))


@pytest.mark.parametrize(("name", "every"), [("config.json", 1), ("tokenizer_config.json", 1), ("tokenizer.json", 7)])
def test_a_checkpoint(tiny: Path, tmp_path: Path, name: str, every: int) -> None:
    own = tmp_path / "model"
    shutil.copytree(tiny, own)
    data = json.loads((own / name).read_text())
    read = 0
    for _, other in islice(changed(data, strings), 0, None, every):
        (own / name).write_text(json.dumps(other))
        read += check(run("models", own))
        check(run("classify", "the cat", "a mat", "--model", own, "--predictive", "off", "--no-related"))
        check(run("classify", "the cat", "--model", own, "--predictive", "off", "--no-related", "--format", "markdown"))
    assert read


def test_names_of_files(tiny: Path, pairs: Path, tmp_path: Path) -> None:
    model, strange = tmp_path / f"model{OBEYED}", tmp_path / f"pairs{OBEYED}.csv"
    shutil.copytree(tiny, model)
    shutil.copy(pairs, strange)
    known = ("--model", model, "--predictive", "off", "--no-related")
    for kind in FORMATS:
        assert check(run("heads", *known, "--pairs", strange, "--format", kind))
        assert check(run("classify", "the cat", "a mat", *known, "--format", kind))
    assert check(run("models", model))
    for command in (("explain", "all", "-p", "next-word"), ("ablate",), ("similar",)):
        assert check(run(*command, *known[:2], "--pairs", strange)), command
    assert check(run("compare", model, model, "--pairs", strange))
    assert check(run("heads", *known, "--pairs", strange, "--state", tmp_path / OBEYED))
    assert check(run("heads", *known, "--pairs", strange, "--per-pair", tmp_path / f"{OBEYED}.parquet"))
    strange.write_text(f"sentence_a,sentence_b\nthe cat{OBEYED},a{OBEYED}\n,b\nthe mat,a\n")
    assert check(run("heads", *known, "--pairs", strange, "--skip-bad"))
    assert not check(run("heads", *known, "--pairs", strange))
    strange.write_text(f"a{OBEYED},{OBEYED}b\nthe cat,a\n")
    assert not check(run("heads", *known, "--pairs", strange))
    for option in ("--from", "--state", "--per-pair", "--pairs", "--model", "-o"):
        assert not check(run("heads", option, tmp_path / OBEYED / OBEYED))

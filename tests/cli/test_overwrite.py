"""No file is written over another one that the same run reads or writes, nor over the model's own."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import get_args

import pytest
import typer
from toy import save_toy_bert
from typer.testing import CliRunner

from attnscan.cli.app import COMMANDS, app
from attnscan.cli.destination import FileRole, check_not_overwritten, role_of

MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json", "1_Pooling/config.json")
OLD = "of the user"
ONE, MANY = ["the cat sat"], ["--pairs", "pairs.csv"]
WRITERS = {
    "classify": ONE,
    "show": ["0-0", *ONE],
    "predictive": ONE,
    "report": ONE,
    "plot": ONE,
    "explain": ["0-0", *MANY],
    "head": ["0-0", *MANY],
    "heads": MANY,
    "ablate": MANY,
    "similar": MANY,
    "profile": MANY,
    "compare": MANY,
    "syntax": ["--treebank", "trees.conllu"],
    "models": [],
}
NAMES_NO_MODEL = {"compare": ["bundled", "model"], "models": ["model"]}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files that are all of the user's, none of which is a model or weights: nothing gets as far as to read them."""
    names = ("pairs.csv", "trees.conllu", "more/x.tsv", "w.npz", "every.parquet", "weights-elsewhere.npz")
    for name in (*names, *(f"model/{name}" for name in MODEL_FILES)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(OLD)
    (tmp_path / "link.npz").symlink_to("model/model.safetensors")
    (tmp_path / "model" / "linked.npz").symlink_to("../weights-elsewhere.npz")
    (tmp_path / "to-pairs.json").symlink_to("pairs.csv")
    (tmp_path / "same.html").hardlink_to(tmp_path / "w.npz")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _refusal(place: Path, *arguments: str, code: int = 2) -> str:
    """What is said of a run that is refused, after which every file is as it was."""
    before = {path: path.lstat().st_ino for path in place.rglob("*")}
    done = CliRunner().invoke(app, list(arguments))
    assert (done.exit_code, done.stdout) == (code, ""), done.output
    assert {path: path.lstat().st_ino for path in place.rglob("*")} == before
    assert all(path.read_text() == OLD for path in before if path.is_file())
    return " ".join(done.stderr.replace("│", " ").split())


def test_every_option_that_names_a_file_or_a_model_has_a_role() -> None:
    """So that no command can forget to check: a role is all it takes."""
    named: dict[FileRole, set[str]] = {role: set() for role in FileRole}
    for command in COMMANDS:
        options = signature(getattr(import_module(f"attnscan.cli.commands.{command}"), command)).parameters
        for name, option in options.items():
            kind = get_args(option.annotation)[0]
            is_path = Path in (kind, *get_args(kind))
            role = role_of(option.annotation)
            assert role is not None or not is_path, f"{command}: {name}"
            if role is not None:
                named[role].add(name)
    assert named == {
        FileRole.READ: {"pairs", "treebank", "held", "weights", "alignments"},
        FileRole.WRITTEN: {"output", "save_weights", "state", "per_pair", "signature"},
        FileRole.MODEL: {"model", "model_a", "model_b", "checkpoint", "against"},
    }
    assert set(COMMANDS) - set(WRITERS) == {"patterns", "serve"}


@pytest.mark.parametrize("command", WRITERS)
@pytest.mark.parametrize("name", MODEL_FILES[:1] + MODEL_FILES[3:])
def test_no_command_writes_over_a_file_of_the_model(place: Path, command: str, name: str) -> None:
    model = NAMES_NO_MODEL.get(command, ["--model", "model"])
    said = _refusal(place, command, *model, *WRITERS[command], "-o", f"model/{name}")
    assert "is a file in the model's directory" in said


@pytest.mark.parametrize("name", ["model/model.safetensors", "link.npz", "weights-elsewhere.npz"])
@pytest.mark.parametrize("by", ["option", "environment"])
def test_saved_weights_are_not_written_over_the_models_by_any_link(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str, by: str
) -> None:
    monkeypatch.setenv("ATTNSCAN_MODEL", "model" if by == "environment" else "")
    model = ["--model", "model"] if by == "option" else []
    said = _refusal(place, "classify", *ONE, *model, "--save-weights", name)
    assert "is a file in the model's directory" in said


def test_nothing_in_the_hubs_cache_is_written_over(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(place / "cache"))
    blobs, snapshot = (place / "cache" / "models--a--b" / name for name in ("blobs", "snapshots/1"))
    for directory in (blobs, snapshot):
        directory.mkdir(parents=True)
    (blobs / "12").write_text(OLD)
    (snapshot / "config.json").symlink_to("../../blobs/12")
    for name in (blobs / "12", snapshot / "config.json"):
        said = _refusal(place, "classify", *ONE, "--model", "a/b", "-f", "json", "-o", str(name))
        assert "is a file in the model's directory" in said


@pytest.mark.parametrize("command", [name for name, given in WRITERS.items() if given[-2:] == MANY])
def test_no_command_writes_over_pairs(place: Path, command: str) -> None:
    arguments = [*NAMES_NO_MODEL.get(command, ["--model", "model"]), *WRITERS[command]]
    for name in ("pairs.csv", "./model/../pairs.csv", "to-pairs.json"):
        assert "is named twice, and would be overwritten" in _refusal(place, command, *arguments, "-o", name)


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "--weights", "w.npz", "-o", "same.html"],
        ["classify", "--weights", "w.npz", "-o", "w.npz"],
        ["plot", "--weights", "w.npz", "-o", "same.html"],
        ["heads", *MANY, "--state", "to-pairs.json"],
        ["heads", "--state", "new.csv", "-o", "new.csv"],
        ["heads", *MANY, "--per-pair", "pairs.csv"],
        ["heads", "--pairs", "more", "-o", "more/x.tsv"],
        ["heads", "--pairs", "m*/?.tsv", "-o", "more/x.tsv"],
        ["heads", "--pairs", "file://{place}/pairs.csv", "-o", "pairs.csv"],
        ["heads", *MANY, "-o", "new.parquet", "--per-pair", "./new.parquet"],
    ],
    ids=" ".join,
)
def test_no_file_has_two_roles(place: Path, arguments: list[str]) -> None:
    said = _refusal(place, *(argument.format(place=place) for argument in arguments))
    assert "is named twice, and would be overwritten" in said


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["classify", *ONE, "--save-weights", "notes.txt"], "name it notes.npz"),
        (["classify", *ONE, "--save-weights", "model-2.safetensors"], "name it model-2.npz"),
        (["heads", *MANY, "--per-pair", "notes.txt"], "name it notes.parquet"),
    ],
    ids=["weights", "safetensors", "pairs"],
)
def test_binary_files_are_called_what_they_are(place: Path, arguments: list[str], remedy: str) -> None:
    for name in ("notes.txt", "model-2.safetensors"):
        (place / name).write_text(OLD)
    assert remedy in _refusal(place, *arguments, "--model", "bundled", code=1)


@pytest.mark.parametrize(
    ("option", "name", "arguments"),
    [
        ("-o", "new.csv", ["classify", *ONE]),
        ("--signature", "new.json", ["classify", *ONE]),
        ("--save-weights", "new.npz", ["classify", *ONE]),
        ("--state", "new.state", ["heads"]),
        ("--per-pair", "new.parquet", ["heads"]),
    ],
)
def test_a_full_disk_names_the_option_of_its_file(
    place: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    name: str,
    arguments: list[str],
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    toy = save_toy_bert(tmp_path_factory.mktemp("toy"), 1, 2, {})
    monkeypatch.setattr("attnscan.results.files.os.fsync", full)
    done = CliRunner().invoke(app, [*arguments, "--model", str(toy), "--predictive", "off", option, name])
    assert done.exit_code == 1 and not (place / name).exists()
    assert done.stderr.rstrip().endswith(
        f"cannot write {name}: No space left on device; choose another place with {option}"
    )


def test_a_file_behind_a_redirection_counts(place: Path) -> None:
    """Standard input that is read, and standard output that takes the result."""
    command = [sys.executable, "-m", "attnscan"]
    pairs, weights = place / "pairs.csv", place / "new.npz"
    with pairs.open("rb") as file:
        options = ["heads", "--pairs", "-", "-o", "pairs.csv", "--model", "bundled"]
        done = subprocess.run([*command, *options], stdin=file, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "is named twice" in " ".join(done.stderr.split())
    assert pairs.read_text() == OLD
    with weights.open("wb") as file:
        options = ["classify", *ONE, "--model", "bundled", "--csv", "--save-weights", "new.npz"]
        done = subprocess.run([*command, *options], stdout=file, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2 and "is standard output" in " ".join(done.stderr.split())


def test_what_is_apart_may_be_written(place: Path) -> None:
    """A control: new files in the model's directory, nothing at all, and the device that keeps nothing."""
    check_not_overwritten([place / "new.csv", None, place / "new.npz"], ["pairs.csv", None, "-"])
    check_not_overwritten([Path(os.devnull), Path(os.devnull)], [os.devnull])
    check_not_overwritten([place / "more" / "y.csv"], [str(place / "more")])
    with pytest.raises(typer.BadParameter):
        check_not_overwritten([place / "new.csv", place / "model" / ".." / "new.csv"])
    done = CliRunner().invoke(app, ["models", "bundled", "-o", "model/new.csv"])
    assert done.exit_code == 0 and (place / "model" / "new.csv").is_file()


def test_a_link_that_may_not_be_read_is_no_reason_to_fail(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of other users' processes below a directory that is read."""
    hidden = place / "more" / "hidden"
    hidden.symlink_to(place / "nowhere")
    whole = os.path.realpath

    def realpath(path: Path) -> str:
        if Path(path) == hidden:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return whole(path)

    monkeypatch.setattr("attnscan.cli.destination.os.path.realpath", realpath)
    check_not_overwritten([place / "new.csv"], [str(place / "more")])
    with pytest.raises(typer.BadParameter, match="is named twice"):
        check_not_overwritten([hidden], [str(place / "more")])

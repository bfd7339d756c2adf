"""docs/errors.md has every error that a user can meet, and its examples are real."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import torch
import transformers
from families import REFUSED
from tokenizers_of_kinds import wordpiece
from typer.testing import CliRunner

import attnscan
from attnscan import errors
from attnscan.cli.app import app
from attnscan.errors import AttnscanError, OptionError

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
CLASSES = {name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, AttnscanError)}
LINE = AttnscanError.line
_EXAMPLE = re.compile(r"```text\n\$ attnscan (.*)\n(.*)\n```\n\n(\S.*)", re.DOTALL)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the examples find around them."""
    (tmp_path / "long.txt").write_text("cat " * 600)
    (tmp_path / "notes.txt").write_text("not a state")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_error_is_there_and_no_other() -> None:
    assert set(SECTIONS) == CLASSES
    drawn = re.findall(r"(\w+Error)\b", str(errors.__doc__))
    assert set(drawn) == CLASSES


def test_the_examples_of_wrong_usage_are_real() -> None:
    section = PAGE.split("## Wrong usage")[1].split("\n## ")[0]
    examples = re.findall(r"^\$ attnscan (.*)\n(.*)$", section, re.MULTILINE)
    assert len(examples) >= 4
    for line, said in examples:
        done = CliRunner().invoke(app, shlex.split(line))
        assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"{said}\n")


def test_the_example_in_python_is_real() -> None:
    match = re.search(r"```text\n>>> (.*)\nattnscan.errors.OptionError: (.*)\n```\n\n\S", SECTIONS["OptionError"])
    assert match is not None
    with pytest.raises(OptionError) as raised:
        eval(match[1], {"attnscan": attnscan})
    assert str(raised.value) == match[2]


@pytest.mark.parametrize("name", sorted(CLASSES - {"AttnscanError", "OptionError"}))
def test_an_example_is_real_and_a_remedy_follows(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    match = _EXAMPLE.search(SECTIONS[name])
    assert match is not None, "an example, and behind it what to do"
    if "fnet" in match[1]:
        settings, _ = REFUSED["fnet"]
        config = transformers.FNetConfig(**{**settings, "vocab_size": 80})
        transformers.FNetModel(config).save_pretrained(place / "fnet")
        wordpiece().save_pretrained(place / "fnet")
    if name == "MemoryFullError":  # a stand-in for a small GPU
        monkeypatch.setattr(transformers.BertModel, "forward", _no_room)
    raised: list[str] = []

    def line(error: AttnscanError) -> str:
        raised.append(type(error).__name__)
        return str(LINE.fget(error))  # type: ignore[misc]

    monkeypatch.setattr(AttnscanError, "line", property(line))
    result = CliRunner(env={"ATTNSCAN_MODEL": "bundled"}).invoke(app, shlex.split(match[1]))
    assert (result.exit_code, result.stderr.replace(str(place), "/tmp")) == (1, f"{match[2]}\n")
    assert raised[-1] == name


def _no_room(_self: object, input_ids: object = None, **_: object) -> None:  # noqa: ARG001
    raise torch.OutOfMemoryError("CUDA out of memory")

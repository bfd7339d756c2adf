"""What a model has said of predictive words is not asked again, unless something that decides it has changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_checkpoints import SMALL, loaded, save
from transformers import BertConfig, BertForMaskedLM
from typer.testing import CliRunner
from work import heard

from attnscan.cli.app import app
from attnscan.inputs.sentence import Pair
from attnscan.model.in_memory import adopted
from attnscan.model.loaded import LoadedModel
from attnscan.results.dependencies import Help
from attnscan.scan import answers
from attnscan.scan.answers import Answers, cache_directory
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scoring import predictive

PAIR, OTHER = Pair("the cat sat on the mat", "a cat"), Pair("the mat sat")
OPTIONS = ScanOptions()


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, switched on."""
    monkeypatch.setenv("ATTNSCAN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "predictive"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sequences each batch has asked for."""
    sizes: list[int] = []
    run = predictive._run

    def counted(inputs: Any, measure: Any, model: LoadedModel, batch: Any) -> Any:
        sizes.append(len(batch))
        return run(inputs, measure, model, batch)

    monkeypatch.setattr(predictive, "_run", counted)
    return sizes


@pytest.fixture
def model(tmp_path: Path) -> LoadedModel:
    """A masked LM with random weights."""
    torch.manual_seed(0)
    return loaded(save(tmp_path / "model", BertForMaskedLM(BertConfig(**SMALL, initializer_range=0.5))))


def _help(model: LoadedModel, pair: Pair = PAIR, **options: Any) -> Help:
    with Scanner(replace(OPTIONS, **options), model) as scanner:
        return scanner.helps([scanner.encode(pair)])[0]


def _same(one: Help, other: Help) -> bool:
    return bool(np.array_equal(one.values, other.values, equal_nan=True)) and replace(one, values=other.values) == other


@pytest.mark.parametrize("measure", ["cpmi", "distance"])
def test_what_was_asked_once_is_not_asked_again(model: LoadedModel, asked: list[int], measure: Any) -> None:
    first = _help(model, predictive=measure)
    assert sum(asked) == first.sequences
    asked.clear()
    assert _same(_help(model, predictive=measure), first)
    assert not asked


def test_an_input_that_is_there_twice_is_asked_once(model: LoadedModel, asked: list[int]) -> None:
    with Scanner(OPTIONS, model) as scanner:
        inputs = [scanner.encode(pair) for pair in (PAIR, OTHER, PAIR)]
        (one, other, again), told = heard(scanner, lambda own: own.asking(inputs))
    assert sum(asked) == one.sequences + other.sequences and _same(one, again)
    in_all = one.sequences + other.sequences
    assert [(done, total) for _, done, total in told][:: len(told) - 1] == [(0, in_all), (in_all, in_all)]


def test_a_model_that_has_changed_in_memory_is_asked_anew(model: LoadedModel, asked: list[int]) -> None:
    weight = model.model.encoder.layer[0].output.dense.weight
    before = _help(model)
    changes: list[Callable[[], object]] = [
        lambda: weight.data.mul_(1.5),
        lambda: weight.data.copy_(weight.flip(0)),  # the same numbers elsewhere
    ]
    layer = model.model.encoder.layer[0]
    changes += [
        lambda: setattr(layer.intermediate, "intermediate_act_fn", torch.nn.ReLU()),
        lambda: setattr(layer.output.LayerNorm, "eps", 1.0),
    ]
    for change in changes:
        asked.clear()
        change()
        assert not _same(_help(model), before) and asked


@pytest.mark.parametrize(
    "changed",
    [
        {"predictive": "distance"},
        {"predictive_words": 4},
        {"unit": "word"},
        {"pair": Pair("the cat sat on the mat")},
        {"pair": Pair("the cat sat on the mats", "a cat")},
        {"pair": Pair("the cat", "sat on the mat a cat")},
    ],
    ids=str,
)
def test_another_question_is_asked(model: LoadedModel, asked: list[int], changed: dict[str, Any]) -> None:
    pair = Pair("the cat sat on the mats", "cats") if "unit" in changed else PAIR
    _help(model, pair)
    asked.clear()
    found = _help(model, **{"pair": pair, **changed})
    assert sum(asked) == found.sequences


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setattr(torch, "__version__", "99.0"),
        lambda patch: patch.setattr("transformers.__version__", "99.0"),
        lambda patch: patch.setattr(answers, "VERSION", 99),
        lambda patch: patch.setattr(torch, "get_float32_matmul_precision", lambda: "medium"),
    ],
    ids=["torch", "transformers", "meaning", "precision"],
)
def test_what_computes_is_part_of_the_question(
    model: LoadedModel, asked: list[int], monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], None]
) -> None:
    _help(model)
    asked.clear()
    change(monkeypatch)
    _help(model)
    assert asked


def test_a_model_in_memory_is_asked_each_time(model: LoadedModel, asked: list[int], place: Path) -> None:
    given = adopted(model.whole, model.tokenizer)
    for _ in range(2):
        asked.clear()
        _help(given)
        assert asked
    assert not place.exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda layer: setattr(layer.output, "forward", lambda _, residual: residual),
        lambda layer: layer.register_forward_hook(lambda *_: None),
    ],
    ids=["own forward", "hook"],
)
def test_what_others_have_written_is_asked_each_time(
    model: LoadedModel, asked: list[int], place: Path, change: Callable[[Any], None]
) -> None:
    _help(model)
    kept = sorted(place.iterdir())
    change(model.model.encoder.layer[0])
    for _ in range(2):
        asked.clear()
        _help(model)
        assert asked
    assert sorted(place.iterdir()) == kept


def test_no_text_is_kept(model: LoadedModel, place: Path) -> None:
    _help(model)
    (file,) = place.iterdir()
    assert b"cat" not in file.read_bytes() + file.name.encode()
    ids = np.array([5, 6, 7, 8, 5, 9], dtype="<i8")
    assert ids.tobytes() not in file.read_bytes()


def test_off_keeps_and_looks_up_nothing(
    model: LoadedModel, asked: list[int], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTNSCAN_CACHE", "off")
    for _ in range(2):
        asked.clear()
        _help(model)
        assert asked
    assert not place.exists()


# The command line


@pytest.mark.parametrize("command", [["predictive"], ["classify"]], ids=str)
def test_a_second_run_of_a_command_says_the_same_and_asks_nothing(command: list[str], asked: list[int]) -> None:
    arguments = [*command, "I like tea.", "--model", "bundled", "--csv"]
    first = CliRunner().invoke(app, arguments)
    assert (first.exit_code, bool(asked)) == (0, True)
    asked.clear()
    second = CliRunner().invoke(app, arguments)
    assert (second.exit_code, second.stdout, second.stderr) == (0, first.stdout, first.stderr)
    assert not asked


@pytest.mark.parametrize("bad", ["/dev/null/cache", "/proc/attnscan", "x" * 300])
def test_a_place_that_cannot_be_written_is_no_trouble(bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["predictive", "I like tea.", "--model", "bundled", "--csv"]
    good = CliRunner().invoke(app, arguments)
    monkeypatch.setenv("ATTNSCAN_CACHE", bad)
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, done.stdout, done.stderr) == (0, good.stdout, good.stderr)


@pytest.mark.parametrize(
    ("environment", "platform", "place"),
    [
        ({"XDG_CACHE_HOME": "/var/mine"}, "linux", "/var/mine/attnscan"),
        ({"XDG_CACHE_HOME": "/var/mine"}, "darwin", "/var/mine/attnscan"),
        ({"XDG_CACHE_HOME": "mine"}, "linux", "/home/me/.cache/attnscan"),
        ({}, "linux", "/home/me/.cache/attnscan"),
        ({}, "darwin", "/home/me/Library/Caches/attnscan"),
        ({"LOCALAPPDATA": "/data"}, "win32", "/data/attnscan/cache"),
        ({}, "win32", "/home/me/AppData/Local/attnscan/cache"),
        ({"ATTNSCAN_CACHE": "/there", "XDG_CACHE_HOME": "/var/mine"}, "linux", "/there"),
        ({"ATTNSCAN_CACHE": "off", "XDG_CACHE_HOME": "/var/mine"}, "linux", None),
        ({"ATTNSCAN_CACHE": "OFF"}, "darwin", None),
        ({"ATTNSCAN_CACHE": ""}, "linux", "/home/me/.cache/attnscan"),
    ],
)
def test_where_it_lies(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], platform: str, place: str | None
) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    found = cache_directory(environment, platform)
    assert found == (None if place is None else Path(place))


def _one_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _infinite(path: Path) -> None:
    with np.load(path) as arrays:
        numbers = {name: array + np.inf for name, array in arrays.items()}
    np.savez(path, **numbers)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(b"\x80\x04\x95" + b"\0" * 53),  # a pickle
        _one_bit,
        _infinite,
        Path.unlink,
    ],
    ids=["truncated", "pickle", "one bit", "infinite", "none"],
)
def test_what_is_not_whole_is_asked_for_and_written_anew(
    model: LoadedModel, asked: list[int], place: Path, damage: Callable[[Path], None]
) -> None:
    first = _help(model)
    (file,) = place.iterdir()
    damage(file)
    for is_asked in (True, False):
        asked.clear()
        assert _same(_help(model), first) and bool(asked) is is_asked
    assert [*place.iterdir()] == [file]


def test_it_is_bounded_what_was_used_last_stays_and_what_is_not_its_own_is_left_alone(
    model: LoadedModel, place: Path
) -> None:
    for words in range(2, 8):
        _help(model, predictive_words=words)
    files = sorted(place.iterdir(), key=lambda file: file.stat().st_mtime_ns)
    for number, file in enumerate(files):
        os.utime(file, (1000 + number, 1000 + number))
    (place / "notes.txt").write_text("mine")
    _help(model, predictive_words=2)  # used now
    Answers("", place, sum(file.stat().st_size for file in (files[0], *files[4:]))).prune()
    assert {*place.iterdir()} == {files[0], *files[4:], place / "notes.txt"}

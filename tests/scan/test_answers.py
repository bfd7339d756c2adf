"""What a model has said of predictive words is not asked again, unless something that decides it has changed."""

from __future__ import annotations

import os
import subprocess
import sys
import types
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
from attnscan.scan.answers import Answers, Cache, cache_directory, switched_off, worth_keeping
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scoring import predictive
from attnscan.scoring.predictive import Questions

PAIR, OTHER = Pair("the cat sat on the mat", "a cat"), Pair("the mat sat")
OPTIONS = ScanOptions()
KEY, OTHER_KEY = "a" * 64, "b" * 64
NUMBERS = np.array([0.1, 2.0, -3.5])
FILE = f"{KEY}.npz"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, switched on."""
    monkeypatch.setenv("ATTNSCAN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "predictive"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sequences each batch has asked for."""
    sizes: list[int] = []
    work = predictive._Asker.answers

    def counted(self: Any, model: LoadedModel, batch: Any) -> Any:
        sizes.append(len(batch))
        return work(self, model, batch)

    monkeypatch.setattr(predictive._Asker, "answers", counted)
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
    """By whatever way; and as it was before, it is known again."""
    weight = model.model.encoder.layer[0].output.dense.weight
    before = _help(model)
    changes: list[Callable[[], object]] = [
        lambda: weight.data.mul_(1.5),
        lambda: weight.data.copy_(weight.flip(0)),  # the same numbers elsewhere
        lambda: model.model.embeddings.position_ids.copy_(model.model.embeddings.position_ids.flip(1)),
    ]
    layer = model.model.encoder.layer[0]
    original, activation, norm = weight.detach().clone(), layer.intermediate.intermediate_act_fn, layer.output.LayerNorm
    changes += [
        lambda: setattr(layer.intermediate, "intermediate_act_fn", torch.nn.ReLU()),
        lambda: setattr(layer.attention.self, "scaling", layer.attention.self.scaling * 4),
        lambda: setattr(norm, "eps", 1.0),
    ]
    for change in changes:
        asked.clear()
        change()
        assert not _same(_help(model), before) and asked
    model.model.embeddings.position_ids.copy_(model.model.embeddings.position_ids.flip(1))
    weight.data.copy_(original)
    layer.intermediate.intermediate_act_fn = activation
    layer.attention.self.scaling /= 4
    norm.eps = model.model.config.layer_norm_eps
    asked.clear()
    assert _same(_help(model), before) and not asked


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


def test_a_bound_on_words_that_cuts_nothing_changes_nothing(model: LoadedModel, asked: list[int]) -> None:
    _help(model)
    asked.clear()
    _help(model, predictive_words=40)
    assert not asked


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


class _Louder(torch.nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(input)


@pytest.mark.parametrize(
    "change",
    [
        lambda layer: setattr(layer.output.dense, "__class__", _Louder),
        lambda layer: setattr(layer.output, "forward", lambda _, residual: residual),
        lambda layer: layer.register_forward_hook(lambda *_: None),
    ],
    ids=["own class", "own forward", "hook"],
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


def test_a_file_that_is_damaged_is_asked_for_and_mended(model: LoadedModel, asked: list[int], place: Path) -> None:
    first = _help(model)
    (file,) = place.iterdir()
    _one_bit(file)
    asked.clear()
    assert _same(_help(model), first) and asked
    asked.clear()
    assert _same(_help(model), first) and not asked


def test_it_is_bounded(model: LoadedModel, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Answers.of.__func__  # type: ignore[attr-defined]

    def small(cls: type[Answers], *given: Any) -> Answers:
        own = made(cls, *given)
        return replace(own, cache=replace(own.cache, most_bytes=2000))

    monkeypatch.setattr(Answers, "of", classmethod(small))
    for words in range(2, 9):
        _help(model, predictive_words=words)
        assert sum(file.stat().st_size for file in place.iterdir()) <= 2000
    assert list(place.iterdir())


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


def test_a_gpu_is_asked_a_little_rather_than_hashed(model: LoadedModel) -> None:
    with Scanner(OPTIONS, model) as scanner:
        few, many = [Questions(scanner.encode(PAIR), 32)], [Questions(scanner.encode(PAIR), 32)] * 1000
    assert worth_keeping(model, few)
    on_gpu: Any = types.SimpleNamespace(device=torch.device("cuda"))
    assert not worth_keeping(on_gpu, few) and worth_keeping(on_gpu, many)


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


@pytest.mark.parametrize("bad", ["/dev/null/cache", "/proc/attnscan"])
def test_a_place_that_cannot_be_written_is_no_trouble(bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["predictive", "I like tea.", "--model", "bundled", "--csv"]
    good = CliRunner().invoke(app, arguments)
    monkeypatch.setenv("ATTNSCAN_CACHE", bad)
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, done.stdout, done.stderr) == (0, good.stdout, good.stderr)


@pytest.fixture
def kept(tmp_path: Path) -> Cache:
    """A cache that holds one array."""
    cache = Cache(tmp_path / "deep" / "cache")
    cache.put(KEY, NUMBERS)
    return cache


def _path(cache: Cache, name: str = FILE) -> Path:
    assert cache.place is not None
    return cache.place / name


def test_what_is_kept_is_found_again_to_the_last_bit(kept: Cache) -> None:
    found = kept.get(KEY, 3)
    assert found is not None and found.tolist() == NUMBERS.tolist()
    assert kept.get(OTHER_KEY, 3) is kept.get(KEY, 2) is kept.get(KEY, 4) is None
    assert [path.name for path in _path(kept).parent.iterdir()] == [FILE]


def test_nothing_is_kept_where_that_is_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cache = Cache(None)
    cache.put(KEY, NUMBERS)
    cache.prune()
    assert cache.get(KEY, 3) is None and not list(tmp_path.iterdir())


def _one_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _of_another_key(path: Path) -> None:
    Cache(path.parent).put(OTHER_KEY, NUMBERS)
    path.with_name(f"{OTHER_KEY}.npz").replace(path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(b"\x80\x04\x95" + b"\0" * 53),  # a pickle
        lambda path: Cache(path.parent).put(KEY, np.array([1.0, np.inf, 2.0])),
        lambda path: os.mkfifo(path.rename(path.with_name("aside")).with_name(path.name)),
        _one_bit,
        _of_another_key,
        Path.unlink,
    ],
    ids=["truncated", "pickle", "infinite", "pipe", "one bit", "of another key", "none"],
)
def test_what_is_not_whole_is_as_good_as_nothing_and_is_written_anew(
    kept: Cache, damage: Callable[[Path], None]
) -> None:
    damage(_path(kept))
    assert kept.get(KEY, 3) is None
    kept.put(KEY, NUMBERS)
    found = kept.get(KEY, 3)
    assert found is not None and found.tolist() == NUMBERS.tolist()


def test_a_directory_in_a_files_place_costs_nothing_but_the_answer(kept: Cache) -> None:
    _path(kept).unlink()
    _path(kept).mkdir()
    kept.put(KEY, NUMBERS)
    assert kept.get(KEY, 3) is None
    assert [path.name for path in _path(kept).parent.iterdir()] == [FILE]


@pytest.mark.skipif(os.name == "nt", reason="there is no /proc")
@pytest.mark.parametrize("place", ["/proc/attnscan", "/dev/null/cache", "name\0with", "x" * 300])
def test_a_place_that_cannot_be_written_costs_nothing(place: str) -> None:
    cache = Cache(Path(place))
    cache.put(KEY, NUMBERS)
    cache.prune()
    assert cache.get(KEY, 3) is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a Linux device that is always full")
def test_a_full_disk_leaves_nothing_behind(kept: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "write_bytes", lambda _, content: os.write(os.open("/dev/full", 1), content))
    kept.put(OTHER_KEY, np.zeros(100_000))
    assert [path.name for path in _path(kept).parent.iterdir()] == [FILE]


def test_what_was_used_last_stays_and_what_is_not_the_caches_own_is_left_alone(tmp_path: Path) -> None:
    Cache(tmp_path).put(KEY, np.zeros(10))
    cache = Cache(tmp_path, most_bytes=3 * (tmp_path / FILE).stat().st_size)
    (tmp_path / FILE).unlink()
    keys = [f"{number:064x}" for number in range(6)]
    for number, key in enumerate(keys):
        cache.put(key, np.zeros(10))
        os.utime(tmp_path / f"{key}.npz", (1000 + number, 1000 + number))
    begun = tmp_path / f".{keys[0][:50]}.abc"  # by a process that was killed
    for path in (begun, tmp_path / "notes.txt"):
        path.write_bytes(b"x" * 1000)
        os.utime(path, (1000, 1000))
    assert cache.get(keys[0], 10) is not None  # used now
    cache.prune()
    assert [key for key in keys if cache.get(key, 10) is not None] == [keys[0], *keys[4:]]
    assert not begun.exists() and (tmp_path / "notes.txt").exists()


@pytest.mark.long
def test_processes_that_write_and_prune_at_once_never_read_what_is_not_there(tmp_path: Path) -> None:
    code = """
import sys
import numpy as np
from pathlib import Path
from attnscan.scan.answers import Cache
cache = Cache(Path(sys.argv[1]), most_bytes=20_000)
for turn in range(300):
    key = f"{turn % 40:064x}"
    cache.put(key, np.full(100, float(turn % 40)))
    cache.prune()
    for other in range(40):
        found = cache.get(f"{other:064x}", 100)
        assert found is None or (found == other).all()
"""
    workers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(3)]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 20_000
    assert not list(tmp_path.glob(".*"))


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
        ({"ATTNSCAN_CACHE": "0"}, "win32", None),
        ({"ATTNSCAN_CACHE": ""}, "linux", "/home/me/.cache/attnscan"),
    ],
)
def test_where_it_lies(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], platform: str, place: str | None
) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    found = cache_directory(environment, platform)
    assert found == (None if place is None else Path(place))
    assert switched_off(environment) == (place is None)


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    assert cache_directory({}, "linux") is None
    assert not switched_off({})

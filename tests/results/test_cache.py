"""What is kept from run to run: found again whole or not at all, bounded, and never in the way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from attnscan.results.cache import Cache, cache_directory, switched_off

KEY, OTHER = "a" * 64, "b" * 64
NUMBERS = np.array([0.1, 2.0, -3.5])
FILE = f"{KEY}.numbers"


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
    assert kept.get(OTHER, 3) is None
    assert [path.name for path in _path(kept).parent.iterdir()] == [FILE]


def test_nothing_is_kept_where_that_is_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cache = Cache(None)
    cache.put(KEY, NUMBERS)
    cache.prune()
    assert cache.get(KEY, 3) is None and not list(tmp_path.iterdir())


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _one_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def _longer(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


def _of_another_key(path: Path) -> None:
    other = Cache(path.parent)
    other.put(OTHER, NUMBERS)
    (path.parent / f"{OTHER}.numbers").replace(path)


def _infinite(path: Path) -> None:
    Cache(path.parent).put(KEY, np.array([1.0, np.inf, 2.0]))


def _pickle(path: Path) -> None:
    path.write_bytes(b"\x80\x04\x95" + b"\0" * 53)


def _link(path: Path) -> None:
    aside = path.with_name("aside")
    path.replace(aside)
    path.symlink_to(aside)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "damage", [_truncated, _one_bit, _longer, _of_another_key, _infinite, _pickle, _link, _pipe, Path.unlink]
)
def test_what_is_not_whole_is_as_good_as_nothing_and_is_written_anew(
    kept: Cache, damage: Callable[[Path], None]
) -> None:
    damage(_path(kept))
    assert kept.get(KEY, 3) is None
    kept.put(KEY, NUMBERS)
    found = kept.get(KEY, 3)
    assert found is not None and found.tolist() == NUMBERS.tolist()
    assert not _path(kept).is_symlink()


def test_another_number_of_numbers_is_no_answer(kept: Cache) -> None:
    assert kept.get(KEY, 2) is None and kept.get(KEY, 4) is None


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
    fdopen = os.fdopen
    monkeypatch.setattr(os, "fdopen", lambda handle, mode: (os.close(handle), fdopen(os.open("/dev/full", 1), mode))[1])
    kept.put(OTHER, np.zeros(100_000))
    assert [path.name for path in _path(kept).parent.iterdir()] == [FILE]


def test_what_was_used_last_stays_and_what_is_not_the_caches_own_is_left_alone(tmp_path: Path) -> None:
    cache = Cache(tmp_path, most_bytes=3 * (32 + 80))
    keys = [f"{number:064x}" for number in range(6)]
    for number, key in enumerate(keys):
        cache.put(key, np.zeros(10))
        os.utime(tmp_path / f"{key}.numbers", (1000 + number, 1000 + number))
    for name in ("notes.txt", "begun-old.numbers", "begun-new.numbers"):
        (tmp_path / name).write_bytes(b"x" * 1000)
    os.utime(tmp_path / "begun-old.numbers", (1000, 1000))
    os.utime(tmp_path / "notes.txt", (1000, 1000))
    assert cache.get(keys[0], 10) is not None  # used now
    cache.prune()
    assert [key for key in keys if cache.get(key, 10) is not None] == [keys[0], *keys[4:]]
    assert {path.name for path in tmp_path.iterdir() if not path.name.startswith("0")} == {
        "notes.txt",
        "begun-new.numbers",
    }


@pytest.mark.long
def test_processes_that_write_and_prune_at_once_never_read_what_is_not_there(tmp_path: Path) -> None:
    code = """
import sys
import numpy as np
from pathlib import Path
from attnscan.results.cache import Cache
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
    assert not list(tmp_path.glob("begun-*"))


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

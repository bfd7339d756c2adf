"""How much memory is free, and what is refused where it is not enough."""

from pathlib import Path

import pytest

from attnscan.errors import MemoryFullError
from attnscan.model.memory import check_memory, free_memory, is_too_long

MEMINFO = "/proc/meminfo"
MOST = "/sys/fs/cgroup/memory.max"
TAKEN = "/sys/fs/cgroup/memory.current"
FOUR_MIB = "MemTotal:       8192 kB\nMemAvailable:    4096 kB\n"


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({MEMINFO: FOUR_MIB}, 4096 * 1024),
        ({MEMINFO: FOUR_MIB, MOST: "max", TAKEN: "900"}, 4096 * 1024),
        ({MEMINFO: FOUR_MIB, MOST: "5000", TAKEN: "900"}, 4100),
        ({MOST: "5000", TAKEN: "900"}, 4100),
        ({MEMINFO: FOUR_MIB, MOST: "5000", TAKEN: "6000"}, 0),
        ({}, None),
    ],
)
def test_free_is_the_least_that_system_and_group_tell(
    monkeypatch: pytest.MonkeyPatch, files: dict[str, str], free: int | None
) -> None:
    def read_text(path: Path) -> str:
        if str(path) not in files:
            raise FileNotFoundError(path)
        return files[str(path)]

    monkeypatch.setattr(Path, "read_text", read_text)
    assert free_memory() == free


def test_more_than_is_free_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnscan.model.memory.free_memory", lambda: 2 * 10**9)
    check_memory(2 * 10**9, "the page", "leave it out")
    with pytest.raises(MemoryFullError, match=r"takes 3\.0 GB, and 2\.0 GB of memory are free"):
        check_memory(3 * 10**9, "the page", "leave it out")


def test_where_free_memory_is_unknown_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnscan.model.memory.free_memory", lambda: None)
    check_memory(10**18, "the page", "leave it out")


def test_one_input_of_8192_tokens_fits_and_two_do_not() -> None:
    assert not is_too_long(8192, 1)
    assert is_too_long(8193, 1)
    assert is_too_long(8192, 2)

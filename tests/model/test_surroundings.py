"""What is asked of the process before torch is imported into it."""

from __future__ import annotations

import os
import resource

import pytest

from attnscan.errors import MemoryFullError
from attnscan.model import surroundings
from attnscan.model.running import failed
from attnscan.model.sources import choose
from attnscan.model.surroundings import (
    ADDRESS_SPACE,
    ADDRESS_SPACE_OF_TABLES,
    address_space,
    check_address_space,
    spare_address_space,
)

SPARING = {"OPENBLAS_NUM_THREADS", "ARROW_DEFAULT_MEMORY_POOL"}


def limited(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, resource.RLIM_INFINITY))


@pytest.mark.parametrize(("limit", "enough"), [(ADDRESS_SPACE - 1, False), (ADDRESS_SPACE, True)])
def test_no_model_is_chosen_where_it_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch, limit: int, enough: bool
) -> None:
    limited(monkeypatch, limit)
    assert address_space() == limit
    if enough:
        check_address_space()
    else:
        with pytest.raises(MemoryFullError, match=r"1.50 GB of address space .* take 1.50 GB; raise the limit"):
            choose("bundled")


def test_work_without_a_model_takes_less(monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, ADDRESS_SPACE_OF_TABLES)
    check_address_space(with_model=False)
    limited(monkeypatch, ADDRESS_SPACE_OF_TABLES - 1)
    with pytest.raises(MemoryFullError, match=r"pandas and pyarrow take 0.72 GB"):
        check_address_space(with_model=False)


def test_without_a_limit_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SPARING:
        monkeypatch.delenv(name, raising=False)
    limited(monkeypatch, resource.RLIM_INFINITY)
    assert address_space() is None
    check_address_space()
    spare_address_space()
    assert not SPARING & os.environ.keys()


@pytest.mark.parametrize(("before", "after"), [(None, {"1", "system"}), ("4", {"4"})])
def test_under_a_limit_libraries_reserve_little_unless_they_are_told_to(
    monkeypatch: pytest.MonkeyPatch, before: str | None, after: set[str]
) -> None:
    for name in SPARING:
        monkeypatch.setenv(name, before or "")
        if before is None:
            del os.environ[name]
    limited(monkeypatch, 10**10)
    spare_address_space()
    assert {os.environ[name] for name in SPARING} == after


def test_a_system_that_knows_no_such_limit_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(surroundings.sys.modules, "resource", None)
    assert address_space() is None


@pytest.mark.parametrize(("limit", "short"), [(None, False), (2 * 10**9, True)])
def test_what_onednn_lacks_under_a_limit_is_memory(
    monkeypatch: pytest.MonkeyPatch, limit: int | None, short: bool
) -> None:
    limited(monkeypatch, resource.RLIM_INFINITY if limit is None else limit)
    error = failed(object(), RuntimeError("could not create a primitive"))
    assert isinstance(error, MemoryFullError) == short == ("raise the limit of 2.00 GB" in error.remedy)

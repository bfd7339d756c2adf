"""Fixtures that many tests share."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from attnscan.model.sources import bundled_directory

# No test asks a hub, and screens have one width.
os.environ.update(HF_HUB_OFFLINE="1", COLUMNS="80")
if "PYTEST_XDIST_WORKER" in os.environ:  # which are as many as there are cores
    os.environ["OMP_NUM_THREADS"] = "1"
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what is started here is to hear of Ctrl-C
for name in ("ATTNSCAN_MODEL", "NO_COLOR", "FORCE_COLOR"):
    os.environ.pop(name, None)

SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture(scope="session")
def bundled_dir() -> Path:
    """The bundled model's directory; every test environment has it."""
    directory = bundled_directory()
    assert directory is not None, "run the tests with `make test`, which installs the bundled model"
    return directory


@pytest.fixture(scope="session")
def shared() -> Path:
    """Golden files and models beside the project, where they are."""
    if not SHARED.is_dir():
        pytest.skip("no shared data beside this checkout")
    return SHARED


@contextmanager
def _of_little_memory(model: Any, inputs: int) -> Iterator[list[int]]:
    sizes: list[int] = []

    def refuse(_: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        sizes.append(len(given[0] if given else named["input_ids"]))
        if sizes[-1] > inputs:
            raise torch.OutOfMemoryError("CUDA out of memory")

    hook = model.register_forward_pre_hook(refuse, with_kwargs=True)
    try:
        yield sizes
    finally:
        hook.remove()


@pytest.fixture
def of_little_memory() -> Callable[[Any, int], AbstractContextManager[list[int]]]:
    """A stand-in for a small accelerator: `of_little_memory(model, inputs)` yields the sizes of all batches tried."""
    return _of_little_memory


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Sets how many threads torch takes; as before afterwards."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """By what they do, scoring or asking, the names of the threads that have done it."""
    from attnscan.scan.scanner import Scanner
    from attnscan.scoring import predictive

    found: dict[str, set[str]] = {}

    def watch(kind: str, owner: Any, name: str) -> None:
        work, found[kind] = getattr(owner, name), set()

        def watched(*given: Any, **named: Any) -> Any:
            found[kind].add(threading.current_thread().name)
            return work(*given, **named)

        monkeypatch.setattr(owner, name, watched)

    watch("scoring", Scanner, "score")
    watch("asking", predictive._Asker, "answers")
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that is not there yet."""
    return tmp_path / "heads.csv"


@pytest.fixture(scope="module")
def attention() -> Any:
    """Every weight of the bundled model on the article's pair."""
    from one_run import classify_and_keep

    from attnscan.inputs.pairs import Pair
    from attnscan.scan.options import ScanOptions

    pair = Pair("I went to the store.", "At the store, I bought fresh strawberries.")
    return classify_and_keep(pair, ScanOptions(model="bundled", predictive="off"))[1]


@pytest.fixture
def quiet() -> Iterator[None]:
    """Transformers says nothing while a test runs, and what it said before afterwards."""
    from attnscan.model.running import quiet_transformers

    with quiet_transformers():
        yield

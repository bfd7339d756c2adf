"""Fixtures that many tests share."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# No test asks a hub, and screens have one width. One thread computes, here and in whatever a test
# starts: there are as many workers as cores, and another number of threads rounds otherwise. Torch
# reads it once, when it is imported. Models are asked each time: nothing is kept at home, and no
# test rests on another.
os.environ.update(HF_HUB_OFFLINE="1", COLUMNS="80", OMP_NUM_THREADS="1")
for name in ("ATTNSCAN_MODEL", "NO_COLOR", "FORCE_COLOR"):
    os.environ.pop(name, None)
if "PYTEST_XDIST_WORKER" in os.environ or signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # What is started here is to hear of Ctrl-C, also where a shell started the tests in its
    # background
    signal.signal(signal.SIGINT, signal.default_int_handler)

import torch  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402
from support.command_line import A, B  # noqa: E402
from support.hypothesis_draws import ALL  # noqa: E402
from support.loaded_models import LoadedModels  # noqa: E402
from support.remembered import remember_results  # noqa: E402
from support.toy_bert import save_toy_bert  # noqa: E402

import attnscan  # noqa: E402
from attnscan.api.readings import with_every_reading  # noqa: E402
from attnscan.model.forward import quiet_transformers  # noqa: E402
from attnscan.model.sources import bundled_directory  # noqa: E402
from attnscan.scan import scanner  # noqa: E402

torch.set_num_threads(1)  # should something have imported it before
# A busy machine is no fault of what is tested: no example has a deadline
settings.register_profile("all", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "quick", settings.get_profile("all"), max_examples=ALL // 4
)  # what `make test` asks for
settings.load_profile("all")

_HERE = Path(__file__).parent
SHARED = _HERE.parents[1] / "shared"
_LONG_NAME = 200  # characters or bytes


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name no test by a long value: bytes of a file may hold when it was made, and all workers are
    to find one name.
    """
    return argname if isinstance(val, str | bytes) and len(val) > _LONG_NAME else None


@pytest.hookimpl(tryfirst=True)  # before the names of groups are read
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where tests are handed out by groups, long ones are, each by itself, before all others, and
    the others by their files: what a file makes once is made in one process.
    """
    if not config.getoption("loadgroup", False):  # as a process is told that xdist started
        return
    items.sort(key=_turn)
    for item in items:
        if not item.get_closest_marker("long") and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.path.relative_to(_HERE).as_posix()))


def _turn(item: pytest.Item) -> int:
    """Which tests come first: groups of long ones, as they end last; then other long ones."""
    is_long = item.get_closest_marker("long") is not None
    is_grouped = item.get_closest_marker("xdist_group") is not None
    return 2 - is_long - (is_long and is_grouped)


@pytest.fixture(scope="session")
def bundled_dir() -> Path:
    """The bundled model's directory; every test environment has it."""
    directory = bundled_directory()
    assert directory is not None, "run the tests with `make test`, which installs the bundled model"
    return directory


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small BERT whose weights are constructed: three of its six heads follow patterns, and are
    known beforehand.
    """
    plan = {(0, 0): "next-word", (1, 1): "previous-word", (1, 2): "cross-sentence"}
    return str(save_toy_bert(tmp_path_factory.mktemp("toy") / "toy", 2, 3, plan))


@pytest.fixture(scope="session")
def shared() -> Path:
    """Models and texts beside the project, where they are."""
    if not SHARED.is_dir():
        pytest.skip("no shared data beside this checkout")
    return SHARED


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, where commands are run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session", autouse=True)
def _loaded_models() -> Iterator[LoadedModels]:
    """What commands and functions load, they get from here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanner, "load", models := LoadedModels(scanner.load))
        yield models


@pytest.fixture(autouse=True)
def _models_are_as_they_were(
    request: pytest.FixtureRequest, _loaded_models: LoadedModels
) -> Iterator[None]:
    """No test leaves a hook, another attention or another weight in a model that the
    next one gets.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("loads_anew"):
            patch.setattr(scanner, "load", _loaded_models.anew)
        yield
    assert not _loaded_models.changed()


@pytest.fixture
def each_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one command ran, another that asks the same of the model shows: for tests of what is
    shown of a result.
    """
    remember_results(monkeypatch, {})


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Sets how many threads torch takes; as before afterwards."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that is not there yet."""
    return tmp_path / "heads.csv"


@pytest.fixture(scope="session")
def article() -> attnscan.HeadScores:
    """The article's pair by the bundled model, with its attention and every reading."""
    return with_every_reading(attnscan.classify(A, B, model="bundled", predictive="off"))


@pytest.fixture(scope="session")
def attention(article: attnscan.HeadScores) -> Any:
    """Every weight of the bundled model on the article's pair."""
    return article.kept_attention()


@pytest.fixture(scope="session")
def ranking() -> attnscan.HeadScores:
    """Twelve pairs by the bundled model, with labels by weight and by what heads carry, and
    profiles by weight.
    """
    pairs = [
        (f"The cat number {i} sat on {i % 7} mats.", f"A cat ran {i} times to the store.")
        for i in range(12)
    ]
    return attnscan.heads(pairs, model="bundled", predictive="off")


@pytest.fixture
def quiet() -> Iterator[None]:
    """Transformers says nothing while a test runs, and what it said before afterwards."""
    with quiet_transformers():
        yield

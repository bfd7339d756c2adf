"""A pretended accelerator, and the models that are run on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.device_models import DeviceModels
from support.pretended_device import Ledger, pretended_device

import attnscan


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """A device of the kind of CUDA's is here; what happens on it is counted."""
    package = Path(attnscan.__file__).parent
    with pretended_device("cuda", watched=str(package)) as ledger:
        yield ledger


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> DeviceModels:
    """Checkpoints by their kinds."""
    return DeviceModels(tmp_path_factory.mktemp("models"))

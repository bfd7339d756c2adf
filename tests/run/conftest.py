"""A toy model that runs are tried on."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy import save_toy_bert

from attnscan.scan.options import ScanOptions


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_toy_bert(tmp_path_factory.mktemp("runs") / "toy", 2, 2, {(0, 0): "next-word", (1, 1): "previous-word"})


@pytest.fixture
def options(toy: Path) -> ScanOptions:
    return ScanOptions(model=str(toy), predictive="off", on_long="truncate")

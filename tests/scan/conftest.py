"""A toy model with planted heads, and what a scan of it is asked."""

from __future__ import annotations

import pytest
from toy import save_toy_bert

from attnscan.scan.options import ScanOptions


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> str:
    plan = {(0, 0): "next-word", (1, 1): "previous-word", (1, 2): "cross-sentence"}
    return str(save_toy_bert(tmp_path_factory.mktemp("toy"), 2, 3, plan))


@pytest.fixture
def options(toy: str) -> ScanOptions:
    return ScanOptions(model=toy, predictive="off", batch_tokens=120)

"""What a scan of the toy model is asked."""

import pytest

from attnscan.scan.options import ScanOptions


@pytest.fixture
def options(toy: str) -> ScanOptions:
    return ScanOptions(model=toy, predictive="off", batch_tokens=120)

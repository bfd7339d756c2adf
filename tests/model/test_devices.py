"""Where a model runs, and how many tokens a batch has there."""

import pytest
import torch

from attnscan.errors import DeviceError
from attnscan.model.devices import batch_tokens, choose_device
from attnscan.model.sources import Device


@pytest.mark.parametrize(
    ("device", "tokens"), [("cpu", 1024), ("mps", 4096), ("cuda", 32_768), ("xpu", 4096)]
)
def test_a_batch_keeps_its_device_busy(device: str, tokens: int) -> None:
    assert batch_tokens(torch.device(device)) == tokens


def _set_available(monkeypatch: pytest.MonkeyPatch, *, cuda: bool, mps: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


@pytest.mark.parametrize(
    ("cuda", "mps", "fastest"),
    [(False, False, "cpu"), (True, False, "cuda"), (False, True, "mps"), (True, True, "cuda")],
)
def test_the_fastest_device_is_taken(
    monkeypatch: pytest.MonkeyPatch, cuda: bool, mps: bool, fastest: str
) -> None:
    _set_available(monkeypatch, cuda=cuda, mps=mps)
    assert choose_device("auto") == torch.device(fastest)
    assert choose_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize(
    ("device", "version", "line"),
    [
        ("cuda", None, f"this machine has none: the installed torch {torch.__version__} has no"),
        ("cuda", "12.8", "this machine has none; use"),
        ("mps", None, "this machine has none; use"),
    ],
)
def test_a_missing_device_is_named_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, device: Device, version: str | None, line: str
) -> None:
    _set_available(monkeypatch, cuda=False, mps=False)
    monkeypatch.setattr(torch.version, "cuda", version)
    with pytest.raises(DeviceError) as caught:
        choose_device(device)
    assert line in str(caught.value)

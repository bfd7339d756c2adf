"""The pretended accelerator: it refuses and counts what CUDA does, and leaves nothing behind."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.pretended_device import Ledger, pretended_device


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    """It names the lines of this file."""
    with pretended_device("cuda", watched=str(Path(__file__).parent)) as ledger:
        yield ledger


@pytest.mark.usefixtures("ledger")
def test_tensors_say_that_they_are_on_the_device() -> None:
    values = torch.ones(2, device="cuda")
    assert values.device == torch.device("cuda", 0)
    assert (values[:1] * 2).is_cuda
    assert not values.cpu().is_cuda


def test_operands_of_two_devices_are_refused(ledger: Ledger) -> None:
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, device="cuda") + torch.ones(2)
    assert len(ledger.refused) == 1
    assert ledger.refused[0].startswith("test_pretended_device.py:")


def test_a_number_on_the_cpu_is_taken(ledger: Ledger) -> None:
    assert (torch.ones(2, device="cuda") * torch.tensor(2.0)).is_cuda
    assert not ledger.refused


@pytest.mark.usefixtures("ledger")
def test_a_generator_of_the_cpu_is_refused() -> None:
    with pytest.raises(RuntimeError, match="for generator"):
        torch.randn(2, device="cuda", generator=torch.Generator())


def test_numpy_of_a_device_tensor_is_refused_in_threads(ledger: Ledger) -> None:
    errors: list[TypeError] = []

    def work() -> None:
        try:
            torch.ones(2, device="cuda").numpy()
        except TypeError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(errors) == len(ledger.refused) == 1


@pytest.mark.parametrize(
    ("read", "waits"),
    [
        (lambda values: values.sum().item(), 1),
        (lambda values: bool((values > 0).any()), 1),
        (lambda values: values.tolist(), 1),
        (lambda values: values[values > 0], 1),
        (lambda values: values.cpu(), 1),
        (lambda values: values.sum() * 2, 0),
    ],
)
def test_waits_of_the_host_are_counted(ledger: Ledger, read: object, waits: int) -> None:
    values = torch.ones(2, device="cuda")
    ledger.waits.clear()
    read(values)  # type: ignore[operator]
    assert sum(ledger.waits.values()) == waits


def test_float64_is_refused_where_the_device_has_none() -> None:
    with pretended_device("mps"), pytest.raises(TypeError, match="float64"):
        torch.ones(2, device="mps").double()


def test_nothing_is_left_behind() -> None:
    with pretended_device("cuda"):
        assert torch.cuda.is_available()
    assert not torch.cuda.is_available()
    assert torch.ones(2).device.type == "cpu"

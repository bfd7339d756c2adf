"""Devices by their kinds: how many tokens a batch has, and how often the host waits for one."""

import pytest
import torch
from support.device_models import DeviceModels
from support.families import UNTAPPED, VOCABULARY, tiny_model
from support.handwritten_inputs import batch_of
from support.pretended_device import Ledger

import attnscan
from attnscan.errors import CaptureError
from attnscan.inputs.batch import EncodedBatch
from attnscan.model import keeper
from attnscan.model.devices import batch_tokens, choose_device
from attnscan.model.tap import AttentionTap

pytestmark = [pytest.mark.loads_anew, pytest.mark.filterwarnings("ignore")]
OFF = {"predictive": "off"}


@pytest.mark.parametrize(
    ("kind", "tokens"),
    [("cpu", 1024), ("mps", 4096), ("cuda", 32_768), ("xpu", 4096), ("hpu", 4096)],
)
def test_every_kind_of_device_has_a_size_of_batches(kind: str, tokens: int) -> None:
    assert batch_tokens(torch.device(kind)) == tokens


@pytest.mark.usefixtures("ledger")
def test_a_device_that_is_here_is_taken_unasked() -> None:
    assert choose_device("auto").type == "cuda"
    assert choose_device("cpu").type == "cpu"


def test_a_batch_is_copied_in_one_piece(ledger: Ledger) -> None:
    on_cpu = batch_of("[CLS] the berr ##y [SEP]", "[CLS] a cat sat ! [SEP] no [SEP]", unit="word")
    on_device = on_cpu.to(torch.device("cuda"))
    assert sum(ledger.waits.values()) == 1
    for name, values in vars(on_cpu).items():
        if isinstance(values, torch.Tensor):
            moved = getattr(on_device, name)
            assert moved.is_cuda
            assert moved.dtype == values.dtype
            assert torch.equal(moved.cpu(), values)


def test_a_watched_model_asks_once_what_its_layers_see(ledger: Ledger) -> None:
    """All layers' answers come in one piece, of the longest input so far."""
    model = tiny_model("deberta", UNTAPPED["deberta"]).to("cuda")
    waits = []
    with AttentionTap(model) as tap:
        for length in (6, 6, 5, 7):
            inputs = {"input_ids": torch.randint(5, VOCABULARY, (2, length)).to("cuda")}
            ledger.waits.clear()
            tap.run(inputs, lambda _: None)
            waits.append(sum(ledger.waits.values()))
    first, *others = waits
    assert others == [first - 1, first - 1, first]


class TestControls:
    """Planted faults of devices are caught."""

    def test_a_batch_left_on_the_cpu(
        self, models: DeviceModels, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(EncodedBatch, "to", lambda batch, _device: batch)
        with pytest.raises(CaptureError, match="same device"):
            attnscan.classify("the cat", model=models("masked-lm"), device="cuda", **OFF)
        assert ledger.refused

    def test_an_array_of_a_device_tensor(
        self, models: DeviceModels, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(keeper, "_to_array", lambda values: values[0].numpy())
        with pytest.raises(TypeError, match="copy the tensor to host memory first"):
            attnscan.classify("the cat", model=models("masked-lm"), device="cuda", **OFF)
        assert ledger.refused

    def test_what_runs_on_the_cpu_is_not_counted(
        self, models: DeviceModels, ledger: Ledger
    ) -> None:
        attnscan.classify("the cat", model=models("masked-lm"), device="cpu", **OFF)
        assert not ledger.operations

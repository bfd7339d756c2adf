"""Where a model runs: the device of a name, and how many tokens a batch has there."""

import torch

from attnscan.errors import DeviceError
from attnscan.model.sources import Device

_BATCH_TOKENS = {"cpu": 1024, "mps": 4096, "cuda": 32_768}
"""What stays in a CPU's last cache beside the weights, or keeps another device busy."""
_DEFAULT_BATCH_TOKENS = 4096
"""On a device of another kind (xpu, hpu, ...), where a program may hold a model."""


def batch_tokens(device: torch.device) -> int:
    """How many tokens a batch has where the device runs fastest."""
    return _BATCH_TOKENS.get(device.type, _DEFAULT_BATCH_TOKENS)


def choose_device(name: Device) -> torch.device:
    """The device of a name, or the fastest that is here. Raises: DeviceError if there is none."""
    available: list[Device] = ["cpu"]
    if torch.backends.mps.is_available():
        available.append("mps")
    if torch.cuda.is_available():
        available.append("cuda")
    if name == "auto":
        return torch.device(available[-1])
    if name not in available:
        reason = ""
        if name == "cuda" and not torch.version.cuda:
            reason = f": the installed torch {torch.__version__} has no CUDA"
        raise DeviceError(
            f"``device={name}``: this machine has none{reason}",
            "use ``device=auto``, or leave it out",
        )
    return torch.device(name)

"""What each worker gets of a cluster's machines. No cluster runs here: what Ray says of one is written down."""

from __future__ import annotations

from typing import Any

import pytest

from attnscan.errors import DeviceError, OptionError
from attnscan.scan.options import ClusterOptions, ScanOptions

ray = pytest.importorskip("ray")
from attnscan.scan.cluster.connection import Share, shared  # noqa: E402


def share(
    monkeypatch: pytest.MonkeyPatch, *machines: dict[str, float], device: Any = "auto", said: Any = None, **asked: Any
) -> Share:
    """What is shared of machines with such resources."""
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "Resources": each} for each in machines])
    return shared(ScanOptions(device=device), ClusterOptions(**asked), said or pytest.fail)


@pytest.mark.parametrize(
    ("part", "workers"),
    [(None, 2 + 1), (1, 2 + 1), (0.5, 4 + 2), (0.25, 8 + 4), (0.2, 8 + 4), (0.4, 4 + 2), (0.7, 2 + 1), (0.01, 8 + 4)],
)
def test_workers_share_gpus_as_far_as_there_are_cores(
    monkeypatch: pytest.MonkeyPatch, part: float | None, workers: int
) -> None:
    """Two GPUs and 8 cores, one GPU and 4, and a machine without one: a worker's share is of a single GPU."""
    machines = {"CPU": 8.0, "GPU": 2.0}, {"CPU": 4.0, "GPU": 1.0}, {"CPU": 16.0}, {"memory": 1.0}
    found = share(monkeypatch, *machines, worker_gpus=part)
    assert (found.workers, found.most, found.device) == (workers, workers, "cuda")
    assert found.gpus == (1 if part is None else part)


def test_a_third_is_told_to_ray_as_finely_as_it_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = share(monkeypatch, {"CPU": 8.0, "GPU": 1.0}, worker_gpus=1 / 3)
    assert (found.workers, found.gpus) == (3, 0.3333)


def test_without_gpus_workers_get_cores_alone_and_none_can_be_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    assert share(monkeypatch, {"CPU": 8.0}, worker_cpus=2) == Share(4, 4, 2, 0, "cpu")
    assert share(monkeypatch, {"CPU": 8.0, "GPU": 1.0}, device="cpu").gpus == 0
    for machine, device in (({"CPU": 8.0}, "auto"), ({"CPU": 8.0, "GPU": 1.0}, "cpu")):
        with pytest.raises(DeviceError, match="is a share of a GPU, and workers run on CPUs; leave it out"):
            share(monkeypatch, machine, device=device, worker_gpus=0.5)


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ({}, 5 + 2),
        ({"worker_cpus": 3}, 3 + 0),
        ({"workers": 1}, 5 + 2 + 1),
        ({"worker_gpus": 0.2}, 1),
        ({"workers": 9}, 7),
    ],
)
def test_cores_that_workers_with_gpus_leave_may_tokenize(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], left: int
) -> None:
    """A GPU and 6 cores, and one and 3."""
    found = share(monkeypatch, {"CPU": 6.0, "GPU": 1.0}, {"CPU": 3.0, "GPU": 1.0}, said=lambda _: None, **asked)
    assert found.tokenizers == left


def test_workers_on_cpus_tokenize_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    assert share(monkeypatch, {"CPU": 8.0}, workers=2).tokenizers == 0


def test_workers_that_do_not_fit_yet_are_told_of_with_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    found = share(monkeypatch, {"CPU": 8.0, "GPU": 1.0}, said=said.append, worker_gpus=0.25, workers=6)
    assert (found.workers, found.gpus) == (6, 0.25)
    assert said == ["the cluster has room for 4 of 6 workers of 1 CPUs and 0.25 of a GPU now; the others wait"]
    with pytest.raises(DeviceError, match="no machine of the cluster has 16 CPUs and a GPU for a worker"):
        share(monkeypatch, {"CPU": 8.0, "GPU": 1.0}, worker_cpus=16)


@pytest.mark.parametrize("part", [0, 0.001, 1.01, 2, -0.5, float("nan"), "half"])
def test_a_share_is_of_one_gpu(part: Any) -> None:
    with pytest.raises(OptionError, match=r"worker_gpus is .*; give a number, from 0\.01 to 1$"):
        ClusterOptions(worker_gpus=part)

"""`benchmarks/scan.py --device cuda`, on a small model: what it prints once it meets a GPU."""

import pytest
import scan
import torch
from support.pretended_device import Ledger

pytestmark = [pytest.mark.loads_anew, pytest.mark.filterwarnings("ignore")]


def test_scans_on_a_device_are_a_table(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scan, "SHAPES", {"tiny": (1, 1)})
    monkeypatch.setattr(scan, "BOUNDS", {16: (1.0, 1.0)})
    monkeypatch.setattr("sys.argv", ["scan.py", "--device", "cuda", "--tokens", "32", "--runs=1"])
    scan.main()
    machine, _, *table = capsys.readouterr().out.splitlines()
    assert f"a pretended device, torch {torch.__version__}; 32 tokens, 1 runs" in machine
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert rows[0] == ["shape", "tokens", "format", "pairs a second", "scan / sdpa", "bound"]
    assert [row[:3] for row in rows[2:]] == [
        ["tiny", "16", "float32"],
        ["tiny", "16", "bfloat16"],
    ]
    assert all(float(row[3]) > 0 and float(row[4]) > 0 for row in rows[2:])
    assert any(kind == "synchronize" for kind, _ in ledger.waits)  # before the clock is read


def test_rows_that_the_time_does_not_reach_have_dashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "SHAPES", {"tiny": (1, 1)})
    monkeypatch.setattr(scan, "DEVICE_SECONDS", 0)
    rows = list(scan.device_rows(torch.device("cpu"), 1, 32))
    assert len(rows) == 6
    assert all("| – | – |" in row for row in rows)

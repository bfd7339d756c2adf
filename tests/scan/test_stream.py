"""What is read at once, and that many threads find what one finds, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from scans import RECORDS, ranked, states_of

from attnscan.scan import local as reading
from attnscan.scan.local import scan
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanState


def _scanned(options: ScanOptions) -> tuple[list[ScanState], Any]:
    """All states, and the finished ranking with `predictive`."""
    with Scanner(options) as scanner:
        states = states_of(scanner, RECORDS)
        return states, ranked(scanner, states[-1]).to_frame()


@pytest.mark.parametrize("unit", ["token", "word"])
def test_a_scan_is_the_same_to_the_last_bit(
    toy: str, unit: Any, threads: Callable[[int], None], crews: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker's products are those of one thread, and sums are added in the order of the pairs."""
    monkeypatch.setattr(reading, "_BATCHES_IN_WINDOW", (4, 4))
    monkeypatch.setattr(reading, "_TOKENS_IN_WINDOW", 1)
    options = ScanOptions(model=toy, predictive="distance", predictive_pairs=3, batch_tokens=60, unit=unit)
    threads(1)
    states, frame = _scanned(options)
    assert len(states) > 2 and crews == []
    threads(4)
    others, other = _scanned(options)
    assert crews == [4, 4]  # to score, and to ask
    assert [state.seen for state in others] == [state.seen for state in states]
    assert other.equals(frame)


def test_pairs_of_their_own_come_in_order(toy: str, threads: Callable[[int], None]) -> None:
    numbers: list[list[int]] = []
    for count in (1, 3):
        threads(count)
        numbers.append([])
        with Scanner(ScanOptions(model=toy, predictive="off", batch_tokens=60)) as scanner:
            own = numbers[-1]
            scan(scanner, RECORDS, on_pairs=lambda places, _, own=own: own.extend(place.row for place in places))
    assert numbers[0] == numbers[1] and sorted(numbers[0]) == list(range(1, 41))


def test_the_model_is_as_it_was_after_a_scan(toy: str, threads: Callable[[int], None]) -> None:
    threads(4)
    with Scanner(ScanOptions(model=toy, predictive="distance", batch_tokens=60)) as scanner:
        before = scanner.loaded.model.config._attn_implementation

        def stop(_: ScanState) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            scan(scanner, RECORDS, keep=stop)
        assert scanner.loaded.model.config._attn_implementation == before
        assert not [module for module in scanner.loaded.model.modules() if module._forward_pre_hooks]
        assert torch.get_num_threads() == 4

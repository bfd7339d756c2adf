"""A model made ready: what it signs, and what it runs while it is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scans import BUNDLED

from attnscan.errors import MemoryFullError
from attnscan.model import running
from attnscan.results.attention import Chosen
from attnscan.scan.scanner import Scanner


@pytest.mark.parametrize(
    ("fits", "too_much", "watched"),
    [
        ((8000, None, 0), (8001, None, 0), False),
        ((3000, None, 1), (3600, None, 1), False),
        ((8000, range(1000), 1), (8000, range(1300), 1), False),
        ((3000, None, 0), (6000, None, 0), True),  # as of DeBERTa, which computes all heads of a layer together
    ],
)
def test_what_memory_does_not_hold_is_refused_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch, fits: Any, too_much: Any, watched: bool
) -> None:
    with Scanner(BUNDLED) as scanner:
        grid, needs = scanner.grid(), 150_000 * 8000
        kept = 0 if fits[2] == 0 and not watched else 4 * 72 * 3000**2
        monkeypatch.setattr(running, "free_memory", lambda: needs + kept)
        monkeypatch.setattr(scanner.tap, "calls", replace(scanner.tap.calls, tapped=not watched))

        def check(tokens: int, rows: Any, copies: int) -> None:
            scanner.check_room(tokens, None if rows is None else Chosen(grid, tuple(rows)), copies)

        check(*fits)
        with pytest.raises(MemoryFullError, match=rf"{too_much[0]:,} tokens takes .* GB of memory are free"):
            check(*too_much)

"""A model made ready: what it signs, and what it runs while it is asked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from one_run import classify
from scans import ARTICLE, BUNDLED

from attnscan.errors import MemoryFullError
from attnscan.inputs.sentence import Pair
from attnscan.model import running
from attnscan.model.loaded import LoadedModel
from attnscan.results.attention import Chosen
from attnscan.results.grid import Grid
from attnscan.scan.scanner import Scanner


def test_the_signature_says_what_was_run() -> None:
    signature = classify(ARTICLE, replace(BUNDLED, unit="word")).signature
    assert (signature.model, signature.unit, signature.dtype, signature.device) == ("bundled", "word", "float32", "cpu")
    assert (signature.read_by, signature.pairs_read, signature.pairs_truncated) == ("tap", 1, 0)
    other = classify(Pair(ARTICLE.a, "Another one."), BUNDLED).signature
    assert len(signature.input_hash) == 64 and signature.input_hash != other.input_hash


def test_a_pair_and_the_same_words_as_one_sentence_hash_differently() -> None:
    hashes = {classify(pair, BUNDLED).signature.input_hash for pair in (Pair("ab", "c"), Pair("a", "bc"), Pair("ab c"))}
    assert len(hashes) == 3


def test_weights_that_memory_does_not_hold_are_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "free_memory", lambda: 4 * 72 * 3000**2)
    monkeypatch.setattr(Scanner, "grid", lambda _: Grid((6, 12)))
    monkeypatch.setattr(LoadedModel, "needs", lambda *_: 0)
    with Scanner(BUNDLED) as scanner:
        scanner.check_room(3000, copies=1)
        scanner.check_room(50_000)  # ranges of queries are of any number
        scanner.check_room(1000, copies=9)
        with pytest.raises(MemoryFullError, match=r"72 heads on 3,001 tokens take 2\.6 GB, .*: 3,000 tokens would fit"):
            scanner.check_room(3001, copies=1)
        grid = scanner.grid()
        one_head = Chosen(grid, tuple(range(8192)), (grid[0],))
        scanner.check_room(8192, one_head, copies=9)
        scanner.check_room(8192, replace(one_head, heads=None, rows=tuple(range(1000))), copies=1)
        says = r"8,192 queries of 1 head on 8,192 tokens take 2\.7 GB, and 2\.6 GB of .* free: 7,910 queries would fit"
        with pytest.raises(MemoryFullError, match=says):
            scanner.check_room(8192, one_head, copies=10)
        watched = replace(scanner.tap.calls, tapped=False)  # as of DeBERTa, which computes all heads of a layer
        monkeypatch.setattr(scanner.tap, "calls", watched)
        with pytest.raises(MemoryFullError, match="3,674 tokens would fit; use shorter inputs"):
            scanner.check_room(3700)


def test_an_input_that_memory_does_not_hold_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with Scanner(BUNDLED) as scanner:
        needs = scanner.loaded.needs(4000, 4000)
        assert 4e8 < needs < 1e9 and scanner.loaded.needs(8000, 8000) == 2 * needs  # linear in tokens
        monkeypatch.setattr("attnscan.scan.scanner.free_memory", lambda: needs)
        scanner.check_room(4000)
        with pytest.raises(MemoryFullError, match=r"an input of 8,000 tokens takes 1\.\d GB, .* at most 4,000 tokens"):
            scanner.check_room(8000)
        # what is kept has to fit beside the run
        monkeypatch.setattr(running, "free_memory", lambda: needs + 4 * 72 * 4000**2)
        scanner.check_room(4000, copies=1)
        with pytest.raises(MemoryFullError, match="2,828 tokens would fit"):
            scanner.check_room(4000, copies=2)

"""What is read at once, and that many threads find what one finds, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
import torch
from scans import PAIRS, RECORDS, assert_equal_sums, ranked, records_of, states_of

from attnscan.errors import InputError, PairsError
from attnscan.inputs.sentence import Pair, Record
from attnscan.model import threads as side_by_side
from attnscan.scan import local as reading
from attnscan.scan.local import Stream, scan
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanState, Seen


def test_a_window_to_sort_is_four_batches_or_sixteen_thousand_tokens(options: ScanOptions) -> None:
    """More batches than four where they are small, and no more than sixteen."""
    pairs = PAIRS * 100
    for batch_tokens, tokens in ((None, 16_384), (8192, 32_768), (2048, 16_384), (256, 4096)):
        with (
            Scanner(replace(options, batch_tokens=batch_tokens)) as scanner,
            closing(Stream(scanner, records_of(pairs)).windows()) as windows,
        ):
            first = next(windows)
        found = sum(len(one.tokens) for batch in first for one in batch)
        assert tokens <= found < tokens + 50


def test_whichever_way_a_stream_is_read_it_counts_and_has_seen_the_same(
    options: ScanOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pair that is skipped counts once its window is done."""
    monkeypatch.setattr(reading, "_BATCHES_IN_WINDOW", (2, 2))
    monkeypatch.setattr(reading, "_TOKENS_IN_WINDOW", 1)
    records = [*RECORDS[:3], Record(Pair("cat " * 60), "too long"), *RECORDS[3:]]
    with Scanner(replace(options, on_long="skip")) as scanner:
        ways: list[tuple[list[int], Seen]] = []
        for name, arguments in (("windows", ()), ("worked", (len,))):
            stream = Stream(scanner, records)
            counts = [stream.done for _ in getattr(stream, name)(*arguments)]
            ways.append((counts, stream.seen))
        (by_window, seen), (by_work, seen_by_work) = ways
        assert len(by_work) > len(by_window) > 2 and by_work == sorted(by_work)
        assert seen == seen_by_work
        assert (seen.read, seen.skipped) == (by_work[-1], 1) == (len(records), 1)
        later = Stream(scanner, [], seen=seen)
        assert list(later.worked(len)) == [([], True)] and later.seen == seen


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


def test_inputs_that_turn_out_long_are_run_one_at_a_time(
    toy: str, threads: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The crew was chosen by a window of short ones."""
    monkeypatch.setattr(reading, "_BATCHES_IN_WINDOW", (4, 4))
    monkeypatch.setattr(reading, "_TOKENS_IN_WINDOW", 1)
    monkeypatch.setattr(side_by_side, "_MOST_CELLS", 4 * 12**2)
    short = [Record(Pair("the cat", f"a mat {i}"), f"short {i}") for i in range(40)]
    score, running, most = Scanner.score, set[int](), [0]

    def counted(self: Scanner, inputs: Any, *rest: Any, **more: Any) -> Any:
        if len(inputs[0].tokens) > 12:
            running.add(id(self))
            most.append(len(running))
        try:
            return score(self, inputs, *rest, **more)
        finally:
            running.discard(id(self))

    monkeypatch.setattr(Scanner, "score", counted)
    threads(4)
    with Scanner(ScanOptions(model=toy, predictive="off", batch_tokens=60)) as scanner:
        last = scan(scanner, [*short, *RECORDS])
    assert last.seen.read == 80 and len(most) > 10 and max(most) == 1


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


def test_an_error_of_the_reader_comes_behind_that_of_a_record_before_it(options: ScanOptions) -> None:
    """Though records are read in runs that are tokenized at once; and what comes before either is found."""

    def read(bad: bool) -> Iterator[Record]:
        yield from RECORDS[:3]
        if bad:
            yield Record(Pair("\u200b"), "line 5")
        raise PairsError("line 7 is cut", "mend it")

    with Scanner(options) as scanner:
        for bad, told in ((True, "line 5: the tokenizer finds no word"), (False, "line 7 is cut")):
            with pytest.raises(InputError, match=told):
                scan(scanner, read(bad))
        skipped: list[InputError] = []
        with pytest.raises(PairsError, match="line 7 is cut"):
            scan(scanner, read(True), on_bad=skipped.append)
        assert len(skipped) == 1 and str(skipped[0]).startswith("line 5")


def test_records_are_tokenized_together_and_those_that_are_bad_are_skipped_alone(
    options: ScanOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_TOGETHER", 4)
    runs: list[int] = []
    encode_all = Scanner.encode_all

    def counted(self: Scanner, pairs: Any, *rest: Any) -> Any:
        runs.append(len(pairs))
        return encode_all(self, pairs, *rest)

    bad = [Record(Pair("\u200b"), f"bad {i}") for i in range(2)]
    records = [bad[0], *RECORDS[:5], bad[1], *RECORDS[5:9]]
    with Scanner(options) as scanner:
        expected = scan(scanner, RECORDS[:9])
        monkeypatch.setattr(Scanner, "encode_all", counted)
        skipped: list[InputError] = []
        last = scan(scanner, records, on_bad=skipped.append)
    assert [error.what.partition(":")[0] for error in skipped] == ["bad 0", "bad 1"]
    assert last.sums.told is not None and expected.sums.told is not None
    assert_equal_sums(last.sums.told, expected.sums.told, 0)
    assert (last.seen.read, last.seen.skipped) == (11, 2)
    assert runs[:3] == [4, 4, 3]

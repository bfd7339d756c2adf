"""Reading ahead, and batches filled by tokens."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnscan.batch import EncodedInput
from attnscan.stream import Room, ahead, batches


def _input(length: int) -> EncodedInput:
    return EncodedInput(("w",) * length, (0,) * length, tuple(range(length)), (False,) * length)


@given(st.lists(st.integers()))
def test_reading_ahead_changes_neither_items_nor_order(items: list[int]) -> None:
    assert list(ahead(items, 2)) == items


def test_reading_ahead_goes_so_far_and_no_farther() -> None:
    fetched: list[int] = []

    def source() -> Iterator[int]:
        for item in range(100):
            fetched.append(item)
            yield item

    stream = ahead(source(), 2)
    assert next(stream) == 0
    waiting = threading.Event()
    waiting.wait(0.3)
    assert len(fetched) <= 1 + 2 + 1  # the one taken, those that wait, and the one being put
    stream.close()  # type: ignore[attr-defined]


def test_an_error_comes_in_its_place() -> None:
    def source() -> Iterator[int]:
        yield 1
        raise ZeroDivisionError

    stream = ahead(source(), 2)
    assert next(stream) == 1
    with pytest.raises(ZeroDivisionError):
        next(stream)


def test_a_closed_stream_ends_its_thread() -> None:
    stream = ahead(iter(range(10**9)), 1)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    for thread in threading.enumerate():
        if thread.name == "attnscan-ahead":
            thread.join(2)
    assert not [thread for thread in threading.enumerate() if thread.name == "attnscan-ahead"]


def test_an_interrupt_while_a_stream_closes_waits_for_its_thread() -> None:
    """Left alone inside a tokenizer, it would abort the process at its end."""
    asked, over, main = threading.Event(), threading.Event(), threading.main_thread().ident
    assert main is not None

    def slow() -> Iterator[int]:
        yield 1
        asked.set()
        for _ in range(2):  # Ctrl-C, twice, while the stream waits for this to end
            threading.Event().wait(0.1)
            signal.pthread_kill(main, signal.SIGINT)
        threading.Event().wait(0.1)
        over.set()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        stream = ahead(slow(), 1)
        next(stream)
        asked.wait()
        with pytest.raises(KeyboardInterrupt):
            stream.close()
        assert over.is_set()
    finally:
        signal.signal(signal.SIGINT, before)


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 120), st.integers(1, 5000))
def test_batches_hold_every_input_once_and_no_more_than_they_may(lengths: list[int], tokens: int, cells: int) -> None:
    made = list(batches([_input(length) for length in lengths], Room(tokens, cells)))
    assert sorted(len(one.tokens) for batch in made for one in batch) == sorted(lengths)
    for batch in made:
        assert batch
        longest = max(len(one.tokens) for one in batch)
        assert len(batch) == 1 or (longest * len(batch) <= tokens and longest**2 * len(batch) <= cells)


def test_inputs_of_like_length_share_a_batch() -> None:
    made = list(batches([_input(length) for length in (3, 50, 4, 48, 3)], Room(100)))
    assert [[len(one.tokens) for one in batch] for batch in made] == [[50, 48], [4, 3, 3]]

"""Calls into other people's libraries: one line for what they raise, and nothing of what they print.

Fast tokenizers are written in Rust. Where that gives up, it prints a report to the process's standard error and raises
a `PanicException`, which is no `Exception`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Generic, TypeVar

from attnscan.errors import AttnscanError

R = TypeVar("R")

_left_alone: list[str] = []


def distrust(name: str) -> None:
    """Have `leave` end the process at once, because a library may crash in its own clean-up."""
    _left_alone.append(name)


def leave(code: object) -> None:
    """End the process at once if a library was distrusted."""
    if not _left_alone:
        return
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


class TokenizerFailed(Exception):
    """A tokenizer raised something, or gave up inside its library; the text is the reason, in one line."""


def asked(do: Callable[..., R], *arguments: Any, **options: Any) -> R:
    """What a tokenizer's own function returns.

    Raises: TokenizerFailed; MemoryError and interrupts as they are.
    """
    try:
        return do(*arguments, **options)
    except BaseException as error:
        if isinstance(error, MemoryError) or not (isinstance(error, Exception) or is_panic(error)):
            raise
        line = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        reason = line if len(line.split()) > 1 else f"{type(error).__name__}: {line}"
        raise TokenizerFailed(reason) from error


@contextmanager
def explained(as_error: Callable[[str], AttnscanError]) -> Iterator[None]:
    """Where a tokenizer fails, raise what `as_error` makes of the reason."""
    try:
        yield
    except TokenizerFailed as failed:
        raise as_error(str(failed)) from failed


def is_panic(error: BaseException) -> bool:
    """Whether it is what Python sees of a panic in Rust; its class cannot be imported."""
    return type(error).__module__ == "pyo3_runtime"


class WhileInside(Generic[R]):
    """A state of the whole process: set by the first who enters, and put back by the last, in whatever threads."""

    def __init__(self, set_up: Callable[[], R], put_back: Callable[[R], None]) -> None:
        self._set_up, self._put_back = set_up, put_back
        self._lock, self._inside = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = self._set_up()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._put_back(self._before)


def _shut() -> int:
    """Let descriptor 2 lead nowhere; a new one leads to where it led. Raises: OSError if it is not open."""
    before = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    return before


def _open(before: int) -> None:
    os.dup2(before, 2)
    os.close(before)


without_stderr = WhileInside(_shut, _open)


@contextmanager
def hushed() -> Iterator[None]:
    """Hide what is not Python's own on standard error, if Python writes elsewhere: nothing of its own is to be lost.

    It takes some 40 microseconds.
    """
    with ExitStack() as stack:
        if not _python_writes_to_it():
            with suppress(OSError):  # there is no standard error
                stack.enter_context(without_stderr)
        yield


def _python_writes_to_it() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.fileno() == 2
    except (OSError, ValueError, AttributeError):  # it is a stand-in, which has no descriptor
        return False

"""Calls into somebody else's tokenizer: whatever it raises is one line, and what it prints itself is not shown.

Fast tokenizers are written in Rust. Where that gives up, it prints a report to the process's standard error and raises
a `PanicException`, which is no `Exception`; while it works, Python hears no Ctrl-C, and nothing ends it but the
process. So a tokenizer with regular expressions of its own, which may take for ever, works in a thread that is waited
for only so long.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from attnscan.errors import AttnscanError, ModelError
from attnscan.inputs.patience import NoAnswer, within

Found = TypeVar("Found")

PATIENCE = 30.0
"""Seconds for a tokenizer with regular expressions of its own; a fast one takes milliseconds for a sentence."""
_CHARACTERS_A_SECOND = 50_000  # are added for a long text; the slowest sound ones read twenty times as many
_LONGEST_WORD = 1000  # in characters; WordPiece looks up each part of a word, and gives up at 100 by default

_may_take_long: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


class TokenizerFailed(Exception):
    """A tokenizer raised something; the text is the reason, in one line."""


class TokenizerPanicked(TokenizerFailed):
    """It gave up inside its library, as one with a regular expression that explodes does."""


def may_take_long(tokenizer: Any) -> bool:
    """Whether a tokenizer has to be waited for, which it can be for one input at a time."""
    if tokenizer not in _may_take_long:
        _may_take_long[tokenizer] = _is_unbounded(tokenizer)
    return _may_take_long[tokenizer]


def called(tokenizer: Any, *texts: Any, **options: Any) -> Any:
    """What a tokenizer makes of a text, or of a pair of texts; or, if it may not take long, of lists of either.

    Raises: TokenizerFailed; ModelError if it comes to no end.
    """
    if not may_take_long(tokenizer):
        return asked(tokenizer, *texts, verbose=False, **options)
    seconds = PATIENCE + sum(len(text or "") for text in texts) / _CHARACTERS_A_SECOND
    try:
        with hushed():
            return within(seconds, lambda: asked(tokenizer, *texts, verbose=False, **options), "tokenizer")
    except NoAnswer:
        raise ModelError(
            f"the tokenizer {type(tokenizer).__name__} has not read a sentence after {seconds:.0f} seconds",
            "its tokenizer.json holds a regular expression that takes too long: use another checkpoint",
        ) from None


def asked(do: Callable[..., Found], *arguments: Any, **options: Any) -> Found:
    """What a tokenizer's own function returns.

    Raises: TokenizerFailed; MemoryError and interrupts as they are.
    """
    try:
        return do(*arguments, **options)
    except MemoryError:
        raise
    except BaseException as error:
        if is_panic(error):
            raise TokenizerPanicked(reason(error)) from error
        if not isinstance(error, Exception):
            raise
        raise TokenizerFailed(reason(error)) from error


@contextmanager
def explained(as_error: Callable[[str], AttnscanError]) -> Iterator[None]:
    """Where a tokenizer fails, say what that means.

    Raises: what `as_error` makes of the reason.
    """
    try:
        yield
    except TokenizerFailed as failed:
        raise as_error(str(failed)) from failed


def reason(error: BaseException) -> str:
    """The first line of what an error says, with its class where the words alone say too little."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
    return line if len(line.split()) > 1 else f"{type(error).__name__}: {line}"


def is_panic(error: BaseException) -> bool:
    """Whether it is what Python sees of a panic in Rust; its class cannot be imported."""
    return type(error).__module__ == "pyo3_runtime"


def _is_unbounded(tokenizer: Any) -> bool:
    """Whether a tokenizer's own rules leave open how long it takes."""
    rust = getattr(tokenizer, "backend_tokenizer", None)
    steps = (getattr(rust, "normalizer", None), getattr(rust, "pre_tokenizer", None))
    if any(step is not None and b'"Regex"' in step.__getstate__() for step in steps):
        return True
    longest = getattr(getattr(rust, "model", None), "max_input_chars_per_word", 0)
    return isinstance(longest, int) and longest > _LONGEST_WORD


class _Hush:
    """Descriptor 2 leads nowhere while anybody is inside."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = -1

    def enter(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = os.dup(2)
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, 2)
                os.close(nowhere)

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                os.dup2(self._before, 2)
                os.close(self._before)


_hush = _Hush()


@contextmanager
def hushed() -> Iterator[None]:
    """Hide what is not Python's own on standard error, if Python writes elsewhere: nothing of its own is to be lost.

    It takes some 40 microseconds, so only loading and tokenizers that are known to give up at times are hushed.
    """
    if _python_writes_to_it():
        yield
        return
    try:
        _hush.enter()
    except OSError:  # there is no standard error
        yield
        return
    try:
        yield
    finally:
        _hush.leave()


def _python_writes_to_it() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.fileno() == 2
    except (OSError, ValueError, AttributeError):  # it is a stand-in, which has no descriptor
        return False

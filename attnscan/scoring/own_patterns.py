"""Patterns of a user's own, read from a Python file: `FILE.py:FUNCTION`. Reading one runs the file's code."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from traceback import walk_tb
from types import ModuleType

from attnscan.errors import AttnscanError, OptionError, nearest, out_of_memory
from attnscan.hashing import hashed
from attnscan.scoring.pattern import Pattern
from attnscan.scoring.patterns import PATTERNS, PatternLike, chosen

_SUFFIX = ".py"
_HOW = f"name it as FILE{_SUFFIX}:FUNCTION"


def is_own(name: str) -> bool:
    """Whether a name means a file's function; no pattern's name or letter does.

    >>> is_own("mine.py:two_back"), is_own("mine.py"), is_own("next-word")
    (True, True, False)
    """
    return name.endswith(_SUFFIX) or name.rpartition(":")[0].endswith(_SUFFIX)


def own_pattern(name: str) -> Pattern:
    """The pattern that a file's function is, with a hash of the file.

    Raises: OptionError if the file cannot be read or run, or has no such function.
    """
    file, _, function = name.rpartition(":")
    if not file.endswith(_SUFFIX) or not function:
        raise OptionError(f"'{name}' names no function", _HOW)
    path = Path(file)
    try:
        code = path.read_bytes()
    except FileNotFoundError:
        raise OptionError(f"there is no file {path}", "check the path") from None
    except (OSError, ValueError) as error:
        raise OptionError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}", "check it") from None
    module = _run(path, code)
    if not hasattr(module, function):
        own = {each: value for each, value in vars(module).items() if callable(value)}
        there = [each for each, value in own.items() if getattr(value, "__module__", None) == module.__name__]
        remedy = nearest(function, there, f"there are {', '.join(there)}" if there else "define it with def")
        raise OptionError(f"{path} has no function '{function}'", remedy)
    try:
        (pattern,) = chosen([getattr(module, function)])
    except AttnscanError as error:
        raise OptionError(f"{name}: {error.what}", error.remedy) from None
    return replace(pattern, code=hashed(code))


def with_own(asked: Sequence[PatternLike], ours: Sequence[Pattern] = PATTERNS) -> tuple[list[str], tuple[Pattern, ...]]:
    """The names of some patterns, each once, and `ours` with those of one's own that are among them.

    Raises: OptionError for what is no pattern; if two patterns have one name as well.
    """
    meant = [own_pattern(what) if isinstance(what, str) and is_own(what) else what for what in asked]
    patterns = dict.fromkeys(pattern for what in meant for pattern in chosen([what], ours))
    every = chosen([*ours, *(pattern for pattern in patterns if pattern not in ours)])
    return [pattern.id for pattern in patterns], every


def _run(path: Path, code: bytes) -> ModuleType:
    """The module that a file's code makes. Raises: OptionError for whatever it raises."""
    module = ModuleType(f"attnscan_own_{hashed(str(path.absolute()).encode())[:16]}")
    module.__file__ = str(path.absolute())
    sys.modules[module.__name__] = module  # where dataclasses look for their own
    try:
        with _beside(path):
            exec(compile(code, module.__file__, "exec"), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        if out_of_memory(error):
            raise
        raise OptionError(f"{path} cannot be run: {_told(error, path)}", f"see that `python {path}` runs") from error
    return module


@contextmanager
def _beside(path: Path) -> Iterator[None]:
    """Let a file import those beside it, as Python does for a file that it runs."""
    directory = str(path.absolute().parent)
    sys.path.insert(0, directory)
    try:
        yield
    finally:
        sys.path.remove(directory)


def _told(error: BaseException, path: Path) -> str:
    """What an error says in one line: its class, the line of the file that it came from, and its text."""
    line = error.lineno if isinstance(error, SyntaxError) else None
    for frame, number in walk_tb(error.__traceback__):
        if Path(frame.f_code.co_filename).absolute() == path.absolute():
            line = number
    text = " ".join((error.msg if isinstance(error, SyntaxError) else str(error)).split())[:200]
    where = f" in line {line}" if line is not None else ""
    return f"{type(error).__name__}{where}{': ' if text else ''}{text}"

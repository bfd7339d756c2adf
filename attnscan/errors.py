"""What can go wrong for a user, as a tree.

    AttnscanError
    ├── InputError       a sentence that cannot be read: empty, without words, not Unicode
    │   ├── PairsError   a file of pairs with a bad record, or none that can be read
    │   └── TooLongError an input of more tokens than the model reads
    ├── SelectionError   a head or token that does not exist
    ├── OptionError      an option's value, or a user's own pattern, that is not valid
    ├── ModelError       a model that cannot be found, trusted or loaded
    │   └── CaptureError a loaded model whose attention cannot be read
    ├── DeviceError      a device or number format that this machine does not have
    │   └── MemoryFullError  inputs, a model or torch itself that do not fit into memory
    ├── WeightsError     a file of saved weights that is malformed or hostile
    ├── EngineError      shards that do not add; an engine that does not run
    ├── StateError       a state file of other pairs or options, or a damaged one
    └── OutputError      a result that cannot be written where it should go

Each says what is wrong, where, and what to do about it, in one line. The command line prints that
line and exits with 1; a traceback means a bug of ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING

from attnscan.text import plain

if TYPE_CHECKING:
    from pathlib import Path


class AttnscanError(Exception):
    """An error that a user can cause, and can mend.

    It holds `what` is wrong and the `remedy`; `str()` joins them to one line. Options stand in both
    between double backticks, by their names in Python, and each edge writes them in its own way:

    >>> error = AttnscanError("the input is long", "pass ``on_long=truncate``, or skip it")
    >>> print(error)  # in Python, and on the page
    the input is long; pass on_long='truncate', or skip it
    >>> print(error.line)  # on the command line
    the input is long; pass --on-long truncate, or skip it
    """

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what, remedy)
        self.what = what
        self.remedy = remedy

    @property
    def line(self) -> str:
        """One line for the command line, whose options stand in it as they are typed."""
        return self._written(_as_typed)

    def __str__(self) -> str:
        return self._written(_as_argument)

    def _written(self, write: Callable[[str, str | None], str]) -> str:
        """One line, with each option as `write` writes its name and value."""
        text = f"{self.what}; {self.remedy}" if self.remedy else self.what
        return plain(_OPTION.sub(lambda option: write(option["name"], option["value"]), text))


_OPTION = re.compile(r"``(?P<name>[a-z_]+)(?:=(?P<value>[^`]+))?``")


def _as_typed(name: str, value: str | None) -> str:
    """An option as it is typed: `--on-long truncate`, `--no-header`."""
    flag = name.replace("_", "-")
    if value == "False":
        return f"--no-{flag}"
    return f"--{flag}" if value is None else f"--{flag} {value}"


def _as_argument(name: str, value: str | None) -> str:
    """An option as an argument of a function: `on_long='truncate'`, `header=False`."""
    if value is None:
        return name
    is_text = not (value.isdecimal() or value[0].isupper())  # NAME stands for one
    return f"{name}={value!r}" if is_text else f"{name}={value}"


class InputError(AttnscanError):
    """A sentence that cannot be read."""


class PairsError(InputError):
    """A file of pairs with a bad record, or one that cannot be read."""


class TooLongError(InputError):
    """An input of more tokens than the model reads."""


class SelectionError(AttnscanError):
    """A head or token that does not exist."""


class OptionError(AttnscanError):
    """An option's value, or a user's own pattern, that is not valid."""


class ModelError(AttnscanError):
    """A model that cannot be found, trusted or loaded."""


class CaptureError(ModelError):
    """A loaded model whose attention cannot be read."""


class DeviceError(AttnscanError):
    """A device or number format that this machine does not have."""


class MemoryFullError(DeviceError):
    """Inputs, a model, or its libraries that do not fit into memory."""


class WeightsError(AttnscanError):
    """A file of saved weights that is malformed or hostile."""


class EngineError(AttnscanError):
    """Parts of a scan that do not add, or an engine that does not run."""


class StateError(AttnscanError):
    """A state file of other pairs or options, or a damaged one."""


class OutputError(AttnscanError):
    """A result that cannot be written where it should go.

    `place` is the file; the command line adds to the remedy which option named it.
    """

    def __init__(self, what: str, remedy: str = "", place: Path | None = None) -> None:
        super().__init__(what, remedy)
        self.place = place


def check_known(name: str, value: object, choices: Sequence[str]) -> None:
    """Raises: OptionError for an unknown value."""
    if value in choices:
        return
    *others, last = choices
    listed = f"{', '.join(others)} or {last}" if others else last
    raise OptionError(
        f"there is no {name} {value!r}", nearest(str(value), choices, f"give {listed}")
    )


def nearest(name: str, choices: Iterable[str], otherwise: str) -> str:
    """A remedy for an unknown name: the choice that is spelled alike, if there is one.

    >>> nearest("delimeter", ["delimiter", "identical"], "look again")
    "did you mean 'delimiter'?"
    >>> nearest("x", ["delimiter"], "look again")
    'look again'
    """
    near = get_close_matches(name, list(choices), n=1)
    return f"did you mean '{near[0]}'?" if near else otherwise


def out_of_memory(error: BaseException | None) -> bool:
    """Whether memory ran out, by an error or what led to it.

    >>> out_of_memory(RuntimeError("std::bad_alloc")), out_of_memory(RuntimeError("shapes differ"))
    (True, False)
    """
    while error is not None:
        if isinstance(error, MemoryError | MemoryFullError):
            return True
        if any(words in str(error) for words in _OUT_OF_MEMORY):
            return True
        context = None if error.__suppress_context__ else error.__context__
        error = error.__cause__ or context
    return False


_OUT_OF_MEMORY = (
    "std::bad_alloc",
    "annot allocate memory",  # by the system, in either case of its first letter
    "can't allocate memory",  # by torch
    "failed to map segment from shared object",
    "can't start new thread",
    "out of memory",  # by CUDA and MPS
)


@contextmanager
def needs(needing: str, extra: str, error: type[AttnscanError] = OutputError) -> Iterator[None]:
    """Around the import of a package that an extra of attnscan installs.

    `needing` says what needs which package. Raises: `error` if the package is not installed.

    >>> with needs("flying needs antigravity2", "sky"):
    ...     import antigravity2
    Traceback (most recent call last):
    attnscan.errors.OutputError: flying needs antigravity2, which is not installed; run: pip \
install 'attnscan[sky]'
    """
    try:
        yield
    except ImportError as failed:
        if out_of_memory(failed):
            raise
        raise error(
            f"{needing}, which is not installed", f"run: pip install 'attnscan[{extra}]'"
        ) from None

"""What a run tells, one event at a time: how far it is, what the user should know, and in the end its result."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from attnscan.errors import InputError
from attnscan.scan.events import PairScores as PairScores
from attnscan.scan.events import Progress as Progress

if TYPE_CHECKING:
    from attnscan.inputs.sentence import Record
    from attnscan.results.signature import Signature


@dataclass(frozen=True)
class Loading:
    """A model, or saved weights, and the libraries that read them are being loaded; ends with the next event."""

    name: str


@dataclass(frozen=True)
class Note:
    """A line that the user should read."""

    text: str
    warns: bool = False
    """Whether it is about how a file or a checkpoint was read, so that a program is warned of it, too."""


@dataclass(frozen=True)
class Skipped:
    """A record that could not be read and was left out. Each is told once, however often pairs are read."""

    error: InputError


@dataclass(frozen=True)
class Answer:
    """The result of one of several inputs; the next one is begun when this one has been taken."""

    record: Record
    value: Any
    signature: Signature
    """Of all inputs up to this one."""


@dataclass(frozen=True)
class Result:
    """The last event of a run."""

    value: Any


Event = Loading | Progress | Note | Skipped | PairScores | Answer | Result
T = TypeVar("T")
Work = Generator[Event, None, T]
"""Part of a run, which tells events and returns what it found."""

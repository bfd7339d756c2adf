"""How patterns take part in labels. No numpy."""

from dataclasses import dataclass

DELIMITER = "delimiter"  # the pattern whose targets are special tokens
RESTING = (DELIMITER, "first-token")
"""Patterns that are scored over all keys by every reading.

A head with more than half of its attention on one of them rests."""
THRESHOLD = 0.25  # a head whose best pattern is less far above chance than this follows none


@dataclass(frozen=True)
class Scored:
    """A pattern that heads were scored for, and how it takes part in labels."""

    id: str
    part_of: str | None = None  # the wider pattern that this is a part of
    excludes_self: bool = False
    """Whether a head that looks at the word itself alone does not follow it."""

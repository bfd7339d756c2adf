"""What a shell offers where Tab is pressed: patterns, formats, and the models that are here."""

from __future__ import annotations

from collections.abc import Iterable

from attnscan.cli.destination import FORMATS
from attnscan.scoring.patterns import PATTERNS


def patterns(incomplete: str) -> list[str]:
    """The patterns that are being typed."""
    return _starting(incomplete, (pattern.id for pattern in PATTERNS))


def formats(incomplete: str) -> list[str]:
    """The formats that are being typed."""
    return _starting(incomplete, FORMATS)


def models(incomplete: str) -> list[str]:
    """The models that can run now and are being typed, without asking the hub; directories are the shell's own."""
    from attnscan.model.catalog import ready

    return _starting(incomplete, ready())


def heads(incomplete: str) -> list[str]:
    """The ways to name many heads; single ones depend on the model."""
    return _starting(incomplete, ("all", "layer:"))


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]

"""Models opened for a run, and what a run holds while it lasts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from attnscan.run.events import Loading, Note, Progress, Work
from attnscan.run.reading import Ledger
from attnscan.run.requests import InMemory
from attnscan.scan.options import ScanOptions

if TYPE_CHECKING:
    from attnscan.model.sources import Source
    from attnscan.scan.scanner import Scanner


@dataclass
class Running:
    """What a run holds while it lasts."""

    scanner: Scanner | None = None
    """A model that is open already, with the request's options, and stays so."""
    stack: ExitStack = field(default_factory=ExitStack)
    """What is closed at the end."""
    ledger: Ledger = field(default_factory=Ledger)
    interrupted: bool = False


def source_of(name: str | None) -> Work[Source]:
    """The model of a name, before torch is imported: a wrong name is answered at once. Raises: ModelError."""
    from attnscan.model.sources import choose

    yield Progress("looking for a model")
    source = choose(name)
    if source.note:
        yield Note(source.note)
    return source


def opened_all(
    running: Running, choices: Sequence[ScanOptions], memory: Sequence[InMemory | None]
) -> Work[list[Scanner]]:
    """Several models made ready, all found before the first is loaded. Raises: as `opened`."""
    sources: list[Source | None] = []
    for options, held in zip(choices, memory, strict=True):
        sources.append(None if held is not None else (yield from source_of(options.model)))
    scanners: list[Scanner] = []
    for options, held, source in zip(choices, memory, sources, strict=True):
        scanners.append((yield from opened(running, options, held, source)))
    return scanners


def opened(
    running: Running,
    options: ScanOptions,
    memory: InMemory | None = None,
    source: Source | None = None,
) -> Work[Scanner]:
    """A model made ready until the run ends: the one that is open, the one in memory, or the one that options name.

    Raises: ModelError, DeviceError if the model cannot be had on the device.
    """
    if running.scanner is not None:
        return running.scanner
    if memory is None:
        source = source or (yield from source_of(options.model))
        yield Loading(source.name)
    from attnscan.scan.scanner import Scanner

    if memory is None:
        scanner = running.stack.enter_context(Scanner(options, source))
        if scanner.loaded.note:
            yield Note(scanner.loaded.note, warns=True)
        return scanner
    from attnscan.model.in_memory import adopted, renewed
    from attnscan.model.loaded import LoadedModel

    held = memory.model
    if not isinstance(held, LoadedModel):
        held = adopted(held, memory.tokenizer)
    elif held.given is not None:
        held = renewed(held)
    running.stack.enter_context(held.in_use)
    return running.stack.enter_context(Scanner(options, held))

"""Models loaded for later runs, and scans that callers spread over machines of their own: shards, and their end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from attnscan.run.events import Work
from attnscan.run.opening import Running, opened
from attnscan.run.reading import on_bad_of
from attnscan.run.requests import FinishShard, Load, MakeShard

if TYPE_CHECKING:
    from attnscan.model.loaded import LoadedModel
    from attnscan.results.ranking import Ranking
    from attnscan.scan.state import ScanState


def load(request: Load, running: Running) -> Work[LoadedModel]:
    """A model that stays loaded. Raises: as `opened`."""
    scanner = yield from opened(running, request.options, request.memory)
    return scanner.loaded


def make_shard(request: MakeShard, running: Running) -> Work[ScanState]:
    """What some pairs add to a ranking. Raises: InputError for a pair that cannot be read."""
    pairs, ledger = request.pairs.ready(running.ledger), running.ledger
    scanner = yield from opened(running, request.options, request.memory)
    from attnscan.scan.local import scanned

    shard = yield from scanned(scanner, pairs.read(ledger), on_bad_of(pairs, ledger))
    name = None if scanner.loaded.given is not None else scanner.loaded.source.name
    return replace(shard, options=replace(request.options, model=name))


def finish_shard(request: FinishShard, running: Running) -> Work[Ranking]:
    """The ranking of all pairs that a shard is made of, with `predictive` asked of a sample of them.

    Raises: EngineError if the model is not that of the shard.
    """
    scanner = yield from opened(running, request.options, request.memory)
    from attnscan.scan.local import finished
    from attnscan.scan.seen import Seen

    shard, signature = request.shard, scanner.signature(Seen(), fingerprint=True)
    if (own := shard.signature) is not None:
        shard.check(replace(signature, read_by=own.read_by, device=own.device))
    return (yield from finished(scanner, shard))

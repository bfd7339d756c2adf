"""What runs on the machines of a cluster: scoring blocks, and asking for `predictive`. Needs no Ray."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from attnscan.errors import AttnscanError, InputError
from attnscan.inputs.pairs import Place
from attnscan.model.loading import load
from attnscan.model.sources import choose
from attnscan.results.scores import FloatArray
from attnscan.scan.cluster.blocks import Bad, Block, BlockFiles
from attnscan.scan.cluster.pair_directory import handed
from attnscan.scan.cluster.totals import Asked, Found
from attnscan.scan.local import predictive_sums
from attnscan.scan.options import ScanOptions
from attnscan.scan.per_pair import pair_table
from attnscan.scan.scanner import Scanner
from attnscan.scan.seen import Drawn, Seen
from attnscan.scan.shard import Shard

if TYPE_CHECKING:
    import pyarrow as pa

    from attnscan.scan.cluster.lives import Lives


@dataclass(frozen=True)
class Plan:
    """What the workers are told."""

    options: ScanOptions
    source_name: str
    """The model as the user calls it; `options.model` is how every machine finds it."""
    files: BlockFiles
    threads: int
    gpu_share: float = 1.0
    """What each may take of its GPU's memory, where it has one."""
    per_pair: bool = False
    """Whether every pair's own scores are wanted."""
    heads: str | None = None
    """Of which heads; None for all."""
    lives: Lives | None = None
    """Of each worker; None where none runs on Ray."""

    def table(self, places: Sequence[Place], sums: Mapping[str, FloatArray]) -> pa.Table:
        """The rows of some pairs, for the file of all pairs."""
        patterns = [pattern.id for pattern in self.options.patterns]
        return pair_table(places, sums, patterns, ids=self.files.reading.id is not None, heads=self.heads)


class _Holder:
    """An actor that holds the model, loaded with its first task: Ray Data gives up if one dies in its constructor."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @cached_property
    def _scanner(self) -> Scanner | AttnscanError:
        plan = self._plan
        torch.set_num_threads(plan.threads)
        try:
            if plan.lives is not None:
                plan.lives.check()
            if plan.gpu_share < 1 and torch.cuda.is_available():  # no worker takes what another one plans with
                torch.cuda.set_per_process_memory_fraction(plan.gpu_share)
            source = replace(choose(plan.options.model), name=plan.source_name)
            loaded = load(source, plan.options.device, plan.options.dtype)
            return Scanner(plan.options, replace(loaded, gpu_share=plan.gpu_share)).__enter__()
        except AttnscanError as error:  # told by every task, in one line
            return error


class Worker(_Holder):
    """Scores blocks: rows of `block` become what `handed` makes of them."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """One block."""
        tables: list[pa.Table] = []
        block = pickle.loads(batch["block"][0])
        return handed(self.score(block, tables), f"{block.part:06}-{block.number:06}", tables)

    def score(self, block: Block, tables: list[pa.Table]) -> Found:
        """The sums of a block, or the error that it met; each pair's rows go into `tables` if they are wanted."""
        bare, scanner = replace(block, records=()), self._scanner
        if isinstance(scanner, AttnscanError):
            bare = replace(bare, error=block.error or scanner)
        if bare.error is not None or isinstance(scanner, AttnscanError) or not block.records:
            return Found(bare, bad=block.bad)
        bad: list[InputError] = []

        def keep(places: Sequence[Place], sums: Mapping[str, FloatArray]) -> None:
            tables.append(self._plan.table(places, sums))

        on_bad, on_pairs = bad.append if self._plan.files.skip_bad else None, keep if self._plan.per_pair else None
        try:
            shard = Shard.of(scanner, block.records, on_bad, on_pairs)
        except AttnscanError as error:
            tables.clear()
            return Found(replace(bare, error=error))
        return Found(bare, shard, block.bad + Bad.of(bad), sum(map(len, tables)))


class Asker(_Holder):
    """Asks the model for `predictive`: rows of `item` become rows like a `Worker`'s, with `Asked` in `found`."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """One pair of the sample."""
        number, drawn = pickle.loads(batch["item"][0])
        tables: list[pa.Table] = []
        return handed(self.ask(number, drawn, tables), f"predictive-{number:06}", tables)

    def ask(self, number: int, drawn: Drawn, tables: list[pa.Table]) -> Asked:
        """The sums of `predictive` on one pair, or the error that it met."""
        if isinstance(scanner := self._scanner, AttnscanError):
            return Asked(number, error=scanner)

        def keep(places: Sequence[Place], sums: Mapping[str, FloatArray]) -> None:
            tables.append(self._plan.table(places, sums))

        try:
            sums = predictive_sums(scanner, [drawn], on_pairs=keep if self._plan.per_pair else None)
        except AttnscanError as error:
            return Asked(number, error=error)
        signature = scanner.signature(Seen(), fingerprint=True)
        return Asked(number, sums, signature=signature, rows=sum(map(len, tables)))

"""What runs on the machines of a cluster: tokenizing and scoring blocks, and asking for `predictive`. Needs no Ray."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch

from attnscan.errors import AttnscanError, InputError
from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.pairs import Pair
from attnscan.model.loaded import LoadedModel
from attnscan.model.loading import load_to_tokenize
from attnscan.model.sources import Source, at_commit, choose
from attnscan.scan.cluster.blocks import Bad, Block, BlockFiles, row
from attnscan.scan.cluster.pair_directory import handed
from attnscan.scan.cluster.progress import Asked, BlockResult
from attnscan.scan.events import PairScores, Progress, outcome
from attnscan.scan.local import Encode, predictive_sums, read_together, scanned
from attnscan.scan.options import ScanOptions
from attnscan.scan.per_pair import pair_table
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import Drawn, Seen

if TYPE_CHECKING:
    import pyarrow as pa

    from attnscan.scan.cluster.connection import Lives


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
    commit: str | None = None
    """Of the model, which every worker is to load; None if it is none of the hub's."""

    @property
    def source(self) -> Source:
        """The model as this machine has it, or can fetch it. Raises: ModelError if it can do neither."""
        source = choose(self.options.model) if self.commit is None else at_commit(self.source_name, self.commit)
        return replace(source, name=self.source_name)

    def keeping(self, tables: list[pa.Table]) -> Callable[[Progress | PairScores], None]:
        """What keeps the rows of pairs whose scores are told, if they are wanted."""
        patterns, ids = [pattern.id for pattern in self.options.patterns], self.files.reading.id is not None

        def keep(event: Progress | PairScores) -> None:
            if isinstance(event, PairScores) and self.per_pair:
                how: dict[str, Any] = {"ids": ids, "heads": self.heads, "kind": self.options.kind}
                tables.append(pair_table(event.places, event.sums, patterns, **how))

        return keep


class _Holder:
    """An actor that holds the model, loaded with its first task: Ray Data gives up if one dies in its constructor."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def _source(self, threads: int) -> Source:
        """The model to load, in a process with so many threads. Raises: AttnscanError."""
        torch.set_num_threads(threads)
        if (lives := self._plan.lives) is not None:
            os.environ["RAYON_NUM_THREADS"] = str(threads)  # tokenizers would take all cores of the machine
            lives.check()
        return self._plan.source

    @cached_property
    def _scanner(self) -> Scanner | AttnscanError:
        plan = self._plan
        try:
            source = self._source(plan.threads)
            if plan.gpu_share < 1 and torch.cuda.is_available():  # no worker takes what another one plans with
                torch.cuda.set_per_process_memory_fraction(plan.gpu_share)
            scanner = Scanner(plan.options, source)
            scanner.loaded = replace(scanner.loaded, gpu_share=plan.gpu_share)
            return scanner.__enter__()
        except AttnscanError as error:  # told by every task, in one line
            return error


class TokenizingActor(_Holder):
    """Tokenizes blocks ahead of workers, which have GPUs to feed: rows of `block` become such rows, with `inputs`."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return row("block", self.tokenize(pickle.loads(batch["block"][0])))

    def tokenize(self, block: Block) -> Block:
        """A block with its records tokenized; what ends the run is put behind those before it, and met there."""
        if block.error is not None or not block.records:
            return block
        if isinstance(loaded := self._loaded, AttnscanError):
            return replace(block, inputs=(loaded,))
        options, inputs = self._plan.options, list[EncodedInput | AttnscanError]()
        try:
            for records in read_together(block.records):
                pairs = [record.pair for record in records]
                for encoded in loaded.encode_all(pairs, options.unit, truncate=options.on_long == "truncate"):
                    inputs.append(encoded)
        except AttnscanError as error:
            inputs.append(error)
        return replace(block, inputs=tuple(inputs))

    @cached_property
    def _loaded(self) -> LoadedModel | AttnscanError:
        try:
            return load_to_tokenize(self._source(1))
        except AttnscanError as error:
            return error


def _handed(inputs: Sequence[EncodedInput | AttnscanError]) -> Encode:
    """What hands inputs over in place of tokenizing pairs, which come in the same order."""
    rest = iter(inputs)

    def encode(pairs: Sequence[Pair]) -> Iterator[EncodedInput | InputError]:
        for encoded in islice(rest, len(pairs)):
            if isinstance(encoded, AttnscanError) and not isinstance(encoded, InputError):
                raise encoded
            yield encoded

    return encode


class ScoringActor(_Holder):
    """Scores blocks: rows of `block` become what `handed` makes of them."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        tables: list[pa.Table] = []
        block = pickle.loads(batch["block"][0])
        return handed(self.score(block, tables), f"{block.part:06}-{block.number:06}", tables)

    def score(self, block: Block, tables: list[pa.Table]) -> BlockResult:
        """The sums of a block, or the error that it met; each pair's rows go into `tables` if they are wanted."""
        bare, scanner = replace(block, records=(), inputs=None), self._scanner
        if isinstance(scanner, AttnscanError):
            bare = replace(bare, error=block.error or scanner)
        elif scanner.loaded.note:
            bare = replace(bare, notes=(*block.notes, scanner.loaded.note))
        if bare.error is not None or isinstance(scanner, AttnscanError) or not block.records:
            return BlockResult(bare, bad=block.bad)
        bad: list[InputError] = []

        on_bad = bad.append if self._plan.files.skip_bad else None
        encode = None if block.inputs is None else _handed(block.inputs)
        try:
            scan = scanned(scanner, block.records, on_bad, encode, pair_scores=self._plan.per_pair)
            state = outcome(scan, self._plan.keeping(tables))
        except AttnscanError as error:
            tables.clear()
            return BlockResult(replace(bare, error=error))
        return BlockResult(bare, state, block.bad + Bad.of(bad), sum(map(len, tables)))


class AskingActor(_Holder):
    """Asks the model for `predictive`: rows of `item` become rows like a `ScoringActor`'s, with `Asked` in `found`."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        number, drawn = pickle.loads(batch["item"][0])
        tables: list[pa.Table] = []
        return handed(self.ask(number, drawn, tables), f"predictive-{number:06}", tables)

    def ask(self, number: int, drawn: Drawn, tables: list[pa.Table]) -> Asked:
        """The sums of `predictive` on one pair, or the error that it met."""
        if isinstance(scanner := self._scanner, AttnscanError):
            return Asked(number, error=scanner)
        try:
            sums = outcome(predictive_sums(scanner, [drawn]), self._plan.keeping(tables))
        except AttnscanError as error:
            return Asked(number, error=error)
        signature = scanner.signature(Seen(), fingerprint=True)
        return Asked(number, sums, signature=signature, rows=sum(map(len, tables)))

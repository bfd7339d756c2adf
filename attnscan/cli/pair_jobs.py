"""What the commands over many pairs do between parsing and printing: read, run, keep, tell the user what to know."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attnscan.cli.messages import WITHOUT_TAP, counter, progress, say
from attnscan.errors import InputError
from attnscan.scan.options import ClusterOptions, ScanOptions

if TYPE_CHECKING:
    from attnscan.inputs.pairs import Record
    from attnscan.model.sources import Source
    from attnscan.results.explanation import Explanations
    from attnscan.results.ranking import Ranking
    from attnscan.results.signature import Signature
    from attnscan.scan.per_pair import PerPairWriter
    from attnscan.scan.stream import OnBad

_SAVE_EVERY = 5.0  # seconds between two states of a scan


@dataclass(frozen=True)
class PairFiles:
    """Files of pairs, and how to read them; those that come along if none is named."""

    paths: list[str]
    columns: list[str] | None = None
    skip_bad: bool = False

    def records(self, bad: OnBad, *, labelled: bool = False) -> Iterator[Record]:
        """The stream of all pairs; `labelled`, with what a column `label` says."""
        from attnscan.inputs.pairs import read_pairs, shipped_pairs

        if not self.paths:
            return shipped_pairs()
        return read_pairs(self.paths, self.columns, self.on_bad(bad), labelled=labelled)

    def on_bad(self, bad: OnBad) -> OnBad | None:
        """What a bad record is handed to; without it, it stops the run."""
        return bad if self.skip_bad else None

    def how_many(self) -> int | None:
        """About how many pairs there are, if that can be told."""
        from attnscan.inputs.pairs import about_how_many

        return about_how_many(self.paths)


class BadRecords:
    """Counts the records that are skipped, and tells of the first."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, error: InputError) -> None:
        """Take one."""
        self.count += 1
        if self.count <= 3:
            say(f"skipped: {error}")


@dataclass(frozen=True)
class ScanFiles:
    """The files of a scan: what to read, and what to keep."""

    pairs: PairFiles
    state: Path | None
    per_pair: Path | None


def scan_files(options: ScanOptions, files: ScanFiles) -> tuple[Ranking, bool]:
    """Scan all pairs, or those up to Ctrl-C. Returns the ranking, and whether it was interrupted."""
    from attnscan.model.sources import choose

    bad = BadRecords()
    records = files.pairs.records(bad)
    source = choose(options.model)
    say(source.note)
    with _held(files.state):
        return _scan_files(options, source, records, files, bad)


def _scan_files(
    options: ScanOptions, source: Source, records: Iterator[Record], files: ScanFiles, bad: BadRecords
) -> tuple[Ranking, bool]:
    from attnscan.scan.local import ScanState, scan
    from attnscan.scan.scanner import Scanner
    from attnscan.scan.state import load_state, save_state
    from attnscan.scan.stream import unseen

    on_bad = files.pairs.on_bad(bad)
    with Scanner(options, source) as scanner, _per_pair(files.per_pair, options) as writer:
        state, interrupted, saved = ScanState(), False, time.monotonic()
        on_pairs = None if writer is None else writer.write
        try:
            if files.state is not None and files.state.exists():
                state = load_state(files.state, scanner)
            rest = unseen(records, state.seen, options)
            with (
                counter("pairs", files.pairs.how_many) as count,
                closing(scan(scanner, rest, state, on_bad, on_pairs, count)) as states,
            ):
                for after in states:
                    state = after
                    if files.state is not None and time.monotonic() - saved > _SAVE_EVERY:
                        save_state(files.state, state, scanner)
                        saved = time.monotonic()
        except KeyboardInterrupt:
            if state.sums is None:
                raise
            interrupted = True
            how = "the same command goes on from there" if files.state else "--state FILE would keep what is done"
            say(f"interrupted after {state.seen.read} pairs; {how}")
        if files.state is not None and state.sums is not None:
            save_state(files.state, state, scanner)
        with progress("pairs asked for predictive words") as report:
            result = state.finish(scanner, report, on_pairs, predictive=not interrupted)
        if writer is not None:
            writer.finish(result.signature, result.scores.grid)
        if scanner.read_by == "output_attentions":
            say(WITHOUT_TAP)
    report_counts(result.signature, bad.count)
    return result, interrupted


def scan_files_on(cluster: ClusterOptions, options: ScanOptions, files: ScanFiles) -> tuple[Ranking, bool]:
    """Scan all pairs on a cluster. Returns what `scan_files` does; an interrupted scan has no ranking, and raises."""
    from attnscan.scan.cluster.blocks import BlockFiles
    from attnscan.scan.cluster.scan import scan_on_ray

    pairs = files.pairs
    columns = tuple(pairs.columns) if pairs.columns else None
    blocks = BlockFiles(tuple(pairs.paths), columns, pairs.skip_bad, cluster.block_pairs)
    result, bad = scan_on_ray(options, blocks, cluster, per_pair=files.per_pair, say=say)
    for error in bad.first:
        say(f"skipped: {error}")
    if result.signature.read_by == "output_attentions":
        say(WITHOUT_TAP)
    report_counts(result.signature, bad.count)
    return result, False


def explain_pairs(options: ScanOptions, files: PairFiles, *, heads: str, pattern: str | None) -> Explanations:
    """Explain the heads that are named by all pairs."""
    from attnscan.model.sources import choose

    bad = BadRecords()
    records = files.records(bad)
    source = choose(options.model)
    say(source.note)
    from attnscan.results.heads import heads_named
    from attnscan.scan.scanner import Scanner
    from attnscan.studies.explanation import explain

    with Scanner(options, source) as scanner, counter("pairs", files.how_many) as count:
        chosen = heads_named(heads, scanner.grid())
        found = explain(scanner, records, chosen, pattern, files.on_bad(bad), count)
        if scanner.read_by == "output_attentions":
            say(WITHOUT_TAP)
    report_counts(found.signature, bad.count)
    return found


def _held(path: Path | None) -> AbstractContextManager[None]:
    if path is None:
        return nullcontext()
    from attnscan.scan.state import held

    return held(path)


def _per_pair(path: Path | None, options: ScanOptions) -> AbstractContextManager[PerPairWriter | None]:
    if path is None:
        return nullcontext()
    from attnscan.scan.per_pair import PerPairWriter

    return PerPairWriter(path, [pattern.id for pattern in options.patterns])


def report_counts(signature: Signature, bad: int) -> None:
    """Tell of pairs that were cut or left out."""
    if bad:
        say(f"{bad} bad records were skipped")
    if signature.pairs_truncated:
        say(f"{signature.pairs_truncated} of {signature.pairs_read} inputs were cut to what the model reads")
    if signature.pairs_skipped:
        say(f"{signature.pairs_skipped} of {signature.pairs_read} inputs were skipped")

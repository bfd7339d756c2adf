"""Scans of many pairs, as commands run them, here or on a cluster: with a state, a bar, Ctrl-C, and what is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol

import typer

from attnscan.cli.bars import working
from attnscan.cli.messages import say, undisturbed
from attnscan.cli.options import PairFiles
from attnscan.cli.overwrite import check_not_overwritten
from attnscan.cli.session import OnePair, Passes, chosen, opened, tell, tell_unknown
from attnscan.errors import StateError
from attnscan.results.files import check_writable, partial_of
from attnscan.results.stored_file import Saving, StoredFile
from attnscan.results.terms import counted
from attnscan.scan.options import ClusterOptions, ScanOptions
from attnscan.scoring.own_patterns import is_own

if TYPE_CHECKING:
    from attnscan.inputs.pairs import Place, Record
    from attnscan.results.grid import Grid
    from attnscan.results.ranking import Ranking
    from attnscan.results.scores import FloatArray
    from attnscan.results.signature import Signature
    from attnscan.scan.local import ScanState
    from attnscan.scan.scanner import Scanner

_SAVE_EVERY, _SAVE_IN_STORE = 5.0, 60.0  # seconds between two states of a scan


class EachPair(Protocol):
    """What is given each pair's own sums: `PerPairWriter`, or whatever else does the same with them."""

    def hold(self, places: Sequence[Place], sums: Mapping[str, FloatArray], /) -> None:
        """Take some pairs, which do not count before `write_held`."""

    def write_held(self) -> None:
        """Let them count."""

    def write(self, places: Sequence[Place], sums: Mapping[str, FloatArray], /) -> None:
        """Take what was measured of some of them later."""

    def finish(self, signature: Signature, grid: Grid, *, whole: bool = True) -> None:
        """All have come."""


def check_cluster(
    cluster: ClusterOptions | None, files: PairFiles, state: Path | StoredFile | None, patterns: Sequence[str]
) -> None:
    """Raises: typer.BadParameter for what the machines of a cluster cannot read or run; OutputError for its state."""
    if cluster is None:
        return
    if not files.pairs:
        raise typer.BadParameter("--engine ray is for files of pairs: name them with --pairs")
    if "-" in files.paths:
        raise typer.BadParameter("--engine ray cannot read '-': name files that all machines can read")
    if any(map(is_own, patterns)):
        raise typer.BadParameter("--engine ray scores attnscan's own patterns alone: leave out FILE.py:FUNCTION")
    if isinstance(state, Path):
        check_writable(state)


def parts_of(files: PairFiles, *written: Path | None, state: Path | StoredFile | None = None) -> dict[Path, Path]:
    """Where an interrupted scan leaves what it has, for each file that is written of a whole one.

    Raises: OutputError if one of all these cannot be written; typer.BadParameter if it is a file of something else.
    """
    whole = [path for path in written if path is not None]
    parts = {path: part for path in whole if (part := partial_of(path)) != path}
    here = [state] if isinstance(state, Path) else []
    check_not_overwritten(parts.values(), [*files.paths, *here, *whole])
    for path in (*whole, *parts.values(), *here):
        check_writable(path)
    return parts


def say_parts(parts: Mapping[Path, Path]) -> None:
    """Say where what is done is."""
    for path, part in parts.items():
        say(f"what is done is in {part}, and {path} is untouched")


def end_interrupted(parts: Mapping[Path, Path]) -> NoReturn:
    """Say where what is done is, and end as Ctrl-C does."""
    say_parts(parts)
    raise typer.Exit(130)


def ranked_here(
    options: ScanOptions,
    passes: Passes,
    state_file: Path | StoredFile | None = None,
    per_pair: Path | None = None,
    *,
    heads: str | None = None,
    has_state: bool = True,
) -> tuple[Ranking, bool]:
    """The heads ranked over all pairs, or those up to Ctrl-C; and whether that came.

    `per_pair` is of all `heads` or those named. `has_state` says whether the command takes --state, which it is then
    told of.
    """
    records = passes.read()
    source, patterns = chosen(options), [pattern.id for pattern in options.patterns]
    from attnscan.scan.per_pair import PerPairWriter
    from attnscan.scan.state import held

    with (
        held(state_file) if state_file else nullcontext(),
        PerPairWriter(per_pair, patterns, ids=passes.with_ids, heads=heads) if per_pair else nullcontext() as writer,
        opened(options, source) as scanner,
    ):
        hint = "; the same command goes on from there" if state_file else "; --state FILE would keep what is done"
        result, interrupted = scanned(scanner, records, passes, writer, state_file, hint if has_state else "")
    tell(result.signature, bad=passes.bad)
    if isinstance(passes, OnePair):
        tell_unknown(scanner, scanner.encode(passes.pair))
    return result, interrupted


def scanned(
    scanner: Scanner,
    records: Iterator[Record],
    passes: Passes,
    writer: EachPair | None = None,
    state_file: Path | StoredFile | None = None,
    hint: str = "",
) -> tuple[Ranking, bool]:
    """The heads of a model that is loaded, ranked over the records of a pass, or over those up to Ctrl-C."""
    from attnscan.scan.local import ScanState, scan
    from attnscan.scan.state import load_state
    from attnscan.scan.stream import unseen

    state, interrupted, saved = ScanState(), False, time.monotonic()
    on_pairs = None if writer is None else writer.hold
    save = _saver(state_file, scanner)
    try:
        if state_file is not None and state_file.exists():
            state = load_state(state_file, scanner)
        rest = unseen(records, state.seen, scanner.options)
        with (
            working("scoring pairs", passes.how_many) as step,
            closing(scan(scanner, rest, state, passes.on_bad, on_pairs, partial(step, "scoring pairs"))) as states,
        ):
            for after in states:
                with undisturbed():  # so that the file holds the pairs that are counted, and no others
                    if writer is not None:
                        writer.write_held()
                    state = after
                if time.monotonic() - saved > (_SAVE_IN_STORE if isinstance(state_file, StoredFile) else _SAVE_EVERY):
                    save(state, last=False)
                    saved = time.monotonic()
    except KeyboardInterrupt:
        if state.sums.any is None:
            raise
        interrupted = True
        say(f"interrupted after {counted(state.seen.read, 'pair')}{hint}")
    if state.sums.any is not None:
        save(state, last=True)
    with working("ranking heads") as step:
        on_asked, report = None if writer is None else writer.write, partial(step, "pairs asked for predictive words")
        result = state.finish(scanner, report, on_asked, predictive=not interrupted)
    if writer is not None:
        writer.finish(result.signature, result.scores.grid, whole=not interrupted)
    return result, interrupted


def _saver(place: Path | StoredFile | None, scanner: Scanner) -> Callable[..., object]:
    """What keeps a state, if that is wanted; `last` says that none follows. A store that fails ends no scan."""
    from attnscan.scan.state import save_state

    saving = Saving(say)

    def save(state: ScanState, *, last: bool) -> None:
        if isinstance(place, StoredFile):
            saving(partial(save_state, place, state, scanner), last=last)
        elif place is not None:
            save_state(place, state, scanner)

    return save


def ranked_on(
    cluster: ClusterOptions,
    files: PairFiles,
    options: ScanOptions,
    per_pair: Path | None = None,
    state_file: Path | StoredFile | None = None,
    *,
    heads: str | None = None,
) -> Ranking:
    """The heads ranked over all pairs on a cluster; an interrupted scan has no ranking, and raises."""
    from attnscan.scan.cluster.blocks import BlockFiles
    from attnscan.scan.cluster.scan import scan_on_ray
    from attnscan.scan.state import held

    blocks = BlockFiles(tuple(files.paths), files.reading(), files.skip_bad, cluster.block_pairs)
    with held(state_file) if state_file else nullcontext(), working("scoring pairs on the Ray cluster"):
        try:
            result, bad = scan_on_ray(
                options, blocks, cluster, per_pair=per_pair, heads=heads, state=state_file, say=say
            )
        except KeyboardInterrupt:
            with suppress(StateError):
                if state_file is not None and state_file.exists():
                    say(f"interrupted; the same command goes on from {state_file}")
            raise
    for error in bad.first:
        say(f"skipped: {error}")
    tell(result.signature, bad=bad.count)
    return result

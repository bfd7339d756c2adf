"""The command `attnscan heads`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnscan.cli.apart import FileRole, check_apart
from attnscan.cli.messages import counter, progress, say, undisturbed
from attnscan.cli.options import (
    ClusterChoices,
    PairFiles,
    Patterns,
    ScanChoices,
    Where,
    Without,
    WithoutDelimiters,
    flattened,
)
from attnscan.cli.session import Passes, chosen, opened, tell
from attnscan.errors import PairsError
from attnscan.model.surroundings import check_address_space
from attnscan.results.files import check_writable, partial_of
from attnscan.scan.options import ClusterOptions, ScanOptions
from attnscan.scoring.patterns import PATTERNS

if TYPE_CHECKING:
    from attnscan.inputs.pairs import Record
    from attnscan.results.ranking import Ranking
    from attnscan.scan.per_pair import PerPairWriter
    from attnscan.scan.scanner import Scanner

EXAMPLES = (
    "attnscan heads --pattern delimiter --top 5",
    "attnscan heads --pattern next-word --csv > heads.csv",
)
_SAVE_EVERY = 5.0  # seconds between two states of a scan


@flattened
def heads(
    *,
    pattern: Patterns = None,
    files: PairFiles,
    top: Annotated[
        int | None, typer.Option("--top", metavar="N", min=1, help="How many heads of each pattern. [default: 10 or 5]")
    ] = None,
    without_delimiters: WithoutDelimiters = False,
    split: Annotated[
        bool, typer.Option("--split", help="Rank heads by one half of the pairs, score them by the other.")
    ] = False,
    scan: Annotated[ScanChoices, Without("truncate")],
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="FILE", help="Keep the sums here, and go on from them."),
        FileRole.WRITTEN,
    ] = None,
    per_pair: Annotated[
        Path | None,
        typer.Option("--per-pair", metavar="FILE.parquet", help="Write every pair's scores; on Ray, a directory."),
        FileRole.WRITTEN,
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE.parquet", help="Rank by what --per-pair wrote."),
        FileRole.READ,
    ] = None,
    on: ClusterChoices,
    where: Where,
) -> None:
    if from_file is not None and (files.pairs or scan.model or state or per_pair):
        raise typer.BadParameter("--from needs no pairs and no model, and has nothing to keep")
    if per_pair is not None and state is not None:
        raise typer.BadParameter("--per-pair is written whole, and so cannot go on from a --state")
    if from_file is not None and split:
        raise typer.BadParameter("--split draws pairs by their text, which --per-pair does not keep: name the pairs")
    cluster = on.options()
    if cluster is not None and (from_file is not None or not files.pairs):
        raise typer.BadParameter("--engine ray is for files of pairs: name them with --pairs")
    if cluster is not None and "-" in files.paths:
        raise typer.BadParameter("--engine ray cannot read '-': name files that all machines can read")
    if cluster is not None and state is not None:
        raise typer.BadParameter("--engine ray goes on by itself when a machine dies: leave out --state")
    parts = _parts(per_pair, where.output) if cluster is None and from_file is None else {}
    check_apart(parts.values(), [*files.paths, state, per_pair, where.output])
    destination = where.destination()
    asked = tuple(known for known in PATTERNS if not pattern or known.id in pattern)
    options = scan.options(on_long=files.on_long, patterns=asked, split=split)
    for path in (state, per_pair if cluster is None else None, *parts.values()):
        if path is not None:
            check_writable(path)
    interrupted = False
    if from_file is not None:
        check_address_space(with_model=False)
        from attnscan.scan.per_pair import rank_file

        result = rank_file(from_file, pattern or ())
        if scan.norm and not result.signature.norm:
            raise PairsError(f"{from_file} is of weights, not of what heads carry", "run heads --norm --per-pair again")
    elif cluster is not None:
        result = _ranked_on(cluster, files, options, per_pair)
    else:
        result, interrupted = _ranked(files, options, state, per_pair)
    names = pattern or result.scores.patterns
    _warn_of_few(result, names)
    shown = top or (10 if pattern else 5)
    from attnscan.views.terminal.ranking import ranking_view

    (destination.for_part() if interrupted else destination).emit(
        lambda: result.to_frame(names, top, without_delimiters=without_delimiters),
        lambda width: ranking_view(result, names, shown, width, without_delimiters),
    )
    if interrupted:
        for path, part in parts.items():
            say(f"what is done is in {part}, and {path} is untouched")
        raise typer.Exit(130)


def _parts(*written: Path | None) -> dict[Path, Path]:
    """Where an interrupted scan leaves what it has, for each file of a whole one. Raises: OutputError."""
    return {path: part for path in written if path is not None and (part := partial_of(path)) != path}


def _warn_of_few(result: Ranking, names: Sequence[str]) -> None:
    """Tell that `predictive` was asked of too few pairs for its best head to be told from the next."""
    if "predictive" not in names:
        return
    asked = int(result.scores.every_key.pairs[..., result.scores.patterns.index("predictive")].max())
    if asked == 1:
        say("one pair asked for predictive words does not tell heads apart (--predictive-pairs)")
    elif close := result.close_to_best("predictive"):
        needed = result.pairs_to_tell("predictive")
        remedy = "" if needed is None else f": about {needed:,} would tell it from the next (--predictive-pairs)"
        say(f"{asked} pairs asked for predictive words do not tell its best head from {len(close)} others{remedy}")


def _ranked(
    files: PairFiles, options: ScanOptions, state_file: Path | None, per_pair: Path | None
) -> tuple[Ranking, bool]:
    """The heads ranked over all pairs, or those up to Ctrl-C; and whether that came."""
    passes = Passes(files)
    records = passes.read()
    source, ids = chosen(options), [pattern.id for pattern in options.patterns]
    from attnscan.scan.per_pair import PerPairWriter
    from attnscan.scan.state import held

    with (
        held(state_file) if state_file else nullcontext(),
        PerPairWriter(per_pair, ids) if per_pair else nullcontext() as writer,
        opened(options, source) as scanner,
    ):
        result, interrupted = _scanned(scanner, records, passes, state_file, writer)
    tell(result.signature, bad=passes.bad)
    return result, interrupted


def _scanned(
    scanner: Scanner, records: Iterator[Record], passes: Passes, state_file: Path | None, writer: PerPairWriter | None
) -> tuple[Ranking, bool]:
    from attnscan.scan.local import ScanState, scan
    from attnscan.scan.state import load_state, save_state
    from attnscan.scan.stream import unseen

    state, interrupted, saved = ScanState(), False, time.monotonic()
    on_pairs = None if writer is None else writer.hold
    try:
        if state_file is not None and state_file.exists():
            state = load_state(state_file, scanner)
        rest = unseen(records, state.seen, scanner.options)
        with (
            counter("pairs", passes.how_many) as count,
            closing(scan(scanner, rest, state, passes.on_bad, on_pairs, count)) as states,
        ):
            for after in states:
                with undisturbed():  # so that the file holds the pairs that are counted, and no others
                    if writer is not None:
                        writer.write_held()
                    state = after
                if state_file is not None and time.monotonic() - saved > _SAVE_EVERY:
                    save_state(state_file, state, scanner)
                    saved = time.monotonic()
    except KeyboardInterrupt:
        if state.sums.any is None:
            raise
        interrupted = True
        how = "the same command goes on from there" if state_file else "--state FILE would keep what is done"
        say(f"interrupted after {state.seen.read} pairs; {how}")
    if state_file is not None and state.sums.any is not None:
        save_state(state_file, state, scanner)
    with progress("pairs asked for predictive words") as report:
        on_asked = None if writer is None else writer.write
        result = state.finish(scanner, report, on_asked, predictive=not interrupted)
    if writer is not None:
        writer.finish(result.signature, result.scores.grid, whole=not interrupted)
    return result, interrupted


def _ranked_on(cluster: ClusterOptions, files: PairFiles, options: ScanOptions, per_pair: Path | None) -> Ranking:
    """The heads ranked over all pairs on a cluster; an interrupted scan has no ranking, and raises."""
    from attnscan.scan.cluster.blocks import BlockFiles
    from attnscan.scan.cluster.scan import scan_on_ray

    columns = None if files.sentence_columns is None else tuple(files.sentence_columns)
    blocks = BlockFiles(tuple(files.paths), columns, files.skip_bad, cluster.block_pairs)
    result, bad = scan_on_ray(options, blocks, cluster, per_pair=per_pair, say=say)
    for error in bad.first:
        say(f"skipped: {error}")
    tell(result.signature, bad=bad.count)
    return result

"""Many machines: the scan of local.py as a Ray Data pipeline. Needs `attnscan[ray]`.

    parts of files -> tasks that read them, block by block -> actors that hold the model -> sums, added on the driver

Where actors have GPUs, others tokenize ahead of them. With `--per-pair`, tasks write each pair's scores. A block
(blocks.py) is the same however often it is read: a worker that dies is replaced by Ray and its work done again, the
driver adds a block once, in order, and says if one is missing at the end. Then actors ask for `predictive` on the
sample. Sums are the same to the last bit in every run, also of a driver that goes on from a file (progress.py).
Does not handle: standard input.
"""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnscan.errors import AttnscanError, EngineError, PairsError
from attnscan.inputs.places.files import files_named
from attnscan.model.sources import Source, choose, pinned
from attnscan.results.ranking import Ranking
from attnscan.results.stored_file import StoredFile
from attnscan.results.syntax import Syntax
from attnscan.scan import events
from attnscan.scan.cluster.blocks import Bad, BlockFiles, FilePart
from attnscan.scan.cluster.connection import Lives, Share, connected, shared
from attnscan.scan.cluster.pair_directory import PairDirectory, pieces_of_file, write_rows
from attnscan.scan.cluster.progress import (
    Asked,
    BlockResult,
    ClusterProgress,
    Totals,
    about_scan,
    kept,
    load_progress,
)
from attnscan.scan.cluster.worker import AskingActor, Plan, ScoringActor, TokenizingActor
from attnscan.scan.options import ClusterOptions, ScanOptions
from attnscan.scan.state import Drawn, ScanState

# Of a worker: what has ended that many will end the next one. A task's tries are no such bound: while Ray finds out
# that an actor has died, the tasks it had are tried again and again, and several tries go with one death.
_LIVES = 10
_RUNS = events.Progress("scoring pairs on the Ray cluster")


def scan_on_ray(
    options: ScanOptions,
    files: BlockFiles,
    cluster: ClusterOptions,
    *,
    per_pair: Path | None = None,
    heads: str | None = None,
    state: Path | StoredFile | None = None,
    say: Callable[[str], None] = lambda _: None,
    note: Callable[[str], None] | None = None,
) -> events.Steps[tuple[Ranking | Syntax, Bad]]:
    """Rank every head by the pairs of files that all machines can read, or hold it against their sentences' trees.

    Returns what was skipped as bad, too.

    `files` are named, globbed or in directories. With `per_pair`, every pair's own scores, of all `heads` or those
    named, are written into that new directory. `state` is a file that keeps the sums, and that is gone on from if it is
    there. `note` is told how files are read; without it, `say`.
    Raises: AttnscanError, whichever a worker met first.
    """
    yield _RUNS
    files = replace(files, paths=tuple(files_named(files.paths, pipes=False)))
    if files.alignments is not None and len(files.paths) > 1:
        raise PairsError(
            f"{files.alignments} links the words of one file of pairs, and there are {len(files.paths)}",
            "give one file of pairs, and a line of links for each of its pairs",
        )
    source = choose(options.model)
    say(source.note)
    about = {} if state is None else about_scan(options, files)
    begun = state is not None and state.exists()
    totals = Totals(load_progress(state, options, about) if state and begun else ClusterProgress(ScanState(options)))
    before, commit = totals.state.seen.read, _commit(source, totals)
    rows: AbstractContextManager[PairDirectory | None] = nullcontext() if per_pair is None else PairDirectory(per_pair)
    with rows as directory, connected(cluster), Lives(_LIVES) as lives, _settled(), _explained():
        if not begun:
            totals.progress = replace(totals.progress, cuts=files.cuts())
        parts = files.parts(totals.progress.cuts, totals.start)
        share = shared(options, cluster, say)
        plan = Plan(
            replace(options, model=_everywhere(source), device=share.device),
            source.name,
            replace(files, paths=()),
            cluster.worker_cpus,
            share.gpus or 1.0,
            per_pair is not None,
            heads,
            lives,
            commit,
        )
        with (
            _told(say, share, "pairs", lambda: totals.state.seen.read - before),
            kept(state, about, totals, say) as keep,
        ):
            for result in _scored(plan, parts, share, directory):
                for told in set(result.block.notes) - totals.notes:
                    totals.notes.add(told)
                    (note or say)(told)
                totals.add(result)
                keep(totals.progress)
                yield _RUNS
        totals.check(len(files.parts(totals.progress.cuts)))
        if totals.state.asks:
            sample = totals.state.seen.sample
            askers = replace(share, workers=min(share.workers, len(sample)), most=min(share.most, len(sample)))
            with _told(say, askers, "pairs asked for predictive words", lambda: len(sample)):
                for asked in _asked(plan, askers, sample, directory):
                    totals.add_answer(asked)
                    yield _RUNS
        made = totals.result()
        if directory is not None and isinstance(made, Ranking):
            directory.finish(made, totals.rows)
    return made, totals.progress.bad


def _scored(
    plan: Plan, parts: Sequence[FilePart], share: Share, directory: PairDirectory | None
) -> Iterator[BlockResult]:
    """What is found in all blocks of some parts, as it is."""
    import ray.data

    items, count = list(map(pickle.dumps, parts)), len(parts)
    # Readers take no share of the CPUs: the workers may hold them all, and would wait for readers that wait for them
    blocks = ray.data.from_items(items, override_num_blocks=count).map_batches(
        plan.files.rows, batch_size=1, num_cpus=0, compute=ray.data.TaskPoolStrategy(size=min(share.most, count))
    )
    if share.tokenizers:
        # Ray sizes this by what it measures: more while all are busy and blocks wait, and fewer while some are idle
        blocks = blocks.map_batches(
            TokenizingActor,
            fn_constructor_args=(plan,),
            batch_size=1,
            compute=_actors(1, share.tokenizers),
            num_cpus=1,
        )
    return _worked(blocks, ScoringActor, plan, share, directory)


def _actors(least: int, most: int) -> Any:
    """So many, each with a second task at hand while it does one."""
    import ray.data

    return ray.data.ActorPoolStrategy(min_size=least, max_size=most, max_tasks_in_flight_per_actor=2)


def _asked(plan: Plan, share: Share, sample: tuple[Drawn, ...], directory: PairDirectory | None) -> Iterator[Asked]:
    """What the model says of each pair of the sample, as it does."""
    import ray.data

    items = [pickle.dumps(numbered) for numbered in enumerate(sample)]
    return _worked(ray.data.from_items(items, override_num_blocks=len(items)), AskingActor, plan, share, directory)


def _worked(data: Any, actor: type, plan: Plan, share: Share, directory: PairDirectory | None) -> Iterator[Any]:
    """What actors make of rows, and after what goes into the directory was written there.

    Raises: OutputError if it could not be.
    """
    import ray.data

    results = data.map_batches(
        actor,
        fn_constructor_args=(plan,),
        batch_size=1,
        compute=_actors(share.workers, share.most),
        num_cpus=share.cpus,
        num_gpus=share.gpus,
    )
    if directory is not None:
        results = results.map_batches(
            write_rows,
            fn_args=(str(directory.beside),),
            batch_size=pieces_of_file(ray.cluster_resources().get("object_store_memory", 0)),
            num_cpus=0,
            compute=ray.data.TaskPoolStrategy(size=share.most),
        )
    for row in results.iter_rows():
        if directory is not None and row["part"]:
            directory.parts.add(row["part"])
        if row["found"]:
            what = pickle.loads(row["found"])
            if isinstance(what, AttnscanError):
                raise what
            yield what


@contextmanager
def _settled() -> Iterator[None]:
    """Ray Data's settings for our pipelines; a caller's are put back."""
    import ray.data

    context = ray.data.DataContext.get_current()
    before = context.enable_progress_bars, context.target_max_block_size, context.execution_options.preserve_order
    context.enable_progress_bars = sys.stderr.isatty()
    context.target_max_block_size = 1  # byte: what is read goes on to the workers at once, not when 128 MiB are full
    context.execution_options.preserve_order = True  # so that what comes too soon waits in Ray's store, not here
    try:
        yield
    finally:
        context.enable_progress_bars, context.target_max_block_size, context.execution_options.preserve_order = before


@contextmanager
def _explained() -> Iterator[None]:
    """Raises: EngineError if the cluster fails."""
    from ray import exceptions

    try:
        yield
    except exceptions.RayTaskError:  # an exception in code of ours: a bug, with its traceback
        raise
    except exceptions.RayError as error:
        raise EngineError(
            f"the cluster failed: {' '.join(str(error).split())[:200]}", "run it again; `ray logs` says more"
        ) from None


@contextmanager
def _told(say: Callable[[str], None], share: Share, what: str, count: Callable[[], int]) -> Iterator[None]:
    """Tell how many of what were done, and how fast, when they are."""
    started = time.monotonic()
    yield
    took, done = time.monotonic() - started, count()
    say(f"{done:,} {what} in {took:,.1f} s, {done / max(took, 1e-3):,.1f} a second, by {share.told} workers")


def _commit(source: Source, totals: Totals) -> str | None:
    """The commit of a model of the hub that all workers are to load: the one that a state was begun with, if any.

    Raises: ModelError if the hub does not say which.
    """
    begun = totals.state.signature
    if begun is not None and begun.model == source.name and begun.revision is not None:
        return begun.revision
    return pinned(source).revision


def _everywhere(source: Source) -> str:
    """A model's name as every machine of the cluster finds it: directories whole, others as they are."""
    path = Path(source.name).expanduser()
    return str(path.absolute()) if path.is_dir() else source.name

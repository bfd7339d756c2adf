"""What `import attnscan` offers for many pairs: heads ranked, labelled and described in full, here or in shards."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from attnscan.api.arguments import (
    NAMED,
    File,
    LibraryCall,
    Pairs,
    PairsInput,
    Patterns,
    file_to_write,
    split_kinds,
)
from attnscan.api.one_input import Weights, classify
from attnscan.errors import OptionError, StateError
from attnscan.inputs.sentence import Text
from attnscan.model.sources import Device, Dtype
from attnscan.results.files import ResultsByKind, is_stream
from attnscan.results.grid import Heads
from attnscan.results.heads import HeadScores, Profile
from attnscan.scan.options import OnProgress, note
from attnscan.text import counted
from attnscan.views.notebook import heads_html

if TYPE_CHECKING:
    from attnscan.model.loading import LoadedModel
    from attnscan.scan.scanner import OnPairs, Scanner
    from attnscan.scan.state import ScanState

_SAVE_EVERY = 5.0  # seconds between two states of a scan
_SOON, _LONG = (
    5.0,
    60.0,
)  # seconds after which a run's length is known, and from which it is announced


@overload
def heads(
    pairs: Pairs = None, *, attention: Literal["all"], **options: Any
) -> ResultsByKind[HeadScores]: ...
@overload
def heads(pairs: Pairs = None, **options: Any) -> HeadScores: ...
def heads(
    pairs: Pairs = None,
    *,
    pattern: Patterns = (),
    id: str | int | None = None,
    held: Pairs = None,
    state: File | None = None,
    per_pair: File | None = None,
    model: Any = None,
    tokenizer: Any = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> HeadScores | ResultsByKind[HeadScores]:
    """Every head's scores over many sentences or pairs of them, read one by one. `to_frame()` has a row a head.

    `label` says what each head does. For some chosen patterns there are no labels, and `to_frame()` ranks heads for
    each. `id` is a column that tells pairs apart; `state` a file that keeps the sums, and that the same call goes on
    from; `per_pair` one for every pair's scores. With `attention="all"`, the result maps kinds to `HeadScores`.

    `held` is a second corpus: the result's own `held` says what every head does there, and `to_frame()` has the columns
    `held_label` and `held_share`.

    Raises: as `classify`; PairsError, StateError, OutputError for files; EngineError for `engine="ray"`.
    """
    options |= {"model": model, "tokenizer": tokenizer, "progress": progress}
    kinds = split_kinds(options)
    if pattern and "threshold" in options:
        raise OptionError(
            "--threshold is for labels, which need all patterns", "leave out --pattern"
        )
    if held is not None and (pattern or len(kinds) > 1 or per_pair is not None):
        raise OptionError(
            "--held compares labels of one kind of attention",
            "leave out --pattern and --per-pair, and choose one --attention",
        )
    if len(kinds) == 1:
        call = LibraryCall(
            "heads", options, pairs=pairs, pattern=pattern, reading={"id": id}, held=held
        ).of_patterns()
        return rank_pairs(call, state_file(state), file_to_write(per_pair))
    if state is not None or per_pair is not None:
        raise OptionError(
            "--state and --per-pair are of one kind of attention", "choose one: --attention cross"
        )
    results: dict[Any, HeadScores] = {}
    all_pairs = LibraryCall("heads", kinds[0], pairs=pairs).pairs.ready(len(kinds))
    sources = replace(
        all_pairs,
        begin=lambda skip: (
            replace(record, pair=record.pair.source) for record in all_pairs.begin(skip)
        ),
    )
    for kind_options in kinds:
        kind = kind_options["attention"]
        results[kind] = heads(
            sources if kind == "encoder" else all_pairs, pattern=pattern, **kind_options
        )
    return ResultsByKind(results)


def rank_pairs(
    call: LibraryCall, state: Path | None = None, per_pair: Path | None = None
) -> HeadScores:
    """Rank every head over all pairs. Raises: as `heads`."""
    if per_pair is None:
        with call.open_model() as scanner:
            return rank_pairs_with(scanner, call, state)
    if state is not None or call.options.engine == "ray":
        raise OptionError(
            "--per-pair is of a run on one machine from its start",
            "leave out --state and --engine ray",
        )
    from attnscan.scan.per_pair import PerPairWriter, pair_frame

    with PerPairWriter(per_pair) as writer, call.open_model() as scanner:

        def take(places: Any, sums: Any) -> None:
            writer.write(
                pair_frame(
                    places, sums, scanner.options, scanner.grid().layers, ids=call.pairs.has_ids
                )
            )

        result = rank_pairs_with(scanner, call, take=take)
        writer.finish(result.signature, result.scores.patterns, scanner.grid())
        return result


def rank_pairs_with(
    scanner: Scanner, call: LibraryCall, state: Path | None = None, take: OnPairs | None = None
) -> HeadScores:
    """Rank every head of an open model over all pairs; `take` receives the sums of each pair."""
    from attnscan.scan.pair_scan import finish_scan

    result = finish_scan(scanner, run_scan(scanner, call.pairs, state, take), on_pairs=take)
    call.note(scanner, result.signature)
    if call.held is None:
        return replace(result, html=heads_html)
    doing = "scoring the pairs that are held against these"
    held = finish_scan(scanner, run_scan(scanner, call.held, doing=doing))
    return replace(result, held=held, html=heads_html)


def _announcing(scanner: Scanner, start: int, total: int) -> OnProgress:
    """Report a scan's progress, and note once, some seconds after its `start`, how long it takes if that is minutes."""
    tell, began, is_announced = scanner.progress, time.monotonic(), False

    def step(doing: str, done: int | None, of: int | None) -> None:
        nonlocal is_announced
        tell(doing, done, of)
        seconds, read_so_far = time.monotonic() - began, (done or 0) - start
        if is_announced or not total or read_so_far <= 0 or seconds < _SOON:
            return
        is_announced, scoring = True, seconds * (total - start) / read_so_far
        asking = (
            1 if scanner.measure is None else 3
        )  # which words are predictive takes up to twice as long
        if asking * scoring >= _LONG:
            shorter = f"; with predictive off about {scoring / 60:.0f}" if asking > 1 else ""
            note(
                f"this takes about {counted(round(asking * scoring / 60), 'minute')} on this machine{shorter}"
            )

    return step


def run_scan(
    scanner: Scanner,
    pairs: PairsInput,
    path: Path | None = None,
    take: OnPairs | None = None,
    *,
    doing: str = "scoring pairs",
    total: int | None = None,
) -> ScanState:
    """Score all pairs and return the state; a file resumes a scan, and keeps the state of an interrupted one.

    `total` is how many pairs there are, if that is known.
    Raises: as `heads`.
    """
    from attnscan.scan.pair_scan import scan, skip_seen
    from attnscan.scan.state import ScanState, load_state, save_state

    if path is not None:
        _ = (
            scanner.loaded.fingerprint
        )  # before the model runs, while nothing of ours hangs on its modules
    reached = saved = (
        load_state(path, scanner)
        if path is not None and path.exists()
        else ScanState(scanner.options)
    )
    total = total or pairs.how_many()
    scanner = replace(scanner, progress=_announcing(scanner, reached.seen.read, total or 0))
    scanner.tell(doing, reached.seen.read, total)
    saved_at = time.monotonic()

    def keep(now: ScanState, interval: float = _SAVE_EVERY) -> None:
        nonlocal reached, saved, saved_at
        reached = now
        if (
            path is not None
            and now is not saved
            and now.sums
            and time.monotonic() - saved_at > interval
        ):
            save_state(path, now, scanner)
            saved, saved_at = now, time.monotonic()

    arguments: dict[str, Any] = {
        "on_count": partial(scanner.tell, doing, total=total),
        "keep": keep,
    }
    try:
        unseen = skip_seen(pairs.read(), reached.seen)
        if scanner.options.engine == "ray":
            from attnscan.scan import ray

            reached = ray.scan(scanner, unseen, reached, pairs.skips, **arguments)
        else:
            reached = scan(scanner, unseen, reached, pairs.skips, on_pairs=take, **arguments)
    finally:
        keep(reached, interval=-1)
    return reached


def state_file(state: File | None) -> Path | None:
    """A state file. Raises: OutputError if it cannot be written."""
    path = file_to_write(state)
    if path is not None and is_stream(path):
        raise StateError(
            f"{path} is not a regular file, and so cannot hold a state", "name another --state file"
        )
    return path


def profile(
    a: Text | None = None,
    b: Text | None = None,
    *,
    heads: Heads | None = None,
    pairs: Pairs = None,
    weights: Weights | None = None,
    pattern: Patterns = (),
    state: File | None = None,
    model: Any = None,
    tokenizer: Any = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> Profile:
    """Where every head's attention goes, on one input, by saved `weights` or over many pairs: `to_frame()` has a row
    for each class of keys of each head.

    A word's attention is divided without remainder over classes, such as the next word or punctuation. A `pattern` of
    your own stands beside them. `heads` are those that will be looked up, and have to be there.

    Raises: as `heads`.
    """
    options |= {"model": model, "tokenizer": tokenizer, "progress": progress}
    if state is not None and (a is not None or weights is not None):
        raise OptionError("--state is for many pairs", "leave it out")
    if weights is not None:
        weights_options: dict[str, Any] = {
            "pattern": pattern,
            "keep_attention": False,
            "predictive": "off",
            **options,
        }
        result: HeadScores = classify(a, b, pairs=pairs, weights=weights, **weights_options)
        return result.profile
    call = LibraryCall(
        "profile",
        options,
        a,
        b,
        pairs,
        heads=heads,
        pattern=pattern,
        labelled=True,
        predictive="off",
    )
    return rank_pairs(call, state_file(state)).profile


def load(
    model: Any = None,
    *,
    tokenizer: Any = None,
    device: Device = "auto",
    dtype: Dtype = "auto",
    source_language: str | None = None,
    target_language: str | None = None,
) -> LoadedModel:
    """A model to be given as `model` to any number of calls, each with options of its own, and loaded only now.

    Threads may share it: their calls run one after another.

    Raises: as `classify`.
    """
    options = {
        "device": device,
        "dtype": dtype,
        "source_language": source_language,
        "target_language": target_language,
    }
    with LibraryCall(
        "load", {"model": model, "tokenizer": tokenizer, **options}
    ).open_model() as scanner:
        return scanner.loaded


def shard(
    pairs: Pairs,
    *,
    pattern: Patterns = (),
    model: Any = None,
    tokenizer: Any = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> ScanState:
    """What some sentences or pairs of them add to a ranking: shards add with `+` or `sum`, and `finish` ranks.

    Whatever the pairs are split into, in whatever order they are added, the result is that of `heads` over all of them,
    which has the same options. Its size does not grow with the pairs. It can be pickled; what is unpickled runs code:
    take pickles from your own machines alone.

    Raises: as `heads`; EngineError when shards of different models, options or versions are added.
    """
    options |= {"model": model, "tokenizer": tokenizer, "progress": progress}
    call = LibraryCall("shard", options, pairs=pairs, pattern=pattern).of_patterns()
    with call.open_model() as scanner:
        from attnscan.scan.pair_scan import scan

        added = scan(scanner, call.pairs.read(), None, call.pairs.skips)
        name = None if scanner.loaded.original is not None else scanner.loaded.source.name
        return replace(added, options=replace(scanner.options, model=name))


def finish(shard: ScanState, *, model: Any = None, tokenizer: Any = None) -> HeadScores:
    """The ranking of all pairs that the shard is made of, as `heads` gives it.

    If `predictive` was not "off", a sample of all pairs is asked for it now, by `model`, which is the shard's own.

    Raises: as `classify`; InputError if no pair was scored; EngineError if the model is another one.
    """
    from attnscan.scan.state import ScanState

    if not isinstance(shard, ScanState):
        raise OptionError(
            f"shard is of the class {type(shard).__name__}",
            "give a ScanState, as shard() returns it",
        )
    if not shard.lacks_predictive:
        return replace(shard.ranking(), html=heads_html)
    model = shard.options.model if model is None else model
    if model is None:
        raise OptionError(
            "the shard is of a model that was in memory",
            "give it again, as model, with its tokenizer",
        )
    call = LibraryCall("shard", {"model": model, "tokenizer": tokenizer})
    run: dict[str, Any] = {} if isinstance(model, NAMED) else {"device": "auto", "dtype": "auto"}
    call.options = replace(shard.options, model=call.options.model, **run)
    with call.open_model() as scanner:
        from attnscan.scan.pair_scan import finish_scan

        signature = scanner.signature(fingerprint=True)
        if (shard_signature := shard.signature) is not None:
            shard.check(
                replace(signature, read_by=shard_signature.read_by, device=shard_signature.device)
            )
        return replace(finish_scan(scanner, shard), html=heads_html)

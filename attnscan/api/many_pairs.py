"""What `import attnscan` offers for many pairs: heads ranked, labelled and described in full, here or in shards."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from attnscan.api.arguments import (
    KINDS,
    Patterns,
    is_name,
    note_words,
    of_kind,
    opened,
    reading_of,
    scan_options,
)
from attnscan.api.one_input import Weights, classify
from attnscan.api.pairs import Links, OnBad, Pairs, PairsInput, input_of, pairs_input
from attnscan.errors import InputError, OptionError, StateError
from attnscan.inputs.option import check_known
from attnscan.inputs.sentence import Record, Text
from attnscan.model.sources import Device, Dtype
from attnscan.results.files import check_writable, is_stream, local_path
from attnscan.results.grid import Heads, heads_written
from attnscan.results.heads import HeadScores, OfKinds
from attnscan.results.profile import Profile
from attnscan.scan.options import OnProgress, Relations, ScanOptions, note, note_inputs
from attnscan.views.notebook import heads_html

if TYPE_CHECKING:
    import pandas as pd

    from attnscan.model.in_memory import Model, Tokenizer
    from attnscan.model.loaded import LoadedModel
    from attnscan.scan.scanner import OnPairs, Scanner
    from attnscan.scan.state import ScanState

OnFrame = Callable[["pd.DataFrame"], object]
File = str | os.PathLike[str]
_LOOKED_AT = 16  # pairs, for how their words are read
_SAVE_EVERY = 5.0  # seconds between two states of a scan
_SOON, _LONG = 5.0, 60.0  # seconds after which a run's length is known, and from which it is told
_ONE_KIND = "name encoder, decoder or cross as --attention"


@overload
def heads(pairs: Pairs = None, *, attention: Literal["all"], **options: Any) -> OfKinds[HeadScores]: ...
@overload
def heads(pairs: Pairs = None, **options: Any) -> HeadScores: ...
def heads(
    pairs: Pairs = None,
    *,
    pattern: Patterns = (),
    alignments: Links = None,
    id: str | int | None = None,
    state: File | None = None,
    per_pair: File | None = None,
    on_bad: OnBad | None = None,
    on_pairs: OnFrame | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> HeadScores | OfKinds[HeadScores]:
    """Every head's scores over many sentences or pairs of them, read one by one. `to_frame()` has a row a head.

    `label` says what each head does over all of them. Where some patterns are chosen, there are no labels, which takes
    about a fifth less time, and `to_frame()` ranks the heads for each pattern, as `to_frame([pattern])` does. `profile`
    says where every head's attention goes.

    `pairs` are a file or several, as `attnscan heads --pairs` reads them; or texts, (text, text), rows with columns, a
    data frame, a data set or a loader; without them, the pairs that attnscan ships. `columns` names the one or two
    columns that hold the sentences, `id` one that tells pairs apart. What a file's looks decide and could be wrong is a
    `UserWarning`. A pair that cannot be read is an error or, with `skip_bad` or `on_bad`, which is given it, left out.
    `progress` is called with what runs, how much of it is done, and how much there is, or None; `on_pairs` with a
    data frame of the scores of some pairs as they come, those of `predictive` at the end. What such a function raises
    ends the run, and is raised as it is.

    Of an encoder-decoder, `attention` names what is read, and B is the target, which the model writes where it is
    missing; `alignments` are gold links such as "0-0 1-2", a line a pair, or a file of these.
    With "all", the result is a mapping of kind to `HeadScores`, whose `to_frame()` has the rows of all.

    `state` is a file that keeps the sums, and that the same call goes on from; `per_pair` one for every pair's scores.

    Raises: as `classify`; PairsError for a file that cannot be read; StateError, OutputError for files that cannot be
    gone on from or written; EngineError for `engine="ray"`.
    """
    reading = reading_of("heads", options)
    given = pairs_input(pairs, reading, seed=options.get("seed", 0), id=id, on_bad=on_bad)
    keeping, writing = state_file(state), None if per_pair is None else Path(per_pair)
    how: dict[str, Any] = {"model": model, "tokenizer": tokenizer, "progress": progress}
    if keeping is not None and writing is not None:
        raise OptionError("--per-pair cannot resume from --state", "leave one of them out")
    if options.get("attention") == "all":
        if keeping is not None or writing is not None:
            raise OptionError("--state and --per-pair are of one kind of attention", _ONE_KIND)
        given = given.ready(3, f"name a file, or {_ONE_KIND}")
        results: dict[Any, HeadScores] = {}
        for kind in KINDS:
            own = {**of_kind(kind, options), "alignments": alignments if kind == "cross" else None}
            of = given.sources() if kind == "encoder" else given
            results[kind] = heads(of, pattern=pattern, on_pairs=on_pairs, **how, **own)
        return OfKinds(results)
    names, asked = scan_options(model, options, pattern, many=True, alignments=alignments)
    if names and "threshold" in options:
        raise OptionError("--threshold is for labels, which need all patterns", "leave out --pattern")
    scored = tuple(known for known in asked.patterns if not names or known.id in names)
    asked = replace(asked, patterns=scored, labelled=not names)
    if asked.engine == "ray" and (writing is not None or on_pairs is not None):
        raise OptionError("--per-pair is for one machine", "leave --engine ray out")
    return ranked(given.aligned(alignments), asked, keeping, writing, on_pairs, **how)


def ranked(
    pairs: PairsInput,
    options: ScanOptions,
    state: Path | None = None,
    per_pair: Path | None = None,
    on_pairs: OnFrame | None = None,
    *,
    model: Model = None,
    tokenizer: Tokenizer = None,
    progress: OnProgress | None = None,
) -> HeadScores:
    """Every head ranked over all pairs. Raises: as `heads`."""
    records = pairs.ready().read()  # a file that is not there is told before torch is imported
    from attnscan.scan.per_pair import PerPairWriter, pair_frame

    opening = nullcontext(None) if per_pair is None else PerPairWriter(per_pair)
    with opening as writer, opened(options, model, tokenizer, pairs.counted_by(progress)) as scanner:

        def take(places: Any, sums: Any) -> None:
            frame = pair_frame(places, sums, scanner.options, scanner.grid().layers, ids=pairs.has_ids)
            if writer is not None:
                writer.write(frame)
            if on_pairs is not None:
                on_pairs(frame)

        own = None if writer is None and on_pairs is None else take
        result = ranked_by(scanner, pairs, records, state, own)
        if writer is not None:
            writer.finish(result.signature, result.scores.patterns, scanner.grid())
        return result


def ranked_by(
    scanner: Scanner,
    pairs: PairsInput,
    records: Iterator[Record],
    state: Path | None = None,
    take: OnPairs | None = None,
) -> HeadScores:
    """Every head of an open model ranked over all pairs; what says of each pair is given to `take`."""
    from attnscan.scan.local import finished

    first = list(islice(records, _LOOKED_AT))
    summed = scanned(scanner, pairs, chain(first, records), state, take)
    result = finished(scanner, summed, on_pairs=take)
    note_inputs([result.signature], bad=pairs.bad)
    if scanner.options.attention == "encoder" and scanner.options.words == "tokenizer":
        encoded = scanner.encode_all([record.pair for record in first])
        read = [item for item in encoded if not isinstance(item, InputError)]
        note_words(scanner, read, single=pairs.single is not None)
    return replace(result, html=heads_html)


def _announcing(scanner: Scanner, start: int, total: int | Callable[[], int | None]) -> OnProgress:
    """What tells of a scanner's progress, and once, of a run that takes minutes, how long it will take.

    The run begins behind `start` pairs. Asking which words are predictive takes up to twice as long as scoring.
    """
    tell, began, is_said = scanner.progress, time.monotonic(), False

    def step(doing: str, done: int | None, of: int | None) -> None:
        nonlocal is_said
        tell(doing, done, of)
        seconds = time.monotonic() - began
        if is_said or not done or done <= start or seconds < _SOON:
            return
        is_said, count = True, total() if callable(total) else total
        scoring = 0.0 if count is None else seconds * (count - start) / (done - start)
        whole = scoring if scanner.measure is None else 3 * scoring
        if whole >= _LONG:
            alone = f"; with predictive off about {_told(scoring)}" if whole > scoring else ""
            note(f"this takes about {_told(whole)} on this machine{alone}")

    return step


def _told(seconds: float) -> str:
    """A time in words, as nearly as it is worth.

    >>> _told(20), _told(80), _told(200), _told(7300)
    ('20 seconds', '80 seconds', '3 minutes', '2.0 hours')
    """
    if seconds < 100:
        return f"{10 * round(seconds / 10)} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def scanned(
    scanner: Scanner,
    pairs: PairsInput,
    records: Iterator[Record],
    path: Path | None = None,
    take: OnPairs | None = None,
    *,
    doing: str = "scoring pairs",
    total: int | None = None,
) -> ScanState:
    """The state after all pairs; where a file keeps it, that is gone on from, and an interrupted scan leaves it there.

    `total` is how many pairs there are, if that is known.
    Raises: as `heads`.
    """
    from attnscan.scan.local import scan, unseen
    from attnscan.scan.state import ScanState
    from attnscan.scan.stored import load_state, save_state

    scanner.tell(doing)
    reached = saved = ScanState(scanner.options)
    if path is not None:
        _ = scanner.loaded.fingerprint  # before the model runs, while nothing of ours hangs on its modules
        if path.exists():
            reached = saved = load_state(path, scanner)
    scanner = scanner.with_progress(_announcing(scanner, reached.seen.read, total or pairs.how_many))
    when = time.monotonic()

    def keep(now: ScanState, *, at_once: bool = False) -> None:
        nonlocal reached, saved, when
        reached = now
        if path is None or now is saved or now.sums.shape is None:
            return
        if at_once or time.monotonic() - when > _SAVE_EVERY:
            save_state(path, now, scanner)
            saved, when = now, time.monotonic()

    how: dict[str, Any] = {"doing": doing, "keep": keep, "total": total}
    try:
        rest = unseen(records, reached.seen)
        if scanner.options.engine == "ray":
            from attnscan.scan import ray

            reached = ray.scan(scanner, rest, reached, pairs.skips, **how)
        else:
            reached = scan(scanner, rest, reached, pairs.skips, on_pairs=take, **how)
    finally:
        keep(reached, at_once=True)
    return reached


def state_file(state: File | None) -> Path | None:
    """A state file. Raises: OutputError, StateError if it cannot be written, and replaced as a whole."""
    if state is None:
        return None
    check_writable(path := local_path(os.fspath(state)))
    if is_stream(path):
        raise StateError(f"{path} is not a regular file, and so cannot hold a state", "name another --state file")
    return path


def profile(
    a: Text | None = None,
    b: Text | None = None,
    *,
    heads: Heads | None = None,
    pairs: Pairs = None,
    weights: Weights | None = None,
    pattern: Patterns = (),
    alignments: Links = None,
    state: File | None = None,
    on_bad: OnBad | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> Profile:
    """Where every head's attention goes, on one input, by saved `weights` or over many pairs: `to_frame()` has a row
    for each class of keys of each head.

    A word's attention is divided without remainder over classes, such as the next word or punctuation. A `pattern` of
    your own stands beside them. `heads` are those that will be looked up: of an encoder-decoder their letters say which
    attention is read, as "c1-0".

    Without a sentence, `pairs` and the arguments below them are those of `heads`.

    Raises: as `heads`; WeightsError if weights are of too many heads.
    """
    reading = reading_of("profile", options)
    options = {"predictive": "off", **options}
    if weights is not None:
        if a is not None or pairs is not None or state is not None:
            raise OptionError("--weights is one input", "leave out the sentences, --pairs and --state")
        own: dict[str, Any] = {"pattern": pattern, "keep_attention": False, "model": model, **options}
        alone: HeadScores = classify(weights=weights, alignments=alignments, **own)
        return alone.profile
    given = input_of(a, b, pairs, reading, seed=options.get("seed", 0), on_bad=on_bad)
    if given.single is not None and state is not None:
        raise OptionError("--state is for many pairs", "leave it out")
    many = given.single is None
    named = None if heads is None else heads_written(heads)
    _, asked = scan_options(model, options, pattern, many=many, heads=named, alignments=alignments, labelled=True)
    how: dict[str, Any] = {"model": model, "tokenizer": tokenizer, "progress": progress}
    result = ranked(given.aligned(alignments), asked, state_file(state), **how).profile
    _ = named is None or result.grid.select(named)  # heads that are not there are refused
    return result


def load(
    model: Model = None,
    *,
    tokenizer: Tokenizer = None,
    device: Device = "auto",
    dtype: Dtype = "auto",
    source_language: str | None = None,
    target_language: str | None = None,
) -> LoadedModel:
    """A model to be given as `model` to any number of calls, each with options of its own, and loaded only now.

    Threads may share it: their calls run one after another.

    Raises: as `classify`.
    """
    languages = {"source_language": source_language, "target_language": target_language}
    _, asked = scan_options(model, {"device": device, "dtype": dtype, **languages}, many=False)
    with opened(asked, model, tokenizer) as scanner:
        return scanner.loaded


def shard(
    pairs: Pairs,
    *,
    pattern: Patterns = (),
    alignments: Links = None,
    relations: Relations | None = None,
    on_bad: OnBad | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> ScanState:
    """What some sentences or pairs of them add to a ranking: shards add with `+` or `sum`, and `finish` ranks.

    Whatever the pairs are split into, in whatever order they are added, the result is that of `heads` over all of them,
    which has the same options; so `shard([])` adds nothing. Its size does not grow with the pairs, and it can be
    pickled. What is unpickled runs code: take pickles from your own machines alone.

    With `relations`, "universal" or "subtypes", `pairs` are a treebank, and `syntax` takes the sum in place of one.

    Raises: as `heads` and `syntax`; EngineError when shards of different models, options or versions are added.
    """
    reading = reading_of("shard", options)
    given = pairs_input(pairs, reading, seed=options.get("seed", 0), on_bad=on_bad).ready()
    names, asked = scan_options(model, options, pattern, many=True, alignments=alignments)
    if relations is None:
        scored = tuple(known for known in asked.patterns if not names or known.id in names)
        asked = replace(asked, patterns=scored, labelled=not names)
    else:
        if names or asked.split or asked.attention != "encoder":
            raise OptionError("a treebank is scored by relations", "leave out pattern, attention and split")
        check_known("relations", relations, get_args(Relations))
        asked = asked.of_trees(subtypes=relations == "subtypes")
    given = given.aligned(alignments)
    with opened(asked, model, tokenizer, given.counted_by(progress)) as scanner:
        from attnscan.scan.local import scan, with_signature

        added = with_signature(scanner, scan(scanner, given.read(), None, given.skips))
        name = None if scanner.loaded.given is not None else scanner.loaded.source.name
        options = replace(scanner.options, model=name)
    return replace(added, options=options)


def finish(shard: ScanState, *, model: Model = None, tokenizer: Tokenizer = None) -> HeadScores:
    """The ranking of all pairs that the shard is made of, as `heads` gives it.

    If `predictive` was not "off", a sample of all pairs is asked for it now, by `model`, which is the shard's own: by
    its name unless it is given. Otherwise no model is needed.

    Raises: as `classify`; InputError if no pair was scored; EngineError if the model is another one.
    """
    from attnscan.scan.state import ScanState, Seen

    if not isinstance(shard, ScanState):
        raise OptionError(f"shard is of the class {type(shard).__name__}", "give a ScanState, as shard() returns it")
    if not shard.asks:
        return replace(shard.ranking(), html=heads_html)
    model = shard.options.model if model is None else model
    if model is None:
        raise OptionError("the shard is of a model that was in memory", "give it again, as model, with its tokenizer")
    options = replace(shard.options, model=os.fspath(model) if isinstance(model, str | os.PathLike) else None)
    if not is_name(model):
        options = replace(options, device="auto", dtype="auto")
    with opened(options, model, tokenizer) as scanner:
        from attnscan.scan.local import finished

        signature = scanner.signature(Seen(), fingerprint=True)
        if (own := shard.signature) is not None:
            shard.check(replace(signature, read_by=own.read_by, device=own.device))
        return replace(finished(scanner, shard), html=heads_html)

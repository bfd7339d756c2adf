"""What `import attnscan` offers for many pairs: heads ranked, labelled and described in full.

All pairs are read here, or in shards that add.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack, overload

from attnscan.api.one_input import classify
from attnscan.api.open_model import (
    NAMED,
    LibraryCall,
    ModelRequest,
    call_input,
    held_input,
    library_call,
    open_models,
)
from attnscan.api.option_groups import (
    ATTENTION,
    HELD,
    PAIRS,
    PATTERN,
    SENTENCE_A,
    SENTENCE_B,
    STATE,
    WEIGHTS,
    AnyAttentionName,
    EngineOptions,
    File,
    HeadsOptions,
    Patterns,
    ProfileOptions,
    ShardOptions,
    Weights,
)
from attnscan.api.options import file_to_write, model_name, scan_options, split_kinds
from attnscan.api.pairs_input import Pairs, PairsInput
from attnscan.api.signatures import library_function
from attnscan.errors import OptionError, StateError
from attnscan.inputs.option import Option
from attnscan.inputs.sentence import Text
from attnscan.model.sources import Device, Dtype
from attnscan.results.files import ResultsByKind, is_stream
from attnscan.results.grid import AttentionName, Heads
from attnscan.scan.options import OnProgress, note, silent
from attnscan.text import counted

if TYPE_CHECKING:
    from attnscan.model.loading import LoadedModel
    from attnscan.results.heads import HeadScores, Profile
    from attnscan.scan.pair_scan import PairObserver
    from attnscan.scan.scanner import Scanner
    from attnscan.scan.state import ScanState

_SAVE_EVERY = 5.0  # seconds between two states of a scan
_KNOWN_AFTER = 5.0  # seconds, after which a run's length is known
_LONG_RUN = 60.0  # seconds, from which a run's length is announced


@overload
def heads(
    pairs: Pairs = None,
    *,
    attention: Literal["all"],
    pattern: Patterns = (),
    **options: Unpack[HeadsOptions],
) -> ResultsByKind[HeadScores]: ...
@overload
def heads(
    pairs: Pairs = None,
    *,
    pattern: Patterns = (),
    id: str | int | None = None,
    state: File | None = None,
    per_pair: File | None = None,
    attention: AttentionName | None = None,
    **options: Unpack[HeadsOptions],
) -> HeadScores: ...
@library_function()
def heads(
    pairs: Annotated[Pairs, PAIRS] = None,
    *,
    pattern: Annotated[Patterns, PATTERN] = (),
    id: Annotated[
        str | int | None,
        Option("Copy this column to --per-pair, to join rows by it.", metavar="COLUMN"),
    ] = None,
    state: Annotated[File | None, STATE] = None,
    per_pair: Annotated[
        File | None, Option("Write the scores of every pair.", metavar="FILE.parquet")
    ] = None,
    held: Annotated[Pairs, HELD] = None,
    attention: Annotated[AnyAttentionName | None, ATTENTION] = None,
    **options: Unpack[HeadsOptions],
) -> HeadScores | ResultsByKind[HeadScores]:
    """Every head's scores over many sentences or pairs of them, read one by one.

    `to_frame()` has a row a head. `label` says what each head does. For some chosen patterns there
    are no labels, and `to_frame()` ranks heads for each. `id` is a column that tells pairs apart;
    `state` a file that keeps the sums, and that the same call goes on from; `per_pair` one for
    every pair's scores. With `attention="all"`, the result maps kinds to `HeadScores`.

    `held` is a second corpus: the result's own `held` says what every head does there, and
    `to_frame()` has the columns `held_label` and `held_share`.

    Raises: as `classify`; PairsError, StateError, OutputError for files; EngineError for
    `engine="ray"`.
    """
    given = {**options, "attention": attention}
    if pattern and "threshold" in options:
        raise OptionError(
            "``threshold`` is for labels, which need all patterns", "leave out ``pattern``"
        )
    if held is not None and (pattern or attention == "all" or per_pair is not None):
        raise OptionError(
            "``held`` compares labels of one kind of attention",
            "leave out ``pattern`` and ``per_pair``, and choose one ``attention``",
        )
    if attention != "all":
        inputs = call_input(given, pairs=pairs, id=id)
        call = library_call("heads", given, inputs, pattern=pattern)
        call = call.with_held(held_input(given, inputs, held))
        return rank_pairs(_ranked(call), state_file(state), file_to_write(per_pair))
    if state is not None or per_pair is not None:
        raise OptionError(
            "``state`` and ``per_pair`` are of one kind of attention",
            "choose one: ``attention=cross``",
        )
    return ResultsByKind(_heads_by_kind(pairs, given, pattern))


def _heads_by_kind(
    pairs: Pairs, options: Mapping[str, Any], pattern: Patterns
) -> dict[Any, HeadScores]:
    """Rank the heads of each kind of an encoder-decoder's attention over the same pairs."""
    kinds = split_kinds(options)
    inputs = call_input(kinds[0], pairs=pairs).ready(len(kinds))
    results: dict[Any, HeadScores] = {}
    for kind_options in kinds:
        kind = kind_options["attention"]
        read = inputs.sources() if kind == "encoder" else inputs
        call = library_call("heads", kind_options, read, pattern=pattern)
        results[kind] = rank_pairs(_ranked(call))
    return results


def _ranked(call: LibraryCall) -> LibraryCall:
    """The call where heads are ranked by the patterns that were asked for.

    If these are all, heads are labelled.
    """
    patterns = call.options.patterns
    if call.names:
        patterns = tuple(pattern for pattern in patterns if pattern.id in call.names)
    return call.with_options(patterns=patterns, labelled=not call.names)


def rank_pairs(
    call: LibraryCall, state: Path | None = None, per_pair: Path | None = None
) -> HeadScores:
    """Rank every head over all pairs. Raises: as `heads`."""
    if per_pair is None:
        with call.open_model() as scanner:
            return rank_pairs_with(scanner, call, state)
    if state is not None or call.options.engine == "ray":
        raise OptionError(
            "``per_pair`` is of a run on one machine from its start",
            "leave out ``state`` and ``engine=ray``",
        )
    from attnscan.scan.per_pair import PairRows, PerPairWriter

    with PerPairWriter(per_pair) as writer, call.open_model() as scanner:
        layers = scanner.grid().layers
        rows = PairRows(writer, scanner.options, layers, ids=call.pairs.has_ids)
        result = rank_pairs_with(scanner, call, observer=rows)
        writer.finish(result.signature, result.scores.patterns, scanner.grid())
        return result


def rank_pairs_with(
    scanner: Scanner,
    call: LibraryCall,
    state: Path | None = None,
    observer: PairObserver | None = None,
) -> HeadScores:
    """Rank every head of an open model over all pairs, while an observer looks on."""
    from attnscan.scan.pair_scan import finish_scan

    scanned = run_scan(scanner, call.pairs, state, observer)
    result = finish_scan(scanner, scanned, observer=observer)
    call.note(scanner, result.signature)
    if call.held is None:
        return result
    doing = "scoring the pairs that are held against these"
    held = finish_scan(scanner, run_scan(scanner, call.held, doing=doing))
    return replace(result, held=held)


def _announcing(scanner: Scanner, start: int, total: int) -> OnProgress:
    """Report a scan's progress, and note once how long it takes, if that is minutes.

    This is known some seconds after its `start`.
    """
    tell = scanner.progress
    began = time.monotonic()
    is_announced = False

    def step(doing: str, done: int | None, whole: int | None) -> None:
        nonlocal is_announced
        tell(doing, done, whole)
        seconds = time.monotonic() - began
        read_so_far = (done or 0) - start
        if is_announced or not total or read_so_far <= 0 or seconds < _KNOWN_AFTER:
            return
        is_announced = True
        _announce(seconds * (total - start) / read_so_far, finds=scanner.measure is not None)

    return step


def _announce(scoring: float, *, finds: bool) -> None:
    """Note how long a run takes, by the seconds that scoring takes.

    One that `finds` predictive words takes up to two times as long for these.
    """
    if not finds:
        seconds = scoring
        shorter = ""
    else:
        seconds = 3 * scoring
        shorter = f"; with predictive off about {scoring / 60:.0f}"
    if seconds >= _LONG_RUN:
        minutes = counted(round(seconds / 60), "minute")
        note(f"this takes about {minutes} on this machine{shorter}")


class _SavedScan:
    """What a scan has reached, and the file that keeps it every few seconds."""

    def __init__(self, path: Path | None, scanner: Scanner) -> None:
        """Begin anew, or from the file if there is one. Raises: StateError."""
        from attnscan.scan.state import ScanState, load_state

        self._path = path
        self._scanner = scanner
        if path is not None and path.exists():
            self.reached = load_state(path, scanner)
        else:
            self.reached = ScanState(scanner.options)
        self._saved = self.reached
        self._saved_at = time.monotonic()

    def keep(self, reached: ScanState) -> None:
        """Take what the scan has reached; save it if some seconds have passed."""
        self.reached = reached
        if time.monotonic() - self._saved_at > _SAVE_EVERY:
            self.save()

    def save(self) -> None:
        """Save what was reached, if there is a file, and something new. Raises: OutputError."""
        from attnscan.scan.state import save_state

        if self._path is None or self.reached is self._saved or not self.reached.sums:
            return
        save_state(self._path, self.reached, self._scanner)
        self._saved = self.reached
        self._saved_at = time.monotonic()


def run_scan(
    scanner: Scanner,
    pairs: PairsInput,
    path: Path | None = None,
    observer: PairObserver | None = None,
    *,
    doing: str = "scoring pairs",
    total: int | None = None,
) -> ScanState:
    """Score all pairs and return the state.

    A file resumes a scan, and keeps the state of an interrupted one. `total` is how many pairs
    there are, if that is known.

    Raises: as `heads`.
    """
    from attnscan.scan.pair_scan import scan, skip_seen

    if path is not None:
        # before the model runs, while nothing of ours hangs on its modules
        _ = scanner.loaded.fingerprint
    state = _SavedScan(path, scanner)
    start = state.reached
    total = total or pairs.how_many()
    scanner = replace(scanner, progress=_announcing(scanner, start.seen.read, total or 0))
    scanner.tell(doing, start.seen.read, total)
    arguments: dict[str, Any] = {
        "on_count": partial(scanner.tell, doing, total=total),
        "keep": state.keep,
    }
    try:
        unseen = skip_seen(pairs.read(), start.seen)
        if scanner.options.engine == "ray":
            from attnscan.scan import ray

            state.reached = ray.scan(scanner, unseen, start, pairs.skips, **arguments)
        else:
            state.reached = scan(
                scanner, unseen, start, pairs.skips, observer=observer, **arguments
            )
    finally:
        state.save()
    return state.reached


def state_file(state: File | None) -> Path | None:
    """A state file. Raises: OutputError if it cannot be written."""
    path = file_to_write(state)
    if path is not None and is_stream(path):
        raise StateError(
            f"{path} is not a regular file, and so cannot hold a state",
            "name another ``state`` file",
        )
    return path


@library_function()
def profile(
    a: Annotated[Text | None, SENTENCE_A] = None,
    b: Annotated[Text | None, SENTENCE_B] = None,
    *,
    heads: Annotated[
        Heads | None,
        Option("Show these heads: 2-0,6-11 or layer:2; one is shown in full.", metavar="HEADS"),
    ] = None,
    pairs: Annotated[Pairs, PAIRS] = None,
    weights: Annotated[Weights | None, WEIGHTS] = None,
    pattern: Annotated[
        Patterns,
        Option(
            "Add a pattern of your own. May repeat.",
            metavar="FILE.py:FUNCTION",
            short="-p",
            repeats=True,
        ),
    ] = (),
    state: Annotated[File | None, STATE] = None,
    **options: Unpack[ProfileOptions],
) -> Profile:
    """Where every head's attention goes, on one input, by saved `weights` or over many pairs.

    `to_frame()` has a row for each class of keys of each head. A word's attention is divided
    without remainder over classes, such as the next word or punctuation. A `pattern` of your own
    stands beside them. `heads` are those that will be looked up, and have to be there.

    Raises: as `heads`.
    """
    if state is not None and (a is not None or weights is not None):
        raise OptionError("``state`` is for many pairs", "leave it out")
    if weights is not None:
        if a is not None or pairs is not None:
            raise OptionError(
                "several inputs were given", "give a sentence, or two, or ``weights=FILE.npz``"
            )
        return _profile_of_weights(weights, pattern, options)
    inputs = call_input(options, a, b, pairs)
    call = library_call(
        "profile",
        options,
        inputs,
        heads=heads,
        pattern=pattern,
        labelled=True,
        predictive="off",
    )
    return rank_pairs(call, state_file(state)).profile


def _profile_of_weights(weights: Weights, pattern: Patterns, options: Mapping[str, Any]) -> Profile:
    """Where attention goes by saved weights."""
    if options.get("engine") == "ray":
        raise OptionError("``engine`` is for many pairs", "leave it out")
    chosen: dict[str, Any] = {"keep_attention": False, "predictive": "off"}
    for name in options.keys() - EngineOptions.__annotations__:
        chosen[name] = options[name]
    result: HeadScores = classify(weights=weights, pattern=pattern, **chosen)
    return result.profile


@library_function()
def load(
    model: Any = None,
    *,
    tokenizer: Any = None,
    device: Device = "auto",
    dtype: Dtype = "auto",
    source_language: str | None = None,
    target_language: str | None = None,
) -> LoadedModel:
    """A model to be given as `model` to any number of calls, each with options of its own.

    It is loaded only now. Threads may share it: their calls run one after another.

    Raises: as `classify`.
    """
    named = {
        "model": model,
        "device": device,
        "dtype": dtype,
        "source_language": source_language,
        "target_language": target_language,
    }
    _, checked = scan_options("load", named, many=True)
    with open_models([ModelRequest(model, tokenizer, checked)], silent) as (scanner,):
        return scanner.loaded


@library_function()
def shard(
    pairs: Annotated[Pairs, PAIRS],
    *,
    pattern: Annotated[Patterns, PATTERN] = (),
    **options: Unpack[ShardOptions],
) -> ScanState:
    """What some sentences or pairs of them add to a ranking.

    Shards add with `+` or `sum`, and `finish` ranks. Whatever the pairs are split into, in whatever
    order they are added, the result is that of `heads` over all of them, which has the same
    options. Its size does not grow with the pairs. It can be pickled; what is unpickled runs code:
    take pickles from your own machines alone.

    Raises: as `heads`; EngineError when shards of different models, options or versions are added.
    """
    inputs = call_input(options, pairs=pairs)
    call = _ranked(library_call("shard", options, inputs, pattern=pattern))
    with call.open_model() as scanner:
        from attnscan.scan.pair_scan import scan

        added = scan(scanner, call.pairs.read(), None, call.pairs.skips)
        name = None if scanner.loaded.original is not None else scanner.loaded.source.name
        return replace(added, options=replace(scanner.options, model=name))


@library_function()
def finish(shard: ScanState, *, model: Any = None, tokenizer: Any = None) -> HeadScores:
    """The ranking of all pairs that the shard is made of, as `heads` gives it.

    If `predictive` was not "off", a sample of all pairs is asked for it now, by `model`, which is
    the shard's own.

    Raises: as `classify`; InputError if no pair was scored; EngineError if the model is another
    one.
    """
    from attnscan.scan.state import ScanState

    if not isinstance(shard, ScanState):
        raise OptionError(
            f"shard is of the class {type(shard).__name__}",
            "give a ScanState, as shard() returns it",
        )
    if not shard.lacks_predictive:
        return shard.ranking()
    model = shard.options.model if model is None else model
    if model is None:
        raise OptionError(
            "the shard is of a model that was in memory",
            "give it again, as model, with its tokenizer",
        )
    with open_models([_request_of(shard, model, tokenizer)], silent) as (scanner,):
        from attnscan.scan.pair_scan import finish_scan

        _check_signature(shard, scanner)
        return finish_scan(scanner, shard)


def _request_of(shard: ScanState, model: Any, tokenizer: Any) -> ModelRequest:
    """The model that asks for a shard's predictive words, run by the shard's options."""
    if isinstance(model, NAMED):
        return ModelRequest(model, tokenizer, replace(shard.options, model=model_name(model)))
    options = replace(shard.options, model=None, device="auto", dtype="auto")
    return ModelRequest(model, tokenizer, options)


def _check_signature(shard: ScanState, scanner: Scanner) -> None:
    """Raises: EngineError if a model is not the one that a shard is of."""
    signature = scanner.signature(fingerprint=True)
    expected = shard.signature
    if expected is not None:
        shard.check(replace(signature, read_by=expected.read_by, device=expected.device))

"""The arguments of a call of the library: options are checked once, pairs are read, and a model is made ready."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from attnscan.errors import InputError, OptionError, PairsError, check_known, nearest
from attnscan.inputs import read as files
from attnscan.inputs.annotations import Alignments
from attnscan.inputs.files import STDIN, format_of, scheme_of
from attnscan.inputs.records import FileReading, OnBad, objects_in
from attnscan.inputs.sentence import EncodedInput, Pair, Record, Text
from attnscan.results.files import check_writable, local_path
from attnscan.results.grid import AttentionName, Heads, attention_named, heads_written, parse_heads
from attnscan.results.signature import Signature
from attnscan.scan.options import OnProgress, ScanOptions, note, note_inputs, progress_of, warn
from attnscan.scoring.cross import cross_patterns
from attnscan.scoring.patterns import CAUSAL_PATTERNS, PATTERNS, PatternLike, pattern_list, with_own
from attnscan.text import plain

if TYPE_CHECKING:
    from attnscan.scan.scanner import Scanner

File = str | os.PathLike[str]
Patterns = PatternLike | Iterable[PatternLike]
NAMED = (str, os.PathLike, type(None))
"""Types that name a model; any other value is a model in memory."""
KINDS: tuple[AttentionName, ...] = get_args(AttentionName)
SHARED = ("model", "tokenizer", "progress", "on_bad", "alignments")
"""Keyword arguments of every function that runs a model, beside the options of a scan and of reading."""
READING = (
    *(field.name for field in fields(FileReading) if field.name not in ("id", "labelled")),
    "skip_bad",
)
"""Options that say how files of pairs are read."""
_ASKED = ("predictive", "predictive_words", "predictive_pairs")
_RUN = ("device", "dtype", "batch_tokens")
_EVERY = (
    *("unit", "words", "by", "special", "related", "threshold", "on_long", "seed"),
    *("attention", "query", "max_target_tokens", "source_language", "target_language"),
    *(*_ASKED, *_RUN),
)
_ENGINE = ("engine", "ray_address", "ray_workers")


def _without(*names: str) -> tuple[str, ...]:
    return tuple(name for name in _EVERY if name not in names)


SCAN: dict[str, tuple[str, ...]] = {
    "classify": _without("predictive_pairs"),
    "heads": (*_EVERY, "split", *_ENGINE),
    "head": _EVERY,
    "profile": (*_without(*_ASKED, "threshold"), *_ENGINE),
    "show": _without("unit", "words", "predictive_words", "predictive_pairs"),
    "explain": _without(
        "unit", "words", "by", "special", "threshold", "predictive_words", "predictive_pairs"
    ),
    "predictive": (
        "unit",
        "words",
        "predictive",
        "predictive_words",
        "on_long",
        "source_language",
        *_RUN,
    ),
    "report": _EVERY,
    "plot": _EVERY,
    "ablate": _without("predictive_words", "predictive_pairs"),
    "similar": _without("unit", "words", *_ASKED),
    "syntax": ("by", "special", "on_long", "seed", "source_language", *_RUN, *_ENGINE),
    "compare": _without(*_ASKED),
    "shard": (*_EVERY, "split"),
    "serve": _EVERY,
    "models": ("device", "source_language"),
    "load": ("device", "dtype", "source_language", "target_language"),
}
"""The options of `ScanOptions` that a function takes, and so its command."""
Links = str | os.PathLike[str] | Sequence[str] | None
"""Gold links such as "0-0 1-2", a line for each pair, or the file of these lines."""
_MOST_NOTED = 3  # bad records that are noted; the others are only counted


class Files(tuple[str, ...]):
    """Names of files, whatever they look like."""


@dataclass
class PairsInput:
    """Pairs that can be read, in one pass or several; each bad record is noted once."""

    begin: Callable[[OnBad | None], Iterator[Record]]
    """Begins a pass, and hands bad records to a function, or raises them."""
    skip_bad: bool = False
    on_bad: OnBad | None = None
    """Takes bad records that are skipped; without one, the first are noted."""
    how_many: Callable[[], int | None] = lambda: None
    has_ids: bool = False
    """Whether a column of ids was named, which tell pairs apart."""
    is_stream: bool = False
    """Whether they come from an iterator or a pipe, and are kept in memory where more than one pass needs them."""
    single: Pair | None = None
    bad: int = 0
    _noted: set[str] = field(default_factory=set)

    def read(self) -> Iterator[Record]:
        """Begin a pass over all. Raises: PairsError, InputError for a bad one that is not to be skipped."""
        return self.begin(self.skips)

    @property
    def skips(self) -> OnBad | None:
        """The function that counts a bad record and notes it once; None if a bad record ends the run."""
        return self._skip if self.skip_bad else None

    def _skip(self, error: InputError) -> None:
        if str(error) not in self._noted:
            self._noted.add(str(error))
            self.bad += 1
            if self.on_bad is not None:
                self.on_bad(error)
            elif self.bad <= _MOST_NOTED:
                note(f"skipped: {plain(error.what)}")

    def ready(self, passes: int = 1) -> PairsInput:
        """The pairs, read as far as the first, so that no model is loaded in vain; a stream once for many passes."""
        if not self.is_stream:
            next(self.read(), None)
        elif passes > 1:
            records = list(self.read())
            self.begin = lambda _: iter(records)
        return self

    def counted_by(self, progress: OnProgress) -> OnProgress:
        """Report progress with the number of pairs as the total where the work does not know a total."""
        count = self.how_many()
        return lambda doing, done, total: progress(
            doing, done, count if done is not None and total is None else total
        )

    def aligned(self, links: Links) -> PairsInput:
        """Pairs whose words are linked. Raises: OptionError; PairsError for a file that cannot be read."""
        if links is None:
            return self
        alignments = read_alignments(links)
        linked = replace(
            self, begin=lambda skip: alignments.linked(self.begin(skip), to_the_end=skip is None)
        )
        return (
            linked
            if self.single is None
            else replace(linked, single=alignments.link_single(self.single))
        )


Pairs = str | os.PathLike[str] | Iterable[Any] | PairsInput | None
"""A file of pairs or several; or sentences, pairs of them, or rows with columns that hold these, as
`inputs/records.py` says; None for the pairs that attnscan ships."""


def read_alignments(links: Links) -> Alignments:
    """Gold links, read. Raises: OptionError for what is no text; PairsError."""
    if isinstance(links, str | os.PathLike):
        return Alignments.read(os.fspath(links))
    return Alignments("alignments", tuple(list_texts("alignments", links or ())))


def list_texts(name: str, values: str | Iterable[str]) -> list[str]:
    """Make a list of several texts, or of a single one. Raises: OptionError for anything else."""
    several = (
        [values]
        if isinstance(values, str)
        else list(values)
        if isinstance(values, Iterable)
        else [values]
    )
    if wrong := [value for value in several if not isinstance(value, str)]:
        raise OptionError(f"{name} has a {type(wrong[0]).__name__} in it", "give a list of texts")
    return several


def input_of(
    a: Text | None, b: Text | None, pairs: Pairs, reading: Mapping[str, Any], **options: Any
) -> PairsInput:
    """A sentence, or two, or else many pairs, as `pairs_input` takes them.

    Raises: OptionError if they are given both, or how to read pairs; InputError for what is no text.
    """
    if a is None and b is None:
        return pairs_input(pairs, reading, **options)
    if pairs is not None:
        raise OptionError(
            "a sentence and --pairs were both given",
            "give a sentence, or two, or --pairs, but not both",
        )
    check_no_reading(reading, options["on_bad"])
    single = Pair(a, b)  # type: ignore[arg-type]
    return PairsInput(
        lambda _: iter([Record(single, "the input")]), how_many=lambda: 1, single=single
    )


def check_no_reading(reading: Mapping[str, Any], on_bad: OnBad | None = None) -> None:
    """Raises: OptionError if an option says how to read files, where none are read."""
    for name in (*reading, *(["skip_bad"] if on_bad is not None else [])):
        raise OptionError(f"--{name.replace('_', '-')} is for --pairs", "leave it out")


def pairs_input(
    pairs: Pairs,
    reading: Mapping[str, Any],
    *,
    on_bad: OnBad | None = None,
    id: str | int | None = None,
    labels: Iterable[str] | None = None,
    seed: int = 0,
) -> PairsInput:
    """Pairs that callers give, read by their options; "random" stands for random sequences, drawn by a `seed`.

    If `labels` are empty, a column `label` holds them.

    Raises: InputError if they hold none; OptionError for an unknown value.
    """
    if isinstance(pairs, PairsInput):
        return pairs
    reading = dict(reading)
    shared: dict[str, Any] = {
        "skip_bad": bool(reading.pop("skip_bad", False) or on_bad),
        "on_bad": on_bad,
    }
    if (columns := reading.get("columns")) is not None:
        reading["columns"] = tuple(
            map(str, [columns] if isinstance(columns, str | int) else columns)
        )
    classes = [] if labels is None else list_texts("labels", labels)
    id_column = None if id is None else str(id)
    file_reading = FileReading(**reading, id=id_column, labelled=labels is not None and not classes)
    if pairs is None:
        check_no_reading(reading)
        return PairsInput(
            lambda _: files.shipped_pairs(),
            how_many=lambda: len(list(files.shipped_pairs())),
            **shared,
        )
    if (paths := _paths_in(pairs)) == (files.RANDOM,):
        check_no_reading(reading)
        return PairsInput(
            lambda _: files.random_pairs(seed), how_many=lambda: files.RANDOM_SEQUENCES, **shared
        )
    shared["has_ids"] = id_column is not None
    if paths is not None:
        shared |= {
            "is_stream": STDIN in paths or any(map(_is_pipe, paths)),
            "how_many": lambda: files.about_how_many(paths),
        }
        warn_once = cache(warn)  # once, however often they are read
        return PairsInput(
            lambda skip: files.read_pairs(paths, file_reading, skip, warn_once), **shared
        )
    objects = objects_in(pairs, file_reading)

    def begin(skip: OnBad | None) -> Iterator[Record]:
        for record in objects.records(skip):
            yield (
                replace(record, label=classes[record.place.row - 1])
                if record.place.row <= len(classes)
                else record
            )

    shared |= {"is_stream": isinstance(objects.items, Iterator), "how_many": lambda: objects.total}
    return PairsInput(begin, **shared)


def _is_pipe(path: str) -> bool:
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)  # noqa: PTH110, PTH112, PTH113


def _paths_in(pairs: Any) -> tuple[str, ...] | None:
    """The names of files, if that is what callers give; texts in a list are files if each has a suffix of one."""
    if isinstance(pairs, str | os.PathLike):
        return (os.fspath(pairs),)
    if isinstance(pairs, Files) or (
        isinstance(pairs, list | tuple) and pairs and all(map(_names_file, pairs))
    ):
        return tuple(map(os.fspath, pairs))
    return None


def _names_file(item: object) -> bool:
    try:
        return isinstance(item, Path) or (
            isinstance(item, str) and bool(scheme_of(item) or format_of(item))
        )
    except PairsError:  # a suffix of another kind of files, or the end of a sentence
        return False


class LibraryCall:
    """One call of the library: its options, checked; the sentence or the pairs that it reads; its model.

    `many` pairs are cut where they are too long, and a single input is refused. The attention that is read is the one
    asked for, else that of the letters of `heads`. `decided` are options of the scan that callers do not give.

    Raises: OptionError for an unknown value; SelectionError for heads of another attention; as `check_names`
    and `pairs_input`.
    """

    def __init__(
        self,
        function: str,
        options: Mapping[str, Any],
        a: Text | None = None,
        b: Text | None = None,
        pairs: Pairs = None,
        *,
        many: bool | None = None,
        pattern: Patterns = (),
        heads: Heads | None = None,
        reading: Mapping[str, Any] = {},
        held: Pairs = None,
        **decided: Any,
    ) -> None:
        check_names(function, options)
        shared: list[Any] = [options.get(name) for name in SHARED]
        self.model, self.tokenizer, self.progress, on_bad, self.alignments = shared
        self.reading = {name: options[name] for name in READING if name in options}
        self.heads = None if heads is None else heads_written(heads)
        if self.heads is not None:
            parse_heads(self.heads)
        reading = {"on_bad": on_bad, "seed": options.get("seed", 0), **reading}
        self.pairs = input_of(a, b, pairs, self.reading, **reading).aligned(self.alignments)
        self.held = None if held is None else pairs_input(held, self.reading, on_bad=on_bad)
        if held is not None and (self.pairs.single is not None or self.alignments is not None):
            raise OptionError(
                "--held is beside many pairs without --alignments", "give --pairs, or leave it out"
            )
        scan_options = {
            name: value
            for name, value in options.items()
            if name in SCAN[function] and value is not None
        }
        many = self.pairs.single is None if many is None else many
        check_known("attention", scan_options.get("attention", "encoder"), KINDS)
        scan_options["attention"] = read = attention_named(
            self.heads or "", scan_options.get("attention")
        )
        if self.alignments is not None and read != "cross":
            raise OptionError(
                "--alignments is for cross attention", "add --attention cross, or leave it out"
            )
        if (
            scan_options.setdefault("on_long", "truncate" if many else "error") == "skip"
            and not many
        ):
            raise OptionError("--on-long skip is for many pairs", "give truncate or error")
        wanted = pattern_list(pattern)
        shipped = (
            cross_patterns(wanted, aligned=self.alignments is not None)
            if read == "cross"
            else PATTERNS
        )
        self.names, patterns = with_own(wanted, shipped, () if read == "cross" else CAUSAL_PATTERNS)
        name = os.fspath(self.model) if isinstance(self.model, str | os.PathLike) else None
        self.options = ScanOptions(
            **{"patterns": patterns, **scan_options, "model": name, **decided}
        )

    def of_patterns(self) -> LibraryCall:
        """The call where heads are ranked by the patterns that were asked for and, if these are all, labelled."""
        patterns = (
            pattern
            for pattern in self.options.patterns
            if not self.names or pattern.id in self.names
        )
        return self.with_options(patterns=tuple(patterns), labelled=not self.names)

    def with_options(self, **changes: Any) -> LibraryCall:
        """The call with other options of the scan."""
        self.options = replace(self.options, **changes)
        return self

    @contextmanager
    def open_model(self, passes: int = 1) -> Iterator[Scanner]:
        """The model, made ready while a block runs, once the pairs can be read in so many passes.

        Raises: as `open_models`; SelectionError for heads that do not exist.
        """
        self.pairs.ready(passes)
        if self.held is not None:
            self.held.ready()
        with open_models(self) as (scanner,):
            if self.heads is not None:
                scanner.grid().select(self.heads)
            yield scanner

    def note(
        self, scanner: Scanner, signature: Signature, encoded: EncodedInput | None = None
    ) -> None:
        """Say how inputs were read; of a single one, `encoded`, also what was lost when it was tokenized."""
        length = None if encoded is None else scanner.loaded.limit
        note_inputs([signature], bad=self.pairs.bad, length=length, dtype=self.options.dtype)
        if encoded is not None:
            from attnscan.inputs.encode import notes_of

            for line in notes_of(scanner.loaded.tokenizer, [encoded]):
                note(line)


def check_names(function: str, options: Mapping[str, Any]) -> None:
    """Raises: TypeError, as Python does, for an option that a function does not take."""
    names = (*SCAN[function], *READING, *SHARED)
    for name in options:
        if name not in names:
            hint = nearest(name, names, f"its options are {', '.join(names)}")
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}': {hint}")


def split_kinds(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Make options for each kind of an encoder-decoder's attention if all are read, else return these alone."""
    if options.get("attention") != "all":
        return [dict(options)]
    not_for = {
        "encoder": ("query", "alignments", "max_target_tokens"),
        "decoder": ("query", "alignments"),
        "cross": (),
    }
    return [
        {name: value for name, value in options.items() if name not in not_for[kind]}
        | {"attention": kind}
        for kind in KINDS
    ]


def file_to_write(path: File | None) -> Path | None:
    """A file that the call writes in the end. Raises: OutputError if it cannot be written."""
    if path is None:
        return None
    check_writable(place := local_path(os.fspath(path)))
    return place


def parse_window(window: Sequence[int] | str | None) -> tuple[int, int] | None:
    """The first and the last index, if they are given. Raises: OptionError for another text."""
    if window is None:
        return None
    ends: list[Any] = list(window.split("-") if isinstance(window, str) else window)
    if (
        len(ends) != 2
        or not all(str(end).isdecimal() for end in ends)
        or int(ends[0]) > int(ends[1])
    ):
        raise OptionError(
            f"{window!r:.60} is not a window",
            "give the first and the last index, as 10-40 or (10, 40)",
        )
    return int(ends[0]), int(ends[1])


@contextmanager
def open_models(*calls: LibraryCall) -> Iterator[list[Scanner]]:
    """The models of some calls made ready, all found before the first is loaded and torch is imported.

    Raises: ModelError, DeviceError if a model cannot be loaded on the device; OptionError for anything but a model.
    """
    step, scanners = calls[0].pairs.counted_by(progress_of(calls[0].progress)), list[Any]()
    sources = [_find_source(call, step) for call in calls]
    with ExitStack() as stack:
        for call, source in zip(calls, sources, strict=True):
            if isinstance(call.model, NAMED):
                step(f"loading {source.name}", None, None)
            else:
                stack.enter_context(source.in_use)
            import torch

            from attnscan.scan.scanner import open_scanner

            scanners.append(stack.enter_context(open_scanner(call.options, source, step)))
            warn(
                "" if source is call.model else scanners[-1].loaded.note
            )  # a loaded model's was given by `load`
            # in the format of the model's weights, whatever the caller's autocast asks of its own runs
            stack.enter_context(torch.autocast(scanners[-1].loaded.device.type, enabled=False))
        yield scanners


def _find_source(call: LibraryCall, step: OnProgress) -> Any:
    """Find the source of a named model; a model in memory, or one that `load` returned, is taken as it is now."""
    if isinstance(call.model, NAMED):
        if call.tokenizer is not None:
            raise OptionError("a named model has its own tokenizer", "leave tokenizer out")
        from attnscan.model.sources import choose

        step("looking for a model", None, None)
        source = choose(call.options.model)
        note(source.note)
        return source
    from attnscan.model.in_memory import adopt, wrap
    from attnscan.model.loading import LoadedModel

    options, is_loaded = call.options, isinstance(call.model, LoadedModel)
    languages = options.source_language, options.target_language
    if is_loaded and (call.tokenizer is not None or any(languages)):
        raise OptionError(
            "a loaded model keeps its own tokenizer and languages", "give them to load()"
        )
    if options.device != "auto" or options.dtype != "auto":
        raise OptionError(
            "a model that is in memory keeps its own device and dtype",
            "give them to load()" if is_loaded else "leave them out, and use model.to(...) before",
        )
    if not is_loaded:
        return adopt(call.model, call.tokenizer, options.attention, languages)
    loaded = call.model
    return (
        loaded
        if loaded.original is None
        else wrap(loaded.original, loaded.tokenizer, options.attention)
    )

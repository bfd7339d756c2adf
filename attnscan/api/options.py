"""The options of the library's functions: what each takes by name, with its type and default.

An option is declared once. What decides a scan is a field of `ScanOptions`, how files are read one
of `FileReading`; other options are annotated parameters of the function that takes them. The groups
below name the shared options and their types, so that an editor completes them. From these
`library_function` makes the signature that `help` shows, and `options_of` what the command line,
the checks and the docs read.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, signature
from pathlib import Path
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypedDict,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from attnscan.api.pairs_input import Links
from attnscan.errors import OptionError, check_known, nearest
from attnscan.inputs.option import Declared, Option, check_option, declared
from attnscan.inputs.records import FileReading, OnBad, Quoting
from attnscan.inputs.sentence import QuerySide, Unit, Words
from attnscan.model.sources import Device, Dtype
from attnscan.results.files import check_writable, local_path
from attnscan.results.grid import AttentionName, attention_named
from attnscan.results.signature import By, Special
from attnscan.scan.options import Engine, OnLong, OnProgress, Predictive, ScanOptions
from attnscan.scoring.cross import cross_patterns
from attnscan.scoring.patterns import (
    CAUSAL_PATTERNS,
    PATTERNS,
    Pattern,
    PatternLike,
    pattern_list,
    with_own,
)

File = str | os.PathLike[str]
Patterns = PatternLike | Iterable[PatternLike]
AnyAttentionName = Literal["encoder", "decoder", "cross", "all"]
KINDS: tuple[AttentionName, ...] = get_args(AttentionName)

ATTENTION = Option(
    "Which attention of an encoder-decoder to read; B is the target, else the model writes one. "
    "[default: encoder, or by the letter of heads]"
)
DEVICE = declared(ScanOptions)["device"].option
SOURCE_LANGUAGE = declared(ScanOptions)["source_language"].option
SENTENCE_A = Option("Sentence A.", metavar="A", is_argument=True)
SENTENCE_B = Option("Sentence B.", metavar="B", is_argument=True)
HEADS = Option(
    "One head or several: 2-0, 2-0,6-11, layer:2 or all.",
    metavar="HEADS",
    is_argument=True,
    is_required=True,
)
PAIRS = Option(
    "Read pairs: CSV, TSV, JSON, Parquet, Arrow, Excel; - is stdin, random draws words. "
    "May repeat.",
    metavar="FILE",
    repeats=True,
)
PATTERN = Option(
    "Only this pattern, by name or letter, or your own FILE.py:FUNCTION. May repeat.",
    metavar="PATTERN",
    short="-p",
    repeats=True,
)
HELD = Option("Say what heads do on this second file of pairs, too.", metavar="FILE", repeats=True)
WEIGHTS = Option("Read saved attention weights in place of a model's.", metavar="FILE.npz")
STATE = Option("Save progress here, and resume from it.", metavar="FILE")
TREEBANK = Option(
    "Read sentences with trees, in CoNLL-U. May repeat.", metavar="FILE.conllu", repeats=True
)
TOKEN = Option("One query token: its text, its index, or store#2 for the second one.", metavar="T")
WINDOW = Option("Only tokens I to J.", metavar="I-J")


class ProgressOptions(TypedDict, total=False):
    """Of every function that computes."""

    progress: OnProgress | None


class ModelOptions(ProgressOptions, total=False):
    """Of functions that run one model."""

    model: Any
    tokenizer: Any


class SkipOptions(TypedDict, total=False):
    """What happens to bad records."""

    skip_bad: Annotated[bool, Option("Report and count bad records instead of stopping.")]
    on_bad: OnBad | None


class ReadingOptions(SkipOptions, total=False):
    """How files of pairs are read."""

    columns: str | int | Sequence[str | int] | None
    header: bool | None
    quoting: Quoting
    encoding: str | None


class GroupedReadingOptions(ReadingOptions, total=False):
    """How files of pairs are read, and which pairs belong together."""

    group: str | int | None


class RunOptions(ProgressOptions, total=False):
    """How a model is run."""

    on_long: OnLong | None
    source_language: str | None
    device: Device
    dtype: Dtype
    batch_tokens: int | None


class SeedOptions(TypedDict, total=False):
    """What is drawn at random."""

    seed: int


class ViewOptions(TypedDict, total=False):
    """By what attention is read."""

    by: By | None
    special: Special | None


class UnitOptions(TypedDict, total=False):
    """What is scored as a unit."""

    unit: Unit
    words: Words


class LabelOptions(TypedDict, total=False):
    """When a head has a label."""

    threshold: float


class TargetOptions(TypedDict, total=False):
    """Of encoder-decoders: what is read beside the source."""

    query: QuerySide
    alignments: Annotated[
        Links,
        Option("Gold alignments of the pairs' words: 0-0 1-2, a line a pair.", metavar="FILE"),
    ]
    max_target_tokens: int
    target_language: str | None


class PatternOptions(RunOptions, SeedOptions, TargetOptions, total=False):
    """Of functions that score patterns."""

    related: bool


class AttentionOptions(TypedDict, total=False):
    """Which attention of an encoder-decoder is read."""

    attention: Annotated[AttentionName | None, ATTENTION]


class AllAttentionOptions(TypedDict, total=False):
    """Which attention of an encoder-decoder is read, or all kinds."""

    attention: Annotated[AnyAttentionName | None, ATTENTION]


class PredictiveOptions(TypedDict, total=False):
    """How predictive words are found."""

    predictive: Predictive


class PredictiveWordOptions(PredictiveOptions, total=False):
    """How predictive words are found, and of how many words."""

    predictive_words: int | None


class PredictivePairOptions(PredictiveWordOptions, total=False):
    """How predictive words are found, and of how many words and pairs."""

    predictive_pairs: int | None


class SplitOptions(TypedDict, total=False):
    """Whether heads are ranked and scored by the same pairs."""

    split: bool


class EngineOptions(TypedDict, total=False):
    """On which machines a scan runs."""

    engine: Engine
    ray_address: str | None
    ray_workers: int | None


class LabelledOptions(
    PatternOptions, ModelOptions, ViewOptions, UnitOptions, LabelOptions, total=False
):
    """Of functions that label heads."""


class ClassifyOptions(LabelledOptions, PredictiveWordOptions, ReadingOptions, total=False):
    """Options of `classify`."""


class ShardOptions(
    LabelledOptions,
    PredictivePairOptions,
    GroupedReadingOptions,
    AttentionOptions,
    SplitOptions,
    total=False,
):
    """Options of `shard`."""


class HeadsOptions(
    LabelledOptions,
    PredictivePairOptions,
    GroupedReadingOptions,
    SplitOptions,
    EngineOptions,
    total=False,
):
    """Options of `heads`."""


class HeadOptions(
    LabelledOptions, PredictivePairOptions, GroupedReadingOptions, AttentionOptions, total=False
):
    """Options of `head`."""


class PlotOptions(
    LabelledOptions, PredictivePairOptions, GroupedReadingOptions, AttentionOptions, total=False
):
    """Options of `plot`."""


class ReportOptions(
    LabelledOptions, PredictivePairOptions, GroupedReadingOptions, AllAttentionOptions, total=False
):
    """Options of `report`."""


class ServeOptions(LabelledOptions, PredictivePairOptions, AllAttentionOptions, total=False):
    """Options of `serve`."""


class ProfileOptions(
    PatternOptions,
    ModelOptions,
    ViewOptions,
    UnitOptions,
    ReadingOptions,
    AttentionOptions,
    EngineOptions,
    total=False,
):
    """Options of `profile`."""


class ShowOptions(
    PatternOptions,
    ModelOptions,
    ViewOptions,
    LabelOptions,
    AttentionOptions,
    PredictiveOptions,
    total=False,
):
    """Options of `show`."""


class ExplainOptions(
    PatternOptions,
    ModelOptions,
    GroupedReadingOptions,
    AttentionOptions,
    PredictiveOptions,
    total=False,
):
    """Options of `explain`."""


class DependenciesOptions(
    RunOptions, ModelOptions, UnitOptions, PredictiveWordOptions, total=False
):
    """Options of `predictive`."""


class AblateOptions(
    LabelledOptions, ReadingOptions, AttentionOptions, PredictiveOptions, total=False
):
    """Options of `ablate`."""


class SimilarOptions(
    PatternOptions,
    ModelOptions,
    ViewOptions,
    LabelOptions,
    GroupedReadingOptions,
    AttentionOptions,
    total=False,
):
    """Options of `similar`."""


class CompareOptions(
    PatternOptions,
    ViewOptions,
    UnitOptions,
    LabelOptions,
    GroupedReadingOptions,
    AttentionOptions,
    total=False,
):
    """Options of `compare`, which names its models itself."""


class SyntaxOptions(
    RunOptions, ModelOptions, ViewOptions, SeedOptions, SkipOptions, EngineOptions, total=False
):
    """Options of `syntax`."""


READING_NAMES = ("columns", "header", "quoting", "encoding", "group", "skip_bad")
"""Options that say how files of pairs are read."""
_DECLARED: Mapping[str, Declared] = {**declared(FileReading), **declared(ScanOptions)}
_SCAN_NAMES = frozenset(declared(ScanOptions)) - {"model"}
_DEPENDENT = {"on_long": None, "attention": None}
"""Options whose defaults depend on other arguments: on how many inputs there are, and on heads."""


@dataclass(frozen=True)
class FunctionOptions:
    """What a function of the library takes."""

    function: str
    names: tuple[str, ...]
    declared: Mapping[str, Declared]
    """All that a user can set, its own parameters among them; those of programs alone are not."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults that differ from those of other functions."""

    def check_names(self, options: Mapping[str, Any]) -> None:
        """Raises: TypeError, as Python does, for an option that the function does not take."""
        for name in options:
            if name not in self.names:
                listed = f"its options are {', '.join(self.names)}"
                hint = nearest(name, self.names, listed)
                raise TypeError(
                    f"{self.function}() got an unexpected keyword argument '{name}': {hint}"
                )

    def check_values(self, **values: Any) -> None:
        """Raises: OptionError for a value that a parameter of the function's own does not take."""
        for name, value in values.items():
            check_option(name, value, self.declared[name])


_FUNCTIONS: dict[str, FunctionOptions] = {}
F = TypeVar("F", bound=Callable[..., Any])


def library_function(**defaults: Any) -> Callable[[F], F]:
    """Give a function the signature of all that it takes; `defaults` are those that are its own.

    Its own parameters that a user can set are annotated with their `Option`, and its `**options`
    with a group of options.
    """

    def declare(function: F) -> F:
        written = signature(function)
        parameters = dict(written.parameters)
        group = parameters.pop("options", None)
        own = [_own_parameter(parameter, function) for parameter in parameters.values()]
        shared = [] if group is None else _group_parameters(_group_of(group, function), defaults)
        takes = [*own, *shared]
        _FUNCTIONS[function.__name__] = FunctionOptions(
            function=function.__name__,
            names=tuple(parameter.name for parameter, _ in takes),
            declared={parameter.name: option for parameter, option in takes if option is not None},
            defaults=defaults,
        )
        parameters_shown = [parameter for parameter, _ in takes]
        function.__signature__ = written.replace(parameters=parameters_shown)  # type: ignore[attr-defined]
        return function

    return declare


def options_of(function: str) -> FunctionOptions:
    """What a function of the library takes, once the module that defines it is imported."""
    return _FUNCTIONS[function]


_Taken = tuple[Parameter, Declared | None]
"""A parameter as `help` shows it, and what it declares if a user can set it."""


def _own_parameter(parameter: Parameter, function: Callable[..., Any]) -> _Taken:
    """A parameter that a function writes itself."""
    shown, kind, option = _read_annotation(parameter.annotation, function.__globals__)
    declaration = None if option is None else Declared(kind, parameter.default, option)
    return parameter.replace(annotation=shown), declaration


def _read_annotation(text: str, namespace: dict[str, Any]) -> tuple[Any, Any, Option | None]:
    """The type that `help` shows, the type itself, and the `Option` that an annotation declares.

    Words, numbers and flags are shown as they are; other types by the name that attnscan gives
    them, such as `Heads`.
    """
    option = None
    tree = ast.parse(text, mode="eval").body
    if isinstance(tree, ast.Subscript) and ast.unparse(tree.value) == "Annotated":
        assert isinstance(tree.slice, ast.Tuple)
        text, option_text = map(ast.unparse, tree.slice.elts)
        option = eval(option_text, namespace)
    try:
        kind = eval(text, namespace)
    except NameError:  # it names what is imported for type checkers alone
        return text, Any, option
    return kind if _is_plain(kind) else text, kind, option


def _is_plain(kind: Any) -> bool:
    """Whether a type consists of words, numbers or flags."""
    parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    plain = (Any, bool, int, float, str, type(None))
    return all(part in plain or get_origin(part) is Literal for part in parts)


def _group_of(parameter: Parameter, function: Callable[..., Any]) -> Any:
    """The group that a function's `**options: Unpack[...]` name."""
    (group,) = get_args(eval(parameter.annotation, function.__globals__))
    return group


def _group_parameters(group: Any, defaults: Mapping[str, Any]) -> list[_Taken]:
    """The options of a group, as parameters that are given by name."""
    parameters = []
    for name in sorted(group.__annotations__, key=_place):
        annotation = group.__annotations__[name]
        text = getattr(annotation, "__forward_arg__", annotation)
        shown, kind, option = _read_annotation(text, globals())
        default = False if kind is bool else None
        if name in _DECLARED:
            option = option or _DECLARED[name].option
            default = _DEPENDENT.get(name, _DECLARED[name].default)
        default = defaults.get(name, default)
        parameter = Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=shown)
        declaration = None if option is None else Declared(kind, default, option)
        parameters.append((parameter, declaration))
    return parameters


def _place(name: str) -> tuple[int, str]:
    """Where an option stands among others: the model first, then what decides a scan."""
    order = ["model", "tokenizer", *declared(ScanOptions), *declared(FileReading)]
    return (order.index(name) if name in order else len(order), name)


def scan_options(
    function: str,
    options: Mapping[str, Any],
    *,
    many: bool,
    heads: str | None = None,
    pattern: Patterns = (),
    **decided: Any,
) -> tuple[list[str], ScanOptions]:
    """Check the options of a scan; return the names of patterns that were asked for with them.

    The attention that is read is the one asked for, else that of the letters of `heads`. `many`
    inputs are cut where they are too long, and a single one is refused. `decided` are options that
    callers do not give.

    Raises: OptionError for an unknown value; SelectionError for heads of another attention.
    """
    taken = options_of(function)
    chosen = dict(taken.defaults)
    for name in _SCAN_NAMES & options.keys():
        if options[name] is not None:
            chosen[name] = options[name]
    check_known("attention", chosen.get("attention", "encoder"), KINDS)
    attention = attention_named(heads or "", chosen.get("attention"))
    chosen["attention"] = attention
    alignments = options.get("alignments")
    if alignments is not None and attention != "cross":
        raise OptionError(
            "--alignments is for cross attention", "add --attention cross, or leave it out"
        )
    chosen.setdefault("on_long", "truncate" if many else "error")
    if chosen["on_long"] == "skip" and not many:
        raise OptionError("--on-long skip is for many pairs", "give truncate or error")
    model = options.get("model")
    names, patterns = _patterns(pattern, attention, aligned=alignments is not None)
    chosen = {"patterns": patterns, **chosen, "model": model_name(model), **decided}
    return names, ScanOptions(**chosen)


def _patterns(
    pattern: Patterns, attention: AttentionName, *, aligned: bool
) -> tuple[list[str], tuple[Pattern, ...]]:
    """The names of patterns that were asked for, and all patterns to score."""
    wanted = pattern_list(pattern)
    if attention == "cross":
        return with_own(wanted, cross_patterns(wanted, aligned=aligned), ())
    return with_own(wanted, PATTERNS, CAUSAL_PATTERNS)


def model_name(model: Any) -> str | None:
    """What names a model, if it is not in memory."""
    return os.fspath(model) if isinstance(model, str | os.PathLike) else None


def split_kinds(options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Make options for each kind of attention if all are read, else return these alone."""
    if options.get("attention") != "all":
        return [dict(options)]
    not_for = {
        "encoder": ("query", "alignments", "max_target_tokens"),
        "decoder": ("query", "alignments"),
        "cross": (),
    }
    kinds = []
    for kind in KINDS:
        kind_options = {name: options[name] for name in options if name not in not_for[kind]}
        kinds.append(kind_options | {"attention": kind})
    return kinds


def file_to_write(path: File | None) -> Path | None:
    """A file that the call writes in the end. Raises: OutputError if it cannot be written."""
    if path is None:
        return None
    place = local_path(os.fspath(path))
    check_writable(place)
    return place


def parse_window(window: Sequence[int] | str | None) -> tuple[int, int] | None:
    """The first and the last index, if they are given. Raises: OptionError for another text."""
    if window is None:
        return None
    ends: list[Any] = list(window.split("-") if isinstance(window, str) else window)
    if len(ends) == 2 and all(str(end).isdecimal() for end in ends):
        first, last = map(int, ends)
        if first <= last:
            return first, last
    raise OptionError(
        f"{window!r:.60} is not a window", "give the first and the last index, as 10-40 or (10, 40)"
    )

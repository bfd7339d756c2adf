"""What the functions of the library take by name: groups of typed options, composed.

A group names options and their types, so that an editor completes them. What an option is, its
default, bounds and help, is declared once: as a field of `ScanOptions` or `FileReading`, else as
an `Option` here, or at the parameter of the function that takes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypedDict

from attnscan.api.pairs_input import Links
from attnscan.inputs.option import Option, declared
from attnscan.inputs.records import OnBad, Quoting
from attnscan.inputs.sentence import QuerySide, Unit, Words
from attnscan.model.sources import Device, Dtype
from attnscan.results.grid import AttentionName
from attnscan.results.signature import By, Special
from attnscan.scan.options import Engine, OnLong, OnProgress, Predictive, ScanOptions
from attnscan.scoring.patterns import PatternLike

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

File = str | os.PathLike[str]
Weights: TypeAlias = "str | os.PathLike[str] | Mapping[str, ArrayLike] | Sequence[Any]"
"""A file `.npz` with attention weights, or the arrays that it would hold."""
Patterns = PatternLike | Iterable[PatternLike]
AnyAttentionName = Literal["encoder", "decoder", "cross", "all"]

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
PAIRS_TO_LINK = Option(
    "Write the links of these pairs (--format pharaoh).", metavar="FILE", repeats=True
)
VOTE = Option("Of several heads: the links that more than half of them make.")
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
LINKS = Option(
    "Read sentences with links of your own, as JSON lines. May repeat.",
    metavar="FILE.jsonl",
    repeats=True,
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


class WriteOptions(TypedDict, total=False):
    """Whether the model writes sentence B."""

    write: int | None


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


class ClassifyOptions(
    LabelledOptions, PredictiveWordOptions, ReadingOptions, WriteOptions, total=False
):
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
    LabelledOptions,
    PredictivePairOptions,
    GroupedReadingOptions,
    AllAttentionOptions,
    WriteOptions,
    total=False,
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
    ReadingOptions,
    AttentionOptions,
    PredictiveOptions,
    WriteOptions,
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


class TraceOptions(
    PatternOptions,
    ViewOptions,
    UnitOptions,
    LabelOptions,
    PredictivePairOptions,
    GroupedReadingOptions,
    AttentionOptions,
    EngineOptions,
    total=False,
):
    """Options of `trace`, which names its models itself."""


class SyntaxOptions(
    RunOptions, ModelOptions, ViewOptions, SeedOptions, SkipOptions, EngineOptions, total=False
):
    """Options of `syntax`."""


READING_NAMES = ("columns", "header", "quoting", "encoding", "group", "skip_bad")
"""Options that say how files of pairs are read."""

"""What can be run: frozen requests, built alike by the library, the command line and the server. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from attnscan.errors import OptionError
from attnscan.results.terms import QUERIES, WITHIN, AttentionName, Match
from attnscan.run.reading import Pairs
from attnscan.scan.options import AblationRequest, ScanOptions

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from attnscan.inputs.sentence import Pair
    from attnscan.results.head_weights import Selection
    from attnscan.scan.state import ScanState


@dataclass(frozen=True)
class InMemory:
    """A model that a program holds, which is then not named by options."""

    model: Any
    """What `load` returned, or a model of transformers."""
    tokenizer: Any = None
    """Of a model of transformers."""


@dataclass(frozen=True)
class WeightsInput:
    """Saved attention weights: a file `.npz`, or the arrays that it would hold."""

    weights: Path | Mapping[str, ArrayLike]
    name: str
    """Stands for the model in results."""


class Request:
    """What can be run."""


@dataclass(frozen=True)
class OfPairs(Request):
    """What reads pairs, and runs a model on them."""

    pairs: Pairs
    options: ScanOptions
    memory: InMemory | None = None


@dataclass(frozen=True)
class Classify(Request):
    """What every head does on one input: a `Classification`."""

    input: Pair | WeightsInput
    options: ScanOptions
    memory: InMemory | None = None
    keep: bool | Selection = False
    """Whether the result carries the attention, or which part of it."""

    @property
    def beside(self) -> list[Classify]:
        """Where the decoder's or cross attention is read, the same by the others; the encoder's is of the source."""
        from attnscan.scoring.cross import patterns_of

        if self.options.attention == "encoder" or isinstance(self.input, WeightsInput):
            return []
        requests: list[Classify] = []
        for kind in get_args(AttentionName):
            options = replace(self.options, attention=kind, query="predicts", patterns=patterns_of(kind))
            requests.append(
                replace(self, options=options, input=self.input.source if kind == "encoder" else self.input)
            )
        return [request for request in requests if request.options.attention != self.options.attention]


@dataclass(frozen=True)
class ClassifyEach(OfPairs):
    """What every head does on each of several inputs: an `Answer` each, and in the end the signature of all."""

    keep: bool = False


@dataclass(frozen=True)
class Predictive(Request):
    """Which words of one input help to predict which: `Dependencies`."""

    pair: Pair
    options: ScanOptions
    memory: InMemory | None = None


@dataclass(frozen=True)
class Rank(OfPairs):
    """Every head's scores over many pairs and, by options, labels: a `Ranking`."""

    state: Path | None = None
    """Keeps the sums, and is gone on from if it is there."""
    per_pair: Path | None = None
    """Takes every pair's own scores."""
    pair_scores: bool = False
    """Whether every pair's own scores are told."""

    def __post_init__(self) -> None:
        """Raises: OptionError for what contradicts each other."""
        if self.per_pair is not None and self.state is not None:
            raise OptionError("per_pair cannot resume from a state", "leave one of them out")


@dataclass(frozen=True)
class Explain(Request):
    """How heads make their patterns, by one input or by many pairs: `Explanations`."""

    input: Pair | Pairs
    options: ScanOptions
    memory: InMemory | None = None
    heads: str = "all"
    pattern: str | None = None
    """What is explained; None for each head's own label."""
    token: str | None = None
    """Of one input, the query that is asked about."""

    @property
    def pairs(self) -> Pairs | None:
        """Those that are read, if there are many."""
        from attnscan.inputs.sentence import Pair

        return None if isinstance(self.input, Pair) else self.input


@dataclass(frozen=True)
class Ablate(OfPairs):
    """What a model loses without some heads: an `Ablation`."""

    sets: AblationRequest = field(default_factory=AblationRequest)


@dataclass(frozen=True)
class LookAt(OfPairs):
    """Everything about some heads over many pairs: `Cards`."""

    heads: str = "all"
    ablate: bool = False
    """Whether each head is switched off, too."""
    treebank: Pairs | None = None
    """Sentences with trees that each head is held against, too."""


@dataclass(frozen=True)
class Similar(OfPairs):
    """Which heads attend alike: a `Similarity`."""

    queries: int = QUERIES
    within: float = WITHIN
    heads: str | None = None
    """Those that will be shown, which must be there; the result has all."""


@dataclass(frozen=True)
class HoldAgainst(OfPairs):
    """Which heads follow which relations of a treebank, whose sentences are the pairs: a `Syntax`."""

    held: Pairs | None = None
    """A second treebank."""
    relation: str | None = None
    """What will be shown, which must be there; the result has all."""
    subtypes: bool = False
    """Whether `nsubj:pass` is a relation of its own, beside `nsubj`."""
    state: Path | None = None
    """Keeps the sums of the first treebank, and is gone on from if it is there."""


@dataclass(frozen=True)
class ReadTrees(OfPairs):
    """Some sentences of a treebank with trees and attention, beside what heads follow in all: `TreesRead`."""

    numbers: tuple[int, ...] = ()
    """Which sentences, from 1; the first few if none is named."""


@dataclass(frozen=True)
class Compare(Request):
    """What sets the heads of two models apart: a `Comparison`."""

    pairs: Pairs
    options: tuple[ScanOptions, ScanOptions]
    """Which differ in the model alone."""
    memory: tuple[InMemory | None, InMemory | None] = (None, None)
    match: Match = "place"
    heads: str | None = None
    """Those of the first model that will be shown, which must be there; the result has all."""


@dataclass(frozen=True)
class Examine(Request):
    """What a checkpoint is, and what can be scored in it: a `Checkpoint`."""

    options: ScanOptions


@dataclass(frozen=True)
class Load(Request):
    """A model for later runs: a `LoadedModel`."""

    options: ScanOptions
    memory: InMemory | None = None


@dataclass(frozen=True)
class MakeShard(OfPairs):
    """What some pairs add to a ranking: a `ScanState`."""


@dataclass(frozen=True)
class FinishShard(Request):
    """The ranking of the pairs of a shard, for which its model is asked for `predictive`: a `Ranking`."""

    shard: ScanState
    options: ScanOptions
    memory: InMemory | None = None

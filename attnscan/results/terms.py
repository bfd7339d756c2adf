"""The terms of every result: heads and their names, readings, the signature; and words and defaults of options.

No numpy, and pandas and scipy are imported when first used, so that the command line starts quickly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from functools import cached_property
from importlib import import_module
from numbers import Integral
from operator import index
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from attnscan.errors import SelectionError
from attnscan.text import counted, plain


class _Later:
    """A library that is imported when something of it is first used, since its import takes long."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


if TYPE_CHECKING:
    import pandas
    import scipy as scipy

    pd = pandas
else:
    pd, scipy = _Later("pandas"), _Later("scipy")

HelpMeasure = Literal["cpmi", "distance"]
"""How much a word helps to predict another: by the masked-LM head, or by how far the last hidden state moves."""
AttentionName = Literal["encoder", "decoder", "cross"]
"""Which attention of an encoder-decoder is read; that of other models is called an encoder's."""
Picture = Literal["png", "svg", "pdf"]
"""Formats of pictures."""
Side = Literal["A", "B"]
"""Which sentence of a pair."""
Replacement = Literal["zero", "mean"]
"""What takes the place of a switched-off head's output: nothing, or its mean over the words of the measured pairs."""
Match = Literal["place", "nearest"]
"""Which heads of two models belong together: those of one place, or those that attend most alike."""


DELIMITER = "delimiter"  # the pattern whose targets are special tokens
RESTING = (DELIMITER, "first-token")
"""Patterns that are scored over all keys by every reading. A head with more than half of its attention on one rests."""
THRESHOLD = 0.25  # a head whose best pattern is less far above chance than this follows none
N_CONTROL_SETS = (
    20  # with how many sets of other heads, at most, a set that is switched off is compared
)
SHUFFLES = 8  # how often the words' positions are shuffled
MEASURES = ("masked-lm", "next-sentence", "classifier", "cls")  # ways to see what an encoder loses
TARGET_MEASURE = "target"  # the way to see what a model loses that writes a target
QUERIES = 16  # words of an input whose attention is compared between heads
MAX_DIVERGENCE = 0.1  # in nats: heads of one group are on average no farther apart than this
MIN_ON_WORDS = 1e-6  # of a query's weight, on words: with less it has no row among words
PICTURE_WIDTH = 3.3  # inches, as wide as a journal's column: the width of pictures
MIN_DIFFERENCE = 0.02  # the least difference between two models' scores that is said to survive, unless another is asked for


@dataclass(frozen=True)
class Scored:
    """A pattern that heads were scored for, and how it takes part in labels."""

    id: str
    part_of: str | None = None  # the wider pattern that this is a part of
    excludes_self: bool = False  # whether a head that looks at the word itself alone does not follow it


class AttentionKind(IntEnum):
    """Kinds of attention; `ONLY` is that of a model which has a single kind."""

    ONLY = 0
    ENCODER = 1
    DECODER = 2
    CROSS = 3

    @property
    def letter(self) -> str:
        """What the names of its heads begin with: `e`, `d` or `c`; nothing for the only kind."""
        return "" if self is AttentionKind.ONLY else self.name[0].lower()

    @property
    def word(self) -> AttentionName:
        """Its name in tables: `encoder`, `decoder` or `cross`; the only kind is called `encoder`, too."""
        return _ATTENTION_NAMES[self.letter]


_ATTENTION_NAMES: dict[str, AttentionName] = {"": "encoder", "e": "encoder", "d": "decoder", "c": "cross"}


@dataclass(frozen=True, order=True, repr=False)
class Head:
    """One head of a model. Heads are ordered as they are counted."""

    kind: AttentionKind = field(default=AttentionKind.ONLY, kw_only=True)
    layer: (
        int  # the number of its layer in the model, from 0 on; other layers may have no attention
    )
    head: int  # its own number in the layer, from 0 on
    row: int = field(
        default=-1, kw_only=True, compare=False
    )  # where its layer stands in arrays; usually its number

    def __post_init__(self) -> None:
        if self.row < 0:
            object.__setattr__(self, "row", self.layer)

    @property
    def name(self) -> str:
        """As users name it: `2-0` is layer 2, head 0; `c1-3` is a head of cross attention."""
        return f"{self.kind.letter}{self.layer}-{self.head}"

    @property
    def table_name(self) -> str:
        """As tables name it, since a spreadsheet makes a date of `1-8`: `L2H0`, and `cL1H3` of cross attention."""
        return f"{self.kind.letter}L{self.layer}H{self.head}"

    @property
    def columns(self) -> dict[str, Any]:
        """Its `layer` and `head` in tables; before them its `kind`, if it is of another attention than an encoder's."""
        kind = {} if self.kind is AttentionKind.ONLY else {"kind": self.kind.word}
        return {**kind, "layer": self.layer, "head": self.head}

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands in arrays [layer, head, ...]."""
        return self.row, self.head

    def __repr__(self) -> str:
        return f"Head({self.name})"


HeadLike = Head | tuple[int, int] | str
Heads = HeadLike | Sequence[HeadLike]
"""Heads as callers name them: `"2-0,6-11"`, `"layer:2"`, `"all"`, (layer, head), or several of these."""


@dataclass(frozen=True)
class Grid:
    """The heads of a model, in order: iterate over it, or index it by a head's number, counted from 0."""

    shape: tuple[int, ...]  # how many layers have attention, and how many heads each
    kind: AttentionKind = AttentionKind.ONLY
    layers: tuple[int, ...] = ()  # the numbers of the layers that have attention; empty if all have

    def __post_init__(self) -> None:
        if self.layers == tuple(range(len(self.layers))):
            object.__setattr__(self, "layers", ())

    @property
    def numbers(self) -> Sequence[int]:
        """The number that each layer has in the model."""
        return self.layers or range(self.shape[0])

    @cached_property
    def _heads(self) -> tuple[Head, ...]:
        rows = enumerate(self.numbers)
        return tuple(
            Head(n, head, kind=self.kind, row=row)
            for row, n in rows
            for head in range(self.shape[1])
        )

    def __str__(self) -> str:
        kind = "" if self.kind is AttentionKind.ONLY else f"{self.kind.word} "
        return f"{kind}{self.shape[0]} × {self.shape[1]}"

    def __len__(self) -> int:
        return self.shape[0] * self.shape[1]

    def __iter__(self) -> Iterator[Head]:
        return iter(self._heads)

    def __getitem__(self, number: SupportsIndex) -> Head:
        return self._heads[index(number)]

    def index(self, head: Head) -> int:
        """A head's number. Raises: ValueError if the model has no such head."""
        return self._heads.index(head)

    def layer_of(self, head: Head) -> list[Head]:
        """All heads of a head's layer, itself included, in order."""
        return [peer for peer in self if peer.layer == head.layer]

    def columns(
        self, numbers: Iterable[SupportsIndex] | None = None, *, with_names: bool = False
    ) -> dict[str, Any]:
        """Some heads' columns, or all: `kind` if it is not the only one, `layer`, `head` and, `with_names`, `name`."""
        import numpy as np  # the command line reads heads' names before it has imported anything slow

        heads = self._heads if numbers is None else [self[number] for number in numbers]
        columns = {
            name: np.array([head.columns[name] for head in heads]) for name in self[0].columns
        }
        return columns | (
            {"name": np.array([head.table_name for head in heads])} if with_names else {}
        )

    def select(self, heads: Heads) -> list[Head]:
        """The heads that are named, in the order of their names, none twice. Raises: SelectionError."""
        selected: dict[Head, None] = {}
        for text, letter, layer, number in parse_heads(heads_written(heads)):
            if letter and _ATTENTION_NAMES[letter] != self.kind.word:
                missing = f"{text}: this model has no {_ATTENTION_NAMES[letter]} attention"
                raise SelectionError(missing, f"name heads as {self[0].name}")
            for axis, n, valid in (
                ("layer", layer, self.numbers),
                ("head", number, range(self.shape[1])),
            ):
                if n is not None and n not in valid:
                    listed = (
                        f"0 to {len(valid) - 1}"
                        if isinstance(valid, range)
                        else ", ".join(map(str, valid))
                    )
                    raise SelectionError(
                        f"{text}: this model has {axis}s {listed}", f"give a {axis} among these"
                    )
            matches = (
                head for head in self if layer in (None, head.layer) and number in (None, head.head)
            )
            selected |= dict.fromkeys(matches)
        return list(selected)

    def head(self, name: HeadLike) -> Head:
        """The single head that is named. Raises: SelectionError if there is none, or several are."""
        heads = self.select([name])
        if len(heads) > 1:
            raise SelectionError(
                f"{heads_written([name])} names {len(heads)} heads", "name one, as 2-0"
            )
        return heads[0]


_NAME = re.compile(r"all|layer:([edc]?)(\d{1,6})|([edc]?)[Ll]?(\d{1,6})[-.Hh](\d{1,6})")
_REMEDY = "name heads as 2-0, as 2-0,6-11, as layer:2 or as all"


def parse_heads(heads: str) -> list[tuple[str, str, int | None, int | None]]:
    """The parts of a text that names heads: text, letter, layer or None for all, and number or None for a whole layer.

    Raises: SelectionError if no model could have heads of such names.
    """
    parts = []
    for text in map(str.strip, heads.split(",")):
        if (match := _NAME.fullmatch(text)) is None:
            raise SelectionError(f"'{text}' names no head", _REMEDY)
        layer, number = (
            None if digits is None else int(digits) for digits in (match[2] or match[4], match[5])
        )
        parts.append((text, match[1] or match[3] or "", layer, number))
    return parts


def attention_named(heads: str, option: AttentionName | None = None) -> AttentionName:
    """Of which attention heads are: as asked, else by their letters. Raises: SelectionError for heads of two kinds."""
    texts: dict[AttentionName, str] = {}
    for text, letter, layer, _ in parse_heads(heads or "all"):
        if layer is not None and (letter or option is None):
            texts[_ATTENTION_NAMES[letter]] = text
    kinds = " and ".join(f"{text} is of {kind} attention" for kind, text in texts.items())
    if option is not None and texts.keys() - {option}:
        remedy = f"leave out --attention {option}, or name heads as {option[0]}1-0"
        raise SelectionError(f"{kinds}, and {option} attention was asked for", remedy)
    if len(texts) > 1:
        raise SelectionError(kinds, "name heads of one kind at a time")
    return next(iter(texts), option or "encoder")


def heads_written(heads: Any) -> str:
    """What callers name heads by, as one text. Raises: SelectionError if it is none of `Heads`."""
    if isinstance(heads, str | Head):
        return heads if isinstance(heads, str) else heads.name
    several = list(heads) if isinstance(heads, Iterable) else []
    if len(several) == 2 and all(isinstance(number, Integral) for number in several):
        return "-".join(map(str, several))
    if not several:
        raise SelectionError(f"{heads!r:.60} names no head", _REMEDY)
    return ",".join(map(heads_written, several))


By = Literal["weight", "carried"]
"""Attention weights, or what heads carry: weight times the norm of the transformed value, as a share of its row."""
Special = Literal["in", "out"]
"""Special tokens as keys, or removed: each row is then renormalised over words."""


@dataclass(frozen=True)
class AttentionView:
    """Which rows of a head are read: its attention weights or what it carries, with special tokens in or out."""

    by: By = "weight"
    special: Special = "out"

    @property
    def carried(self) -> bool:
        """Whether it is of what heads carry, and not of their weights."""
        return self.by == "carried"

    @property
    def words_only(self) -> bool:
        """Whether special tokens are removed, and rows renormalised over words."""
        return self.special == "out"

    def __str__(self) -> str:
        by = "by what heads carry" if self.carried else "by attention weight"
        return f"{by}, {'among words' if self.words_only else 'with special tokens'}"


IN_MEMORY = " (in memory)"  # the end of the name of a model that a program passed in, which no name can load
USUAL = AttentionView()  # how every command reads attention unless something else is asked
AS_THEY_ARE = AttentionView(
    "weight", "in"
)  # what `show` and the page's views show unless something else is asked


@dataclass(frozen=True)
class Signature:
    """Where a result comes from: what has to be equal for two results to be compared."""

    model: str  # as it was named
    revision: str | None  # the hub's commit of it
    attnscan: str
    torch: str
    transformers: str | None  # None for saved weights
    dtype: str
    device: str
    unit: str  # `token` or `word`
    pattern_set: str  # changes with a pattern's meaning; says of which attention it is, if not of an encoder's
    input_hash: str
    read_by: str  # how weights were read: `tap`, `watch` or `file`
    predictive: str  # how predictive words were found: `cpmi`, `distance` or `off`
    pairs_read: int = 0
    pairs_truncated: int = 0
    pairs_skipped: int = 0
    by: By = "weight"
    special: Special = "out"
    fingerprint: str | None = (
        None  # of weights, config, modules and tokenizer; not taken for one input
    )
    layers: tuple[
        int, ...
    ] = ()  # the numbers of the layers that have attention, where others have none

    @property
    def title(self) -> str:
        """The model's name for people: not the place where it lies, and of `bundled` what that is."""
        if self.model == "bundled":
            return "all-MiniLM-L6-v2"
        path = PurePath(self.model)
        return (
            path.name if path.name and (path.is_absolute() or self.model[0] in ".~") else self.model
        )

    @property
    def reading(self) -> AttentionView:
        """By what heads are scored, shown and drawn."""
        return AttentionView(self.by, self.special)

    @property
    def counts(self) -> str:
        """How many pairs were read, and of these cut and skipped, if any were."""
        cut = f", {self.pairs_truncated:,} cut" if self.pairs_truncated else ""
        skipped = f", {self.pairs_skipped:,} skipped" if self.pairs_skipped else ""
        return counted(self.pairs_read, "pair") + cut + skipped


def signed_frame(rows: Any, signature: Signature, **about: Any) -> pd.DataFrame:
    """A result's table of rows or columns, the model in front; `attrs` hold the signature and what it is `about`."""
    frame = pd.DataFrame(rows)
    frame.insert(0, "model", signature.model)
    frame.attrs |= {"signature": asdict(signature), **about}
    return frame


def described(result: Any, *details: str) -> str:
    """What `repr` says of a result, in place of whole arrays: its class, the model, how many pairs were read."""
    return plain(
        ", ".join(
            [
                f"{type(result).__name__} of {result.signature.model}",
                result.signature.counts,
                *details,
            ]
        )
    )

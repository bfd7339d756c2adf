"""The heads of a model: how many there are, their order and their names.

No other module does arithmetic on the numbers of layers and heads. Arrays are [layer, head, ...]; where heads stand in
a single row, they are counted layer by layer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from numbers import Integral
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex

from attnscan.errors import SelectionError

if TYPE_CHECKING:
    from attnscan.results.terms import AttentionName


class AttentionKind(IntEnum):
    """Kinds of attention."""

    ONLY = 0
    """That of a model which has a single kind."""
    ENCODER = 1
    DECODER = 2
    CROSS = 3

    @property
    def letter(self) -> str:
        """What the names of its heads begin with: `e`, `d` or `c`; nothing for the only kind."""
        return "" if self is AttentionKind.ONLY else self.name[0].lower()

    @property
    def word(self) -> str:
        """Its name in tables: `encoder`, `decoder` or `cross`; the only kind is called `encoder`, too."""
        return (AttentionKind.ENCODER if self is AttentionKind.ONLY else self).name.lower()


@dataclass(frozen=True, order=True, repr=False)
class Head:
    """One head of a model. Heads are ordered as they are counted."""

    kind: AttentionKind = field(default=AttentionKind.ONLY, kw_only=True)
    """Of which attention it is a head."""
    layer: int
    """The number of its layer in the model, from 0 on; other layers may have no attention."""
    head: int
    """Its own number in the layer, from 0 on."""
    row: int = field(default=-1, kw_only=True, compare=False)
    """Where its layer stands in arrays; the number of the layer, unless layers before it have no attention."""

    def __post_init__(self) -> None:
        if self.row < 0:
            object.__setattr__(self, "row", self.layer)

    @property
    def name(self) -> str:
        """As users name it: `2-0` is layer 2, head 0; `c1-3` is a head of cross attention.

        >>> Head(2, 0).name, Head(1, 3, kind=AttentionKind.CROSS).name
        ('2-0', 'c1-3')
        """
        return f"{self.kind.letter}{self.layer}-{self.head}"

    @property
    def table_name(self) -> str:
        """As tables name it, since a spreadsheet makes a date of `1-8`; `L3H4`, and of cross attention `cL1H3`.

        >>> Head(2, 0).table_name, Head(1, 3, kind=AttentionKind.CROSS).table_name
        ('L2H0', 'cL1H3')
        """
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

_KINDS: dict[str, AttentionName] = {"": "encoder", "e": "encoder", "d": "decoder", "c": "cross"}
_NAME = re.compile(r"layer:(?P<of>[edc]?)(?P<whole>\d{1,6})|(?P<letter>[edc]?)[Ll]?(?P<layer>\d{1,6})[-.Hh](\d{1,6})")


@dataclass(frozen=True)
class Grid:
    """The heads of a model, in order: iterate over it, or index it by a head's number, counted from 0."""

    shape: tuple[int, int]
    """How many layers have attention, and how many heads each."""
    kind: AttentionKind = AttentionKind.ONLY
    """Of which attention heads are."""
    layers: tuple[int, ...] = ()
    """The numbers of the layers that have attention; empty if all have."""

    def __post_init__(self) -> None:
        if self.layers == tuple(range(len(self.layers))):
            object.__setattr__(self, "layers", ())

    @classmethod
    def of(cls, values: Any, kind: AttentionKind = AttentionKind.ONLY, layers: Sequence[int] = ()) -> Grid:
        """The heads that an array is of, and the numbers of its layers. Shape: [layer, head, ...]."""
        layer_count, heads = values.shape[:2]
        return cls((layer_count, heads), kind, tuple(layers))

    @property
    def numbers(self) -> Sequence[int]:
        """The number that each layer has in the model."""
        return self.layers or range(self.shape[0])

    @cached_property
    def _heads(self) -> tuple[Head, ...]:
        rows = enumerate(self.numbers)
        return tuple(Head(n, head, kind=self.kind, row=row) for row, n in rows for head in range(self.shape[1]))

    def __str__(self) -> str:
        kind = "" if self.kind is AttentionKind.ONLY else f"{self.kind.word} "
        return f"{kind}{self.shape[0]} × {self.shape[1]}"

    def __len__(self) -> int:
        return self.shape[0] * self.shape[1]

    def __iter__(self) -> Iterator[Head]:
        return iter(self._heads)

    def __getitem__(self, number: SupportsIndex) -> Head:
        """The head of a number from 0 on. Raises: IndexError if there are not so many."""
        return self._heads[index(number)]

    def __contains__(self, head: Head) -> bool:
        return self.kind == head.kind and head.layer in self.numbers and 0 <= head.head < self.shape[1]

    def index(self, head: Head) -> int:
        """A head's number. Raises: ValueError if the model has no such head.

        >>> Grid((3, 2)).index(Head(2, 1)), Grid((3, 2))[5]
        (5, Head(2-1))
        """
        if head not in self:
            raise ValueError(f"no head {head.name} among {self}")
        return self.numbers.index(head.layer) * self.shape[1] + head.head

    def layer_of(self, head: Head) -> list[Head]:
        """All heads of a head's layer, itself included, in order."""
        return [other for other in self._heads if other.layer == head.layer]

    def columns(self, numbers: Iterable[SupportsIndex] | None = None) -> dict[str, Any]:
        """The columns `layer` and `head` of a table with a row for each of some heads, or for all in order.

        Before them the column `kind`, where heads are of another attention than an encoder's.
        """
        import numpy as np  # the command line reads heads' names before it has imported anything slow

        heads = self._heads if numbers is None else [self[number] for number in numbers]
        kind = {} if self.kind is AttentionKind.ONLY else {"kind": np.full(len(heads), self.kind.word)}
        places = np.array([(head.layer, head.head) for head in heads], dtype=np.int64).reshape(-1, 2)
        return {**kind, "layer": places[:, 0], "head": places[:, 1]}

    def select(self, heads: Heads) -> list[Head]:
        """The heads that are named, in the order of their names, none twice.

        Raises: SelectionError if no head is named, or one that the model does not have.

        >>> Grid((3, 2)).select("2-0,layer:1"), Grid((3, 2)).select("L2H1, 0.1")
        ([Head(2-0), Head(1-0), Head(1-1)], [Head(2-1), Head(0-1)])
        """
        selected: list[Head] = []
        for name in map(str.strip, heads_written(heads).split(",")):
            letter, layer, head = _parsed(name)
            if letter and _KINDS[letter] != self.kind.word:
                missing = f"{name}: this model has no {_KINDS[letter]} attention"
                raise SelectionError(missing, f"name heads as {self[0].name}")
            if layer is None:
                selected += self
                continue
            if self.layers and layer not in self.layers:
                remedy = f"its layers with attention are {', '.join(map(str, self.layers))}"
                raise SelectionError(f"{name}: layer {layer} of this model has no attention", remedy)
            for what, number, count in (("layer", layer, max(self.numbers) + 1), ("head", head or 0, self.shape[1])):
                if number >= count:
                    remedy = f"give a {what} among these"
                    raise SelectionError(f"{name}: this model has {what}s 0 to {count - 1}", remedy)
            in_layer = self.layer_of(Head(layer, 0))
            selected += in_layer if head is None else [in_layer[head]]
        return list(dict.fromkeys(selected))

    def head(self, named: HeadLike) -> Head:
        """The single head that is named. Raises: SelectionError if there is none, or several are."""
        selected = self.select([named])
        if len(selected) > 1:
            raise SelectionError(f"{heads_written([named])} names {len(selected)} heads", "name one, as 2-0")
        return selected[0]


def names(heads: Iterable[Head]) -> str:
    """Several heads by name, as the command line takes them.

    >>> names([Head(2, 0), Head(6, 11)])
    '2-0,6-11'
    """
    return ",".join(head.name for head in heads)


def _parsed(name: str) -> tuple[str, int | None, int | None]:
    """A name's letter, layer and head: no head of a whole layer, and neither of all heads. Raises: SelectionError."""
    if name == "all":
        return "", None, None
    if (match := _NAME.fullmatch(name)) is None:
        raise SelectionError(f"'{name}' names no head", "name heads as 2-0, as 2-0,6-11, as layer:2 or as all")
    if match["whole"] is not None:
        return match["of"], int(match["whole"]), None
    return match["letter"], int(match["layer"]), int(match[5])


def check_heads_are_named(text: str) -> None:
    """Raises: SelectionError if no model could have heads of such names; needs no model."""
    for part in text.split(","):
        _parsed(part.strip())


def attention_named(text: str, asked: AttentionName | None = None) -> AttentionName:
    """Of which attention the heads of a text are: the one asked for, else that of their letters, else the encoder's.

    >>> attention_named("c1-0,layer:c0"), attention_named("0-2"), attention_named("1-0", "cross")
    ('cross', 'encoder', 'cross')

    Raises: SelectionError for heads of two kinds, or of another kind than the one asked for.
    """
    named: dict[AttentionName, str] = {}
    for part in map(str.strip, text.split(",") if text else ()):
        letter, layer, _ = _parsed(part)
        if layer is not None and (letter or asked is None):
            named.setdefault(_KINDS[letter], part)
    for kind, part in named.items():
        if asked is not None and kind != asked:
            remedy = f"leave out --attention {asked}, or name heads as {asked[0]}1-0"
            raise SelectionError(f"{part} is of {kind} attention, and {asked} attention was asked for", remedy)
    if len(named) > 1:
        told = " and ".join(f"{part} is of {kind} attention" for kind, part in [*named.items()][:2])
        raise SelectionError(told, "name heads of one kind at a time")
    return next(iter(named), asked or "encoder")


def heads_of_kind(text: str, kind: AttentionName) -> str:
    """The heads of a text that are of one kind; `all` are of every kind.

    >>> heads_of_kind("c1-0,0-2,layer:c0", "cross"), heads_of_kind("all", "decoder")
    ('c1-0,layer:c0', 'all')
    """
    parts = map(str.strip, text.split(","))
    return ",".join(part for part in parts if part == "all" or attention_named(part) == kind)


def heads_written(heads: Any) -> str:
    """What callers name heads by, as one text; integers may be of any kind, such as numpy's.

    >>> heads_written([(2, 0), "layer:6"]), heads_written((2, 0)), heads_written(Head(2, 0))
    ('2-0,layer:6', '2-0', '2-0')

    Raises: SelectionError if it is none of `Heads`.
    """
    if isinstance(heads, str | Head):
        return heads if isinstance(heads, str) else heads.name
    several = list(heads) if isinstance(heads, Iterable) else []
    if len(several) == 2 and all(isinstance(number, Integral) for number in several):
        return "-".join(map(str, several))
    if not several:
        raise SelectionError(f"{heads!r:.60} names no head", "name heads as 2-0, as 2-0,6-11, as layer:2 or as all")
    return ",".join(map(heads_written, several))

"""The heads of a model: how many there are, their order and their names.

No other module does arithmetic on the numbers of layers and heads. Arrays are [layer, head, ...], one for each kind of
attention; where heads stand in a single row, they are counted kind by kind and layer by layer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from operator import index
from typing import TYPE_CHECKING, Any, Protocol, Self, SupportsIndex

from attnscan.errors import SelectionError

if TYPE_CHECKING:
    from attnscan.results.terms import AttentionName


class AttentionKind(IntEnum):
    """Kinds of attention, in the order in which their heads are counted."""

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
        """Where it stands in its kind's arrays [layer, head, ...]."""
        return self.row, self.head

    def __repr__(self) -> str:
        return f"Head({self.name})"


HeadLike = Head | tuple[int, int] | str
Heads = HeadLike | Sequence[HeadLike]
"""Heads as callers name them: `"2-0,6-11"`, `"layer:2"`, `"all"`, (layer, head), or several of these."""

_LETTERS = {kind.letter: kind for kind in AttentionKind}
_HEAD = re.compile(r"([edc]?)[Ll]?(\d{1,6})[-.Hh](\d{1,6})")
_LAYER = re.compile(r"layer:([edc]?)(\d{1,6})")
_HOW = "name heads as 2-0, as 2-0,6-11, as layer:2 or as all"


class _Shaped(Protocol):
    @property
    def shape(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class Grid:
    """The heads of a model, in order: iterate over it, or index it by a head's number, counted from 0."""

    shapes: tuple[tuple[AttentionKind, int, int], ...]
    """Of each kind of attention how many layers it has, and how many heads a layer; kinds in ascending order."""
    layers: tuple[int, ...] = ()
    """The numbers of the layers that have attention, of a model with a single kind; empty if all layers have."""

    def __post_init__(self) -> None:
        if self.layers == tuple(range(len(self.layers))):
            object.__setattr__(self, "layers", ())

    @classmethod
    def square(cls, layers: int, heads: int) -> Self:
        """The heads of a model with a single kind of attention."""
        return cls(((AttentionKind.ONLY, layers, heads),))

    @classmethod
    def of(cls, values: _Shaped, kind: AttentionKind = AttentionKind.ONLY, layers: Sequence[int] = ()) -> Self:
        """The heads that an array is of, and the numbers of its layers. Shape: [layer, head, ...]."""
        layer_count, heads = values.shape[:2]
        return cls(((kind, layer_count, heads),), tuple(layers))

    @property
    def shape(self) -> tuple[int, int]:
        """Layers, and heads a layer, of a model with a single kind of attention."""
        ((_, layers, heads),) = self.shapes
        return layers, heads

    def numbers(self, layers: int) -> Sequence[int]:
        """The numbers that so many layers have in the model."""
        return self.layers or range(layers)

    def __str__(self) -> str:
        return ", ".join(
            f"{'' if kind is AttentionKind.ONLY else f'{kind.name.lower()} '}{layers} × {heads}"
            for kind, layers, heads in self.shapes
        )

    def __len__(self) -> int:
        return sum(layers * heads for _, layers, heads in self.shapes)

    def __iter__(self) -> Iterator[Head]:
        for kind, layers, heads in self.shapes:
            for row, layer in enumerate(self.numbers(layers)):
                yield from (Head(layer, head, kind=kind, row=row) for head in range(heads))

    def __getitem__(self, number: SupportsIndex) -> Head:
        """The head of a number from 0 on. Raises: IndexError if there are not so many."""
        left = index(number)
        for kind, layers, heads in self.shapes:
            if 0 <= left < layers * heads:
                row, head = divmod(left, heads)
                return Head(self.numbers(layers)[row], head, kind=kind, row=row)
            left -= layers * heads
        raise IndexError(f"head number {index(number)} of {len(self)}")

    def __contains__(self, head: Head) -> bool:
        return any(
            kind == head.kind and head.layer in self.numbers(layers) and 0 <= head.head < heads
            for kind, layers, heads in self.shapes
        )

    def index(self, head: Head) -> int:
        """A head's number. Raises: ValueError if the model has no such head.

        >>> Grid.square(3, 2).index(Head(2, 1)), Grid.square(3, 2)[5]
        (5, Head(2-1))
        """
        before = 0
        for kind, layers, heads in self.shapes:
            if kind == head.kind and head in self:
                return before + self.numbers(layers).index(head.layer) * heads + head.head
            before += layers * heads
        raise ValueError(f"no head {head.name} among {self}")

    def layer_of(self, head: Head) -> list[Head]:
        """All heads of a head's layer, itself included, in order."""
        (count,) = (heads for kind, _, heads in self.shapes if kind == head.kind)
        first = self.index(replace(head, head=0))
        return [self[first + number] for number in range(count)]

    def columns(self, numbers: Iterable[SupportsIndex] | None = None) -> dict[str, Any]:
        """The columns `layer` and `head` of a table with a row for each of some heads, or for all in order.

        Before them the column `kind`, where heads are of another attention than an encoder's.
        """
        import numpy as np  # the command line reads heads' names before it has imported anything slow

        heads = list(self) if numbers is None else [self[number] for number in numbers]
        places = np.array([(head.layer, head.head) for head in heads], dtype=np.int64).reshape(-1, 2)
        columns = {"layer": places[:, 0], "head": places[:, 1]}
        if all(head.kind is AttentionKind.ONLY for head in heads):
            return columns
        return {"kind": np.array([head.kind.word for head in heads]), **columns}

    def select(self, heads: Heads) -> list[Head]:
        """The heads that are named, in the order of their names, none twice.

        Where there are several kinds of attention, a name without a letter is one of the first kind.
        Raises: SelectionError if no head is named, or one that the model does not have.

        >>> Grid.square(3, 2).select("2-0,layer:1"), Grid.square(3, 2).select("L2H1, 0.1")
        ([Head(2-0), Head(1-0), Head(1-1)], [Head(2-1), Head(0-1)])
        """
        text = heads_written(heads)
        check_heads_are_named(text)
        selected: list[Head] = []
        for name in (part.strip() for part in text.split(",")):
            if match := _HEAD.fullmatch(name):
                selected.append(self._head(name, match[1], int(match[2]), int(match[3])))
            elif match := _LAYER.fullmatch(name):
                selected += self.layer_of(self._head(name, match[1], int(match[2]), 0))
            else:
                selected += self
        return list(dict.fromkeys(selected))

    def head(self, named: HeadLike) -> Head:
        """The single head that is named. Raises: SelectionError if there is none, or several are."""
        if isinstance(named, Head) and named in self:
            return self[self.index(named)]
        selected = self.select([named])
        if len(selected) > 1:
            raise SelectionError(f"{heads_written([named])} names {len(selected)} heads", "name one, as 2-0")
        return selected[0]

    def _head(self, name: str, letter: str, layer: int, head: int) -> Head:
        for kind, layers, heads in self.shapes:
            if not letter or _LETTERS[letter].word == kind.word:
                numbers = self.numbers(layers)
                if self.layers and layer not in numbers:
                    raise SelectionError(
                        f"{name}: layer {layer} of this model has no attention",
                        f"its layers with attention are {', '.join(map(str, numbers))}",
                    )
                row = numbers.index(layer) if self.layers else _within(name, "layer", layer, layers)
                return Head(numbers[row], _within(name, "head", head, heads), kind=kind, row=row)
        missing = _LETTERS[letter].word
        raise SelectionError(f"{name}: this model has no {missing} attention", f"name heads as {self[0].name}")


def names(heads: Iterable[Head]) -> str:
    """Several heads by name, as the command line takes them.

    >>> names([Head(2, 0), Head(6, 11)])
    '2-0,6-11'
    """
    return ",".join(head.name for head in heads)


def check_heads_are_named(text: str) -> None:
    """Raises: SelectionError if no model could have heads of such names; needs no model."""
    for part in text.split(","):
        if part.strip() != "all" and not _HEAD.fullmatch(part.strip()) and not _LAYER.fullmatch(part.strip()):
            raise SelectionError(f"'{part.strip()}' names no head", _HOW)


def attention_named(text: str, asked: AttentionName | None = None) -> AttentionName:
    """Of which attention the heads of a text are: the one asked for, else that of their letters, else the encoder's.

    >>> attention_named("c1-0,layer:c0"), attention_named("0-2"), attention_named("1-0", "cross")
    ('cross', 'encoder', 'cross')

    Raises: SelectionError for heads of two kinds, or of another kind than the one asked for.
    """
    named: dict[str, str] = {}
    for part in map(str.strip, text.split(",")):
        match = _HEAD.fullmatch(part) or _LAYER.fullmatch(part)
        if match is not None and (match[1] or asked is None):
            named.setdefault(_LETTERS[match[1]].word, part)
    other = next(((word, part) for word, part in named.items() if word != asked), None)
    if asked is not None and other is not None:
        remedy = f"leave out --attention {asked}, or name heads as {asked[0]}1-0"
        raise SelectionError(f"{other[1]} is of {other[0]} attention, and {asked} attention was asked for", remedy)
    if len(named) > 1:
        told = " and ".join(f"{part} is of {word} attention" for word, part in [*named.items()][:2])
        raise SelectionError(told, "name heads of one kind at a time")
    known: tuple[AttentionName, ...] = ("encoder", "decoder", "cross")
    return next((word for word in known if word in named), asked or "encoder")


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
        return _written(heads)
    if not isinstance(heads, Iterable) or isinstance(heads, bytes | Mapping):
        raise SelectionError(f"{heads!r:.60} names no head", _HOW)
    several = list(heads)
    if len(several) == 2 and all(map(_is_whole, several)):
        several = [several]
    if not several:
        raise SelectionError("no head is named", _HOW)
    return ",".join(map(_written, several))


def _written(head: Any) -> str:
    if isinstance(head, str | Head):
        return head if isinstance(head, str) else head.name
    numbers = list(head) if isinstance(head, Iterable) else []
    if len(numbers) != 2 or not all(map(_is_whole, numbers)):
        raise SelectionError(f"{head!r:.60} names no head", "give (layer, head), two whole numbers")
    return Head(*map(index, numbers)).name


def _is_whole(number: Any) -> bool:
    try:
        return not isinstance(number, bool) and index(number) >= 0
    except TypeError:
        return False


def _within(name: str, what: str, number: int, count: int) -> int:
    if number >= count:
        raise SelectionError(f"{name}: this model has {what}s 0 to {count - 1}", f"give a {what} among these")
    return number

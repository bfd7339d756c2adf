"""Heads, their names and their order in a model. No numpy until a table is made of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from itertools import product
from numbers import Integral
from operator import index
from typing import Any, Literal, NamedTuple, SupportsIndex

from attnscan.errors import SelectionError

AttentionName = Literal["encoder", "decoder", "cross"]
"""Which attention of an encoder-decoder is read; that of other models is called an encoder's."""


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
        """Its name in tables: `encoder`, `decoder` or `cross`; `encoder`, too, of the only kind."""
        return _ATTENTION_NAMES[self.letter]


_ATTENTION_NAMES: dict[str, AttentionName] = {
    "": "encoder",
    "e": "encoder",
    "d": "decoder",
    "c": "cross",
}


@dataclass(frozen=True, order=True)
class Head:
    """One head of a model. Heads are ordered as they are counted."""

    kind: AttentionKind = field(default=AttentionKind.ONLY, kw_only=True)
    layer: int
    """The number of its layer in the model, from 0 on; other layers may have no attention."""
    head: int  # its own number in the layer, from 0 on
    row: int = field(default=-1, kw_only=True, compare=False)
    """Where its layer stands in arrays; usually its number."""

    def __post_init__(self) -> None:
        if self.row < 0:
            object.__setattr__(self, "row", self.layer)

    @property
    def name(self) -> str:
        """As users name it: `2-0` is layer 2, head 0; `c1-3` is a head of cross attention."""
        return f"{self.kind.letter}{self.layer}-{self.head}"

    @property
    def table_name(self) -> str:
        """As tables name it: `L2H0`; `cL1H3` of cross attention.

        A spreadsheet would make a date of `1-8`.
        """
        return f"{self.kind.letter}L{self.layer}H{self.head}"

    @property
    def columns(self) -> dict[str, Any]:
        """Its `layer` and `head` in tables, behind its `kind` if a model has several."""
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
"""Heads as callers name them: `"2-0,6-11"`, `"layer:2"`, `"all"`, (layer, head), or several."""


@dataclass(frozen=True)
class Grid:
    """The heads of a model, in order.

    Iterate over it, or index it by a head's number, counted from 0.
    """

    shape: tuple[int, ...]  # how many layers have attention, and how many heads each
    kind: AttentionKind = AttentionKind.ONLY
    layers: tuple[int, ...] = ()
    """The numbers of the layers that have attention; empty if all have."""

    def __post_init__(self) -> None:
        if self.layers == tuple(range(len(self.layers))):
            object.__setattr__(self, "layers", ())

    @property
    def numbers(self) -> Sequence[int]:
        """The number that each layer has in the model."""
        return self.layers or range(self.shape[0])

    @cached_property
    def _heads(self) -> tuple[Head, ...]:
        places = product(enumerate(self.numbers), range(self.shape[1]))
        return tuple(Head(layer, head, kind=self.kind, row=row) for (row, layer), head in places)

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
        """The columns of some heads, or of all.

        `kind` if it is not the only one, `layer`, `head` and, `with_names`, `name`.
        """
        # The command line reads heads' names before it has imported anything slow
        import numpy as np

        heads = self._heads if numbers is None else [self[number] for number in numbers]
        columns = {}
        for column in self[0].columns:
            columns[column] = np.array([head.columns[column] for head in heads])
        if with_names:
            columns["name"] = np.array([head.table_name for head in heads])
        return columns

    def select(self, heads: Heads) -> list[Head]:
        """The heads that are named, in the order of their names, none twice.

        Raises: SelectionError.
        """
        selected: dict[Head, None] = {}
        for name in parse_heads(heads_written(heads)):
            self._check(name)
            selected |= dict.fromkeys(head for head in self if name.names(head))
        return list(selected)

    def _check(self, name: HeadName) -> None:
        """Raises: SelectionError if the model has no heads of a name."""
        if name.letter and name.attention != self.kind.word:
            missing = f"{name.text}: this model has no {name.attention} attention"
            raise SelectionError(missing, f"name heads as {self[0].name}")
        self._check_number(name, "layer", name.layer, self.numbers)
        self._check_number(name, "head", name.head, range(self.shape[1]))

    def _check_number(
        self, name: HeadName, axis: str, number: int | None, valid: Sequence[int]
    ) -> None:
        """Raises: SelectionError if the model has no layer, or no head, of a number."""
        if number is None or number in valid:
            return
        is_range = isinstance(valid, range)
        listed = f"0 to {len(valid) - 1}" if is_range else ", ".join(map(str, valid))
        message = f"{name.text}: this model has {axis}s {listed}"
        raise SelectionError(message, f"give a {axis} among these")

    def head(self, name: HeadLike) -> Head:
        """The single head that is named.

        Raises: SelectionError if there is none, or several are.
        """
        heads = self.select([name])
        if len(heads) > 1:
            message = f"{heads_written([name])} names {len(heads)} heads"
            raise SelectionError(message, "name one, as 2-0")
        return heads[0]


class HeadName(NamedTuple):
    """What a text names: one head, the heads of a layer, or all."""

    text: str
    letter: str  # of the kind of attention; empty for the only one
    layer: int | None  # None for all
    head: int | None  # None for all of a layer

    @property
    def attention(self) -> AttentionName:
        """The kind of attention that the letter stands for."""
        return _ATTENTION_NAMES[self.letter]

    def names(self, head: Head) -> bool:
        """Whether a head is among those that are named, whatever its kind."""
        return self.layer in (None, head.layer) and self.head in (None, head.head)


_NAME = re.compile(
    r"all|layer:(?P<layers_letter>[edc]?)(?P<whole_layer>\d{1,6})"
    r"|(?P<letter>[edc]?)[Ll]?(?P<layer>\d{1,6})[-.Hh](?P<head>\d{1,6})"
)
_REMEDY = "name heads as 2-0, as 2-0,6-11, as layer:2 or as all"


def parse_heads(heads: str) -> list[HeadName]:
    """The names in a text that names heads.

    Raises: SelectionError if no model could have such heads.
    """
    names = []
    for text in map(str.strip, heads.split(",")):
        match = _NAME.fullmatch(text)
        if match is None:
            raise SelectionError(f"'{text}' names no head", _REMEDY)
        letter = match["letter"] or match["layers_letter"] or ""
        layer = match["layer"] or match["whole_layer"]
        head = match["head"]
        names.append(
            HeadName(
                text=text,
                letter=letter,
                layer=None if layer is None else int(layer),
                head=None if head is None else int(head),
            )
        )
    return names


def attention_named(heads: str, option: AttentionName | None = None) -> AttentionName:
    """Of which attention heads are: as asked, else by their letters.

    Raises: SelectionError for heads of two kinds.
    """
    texts: dict[AttentionName, str] = {}
    for name in parse_heads(heads or "all"):
        if name.layer is not None and (name.letter or option is None):
            texts[name.attention] = name.text
    kinds = " and ".join(f"{text} is of {kind} attention" for kind, text in texts.items())
    if option is not None and texts.keys() - {option}:
        remedy = f"leave out ``attention={option}``, or name heads as {option[0]}1-0"
        raise SelectionError(f"{kinds}, and {option} attention was asked for", remedy)
    if len(texts) > 1:
        raise SelectionError(kinds, "name heads of one kind at a time")
    return next(iter(texts), option or "encoder")


def heads_written(heads: Any) -> str:
    """What callers name heads by, as one text. Raises: SelectionError if it is none of `Heads`."""
    if isinstance(heads, str):
        return heads
    if isinstance(heads, Head):
        return heads.name
    several = list(heads) if isinstance(heads, Iterable) else []
    if len(several) == 2 and all(isinstance(number, Integral) for number in several):
        return "-".join(map(str, several))
    if not several:
        raise SelectionError(f"{heads!r:.60} names no head", _REMEDY)
    return ",".join(map(heads_written, several))

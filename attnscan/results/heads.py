"""How users name heads and tokens: `2-0,6-11`, `layer:2`, `all`; `store`, `store#2`, `7`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import Any

from attnscan.errors import SelectionError, nearest
from attnscan.inputs.tokens import bare

Head = tuple[int, int]
"""Layer and head, both counted from zero."""
Heads = str | Head | Sequence[Head | str]
"""Heads as callers name them: `"2-0,6-11"`, `"layer:2"`, `"all"`, (layer, head), or several of these."""

_HEAD = re.compile(r"(\d{1,6})-(\d{1,6})")
_LAYER = re.compile(r"layer:(\d{1,6})")
_HOW = "name heads as 2-0, as 2-0,6-11, as layer:2 or as all"


def head_name(head: Head) -> str:
    """A head's name: `2-0` is layer 2, head 0."""
    return f"{head[0]}-{head[1]}"


def check_heads_are_named(text: str) -> None:
    """Raises: SelectionError if no model could have heads of such names; needs no model."""
    for part in text.split(","):
        if part.strip() != "all" and not _HEAD.fullmatch(part.strip()) and not _LAYER.fullmatch(part.strip()):
            raise SelectionError(f"'{part.strip()}' names no head", _HOW)


def are_heads(text: str) -> bool:
    """Whether a text names heads and can hardly be a sentence: `all` can.

    >>> are_heads("0-2, layer:1"), are_heads("all"), are_heads("It ended 2-0.")
    (True, False, False)
    """
    parts = [part.strip() for part in text.split(",")]
    return all(_HEAD.fullmatch(part) or _LAYER.fullmatch(part) for part in parts)


def heads_written(heads: Any) -> str:
    """What callers name heads by, as one text; integers may be of any kind, such as numpy's.

    >>> heads_written([(2, 0), "layer:6"]), heads_written((2, 0))
    ('2-0,layer:6', '2-0')

    Raises: SelectionError if it is none of `Heads`.
    """
    if isinstance(heads, str):
        return heads
    if not isinstance(heads, Iterable) or isinstance(heads, bytes | Mapping):
        raise SelectionError(f"{heads!r:.60} names no head", _HOW)
    several = list(heads)
    if len(several) == 2 and all(map(_is_whole, several)):
        several = [several]
    if not several:
        raise SelectionError("no head is named", _HOW)
    return ",".join(map(_written, several))


def _written(head: Any) -> str:
    if isinstance(head, str):
        return head
    numbers = list(head) if isinstance(head, Iterable) else []
    if len(numbers) != 2 or not all(map(_is_whole, numbers)):
        raise SelectionError(f"{head!r:.60} names no head", "give (layer, head), two whole numbers")
    return head_name((index(numbers[0]), index(numbers[1])))


def _is_whole(number: Any) -> bool:
    try:
        return not isinstance(number, bool) and index(number) >= 0
    except TypeError:
        return False


def heads_named(heads: Heads, grid: tuple[int, int]) -> list[Head]:
    """The heads that are named, in that order, none twice.

    >>> heads_named("2-0,layer:1", (3, 2))
    [(2, 0), (1, 0), (1, 1)]

    Raises: SelectionError if none is, or a model of that grid (layers, heads) has not got one.
    """
    text = heads_written(heads)
    check_heads_are_named(text)
    layers, width = grid
    found: list[Head] = []
    for part in (part.strip() for part in text.split(",")):
        if match := _HEAD.fullmatch(part):
            found.append((_within(part, "layer", int(match[1]), layers), _within(part, "head", int(match[2]), width)))
        elif match := _LAYER.fullmatch(part):
            layer = _within(part, "layer", int(match[1]), layers)
            found += [(layer, head) for head in range(width)]
        else:
            found += [(layer, head) for layer in range(layers) for head in range(width)]
    return list(dict.fromkeys(found))


def token_named(text: str, tokens: Sequence[str]) -> int:
    """The index of a token: by its text, `#2` behind it for the second of the same text, or by index itself.

    Case and marks of word starts do not count. What can be read as an index is one.

    >>> token_named("store", ["[CLS]", "the", "ĠStore"]), token_named("1", ["[CLS]", "the"])
    (2, 1)

    Raises: SelectionError if there is none.
    """
    if re.fullmatch(r"\d{1,9}", text) and int(text) < len(tokens):
        return int(text)
    for name, number in _readings(text):
        places = [i for i, token in enumerate(tokens) if bare(token) == bare(name)]
        if places and number > len(places):
            raise SelectionError(f"there is no {name}#{number}: the input has {len(places)} of them", f"try {name}#1")
        if places and number:
            return places[number - 1]
    hint = nearest(bare(text), map(bare, tokens), f"give a token's text, or an index from 0 to {len(tokens) - 1}")
    raise SelectionError(f"the input has no token '{text}'", hint)


def _readings(text: str) -> list[tuple[str, int]]:
    """A token's text and which of that text; `#2` can be a token's own end, too."""
    match = re.fullmatch(r"(.+)#(\d{1,9})", text, re.DOTALL)
    return [(text, 1), *([(match[1], int(match[2]))] if match else [])]


def _within(name: str, what: str, number: int, count: int) -> int:
    if number >= count:
        raise SelectionError(f"{name}: this model has {what}s 0 to {count - 1}", f"give a {what} among these")
    return number

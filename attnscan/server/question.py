"""What a page asks: JSON from the network, held to what there is before anything else sees it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from attnscan.hashing import hashed
from attnscan.inputs.pairs import Pair
from attnscan.results.change import Change
from attnscan.results.grid import Head

_HEAD = re.compile(r"(\d{1,4})-(\d{1,4})", re.ASCII)
_CLIENT = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ID = re.compile(r"[0-9a-f]{16}")
_MOST = 4096  # places, or heads, in a list
_UNCHANGED = Change()
_LARGEST_PLACE, _LARGEST_TURN = 65_535, 2**53


class Malformed(Exception):
    """Something that no page of ours asks."""


@dataclass(frozen=True)
class Question:
    """An input, what is changed in it and in the model, and who asks."""

    pair: Pair
    change: Change = _UNCHANGED
    model: int = 0
    """Which of those that are loaded."""
    beside: str | None = None
    """The answer to lay it beside."""
    client: str = ""
    """A page in a browser."""
    turn: int = 0
    """Which of the page's questions it is: a later one makes it stale."""

    @property
    def id(self) -> str:
        """What tells it from all questions that have another answer."""
        return hashed(repr((self.model, self.pair.sentences, self.change)).encode())[:16]

    def as_json(self) -> dict[str, Any]:
        """The same as a page asks it."""
        return {
            "a": self.pair.a,
            "b": self.pair.b,
            "hidden": list(self.change.hidden),
            "positions": self.change.positions,
            "segments": self.change.segments,
            "off": [head.name for head in self.change.off],
            "model": self.model,
        }


def question_of(body: bytes, models: int) -> Question:
    """Read a question to one of so many models.

    Raises: Malformed for what no page of ours asks; InputError or OptionError for what a person may.
    """
    fields = _fields(body)
    a, b = _text(fields, "a"), None if fields.get("b") is None else _text(fields, "b")
    hidden = tuple(_whole("hidden", place, _LARGEST_PLACE) for place in _list(fields, "hidden"))
    off = tuple(map(_head, _list(fields, "off")))
    model = _whole("model", fields.get("model", 0), models - 1)
    beside, client = fields.get("beside"), fields.get("client")
    if beside is not None and not is_id(beside):
        raise Malformed("beside is no answer's id")
    if not isinstance(client, str) or not _CLIENT.fullmatch(client):
        raise Malformed("client is no name")
    turn = _whole("turn", fields.get("turn"), _LARGEST_TURN)
    positions, segments = (_text(fields, name, "kept") for name in ("positions", "segments"))
    change = Change(hidden=hidden, positions=positions, segments=segments, off=off)  # type: ignore[arg-type]
    return Question(Pair(a, b), change, model, beside, client, turn)


def is_id(text: object) -> bool:
    """Whether an answer could be called that."""
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def head_of(name: str) -> Head | None:
    """The head of a name such as `2-0`; None if it names none."""
    match = _HEAD.fullmatch(name)
    return None if match is None else Head(int(match[1]), int(match[2]))


def _fields(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body.decode(), object_pairs_hook=_object, parse_constant=_no_number)
    except (ValueError, RecursionError):  # the first of what is no UTF-8, too, and of numbers of 5,000 digits
        raise Malformed("the body is no JSON") from None
    if not isinstance(fields, dict):
        raise Malformed("the body is no JSON object")
    if unknown := set(fields) - _FIELDS:
        raise Malformed(f"there is no field {min(unknown):.40}")
    return fields


def _object(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    pairs = list(pairs)
    if len(dict(pairs)) < len(pairs):
        raise Malformed("a field is there twice")
    return dict(pairs)


def _no_number(name: str) -> NoReturn:
    raise Malformed(f"{name} is no number")


def _text(fields: dict[str, Any], name: str, usual: str | None = None) -> str:
    text = fields.get(name, usual)
    if not isinstance(text, str):
        raise Malformed(f"{name} is no text")
    return text


def _list(fields: dict[str, Any], name: str) -> list[Any]:
    items = fields.get(name, [])
    if not isinstance(items, list) or len(items) > _MOST:
        raise Malformed(f"{name} is no list of {_MOST} at most")
    return items


def _whole(name: str, value: object, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise Malformed(f"{name} is no whole number from 0 to {most}")
    return value


def _head(name: object) -> Head:
    if not isinstance(name, str) or (head := head_of(name)) is None:
        raise Malformed("off names no head")
    return head


_FIELDS = {"a", "b", "hidden", "positions", "segments", "off", "model", "beside", "client", "turn"}

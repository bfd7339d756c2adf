"""What a page asks: JSON from the network, held to what there is before anything else sees it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, ValidationError

from attnscan.hashing import hashed
from attnscan.inputs.sentence import Pair
from attnscan.results.change import Change, Positions, Segments
from attnscan.results.grid import AttentionKind, Head
from attnscan.safe_text import plain

_HEAD = re.compile(r"([edc]?)([0-9]{1,4})-([0-9]{1,4})")
_KINDS = {kind.letter: kind for kind in AttentionKind}
_MOST = 4096  # places, or heads, in a list
_UNCHANGED = Change()


class Malformed(Exception):
    """Something that no page of ours asks."""


@dataclass(frozen=True)
class Question:
    """An input, and what is changed in it and in the model."""

    pair: Pair
    change: Change = _UNCHANGED
    model: int = 0
    """Which of those that are loaded."""
    attention: str = ""
    """Which kind of attention of an encoder-decoder, where the server has several."""

    @property
    def id(self) -> str:
        """What tells it from all questions that have another answer."""
        return hashed(repr((self.model, self.pair.texts, self.change, self.attention)).encode())[:16]

    def as_json(self) -> dict[str, Any]:
        """What a page sends to ask this question."""
        return {
            "a": self.pair.a,
            "b": self.pair.b,
            "hidden": list(self.change.hidden),
            "positions": self.change.positions,
            "segments": self.change.segments,
            "off": [head.name for head in self.change.off],
            "model": self.model,
            **({"attention": self.attention} if self.attention else {}),
        }


class _Body(BaseModel):
    """The JSON that a page sends. Texts are checked by `Pair`, whose errors a person can read."""

    model_config = ConfigDict(strict=True, extra="forbid")

    a: InstanceOf[str]  # `str` would refuse half of a surrogate pair here
    b: InstanceOf[str] | None = None
    hidden: list[Annotated[int, Field(ge=0, le=65_535)]] = Field([], max_length=_MOST)
    positions: Positions = "kept"
    segments: Segments = "kept"
    off: list[Annotated[str, Field(pattern=f"^{_HEAD.pattern}$")]] = Field([], max_length=_MOST)
    model: int = Field(0, ge=0)
    attention: Literal["", "encoder", "decoder", "cross"] = ""


def question_of(body: bytes, models: int) -> Question:
    """Read a question to one of so many models.

    Raises: Malformed for what no page of ours asks; InputError for what a person may.
    """
    try:
        asked = _Body.model_validate(json.loads(body.decode(), object_pairs_hook=_object))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = plain(".".join(map(str, first["loc"])) or "the body")
        raise Malformed(f"{where:.40}: {first['msg']}") from None
    except (ValueError, RecursionError):  # the first of what is no UTF-8, too, and of numbers of 5,000 digits
        raise Malformed("the body is not JSON") from None
    if asked.model >= models:
        raise Malformed(f"model: there are {models}")
    change = Change(tuple(asked.hidden), asked.positions, asked.segments, tuple(map(_head, asked.off)))
    return Question(Pair(asked.a, asked.b), change, asked.model, asked.attention)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(fields := dict(pairs)) < len(pairs):
        raise Malformed("a field is given twice")
    return fields


def head_of(name: str) -> Head | None:
    """The head of a name such as `2-0`; None if it names none."""
    return _head(name) if _HEAD.fullmatch(name) else None


def _head(name: str) -> Head:
    match = _HEAD.fullmatch(name)
    assert match is not None
    return Head(int(match[2]), int(match[3]), kind=_KINDS[match[1]])

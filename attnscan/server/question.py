"""What a page asks: JSON from the network, held to what there is before anything else sees it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException

from attnscan.inputs.sentence import Pair
from attnscan.results.predictions import Change, Positions, Segments
from attnscan.results.terms import AttentionKind, Head
from attnscan.text import hashed, plain

_HEAD = re.compile(r"([edc]?)([0-9]{1,4})-([0-9]{1,4})")
_KINDS = {kind.letter: kind for kind in AttentionKind}
_MOST = 4096  # places, or heads, in a list


class Question(BaseModel):
    """An input, and what is changed in it and in the model, as a page sends it."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    a: str
    b: str | None = None
    hidden: list[Annotated[int, Field(ge=0, le=65_535)]] = Field(default=[], max_length=_MOST)
    positions: Positions = "kept"
    segments: Segments = "kept"
    off: list[Annotated[str, Field(pattern=f"^{_HEAD.pattern}$")]] = Field(default=[], max_length=_MOST)
    model: int = Field(default=0, ge=0)  # which of those that are loaded
    attention: Literal["", "encoder", "decoder", "cross"] = ""  # of an encoder-decoder, where the server has several

    @property
    def pair(self) -> Pair:
        """The input. Raises: InputError for a text that cannot be read."""
        return Pair(self.a, self.b)

    @property
    def change(self) -> Change:
        """What is changed."""
        names = [match.groups() for name in self.off if (match := _HEAD.fullmatch(name))]
        off = tuple(Head(int(layer), int(head), kind=_KINDS[kind]) for kind, layer, head in names)
        return Change(tuple(self.hidden), self.positions, self.segments, off)

    @property
    def id(self) -> str:
        """What tells it from all questions that have another answer."""
        return hashed(repr((self.model, self.a, self.b, self.change, self.attention)).encode())[:16]

    def as_json(self) -> dict[str, Any]:
        """What a page sends to ask this question."""
        return self.model_dump(exclude=set() if self.attention else {"attention"})


def question_of(body: bytes, models: int) -> Question:
    """Read a question to one of so many models.

    Raises: HTTPException for what no page of ours asks; InputError for what a person may.
    """
    try:
        question = Question.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = plain(".".join(map(str, first["loc"])) or "the body")
        raise HTTPException(400, f"{where:.40}: {first['msg']}") from None
    if question.model >= models:
        raise HTTPException(400, f"model: there are {models}")
    assert question.pair  # checks its texts
    return question

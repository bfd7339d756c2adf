"""Questions as JSON from the network, the models that stay loaded to answer them, and the last
answers.
"""

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException

from attnscan.errors import OptionError
from attnscan.inputs.annotations import copy_links
from attnscan.inputs.sentence import Pair
from attnscan.results.grid import AttentionKind, Head
from attnscan.results.predictions import Change, Positions, Segments
from attnscan.scan.scanner import Scanner
from attnscan.studies.trial import Trial, Trials
from attnscan.text import hashed, plain
from attnscan.views.page.page import answer_of, live_page, numbers_of, page

_HEAD = re.compile(r"([edc]?)([0-9]{1,4})-([0-9]{1,4})")
_KINDS = {kind.letter: kind for kind in AttentionKind}
_MAX_ITEMS = 4096  # places, or heads, in a list
_MAX_HELD = 8  # answers: the last ones


class Question(BaseModel):
    """An input, and what is changed in it and in the model, as a page sends it."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    a: str
    b: str | None = None
    hidden: list[Annotated[int, Field(ge=0, le=65_535)]] = Field(default=[], max_length=_MAX_ITEMS)
    positions: Positions = "kept"
    segments: Segments = "kept"
    off: list[Annotated[str, Field(pattern=f"^{_HEAD.pattern}$")]] = Field(
        default=[], max_length=_MAX_ITEMS
    )
    model: int = Field(default=0, ge=0)  # which of those that are loaded
    attention: Literal["", "encoder", "decoder", "cross"] = (
        ""  # of an encoder-decoder, where the server has several
    )

    @property
    def pair(self) -> Pair:
        """The input. Raises: InputError for a text that cannot be read."""
        return Pair(self.a, self.b)

    @property
    def change(self) -> Change:
        """The change of the input and of the model."""
        return Change(
            hidden=tuple(self.hidden),
            positions=self.positions,
            segments=self.segments,
            off=tuple(map(_head_named, self.off)),
        )

    @property
    def id(self) -> str:
        """A hash that differs for all questions that have another answer."""
        return hashed(repr((self.model, self.a, self.b, self.change, self.attention)).encode())[:16]

    def as_json(self) -> dict[str, Any]:
        """The JSON that a page sends to ask this question."""
        unset = set() if self.attention else {"attention"}
        return self.model_dump(exclude=unset)


def _head_named(name: str) -> Head:
    """A head by a name that has been checked."""
    match = _HEAD.fullmatch(name)
    assert match is not None
    kind, layer, head = match.groups()
    return Head(int(layer), int(head), kind=_KINDS[kind])


def question_of(body: bytes, models: int) -> Question:
    """Read a question to one of so many models.

    Raises: HTTPException for what no page of ours asks; InputError for what a person may.
    """
    try:
        question = Question.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = plain(".".join(map(str, first["loc"])) or "the body")
        raise HTTPException(400, f"{field:.40}: {first['msg']}") from None
    if question.model >= models:
        raise HTTPException(400, f"model: there are {models}")
    assert question.pair  # checks its texts
    return question


@dataclass(frozen=True)
class Loaded:
    """A model that is asked, by each kind of attention that can be asked about."""

    title: str
    kinds: Mapping[str, Trials]
    links: Pair | None = None
    """A pair whose gold links cross attention has on all pairs with as many words."""

    @classmethod
    def from_scanners(cls, scanners: Sequence[Scanner], links: Pair | None = None) -> Self:
        """Make a model ready to be changed, each scanner for a kind of attention.

        Raises: as `Trials` does.
        """
        kinds: dict[str, Trials] = {}
        for scanner in scanners:
            kinds[scanner.options.attention] = Trials(scanner)
        return cls(scanners[0].signature().title, kinds, links)

    @property
    def first_kind(self) -> Trials:
        """The kind of attention that is asked where a question names none."""
        return next(iter(self.kinds.values()))

    def run(self, question: Question) -> Trial:
        """Try a question's input.

        Raises: as `Trials.run`; OptionError for a kind of attention that is not there.
        """
        if question.attention not in (*self.kinds, ""):
            raise OptionError(f"{question.attention} attention is not served", "ask about another")
        pair = question.pair
        if len(self.kinds) > 1 and question.attention in ("encoder", ""):
            pair = pair.source  # B is a target
        if self.links is not None and question.attention in ("cross", ""):
            pair = copy_links(pair, self.links)
        trials = self.kinds.get(question.attention) or self.first_kind
        return trials.run(pair, question.change)


class Session:
    """The models and answers of a server. Only the thread of `worker` may call the methods, since
    they run models.
    """

    def __init__(self, models: Sequence[Loaded], first: Question) -> None:
        self.models = tuple(models)
        self.first = first
        self.worker = ThreadPoolExecutor(1, "attnscan-model")
        self._held: dict[str, Trial] = {}  # the last ones, newest last

    def trial(self, question: Question) -> Trial:
        """The answer to a question, by the model if it is not held. Raises: as `Loaded.run`."""
        trial = self._held.pop(question.id, None) or self.models[question.model].run(question)
        self._held[question.id] = trial
        for name in [*self._held][:-_MAX_HELD]:
            del self._held[name]
        return trial

    def answer(self, question: Question) -> bytes:
        """Answer a question, as JSON. Raises: as `trial`."""
        return encoded(self._answer(question))

    def _answer(self, question: Question) -> dict[str, Any]:
        """What a page takes for an answer, with its question. Raises: as `trial`."""
        trial = self.trial(question)
        answer = answer_of(trial.result, question.id, trial.tokens, trial.predictions)
        return answer | {"question": question.as_json()}

    def first_of(self, model: int) -> Question:
        """The question that everything begins with, to one of the models."""
        return self.first.model_copy(update={"model": model})

    def first_page(self, model: int) -> bytes:
        """The page that everything begins with, of one of the models. Raises: as `trial`."""
        question = self.first_of(model)
        live = self._answer(question) | {
            "model": model,
            "models": [plain(loaded.title) for loaded in self.models],
            "available": list(map(_available, self.models)),
        }
        result = self.trial(question).result
        return live_page(result, live, tuple(self.models[model].kinds)).encode()

    def numbers(self, name: str, head: str) -> bytes:
        """One head's weights, queries and keys, as JSON.

        Raises: HTTPException; SelectionError if there is no such head.
        """
        result = self._again(name).result
        return encoded(numbers_of(result, result.grid.head(head)))

    def page(self, name: str) -> bytes:
        """The offline page of an answer. Raises: HTTPException."""
        return page(self._again(name).result).html.encode()

    def _again(self, name: str) -> Trial:
        if name not in self._held:
            raise HTTPException(410, "this answer is not held any more")
        trial = self._held.pop(name)
        self._held[name] = trial  # the newest now
        return trial


def _available(model: Loaded) -> dict[str, str]:
    """For each change that a model does not take, the reason."""
    reasons = model.first_kind.available
    return {change: plain(reason) for change, reason in reasons.items()}


def encoded(answer: dict[str, Any]) -> bytes:
    """JSON as it is sent: ASCII, so that no half of a pair of characters can stand in its way."""
    return json.dumps(answer, allow_nan=False, separators=(",", ":")).encode("ascii")

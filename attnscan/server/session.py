"""Models that stay loaded, what they are asked, and the last answers, for what a page asks second."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from attnscan.errors import OptionError
from attnscan.inputs.alignments import linked_as
from attnscan.inputs.sentence import Pair
from attnscan.results.grid import Head
from attnscan.results.signature import Signature
from attnscan.scan.scanner import Scanner
from attnscan.server.question import Question
from attnscan.studies.trial import Trial, Trials
from attnscan.views.page.live import LiveFacts, answer_of, live_page, numbers_of
from attnscan.views.page.page import page

_MOST_HELD = 8  # answers: the last ones


class Gone(Exception):
    """An answer that is no longer held, or never was."""


@dataclass(frozen=True)
class Loaded:
    """A model that is asked."""

    title: str
    trials: Trials
    kinds: Mapping[str, Trials] = field(default_factory=dict)
    """Of an encoder-decoder, those of each kind of attention that can be asked about, if there are several."""
    links: Pair | None = None
    """A pair whose gold links cross attention has on all pairs with as many words."""

    @classmethod
    def of(cls, *scanners: Scanner, links: Pair | None = None) -> Loaded:
        """Made ready to be changed, each scanner for a kind of attention. Raises: as `Trials` does."""
        kinds: dict[str, Trials] = {scanner.options.attention: Trials(scanner) for scanner in scanners}
        title = scanners[0].signature().title
        return cls(title, next(iter(kinds.values())), kinds if len(kinds) > 1 else {}, links)

    def run(self, question: Question) -> Trial:
        """Try a question's input. Raises: as `Trials.run`; OptionError for a kind of attention that is not there."""
        if question.attention not in (*self.kinds, ""):
            raise OptionError(f"{question.attention} attention is not served", "ask about another")
        # where there are targets, B is one, and the encoder reads A
        is_source = bool(self.kinds) and question.attention in ("encoder", "")
        pair = question.pair.source if is_source else question.pair
        if self.links is not None and question.attention in ("cross", ""):
            pair = linked_as(pair, self.links)
        return self.kinds.get(question.attention, self.trials).run(pair, question.change)


class Session:
    """What a server answers from; every method may be called by any thread."""

    def __init__(self, models: Sequence[Loaded], first: Question) -> None:
        self.models, self.first = tuple(models), first
        self._worker = ThreadPoolExecutor(1, "attnscan-model")  # the one thread that runs models
        self._held: OrderedDict[str, Trial] = OrderedDict()
        self._lock = threading.Lock()

    def signatures(self) -> list[Signature]:
        """Of the first question, which is asked of each model. Raises: AttnscanError if one cannot be asked."""
        questions = [replace(self.first, model=model) for model in range(len(self.models))]
        return [self._worker.submit(self._answered, question).result().result.signature for question in questions]

    def answer(self, question: Question) -> Future[bytes]:
        """Answer a question, as JSON. Raises: by the future, AttnscanError."""

        def work() -> bytes:
            held = self._answered(question)
            answer = answer_of(
                held.result, question.id, held.tokens, held.predictions, of_kind=bool(question.attention)
            )
            return encoded(answer | {"question": question.as_json()})

        return self._worker.submit(work)

    def page_of_first(self, model: int) -> Future[bytes]:
        """The page that everything begins with, of one of the models."""

        def work() -> bytes:
            question = replace(self.first, model=model)
            live = LiveFacts(
                question=question.as_json(),
                id=question.id,
                model=model,
                models=tuple(loaded.title for loaded in self.models),
                available=tuple(loaded.trials.available for loaded in self.models),
                kinds=tuple(self.models[model].kinds),
            )
            held = self._answered(question)
            return live_page(held.result, live, held.tokens, held.predictions).encode()

        return self._worker.submit(work)

    def numbers(self, name: str, head: Head) -> bytes:
        """One head's weights, queries and keys, as JSON. Raises: Gone; OptionError for a head that is not there."""
        result = self._get(name).result
        if head not in (grid := result.scores.grid):
            raise OptionError(f"there is no head {head.name}", f"this model has {grid}")
        return encoded(numbers_of(result, head))

    def page(self, name: str) -> Future[bytes]:
        """The offline page of an answer. Raises: Gone."""
        result = self._get(name).result
        return self._worker.submit(lambda: page(result).html.encode())

    def close(self) -> None:
        """Begin nothing more; what runs is not waited for."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _get(self, name: str) -> Trial:
        with self._lock:
            if name not in self._held:
                raise Gone
            self._held.move_to_end(name)
            return self._held[name]

    def _answered(self, question: Question) -> Trial:
        """The answer, by the model if it is not held. To be called by the worker alone."""
        with self._lock:
            held = self._held.get(question.id)
        if held is None:
            held = self.models[question.model].run(question)
        with self._lock:
            self._held[question.id] = held
            self._held.move_to_end(question.id)
            while len(self._held) > _MOST_HELD:
                self._held.popitem(last=False)
        return held


def encoded(answer: dict[str, Any]) -> bytes:
    """JSON as it is sent: ASCII, so that no half of a pair of characters can stand in its way."""
    return json.dumps(answer, allow_nan=False, separators=(",", ":")).encode("ascii")

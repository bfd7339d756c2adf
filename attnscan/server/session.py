"""Models that stay loaded, what they are asked, and the answers that are held for what a page asks second."""

from __future__ import annotations

import json
import mmap
import pickle
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, cast

from attnscan.errors import OptionError
from attnscan.inputs.alignments import linked_as
from attnscan.inputs.sentence import Pair
from attnscan.results.classification import Classification
from attnscan.results.grid import Head
from attnscan.results.signature import Signature
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import Seen
from attnscan.server.question import Question
from attnscan.server.worker import Worker
from attnscan.studies.trial import Trial, Trials
from attnscan.views.page.live import LiveFacts, answer_of, beside_of, live_page, numbers_of, rest_of
from attnscan.views.page.page import page

MOST_BYTES = 128 << 20  # of answers that are held, all that they take counted
_LEAST_HELD = 2
_TRIALS = 2  # the last ones, whole, with what finishing them needs
_LINE = 64  # bytes of a cache line, on which every array begins


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
        title = scanners[0].signature(Seen()).title
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


@dataclass(frozen=True)
class _Held:
    question: Question
    packed: HeldResult
    tokens: tuple[str, ...]
    """Of the input, before any was hidden."""


class Session:
    """What a server answers from; every method may be called by any thread."""

    def __init__(
        self,
        models: Sequence[Loaded],
        first: Question,
        most_bytes: int = MOST_BYTES,
        worker: Worker | None = None,
    ) -> None:
        self.models, self.first = tuple(models), first
        self.worker = worker or Worker()
        self._most_bytes = most_bytes
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._trials: OrderedDict[str, Trial] = OrderedDict()  # the worker's own
        self._lock = threading.Lock()

    def signatures(self) -> list[Signature]:
        """Of the first question, which is asked of each model. Raises: AttnscanError if one cannot be asked."""
        questions = [replace(self.first, model=model) for model in range(len(self.models))]
        work = [lambda question=question: self._answered(question)[0].signature for question in questions]
        return [self.worker.submit(answer, "", 0, is_answer=True).result() for answer in work]

    def answer(self, question: Question) -> Future[bytes]:
        """Answer a question, as JSON. Raises, by the future: AttnscanError; Gone if it has nothing to be laid beside.

        Raises: Stale, Full.
        """

        def work() -> bytes:
            result, tokens = self._answered(question)
            answer = answer_of(result, question.id, tokens, of_kind=bool(question.attention)) | {
                "question": question.as_json()
            }
            if question.beside is not None:
                answer |= beside_of(result, self._get(question.beside).packed.result())
            return encoded(answer)

        return self.worker.submit(work, question.client, question.turn, is_answer=True)

    def page_of_first(self, model: int) -> Future[bytes]:
        """The page that everything begins with, of one of the models. Raises: Full."""

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
            result, tokens = self._answered(question)
            return live_page(result, live, tokens).encode()

        return self.worker.submit(work, "", 0, is_answer=True)

    def numbers(self, name: str, head: Head) -> bytes:
        """One head's weights, queries and keys, as JSON. Raises: Gone; OptionError for a head that is not there."""
        result = self._get(name).packed.result()
        if head not in (grid := result.scores.grid):
            raise OptionError(f"there is no head {head.name}", f"this model has {grid}")
        return encoded(numbers_of(result, head))

    def rest(self, name: str) -> Future[bytes]:
        """What takes longer: how sure labels are, and predictions. It gives way to answers.

        Raises: Gone, Stale, Full.
        """
        question = self._get(name).question

        def work() -> bytes:
            return encoded(rest_of(*self._tried(question).finished(self.worker.check_nobody_waits)))

        return self.worker.submit(work, question.client, question.turn, is_answer=False)

    def page(self, name: str) -> Future[bytes]:
        """The offline page of an answer, which nothing makes stale. Raises: Gone, Full."""
        question = self._get(name).question

        def work() -> bytes:
            return page(self._tried(question).finished()[0]).html.encode()

        return self.worker.submit(work, "", 0, is_answer=False)

    def _get(self, name: str) -> _Held:
        with self._lock:
            if name not in self._held:
                raise Gone
            self._held.move_to_end(name)
            return self._held[name]

    def _answered(self, question: Question) -> tuple[Classification, tuple[str, ...]]:
        """The answer, by the model if it is not held, and the input's tokens. To be called by the worker alone."""
        with self._lock:
            held = self._held.pop(question.id, None)
        if held is None:
            trial = self._tried(question)
            held = _Held(question, HeldResult(trial.result), trial.tokens)
        with self._lock:
            self._held[question.id] = replace(held, question=question)  # whose turn it is now
            while len(self._held) > _LEAST_HELD and self._bytes() > self._most_bytes:
                self._held.popitem(last=False)
        return held.packed.result(), held.tokens

    def _bytes(self) -> int:
        return sum(held.packed.size for held in self._held.values())

    def _tried(self, question: Question) -> Trial:
        """The trial of a question, run again if it is not one of the last. To be called by the worker alone."""
        if question.id not in self._trials:
            self._trials[question.id] = self.models[question.model].run(question)
        self._trials.move_to_end(question.id)
        while len(self._trials) > _TRIALS:
            self._trials.popitem(last=False)
        return self._trials[question.id]


def encoded(answer: dict[str, Any]) -> bytes:
    """JSON as it is sent: ASCII, so that no half of a pair of characters can stand in its way."""
    return json.dumps(answer, allow_nan=False, separators=(",", ":")).encode("ascii")


class HeldResult:
    """A result, packed."""

    def __init__(self, result: Classification) -> None:
        buffers: list[pickle.PickleBuffer] = []
        self._frame = pickle.dumps(result, protocol=5, buffer_callback=buffers.append)
        arrays = [buffer.raw() for buffer in buffers]
        starts = list(accumulate((-(-array.nbytes // _LINE) * _LINE for array in arrays), initial=0))
        self._slices = [slice(start, start + array.nbytes) for start, array in zip(starts, arrays, strict=False)]
        self._memory = mmap.mmap(-1, starts[-1] or 1)
        for place, array in zip(self._slices, arrays, strict=True):
            self._memory[place] = array

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return len(self._frame) + len(self._memory)

    def result(self) -> Classification:
        """Unpack it; the arrays lie in the held memory, and cannot be written to."""
        memory = memoryview(self._memory).toreadonly()
        return cast("Classification", pickle.loads(self._frame, buffers=[memory[place] for place in self._slices]))

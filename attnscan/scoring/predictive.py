"""The pattern that has to ask the model: which words help to predict which.

Word i is hidden behind the mask token, then words i and j together; what the model loses of i is the help
of j. One sequence with both hidden serves both directions. Two measures:

- `cpmi`, with a masked-LM head: the conditional pointwise mutual information log p(i | all but i)
  - log p(i | all but i and j), in nats (Hoover et al., "Linguistic Dependencies and Statistical Dependence", 2021).
- `distance`, without one: how far the last hidden state at i moves, |H_i - H_i'|, after the average-product
  correction, negatives at 0 (Wu et al., "Perturbed Masking", 2020).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscan.inputs.batch import EncodedInput
from attnscan.model.loading import LoadedModel
from attnscan.model.running import check_finite, forward, head_sees_only, in_halves
from attnscan.model.threads import most_workers, replicas, side_by_side
from attnscan.results.dependencies import Help
from attnscan.results.terms import HelpMeasure

Report = Callable[[int, int], None]
"""Told how many of how many hidden sequences are done; first with none, before anything is paid."""

_NOISE = 1e-4  # of a hidden state's length: less than this is rounding, not help
_RUN = 4  # sampled words come in runs of neighbours, which are each other's likeliest helpers


def measure_of(loaded: LoadedModel, asked: str) -> tuple[HelpMeasure | None, str]:
    """The measure to use, or None and why there is none."""
    if asked == "off":
        return None, "switched off"
    if loaded.tokenizer.mask_token_id is None:
        return None, "the model has no mask token"
    if asked == "distance" or loaded.masked_lm is None:
        return (None, "the checkpoint has no masked-LM head") if asked == "cpmi" else ("distance", "")
    return "cpmi", ""


def help_between_words(
    loaded: LoadedModel,
    inputs: Sequence[EncodedInput],
    measure: HelpMeasure,
    *,
    most_words: int,
    batch_tokens: int | None,
    report: Report | None = None,
) -> Iterator[Help]:
    """Ask the model which words of each input help to predict which. Nothing else may use it meanwhile.

    Queries are words with a letter or digit, helpers all words; of more than `most_words`, runs of neighbours
    spread over the input. `report` is told of each input's own sequences.

    Raises: CaptureError if the model fails, or what it says is not finite.
    """
    room = loaded.room(batch_tokens).tokens
    askers = [_Asker(loaded, encoded, measure, most_words) for encoded in inputs]
    batches = sum(asker.batches(room) for asker in askers)
    questions = ((asker, some) for asker in askers for some in asker.questions(room))

    def answers(model: LoadedModel, question: tuple[_Asker, list[tuple[int, ...]]]) -> list[list[Any]]:
        asker, some = question
        return asker.answers(model, some)

    if report is not None and askers:
        report(0, askers[0].count)
    longest = max((len(encoded.tokens) for encoded in inputs), default=1)
    models = replicas(loaded, min(batches, most_workers(loaded, batch_tokens, longest)))
    with closing(side_by_side(models, questions, answers)) as answered:
        for (asker, some), found in answered:
            asker.take(some, found)
            if report is not None:
                report(asker.asked, asker.count)
            if asker.asked == asker.count:
                yield asker.help()


def spread(words: Sequence[int], most: int) -> list[int]:
    """At most `most` of the words, as runs of neighbours spread evenly over them.

    >>> spread(range(20), 8)
    [0, 1, 2, 3, 16, 17, 18, 19]
    """
    if len(words) <= most:
        return list(words)
    runs = max(1, most // _RUN)
    size = most // runs
    starts = np.linspace(0, len(words) - size, runs).astype(int)
    return [words[start + i] for start in starts for i in range(size)]


def average_product_corrected(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Take out of each entry what its row and column have in common with all others; negatives become 0.

    Shape: [query, key], NaN where nothing was measured, and there again.
    """
    measured = ~np.isnan(distances)
    if not measured.any():
        return distances
    values = np.where(measured, distances, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        rows = values.sum(1, keepdims=True) / measured.sum(1, keepdims=True)
        columns = values.sum(0, keepdims=True) / measured.sum(0, keepdims=True)
    overall = values.sum() / measured.sum()
    common = rows * columns / overall if overall > 0 else np.zeros_like(values)
    return np.where(measured, (values - np.nan_to_num(common)).clip(0), np.nan)


class _Asker:
    """Asks about one input with words hidden, and puts together what models make of it."""

    def __init__(self, loaded: LoadedModel, encoded: EncodedInput, measure: HelpMeasure, most_words: int) -> None:
        self._encoded = encoded
        self._measure = measure
        self._mask = loaded.tokenizer.mask_token_id
        self._inputs = {
            name: torch.tensor(values, device=loaded.device) for name, values in encoded.model_inputs.items()
        }
        self._tokens: dict[int, list[int]] = {}
        for token, unit in enumerate(encoded.unit):
            self._tokens.setdefault(unit, []).append(token)
        self._words = [unit for unit, sentence in enumerate(encoded.unit_sentence) if sentence >= 0]
        self._chosen = spread(self._words, most_words)
        self._queries = {
            unit for unit in self._chosen if not all(encoded.punctuation[token] for token in self._tokens[unit])
        }
        self._raw = np.full((len(encoded.units), len(encoded.units)), np.nan)
        self._alone: dict[int, Any] = {}
        self.asked = 0
        """How many sequences were answered."""

    @property
    def count(self) -> int:
        """How many sequences there are to ask: every query hidden, then every two words of which one is a query."""
        words, queries = len(self._chosen), len(self._queries)
        return queries + math.comb(words, 2) - math.comb(words - queries, 2)

    def _at_once(self, batch_tokens: int) -> int:
        return max(1, batch_tokens // len(self._encoded.tokens))

    def batches(self, batch_tokens: int) -> int:
        """In how many batches they are asked."""
        return -(-self.count // self._at_once(batch_tokens))

    def questions(self, batch_tokens: int) -> Iterator[list[tuple[int, ...]]]:
        """The sets of units to hide, a batch of sequences at a time; an empty one if there is nothing to ask."""
        alone = ((unit,) for unit in sorted(self._queries))
        pairs = (pair for pair in itertools.combinations(self._chosen, 2) if self._queries & set(pair))
        hidden: Iterator[tuple[int, ...]] = itertools.chain(alone, pairs)
        for _ in range(max(1, self.batches(batch_tokens))):
            yield list(itertools.islice(hidden, self._at_once(batch_tokens)))

    def answers(self, loaded: LoadedModel, some: Sequence[tuple[int, ...]]) -> list[list[Any]]:
        """What a model says at each unit of each set.

        That is a log-probability in nats (`cpmi`), or a hidden state [dimension] (`distance`).
        """
        if not some:
            return []
        ask = partial(self._log_probabilities if self._measure == "cpmi" else self._hidden_states, loaded)
        found = in_halves(some, ask, lambda _: len(self._encoded.tokens), loaded.device)
        return list(itertools.chain.from_iterable(found))

    def take(self, some: Sequence[tuple[int, ...]], answers: Sequence[list[Any]]) -> None:
        """Take what was answered; every unit's by itself comes before those of two."""
        for units, found in zip(some, answers, strict=True):
            if len(units) == 1:
                self._alone[units[0]] = found[0]
                continue
            for (query, key), without in zip((units, units[::-1]), found, strict=True):
                if query in self._queries:
                    self._raw[query, key] = self._loss(self._alone[query], without)
        self.asked += len(some)

    def help(self) -> Help:
        """What has been found."""
        matrix = self._raw if self._measure == "cpmi" else average_product_corrected(self._raw)
        return Help(matrix, self._measure, self.count, len(self._chosen), len(self._words))

    def _loss(self, with_key: Any, without_key: Any) -> float:
        """What hiding the key as well takes away from the query."""
        if self._measure == "cpmi":
            return float(with_key - without_key)
        distance = float((with_key - without_key).norm())
        return distance if distance > _NOISE * float(with_key.norm()) else 0.0

    def _masked(self, some: Sequence[tuple[int, ...]]) -> dict[str, Tensor]:
        """The input once for each set, its tokens replaced by the mask token."""
        inputs = {name: values.expand(len(some), -1) for name, values in self._inputs.items()}
        ids = inputs["input_ids"].clone()
        rows, places = self._places(some)
        ids[rows, places] = self._mask
        return {**inputs, "input_ids": ids}

    def _places(self, some: Sequence[tuple[int, ...]]) -> tuple[Tensor, Tensor]:
        """Row and column of every hidden token, set by set, unit by unit."""
        every = [(row, token) for row, units in enumerate(some) for unit in units for token in self._tokens[unit]]
        rows, places = torch.tensor(every, device=self._inputs["input_ids"].device).T
        return rows, places

    def _regrouped(self, values: Tensor, some: Sequence[tuple[int, ...]], merge: Callable[[Tensor], Any]) -> list[Any]:
        """Values of hidden tokens, merged to one for each unit of each set. Shape: [hidden token, ...]."""
        sizes = [len(self._tokens[unit]) for units in some for unit in units]
        merged = iter([merge(part) for part in torch.split(values, sizes)])
        return [[next(merged) for _ in units] for units in some]

    def _hidden_states(self, loaded: LoadedModel, some: Sequence[tuple[int, ...]]) -> list[Any]:
        every = forward(loaded.model, self._masked(some)).last_hidden_state
        states = every[self._places(some)].float().cpu()
        check_finite(states, "the last hidden states")
        return self._regrouped(states, some, lambda part: part.mean(0))

    def _log_probabilities(self, loaded: LoadedModel, some: Sequence[tuple[int, ...]]) -> list[Any]:
        places = self._places(some)
        with head_sees_only(loaded.model, places):
            logits = forward(loaded.masked_lm, self._masked(some)).logits[0]
        true = self._inputs["input_ids"][places[1]]
        logs = logits.float().log_softmax(-1).gather(1, true[:, None])[:, 0]
        check_finite(logs, "the masked-LM head's log-probabilities")
        return self._regrouped(logs.double().cpu(), some, lambda part: part.sum())

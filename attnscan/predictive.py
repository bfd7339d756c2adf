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
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscan.batch import EncodedInput
from attnscan.forward import forward, head_sees_only, in_halves
from attnscan.models import LoadedModel
from attnscan.options import Measure
from attnscan.results import Help

Report = Callable[[int, int], None]
"""Told how many of how many hidden sequences are done; first with none, before anything is paid."""

_NOISE = 1e-4  # of a hidden state's length: less than this is rounding, not help
_RUN = 4  # sampled words come in runs of neighbours, which are each other's likeliest helpers


def measure_of(loaded: LoadedModel, asked: str) -> tuple[Measure | None, str]:
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
    encoded: EncodedInput,
    measure: Measure,
    *,
    most_words: int,
    batch_tokens: int,
    report: Report | None = None,
) -> Help:
    """Ask the model which words of one input help to predict which.

    Queries are words with a letter or digit, helpers all words; of more than `most_words`, runs of neighbours
    spread over the input.
    """
    asker = _Asker(loaded, encoded, measure)
    words = [unit for unit, sentence in enumerate(encoded.unit_sentence) if sentence >= 0]
    chosen = spread(words, most_words)
    queries = {unit for unit in chosen if not asker.is_punctuation(unit)}
    hidden: list[tuple[int, ...]] = [(unit,) for unit in sorted(queries)]
    hidden += [pair for pair in itertools.combinations(chosen, 2) if queries & set(pair)]
    raw = np.full((len(encoded.units), len(encoded.units)), np.nan)
    alone: dict[int, Any] = {}
    for units, found in asker.ask(hidden, batch_tokens, report):
        if len(units) == 1:
            alone[units[0]] = found[0]
            continue
        for (query, key), without in zip((units, units[::-1]), found, strict=True):
            if query in queries:
                raw[query, key] = asker.loss(alone[query], without)
    matrix = raw if measure == "cpmi" else average_product_corrected(raw)
    return Help(matrix, measure, len(hidden), len(chosen), len(words))


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
    """Runs one input with words hidden, and reads what the model makes of them."""

    def __init__(self, loaded: LoadedModel, encoded: EncodedInput, measure: Measure) -> None:
        self._loaded = loaded
        self._encoded = encoded
        self._measure = measure
        self._inputs = {
            name: torch.tensor(values, device=loaded.device) for name, values in encoded.model_inputs.items()
        }
        self._tokens: dict[int, list[int]] = {}
        for token, unit in enumerate(encoded.unit):
            self._tokens.setdefault(unit, []).append(token)

    def is_punctuation(self, unit: int) -> bool:
        """Whether all tokens of a unit are."""
        return all(self._encoded.punctuation[token] for token in self._tokens[unit])

    def ask(
        self, hidden: Sequence[tuple[int, ...]], batch_tokens: int, report: Report | None
    ) -> Iterator[tuple[tuple[int, ...], list[Any]]]:
        """For each set of units to hide: the set, and what the model says at each of them.

        That is a log-probability in nats (`cpmi`), or a hidden state [dimension] (`distance`).
        """
        length = len(self._encoded.tokens)
        at_once = max(1, batch_tokens // length)
        ask = self._log_probabilities if self._measure == "cpmi" else self._hidden_states
        for start in range(0, len(hidden), at_once):
            if report is not None:
                report(start, len(hidden))
            some = hidden[start : start + at_once]
            found = in_halves(some, ask, lambda _: length, self._loaded.device)
            yield from zip(some, itertools.chain.from_iterable(found), strict=True)
        if report is not None:
            report(len(hidden), len(hidden))

    def loss(self, with_key: Any, without_key: Any) -> float:
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
        ids[rows, places] = self._loaded.tokenizer.mask_token_id
        return {**inputs, "input_ids": ids}

    def _places(self, some: Sequence[tuple[int, ...]]) -> tuple[Tensor, Tensor]:
        """Row and column of every hidden token, set by set, unit by unit."""
        every = [(row, token) for row, units in enumerate(some) for unit in units for token in self._tokens[unit]]
        rows, places = torch.tensor(every, device=self._loaded.device).T
        return rows, places

    def _regrouped(self, values: Tensor, some: Sequence[tuple[int, ...]], merge: Callable[[Tensor], Any]) -> list[Any]:
        """Values of hidden tokens, merged to one for each unit of each set. Shape: [hidden token, ...]."""
        sizes = [len(self._tokens[unit]) for units in some for unit in units]
        merged = iter([merge(part) for part in torch.split(values, sizes)])
        return [[next(merged) for _ in units] for units in some]

    def _hidden_states(self, some: Sequence[tuple[int, ...]]) -> list[Any]:
        states = forward(self._loaded.model, self._masked(some)).last_hidden_state
        return self._regrouped(states[self._places(some)].float().cpu(), some, lambda part: part.mean(0))

    def _log_probabilities(self, some: Sequence[tuple[int, ...]]) -> list[Any]:
        places = self._places(some)
        with head_sees_only(self._loaded.model, places):
            logits = forward(self._loaded.masked_lm, self._masked(some)).logits[0]
        true = self._inputs["input_ids"][places[1]]
        logs = logits.float().log_softmax(-1).gather(1, true[:, None])[:, 0]
        return self._regrouped(logs.double().cpu(), some, lambda part: part.sum())

"""The predictive pattern: ask the model which words help to predict which, all of them or some.

Word i is hidden behind the mask token, then words i and j together; what the model loses of i is
the help of j. One sequence with both hidden serves both directions. Two measures:

- `cpmi`, with a masked-LM head: log p(i | all but i) - log p(i | all but i and j), the conditional
  pointwise mutual information in nats (Hoover et al., "Linguistic Dependencies and Statistical
  Dependence", 2021).
- `distance`, without one: how far the last hidden state at i moves, |H_i - H_i'|, after the
  average-product correction, negatives at 0 (Wu et al., "Perturbed Masking", 2020).
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from attnscan.inputs.sentence import EncodedInput
from attnscan.model.device_memory import BatchLimit, work_in_parts
from attnscan.model.forward import check_finite, forward, restrict_task_head
from attnscan.model.loading import LoadedModel
from attnscan.model.threads import most_workers, parallel_map
from attnscan.results.predictions import HelpMeasure, WordDependencies
from attnscan.results.scores import FloatArray
from attnscan.text import counted

Hidden = tuple[int, ...]
"""The units to hide in a sequence."""
_RUN = 4  # sampled words come in runs of neighbours, which are each other's likeliest helpers
_WORDS = 32  # asked about by default
_MANY_TOKENS = 1024  # from what length of an input on fewer words are asked about
_NEIGHBOURS = 8  # of many pairs, words of a pair that are asked about by the masked-LM head
# Of many pairs, tokens asked at most: so many times those that are scored or, if more, so many
_ASKED_TIMES_SCORED = 2
_MIN_ASKED = 4096
_MIN_HELP = 0.5  # in nats: a word whose best helper gives less is not eligible
_NOISE = 1e-4  # of a hidden state's length: less than this is rounding, not help


@dataclass(frozen=True)
class MaskedQueries:
    """An input, and the words of it whose help is measured.

    Queries are words with a letter or digit, helpers all words; of more than `most_words`, runs of
    neighbours spread over the input. By default as many as `_usual_words` says.
    """

    encoded: EncodedInput
    most_words: int | None = None
    neighbours_from: int | None = None
    """Ask about `_NEIGHBOURS` words alone, from this one of the input's words on."""

    @cached_property
    def words(self) -> list[int]:
        """All units that are words."""
        return [unit for unit, sentence in enumerate(self.encoded.unit_sentence) if sentence >= 0]

    @cached_property
    def chosen(self) -> list[int]:
        """The words that are hidden."""
        if self.neighbours_from is not None:
            return self.words[self.neighbours_from :][:_NEIGHBOURS]
        return spread(self.words, self.most_words or _usual_words(self.length))

    @cached_property
    def queries(self) -> frozenset[int]:
        """The chosen words whose prediction is measured."""
        marks = zip(self.encoded.unit, self.encoded.punctuation, strict=True)
        return frozenset(unit for unit, mark in marks if not mark) & frozenset(self.chosen)

    @cached_property
    def hidden(self) -> list[Hidden]:
        """The sequences to run: each query hidden, then each two words of which one is a query."""
        pairs = itertools.combinations(self.chosen, 2)
        singles = [(unit,) for unit in self.chosen if unit in self.queries]
        return [*singles, *(pair for pair in pairs if self.queries & set(pair))]

    @property
    def length(self) -> int:
        """Of each sequence, in tokens."""
        return len(self.encoded.tokens)

    def describe(self, measure: HelpMeasure) -> str:
        """Describe the measurement in one line."""
        methods = {"cpmi": "nats by the masked-LM head", "distance": "distance of hidden states"}
        words = counted(len(self.words), "word")
        sequences = counted(len(self.hidden), "hidden sequence")
        is_default = self.most_words is None and self.neighbours_from is None
        is_reduced = is_default and len(self.chosen) < min(_WORDS, len(self.words))
        hint = " (--predictive-words asks about more)" if is_reduced else ""
        asked = f"{len(self.chosen):,} of {words}{hint}"
        return f"predictive: {methods[measure]}, {asked}, {sequences}."


def _usual_words(length: int) -> int:
    """How many words of an input of so many tokens are asked about.

    They are 32, of 2,048 tokens 22, of 8,192 11: w words make w + w(w - 1)/2 = w(w + 1)/2
    questions.
    """
    most_questions = _MANY_TOKENS * math.comb(_WORDS + 1, 2) // length
    most_words = (math.isqrt(8 * most_questions + 1) - 1) // 2
    return max(2, min(_WORDS, most_words))


def spread(words: Sequence[int], most: int) -> list[int]:
    """At most `most` of the words, as runs of neighbours spread evenly over them.

    >>> spread(range(20), 8)
    [0, 1, 2, 3, 16, 17, 18, 19]
    """
    if len(words) <= most:
        return list(words)
    runs = max(1, most // _RUN)
    size = most // runs
    chosen: list[int] = []
    for start in np.linspace(0, len(words) - size, runs).astype(int):
        chosen += words[start : start + size]
    return chosen


def within_budget(
    inputs: Sequence[EncodedInput], keys: Sequence[str], measure: HelpMeasure, *, scored_tokens: int
) -> list[MaskedQueries]:
    """Choose questions about a sample of pairs, in its order, for about twice the cost of scoring.

    By the masked-LM head, a pair is asked about eight neighbouring words, drawn by its hash: most
    words have their best helper among them. The distance of hidden states is corrected by the mean
    of all words, so all of them are asked.
    """
    sample: list[MaskedQueries] = []
    left = max(_MIN_ASKED, _ASKED_TIMES_SCORED * scored_tokens)
    for encoded, key in zip(inputs, keys, strict=True):
        questions = MaskedQueries(encoded)
        if measure == "cpmi":
            places = max(1, len(questions.words) - _NEIGHBOURS + 1)
            questions = MaskedQueries(encoded, neighbours_from=int(key, 16) % places)
        cost = len(questions.hidden) * questions.length
        if 0 < cost <= left:
            sample.append(questions)
            left -= cost
    return sample


def measure_of(loaded: LoadedModel, option: str) -> tuple[HelpMeasure | None, str]:
    """The measure to use, or None and the reason."""
    if option == "off":
        return None, "switched off"
    if loaded.tokenizer.mask_token_id is None:
        return None, "the model has no mask token"
    if loaded.masked_lm is None and option == "cpmi":
        return None, "the checkpoint has no masked-LM head"
    if loaded.masked_lm is None or option == "distance":
        return "distance", ""
    return "cpmi", ""


class _Part(NamedTuple):
    """Some hidden sequences of an input, by its number."""

    number: int
    hidden: list[Hidden]
    is_last: bool


def help_between_words(
    loaded: LoadedModel,
    inputs: Sequence[MaskedQueries],
    measure: HelpMeasure,
    *,
    batch_tokens: int | None,
    limit: BatchLimit,
    tell: Callable[[int, int], object] = lambda *_: None,
) -> list[WordDependencies]:
    """Ask the model which words of each input help to predict which.

    Nothing else may use the model meanwhile. What a device's memory does not hold by its `limit` is
    asked in parts. Tells, before the first batch of hidden sequences and
    after each, how many of how many sequences are done.
    Raises: CaptureError if the model fails, or its output is not finite; MemoryFullError.
    """
    dependencies: dict[int, WordDependencies] = {}
    for number, questions in enumerate(inputs):
        if not questions.hidden:
            dependencies[number] = help_of(questions, torch.zeros(0), measure)
    done = 0
    total = sum(len(questions.hidden) for questions in inputs)
    if total:
        tell(done, total)
        asked = set(range(len(inputs))) - set(dependencies)
        order = sorted(asked, key=lambda number: -inputs[number].length)
        workers = most_workers(loaded, batch_tokens, inputs[order[0]].length)
        tokens = sum(len(questions.hidden) * questions.length for questions in inputs)
        room = min(loaded.room(batch_tokens), math.ceil(tokens / workers))
        parts = list(_parts(inputs, order, room))
        answers: list[Tensor] = []
        ask = partial(_ask_in_parts, loaded, inputs, measure, limit)
        with closing(parallel_map(min(len(parts), workers), parts, ask)) as answered:
            for part, values in answered:
                answers.append(values)
                if part.is_last:
                    dependencies[part.number] = help_of(
                        inputs[part.number], torch.cat(answers), measure
                    )
                    answers.clear()
                done += len(part.hidden)
                tell(done, total)
    return [dependencies[number] for number in range(len(inputs))]


def _parts(inputs: Sequence[MaskedQueries], order: Sequence[int], room: int) -> Iterator[_Part]:
    """The hidden sequences of inputs, input by input, in parts of at most so many tokens."""
    for number in order:
        hidden = inputs[number].hidden
        size = max(1, room // inputs[number].length)
        for start in range(0, len(hidden), size):
            stop = start + size
            yield _Part(number, hidden[start:stop], is_last=stop >= len(hidden))


def _ask_in_parts(
    loaded: LoadedModel,
    inputs: Sequence[MaskedQueries],
    measure: HelpMeasure,
    limit: BatchLimit,
    part: _Part,
) -> Tensor:
    """Run a part's hidden sequences as `_ask` does, as many at once as memory holds."""
    length = inputs[part.number].length
    answers = work_in_parts(
        lambda hidden: _ask(loaded, inputs, measure, part._replace(hidden=hidden)),
        part.hidden,
        lambda _: length,
        limit,
    )
    return torch.cat([values for _, values in answers])


def _ask(
    loaded: LoadedModel, inputs: Sequence[MaskedQueries], measure: HelpMeasure, part: _Part
) -> Tensor:
    """Run an input with words hidden: what the model says at each hidden unit.

    Sequence by sequence, that is a log-probability in nats (`cpmi`), or a hidden state
    (`distance`). Shape: [hidden unit, ...], on the CPU.
    """
    encoded = inputs[part.number].encoded
    model_inputs = {
        name: torch.tensor([values] * len(part.hidden))
        for name, values in encoded.model_inputs.items()
    }
    sequences, units = torch.tensor(list(_hidden_units(part.hidden))).T
    # Every token of each unit is hidden
    number, columns = (units[:, None] == torch.tensor(encoded.unit)).nonzero().T
    rows = sequences[number]
    true_ids = model_inputs["input_ids"][rows, columns].to(loaded.device)
    model_inputs["input_ids"][rows, columns] = loaded.tokenizer.mask_token_id
    model_inputs = {name: values.to(loaded.device) for name, values in model_inputs.items()}
    with restrict_task_head(loaded.model, (rows, columns)):
        if measure == "cpmi":
            logits = forward(loaded.masked_lm, model_inputs).logits[0].float()
            values = logits.log_softmax(-1).gather(1, true_ids[:, None])[:, 0].double().cpu()
            check_finite(values, "the masked-LM head's log-probabilities")
        else:
            values = forward(loaded.model, model_inputs).last_hidden_state[0].float().cpu()
            check_finite(values, "the last hidden states")
    summed = torch.zeros(len(units), *values.shape[1:], dtype=values.dtype)
    summed.index_add_(0, number, values)
    return summed if measure == "cpmi" else summed / number.bincount()[:, None]


def _hidden_units(hidden: Sequence[Hidden]) -> Iterator[tuple[int, int]]:
    """Every hidden unit, with the number of its sequence."""
    for sequence, units in enumerate(hidden):
        for unit in units:
            yield sequence, unit


def help_of(questions: MaskedQueries, values: Tensor, measure: HelpMeasure) -> WordDependencies:
    """Compute the help from the model's answers.

    Shape: `values` [hidden unit, ...], as `MaskedQueries.hidden`.
    """
    chosen = questions.chosen
    matrix = np.full((len(chosen), len(chosen)), np.nan)
    singles = {units[0]: place for place, units in enumerate(questions.hidden) if len(units) == 1}
    measured = list(_measured_pairs(questions.hidden, singles))
    if measured:
        places, queries, keys = zip(*measured, strict=True)
        with_key = values[[singles[query] for query in queries]]
        lost = with_key - values[list(places)]  # the queries' loss when the keys are hidden as well
        if measure == "distance":
            distance = lost.norm(dim=-1)
            lost = torch.where(distance > _NOISE * with_key.norm(dim=-1), distance, 0.0)
        matrix[np.searchsorted(chosen, queries), np.searchsorted(chosen, keys)] = lost
    if measure == "distance":
        matrix = average_product_corrected(matrix)
    return WordDependencies(
        values=matrix,
        shares=shares_of_best(matrix, measure),
        places=tuple(chosen),
        measure=measure,
        description=questions.describe(measure),
    )


def _measured_pairs(
    hidden: Sequence[Hidden], singles: dict[int, int]
) -> Iterator[tuple[int, int, int]]:
    """The place of each answer about a query when a key is hidden, too; the query; and the key."""
    place = len(singles)
    for first, second in hidden[len(singles) :]:
        for query, key in ((first, second), (second, first)):
            if query in singles:
                yield place, query, key
            place += 1


def shares_of_best(helps: FloatArray, measure: HelpMeasure) -> FloatArray:
    """Each row scaled so that its best helper is 1; zero where none helps enough.

    Shape: [query, key], as returned.
    """
    helps = np.nan_to_num(helps, nan=0).clip(0)
    best = helps.max(-1, keepdims=True, initial=0)
    least = _MIN_HELP if measure == "cpmi" else np.finfo(np.float64).tiny
    return np.where(best >= least, helps / np.maximum(best, least), 0)


def average_product_corrected(distances: FloatArray) -> FloatArray:
    """Take out of each entry what its row and column have in common with all others.

    Negatives become 0. Shape: [query, key], of the result, too; NaN where nothing was measured, in
    both.
    """
    measured = ~np.isnan(distances)
    values = np.where(measured, distances, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        rows = values.sum(1, keepdims=True) / measured.sum(1, keepdims=True)
        columns = values.sum(0, keepdims=True) / measured.sum(0, keepdims=True)
        common = np.nan_to_num(rows * columns / (values.sum() / measured.sum()))
    return np.where(measured, (values - common).clip(0), np.nan)

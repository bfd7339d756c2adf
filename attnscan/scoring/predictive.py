"""The pattern that has to ask the model: which words help to predict which, and of which of them it is asked.

Word i is hidden behind the mask token, then words i and j together; what the model loses of i is the help
of j. One sequence with both hidden serves both directions. Two measures:

- `cpmi`, with a masked-LM head: the conditional pointwise mutual information log p(i | all but i)
  - log p(i | all but i and j), in nats (Hoover et al., "Linguistic Dependencies and Statistical Dependence", 2021).
- `distance`, without one: how far the last hidden state at i moves, |H_i - H_i'|, after the average-product
  correction, negatives at 0 (Wu et al., "Perturbed Masking", 2020).
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from operator import itemgetter

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscan.hashing import hashed
from attnscan.inputs.batch import EncodedInput
from attnscan.model.loaded import LoadedModel
from attnscan.model.running import check_finite, forward, head_sees_only, most_workers, side_by_side
from attnscan.results.dependencies import Help
from attnscan.results.terms import HelpMeasure

_RUN = 4  # sampled words come in runs of neighbours, which are each other's likeliest helpers
_WORDS, _MANY_TOKENS = 32, 1024
"""How many words are asked about by default, and of how long an input no longer so many."""

Hidden = tuple[int, tuple[int, ...]]
"""A sequence: the index of an input, and the units to hide in it."""

_NEIGHBOURS = 8
"""Of many pairs, so many neighbouring words of a pair are asked about, by the masked-LM head."""
_ASKING, _LEAST = 2, 4096
"""Of many pairs, asking costs at most so many times what scoring them costs, in tokens that the model reads; or so many
tokens, a matter of seconds, where that is more."""

_NOISE = 1e-4  # of a hidden state's length: less than this is rounding, not help
_ALIKE = 0.9  # of a batch's longest input: filling up shorter ones costs more than a batch that is not full


@dataclass(frozen=True)
class Questions:
    """An input, and which of its words are asked about.

    Queries are words with a letter or digit, helpers all words; of more than `most_words`, runs of neighbours spread
    over the input. By default as many as `_usual_words` says.
    """

    encoded: EncodedInput
    most_words: int | None = None
    neighbours_from: int | None = None
    """Ask about `_NEIGHBOURS` words alone, from this one of the input's words on."""

    @cached_property
    def tokens(self) -> dict[int, list[int]]:
        """The tokens of each unit."""
        tokens: dict[int, list[int]] = {}
        for token, unit in enumerate(self.encoded.unit):
            tokens.setdefault(unit, []).append(token)
        return tokens

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
        """Those of them whose prediction is looked at."""
        punctuation = self.encoded.punctuation
        return frozenset(unit for unit in self.chosen if not all(punctuation[token] for token in self.tokens[unit]))

    @property
    def count(self) -> int:
        """How many sequences there are to ask: every query hidden, then every two words of which one is a query."""
        words, queries = len(self.chosen), len(self.queries)
        return queries + math.comb(words, 2) - math.comb(words - queries, 2)

    @property
    def length(self) -> int:
        """Of each of them, in tokens."""
        return len(self.encoded.tokens)

    def hidden(self) -> Iterator[tuple[int, ...]]:
        """The units to hide in each sequence; those of a single one come first."""
        yield from ((unit,) for unit in sorted(self.queries))
        yield from (pair for pair in itertools.combinations(self.chosen, 2) if self.queries & set(pair))

    @cached_property
    def cells(self) -> NDArray[np.bool_]:
        """Where the answers stand: queries by other words. Shape: [query, key], both over the words that are hidden."""
        queries = np.isin(self.chosen, list(self.queries))
        return queries[:, None] & ~np.eye(len(self.chosen), dtype=bool)

    def help(self, values: NDArray[np.float64], measure: HelpMeasure) -> Help:
        """The answers, put together. Shape: `values` as `cells`, NaN where nothing was asked."""
        by_default = self.most_words is self.neighbours_from is None
        by_length = by_default and len(self.chosen) < min(_WORDS, len(self.words))
        units = self.encoded.unit[-1] + 1
        return Help(values, measure, self.count, tuple(self.chosen), len(self.words), units, by_length)

    @cached_property
    def digest(self) -> str:
        """A hash of all that is asked, and of what a model is given for it; no text is in it."""
        sizes = [len(self.encoded.units), len(self.words)]
        about = [self.encoded.model_inputs, self.chosen, self.encoded.unit, sorted(self.queries), sizes]
        return hashed(json.dumps(about, sort_keys=True).encode())


def _usual_words(length: int) -> int:
    """How many words of an input of so many tokens are asked about: 32, as long as all questions together are short.

    >>> [_usual_words(length) for length in (512, 1024, 2048, 8192)]
    [32, 32, 22, 11]
    """
    most = _MANY_TOKENS * math.comb(_WORDS + 1, 2) // length  # w words make w + w(w - 1)/2 = w(w + 1)/2 questions
    return max(2, min(_WORDS, (math.isqrt(8 * most + 1) - 1) // 2))


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


def within_budget(
    inputs: Sequence[EncodedInput], keys: Sequence[str], measure: HelpMeasure, *, scored_tokens: int
) -> list[Questions]:
    """What is asked about a sample of pairs, in the sample's order, for about twice the cost of scoring all pairs.

    By the masked-LM head, a pair is asked about some neighbouring words, which its hash draws: among eight neighbours
    most words have their best helper, and eight are cheaper to ask about than one word with all its helpers (on
    Wikipedia pairs and at one cost, the scores of 72 heads are off by 0.03 and not by 0.08). The distance of hidden
    states is corrected by the mean of all words, so a pair is asked about in whole. What no longer fits is left out.
    """
    asked, left = list[Questions](), max(_LEAST, _ASKING * scored_tokens)
    for encoded, key in zip(inputs, keys, strict=True):
        questions = Questions(encoded)
        if measure == "cpmi":
            places = max(1, len(questions.words) - _NEIGHBOURS + 1)
            questions = Questions(encoded, neighbours_from=int(key, 16) % places)
        if 0 < (cost := questions.count * questions.length) <= left:
            asked.append(questions)
            left -= cost
    return asked


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
    inputs: Sequence[Questions],
    measure: HelpMeasure,
    *,
    batch_tokens: int | None,
) -> Iterator[tuple[int, int, list[tuple[int, Help]]]]:
    """Ask the model which words of each input help to predict which. Nothing else may use it meanwhile.

    Yields, before the first batch of hidden sequences and after each, how many of how many sequences are done, and
    the inputs that are answered by then: the index and the help of each. Longer inputs come first.

    Raises: CaptureError if the model fails, or what it says is not finite.
    """
    order = sorted((i for i in range(len(inputs)) if inputs[i].count), key=lambda i: -inputs[i].length)
    done, total = 0, sum(questions.count for questions in inputs)
    nothing = torch.zeros(0)
    yield done, total, [(i, help_of(asked, nothing, measure)) for i, asked in enumerate(inputs) if not asked.count]
    if not order:
        return
    workers = most_workers(loaded, batch_tokens, inputs[order[0]].length)
    batches = list(_batches(inputs, order, _room(inputs, loaded.room(batch_tokens).tokens, workers)))
    left, answers = [asked.count for asked in inputs], [list[Tensor]() for _ in inputs]

    ask = partial(_run, inputs, measure, loaded)
    with closing(side_by_side(min(len(batches), workers), batches, ask)) as batches_done:
        for batch, values in batches_done:
            done += len(batch)
            complete = list[tuple[int, Help]]()
            for index, own in itertools.groupby(batch, key=itemgetter(0)):
                counts = [len(units) for _, units in own]
                answers[index].append(values[: sum(counts)])
                values, left[index] = values[sum(counts) :], left[index] - len(counts)
                if not left[index]:
                    complete.append((index, help_of(inputs[index], torch.cat(answers[index]), measure)))
                    answers[index].clear()
            yield done, total, complete


def _room(inputs: Sequence[Questions], room: int, workers: int) -> int:
    """How many tokens a batch may hold so that no worker is without one while others have their last."""
    if workers == 1:
        return room
    tokens, longest = sum(asked.count * asked.length for asked in inputs), max(asked.length for asked in inputs)
    rounds = math.ceil(tokens / (room * workers))
    return min(room, math.ceil(tokens / (rounds * workers)) + longest)


def _batches(inputs: Sequence[Questions], order: Sequence[int], room: int) -> Iterator[list[Hidden]]:
    """All sequences in batches of inputs of like length; of each input, those with one hidden unit come first."""
    batch: list[Hidden] = []
    longest = 0
    for index in order:
        length, can_pad = inputs[index].length, "attention_mask" in inputs[index].encoded.model_inputs
        alike = length == longest or (can_pad and length >= _ALIKE * longest)
        for units in inputs[index].hidden():
            if batch and (not alike or (len(batch) + 1) * longest > room):
                yield batch
                batch = []
            if not batch:
                longest, alike = length, True
            batch.append((index, units))
    if batch:
        yield batch


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


def _run(inputs: Sequence[Questions], measure: HelpMeasure, loaded: LoadedModel, batch: Sequence[Hidden]) -> Tensor:
    """Run inputs with words hidden: what the model says at each hidden unit, sequence by sequence, on the CPU.

    That is a log-probability in nats (`cpmi`), or a hidden state (`distance`). Shape: [hidden unit, ...].
    """
    width = max(inputs[index].length for index, _ in batch)
    masked = {
        name: torch.tensor([_filled(inputs[index], name, width, loaded) for index, _ in batch])
        for name in inputs[batch[0][0]].encoded.model_inputs
    }
    hidden = [(row, inputs[index].tokens[unit]) for row, (index, units) in enumerate(batch) for unit in units]
    every = [(row, token, number) for number, (row, tokens) in enumerate(hidden) for token in tokens]
    rows, columns, units = torch.tensor(every).T
    true = masked["input_ids"][rows, columns].to(loaded.device)
    masked["input_ids"][rows, columns] = loaded.tokenizer.mask_token_id
    given = {name: values.to(loaded.device) for name, values in masked.items()}
    with head_sees_only(loaded.model, (rows, columns)):
        if measure == "cpmi":
            logs = forward(loaded.masked_lm, given).logits[0].float().log_softmax(-1)
            values = logs.gather(1, true[:, None])[:, 0].double().cpu()
        else:
            values = forward(loaded.model, given).last_hidden_state[0].float().cpu()
    check_finite(values, "the masked-LM head's log-probabilities" if measure == "cpmi" else "the last hidden states")
    summed = torch.zeros(len(hidden), *values.shape[1:], dtype=values.dtype).index_add_(0, units, values)
    return summed if measure == "cpmi" else summed / units.bincount()[:, None]


def _filled(asked: Questions, name: str, width: int, loaded: LoadedModel) -> list[int]:
    """One of an input's sequences for the model, filled up at the end."""
    values = asked.encoded.model_inputs[name]
    if len(values) == width:
        return values
    return values + [loaded.pad_id if name == "input_ids" else 0] * (width - len(values))


def help_of(questions: Questions, values: Tensor, measure: HelpMeasure) -> Help:
    """Put together what the model says of one input.

    Shape: `values` [hidden unit, ...], in the order of `Questions.hidden`: every unit by itself, then those of two.
    """
    number = {unit: place for place, unit in enumerate(questions.chosen)}
    help_matrix = np.full(questions.cells.shape, np.nan)
    hidden = [[number[unit] for unit in units] for units in questions.hidden()]
    alone = {own[0]: place for place, own in enumerate(hidden) if len(own) == 1}
    pairs = [(query, key) for own in hidden if len(own) == 2 for query, key in (own, own[::-1])]
    asked = [(len(alone) + at, *cell) for at, cell in enumerate(pairs) if questions.cells[cell]]
    if asked:
        places, queries, keys = np.array(asked).T
        with_key = values[[alone[query] for query in queries]]
        lost = with_key - values[places]  # what hiding the keys as well takes away from the queries
        if measure == "distance":
            distance = lost.norm(dim=-1)
            lost = torch.where(distance > _NOISE * with_key.norm(dim=-1), distance, 0.0)
        help_matrix[queries, keys] = lost
    if measure == "distance":
        help_matrix = average_product_corrected(help_matrix)
    return questions.help(help_matrix, measure)

"""What attnscan's numbers mean, written a second time in plain loops, without attnscan: `truth.py`
compares the two.

Weights come from transformers' own eager attention (`output_attentions=True`), one input at a time.
Loops go over inputs, queries and patterns; numpy adds up over keys, for all heads together.
Related words, and words merged from their pieces, are those of vocabularies that mark pieces with
`##`.
"""

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.stats import t as student
from transformers import AutoModel, AutoTokenizer

PATTERNS = (
    "next-word",
    "previous-word",
    "identical",
    "cross-sentence",
    "predictive",
    "delimiter",
    "bag-of-words",
)
NAN = math.nan
Head = tuple[int, int]
"""Layer and head."""
Pieces = list[list[int]]
"""The tokens of each word."""
Rows = dict[str, dict[int, dict[int, float]]]
"""Of each pattern, each eligible query's target keys and their values."""


@dataclass(frozen=True)
class Input:
    """One input, token by token, or word by word."""

    inputs: dict[str, list[int]]
    sentence: list[int]  # 0 for sentence A, 1 for B, -1 for a special token
    text: list[str]  # case folded
    content: list[bool]  # whether it is a word with a letter or digit
    visible: list[list[bool]]  # by query, then key
    pieces: Pieces  # of which tokens each is made

    @property
    def words(self) -> list[int]:
        """The places of words."""
        return [i for i, sentence in enumerate(self.sentence) if sentence >= 0]


class Checkpoint:
    """A model and its tokenizer, by transformers alone."""

    def __init__(self, directory: Path, name: str = "") -> None:
        """`name` is what attnscan calls it, if that is not its directory."""
        self.directory = directory
        self.name = name or str(directory)
        self.tokenizer = AutoTokenizer.from_pretrained(directory)
        self.network = AutoModel.from_pretrained(
            directory, attn_implementation="eager", dtype=torch.float32
        ).eval()

    def read(self, pair: Sequence[str], unit: str = "token") -> Input:
        """Tokenize a pair; with the unit `word`, its pieces are merged."""
        encoding = self.tokenizer(*pair, return_offsets_mapping=True)
        spans = encoding.pop("offset_mapping")
        sentence = [-1 if number is None else number for number in encoding.sequence_ids(0)]
        surface = ["" if s < 0 else pair[s][a:b] for s, (a, b) in zip(sentence, spans, strict=True)]
        tokens = self.tokenizer.convert_ids_to_tokens(encoding["input_ids"])
        words = encoding.word_ids(0)
        pieces = [[0]]
        for i in range(1, len(tokens)):
            same_word = words[i] == words[i - 1] and sentence[i] == sentence[i - 1]
            if unit == "word" and words[i] is not None and same_word:
                pieces[-1].append(i)
            else:
                pieces.append([i])
        text = []
        content = []
        for first, *others in pieces:
            spelled = tokens[first] + "".join(tokens[i].removeprefix("##") for i in others)
            text.append(spelled.casefold())
            content.append(any(map(str.isalnum, "".join(surface[i] for i in (first, *others)))))
        return Input(
            inputs={name: list(encoding[name]) for name in encoding},
            sentence=[sentence[group[0]] for group in pieces],
            text=text,
            content=content,
            visible=[[True] * len(pieces)] * len(pieces),
            pieces=pieces,
        )

    def projections(self, layer: int) -> tuple[torch.nn.Linear, ...]:
        """A layer's queries, keys, values and output, of a BERT or an MPNet."""
        attention = self.network.encoder.layer[layer].attention
        if hasattr(attention, "attn"):
            return attention.attn.q, attention.attn.k, attention.attn.v, attention.attn.o
        own = attention.self
        return own.query, own.key, own.value, attention.output.dense

    @property
    def shape(self) -> tuple[int, int]:
        """Layers and heads."""
        config = self.network.config
        return config.num_hidden_layers, config.num_attention_heads

    def run(self, inputs: Mapping[str, Sequence[object]], **options: bool) -> object:
        """The network's output, of one input or of several of one length."""
        tensors = {name: torch.atleast_2d(torch.tensor(values)) for name, values in inputs.items()}
        with torch.inference_mode():
            return self.network(**tensors, output_attentions=True, **options)

    def weights(self, one: Input, **changed: list[int]) -> np.ndarray:
        """All heads' rows, merged if the input is read word by word; `changed` replaces inputs.

        Shape: [layer, head, query, key].
        """
        weights = torch.cat(self.run({**one.inputs, **changed}).attentions).double().numpy()
        if all(len(group) == 1 for group in one.pieces):
            return weights
        return merged(weights, one.pieces)


def merged(weights: ArrayLike, pieces: Pieces) -> np.ndarray:
    """Rows by words: to a word the sum over its pieces, from it their mean.

    Shape: [..., token, token] -> [..., word, word].
    """
    weights = np.asarray(weights)
    rows = np.stack([weights[..., group, :].mean(-2) for group in pieces], -2)
    return np.stack([rows[..., group].sum(-1) for group in pieces], -1)


def _hidden_states(
    checkpoint: Checkpoint, one: Input, hidden: list[tuple[int, ...]]
) -> Iterator[torch.Tensor]:
    """The last hidden state, with each set of positions masked. Shape: [token, size]."""
    for start in range(0, len(hidden), 32):
        some = hidden[start : start + 32]
        rows = []
        for positions in some:
            row = list(one.inputs["input_ids"])
            for i in positions:
                row[i] = checkpoint.tokenizer.mask_token_id
            rows.append(row)
        batch = {name: [values] * len(some) for name, values in one.inputs.items()}
        yield from checkpoint.run(batch | {"input_ids": rows}).last_hidden_state


def helps(checkpoint: Checkpoint, one: Input) -> dict[int, dict[int, float]]:
    """How much each word helps to predict each word with a letter or digit: perturbed masking,
    product-corrected.
    """
    words = one.words
    raw = {}
    queries = [i for i in words if one.content[i]]
    alone = {}
    each_alone = _hidden_states(checkpoint, one, [(i,) for i in queries])
    for i, state in zip(queries, each_alone, strict=True):
        alone[i] = state[i]
    twos = [(i, j) for i, j in itertools.combinations(words, 2) if i in alone or j in alone]
    for (i, j), state in zip(twos, _hidden_states(checkpoint, one, twos), strict=True):
        for query, key in ((i, j), (j, i)):
            if query in alone:
                raw[query, key] = float((alone[query] - state[query]).norm())
    mean = sum(raw.values()) / len(raw)
    row = {}
    for i in queries:
        row[i] = mean_of([raw[i, j] for j in words if j != i])
    column = {}
    for j in words:
        column[j] = mean_of([raw[i, j] for i in queries if i != j])
    found: dict[int, dict[int, float]] = {i: {} for i in queries}
    for i, j in raw:
        found[i][j] = max(0.0, raw[i, j] - row[i] * column[j] / mean)
    return found


def whole_words(checkpoint: Checkpoint) -> tuple[list[int], torch.Tensor]:
    """The ids of all words of letters alone, and the directions of their embeddings from the mean
    word.
    """
    vocabulary = {number: text for text, number in checkpoint.tokenizer.get_vocab().items()}
    ids = [
        number for number, text in sorted(vocabulary.items()) if text.isalpha() and len(text) > 1
    ]
    rows = checkpoint.network.get_input_embeddings().weight.detach()[ids]
    rows = rows - rows.mean(0)
    return ids, rows / rows.norm(dim=1, keepdim=True)


def near_enough(rows: torch.Tensor) -> float:
    """The cosine that one of ten thousand pairs reaches, of words dealt into hands as attnscan
    deals them.
    """
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    count = math.ceil(len(rows) ** 2 / 30_000_000)
    hands = [rows[order[first::count]] for first in range(count)]
    cosines = torch.cat(
        [(hand @ hand.T)[torch.ones(len(hand), len(hand)).triu(1) > 0] for hand in hands]
    )
    return float(cosines.sort(descending=True).values[math.ceil(len(cosines) / 10_000) - 1])


def related(checkpoint: Checkpoint, one: Input) -> set[tuple[int, int]]:
    """The places of words that are near in the embeddings: both ways round, and none to itself."""
    ids, rows = whole_words(checkpoint)
    threshold = near_enough(rows)
    place = {number: i for i, number in enumerate(ids)}
    here = {
        i: place[one.inputs["input_ids"][i]]
        for i in one.words
        if one.inputs["input_ids"][i] in place
    }
    near: dict[int, list[int]] = {}
    for word in set(here.values()):
        to_all = (rows @ rows[word]).tolist()
        best = sorted(
            (other for other in range(len(ids)) if other != word), key=lambda other: -to_all[other]
        )[:10]
        near[word] = [other for other in best if to_all[other] >= threshold]
    return {
        (i, j)
        for (i, a), (j, b) in itertools.permutations(here.items(), 2)
        if b in near[a] and a in near[b] and max(a, b) >= 100
    }


def targets(
    one: Input,
    help_of: Mapping[int, Mapping[int, float]] | None = None,
    alike: Collection[tuple[int, int]] = (),
) -> Rows:
    """Every pattern's target, less what a query cannot see; `alike` are the places of related
    words.
    """
    rows: Rows = {pattern: {} for pattern in PATTERNS}
    for i in one.words:
        seen = [j for j, visible in enumerate(one.visible[i]) if visible]
        sentence = [j for j in seen if one.sentence[j] == one.sentence[i]]
        comparable = [j for j in seen if one.content[i] and one.content[j]]
        same = [j for j in comparable if one.text[j] == one.text[i] or (i, j) in alike]
        help_here = {j: value for j, value in (help_of or {}).get(i, {}).items() if value > 0}
        best = max(help_here.values(), default=1.0)
        found = {
            "next-word": dict.fromkeys([j for j in sentence if j == i + 1], 1.0),
            "previous-word": dict.fromkeys([j for j in sentence if j == i - 1], 1.0),
            "identical": dict.fromkeys(same if len(same) > 1 else [], 1.0),
            "cross-sentence": dict.fromkeys(
                [j for j in same if one.sentence[j] != one.sentence[i]], 1.0
            ),
            "predictive": {j: value / best for j, value in help_here.items() if j in seen},
            "delimiter": dict.fromkeys([j for j in seen if one.sentence[j] < 0], 1.0),
            "bag-of-words": dict.fromkeys(sentence, 1 / len(sentence)),
        }
        for pattern, row in found.items():
            if row:
                rows[pattern][i] = row
    return rows


def class_of(one: Input, i: int, j: int) -> str:
    """The first class of keys that fits the word i and the key j."""
    if one.sentence[j] < 0:
        if j < one.words[0]:
            return "start"
        return "end" if j > one.words[-1] else "middle"
    same = one.sentence[i] == one.sentence[j]
    distance = abs(i - j)
    side = "next" if j > i else "previous"
    if i == j:
        return "itself"
    if one.content[i] and one.content[j] and one.text[i] == one.text[j]:
        return "identical" if same else "cross-sentence"
    if same and distance <= 3:
        return side if distance == 1 else f"{side}-2-3"
    if not one.content[j]:
        return "punctuation"
    if not same:
        return "elsewhere"
    if distance <= 8:
        return f"{side}-4-8"
    return "later" if j > i else "earlier"


@dataclass(frozen=True)
class Measured:
    """One query's, or one pair's, weight on a target."""

    weight: float = 0.0
    n: float = 0.0
    chance: float = 0.0
    itself: float = 0.0  # the part of the weight that lies on the query itself
    # The weight of the same queries on the wider target that this one is a part of
    whole: float = 0.0


NUMBERS = len(fields(Measured))


Measures = dict[Head, dict[str, Measured]]
"""Every head's sums on every pattern, of one input."""


def added(parts: Sequence[Measured], times: Sequence[float] | None = None) -> Measured:
    """Their sums, each so many times."""
    times = times or [1.0] * len(parts)
    total = dict.fromkeys(("weight", "n", "chance", "itself", "whole"), 0.0)
    for part, k in zip(parts, times, strict=True):
        for name in total:
            total[name] += getattr(part, name) * k
    return Measured(**total)


def on_target(pattern: str, weights: np.ndarray, target: Mapping[int, float]) -> np.ndarray:
    """The weight of one query on its target. Shape: [head, key] -> [head]."""
    values = np.array(list(target.values()))
    on_keys = weights[:, list(target)]
    if pattern in ("bag-of-words", "even"):
        return np.minimum(on_keys, values).sum(-1)
    return on_keys @ values


def by_query(
    one: Input, matrix: ArrayLike, rows: Rows, special: str = "out"
) -> dict[str, dict[int, Measured]]:
    """One head's eligible queries, pattern by pattern. Shape: `matrix` [query, key]."""
    found: dict[str, dict[int, Measured]] = {}
    for pattern, queries in every_query(one, np.asarray(matrix)[None], rows, special).items():
        measured = {i: Measured(*numbers[0].tolist()) for i, numbers in queries.items()}
        found[pattern] = {i: sums for i, sums in measured.items() if sums.n}
    return found


def every_query(
    one: Input,
    weights: np.ndarray,
    rows: Rows,
    special: str = "out",
    lengths: np.ndarray | None = None,
) -> dict[str, dict[int, np.ndarray]]:
    """The numbers of `Measured` of each query by each head, pattern by pattern; special tokens are
    keys of `delimiter` alone, or of all.

    Rows of weights need not add up to 1. `lengths` are those of the vectors that each head carries,
    key by key. Shape: [head, query, key] and [head, key] -> [head, number] each.
    """
    found: dict[str, dict[int, np.ndarray]] = {pattern: {} for pattern in rows}
    sizes = np.ones(weights.shape[::2]) if lengths is None else lengths
    sizes = sizes * [len(group) for group in one.pieces]
    for i in one.words:
        seen = [j for j, visible in enumerate(one.visible[i]) if visible]
        words = [j for j in seen if one.sentence[j] >= 0]
        over_all = _shares(weights[:, i], sizes, seen)
        over_words = over_all if special == "in" else _shares(weights[:, i], sizes, words)
        for pattern, targets_of_queries in rows.items():
            everywhere = pattern == "delimiter" or special == "in"
            known, shares, even = over_all if everywhere else over_words
            keys = seen if everywhere else words
            target_here = targets_of_queries.get(i, {})
            target = {j: value for j, value in target_here.items() if j in keys}
            if not target:
                continue
            wider = rows["identical"][i] if pattern == "cross-sentence" else target
            itself = shares[:, i] * target.get(i, 0.0)
            if pattern in ("bag-of-words", "even") and i in target:
                itself = np.minimum(shares[:, i], target[i])
            found[pattern][i] = np.stack(
                [
                    on_target(pattern, shares, target),
                    known,
                    on_target(pattern, even, target),
                    itself,
                    on_target(pattern, shares, wider),
                ],
                -1,
            )
    return found


def _shares(
    row: np.ndarray, sizes: np.ndarray, keys: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether each head has weight left on some keys, a query's weights on them and those of even
    attention, each of which add up to 1.

    They are 0 where next to no weight is left. Shape: [head], [head, key] twice.
    """
    here = np.zeros(row.shape[-1])
    here[list(keys)] = 1
    left = row @ here
    known = left >= 1e-6
    counted = known[:, None] * here
    shares = row * counted / np.where(known, left, 1)[:, None]
    # Even over tokens, then merged
    return known, shares, sizes * counted / (sizes @ here)[:, None]


@dataclass(frozen=True)
class Score:
    """One head's numbers on one pattern, from what it has in every pair."""

    of_pairs: Sequence[Measured]

    @property
    def pairs(self) -> int:
        """Those with an eligible query."""
        return sum(each.n > 0 for each in self.of_pairs)

    @cached_property
    def n(self) -> float:
        """Eligible queries."""
        return sum(each.n for each in self.of_pairs)

    def mean(self, name: str = "weight") -> float:
        """A sum of all pairs divided by that of their eligible queries."""
        return sum(getattr(each, name) for each in self.of_pairs) / self.n if self.n else NAN

    @property
    def above_chance(self) -> float:
        """0 at chance, 1 at perfect."""
        chance = self.mean("chance")
        return (self.mean() - chance) / (1 - chance) if chance < 1 - 1e-9 else NAN

    @property
    def share(self) -> float:
        """The part of the weight on the wider target that lies on this one."""
        whole = self.mean("whole")
        return self.mean() / whole if whole else NAN

    def covariance(self, other: Self) -> float:
        """Of the two means over the same pairs; NaN below two pairs."""
        if min(self.pairs, other.pairs) < 2:
            return NAN
        a = self.mean()
        b = other.mean()
        both = zip(self.of_pairs, other.of_pairs, strict=True)
        spread = sum((x.weight - a * x.n) * (y.weight - b * y.n) for x, y in both)
        few = math.sqrt(self.pairs / (self.pairs - 1) * other.pairs / (other.pairs - 1))
        return few * spread / (self.n * other.n)

    @property
    def se(self) -> float:
        """The standard error of the mean, clustered by pair."""
        return math.sqrt(self.covariance(self)) if self.pairs > 1 else NAN

    def se_beside(self, other: Self) -> float:
        """The standard error of the difference from another mean over the same pairs."""
        variance = self.covariance(self) + other.covariance(other) - 2 * self.covariance(other)
        return math.sqrt(max(0.0, variance)) if variance == variance else NAN

    @property
    def interval(self) -> tuple[float, float]:
        """95 %, by t on the logit scale: with E effective pairs, E - 1 degrees of freedom and a
        factor E/(E - 1).
        """
        mean = self.mean()
        if self.pairs < 2 or not 0 < mean < 1:
            return (NAN, NAN) if self.pairs < 2 else (mean, mean)
        effective = self.n**2 / sum(each.n**2 for each in self.of_pairs)
        error = (
            math.sqrt(sum((each.weight - mean * each.n) ** 2 for each in self.of_pairs)) / self.n
        )
        reach = (
            float(student.ppf(0.975, effective - 1))
            * effective
            / (effective - 1)
            * error
            / (mean * (1 - mean))
        )
        odds_against = (1 - mean) / mean
        low = 1 / (1 + odds_against * math.exp(min(reach, 700)))
        high = 1 / (1 + odds_against * math.exp(-reach))
        return low, high


def false_discovery_rates(p: Sequence[float]) -> list[float]:
    """Of each p-value, by Benjamini and Hochberg; NaN stays NaN and does not count."""
    known = sorted((value, place) for place, value in enumerate(p) if not math.isnan(value))
    rates = [NAN] * len(p)
    least = 1.0
    for rank in range(len(known), 0, -1):
        value, place = known[rank - 1]
        least = min(least, value * len(known) / rank)
        rates[place] = least
    return rates


def every_head(one: Input, weights: np.ndarray, rows: Rows, special: str = "out") -> Measures:
    """Every head's sums over the eligible queries of one input, pattern by pattern."""
    layers, heads = weights.shape[:2]
    of_queries = every_query(one, weights.reshape(-1, *weights.shape[2:]), rows, special)
    found: Measures = {head: {} for head in itertools.product(range(layers), range(heads))}
    for pattern, queries in of_queries.items():
        sums = sum(queries.values(), np.zeros((layers * heads, NUMBERS)))
        for measured, numbers in zip(found.values(), sums.tolist(), strict=True):
            measured[pattern] = Measured(*numbers)
    return found


def entropy(weights: Sequence[float]) -> float:
    """In nats."""
    return -sum(w * math.log(w) for w in weights if w > 0)


def mean_of(values: Sequence[float]) -> float:
    """NaN of none."""
    return sum(values) / len(values) if values else NAN

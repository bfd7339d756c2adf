"""Scores of inputs that are written out, and of translations, by the plain loops of
`benchmarks/by_loops.py`.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import by_loops
import numpy as np
from by_loops import Input, Measured, Rows, Score, added, by_query, targets
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from support.translator import eager
from transformers import AutoTokenizer

from attnscan.results.grid import Head
from attnscan.results.heads import Scores

Matrix = NDArray[np.float64]
PATTERNS = tuple(pattern for pattern in by_loops.PATTERNS if pattern != "predictive")


@dataclass(frozen=True)
class Written:
    """One input: its tokens, the sentence of each (0, 1, or -1 for special), nothing
    about padding.
    """

    tokens: Sequence[str]
    sentence: Sequence[int]

    def seeing(self, visible: NDArray[np.bool_] | None) -> Input:
        """What the loops read; `visible` says which keys a query may see, all without it.

        Shape: [query, key].
        """
        places = range(len(self.tokens))
        everything = [[True] * len(places)] * len(places)
        return Input(
            inputs={},
            sentence=list(self.sentence),
            text=[token.casefold() for token in self.tokens],
            content=[
                s >= 0 and any(map(str.isalnum, token))
                for token, s in zip(self.tokens, self.sentence, strict=True)
            ],
            visible=everything if visible is None else visible.astype(bool).tolist(),
            pieces=[[i] for i in places],
        )


def of_pairs(
    inputs: Sequence[Written],
    weights: Sequence[Matrix],
    *,
    words_only: bool = False,
    visible: Sequence[NDArray[np.bool_]] | None = None,
) -> dict[str, Score]:
    """One head's sums over some inputs, pattern by pattern. Shape: `weights` each [query, key]."""
    found = []
    for one, matrix, seen in zip(inputs, weights, visible or [None] * len(inputs), strict=True):
        written = one.seeing(seen)
        queries = by_query(
            written, np.asarray(matrix).tolist(), targets(written), "out" if words_only else "in"
        )
        found.append({pattern: added(list(queries[pattern].values())) for pattern in PATTERNS})
    scores = {}
    for pattern in PATTERNS:
        scores[pattern] = Score([sums[pattern] for sums in found])
    return scores


def entropy(inputs: Sequence[Written], weights: Sequence[Matrix]) -> float:
    """Mean row entropy over all words, in nats."""
    entropies = []
    for one, matrix in zip(inputs, weights, strict=True):
        for sentence, row in zip(one.sentence, matrix, strict=True):
            if sentence >= 0:
                entropies.append(-sum(w * math.log(w) for w in row if w > 0))
    return float(np.mean(entropies))


def check_head(
    table: Scores,
    head: Head,
    inputs: Sequence[Written],
    weights: Sequence[Matrix],
    *,
    visible: Sequence[NDArray[np.bool_]] | None = None,
    even: Sequence[Matrix] | None = None,
    atol: float = 1e-5,
) -> None:
    """That a head's scores over every key and among words, and its entropy, are those of these
    weights.

    `even` are the weights of even attention, where these are not even. Raises: AssertionError.
    """
    assert_allclose(table.means["entropy"][head.place], entropy(inputs, weights), atol=1e-5)
    for words_only in (False, True):
        scored = table.table(words_only)
        expected = of_pairs(inputs, weights, words_only=words_only, visible=visible)
        by_chance = of_pairs(inputs, even, words_only=words_only) if even else {}
        for pattern, score in expected.items():
            place = (*head.place, table.patterns.index(pattern))
            ours = [
                getattr(scored, name)[place] for name in ("score", "chance", "se", "n", "pairs")
            ]
            chance = by_chance[pattern].mean() if even else score.mean("chance")
            theirs = [score.mean(), chance, score.se, score.n, score.pairs]
            if pattern == "identical":  # how much of it is the word itself
                ours = [*ours, scored.self_mass[place]]
                theirs = [*theirs, score.mean("itself")]
            elif pattern == "cross-sentence":
                ours = [*ours, scored.share[place]]
                theirs = [*theirs, score.share]
            assert_allclose(
                ours, theirs, atol=atol, err_msg=f"{pattern} of {head.name}, {words_only=}"
            )


CROSS_PATTERNS = (
    "aligned",
    "before-aligned",
    "after-aligned",
    "same-place",
    "identical",
    "delimiter",
    "even",
)
Links = set[tuple[int, int]]


@dataclass(frozen=True)
class Side:
    """The source or the target by its tokens: what each says, and the number of its word; None of a
    special token.
    """

    texts: list[str]
    words: list[int | None]

    @property
    def places(self) -> list[int]:
        """Where words' tokens stand."""
        return [place for place, word in enumerate(self.words) if word is not None]


def side(tokenizer: Any, text: str) -> Side:
    """Read a text whose words stand between spaces; a token of white space alone is of the word
    behind it.
    """
    encoding = tokenizer(text).encodings[0]
    spans = zip(encoding.offsets, encoding.sequence_ids, strict=True)
    words = [
        None if s is None else len(text[:b].split()) - bool(text[a:b].strip())
        for (a, b), s in spans
    ]
    return Side([token.replace("▁", "").casefold() for token in encoding.tokens], words)


def across(source: Side, target: Side, links: Links) -> tuple[Input, Rows]:
    """A target behind its source, which it alone sees, and every pattern's target keys."""
    keys = source.places
    count = len(source.texts)
    rows: Rows = {pattern: {} for pattern in CROSS_PATTERNS}
    for number, place in enumerate(target.places):
        linked = [key for key, word in links if word == target.words[place]]
        text = target.texts[place]
        said = any(map(str.isalnum, text))
        last = len(target.places) - 1
        wanted = {
            "aligned": [key for key in keys if source.words[key] in linked],
            "before-aligned": [
                key for key in keys if linked and source.words[key] == min(linked) - 1
            ],
            "after-aligned": [
                key for key in keys if linked and source.words[key] == max(linked) + 1
            ],
            "same-place": [keys[math.floor(number * (len(keys) - 1) / last + 0.5) if last else 0]],
            "identical": [key for key in keys if said and source.texts[key] == text],
            "delimiter": [key for key in range(count) if key not in keys],
            "even": keys,
        }
        for pattern, found in wanted.items():
            rows[pattern][count + place] = dict.fromkeys(
                found, 1 / len(keys) if pattern == "even" else 1.0
            )
    sentence = [-1 if word is None else 0 for word in source.words]
    sentence += [-1 if word is None else 1 for word in target.words]
    source_keys = [key < count for key in range(len(sentence))]
    visible = [source_keys] * len(sentence)
    one = Input(
        {},
        sentence,
        [*source.texts, *target.texts],
        [],
        visible,
        [[i] for i in range(len(sentence))],
    )
    return one, rows


def scores_across(
    checkpoint: Path, pairs: Sequence[tuple[str, str, str]], query: str
) -> dict[Any, Score]:
    """Cross attention of every pattern, layer and head, by eager attention on each pair alone."""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    found = defaultdict[Any, list[Measured]](list)
    for a, b, line in pairs:
        source = side(tokenizer, a)
        target = side(tokenizer, b)
        if query == "reads":
            target = Side(["", *target.texts[:-1]], [None, *target.words[:-1]])
        links = {(int(link.split("-")[0]), int(link.split("-")[1])) for link in line.split()}
        one, rows = across(source, target, links)
        for layer, heads in enumerate(eager(checkpoint, a, b).cross_attentions):
            for head, matrix in enumerate(heads[0].tolist()):
                behind = [row + [0.0] * len(target.texts) for row in matrix]
                queries = by_query(
                    one, [[0.0] * len(one.sentence)] * len(source.texts) + behind, rows, "in"
                )
                for pattern in CROSS_PATTERNS:
                    found[pattern, layer, head].append(added(list(queries[pattern].values())))
    return {place: Score(measured) for place, measured in found.items()}


@dataclass(frozen=True)
class Aligned:
    """What a head makes of one pair: its links, and how much of the source is covered."""

    links: Links
    covered: float
    source_tokens: int


def alignments_across(
    checkpoint: Path, pairs: Sequence[tuple[str, str]], query: str = "predicts"
) -> dict[tuple[int, int], list[Aligned]]:
    """The links and the coverage of every head on each pair, by eager attention on it alone."""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    found = defaultdict[tuple[int, int], list[Aligned]](list)
    for a, b in pairs:
        source = side(tokenizer, a)
        target = side(tokenizer, b)
        if query == "reads":
            target = Side(["", *target.texts[:-1]], [None, *target.words[:-1]])
        for layer, heads in enumerate(eager(checkpoint, a, b).cross_attentions):
            for head, matrix in enumerate(heads[0].tolist()):
                found[layer, head].append(_align(matrix, source, target))
    return found


def _align(matrix: list[list[float]], source: Side, target: Side) -> Aligned:
    """Each target word's link: to the source word with most weight, the first of equals."""
    links = set()
    for word in sorted({word for word in target.words if word is not None}):
        pieces = [place for place in target.places if target.words[place] == word]
        best, most = None, 0.0
        for other in sorted({other for other in source.words if other is not None}):
            keys = [key for key in source.places if source.words[key] == other]
            weight = sum(matrix[query][key] for query in pieces for key in keys) / len(pieces)
            if weight > most:
                best, most = other, weight
        if best is not None:
            links.add((best, word))
    received = [sum(matrix[query][key] for query in target.places) for key in source.places]
    return Aligned(links, sum(min(1.0, weight) for weight in received), len(received))


def alignment_error_rate(links: Links, gold: Links) -> float:
    """Och and Ney (2003), where every gold link is sure, and so possible."""
    sure, possible = gold, gold
    return 1 - (len(links & sure) + len(links & possible)) / (len(links) + len(sure))

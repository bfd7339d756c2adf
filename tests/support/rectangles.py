"""Scores of cross attention in plain loops, by transformers alone.

Words stand between spaces, and a tokenizer's tokens lie within words. Every source and target is run alone, without
padding, under eager attention.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import nan as NAN
from operator import mul
from pathlib import Path

from transformers import AutoTokenizer
from translator import eager

PATTERNS = ("aligned", "before-aligned", "after-aligned", "same-place", "identical", "delimiter", "even")
Scores = dict[tuple[str, int, int], tuple[float, float, int]]
"""By pattern, layer and head: score, chance, and eligible queries."""


@dataclass(frozen=True)
class Side:
    """A text by its tokens: what each says, and the number of its word; None of a special token."""

    texts: list[str]
    words: list[int | None]

    @property
    def places(self) -> list[int]:
        """Where words' tokens stand."""
        return [place for place, word in enumerate(self.words) if word is not None]


def side(tokenizer, text: str) -> Side:
    """A text by its tokens."""
    encoding = tokenizer(text).encodings[0]
    spans = zip(encoding.offsets, encoding.sequence_ids, strict=True)
    words = [None if sequence is None else match_word(text, *span) for span, sequence in spans]
    return Side([token.replace("▁", "").casefold() for token in encoding.tokens], words)


def match_word(text: str, first: int, last: int) -> int:
    """The number of the word that some characters are of; of white space alone, of the word behind."""
    while first < last and text[first].isspace():
        first += 1
    return len(text[: first + 1].split()) - 1 if first < len(text) else 0


def targets(pattern: str, query: int, target: Side, source: Side, links: set[tuple[int, int]]) -> dict[int, float]:
    """The keys that a target's token should look at, by their places, and how much."""
    linked = [before for before, behind in links if behind == target.words[query]]
    places = source.places
    match pattern:
        case "aligned" | "before-aligned" | "after-aligned":
            near = {"aligned": linked, "before-aligned": [min(linked, default=-9) - 1]}
            wanted = near.get(pattern, [max(linked, default=-9) + 1])
            found = [place for place in places if source.words[place] in wanted]
        case "same-place":
            number, last = target.places.index(query), len(target.places) - 1
            found = [places[math.floor(number * (len(places) - 1) / last + 0.5) if last else 0]]
        case "identical":
            text = target.texts[query]
            found = [place for place in places if source.texts[place] == text and any(map(str.isalnum, text))]
        case "delimiter":
            found = [place for place, word in enumerate(source.words) if word is None]
        case _:
            return {place: 1 / len(places) for place in places}
    return dict.fromkeys(found, 1.0)


def scores(directory: Path, pairs: Sequence[tuple[str, str, str]], query: str = "predicts") -> Scores:
    """Every head's score, chance and eligible queries for every pattern."""
    tokenizer = AutoTokenizer.from_pretrained(directory)
    sums: dict[tuple[str, int, int], list[float]] = defaultdict(lambda: [0.0, 0.0, 0])
    for a, b, line in pairs:
        links = {(int(link.split("-")[0]), int(link.split("-")[1])) for link in line.split()}
        source, target = side(tokenizer, a), side(tokenizer, b)
        if query == "reads":
            target = Side(["", *target.texts[:-1]], [None, *target.words[:-1]])
        even = 1 / len(source.texts)
        for (layer, of_layer), pattern in product(enumerate(eager(directory, a, b).cross_attentions), PATTERNS):
            for (head, rows), place in product(enumerate(of_layer[0].tolist()), target.places):
                wanted, total = targets(pattern, place, target, source, links), sums[pattern, layer, head]
                on = min if pattern == "even" else mul
                total[0] += sum(on(rows[place][key], share) for key, share in wanted.items())
                total[1] += sum(on(even, share) for share in wanted.values())
                total[2] += bool(wanted)
    return {key: (on / (n or NAN), chance / (n or NAN), int(n)) for key, (on, chance, n) in sums.items()}

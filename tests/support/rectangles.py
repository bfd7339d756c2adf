"""Scores of cross attention in plain loops, by transformers alone.

Words stand between spaces, and a tokenizer's tokens lie within words. Every source and target is run alone, without
padding, under eager attention.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

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


def side(tokenizer, text: str) -> tuple[list[int], Side]:
    """A text's token ids, and what they are."""
    encoding = tokenizer(text)
    spans = [match_word(text, *span) for span in encoding.encodings[0].offsets]
    special = [sequence is None for sequence in encoding.encodings[0].sequence_ids]
    words = [None if is_special else word for word, is_special in zip(spans, special, strict=True)]
    texts = [token.replace("▁", "").casefold() for token in tokenizer.convert_ids_to_tokens(encoding["input_ids"])]
    return encoding["input_ids"], Side(texts, words)


def match_word(text: str, first: int, last: int) -> int:
    """The number of the word that some characters are of; of white space alone, of the word behind."""
    while first < last and text[first].isspace():
        first += 1
    return len(text[: first + 1].split()) - 1 if first < len(text) else 0


def targets(pattern: str, query: int, target: Side, source: Side, links: set[tuple[int, int]]) -> dict[int, float]:
    """The keys that a target's token should look at, by their places, and how much."""
    word = target.words[query]
    linked = [before for before, behind in links if behind == word]
    if pattern in PATTERNS[:3]:
        if not linked:
            return {}
        wanted = {"aligned": linked, "before-aligned": [min(linked) - 1], "after-aligned": [max(linked) + 1]}[pattern]
        return {place: 1.0 for place in source.places if source.words[place] in wanted}
    if pattern == "same-place":
        number, last, last_key = target.places.index(query), len(target.places) - 1, len(source.places) - 1
        return {source.places[math.floor(number * last_key / last + 0.5) if last else 0]: 1.0}
    if pattern == "identical":
        if not any(character.isalnum() for character in target.texts[query]):
            return {}
        return {place: 1.0 for place in source.places if source.texts[place] == target.texts[query]}
    if pattern == "delimiter":
        return {place: 1.0 for place, of_word in enumerate(source.words) if of_word is None}
    return {place: 1 / len(source.places) for place in source.places}


def scores(directory: Path, pairs: Sequence[tuple[str, str, str]], query: str = "predicts") -> Scores:
    """Every head's score, chance and eligible queries for every pattern."""
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForSeq2SeqLM.from_pretrained(directory, attn_implementation="eager").eval()
    sums: dict[tuple[str, int, int], list[float]] = {}
    for a, b, line in pairs:
        links = {(int(link.split("-")[0]), int(link.split("-")[1])) for link in line.split()}
        (ids, source), (labels, target) = side(tokenizer, a), side(tokenizer, b)
        read = model.prepare_decoder_input_ids_from_labels(labels=torch.tensor([labels]))
        with torch.no_grad():
            output = model(input_ids=torch.tensor([ids]), decoder_input_ids=read, output_attentions=True)
        if query == "reads":
            target = Side(["", *target.texts[:-1]], [None, *target.words[:-1]])
        for layer, of_layer in enumerate(output.cross_attentions):
            for head, rows in enumerate(of_layer[0].tolist()):
                for pattern in PATTERNS:
                    total = sums.setdefault((pattern, layer, head), [0.0, 0.0, 0])
                    for place in target.places:
                        wanted = targets(pattern, place, target, source, links)
                        if not wanted:
                            continue
                        even = 1 / len(ids)
                        if pattern == "even":
                            total[0] += sum(min(rows[place][key], share) for key, share in wanted.items())
                            total[1] += sum(min(even, share) for share in wanted.values())
                        else:
                            total[0] += sum(rows[place][key] * share for key, share in wanted.items())
                            total[1] += sum(even * share for share in wanted.values())
                        total[2] += 1
    return {
        key: (on / n if n else math.nan, chance / n if n else math.nan, int(n)) for key, (on, chance, n) in sums.items()
    }

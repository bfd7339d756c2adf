"""Sentences of a treebank as a model reads them, each with its tree and its attention, beside what heads follow in all.

Numpy, no torch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from attnscan.errors import OptionError
from attnscan.inputs.sentence import Sentence
from attnscan.results.heads import HeadScores
from attnscan.results.scores import IntArray
from attnscan.results.syntax import Syntax
from attnscan.results.terms import By

USUAL, MOST = 8, 50  # how many sentences are kept: the first ones unless they are chosen, and at most
_SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


@dataclass(frozen=True)
class ReadTree:
    """A sentence with its tree, and what every head does on it."""

    number: int  # which it is in its treebank, from 1
    sentence: Sentence  # with the tags `head` and `deprel`
    owners: tuple[int, ...]  # of each token the number of its word, or NO_WORD
    result: HeadScores  # with the attention, token by token

    def most_attended(self, by: By) -> IntArray:
        """Of each word the other word that it attends to most, the first of equals; -1 where there is none.

        Special tokens are no candidates. To a word counts the sum over its tokens, from a word their mean.
        Shape: [layer, head, word]. Raises: OptionError if the attention was not kept.
        """
        attention = self.result.kept_attention()
        weights = attention.carried.weights if by == "carried" else attention.weights
        count = len(self.sentence.words or ())
        into = np.equal.outer(np.array(self.owners), np.arange(count)).astype(np.float64)
        tokens = into.sum(0)
        others = (tokens > 0) & ~np.eye(count, dtype=bool)
        of_words = np.where(others, (into / tokens.clip(1)).T @ weights @ into, 0)
        return np.where(of_words.max(-1) > 0, of_words.argmax(-1), -1)


@dataclass(frozen=True)
class TreesRead:
    """Some sentences of a treebank, and every head held against all of them."""

    sentences: tuple[ReadTree, ...]
    syntax: Syntax


def sentence_numbers(text: str) -> tuple[int, ...]:
    """The numbers of sentences that a text names, in its order, each once.

    >>> sentence_numbers("3,17,5-7")
    (3, 17, 5, 6, 7)

    Raises: OptionError if it names none, or more than are kept.
    """
    numbers: dict[int, None] = {}
    for part in text.split(","):
        match = _SPAN.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last:
            raise OptionError(f"{text!r:.40} names no sentences", "give their numbers, from 1, as 3,17 or 1-8")
        numbers |= dict.fromkeys(range(first, min(last, first + MOST) + 1))
    if len(numbers) > MOST:
        raise OptionError(f"{text!r:.40} names more than {MOST} sentences", "name fewer: a page holds all of them")
    return tuple(numbers)

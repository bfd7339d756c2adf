"""Which word each head links each word of the served pairs to most, and the sentences where a head links alike.

After the search of exBERT (Hoover et al. 2019, "exBERT: A Visual Analysis Tool to Explore Learned Representations in
Transformer Models"), by links in place of vectors. The index is made a few pairs at a time, and of bounded size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from attnscan.errors import InputError, OptionError
from attnscan.inputs.batch import SPECIAL, EncodedInput, Room, batches, padded
from attnscan.inputs.pairs import Pair
from attnscan.inputs.tokens import bare
from attnscan.model.attention_block import AttentionBlock
from attnscan.results.grid import Head
from attnscan.results.scores import IntArray
from attnscan.safe_text import plain
from attnscan.scan.scanner import Scanner

MOST_BYTES = 64 << 20
"""Of an index; pairs beyond are not searched."""
_AT_ONCE = 32  # pairs that are read between two looks at who waits
_ROOM = Room(tokens=4096)
_TOKEN_BYTES, _LINK_BYTES = 12, 3  # of a token, and of one of its links by a head
_SENTENCES, _COUNTED = 12, 8  # that are shown
_NOTHING = -1


@dataclass(frozen=True)
class Search:
    """What is looked for: a word that one head links, on one side of the link."""

    head: Head
    word: str
    side: Literal["q", "k"]
    """`q`: the word is the query, and looks; `k`: it is the key, and is looked at."""
    linked: str | None = None
    """The word that the query is linked to, where it stands; places where another word is linked to that count, too."""
    offset: int | None = None
    """How far the linked word stands behind it, if in the same sentence: places alike in that come first."""


@dataclass(frozen=True)
class _Read:
    """Some pairs that were read, token after token."""

    pair: NDArray[np.int32]
    place: NDArray[np.uint16]
    """In its input."""
    text: NDArray[np.int32]
    """The number of the token's text."""
    sentence: NDArray[np.int8]
    """0 or 1; negative for a special token."""
    links: NDArray[np.uint16]
    """The place of the word that has most of it. Shape: [layer, head, token]."""
    shares: NDArray[np.uint8]
    """How much that is, 255 for all. Shape: [layer, head, token]."""

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.pair) * _TOKEN_BYTES + self.links.size * _LINK_BYTES


class LinkIndex:
    """The strongest link of every word of some pairs by every head, among words; one thread reads and searches it."""

    def __init__(self, scanner: Scanner, pairs: Sequence[tuple[Pair, str]], most_bytes: int = MOST_BYTES) -> None:
        """By what heads carry, or by weights where that is not known. `pairs` come with where they stand."""
        carried = not isinstance(scanner.carrying, str)
        self._scanner = scanner.with_options(by="carried" if carried else "weight", special="out")
        self._pairs, self._room = pairs, most_bytes
        self._read: list[_Read] = []
        self._numbers: dict[str, int] = {}
        self._spelled: list[str] = []
        self.done = 0
        """Pairs that were read."""
        self.total = len(pairs)
        """Pairs that are read in all, as far as is known: fewer than were given, if they do not fit."""

    @property
    def is_done(self) -> bool:
        """Whether all pairs that fit were read."""
        return self.done >= self.total

    def advance(self) -> None:
        """Read some more pairs, if any are left; those that the model cannot read are passed over.

        Raises: ModelError if it can read none of these.
        """
        pairs = [pair for pair, _ in self._pairs[self.done : min(self.done + _AT_ONCE, self.total)]]
        inputs = [
            replace(encoded, number=number)
            for number, encoded in enumerate(self._scanner.encode_all(pairs), self.done)
            if not isinstance(encoded, InputError)
        ]
        for batch in batches(inputs, _ROOM):
            self._read.append(self._links_of(batch))
            self._room -= self._read[-1].size
        self.done += len(pairs)
        if self._room <= 0:
            self.total = self.done

    def _links_of(self, inputs: Sequence[EncodedInput]) -> _Read:
        batch, grid = self._scanner.collate(inputs), self._scanner.grid()
        lengths = [len(encoded.tokens) for encoded in inputs]
        place = np.zeros((*grid.shape, len(inputs), max(lengths)), dtype=np.uint16)
        share = np.zeros(place.shape, dtype=np.uint8)
        words = padded([encoded.sentence for encoded in inputs], SPECIAL) >= 0  # of tokens, whatever is scored

        def take(block: AttentionBlock) -> None:
            width = block.weights.shape[-1]
            on_words = block.weights * words[block.inputs, None, None, :width].to(block.weights.device)
            most, key = on_words.max(-1)
            most = most / on_words.sum(-1).clip(torch.finfo(torch.float32).tiny)
            at = (block.layer, block.heads, block.inputs, slice(width))
            place[at] = key.transpose(0, 1).cpu().numpy()
            share[at] = (255 * most.transpose(0, 1)).round().cpu().numpy()

        self._scanner.run(batch.model_inputs, take)
        rows = range(len(inputs))
        return _Read(
            pair=np.repeat(np.array([encoded.number for encoded in inputs], dtype=np.int32), lengths),
            place=np.concatenate([np.arange(length, dtype=np.uint16) for length in lengths]),
            text=np.array([self._number(token) for encoded in inputs for token in encoded.tokens], dtype=np.int32),
            sentence=np.concatenate([np.array(encoded.sentence, dtype=np.int8) for encoded in inputs]),
            links=np.concatenate([place[:, :, row, : lengths[row]] for row in rows], axis=-1),
            shares=np.concatenate([share[:, :, row, : lengths[row]] for row in rows], axis=-1),
        )

    def _number(self, token: str) -> int:
        """The number of a token's text, whatever its case and marks."""
        if (text := bare(token.strip())) not in self._numbers:
            self._numbers[text] = len(self._spelled)
            self._spelled.append(plain(token.strip()))
        return self._numbers[text]

    def search(self, asked: Search) -> dict[str, Any]:
        """What the pairs that were read say, as JSON: how often the word stands there, what is linked with it, what
        stands beside it, and the sentences where the head links most alike.

        Raises: OptionError for a head that is not there.
        """
        if asked.head not in (grid := self._scanner.grid()):
            raise OptionError(f"there is no head {asked.head.name}", f"this model has {grid}")
        pair, place, text, sentence = (
            np.concatenate([np.zeros(0, dtype=int), *(getattr(read, name) for read in self._read)])
            for name in ("pair", "place", "text", "sentence")
        )
        links, shares = (
            np.concatenate([np.zeros(0, dtype=int), *(getattr(read, name)[asked.head.place] for read in self._read)])
            for name in ("links", "shares")
        )
        query = np.arange(len(text))
        key = query - place + links
        linking = (sentence >= 0) & (shares > 0)
        word, linked = (self._numbers.get(bare(text_.strip()), _NOTHING) for text_ in (asked.word, asked.linked or ""))
        stands = (sentence >= 0) & (text == word)
        own = linking & (stands if asked.side == "q" else text[key] == word)
        to_linked = linking & (asked.side == "q" and linked != _NOTHING) & (text[key] == linked)
        same_way = (sentence[key] == sentence) & (key - query == asked.offset) if asked.offset is not None else ~linking
        either = np.flatnonzero(own | to_linked)
        alike = own[either].astype(int) + to_linked[either]
        order = either[np.lexsort((-shares[either].astype(int), ~same_way[either], -alike))]
        shown = [
            self._shown(int(pair[at]), int(place[at]), int(links[at]), shares[at] / 255) for at in order[:_SENTENCES]
        ]
        return {
            "progress": [self.done, self.total, len(self._pairs)],
            "stands": int(stands.sum()),
            "linked": self._counted(text[key[own]] if asked.side == "q" else text[own]),
            "before": self._counted(self._beside(text, sentence, np.flatnonzero(stands), -1)),
            "after": self._counted(self._beside(text, sentence, np.flatnonzero(stands), 1)),
            "sentences": shown,
        }

    @staticmethod
    def _beside(text: IntArray, sentence: IntArray, places: IntArray, step: int) -> IntArray:
        """The texts of the words before or after some words, in the same sentence."""
        others = np.clip(places + step, 0, len(text) - 1)
        there = (others != places) & (sentence[others] == sentence[places])
        beside: IntArray = text[others[there]]
        return beside

    def _counted(self, texts: IntArray) -> list[tuple[str, int]]:
        return [(self._spelled[text], count) for text, count in Counter(texts.tolist()).most_common(_COUNTED)]

    def _shown(self, number: int, query: int, key: int, share: float) -> dict[str, Any]:
        pair, where = self._pairs[number]
        tokens = [plain(token.strip()) for token in self._scanner.encode(pair).tokens]
        return {"a": pair.a, "b": pair.b, "where": plain(where), "tokens": tokens, "query": query, "key": key} | {
            "share": round(share, 2)
        }

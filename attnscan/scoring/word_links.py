"""Which source word a head of cross attention links each word of a target with, and how well.

A word of the target is linked with the source word that it attends to most: from a word the mean of
its pieces' rows, to a word the sum over its pieces, by the weights as they are. Of equals it is the
first. A word that gives no source word any attention is not linked.

How well that is: against gold links by precision, recall and the alignment error rate; without
them by coverage, how much of the source the target attends to.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from attnscan.inputs.annotations import has_links, links_of
from attnscan.inputs.batch import EncodedBatch
from attnscan.inputs.sentence import NO_WORD, EncodedInput
from attnscan.model.attention_block import AttentionBlock
from attnscan.model.forward import not_finite
from attnscan.results.grid import Head
from attnscan.results.scores import FloatArray
from attnscan.scoring.units import BatchSums, UnitBlock, Units, show_units

NO_LINK = -1  # in place of a source word's number


class _WordPlaces(NamedTuple):
    """Which words units are of; units of none belong to one word more than there are."""

    query: Tensor
    """Shape: [input, 1, query, 1]."""
    key: Tensor
    """Shape: [input, 1, 1, key]."""
    pieces: Tensor
    """How many queries each word has, at least 1. Shape: [input, 1, target word, 1], float32."""
    targets: int
    """How many words the longest target has."""
    sources: int


def _word_places(batch: EncodedBatch) -> _WordPlaces:
    """The words of some inputs' units."""
    counts = [_word_counts(encoded) for encoded in batch.inputs]
    sources = max(count for count, _ in counts)
    targets = max(count for _, count in counts)
    number = batch.word_number
    query = number[:, batch.queries]
    key = number[:, batch.keys]
    query = query.where(query != NO_WORD, targets)
    pieces = torch.zeros(len(query), targets + 1, device=query.device)
    pieces.scatter_add_(1, query, torch.ones_like(query, dtype=pieces.dtype))
    return _WordPlaces(
        query=query[:, None, :, None],
        key=key.where(key != NO_WORD, sources)[:, None, None],
        pieces=pieces[:, None, :-1, None].clip(1),
        targets=targets,
        sources=sources,
    )


def _word_counts(encoded: EncodedInput) -> tuple[int, int]:
    """How many given words the source and the target have."""
    source, target = encoded.known_pair.sentences
    return len(source.words or ()), len(target.words or ())


def linked_words(block: UnitBlock) -> Tensor:
    """The source word that each word of a target is linked with, by its number, or `NO_LINK`.

    The block has all queries of its inputs, whose words are given.
    Shape: [input, head, target word].
    """
    places = block.cached("words", partial(_word_places, block.batch))
    weights = block.weights
    inputs, heads, queries, _ = weights.shape
    to_words = weights.new_zeros(inputs, heads, queries, places.sources + 1)
    to_words.scatter_add_(3, places.key.expand_as(weights), weights)
    summed = weights.new_zeros(inputs, heads, places.targets + 1, places.sources + 1)
    summed.scatter_add_(2, places.query.expand_as(to_words), to_words)
    among_words = summed[:, :, :-1, :-1] / places.pieces
    return among_words.argmax(-1).where(among_words.amax(-1) > 0, NO_LINK)


def _gold_links(batch: EncodedBatch) -> Tensor:
    """1 for gold links, else 0. Shape: [input, 1, target word, source word], float32."""
    counts = [_word_counts(encoded) for encoded in batch.inputs]
    sources = max(count for count, _ in counts)
    targets = max(count for _, count in counts)
    gold = torch.zeros(len(counts), 1, targets, sources)
    for number, encoded in enumerate(batch.inputs):
        for word, source_words in links_of(encoded.known_pair):
            gold[number, 0, word, source_words] = 1
    return gold.to(batch.word.device)


class AlignmentScorer:
    """A consumer of cross attention that sums how well each head links a batch's words.

    Source units that attention covers are counted of every pair; links of pairs whose gold links
    are known.
    """

    all_queries = True

    def __init__(self, units: Units) -> None:
        """Scorers of the same batch may share their `units`, which are not by query."""
        self._units = units
        self._sums = BatchSums(units)
        self._has_gold = all(has_links(encoded.pair) for encoded in units.batch.inputs)

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        show_units(self._units, [self], block)

    def take(self, parts: Sequence[UnitBlock]) -> None:
        """Add the sums of some inputs."""
        for part in parts:
            sums = _coverage_sums(part)
            if self._has_gold:
                sums |= _link_sums(part)
            self._sums.add(part, sums)

    def sums(self) -> dict[str, FloatArray]:
        """Each pair's own sums, once every block has come. Shape: each [pair, layer, head, 1].

        `covered` of `source_units`; with gold links `right_links` of `links`, and `gold_links`.
        """
        return self._sums.arrays()


def _coverage_sums(block: UnitBlock) -> dict[str, Tensor]:
    """How much attention source words get from all words of the target, at most 1 each.

    Shape: each [input, head, 1, 1].
    """
    is_key = block.batch.key_word[:, None, block.batch.keys]
    received = (block.weights * block.takes[..., None]).sum(2)
    covered = (received.clip(max=1) * is_key).sum(-1)
    count = is_key.sum(-1).expand_as(covered)
    return {
        "covered": covered[..., None, None],
        "source_units": count[..., None, None],
    }


def _link_sums(block: UnitBlock) -> dict[str, Tensor]:
    """How many links heads make, how many of them are right, and how many gold links there are.

    Shape: each [input, head, 1, 1].
    """
    gold = block.cached("gold links", partial(_gold_links, block.batch))
    source_word = linked_words(block)
    is_linked = source_word != NO_LINK
    expanded = gold.expand(*source_word.shape, -1)
    is_right = expanded.gather(3, source_word.clip(0)[..., None])[..., 0] * is_linked
    n_gold = gold.sum((2, 3)).expand_as(is_right[..., 0])
    return {
        "links": is_linked.sum(-1)[..., None, None],
        "right_links": is_right.sum(-1)[..., None, None],
        "gold_links": n_gold[..., None, None],
    }


class LinkReader:
    """A consumer of cross attention that keeps which words some heads link in a batch."""

    all_queries = True

    def __init__(self, units: Units, heads: Sequence[Head]) -> None:
        self._units = units
        self._heads = heads
        self._links: dict[tuple[int, Head], set[tuple[int, int]]] = {}

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block. Raises: CaptureError if the model's attention is not finite."""
        show_units(self._units, [self], block)

    def take(self, parts: Sequence[UnitBlock]) -> None:
        """Keep the links of some inputs."""
        for part in parts:
            block = part.token_block
            in_block = range(block.grid.shape[1])[block.heads]
            heads = [
                head for head in self._heads if head.row == block.layer and head.head in in_block
            ]
            if not heads:
                continue
            if not bool(part.weights.isfinite().all()):
                raise not_finite("the attention weights", f" from layer {block.layer} on")
            places = [in_block.index(head.head) for head in heads]
            source_words = linked_words(part)[:, places].tolist()
            inputs = range(len(self._units.batch))[block.inputs]
            for number, words_of_heads in zip(inputs, source_words, strict=True):
                for head, words in zip(heads, words_of_heads, strict=True):
                    self._links[number, head] = _links_of(words)

    def links(self, number: int, head: Head) -> set[tuple[int, int]]:
        """The links that a head makes of an input: source and target words."""
        return self._links[number, head]


def _links_of(source_words: Sequence[int]) -> set[tuple[int, int]]:
    """Links by the source word of each target word."""
    return {(word, target) for target, word in enumerate(source_words) if word != NO_LINK}

"""How well heads align words: a consumer of cross attention that links every target word to its most attended source.

The alignment error rate of links A by gold links S is 1 - 2|A ∩ S| / (|A| + |S|), all gold links being sure.
Source: Och and Ney, "A Systematic Comparison of Various Statistical Alignment Models" (2003), section 6.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from attnscan.inputs.alignments import links_of
from attnscan.inputs.batch import EncodedBatch, EncodedInput
from attnscan.inputs.sentence import NO_WORD
from attnscan.model.attention_block import AttentionBlock
from attnscan.results.heads import AlignmentErrors
from attnscan.results.scores import FloatArray


def alignment_errors(links: FloatArray) -> AlignmentErrors:
    """The error rates of every head, by each half of the pairs and by all.

    Shape: `links` [block, layer, head, half x (right, made, gold)], as `AlignmentScorer.sums` gives them of pairs.
    """
    right, made, gold = np.moveaxis(links.sum(0).reshape(*links.shape[1:3], 2, 3), (2, 3), (1, 0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return AlignmentErrors(1 - 2 * right / (made + gold), 1 - 2 * right.sum(0) / (made + gold).sum(0))


class AlignmentScorer:
    """A consumer of cross attention that counts the links which one batch's heads make, and those that are right."""

    def __init__(self, batch: EncodedBatch, halves: Sequence[int]) -> None:
        """`halves` says in which half of the pairs each input counts, 0 or 1."""
        self._batch, self._halves = batch, halves
        self._sums = np.zeros((len(batch), 0, 0, 2, 3))

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        if not self._sums.size:
            self._sums = np.zeros((len(self._batch), *block.grid.shape, 2, 3))
        for weights, number in zip(block.weights, range(*block.inputs.indices(len(self._batch))), strict=True):
            links = _count_links(self._batch.inputs[number], weights)
            self._sums[number, block.layer, block.heads, self._halves[number]] = links

    def sums(self) -> FloatArray:
        """Each pair's links in the half that it counts in, once every block has come.

        Shape: [pair, layer, head, half x (right, made, gold)].
        """
        return self._sums.reshape(*self._sums.shape[:3], 6)


def _count_links(encoded: EncodedInput, weights: Tensor) -> FloatArray:
    """The right, the made and the gold links of an input. Shape: [head, query, key] -> [head, 3]."""
    words = np.array(encoded.words)
    of_source, of_target = words[: encoded.source], words[encoded.source :]
    sources, targets = (np.unique(own[own != NO_WORD]) for own in (of_source, of_target))
    to_words, from_words = (
        torch.from_numpy(own[:, None] == numbers).to(weights)
        for own, numbers in ((of_source, sources), (of_target, targets))
    )
    best = (from_words.T @ weights @ to_words).argmax(-1).cpu().numpy()  # a mean over pieces has the same place
    gold = {(word, source) for word, linked in links_of(encoded.known_pair) for source in linked}
    is_gold = np.array([[(word, source) in gold for source in sources] for word in targets])
    right = is_gold[np.arange(len(targets)), best].sum(-1)
    return np.stack([right, np.full_like(right, len(targets)), np.full_like(right, len(gold))], -1).astype(np.float64)

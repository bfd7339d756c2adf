"""How well heads align words: a consumer of cross attention that links every target word to its most attended source.

The alignment error rate of links A by gold links S is 1 - 2|A ∩ S| / (|A| + |S|), all gold links being sure.
Source: Och and Ney, "A Systematic Comparison of Various Statistical Alignment Models" (2003), section 6.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from attnscan.inputs.alignments import links_of
from attnscan.inputs.batch import EncodedBatch
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
        halves = 1 - 2 * right / (made + gold)
        overall = 1 - 2 * right.sum(0) / (made + gold).sum(0)
    return AlignmentErrors(halves, overall)


class AlignmentScorer:
    """A consumer of cross attention that counts the links which one batch's heads make, and those that are right."""

    def __init__(self, batch: EncodedBatch, halves: Sequence[int]) -> None:
        """`halves` says in which half of the pairs each input counts, 0 or 1."""
        self._batch, self._halves = batch, halves
        self._sums: dict[tuple[int, int], FloatArray] = {}
        self._shape = (0, 0)

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; one that comes again replaces what it said before."""
        for row, number in enumerate(range(*block.inputs.indices(len(self._batch)))):
            place = number, block.layer
            if place not in self._sums:
                self._sums[place] = np.zeros((3, block.grid.shape[1]))
            self._sums[place][:, block.heads] = self._links(block.weights[row], number)
        self._shape = block.grid.shape

    def _links(self, weights: torch.Tensor, number: int) -> FloatArray:
        """The right, the made and the gold links of an input. Shape: [head, query, key] -> [3, head]."""
        encoded = self._batch.inputs[number]
        of_source, of_target = (
            torch.tensor(words, device=weights.device)
            for words in (encoded.words[: encoded.source], encoded.words[encoded.source :])
        )
        targets = sorted(set(of_target.tolist()) - {NO_WORD})
        sources = sorted(set(of_source.tolist()) - {NO_WORD})
        from_words = torch.stack([(of_target == word).float() for word in targets])
        to_words = torch.stack([(of_source == word).float() for word in sources], 1)
        best = (from_words @ weights @ to_words).argmax(-1).cpu().numpy()  # a mean over pieces has the same place
        gold = {(word, source) for word, words in links_of(encoded.known_pair) for source in words}
        right = [sum((word, sources[place]) in gold for word, place in zip(targets, row, strict=True)) for row in best]
        return np.array([right, [len(targets)] * len(best), [len(gold)] * len(best)], dtype=np.float64)

    def sums(self) -> FloatArray:
        """Each pair's links in the half that it counts in, once every block has come.

        Shape: [pair, layer, head, half x (right, made, gold)].
        """
        links = np.zeros((len(self._batch), *self._shape, 2, 3))
        for (number, layer), values in self._sums.items():
            links[number, layer, :, self._halves[number]] = values.T
        return links.reshape(*links.shape[:3], 6)

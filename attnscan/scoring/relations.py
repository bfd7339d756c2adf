"""Attention against dependency trees: a consumer that sums, for every head, how its words' rows agree with a treebank.

A *row* is a relation in a direction. An *item* is a query of a row with its targets: a word with its head, or a word
with all of its dependents in the relation. Items are the same for all heads, and are laid out once a batch.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscan.inputs.batch import EncodedBatch
from attnscan.inputs.sentence import NO_WORD, Sentence
from attnscan.model.attention_block import AttentionBlock
from attnscan.results.grid import Grid
from attnscan.results.scores import FloatArray, IntArray
from attnscan.results.syntax import DEPENDENT, FAR, HEAD, NOT_ALL, OFFSETS, SIDES, Row
from attnscan.scoring.merging import Units, exact

_LEAST_LEFT = 1e-6  # as of all rows that are renormalised over words
_DISTANCES = 2 * FAR + 1
_NOWHERE = -9


class Item(NamedTuple):
    """A query of a row, with its targets; words go by their numbers in the sentence."""

    row: Row
    query: int
    targets: tuple[int, ...]


@dataclass(frozen=True)
class Asked:
    """Which items there are."""

    subtypes: bool = False
    """Whether `nsubj:pass` is a relation of its own, beside `nsubj`."""
    causal: bool = False
    """Whether words see none behind them, so that these are no targets."""


def items_of(sentence: Sentence, asked: Asked = Asked()) -> list[Item]:
    """What heads are asked about a sentence: each word's head, and each head's dependents, by relation.

    >>> items_of(Sentence("Dogs bark", [(0, 4), (5, 9)], {"head": [1, None], "deprel": ["nsubj", "root"]}))[0]
    Item(row=Row(relation='nsubj', direction='dep->head'), query=0, targets=(1,))
    """
    items: list[Item] = []
    dependents: dict[tuple[str, int], list[int]] = {}
    for word, (head, relation) in enumerate(zip(sentence.tags["head"], sentence.tags["deprel"], strict=True)):
        universal = str(relation).partition(":")[0]
        if not isinstance(head, int) or universal == "root":
            continue
        names = [universal, *([str(relation)] if asked.subtypes and relation != universal else [])]
        for name in dict.fromkeys((*names, *(["all"] if universal not in NOT_ALL else []))):  # one may be called `all`
            items.append(Item(Row(name, HEAD), word, (head,)))
            dependents.setdefault((name, head), []).append(word)
    items += [Item(Row(name, DEPENDENT), head, tuple(words)) for (name, head), words in dependents.items()]
    if not asked.causal:
        return items
    seen = (Item(row, query, tuple(word for word in targets if word < query)) for row, query, targets in items)
    return [item for item in seen if item.targets]


@dataclass(frozen=True)
class Baselines:
    """The rows of a treebank and, of each, the rules that its sentences of the other half choose."""

    rows: tuple[Row, ...]
    parts: tuple[str, ...]
    """Parts of speech."""
    offset: IntArray
    """The best distance from query to target, for sentences of each half. Shape: [half, row]."""
    nearest: IntArray
    """The best rule "nearest word of a part of speech on one side", as part x side. Shape: [half, row]."""
    asked: Asked

    @property
    def number(self) -> Mapping[Row, int]:
        """Of each row, its place."""
        return {row: number for number, row in enumerate(self.rows)}


def nearest_words(parts: Sequence[Any], known: Sequence[str]) -> IntArray:
    """For every rule and query, the word that the rule points to; _NOWHERE if there is none.

    Shape: [part x side, word].
    """
    count = len(parts)
    pointed = np.full((len(known), len(SIDES), count), _NOWHERE)
    for number, part in enumerate(known):
        there = np.array([at for at in range(count) if parts[at] == part])
        if len(there):
            before, behind = (np.searchsorted(there, np.arange(count), side=side) for side in ("left", "right"))
            pointed[number, 0, before > 0] = there[before[before > 0] - 1]
            pointed[number, 1, behind < len(there)] = there[behind[behind < len(there)]]
    return pointed.reshape(-1, count)


class RuleCounts:
    """Counts, over a treebank and without a model, how often each rule of distance or of nearness is right."""

    def __init__(self, asked: Asked) -> None:
        self.sentences, self.asked = 0, asked
        self._offsets: defaultdict[tuple[int, Row], Counter[int]] = defaultdict(Counter)
        self._nearest: defaultdict[tuple[int, Row], Counter[tuple[str, int]]] = defaultdict(Counter)
        self._parts: set[str] = set()

    def add(self, sentence: Sentence, half: int) -> None:
        """Count a sentence of a half."""
        parts = [str(part) for part in sentence.tags["upos"]]
        known = sorted(set(parts))
        pointed = nearest_words(parts, known)
        self.sentences += 1
        self._parts.update(known)
        for row, query, targets in items_of(sentence, self.asked):
            offsets, rules = self._offsets[half, row], self._nearest[half, row]
            for target in targets:
                offsets[target - query] += 1
                rules.update(
                    (known[rule // len(SIDES)], rule % len(SIDES))
                    for rule in (pointed[:, query] == target).nonzero()[0]
                )

    @property
    def relations(self) -> list[str]:
        """Those that the treebank has."""
        return sorted({row.relation for _, row in self._offsets})

    def baselines(self) -> Baselines:
        """The rules that each half chooses for the other one; of equally good ones the nearest, and the first."""
        rows = tuple(sorted({row for _, row in self._offsets}, key=lambda row: (row.relation != "all", row)))
        parts = tuple(sorted(self._parts))
        offset, nearest = (np.zeros((2, len(rows)), dtype=np.int64) for _ in range(2))
        for half in (0, 1):
            for place, row in enumerate(rows):
                counts, rules = self._offsets[1 - half, row], self._nearest[1 - half, row]
                offset[half, place] = max(OFFSETS, key=counts.__getitem__)
                numbers = [rules[part, side] for part in parts for side in range(len(SIDES))]
                nearest[half, place] = int(np.argmax(numbers))
        return Baselines(rows, parts, offset, nearest, self.asked)


class RelationScorer:
    """A consumer of attention blocks that holds one batch of sentences with trees against these.

    Even attention is scored as one more head, the last.
    """

    def __init__(self, batch: EncodedBatch, baselines: Baselines, halves: Sequence[int], *, among: bool) -> None:
        """`among` is whether weights count among words alone, with special tokens removed."""
        self._batch, self._among, self._merged = batch, among, Units(batch)
        units = [{w: u for u, w in enumerate(encoded.unit_words) if w != NO_WORD} for encoded in batch.inputs]
        self._units = [torch.tensor(list(known.values()), device=batch.word.device) for known in units]
        sentences = [encoded.known_pair.sentences[0] for encoded in batch.inputs]
        self._layout = _Layout(sentences, [list(known) for known in units], baselines, halves, batch.word.device)
        self._grid: Grid | None = None
        self._layer = -1

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block, of whole rows; where all blocks come again, they replace those before."""
        assert block.is_whole
        start, stop, _ = block.inputs.indices(len(self._units))
        if block.grid != self._grid or (block.layer < self._layer and self._done[start, block.layer]):
            self._start(block.grid)
        if block.layer != self._layer:
            self._flush()
            self._layer = block.layer
        for of_tokens, own in self._merged.blocks(replace(block, idle=None)):
            even = self._merged.even(of_tokens, own.inputs)
            for row, number in enumerate(range(own.inputs.start, own.inputs.stop)):
                self._keep(number, block.heads, own.weights[row])
                if not block.heads.start:
                    self._keep(number, slice(-1, None), even[row, None])
        self._there[start:stop] = True

    def _start(self, grid: Grid) -> None:
        """Make room for every layer and head."""
        (layers, heads), device = grid.shape, self._batch.word.device
        count, width = len(self._units), self._layout.width
        self._grid, self._layer, self._sums = grid, -1, dict[str, list[Tensor]]()
        self._weights = torch.zeros(count, width, width, heads + 1, device=device)
        self._left = torch.zeros(count, width, heads + 1, device=device)
        self._there = torch.zeros(count, dtype=torch.bool, device=device)
        self._done = torch.zeros(count, layers, dtype=torch.bool, device=device)

    def _keep(self, number: int, heads: slice, weights: Tensor) -> None:
        """Weights of one input, by units, as those of its words. Shape: [head, unit, unit]."""
        units = self._units[number]
        of_words = weights[:, units].permute(1, 2, 0)
        self._weights[number, : len(units), : len(units), heads] = of_words[:, units]
        is_word = self._batch.word[number, : weights.shape[-1]]
        self._left[number, : len(units), heads] = of_words[:, is_word].sum(1)

    @torch.inference_mode()
    def _flush(self) -> None:
        """Sum what one layer says of the sentences that have come."""
        if self._layer >= 0 and bool(self._there.any()):
            for name, values in self._layout.sums(self._weights, self._left, self._there, among=self._among).items():
                of_layers = self._sums.setdefault(name, [torch.zeros_like(values)] * self._done.shape[1])
                of_layers[self._layer] = of_layers[self._layer] + values
            self._done[self._there, self._layer] = True
            self._there[:] = False

    def sums(self) -> dict[str, FloatArray]:
        """All sums, once every block has come. Shape: [layer, ..., head]; `hits` [sentence, layer, row, head]."""
        self._flush()
        summed = {name: torch.stack(values).cpu().numpy().astype(np.float64) for name, values in self._sums.items()}
        return summed | self._layout.alike | {"hits": np.moveaxis(summed["hits"], 0, 1)}


class _Layout:
    """The items and trees of a batch as indices. Words are those that have a piece, in order, padded at the end."""

    def __init__(
        self,
        sentences: Sequence[Sentence],
        words: Sequence[Sequence[int]],
        baselines: Baselines,
        halves: Sequence[int],
        device: torch.device,
    ) -> None:
        """`words` are the numbers of those that have a piece, of each sentence."""
        self.width = width = max(1, *map(len, words))
        rows, count = len(baselines.rows), len(sentences)
        row_number, part_number = baselines.number, {part: at for at, part in enumerate(baselines.parts)}
        items: list[tuple[int, ...]] = []  # sentence, query, row, where the offset points, whether to no target
        targets: list[tuple[int, ...]] = []  # sentence, query, row, key, item
        parts = np.full((count, width), -1)
        nodes, links = np.full((count, width), -1), np.zeros((count, width, width), dtype=bool)
        all_links = np.zeros(2)  # and those of neighbours
        of_rows = {name: np.zeros((count, rows)) for name in ("n", "offset", "nearest", "met")}
        for number, (sentence, known) in enumerate(zip(sentences, words, strict=True)):
            place = {word: at for at, word in enumerate(known)}
            tags = [sentence.tags["upos"][word] for word in known]
            parts[number, : len(known)] = [part_number[str(tag)] for tag in tags]
            nodes_of = [at for at, tag in enumerate(tags) if tag != "PUNCT"]
            nodes[number, : len(nodes_of)] = nodes_of
            all_links += _link(sentence, [known[at] for at in nodes_of], links[number])
            pointed = nearest_words(tags, baselines.parts)
            for row, query, words_of_item in items_of(sentence, baselines.asked):
                keys = [place[word] for word in words_of_item if word in place]
                if query not in place or not keys:
                    continue
                r, q = row_number[row], place[query]
                at = place.get(query + int(baselines.offset[halves[number], r]), _NOWHERE)
                targets += [(number, q, r, key, len(items)) for key in keys]
                items.append((number, q, r, at, at not in keys))
                of_rows["n"][number, r] += 1
                of_rows["offset"][number, r] += at in keys
                of_rows["nearest"][number, r] += int(pointed[baselines.nearest[halves[number], r], q]) in keys
                of_rows["met"][number, r] = 1
        self._parts, self._rows, self._part_count = torch.from_numpy(parts).to(device), rows, len(baselines.parts)
        self._items = torch.tensor(items, dtype=torch.int64, device=device).reshape(-1, 5).T
        self._targets = torch.tensor(targets, dtype=torch.int64, device=device).reshape(-1, 5).T
        self._half = torch.tensor(list(halves), device=device)
        self._nodes, self._links = torch.from_numpy(nodes).to(device), torch.from_numpy(links).to(device)
        self._others = ~torch.eye(width, dtype=torch.bool, device=device) & (self._parts >= 0)[:, None]
        self._cells = (self._parts[:, :, None] >= 0) & (self._parts[:, None, :] >= 0)
        self.alike = of_rows | self._counts() | {"links": all_links}

    def _bins(self, sentence: Tensor, query: Tensor, key: Tensor) -> Tensor:
        """The number of a half, a distance and a part of speech."""
        distance = (key - query).clip(-FAR, FAR) + FAR
        return (self._half[sentence] * _DISTANCES + distance) * self._part_count + self._parts[sentence, key]

    def _counts(self) -> dict[str, FloatArray]:
        """How many targets there are by row, half, distance and part of speech, and how many words."""
        shape = (2, _DISTANCES, self._part_count)
        sentence, query, row, key, _ = self._targets
        targets = torch.bincount(
            row * math.prod(shape) + self._bins(sentence, query, key), minlength=self._rows * math.prod(shape)
        )
        cells = torch.bincount(self._bins(*self._cells.nonzero().T), minlength=math.prod(shape))
        of_parts = torch.bincount(self._parts[self._parts >= 0], minlength=self._part_count)
        numbers = {"targets": targets.reshape(self._rows, *shape), "cells": cells.reshape(shape), "parts": of_parts}
        return {name: values.cpu().numpy().astype(np.float64) for name, values in numbers.items()}

    def sums(self, weights: Tensor, left: Tensor, there: Tensor, *, among: bool) -> dict[str, Tensor]:
        """What one layer says of those sentences that are `there`.

        Shape: `weights` [sentence, query, key, head], `left` on words [sentence, query, head] -> [..., head] each.
        """
        counts = left >= _LEAST_LEFT
        share = counts / left.clip(_LEAST_LEFT)
        sentence, query, row, key, item = self._targets[:, there[self._targets[0]]]
        of_row = self._half[sentence] * self._rows + row
        on_others = weights.masked_fill(~self._others[..., None], -1.0)
        keys = torch.arange(self.width, device=weights.device)[:, None]
        seen = keys.where(on_others == on_others.amax(2, keepdim=True), self.width).amin(
            2
        )  # the first of equals, on every device
        hit = seen[sentence, query] == key[:, None]
        on_target = weights[sentence, query, key]
        on_words = on_target * share[sentence, query]
        wrong = self._items[4] > 0
        s, q, r, at, _ = self._items[:, wrong & there[self._items[0]]]
        follows = (seen[s, q] == at[:, None]) & (at >= 0)[:, None]

        def summed(values: Tensor, into: Tensor, *shape: int) -> Tensor:
            total = weights.new_zeros(math.prod(shape), weights.shape[-1], dtype=exact(weights.device))
            return total.index_add_(0, into, values.to(total.dtype)).reshape(*shape, -1)

        among_words = weights * share[:, :, None]
        scored, on_parts = among_words if among else weights, among_words.sum(1)
        its_words = (self._parts >= 0) & there[:, None]
        cells = (self._cells & there[:, None, None]).nonzero().T
        items = self._items[:, there[self._items[0]]]
        of_item = self._half[items[0]] * self._rows + items[2]
        return {
            "hits": summed(hit, sentence * self._rows + row, len(left), self._rows),
            "weight": summed(on_words if among else on_target, of_row, 2, self._rows),
            "on_words": summed(on_words, of_row, 2, self._rows),
            "eligible": summed(counts[items[0], items[1]], of_item, 2, self._rows),
            "elsewhere": summed(hit & wrong[item][:, None], of_row, 2, self._rows),
            "follows": summed(follows, self._half[s] * self._rows + r, 2, self._rows),
            "habit": summed(scored[tuple(cells)], self._bins(*cells), 2, _DISTANCES, self._part_count),
            "on_parts": summed(on_parts[its_words], self._parts[its_words], self._part_count),
            "words_with": counts[its_words].sum(0),
            "linked": self._linked(weights[there], there),
        }

    def _linked(self, weights: Tensor, there: Tensor) -> Tensor:
        """How many links of the trees the maximum spanning trees of weights in both directions have, by Prim.

        Shape: [sentence, query, key, head] -> [head].
        """
        nodes, links = self._nodes[there], self._links[there]
        every = torch.arange(len(nodes), device=nodes.device)
        is_node = nodes >= 0
        at = nodes.clip(0)
        both = weights[every[:, None, None], at[:, :, None], at[:, None, :]]
        both = (both + both.transpose(1, 2)).masked_fill(~(is_node[:, :, None] & is_node[:, None])[..., None], -1.0)
        nearest, linked = both[:, 0], weights.new_zeros(weights.shape[-1])
        parent = torch.zeros_like(nearest, dtype=torch.int64)
        outside = is_node[..., None].expand(nearest.shape).clone()
        outside[:, 0] = False
        for _ in range(1, nodes.shape[1]):
            weight, node = nearest.masked_fill(~outside, -1.0).max(1, keepdim=True)
            linked += (links[every[:, None], node[:, 0], parent.gather(1, node)[:, 0]] & (weight[:, 0] >= 0)).sum(0)
            outside.scatter_(1, node, value=False)
            of_node = both.gather(1, node[:, :, None].expand(-1, -1, both.shape[2], -1))[:, 0]
            parent = torch.where(of_node > nearest, node, parent)
            nearest = torch.maximum(of_node, nearest)
        return linked


def _link(sentence: Sentence, nodes: Sequence[int], links: NDArray[np.bool_]) -> tuple[int, int]:
    """Mark which two of the nodes are a word and its head; how many are, and how many of these are neighbours."""
    place = {word: at for at, word in enumerate(nodes)}
    neighbours = 0
    for word, at in place.items():
        head = sentence.tags["head"][word]
        if isinstance(head, int) and (other := place.get(head)) is not None:
            links[at, other] = links[other, at] = True
            neighbours += abs(at - other) == 1
    return int(links.sum()) // 2, neighbours

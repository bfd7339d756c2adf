"""Attention against dependency trees: a consumer that sums, for every head, how its words' rows agree with a treebank.

A *row* is a relation in a direction. An *item* is a query of a row with its targets: a word with its head, or a word
with all of its dependents in the relation. Items are the same for all heads, and are laid out once a batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscan.hashing import hashed
from attnscan.inputs.batch import SPECIAL, EncodedBatch, EncodedInput
from attnscan.inputs.sentence import NO_WORD, Sentence
from attnscan.model.attention_block import AttentionBlock
from attnscan.results.grid import Grid
from attnscan.results.scores import FloatArray
from attnscan.results.syntax import DEPENDENT, FARTHEST, HEAD, NOT_ALL, RULES, Row
from attnscan.scoring.relation_sums import RelationSums, ordered
from attnscan.scoring.units import Units, exact

_NUMBERS = {rule: number for number, rule in enumerate(RULES)}
_LEAST_LEFT = 1e-6  # as of all rows that are renormalised over words


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


class RelationScorer:
    """A consumer of attention blocks that holds one batch of sentences with trees against these.

    Chance is even attention, the same for all heads; by what heads carry, what each would carry if it attended evenly.
    """

    def __init__(self, batch: EncodedBatch, asked: Asked, halves: Sequence[int], *, among: bool) -> None:
        """`halves` says which half of all sentences each is in, `among` whether weights count among words alone."""
        self._batch, self._among, self._merged = batch, among, Units(batch)
        units = [{w: u for u, w in enumerate(encoded.unit_words) if w != NO_WORD} for encoded in batch.inputs]
        self._units = [
            torch.tensor(list(known.values()), dtype=torch.int64, device=batch.word.device) for known in units
        ]
        self._spelled = [of_input.nonzero()[:, 0] for of_input in batch.word]
        sentences = [encoded.known_pair.sentences[0] for encoded in batch.inputs]
        self._layout = _Layout(sentences, [list(known) for known in units], asked, halves, batch.word.device)
        self._grid: Grid | None = None
        self._layer = -1

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block, of whole rows; where all blocks come again, they replace those before."""
        start, stop, _ = block.inputs.indices(len(self._units))
        if block.grid != self._grid or (block.layer < self._layer and self._done[start, block.layer]):
            self._start(block.grid, 1 if block.value_norms is None else block.grid.shape[1])
        if block.layer != self._layer:
            self._flush()
            self._layer = block.layer
        for own in self._merged.blocks(replace(block, idle=None)):
            even, heads = own.even_carried, block.heads
            if even is None and self._evened.get(own.inputs.start) is not block.visible:  # layers may differ in masks
                even, heads = own.part.even()[:, None], slice(None)
            for row, number in enumerate(range(own.inputs.start, own.inputs.stop)):
                self._keep(self._kept, number, block.heads, own.weights[row])
                if even is not None:
                    self._keep(self._even, number, heads, even[row])
                    self._evened[number] = block.visible
        self._there[start:stop] = True

    def _start(self, grid: Grid, evens: int) -> None:
        """Make room for every layer and head, and for even attention of one head or of all."""
        (layers, heads), device = grid.shape, self._batch.word.device
        count, width = len(self._units), self._layout.width
        self._grid, self._layer, self._sums = grid, -1, dict[str, list[Tensor]]()
        self._kept, self._even = (
            (torch.zeros(count, width, width, number, device=device), torch.zeros(count, width, number, device=device))
            for number in (heads, evens)
        )
        """Weights on words, and how much each query has on them: of heads, and of even attention."""
        self._there = torch.zeros(count, dtype=torch.bool, device=device)
        self._done = torch.zeros(count, layers, dtype=torch.bool, device=device)
        self._evened: dict[int, Tensor] = {}

    def _keep(self, into: tuple[Tensor, Tensor], number: int, heads: slice, weights: Tensor) -> None:
        """Keep weights of one input, by units, as those of its words. Shape: [head, unit, unit]."""
        units, spelled = self._units[number], self._spelled[number]
        of_words = weights[:, units]
        count = of_words.shape[1]
        into[0][number, :count, :count, heads] = of_words[..., units].permute(1, 2, 0)
        into[1][number, :count, heads] = of_words[..., spelled].sum(-1).T

    @torch.inference_mode()
    def _flush(self) -> None:
        """Sum what one layer says of the sentences that have come."""
        if self._layer >= 0 and bool(self._there.any()):
            layout, there = self._layout, self._there
            on_even = layout.on_targets(*self._even, there, among=self._among)
            sums = layout.on_targets(*self._kept, there, among=self._among) | layout.agreement(self._kept[0], there)
            sums |= {"chance": on_even["weight"], "chance_eligible": on_even["eligible"]}
            for name, values in sums.items():
                of_layers = self._sums.setdefault(name, [torch.zeros_like(values)] * self._done.shape[1])
                of_layers[self._layer] = of_layers[self._layer] + values
            self._done[self._there, self._layer] = True
            self._there[:] = False

    def sums(self) -> RelationSums:
        """All sums, once every block has come."""
        self._flush()
        layout, inputs = self._layout, self._batch.inputs
        sums = {name: np.moveaxis(torch.stack(of).cpu().numpy(), 0, -2) for name, of in self._sums.items()}
        sums = {name: values.astype(np.float64) for name, values in sums.items()}
        words = np.array([_words(encoded) for encoded in inputs], dtype=np.float64).sum(0)
        of_sentences = {"hits": sums.pop("hits"), "n": layout.n, "rules": layout.rules}
        of_all = {"linked": sums.pop("linked"), "links": layout.links, "words": words[:2], "spelled": words[2:]}
        of_rows = sums | {"hits": of_sentences["hits"].sum(0), **layout.alike}
        return RelationSums.of(layout.rows, of_rows, of_all, list(map(_document, inputs)), of_sentences)


class _Layout:
    """The items and trees of a batch as indices. Words are those that have a piece, in order, padded at the end."""

    def __init__(
        self,
        sentences: Sequence[Sentence],
        words: Sequence[Sequence[int]],
        asked: Asked,
        halves: Sequence[int],
        device: torch.device,
    ) -> None:
        """`words` are the numbers of those that have a piece, of each sentence."""
        items_of_all = [items_of(sentence, asked) for sentence in sentences]
        self.rows = ordered(item.row for items in items_of_all for item in items)
        self.width = width = max(1, *map(len, words))
        self._halves, count = np.array(halves), len(sentences)
        row_number = {row: at for at, row in enumerate(self.rows)}
        items: list[tuple[int, ...]] = []  # sentence, query, row
        targets: list[tuple[int, ...]] = []  # sentence, query, row, key, rule of a part of speech
        numbers, nodes = (np.full((count, width), -1) for _ in range(2))
        links, all_links = np.zeros((count, width, width), dtype=bool), np.zeros(2)  # and those of neighbours
        for number, (sentence, known) in enumerate(zip(sentences, words, strict=True)):
            place = {word: at for at, word in enumerate(known)}
            tags = [str(sentence.tags["upos"][word]) for word in known]
            numbers[number, : len(known)] = known
            nodes_of = [at for at, tag in enumerate(tags) if tag != "PUNCT"]
            nodes[number, : len(nodes_of)] = nodes_of
            all_links += _link(sentence, [known[at] for at in nodes_of], links[number])
            for row, query, words_of_item in items_of_all[number]:
                keys = [place[word] for word in words_of_item if word in place]
                if query in place and keys:
                    at = place[query]
                    targets += [(number, at, row_number[row], key, _nearest_rule(tags, at, key)) for key in keys]
                    items.append((number, place[query], row_number[row]))
        self._numbers, self._nodes, self._links, self._half = (
            torch.from_numpy(values).to(device) for values in (numbers, nodes, links, self._halves)
        )
        self._items = torch.tensor(items, dtype=torch.int64, device=device).reshape(-1, 3).T
        self._targets = torch.tensor(targets, dtype=torch.int64, device=device).reshape(-1, 5).T
        self._others = ~torch.eye(width, dtype=torch.bool, device=device) & (self._numbers >= 0)[:, None]
        self.links = all_links
        self._count()

    def _count(self) -> None:
        """What all heads have alike: queries, and targets to which rules point, by row."""
        count, rows = len(self._halves), len(self.rows)
        sentence, query, row, key, nearest = self._targets

        def counted(bins: Tensor, *shape: int) -> FloatArray:
            counts = torch.bincount(bins, minlength=math.prod(shape)).reshape(shape)
            return counts.cpu().numpy().astype(np.float64)

        self.n = counted(self._items[0] * rows + self._items[2], count, rows)
        at = ((sentence * rows + row) * 2 + self._half[sentence]) * len(RULES)
        apart = self._numbers[sentence, key] - self._numbers[sentence, query]
        near, known = apart.abs() <= FARTHEST, nearest >= 0
        by_distance = 2 * (apart.abs() - 1) + (apart > 0)
        pointed = torch.cat([(at + by_distance)[near], (at + nearest)[known]])
        self.rules = counted(pointed, count, rows, 2, len(RULES))
        self.alike = {
            "n": self.by_half(self.n),
            "met": (self.n > 0).sum(0).astype(np.float64),
            "rules": self.rules.sum(0),
        }

    def by_half(self, values: FloatArray) -> FloatArray:
        """Sums over the sentences of each half. Shape: [sentence, row, ...] -> [row, half, ...]."""
        return np.stack([values[self._halves == half].sum(0) for half in (0, 1)], axis=1)

    def on_targets(self, weights: Tensor, left: Tensor, there: Tensor, *, among: bool) -> dict[str, Tensor]:
        """What one layer has on targets in those sentences that are `there`. Shape: [row, head] each.

        Shape: `weights` [sentence, query, key, head], `left` on words [sentence, query, head].
        """
        counts = left >= _LEAST_LEFT
        share = counts / left.clip(_LEAST_LEFT)
        sentence, query, row, key, _ = self._targets[:, there[self._targets[0]]]
        s, q, r = self._items
        on_target, rows = weights[sentence, query, key], len(self.rows)
        on_words = on_target * share[sentence, query]
        return {
            "weight": _summed(on_words if among else on_target, row, rows),
            "on_words": _summed(on_words, row, rows),
            "eligible": _summed(counts[s, q] & there[s, None], r, rows),
        }

    def agreement(self, weights: Tensor, there: Tensor) -> dict[str, Tensor]:
        """How often one layer attends to targets most, in those sentences, and which links of their trees it has.

        Shape: `weights` [sentence, query, key, head] -> `hits` [sentence, row, head], `linked` [head].
        """
        sentence, query, row, key, _ = self._targets[:, there[self._targets[0]]]
        rows, sentences = len(self.rows), len(weights)
        seen = weights.masked_fill(~self._others[..., None], -1.0).argmax(2)  # the first of equals
        hits = _summed(seen[sentence, query] == key[:, None], sentence * rows + row, sentences * rows)
        return {
            "hits": hits.reshape(sentences, rows, weights.shape[-1]),
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


def _nearest_rule(tags: Sequence[str], query: int, key: int) -> int:
    """The number of the rule that goes from a word to the nearest one of another's part of speech; -1 if it misses it.

    >>> RULES[_nearest_rule(["DET", "ADJ", "NOUN"], 0, 2)], _nearest_rule(["DET", "NOUN", "NOUN"], 0, 2)
    ('NOUN behind', -1)
    """
    tag, between = tags[key], tags[min(query, key) + 1 : max(query, key)]
    rule = f"{tag} {'behind' if key > query else 'before'}"
    return -1 if key == query or tag in between else _NUMBERS.get(rule, -1)


def _summed(values: Tensor, into: Tensor, count: int) -> Tensor:
    """Sums of values [item, head] by where they go, [item]. Shape: [count, head]."""
    kind = exact(values.device)
    return torch.zeros(count, values.shape[-1], dtype=kind, device=values.device).index_add_(0, into, values.to(kind))


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


def _words(encoded: EncodedInput) -> tuple[int, int, int, int]:
    """How many words there are, and how many without a token; how many have characters that the model was given, and
    how many of these are in no token.

    Italian *la* in *nella* has none of its own, and *w* in Arabic *wktb* may be in the token of another word.
    """
    words, owned = encoded.known_pair.sentences[0].words or (), set(encoded.words) - {NO_WORD}
    spans = [span for own, span in zip(encoded.sentence, encoded.spans, strict=True) if own != SPECIAL]
    start, end = (spans[0][0], max(last for _, last in spans)) if encoded.truncated and spans else (0, math.inf)
    spelled = [number for number, (first, last) in enumerate(words) if max(first, start) < min(last, end)]
    lost = sum(
        not any(max(first, words[number][0]) < min(last, words[number][1]) for first, last in spans)
        for number in spelled
        if number not in owned
    )
    return len(words), len(words) - len(owned), len(spelled), lost


def _document(encoded: EncodedInput) -> str:
    """The key of a sentence's document or, where the treebank names none, of the sentence."""
    named = encoded.known_pair.sentences[0].tags.get("document", [None])[0]
    return encoded.known_pair.key if named is None else hashed(str(named).encode())

"""Attention against links between words: sums of how heads agree with them, and their result.

A treebank links each word with its head; a file of links has any relations. A *row* is a relation
in a direction. An *item* is a query of a row with its targets: a word with its head, or a word with
all of its dependents in the relation. Items are the same for all heads, and are laid out once a
batch.

Sums of different rows add. The best rule is chosen on the other half of all sentences, which no
part of a scan knows. So sums count every rule, and one is chosen when they are complete: shards,
order and resumption change nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscan.errors import ModelError
from attnscan.inputs.batch import EncodedBatch
from attnscan.inputs.links import (
    InputWords,
    document_of,
    has_tree,
    input_words,
    links_in,
)
from attnscan.inputs.sentence import EncodedInput, Link
from attnscan.model.attention_block import AttentionBlock
from attnscan.results.attention import MIN_ON_WORDS
from attnscan.results.intervals import holm, p_value
from attnscan.results.scores import FloatArray
from attnscan.results.signature import Signature
from attnscan.results.syntax import (
    DEPENDENT,
    FARTHEST,
    HEAD,
    MIN_SENTENCES,
    NO_TAG,
    NOT_ALL,
    RULES,
    SAME_PLACE,
    SAME_WORD,
    SIDES,
    Row,
    Syntax,
)
from attnscan.scoring.blocks import PairSums, error, ratio, residuals
from attnscan.scoring.units import UnitBlock, Units, accumulation_dtype
from attnscan.text import hashed

RelationSums = Mapping[str, PairSums]
"""Sums over inputs with links, each by its name and, of a row, that of the row.

`whole`: over all sentences, in a single block. Of each row `met`, sentences with an eligible query;
`weight` and `on_words` on targets, by the reading and among words, and the `eligible` queries with
weight on words; `chance` and `chance_eligible`, `weight` and `eligible` of even attention,
[layer, head] each. Of all `linked`, links of trees in the maximum spanning trees, [layer, head];
`links`, those of the trees, and of these those between neighbours; `words`, all and those without a
token.

`documents`: of each document. Of each row `n`, eligible queries by half; `hits`, those whose most
attended other word is a target, [layer, head]; `rules`, targets to which each of `RULES` points,
[half, rule]; `nearest TAG`, the same of the two rules of each tag that is no part of speech,
[half, side]."""
_NEAREST = "nearest "
_BETWEEN = "\t"  # parts of a sum's name: relations and tags are printable, and have no tab
_MOST_DOCUMENTS = 1024  # errors are by document up to so many
_ALL = "0" * 16  # the key of sums over all documents
_MOST_WORDLESS = 0.5
"""Of words: with more in no token, the tokenizer's offsets are not those of the text."""


def by_row(rows: Sequence[Row], sums: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Sums by their name and that of their row. Shape: each [block, row, ...] -> [block, ...]."""
    result = {}
    for name, values in sums.items():
        for place, row in enumerate(rows):
            result[_name_of_sum(name, row)] = values[:, place]
    return result


def _name_of_sum(name: str, row: Row) -> str:
    return _BETWEEN.join((name, *row))


def ordered(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Rows in the order of tables, each once: `all` first."""
    return tuple(sorted(set(rows), key=lambda row: (row.relation != "all", row)))


def syntax_of(sums: RelationSums, signature: Signature, *, among: bool) -> Syntax:
    """Compute the result from sums over all sentences.

    `among` is whether weights count among words alone.
    Raises: ModelError if too many words are in no token.
    """
    totals = sums["whole"].sums
    words, wordless = map(int, totals["words"][0])
    if wordless > _MOST_WORDLESS * words:
        raise offsets_error(signature.model, f"{wordless:,} of {words:,} words are in no token")
    names = [name.split(_BETWEEN) for name in totals]
    rows = ordered(Row(*parts) for name, *parts in names if name == "met")
    hits = _stacked(sums["documents"], "hits", rows)
    n_by_half = _stacked(sums["documents"], "n", rows)
    n = n_by_half.sum(1)[:, None, None]
    n_of_row = n.sum((0, 1, 2))
    rules = _rules_of_other_half(sums["documents"], rows, n_by_half)
    total = {
        name: _stacked(sums["whole"], name, rows)[0]
        for name in ("met", "weight", "on_words", "eligible", "chance", "chance_eligible")
    }
    met = total["met"]

    def hide_rare(values: FloatArray) -> FloatArray:
        return np.where(met < MIN_SENTENCES, np.nan, values)

    beyond_rule = hits - rules.hits[:, None, None]
    gain = hide_rare(ratio(beyond_rule, n))
    se = hide_rare(error(residuals(beyond_rule, n)))
    row_clusters = (n > 0).sum(0)
    clusters = np.broadcast_to(row_clusters, gain.shape)
    ((links, neighbours),) = totals["links"]
    with np.errstate(invalid="ignore", divide="ignore"):
        return Syntax(
            rows,
            n=n_of_row.astype(np.int64),
            met=met.astype(np.int64),
            rule=rules.name,
            rule_accuracy=hide_rare(rules.hits.sum(0) / n_of_row),
            accuracy=hide_rare(ratio(hits, n)),
            weight=hide_rare(total["weight"] / (total["eligible"] if among else n.sum(0))),
            weight_among_words=hide_rare(total["on_words"] / total["eligible"]),
            chance=hide_rare(total["chance"] / (total["chance_eligible"] if among else n.sum(0))),
            gain=gain,
            se=se,
            p_holm=holm(p_value(gain, se, clusters)),
            uuas=totals["linked"][0] / links,
            chain_uuas=float(neighbours / links),
            clusters=len(n),
            row_clusters=row_clusters.ravel(),
            words=words,
            wordless=wordless,
            signature=signature,
        )


def _stacked(blocks: PairSums, name: str, rows: Sequence[Row]) -> FloatArray:
    """Sums of a name, row beside row; those of a row that has none are 0.

    Shape: [block, ..., row].
    """
    sums_by_row = [blocks.sums.get(_name_of_sum(name, row)) for row in rows]
    zeros = np.zeros_like(next(values for values in sums_by_row if values is not None))
    return np.stack([zeros if values is None else values for values in sums_by_row], -1)


def _tags_in(blocks: PairSums) -> set[str]:
    """The tags that are no parts of speech, to which rules pointed."""
    names = (name.split(_BETWEEN)[0] for name in blocks.sums)
    return {name.removeprefix(_NEAREST) for name in names if name.startswith(_NEAREST)}


class _BestRules(NamedTuple):
    """The rule that heads are compared with, of each row; chosen on the half it is not used on."""

    hits: FloatArray
    """Targets to which the rules point. Shape: [document, row]."""
    name: NDArray[np.str_]
    """The rule that is used on the half with more queries. Shape: [row]."""


def _rules_of_other_half(blocks: PairSums, rows: Sequence[Row], n: FloatArray) -> _BestRules:
    """Choose the rules: of `RULES`, and of the tags that are no parts of speech.

    Shape: `n` [document, half, row].
    """
    names = list(RULES)
    all_hits = [_stacked(blocks, "rules", rows)]
    for tag in sorted(_tags_in(blocks)):
        names += [f"{tag} {side}" for side in SIDES]
        all_hits.append(_stacked(blocks, _NEAREST + tag, rows))
    hits = np.concatenate(all_hits, 2)
    best_by_half = hits.sum(0).argmax(1)
    chosen = best_by_half[::-1]
    larger_half = n.sum(0).argmax(0)
    return _BestRules(
        hits=np.take_along_axis(hits, chosen[None, :, None], 2).sum((1, 2)),
        name=np.array(names)[np.take_along_axis(chosen, larger_half[None], 0)[0]],
    )


def offsets_error(model: str, reason: str) -> ModelError:
    """Build the error for a tokenizer that does not tell which characters its tokens stand for."""
    return ModelError(
        f"the tokenizer of {model} does not tell where its tokens stand in the text: {reason}",
        "use a model with a fast tokenizer (tokenizer.json)",
    )


class Item(NamedTuple):
    """A query of a row, with its targets; words go by their numbers in the sentence."""

    row: Row
    query: int
    targets: tuple[int, ...]


def items_of(links: Iterable[Link], *, subtypes: bool = False, causal: bool = False) -> list[Item]:
    """List the items of links: each word's targets, and each target's words, by relation.

    With `subtypes`, `nsubj:pass` is a relation of its own, beside `nsubj`. In a `causal` model,
    which sees no later word, these are no targets.

    >>> items_of([Link("nsubj", 0, 1)])[0]
    Item(row=Row(relation='nsubj', direction='dep->head'), query=0, targets=(1,))
    """
    targets: dict[tuple[Row, int], list[int]] = {}
    queries: dict[tuple[Row, int], list[int]] = {}
    for link in links:
        for name in _names_of(link.relation, subtypes=subtypes):
            targets.setdefault((Row(name, HEAD), link.query), []).append(link.target)
            queries.setdefault((Row(name, DEPENDENT), link.target), []).append(link.query)
    items = []
    for (row, query), words in (targets | queries).items():
        each_once = dict.fromkeys(words)
        seen = [word for word in each_once if word < query or not causal]
        if seen:
            items.append(Item(row, query, tuple(seen)))
    return items


def _names_of(relation: str, *, subtypes: bool) -> list[str]:
    """The relations that a link counts for, each once: one may be called `all`."""
    names = [relation.partition(":")[0]]
    if subtypes:
        names.append(relation)
    if names[0] not in NOT_ALL:
        names.append("all")
    return list(dict.fromkeys(names))


class Rule(NamedTuple):
    """A fixed rule: a word by its distance, or the nearest of some kind, on a side of the query."""

    what: str
    side: str = ""

    @property
    def name(self) -> str:
        """As tables write it."""
        return f"{self.what} {self.side}".rstrip()


_RULE_NUMBERS = {name: number for number, name in enumerate(RULES)}


class _Places(NamedTuple):
    """Where the targets of some sentences are, and their items. Shape: [target] and [item] each."""

    sentence: Tensor
    query: Tensor
    row: Tensor
    key: Tensor
    item_sentence: Tensor
    item_query: Tensor
    item_row: Tensor


class _OnTargets(NamedTuple):
    """Attention on targets."""

    weight: Tensor
    """By the reading. Shape: [target, head]."""
    on_words: Tensor
    """Among words. Shape: [target, head]."""
    eligible: Tensor
    """Which items have weight on words. Shape: [item, head], bool."""


class _Trees(NamedTuple):
    """The trees of some sentences, without punctuation and words that have no token.

    Inputs with links of one's own have none.
    """

    nodes: Tensor
    """Shape: [sentence, unit], bool."""
    edges: Tensor
    """Symmetric. Shape: [sentence, unit, unit], bool."""
    links: int = 0
    """How many links there are."""
    neighbours: int = 0
    """How many of these are between neighbours."""

    def of(self, block: UnitBlock) -> Self:
        """The trees of a block's sentences, as wide as its weights."""
        inputs = block.token_block.inputs
        units = block.weights.shape[-1]
        return self._replace(
            nodes=self.nodes[inputs, :units], edges=self.edges[inputs, :units, :units]
        )


class RelationScorer:
    """A consumer of attention blocks that compares attention with the links of some inputs.

    Chance is even attention or, by what heads carry, what each would carry if it attended evenly.
    """

    def __init__(
        self,
        batch: EncodedBatch,
        halves: Sequence[int],
        *,
        among: bool,
        subtypes: bool = False,
        causal: bool = False,
    ) -> None:
        """`halves` says which half of all inputs each is in.

        `among` is whether weights count among words alone.
        """
        self._batch = batch
        self._among = among
        self._units = Units(batch)
        item_lists = [
            items_of(links_in(encoded.known_pair), subtypes=subtypes, causal=causal)
            for encoded in batch.inputs
        ]
        self._words = [input_words(encoded) for encoded in batch.inputs]
        self._rows = ordered(item.row for item in chain.from_iterable(item_lists))
        self._row_numbers = {row: number for number, row in enumerate(self._rows)}
        self._n = np.zeros((len(item_lists), len(self._rows), 2))
        self._rules = np.zeros((*self._n.shape, len(RULES)))
        self._nearest: dict[str, FloatArray] = {}
        self._item_places: list[tuple[int, int, int]] = []
        self._target_places: list[tuple[int, int, int, int]] = []
        for number, items in enumerate(item_lists):
            self._lay_out_items(number, items, halves[number])
        self._trees = _trees_of(batch, self._words)
        self._sums: dict[str, Tensor] = {}

    def _lay_out_items(self, number: int, items: Sequence[Item], half: int) -> None:
        """Place the items of an input, and count what rules point to; words need a token."""
        words = self._words[number]
        units = words.units
        for item in items:
            keys = [word for word in item.targets if word in units]
            if item.query not in units or not keys:
                continue
            row = self._row_numbers[item.row]
            query = units[item.query]
            self._item_places.append((number, query, row))
            self._n[number, row, half] += 1
            for key in keys:
                self._target_places.append((number, query, row, units[key]))
                for rule in rules_between(words, item.query, key):
                    self._count_rule(rule, (number, row, half))

    def _count_rule(self, rule: Rule, place: tuple[int, int, int]) -> None:
        """Count a target to which a rule points. Shape: `place` is input, row and half."""
        fixed = _RULE_NUMBERS.get(rule.name)
        if fixed is not None:
            self._rules[(*place, fixed)] += 1
            return
        if rule.what not in self._nearest:
            self._nearest[rule.what] = np.zeros((*self._n.shape, len(SIDES)))
        self._nearest[rule.what][(*place, SIDES.index(rule.side))] += 1

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        for (unit_block,) in self._units.blocks(block, all_queries=True):
            self._take(unit_block)

    def _take(self, block: UnitBlock) -> None:
        """Add the sums of some heads of a layer on some sentences."""
        weights = block.weights
        places = block.cached("items", lambda: self._places_in(block))
        measured = self._measure(block, weights, places)
        even = block.even_carried
        if even is None:
            even = block.even.expand(weights.shape)
        by_chance = self._measure(block, even, places)
        most_attended = self._most_attended_word(block)
        hits = most_attended[places.sentence, :, places.query] == places.key[:, None]
        target_row = places.row
        item_row = places.item_row
        rows = len(self._rows)
        self._add(block, "weight", measured.weight, target_row, rows)
        self._add(block, "on_words", measured.on_words, target_row, rows)
        self._add(block, "eligible", measured.eligible, item_row, rows)
        self._add(block, "chance", by_chance.weight, target_row, rows)
        self._add(block, "chance_eligible", by_chance.eligible, item_row, rows)
        row_of_sentence = (block.token_block.inputs.start + places.sentence) * rows + target_row
        self._add(block, "hits", hits, row_of_sentence, len(self._batch) * rows)
        linked = _count_linked(weights, self._trees.of(block))
        self._add(block, "linked", linked[None], target_row.new_zeros(1), 1)

    def _places_in(self, block: UnitBlock) -> _Places:
        """The places of the items of a block's sentences, on its device."""
        inputs = range(len(self._batch))[block.token_block.inputs]
        targets = [place for place in self._target_places if place[0] in inputs]
        items = [place for place in self._item_places if place[0] in inputs]
        device = block.weights.device
        target_columns = torch.tensor(targets, dtype=torch.int64).reshape(-1, 4).to(device).T
        item_columns = torch.tensor(items, dtype=torch.int64).reshape(-1, 3).to(device).T
        return _Places(
            sentence=target_columns[0] - inputs.start,
            query=target_columns[1],
            row=target_columns[2],
            key=target_columns[3],
            item_sentence=item_columns[0] - inputs.start,
            item_query=item_columns[1],
            item_row=item_columns[2],
        )

    def _measure(self, block: UnitBlock, attention: Tensor, places: _Places) -> _OnTargets:
        """Measure attention on targets. Shape: `attention` [sentence, head, query, key]."""
        word = block.batch.word[:, None, None, : attention.shape[-1]]
        left = (attention * word).sum(-1)
        has_words = left >= MIN_ON_WORDS
        share = has_words / left.clip(MIN_ON_WORDS)
        on_target = attention[places.sentence, :, places.query, places.key]
        on_words = on_target * share[places.sentence, :, places.query]
        return _OnTargets(
            weight=on_words if self._among else on_target,
            on_words=on_words,
            eligible=has_words[places.item_sentence, :, places.item_query],
        )

    def _most_attended_word(self, block: UnitBlock) -> Tensor:
        """The other word with the most weight, the first of equals. Shape: [input, head, query]."""
        weights = block.weights
        units = weights.shape[-1]
        is_word = (block.batch.word_number >= 0)[:, None, :units]
        is_itself = torch.eye(units, device=weights.device).bool()
        is_other_word = is_word & ~is_itself
        return weights.masked_fill(~is_other_word[:, None], -1.0).argmax(-1)

    def _add(self, block: UnitBlock, name: str, values: Tensor, into: Tensor, count: int) -> None:
        """Add values to a sum of so many numbers a head.

        Shape: `values` [value, head], `into` [value] -> the sum [number, layer, head].
        """
        token_block = block.token_block
        if name not in self._sums:
            self._sums[name] = torch.zeros(
                (count, *token_block.grid.shape),
                dtype=accumulation_dtype(values.device),
                device=values.device,
            )
        head_sums = self._sums[name][:, token_block.layer, token_block.heads]
        head_sums.index_add_(0, into, values.to(head_sums))

    def sums(self) -> RelationSums:
        """All sums, once every block has come."""
        inputs = self._batch.inputs
        sums = {
            name: values.cpu().numpy().astype(np.float64) for name, values in self._sums.items()
        }
        hits = sums.pop("hits")
        (linked,) = sums.pop("linked")
        n_words = sum(words.count for words in self._words)
        wordless = n_words - sum(len(words.units) for words in self._words)
        sentence_sums = {
            "n": self._n,
            "hits": hits.reshape(len(inputs), -1, *hits.shape[1:]),
            "rules": self._rules,
        }
        for tag, values in self._nearest.items():
            sentence_sums[_NEAREST + tag] = values
        sums["met"] = (self._n.sum(-1) > 0).sum(0).astype(np.float64)
        totals = by_row(self._rows, {name: values[None] for name, values in sums.items()})
        totals["linked"] = linked[None]
        totals["links"] = np.array([[self._trees.links, self._trees.neighbours]], float)
        totals["words"] = np.array([[n_words, wordless]], float)
        documents = [_document(encoded) for encoded in inputs]
        return {
            "whole": PairSums.of([_ALL], totals, 1),
            "documents": PairSums.of(documents, by_row(self._rows, sentence_sums), _MOST_DOCUMENTS),
        }


def _trees_of(batch: EncodedBatch, words_of_inputs: Sequence[InputWords]) -> _Trees:
    """The trees of a batch, on its device."""
    nodes = torch.zeros(batch.word.shape, dtype=torch.bool)
    edges = torch.zeros((*batch.word.shape, batch.word.shape[1]), dtype=torch.bool)
    links = 0
    neighbours = 0
    for number, (encoded, words) in enumerate(zip(batch.inputs, words_of_inputs, strict=True)):
        if encoded.known_pair.links is not None or not has_tree(encoded.known_pair):
            continue
        units = words.units
        named = [word for word in units if words.tags[word] != "PUNCT"]
        nodes[number, [units[word] for word in named]] = True
        place = {word: place for place, word in enumerate(named)}
        heads = encoded.known_pair.sentences[0].tags["head"]
        for word in named:
            head = heads[word]
            if isinstance(head, int) and head in place:
                edges[number, units[word], units[head]] = True
                edges[number, units[head], units[word]] = True
                links += 1
                neighbours += abs(place[word] - place[head]) == 1
    device = batch.word.device
    return _Trees(nodes.to(device), edges.to(device), links, neighbours)


def _count_linked(weights: Tensor, trees: _Trees) -> Tensor:
    """How many links of the trees are in the maximum spanning trees, by Prim.

    These are of weights in both directions.
    Shape: `weights` [sentence, head, query, key] -> [head].
    """
    nodes = trees.nodes
    if not trees.links:
        return weights.new_zeros(weights.shape[1])
    sentences = torch.arange(len(nodes), device=nodes.device)
    root = nodes.float().argmax(1)
    both = nodes[:, :, None] & nodes[:, None]
    link_weights = (weights + weights.mT).masked_fill(~both[:, None], -1.0)
    outside = nodes[:, None].expand(link_weights.shape[:3]).clone()
    outside[sentences, :, root] = False
    nearest = link_weights[sentences, :, root]
    parent = root[:, None, None].expand(outside.shape)
    linked = weights.new_zeros(weights.shape[1])
    for _ in range(1, int(nodes.sum(1).max())):
        weight, node = nearest.masked_fill(~outside, -1.0).max(-1, keepdim=True)
        parent_of_node = parent.gather(2, node)[..., 0]
        is_link = trees.edges[sentences[:, None], node[..., 0], parent_of_node]
        linked += (is_link & (weight[..., 0] >= 0)).sum(0)
        outside.scatter_(2, node, value=False)
        row = node[..., None].expand(-1, -1, -1, link_weights.shape[-1])
        from_node = link_weights.gather(2, row)[:, :, 0]
        parent = torch.where(from_node > nearest, node, parent)
        nearest = torch.maximum(from_node, nearest)
    return linked


def rules_between(words: InputWords, query: int, key: int) -> Iterator[Rule]:
    """The rules that point from a word to another. Both have a token.

    The word at the same place in the other sentence is that with its number there.

    >>> words = InputWords(("the", "old", "dog"), ("DET", "ADJ", "NOUN"), {0: 1, 1: 2, 2: 3}, 3)
    >>> [rule.name for rule in rules_between(words, 0, 2)]
    ['2 behind', 'NOUN behind']
    >>> words = InputWords(("a", "dog", "a"), ("DET", "NOUN", "DET"), {0: 1, 1: 2, 2: 3}, 2)
    >>> [rule.name for rule in rules_between(words, 0, 2)]
    ['2 behind', 'DET behind', 'same word behind', 'same place']
    """
    side = "behind" if key > query else "before"
    first = min(query, key)
    last = max(query, key)
    between = [word for word in range(first + 1, last) if word in words.units]
    if last - first <= FARTHEST:
        yield Rule(str(last - first), side)
    tag = words.tags[key]
    if tag not in (None, NO_TAG) and all(words.tags[word] != tag for word in between):
        yield Rule(str(tag), side)
    text = words.texts[query]
    if words.texts[key] == text and all(words.texts[word] != text for word in between):
        yield Rule(SAME_WORD, side)
    if first < words.n_first and last - words.n_first == first:
        yield Rule(SAME_PLACE)


def _document(encoded: EncodedInput) -> str:
    """The key of an input's document or, where none is named, of its texts."""
    document = document_of(encoded.known_pair)
    if document is None:
        return encoded.known_pair.text_key_after()
    return hashed(document.encode(errors="surrogatepass"))

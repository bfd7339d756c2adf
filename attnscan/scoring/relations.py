"""Attention against dependency trees: a consumer that sums how rows agree with a treebank, and the result from sums.

A *row* is a relation in a direction. An *item* is a query of a row with its targets: a word with its head, or a word
with all of its dependents in the relation. Items are the same for all heads, and are laid out once a batch.

Sums of different rows add. The best rule is chosen on the other half of all sentences, which no part of a scan knows.
So sums count every rule, and one is chosen when they are complete: shards, order and resumption change nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from attnscan.errors import ModelError
from attnscan.inputs.batch import EncodedBatch
from attnscan.inputs.sentence import NO_WORD, EncodedInput, Sentence
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
    NOT_ALL,
    PARTS_OF_SPEECH,
    RULES,
    Row,
    Syntax,
)
from attnscan.scoring.blocks import PairSums, error, ratio, residuals
from attnscan.scoring.units import UnitBlock, Units, accumulation_dtype
from attnscan.text import hashed

RelationSums = Mapping[str, PairSums]
"""Sums over sentences with trees, each by its name and, of a row, that of the row.

`whole`: over all sentences, in a single block. Of each row `met`, sentences with an eligible query; `weight` and
`on_words` on targets, by the reading and among words, and the `eligible` queries with weight on words; `chance` and
`chance_eligible`, `weight` and `eligible` of even attention, [layer, head] each. Of all `linked`, links of trees in the
maximum spanning trees, [layer, head]; `links`, those of the trees, and of these those between neighbours; `words`, all
and those without a token.

`documents`: of each document. Of each row `n`, eligible queries by half; `hits`, those whose most attended other word
is a target, [layer, head]; `rules`, targets to which each of `RULES` points, [half, rule]."""
_MOST_DOCUMENTS = 1024  # errors are by document up to so many
_ALL = "0" * 16  # the key of sums over all documents
_MOST_WORDLESS = (
    0.5  # of words: with more in no token, the tokenizer's offsets are not those of the text
)


def by_row(rows: Sequence[Row], sums: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Sums by their name and that of their row. Shape: each [block, row, ...] -> [block, ...]."""
    return {
        f"{name}|{'|'.join(row)}": values[:, at]
        for name, values in sums.items()
        for at, row in enumerate(rows)
    }


def ordered(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Rows in the order of tables, each once: `all` first."""
    return tuple(sorted(set(rows), key=lambda row: (row.relation != "all", row)))


def syntax_of(sums: RelationSums, signature: Signature, *, among: bool) -> Syntax:
    """Compute the result from sums over all sentences; `among` is whether weights count among words alone.

    Raises: ModelError if too many words are in no token.
    """
    totals = sums["whole"].sums
    rows = ordered(Row(*name.split("|")[1:]) for name in totals if name.startswith("met|"))

    def of_rows(blocks: str, name: str) -> FloatArray:
        """Shape: [block, ..., row]."""
        return np.stack([sums[blocks].sums[f"{name}|{'|'.join(row)}"] for row in rows], -1)

    words, wordless = map(int, totals["words"][0])
    if wordless > _MOST_WORDLESS * words:
        raise offsets_error(signature.model, f"{wordless:,} of {words:,} words are in no token")
    by_half, hits, rules = (of_rows("documents", name) for name in ("n", "hits", "rules"))
    best = rules.sum(0)[::-1].argmax(
        1
    )  # of each half the rule that is best on the other. Shape: [half, row]
    by_rule = np.take_along_axis(rules, best[None, :, None], 2).sum((1, 2))
    n = by_half.sum(1)[:, None, None]
    beyond = hits - by_rule[:, None, None]
    met, weight, on_words, eligible, chance, chance_eligible = (
        of_rows("whole", name)[0]
        for name in ("met", "weight", "on_words", "eligible", "chance", "chance_eligible")
    )
    (linked,), ((links, neighbours),) = totals["linked"], totals["links"]

    def hide_rare(values: FloatArray) -> FloatArray:
        return np.where(met < MIN_SENTENCES, np.nan, values)

    gain, se = hide_rare(ratio(beyond, n)), hide_rare(error(residuals(beyond, n)))
    clusters = np.broadcast_to((n > 0).sum(0), gain.shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        counted, by_chance = (eligible, chance_eligible) if among else (n.sum(0), n.sum(0))
        larger = by_half.sum(0).argmax(0)
        return Syntax(
            rows,
            n=n.sum((0, 1, 2)).astype(np.int64),
            met=met.astype(np.int64),
            rule=np.array(RULES)[np.take_along_axis(best, larger[None], 0)[0]],
            rule_accuracy=hide_rare(by_rule.sum(0) / n.sum((0, 1, 2))),
            accuracy=hide_rare(ratio(hits, n)),
            weight=hide_rare(weight / counted),
            weight_among_words=hide_rare(on_words / eligible),
            chance=hide_rare(chance / by_chance),
            gain=gain,
            se=se,
            p_holm=holm(p_value(np.where(np.isnan(gain), 0, gain), se, clusters)),
            uuas=linked / links,
            chain_uuas=float(neighbours / links),
            clusters=len(n),
            words=words,
            wordless=wordless,
            signature=signature,
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


def items_of(sentence: Sentence, *, subtypes: bool = False, causal: bool = False) -> list[Item]:
    """List the items of a sentence: each word's head, and each head's dependents, by relation.

    With `subtypes`, `nsubj:pass` is a relation of its own, beside `nsubj`. In a `causal` model, which sees no later
    word, these are no targets.

    >>> items_of(Sentence("Dogs bark", [(0, 4), (5, 9)], {"head": [1, None], "deprel": ["nsubj", "root"]}))[0]
    Item(row=Row(relation='nsubj', direction='dep->head'), query=0, targets=(1,))
    """
    items: list[Item] = []
    dependents: dict[tuple[str, int], list[int]] = {}
    for word, (head, relation) in enumerate(
        zip(sentence.tags["head"], sentence.tags["deprel"], strict=True)
    ):
        universal = str(relation).partition(":")[0]
        if not isinstance(head, int) or universal == "root":
            continue
        names = [
            universal,
            *([str(relation)] if subtypes else []),
            *(["all"] if universal not in NOT_ALL else []),
        ]
        for name in dict.fromkeys(names):  # each once: one may be called `all`
            items.append(Item(Row(name, HEAD), word, (head,)))
            dependents.setdefault((name, head), []).append(word)
    items += [
        Item(Row(name, DEPENDENT), head, tuple(words)) for (name, head), words in dependents.items()
    ]
    if causal:
        items = [
            Item(row, query, tuple(word for word in targets if word < query))
            for row, query, targets in items
        ]
    return [item for item in items if item.targets]


class RelationScorer:
    """A consumer of attention blocks that compares attention with the trees of one batch of sentences.

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
        """`halves` says which half of all sentences each is in, `among` whether weights count among words alone."""
        self._batch, self._among, self._units = batch, among, Units(batch)
        item_lists = [
            items_of(_sentence(encoded), subtypes=subtypes, causal=causal)
            for encoded in batch.inputs
        ]
        self._rows = ordered(item.row for items in item_lists for item in items)
        numbers = {row: number for number, row in enumerate(self._rows)}
        items, targets = list[tuple[int, ...]](), list[tuple[int, ...]]()
        self._n = np.zeros((len(item_lists), len(self._rows), 2))
        self._rules = np.zeros((*self._n.shape, len(RULES)))
        self._nodes = torch.zeros_like(batch.word)  # words but punctuation
        self._links = self._nodes[:, :, None] & self._nodes[:, None]  # between these, of the trees
        self._count = np.zeros(2)  # all links, and those between neighbours
        for s, encoded in enumerate(batch.inputs):
            unit, tree = _units_of_words(encoded), _sentence(encoded).tags
            tags, heads = (
                {word: str(tree["upos"][word]) for word in unit},
                cast(Sequence[int | None], tree["head"]),
            )
            for row, query, words in item_lists[s]:
                keys, at = [word for word in words if word in unit], (s, numbers[row], halves[s])
                if query in unit and keys:
                    items.append((s, unit[query], numbers[row]))
                    targets += [(s, unit[query], numbers[row], unit[key]) for key in keys]
                    self._n[at] += 1
                    for rule in (rule for key in keys for rule in _rules(tags, query, key)):
                        self._rules[(*at, RULES.index(rule))] += 1
            place = {
                word: at for at, word in enumerate(word for word in unit if tags[word] != "PUNCT")
            }
            self._nodes[s, [unit[word] for word in place]] = True
            for word, head in (
                (word, head)
                for word in place
                if (head := heads[word]) is not None and head in place
            ):
                self._links[s, unit[word], unit[head]] = self._links[s, unit[head], unit[word]] = (
                    True
                )
                self._count += 1, abs(place[word] - place[head]) == 1
        device = batch.word.device
        self._items = torch.tensor(items, dtype=torch.int64, device=device).reshape(-1, 3)
        self._targets = torch.tensor(targets, dtype=torch.int64, device=device).reshape(-1, 4)
        self._sums: dict[str, Tensor] = {}

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        for (of_units,) in self._units.blocks(block, all_queries=True):
            self._take(of_units)

    def _take(self, block: UnitBlock) -> None:
        """Add the sums of some heads of a layer on some sentences. Shape: the sums [number, layer, head]."""
        inputs, word, weights = block.token_block.inputs, block.batch.word, block.weights
        rows, units, start = len(self._rows), weights.shape[-1], inputs.start
        (s, q, r, k), (of_item, asking, row) = (
            places[(places[:, 0] >= start) & (places[:, 0] < inputs.stop)].T
            for places in (self._targets, self._items)
        )

        def on_targets(attention: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            """Weight on each target by the reading and among words; which items have weight on words."""
            left = (attention * word[:, None, None, :units]).sum(-1)
            counts, on_target = left >= MIN_ON_WORDS, attention[s - start, :, q, k]
            on_words = on_target * (counts / left.clip(MIN_ON_WORDS))[s - start, :, q]
            return (
                on_words if self._among else on_target,
                on_words,
                counts[of_item - start, :, asking],
            )

        weight, on_words, eligible = on_targets(weights)
        even = block.even_carried
        chance, _, chance_eligible = on_targets(
            block.even.expand(weights.shape) if even is None else even
        )
        is_word = (block.batch.word_number >= 0)[:, None, :units] & ~torch.eye(
            units, device=word.device
        ).bool()
        most_attended = weights.masked_fill(~is_word[:, None], -1.0).argmax(
            -1
        )  # other words; the first of equals
        hits = most_attended[s - start, :, q] == k[:, None]
        linked = _linked(weights, self._nodes[inputs, :units], self._links[inputs, :units, :units])
        for name, values, into, count in (
            ("weight", weight, r, rows),
            ("on_words", on_words, r, rows),
            ("eligible", eligible, row, rows),
            ("chance", chance, r, rows),
            ("chance_eligible", chance_eligible, row, rows),
            ("hits", hits, s * rows + r, len(self._batch) * rows),
            ("linked", linked[None], r.new_zeros(1), 1),
        ):
            if name not in self._sums:
                shape = count, *block.token_block.grid.shape
                self._sums[name] = torch.zeros(
                    shape, dtype=accumulation_dtype(word.device), device=word.device
                )
            of_heads = self._sums[name][:, block.token_block.layer, block.token_block.heads]
            of_heads.index_add_(0, into, values.to(of_heads))

    def sums(self) -> RelationSums:
        """All sums, once every block has come."""
        inputs = self._batch.inputs
        sums = {
            name: values.cpu().numpy().astype(np.float64) for name, values in self._sums.items()
        }
        hits, (linked,) = sums.pop("hits"), sums.pop("linked")
        words = sum(len(_sentence(encoded).tags["head"]) for encoded in inputs)
        wordless = words - sum(len(_units_of_words(encoded)) for encoded in inputs)
        of_sentences = {
            "n": self._n,
            "hits": hits.reshape(len(inputs), -1, *hits.shape[1:]),
            "rules": self._rules,
        }
        sums["met"] = (self._n.sum(-1) > 0).sum(0).astype(np.float64)
        totals = by_row(self._rows, {name: values[None] for name, values in sums.items()})
        totals |= {
            "linked": linked[None],
            "links": self._count[None],
            "words": np.array([[words, wordless]], float),
        }
        documents = PairSums.of(
            list(map(_document, inputs)), by_row(self._rows, of_sentences), _MOST_DOCUMENTS
        )
        return {"whole": PairSums.of([_ALL], totals, 1), "documents": documents}


def _linked(weights: Tensor, nodes: Tensor, links: Tensor) -> Tensor:
    """How many links of the trees the maximum spanning trees of weights in both directions have, by Prim.

    Shape: [sentence, head, query, key], [sentence, unit], [sentence, unit, unit], bool -> [head].
    """
    sentences, root = torch.arange(len(nodes), device=nodes.device), nodes.float().argmax(1)
    link_weights = (weights + weights.mT).masked_fill(
        ~(nodes[:, :, None] & nodes[:, None])[:, None], -1.0
    )
    outside = nodes[:, None].expand(link_weights.shape[:3]).clone()
    outside[sentences, :, root] = False
    nearest, parent = link_weights[sentences, :, root], root[:, None, None].expand(outside.shape)
    linked = weights.new_zeros(weights.shape[1])
    for _ in range(1, int(nodes.sum(1).max())):
        weight, node = nearest.masked_fill(~outside, -1.0).max(-1, keepdim=True)
        joined = links[sentences[:, None], node[..., 0], parent.gather(2, node)[..., 0]]
        linked += (joined & (weight[..., 0] >= 0)).sum(0)
        outside.scatter_(2, node, value=False)
        of_node = link_weights.gather(
            2, node[..., None].expand(-1, -1, -1, link_weights.shape[-1])
        )[:, :, 0]
        parent = torch.where(of_node > nearest, node, parent)
        nearest = torch.maximum(of_node, nearest)
    return linked


def _sentence(encoded: EncodedInput) -> Sentence:
    return encoded.known_pair.sentences[0]


def _units_of_words(encoded: EncodedInput) -> dict[int, int]:
    """The unit of each word that has a token, by its number in the sentence."""
    return {word: unit for unit, word in enumerate(encoded.unit_words) if word != NO_WORD}


def _rules(tags: Mapping[int, str], query: int, key: int) -> Iterator[str]:
    """The rules that point from a word to another, by the parts of speech of all words that have a token.

    >>> list(_rules({0: "DET", 1: "ADJ", 2: "NOUN"}, 0, 2)), list(_rules({0: "DET", 1: "NOUN", 2: "NOUN"}, 0, 2))
    (['2 behind', 'NOUN behind'], ['2 behind'])
    """
    side = "behind" if key > query else "before"
    between = {tag for word, tag in tags.items() if min(query, key) < word < max(query, key)}
    if abs(key - query) <= FARTHEST:
        yield f"{abs(key - query)} {side}"
    if tags[key] not in between and tags[key] in PARTS_OF_SPEECH:
        yield f"{tags[key]} {side}"


def _document(encoded: EncodedInput) -> str:
    """The key of a sentence's document or, where the treebank names none, of the sentence."""
    document = _sentence(encoded).tags.get("document", [None])[0]
    return encoded.known_pair.key if document is None else hashed(str(document).encode())

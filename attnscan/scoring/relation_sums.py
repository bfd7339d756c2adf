"""Sums over sentences with trees, which add whatever rows they are of, and what they say of every head.

The best rule is chosen on the other half of all sentences, which no part of a scan knows. So sums count every rule, and
one is chosen once they are whole: shards, order and resumption change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from attnscan.errors import ModelError
from attnscan.results.intervals import holm, p_value
from attnscan.results.scores import FloatArray, IntArray
from attnscan.results.signature import Signature
from attnscan.results.syntax import FEWEST, RULES, Row, RowNumbers, Syntax
from attnscan.scoring.blocks import ROOM, Adding, Blocks, error, residuals

_MOST_LOST = 0.05  # of words: with more in no token, the tokenizer's offsets are not those of the text
_FEWEST_BLOCKS, _MOST_BLOCKS = 32, 1024  # of documents: errors are by document up to so many
_ALL = "0" * 16  # the key of what is summed over all documents
OF_ROWS = {
    "n": "half",  # eligible queries
    "met": "",  # sentences that have any
    "rules": "half rule",  # targets to which each of `RULES` points
    "hits": "layer head",  # queries whose most attended other word is a target
    "weight": "layer head",  # on targets, by the reading that is scored
    "on_words": "layer head",  # on targets, among words
    "eligible": "layer head",  # queries with weight on words
    "chance": "layer even",  # what even attention has on targets, by the reading
    "chance_eligible": "layer even",  # queries of which it has weight on words
}
"""The axes of the sums of each row. Even attention is one for all heads or, by what they carry, each head's own."""
OF_ALL = {
    "linked": "layer head",  # links of the trees in the maximum spanning trees
    "links": "kind",  # of the trees, and those between neighbours
    "words": "kind",  # all, and those without a token
    "spelled": "kind",  # those with characters that the model was given, and of these those in no token
}
"""The axes of all other sums."""
OF_DOCUMENTS = {"n": "", "hits": "layer head", "rules": "half rule"}
"""Likewise, of the sums of each row in each document."""


@dataclass(frozen=True)
class RelationSums(Adding):
    """Sums over sentences with trees, each by the name of its row. They add."""

    whole: Blocks
    """Over all sentences, in a single block. Shape: as `OF_ROWS` and `OF_ALL`."""
    documents: Blocks
    """Of each document. Shape: as `OF_DOCUMENTS`."""

    @classmethod
    def of(
        cls,
        rows: Sequence[Row],
        of_rows: Mapping[str, FloatArray],
        of_all: Mapping[str, FloatArray],
        documents: Sequence[str],
        of_sentences: Mapping[str, FloatArray],
    ) -> Self:
        """The sums of some sentences, with the key of each one's document.

        Shape: `of_rows` [row, ...], `of_sentences` [sentence, row, ...].
        """
        whole = {_name(name, row): values[None, at] for name, values in of_rows.items() for at, row in enumerate(rows)}
        whole |= {name: values[None] for name, values in of_all.items()}
        by_document = {
            _name(n, row): values[:, at] for n, values in of_sentences.items() for at, row in enumerate(rows)
        }
        most = max(
            _FEWEST_BLOCKS, min(_MOST_BLOCKS, ROOM // max(1, sum(values[0].size for values in by_document.values())))
        )
        return cls(Blocks.of([_ALL], whole, 1), Blocks.of(documents, by_document, most))

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of these sentences."""
        names = (name.split("|") for name in self.whole.sums)
        return ordered(Row(*parts[1:]) for parts in names if parts[0] == "met")

    @property
    def shape(self) -> tuple[int, int]:
        """How many layers and heads there are."""
        _, layers, heads = self.whole.sums["linked"].shape
        return layers, heads


def _name(name: str, row: Row) -> str:
    return f"{name}|{row.relation}|{row.direction}"


def _stacked(sums: Mapping[str, FloatArray], names: Iterable[str], rows: Sequence[Row]) -> dict[str, FloatArray]:
    """The sums of all rows by their names. Shape: each [block, row, ...]."""
    return {name: np.stack([sums[_name(name, row)] for row in rows], 1) for name in names}


def ordered(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Rows in the order of tables, each once: `all` first."""
    return tuple(sorted(set(rows), key=lambda row: (row.relation != "all", row)))


def syntax_of(sums: RelationSums, signature: Signature, *, among: bool) -> Syntax:
    """What sums over all sentences say; `among` is whether weights count among words alone.

    Raises: ModelError if too many words are in no token.
    """
    of_all, rows = {name: sums.whole.sums[name][0] for name in OF_ALL}, sums.rows
    known = {name: values[0] for name, values in _stacked(sums.whole.sums, OF_ROWS, rows).items()}
    spelled, lost = map(int, of_all["spelled"])
    if lost > _MOST_LOST * spelled:
        raise offsets_are_not_told(signature.model, f"{lost:,} of {spelled:,} words are in no token")
    n_half, too_few = known["n"], known["met"] < FEWEST
    n, larger = n_half.sum(1), n_half.argmax(1)
    at = _best_rule(known["rules"])
    by_rule = _at(known["rules"], at).sum(1)
    hits = known["hits"]

    def emptied(values: FloatArray) -> FloatArray:
        return np.where(too_few, np.nan, values)

    def of_heads(values: FloatArray) -> FloatArray:
        """Shape: [row, layer, head] -> [layer, head, row]."""
        return np.moveaxis(values, 0, -1)

    with np.errstate(invalid="ignore", divide="ignore"):
        eligible, even = known["eligible"], known["chance_eligible"]
        weight, chance = (
            of_heads(known[name] / (counted if among else n[:, None, None]))
            for name, counted in (("weight", eligible), ("chance", even))
        )
        gain, se, clusters, blocks = _gains(sums.documents, rows, at)
        gain, se = emptied(gain), emptied(se)
        of_rows = RowNumbers(
            n=n.astype(np.int64),
            sentences=known["met"].astype(np.int64),
            rule=np.array(RULES)[np.take_along_axis(at, larger[:, None], 1)[:, 0]],
            rule_accuracy=emptied(by_rule / n),
        )
        return Syntax(
            rows,
            of_rows,
            accuracy=emptied(of_heads(hits) / n),
            weight=emptied(weight),
            weight_among_words=emptied(of_heads(known["on_words"] / eligible)),
            chance=emptied(np.broadcast_to(chance, gain.shape)),
            gain=gain,
            se=se,
            p_holm=holm(p_value(np.where(np.isnan(gain), 0, gain), se, clusters)),
            uuas=of_all["linked"] / of_all["links"][0],
            chain_uuas=float(of_all["links"][1] / of_all["links"][0]),
            clusters=blocks,
            words=int(of_all["words"][0]),
            wordless=int(of_all["words"][1]),
            signature=signature,
        )


def offsets_are_not_told(model: str, why: str) -> ModelError:
    """What is to be raised where a tokenizer does not tell which characters its tokens stand for."""
    return ModelError(
        f"the tokenizer of {model} does not tell where its tokens stand in the text: {why}",
        "use a model with a fast tokenizer (tokenizer.json)",
    )


def _best_rule(rules: FloatArray) -> IntArray:
    """The numbers of the rules that each half of the sentences is measured by: those that are best on the other.

    Shape: [row, half, rule] -> [row, half].
    """
    best: IntArray = rules[:, ::-1].argmax(-1)
    return best


def _at(values: FloatArray, places: IntArray) -> FloatArray:
    """The values of one rule of each row and half.

    Shape: [row, half, rule, ...], [row, half] -> [row, half, ...].
    """
    rows, halves = np.indices(places.shape)
    chosen: FloatArray = values[rows, halves, places]
    return chosen


def _gains(documents: Blocks, rows: Sequence[Row], at: IntArray) -> tuple[FloatArray, FloatArray, FloatArray, int]:
    """The gain and its error clustered by block, how many blocks a row is in, and how many there are.

    Shape: [layer, head, row] twice, [row].
    """
    sums = _stacked(documents.sums, OF_DOCUMENTS, rows)
    places, halves = np.indices(at.shape)
    by_rule = sums["rules"][:, places, halves, at].sum(-1)
    beyond, n = np.moveaxis(sums["hits"], 1, -1) - by_rule[:, None, None], sums["n"]
    se = error(residuals(beyond, n[:, None, None]))
    return beyond.sum(0) / n.sum(0), se, (n > 0).sum(0).astype(float), len(n)

"""Sums over sentences with trees, which add whatever rows they are of, and what they say of every head.

The best rule is chosen on the other half of all sentences, which no part of a scan knows. So sums count every rule, and
one is chosen once they are whole: shards, order and resumption change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from attnscan.errors import ModelError
from attnscan.results.intervals import holm, p_value
from attnscan.results.scores import FloatArray, IntArray
from attnscan.results.signature import Signature
from attnscan.results.syntax import FEWEST, RULES, Row, RowNumbers, Syntax
from attnscan.scoring.resampling import ROOM, BlockSums
from attnscan.scoring.sums import added

_MOST_LOST = 0.05  # of words: with more in no token, the tokenizer's offsets are not those of the text
_FEWEST_BLOCKS, _MOST_BLOCKS = 32, 1024  # of documents: errors are by document up to so many
AXES = {
    "n": "row half",  # eligible queries
    "met": "row",  # sentences that have any
    "rules": "row half rule",  # targets to which each of `RULES` points
    "hits": "row layer head",  # queries whose most attended other word is a target
    "weight": "row layer any_head",  # on targets, by the reading that is scored
    "on_words": "row layer any_head",  # on targets, among words
    "eligible": "row layer any_head",  # queries with weight on words
    "linked": "layer any_head",  # links of the trees in the maximum spanning trees
    "links": "kind",  # of the trees, and those between neighbours
    "words": "kind",  # all, and those without a token
    "spelled": "kind",  # those with characters that the model was given, and of these those in no token
}
"""The axes of each sum. Of `any_head` the last is even attention."""
OF_DOCUMENTS = {"n": "row", "hits": "row layer head", "rules": "row half rule"}
"""Likewise, of the sums of each document."""


@dataclass(frozen=True)
class RelationSums:
    """Sums over sentences with trees. They add."""

    rows: tuple[Row, ...]
    """Those of these sentences, as `ordered` has them."""
    sums: Mapping[str, FloatArray]
    """By name. Shape: as `AXES`."""
    documents: BlockSums
    """Of each document. Shape: as `OF_DOCUMENTS`."""

    @classmethod
    def of(
        cls,
        rows: Sequence[Row],
        sums: Mapping[str, FloatArray],
        documents: Sequence[str],
        of_sentences: Mapping[str, FloatArray],
    ) -> Self:
        """The sums of some sentences, with the key of each one's document. Shape: `of_sentences` [sentence, ...]."""
        size = sum(values[0].size for values in of_sentences.values())
        most = max(_FEWEST_BLOCKS, min(_MOST_BLOCKS, ROOM // max(1, size)))
        return cls(tuple(rows), sums, BlockSums.of(documents, of_sentences, most))

    def __add__(self, other: RelationSums) -> RelationSums:
        """Sums over the sentences of both."""
        rows = ordered({*self.rows, *other.rows})
        ours, theirs = self._over(rows), other._over(rows)
        return RelationSums(rows, added(ours.sums, theirs.sums), ours.documents + theirs.documents)

    def _over(self, rows: tuple[Row, ...]) -> RelationSums:
        """These over more rows, of which they have nothing."""
        if rows == self.rows:
            return self
        at = [rows.index(row) for row in self.rows]

        def spread(values: FloatArray, axes: str) -> FloatArray:
            if "row" not in axes.split():
                return values
            axis = axes.split().index("row")
            whole = np.zeros((*values.shape[:axis], len(rows), *values.shape[axis + 1 :]))
            np.moveaxis(whole, axis, 0)[at] = np.moveaxis(values, axis, 0)
            return whole

        blocks = {
            number: {name: spread(values, OF_DOCUMENTS[name]) for name, values in block.items()}
            for number, block in self.documents.blocks.items()
        }
        sums = {name: spread(values, AXES[name]) for name, values in self.sums.items()}
        return RelationSums(rows, sums, replace(self.documents, blocks=blocks))

    @property
    def shape(self) -> tuple[int, int]:
        """How many layers and heads there are."""
        layers, any_heads = self.sums["linked"].shape
        return layers, any_heads - 1

    def packed(self) -> dict[str, Any]:
        """All of it in arrays, by name."""
        rows = np.array([[row.relation, row.direction] for row in self.rows]).reshape(-1, 2)
        return {"rows": rows, **self.sums} | {
            f"documents.{name}": values for name, values in self.documents.packed().items()
        }

    @classmethod
    def unpacked(cls, packed: Mapping[str, Any], shape: tuple[int, int]) -> Self:
        """These again from what `packed` gave. Raises: ValueError, KeyError if it is damaged."""
        rows = tuple(Row(*row) for row in packed["rows"].tolist())
        if rows != ordered(rows):
            raise ValueError("rows out of order")
        sums = {name: packed[name] for name in AXES}
        for name, values in sums.items():
            fits = values.shape == _shape(AXES[name], rows, shape) and values.dtype == np.float64
            if not fits or not np.isfinite(values).all():
                raise ValueError(f"{name} of another shape")
        start = "documents."
        blocks = {name.removeprefix(start): values for name, values in packed.items() if name.startswith(start)}
        shapes = {name: _shape(axes, rows, shape) for name, axes in OF_DOCUMENTS.items()}
        return cls(rows, sums, BlockSums.unpacked(blocks).checked(shapes))


def ordered(rows: Any) -> tuple[Row, ...]:
    """Rows in the order of tables, each once: `all` first."""
    return tuple(sorted(set(rows), key=lambda row: (row.relation != "all", row)))


def _shape(axes: str, rows: Sequence[Row], shape: tuple[int, int]) -> tuple[int, ...]:
    layers, heads = shape
    sizes = {"row": len(rows), "layer": layers, "head": heads, "any_head": heads + 1}
    sizes |= {"half": 2, "rule": len(RULES), "kind": 2}
    return tuple(sizes[axis] for axis in axes.split())


def syntax_of(sums: RelationSums, signature: Signature, *, among: bool) -> Syntax:
    """What sums over all sentences say; `among` is whether weights count among words alone.

    Raises: ModelError if too many words are in no token.
    """
    known = sums.sums
    spelled, lost = map(int, known["spelled"])
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
        """Without even attention. Shape: [row, layer, head] -> [layer, head, row]."""
        return np.moveaxis(values, 0, -1)[:, : hits.shape[-1]]

    with np.errstate(invalid="ignore", divide="ignore"):
        eligible = known["eligible"]
        weight = np.moveaxis(known["weight"] / (eligible if among else n[:, None, None]), 0, -1)
        gain, se, clusters, blocks = _gains(sums.documents, at)
        gain, se = emptied(gain), emptied(se)
        of_rows = RowNumbers(
            n=n.astype(np.int64),
            sentences=known["met"].astype(np.int64),
            rule=np.array(RULES)[np.take_along_axis(at, larger[:, None], 1)[:, 0]],
            rule_accuracy=emptied(by_rule / n),
        )
        return Syntax(
            sums.rows,
            of_rows,
            accuracy=emptied(of_heads(hits) / n),
            weight=emptied(weight[:, :-1]),
            weight_among_words=emptied(of_heads(known["on_words"] / eligible)),
            chance=emptied(np.broadcast_to(weight[:, -1:], gain.shape)),
            gain=gain,
            se=se,
            p_holm=holm(p_value(np.where(np.isnan(gain), 0, gain), se, clusters)),
            uuas=known["linked"][:, :-1] / known["links"][0],
            chain_uuas=float(known["links"][1] / known["links"][0]),
            clusters=blocks,
            words=int(known["words"][0]),
            wordless=int(known["words"][1]),
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


def _gains(documents: BlockSums, at: IntArray) -> tuple[FloatArray, FloatArray, FloatArray, int]:
    """The gain and its error clustered by block, how many blocks a row is in, and how many there are.

    Shape: [layer, head, row] twice, [row].
    Source: the linearized variance of a ratio of cluster totals, Cochran, Sampling Techniques (1977), 6.4.
    """
    stacked = documents.stacked()
    rows, halves = np.indices(at.shape)
    hits, n = np.moveaxis(stacked["hits"], 1, -1), stacked["n"]
    by_rule = stacked["rules"][:, rows, halves, at].sum(-1)
    clusters, total = (n > 0).sum(0).astype(float), n.sum(0)
    gain = (hits - by_rule[:, None, None]).sum(0) / total
    residual = hits - by_rule[:, None, None] - gain * n[:, None, None]
    se: FloatArray = np.sqrt(clusters / (clusters - 1) * np.einsum("blhr,blhr->lhr", residual, residual)) / total
    return gain, np.where(clusters > 1, se, np.nan), clusters, len(n)

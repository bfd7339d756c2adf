"""Sums over sentences with trees, which add whatever rows they are of, and what they say of every head.

The best rule is chosen on the other half of all sentences, which no part of a scan knows. So sums count every rule, and
one is chosen once they are whole: shards, order and resumption change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from attnscan.errors import ModelError
from attnscan.results.intervals import holm, p_value
from attnscan.results.scores import FloatArray
from attnscan.results.signature import Signature
from attnscan.results.syntax import FEWEST, RULES, Row, Syntax
from attnscan.scoring.blocks import Blocks, error, ratio, residuals

RelationSums = Mapping[str, Blocks]
"""Sums over sentences with trees, each by its name and, of a row, that of the row.

`whole`: over all sentences, in a single block. Of each row `met`, sentences with an eligible query; `weight` and
`on_words` on targets, by the reading and among words, and the `eligible` queries with weight on words; `chance` and
`chance_eligible`, `weight` and `eligible` of even attention, [layer, head] each. Of all `linked`, links of trees in the
maximum spanning trees, [layer, head]; `links`, those of the trees, and of these those between neighbours; `words`, all
and those without a token.

`documents`: of each document. Of each row `n`, eligible queries by half; `hits`, those whose most attended other word
is a target, [layer, head]; `rules`, targets to which each of `RULES` points, [half, rule]."""
_MOST_WORDLESS = 0.5  # of words: with more in no token, the tokenizer's offsets are not those of the text


def by_row(rows: Sequence[Row], sums: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Sums by their name and that of their row. Shape: each [block, row, ...] -> [block, ...]."""
    return {f"{name}|{'|'.join(row)}": own[:, at] for name, own in sums.items() for at, row in enumerate(rows)}


def rows_of(sums: RelationSums) -> tuple[Row, ...]:
    """The rows of these sentences."""
    return ordered(Row(*name.split("|")[1:]) for name in sums["whole"].sums if name.startswith("met|"))


def ordered(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Rows in the order of tables, each once: `all` first."""
    return tuple(sorted(set(rows), key=lambda row: (row.relation != "all", row)))


def syntax_of(sums: RelationSums, signature: Signature, *, among: bool) -> Syntax:
    """What sums over all sentences say; `among` is whether weights count among words alone.

    Raises: ModelError if too many words are in no token.
    """
    rows, whole = rows_of(sums), sums["whole"].sums

    def of_rows(blocks: str, name: str) -> FloatArray:
        """Shape: [block, ..., row]."""
        return np.stack([sums[blocks].sums[f"{name}|{'|'.join(row)}"] for row in rows], -1)

    words, wordless = map(int, whole["words"][0])
    if wordless > _MOST_WORDLESS * words:
        raise offsets_are_not_told(signature.model, f"{wordless:,} of {words:,} words are in no token")
    by_half, hits, rules = (of_rows("documents", name) for name in ("n", "hits", "rules"))
    best = rules.sum(0)[::-1].argmax(1)  # of each half the rule that is best on the other. Shape: [half, row]
    by_rule = np.take_along_axis(rules, best[None, :, None], 2).sum((1, 2))
    n = by_half.sum(1)[:, None, None]
    beyond = hits - by_rule[:, None, None]
    met, weight, on_words, eligible, chance, chance_eligible = (
        of_rows("whole", name)[0] for name in ("met", "weight", "on_words", "eligible", "chance", "chance_eligible")
    )
    (linked,), ((links, neighbours),) = whole["linked"], whole["links"]

    def known(values: FloatArray) -> FloatArray:
        return np.where(met < FEWEST, np.nan, values)

    gain, se = known(ratio(beyond, n)), known(error(residuals(beyond, n)))
    clusters = np.broadcast_to((n > 0).sum(0), gain.shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        counted, by_chance = (eligible, chance_eligible) if among else (n.sum(0), n.sum(0))
        larger = by_half.sum(0).argmax(0)
        return Syntax(
            rows,
            n=n.sum((0, 1, 2)).astype(np.int64),
            met=met.astype(np.int64),
            rule=np.array(RULES)[np.take_along_axis(best, larger[None], 0)[0]],
            rule_accuracy=known(by_rule.sum(0) / n.sum((0, 1, 2))),
            accuracy=known(ratio(hits, n)),
            weight=known(weight / counted),
            weight_among_words=known(on_words / eligible),
            chance=known(chance / by_chance),
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


def offsets_are_not_told(model: str, why: str) -> ModelError:
    """What is to be raised where a tokenizer does not tell which characters its tokens stand for."""
    return ModelError(
        f"the tokenizer of {model} does not tell where its tokens stand in the text: {why}",
        "use a model with a fast tokenizer (tokenizer.json)",
    )

"""A closer look at some heads by the first pairs: what `explain` and `similar` say, the words they link, examples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pandas as pd

from attnscan.inputs.sentence import EncodedInput, Record
from attnscan.model.keeper import AttentionKeeper
from attnscan.results.attention import Attention, Chosen
from attnscan.results.card import Card, Example, main_kind_of
from attnscan.results.grid import Head
from attnscan.results.heads import HeadScores
from attnscan.results.scores import FloatArray
from attnscan.scan.pair_scan import OnBad, read_batches
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import no_pair
from attnscan.studies.comparison import similar
from attnscan.studies.explanation import columns_of, explain

LOOKED_AT, EXPLAINED_BY = 128, 16  # pairs, at most, read word by word, and with something changed
_WEIGHTS = 1 << 27  # of an input's rows that are looked at: 512 MB
_LINKED = 1 << 26  # numbers that links are counted over
_LINKS, _EXAMPLES, _ALIKE = 10, 3, 5
_FEWEST = 5  # eligible words of an example


def cards(
    scanner: Scanner,
    records: Iterable[Record],
    ranking: HeadScores,
    heads: Sequence[Head],
    on_bad: OnBad | None = None,
) -> tuple[Card, ...]:
    """Make the cards of some heads of a ranking. Raises: InputError if there is no pair that can be read."""
    scanner, names = (
        scanner.exact().with_options(labelled=True),
        [main_kind_of(ranking, head) for head in heads],
    )
    if "predictive" not in names:
        scanner = replace(scanner, measure=None)
    batches = read_batches(scanner, islice(records, LOOKED_AT), on_bad)
    inputs = sorted(
        (encoded for batch, _ in batches for encoded in batch), key=lambda encoded: encoded.number
    )
    if not inputs:
        raise no_pair("to look at")
    readable = [Record(encoded.known_pair, "a pair") for encoded in inputs]
    explained = explain(
        scanner, readable[:EXPLAINED_BY], heads, labels=ranking.labels, neurons=False
    )
    similarity, columns = (
        similar(scanner, readable),
        [explained.names.index(name) for name in names],
    )
    cells, room, examples = list[pd.DataFrame](), _LINKED, [list[Example]() for _ in heads]
    for done, encoded in enumerate(inputs, 1):
        attention, sums = _look(scanner, encoded)
        shares = np.stack(
            [attention.weights.mean((0, 1)), *(attention.weights[head.place] for head in heads)]
        )
        if not cells or shares.size <= room:
            cells.append(_cells(attention, shares))
            room -= shares.size
        for number, (head, column) in enumerate(zip(heads, columns, strict=True)):
            weight, n = (float(sums[name][0, *head.place, column]) for name in ("weight", "n"))
            if n >= _FEWEST:
                row, key = divmod(int((shares[1 + number] - shares[0]).argmax()), shares.shape[2])
                examples[number].append(
                    Example(
                        weight / n,
                        attention.rows[row],
                        key,
                        encoded.units,
                        encoded.known_pair.texts,
                    )
                )
        scanner.tell("looking at heads, by pairs", done, len(inputs))
    links, results = _links(cells, len(heads)), []
    for number, head in enumerate(heads):
        place = ranking.grid.index(head)
        nearest = similarity.nearest(place, _ALIKE)
        alike = tuple(
            (ranking.grid[index], float(similarity.divergence[place, index])) for index in nearest
        )
        best = sorted(examples[number], key=lambda example: -example.share)[:_EXAMPLES]
        causes = explained.row(head, names[number])
        results.append(
            Card(
                head, ranking, names[number], links[number], tuple(best), alike, causes, len(inputs)
            )
        )
    return tuple(results)


def _look(scanner: Scanner, encoded: EncodedInput) -> tuple[Attention, dict[str, FloatArray]]:
    """One input's attention by words, of a long one some spread over it, and what it adds to each number."""
    unit, sentence, reading = (
        np.array(encoded.unit),
        np.array(encoded.unit_sentence),
        scanner.options.reading,
    )
    words = np.flatnonzero((sentence >= 0) & (np.arange(len(sentence)) >= unit[encoded.source]))
    words = words[:: -(-len(words) * len(scanner.grid()) * len(unit) // _WEIGHTS)]
    keeper = AttentionKeeper(
        chosen=Chosen(scanner.grid(), tuple(np.flatnonzero(np.isin(unit, words)).tolist()))
    )
    sums = scanner.score([encoded], scanner.word_dependencies([encoded]), [keeper])
    attention = keeper.attention(encoded).in_words(encoded.units)
    return attention.without_special_tokens if reading.words_only else attention, columns_of(
        sums, reading
    )


def _cells(attention: Attention, shares: FloatArray) -> pd.DataFrame:
    """A row for every two words that attention is between: their texts, and shares. Shape: [average and heads, ...]."""
    texts = np.array([text.strip() for text in attention.tokens], dtype=object)
    cells = pd.DataFrame(shares.reshape(len(shares), -1).T)
    rows, keys = texts[list(attention.rows)], texts[: shares.shape[2]]
    return cells.assign(query=np.repeat(rows, len(keys)), key=np.tile(keys, len(rows)))


def _links(cells: Sequence[pd.DataFrame], heads: int) -> list[pd.DataFrame]:
    """Of each head, pairs of words by their mean excess times the root of how often they stand in one input."""
    grouped = pd.concat(cells).groupby(["query", "key"], sort=False)
    means, links = grouped.mean(), []
    for head in range(1, 1 + heads):
        table = pd.DataFrame({"share": means[head], "average": means[0], "count": grouped.size()})
        excess = (table["share"] - table["average"]) * table["count"] ** 0.5
        strongest = excess[excess > 0].sort_values(ascending=False, kind="stable").index[:_LINKS]
        links.append(table.loc[strongest].reset_index())
    return links

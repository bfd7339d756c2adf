"""How heads make their patterns: the tables of all heads, and one head's part of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from attnscan.results.attention import Attention
from attnscan.results.behaviour import Labels
from attnscan.results.grid import Head, HeadLike
from attnscan.results.head_explanation import CAUSES, HeadExplanation, NeuronTable
from attnscan.results.scores import FloatArray, Scores
from attnscan.results.shown import lines, scored
from attnscan.results.signature import Signature

if TYPE_CHECKING:
    import pandas as pd


_SHOWN = 4  # heads


@dataclass(frozen=True)
class Explanations:
    """How heads make their patterns, by one input or by many pairs."""

    labels: Labels
    """What heads are called by the input as it is, or by pairs, and how sure that is."""
    neurons: NeuronTable
    """The three measures of every head's neurons."""
    causes: Mapping[str, Scores]
    """The scores again, by what was changed. The error of a shuffle of one pair is that over its shuffles."""
    fall_se: Mapping[str, FloatArray]
    """The standard errors of what the scores fall by, likewise. Shape: each [layer, head, pattern]."""
    not_available: Mapping[str, str]
    """What could not be measured, and why."""
    signature: Signature
    """Where the result comes from: model, versions, device, input."""
    heads: tuple[Head, ...]
    """Those that were asked for."""
    pattern: str | None = None
    """The one that is explained; None for each head's own."""
    attention: Attention | None = field(default=None, repr=False)
    """Of the one input, if it was one."""
    query: int | None = None
    """The index of the token of the one input that was asked about; None for all."""

    @property
    def scores(self) -> Scores:
        """Of the input as it is."""
        return self.labels.scores

    def __repr__(self) -> str:
        first = [self[head] for head in self.heads[:_SHOWN]]
        about = [f"{known.pattern} {scored(known.head, known.score)}" for known in first]
        more = [f"and {len(self.heads) - _SHOWN} more"] if len(self.heads) > _SHOWN else []
        return lines(self, self.signature, self.scores.grid, f"explained: {', '.join([*about, *more])}")

    def __getitem__(self, named: HeadLike) -> HeadExplanation:
        """One head's. Raises: SelectionError if the model has no such head."""
        head = self.scores.grid.head(named)
        table, stays, followed = self.scores.words_only, self.labels.stays, str(self.labels.among_words[head.place])
        pattern = self.pattern or (followed if self.labels.follows[head.place] else self._nearest(head))
        place = (*head.place, self.scores.patterns.index(pattern))
        tables = {name: self.causes[name].words_only for name in CAUSES if name in self.causes}
        unknown = dict.fromkeys(CAUSES, float("nan"))
        return HeadExplanation(
            head=head,
            label=str(self.labels.label[head.place]),
            label_stays=float("nan") if stays is None else float(stays[head.place]),
            unsure=bool(self.labels.unsure[head.place]),
            pattern=pattern,
            clause=self.scores.scored[place[-1]].clause,
            score=float(table.score[place]),
            chance=float(table.chance[place]),
            above_chance=float(table.above_chance[place]),
            se=float(table.se[place]),
            neurons=self.neurons.in_bases([head], place[-1]),
            causes=unknown | {name: float(after.score[place]) for name, after in tables.items()},
            cause_se=unknown | {name: float(after.se[place]) for name, after in tables.items()},
            fall_se=unknown | {name: float(se[place]) for name, se in self.fall_se.items()},
            n=int(table.n[place]),
            pairs=int(table.pairs[place]),
        )

    def _nearest(self, head: Head) -> str:
        """The pattern that a head comes nearest to, though it is not near enough to be its label."""
        above = np.nan_to_num(self.scores.words_only.above_chance[head.place], nan=-np.inf)
        return self.scores.patterns[int(np.argmax(above.round(6)))]  # of equals the first

    def to_frame(self) -> pd.DataFrame:
        """One row a head; if a token was asked about, one a key, with each neuron's part of the logit."""
        import pandas as pd

        if self.query is not None:
            return self._token_frame(self.query)
        rows = [{"model": self.signature.model, **self[head].row()} for head in self.heads]
        frame = pd.DataFrame(rows)
        frame.attrs = {"signature": asdict(self.signature), "not_available": dict(self.not_available)}
        return frame

    def _token_frame(self, query: int) -> pd.DataFrame:
        """What the heads make of every key at one query."""
        import pandas as pd

        assert self.attention is not None
        parts = [self._keys(head, query, self.attention) for head in self.heads]
        frame = pd.concat(parts, ignore_index=True)
        frame.attrs = {"signature": asdict(self.signature), "not_available": dict(self.not_available)}
        return frame

    def _keys(self, head: Head, query: int, attention: Attention) -> pd.DataFrame:
        import pandas as pd

        count = attention.keys
        columns: dict[str, Any] = {
            "model": self.signature.model,
            **head.columns,
            "query": query - attention.source,
            "query_token": attention.tokens[query],
            "key": range(count),
            "key_token": attention.tokens[:count],
            "weight": attention.rows_of(head, [query])[0, :count].astype(float),
        }
        if attention.query is not None:
            products = attention.products(head, query)[:count].astype(float)
            columns["logit"] = products.sum(-1)
            columns |= {f"neuron_{n}": products[:, n] for n in range(products.shape[1])}
        return pd.DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for other tools: of one input also every head's weights, queries, keys and their products."""
        about = {"signature": asdict(self.signature), "not_available": dict(self.not_available)}
        rows = [self[head].row() for head in self.heads]
        if self.attention is None:
            return {**about, "heads": rows}
        attention = self.attention
        for row, head in zip(rows, self.heads, strict=True):
            place = attention.place(head)
            row["weights"] = attention.weights[place].tolist()
            if attention.query is not None and attention.key is not None:
                queries = range(len(attention.tokens))
                row["scaling"] = attention.scaling[head.row]
                row["query"] = attention.query[place].tolist()
                row["key"] = attention.key[place].tolist()
                row["products"] = [attention.products(head, query).tolist() for query in queries]
        return {**about, "tokens": list(attention.tokens), "sentence": list(attention.sentence), "heads": rows}

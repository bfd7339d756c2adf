"""Cards: everything about a head over many pairs; and what is known of the checkpoint that heads belong to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from attnscan.results.ablation import Ablation
from attnscan.results.explanation import CAUSES
from attnscan.results.grid import Head, HeadLike
from attnscan.results.heads import HeadScores
from attnscan.results.lazy import pd
from attnscan.results.signature import signed_frame
from attnscan.results.syntax import Syntax

_LABELS = (
    "name",
    "label",
    "label_stays",
    "among_words",
    "share",
    "average",
)  # columns of the table of all heads


@dataclass(frozen=True)
class Example:
    """An input in which a head does what its card says, and the words that it links most there."""

    share: float  # the head's score or share over this input
    query: int  # which of the units attends
    key: int  # which it attends to
    units: tuple[
        str, ...
    ]  # the input's words or tokens; in cross attention, the target's behind the source's
    sentences: tuple[str, ...]  # as they were read


@dataclass(frozen=True)
class Card:
    """Everything about one head: scores and labels over all pairs, and a closer look at the first of them."""

    head: Head
    ranking: HeadScores  # every head's scores, labels and statements, by all pairs
    main_kind: str  # the pattern or habit that describes the head
    links: (
        pd.DataFrame
    )  # words that it links most beyond the average head: texts, both mean shares, how often
    examples: tuple[Example, ...]  # inputs in which the head does it most, the strongest first
    alike: tuple[
        tuple[Head, float], ...
    ]  # the heads that attend most alike, with their divergence in nats
    why: pd.Series[
        Any
    ]  # what becomes of its number when positions or segments change: a row of `explain`
    pairs: int  # how many were examined word by word
    ablation: Ablation | None = None  # what the model loses without it, if that was asked for
    syntax: Syntax | None = None  # every head against a treebank, if one was named

    @property
    def patterns(self) -> dict[str, dict[str, Any]]:
        """Its score on each pattern, with chance, 95 % interval, and rank among all heads, None without a score."""
        table, patterns = self.ranking.table, dict[str, dict[str, Any]]()
        arrays = {
            "score": table.score,
            "chance": table.chance,
            "low": table.interval[0],
            "high": table.interval[1],
        }
        for p, name in enumerate(self.ranking.scores.patterns):
            numbers = {
                column: float(values[(*self.head.place, p)]) for column, values in arrays.items()
            }
            rank = (
                None
                if np.isnan(numbers["score"])
                else self.ranking.labels.numbers(name, self.head).rank
            )
            patterns[name] = {**numbers, "rank": rank}
        return patterns

    def row(self) -> dict[str, Any]:
        """As the columns of a table with a row a head."""
        labels, explanation, number = (
            self.ranking.labels,
            self.why,
            self.ranking.grid.index(self.head),
        )
        columns, numbers = labels.columns(()), labels.numbers(self.main_kind, self.head)
        row = {**self.head.columns, **{name: columns[name][number] for name in _LABELS}}
        row |= {"chance": numbers.chance, "rank": numbers.rank}
        row |= {f"alike_{rank}": head.name for rank, (head, _) in enumerate(self.alike, 1)}
        row |= {
            f"divergence_{rank}": divergence for rank, (_, divergence) in enumerate(self.alike, 1)
        }
        row |= {
            "as_it_is": explanation["score"],
            **explanation[[*CAUSES, *(f"{cause}_fall_se" for cause in CAUSES)]],
        }
        return row if self.syntax is None else row | self.syntax.head_columns(self.head)

    def document(self) -> dict[str, Any]:
        """All of it, as JSON holds it."""
        profile, place = self.ranking.profile, self.head.place
        return {
            **self.row(),
            "patterns": self.patterns,
            "profile": dict(zip(profile.classes, profile.share[place].tolist(), strict=True)),
            "profile_se": dict(zip(profile.classes, profile.se[place].tolist(), strict=True)),
            "links": self.links.to_dict("records"),
            "examples": [asdict(example) for example in self.examples],
            "ablation": []
            if self.ablation is None
            else self.ablation.to_frame().to_dict("records"),
            "syntax": []
            if self.syntax is None
            else self.syntax.head_rows(self.head).to_dict("records"),
        }


@dataclass(frozen=True)
class Cards:
    """The cards of some heads."""

    cards: tuple[Card, ...]  # in the order in which heads were named
    html: Callable[[Cards], str] | None = field(default=None, compare=False)  # for a notebook

    @property
    def ranking(self) -> HeadScores:
        """Every head, by the same pairs."""
        return self.cards[0].ranking

    def __getitem__(self, head: HeadLike) -> Card:
        """One head's. Raises: SelectionError if the model has no such head; KeyError if it has no card."""
        return {card.head: card for card in self.cards}[self.ranking.grid.head(head)]

    def __repr__(self) -> str:
        return f"Cards of {', '.join(card.head.name for card in self.cards)}"

    def _repr_html_(self) -> str | None:
        return self.html(self) if self.html else None

    def to_frame(self) -> pd.DataFrame:
        """One row a head: what it does with its numbers, its labels, the heads most alike, what changes do to it."""
        return signed_frame([card.row() for card in self.cards], self.ranking.signature)

    def document(self) -> dict[str, Any]:
        """All cards, as JSON holds them."""
        syntax, signatures = self.cards[0].syntax, {"signature": asdict(self.ranking.signature)}
        signatures |= {"treebank_signature": asdict(syntax.signature)} if syntax else {}
        return {**signatures, "heads": [card.document() for card in self.cards]}


def main_kind_of(ranking: HeadScores, head: Head) -> str:
    """The name that a card describes a head by: its pattern, else its habit, else what it comes nearest to."""
    labels = ranking.labels
    name, habits = str(labels.among_words[head.place]), labels.habits
    if name or habits is None:
        return name or labels.nearest_pattern(head)
    return habits.names[
        int(np.nan_to_num(habits.share[head.place] - habits.average, nan=-np.inf).argmax())
    ]


@dataclass(frozen=True)
class Checkpoint:
    """The facts about a checkpoint that decide how it is read and scored."""

    model: str  # what results call it
    facts: Mapping[str, Any]  # by name, in the order of tables; None for what it has not got
    patterns: Mapping[
        str, str | None
    ]  # of each pattern why no head can be scored for it; None where heads can
    measures: Mapping[str, str | None]  # likewise of each measure of `ablate`

    def to_frame(self) -> pd.DataFrame:
        """One row a fact, one a pattern, and one a measure of `ablate`. Columns: key, value."""
        values: dict[str, Any] = {
            "model": self.model,
            **self.facts,
            **answers(self.patterns),
            **answers(self.measures),
        }
        frame = pd.DataFrame({"key": list(values), "value": list(map(str, values.values()))})
        return frame.replace({"value": {"None": "", "True": "yes", "False": "no"}})


def answers(reasons: Mapping[str, str | None]) -> dict[str, str]:
    """`yes`, or `no: ` and why not."""
    return {name: "yes" if reason is None else f"no: {reason}" for name, reason in reasons.items()}

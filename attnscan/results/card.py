"""Everything about a head over many pairs, and the facts about its checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from attnscan.results.ablation import Ablation
from attnscan.results.columns import HEAD_COLUMNS, HELD_COLUMNS
from attnscan.results.explanation import CAUSES
from attnscan.results.grid import Head, HeadLike
from attnscan.results.heads import HeadScores
from attnscan.results.lazy import pd
from attnscan.results.notebook import render_html
from attnscan.results.schemas import (
    MODEL_COLUMN,
    NAME_COLUMN,
    PLACE_COLUMNS,
    Column,
    Kind,
    Table,
    file_columns,
)
from attnscan.results.scores import FloatArray
from attnscan.results.signature import Signature, signed_frame
from attnscan.results.syntax import TREE_COLUMNS, Syntax

_LABELS = ("name", *(column.name for column in HEAD_COLUMNS))
"""Columns of the table of all heads."""


def _columns() -> Iterator[Column]:
    """The columns of `head`, and what JSON has of a card besides."""
    yield replace(MODEL_COLUMN, is_optional=True)
    yield from PLACE_COLUMNS
    yield NAME_COLUMN
    yield from file_columns(HEAD_COLUMNS)
    yield Column("chance", "of `share`, under even attention")
    yield Column("rank", "by `share` among all heads", "integer")
    yield from file_columns(HELD_COLUMNS, is_optional=True)
    yield Column(r"alike_\d+", "a head that attends alike, nearest first", "text", is_numbered=True)
    yield Column(r"divergence_\d+", "its Jensen-Shannon divergence, nats", is_numbered=True)
    yield Column("as_it_is", "`share` over the pairs of the closer look")
    for name, about in CAUSES.items():
        yield Column(name, f"`as_it_is` {about}")
    for name, about in CAUSES.items():
        yield Column(f"{name}_fall_se", f"standard error of the fall {about}")
    for column in TREE_COLUMNS:
        yield replace(column, is_optional=True)
    for name, (about, kind) in _NESTED.items():
        yield Column(name, about, kind, is_optional=True)


_NESTED: dict[str, tuple[str, Kind]] = {
    "patterns": ("of each pattern score, chance, 95 % interval and rank", "object"),
    "profile": ("of each class of keys the share of attention", "object"),
    "profile_se": ("of each class of keys the share's standard error", "object"),
    "links": ("words that are linked beyond the average head", "list"),
    "examples": ("inputs in which the head does this most", "list"),
    "ablation": ("rows of `ablate`, if asked for", "list"),
    "syntax": ("rows of `syntax`, if a treebank was named", "list"),
}
"""What JSON alone has, with what it is and of which type."""
CARDS_TABLE = Table("head", "a head: everything about it", tuple(_columns()))
CHECKPOINT_TABLE = Table(
    "checkpoint",
    "a fact of a model",
    (
        Column("key", "what is known", "text", is_key=True),
        Column("value", "the fact, as a text", "text"),
    ),
    is_signed=False,
)


@dataclass(frozen=True)
class Example:
    """An input in which a head does what its card says, and the words that it links most there."""

    share: float  # the head's score or share over this input
    query: int  # which of the units attends
    key: int  # which it attends to
    units: tuple[str, ...]
    """The input's words or tokens; in cross attention, the target's behind the source's."""
    sentences: tuple[str, ...]  # as they were read


@dataclass(frozen=True)
class Card:
    """Everything about one head.

    Scores and labels are of all pairs, and the closer look is at the first of them.
    """

    head: Head
    ranking: HeadScores  # every head's scores, labels and statements, by all pairs
    main_kind: str  # the pattern or habit that describes the head
    links: pd.DataFrame
    """Words that it links most beyond the average head: texts, both mean shares, how often."""
    examples: tuple[Example, ...]  # inputs in which the head does it most, the strongest first
    alike: tuple[tuple[Head, float], ...]
    """The heads that attend most alike, with their divergence in nats."""
    why: pd.Series[Any]
    """What becomes of its number when positions or segments change: a row of `explain`."""
    evidence: str  # that in words
    pairs: int  # how many were examined word by word
    ablation: Ablation | None = None  # what the model loses without it, if that was asked for
    syntax: Syntax | None = None  # every head against a treebank, or links, if named

    @property
    def patterns(self) -> dict[str, dict[str, Any]]:
        """Its score on each pattern, with chance, 95 % interval, and rank among all heads.

        The rank is None without a score.
        """
        table = self.ranking.table
        low, high = table.interval
        arrays = {"score": table.score, "chance": table.chance, "low": low, "high": high}
        patterns = {}
        for p, name in enumerate(self.ranking.scores.patterns):
            place = (*self.head.place, p)
            numbers: dict[str, Any] = {
                column: float(values[place]) for column, values in arrays.items()
            }
            has_score = not np.isnan(numbers["score"])
            numbers["rank"] = (
                self.ranking.labels.numbers(name, self.head).rank if has_score else None
            )
            patterns[name] = numbers
        return patterns

    def row(self) -> dict[str, Any]:
        """As the columns of a table with a row a head."""
        labels = self.ranking.labels
        columns = labels.columns(())
        number = self.ranking.grid.index(self.head)
        row = self.head.columns
        row |= {name: columns[name][number] for name in _LABELS}
        numbers = labels.numbers(self.main_kind, self.head)
        row |= {"chance": numbers.chance, "rank": numbers.rank}
        if self.ranking.held is not None:
            row["held_label"] = self.ranking.held.label[self.head.place]
            row["held_share"] = self.ranking.held_share[self.head.place]
        for rank, (head, _) in enumerate(self.alike, 1):
            row[f"alike_{rank}"] = head.name
        for rank, (_, divergence) in enumerate(self.alike, 1):
            row[f"divergence_{rank}"] = divergence
        row["as_it_is"] = self.why["score"]
        row |= {cause: self.why[cause] for cause in CAUSES}
        row |= {f"{cause}_fall_se": self.why[f"{cause}_fall_se"] for cause in CAUSES}
        if self.syntax is not None:
            row |= self.syntax.head_columns(self.head)
        return row

    def document(self) -> dict[str, Any]:
        """All of it, as JSON holds it."""
        ablation: list[Any] = []
        if self.ablation is not None:
            ablation = self.ablation.to_frame().to_dict("records")
        syntax: list[Any] = []
        if self.syntax is not None:
            syntax = self.syntax.head_rows(self.head).to_dict("records")
        return {
            **self.row(),
            "patterns": self.patterns,
            "profile": self._by_class(self.ranking.profile.share),
            "profile_se": self._by_class(self.ranking.profile.se),
            "links": self.links.to_dict("records"),
            "examples": [asdict(example) for example in self.examples],
            "ablation": ablation,
            "syntax": syntax,
        }

    def _by_class(self, values: FloatArray) -> dict[str, float]:
        """The head's value for each class of keys, of an array of all heads'."""
        classes = self.ranking.profile.classes
        return dict(zip(classes, values[self.head.place].tolist(), strict=True))


@dataclass(frozen=True)
class Cards:
    """The cards of some heads."""

    cards: tuple[Card, ...]  # in the order in which heads were named

    @property
    def ranking(self) -> HeadScores:
        """Every head, by the same pairs."""
        return self.cards[0].ranking

    @property
    def signature(self) -> Signature:
        """Where the cards come from: model, versions, device, input."""
        return self.ranking.signature

    def __getitem__(self, head: HeadLike) -> Card:
        """One head's.

        Raises: SelectionError if the model has no such head; KeyError if it has no card.
        """
        return {card.head: card for card in self.cards}[self.ranking.grid.head(head)]

    def __repr__(self) -> str:
        return f"Cards of {', '.join(card.head.name for card in self.cards)}"

    def _repr_html_(self) -> str | None:
        return render_html(self)

    def to_frame(self) -> pd.DataFrame:
        """One row a head: labels and numbers, the heads most alike, and what changes do to it."""
        return signed_frame([card.row() for card in self.cards], self.signature, CARDS_TABLE)

    def document(self) -> dict[str, Any]:
        """All cards, as JSON holds them."""
        document: dict[str, Any] = {
            "schema": CARDS_TABLE.id,
            "signature": asdict(self.signature),
        }
        if self.cards[0].syntax is not None:
            syntax = self.cards[0].syntax
            name = "treebank_signature" if syntax.has_trees else "links_signature"
            document[name] = asdict(syntax.signature)
        document["heads"] = [card.document() for card in self.cards]
        return document


def main_kind_of(ranking: HeadScores, head: Head) -> str:
    """The pattern or habit that a card describes a head by.

    Its pattern, else its habit, else what it comes nearest to.
    """
    labels = ranking.labels
    name = str(labels.among_words[head.place])
    if name:
        return name
    if labels.habits is None:
        return labels.nearest_pattern(head)
    beyond_average = labels.habits.share[head.place] - labels.habits.average
    nearest = int(np.nan_to_num(beyond_average, nan=-np.inf).argmax())
    return labels.habits.names[nearest]


@dataclass(frozen=True)
class Checkpoint:
    """The facts about a checkpoint that decide how it is read and scored."""

    model: str  # what results call it
    facts: Mapping[str, Any]  # by name, in the order of tables; None for what it has not got
    patterns: Mapping[str, str | None]
    """Of each pattern why no head can be scored for it; None where heads can."""
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
        frame.attrs["schema"] = CHECKPOINT_TABLE.id
        return frame.replace({"value": {"None": "", "True": "yes", "False": "no"}})


def answers(reasons: Mapping[str, str | None]) -> dict[str, str]:
    """`yes`, or `no: ` and why not."""
    return {name: "yes" if reason is None else f"no: {reason}" for name, reason in reasons.items()}

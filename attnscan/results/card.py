"""Cards: everything about a head over many pairs, from one scan and a closer look at the first of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from attnscan.results.ablation import Ablation
from attnscan.results.behaviour import Numbers
from attnscan.results.explanation import CAUSES, HeadExplanation
from attnscan.results.grid import Head, HeadLike
from attnscan.results.heads import HeadScores
from attnscan.results.scores import FloatArray
from attnscan.results.shown import lines, shaped
from attnscan.results.syntax import Syntax
from attnscan.results.terms import counted

if TYPE_CHECKING:
    import pandas as pd

DISTANCES = tuple(range(-8, 9))
"""Distances in words of the own sentence at which a card tells the share of attention; 0 is the word itself.

In cross attention they are told from the source word at the same place, as the pattern `same-place` has it."""


_TOLD = ("name", "label", "label_stays", "among_words", "share", "average")
"""The columns that a card has in common with the table of all heads."""


@dataclass(frozen=True)
class Measure:
    """What a card tells a head by: a pattern's score, or a habit's share of attention."""

    name: str
    """A pattern or a habit, as in the column `among_words`."""
    labelled: bool
    """Whether it is a pattern."""
    own: bool
    """Whether the head does it; else it has no distinct habit, and this is the one that it comes nearest to."""


@dataclass(frozen=True)
class Link:
    """Two words that a head links, by their texts."""

    query: str
    """The word that attends."""
    key: str
    """The word that it attends to."""
    share: float
    """The head's mean share of attention, in [0, 1]."""
    average: float
    """The average head's."""
    count: int
    """How often the two words stand in one input."""


@dataclass(frozen=True)
class Example:
    """An input in which a head does what its card says, and the words that it links most there."""

    units: tuple[str, ...]
    """The words or tokens of the input, without special tokens."""
    second: int
    """Which of them is the first of sentence B, in cross attention of the target; their number if there is no B."""
    query: int
    """The place of the word that attends."""
    key: int
    """The place of the word that it attends to."""
    share: float
    """The head's score or share over this input."""
    sentences: tuple[str, ...]
    """The one or two sentences as they were read."""


@dataclass(frozen=True)
class Look:
    """A closer look at a head: its attention, word by word, over the first pairs."""

    measure: Measure
    """What the head is told by."""
    distance: FloatArray
    """Mean share of attention at each of `DISTANCES`, over all words. Shape: [distance]."""
    average_distance: FloatArray
    """That of the average head."""
    links: tuple[Link, ...]
    """The pairs of words that it links most beyond the average head, the strongest first."""
    examples: tuple[Example, ...]
    """Inputs in which the head does it most, the strongest first."""
    alike: tuple[tuple[Head, float], ...]
    """The heads that attend most alike, with the Jensen-Shannon divergence in nats; nearest first."""
    why: HeadExplanation
    """What the measure falls to when positions are shuffled or segment ids changed, over fewer pairs."""
    not_available: Mapping[str, str]
    """What could not be changed, and why."""
    pairs: int
    """How many pairs were looked at."""

    @property
    def reason(self) -> str:
        """What the head goes by, in one sentence: position, segments or content, as far as these could be changed."""
        why, effects = self.why, self.why.effects
        names = " and ".join(self.not_available).capitalize()
        missing = f" {names} cannot be changed in this model." if names else ""
        by = why.by or ("not sure" if "uncertain" in effects.values() else "not known")
        if not effects:
            return f"Why: {by}.{missing}"
        told = []
        for cause in effects:
            error = "" if np.isnan(why.fall_se[cause]) else f" ± {why.fall_se[cause]:.2f}"
            told.append(f"{why.causes[cause]:.2f}{error} {CAUSES[cause]}")
        errors = ", ± standard errors of the change" if why.pairs > 1 else ""
        return f"Why: {by}. {why.score:.2f} becomes {', '.join(told)} ({counted(why.pairs, 'pair')}{errors}).{missing}"


@dataclass(frozen=True)
class Card:
    """Everything about one head over many pairs."""

    __repr__ = shaped

    head: Head
    """Which one."""
    ranking: HeadScores
    """Every head's scores, labels and statements, by all pairs."""
    look: Look
    """Its attention by what it carries among words, or its attention weights where that is not known."""
    ablation: Ablation | None = None
    """What the model loses without it, if that was asked for."""
    syntax: Syntax | None = None
    """Every head against a treebank, if one was named."""

    @property
    def looked_at(self) -> str:
        """How many pairs were looked at word by word, if these are not all; else empty."""
        signature = self.ranking.signature
        every = signature.pairs_read - signature.pairs_skipped
        return f" (the first {self.look.pairs:,} of {every:,} pairs)" if self.look.pairs < every else ""

    @property
    def numbers(self) -> Numbers:
        """The number of what the head is told by, and what it stands beside."""
        return self.ranking.labels.numbers(self.look.measure.name, self.head)

    def row(self) -> dict[str, Any]:
        """As the columns of a table with a row a head."""
        number, why, alike = self.ranking.scores.grid.index(self.head), self.look.why, self.look.alike
        columns = self.ranking.labels.columns(())
        row = {**self.head.columns, **{name: columns[name][number] for name in _TOLD if name in columns}}
        row |= {"chance": self.numbers.chance, "rank": self.numbers.rank}
        row |= {f"alike_{rank}": head.name for rank, (head, _) in enumerate(alike, 1)}
        row |= {f"divergence_{rank}": divergence for rank, (_, divergence) in enumerate(alike, 1)}
        row |= {"as_it_is": why.score, **why.causes}
        row |= {f"{cause}_fall_se": se for cause, se in why.fall_se.items()}
        return row if self.syntax is None else row | self.syntax.said_of(self.head)

    def document(self) -> dict[str, Any]:
        """All of it, as JSON holds it."""
        look, table, profile = self.look, self.ranking.table, self.ranking.profile
        numbers = {"score": table.score, "chance": table.chance, "low": table.interval[0], "high": table.interval[1]}
        patterns: dict[str, dict[str, float | None]] = {}
        for p, pattern in enumerate(self.ranking.scores.patterns):
            told = {name: float(values[(*self.head.place, p)]) for name, values in numbers.items()}
            patterns[pattern] = {**told, "rank": self.rank(pattern)}
        return {
            **self.row(),
            "patterns": patterns,
            "profile": dict(zip(profile.classes, profile.share[self.head.place].tolist(), strict=True)),
            "profile_se": dict(zip(profile.classes, profile.se[self.head.place].tolist(), strict=True)),
            "distance": dict(zip(DISTANCES, look.distance.tolist(), strict=True)),
            "average_distance": dict(zip(DISTANCES, look.average_distance.tolist(), strict=True)),
            "links": [asdict(link) for link in look.links],
            "examples": [asdict(example) for example in look.examples],
            "ablation": [] if self.ablation is None else self.ablation.to_frame().to_dict(orient="records"),
            "syntax": [] if self.syntax is None else self.syntax.of_head(self.head).to_dict(orient="records"),
        }

    def rank(self, pattern: str) -> int | None:
        """The head's rank among all by its score on a pattern, from 1; None without a score."""
        order = self.ranking.order(pattern).tolist()
        number = self.ranking.scores.grid.index(self.head)
        return order.index(number) + 1 if number in order else None


@dataclass(frozen=True)
class Cards:
    """The cards of some heads."""

    cards: tuple[Card, ...]
    """In the order in which heads were named."""
    html: Callable[[Cards], str] | None = field(default=None, repr=False, compare=False)
    """Writes what a notebook shows of it."""

    @property
    def ranking(self) -> HeadScores:
        """Every head, by the same pairs."""
        return self.cards[0].ranking

    def __getitem__(self, named: HeadLike) -> Card:
        """One head's. Raises: SelectionError if the model has no such head; KeyError if it has no card."""
        head = self.ranking.scores.grid.head(named)
        return {card.head: card for card in self.cards}[head]

    def __iter__(self) -> Iterator[Card]:
        return iter(self.cards)

    def __len__(self) -> int:
        return len(self.cards)

    def __repr__(self) -> str:
        told = []
        for card in self.cards:
            syntax = "" if card.syntax is None else card.syntax.statements.get(card.head, "")
            said = f"{card.head.name}: {card.look.measure.name} {card.numbers.share:.2f}"
            told.append(f"{said}; {syntax}" if syntax else said)
        return lines(self, self.ranking.signature, self.ranking.scores.grid, *told)

    def _repr_html_(self) -> str | None:
        """What a notebook shows; without `html`, that is the plain text."""
        return self.html(self) if self.html else None

    def to_frame(self) -> pd.DataFrame:
        """One row a head: what it does with its numbers, its labels, the heads most alike, what changes do to it."""
        import pandas as pd

        frame = pd.DataFrame([{"model": self.ranking.signature.model, **card.row()} for card in self.cards])
        frame.attrs = {"signature": asdict(self.ranking.signature)}
        return frame

    def document(self) -> dict[str, Any]:
        """All cards, as JSON holds them."""
        signatures = {"signature": asdict(self.ranking.signature)}
        if (syntax := self.cards[0].syntax) is not None:
            signatures["treebank_signature"] = asdict(syntax.signature)
        return {**signatures, "heads": [card.document() for card in self.cards]}


def measure_of(ranking: HeadScores, head: Head) -> Measure:
    """What a head's card tells it by: its pattern, else its habit, else the habit that it comes nearest to.

    Raises: OptionError if the ranking has no labels.
    """
    labels = ranking.labels
    name = str(labels.among_words[head.place])
    if name:
        return Measure(name, labelled=bool(labels.follows[head.place]) or name in ranking.scores.patterns, own=True)
    if labels.statements is None:
        above = np.nan_to_num(labels.table.above_chance[head.place], nan=-np.inf)
        return Measure(ranking.scores.patterns[int(above.argmax())], labelled=True, own=False)
    beyond = np.nan_to_num(labels.statements.share[head.place] - labels.statements.average, nan=-np.inf)
    name = labels.statements.names[int(beyond.argmax())]
    return Measure(name, labelled=name in ranking.scores.patterns, own=False)

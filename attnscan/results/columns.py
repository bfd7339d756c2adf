"""The columns of tables of heads, each declared once: what it is and where it is shown. No numpy.

`to_frame`, files, screens, the page and the names that own patterns may not have read them here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from attnscan.results.habits import CLASSES, HABITS


def mean_of_rows(name: str) -> Callable[[Any], Any]:
    """The mean over the rows of all words, of what the scorer sums under a name."""
    return lambda labels: labels.scores.means[name]


def alignment_value(name: str) -> Callable[[Any], Any]:
    """A share of how heads of cross attention align words; None where it was not measured."""

    def values(labels: Any) -> Any:
        measured = labels.scores.alignment.get(name)
        return None if measured is None else measured.value

    return values


def alignment_error(name: str, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What `read` reads of such a share's error; None of one input, which has none."""

    def values(labels: Any) -> Any:
        measured = labels.scores.alignment.get(name)
        return None if measured is None or labels.is_one_input else read(measured)

    return values


@dataclass(frozen=True)
class TableColumn:
    """A column of a table with a row for each head."""

    name: str  # in tables and files, in Python, and on the page
    about: str  # what it is, in a few words
    values: Callable[[Any], Any]
    """Where it comes from: `Labels`, of a ranking a `ScoreTable`, of the page `HeadScores`."""
    is_text: bool = False
    decimals: int = 2  # on screens and on the page; files have six
    title: str = ""  # on the screen of all heads; empty if it is not there
    drop: int = 0  # on narrow screens the columns with the highest go first; 0 stays
    heading: str = ""  # on the page's table; empty for the name
    unit: str = ""  # behind the number on a head's card of the page; empty if it is not there
    is_error: bool = False  # of another column; in files and on no screen or page


HEAD_COLUMNS = (
    TableColumn("label", "what the head does", lambda labels: labels.label, is_text=True),
    TableColumn(
        "label_stays",
        "share of bootstrap resamples in which the label is the same",
        lambda labels: labels.label_stays,
        heading="label stays",
    ),
    TableColumn(
        "among_words",
        "what it does with its attention on words",
        lambda labels: labels.among_words,
        is_text=True,
        heading="among words",
    ),
    TableColumn(
        "share", "of what it does among words", lambda labels: labels.share, title="share", drop=2
    ),
    TableColumn(
        "average",
        "the average head's share",
        lambda labels: labels.average,
        heading="average head",
    ),
)
"""What a head does: before the patterns' scores."""

MEAN_COLUMNS = (
    TableColumn(
        "entropy",
        "entropy of a row",
        mean_of_rows("entropy"),
        title="nats",
        drop=4,
        unit="nats",
    ),
)
"""Means over rows, of what the scorer sums under these names: behind the patterns' scores."""

_ALIGNMENT_MEASURES = (
    TableColumn(
        "coverage",
        "share of the source that the target attends to",
        alignment_value("coverage"),
        title="cover",
        drop=5,
    ),
    TableColumn(
        "precision",
        "share of the head's links that are gold links",
        alignment_value("precision"),
        title="prec",
        drop=6,
    ),
    TableColumn(
        "recall",
        "share of gold links that the head makes",
        alignment_value("recall"),
        title="recall",
        drop=6,
    ),
    TableColumn("aer", "alignment error rate", alignment_value("aer"), title="AER", drop=5),
)


def _alignment_errors() -> Iterator[TableColumn]:
    """What each measure of links is worth."""
    for name in ("precision", "recall", "aer"):
        for ending, about, read in (
            ("se", "standard error", lambda measured: measured.se),
            ("low", "lower end of the 95 % interval", lambda measured: measured.interval[0]),
            ("high", "upper end of the 95 % interval", lambda measured: measured.interval[1]),
        ):
            yield TableColumn(
                f"{name}_{ending}",
                f"{about} of {name}",
                alignment_error(name, read),
                is_error=True,
            )


ALIGNMENT_COLUMNS = (*_ALIGNMENT_MEASURES, *_alignment_errors())
"""Of cross attention, behind these: without gold links `coverage` alone, of one input no errors."""

PAGE_COLUMNS = (
    TableColumn(
        "output",
        "how much the head puts out, as a share of its layer's",
        lambda result: result.output,
    ),
)
"""Columns that the page alone has, of one input."""

RANKING_COLUMNS = (
    TableColumn("score", "mean weight on the pattern's targets", lambda table: table.score),
    TableColumn("chance", "that mean under even attention", lambda table: table.chance),
    TableColumn("above_chance", "0 at chance, 1 at best", lambda table: table.above_chance),
    TableColumn("se", "standard error of the score", lambda table: table.se),
    TableColumn("low", "lower end of the score's 95 % interval", lambda table: table.interval[0]),
    TableColumn("high", "upper end of the score's 95 % interval", lambda table: table.interval[1]),
    TableColumn("n", "eligible queries", lambda table: table.n),
    TableColumn("pairs", "pairs that had any", lambda table: table.pairs),
)
"""What heads are ranked with, on one pattern."""

HELD_COLUMNS = (
    TableColumn(
        "held_label",
        "what the head does in a second corpus",
        lambda result: result.held.label,
        is_text=True,
        heading="held label",
    ),
    TableColumn(
        "held_share",
        "the second corpus' share of what the head does among words in this one",
        lambda result: result.held_share,
        heading="held share",
    ),
)
"""Of `HeadScores` beside which a second corpus is held: behind all others."""

_PLACES = ("model", "kind", "layer", "head", "name", "pattern", "rank")
"""Columns that say of what a row is."""


def reserved_names() -> dict[str, str]:
    """The names that no pattern of one's own may have, and what is called so."""
    columns = (
        *HEAD_COLUMNS,
        *MEAN_COLUMNS,
        *ALIGNMENT_COLUMNS,
        *PAGE_COLUMNS,
        *RANKING_COLUMNS,
        *HELD_COLUMNS,
    )
    names = dict.fromkeys(CLASSES, "a class of keys")
    names |= dict.fromkeys(HABITS, "a habit")
    names |= dict.fromkeys(_PLACES, "a column of tables")
    names |= dict.fromkeys((column.name for column in columns), "a column of tables")
    return names

"""What heads come to do over the checkpoints of a training run, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnscan.errors import OptionError
from attnscan.results.columns import HEAD_COLUMNS
from attnscan.results.grid import Grid, Head
from attnscan.results.heads import HeadScores
from attnscan.results.lazy import pd
from attnscan.results.schemas import (
    MEASURE_COLUMNS,
    NAME_COLUMN,
    PLACE_COLUMNS,
    Column,
    Table,
    file_columns,
)
from attnscan.results.scores import IntArray
from attnscan.results.signature import Signature, describe, signed_frame

TRACE_TABLE = Table(
    "trace",
    "a head at a checkpoint",
    (
        Column("model", "the checkpoint", "text", is_key=True),
        Column("step", "the training step, if it is known", "integer"),
        *PLACE_COLUMNS,
        NAME_COLUMN,
        *file_columns(HEAD_COLUMNS),
        Column("since", "the step from which the head keeps its last label, else its name", "step"),
        *MEASURE_COLUMNS,
    ),
    has_patterns=True,
)


@dataclass(frozen=True)
class TracedCheckpoint:
    """A checkpoint of a run, and what its heads do."""

    name: str  # as it was given
    step: int | None  # the training step; None where neither the checkpoint nor its name tells
    result: HeadScores

    @property
    def title(self) -> str:
        """The step, or else the name."""
        return self.name if self.step is None else f"{self.step:,}"


@dataclass(frozen=True)
class Trace:
    """What every head does at each checkpoint of a run, by the same pairs."""

    checkpoints: tuple[TracedCheckpoint, ...]  # in the order of their steps
    skipped: tuple[str, ...] = ()  # checkpoints that could not be read, a line each

    def __post_init__(self) -> None:
        if not self.checkpoints:
            raise OptionError("there is no checkpoint to trace", "give the directories of a run")

    def __repr__(self) -> str:
        n_checkpoints = len(self.checkpoints)
        return describe(self, f"{n_checkpoints} checkpoint{'s' * (n_checkpoints != 1)}")

    @property
    def last(self) -> HeadScores:
        """What heads do at the end."""
        return self.checkpoints[-1].result

    @property
    def signature(self) -> Signature:
        """Where the last checkpoint's result comes from; the others differ by their models."""
        return self.last.signature

    @property
    def grid(self) -> Grid:
        """The heads, of all checkpoints alike."""
        return self.last.grid

    @property
    def since(self) -> IntArray:
        """The place of the first checkpoint from which a head keeps the label that it ends with.

        A label that is not sure at the end has none. Shape: [layer, head]; -1 for none.
        """
        labels = self.last.labels
        is_kept = (labels.label != "") & ~labels.unsure
        since = np.where(is_kept, len(self.checkpoints), -1)
        for place in reversed(range(len(self.checkpoints))):
            is_kept = is_kept & (self.checkpoints[place].result.label == labels.label)
            since[is_kept] = place
        return since

    def heads_since(self, place: int) -> list[Head]:
        """The heads that keep their last label from this checkpoint on, and from no earlier one."""
        begins_here = self.since == place
        return [head for head in self.grid if begins_here[head.place]]

    def kind_counts(self) -> pd.DataFrame:
        """How many heads of each kind there are at each checkpoint.

        Kinds are what heads do among words, an empty name for heads without a distinct habit; heads
        that rest are counted apart, under what they rest on. Shape: a row a kind, a column a
        checkpoint, by its place.
        """
        columns = {}
        for place, checkpoint in enumerate(self.checkpoints):
            labels = checkpoint.result.labels
            counts = {(False, kind.name): len(kind.heads) for kind in labels.kinds.values()}
            counts |= {(True, kind.name): len(kind.heads) for kind in labels.resting}
            counts[False, ""] = int((labels.among_words == "").sum())
            columns[place] = counts
        frame = pd.DataFrame(columns).fillna(0).astype(int)
        frame.index = pd.MultiIndex.from_tuples(frame.index, names=["rests", "kind"])
        return frame

    def to_frame(self, patterns: Sequence[str] | None = None) -> pd.DataFrame:
        """A row for each head of each checkpoint: what it does, since when, and its scores.

        `since` is the step, or else the name, of the first checkpoint from which the head keeps the
        label that it has at the end; empty where that label is not sure.
        """
        steps = [checkpoint.step for checkpoint in self.checkpoints]
        names = [checkpoint.name for checkpoint in self.checkpoints]
        begins = names if None in steps else steps
        since = [begins[place] if place >= 0 else None for place in self.since.ravel()]
        parts = []
        for checkpoint in self.checkpoints:
            labels = checkpoint.result.labels
            table = pd.DataFrame(labels.columns(patterns or labels.scores.patterns))
            table.insert(0, "step", checkpoint.step)
            table.insert(list(table.columns).index("share") + 1, "since", since)
            parts.append(table)
        rows = pd.concat(parts, ignore_index=True)
        rows["step"] = rows["step"].astype("Int64")
        if None not in steps:
            rows["since"] = rows["since"].astype("Int64")
        frame = signed_frame(rows, self.signature, TRACE_TABLE)
        frame["model"] = np.repeat(names, len(self.grid))
        return frame

"""What is known of one checkpoint: its model, and what can be scored and measured in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnscan.results.terms import pd


@dataclass(frozen=True)
class Checkpoint:
    """The facts about a checkpoint that decide how it is read and scored."""

    model: str  # what results call it
    facts: Mapping[str, Any]  # by name, in the order of tables; None for what it has not got
    patterns: Mapping[str, str | None]  # of each pattern why no head can be scored for it; None where heads can
    measures: Mapping[str, str | None]  # likewise of each measure of `ablate`

    def to_frame(self) -> pd.DataFrame:
        """One row a fact, one a pattern, and one a measure of `ablate`. Columns: key, value."""
        values: dict[str, Any] = {"model": self.model, **self.facts, **answers(self.patterns), **answers(self.measures)}
        frame = pd.DataFrame({"key": list(values), "value": list(map(str, values.values()))})
        return frame.replace({"value": {"None": "", "True": "yes", "False": "no"}})


def answers(why_not: Mapping[str, str | None]) -> dict[str, str]:
    """`yes`, or `no: ` and why not."""
    return {name: "yes" if why is None else f"no: {why}" for name, why in why_not.items()}

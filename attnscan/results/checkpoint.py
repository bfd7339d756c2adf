"""What is known of one checkpoint: its model, and which patterns can be scored in it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from attnscan.results.terms import MEASURES

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Checkpoint:
    """The facts about a checkpoint that decide how it is read and scored."""

    model: str
    """What results call it."""
    family: str
    """As its config.json names it."""
    architecture: str
    """The class that is run: the encoder (or decoder) inside whatever was saved."""
    layers: int
    """How many have attention."""
    heads: int
    """Of each layer."""
    read_by: str
    """`tap`, or `watch` where it does not call the registered attention function."""
    template: str
    """Where the tokenizer puts delimiters around the sentences A and B."""
    longest_input: int | None
    """In tokens; None if neither the model nor the tokenizer has a limit."""
    positions: str | None
    """How it knows positions; None if that cannot be told."""
    segment_ids: bool
    """Whether its attention heeds which sentence a token is of, by what the tokenizer says."""
    mask_token: str | None
    """What the tokenizer hides words behind; None if it has no such token."""
    masked_lm_head: bool
    """Whether the checkpoint has a trained one."""
    next_sentence_head: bool
    """Whether the checkpoint has a trained one."""
    classifier_head: bool
    """Whether it has a trained one that tells one of several classes."""
    saved_as: str | None
    """The class that it was saved from, by its config.json."""
    not_measured: dict[str, str]
    """The measures of `ablate` that it does not allow, and why."""
    not_scored: dict[str, str]
    """The patterns that no head of it can follow or be measured by, and why."""
    patterns: tuple[str, ...] = ()
    """All patterns that were tried."""
    attention_in: tuple[int, ...] = ()
    """The numbers of the layers that have attention, where others have none; empty where all have it."""

    def to_frame(self) -> pd.DataFrame:
        """One row a fact, one a pattern, and one a measure of `ablate`. Columns: key, value."""
        import pandas as pd

        facts = self._facts() | {name: self.allows(name) for name in (*self.patterns, *MEASURES)}
        return pd.DataFrame([{"key": key, "value": _cell(value)} for key, value in facts.items()])

    def to_patterns_frame(self) -> pd.DataFrame:
        """One row a pattern, and the facts as what is said about all. Columns: pattern, scored, why."""
        import pandas as pd

        rows = [(p, p not in self.not_scored, self.not_scored.get(p, "")) for p in self.patterns]
        frame = pd.DataFrame(rows, columns=["pattern", "scored", "why"])
        frame.attrs.update(self._facts() | {"measures": {name: self.allows(name) for name in MEASURES}})
        return frame

    def allows(self, name: str) -> str:
        """Whether a pattern can be scored, or a measure taken: `yes`, or `no: ` and why not."""
        why = {**self.not_scored, **self.not_measured}.get(name)
        return "yes" if why is None else f"no: {why}"

    def _facts(self) -> dict[Any, Any]:
        aside = {"not_measured", "not_scored", "patterns"} | ({"attention_in"} if not self.attention_in else set())
        return {name: value for name, value in asdict(self).items() if name not in aside}


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)

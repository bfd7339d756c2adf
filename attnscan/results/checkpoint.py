"""What is known of one checkpoint: its model, and which patterns can be scored in it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Checkpoint:
    """The facts about a checkpoint that decide how it is read and scored."""

    model: str
    family: str
    """As its config.json names it."""
    architecture: str
    """The class that is run: the encoder (or decoder) inside whatever was saved."""
    layers: int
    heads: int
    read_by: str
    """`tap`, or `output_attentions` at the price of memory."""
    template: str
    """Where the tokenizer puts delimiters around the sentences A and B."""
    longest_input: int | None
    """In tokens; None if neither the model nor the tokenizer has a limit."""
    positions: str | None
    """How it knows positions; None if that cannot be told."""
    segment_ids: bool
    """Whether its attention heeds which sentence a token is of, by what the tokenizer says."""
    mask_token: str | None
    masked_lm_head: bool
    """Whether the checkpoint has a trained one."""
    not_scored: dict[str, str]
    """The patterns that no head of it can follow or be measured by, and why."""

    def to_frame(self, patterns: list[str]) -> pd.DataFrame:
        """One row a fact and one a pattern. Columns: key, value."""
        import pandas as pd

        facts = {name: value for name, value in asdict(self).items() if name != "not_scored"}
        facts |= {p: f"no: {self.not_scored[p]}" if p in self.not_scored else "yes" for p in patterns}
        return pd.DataFrame([{"key": key, "value": _cell(value)} for key, value in facts.items()])

    def to_patterns_frame(self, patterns: list[str]) -> pd.DataFrame:
        """One row a pattern, and the facts as what is said about all. Columns: pattern, scored, why."""
        import pandas as pd

        rows = [(p, p not in self.not_scored, self.not_scored.get(p, "")) for p in patterns]
        frame = pd.DataFrame(rows, columns=["pattern", "scored", "why"])
        frame.attrs = {name: value for name, value in asdict(self).items() if name != "not_scored"}
        return frame


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)

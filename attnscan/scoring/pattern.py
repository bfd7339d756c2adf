"""What a pattern is: its target and all that is said of it. The patterns themselves stand in `patterns.py`.

This module imports no tensor library, and nor does `patterns.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnscan.errors import OptionError
from attnscan.results.terms import Scored

if TYPE_CHECKING:
    from torch import Tensor

    from attnscan.inputs.batch import EncodedBatch

TargetFunction = Callable[["EncodedBatch"], "Tensor"]
"""A pattern's function."""


@dataclass(frozen=True)
class Pattern:
    """One pattern: its name, its target, and how weights are measured against it."""

    id: str
    """The name on the command line and in every table, such as `next-word`."""
    letter: str
    """Its mark in maps and narrow tables."""
    target: TargetFunction | None
    """The function that gives the target; None if only the model itself can tell (`predictive`)."""
    counts: str
    """What the score counts, in a few words."""
    even: bool = False
    """Whether the spread matters: weight above the target's share of a key does not count."""
    part_of: str | None = None
    """The wider pattern that this is a part of: the two take one label between them."""
    of_others: bool = False
    """Whether a head must look at others than the word itself to follow it, though that one is a target, too."""
    code: str = ""
    """What the file that it was read from hashes to, if it was: sums by other code do not add to its own."""
    color: str = ""
    """On screens, pages and pictures, as `#rrggbb`; patterns of one's own share a colour. Ours are after Okabe and Ito:
    colour-blind readers tell them apart, on dark and on light ground."""
    clause: str = ""
    """What a head that follows it does, as explanations say it; empty for `follows` and the pattern's name."""
    queries: str = ""
    """Which words are asked where they look: the eligible ones."""
    keys: str = ""
    """Which tokens they should look at."""
    source: str = ""
    """Where the pattern comes from."""

    @classmethod
    def of(cls, function: TargetFunction) -> Pattern:
        """A pattern of one's own, called after its function: `subject_verb` is `subject-verb`.

        Raises: OptionError if the function has no name to go by.
        """
        name = getattr(function, "__name__", "<nameless>")
        if "<" in name:
            raise OptionError("a pattern's function has no name", "define it with def, or give Pattern(id=..., ...)")
        about, _, _ = (function.__doc__ or "").strip().partition("\n")
        name = name.strip("_").replace("_", "-")
        return cls(name, name[:1].upper(), function, about.rstrip(".") or f"weight on the targets of {name}")

    @property
    def scored(self) -> Scored:
        """How results call it, and how it takes part in labels."""
        return Scored(self.id, self.part_of, self.of_others, self.clause)

    @property
    def drawing(self) -> str:
        """The target on the toy pair, as its docstring draws it; empty if it has none."""
        _, drawn, matrix = ((self.target and self.target.__doc__) or "").partition(">>> show(")
        lines = matrix.rstrip().splitlines()[1:] if drawn else []
        return "\n".join(line.removeprefix("    ") for line in lines)

    @property
    def drawn_chance(self) -> float | None:
        """The chance of the target that is drawn, in [0, 1]: its score by even weights. None if it is not drawn."""
        rows = [line.split()[1:] for line in self.drawing.splitlines()[1:]]
        targets = [[0.0 if cell == "·" else float(cell) for cell in row] for row in rows]
        scores = [sum(min(t, 1 / len(row)) if self.even else t / len(row) for t in row) for row in targets if any(row)]
        return sum(scores) / len(scores) if scores else None

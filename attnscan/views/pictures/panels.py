"""How the panels of chosen heads stand on a sheet, and what is written beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attnscan.errors import SelectionError
from attnscan.views.pictures.lettering import step_of, width_of
from attnscan.views.pictures.sheet import LINE, LONGEST, MARGIN, Box

GAP = 0.1
"""Between two panels, in inches."""
_NAMED = 0.9 * LINE  # what a token's name needs of its row
_NUMBERED_PANEL = 0.8  # inches: from this size on, what has no room for names has numbers


@dataclass(frozen=True)
class AxisLabels:
    """What stands beside the rows and columns: names of tokens, or numbers, or nothing."""

    texts: tuple[str, ...]
    faint: tuple[bool, ...]
    step: int
    """Every how many rows there is one; 0 for none."""
    room: float
    """The width of the widest, in inches."""
    note: str

    @classmethod
    def of(cls, names: Sequence[str], special: Sequence[bool], pitch: float) -> AxisLabels:
        """AxisLabels for rows of a pitch: names where every fourth fits at least, else numbers."""
        step = math.ceil(_NAMED / pitch)
        if step <= 4:
            room = max(map(width_of, names[::step]))
            which = {1: "", 2: "every second", 3: "every third", 4: "every fourth"}[step]
            note = f"Of the {len(names)} tokens {which} is named." if which else ""
            return cls(tuple(names), tuple(special), step, room, note)
        if pitch * len(names) < _NUMBERED_PANEL:
            return cls((), (), 0, 0, f"{len(names)} tokens, queries downwards, keys across.")
        numbers = tuple(map(str, range(len(names))))
        note = f"{len(names)} tokens, too many to name: their positions."
        return cls(numbers, (False,) * len(names), step_of(pitch, 2 * _NAMED), width_of(numbers[-1]), note)

    @property
    def shown(self) -> range:
        """The rows that have one."""
        return range(0, len(self.texts), self.step) if self.step else range(0)


@dataclass(frozen=True)
class Layout:
    """How panels, all of a size, stand on a sheet: in rows of some columns, each with its head's name above."""

    count: int
    columns: int
    left: float
    panel: tuple[float, float]
    below: float
    """What each panel needs beneath."""
    labels: AxisLabels
    """Of the rows."""
    across: AxisLabels | None = None
    """Of the columns; None if these are as the rows."""

    @property
    def height(self) -> float:
        """Of all panels."""
        return -(-self.count // self.columns) * (self.panel[1] + self.below + 1.3 * LINE)

    @property
    def places(self) -> list[Box]:
        """Where each panel stands."""
        across, down = self.panel[0] + GAP, self.panel[1] + self.below + 1.3 * LINE
        places = (divmod(i, self.columns) for i in range(self.count))
        top = MARGIN + 1.2 * LINE
        return [Box(self.left + column * across, top + row * down, *self.panel) for row, column in places]


def best_layout(layouts: Iterator[Layout], count: int, width: float, of_layer: int) -> Layout:
    """The most columns with every token named, else the fewest that the page is long enough for, by whole layers.

    Raises: SelectionError if the page is not long enough for any.
    """
    fit = [layout for layout in layouts if layout.height <= LONGEST]
    if not fit:
        raise SelectionError(
            f"{count} heads have no room in a picture {width:g} inches wide",
            "name fewer of them, or give a larger --width",
        )
    named = [layout for layout in fit if layout.labels.step == 1]
    aligned = [layout for layout in fit if count % of_layer == 0 and of_layer % layout.columns == 0]
    return (named or aligned[-1:] or fit[:1])[-1]

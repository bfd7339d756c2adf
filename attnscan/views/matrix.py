"""A target matrix drawn in plain text, as in the docstrings of `attnscan.patterns`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def draw(matrix: NDArray[np.float64], labels: Sequence[str], rows: Sequence[int]) -> str:
    """The chosen rows of a matrix: queries downwards, keys across, a dot for 0.

    Shape: `matrix` is [query, key]; `labels` has one text for each.

    >>> import numpy as np
    >>> print(draw(np.array([[0, 1], [0.25, 0]]), ["a", "cat"], [0, 1]))
            a  cat
      a     ·    1
    cat   .25    ·
    """
    width = max(map(len, labels))
    cell = max(width, 3) + 1

    def line(name: str, cells: Sequence[str]) -> str:
        return name.rjust(width) + "".join(text.rjust(cell) for text in cells)

    body = [line(labels[row], [_cell(float(value)) for value in matrix[row]]) for row in rows]
    return "\n".join([line("", labels), *body])


def _cell(value: float) -> str:
    if value in (0, 1):
        return "·" if value == 0 else "1"
    return f"{value:.2f}".removeprefix("0")

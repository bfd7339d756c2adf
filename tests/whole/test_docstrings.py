"""Every example in a docstring does what it says; the patterns' drawings are what their functions draw."""

from __future__ import annotations

import doctest
import importlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from torch import Tensor
from written import batch_of, translations

import attnscan
from attnscan.inputs.batch import EncodedBatch
from attnscan.scoring.cross import CROSS_PATTERNS
from attnscan.scoring.patterns import PATTERNS

TOY = "[CLS] the cat sat . [SEP] a cat ran [SEP]"
PLACE = Path(attnscan.__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(PLACE.parent).with_suffix("").parts)
    for path in PLACE.rglob("*.py")
    if re.search(r"^ *>>> ", path.read_text(encoding="utf-8"), re.MULTILINE)
)


def draw(matrix: NDArray[np.float64], labels: Sequence[str], rows: Sequence[int]) -> str:
    """A target as in `scoring.patterns`: queries downwards, keys across, a dot for 0. Shape: `matrix` [query, key]."""
    width = max(map(len, labels))
    cells = [["", *labels]]
    for row in rows:
        texts = ("·" if v == 0 else "1" if v == 1 else f"{v:.2f}".removeprefix("0") for v in matrix[row])
        cells.append([labels[row], *texts])
    lines = (name.rjust(width) + "".join(text.rjust(max(width, 3) + 1) for text in texts) for name, *texts in cells)
    return "\n".join(lines)


def show(pattern: Callable[[EncodedBatch], Tensor]) -> None:
    """What the patterns' docstrings call: the target on the toy pair, its words as queries."""
    crossing = {known.target for known in CROSS_PATTERNS} - {known.target for known in PATTERNS}
    if pattern in crossing:
        batch = translations(("le chat noir", "the black cat", "0-0 1-2 2-1"))
        print(draw(pattern(batch)[0].double().numpy(), batch.inputs[0].tokens, [3, 4, 5]))
        return
    labels = TOY.split()
    words = [i for i, token in enumerate(labels) if not token.startswith("[")]
    print(draw(pattern(batch_of(TOY))[0].double().numpy(), labels, words))


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name), extraglobs={"show": show}).failed == 0


def test_every_pattern_with_a_function_is_drawn() -> None:
    drawn = {pattern.id for pattern in PATTERNS if len(pattern.drawing.splitlines()) == 8}
    assert drawn == {pattern.id for pattern in PATTERNS} - {"predictive"}

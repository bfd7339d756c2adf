"""Examples in docstrings, such as drawn targets; the tests of a room run those of the room."""

import doctest
import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from support.handwritten_inputs import batch_of, translations

import attnscan
from attnscan.inputs.batch import EncodedBatch
from attnscan.scoring.cross import CROSS_PATTERNS
from attnscan.scoring.patterns import PATTERNS

_TOY = "[CLS] the cat sat . [SEP] a cat ran [SEP]"
_PACKAGE = Path(attnscan.__file__).parent


def modules_with_examples() -> list[str]:
    """The modules whose docstrings have examples."""
    names = []
    for path in sorted(_PACKAGE.rglob("*.py")):
        if re.search(r"^ *>>> ", path.read_text(encoding="utf-8"), re.MULTILINE):
            names.append(".".join(path.relative_to(_PACKAGE.parent).with_suffix("").parts))
    return names


def check_examples(module: str) -> None:
    """That a module's examples give what stands below them. Raises: AssertionError."""
    results = doctest.testmod(importlib.import_module(module), extraglobs={"show": _show})
    assert results.attempted > 0
    assert results.failed == 0


def _draw(matrix: NDArray[np.float64], labels: Sequence[str], rows: Sequence[int]) -> str:
    """A target as in `scoring.patterns`: queries downwards, keys across, a dot for 0.

    Shape: `matrix` [query, key].
    """
    width = max(map(len, labels))

    def line(name: str, values: Iterable[str]) -> str:
        return name.rjust(width) + "".join(text.rjust(max(width, 3) + 1) for text in values)

    lines = [line("", labels)]
    lines += [line(labels[row], map(_cell, matrix[row])) for row in rows]
    return "\n".join(lines)


def _cell(value: float) -> str:
    """A target's value as a drawn matrix has it: `·` for 0, `1`, or `.25`."""
    if value == 0:
        return "·"
    if value == 1:
        return "1"
    return f"{value:.2f}".removeprefix("0")


def _show(pattern: Callable[[EncodedBatch], torch.Tensor]) -> None:
    """What the patterns' docstrings call: the target on the toy pair, its words as queries."""
    crossing = {known.target for known in CROSS_PATTERNS} - {known.target for known in PATTERNS}
    if pattern in crossing:
        batch = translations(("le chat noir", "the black cat", "0-0 1-2 2-1"))
        print(_draw(pattern(batch)[0].double().numpy(), batch.inputs[0].tokens, [3, 4, 5]))
        return
    labels = _TOY.split()
    words = [i for i, token in enumerate(labels) if not token.startswith("[")]
    print(_draw(pattern(batch_of(_TOY))[0].double().numpy(), labels, words))

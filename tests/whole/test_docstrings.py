"""Every example in a docstring does what it says; the patterns' drawings are what their functions draw."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections.abc import Callable

import pytest
from torch import Tensor
from written import batch_of

import attnscan
from attnscan.inputs.batch import EncodedBatch
from attnscan.scoring.patterns import PATTERNS
from attnscan.views.terminal.patterns import draw

TOY = "[CLS] the cat sat . [SEP] a cat ran [SEP]"
MODULES = sorted(module.name for module in pkgutil.walk_packages(attnscan.__path__, "attnscan."))


def show(pattern: Callable[[EncodedBatch], Tensor]) -> None:
    """What the patterns' docstrings call: the target on the toy pair, its words as queries."""
    labels = TOY.split()
    words = [i for i, token in enumerate(labels) if not token.startswith("[")]
    print(draw(pattern(batch_of(TOY))[0].double().numpy(), labels, words))


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_examples(name: str) -> None:
    if name in ("attnscan.scan.cluster.scan", "attnscan.scan.cluster.connection"):
        pytest.importorskip("ray")
    module = importlib.import_module(name)
    assert doctest.testmod(module, extraglobs={"show": show}).failed == 0


def test_every_pattern_with_a_function_is_drawn() -> None:
    drawn = {pattern.id for pattern in PATTERNS if len(pattern.drawing.splitlines()) == 8}
    assert drawn == {pattern.id for pattern in PATTERNS} - {"predictive"}

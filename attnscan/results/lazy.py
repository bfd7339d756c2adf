"""pandas and scipy, imported when first used: the command line starts quickly without them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


class _LazyModule:
    """A library that is imported when first used, since its import takes long."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


if TYPE_CHECKING:
    import pandas
    import scipy as scipy

    pd = pandas
else:
    pd = _LazyModule("pandas")
    scipy = _LazyModule("scipy")

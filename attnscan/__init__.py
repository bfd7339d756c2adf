"""attnscan: which attention head does what.

    import attnscan
    attnscan.classify("I went to the store.", "At the store, I bought fresh strawberries.")

The names below are looked up when they are first used, so that `import attnscan` needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnscan.api import classify, classify_and_keep, rank_heads
    from attnscan.attention import Attention
    from attnscan.errors import AttnscanError
    from attnscan.results import Classification, Ranking

__version__ = "0.1.0"
__all__ = [
    "Attention",
    "AttnscanError",
    "Classification",
    "Ranking",
    "__version__",
    "classify",
    "classify_and_keep",
    "rank_heads",
]

# No module of this package may have one of these names: importing it would put it in the function's place.
_HOMES = {
    "classify": "api",
    "classify_and_keep": "api",
    "rank_heads": "api",
    "Attention": "attention",
    "AttnscanError": "errors",
    "Classification": "results",
    "Ranking": "results",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'attnscan' has no attribute '{name}'")
    return getattr(import_module(f"attnscan.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""attnscan: which attention head does what.

    import attnscan
    attnscan.classify("I went to the store.", "At the store, I bought fresh strawberries.")

The names below are looked up when they are first used, so that `import attnscan` needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from attnscan.__version__ import __version__
from attnscan.results.notebook import PAGES, RENDERERS

if TYPE_CHECKING:
    from attnscan.api.about import models, patterns
    from attnscan.api.many_pairs import finish, heads, load, profile, shard
    from attnscan.api.one_head import explain, head
    from attnscan.api.one_input import classify, predictive, show
    from attnscan.api.pairs_as_read import pairs
    from attnscan.api.pictures_and_pages import plot, report
    from attnscan.api.readings import with_reading
    from attnscan.api.studies import ablate, compare, similar
    from attnscan.api.syntax import syntax
    from attnscan.api.training import TrainerCallback, trace
    from attnscan.errors import AttnscanError
    from attnscan.inputs.batch import EncodedBatch
    from attnscan.inputs.sentence import Sentence
    from attnscan.model.loading import LoadedModel
    from attnscan.results.attention import Attention
    from attnscan.results.grid import Head
    from attnscan.results.heads import HeadScores
    from attnscan.scoring.patterns import PATTERNS, Pattern
    from attnscan.server.serving import serve

__all__ = [
    "PATTERNS",
    "Attention",
    "AttnscanError",
    "EncodedBatch",
    "Head",
    "HeadScores",
    "LoadedModel",
    "Pattern",
    "Sentence",
    "TrainerCallback",
    "__version__",
    "ablate",
    "classify",
    "compare",
    "explain",
    "finish",
    "head",
    "heads",
    "load",
    "models",
    "pairs",
    "patterns",
    "plot",
    "predictive",
    "profile",
    "report",
    "serve",
    "shard",
    "show",
    "similar",
    "syntax",
    "trace",
    "with_reading",
]

# No module of this package may have one of these names: importing it would put it in the
# function's place.
_HOMES = {
    "api.about": ("models", "patterns"),
    "api.many_pairs": ("finish", "heads", "load", "profile", "shard"),
    "api.one_head": ("explain", "head"),
    "api.one_input": ("classify", "predictive", "show"),
    "api.studies": ("ablate", "compare", "similar"),
    "api.syntax": ("syntax",),
    "api.pairs_as_read": ("pairs",),
    "api.pictures_and_pages": ("plot", "report"),
    "api.readings": ("with_reading",),
    "api.training": ("TrainerCallback", "trace"),
    "errors": ("AttnscanError",),
    "inputs.batch": ("EncodedBatch",),
    "inputs.sentence": ("Sentence",),
    "model.loading": ("LoadedModel",),
    "results.attention": ("Attention",),
    "results.grid": ("Head",),
    "results.heads": ("HeadScores",),
    "scoring.patterns": ("PATTERNS", "Pattern"),
    "server.serving": ("serve",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            globals()[name] = getattr(import_module(f"attnscan.{home}"), name)
            return globals()[name]
    raise AttributeError(f"module 'attnscan' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _show_heads(result: Any) -> str:
    from attnscan.api.rendering import show_heads

    return show_heads(result)


def _show_cards(cards: Any) -> str:
    from attnscan.api.rendering import show_cards

    return show_cards(cards)


def _write_page(result: Any) -> str:
    from attnscan.api.rendering import write_page

    return write_page(result)


RENDERERS |= {"HeadScores": _show_heads, "Cards": _show_cards}
PAGES["HeadScores"] = _write_page

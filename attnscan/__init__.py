"""attnscan: which attention head does what.

    import attnscan
    attnscan.classify("I went to the store.", "At the store, I bought fresh strawberries.")

The names below are looked up when they are first used, so that `import attnscan` needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from attnscan.__version__ import __version__

if TYPE_CHECKING:
    from attnscan.api.many_pairs import finish, heads, load, profile, shard
    from attnscan.api.one_input import classify, predictive, show
    from attnscan.api.studies import ablate, compare, explain, head, models, patterns, similar, syntax
    from attnscan.api.views import plot, report
    from attnscan.errors import AttnscanError
    from attnscan.inputs.batch import EncodedBatch, EncodedInput
    from attnscan.inputs.sentence import Sentence
    from attnscan.model.catalog import Catalog
    from attnscan.model.loaded import LoadedModel
    from attnscan.results.ablation import Ablation
    from attnscan.results.attention import Attention
    from attnscan.results.behaviour import Labels, Statements
    from attnscan.results.card import Card, Cards, Example, Link, Look, Measure
    from attnscan.results.checkpoint import Checkpoint
    from attnscan.results.classification import Classification
    from attnscan.results.comparison import Comparison
    from attnscan.results.dependencies import Dependencies
    from attnscan.results.explanation import Explanations
    from attnscan.results.grid import AttentionKind, Grid, Head
    from attnscan.results.head_explanation import HeadExplanation
    from attnscan.results.head_weights import HeadWeights
    from attnscan.results.profile import Profile
    from attnscan.results.ranking import Leads, Ranking
    from attnscan.results.scores import Scores, ScoreTable
    from attnscan.results.signature import Reading, Signature
    from attnscan.results.similarity import Similarity
    from attnscan.results.syntax import Row, RowNumbers, Syntax
    from attnscan.scan.options import ScanOptions
    from attnscan.scan.state import ScanState
    from attnscan.scoring.patterns import PATTERNS, Pattern
    from attnscan.views.page.frame import Page

__all__ = [
    "PATTERNS",
    "Ablation",
    "Attention",
    "AttentionKind",
    "AttnscanError",
    "Card",
    "Cards",
    "Catalog",
    "Checkpoint",
    "Classification",
    "Comparison",
    "Dependencies",
    "EncodedBatch",
    "EncodedInput",
    "Example",
    "Explanations",
    "Grid",
    "Head",
    "HeadExplanation",
    "HeadWeights",
    "Labels",
    "Leads",
    "Link",
    "LoadedModel",
    "Look",
    "Measure",
    "Page",
    "Pattern",
    "Profile",
    "Ranking",
    "Reading",
    "Row",
    "RowNumbers",
    "ScanOptions",
    "ScanState",
    "ScoreTable",
    "Scores",
    "Sentence",
    "Signature",
    "Similarity",
    "Statements",
    "Syntax",
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
    "patterns",
    "plot",
    "predictive",
    "profile",
    "report",
    "shard",
    "show",
    "similar",
    "syntax",
]

# No module of this package may have one of these names: importing it would put it in the function's place.
_HOMES = {
    "api.many_pairs": ("finish", "heads", "load", "profile", "shard"),
    "api.one_input": ("classify", "predictive", "show"),
    "api.studies": ("ablate", "compare", "explain", "head", "models", "patterns", "similar", "syntax"),
    "api.views": ("plot", "report"),
    "errors": ("AttnscanError",),
    "inputs.batch": ("EncodedBatch", "EncodedInput"),
    "inputs.sentence": ("Sentence",),
    "model.loading": ("LoadedModel",),
    "results.ablation": ("Ablation",),
    "results.attention": ("Attention",),
    "model.catalog": ("Catalog",),
    "results.behaviour": ("Labels", "Statements"),
    "results.card": ("Card", "Cards", "Example", "Link", "Look", "Measure"),
    "results.checkpoint": ("Checkpoint",),
    "results.head_weights": ("HeadWeights",),
    "results.classification": ("Classification",),
    "results.comparison": ("Comparison",),
    "results.dependencies": ("Dependencies",),
    "results.explanation": ("Explanations",),
    "results.grid": ("AttentionKind", "Grid", "Head"),
    "results.head_explanation": ("HeadExplanation",),
    "results.profile": ("Profile",),
    "results.ranking": ("Leads", "Ranking"),
    "results.scores": ("ScoreTable", "Scores"),
    "results.signature": ("Reading", "Signature"),
    "results.similarity": ("Similarity",),
    "results.syntax": ("Row", "RowNumbers", "Syntax"),
    "scan.options": ("ScanOptions",),
    "scan.state": ("ScanState",),
    "scoring.patterns": ("PATTERNS", "Pattern"),
    "views.page.frame": ("Page",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"attnscan.{home}"), name)
    raise AttributeError(f"module 'attnscan' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

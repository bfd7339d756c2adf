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
    from attnscan.api import classify, classify_and_keep, explain, explain_over, rank_heads, score_weights
    from attnscan.errors import AttnscanError
    from attnscan.inputs.batch import EncodedBatch, EncodedInput
    from attnscan.results.attention import Attention
    from attnscan.results.classification import Classification
    from attnscan.results.explanation import Explanations, HeadExplanation
    from attnscan.results.ranking import Ranking
    from attnscan.results.scores import Scores, ScoreTable
    from attnscan.results.signature import Signature
    from attnscan.scan.options import ScanOptions
    from attnscan.scoring.patterns import PATTERNS, Pattern

__all__ = [
    "PATTERNS",
    "Attention",
    "AttnscanError",
    "Classification",
    "EncodedBatch",
    "EncodedInput",
    "Explanations",
    "HeadExplanation",
    "Pattern",
    "Ranking",
    "ScanOptions",
    "ScoreTable",
    "Scores",
    "Signature",
    "__version__",
    "classify",
    "classify_and_keep",
    "explain",
    "explain_over",
    "rank_heads",
    "score_weights",
]

# No module of this package may have one of these names: importing it would put it in the function's place.
_HOMES = {
    "api": ("classify", "classify_and_keep", "explain", "explain_over", "rank_heads", "score_weights"),
    "errors": ("AttnscanError",),
    "inputs.batch": ("EncodedBatch", "EncodedInput"),
    "results.attention": ("Attention",),
    "results.classification": ("Classification",),
    "results.explanation": ("Explanations", "HeadExplanation"),
    "results.ranking": ("Ranking",),
    "results.scores": ("ScoreTable", "Scores"),
    "results.signature": ("Signature",),
    "scan.options": ("ScanOptions",),
    "scoring.patterns": ("PATTERNS", "Pattern"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"attnscan.{home}"), name)
    raise AttributeError(f"module 'attnscan' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

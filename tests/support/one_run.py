"""One input through a model that is loaded for it."""

from attnscan.inputs.sentence import Pair
from attnscan.results.attention import Attention
from attnscan.results.heads import HeadScores
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner


def classify(pair: Pair, options: ScanOptions, *, keep: bool = False) -> HeadScores:
    """What every head does on one input."""
    with Scanner(options) as scanner:
        return scanner.classify(pair, keep=keep)


def classify_and_keep(pair: Pair, options: ScanOptions) -> tuple[HeadScores, Attention]:
    """The same, and its attention."""
    result = classify(pair, options, keep=True)
    assert result.attention is not None
    return result, result.attention

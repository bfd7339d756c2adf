"""What is kept of the pairs that were read."""

from __future__ import annotations

from dataclasses import replace

from scans import PAIRS

from attnscan.inputs.pairs import Pair
from attnscan.scan.options import ScanOptions
from attnscan.scan.seen import Seen


def test_the_sample_does_not_depend_on_order() -> None:
    options = ScanOptions(predictive_pairs=4)

    def sampled(pairs: list[Pair], seed: int = 0) -> set[Pair]:
        seen = Seen()
        for pair in pairs:
            seen = seen.and_then(pair, replace(options, seed=seed), truncated=False, skipped=False)
        return {pair for _, _, pair in seen.sample}

    assert sampled(PAIRS) == sampled(PAIRS[::-1]) == sampled(PAIRS * 2)
    assert len(sampled(PAIRS)) == 4 and sampled(PAIRS) != sampled(PAIRS, seed=1)

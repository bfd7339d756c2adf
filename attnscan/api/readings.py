"""Other readings of a result: by weight or by what heads carry, special tokens in or out.

A result has the reading that it was made by. The others are computed when they are asked for, from
the attention that it has kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from attnscan.api.signatures import library_function
from attnscan.results.heads import HeadScores
from attnscan.results.signature import EVERY_READING, AttentionView, By, Special


@library_function()
def with_reading(
    result: HeadScores, by: By | None = None, special: Special | None = None
) -> HeadScores:
    """A result with scores, labels and tables by another reading; what is None stays.

    Where the result has not got the reading, it is computed from all of the attention, as
    `classify` keeps it.

    Raises: OptionError if attention was not kept, or the model does not show what heads carry.
    """
    reading = AttentionView(by or result.reading.by, special or result.reading.special)
    return _compute(result, [reading]).select_reading(by, special)


def with_every_reading(result: HeadScores) -> HeadScores:
    """A result with every reading that its attention allows: what a page shows."""
    return _compute(result, EVERY_READING)


def _compute(result: HeadScores, readings: Sequence[AttentionView]) -> HeadScores:
    """Add those readings that the result lacks, and that can be computed from its attention."""
    if result.attention is None or result.scored_input is None:
        return result
    has_carried = result.attention.norms is not None
    missing = [
        reading
        for reading in readings
        if reading not in result.labels_by and (has_carried or not reading.carried)
    ]
    if not missing:
        return result
    from attnscan.scan.one_input import add_readings

    return add_readings(result, missing)

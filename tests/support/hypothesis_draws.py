"""How often a property is tried: as often as written by default, and a quarter of that in `make
test`.
"""

from hypothesis import settings

ALL = 100  # Hypothesis's own number, which the profile `quick` in conftest.py makes smaller


def draws(most: int) -> int:
    """So many examples where all are tried, and their share of the profile's where fewer are."""
    return max(1, most * settings().max_examples // ALL)

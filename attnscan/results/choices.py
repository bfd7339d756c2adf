"""What the options of studies may be, and their defaults, which results and the command line share.

No numpy.
"""

from typing import Literal

Side = Literal["A", "B"]
"""Which sentence of a pair."""
Replacement = Literal["zero", "mean"]
"""What takes the place of a switched-off head's output.

Nothing, or its mean over the words of the measured pairs."""
Match = Literal["place", "nearest"]
"""Which heads of two models belong together: those of one place, or the most alike."""

MEASURES = ("masked-lm", "next-sentence", "classifier", "cls")  # ways to see what an encoder loses
TARGET_MEASURE = "target"  # the way to see what a model loses that writes a target
N_CONTROL_SETS = 20
"""Sets of other heads, at most, that a set which is switched off is compared with."""
QUERIES = 16  # words of an input whose attention is compared between heads
MAX_DIVERGENCE = 0.1  # in nats: heads of one group are on average no farther apart than this
MIN_DIFFERENCE = 0.02
"""The least difference between two models' scores that survives, unless another is given."""

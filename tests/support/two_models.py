"""Two toy models that differ by construction, and pairs to compare them on."""

from __future__ import annotations

from attnscan.inputs.sentence import Pair

PAIRS = [
    Pair("the cat sat on the mat", "a dog ran"),
    Pair("i went to the store .", "the store"),
    Pair("a cat", "the cat ran"),
    Pair("the dog sat , a cat ran", "the dog"),
]
BEFORE = {(0, 0): "next-word", (0, 1): "delimiter", (1, 2): "previous-word", (1, 3): "identical"}
AFTER = {(0, 0): "next-word", (0, 3): "delimiter", (1, 2): "delimiter", (1, 1): "previous-word", (1, 0): "identical"}

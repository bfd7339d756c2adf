"""Where a result comes from, by what heads were read, and what identifies its input. No numpy, for a quick start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

from attnscan.results.terms import counted
from attnscan.safe_text import plain

By = Literal["weight", "carried"]
"""Attention weights, or what heads carry: weight times the norm of the transformed value, as a share of its row."""
Special = Literal["in", "out"]
"""Special tokens as keys, or removed: each row is then renormalised over words."""


@dataclass(frozen=True)
class Reading:
    """Which rows of a head are read: its attention weights or what it carries, with special tokens in or out."""

    by: By = "weight"
    special: Special = "out"

    @property
    def carried(self) -> bool:
        """Whether it is of what heads carry, and not of their weights."""
        return self.by == "carried"

    @property
    def among_words(self) -> bool:
        """Whether special tokens are removed, and rows renormalised over words."""
        return self.special == "out"

    def __str__(self) -> str:
        by = "by what heads carry" if self.carried else "by attention weight"
        return f"{by}, {'among words' if self.among_words else 'with special tokens'}"


IN_MEMORY = " (in memory)"  # the end of what a model is called that a program gave, and no name can load
USUAL = Reading()  # how every command reads attention unless something else is asked
AS_THEY_ARE = Reading("weight", "in")  # what `show` and the page's views show unless something else is asked


@dataclass(frozen=True)
class Signature:
    """Where a result comes from: what has to be equal for two results to be compared."""

    model: str  # as it was named
    revision: str | None  # the hub's commit of it
    attnscan: str
    torch: str
    transformers: str | None  # None for saved weights
    dtype: str
    device: str
    unit: str  # `token` or `word`
    pattern_set: str  # changes with a pattern's meaning; says of which attention it is, if not of an encoder's
    input_hash: str
    read_by: str  # how weights were had: `tap`, `watch` or `file`
    predictive: str  # how predictive words were found: `cpmi`, `distance` or `off`
    pairs_read: int = 0
    pairs_truncated: int = 0
    pairs_skipped: int = 0
    by: By = "weight"
    special: Special = "out"
    fingerprint: str | None = None  # of weights, config, modules and tokenizer; not taken for one input
    layers: tuple[int, ...] = ()  # the numbers of the layers that have attention, where others have none

    @property
    def title(self) -> str:
        """The model's name for people: not the place where it lies, and of `bundled` what that is."""
        if self.model == "bundled":
            return "all-MiniLM-L6-v2"
        path = PurePath(self.model)
        return path.name if path.name and (path.is_absolute() or self.model[0] in ".~") else self.model

    @property
    def reading(self) -> Reading:
        """By what heads are scored, shown and drawn."""
        return Reading(self.by, self.special)

    @property
    def counts(self) -> str:
        """How many pairs were read, and of these cut and skipped, if any were."""
        cut = f", {self.pairs_truncated:,} cut" if self.pairs_truncated else ""
        skipped = f", {self.pairs_skipped:,} skipped" if self.pairs_skipped else ""
        return counted(self.pairs_read, "pair") + cut + skipped


def described(result: Any, *more: str) -> str:
    """What `repr` says of a result, in place of whole arrays: its class, the model, how many pairs were read."""
    return plain(", ".join([f"{type(result).__name__} of {result.signature.model}", result.signature.counts, *more]))

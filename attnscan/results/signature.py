"""Where a result comes from: model, versions, options, input, and the reading of attention."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any, Literal

from attnscan.inputs.option import Option, check_within
from attnscan.results.lazy import pd
from attnscan.results.schemas import Table
from attnscan.text import counted, plain

By = Literal["weight", "carried"]
"""Attention weights, or what heads carry.

That is weight times the norm of the transformed value, as a share of its row."""
Special = Literal["in", "out"]
"""Special tokens as keys, or removed: each row is then renormalised over words."""


@dataclass(frozen=True)
class AttentionView:
    """Which rows of a head are read.

    Its attention weights or what it carries, with special tokens in or out.
    """

    by: By = "weight"
    special: Special = "out"

    @property
    def carried(self) -> bool:
        """Whether it is of what heads carry, and not of their weights."""
        return self.by == "carried"

    @property
    def words_only(self) -> bool:
        """Whether special tokens are removed, and rows renormalised over words."""
        return self.special == "out"

    def __str__(self) -> str:
        by = "by what heads carry" if self.carried else "by attention weight"
        keys = "among words" if self.words_only else "with special tokens"
        return f"{by}, {keys}"


EVERY_READING = (
    AttentionView("weight", "in"),
    AttentionView("weight", "out"),
    AttentionView("carried", "in"),
    AttentionView("carried", "out"),
)
DEFAULT_VIEW = AttentionView()  # how every command reads attention unless something else is asked
RAW_VIEW = AttentionView("weight", "in")
"""What `show` and the page's views show unless something else is asked."""
IN_MEMORY = " (in memory)"
"""The end of the name of a model that a program passed in, which no name can load."""


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
    pattern_set: str
    """Changes with a pattern's meaning; says of which attention it is, if not of an encoder's."""
    input_hash: str
    read_by: str  # how weights were read: `tap`, `watch` or `file`
    predictive: str  # how predictive words were found: `cpmi`, `distance` or `off`
    pairs_read: int = 0
    pairs_truncated: int = 0
    pairs_skipped: int = 0
    by: By = "weight"
    special: Special = "out"
    fingerprint: str | None = None
    """Of weights, config, modules and tokenizer; not taken for one input."""
    layers: tuple[int, ...] = ()
    """The numbers of the layers that have attention, where others have none."""

    @property
    def title(self) -> str:
        """The model's name for people: not its place on a disk, and of `bundled` what that is."""
        if self.model == "bundled":
            return "all-MiniLM-L6-v2"
        path = PurePath(self.model)
        is_place = path.is_absolute() or self.model[0] in ".~"
        return path.name if path.name and is_place else self.model

    @property
    def reading(self) -> AttentionView:
        """By what heads are scored, shown and drawn."""
        return AttentionView(self.by, self.special)

    @property
    def counts(self) -> str:
        """How many pairs were read, and of these cut and skipped, if any were."""
        parts = [counted(self.pairs_read, "pair")]
        if self.pairs_truncated:
            parts.append(f"{self.pairs_truncated:,} cut")
        if self.pairs_skipped:
            parts.append(f"{self.pairs_skipped:,} skipped")
        return ", ".join(parts)


def signed_frame(rows: Any, signature: Signature, table: Table, **about: Any) -> pd.DataFrame:
    """A result's table of rows or columns, the model in front; `table` declares its columns.

    Its `attrs` hold the schema, the signature and what the table is `about`.
    """
    frame = pd.DataFrame(rows)
    frame.insert(0, "model", signature.model)
    frame.attrs |= {"schema": table.id, "signature": asdict(signature), **about}
    return frame


def check_top(top: int | None) -> None:
    """Raises: OptionError for a number of rows that is not one or more."""
    if top is not None:
        check_within("top", top, Option("", least=1), whole=True)


def describe(result: Any, *details: str) -> str:
    """What `repr` says of a result, in place of whole arrays.

    Its class, the model, and how many pairs were read.
    """
    signature = result.signature
    name = f"{type(result).__name__} of {signature.model}"
    return plain(", ".join([name, signature.counts, *details]))

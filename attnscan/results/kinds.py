"""What was found of each kind of attention of an encoder-decoder, side by side. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from attnscan.results.terms import AttentionName

if TYPE_CHECKING:
    import pandas as pd


class _Tabled(Protocol):
    def to_frame(self, *columns: Any, **options: Any) -> pd.DataFrame: ...


Of = TypeVar("Of", bound=_Tabled)


@dataclass(frozen=True)
class OfKinds(Mapping[AttentionName, Of], Generic[Of]):
    """A result for each kind: `results["cross"]` is what `attention="cross"` gives."""

    results: Mapping[AttentionName, Of]
    """Of the encoder, which reads the source alone, of the decoder, and across."""

    def __getitem__(self, kind: AttentionName) -> Of:
        return self.results[kind]

    def __iter__(self) -> Iterator[AttentionName]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def to_frame(self, *columns: Any, **options: Any) -> pd.DataFrame:
        """The tables of all kinds as one, told by the column `kind`; takes what `to_frame` of each takes."""
        from attnscan.results.tables import of_kinds

        return of_kinds([result.to_frame(*columns, **options) for result in self.values()])

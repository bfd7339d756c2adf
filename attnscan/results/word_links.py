"""Which words heads of cross attention link, a line for each pair, as tools for alignments read."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from attnscan.results.grid import Head
from attnscan.results.lazy import pd
from attnscan.results.signature import Signature, describe


@dataclass(frozen=True)
class WordLinks:
    """The links that a head makes between the words of pairs, or that most of several heads make.

    `alignments=` of other functions takes the `lines`.
    """

    heads: tuple[Head, ...]
    lines: tuple[str, ...]
    """Of each record of the pairs its links, such as "0-0 1-2": source word and target word.

    Empty for a record without links, or one that was skipped."""
    signature: Signature

    __repr__ = describe

    def to_pharaoh(self) -> str:
        """The text of a file of links, a line a record."""
        return "".join(f"{line}\n" for line in self.lines)

    def to_frame(self) -> pd.DataFrame:
        """One row for each link: which record it is of, from 1, its source and target word."""
        rows = [
            (number, *map(int, link.split("-")))
            for number, line in enumerate(self.lines, 1)
            for link in line.split()
        ]
        frame = pd.DataFrame(rows, columns=["pair", "source", "target"], dtype="int64")
        frame.insert(0, "model", self.signature.model)
        names = [head.name for head in self.heads]
        frame.attrs |= {"signature": asdict(self.signature), "heads": names}
        return frame

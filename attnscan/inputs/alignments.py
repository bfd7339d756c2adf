"""Gold alignments, as Pharaoh writes them: a line a pair, such as `0-0 1-2`, source word to target word.

Links are kept as a tag of the target's words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from attnscan.errors import InputError, PairsError
from attnscan.inputs.sentence import Pair, Place, Record, Sentence

if TYPE_CHECKING:
    from attnscan.inputs.sentence import EncodedInput

_TAG = "aligned"


@dataclass(frozen=True)
class Alignments:
    """The lines of a file of alignments, in the order of the records of the pairs."""

    path: str
    lines: tuple[str, ...]

    @classmethod
    def read(cls, path: Path | str) -> Alignments:
        """Read a file. Raises: PairsError if it cannot be."""
        try:
            return cls(str(path), tuple(Path(path).read_text(encoding="utf-8-sig").splitlines()))
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8"
            raise PairsError(f"cannot read the alignments {path}: {why}", "give a text file, a line a pair") from None

    def of_one(self, pair: Pair) -> Pair:
        """A pair that is alone, with the links of the only line. Raises: PairsError."""
        (record,) = self.linked(iter([Record(pair, "the input", place=Place(row=1))]))
        return record.pair

    def linked(self, records: Iterator[Record], *, to_the_end: bool = True) -> Iterator[Record]:
        """Records whose targets know their links, those in the line of the record's number. Raises: PairsError."""
        number, files, short = 0, set[str](), f"{self.path} has {len(self.lines)} lines, and"
        remedy = "give one file of pairs, and a line of links for each of its pairs"
        for record in records:
            number = record.place.row
            files.add(record.place.file)
            if number > len(self.lines) or len(files) > 1:
                raise PairsError(f"{short} there is a pair {number}, or pairs are in several files", remedy)
            try:
                yield replace(record, pair=linked(record.pair, self.lines[number - 1]))
            except InputError as error:
                raise PairsError(f"{self.path}:{number}: {error.what}", error.remedy) from None
        if to_the_end and number < len(self.lines):
            raise PairsError(f"{short} the pairs end with pair {number}", remedy)


def linked(pair: Pair, line: str) -> Pair:
    """A pair whose target's words, given or between spaces, know their source words. Raises: InputError."""
    if len(pair.sentences) < 2:
        raise InputError("the pair has no target, whose words could be aligned", "give pairs of source and target")
    source, target = pair.by_spaces.sentences
    sources, targets = len(source.words or ()), len(target.words or ())
    links: list[set[int]] = [set() for _ in range(targets)]
    for link in line.split():
        ends = re.fullmatch("([0-9]{1,6})-([0-9]{1,6})", link)
        if ends is None or int(ends[1]) >= sources or int(ends[2]) >= targets:
            what = f"'{link[:40]}' links no words of {sources} in the source and {targets} in the target"
            raise InputError(what, "write links as 0-0 1-2, source word to target word, counted from 0 between spaces")
        links[int(ends[2])].add(int(ends[1]))
    tags = {**target.tags, _TAG: [" ".join(map(str, sorted(words))) or None for words in links]}
    return Pair(source, Sentence(target.text, target.words, tags))


def linked_as(pair: Pair, other: Pair) -> Pair:
    """A pair with the links of another; as it is if its source or its target has another number of words."""
    sentences = pair.by_spaces.sentences
    if [len(own.words or ()) for own in sentences] != [len(own.words or ()) for own in other.sentences]:
        return pair
    return Pair(sentences[0], replace(sentences[1], tags=other.sentences[1].tags))


def links_of(pair: Pair) -> Iterator[tuple[int, list[int]]]:
    """The number of each linked word of a target, and those of its source words; none of a pair without links."""
    tags = pair.sentences[-1].tags.get(_TAG, ())
    yield from ((word, list(map(int, str(tag).split()))) for word, tag in enumerate(tags) if tag is not None)


def unit_links(encoded: EncodedInput) -> tuple[tuple[int, int], ...]:
    """The links of an input's units: one of the target, and one of the source; none where no links are known."""
    if encoded.pair is None or not encoded.source or not encoded.words:
        return ()
    linked, first = dict(links_of(encoded.pair)), encoded.unit[encoded.source]
    words = list(enumerate(encoded.unit_words))
    return tuple(
        (unit, key) for unit, word in words[first:] if word in linked for key, to in words[:first] if to in linked[word]
    )

"""What files say of words: treebanks in CoNLL-U, the format of Universal Dependencies; gold alignments in Pharaoh's.

Words of a treebank are the numbered lines; of a multiword token each part has its own characters, and empty nodes are
not read. A sentence's tags are `upos`, `deprel`, `head` (the number of a word, from 0; None at the root) and
`document`. Alignments have a line a pair, such as `0-0 1-2`, source word to target word; links are kept as a tag of the
target's words.
"""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import groupby
from pathlib import Path

from attnscan.errors import InputError, PairsError
from attnscan.inputs.sentence import (
    EncodedInput,
    Pair,
    Place,
    Record,
    Sentence,
    Span,
    Tag,
    bad_record,
)
from attnscan.text import hashed

_TAG = "aligned"  # the tag of a target's words: the numbers of their source words
_COMMENT = re.compile(r"#\s*(newdoc|sent_id|text)\b(?:\s+id)?(?:\s*=\s*(.*))?")
_Line = namedtuple("_Line", "where id form lemma upos xpos feats head deprel deps misc")
"""A line of a word or of a multiword token: the file and the number of the line, and its cells."""


def trees_of(lines: Iterator[str], name: str) -> Iterator[Record | PairsError]:
    """The sentences of a file, with blank lines between; a PairsError in the place of a bad one."""
    document = None
    numbered = ((f"{name}:{number}", line.strip("\r\n")) for number, line in enumerate(lines, 1))
    blocks = (
        list(block) for is_full, block in groupby(numbered, lambda line: line[1] != "") if is_full
    )
    for number, block in enumerate(blocks, 1):
        where = block[0][0]
        comments = {match[1]: match[2] for _, line in block if (match := _COMMENT.match(line))}
        if (
            "newdoc" in comments
        ):  # one without an id goes by its first sentence, wherever the file lies
            document = (
                comments["newdoc"] or hashed("\n".join(line for _, line in block).encode())[:16]
            )
        try:
            pair = Pair(_sentence(block, comments.get("text"), document))
            yield Record(pair, where, place=Place(name, number, comments.get("sent_id")))
        except InputError as error:
            yield error if isinstance(error, PairsError) else bad_record(where, error.what)


def _sentence(block: Sequence[tuple[str, str]], text: str | None, document: str | None) -> Sentence:
    """Raises: PairsError with the line of what is wrong."""
    words: list[_Line] = []
    surface: list[
        tuple[_Line, int]
    ] = []  # what stands in the text: words and multiword tokens, with their last words
    for where, content in block:
        cells = content.split("\t")
        if content.startswith("#") or re.fullmatch(r"\d+\.\d+", cells[0]):
            continue
        if len(cells) != 10:
            raise bad_record(where, f"its number of columns is {len(cells)}, where CoNLL-U has 10")
        line, covered = _Line(where, *cells), surface[-1][1] if surface else 0
        token = re.fullmatch(r"(\d{1,6})-(\d{1,6})", line.id)
        if token and int(token[1]) == len(words) + 1 > covered and int(token[1]) <= int(token[2]):
            surface.append((line, int(token[2])))
        elif line.id == str(len(words) + 1):
            words.append(line)
            if covered < len(words):
                surface.append((line, len(words)))
        else:
            raise bad_record(
                where, f"its number is {line.id!r:.20}, where word {len(words) + 1} follows"
            )
    if not words or surface[-1][1] > len(words):
        raise bad_record(
            block[-1][0], "the sentence ends without words, or without those of its last token"
        )
    if text is None:
        text = "".join(
            line.form + " " * ("SpaceAfter=No" not in line.misc.split("|")) for line, _ in surface
        ).strip()
    tags: dict[str, Sequence[Tag]] = {
        name: [getattr(word, name) for word in words] for name in ("upos", "deprel")
    }
    tags |= {"head": _heads(words), "document": [document] * len(words)}
    return Sentence(text, _spans(words, surface, text), tags)


def _heads(words: Sequence[_Line]) -> list[int | None]:
    """Of each word the number of its head, from 0; None at the root. Raises: PairsError for what is no tree."""
    heads: list[int] = []
    for word in words:
        if not re.fullmatch("[0-9]{1,6}", word.head) or int(word.head) > len(words):
            what = f"the head of word {word.id} ({word.form!r:.30}) is {word.head!r:.20}, and words are 1 to"
            raise bad_record(
                word.where, f"{what} {len(words)}: only treebanks with trees can be read"
            )
        heads.append(int(word.head) - 1)
    if heads.count(-1) != 1:
        raise bad_record(
            words[0].where, f"{heads.count(-1)} words have the head 0, and a tree has one root"
        )
    try:
        TopologicalSorter({word: (head,) for word, head in enumerate(heads)}).prepare()
    except CycleError as error:
        circle = sorted(set(error.args[1]))
        numbers = ", ".join(words[word].id for word in circle[:9])
        raise bad_record(
            words[circle[0]].where, f"the heads of words {numbers} go in a circle"
        ) from None
    return [None if head < 0 else head for head in heads]


def _spans(words: Sequence[_Line], surface: Sequence[tuple[_Line, int]], text: str) -> list[Span]:
    """Which characters each word is; the parts of a token that are not spelled in it leave all to its first word."""
    spans, at = list[Span](), 0
    for line, last in surface:
        at += len(text[at:]) - len(text[at:].lstrip())
        if not text.startswith(line.form, at):
            raise bad_record(
                line.where,
                f"the form is {line.form!r:.30}, and the text goes on with {text[at:][:20]!r}",
            )
        parts = [word.form for word in words[len(spans) : last]]
        if "".join(parts) != line.form:
            parts = [line.form, *[""] * (len(parts) - 1)]
        for part in parts:
            spans.append((at, at + len(part)))
            at += len(part)
    if tail := text[at:].strip():
        raise bad_record(words[-1].where, f"the text goes on with {tail[:20]!r} after all forms")
    return spans


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
            raise PairsError(
                f"cannot read the alignments {path}: {getattr(error, 'strerror', None) or 'it is not UTF-8'}",
                "give a text file, a line a pair",
            ) from None

    def link_single(self, pair: Pair) -> Pair:
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
                raise PairsError(
                    f"{short} there is a pair {number}, or pairs are in several files", remedy
                )
            try:
                yield replace(record, pair=link_words(record.pair, self.lines[number - 1]))
            except InputError as error:
                raise PairsError(f"{self.path}:{number}: {error.what}", error.remedy) from None
        if to_the_end and number < len(self.lines):
            raise PairsError(f"{short} the pairs end with pair {number}", remedy)


def link_words(pair: Pair, line: str) -> Pair:
    """A pair whose target's words, given or between spaces, know their source words. Raises: InputError."""
    if len(pair.sentences) < 2:
        raise InputError(
            "the pair has no target, whose words could be aligned",
            "give pairs of source and target",
        )
    source, target = pair.by_spaces.sentences
    sources, targets = len(source.words or ()), len(target.words or ())
    links: list[set[int]] = [set() for _ in range(targets)]
    for link in line.split():
        ends = re.fullmatch("([0-9]{1,6})-([0-9]{1,6})", link)
        if ends is None or int(ends[1]) >= sources or int(ends[2]) >= targets:
            raise InputError(
                f"'{link[:40]}' links no words of {sources} in the source and {targets} in the target",
                "write links as 0-0 1-2, source word to target word, counted from 0 between spaces",
            )
        links[int(ends[2])].add(int(ends[1]))
    tags = {**target.tags, _TAG: [" ".join(map(str, sorted(words))) or None for words in links]}
    return Pair(source, Sentence(target.text, target.words, tags))


def copy_links(pair: Pair, linked: Pair) -> Pair:
    """A pair with the links of another; as it is if its source or its target has another number of words."""
    spaced = pair.by_spaces
    counts, other_counts = (
        [len(text.words or ()) for text in texts.sentences] for texts in (spaced, linked)
    )
    if counts != other_counts:
        return pair
    return Pair(spaced.sentences[0], replace(spaced.sentences[1], tags=linked.sentences[1].tags))


def links_of(pair: Pair) -> Iterator[tuple[int, list[int]]]:
    """The number of each linked word of a target, and those of its source words; none of a pair without links."""
    tags = pair.sentences[-1].tags.get(_TAG, ())
    yield from (
        (word, list(map(int, str(tag).split()))) for word, tag in enumerate(tags) if tag is not None
    )


def unit_links(encoded: EncodedInput) -> tuple[tuple[int, int], ...]:
    """The links of an input's units: one of the target, and one of the source; none where no links are known."""
    if encoded.pair is None or not encoded.source or not encoded.words:
        return ()
    links, first = dict(links_of(encoded.pair)), encoded.unit[encoded.source]
    words = list(enumerate(encoded.unit_words))
    return tuple(
        (unit, key)
        for unit, word in words[first:]
        for key, linked in words[:first]
        if linked in links.get(word, ())
    )

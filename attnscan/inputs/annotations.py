"""What files say of words: treebanks in CoNLL-U, and gold alignments in Pharaoh's format.

CoNLL-U is the format of Universal Dependencies. Words of a treebank are the numbered lines; of a
multiword token each part has its own characters, and empty nodes are not read. A sentence's tags
are `upos`, `deprel`, `head` (the number of a word, from 0; None at the root) and `document`.

Alignments have a line a pair, such as `0-0 1-2`, source word to target word; links are kept as a
tag of the target's words.
"""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

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
_LINK = re.compile("([0-9]{1,6})-([0-9]{1,6})")
_COMMENT = re.compile(r"#\s*(newdoc|sent_id|text)(?:\s+id)?\s*(?:=\s*(.*))?")
_Line = namedtuple("_Line", "where id form lemma upos xpos feats head deprel deps misc")
"""A line of a word or of a multiword token: the file and the number of the line, and its cells."""
_Block = Sequence[tuple[str, str]]
"""The lines of a sentence, each with the file and the number of the line."""


class _Surface(NamedTuple):
    """What stands in the text: a word, or a token of several words."""

    line: _Line
    last: int
    """The number of its last word, from 1."""


def read_trees(lines: Iterator[str], name: str) -> Iterator[Record | PairsError]:
    """The sentences of a file, with blank lines between; a PairsError in the place of a bad one."""
    document = None
    for number, block in enumerate(_blocks(lines, name), 1):
        where = block[0][0]
        comments = _comments(block)
        if "newdoc" in comments:
            document = comments["newdoc"] or _content_hash(block)
        try:
            pair = Pair(_sentence(block, comments.get("text"), document))
            yield Record(pair, where, place=Place(name, number, comments.get("sent_id")))
        except PairsError as error:
            yield error
        except InputError as error:
            yield bad_record(where, error.what)


def _blocks(lines: Iterator[str], name: str) -> Iterator[_Block]:
    """The lines between blank ones."""
    block: list[tuple[str, str]] = []
    for number, line in enumerate(lines, 1):
        content = line.strip("\r\n")
        if content:
            block.append((f"{name}:{number}", content))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _comments(block: _Block) -> dict[str, str | None]:
    """The comments that are read, by their names; None for one without a value."""
    matches = (_COMMENT.fullmatch(line) for _, line in block)
    return {match[1]: match[2] for match in matches if match}


def _content_hash(block: _Block) -> str:
    """The name of a document without an id: by its first sentence, wherever the file lies."""
    return hashed("\n".join(line for _, line in block).encode())[:16]


def _sentence(block: _Block, text: str | None, document: str | None) -> Sentence:
    """Raises: PairsError with the line of what is wrong."""
    words, surface = _words_and_surface(block)
    if text is None:
        text = _joined_forms(surface)
    tags: dict[str, Sequence[Tag]] = {
        "upos": [word.upos for word in words],
        "deprel": [word.deprel for word in words],
        "head": _heads(words),
        "document": [document] * len(words),
    }
    return Sentence(text, _spans(words, surface, text), tags)


def _words_and_surface(block: _Block) -> tuple[list[_Line], list[_Surface]]:
    """The words of a sentence, and what stands in its text. Raises: PairsError."""
    words: list[_Line] = []
    surface: list[_Surface] = []
    for where, content in block:
        cells = content.split("\t")
        if content.startswith("#") or re.fullmatch(r"\d+\.\d+", cells[0]):
            continue
        if len(cells) != 10:
            raise bad_record(where, f"its number of columns is {len(cells)}, where CoNLL-U has 10")
        line = _Line(where, *cells)
        covered = surface[-1].last if surface else 0
        last = _last_word(line, len(words) + 1) if covered <= len(words) else None
        if last is not None:
            surface.append(_Surface(line, last))
        elif line.id == str(len(words) + 1):
            words.append(line)
            if covered < len(words):
                surface.append(_Surface(line, len(words)))
        else:
            raise bad_record(
                where, f"its number is {line.id!r:.20}, where word {len(words) + 1} follows"
            )
    if not words or surface[-1].last > len(words):
        raise bad_record(
            block[-1][0], "the sentence ends without words, or without those of its last token"
        )
    return words, surface


def _last_word(line: _Line, first: int) -> int | None:
    """The number of the last word of a multiword token that begins with word `first`; else None."""
    numbers = re.fullmatch(r"(\d{1,6})-(\d{1,6})", line.id)
    if numbers is None or int(numbers[1]) != first or int(numbers[2]) < first:
        return None
    return int(numbers[2])


def _joined_forms(surface: Sequence[_Surface]) -> str:
    """The text of a sentence that has no comment with it."""
    parts = []
    for line, _ in surface:
        has_space = "SpaceAfter=No" not in line.misc.split("|")
        parts.append(f"{line.form} " if has_space else line.form)
    return "".join(parts).strip()


def _heads(words: Sequence[_Line]) -> list[int | None]:
    """The number of each word's head, from 0; None at the root. Raises: PairsError for no tree."""
    heads: list[int] = []
    for word in words:
        if not re.fullmatch("[0-9]{1,6}", word.head) or int(word.head) > len(words):
            head = f"the head of word {word.id} ({word.form!r:.30}) is {word.head!r:.20}"
            raise bad_record(
                word.where,
                f"{head}, and words are 1 to {len(words)}: only treebanks with trees can be read",
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


def _spans(words: Sequence[_Line], surface: Sequence[_Surface], text: str) -> list[Span]:
    """Which characters each word is.

    The parts of a token that are not spelled in it leave all to its first word.
    """
    spans: list[Span] = []
    at = 0
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
    tail = text[at:].strip()
    if tail:
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
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise PairsError(
                f"cannot read the alignments {path}: {reason}",
                "give a text file, a line a pair, such as 0-0 1-2",
            ) from None
        return cls(str(path), tuple(text.splitlines()))

    def link_single(self, pair: Pair) -> Pair:
        """A pair that is alone, with the links of the only line. Raises: PairsError."""
        (record,) = self.linked(iter([Record(pair, "the input", place=Place(row=1))]))
        return record.pair

    def linked(self, records: Iterator[Record], *, to_the_end: bool = True) -> Iterator[Record]:
        """Records whose targets know their links, those in the line of the record's number.

        Raises: PairsError.
        """
        number = 0
        files: set[str] = set()
        short = f"{self.path} has {len(self.lines)} lines, and"
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


def words_to_link(pair: Pair) -> Pair:
    """A source and its target with the words that links are between: given, or between spaces.

    Raises: InputError.
    """
    if len(pair.sentences) < 2:
        raise InputError(
            "the pair has no target, whose words could be aligned",
            "give pairs of source and target",
        )
    return pair.by_ascii_spaces


def link_words(pair: Pair, line: str) -> Pair:
    """A pair whose target's words, given or between spaces, know their source words.

    Raises: InputError.
    """
    source, target = words_to_link(pair).sentences
    sources = len(source.words or ())
    targets = len(target.words or ())
    links: list[set[int]] = [set() for _ in range(targets)]
    for link in line.split():
        ends = _LINK.fullmatch(link)
        if ends is None or int(ends[1]) >= sources or int(ends[2]) >= targets:
            numbers = f"{sources} in the source and {targets} in the target"
            raise InputError(
                f"'{link[:40]}' links no words of {numbers}",
                "write links as 0-0 1-2, source word to target word, counted from 0 between spaces",
            )
        links[int(ends[2])].add(int(ends[1]))
    tags = {**target.tags, _TAG: [_tag(words) for words in links]}
    return Pair(source, Sentence(target.text, target.words, tags))


def _tag(source_words: set[int]) -> str | None:
    """The tag of a target's word by the numbers of its source words; None if it has none."""
    return " ".join(map(str, sorted(source_words))) or None


def copy_links(pair: Pair, linked: Pair) -> Pair:
    """A pair with the links of another; as it is if it has another number of words."""
    spaced = pair.by_ascii_spaces
    if _word_counts(spaced) != _word_counts(linked):
        return pair
    source, target = spaced.sentences
    return Pair(source, replace(target, tags=linked.sentences[1].tags))


def _word_counts(pair: Pair) -> list[int]:
    return [len(sentence.words or ()) for sentence in pair.sentences]


def is_links(text: str) -> bool:
    """Whether a text is links, such as "0-0 1-2", in one line or several.

    >>> is_links("0-0 1-2"), is_links("links.txt"), is_links(" ")
    (True, False, False)
    """
    links = text.split()
    return bool(links) and all(map(_LINK.fullmatch, links))


def pharaoh_line(links: Iterable[tuple[int, int]]) -> str:
    """Links as a line of alignments: source and target word, in the order of the target.

    >>> pharaoh_line([(2, 0), (0, 1)])
    '2-0 0-1'
    """
    in_order = sorted(links, key=lambda link: link[::-1])
    return " ".join(f"{source}-{target}" for source, target in in_order)


def has_links(pair: Pair | None) -> bool:
    """Whether the gold links of a pair's words are known, though there may be none."""
    return pair is not None and _TAG in pair.sentences[-1].tags


def links_of(pair: Pair) -> Iterator[tuple[int, list[int]]]:
    """The number of each linked word of a target, and those of its source words."""
    tags = pair.sentences[-1].tags.get(_TAG, ())
    for word, tag in enumerate(tags):
        if tag is not None:
            yield word, [int(number) for number in str(tag).split()]


def unit_links(encoded: EncodedInput) -> tuple[tuple[int, int], ...]:
    """The links of an input's units: one of the target, and one of the source.

    None where no links are known.
    """
    if encoded.pair is None or not encoded.source or not encoded.words:
        return ()
    source_words = dict(links_of(encoded.pair))
    words = encoded.unit_words
    first_of_target = encoded.unit[encoded.source]
    links = []
    for unit in range(first_of_target, len(words)):
        linked = source_words.get(words[unit], ())
        links += [(unit, key) for key in range(first_of_target) if words[key] in linked]
    return tuple(links)

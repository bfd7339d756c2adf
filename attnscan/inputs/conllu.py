"""CoNLL-U, the format of Universal Dependencies: sentences with their words, parts of speech, heads and relations.

Words are the numbered lines; of a multiword token each part has its own characters, and empty nodes are not read. A
sentence's tags are `upos`, `deprel`, `head` (the number of a word, from 0; None at the root) and `document`.
"""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import groupby

from attnscan.errors import InputError, PairsError
from attnscan.inputs.sentence import Pair, Place, Record, Sentence, Span, Tag, bad_record
from attnscan.text import hashed

_COMMENT = re.compile(r"#\s*(newdoc|sent_id|text)\b(?:\s+id)?(?:\s*=\s*(.*))?")
_Line = namedtuple("_Line", "where id form lemma upos xpos feats head deprel deps misc")
"""A line of a word or of a multiword token: the file and the number of the line, and its cells."""


def trees_of(lines: Iterator[str], name: str) -> Iterator[Record | PairsError]:
    """The sentences of a file, with blank lines between; a PairsError in the place of a bad one."""
    document = None
    numbered = ((f"{name}:{number}", line.strip("\r\n")) for number, line in enumerate(lines, 1))
    blocks = (list(block) for is_full, block in groupby(numbered, lambda line: line[1] != "") if is_full)
    for number, block in enumerate(blocks, 1):
        where = block[0][0]
        comments = {match[1]: match[2] for _, line in block if (match := _COMMENT.match(line))}
        if "newdoc" in comments:  # one without an id goes by its first sentence, wherever the file lies
            document = comments["newdoc"] or hashed("\n".join(line for _, line in block).encode())[:16]
        try:
            pair = Pair(_sentence(block, comments.get("text"), document))
            yield Record(pair, where, place=Place(name, number, comments.get("sent_id")))
        except InputError as error:
            yield error if isinstance(error, PairsError) else bad_record(where, error.what)


def _sentence(block: Sequence[tuple[str, str]], text: str | None, document: str | None) -> Sentence:
    """Raises: PairsError with the line of what is wrong."""
    words: list[_Line] = []
    surface: list[tuple[_Line, int]] = []  # what stands in the text: words and multiword tokens, with their last words
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
            raise bad_record(where, f"its number is {line.id!r:.20}, where word {len(words) + 1} follows")
    if not words or surface[-1][1] > len(words):
        raise bad_record(block[-1][0], "the sentence ends without words, or without those of its last token")
    if text is None:
        parts = (line.form + " " * ("SpaceAfter=No" not in line.misc.split("|")) for line, _ in surface)
        text = "".join(parts).strip()
    tags: dict[str, Sequence[Tag]] = {name: [getattr(word, name) for word in words] for name in ("upos", "deprel")}
    tags |= {"head": _heads(words), "document": [document] * len(words)}
    return Sentence(text, _spans(words, surface, text), tags)


def _heads(words: Sequence[_Line]) -> list[int | None]:
    """Of each word the number of its head, from 0; None at the root. Raises: PairsError for what is no tree."""
    heads: list[int] = []
    for word in words:
        if not re.fullmatch("[0-9]{1,6}", word.head) or int(word.head) > len(words):
            what = f"the head of word {word.id} ({word.form!r:.30}) is {word.head!r:.20}, and words are 1 to"
            raise bad_record(word.where, f"{what} {len(words)}: only treebanks with trees can be read")
        heads.append(int(word.head) - 1)
    if heads.count(-1) != 1:
        raise bad_record(words[0].where, f"{heads.count(-1)} words have the head 0, and a tree has one root")
    try:
        TopologicalSorter({word: (head,) for word, head in enumerate(heads)}).prepare()
    except CycleError as error:
        circle = sorted(set(error.args[1]))
        numbers = ", ".join(words[word].id for word in circle[:9])
        raise bad_record(words[circle[0]].where, f"the heads of words {numbers} go in a circle") from None
    return [None if head < 0 else head for head in heads]


def _spans(words: Sequence[_Line], surface: Sequence[tuple[_Line, int]], text: str) -> list[Span]:
    """Which characters each word is; the parts of a token that are not spelled in it leave all to its first word."""
    spans, at = list[Span](), 0
    for line, last in surface:
        at += len(text[at:]) - len(text[at:].lstrip())
        if not text.startswith(line.form, at):
            raise bad_record(line.where, f"the form is {line.form!r:.30}, and the text goes on with {text[at:][:20]!r}")
        parts = [word.form for word in words[len(spans) : last]]
        if "".join(parts) != line.form:
            parts = [line.form, *[""] * (len(parts) - 1)]
        for part in parts:
            spans.append((at, at + len(part)))
            at += len(part)
    if rest := text[at:].strip():
        raise bad_record(words[-1].where, f"the text goes on with {rest[:20]!r} after all forms")
    return spans

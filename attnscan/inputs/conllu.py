"""CoNLL-U, the format of Universal Dependencies: sentences with their words, parts of speech, heads and relations.

Words are the numbered lines; of a multiword token each part has its own characters, and empty nodes are not read. A
sentence's tags are `upos`, `deprel`, `head` (the number of a word, from 0; None at the root) and `document`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from attnscan.errors import PairsError
from attnscan.hashing import hashed
from attnscan.inputs.sentence import Sentence, Span, Tag, bad_record

_COLUMNS = 10
_ID, _FORM, _UPOS, _HEAD, _DEPREL, _MISC = 0, 1, 3, 6, 7, 9
_COMMENT = re.compile(r"#\s*(newdoc|sent_id|text)\b(?:\s+id)?(?:\s*=\s*(.*))?")
_RANGE = re.compile(r"(\d{1,6})-(\d{1,6})")
_EMPTY_NODE = re.compile(r"\d+\.\d+")
_NAMED = 4  # words of a circle
_ROOT = -1

Line = tuple[int, str]
"""A line of the file with its number, from 1."""
_Words = Sequence[tuple[int, list[str]]]
"""The line of each word, and its cells."""
_Tokens = dict[int, tuple[int, int, list[str]]]
"""Multiword tokens by their first word: the line, the last word, the cells."""


def is_conllu(line: str) -> bool:
    r"""Whether a file begins as treebanks do.

    >>> is_conllu("# newdoc id = weblog"), is_conllu("1\tI\tI\tPRON\t_\t_\t2\tnsubj\t_\t_"), is_conllu("a\tb")
    (True, True, False)
    """
    return _COMMENT.match(line) is not None or (line.split("\t")[0] == "1" and line.count("\t") == _COLUMNS - 1)


def sentences_of(
    blocks: Iterable[list[Line] | PairsError], name: str
) -> Iterator[tuple[int, int, Sentence, str | None] | PairsError]:
    """The number, line, sentence and `sent_id` of each block; a PairsError in the place of a bad one."""
    document = None
    for number, block in enumerate(blocks, 1):
        if isinstance(block, PairsError):
            yield block
            continue
        said = {match[1]: match[2] for _, line in block if (match := _COMMENT.match(line))}
        if "newdoc" in said:  # one without an id goes by its first sentence, wherever the file lies
            document = said["newdoc"] or hashed("\n".join(line for _, line in block).encode())[:16]
        try:
            yield number, block[0][0], _sentence(block, name, said.get("text"), document), said.get("sent_id")
        except PairsError as error:
            yield error


def blocks_of(lines: Iterator[str]) -> Iterator[list[Line]]:
    """The lines of each sentence, without the blank ones between."""
    block: list[Line] = []
    number = 0
    for number, text in enumerate(lines, 1):
        if line := text.strip("\r\n"):
            block.append((number, line))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _sentence(block: Sequence[Line], name: str, text: str | None, document: str | None) -> Sentence:
    """Raises: PairsError with the line of what is wrong."""
    words: list[tuple[int, list[str]]] = []
    tokens: _Tokens = {}
    covered = 0  # the last word of the last token
    for number, line in block:
        if line.startswith("#"):
            continue
        cells, where = line.split("\t"), f"{name}:{number}"
        if len(cells) != _COLUMNS:
            columns = f"{len(cells)} column{'s' * (len(cells) != 1)}"
            raise bad_record(where, f"{columns}, where CoNLL-U has {_COLUMNS} with a tab between")
        if _EMPTY_NODE.fullmatch(cells[_ID]):
            continue
        if match := _RANGE.fullmatch(cells[_ID]):
            first, last = map(int, match.groups())
            if first != len(words) + 1 or last < first or first <= covered:
                raise bad_record(where, f"the token {cells[_ID]} does not stand before its words")
            tokens[first], covered = (number, last, cells), last
        elif cells[_ID] != str(len(words) + 1):
            raise bad_record(where, f"the word {cells[_ID]!r:.20}, where {len(words) + 1} follows")
        else:
            words.append((number, cells))
    if not words:
        raise bad_record(f"{name}:{block[0][0]}", "a sentence without words")
    for number, last, cells in tokens.values():
        if last > len(words):
            raise bad_record(f"{name}:{number}", f"the token {cells[_ID]} has words that are not there")
    heads = _heads(words, name)
    if text is None:
        text = _rebuilt(words, tokens)
    tags: dict[str, list[Tag]] = {
        "upos": [cells[_UPOS] for _, cells in words],
        "deprel": [cells[_DEPREL] for _, cells in words],
        "head": list(heads),
        "document": [document] * len(words),
    }
    return Sentence(text, _spans(words, tokens, text, name), tags)


def _heads(words: _Words, name: str) -> list[int | None]:
    """Of each word the number of its head, from 0; None at the root. Raises: PairsError for what is no tree."""
    heads: list[int] = []
    for number, cells in words:
        where, word = f"{name}:{number}", f"word {cells[_ID]} ({cells[_FORM]!r:.30})"
        head = cells[_HEAD]
        if head == "_":
            raise PairsError(f"{where}: {word} has no head", "give a treebank with trees, not tagged text alone")
        if not head.isascii() or not head.isdecimal() or len(head) > 9 or int(head) > len(words):
            raise bad_record(where, f"the head of {word} is {head!r:.20}, and words are 1 to {len(words)}")
        heads.append(int(head) - 1)
    if (roots := heads.count(_ROOT)) != 1:
        last = max((i for i, head in enumerate(heads) if head == _ROOT), default=0)
        what = f"{roots} words have the head 0, and a tree has one root"
        raise bad_record(f"{name}:{words[last][0]}", what)
    try:
        TopologicalSorter({word: (head,) for word, head in enumerate(heads)}).prepare()
    except CycleError as error:
        circle = sorted(set(error.args[1]))
        more = f" and {len(circle) - _NAMED} more" if len(circle) > _NAMED else ""
        numbers = ", ".join(words[i][1][_ID] for i in circle[:_NAMED])
        raise bad_record(
            f"{name}:{words[circle[0]][0]}", f"the heads of words {numbers}{more} go in a circle"
        ) from None
    return [None if head == _ROOT else head for head in heads]


def _surface(words: _Words, tokens: _Tokens) -> Iterator[tuple[int, int, list[str]]]:
    """What stands in the text, in its order: the first word, the number of words, and the cells of a line."""
    at = 1
    while at <= len(words):
        if at in tokens:
            _, last, cells = tokens[at]
            yield at - 1, last + 1 - at, cells
            at = last + 1
        else:
            yield at - 1, 1, words[at - 1][1]
            at += 1


def _rebuilt(words: _Words, tokens: _Tokens) -> str:
    """The text of a sentence that does not say it: forms with spaces between, but where SpaceAfter=No."""
    forms = (
        cells[_FORM] + " " * ("SpaceAfter=No" not in cells[_MISC].split("|")) for _, _, cells in _surface(words, tokens)
    )
    return "".join(forms).strip()


def _spans(words: _Words, tokens: _Tokens, text: str, name: str) -> list[Span]:
    """Which characters each word is; the parts of a token that are not spelled in it leave all to its first word.

    Raises: PairsError where the forms are not those of the text.
    """
    spans: list[Span] = []
    at = 0
    for first, count, cells in _surface(words, tokens):
        form, number = cells[_FORM], words[first][0]
        while text[at : at + 1].isspace():
            at += 1
        if not text.startswith(form, at):
            what = f"the text goes on with {text[at : at + 20]!r} where the form is {form!r:.30}"
            raise bad_record(f"{name}:{number}", what)
        parts = [words[first + i][1][_FORM] for i in range(count)]
        if "".join(parts) != form:
            parts = [form, *[""] * (count - 1)]
        for part in parts:
            spans.append((at, at + len(part)))
            at += len(part)
    if text[at:].strip():
        raise bad_record(f"{name}:{words[-1][0]}", f"the text goes on with {text[at:].strip()[:20]!r} after all forms")
    return spans

"""Sentences, or pairs, with links between their words: of a file of JSON lines, or of a treebank.

A line is such as `{"text": "Anna lost her keys.", "links": [["coref", 2, 0]]}`, in which `her`, the
query, is linked with `Anna`, its target. `text_b` is a second sentence; words are numbered through
both from 0. `words` are those of both sentences in order, else what stands between spaces; `tags`
has a tag for each word, such as its part of speech; `document` names what the line is of.

The links of a treebank's sentence are those of its words with their heads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from numbers import Integral
from typing import Any

from attnscan.errors import InputError, PairsError, nearest
from attnscan.inputs.json_records import parse_json
from attnscan.inputs.report import FileReport
from attnscan.inputs.sentence import (
    NO_WORD,
    EncodedInput,
    Link,
    Pair,
    Place,
    Record,
    Sentence,
    Span,
    Tag,
    bad_record,
)

_KEYS = ("text", "text_b", "words", "links", "tags", "document")
_TREE_TAGS = {"head", "deprel", "upos"}
_LINK_FORM = '["coref", 5, 1]: a relation, the number of a query word and that of its target'
_LONGEST_NAME = 100
_NAME = f"string of at most {_LONGEST_NAME} printable characters"
_UNDECODED = re.compile("[\udc80-\udcff]")
"""What `decode_lines` leaves of bytes that are not UTF-8."""


def read_links(
    items: Iterable[tuple[str, Any]], report: FileReport
) -> Iterator[Record | PairsError]:
    """Records of parsed lines, each with where it is; a PairsError in the place of a bad one."""
    unread: set[str] = set()
    for number, (where, item) in enumerate(items, 1):
        if isinstance(item, PairsError):
            yield item
            continue
        try:
            _check_keys(item)
            pair = _pair_of(item)
        except InputError as error:
            yield bad_record(where, error.what)
            continue
        report.records += 1
        for link in pair.links or ():
            report.links[link.relation] += 1
        others = [key for key in item if key not in _KEYS and key not in unread]
        if others:
            unread.update(others)
            report.note(f"the keys {', '.join(others)} are not read")
        yield Record(pair, where, place=Place(report.file, number))


def parse_lines(lines: Iterable[str], name: str) -> Iterator[tuple[str, Any]]:
    """The value of each line that is not blank, with where it is; or a PairsError for it."""
    for number, line in enumerate(lines, 1):
        where = f"{name}:{number}"
        if _UNDECODED.search(line):
            yield where, bad_record(where, "it is not UTF-8: save the file as UTF-8")
        elif line.strip():
            yield where, parse_json(line, where)


def _check_keys(item: Any) -> None:
    """Raises: InputError for what has no text or no links, or a key that is misspelled."""
    if not isinstance(item, Mapping):
        raise _bad(f'it is {item!r:.40}, where {{"text": ..., "links": [...]}} is expected')
    for key in item:
        if not isinstance(key, str):
            raise _bad(f"its key {key!r:.40} is no string")
        hint = nearest(key, [name for name in _KEYS if name not in item], "")
        if key not in _KEYS and hint:
            raise _bad(f"its key is '{key:.40}': {hint}")
    for key in ("text", "links"):
        if key not in item:
            raise _bad(f"its '{key}' is missing")


def _bad(reason: str) -> InputError:
    """The error for a record, which is yet to be placed."""
    return InputError(reason, "correct it")


def _pair_of(item: Mapping[str, Any]) -> Pair:
    """Raises: InputError."""
    texts = [item["text"]]
    if item.get("text_b") is not None:
        texts.append(item["text_b"])
    for key, text in zip(("text", "text_b"), texts, strict=False):
        if not isinstance(text, str):
            raise _bad(f"its '{key}' is {text!r:.40}, and no string")
    plain = Pair(*texts)
    words = item.get("words")
    if words is None:
        spans = [list(sentence.words or ()) for sentence in plain.by_spaces.sentences]
    else:
        spans = _find_words(_list_of_strings("words", words), texts)
    count = sum(map(len, spans))
    tags = _tags(item.get("tags"), count)
    document = _document(item.get("document"))
    sentences = []
    first = 0
    for text, sentence_spans in zip(texts, spans, strict=True):
        last = first + len(sentence_spans)
        word_tags: dict[str, Sequence[Tag]] = {"document": [document] * len(sentence_spans)}
        if tags is not None:
            word_tags["tag"] = tags[first:last]
        sentences.append(Sentence(text, sentence_spans, word_tags))
        first = last
    return Pair(*sentences, links=_links(item["links"], count))


def _list_of_strings(key: str, values: Any) -> list[str]:
    if not isinstance(values, list | tuple):
        raise _bad(f"its '{key}' is {values!r:.40}, and no list")
    for value in values:
        if not isinstance(value, str):
            raise _bad(f"its '{key}' has {value!r:.40} in it, which is no string")
    return list(values)


def _find_words(words: Sequence[str], texts: Sequence[str]) -> list[list[Span]]:
    """Which characters of its sentence each word is; the words are those of all sentences, in
    order.

    No letter and no digit may stand between two words, so that each word has one place. An empty
    word has no characters.
    """
    spans: list[list[Span]] = [[] for _ in texts]
    side = 0
    at = 0
    for number, word in enumerate(words):
        start = _start_of(word, texts[side], at)
        is_last = side == len(texts) - 1
        if start is None and not is_last and not _has_letters(texts[side][at:]):
            side += 1
            at = 0
            start = _start_of(word, texts[side], at)
        if start is None:
            rest = texts[side][at:].lstrip()[:20]
            raise _bad(f"its word {number} is {word!r:.30}, and the text goes on with {rest!r}")
        at = start + len(word)
        spans[side].append((start, at))
    rest = " ".join([texts[side][at:], *texts[side + 1 :]]).strip()
    if _has_letters(rest):
        raise _bad(f"the text goes on with {rest[:20]!r} behind its last word")
    return spans


def _start_of(word: str, text: str, at: int) -> int | None:
    """Where a word begins in the rest of a text; None if letters or digits come before it."""
    start = text.find(word, at)
    if start < 0 or _has_letters(text[at:start]):
        return None
    return start


def _has_letters(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _tags(values: Any, count: int) -> list[str | None] | None:
    """A tag for each of so many words, None for a word without one; None if there are no tags."""
    if values is None:
        return None
    if not isinstance(values, list | tuple) or len(values) != count:
        size = len(values) if isinstance(values, list | tuple) else "no list"
        raise _bad(f"its 'tags' are {size}, and its words {count}: give a tag for each word")
    for value in values:
        if value is not None and not _is_name(value):
            raise _bad(f"its 'tags' have {value!r:.40} in it, which is no {_NAME}")
    return list(values)


def _is_name(value: Any) -> bool:
    """Whether a value can name a relation or a tag: sums are kept by these names."""
    return isinstance(value, str) and value.isprintable() and len(value) <= _LONGEST_NAME


def _document(value: Any) -> str | None:
    is_name = isinstance(value, str | int) and not isinstance(value, bool)
    if value is not None and not is_name:
        raise _bad(f"its 'document' is {value!r:.40}, and no string")
    return None if value is None else str(value)


def _links(values: Any, count: int) -> list[Link]:
    """The links of a record of so many words."""
    if not isinstance(values, list | tuple):
        raise _bad(f"its 'links' is {values!r:.40}, and no list")
    return [_link(value, count) for value in values]


def _link(value: Any, count: int) -> Link:
    shown = f"its link {value!r:.60}"
    if not isinstance(value, list | tuple) or len(value) != 3:
        raise _bad(f"{shown} is none such as {_LINK_FORM}")
    relation, *ends = value
    if not _is_name(relation) or not relation.partition(":")[0].strip():
        raise _bad(f"the relation of {shown} is no {_NAME} that is not blank")
    for end in ends:
        if not isinstance(end, Integral) or isinstance(end, bool):
            raise _bad(f"{shown} has {end!r:.20}, which is not the number of a word")
        if not 0 <= int(end) < count:
            raise _bad(f"{shown} has the word {end}, and its {count} words are numbered from 0")
    query, target = map(int, ends)
    if query == target:
        raise _bad(f"{shown} leads from a word to itself")
    return Link(relation, query, target)


def links_in(pair: Pair) -> Sequence[Link]:
    """The links of a pair or, if none are given, of a treebank's words with their heads.

    >>> tags = {"head": [1, None], "deprel": ["nsubj", "root"]}
    >>> links_in(Pair(Sentence("Dogs bark", [(0, 4), (5, 9)], tags)))
    [Link(relation='nsubj', query=0, target=1)]
    """
    if pair.links is not None:
        return pair.links
    tags = pair.sentences[0].tags
    links = []
    for word, (head, relation) in enumerate(zip(tags["head"], tags["deprel"], strict=True)):
        if isinstance(head, int) and str(relation).partition(":")[0] != "root":
            links.append(Link(str(relation), word, head))
    return links


def has_links(pair: Pair) -> bool:
    """Whether a pair has links, or a sentence a tree, from which links follow."""
    return pair.links is not None or has_tree(pair)


def has_tree(pair: Pair) -> bool:
    """Whether a pair is a sentence of a treebank."""
    sentence, *second = pair.sentences
    return not second and sentence.words is not None and set(sentence.tags) >= _TREE_TAGS


@dataclass(frozen=True)
class InputWords:
    """The words of an input by which links go, numbered through both sentences from 0."""

    texts: tuple[str, ...]
    """Without the difference of capitals and small letters."""
    tags: tuple[str | None, ...]
    """Such as parts of speech; None for a word without one."""
    units: Mapping[int, int]
    """The unit of each word that has a token."""
    n_first: int
    """How many words the first sentence has."""

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.texts)


def input_words(encoded: EncodedInput) -> InputWords:
    """The words of an input."""
    sentences = encoded.known_pair.sentences
    texts: list[str] = []
    tags: list[str | None] = []
    for sentence in sentences:
        spans = sentence.words or ()
        texts += [sentence.text[first:last].casefold() for first, last in spans]
        values = sentence.tags.get("tag", sentence.tags.get("upos", [None] * len(spans)))
        tags += [None if value is None else str(value) for value in values]
    n_first = len(sentences[0].words or ())
    numbers = _through_both(n_first, encoded.unit_words, encoded.unit_sentence)
    return InputWords(
        texts=tuple(texts),
        tags=tuple(tags),
        units={word: unit for unit, word in enumerate(numbers) if word != NO_WORD},
        n_first=n_first,
    )


def token_words(encoded: EncodedInput) -> tuple[int, ...]:
    """Of each token the number of its word through both sentences, or NO_WORD."""
    n_first = len(encoded.known_pair.sentences[0].words or ())
    return tuple(_through_both(n_first, encoded.words, encoded.sentence))


def _through_both(n_first: int, words: Sequence[int], sides: Sequence[int]) -> Iterator[int]:
    """Numbers of words through both sentences, by those in each; the first one has `n_first`."""
    for word, side in zip(words, sides, strict=True):
        is_second = word != NO_WORD and side == 1
        yield word + n_first if is_second else word


def document_of(pair: Pair) -> str | None:
    """The name of the document that a pair is of; None if it has none."""
    values = chain.from_iterable(sentence.tags.get("document", ()) for sentence in pair.sentences)
    name = next(iter(values), None)
    return None if name is None else str(name)

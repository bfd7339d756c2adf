"""Links in the toy checkpoint's words, and treebanks written as links."""

import json
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

from support.toy_bert import NOUNS

from attnscan.inputs.read import read_pairs

LinkRecord = dict[str, Any]


def antecedents() -> list[LinkRecord]:
    """96 records such as `the cat sat . straw to i ran .`, in which `i` is linked with `cat`.

    A word of every kind may stand between the two, so that no fixed rule points from one to the
    other; and each word but the last is linked with the next one.
    """
    records = []
    for noun, straws, others in product(NOUNS, range(3), range(4)):
        for end in ("ran", "sat"):
            before = ["the", noun, "sat", "."]
            between = [*["straw"] * straws, *["to", "on", "to"][:others]]
            words = [*before, *between, "i", end, "."]
            query = len(before) + len(between)
            links: list[list[Any]] = [["coref", query, 1]]
            links += [["next", word, word + 1] for word in range(len(words) - 1)]
            tags = [_TAGS.get(word, "X") for word in words]
            text = " ".join(words)
            document = f"{noun} {straws}"
            records.append({"text": text, "links": links, "tags": tags, "document": document})
    return records


_TAGS = dict.fromkeys((*NOUNS, "straw"), "N") | {"sat": "V", "ran": "V", ".": "PUNCT"}


def as_links(treebank: str) -> list[LinkRecord]:
    """The sentences of a treebank as records of links."""
    records = []
    for record in read_pairs([treebank]):
        (sentence,) = record.pair.sentences
        tags = sentence.tags
        links = []
        for word, head in enumerate(tags["head"]):
            if head is not None:
                links.append([tags["deprel"][word], word, head])
        records.append(
            {
                "text": sentence.text,
                "words": [sentence.word(word) for word in range(len(sentence.words or ()))],
                "links": links,
                "tags": list(tags["upos"]),
                "document": tags["document"][0],
            }
        )
    return records


def written(path: Path, records: Iterable[LinkRecord]) -> str:
    """A file of JSON lines."""
    lines = [json.dumps(record, ensure_ascii=False) for record in records]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)

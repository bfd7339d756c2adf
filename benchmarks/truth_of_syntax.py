"""`attnscan syntax` a second time, without attnscan: reader, alignment, items, rules, errors and
trees in plain loops, of all heads together.

It reads the first 60 sentences of $TREEBANK, else of the one beside the project. `truth.py` runs
it.
"""

import itertools
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from by_loops import NAN, Checkpoint, Pieces, merged
from tally import ROOT, Tally, command, hash_of, head_of

TREEBANK = Path(
    os.environ.get("TREEBANK", ROOT.parent / "shared" / "treebanks" / "en_pud-ud-test.conllu")
)
COUNT = 60
FEWEST = 30
LEAST_LEFT = 1e-6
TAGS = (
    "ADJ",
    "ADP",
    "ADV",
    "AUX",
    "CCONJ",
    "DET",
    "INTJ",
    "NOUN",
    "NUM",
    "PART",
    "PRON",
    "PROPN",
    "PUNCT",
    "SCONJ",
    "SYM",
    "VERB",
    "X",
)
SAME_WORD = "same word"
SAME_PLACE = "same place"
RULES = [*itertools.product((*range(1, 11), *TAGS, SAME_WORD), (-1, 1)), (SAME_PLACE, 0)]
Key = tuple[str, str]
"""A row: relation and direction."""
Numbers = dict[str, np.ndarray]
"""By name. Shape: each [head]."""


class Tree:
    """A sentence of the treebank: text, spans, parts of speech, heads (from 0, None at the root),
    relations.
    """

    def __init__(self, block: list[str], document: str) -> None:
        self.text = next(line[len("# text = ") :] for line in block if line.startswith("# text = "))
        rows = [line.split("\t") for line in block if line[:1].isdecimal()]
        words = [row for row in rows if row[0].isdecimal()]
        joined = {
            int(row[0].split("-")[0]): row for row in rows if "-" in row[0]
        }  # such as "4-5 don't"
        self.upos = [c[3] for c in words]
        self.relation = [c[7] for c in words]
        self.head = [int(c[6]) - 1 if c[6] != "0" else None for c in words]
        self.document = document
        self.spans = list[tuple[int, int]]()
        at = 0
        i = 0
        while i < len(words):
            number, form = joined.get(i + 1, words[i])[:2]
            last = int(number.split("-")[-1])
            at = self.text.index(form, at)
            parts = [row[1] for row in words[i:last]]
            for part in parts if "".join(parts) == form else [form, *[""] * (last - i - 1)]:
                self.spans.append((at, at + len(part)))
                at += len(part)
            i = last

    @cached_property
    def words(self) -> list[str]:
        """Of each word its characters."""
        return [self.text[first:last] for first, last in self.spans]

    @cached_property
    def half(self) -> int:
        """As attnscan draws it: by the last bit of a hash of the text."""
        return int(hash_of("0", self.text)[-1], 16) & 1

    def items(self) -> Iterator[tuple[Key, int, list[int]]]:
        """Row, query, targets."""
        of: dict[tuple[str, int], list[int]] = defaultdict(list)
        for word, head in enumerate(self.head):
            name = self.relation[word].split(":")[0]
            for row in [] if head is None else [name] + ["all"] * (name != "punct"):
                yield (row, "dep->head"), word, [head]
                of[row, head].append(word)
        for (row, head), words in of.items():
            yield (row, "head->dep"), head, words


@dataclass(frozen=True)
class Item:
    """A word, with the words that a row's relation leads to from it.

    Arrays have the shape [head].
    """

    document: str
    sentence: int
    accuracy: np.ndarray
    rule_accuracy: float
    weight: np.ndarray
    weight_among_words: np.ndarray
    chance: float


def syntax(checkpoint: Checkpoint) -> Iterator[Tally]:
    """Every row of every head."""
    if not TREEBANK.exists():
        yield Tally("syntax: no treebank", why=f"set TREEBANK; there is no {TREEBANK}")
        return
    texts = TREEBANK.read_text(encoding="utf-8").split("\n\n")[:COUNT]
    read = []
    document = ""
    for block in (text.split("\n") for text in texts):
        document = next(
            (line.split("=")[1].strip() for line in block if line.startswith("# newdoc id")),
            document,
        )
        read.append(Tree(block, document))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "sixty.conllu"
        path.write_text("\n\n".join(texts) + "\n\n", encoding="utf-8")
        rows = command(
            "syntax", "--treebank", str(path), "--model", checkpoint.name, "--special", "in"
        )
    attention = []
    even = []
    for tree in read:
        encoding = checkpoint.tokenizer(tree.text, return_offsets_mapping=True)
        pieces = _align(encoding, tree)
        count = len(encoding["input_ids"])
        even.append(merged(np.full((count, count), 1 / count), pieces))
        weights = torch.cat(checkpoint.run(dict(encoding)).attentions).double().numpy()  # type: ignore[attr-defined]
        attention.append(merged(weights.reshape(-1, count, count), pieces))
    expected = {row: _numbers(items) for row, items in _items(read, even, attention).items()}
    uuas = _uuas(read, attention)
    tally = Tally("syntax: every row of every head")
    heads = checkpoint.shape[1]
    for row in rows:
        layer, head = head_of(row)
        key = row["relation"], row["direction"]
        for name, values in expected[key].items():
            value = values[layer * heads + head]
            tally.compare(f"{layer}-{head} {' '.join(key)} {name}", row[name], value)
        tally.compare(f"{layer}-{head} uuas", row["uuas"], uuas[layer * heads + head])
    yield tally


def _uuas(trees: Sequence[Tree], attention: Sequence[np.ndarray]) -> np.ndarray:
    """The share of each head's links that are right. Shape: each [head, word, word] -> [head]."""
    found = []
    for tree, of_heads in zip(trees, attention, strict=True):
        found.append([linked(tree.upos, tree.head, a) for a in of_heads])
    right, links = np.sum(found, 0).T
    return right / links


def _align(encoding: Any, tree: Tree) -> Pieces:
    """The tokens of each word: those that share most of their characters with it."""
    pieces: Pieces = [[] for _ in tree.spans]
    spans = encoding.pop("offset_mapping")
    for token, (first, last) in enumerate(spans):
        shared = [min(last, b) - max(first, a) for a, b in tree.spans]
        if encoding.sequence_ids(0)[token] is not None and max(shared) > 0:
            pieces[shared.index(max(shared))].append(token)
    return pieces


def pointed(
    words: Sequence[str], upos: Sequence[str], query: int, what: int | str, sign: int
) -> int | None:
    """The word to which a rule points; a sentence by itself has no other one."""
    if isinstance(what, int):
        return query + sign * what
    if what == SAME_PLACE:
        return None
    known = [word.casefold() for word in words] if what == SAME_WORD else upos
    wanted = known[query] if what == SAME_WORD else what
    numbers = range(query + 1, len(upos)) if sign > 0 else range(query - 1, -1, -1)
    return next((number for number in numbers if known[number] == wanted), None)


def _rules(read: Sequence[Tree]) -> dict[tuple[int, Key], tuple[int | str, int]]:
    """The best rule of each row for each half, by the other one."""
    counts: dict[tuple[int, Key], list[int]] = defaultdict(lambda: [0] * len(RULES))
    for tree in read:
        for row, query, targets in tree.items():
            for number, rule in enumerate(RULES):
                counts[1 - tree.half, row][number] += (
                    pointed(tree.words, tree.upos, query, *rule) in targets
                )
    rows = {row for _, row in counts}
    numbers = range(len(RULES))
    best = {}
    for half, row in itertools.product((0, 1), rows):
        best[half, row] = RULES[max(numbers, key=counts[half, row].__getitem__)]
    return best


def _items(
    trees: Sequence[Tree], even: Sequence[np.ndarray], attention: Sequence[np.ndarray]
) -> dict[Key, list[Item]]:
    """The items of each row. Shape of attention: each [head, word, word]."""
    rules = _rules(trees)
    items: dict[Key, list[Item]] = defaultdict(list)
    for number, (tree, by_chance, a) in enumerate(zip(trees, even, attention, strict=True)):
        left = a.sum(-1)
        others = a.copy()
        others[:, range(a.shape[-1]), range(a.shape[-1])] = -1
        seen = others.argmax(-1)  # Shape: [head, query]
        for row, query, targets in tree.items():
            place = pointed(tree.words, tree.upos, query, *rules[tree.half, row])
            weight = a[:, query, targets].sum(-1)
            enough = left[:, query] >= LEAST_LEFT
            items[row].append(
                Item(
                    document=tree.document,
                    sentence=number,
                    accuracy=np.isin(seen[:, query], targets).astype(float),
                    rule_accuracy=float(place in targets),
                    weight=weight,
                    weight_among_words=np.where(enough, weight / left[:, query], NAN),
                    chance=by_chance[query, targets].sum(),
                )
            )
    return items


def _numbers(items: Sequence[Item]) -> Numbers:
    """What a row says of every head: means over its items, NaN where they are of few sentences."""
    accuracy = np.array([item.accuracy for item in items])  # Shape: [item, head]
    rule_accuracy = np.array([item.rule_accuracy for item in items])
    gain = accuracy - rule_accuracy[:, None]
    off = gain - gain.mean(0)
    documents = [item.document for item in items]
    count = len(set(documents))
    spread = np.full(accuracy.shape[1], NAN)
    if count > 1:
        sums = [off[[d == document for d in documents]].sum(0) for document in set(documents)]
        spread = np.sqrt(count / (count - 1) * np.square(sums).sum(0))
    numbers = {
        "accuracy": accuracy.mean(0),
        "rule_accuracy": rule_accuracy.mean(),
        "weight": np.mean([item.weight for item in items], 0),
        "weight_among_words": np.nanmean([item.weight_among_words for item in items], 0),
        "chance": np.mean([item.chance for item in items]),
        "gain": gain.mean(0),
        "se": spread / len(items),
    }
    sentences = len({item.sentence for item in items})
    if sentences < FEWEST:
        numbers = dict.fromkeys(numbers, NAN)
    numbers |= {"n": len(items), "sentences": sentences}
    return {name: np.broadcast_to(value, spread.shape) for name, value in numbers.items()}


def linked(upos: Sequence[str], head: Sequence[int | None], a: np.ndarray) -> tuple[int, int]:
    """Links of the tree that Kruskal's maximum spanning tree has, and all, punctuation left out.

    Shape: `a` [word, word].
    """
    nodes = [w for w in range(len(a)) if upos[w] != "PUNCT"]
    group = {w: [w] for w in nodes}
    right = 0
    gold = {frozenset((w, head[w])) for w in nodes if head[w] in group}
    both = np.asarray(a) + np.transpose(a)
    edges = [(both[i, j], i, j) for i, j in itertools.combinations(nodes, 2)]
    for _, i, j in sorted(edges, reverse=True):
        if group[i] is not group[j]:
            joined = group[i] + group[j]
            group |= dict.fromkeys(joined, joined)
            right += frozenset((i, j)) in gold
    return right, len(gold)

"""`attnscan syntax` a second time, without attnscan: reader, alignment, items, rules, errors and
trees in plain loops.

It reads the first 60 sentences of $TREEBANK, else of the one beside the project. `truth.py` runs
it.
"""

import itertools
import math
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
from by_loops import Checkpoint, merged
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

    @property
    def words(self) -> list[str]:
        """Of each word its characters."""
        return [self.text[first:last] for first, last in self.spans]

    @property
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
    known = [(tree, *_by_words(checkpoint, tree)) for tree in read]
    rules = _rules(read)
    tally = Tally("syntax: every row of every head")
    for layer, head in sorted({head_of(row) for row in rows}):
        expected = _of_head(
            [(tree, even, attention[layer][head]) for tree, even, attention in known], rules
        )
        for row in (row for row in rows if head_of(row) == (layer, head)):
            key = row["relation"], row["direction"]
            for name, value in expected[key].items():
                tally.compare(f"{layer}-{head} {' '.join(key)} {name}", row[name], value)
            tally.compare(f"{layer}-{head} uuas", row["uuas"], expected["uuas", ""]["uuas"])
    yield tally


def _by_words(checkpoint: Checkpoint, tree: Tree):  # type: ignore[no-untyped-def]
    """Even attention and, by layer and head, attention between words; [word, word], and what
    special tokens get.
    """
    encoding = checkpoint.tokenizer(tree.text, return_offsets_mapping=True)
    owner = []
    for (first, last), special in zip(
        encoding.pop("offset_mapping"), encoding.sequence_ids(0), strict=True
    ):
        shared = [min(last, b) - max(first, a) for a, b in tree.spans]
        owner.append(-1 if special is None or max(shared) <= 0 else shared.index(max(shared)))
    pieces: list[list[int]] = [[] for _ in tree.spans]
    for i, word in enumerate(owner):
        if word >= 0:
            pieces[word].append(i)
    layers = [layer[0].tolist() for layer in checkpoint.run(dict(encoding)).attentions]  # type: ignore[attr-defined]
    even = [[1 / len(owner)] * len(owner)] * len(owner)
    words = []
    for layer in layers:
        words.append([merged(matrix, pieces) for matrix in layer])
    return merged(even, pieces), words


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


def _rules(read: list[Tree]) -> dict[tuple[int, Key], tuple[int | str, int]]:
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


def _of_head(known, rules):  # type: ignore[no-untyped-def]
    """What one head's rows are, by name."""
    items = []
    for number, (tree, even, a) in enumerate(known):
        for row, q, targets in tree.items():
            seen = max((k for k in range(len(a)) if k != q), key=lambda k, weights=a[q]: weights[k])
            weight = sum(a[q][k] for k in targets)
            left = sum(a[q])
            item = {
                "row": row,
                "document": tree.document,
                "sentence": number,
                "accuracy": float(seen in targets),
            }
            item |= {
                "rule_accuracy": float(
                    pointed(tree.words, tree.upos, q, *rules[tree.half, row]) in targets
                ),
                "weight": weight,
            }
            item |= {"weight_among_words": weight / left if left >= LEAST_LEFT else math.nan}
            items.append(item | {"chance": sum(even[q][k] for k in targets)})
    found = {
        row: _numbers(frame.drop(columns="row"))
        for row, frame in pd.DataFrame(items).groupby("row")
    }
    right, links = map(
        sum, zip(*(linked(tree.upos, tree.head, a) for tree, _, a in known), strict=True)
    )
    return found | {("uuas", ""): {"uuas": right / links}}


def _numbers(items: pd.DataFrame) -> dict[str, float]:
    """The means over a row's items; NaN where they are of few sentences."""
    numbers = items.drop(columns=["document", "sentence"]).mean().to_dict()
    numbers["gain"] = numbers["accuracy"] - numbers["rule_accuracy"]
    off = items["accuracy"] - items["rule_accuracy"] - numbers["gain"]
    by_document = off.groupby(items["document"]).sum()
    count = items["document"].nunique()
    spread = math.sqrt(count / (count - 1) * (by_document**2).sum()) if count > 1 else math.nan
    numbers["se"] = spread / len(items)
    if items["sentence"].nunique() < FEWEST:
        numbers = dict.fromkeys(numbers, math.nan)
    return {"n": len(items), "sentences": items["sentence"].nunique(), **numbers}


def linked(
    upos: Sequence[str], head: Sequence[int | None], a: Sequence[Sequence[float]]
) -> tuple[int, int]:
    """Links of the tree that Kruskal's maximum spanning tree has, and all, punctuation left out."""
    nodes = [w for w in range(len(a)) if upos[w] != "PUNCT"]
    group = {w: w for w in nodes}
    right = 0
    gold = {frozenset((w, head[w])) for w in nodes if head[w] in group}
    edges = [(a[i][j] + a[j][i], i, j) for i, j in itertools.combinations(nodes, 2)]
    for _, i, j in sorted(edges, reverse=True):
        if group[i] != group[j]:
            old = group[j]
            group = {w: group[i] if of == old else of for w, of in group.items()}
            right += frozenset((i, j)) in gold
    return right, len(gold)

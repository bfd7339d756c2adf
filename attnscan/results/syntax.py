"""Heads against links between words: accuracies, gains over fixed rules, and a statement of each.

After Clark et al., "What Does BERT Look At?" (BlackboxNLP 2019), section 4.2: the most attended
other word of a word is compared with its head in a dependency tree, or with its dependents; or with
the target of any other link, or with the words that ask for it. Numpy, no torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import OptionError, SelectionError, nearest
from attnscan.inputs.links import has_tree, links_in
from attnscan.inputs.sentence import Link, Pair
from attnscan.results.grid import Grid, Head, Heads
from attnscan.results.heads import HeadScores
from attnscan.results.intervals import half_width
from attnscan.results.lazy import pd
from attnscan.results.schemas import (
    MODEL_COLUMN,
    PLACE_COLUMNS,
    Column,
    Table,
)
from attnscan.results.scores import FloatArray, IntArray, best_first
from attnscan.results.signature import By, Signature, describe, signed_frame
from attnscan.text import counted

HEAD = "dep->head"  # the direction from a word to its head; of other links, to its target
DEPENDENT = "head->dep"  # and from a head to its dependents, or from a target to its queries
NOT_ALL = ("punct", "root")  # relations that are not among `all`
FARTHEST = 10  # words, of a rule that goes by distance
PARTS_OF_SPEECH = (
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
SIDES = ("before", "behind")
SAME_WORD = "same word"  # of a rule: written alike, capitals and small letters aside
SAME_PLACE = "same place"  # of a rule: in the other sentence
NO_TAG = "_"  # in place of a part of speech
_STEPS = (*range(1, FARTHEST + 1), *PARTS_OF_SPEECH, SAME_WORD)
RULES = (*(f"{step} {side}" for step, side in product(_STEPS, SIDES)), SAME_PLACE)
"""Fixed rules that heads are compared with.

The word so many words before or behind; the nearest of a part of speech on that side; the nearest
that is written like the query; of two sentences, the word at the same place in the other one. Other
tags than parts of speech make rules, too. Of equally good ones the first counts."""
MIN_SENTENCES = 30  # a relation in fewer has no numbers
FEW_SENTENCES = 200  # a treebank of fewer comes with a warning
HOLM_LEVEL = 0.05
MIN_WEIGHT = 0.1  # among words, of a head that is stated
MIN_TIMES_EVEN = 1.5
"""A stated head's weight on targets over that of even attention: untrained heads stay below 1.3."""
USUAL_SENTENCES = 8  # read beside their trees: the first ones unless they are chosen
MOST_SENTENCES = 50
_SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
NOTHING = "·"  # on maps: of a head without a statement

_GROUPS = {
    "argument": ("S", "nsubj csubj obj iobj ccomp xcomp expl"),
    "modifier": ("M", "amod advmod nmod nummod appos acl advcl obl dislocated vocative discourse"),
    "function word": ("F", "aux case cc clf cop det mark"),
    "part of a name or compound": ("W", "compound fixed flat goeswith"),
    "conjunct": ("C", "conj list parataxis orphan reparandum"),
    "punctuation": ("P", "punct"),
    "dependent": ("D", "all dep"),
    "link": ("L", ""),
}
"""Kinds of relations: the letter on maps, and the relations of Universal Dependencies.

All other relations are links."""
_GROUP: dict[str, str] = {}
for _group, (_, _relations) in _GROUPS.items():
    _GROUP |= dict.fromkeys(_relations.split(), _group)
_NAME = {
    "nsubj": "subject",
    "csubj": "clausal subject",
    "obj": "object",
    "iobj": "indirect object",
    "ccomp": "clausal complement",
    "xcomp": "open complement",
    "expl": "expletive",
    "obl": "oblique",
    "amod": "adjective",
    "advmod": "adverb",
    "nmod": "noun modifier",
    "nummod": "number",
    "appos": "apposition",
    "acl": "clause",
    "advcl": "adverbial clause",
    "aux": "auxiliary",
    "case": "adposition",
    "cc": "conjunction",
    "clf": "classifier",
    "cop": "copula",
    "det": "determiner",
    "mark": "subordinator",
    "conj": "conjunct",
    "compound": "part of a compound",
    "fixed": "part of a fixed phrase",
    "flat": "part of a name",
    "punct": "punctuation",
    "all": "dependent",
}
"""What a dependent is, in words."""
_HEADS = dict.fromkeys(
    ["nsubj", "csubj", "obj", "iobj", "ccomp", "xcomp", "expl", "obl", "advcl", "aux"], "verb"
)
_HEADS |= dict.fromkeys(["amod", "nmod", "nummod", "appos", "acl", "case", "clf", "det"], "noun")


TREE_COLUMNS = (
    Column("syntax_label", "the relation that the head follows most, if any", "text"),
    Column("syntax_statement", "what it follows, in words", "text"),
    Column("letter", "its letter on the map of syntax", "text"),
    Column("uuas", "share of the trees' links in the head's maximum spanning tree"),
    Column("chain_uuas", "that share for a tree that links each word with the next one"),
)
"""Of a head, in every table that says which relations it follows."""
SYNTAX_TABLE = Table(
    "syntax",
    "a head, by one relation of a treebank",
    (
        MODEL_COLUMN,
        *PLACE_COLUMNS,
        Column("relation", "the relation, or all", "text", is_key=True),
        Column("direction", "dep->head or head->dep", "text", is_key=True),
        Column("n", "words that were asked", "integer"),
        Column("sentences", "sentences that have any", "integer"),
        Column("accuracy", "share of words whose most attended other word is right"),
        Column("weight", "mean weight on the right words"),
        Column("weight_among_words", "that with special tokens removed"),
        Column("chance", "`weight` under even attention"),
        Column("rule", "the best fixed rule", "text"),
        Column("rule_accuracy", "how often the rule is right"),
        Column("gain", "`accuracy` less `rule_accuracy`"),
        Column("se", "standard error of the gain"),
        Column("p_holm", "of the gain, two-sided, after Holm over all heads and rows"),
        Column("holds", "whether the gain is above 0 by that test at 0.05", "flag"),
        Column("held_gain", "the gain in a second treebank"),
        Column("held_p_holm", "its p after Holm"),
        Column("held_holds", "whether it holds there", "flag"),
        Column("stated", "whether the head follows the relation", "flag"),
        *TREE_COLUMNS,
    ),
)


class Row(NamedTuple):
    """A relation in a direction, by which heads are scored."""

    relation: str  # as it is written, or `all` of them but `punct` and `root`
    direction: str  # `dep->head` or `head->dep`

    @property
    def universal(self) -> str:
        """The relation without its subtype."""
        return self.relation.partition(":")[0]

    @property
    def group(self) -> str:
        """The kind of relation, of which several make one statement."""
        return _GROUP.get(self.universal, "link")

    @property
    def head(self) -> str:
        """What the relation leads to: a head or, of other links than a treebank's, a target."""
        return "target" if self.group == "link" else "head"

    @property
    def letter(self) -> str:
        """On maps: of the group, small from a head to its dependents."""
        letter = _GROUPS[self.group][0]
        return letter if self.direction == HEAD else letter.lower()

    def words(self, *, of_group: bool = False) -> str:
        """The relation, or its group, in words.

        >>> Row("obj", HEAD).words(), Row("det", DEPENDENT).words()
        ('object → its verb', 'noun → its determiner')
        >>> Row("obj", HEAD).words(of_group=True)
        'argument → its head'
        >>> Row("coref", DEPENDENT).words()
        'target → its coref'
        """
        if of_group:
            head = self.head
            dependent = self.group
        else:
            head = _HEADS.get(self.universal, self.head)
            dependent = _NAME.get(self.universal, self.universal)
        if self.direction == HEAD:
            return f"{dependent} → its {head}"
        return f"{head} → its {dependent}"


@dataclass(frozen=True)
class Syntax:
    """Every head compared with every relation of a treebank, or of other links.

    NaN where a relation is in fewer than 30 sentences.

    Shape: arrays are [layer, head, row], unless they say otherwise.
    """

    rows: tuple[Row, ...]  # the relations and directions that heads are scored by
    n: IntArray  # eligible queries. Shape: [row], as of the next three
    met: IntArray  # sentences, or pairs, that have any
    rule: NDArray[np.str_]
    """Of `RULES`, or by another tag, the best on the other half.

    Where halves differ, that of more queries."""
    rule_accuracy: FloatArray
    """How often it points to a target, on the sentences that did not choose it; in [0, 1]."""
    accuracy: FloatArray  # share of queries whose most attended other word is a target, in [0, 1]
    weight: FloatArray  # mean weight on targets by the reading of the signature, in [0, 1]
    weight_among_words: FloatArray  # that with special tokens removed and rows renormalised
    chance: FloatArray  # `weight` under even attention
    gain: FloatArray  # `accuracy` less `rule_accuracy`
    se: FloatArray
    """The gain's standard error, clustered by document, or by sentence where there are none."""
    p_holm: FloatArray  # of the gain by Student's t, two-sided, after Holm over all heads and rows
    uuas: FloatArray
    """Share of links between words, punctuation aside, in the maximum spanning tree.

    NaN without trees. Shape: [layer, head]."""
    chain_uuas: float  # `uuas` of a tree that links every word with the next one
    clusters: int
    """Documents or, without these, sentences; blocks of them where there are very many."""
    row_clusters: IntArray  # those of them that have a query of each row. Shape: [row]
    words: int  # of all sentences
    wordless: int  # words without a token of their own, which are neither asked nor targets
    signature: Signature  # where the result comes from: model, versions, device, inputs
    held: Syntax | None = None  # what heads do on a second treebank, or links, if there are any

    __repr__ = describe

    @property
    def grid(self) -> Grid:
        """The heads."""
        return Grid(self.accuracy.shape[:2], layers=self.signature.layers)

    @property
    def sentences(self) -> int:
        """Those that were scored; of links, inputs of one sentence or two."""
        return self.signature.pairs_read - self.signature.pairs_skipped

    @property
    def has_trees(self) -> bool:
        """Whether heads were compared with a treebank, and not with other links alone."""
        return not np.isnan(self.chain_uuas)

    def count_inputs(self) -> str:
        """How many inputs were scored, in words: sentences, or of links also pairs of them."""
        return counted(self.sentences, "sentence" if self.has_trees else "input")

    @property
    def holds(self) -> NDArray[np.bool_]:
        """Which gains are above 0 by Holm's test at 0.05."""
        return np.asarray((self.p_holm < HOLM_LEVEL) & (self.gain > 0))  # false for NaN

    @cached_property
    def stated(self) -> NDArray[np.bool_]:
        """Which rows are statements: gains that hold, with weight on the targets.

        Punctuation makes none.
        """
        is_grammar = np.array([row.universal != "punct" for row in self.rows], dtype=bool)
        has_weight = self.weight_among_words >= MIN_WEIGHT
        beyond_even = self.weight >= MIN_TIMES_EVEN * self.chance
        return np.asarray(self.holds & has_weight & beyond_even & is_grammar)

    def held_values(self, name: str) -> FloatArray:
        """What the second inputs say, in the rows of the first; NaN where there is no such row."""
        values = np.full(self.accuracy.shape, np.nan)
        if self.held is None:
            return values
        held = getattr(self.held, name)
        for place, row in enumerate(self.rows):
            if row in self.held.rows:
                values[..., place] = held[..., self.held.rows.index(row)]
        return values

    @cached_property
    def main_rows(self) -> dict[Head, int]:
        """The row that states each head that has a statement.

        The largest gain, of single relations before `all`.
        """
        is_single = np.array([row.relation != "all" for row in self.rows], dtype=bool)
        worth = np.where(self.stated, self.gain + 2.0 * is_single, -np.inf)
        best = worth.argmax(-1)
        has_statement = np.asarray(self.stated.any(-1))
        return {head: int(best[head.place]) for head in self.grid if has_statement[head.place]}

    @cached_property
    def statements(self) -> dict[Head, str]:
        """What heads do, in words; heads with nothing to say are left out."""
        statements = {}
        for head, main in self.main_rows.items():
            main_row = self.rows[main]
            alike = {main_row}
            for place in np.flatnonzero(self.stated[head.place]):
                row = self.rows[place]
                if row.relation != "all" and row.letter == main_row.letter:
                    alike.add(row)
            statements[head] = main_row.words(of_group=len(alike) > 1)
        return statements

    def half_widths(self, frame: pd.DataFrame) -> FloatArray:
        """Half the 95 % intervals of the gains in a frame's rows; NaN of a single document."""
        clusters = dict(zip(self.rows, self.row_clusters.tolist(), strict=True))
        rows = map(Row, frame["relation"], frame["direction"])
        return half_width(frame["se"], [clusters[row] for row in rows])

    def letter(self, head: Head) -> str:
        """A head's mark on a map."""
        return self.rows[self.main_rows[head]].letter if head in self.main_rows else NOTHING

    def legend(self) -> list[str]:
        """What the letters on a map of the heads say, those that are there."""
        names = {letter: group for group, (letter, _) in _GROUPS.items()}
        names |= {letter.lower(): f"head of: {group}" for letter, group in names.items()}
        names["l"] = "target of: link"
        marks = {self.letter(head) for head in self.grid}
        legend = [f"{mark} {name}" for mark, name in names.items() if mark in marks]
        return [*legend, f"{NOTHING} nothing of these"]

    def order(self, row: int) -> IntArray:
        """The numbers of heads by accuracy, best first; none where a row has no numbers."""
        return best_first(self.accuracy[..., row])

    def to_frame(self, relation: str | None = None, heads: Heads | None = None) -> pd.DataFrame:
        """One row a head, relation and direction, of those named.

        Raises: SelectionError if one is not there.
        """
        if relation is not None:
            names = [row.relation for row in self.rows]
            check_relation(relation, names, is_treebank=self.has_trees)
        rows = [number for number, row in enumerate(self.rows) if relation in (None, row.relation)]
        selected = self.grid if heads is None else self.grid.select(heads)
        numbers = [self.grid.index(head) for head in selected]
        return self._frame(np.repeat(rows, len(numbers)), np.tile(numbers, len(rows)))

    def best(self) -> pd.DataFrame:
        """The best head of each relation and direction."""
        rows = []
        numbers = []
        for row in range(len(self.rows)):
            order = self.order(row)
            if len(order):
                rows.append(row)
                numbers.append(order[0])
        return self._frame(np.array(rows, int), np.array(numbers, int))

    def head_rows(self, head: Head) -> pd.DataFrame:
        """One row a relation and direction of which a head has a gain.

        Those that state it come first, then by gain.
        """
        rows = self.to_frame(heads=head).dropna(subset="gain")
        return rows.sort_values(["stated", "gain"], ascending=False, kind="stable")

    def head_columns(self, head: Head) -> dict[str, Any]:
        """A head's label, statement and trees over all of its rows, as columns of tables."""
        label = None
        if head in self.main_rows:
            main = self.rows[self.main_rows[head]]
            label = f"{main.relation} {main.direction}"
        return {
            "syntax_label": label,
            "syntax_statement": self.statements.get(head),
            "letter": self.letter(head),
            "uuas": self.uuas[head.place],
            "chain_uuas": self.chain_uuas,
        }

    def _frame(self, row: IntArray, number: IntArray) -> pd.DataFrame:
        """One row for each row and number of a head."""
        layer, head = np.unravel_index(number, self.grid.shape)
        place = (layer, head, row)
        rule = self.rule.astype(object)
        rule[self.met < MIN_SENTENCES] = None
        relation = np.array([r.relation for r in self.rows], object)
        direction = np.array([r.direction for r in self.rows], object)
        columns: dict[str, Any] = self.grid.columns(number)
        columns |= {
            "relation": relation[row],
            "direction": direction[row],
            "n": self.n[row],
            "sentences": self.met[row],
            "accuracy": self.accuracy[place],
            "weight": self.weight[place],
            "weight_among_words": self.weight_among_words[place],
            "chance": self.chance[place],
            "rule": rule[row],
            "rule_accuracy": self.rule_accuracy[row],
            "gain": self.gain[place],
            "se": self.se[place],
            "p_holm": self.p_holm[place],
            "holds": self.holds[place],
            "held_gain": self.held_values("gain")[place],
            "held_p_holm": self.held_values("p_holm")[place],
            "held_holds": self.held_values("holds")[place],
            "stated": self.stated[place],
        }
        by_head = [self.head_columns(head) for head in self.grid]
        for name in by_head[0]:
            columns[name] = [by_head[head][name] for head in number]
        about: dict[str, Any] = {
            "sentences": self.sentences,
            "clusters": self.clusters,
            "words": self.words,
            "words_without_token": self.wordless,
            "chain_uuas": self.chain_uuas,
            "gains_that_hold": int(self.holds.sum()),
        }
        if self.held is not None:
            about["held_signature"] = asdict(self.held.signature)
        frame = signed_frame(columns, self.signature, SYNTAX_TABLE, **about)
        return frame.astype({"held_holds": "boolean"})


def check_relation(relation: str, relations: Iterable[str], *, is_treebank: bool = True) -> None:
    """Raises: SelectionError if a treebank, or links, lack a relation, with the nearest name."""
    names = list(dict.fromkeys(relations))
    if relation not in names:
        hint = nearest(relation, names, f"there are {', '.join(names)}")
        have = "the treebank has" if is_treebank else "the links have"
        raise SelectionError(f"{have} no relation '{relation}'", hint)


@dataclass(frozen=True)
class ReadInput:
    """A sentence, or a pair, with its links, and what every head does on it."""

    number: int  # which it is in its treebank or its links, from 1
    pair: Pair
    owners: tuple[int, ...]
    """Of each token the number of its word, through both sentences, or NO_WORD."""
    result: HeadScores  # with the attention, token by token

    @property
    def has_tree(self) -> bool:
        """Whether it is a sentence of a treebank."""
        return has_tree(self.pair)

    @property
    def links(self) -> Sequence[Link]:
        """The links between its words; of a tree, those of words with their heads."""
        return links_in(self.pair)

    @property
    def words(self) -> list[str]:
        """The words of both sentences."""
        words = []
        for sentence in self.pair.sentences:
            words += [sentence.word(number) for number in range(len(sentence.words or ()))]
        return words

    def most_attended(self, by: By) -> IntArray:
        """Of each word the other word that it attends to most; -1 where there is none.

        Of equals it is the first.

        Special tokens are no candidates. To a word counts the sum over its tokens, from a word
        their mean.
        Shape: [layer, head, word]. Raises: OptionError if the attention was not kept.
        """
        attention = self.result.kept_attention()
        weights = attention.carried.weights if by == "carried" else attention.weights
        count = len(self.words)
        into = np.equal.outer(np.array(self.owners), np.arange(count)).astype(np.float64)
        tokens = into.sum(0)
        mean = (into / tokens.clip(1)).T
        is_itself = np.eye(count, dtype=bool)
        word_weights = np.where(is_itself, 0, mean @ weights @ into)
        return np.where(word_weights.max(-1) > 0, word_weights.argmax(-1), -1)


@dataclass(frozen=True)
class InputsRead:
    """Some sentences of a treebank, or of links, and every head compared with all of them."""

    inputs: tuple[ReadInput, ...]
    syntax: Syntax


def sentence_numbers(text: str) -> tuple[int, ...]:
    """The numbers of sentences that a text names, in its order, each once.

    >>> sentence_numbers("3,17,5-7")
    (3, 17, 5, 6, 7)

    Raises: OptionError if it names none, or more than are kept.
    """
    numbers: dict[int, None] = {}
    for part in text.split(","):
        match = _SPAN.fullmatch(part.strip())
        first = int(match[1]) if match else 0
        last = int(match[2] or match[1]) if match else 0
        if not 1 <= first <= last:
            message = f"{text!r:.40} names no sentences"
            raise OptionError(message, "give their numbers, from 1, as 3,17 or 1-8")
        # No more than one too many are listed, however long the span
        numbers |= dict.fromkeys(range(first, min(last, first + MOST_SENTENCES) + 1))
    if len(numbers) > MOST_SENTENCES:
        message = f"{text!r:.40} names more than {MOST_SENTENCES} sentences"
        raise OptionError(message, "name fewer: a page holds all of them")
    return tuple(numbers)

"""Heads against a treebank: accuracies beside fixed rules, what holds, and what each head is said to do.

After Clark et al., "What Does BERT Look At?" (BlackboxNLP 2019), section 4.2: the most attended other word of a word is
held against its head in a dependency tree, or against its dependents. Numpy, no torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import SelectionError, nearest
from attnscan.results.grid import Grid, Head, Heads
from attnscan.results.scores import FloatArray, IntArray
from attnscan.results.shown import lines
from attnscan.results.signature import Signature

if TYPE_CHECKING:
    import pandas as pd

HEAD, DEPENDENT = "dep->head", "head->dep"
"""Directions: from a word to its head, and from a head to its dependents."""
NOT_ALL = ("punct", "root")
"""Relations that are not among `all`."""
FARTHEST = 10
"""Words, of a rule that goes by distance."""
PARTS_OF_SPEECH = tuple(
    "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()  # noqa: SIM905
)
"""Universal ones, of rules that go to the nearest word of one."""
RULES = tuple(f"{what} {side}" for what in (*range(1, FARTHEST + 1), *PARTS_OF_SPEECH) for side in ("before", "behind"))
"""Fixed rules that heads are held against: the word so many words before or behind, or the nearest of a part of speech
on that side. Of equally good ones the first counts."""
FEWEST, FEW = 30, 200
"""A relation in fewer sentences has no numbers; a treebank of fewer sentences comes with a warning."""
LEVEL = 0.05
LEAST_WEIGHT = 0.1
"""Among words, of a head that is stated."""
LEAST_TIMES = 1.5
"""How many times the weight of even attention a stated head gives to its targets: untrained heads stay below 1.3."""

_GROUPS = {
    "argument": ("S", "nsubj csubj obj iobj ccomp xcomp expl"),
    "modifier": ("M", "amod advmod nmod nummod appos acl advcl obl dislocated vocative discourse"),
    "function word": ("F", "aux case cc clf cop det mark"),
    "part of a name or compound": ("W", "compound fixed flat goeswith"),
    "conjunct": ("C", "conj list parataxis orphan reparandum"),
    "punctuation": ("P", "punct"),
    "dependent": ("D", "all dep"),
}
_GROUP = {relation: group for group, (_, relations) in _GROUPS.items() for relation in relations.split()}
_NAMES = {
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
_OF_VERBS = frozenset(["nsubj", "csubj", "obj", "iobj", "ccomp", "xcomp", "expl", "obl", "advcl", "aux"])
_OF_NOUNS = frozenset(["amod", "nmod", "nummod", "appos", "acl", "case", "clf", "det"])


class Row(NamedTuple):
    """What a head is asked: a relation in a direction."""

    relation: str
    """As the treebank writes it, or `all` of them but `punct` and `root`."""
    direction: str
    """`dep->head` or `head->dep`."""

    @property
    def universal(self) -> str:
        """The relation without its subtype."""
        return self.relation.partition(":")[0]

    @property
    def group(self) -> str:
        """The kind of relation, of which several make one statement."""
        return _GROUP.get(self.universal, "dependent")

    @property
    def letter(self) -> str:
        """On maps: of the group, small from a head to its dependents."""
        letter = _GROUPS[self.group][0]
        return letter if self.direction == HEAD else letter.lower()

    @property
    def words(self) -> str:
        """The relation in words.

        >>> Row("obj", HEAD).words, Row("det", DEPENDENT).words
        ('object → its verb', 'noun → its determiner')
        """
        head = "verb" if self.universal in _OF_VERBS else "noun" if self.universal in _OF_NOUNS else "head"
        return self._between(_NAMES.get(self.universal, self.universal), head)

    @property
    def group_words(self) -> str:
        """The group in words."""
        return self._between(self.group, "head")

    def _between(self, dependent: str, head: str) -> str:
        return f"{dependent} → its {head}" if self.direction == HEAD else f"{head} → its {dependent}"


@dataclass(frozen=True)
class RowNumbers:
    """What all heads have alike of each row. Shape: each [row]."""

    n: IntArray
    """Eligible queries."""
    sentences: IntArray
    """Those that have any."""
    rule: NDArray[np.str_]
    """The one of `RULES` that is best on the other half; where the halves differ, that of more queries."""
    rule_accuracy: FloatArray
    """How often it points to a target, on the sentences that did not choose it; in [0, 1]."""


@dataclass(frozen=True)
class Syntax:
    """Every head held against every relation of a treebank. NaN where a relation is in fewer than 30 sentences.

    Shape: arrays are [layer, head, row].
    """

    rows: tuple[Row, ...]
    """What heads are asked."""
    of_rows: RowNumbers
    """What all heads have alike."""
    accuracy: FloatArray
    """Share of queries whose most attended other word is a target, in [0, 1]."""
    weight: FloatArray
    """Mean weight on targets by the reading of the signature, in [0, 1]."""
    weight_among_words: FloatArray
    """Mean weight on targets with special tokens removed and rows renormalised, in [0, 1]."""
    chance: FloatArray
    """`weight` under even attention."""
    gain: FloatArray
    """`accuracy` less `rule_accuracy`."""
    se: FloatArray
    """The gain's standard error, clustered by document, or by sentence where the treebank names none."""
    p_holm: FloatArray
    """Of the gain by Student's t, two-sided, after Holm over all heads and rows: small as well far below 0."""
    uuas: FloatArray
    """Share of links between words, punctuation left out, in the maximum spanning tree. Shape: [layer, head]."""
    chain_uuas: float
    """`uuas` of a tree that links every word with the next one."""
    clusters: int
    """Documents or, without these, sentences; blocks of them where there are very many."""
    words: int
    """Of all sentences."""
    wordless: int
    """Words without a token of their own, which are neither asked nor targets."""
    signature: Signature
    """Where the result comes from: model, versions, device, treebank."""
    held: Syntax | None = field(default=None)
    """What heads do on a second treebank, if there is one."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{head.name} {text}" for head, text in list(self.statements.items())[:4])
        return lines(self, self.signature, self.grid, f"{int(self.holds.sum())} gains hold by Holm; {shown}")

    @property
    def grid(self) -> Grid:
        """The heads."""
        return Grid.of(self.accuracy, layers=self.signature.layers)

    @property
    def sentences(self) -> int:
        """Those that were scored."""
        return self.signature.pairs_read - self.signature.pairs_skipped

    @property
    def holds(self) -> NDArray[np.bool_]:
        """Which gains are above 0 by Holm's test at 0.05. Shape: [layer, head, row]."""
        return np.asarray((self.p_holm < LEVEL) & (self.gain > 0))  # false for NaN

    @cached_property
    def stated(self) -> NDArray[np.bool_]:
        """Which rows are statements: gains that hold, with weight on the targets. Shape: as `holds`.

        Punctuation is no relation of grammar, and makes none.
        """
        of_grammar = np.array([row.universal != "punct" for row in self.rows], dtype=bool)
        enough = (self.weight_among_words >= LEAST_WEIGHT) & (self.weight >= LEAST_TIMES * self.chance)
        return np.asarray(self.holds & enough & of_grammar)

    @property
    def held_holds(self) -> NDArray[np.bool_]:
        """Which gains that hold do so again in the second treebank. Shape: as `holds`."""
        return np.asarray(self.holds & (self.of_held("holds") == 1))

    def of_held(self, name: str) -> FloatArray:
        """What the second treebank says, in the rows of the first; NaN where it has no such row. Shape: as `holds`."""
        values = np.full(self.accuracy.shape, np.nan)
        for place, row in enumerate(self.rows):
            if self.held is not None and row in self.held.rows:
                values[..., place] = getattr(self.held, name)[..., self.held.rows.index(row)]
        return values

    def main_row(self, head: Head) -> int | None:
        """The row that states a head: of those that do, the one with the largest gain; single relations come first."""
        stated = np.flatnonzero(self.stated[head.place]).tolist()
        return max(stated, key=lambda row: (self.rows[row].relation != "all", self.gain[head.place][row]), default=None)

    @cached_property
    def statements(self) -> dict[Head, str]:
        """What heads do, in words; heads with nothing to say are left out."""
        statements = {}
        for head in self.grid:
            if (best := self.main_row(head)) is not None:
                row, stated = self.rows[best], np.flatnonzero(self.stated[head.place])
                alike = {
                    other
                    for other in (self.rows[place] for place in stated)
                    if other.direction == row.direction and other.group == row.group and other.relation != "all"
                }
                statements[head] = row.group_words if alike - {row} else row.words
        return statements

    def letter(self, head: Head) -> str:
        """A head's mark on a map; `·` for one without a statement."""
        best = self.main_row(head)
        return "·" if best is None else self.rows[best].letter

    def label(self, head: Head) -> str | None:
        """The relation and direction that state a head, such as `obj dep->head`; None if none does."""
        best = self.main_row(head)
        return None if best is None else f"{self.rows[best].relation} {self.rows[best].direction}"

    def strongest(self) -> Row | None:
        """The row with the largest gain among those that state a head; None if none does."""
        gains = np.where(self.stated, np.nan_to_num(self.gain), 0.0).max((0, 1), initial=0.0)
        return self.rows[int(gains.argmax())] if gains.any() else None

    def legend(self) -> list[str]:
        """What the letters on a map of the heads say, those that are there."""
        marks = {self.letter(head) for head in self.grid}
        said = {letter: f"{letter} {name}" for name, (letter, _) in _GROUPS.items()}
        said |= {letter.lower(): f"{letter.lower()} head of: {name}" for name, (letter, _) in _GROUPS.items()}
        return [*(text for letter, text in said.items() if letter in marks), "· nothing of these"]

    def row_numbers(self, relation: str) -> list[int]:
        """The rows of a relation. Raises: SelectionError if the treebank has none, with the nearest name."""
        check_relation(relation, [row.relation for row in self.rows])
        return [number for number, row in enumerate(self.rows) if row.relation == relation]

    def order(self, row: int) -> IntArray:
        """The numbers of heads by accuracy, best first; none where a row has no numbers."""
        flat = self.accuracy[..., row].ravel()
        return np.array([]) if np.isnan(flat).all() else np.argsort(-flat, kind="stable")

    def to_frame(self, relation: str | None = None, heads: Heads | None = None) -> pd.DataFrame:
        """One row a head, relation and direction; of one relation only, or of some heads, if these are named.

        Raises: SelectionError for a relation or a head that is not there.
        """
        rows = range(len(self.rows)) if relation is None else self.row_numbers(relation)
        numbers = list(map(self.grid.index, self.grid if heads is None else self.grid.select(heads)))
        return self._frame([(row, number) for row in rows for number in numbers])

    def best(self) -> pd.DataFrame:
        """The best head of each relation and direction."""
        return self._frame([(row, int(order[0])) for row in range(len(self.rows)) if len(order := self.order(row))])

    def rows_of(self, head: Head) -> list[int]:
        """The rows of which a head has a gain: those that state it first, then by gain."""
        gain, stated = self.gain[head.place], self.stated[head.place]
        return sorted(np.flatnonzero(~np.isnan(gain)).tolist(), key=lambda row: (not stated[row], -gain[row]))

    def of_head(self, head: Head) -> pd.DataFrame:
        """One row a relation and direction of which a head has a gain, in the order of `rows_of`."""
        return self._frame([(row, self.grid.index(head)) for row in self.rows_of(head)])

    def said_of(self, head: Head) -> dict[str, Any]:
        """What is said of a head by all of its rows, as the columns of tables."""
        return {
            "syntax_label": self.label(head),
            "syntax_statement": self.statements.get(head),
            "letter": self.letter(head),
            "uuas": self.uuas[head.place],
            "chain_uuas": self.chain_uuas,
        }

    def _frame(self, places: list[tuple[int, int]]) -> pd.DataFrame:
        """One row for each row and number of a head."""
        import pandas as pd

        row, number = np.array(places, dtype=np.int64).reshape(-1, 2).T
        of_rows = self.of_rows

        def at(values: NDArray[Any]) -> NDArray[Any]:
            return values.reshape(len(self.grid), -1)[number, row]

        columns: dict[str, Any] = {"model": self.signature.model, **self.grid.columns(number)}
        for name in ("relation", "direction"):
            columns[name] = np.array([getattr(known, name) for known in self.rows], dtype=object)[row]
        columns |= {"n": of_rows.n[row], "sentences": of_rows.sentences[row]}
        columns |= {name: at(getattr(self, name)) for name in ("accuracy", "weight", "weight_among_words", "chance")}
        columns["rule"] = pd.Series(of_rows.rule[row], dtype=object).where(of_rows.sentences[row] >= FEWEST, None)
        columns["rule_accuracy"] = of_rows.rule_accuracy[row]
        columns |= {name: at(getattr(self, name)) for name in ("gain", "se", "p_holm", "holds")}
        columns |= {f"held_{name}": at(self.of_held(name)) for name in ("gain", "p_holm", "holds")}
        columns["stated"] = at(self.stated)
        of_heads = pd.DataFrame([self.said_of(head) for head in self.grid])
        frame = pd.concat([pd.DataFrame(columns), of_heads.iloc[number].reset_index(drop=True)], axis=1)
        frame = frame.astype({"held_holds": "boolean"})
        frame.attrs = {
            "signature": asdict(self.signature),
            "sentences": self.sentences,
            "clusters": self.clusters,
            "words": self.words,
            "words_without_token": self.wordless,
            "chain_uuas": self.chain_uuas,
            "gains_that_hold": int(self.holds.sum()),
        }
        if self.held is not None:
            frame.attrs["held_signature"] = asdict(self.held.signature)
        return frame


def check_relation(relation: str, known: Iterable[str]) -> None:
    """Raises: SelectionError if a treebank does not have a relation, with the nearest name."""
    names = list(dict.fromkeys(known))
    if relation not in names:
        hint = nearest(relation, names, f"there are {', '.join(names)}")
        raise SelectionError(f"the treebank has no relation '{relation}'", hint)

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
    def group(self) -> str:
        """The kind of relation, of which several make one statement."""
        return _GROUP.get(self.relation.partition(":")[0], "dependent")

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
        universal = self.relation.partition(":")[0]
        return self._told(_NAMES.get(universal, universal), universal)

    @property
    def group_words(self) -> str:
        """The group in words."""
        return self._told(self.group, "")

    def _told(self, dependent: str, relation: str) -> str:
        head = "verb" if relation in _OF_VERBS else "noun" if relation in _OF_NOUNS else "head"
        ends = (dependent, head) if self.direction == HEAD else (head, dependent)
        return f"{ends[0]} → its {ends[1]}"


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
        with np.errstate(invalid="ignore"):
            holds: NDArray[np.bool_] = (self.p_holm < LEVEL) & (self.gain > 0)
        return holds

    @cached_property
    def stated(self) -> NDArray[np.bool_]:
        """Which rows are statements: gains that hold, with weight on the targets. Shape: as `holds`.

        Punctuation is no relation of grammar, and makes none.
        """
        of_grammar = np.array([row.relation.partition(":")[0] != "punct" for row in self.rows], dtype=bool)
        with np.errstate(invalid="ignore"):
            stated: NDArray[np.bool_] = (
                self.holds
                & (self.weight_among_words >= LEAST_WEIGHT)
                & (self.weight >= LEAST_TIMES * self.chance)
                & of_grammar
            )
        return stated

    @cached_property
    def held_holds(self) -> NDArray[np.bool_]:
        """Which gains that hold do so again in the second treebank. Shape: as `holds`."""
        return np.zeros_like(self.holds) if self.held is None else self.holds & (self.of_held("holds") == 1)

    def of_held(self, name: str) -> FloatArray:
        """What the second treebank says, in the rows of the first; NaN where it has no such row. Shape: as `holds`."""
        values = np.full(self.accuracy.shape, np.nan)
        if self.held is not None:
            theirs, numbers = getattr(self.held, name), {row: at for at, row in enumerate(self.held.rows)}
            for place, row in enumerate(self.rows):
                if row in numbers:
                    values[..., place] = theirs[..., numbers[row]]
        return values

    def main_row(self, head: Head) -> int | None:
        """The row that states a head: of those that do, the one with the largest gain; single relations come first."""
        stated = [int(row) for row in np.flatnonzero(self.stated[head.place])]
        return max(stated, key=lambda row: (self.rows[row].relation != "all", self.gain[head.place][row]), default=None)

    @cached_property
    def statements(self) -> dict[Head, str]:
        """What heads do, in words; heads with nothing to say are left out."""
        said = {head: self._said(head) for head in self.grid}
        return {head: text for head, text in said.items() if text}

    def _said(self, head: Head) -> str:
        best = self.main_row(head)
        if best is None:
            return ""
        row = self.rows[best]
        others = [self.rows[other] for other in np.flatnonzero(self.stated[head.place]) if other != best]
        same = (other for other in others if other.direction == row.direction and other.relation != "all")
        return row.group_words if any(other.group == row.group for other in same) else row.words

    def letter(self, head: Head) -> str:
        """A head's mark on a map; `·` for one without a statement."""
        best = self.main_row(head)
        return "·" if best is None else self.rows[best].letter

    def strongest(self) -> Row | None:
        """The row with the largest gain among those that state a head; None if none does."""
        gains = np.where(self.stated, np.nan_to_num(self.gain), 0.0).max((0, 1), initial=0.0)
        return self.rows[int(gains.argmax())] if gains.any() else None

    def legend(self) -> list[str]:
        """What the letters on a map of the heads say, those that are there."""
        there = {self.letter(head) for head in self.grid}
        said = [f"{letter} {name}" for name, (letter, _) in _GROUPS.items() if letter in there]
        said += [
            f"{letter.lower()} head of: {name}" for name, (letter, _) in _GROUPS.items() if letter.lower() in there
        ]
        return [*said, "· nothing of these"]

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
        import pandas as pd

        chosen = range(len(self.rows)) if relation is None else self.row_numbers(relation)
        numbers = list(map(self.grid.index, self.grid if heads is None else self.grid.select(heads)))
        frame = pd.concat([self._of_row(row, numbers) for row in chosen], ignore_index=True)
        frame.attrs = self._attrs()
        return frame

    def _of_row(self, row: int, numbers: list[int]) -> pd.DataFrame:
        import pandas as pd

        def own(values: NDArray[Any]) -> NDArray[Any]:
            return np.broadcast_to(values, self.accuracy.shape)[..., row].ravel()[numbers]

        known = self.of_rows.sentences[row] >= FEWEST
        of_rows = asdict(self.of_rows)
        names: tuple[str, ...] = (
            "n",
            "sentences",
            "accuracy",
            "weight",
            "weight_among_words",
            "chance",
            "rule",
            "rule_accuracy",
            "gain",
            "se",
            "p_holm",
        )
        columns: dict[str, Any] = {"model": self.signature.model, **self.grid.columns(numbers)}
        columns |= {"relation": self.rows[row].relation, "direction": self.rows[row].direction}
        for name in names:
            columns[name] = of_rows[name][row] if name in of_rows else own(getattr(self, name))
        if not known:
            columns["rule"] = None
        columns["holds"] = own(self.holds)
        columns |= {f"held_{name}": own(self.of_held(name)) for name in ("gain", "p_holm", "holds")}
        columns["stated"] = own(self.stated)
        said = pd.DataFrame([self.said_of(self.grid[number]) for number in numbers])
        return pd.concat([pd.DataFrame(columns), said], axis=1).astype({"held_holds": "boolean"})

    def said_of(self, head: Head) -> dict[str, Any]:
        """What is said of a head by all of its rows, as the columns of tables."""
        return {
            "syntax_label": self.label(head),
            "syntax_statement": self.statements.get(head),
            "letter": self.letter(head),
            "uuas": self.uuas[head.place],
            "chain_uuas": self.chain_uuas,
        }

    def rows_of(self, head: Head) -> list[int]:
        """The rows of which a head has a gain: those that state it first, then by gain."""
        gain, stated = self.gain[head.place], self.stated[head.place]
        return sorted(np.flatnonzero(~np.isnan(gain)).tolist(), key=lambda row: (not stated[row], -gain[row]))

    def of_head(self, head: Head) -> pd.DataFrame:
        """One row a relation and direction of which a head has a gain, in the order of `rows_of`."""
        rows = self.rows_of(head)
        return self.to_frame(heads=[head]).iloc[rows].reset_index(drop=True)

    def label(self, head: Head) -> str | None:
        """The relation and direction that state a head, such as `obj dep->head`; None if none does."""
        best = self.main_row(head)
        return None if best is None else f"{self.rows[best].relation} {self.rows[best].direction}"

    def best(self) -> pd.DataFrame:
        """The best head of each relation and direction."""
        import pandas as pd

        known = [row for row in range(len(self.rows)) if len(self.order(row))]
        frames = [self._of_row(row, [int(self.order(row)[0])]) for row in known]
        if not frames:
            return self.to_frame().iloc[:0]
        frame = pd.concat(frames, ignore_index=True)
        frame.attrs = self._attrs()
        return frame

    def _attrs(self) -> dict[Any, Any]:
        about: dict[Any, Any] = {
            "signature": asdict(self.signature),
            "sentences": self.sentences,
            "clusters": self.clusters,
        }
        about |= {"words": self.words, "words_without_token": self.wordless, "chain_uuas": self.chain_uuas}
        held = {} if self.held is None else {"held_signature": asdict(self.held.signature)}
        return about | {"gains_that_hold": int(self.holds.sum())} | held


def check_relation(relation: str, known: Iterable[str]) -> None:
    """Raises: SelectionError if a treebank does not have a relation, with the nearest name."""
    names = list(dict.fromkeys(known))
    if relation not in names:
        hint = nearest(relation, names, f"there are {', '.join(names)}")
        raise SelectionError(f"the treebank has no relation '{relation}'", hint)

"""The page of `report`: one HTML file that shows every head, and asks nothing of any network."""

from __future__ import annotations

import unicodedata
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attnscan.errors import OptionError
from attnscan.results.attention import PADDING, Attention
from attnscan.results.grid import Head, Heads
from attnscan.results.head_weights import check_drawn
from attnscan.results.heads import HeadScores
from attnscan.results.signature import By, Special
from attnscan.safe_text import plain
from attnscan.scoring.cross import ALIGNED
from attnscan.views.behaviour import ranked_by, summary
from attnscan.views.page.cargo import Cargo, load, of_every_head, strongest_first
from attnscan.views.page.frame import (
    NOTES,
    SIZE,
    Kind,
    Page,
    PageOptions,
    Subject,
    at_most,
    html_of,
    left_out_of,
    texts_of,
)
from attnscan.views.page.table import Table, profiles, profiles_of_pairs, readings_of_input, readings_of_pairs, table_of

Sentences = Sequence[tuple[str, list[tuple[str, bool]]]]
"""Each sentence's name and tokens, and which of these are special."""


@dataclass(frozen=True)
class InputPage:
    """What a page of one input is made of."""

    result: HeadScores
    attention: Attention
    """With norms only where what heads carry is on the page."""
    options: PageOptions
    order: Sequence[Head]
    """Which heads' weights are there first."""
    subject: Subject
    more: Mapping[str, Any] = field(default_factory=dict)
    """What else the scripts read: of its dependency tree, or of other inputs that can take its place."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """What else is packed."""
    sentences: Sentences = ()
    """What it is read above its views; none for its own tokens."""
    kind: Kind = "input"

    @classmethod
    def of(cls, result: HeadScores, options: PageOptions) -> InputPage:
        """Raises: OptionError if the result's attention was not kept."""
        attention = attention_of(result)
        order = strongest_first(result.table, result.scores.grid) if options.heads is None else list(options.heads)
        readings = readings_of_input(result, carried=attention.norms is not None)
        why_not = _why_not_carried(result, attention)
        subject = Subject(result.signature, readings, {"carried": why_not} if why_not else {}, result.not_measured)
        return cls(result, attention, options, order, subject)

    def made(self) -> Page:
        """With as much as fits."""
        cargo, table, notes = self.packed()
        return Page(self.html(cargo, table, notes, neurons=bool(cargo.neurons)), notes)

    def packed(self) -> tuple[Cargo, Table, tuple[str, ...]]:
        """As much as fits of the attention and of the scores, and what does not."""
        empty, table, size = self.cargo_of_every_head(), table_of(self.subject.readings), self.options.size
        wanted = self.options.neurons and self.attention.query is not None
        room = float("inf")
        if size is not None:
            room = size - len(self.html(empty, table, (), neurons=wanted).encode()) - NOTES
        cargo = load(empty, self.attention, self.order, room, neurons=wanted)
        return cargo, table, (*left_out_of(size, room), *self._left_out(cargo))

    def cargo_of_every_head(self, strategy: int = zlib.Z_FILTERED) -> Cargo:
        """What the page holds whatever its size; `strategy` as for `of_every_head`."""
        return of_every_head(self.attention, strategy, inputs=self.options.inputs)

    @property
    def gold(self) -> list[list[int]]:
        """Queries and keys of the gold links between its tokens, by their places on the page."""
        result, attention = self.result, self.attention
        if not (result.links and result.targets and ALIGNED.id in result.scores.patterns):
            return []
        unit = np.array(attention.unit or range(len(attention.tokens)), dtype=int)
        target = result.targets[0][result.scores.patterns.index(ALIGNED.id)]
        linked = target[unit[attention.asking] - unit[attention.rows[0]]][:, unit[attention.asked]] > 0
        return [[len(attention.asked) + query, key] for query, key in np.argwhere(linked).tolist()]

    def html(
        self,
        cargo: Cargo,
        table: Table,
        notes: Sequence[str],
        *,
        neurons: bool,
        live: Mapping[str, Any] | None = None,
    ) -> str:
        """Its text with so much of the attention, with a neuron view if there are `neurons` to show.

        `live` is what its scripts know of a server.
        """
        frame = self.subject.frame(notes) | {
            "subtitle": _which(self.attention),
            "direction": "rtl" if _reads_right_to_left(self.tokens) else "ltr",
            "sentences": self.sentences or sentences_of(self.attention),
            "notes": self.notes,
            "has_neurons": neurons,
            "why_no_neurons": _why_no_neurons(self.result, self.attention, self.options),
            "weight_error": at_most(cargo.weight_error),
            "logit_error": at_most(cargo.logit_error) if cargo.neurons else "",
            "texts": self.texts_of_input(cargo, table),
        }
        facts = {**self.subject.facts(table), **self.facts_of_input(cargo), **self.more}
        return html_of(frame, facts, kind=self.kind, live=live)

    def texts_of_input(self, cargo: Cargo, table: Table) -> dict[str, str]:
        """What is packed, by the ids under which the scripts find it."""
        return {**texts_of(table, self.profiles), **cargo.texts, **self.texts}

    @property
    def profiles(self) -> str:
        """As the scripts take them; none of cross attention, which no distance or sentence explains."""
        return "" if self.attention.source else profiles(self.result, carried=self.attention.norms is not None)

    @property
    def tokens(self) -> list[str]:
        """The texts of those that it shows."""
        return [self.attention.tokens[place] for place in self.attention.passage]

    @property
    def notes(self) -> list[str]:
        """What else to know of the scores, a line each."""
        return [plain(note) for note in self.result.notes]

    def facts_of_input(self, cargo: Cargo) -> dict[str, Any]:
        """What the scripts read beside what they read on every page."""
        attention, passage = self.attention, self.attention.passage
        numbers = {attention.unit[place]: number for number, place in enumerate(passage)} if attention.unit else {}
        related = [[numbers[unit] for unit in pair] for pair in self.result.related if numbers.keys() >= set(pair)]
        facts_of_neurons = {head.name: neurons.facts for head, neurons in cargo.neurons.items()}
        return {
            "tokens": [shown(token) for token in self.tokens],
            "special": [attention.sentence[place] < 0 for place in passage],
            "segments": [attention.segments[place] for place in passage],
            "related": related,
            "rightToLeft": _reads_right_to_left(self.tokens),
            "best": self.order[0].name,
            "sides": cargo.sides,
            "source": len(attention.asked) if attention.source else 0,
            "gold": self.gold,
            "maskOfLayer": cargo.mask_of_layer,
            "weightSteps": cargo.weight_steps,
            "whyNoWeights": "the page holds the heads that follow a pattern most, as many as fit"
            if self.options.heads is None
            else "the page was made with other heads",
            "neuron": {
                "size": 0 if attention.query is None else attention.query.shape[-1],
                "scaling": attention.scaling,
                "of": facts_of_neurons,
                "error": cargo.logit_error,
                "whyNone": _why_no_neurons(self.result, attention, self.options),
            },
        }

    def _left_out(self, cargo: Cargo) -> list[str]:
        """What was wanted of the attention and is not there."""
        lines, wanted = [], len(self.order)
        limit = f"in {self.options.size / 1e6:g} MB" if self.options.size else ""
        if len(cargo.weights) < wanted:
            which = ": the best of each pattern" if cargo.weights else ""
            lines.append(f"the weights of {len(cargo.weights)} of {wanted} heads fit {limit}{which}")
        if self.options.neurons and self.attention.query is not None and len(cargo.neurons) < len(cargo.weights):
            lines.append(f"the queries and keys of {len(cargo.neurons)} of {wanted} heads fit {limit}")
        return lines


def attention_of(result: HeadScores) -> Attention:
    """An input's attention, with norms only where what heads carry is known.

    Raises: OptionError if it was not kept, or of some heads alone; SelectionError if it has too many tokens.
    """
    attention = result.kept_attention()
    if attention.chosen is not None and attention.chosen.heads is not None:
        raise OptionError("this result has kept the attention of some heads alone", "give one of `classify`")
    check_drawn(len(attention.rows))
    return attention if "carried" in result.scores_by else replace(attention, norms=None)


def sentences_of(attention: Attention) -> Sentences:
    """Each sentence's name and tokens, and which of these are special."""
    of_segments: dict[int, list[tuple[str, bool]]] = {segment: [] for segment in sorted(set(attention.segments))}
    for place in attention.passage:
        token = shown(attention.tokens[place]), attention.sentence[place] < 0
        of_segments[attention.segments[place]].append(token)
    return [("AB"[segment], tokens) for segment, tokens in of_segments.items() if tokens]


def _which(attention: Attention) -> str:
    """Which tokens of the input are shown."""
    if attention.source:
        return f"{len(attention.asked)} source and {len(attention.asking)} target tokens"
    passage, every = attention.passage, sum(sentence != PADDING for sentence in attention.sentence)
    return f"{every} tokens" if len(passage) == every else f"tokens {passage[0]} to {passage[-1]} of {every:,}"


def _why_not_carried(result: HeadScores, attention: Attention) -> str:
    """Why what heads carry is not there; empty if it is."""
    if attention.norms is not None:
        return ""
    if result.signature.read_by == "file":
        return "saved weights do not hold what heads carry"
    if "carried" not in result.scores_by:
        return "what heads of this architecture carry cannot be computed"
    return "the norms of this input's values were not kept"


def _why_no_neurons(result: HeadScores, attention: Attention, options: PageOptions) -> str:
    if attention.query is None:
        if result.signature.read_by == "file":
            return "saved weights hold no queries and keys"
        return "this architecture does not show its queries and keys"
    if not options.neurons:
        return "this page was made without queries and keys (--no-neurons)"
    return "there was no room for this head's queries and keys; --size or --heads brings them"


def shown(token: str) -> str:
    """A token as the page writes it."""
    return plain(token.strip()) or "␣"


def _reads_right_to_left(tokens: Sequence[str]) -> bool:
    """Whether more letters of the text are of a right-to-left script than not."""
    kinds = [unicodedata.bidirectional(character) for token in tokens for character in token]
    return sum(kind in ("R", "AL") for kind in kinds) > kinds.count("L") / 2  # [CLS] and its like are Latin


def corpus_page(result: HeadScores, options: PageOptions) -> Page:
    """Labels and scores over many pairs, and where attention goes. Raises: OptionError if the ranking has no labels."""
    readings = readings_of_pairs(result)
    other: By = "weight" if result.reading.carried else "carried"
    special: Special = "in" if result.reading.among_words else "out"
    made = f"this page was made {result.reading}; make one with"
    why_not: dict[By | Special, str] = {other: f"{made} --by {other}", special: f"{made} --special {special}"}
    not_measured = {"predictive": "switched off"} if result.signature.predictive == "off" else {}
    subject = Subject(result.signature, readings, why_not, not_measured)
    table = table_of(readings)
    html = _html(result, subject, table, ())
    room = float("inf") if options.size is None else options.size - len(html.encode()) - NOTES
    notes = tuple(left_out_of(options.size, room))
    return Page(_html(result, subject, table, notes) if notes else html, notes)


def _html(result: HeadScores, subject: Subject, table: Table, notes: Sequence[str]) -> str:
    lines = (summary(result), ranked_by(result))
    frame = subject.frame(notes) | {
        "subtitle": result.signature.counts,
        "notes": [plain(line) for line in lines if line],
        "texts": texts_of(table, profiles_of_pairs(result)),
    }
    facts = {
        "tokens": [],
        "rightToLeft": False,
        "best": _best(subject).name,
    }
    return html_of(frame, subject.facts(table) | facts, kind="pairs")


def _best(subject: Subject) -> Head:
    """The head that the page opens on: of those with a label, one that follows a pattern most."""
    labels = subject.usual.labels
    order = strongest_first(labels.table, labels.grid)
    return next((head for head in order if labels.follows[head.place]), order[0])


def page_options(
    result: HeadScores,
    heads: Heads | None = None,
    *,
    neurons: bool = True,
    megabytes: float | None = None,
) -> PageOptions:
    """What a result's page is to hold: some `heads` in any size, or else as many as fit into so many megabytes.

    Raises: OptionError for heads of many pairs, or if the attention was not kept; SelectionError for heads that are not
    there.
    """
    size = None if megabytes is None else int(megabytes * 1_000_000)
    if heads is None:
        return PageOptions(None, neurons, size or SIZE)
    if not result.of_input:
        raise OptionError("a page of many pairs holds no head's weights", "leave out heads")
    return PageOptions(tuple(result.kept_attention().grid.select(heads)), neurons, size)


def page(result: HeadScores, options: PageOptions | None = None) -> Page:
    """Every head on one input or over many pairs, to look at in a browser.

    Of one input there are scores and thumbnails of all heads, and weights, queries and keys of as many as fit; over
    many pairs labels, how sure they are, and scores and shares with errors. It opens on the result's own
    reading: attention weights among words, unless something else was asked.
    Raises: OptionError if a classification's attention was not kept, or a ranking has no labels.
    """
    if not result.of_input:
        return corpus_page(result, options or PageOptions())
    return InputPage.of(result, options or PageOptions()).made()

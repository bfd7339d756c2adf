"""What every head does, on one input or over many pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import OptionError, WeightsError
from attnscan.results.attention import Attention, Selection
from attnscan.results.columns import HELD_COLUMNS, RANKING_COLUMNS
from attnscan.results.grid import Grid, Head, HeadLike, Heads
from attnscan.results.habits import SPECIAL_CLASSES
from attnscan.results.intervals import half_width
from attnscan.results.lazy import pd
from attnscan.results.notebook import render_html, render_page
from attnscan.results.schemas import (
    LEADING_COLUMNS,
    MEASURE_COLUMNS,
    MODEL_COLUMN,
    NAME_COLUMN,
    PLACE_COLUMNS,
    TOKEN_COLUMNS,
    Column,
    Table,
    file_columns,
)
from attnscan.results.scores import (
    MOST_HEADS,
    FloatArray,
    IntArray,
    Labels,
    Scores,
    ScoreTable,
    best_first,
)
from attnscan.results.signature import (
    RAW_VIEW,
    AttentionView,
    By,
    Signature,
    Special,
    check_top,
    describe,
    signed_frame,
)

HEADS_TABLE = Table(
    "heads",
    "a head, over many pairs",
    (*LEADING_COLUMNS, *MEASURE_COLUMNS, *file_columns(HELD_COLUMNS, is_optional=True)),
    has_patterns=True,
)
CLASSIFY_TABLE = Table(
    "classify", "a head, on one input", (*LEADING_COLUMNS, *MEASURE_COLUMNS), has_patterns=True
)
RANKING_TABLE = Table(
    "ranking",
    "a head, by one pattern",
    (
        MODEL_COLUMN,
        Column("pattern", "the pattern that heads are ranked by", "text", is_key=True),
        Column("rank", "the head's place by score, from 1", "integer"),
        *PLACE_COLUMNS,
        NAME_COLUMN,
        *file_columns(RANKING_COLUMNS),
    ),
)
PROFILE_TABLE = Table(
    "profile",
    "a class of keys, for a head",
    (
        MODEL_COLUMN,
        *PLACE_COLUMNS,
        NAME_COLUMN,
        Column("class", "the class of keys, or a pattern of your own", "text", is_key=True),
        Column("share", "mean share of a word's attention"),
        Column("se", "standard error of the share"),
        Column("chance", "the share under even attention"),
        Column("average", "the average head's share"),
    ),
)
SHOW_TABLE = Table(
    "show",
    "a weight of a head",
    (
        MODEL_COLUMN,
        Column("kind", PLACE_COLUMNS[0].about, "text", is_optional=True),
        Column("layer", "the layer, from 0; missing for a mean of heads", "integer"),
        Column("head", "the head in its layer, from 0; likewise", "integer"),
        *TOKEN_COLUMNS,
        Column("weight", "the attention weight, or what is carried"),
        Column("aligned", "1 for a gold link, else 0", "integer", is_optional=True),
    ),
)


@dataclass(frozen=True)
class Profile:
    """The mean share of a word's attention on each class of keys, for every head.

    The shares of words sum to 1 among words; with special tokens in, all shares do. The classes
    `start`, `middle` and `end` are always shares of all attention. Shape: each array [layer, head,
    class]; NaN without such words.
    """

    classes: tuple[str, ...]
    """Words by class, then patterns of one's own, which overlap these, then special tokens."""
    share: FloatArray
    se: FloatArray  # the standard error of each share, clustered by pair; NaN of one input
    chance: FloatArray  # the share under even attention
    clusters: IntArray
    """What the errors are clustered by: distinct pairs that have such words, blocks or groups."""
    grid: Grid
    signature: Signature

    __repr__ = describe

    @property
    def average(self) -> FloatArray:
        """The average head's share. Shape: [class]; NaN where no head has one."""
        heads = np.count_nonzero(~np.isnan(self.share), axis=(0, 1))
        average: FloatArray = np.nansum(self.share, (0, 1)) / np.where(heads, heads, np.nan)
        return average

    def strongest(self, head: HeadLike, least: float = 0.0) -> list[tuple[str, float]]:
        """A head's classes with their shares of at least so much, largest first.

        Special tokens are among them where they are keys by the reading.
        """
        hidden = SPECIAL_CLASSES if self.signature.reading.words_only else ()
        shares = self.share[self.grid.head(head).place].tolist()
        classes = [
            (name, share)
            for name, share in zip(self.classes, shares, strict=True)
            if name not in hidden and share > 0 and share >= least
        ]
        return sorted(classes, key=lambda entry: -entry[1])

    def to_frame(self, heads: Heads | None = None, top: int | None = None) -> pd.DataFrame:
        """One row for each class of each head, of all or some.

        With `top`, so many of each head, largest first. Raises: OptionError for less than one.
        """
        check_top(top)
        parts = []
        for head in self.grid if heads is None else self.grid.select(heads):
            columns = {
                **head.columns,
                "name": head.table_name,
                "class": self.classes,
                "share": self.share[head.place],
                "se": self.se[head.place],
                "chance": self.chance[head.place],
                "average": self.average,
            }
            rows = pd.DataFrame(columns)
            if top is not None:
                rows = rows.sort_values("share", ascending=False, kind="stable")[:top]
            parts.append(rows)
        return signed_frame(pd.concat(parts, ignore_index=True), self.signature, PROFILE_TABLE)


@dataclass(frozen=True)
class HeadScores:
    """What every head does on one input, or over many pairs.

    One input is one pair that also has `units`.
    """

    signature: Signature  # where the result comes from: model, versions, device, input
    scores_by: Mapping[By, Scores]
    """Every head's scores by attention weights or by what heads carry.

    With `split`, those of the half that does not rank."""
    labels_by: Mapping[AttentionView, Labels] = field(default_factory=dict, compare=False)
    """What every head does, by the readings that were computed."""
    ranked_by: Scores | None = None  # with `split`, the scores by the half of the pairs that ranks
    units: tuple[str, ...] = ()  # the tokens, or the words, of one input that were scored
    sentence: tuple[int, ...] = ()
    """Of each unit 0 for sentence A, 1 for B, -1 for a special token, -2 for padding."""
    not_measured: Mapping[str, str] = field(default_factory=dict)
    """Patterns that were not looked for, and why."""
    notes: tuple[str, ...] = ()  # what else to know of how the scores were obtained, a line each
    related: tuple[tuple[int, int], ...] = ()
    """Units that counted as related and are not identical, by their places."""
    links: tuple[tuple[int, int], ...] = ()
    """The gold links of cross attention: units of the target and the source."""
    output: FloatArray | None = None
    """The mean length of what each head puts out for a word, as a share of its layer's.

    Shape: [layer, head]."""
    shown: AttentionView = RAW_VIEW  # by what weights are shown and drawn
    attention: Attention | None = field(default=None, compare=False)  # the input's, if it was kept
    targets: Sequence[NDArray[np.float32]] = field(default=(), compare=False)
    """Of each layer, if the attention was kept, each pattern's target.

    Shape: [pattern, query unit, key unit]."""
    pattern: tuple[str, ...] = ()
    """The patterns that were asked for of one input, which tables show; none for all."""
    held: HeadScores | None = field(default=None, compare=False)
    """The same of a second corpus, if one was held against this one."""
    scored_input: Any = field(default=None, compare=False)
    """What one input was scored against, where all of its attention was kept.

    It is a `ScoredInput`, by which `attnscan.with_reading` scores other readings."""

    def __repr__(self) -> str:
        if not self.has_labels:
            return describe(self)
        labels = self.labels
        counts = Counter(labels.among_words.ravel().tolist()).most_common()
        lines = [f"{count} {name or 'no distinct habit'}" for name, count in counts]
        lines += [f"{len(kind.heads)} of them rest on {kind.name}" for kind in labels.resting]
        return describe(self, *lines)

    def _repr_html_(self) -> str | None:
        return render_html(self)

    @property
    def html(self) -> str:
        """The page of `attnscan.report`, as the text of an HTML file, for dashboards.

        Raises: OptionError if the attention of one input was not kept, or there are no labels.
        """
        return render_page(self)

    @property
    def is_one_input(self) -> bool:
        """Whether it is of one input, and not of many pairs."""
        return bool(self.units)

    @property
    def reading(self) -> AttentionView:
        """By what scores, labels and tables are."""
        return self.signature.reading

    @property
    def scores(self) -> Scores:
        """The scores that labels and tables are made of."""
        return self.scores_by[self.reading.by]

    @property
    def table(self) -> ScoreTable:
        """The scores of the reading."""
        return self.scores.table(self.reading.words_only)

    @property
    def grid(self) -> Grid:
        """The model's heads."""
        return self.scores.grid

    @property
    def has_labels(self) -> bool:
        """Whether there are labels; not where some patterns of pairs were asked for."""
        return self.reading in self.labels_by

    @property
    def labels(self) -> Labels:
        """What every head does, and how sure that is.

        Raises: OptionError if labels are not there.
        """
        if not self.has_labels:
            message = "this ranking has no labels"
            raise OptionError(message, "score all patterns of pairs: leave out pattern")
        return self.labels_by[self.reading]

    @property
    def label(self) -> NDArray[np.str_]:
        """What each head does: `delimiter` if it rests on special tokens, else `among_words`.

        Shape: [layer, head].
        """
        return self.labels.label

    @property
    def among_words(self) -> NDArray[np.str_]:
        """The pattern that each head follows among words, else its habit, else nothing.

        Shape: [layer, head].
        """
        return self.labels.among_words

    @property
    def held_share(self) -> FloatArray:
        """Of a second corpus, each head's share of what it does among words in this one.

        NaN where it does nothing in this one. Shape: [layer, head].
        """
        assert self.held is not None
        labels = self.held.labels
        share = np.full(self.grid.shape, np.nan)
        for head in self.grid:
            name = str(self.among_words[head.place])
            if name:
                share[head.place] = labels.numbers(name, head).share
        return share

    @property
    def changed(self) -> NDArray[np.bool_]:
        """Which labels are others in the second corpus, if there is one. Shape: [layer, head]."""
        if self.held is None:
            return np.zeros(self.grid.shape, dtype=bool)
        return np.asarray((self.label != "") & (self.label != self.held.label))

    @property
    def profile(self) -> Profile:
        """Where every head's attention goes.

        Raises: WeightsError if the model has too many heads for it to be kept.
        """
        if self.labels.classes is None:
            message = "where the attention of so many heads goes is not kept"
            raise WeightsError(message, f"give {MOST_HEADS} at most")
        classes = self.labels.classes
        return Profile(
            classes=classes.names,
            share=classes.share,
            se=classes.se,
            chance=classes.chance,
            clusters=classes.clusters,
            grid=self.grid,
            signature=self.signature,
        )

    def select_reading(self, by: By | None = None, special: Special | None = None) -> HeadScores:
        """Turn scores, labels and tables to another reading that was computed; None stays.

        Raises: OptionError if it was not.
        """
        reading = AttentionView(by or self.reading.by, special or self.reading.special)
        if reading.by not in self.scores_by and self.attention is not None:
            raise OptionError("what heads carry is not in this result", 'leave out by="carried"')
        if reading != self.reading and reading not in self.labels_by:
            remedy = (
                "make it with by= and special=, or keep all of its attention: "
                "classify(keep_attention=True)"
            )
            raise OptionError(f"this result is {self.reading}", remedy)
        signature = replace(self.signature, by=reading.by, special=reading.special)
        shown = AttentionView(by or self.shown.by, special or self.shown.special)
        return replace(self, signature=signature, shown=shown)

    def kept_attention(self) -> Attention:
        """The attention. Raises: OptionError if it was not kept."""
        if self.attention is None:
            message = "this result has not kept its attention"
            raise OptionError(message, "keep it: classify(..., keep_attention=True)")
        return self.attention

    @property
    def shown_attention(self) -> Attention:
        """The kept attention by what is `shown`, unit by unit.

        Raises: OptionError if it was not kept.
        """
        attention = self.kept_attention()
        if self.shown.carried:
            attention = attention.carried
        if self.signature.unit == "word":
            attention = attention.in_words(self.units)
        if self.shown.words_only:
            attention = attention.without_special_tokens
        return attention

    def cut(self, selection: Selection) -> HeadScores:
        """Keep a part of the attention, which is whole.

        Raises: OptionError, SelectionError for what is not there.
        """
        attention = self.kept_attention()
        chosen = selection.chosen(
            attention.grid, attention.tokens, attention.segments, attention.unit
        )
        targets: list[NDArray[np.float32]] = []
        if chosen.heads is None:
            unit = attention.unit or range(len(attention.tokens))
            rows = slice(unit[chosen.rows[0]], unit[chosen.rows[-1]] + 1)
            targets = [target[:, rows] for target in self.targets]
        return replace(self, attention=attention.only(chosen), targets=targets, scored_input=None)

    def weights(self, selection: Selection, *, average: bool) -> HeadWeights:
        """Some heads' kept weights, or their mean.

        Raises: OptionError, SelectionError for what is not there.
        """
        attention = self.kept_attention()
        queries, keys = selection.cells(attention.tokens, attention.segments, attention.source)
        return HeadWeights(
            result=self,
            heads=tuple(attention.grid.select(selection.heads or "all")),
            attention=self.shown_attention,
            average=average,
            queries=queries,
            keys=keys,
        )

    def order(self, pattern: str | None = None) -> IntArray:
        """The numbers of the heads with a score, best first.

        By the score on `pattern`, or by how far their best is above chance.
        """
        if pattern is None:
            return best_first(np.fmax.reduce(self.table.above_chance, axis=-1))
        p = self.scores.place_of(pattern)
        ranking = (self.ranked_by or self.scores).table(self.reading.words_only)
        order = best_first(ranking.score[..., p])
        has_score = ~np.isnan(self.table.score[..., p].ravel())
        return order[has_score[order]]

    def ranked_numbers(self, patterns: Sequence[str]) -> IntArray:
        """The numbers of the heads, best first: on the first of some patterns that any head has.

        Without patterns, by how far the best of all is above chance.
        """
        wanted: list[str | None] = [*patterns] or [None]
        orders = [self.order(pattern) for pattern in wanted]
        return next((order for order in orders if len(order)), orders[0])

    def alignment_order(self) -> IntArray:
        """The numbers of cross attention's heads, those first that align words best.

        With gold links that is the lowest alignment error rate. Without them, it is the lowest mean
        of two ranks, by low entropy and by high coverage, which prove nothing. Heads without these
        are left out.
        """
        measured = self.scores.alignment
        if "aer" in measured:
            return best_first(-measured["aer"].value)
        by_entropy = _ranks(self.scores.means["entropy"])
        by_coverage = _ranks(-measured["coverage"].value)
        return best_first(-(by_entropy + by_coverage))

    def leads(self, pattern: str) -> pd.DataFrame:
        """By how much the head of each rank is above the next one, with the paired standard error.

        `sure` is whether that is more than half its 95 % interval, by t over effective pairs.
        """
        order = self.order(pattern)
        p = self.scores.place_of(pattern)
        score = self.table.score[..., p].ravel()[order]
        effective = self.table.effective_pairs[..., p].ravel()[order]
        difference = score[:-1] - score[1:]
        se = np.full(difference.shape, np.nan)
        if self.table.residual is not None:
            blocks = len(self.table.residual)
            residual = self.table.residual[..., p].reshape(blocks, -1)[:, order]
            se = np.sqrt(((residual[:, :-1] - residual[:, 1:]) ** 2).sum(0))
        sure = difference > half_width(se, np.minimum(effective[:-1], effective[1:]))
        return pd.DataFrame({"difference": difference, "se": se, "sure": sure})

    def to_frame(
        self, patterns: Sequence[str] | None = None, top: int | None = None
    ) -> pd.DataFrame:
        """One row a head: label, share, scores, entropy.

        Of a ranking, one for each head of each pattern. With `top`, so many of each pattern or, of
        one input, so many of all heads. Raises: OptionError for less than one.
        """
        check_top(top)
        is_ranking = bool(patterns) or top is not None or self.ranked_by is not None
        table = CLASSIFY_TABLE if self.is_one_input else HEADS_TABLE
        if self.is_one_input or (self.has_labels and not is_ranking):
            rows: Any = self.labels.columns(patterns or self.pattern or self.scores.patterns)
            if self.held is not None:
                for column in HELD_COLUMNS:
                    rows[column.name] = column.values(self).ravel()
        else:
            table = RANKING_TABLE
            parts = [self._by_pattern(pattern, top) for pattern in patterns or self.scores.patterns]
            rows = pd.concat(parts, ignore_index=True)
        about: dict[str, Any] = {"split": self.ranked_by is not None}
        if self.is_one_input:
            about = {
                "units": list(self.units),
                "sentence": list(self.sentence),
                "not_measured": dict(self.not_measured),
                "notes": list(self.notes),
                "related": [list(pair) for pair in self.related],
            }
        frame = signed_frame(rows, self.signature, table, **about)
        if self.is_one_input and top is not None:
            return frame.iloc[self.ranked_numbers(patterns or self.pattern)[:top]]
        return frame

    def _by_pattern(self, pattern: str, top: int | None) -> pd.DataFrame:
        """A row for each head, best first, then those without a score; or for the `top` heads."""
        table = self.table
        order = self.order(pattern)
        if top:
            listed = order[:top]
        else:
            unscored = np.setdiff1d(np.arange(len(self.grid)), order)
            listed = np.append(order, unscored)
        rank = pd.Series(np.arange(1, len(order) + 1), dtype="Int64")
        columns = {"pattern": pattern, "rank": rank.reindex(range(len(listed)))}
        columns |= self.grid.columns(listed, with_names=True)
        p = self.scores.place_of(pattern)
        for column in RANKING_COLUMNS:
            columns[column.name] = column.values(table)[..., p].ravel()[listed]
        return pd.DataFrame(columns)


def _ranks(values: FloatArray) -> FloatArray:
    """Each value's rank, smallest first; equals have one rank, NaN none."""
    smaller = (values[:, :, None, None] > values).sum((2, 3))
    return np.where(np.isnan(values), np.nan, smaller)


@dataclass(frozen=True)
class HeadWeights:
    """What `show` shows: some heads' weights on an input, or their mean with `average`."""

    result: HeadScores  # every head's scores on the input, and its attention
    attention: Attention  # that attention, as far as it was kept, by what the result is of
    heads: tuple[Head, ...]
    average: bool
    queries: tuple[int, ...]  # indices of tokens, in the order of the text
    keys: tuple[int, ...]

    def number(self, token: int) -> int:
        """A token's number in its own text, from 0.

        In cross attention, the target's are counted by themselves.
        """
        source = self.attention.source
        return token - source if token >= source else token

    def matrices(self) -> Iterator[tuple[tuple[Head, ...], NDArray[np.float32]]]:
        """Each head's weights, or their mean, with the heads that it is of.

        Shape: [query, key] of those asked for.
        """
        cells = np.ix_(np.searchsorted(self.attention.rows, self.queries), np.array(self.keys))
        sets = [self.heads] if self.average else [(head,) for head in self.heads]
        for heads in sets:
            weights = [self.attention.weights[self.attention.place(head)][cells] for head in heads]
            mean = np.stack(weights).mean(0, dtype=np.float64)
            yield heads, np.asarray(mean, np.float32)

    def to_frame(self, top: int | None = None) -> pd.DataFrame:
        """One row for each query and key; with `top`, so many of each head, strongest first.

        Of a mean, layer and head are empty. With gold links there is `aligned`. Raises: OptionError
        for a `top` of less than one.
        """
        check_top(top)
        tokens = np.array(self.attention.tokens, object)
        queries = np.repeat(self.queries, len(self.keys))
        keys = np.tile(self.keys, len(self.queries))
        cells = {
            "query": [self.number(query) for query in queries],
            "query_token": tokens[queries],
            "key": keys,
            "key_token": tokens[keys],
        }
        parts = []
        for heads, matrix in self.matrices():
            place = heads[0].columns
            if self.average:
                place |= {"layer": None, "head": None}
            part = pd.DataFrame({**place, **cells, "weight": matrix.ravel().astype(float)})
            if self.result.links:
                part["aligned"] = self._is_linked(queries, keys)
            if top is not None:
                part = part.sort_values("weight", ascending=False, kind="stable")[:top]
            parts.append(part)
        about: dict[str, Any] = {"tokens": list(self.attention.tokens)}
        if self.average:
            about["mean_of"] = [[head.layer, head.head] for head in self.heads]
        rows = pd.concat(parts, ignore_index=True).astype({"layer": "Int64", "head": "Int64"})
        return signed_frame(rows, self.result.signature, SHOW_TABLE, **about)

    def _is_linked(self, queries: IntArray, keys: IntArray) -> list[int]:
        """1 for each query and key that have a gold link, else 0."""
        links = set(self.result.links)
        return [int(cell in links) for cell in zip(queries, keys, strict=True)]

"""What every head does, on one input or over many pairs: labels, scores, ranks, and where its attention goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import OptionError, WeightsError
from attnscan.results.attention import Attention, Selection
from attnscan.results.grid import Grid, Head, HeadLike, Heads
from attnscan.results.intervals import half_width
from attnscan.results.lazy import pd
from attnscan.results.scores import (
    MOST_HEADS,
    SPECIAL_CLASSES,
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
    describe,
    signed_frame,
)


@dataclass(frozen=True)
class Profile:
    """The mean share of a word's attention on each class of keys, for every head.

    The shares of words sum to 1 among words; with special tokens in, all shares do. The classes `start`, `middle` and
    `end` are always shares of all attention. Shape: each array [layer, head, class]; NaN without such words.
    """

    classes: tuple[
        str, ...
    ]  # words by class, then patterns of one's own, which overlap these, then special tokens
    share: FloatArray
    se: FloatArray  # the standard error of each share, clustered by pair; NaN of one input
    chance: FloatArray  # the share under even attention
    grid: Grid
    signature: Signature

    __repr__ = describe

    @property
    def average(self) -> FloatArray:
        """The average head's share. Shape: [class]; NaN where no head has one."""
        heads = (~np.isnan(self.share)).sum((0, 1))
        average: FloatArray = np.nansum(self.share, (0, 1)) / np.where(heads, heads, np.nan)
        return average

    def strongest(self, head: HeadLike, least: float = 0.0) -> list[tuple[str, float]]:
        """A head's classes with their shares of at least so much, largest first; special tokens are not among them."""
        shares = dict(
            zip(self.classes, self.share[self.grid.head(head).place].tolist(), strict=True)
        )
        classes = {
            name: share
            for name, share in shares.items()
            if name not in SPECIAL_CLASSES and share > 0
        }
        return sorted(
            ((name, share) for name, share in classes.items() if share >= least),
            key=lambda entry: -entry[1],
        )

    def to_frame(self, heads: Heads | None = None, top: int | None = None) -> pd.DataFrame:
        """One row for each class of each head, of all or some; with `top`, so many of each head, largest first."""
        parts = []
        for head in self.grid if heads is None else self.grid.select(heads):
            share, se, chance = (
                values[head.place] for values in (self.share, self.se, self.chance)
            )
            about = {**head.columns, "name": head.table_name, "class": self.classes}
            rows = pd.DataFrame(
                {**about, "share": share, "se": se, "chance": chance, "average": self.average}
            )
            parts.append(
                rows
                if top is None
                else rows.sort_values("share", ascending=False, kind="stable")[:top]
            )
        return signed_frame(pd.concat(parts, ignore_index=True), self.signature)


@dataclass(frozen=True)
class HeadScores:
    """What every head does on one input, or over many pairs. One input is one pair that also has `units`."""

    signature: Signature  # where the result comes from: model, versions, device, input
    scores_by: Mapping[By, Scores]
    """Every head's scores by attention weights or by what heads carry; with `split`, by the half that does not rank."""
    labels_by: dict[AttentionView, Any] = field(default_factory=dict, compare=False)
    """What every head does, by the readings that are known: `Labels`, or a function that works them out when asked."""
    ranked_by: Scores | None = None  # with `split`, the scores by the half of the pairs that ranks
    units: tuple[str, ...] = ()  # the tokens, or the words, of one input that were scored
    sentence: tuple[
        int, ...
    ] = ()  # of each unit 0 for sentence A, 1 for B, -1 for a special token, -2 for padding
    not_measured: Mapping[str, str] = field(
        default_factory=dict
    )  # patterns that were not looked for, and why
    notes: tuple[str, ...] = ()  # what else to know of how the scores were obtained, a line each
    related: tuple[
        tuple[int, int], ...
    ] = ()  # units that counted as related and are not identical, by their places
    links: tuple[
        tuple[int, int], ...
    ] = ()  # the gold links of cross attention: units of the target and the source
    output: FloatArray | None = None
    """The mean length of what each head puts out for a word, as a share of its layer's. Shape: [layer, head]."""
    shown: AttentionView = RAW_VIEW  # by what weights are shown and drawn
    attention: Attention | None = field(default=None, compare=False)  # the input's, if it was kept
    targets: Sequence[NDArray[np.float32]] = field(default=(), compare=False)
    """Of each layer, if the attention was kept, each pattern's target. Shape: [pattern, query unit, key unit]."""
    pattern: tuple[
        str, ...
    ] = ()  # the patterns that were asked for of one input, which tables show; none for all
    html: Callable[[HeadScores], str] | None = field(default=None, compare=False)  # for a notebook

    def __repr__(self) -> str:
        counts = Counter(self.label.ravel().tolist()).most_common() if self.has_labels else []
        return describe(
            self, *(f"{count} {label or 'no distinct habit'}" for label, count in counts)
        )

    def _repr_html_(self) -> str | None:
        return self.html(self) if self.html else None

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
        """What every head does, and how sure that is. Raises: OptionError if labels are not there."""
        if not self.has_labels:
            raise OptionError(
                "this ranking has no labels", "score all patterns of pairs: leave out pattern"
            )
        labels: Labels | Callable[[], Labels] = self.labels_by[self.reading]
        if not isinstance(labels, Labels):
            labels = self.labels_by[self.reading] = labels()
        return labels

    @property
    def label(self) -> NDArray[np.str_]:
        """What each head does: `delimiter` if it rests on special tokens, else `among_words`. Shape: [layer, head]."""
        return self.labels.label

    @property
    def among_words(self) -> NDArray[np.str_]:
        """The pattern that each head follows among words, else its habit, else nothing. Shape: [layer, head]."""
        return self.labels.among_words

    @property
    def profile(self) -> Profile:
        """Where every head's attention goes. Raises: WeightsError if the model has too many heads for it to be kept."""
        if self.labels.classes is None:
            raise WeightsError(
                "where the attention of so many heads goes is not kept",
                f"give {MOST_HEADS} at most",
            )
        return Profile(*self.labels.classes, self.grid, self.signature)

    def with_reading(self, by: By | None = None, special: Special | None = None) -> HeadScores:
        """Turn scores, labels and tables to another reading; None stays. Raises: OptionError if it is not there."""
        reading = AttentionView(by or self.reading.by, special or self.reading.special)
        if reading.by not in self.scores_by:
            raise OptionError("what heads carry is not in this result", 'leave out by="carried"')
        if reading != self.reading and reading not in self.labels_by:
            remedy = "make it with by= and special=, or with classify(keep_attention=True), which has every reading"
            raise OptionError(f"this result is {self.reading}", remedy)
        view = AttentionView(by or self.shown.by, special or self.shown.special)
        return replace(
            self,
            shown=view,
            signature=replace(self.signature, by=reading.by, special=reading.special),
        )

    def kept_attention(self) -> Attention:
        """The attention. Raises: OptionError if it was not kept."""
        if self.attention is None:
            raise OptionError(
                "this result has not kept its attention",
                "keep it: classify(..., keep_attention=True)",
            )
        return self.attention

    @property
    def shown_attention(self) -> Attention:
        """The kept attention by what is `shown`, unit by unit. Raises: OptionError if it was not kept."""
        attention = self.kept_attention().carried if self.shown.carried else self.kept_attention()
        attention = attention.in_words(self.units) if self.signature.unit == "word" else attention
        return attention.without_special_tokens if self.shown.words_only else attention

    def cut(self, selection: Selection) -> HeadScores:
        """Keep a part of the attention, which is whole. Raises: OptionError, SelectionError for what is not there."""
        attention = self.kept_attention()
        chosen = selection.chosen(
            attention.grid, attention.tokens, attention.segments, attention.unit
        )
        unit = attention.unit or range(len(attention.tokens))
        rows = slice(unit[chosen.rows[0]], unit[chosen.rows[-1]] + 1)
        targets = [target[:, rows] for target in self.targets] if chosen.heads is None else ()
        return replace(self, attention=attention.only(chosen), targets=targets)

    def weights(self, selection: Selection, *, average: bool) -> HeadWeights:
        """Some heads' kept weights, or their mean. Raises: OptionError, SelectionError for what is not there."""
        attention = self.kept_attention()
        cells = selection.cells(attention.tokens, attention.segments, attention.source)
        return HeadWeights(
            self, tuple(attention.grid.select(selection.heads or "all")), average, *cells
        )

    def order(self, pattern: str | None = None) -> IntArray:
        """The numbers of the heads with a score, best first: on `pattern`, or how far their best is above chance."""
        if pattern is None:
            return best_first(np.fmax.reduce(self.table.above_chance, axis=-1))
        p = self.scores.place_of(pattern)
        order = best_first(
            (self.ranked_by or self.scores).table(self.reading.words_only).score[..., p]
        )
        return order[~np.isnan(self.table.score[..., p].ravel()[order])]

    def leads(self, pattern: str) -> pd.DataFrame:
        """By how much the head of each rank is above the next one, with the paired standard error.

        `sure` is whether that is more than half its 95 % interval, by t over effective pairs.
        """
        order, table, p = self.order(pattern), self.table, self.scores.place_of(pattern)
        score, effective = (
            table.score[..., p].ravel()[order],
            table.effective_pairs[..., p].ravel()[order],
        )
        difference, se = score[:-1] - score[1:], np.full(max(len(order) - 1, 0), np.nan)
        if table.residual is not None:
            residual = table.residual[..., p].reshape(len(table.residual), -1)[:, order]
            se = np.sqrt(((residual[:, :-1] - residual[:, 1:]) ** 2).sum(0))
        sure = difference > half_width(se, np.minimum(effective[:-1], effective[1:]))
        return pd.DataFrame({"difference": difference, "se": se, "sure": sure})

    def to_frame(
        self, patterns: Sequence[str] | None = None, top: int | None = None
    ) -> pd.DataFrame:
        """One row a head: label, share, scores, entropy; of a ranking, one for each head of each pattern."""
        ranks = (
            bool(patterns) or top is not None or not self.has_labels or self.ranked_by is not None
        )
        if self.is_one_input or not ranks:
            rows: Any = self.labels.columns(patterns or self.pattern or self.scores.patterns)
        else:
            parts = [self._by_pattern(pattern, top) for pattern in patterns or self.scores.patterns]
            rows = pd.concat(parts, ignore_index=True)
        about: dict[str, Any] = {"split": self.ranked_by is not None}
        if self.is_one_input:
            about = {"units": list(self.units), "sentence": list(self.sentence)}
            about |= {"not_measured": dict(self.not_measured), "notes": list(self.notes)}
            about["related"] = [list(pair) for pair in self.related]
        return signed_frame(rows, self.signature, **about)

    def _by_pattern(self, pattern: str, top: int | None) -> pd.DataFrame:
        """A row for each head, best first, then those without a score; or for the `top` heads."""
        table, order, p = self.table, self.order(pattern), self.scores.place_of(pattern)
        listed = (
            order[:top] if top else np.append(order, np.setdiff1d(np.arange(len(self.grid)), order))
        )
        numbers = {name: getattr(table, name) for name in ("score", "chance", "above_chance", "se")}
        numbers |= {
            "low": table.interval[0],
            "high": table.interval[1],
            "n": table.n,
            "pairs": table.pairs,
        }
        rank = pd.Series(np.arange(1, len(order) + 1), dtype="Int64").reindex(range(len(listed)))
        about = {"pattern": pattern, "rank": rank} | self.grid.columns(listed, with_names=True)
        return pd.DataFrame(
            about | {name: values[..., p].ravel()[listed] for name, values in numbers.items()}
        )


@dataclass(frozen=True)
class HeadWeights:
    """What `show` shows: some heads' weights on an input, or their mean with `average`."""

    result: HeadScores  # every head's scores on the input, and its attention
    heads: tuple[Head, ...]
    average: bool
    queries: tuple[int, ...]  # indices of tokens, in the order of the text
    keys: tuple[int, ...]

    @cached_property
    def attention(self) -> Attention:
        """The input's, as far as it was kept, by what the result is of. Raises: OptionError if it was not."""
        return self.result.shown_attention

    def number(self, token: int) -> int:
        """A token's number in its own text, from 0: in cross attention, the target's are counted by themselves."""
        source = self.attention.source
        return token - source if token >= source else token

    def matrices(self) -> Iterator[tuple[tuple[Head, ...], NDArray[np.float32]]]:
        """Each head's weights, or their mean, with the heads that it is of. Shape: [query, key] of those asked for."""
        cells = np.ix_(np.searchsorted(self.attention.rows, self.queries), np.array(self.keys))
        for heads in [self.heads] if self.average else [(head,) for head in self.heads]:
            weights = np.stack(
                [self.attention.weights[self.attention.place(head)][cells] for head in heads]
            )
            yield heads, np.asarray(weights.mean(0, dtype=np.float64), np.float32)

    def to_frame(self) -> pd.DataFrame:
        """One row for each query and key; of a mean, layer and head are empty; with gold links, `aligned`."""
        tokens, links = np.array(self.attention.tokens, object), set(self.result.links)
        queries, keys = (
            np.repeat(self.queries, len(self.keys)),
            np.tile(self.keys, len(self.queries)),
        )
        cells = {"query": [self.number(query) for query in queries], "query_token": tokens[queries]}
        cells |= {"key": keys, "key_token": tokens[keys]}
        aligned = (
            {"aligned": [int(cell in links) for cell in zip(queries, keys, strict=True)]}
            if links
            else {}
        )
        none = {"layer": None, "head": None} if self.average else {}
        parts = [
            pd.DataFrame(
                {
                    **heads[0].columns,
                    **none,
                    **cells,
                    "weight": matrix.ravel().astype(float),
                    **aligned,
                }
            )
            for heads, matrix in self.matrices()
        ]
        about = (
            {"mean_of": [[head.layer, head.head] for head in self.heads]} if self.average else {}
        )
        rows = pd.concat(parts, ignore_index=True).astype({"layer": "Int64", "head": "Int64"})
        return signed_frame(
            rows, self.result.signature, tokens=list(self.attention.tokens), **about
        )

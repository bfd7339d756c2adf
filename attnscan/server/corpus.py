"""Files of pairs behind the page: their ranking, and of the first pairs each one's own scores and text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import OptionError
from attnscan.inputs.pairs import Pair, Place, Record
from attnscan.results.grid import Grid, Head
from attnscan.results.ranking import Ranking
from attnscan.results.scores import MIXED, FloatArray
from attnscan.results.signature import Signature
from attnscan.safe_text import plain

MOST_PAIRS = 10_000
_LONGEST, _MOST_TEXT = 8_000, 32 << 20  # characters: of a pair, so that it can be asked again, and of all together
_MOST, _LEAST = 8, 4  # pairs that are shown of a head


@dataclass(frozen=True)
class _Kept:
    pair: Pair
    where: str
    scores: NDArray[np.float16]
    """Among words. Shape: [layer, head, pattern]; NaN where no word was eligible."""


@dataclass(frozen=True)
class Corpus:
    """Heads ranked over all pairs, and the first of these."""

    title: str
    """Which pairs they are."""
    ranking: Ranking
    kept: Sequence[_Kept]

    def pairs_of(self, head: Head) -> dict[str, Any]:
        """The pairs on which a head follows its label among words most, and least. Raises: OptionError."""
        if head not in (grid := self.ranking.scores.grid):
            raise OptionError(f"there is no head {head.name}", f"this model has {grid}")
        pattern = self._pattern(head)
        if pattern is None:
            return {"pattern": None, "pairs": []}
        p = self.ranking.scores.patterns.index(pattern)
        scores = np.array([kept.scores[(*head.place, p)] for kept in self.kept], dtype=np.float64)
        order = [int(i) for i in np.argsort(-scores, kind="stable") if np.isfinite(scores[i])]
        shown = [*order[:_MOST], *order[_MOST:][-_LEAST:]]
        return {"pattern": pattern, "pairs": [self._shown(self.kept[i], scores[i]) for i in shown]}

    def _pattern(self, head: Head) -> str | None:
        """A head's label on the map or, of a mixed one, what it is farthest above chance for."""
        labels = self.ranking.mapped
        if (label := str(labels.content_label[head.place])) != MIXED:
            return label
        above = labels.scores.words_only.above_chance[head.place]
        return None if np.isnan(above).all() else labels.scores.patterns[int(np.nanargmax(above))]

    def _shown(self, kept: _Kept, score: float) -> dict[str, Any]:
        return {"a": kept.pair.a, "b": kept.pair.b, "where": plain(kept.where), "score": round(float(score), 4)}


class PairKeeper:
    """Keeps the first pairs of a scan; it takes what a scan writes of each, as a file of them would."""

    def __init__(self, most: int = MOST_PAIRS) -> None:
        self._room, self._text_room = most, _MOST_TEXT
        self._records: dict[Place, Record] = {}
        self._scores: dict[Place, NDArray[np.float16]] = {}

    def read(self, records: Iterable[Record]) -> Iterator[Record]:
        """The same records, the first of them kept on their way."""
        for record in records:
            length = sum(map(len, record.pair.sentences))
            if len(self._records) < self._room and length <= min(_LONGEST, self._text_room):
                self._text_room -= length
                self._records[record.place] = record
            yield record

    def hold(self, places: Sequence[Place], sums: Mapping[str, FloatArray]) -> None:
        """Take some pairs' own sums, as `Scorer.pair_sums` names them; what is known of a pair already is added to."""
        with np.errstate(invalid="ignore", divide="ignore"):
            scores = (sums["words_only.weight"] / sums["words_only.n"]).astype(np.float16)
        for place, own in zip(places, scores, strict=True):
            if place in self._records:
                known = self._scores.get(place)
                self._scores[place] = own if known is None else np.where(np.isnan(own), known, own)

    write = hold

    def write_held(self) -> None:
        """Nothing: a scan that is interrupted is not served."""

    def finish(self, signature: Signature, grid: Grid, *, whole: bool = True) -> None:
        """Nothing: there is no file."""

    def corpus(self, title: str, ranking: Ranking) -> Corpus:
        """The pairs that were kept, and a ranking of all."""
        kept = [
            _Kept(record.pair, record.where, self._scores[place])
            for place, record in self._records.items()
            if place in self._scores
        ]
        return Corpus(title, ranking, kept)

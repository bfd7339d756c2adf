"""Files of pairs behind the page: their ranking, and of the first pairs each one's own scores and text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import OptionError
from attnscan.inputs.pairs import Pair, Place, Record
from attnscan.results.grid import Head
from attnscan.results.ranking import Ranking
from attnscan.results.scores import MIXED
from attnscan.run.events import PairScores
from attnscan.run.reading import Ledger, Pairs
from attnscan.safe_text import plain
from attnscan.scan.scanner import Scanner
from attnscan.server.search import LinkIndex

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
    links: LinkIndex | None = None
    """Of these, where heads link alike; None if nothing can be asked of the model."""

    def pairs_of(self, head: Head) -> dict[str, Any]:
        """The pairs on which a head follows its label among words, `most` of them the most and the others the least.

        Raises: OptionError.
        """
        if head not in (grid := self.ranking.scores.grid):
            raise OptionError(f"there is no head {head.name}", f"this model has {grid}")
        pattern = self._pattern(head)
        if pattern is None:
            return {"pattern": None, "most": 0, "pairs": []}
        p = self.ranking.scores.patterns.index(pattern)
        scores = np.array([kept.scores[(*head.place, p)] for kept in self.kept], dtype=np.float64)
        order = [int(i) for i in np.argsort(-scores, kind="stable") if np.isfinite(scores[i])]
        shown = [*order[:_MOST], *order[_MOST:][-_LEAST:]]
        pairs = [self._shown(self.kept[i], scores[i]) for i in shown]
        return {"pattern": pattern, "most": min(_MOST, len(order)), "pairs": pairs}

    def _pattern(self, head: Head) -> str | None:
        """A head's label on the map or, of a mixed one, what it is farthest above chance for."""
        labels = self.ranking.mapped
        if (label := str(labels.content_label[head.place])) != MIXED:
            return label
        above = labels.scores.words_only.above_chance[head.place]
        return None if np.isnan(above).all() else labels.scores.patterns[int(np.nanargmax(above))]

    def _shown(self, kept: _Kept, score: float) -> dict[str, Any]:
        return {"a": kept.pair.a, "b": kept.pair.b, "where": plain(kept.where), "score": round(float(score), 4)}


class PairKeeper(Pairs):
    """Pairs of which the first are kept on their way through a scan, with their own scores."""

    def __init__(self, pairs: Pairs, most: int = MOST_PAIRS) -> None:
        self._pairs, self.skip_bad = pairs, pairs.skip_bad
        self._room, self._text_room = most, _MOST_TEXT
        self._records: dict[Place, Record] = {}
        self._scores: dict[Place, NDArray[np.float16]] = {}

    def ready(self, ledger: Ledger, passes: int = 1, remedy: str = "") -> PairKeeper:
        """Itself. Raises: as `Pairs.ready`."""
        self._pairs = self._pairs.ready(ledger, passes, remedy)
        return self

    def how_many(self) -> int | None:
        """About how many pairs there are."""
        return self._pairs.how_many()

    def read(self, ledger: Ledger) -> Iterator[Record]:
        """Begin a pass over all pairs. Raises: as `Pairs.read`."""
        for record in self._pairs.read(ledger):
            length = sum(map(len, record.pair.texts))
            if len(self._records) < self._room and length <= min(_LONGEST, self._text_room):
                self._text_room -= length
                self._records[record.place] = record
            yield record

    def take(self, scores: PairScores) -> None:
        """Take some pairs' own scores; what is known of a pair already is added to."""
        sums = scores.sums
        with np.errstate(invalid="ignore", divide="ignore"):
            among_words = (sums["words_only.weight"] / sums["words_only.n"]).astype(np.float16)
        for place, own in zip(scores.places, among_words, strict=True):
            if place in self._records:
                known = self._scores.get(place)
                self._scores[place] = own if known is None else np.where(np.isnan(own), known, own)

    def corpus(self, title: str, ranking: Ranking, scanner: Scanner | None = None) -> Corpus:
        """The pairs that were kept, and a ranking of all; with a scanner they can be searched."""
        kept = [
            _Kept(record.pair, record.where, self._scores[place])
            for place, record in self._records.items()
            if place in self._scores
        ]
        pairs = [(of_pair.pair, of_pair.where) for of_pair in kept]
        return Corpus(title, ranking, kept, None if scanner is None else LinkIndex(scanner, pairs))

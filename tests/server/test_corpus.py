"""The pairs behind a ranking: which are kept, and which are shown of a head."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import work

import attnscan
from attnscan.errors import OptionError
from attnscan.inputs.objects import objects_in
from attnscan.inputs.pairs import Place
from attnscan.results.grid import Head
from attnscan.results.ranking import Ranking
from attnscan.results.scores import MIXED
from attnscan.run.reading import FilePairs, Ledger, ObjectPairs
from attnscan.scan.events import PairScores
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.server import corpus as corpora
from attnscan.server.corpus import Corpus, PairKeeper

SENTENCES = [f"the cat number {i} sat on the mat, and the cat sat on a dog" for i in range(20)]
OPTIONS = ScanOptions(model="bundled", predictive="off", labelled=True, profile=True, predictive_part=False)


@pytest.fixture(scope="module")
def scanned(tmp_path_factory: pytest.TempPathFactory) -> tuple[PairKeeper, Ranking]:
    path: Path = tmp_path_factory.mktemp("pairs") / "pairs.txt"
    path.write_text("\n".join(SENTENCES))
    keeper = PairKeeper(FilePairs((str(path),)))
    with Scanner(OPTIONS) as scanner:
        return keeper, work.kept(keeper, scanner)


@pytest.fixture
def corpus(scanned: tuple[PairKeeper, Ranking]) -> Corpus:
    keeper, ranking = scanned
    return keeper.corpus("20 pairs", ranking)


def test_a_head_shows_where_it_follows_its_label_most_and_least(corpus: Corpus) -> None:
    labels = corpus.ranking.mapped.content_label
    head = next(head for head in corpus.ranking.scores.grid if labels[head.place] == "next-word")
    found = corpus.pairs_of(head)
    assert found["pattern"] == "next-word" and len(found["pairs"]) == 12 and found["most"] == 8
    scores = [pair["score"] for pair in found["pairs"]]
    assert scores == sorted(scores, reverse=True)
    for pair in (found["pairs"][0], found["pairs"][-1]):
        alone = attnscan.classify(pair["a"], pair["b"], model="bundled", predictive="off")
        p = alone.scores.patterns.index("next-word")
        assert alone.by_weight.scores.words_only.score[(*head.place, p)] == pytest.approx(pair["score"], abs=1e-3)
        line = int(pair["where"].rpartition(":")[2])
        assert pair["a"] == SENTENCES[line - 1]


def test_a_mixed_head_shows_what_it_comes_nearest_to(corpus: Corpus) -> None:
    labels = corpus.ranking.mapped
    head = next(head for head in labels.scores.grid if labels.content_label[head.place] == MIXED)
    above = labels.scores.words_only.above_chance[head.place]
    found = corpus.pairs_of(head)
    assert found["pattern"] == labels.scores.patterns[int(np.nanargmax(above))]


def test_a_pattern_that_no_pair_was_scored_for_has_no_pairs(scanned: tuple[PairKeeper, Ranking]) -> None:
    corpus = Corpus("none", scanned[1], [])
    assert corpus.pairs_of(Head(0, 2))["pairs"] == []


@pytest.mark.parametrize("head", [Head(6, 0), Head(0, 12)])
def test_heads_that_are_not_there(corpus: Corpus, head: Head) -> None:
    with pytest.raises(OptionError, match="this model has 6 × 12"):
        corpus.pairs_of(head)


def _keeper(texts: Iterable[str], most: int = corpora.MOST_PAIRS) -> PairKeeper:
    return PairKeeper(ObjectPairs(objects_in(list(texts))), most)


def _rows(keeper: PairKeeper) -> list[int]:
    return [place.row for place in keeper._records]


def test_the_first_pairs_are_kept_and_all_pass() -> None:
    keeper = _keeper((f"cat {i}" for i in range(10)), most=3)
    assert len(list(keeper.read(Ledger()))) == 10 and _rows(keeper) == [1, 2, 3]


def test_text_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "_MOST_TEXT", 10_000)
    keeper = _keeper(["x" * 8_001, "x" * 8_000, "x" * 2_001, "x" * 1_999, "x", "x"])
    assert len(list(keeper.read(Ledger()))) == 6 and _rows(keeper) == [2, 4, 5]


def test_what_is_measured_later_is_added() -> None:
    keeper = _keeper(["cat"])
    (record,) = keeper.read(Ledger())

    def scores(place: Place, weight: list[float], n: list[float]) -> PairScores:
        sums = {"words_only.weight": weight, "words_only.n": n}
        return PairScores([place], {name: np.array(values).reshape(1, 1, 1, 2) for name, values in sums.items()})

    keeper.take(scores(record.place, [1, 0], [2, 0]))
    keeper.take(scores(record.place, [0, 3], [0, 4]))
    assert keeper._scores[record.place].ravel().tolist() == [0.5, 0.75]
    keeper.take(scores(Place("pairs", 99), [1, 0], [2, 0]))
    assert list(keeper._scores) == [record.place]

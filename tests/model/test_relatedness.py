"""Which words count as related, on embeddings made for it."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoTokenizer

from attnscan.inputs.vocabulary import Units, WholeWords, whole_words
from attnscan.model.relatedness import Relatedness

SIZE = 2000
FIRST = 10  # id of the first word
NAMES = [
    f"{chr(97 + i * 7 % 26)}x{chr(97 + i // 676)}{chr(97 + i // 26 % 26)}{chr(97 + i % 26)}"
    for i in range(SIZE)
]
WORDS = WholeWords({name: FIRST + i for i, name in enumerate(NAMES)}, "##")
# Places among the words, the first 100 of which are frequent
KING = 500
QUEEN = 501
RARE = 502


def _rows(seed: int = 0) -> Tensor:
    """Random directions around a common one, which says nothing and must be taken off.

    Shape: [vocabulary, 64].
    """
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(FIRST + SIZE, 64, generator=generator) + 5


def _near(rows: Tensor, place: int, other: int, far: float = 0.3) -> None:
    """Put one word near another."""
    generator = torch.Generator().manual_seed(place)
    rows[FIRST + place] = rows[FIRST + other] + far * torch.randn(64, generator=generator)


def _units(places: Sequence[int]) -> Units:
    """A sentence of some words, by their places."""
    tokens = [NAMES[place] for place in places]
    return tokens, [0] * len(tokens), list(range(len(tokens)))


def _found(rows: Tensor, *places: int) -> set[tuple[int, int]]:
    """Of some words, by their places, the pairs that are related."""
    (related,) = Relatedness(rows, WORDS).related([_units(places)])
    assert torch.equal(related, related.T)
    assert not related.diagonal().any()
    return {(places[i], places[j]) for i, j in related.triu().nonzero().tolist()}


def test_near_from_one_side_alone_is_not_enough() -> None:
    """Ten words stand nearer to the king than the queen does, and he is the nearest to her."""
    rows = _rows()
    _near(rows, QUEEN, KING, far=0.8)
    assert _found(rows, KING, QUEEN) == {(KING, QUEEN)}
    for i, place in enumerate(range(600, 610)):
        rows[FIRST + place] = rows[FIRST + KING] - 0.1 * (rows[FIRST + QUEEN] - rows[FIRST + KING])
        rows[FIRST + place, i] += 0.1
    assert not _found(rows, KING, QUEEN)


@pytest.mark.parametrize(("words", "has_threshold"), [(999, False), (1000, True)])
def test_of_fewer_than_a_thousand_words_none_are_near(words: int, has_threshold: bool) -> None:
    vocabulary = WholeWords({name: FIRST + i for i, name in enumerate(NAMES[:words])}, "##")
    threshold = Relatedness(_rows(), vocabulary).threshold
    assert (threshold < 1) == has_threshold
    assert has_threshold or threshold == math.inf


def test_near_means_the_percentile_of_pairs_of_different_words() -> None:
    rows = _rows()[: FIRST + 1500]
    words = WholeWords({name: FIRST + i for i, name in enumerate(NAMES[:1500])}, "##")
    directions = torch.nn.functional.normalize(rows[FIRST:] - rows[FIRST:].mean(0), dim=-1)
    cosines = (
        (directions @ directions.T)[torch.ones(1500, 1500, dtype=torch.bool).triu(1)].sort().values
    )
    threshold = Relatedness(rows, words).threshold
    assert threshold == pytest.approx(cosines[-math.ceil(len(cosines) / 10_000)].item(), abs=1e-6)


@pytest.mark.parametrize(
    "rows",
    [
        torch.eye(FIRST + SIZE),
        torch.ones(FIRST + SIZE, 8),
        torch.zeros(FIRST + SIZE, 8),
        _rows() * math.nan,
    ],
    ids=["orthogonal", "alike", "zero", "nan"],
)
def test_where_no_pair_stands_out_none_is_related(rows: Tensor) -> None:
    assert Relatedness(rows, WORDS).threshold == math.inf
    assert not _found(rows, KING, QUEEN, RARE)


def test_words_that_all_point_one_way_do_not_stand_out() -> None:
    """Five thousand of them, but for one."""
    rows = torch.ones(5000, 8)
    rows[7] = -1
    words = WholeWords({f"w{number}": number for number in range(len(rows))}, "##")
    assert Relatedness(rows, words).threshold == math.inf


@pytest.mark.parametrize("name", ["bundled", "minilm-l6-mlm"])
def test_words_of_like_meaning_are_found_and_no_others(
    name: str, bundled_dir: Path, shared: Path
) -> None:
    directory = bundled_dir if name == "bundled" else shared / "models" / name
    weights = load_file(directory / "model.safetensors")
    (table,) = [name for name in weights if name.endswith("word_embeddings.weight")]
    relation = Relatedness(weights[table], whole_words(AutoTokenizer.from_pretrained(directory)))
    lines = (shared / "text" / "related-words.tsv").read_text(encoding="utf-8").splitlines()[1:]
    pairs = [line.split("\t") for line in lines]
    assert len(pairs) == 62
    cells = relation.related([([a, b], [0, 0], [0, 1]) for a, b, _ in pairs])
    found = [(a, b, alike) for (a, b, alike), cell in zip(pairs, cells, strict=True) if cell[0, 1]]
    assert len(found) >= 26
    assert {alike for _, _, alike in found} == {"1"}


def test_random_words_are_related_as_the_cosines_of_all_words_say() -> None:
    """Forty words, of which every fifth is near the one before it; the first are frequent."""
    rows = _rows()
    chosen = [80 + 10 * place for place in range(41)]
    for i in range(1, 41):
        if i % 5:
            _near(rows, chosen[i], chosen[i - i % 5])
    directions = torch.nn.functional.normalize(rows[FIRST:] - rows[FIRST:].mean(0), dim=-1)
    cosines = (directions @ directions.T).fill_diagonal_(-2)
    relation = Relatedness(rows, WORDS)
    near = (cosines >= relation.threshold) & (cosines >= cosines.topk(10).values[:, -1:])
    expected = near & near.T
    expected[:100, :100] = False  # two frequent words
    assert expected[chosen][:, chosen].sum() > 30
    for seed in range(20):
        places = np.random.default_rng(seed).choice(chosen, size=(3, 9))
        units = [_units(row) for row in places]
        for row, related in zip(places, relation.related(units), strict=True):
            assert torch.equal(related, expected[row][:, row])

"""Blocks of pairs, and the errors that leaving them out gives: as large as other pairs would make a difference."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from attnscan.inputs.pairs import Pair, read_pairs
from attnscan.results.profile import Fit
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scoring.patterns import PATTERNS
from attnscan.scoring.profile import Profiler
from attnscan.scoring.profile_sums import BLOCKS, ProfileSums, block_of

Array = NDArray[np.float64]
PAIRS = Path(__file__).parents[2] / "examples" / "pairs.csv"


@pytest.fixture(scope="module")
def pair_sums() -> list[ProfileSums]:
    """The bundled model's, of each pair that attnscan ships by itself."""
    found = []
    with Scanner(ScanOptions(model="bundled", predictive="off", related=False)) as scanner:
        for record in read_pairs([str(PAIRS)]):
            batch = scanner.collate([scanner.encode(record.pair)])
            profiler = Profiler(batch, PATTERNS)
            scanner.run(batch.model_inputs, profiler)
            found.append(profiler.sums())
    return found


def test_a_pairs_block_goes_by_its_text_and_all_blocks_are_used() -> None:
    assert [block_of(Pair("the cat")), block_of(Pair("the", "cat")), block_of(Pair("the cat"))] == [28, 12, 28]
    counts = np.bincount([block_of(Pair(f"the cat sat on {n} mats")) for n in range(3200)], minlength=BLOCKS)
    assert len(counts) == BLOCKS and counts.min() > 60 and counts.max() < 140


def test_sums_of_nothing_add_nothing(pair_sums: list[ProfileSums]) -> None:
    layers, heads = pair_sums[0].squares.shape[1:]
    nothing = ProfileSums.zero(layers, heads, pair_sums[0].mass.shape[-1])
    for one, other in zip((pair_sums[0] + nothing).fields, pair_sums[0].fields, strict=True):
        assert (one == other).all()
    assert (nothing + nothing).words.sum() == 0


def resampled(pair_sums: list[ProfileSums], count: int) -> tuple[Array, Array]:
    """How much shares, and what is explained, differ between that many resamples of the pairs."""
    rng = np.random.default_rng(0)
    own = [np.stack([sums.fields[number].sum(0) for sums in pair_sums]) for number in range(5)]
    layers, heads = pair_sums[0].squares.shape[1:]
    blank = ProfileSums.zero(layers, heads, pair_sums[0].mass.shape[-1])
    fits: list[Fit] = []
    for _ in range(count):
        times = np.bincount(rng.integers(0, len(pair_sums), len(pair_sums)), minlength=len(pair_sums))
        for total, each in zip(blank.fields, own, strict=True):
            total[0] = np.tensordot(times.astype(float), each, 1)
        fits.append(blank.finish())
    return np.std([one.share for one in fits], axis=0, ddof=1), np.std([one.explained for one in fits], axis=0, ddof=1)


def test_errors_are_the_spread_over_other_pairs(pair_sums: list[ProfileSums]) -> None:
    """Of the parts that matter, in the median, and none of them far off; of every head what is explained."""
    found = reduce(add, pair_sums).finish()
    share, explained = resampled(pair_sums, 200)
    matter = np.nan_to_num(found.share) > 0.05
    assert matter.sum() > 200
    ratio = found.se[matter] / share[matter]
    assert np.median(ratio) == pytest.approx(1, abs=0.2)
    assert_allclose(np.quantile(ratio, [0.05, 0.95]), 1, atol=0.5)
    assert np.median(found.explained_se / explained) == pytest.approx(1, abs=0.2)


def test_errors_fall_with_the_root_of_how_many_pairs_there_are(pair_sums: list[ProfileSums]) -> None:
    """The same pairs four times over, in the same blocks, are no more pairs; a quarter of them have twice the error."""
    whole = reduce(add, pair_sums)
    four = whole + whole + whole + whole
    assert_allclose(four.finish().se, whole.finish().se, rtol=1e-6, atol=1e-9)
    some = reduce(add, pair_sums[::4]).finish()
    matter = np.nan_to_num(whole.finish().share) > 0.05
    assert np.median(some.se[matter] / whole.finish().se[matter]) == pytest.approx(2, abs=0.4)


def test_a_part_of_one_block_alone_has_no_error(pair_sums: list[ProfileSums]) -> None:
    """Without that block there is no such part to fit."""
    punctuation = -3
    sums = reduce(add, pair_sums)
    block = int(np.flatnonzero(sums.words)[0])
    others = np.arange(BLOCKS) != block
    gram, on_part, mass = (each.copy() for each in (sums.gram, sums.on_part, sums.mass))
    gram[others, :, punctuation] = gram[others, :, :, punctuation] = 0
    on_part[others, ..., punctuation] = mass[others, :, punctuation] = 0
    found = replace(sums, gram=gram, on_part=on_part, mass=mass).finish()
    assert np.isfinite(found.share[..., punctuation]).all()
    assert np.isnan(found.se[..., punctuation]).all()
    assert np.isfinite(np.delete(found.se, punctuation, -1)).sum() > 0 and np.isfinite(found.explained_se).all()


def test_of_many_heads_no_more_is_kept_than_of_each_by_itself() -> None:
    """A thousand heads, as large models have: sums grow with heads, not with pairs of heads."""
    few, many = (sum(each.nbytes for each in ProfileSums.zero(4, heads, 25).fields) for heads in (25, 250))
    assert many < 10 * few


def test_parts_that_differ_little_are_told_apart_and_those_that_do_not_are_fitted_together() -> None:
    """By one part in a thousand; and twice the same part."""
    rng = np.random.default_rng(0)
    for apart in (1e-3, 0.0):
        cells = rng.random((200, 3))
        cells[:, 2] = cells[:, 1] + apart * rng.random(200)
        weights = cells @ [0.2, 0.5, 0.3]
        sums = ProfileSums.zero(1, 1, 3)
        sums.gram[0, 0], sums.on_part[0, 0, 0], sums.mass[0, 0] = cells.T @ cells, cells.T @ weights, 200
        sums.squares[0], sums.words[0] = weights @ weights, 200
        found = sums.finish()
        assert found.explained[0, 0] == pytest.approx(1, abs=1e-9)
        assert found.share[0, 0].sum() == pytest.approx(1, abs=1e-4)
        if apart:
            assert_allclose(found.share[0, 0], [0.2, 0.5, 0.3], atol=1e-4)

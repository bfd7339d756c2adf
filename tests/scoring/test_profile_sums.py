"""Blocks of pairs, and the errors that leaving them out gives: as large as other pairs would make a difference."""

from __future__ import annotations

from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from attnscan.inputs.read import read_pairs
from attnscan.results.profile import Fit, parts_of
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scoring.patterns import PATTERNS
from attnscan.scoring.profile import Profiler, profile_sums
from attnscan.scoring.profile_sums import fitted, sums_shapes
from attnscan.scoring.resampling import BlockSums

Array = NDArray[np.float64]
PAIRS = Path(__file__).parents[2] / "examples" / "pairs.csv"


@pytest.fixture(scope="module")
def pair_sums() -> list[BlockSums]:
    """The bundled model's, of each pair that attnscan ships by itself."""
    found = []
    with Scanner(ScanOptions(model="bundled", predictive="off", related=False)) as scanner:
        for record in read_pairs([str(PAIRS)]):
            batch = scanner.collate([scanner.encode(record.pair)])
            profiler = Profiler(batch, PATTERNS)
            scanner.run(batch.model_inputs, profiler)
            found.append(profile_sums(profiler.sums(), [record.pair.key]))
    return found


def _beside(some: dict[str, Array], more: dict[str, Array]) -> dict[str, Array]:
    return {name: np.concatenate([values, more[name]]) for name, values in some.items()}


def fit_of(sums: BlockSums) -> Fit:
    return fitted(sums.stacked())


def resampled(pair_sums: list[BlockSums], count: int) -> tuple[Array, Array]:
    """How much shares, and what is explained, differ between that many resamples of the pairs."""
    rng, every = np.random.default_rng(0), reduce(_beside, (sums.stacked() for sums in pair_sums))
    fits: list[Fit] = []
    for _ in range(count):
        times = np.bincount(rng.integers(0, len(pair_sums), len(pair_sums)), minlength=len(pair_sums)).astype(float)
        fits.append(fitted({name: np.tensordot(times, values, 1)[None] for name, values in every.items()}))
    return np.std([one.share for one in fits], axis=0, ddof=1), np.std([one.explained for one in fits], axis=0, ddof=1)


@pytest.mark.long
def test_errors_are_the_spread_over_other_pairs(pair_sums: list[BlockSums]) -> None:
    """Of the parts that matter, in the median, and none of them far off; of every head what is explained."""
    found = fit_of(reduce(add, pair_sums))
    share, explained = resampled(pair_sums, 100)
    matter = np.nan_to_num(found.share) > 0.05
    assert matter.sum() > 150
    ratio = found.se[matter] / share[matter]
    assert np.median(ratio) == pytest.approx(1, abs=0.2)
    assert_allclose(np.quantile(ratio, [0.05, 0.95]), 1, atol=0.5)
    assert np.median(found.explained_se / explained) == pytest.approx(1, abs=0.2)


def test_errors_fall_with_the_root_of_how_many_pairs_there_are(pair_sums: list[BlockSums]) -> None:
    """The same pairs four times over, in the same blocks, are no more pairs; a quarter of them have twice the error."""
    whole = reduce(add, pair_sums)
    four = whole + whole + whole + whole
    assert_allclose(fit_of(four).se, fit_of(whole).se, rtol=1e-6, atol=1e-9)
    some, every = fit_of(reduce(add, pair_sums[::4])), fit_of(whole)
    matter = np.nan_to_num(every.share) > 0.05
    assert np.median(some.se[matter] / every.se[matter]) == pytest.approx(2, abs=0.4)


def test_a_part_of_one_block_alone_has_no_error(pair_sums: list[BlockSums]) -> None:
    """Without that block there is no such part to fit."""
    punctuation = parts_of().index("punctuation")
    sums = {name: values.copy() for name, values in reduce(add, pair_sums).stacked().items()}
    sums["products"][1:, ..., punctuation] = sums["gram"][1:, :, punctuation] = sums["gram"][1:, :, :, punctuation] = 0
    sums["on_part"][1:, ..., punctuation] = sums["mass"][1:, :, punctuation] = 0
    found = fitted(sums)
    assert np.isfinite(found.share[..., punctuation]).all()
    assert np.isnan(found.se[..., punctuation]).all()
    assert np.isfinite(np.delete(found.se, punctuation, -1)).sum() > 0 and np.isfinite(found.explained_se).all()


def test_parts_that_differ_little_are_told_apart_and_those_that_do_not_are_fitted_together() -> None:
    """By one part in a hundred, which float32 sums can tell; and twice the same part."""
    rng = np.random.default_rng(0)
    for apart in (1e-2, 0.0):
        cells = rng.random((200, 3))
        cells[:, 2] = cells[:, 1] + apart * rng.random(200)
        weights = cells @ [0.2, 0.5, 0.3]
        whole = {name: np.zeros((1, *shape)) for name, shape in sums_shapes(1, 1, 4).items()}
        whole["gram"][0, 0], whole["on_part"][0, 0, 0, :3] = cells.T @ cells, cells.T @ weights
        whole["mass"][0, 0, :3], whole["squares"][0], whole["words"][0] = 200, weights @ weights, 200
        found = fitted(whole)
        assert found.explained[0, 0] == pytest.approx(1, abs=1e-7)
        assert np.nansum(found.share[0, 0]) == pytest.approx(1, abs=1e-4)
        if apart:
            assert_allclose(found.share[0, 0, :3], [0.2, 0.5, 0.3], atol=1e-4)

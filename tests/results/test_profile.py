"""A profile in words and as a table."""

from __future__ import annotations

import numpy as np
import pytest
from small_results import SIGNATURE

from attnscan.results.grid import Head
from attnscan.results.profile import FAMILIES, OTHERS, Fit, Profile, parts_of

PARTS = parts_of(["my-own"])


def _profile(*heads: dict[str, float], explained: float = 0.5) -> Profile:
    """One layer of heads with these shares, no word with a `middle`."""
    share = np.array([[head.get(part, 0.0) for part in PARTS] for head in heads])[None]
    existing = np.ones((1, len(PARTS)))
    existing[0, PARTS.index("middle")] = 0
    share[..., PARTS.index("middle")] = np.nan
    of_heads = np.full(share.shape[:2], explained)
    return Profile(PARTS, Fit(share, 0.1 * share, of_heads, 0.01 * of_heads, existing, 0.4 * of_heads), SIGNATURE)


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ({"offset-1": 0.51, "offset-2": 0.12, "start": 0.1}, ["offset-1 0.51", "offset-2 0.12", "start 0.10"]),
        ({"offset+1": 0.2, "offset+2": 0.18, "offset+3": 0.12}, ["offset+1..+3 0.50"]),
        ({"offset-2": 0.2, "offset-3": 0.1, "offset-4": 0.09}, ["offset-2..-3 0.30", "offset-4 0.09"]),
        ({"offset-1": 0.1, "offset-3": 0.1}, ["offset-1 0.10", "offset-3 0.10"]),
        ({"offset+1": 0.1, "offset-1": 0.1, "offset+0": 0.1}, ["offset+0 0.10", "offset-1 0.10", "offset+1 0.10"]),
        (
            {"own-sentence": 0.3, "same-keys": 0.25, "my-own": 0.2},
            ["own-sentence 0.30", "same-keys 0.25", "my-own 0.20"],
        ),
        ({f"offset+{d}": 0.05 for d in range(1, 9)}, ["offset+1..+8 0.40"]),
        ({}, []),
    ],
)
def test_parts_are_named_strongest_first_and_like_distances_together(
    shares: dict[str, float], words: list[str]
) -> None:
    assert [f"{name} {share:.2f}" for name, share in _profile(shares).strongest(Head(0, 0))] == words


def test_names_lose_nothing_of_the_shares() -> None:
    shares = np.random.default_rng(0).random(len(PARTS))
    profile = _profile(dict(zip(PARTS, shares.tolist(), strict=True)))
    assert sum(share for _, share in profile.strongest(Head(0, 0))) == pytest.approx(np.nansum(profile.fit.share))
    assert profile.by_family().sum() == pytest.approx(np.nansum(profile.fit.share))


def test_families_add_up_over_heads() -> None:
    spent = (
        _profile({"start": 0.4, "end": 0.2, "identical": 0.1}, {"cross-sentence": 0.3, "my-own": 0.5})
        .by_family()
        .mean(1)
    )
    families = {name: share for name, share in zip((*FAMILIES, OTHERS), spent[0].tolist(), strict=True) if share}
    assert families == pytest.approx({"start + middle + end": 0.3, "identical + cross-sentence": 0.2, OTHERS: 0.25})


def test_the_table_is_long_and_leaves_out_what_no_word_had() -> None:
    profile = _profile({"start": 0.4}, {"end": 0.2})
    frame = profile.to_frame()
    assert frame.columns.tolist() == ["model", "layer", "head", "part", "share", "se", "explained", "explained_by_even"]
    assert frame["part"].tolist() == [part for part in PARTS if part != "middle"] * 2
    assert frame.attrs["signature"]["model"] == SIGNATURE.model
    assert profile.to_frame([(0, 1)], top=2)["part"].tolist()[0] == "end"
    assert len(profile.to_frame(top=2)) == 4

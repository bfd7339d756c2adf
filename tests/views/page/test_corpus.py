"""The page of many pairs: its labels, scores and profiles are those of the ranking, and nothing in it can break out."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from pages import HOSTILE, Elements
from pandas.testing import assert_frame_equal

import attnscan
from attnscan import Ranking
from attnscan.errors import OptionError
from attnscan.results.profile import OFFSETS, in_words
from attnscan.views.page.frame import PageOptions
from attnscan.views.page.page import page

READINGS = {"weight": False, "words": True, "carried": False, "carried-words": True}
"""Whether among words."""


def _turned(ranking: Ranking, name: str) -> Ranking:
    assert ranking.carried is not None
    return ranking.of_carried(ranking.carried) if name.startswith("carried") else ranking


def test_every_reading_has_its_labels_and_its_scores_with_intervals(ranking: Ranking) -> None:
    facts = Elements(page(ranking).html).facts
    assert facts["readings"] == list(READINGS) and facts["usual"] == "carried-words" and facts["tokens"] == []
    for name, among_words in READINGS.items():
        turned = _turned(ranking, name)
        held = pd.DataFrame(facts["rows"][name], columns=facts["columns"])
        labels = turned.to_labels()
        for column in ("label", "runner_up", "content_label", "carried_label"):
            assert held[column].tolist() == labels[column].tolist()
        numbers = [column for column in labels.columns[3:] if labels[column].dtype.kind == "f"]
        found = held[numbers].replace("", "nan").astype(float)
        assert_frame_equal(found, labels[numbers], atol=1e-6, check_dtype=False)
        table = turned.scores.table(among_words)
        for p, pattern in enumerate(turned.scores.patterns):
            for column, values in zip(("", "_low", "_high"), (table.score, *table.interval), strict=True):
                told = held[pattern + column].replace("", "nan").astype(float).to_numpy()
                np.testing.assert_allclose(told, values[..., p].ravel(), atol=1e-6)
        used = turned.known_labels()
        unsure = used.content_unsure if among_words else used.unsure
        assert [int(mark) % 2 for mark in facts["marks"][name]] == unsure.ravel().tolist()


def test_profiles_have_their_errors_and_distances(ranking: Ranking) -> None:
    held = json.loads(Elements(page(ranking).html).bytes_of("profile-bytes").tobytes())
    profile = ranking.known_profile()
    assert list(held) == ["weight"] and len(held["weight"]) == 72
    for head, (unexplained, parts, distances) in zip(profile.grid, held["weight"], strict=True):
        share, half = (
            dict(zip(profile.parts, of[head.place], strict=True)) for of in (profile.fit.share, profile.interval)
        )
        assert unexplained == pytest.approx(1 - profile.fit.explained[head.place], abs=1e-4)
        by_words = {in_words(part): part for part in profile.parts}
        for name, told, error in parts:
            assert (told, error) == pytest.approx((share[by_words[name]], half[by_words[name]]), abs=1e-4)
        assert [told for _, told, _ in parts] == sorted((told for _, told, _ in parts), reverse=True)
        for offset, (told, error) in zip(OFFSETS, distances, strict=True):
            expected = share[f"offset{offset:+}"], half[f"offset{offset:+}"]
            assert [np.nan if each is None else each for each in (told, error)] == pytest.approx(
                expected, abs=1e-4, nan_ok=True
            )


def test_by_what_heads_carry_alone_it_says_why_weights_are_not_there(ranking: Ranking) -> None:
    assert ranking.carried is not None
    elements = Elements(page(ranking.of_carried(ranking.carried)).html)
    assert elements.facts["readings"] == ["carried", "carried-words"] and "profile-bytes" not in elements.text
    disabled = [of["value"] for tag, of in elements.tags if tag == "button" and "disabled" in of]
    assert disabled == ["weight", "words"]
    without = Elements(page(replace(ranking, carried=None)).html)
    assert without.facts["readings"] == ["weight", "words"] and without.facts["usual"] == "words"


def test_hostile_text_adds_no_element_and_no_attribute(ranking: Ranking) -> None:
    signature = replace(ranking.signature, model=HOSTILE[0], revision=HOSTILE[1], device=HOSTILE[2])
    harmless, hostile = Elements(page(ranking).html), Elements(page(replace(ranking, signature=signature)).html)
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in harmless.tags]
    assert {name for _, names in hostile.tags for name in names} == {name for _, of in harmless.tags for name in of}
    for tag, attributes in hostile.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("style", "src", "srcset")]
        assert tag == "link" or "href" not in attributes


def test_scores_lose_decimals_where_they_do_not_fit(ranking: Ranking) -> None:
    whole = len(page(ranking).html.encode())
    made = page(ranking, PageOptions(size=whole - 4_000))
    assert len(made.html.encode()) <= whole - 4_000
    assert any("decimals, as many as fit" in note for note in made.notes)


def test_in_python_it_takes_no_heads_and_needs_labels(ranking: Ranking) -> None:
    assert attnscan.report(ranking).html == page(ranking).html
    with pytest.raises(OptionError, match="a page of many pairs holds no head's weights; leave out heads"):
        attnscan.report(ranking, heads="0-2")
    with pytest.raises(OptionError, match="this ranking has no labels"):
        attnscan.report(replace(ranking, labels=None, carried=None))

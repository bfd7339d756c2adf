"""The numbers that the page holds: how exactly, and how large it gets."""

import csv
import html
import io
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from support.page_contents import Elements, carrying, made_up, without_neurons

from attnscan.errors import OptionError, SelectionError
from attnscan.results.attention import Chosen, check_drawn
from attnscan.results.files import render
from attnscan.results.grid import Head
from attnscan.results.signature import By, Special
from attnscan.views.page.arrays import WEIGHT_STEPS
from attnscan.views.page.facts import strongest_first
from attnscan.views.page.page import SIZE, PageOptions, at_most, page

READINGS: dict[str, tuple[By, Special]] = {
    "weight": ("weight", "in"),
    "weight-words": ("weight", "out"),
    "carried": ("carried", "in"),
    "carried-words": ("carried", "out"),
}


class TestArrays:
    @pytest.mark.parametrize("steps", WEIGHT_STEPS)
    def test_numbers_are_as_near_as_the_page_says(
        self, steps: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("attnscan.views.page.arrays.WEIGHT_STEPS", (steps,))
        result, attention = carrying(made_up(2, 3, 30, sharp=2)[0])
        elements = Elements(page(result).html)
        order = [head.place for head in strongest_first(result)]
        assert elements.carried("carried") == elements.carried("weights") == order
        words = np.array(attention.sentence) >= 0
        for head in order:
            weights = attention.weights[head]
            norms = attention.norms[head]
            error = np.abs(elements.numbers("weight", head) - weights).max()
            assert 0 < error <= 0.5 / steps + 1e-5
            for name, key_norms in (("carried", norms), ("carried-words", norms * words)):
                true = _by_hand(weights, key_norms)
                assert np.abs(elements.numbers(name, head) - true).max() <= 0.5 / steps + 1e-5
        near = at_most(0.5 / steps + 0.5 / 65535)
        assert (
            f"shares of what heads carry are rounded to within {near}" in elements.text["rounding"]
        )
        assert (
            f"rounded to within {near}"
            in Elements(page(made_up(2, 3, 30, sharp=2)[0]).html).text["rounding"]
        )

    def test_weights_among_words_are_exact_however_small(self) -> None:
        result, attention = made_up(1, 2, 12)
        parked = attention.weights * np.where(np.array(attention.sentence) >= 0, 1e-4, 1).astype(
            np.float32
        )
        parked /= parked.sum(-1, keepdims=True)
        parked[0, 1, 3] = np.eye(12)[0]  # nothing at all
        elements = Elements(
            page(replace(result, attention=replace(attention, weights=parked))).html
        )
        among = attention.weights[0, :, :, 1:-1] / attention.weights[0, :, :, 1:-1].sum(
            -1, keepdims=True
        )
        among[1, 3] = 0
        for head in (0, 1):
            found = elements.numbers("weight-words", (0, head))
            assert np.abs(found[:, 1:-1] - among[head]).max() < 0.5e-4 + 1e-6
            assert not found[:, [0, -1]].any()
            assert np.abs(elements.numbers("weight", (0, head)) - parked[0, head]).max() < 0.6e-4

    def test_a_causal_mask_holds_for_what_is_carried(self) -> None:
        weights = np.tril(np.ones((1, 2, 10, 10), dtype=np.float32)) / np.arange(1, 11)[:, None]
        result, attention = made_up(1, 2, 10)
        visible = np.tril(np.ones((1, 10, 10), dtype=bool))
        causal = replace(attention, weights=weights.astype(np.float32), visible=visible)
        elements = Elements(page(carrying(replace(result, attention=causal))[0]).html)
        for head in ((0, 0), (0, 1)):
            assert not np.triu(elements.numbers("carried", head), 1).any()
        assert_array_equal(elements.bytes_of("mask-0").reshape(10, 10), visible[0])
        thumbnails = elements.bytes_of("thumbnails-of-carried").reshape(2, 10, 10)
        assert not np.triu(thumbnails, 1).any() and thumbnails[:, 9].all()

    @pytest.mark.parametrize("room", [None, 21_000])
    def test_logits_are_as_near_as_the_page_says(self, room: int | None) -> None:
        result, attention = made_up(2, 3, 30, sharp=2)
        frame = len(
            page(made_up(1, 1, 3)[0]).html.encode()
        )  # what all pages take, scripts foremost
        size = None if room is None else frame + room
        elements = Elements(page(result, PageOptions(size=size)).html)
        errors = []
        for head in elements.carried("neurons"):
            query, key = elements.neurons("{}-{}".format(*head), 30)
            assert attention.query is not None and attention.key is not None
            true = attention.query[head].astype(float) @ attention.key[head].astype(float).T
            errors.append(np.abs(query @ key.T - true).max() * attention.scaling[head[0]])
        said = [
            float(text.split(",")[0])
            for name, text in elements.text.items()
            if name.startswith("neurons-")
        ]
        assert errors and errors == pytest.approx(said)
        assert f"off by {at_most(max(errors))} at most" in elements.text["rounding"]

    @pytest.mark.parametrize(
        "sharp", [2, *(pytest.param(sharp, marks=pytest.mark.long) for sharp in (0.01, 0.5, 10))]
    )
    def test_144_heads_at_128_tokens_take_at_most_two_megabytes(self, sharp: float) -> None:
        made = page(carrying(made_up(12, 12, 128, neurons=64, sharp=sharp)[0])[0])
        assert len(made.html.encode()) <= SIZE == 2_000_000
        elements = Elements(made.html)
        assert len(elements.carried("weights")) == 144 or any(
            "weights" in note for note in made.notes
        )
        assert len(elements.carried("neurons")) >= 20
        assert elements.carried("carried") == elements.carried("weights")
        assert {len(rows) for rows in elements.facts["rows"].values()} == {144}

    def test_what_does_not_fit_is_left_out_from_the_end_and_said(self) -> None:
        result, _ = made_up(4, 6, 60, neurons=32, sharp=3)
        whole = len(page(result, PageOptions(size=float("inf"))).html)
        made = page(result, PageOptions(size=whole // 2))
        elements = Elements(made.html)
        weights = elements.carried("weights")
        neurons = elements.carried("neurons")
        order = [head.place for head in strongest_first(result)]
        assert len(made.html) <= whole // 2
        assert weights == order[: len(weights)] and neurons == order[: len(neurons)]
        assert 0 < len(neurons) < 24
        assert any(f"queries and keys of {len(neurons)} of 24" in note for note in made.notes)
        assert all(note in made.html for note in made.notes)
        assert len(elements.facts["rows"]["weight"]) == 24 and elements.facts["side"] > 0

    def test_named_heads_are_carried_whatever_they_take(self, small: tuple) -> None:
        elements = Elements(page(small[0], PageOptions(heads=(Head(2, 3), Head(0, 1)))).html)
        assert elements.carried("weights") == elements.carried("neurons") == [(2, 3), (0, 1)]
        assert (
            elements.facts["best"] == "2-3" and "other heads" in elements.facts["whyNot"]["weights"]
        )

    @pytest.mark.parametrize(
        ("read_by", "carried", "neurons"),
        [
            (
                "file",
                "saved weights do not hold what heads carry",
                "saved weights hold no queries and keys",
            ),
            (
                "watch",
                "what heads of this architecture carry cannot be computed",
                "this architecture does not show its queries and keys",
            ),
        ],
    )
    def test_it_says_why_there_is_nothing_carried_and_no_neurons(
        self, small: tuple, read_by: str, carried: str, neurons: str
    ) -> None:
        result, attention = small
        signature = replace(result.signature, read_by=read_by)
        made = page(replace(result, attention=without_neurons(attention), signature=signature)).html
        elements = Elements(made)
        facts = elements.facts
        text = html.unescape(made)
        assert (facts["whyNot"]["carried"], facts["whyNot"]["neurons"]) == (carried, neurons)
        assert f"What heads carry is not on this page: {carried}." in text
        assert f"There is no neuron view: {neurons}." in text
        assert elements.carried("carried") == elements.carried("neurons") == []
        assert (
            list(facts["titles"]) == ["weight", "weight-words"] and facts["usual"] == "weight-words"
        )
        assert "thumbnails-of-carried" not in elements.text
        without = Elements(page(result, PageOptions(neurons=False)).html)
        assert (
            without.carried("neurons") == []
            and "--no-neurons" in without.facts["whyNot"]["neurons"]
        )

    def test_each_different_mask_is_carried_once(self, small: tuple) -> None:
        result, attention = small
        band = np.abs(np.subtract.outer(np.arange(10), np.arange(10))) < 3
        visible = np.stack([band, np.ones_like(band), band])
        elements = Elements(
            page(replace(result, attention=replace(attention, visible=visible))).html
        )
        assert elements.facts["maskOfLayer"] == [0, 1, 0]
        assert_array_equal(elements.bytes_of("mask-0").reshape(10, 10), band)
        elements = Elements(page(result).html)
        assert elements.facts["maskOfLayer"] == [0, 0, 0] and elements.bytes_of("mask-0").all()

    def test_thumbnails_hold_the_largest_number_of_each_cell(self) -> None:
        result, attention = carrying(made_up(1, 2, 64)[0])
        elements = Elements(page(result).html)
        norms = attention.norms
        assert norms is not None
        carried = _by_hand(attention.weights[0], norms[0][:, None])
        for name, true in (("weight", attention.weights[0]), ("carried", carried)):
            small = elements.bytes_of(f"thumbnails-of-{name}").reshape(2, 32, 32)
            pooled = true.reshape(2, 32, 2, 32, 2).max((2, 4))
            assert np.abs(small - 255 * np.sqrt(pooled)).max() <= 0.51

    def test_a_passage_is_shown_with_its_shares_of_the_whole_input(self) -> None:
        result, attention = carrying(made_up(2, 3, 30, sharp=2)[0])
        attention = replace(attention, unit=tuple(range(30)))
        passage = Chosen(attention.grid, tuple(range(10, 25)))
        part = replace(result, attention=attention.only(passage), related=((1, 12), (12, 14)))
        elements = Elements(page(part).html)
        assert elements.facts["tokens"] == list(attention.tokens[10:25]) and elements.facts[
            "related"
        ] == [[2, 4]]
        assert "tokens 10 to 24 of 30" in html.unescape(page(part).html)
        words = np.array(attention.sentence) >= 0
        for head in ((0, 0), (1, 2)):
            weights = attention.weights[head]
            norms = attention.norms[head]
            expected = {
                "weight": weights,
                "weight-words": weights * words / (weights * words).sum(-1, keepdims=True),
            }
            expected["carried"] = _by_hand(weights, norms)
            expected["carried-words"] = _by_hand(weights, norms * words)
            for name, true in expected.items():
                assert np.abs(elements.numbers(name, head) - true[10:25, 10:25]).max() < 1e-4
            assert (
                expected["weight-words"][10:25, 10:25].sum(-1).min() < 0.5
            )  # a control: the rest is outside
        with pytest.raises(SelectionError, match=r"3,000 tokens are too many .* at most 2,048"):
            check_drawn(3000)
        with pytest.raises(OptionError, match="of some heads alone"):
            page(replace(result, attention=attention.only(replace(passage, heads=(Head(0, 1),)))))

    def test_padding_is_not_shown(self, small: tuple) -> None:
        result, attention = small
        result, attention = carrying(result)
        padded = replace(attention, sentence=(*attention.sentence[:-2], -2, -2))
        elements = Elements(page(replace(result, attention=padded)).html)
        assert len(elements.steps_of("carried-0-0")) == 9 * 9
        assert len(elements.facts["tokens"]) == 8
        assert (
            np.abs(elements.numbers("weight", (0, 0)) - attention.weights[0, 0, :8, :8]).max()
            < 1e-4
        )


@pytest.mark.parametrize("by", ["weight", "carried"])
def test_each_reading_has_its_own_cells_doubts_and_shares(small: tuple, by: By) -> None:
    result, _ = carrying(small[0])
    facts = Elements(page(result.select_reading(by)).html).facts
    for name, reading in READINGS.items():
        scores = result.select_reading(*reading)
        labels = scores.labels
        shares = scores.profile.strongest("0-0", 0.01)
        columns, *rows = csv.reader(io.StringIO(render(scores.to_frame(), "csv").decode()))
        assert (
            facts["columns"] == [*columns, "output"]
            and [row[:-1] for row in facts["rows"][name]] == rows
        )
        assert [(kind, share) for kind, share, _ in facts["profiles"][name][0]] == [
            (kind, pytest.approx(share, abs=1e-5)) for kind, share in shares
        ]
        assert facts["unsure"][name] == labels.unsure.ravel().astype(int).tolist()
        assert facts["rests"][name] == labels.rests.ravel().astype(int).tolist()
        chance = np.broadcast_to(scores.table.chance, (3, 4, len(facts["patterns"])))
        np.testing.assert_allclose(
            np.array(facts["chance"][name], float), chance.reshape(12, -1), atol=1e-5
        )
    assert any(any(unsure) for unsure in facts["unsure"].values())
    usual = f"{by}-words"
    assert (
        list(facts["titles"]) == [*(name for name in READINGS if name != usual), usual]
        and facts["usual"] == usual
    )


def _by_hand(weights: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """What queries are given from each key: weight times norm, as a share of its row.

    A row may be empty.
    """
    products = weights.astype(float) * norms
    whole = products.sum(-1, keepdims=True)
    return np.asarray(products / np.where(whole, whole, 1))

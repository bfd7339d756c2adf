"""The page as text: what it carries, how exactly, how large it gets, and that nothing in it can break out."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from pages import HOSTILE, Elements, made_up
from typer.testing import CliRunner

from attnscan.attention import Attention
from attnscan.cli import app
from attnscan.plain import plain
from attnscan.results import Classification
from attnscan.selection import heads_named
from attnscan.views import page as page_module
from attnscan.views.cargo import WEIGHT_STEPS, load, strongest_first
from attnscan.views.page import SIZE, PageOptions, at_most, page
from attnscan.writers import render

WEB = Path(page_module.__file__).parent / "web"


@pytest.fixture(scope="module")
def small() -> tuple[Classification, Attention]:
    return made_up(3, 4, 10)


class TestSafety:
    def test_hostile_text_adds_no_element_and_no_attribute(self) -> None:
        harmless = Elements(page(*made_up(1, 2, ["word"] * len(HOSTILE))).html)
        result, attention = made_up(1, 2, HOSTILE)
        signature = replace(result.signature, model=HOSTILE[0], revision=HOSTILE[1], device=HOSTILE[2])
        hostile = Elements(page(replace(result, signature=signature, notes=HOSTILE[:3]), attention).html)
        extra = [("p", {})] * 3  # the notes
        assert len(hostile.tags) == len(harmless.tags) + len(extra)
        assert {tag for tag, _ in hostile.tags} == {tag for tag, _ in harmless.tags}
        assert {name for _, names in hostile.tags for name in names} == {name for _, of in harmless.tags for name in of}

    def test_hostile_text_reads_back_as_text_with_control_characters_visible(self) -> None:
        elements = Elements(page(*made_up(1, 2, HOSTILE)).html)
        assert elements.facts["tokens"] == ["[CLS]", *map(plain, HOSTILE), "[SEP]"]
        assert len(Elements(f"<p>{' '.join(HOSTILE[:3])}</p>").tags) > 1  # a control: unescaped, it adds elements
        assert not re.search("[\x00-\x08\x0b-\x1f\u2028\u202a-\u202e\ud800-\udfff]", "".join(elements.facts["tokens"]))

    def test_the_policy_allows_the_pages_own_script_and_style_alone(self, small: tuple) -> None:
        html = page(*small).html
        (policy,) = [of["content"] for tag, of in Elements(html).tags if tag == "meta" and "http-equiv" in of]
        rules = dict(rule.strip().split(" ", 1) for rule in str(policy).split(";"))
        for rule, pattern in (
            ("script-src", '<script type="module">(.*?)</script>'),
            ("style-src", "<style>(.*?)</style>"),
        ):
            (content,) = re.findall(pattern, html, re.DOTALL)
            digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
            assert rules.pop(rule) == f"'sha256-{digest}'"
        assert rules.pop("default-src") == "'none'"
        assert rules == {"img-src": "data:", "base-uri": "'none'", "form-action": "'none'"}

    def test_nothing_is_fetched_and_nothing_runs_from_an_attribute(self, small: tuple) -> None:
        for tag, attributes in Elements(page(*small).html).tags:
            assert not [name for name in attributes if name.startswith("on") or name in ("style", "src", "srcset")]
            assert tag == "link" or "href" not in attributes
            assert tag != "link" or str(attributes["href"]).startswith("data:")

    @pytest.mark.parametrize("path", sorted(WEB.glob("*.js")), ids=lambda path: path.name)
    def test_scripts_set_text_as_text(self, path: Path) -> None:
        as_html = r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function"
        assert not re.search(as_html + r"|fetch\(|XMLHttp|https?:|</script|<!--", path.read_text(encoding="utf-8"))

    def test_every_file_of_the_folder_is_in_the_page(self, small: tuple) -> None:
        html = page(*small).html
        for path in WEB.iterdir():
            assert path.name == "frame.html.j2" or path.read_text(encoding="utf-8").strip() in html


class TestCargo:
    @pytest.mark.parametrize("steps", WEIGHT_STEPS)
    def test_weights_are_as_near_as_the_page_says(self, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("attnscan.views.cargo.WEIGHT_STEPS", (steps,))
        result, attention = made_up(2, 3, 30, sharp=2)
        made = page(result, attention)
        elements = Elements(made.html)
        for head in elements.carried("weights"):
            carried = elements.steps_of("weights-{}-{}".format(*head)) / elements.facts["weightSteps"]
            error = np.abs(carried - attention.weights[head].ravel()).max()
            assert 0 < error <= 0.5 / steps + 1e-7
        assert f"rounded to within {at_most(0.5 / steps)}" in elements.text["rounding"]

    def test_a_short_input_is_carried_with_the_finest_steps_and_whole(self, small: tuple) -> None:
        made = page(*small)
        elements = Elements(made.html)
        assert elements.facts["weightSteps"] == max(WEIGHT_STEPS) and made.notes == ()
        assert len(elements.carried("weights")) == len(elements.carried("neurons")) == 12

    @pytest.mark.parametrize("size", [None, 150_000])
    def test_logits_are_as_near_as_the_page_says(self, size: int | None) -> None:
        result, attention = made_up(2, 3, 30, sharp=2)
        elements = Elements(page(result, attention, PageOptions(size=size)).html)
        errors = []
        for head in elements.carried("neurons"):
            name = "{}-{}".format(*head)
            of = elements.facts["neuron"]["of"][name]
            steps = (elements.steps_of(f"neurons-{name}") - of["zero"]).reshape(2, 30, 16)
            query, key = (part * worth for part, worth in zip(steps, of["worth"], strict=True))
            assert attention.query is not None and attention.key is not None
            true = attention.query[head].astype(float) @ attention.key[head].astype(float).T
            errors.append(np.abs(query @ key.T - true).max() * attention.scaling[head[0]])
        assert errors and max(errors) == pytest.approx(elements.facts["neuron"]["error"])
        assert f"off by {at_most(max(errors))} at most" in elements.text["rounding"]

    @pytest.mark.parametrize("sharp", [0.01, 0.5, 2, 10])
    def test_144_heads_at_128_tokens_take_at_most_two_megabytes(self, sharp: float) -> None:
        made = page(*made_up(12, 12, 128, neurons=64, sharp=sharp))
        assert len(made.html.encode()) <= SIZE == 2_000_000
        elements = Elements(made.html)
        assert len(elements.carried("weights")) == 144 or any("weights" in note for note in made.notes)
        assert len(elements.carried("neurons")) >= 20
        assert len(elements.facts["rows"]) == 144

    def test_the_best_heads_of_each_pattern_come_first(self, small: tuple) -> None:
        scores = small[0].scores
        order = strongest_first(scores)
        assert sorted(order) == heads_named("all", scores.grid)
        above = scores.every_key.above_chance
        measured = [p for p in range(len(scores.patterns)) if not np.isnan(above[..., p]).all()]
        best = {divmod(int(np.nanargmax(above[..., p])), 4) for p in measured}
        assert set(order[: len(best)]) == best

    def test_what_does_not_fit_is_left_out_from_the_end_and_said(self) -> None:
        result, attention = made_up(4, 6, 60, neurons=32, sharp=3)
        whole = len(page(result, attention, PageOptions(size=None)).html)
        made = page(result, attention, PageOptions(size=whole // 2))
        elements = Elements(made.html)
        weights, neurons = elements.carried("weights"), elements.carried("neurons")
        order = strongest_first(result.scores)
        assert len(made.html) <= whole // 2
        assert weights == order[: len(weights)] and neurons == order[: len(neurons)]
        assert 0 < len(neurons) < 24
        assert any(f"queries and keys of {len(neurons)} of 24" in note for note in made.notes)
        assert all(note in made.html for note in made.notes)
        assert len(elements.facts["rows"]) == 24 and elements.facts["side"] > 0

    def test_named_heads_are_carried_whatever_they_take(self, small: tuple) -> None:
        elements = Elements(page(*small, PageOptions(heads=((2, 3), (0, 1)), size=None)).html)
        assert elements.carried("weights") == elements.carried("neurons") == [(2, 3), (0, 1)]
        assert elements.facts["best"] == "2-3" and "--heads" in elements.facts["whyNoWeights"]

    def test_why_there_are_no_neurons(self, small: tuple) -> None:
        result, attention = small
        without = Elements(page(result, attention, PageOptions(neurons=False)).html)
        assert without.carried("neurons") == [] and "--no-neurons" in without.facts["neuron"]["whyNone"]
        saved = Elements(page(result, attention.without_neurons()).html)
        assert saved.facts["neuron"]["whyNone"] == "saved weights hold no queries and keys"
        model = replace(result, signature=replace(result.signature, read_by="output_attentions"))
        assert "architecture" in Elements(page(model, attention.without_neurons()).html).facts["neuron"]["whyNone"]

    def test_each_different_mask_is_carried_once(self, small: tuple) -> None:
        result, attention = small
        band = np.abs(np.subtract.outer(np.arange(10), np.arange(10))) < 3
        visible = np.stack([band, np.ones_like(band), band])
        elements = Elements(page(result, replace(attention, visible=visible)).html)
        assert elements.facts["maskOfLayer"] == [0, 1, 0]
        assert_array_equal(elements.bytes_of("mask-0").reshape(10, 10), band)
        assert Elements(page(result, attention).html).facts["maskOfLayer"] == []

    def test_thumbnails_hold_the_largest_weight_of_each_cell(self) -> None:
        _, attention = made_up(1, 2, 64)
        cargo = load(attention, [], 1e9, neurons=False)
        small = Elements(f'<script id="t">{cargo.thumbnails}</script>').bytes_of("t").reshape(1, 2, 32, 32)
        pooled = attention.weights.reshape(1, 2, 32, 2, 32, 2).max((3, 5))
        assert_array_equal(small, np.rint(255 * np.sqrt(pooled)))

    def test_padding_is_not_shown(self, small: tuple) -> None:
        result, attention = small
        padded = replace(attention, sentence=(*attention.sentence[:-2], -2, -2))
        elements = Elements(page(result, padded).html)
        assert len(elements.facts["tokens"]) == 8
        steps = elements.steps_of("weights-0-0").reshape(8, 8) / elements.facts["weightSteps"]
        assert np.abs(steps - attention.weights[0, 0, :8, :8]).max() < 1e-4


def test_scores_are_those_of_the_csv(small: tuple) -> None:
    result, attention = small
    facts = Elements(page(result, attention).html).facts
    for rows, left_out in (([facts["columns"], *facts["rows"]], False), (facts["onWords"], True)):
        frame = result.to_frame(without_delimiters=left_out)
        expected = list(csv.reader(io.StringIO(render(frame, "csv").decode())))
        assert rows == (expected if not left_out else [row[6:13] for row in expected[1:]])


@pytest.mark.parametrize(("tokens", "right_to_left"), [(["שלום", "עולם"], True), (["hello", "שלום", "world"], False)])
def test_the_direction_of_the_text(tokens: list[str], right_to_left: bool) -> None:
    assert Elements(page(*made_up(1, 1, tokens)).html).facts["rightToLeft"] is right_to_left


class TestCommand:
    @pytest.fixture
    def weights(self, tmp_path: Path) -> Path:
        tokens = ["[CLS]", "the", "cat", "[SEP]", "[PAD]"]
        even = np.full((1, 2, 5, 5), 0.25)
        even[..., 4] = 0
        np.savez(tmp_path / "w.npz", attention=even, tokens=np.array(tokens), segments=np.zeros(5, int))
        return tmp_path / "w.npz"

    def test_it_writes_a_page_of_saved_weights(self, weights: Path, tmp_path: Path) -> None:
        path = tmp_path / "page.html"
        done = CliRunner().invoke(app, ["report", "--weights", str(weights), "-o", str(path)])
        assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
        elements = Elements(path.read_text(encoding="utf-8"))
        assert elements.facts["tokens"] == ["[CLS]", "the", "cat", "[SEP]"]
        assert elements.carried("weights") == [(0, 0), (0, 1)] and elements.carried("neurons") == []
        piped = CliRunner().invoke(app, ["report", "--weights", str(weights), "-o", "-"])
        assert piped.stdout_bytes == path.read_bytes()

    @pytest.mark.parametrize(
        ("arguments", "code", "words"),
        [
            (["-o", "page.pdf"], 2, "-o page.html"),
            (["-o", "no/page.html"], 1, "there is no directory"),
            (["-o", "page.html", "--heads", "two"], 1, "'two' names no head"),
            (["-o", "page.html", "--heads", "7-0"], 1, "this model has layers 0 to 0"),
            (["-o", "page.html", "--model", "bundled"], 2, "needs no model"),
            (["-o", "page.html", "a sentence"], 2, "but not both"),
            ([], 2, "Missing option"),
        ],
    )
    def test_what_it_refuses(
        self, weights: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, words: str
    ) -> None:
        monkeypatch.chdir(weights.parent)
        done = CliRunner().invoke(app, ["report", "--weights", weights.name, *arguments])
        assert (done.exit_code, done.stdout) == (code, "") and words in re.sub(r"\s+", " ", done.stderr)
        assert list(weights.parent.iterdir()) == [weights]

    def test_what_did_not_fit_is_said(self, tmp_path: Path) -> None:
        words = " ".join(["the cat sat on the mat and the dog ran"] * 6)
        path = tmp_path / "page.html"
        options = ["--model", "bundled", "--predictive", "off", "--size", "0.4", "-o", str(path)]
        done = CliRunner().invoke(app, ["report", words, *options])
        assert done.exit_code == 0, done.output
        assert re.search(r"attnscan: the queries and keys of \d+ of 72 heads fit in 0.4 MB", done.stderr)
        assert path.stat().st_size <= 400_000

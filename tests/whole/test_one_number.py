"""Every command and every view tells the same of a head: one reading, one label, one number."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from command_line import run
from drawn import texts
from pages import Elements

import attnscan
from attnscan import HeadScores
from attnscan.results.behaviour import Labels
from attnscan.results.scores import FloatArray
from attnscan.views.notebook import heads_html
from attnscan.views.page.live import answer_of
from attnscan.views.page.page import page
from attnscan.views.palette import letter, words
from attnscan.views.pictures.picture import picture
from attnscan.views.terminal.heads import first_screen
from attnscan.views.terminal.parts import render

PAIRS = [
    ("I went to the store.", "At the store, I bought fresh strawberries."),
    ("The experiment failed twice.", "The third experiment worked; nobody knew why the first ones had failed."),
    ("My dog sleeps all day.", "At night, the dog barks at cars."),
    ("She reads the paper in the morning.", "He reads it in the evening."),
    ("The king saw a queen.", "The queen saw the king too."),
    ("We walked to the river and back.", "The river was high, and the path was wet."),
    ("Rain fell all night.", "The streets were wet in the morning."),
    ("They sold the old house.", "The new house has a garden and a large kitchen."),
]
READINGS: dict[str, dict[str, str]] = {"usual": {}, "carried": {"by": "carried"}, "special": {"special": "in"}}
NUMBERS = ("label_stays", "share", "average")
NAMES = ("label", "among_words")


@dataclass(frozen=True)
class Told:
    """What every head does by one reading, as a result itself has it; and how to ask for the same."""

    ranking: HeadScores
    options: Mapping[str, str]
    pairs: Path

    @property
    def labels(self) -> Labels:
        labels = self.ranking.labels
        assert labels is not None
        return labels

    @property
    def asked(self) -> tuple[str, ...]:
        """The options of a command line."""
        reading = [part for name, value in self.options.items() for part in (f"--{name}", value)]
        return ("--model", "bundled", "--pairs", str(self.pairs), *reading)

    @property
    def marks(self) -> list[str]:
        """The letters of all heads."""
        labels = self.labels
        both = zip(labels.among_words.flat, labels.unsure.flat, strict=True)
        return [letter(str(name)) + "?" * bool(unsure) for name, unsure in both]

    def numbers_of(self, name: str) -> FloatArray:
        labels = self.labels
        assert labels.stays is not None
        numbers: FloatArray = {"label_stays": labels.stays, "share": labels.share, "average": labels.average}[name]
        return numbers

    def check(self, row: Mapping[str, object]) -> None:
        """That a head's row has its names and its numbers, those of the seven scores too."""
        labels, place = self.labels, (int(str(row["layer"])), int(str(row["head"])))
        names = {"label": labels.label, "among_words": labels.among_words}
        for name in {*NAMES} & {*row}:
            assert (row[name] or "") == names[name][place], (name, place)
        for name in {*NUMBERS} & {*row}:
            np.testing.assert_allclose(_number(row[name]), self.numbers_of(name)[place], atol=1e-6)
        for p, pattern in enumerate(self.ranking.scores.patterns):
            if pattern in row:
                np.testing.assert_allclose(_number(row[pattern]), self.ranking.table.score[*place, p], atol=1e-6)


def _number(cell: object) -> float:
    return float("nan") if cell in ("", None) else float(str(cell))


def _rows(*arguments: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(run(*arguments, "--csv").stdout)))


@pytest.fixture(scope="module", params=READINGS)
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Told:
    path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in [("sentence_a", "sentence_b"), *PAIRS]), encoding="utf-8")
    options = READINGS[request.param]
    return Told(attnscan.heads(str(path), model="bundled", predictive="off", **options), options, path)


def test_the_table_and_the_json_of_all_heads(told: Told) -> None:
    rows = _rows("heads", *told.asked, "--predictive", "off")
    assert len(rows) == 72
    document = json.loads(run("heads", *told.asked, "--predictive", "off", "--format", "json").stdout)
    for row in (*rows, *document["heads"]):
        told.check(row)


def test_the_table_of_a_pattern(told: Told) -> None:
    rows = _rows("heads", *told.asked, "--predictive", "off", "--pattern", "previous-word", "--top", "72")
    for row in rows:
        told.check({"previous-word": row["score"], "layer": row["layer"], "head": row["head"]})
    assert len(rows) == 72


def test_the_first_screen(told: Told) -> None:
    screen = run("heads", *told.asked, "--predictive", "off").stdout
    labels = told.labels
    letters = re.findall(r"^ \d  ((?:\S\S? *){12})$", screen, flags=re.MULTILINE)
    assert [mark for line in letters for mark in line.split()] == told.marks
    shown = re.findall(r"(\d-\d+)(\??) (\d\.\d\d)", screen.split("strongest")[1])
    assert len(shown) > 5
    for name, asked, share in shown:
        place = labels.grid.head(name).place
        resting = labels.numbers("delimiter", labels.grid.head(name)).share if labels.rests[place] else -1
        assert float(share) in (round(float(labels.share[place]), 2), round(resting, 2))
        assert (asked == "?") == labels.unsure[place]


def test_the_list_of_the_best_heads(told: Told) -> None:
    screen = run("heads", *told.asked, "--predictive", "off", "--pattern", "previous-word").stdout
    shown = re.findall(r"^(\d-\d+) +(\d\.\d{3}) ", screen, flags=re.MULTILINE)
    for name, score in shown:
        place = told.ranking.scores.grid.head(name).place
        assert float(score) == pytest.approx(told.ranking.table.score[*place, 1], abs=0.0005)
    assert len(shown) == 10


def test_a_card(told: Told) -> None:
    labels = told.labels
    names = [names[0].name for kind in labels.kinds.values() if (names := kind.heads)][:3]
    (*rows,) = _rows("head", ",".join(names), *told.asked, "--predictive", "off")
    for row in rows:
        told.check(row)
    screen = run("head", names[0], *told.asked, "--predictive", "off").stdout
    share, kind = (of[labels.grid.head(names[0]).place] for of in (labels.share, labels.among_words))
    assert f"{names[0]} {words(str(kind))} {share:.2f}, average head " in " ".join(screen.split())


def test_heads_that_are_compared_and_that_are_alike(told: Told) -> None:
    alike = attnscan.similar(str(told.pairs), model="bundled", **told.options).to_frame()
    compared = attnscan.compare("bundled", "bundled", str(told.pairs), **told.options).to_frame()
    for row in alike.to_dict("records"):
        told.check({name: row[name] for name in ("layer", "head", "label", "label_stays")})
    for row in compared.to_dict("records"):
        for of in ("a", "b"):
            told.check({"label": row[f"label_{of}"], "layer": row["layer"], "head": row["head"]})


def test_the_picture_and_the_notebook(told: Told) -> None:
    marks = Counter(told.marks)
    drawn = Counter(texts(picture(told.ranking)))
    assert all(drawn[mark] >= count for mark, count in marks.items())
    shown = unescape(re.sub("<[^>]*>", "", heads_html(told.ranking)))
    assert shown.split() == render(first_screen(told.ranking, 110, told.ranking.signature.counts), 110).split()


def test_the_page(told: Told) -> None:
    facts = Elements(page(told.ranking).html).facts
    (rows,) = facts["rows"].values()
    assert len(rows) == 72
    for row in rows:
        told.check(dict(zip(facts["columns"], row, strict=True)))


def test_what_is_explained(told: Told) -> None:
    """Heads are explained by the usual reading."""
    if told.options:
        return
    rows = _rows("explain", "0-2,1-8,3-4", *told.asked, "--predictive", "off")
    for row in rows:
        told.check({"layer": row["layer"], "head": row["head"], row["pattern"]: row["score"]})
        told.check({name: row[name] for name in ("layer", "head", "label", "label_stays")})
    assert len(rows) == 3


@pytest.mark.parametrize("reading", READINGS)
def test_one_input_and_its_live_page(reading: str) -> None:
    options, input_of_two = READINGS[reading], PAIRS[1]
    result = attnscan.classify(*input_of_two, model="bundled", predictive="off", keep_attention=True, **options)
    told = Told(result, options, Path())
    named = ("--model", "bundled", "--predictive", "off", *(p for o, v in options.items() for p in (f"--{o}", v)))
    rows = _rows("classify", *input_of_two, *named)
    document = json.loads(run("classify", *input_of_two, *named, "--format", "json").stdout)
    for row in (*rows, *document["heads"]):
        told.check(row)
    letters = re.findall(r"^ \d  ((?:\S\S? *){12})$", run("classify", *input_of_two, *named).stdout, flags=re.MULTILINE)
    assert [mark for line in letters for mark in line.split()] == told.marks
    live = _rows_of_answer(result)
    assert len(live) == len(rows) == 72
    for row in live:
        told.check(row)


def _rows_of_answer(result: HeadScores) -> list[dict[str, str]]:
    """What the live page takes for its table, by the reading of a result, which comes last."""
    text = answer_of(result, "0" * 16, (), ())["texts"]["table-bytes"]
    packed = json.loads(zlib.decompress(base64.b64decode(text)))
    cells = [packed["cells"][of][c] if isinstance(of, int) else of for c, of in enumerate(packed["cells"][-1])]
    output = ["output"] if result.output is not None else []
    columns = ["model", *result.labels.columns(result.scores.patterns), *output]
    return [dict(zip(columns, row, strict=True)) for row in zip(*packed["names"], *cells, strict=True)]

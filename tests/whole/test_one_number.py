"""Every command and every view tells the same of a head: one reading, one label, one number."""

import base64
import json
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape

import numpy as np
import pytest
from support.command_line import run, table
from support.drawn_pictures import texts
from support.page_contents import Elements

import attnscan
from attnscan import HeadScores
from attnscan.views.notebook import heads_html
from attnscan.views.page.page import answer_of, page
from attnscan.views.palette import letter, words
from attnscan.views.pictures.picture import picture
from attnscan.views.terminal.comparison import comparison_view
from attnscan.views.terminal.heads import first_screen
from attnscan.views.terminal.parts import render

PAIRS = [
    ("I went to the store.", "At the store, I bought fresh strawberries."),
    (
        "The experiment failed twice.",
        "The third experiment worked; nobody knew why the first ones had failed.",
    ),
    ("My dog sleeps all day.", "At night, the dog barks at cars."),
    ("She reads the paper in the morning.", "He reads it in the evening."),
    ("The king saw a queen.", "The queen saw the king too."),
    ("We walked to the river and back.", "The river was high, and the path was wet."),
    ("Rain fell all night.", "The streets were wet in the morning."),
    ("They sold the old house.", "The new house has a garden and a large kitchen."),
]
READINGS: dict[str, dict[str, str]] = {
    "usual": {},
    "carried": {"by": "carried"},
    "special": {"special": "in"},
}
OTHERS = ("carried", "special")


@dataclass(frozen=True)
class Expected:
    """What every head does by one reading, as a result itself has it; and how to ask
    for the same.
    """

    ranking: HeadScores
    options: Mapping[str, str]
    inputs: tuple[str, ...]
    """Of a command line: the input, or the pairs."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The options of a command line."""
        reading = list[str]()
        for name, value in self.options.items():
            reading += [f"--{name}", value]
        return (*self.inputs, "--model", "bundled", *reading)

    @property
    def marks(self) -> list[str]:
        """The letters of all heads, `?` where a label is not sure, `'` where a head rests."""
        labels = self.ranking.labels
        marks = []
        for head in labels.grid:
            doubt = "?" if labels.unsure[head.place] else ""
            rests = "'" if labels.rests[head.place] else ""
            marks.append(letter(str(labels.among_words[head.place])) + doubt + rests)
        return marks

    def check(self, row: Mapping[str, object]) -> None:
        """That a head's row has its names and its numbers, those of the seven scores too."""
        labels = self.ranking.labels
        place = (int(str(row["layer"])), int(str(row["head"])))
        names = {"label": labels.label, "among_words": labels.among_words}
        numbers = {
            "label_stays": labels.label_stability,
            "share": labels.share,
            "average": labels.average,
        }
        numbers |= {
            name: self.ranking.table.score[..., p]
            for p, name in enumerate(self.ranking.scores.patterns)
        }
        for name in names.keys() & row.keys():
            assert (row[name] or "") == names[name][place], (name, place)
        for name in numbers.keys() & row.keys():
            number = float("nan") if row[name] in ("", None) else float(str(row[name]))
            np.testing.assert_allclose(number, numbers[name][place], atol=1e-6)

    def check_table(self, command: str) -> None:
        """The rows of all heads that a command writes, as CSV and as JSON, and the letters of its
        screen.
        """
        rows = table(
            command, *self.arguments, "--predictive", "off", keep_default_na=False
        ).to_dict("records")
        document = json.loads(
            run(command, *self.arguments, "--predictive", "off", "--format", "json").stdout
        )
        assert len(rows) == len(document["heads"]) == 72
        for row in (*rows, *document["heads"]):
            self.check(row)
        screen = run(command, *self.arguments, "--predictive", "off").stdout
        letters = re.findall(r"^ \d  ((?:\S{1,3} *){12})$", screen, flags=re.MULTILINE)
        assert " ".join(letters).split() == self.marks


@pytest.fixture(
    scope="module", params=["usual", *(pytest.param(r, marks=pytest.mark.long) for r in OTHERS)]
)
def expected(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Expected:
    path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    path.write_text(
        "".join(f"{a}\t{b}\n" for a, b in [("sentence_a", "sentence_b"), *PAIRS]), encoding="utf-8"
    )
    options = READINGS[request.param]
    ranking = attnscan.heads(str(path), model="bundled", predictive="off", **options)
    return Expected(ranking, options, ("--pairs", str(path)))


def test_the_tables_of_all_heads_and_of_a_pattern(expected: Expected) -> None:
    expected.check_table("heads")
    rows = table(
        "heads",
        *expected.arguments,
        "--predictive",
        "off",
        "--pattern",
        "previous-word",
        "--top",
        "72",
    )
    for row in rows.to_dict("records"):
        expected.check({"previous-word": row["score"], "layer": row["layer"], "head": row["head"]})
    assert len(rows) == 72


@pytest.mark.long
def test_a_card(expected: Expected) -> None:
    labels = expected.ranking.labels
    names = [names[0].name for kind in labels.kinds.values() if (names := kind.heads)][:3]
    cards = table(
        "head", ",".join(names), *expected.arguments, "--predictive", "off", keep_default_na=False
    )
    for row in cards.to_dict("records"):
        expected.check(row)
    screen = run("head", names[0], *expected.arguments, "--predictive", "off").stdout
    place = labels.grid.head(names[0]).place
    share = labels.share[place]
    kind = labels.among_words[place]
    assert f"{names[0]} {words(str(kind))} {share:.2f}, average head " in " ".join(screen.split())


def test_heads_that_are_compared_and_that_are_alike(expected: Expected) -> None:
    alike = attnscan.similar(expected.inputs[1], model="bundled", **expected.options).to_frame()
    comparison = attnscan.compare("bundled", "bundled", expected.inputs[1], **expected.options)
    for row in alike.to_dict("records"):
        expected.check({name: row[name] for name in ("layer", "head", "label", "label_stays")})
    for row in comparison.to_frame().to_dict("records"):
        for of in ("a", "b"):
            label = {"label": row[f"label_{of}"], "label_stays": row[f"label_{of}_stays"]}
            expected.check(label | {"layer": row["layer"], "head": row["head"]})
    if expected.options == READINGS["usual"]:  # by which alone heads are explained
        for row in (
            attnscan.explain("layer:2", pairs=expected.inputs[1], model="bundled")
            .to_frame()
            .to_dict("records")
        ):
            expected.check({name: row[name] for name in ("layer", "head", "label")})
    counts = Counter(expected.ranking.among_words.flat) | Counter(
        expected.ranking.label.flat
    )  # followed or rested on
    screen = render(comparison_view(comparison, comparison.patterns, 100), 100)
    for name in comparison.patterns:
        assert re.search(rf" {name} +{counts.get(name, 0)} +{counts.get(name, 0)} ", screen)


def test_the_picture_and_the_notebook(expected: Expected) -> None:
    marks = Counter(expected.marks)
    drawn = Counter(texts(picture(expected.ranking)))
    assert all(drawn[mark] >= count for mark, count in marks.items())
    shown = unescape(re.sub("<[^>]*>", "", heads_html(expected.ranking)))
    assert (
        shown.split()
        == render(first_screen(expected.ranking, 88, expected.ranking.signature.counts), 88).split()
    )


def test_the_page(expected: Expected) -> None:
    facts = Elements(page(expected.ranking).html).facts
    (rows,) = facts["rows"].values()
    assert len(rows) == 72
    for row in rows:
        expected.check(dict(zip(facts["columns"], row, strict=True)))


@pytest.mark.parametrize(
    "reading", ["usual", *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)]
)
def test_one_input_and_its_live_page(reading: str) -> None:
    result = attnscan.classify(
        *PAIRS[1], model="bundled", predictive="off", keep_attention=True, **READINGS[reading]
    )
    expected = Expected(result, READINGS[reading], PAIRS[1])
    expected.check_table("classify")
    live = _rows_of_answer(result)
    assert len(live) == 72
    for row in live:
        expected.check(row)


def _rows_of_answer(result: HeadScores) -> list[dict[str, str]]:
    """What the live page takes for its table, by the reading of a result, which comes last."""
    text = answer_of(result, "0" * 16, (), ())["facts"]["texts"]["tables"]
    tables = json.loads(zlib.decompress(base64.b64decode(text)))
    table = list(tables.values())[-1]
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]

"""`attnscan ablate`, `compare`, `similar` and `syntax`, by what they print and draw."""

import json
import re
from itertools import islice, product
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from support.command_line import run, table
from support.drawn_pictures import texts
from support.links import antecedents, as_links, written
from support.toy_bert import AFTER, BEFORE, PAIRS, save_toy_bert
from support.treebanks import planted_file
from typer.testing import CliRunner

from attnscan.cli.app import app
from attnscan.inputs.read import shipped_pairs
from attnscan.scoring.patterns import PATTERNS

N_CONTROL_SETS = ("--draws", "2")


@pytest.fixture(scope="module")
def ablate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    path = tmp_path_factory.mktemp("pairs") / "few.csv"
    rows = [f'"{record.pair.a}","{record.pair.b}"\n' for record in islice(shipped_pairs(), 8)]
    path.write_text("sentence_a,sentence_b\n" + "".join(rows))
    return "ablate", "--model", "bundled", "--pairs", str(path), *N_CONTROL_SETS


@pytest.fixture(scope="module")
def compare(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    directory = tmp_path_factory.mktemp("compare")
    plans = {"before": BEFORE, "after": AFTER}
    models = [str(save_toy_bert(directory / name, 2, 4, plan)) for name, plan in plans.items()]
    (directory / "pairs.tsv").write_text(
        "sentence_a\tsentence_b\n" + "".join(f"{pair.a}\t{pair.b}\n" for pair in PAIRS)
    )
    return "compare", *models, "--pairs", str(directory / "pairs.tsv")


@pytest.fixture(scope="module")
def similar(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    path = tmp_path_factory.mktemp("similar") / "texts.csv"
    path.write_text("text\nthe cat sat on the mat\na dog ran\n")
    return "similar", "--model", "bundled", "--pairs", str(path)


@pytest.fixture(scope="module")
def syntax(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    directory = tmp_path_factory.mktemp("syntax")
    plan = {(0, 0): "articles to nouns", (0, 1): "previous-word"}
    model = str(save_toy_bert(directory / "toy", 2, 3, plan))
    return "syntax", "--treebank", planted_file(directory), "--model", model


@pytest.mark.usefixtures("each_run_once")
@pytest.mark.parametrize(
    ("command", "options", "format", "shown"),
    [
        ("ablate", ["--heads", "0-2,1-8"], "svg", "cls: effect"),
        ("ablate", ["--heads", "0-2,1-8", "--each"], "png", ""),
        ("compare", [], "svg", "Pale: the difference does not survive"),
        ("similar", [], "svg", " 1-8 "),
        ("similar", [], "pdf", ""),
        ("syntax", [], "svg", "what heads follow in 288 sentences"),
    ],
)
def test_every_study_is_drawn(
    command: str,
    options: list[str],
    format: str,
    shown: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    path = tmp_path / f"picture.{format}"
    assert run(*request.getfixturevalue(command), *options, "-o", str(path)).stdout == ""
    content = path.read_bytes()
    assert content.startswith({"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}[format])
    assert shown in (" ".join(texts(content)) if format == "svg" else "")
    if command == "compare":
        assert {"opacity: 0.25", "opacity: 0.85"} <= set(
            re.findall(r"opacity: [\d.]+", content.decode())
        )


class TestAblate:
    def test_the_best_heads_of_a_pattern_as_json(self, ablate: tuple[str, ...]) -> None:
        options = ("--pattern", "previous-word", "--top", "2", "--predictive", "off")
        found = json.loads(run(*ablate, *options, "-f", "json").stdout)
        row = found["rows"][0]
        assert found["members"]["previous-word"].startswith("0-2")
        assert row["heads"] == 2
        assert row["effect"] == pytest.approx(row["ablated"] - row["control"], abs=2e-6)
        assert found["chosen_by"] == "the 2 most above chance"
        assert (
            found["choosing_pairs"] + found["measured_pairs"]
            == 8
            == found["signature"]["pairs_read"]
        )
        assert row["pairs"] == found["measured_pairs"] > 0
        assert row["controls"] == 2 < found["possible_controls"][row["set"]]
        assert row["p"] == pytest.approx(row["rank"] / 3, abs=1e-6)

    def test_each_head_in_turn_runs_every_set_once(self, ablate: tuple[str, ...]) -> None:
        rows = table(*ablate, "--heads", "layer:0", "--each")
        columns = (
            "model,set,heads,measure,intact,ablated,control,effect,se,spread,controls,"
            "rank,p,overlap,n"
        )
        assert rows.columns.tolist()[:15] == columns.split(",")
        assert rows["set"].tolist() == [f"0-{head}" for head in range(12)]


@pytest.mark.usefixtures("each_run_once")
class TestCompare:
    def test_the_screen_answers_in_one_look(self, compare: tuple[str, ...]) -> None:
        text = run(*compare).stdout
        assert "6 of 8 heads changed their label" in text
        assert "P → -'  1-2" in text  # it rests now, and does nothing else
        assert re.search(
            r"^0 of \d+ differences survive;", run(*compare, "--least", "1").stdout, re.M
        )
        assert len(text.splitlines()) < 36
        assert "…" not in "".join(text.splitlines()[4:])
        nearest = run(*compare, "--match", "nearest").stdout
        assert "of 8 heads are most like the head of their own place" in nearest

    def test_rows_and_json(self, compare: tuple[str, ...]) -> None:
        rows = table(*compare, "-p", "delimiter")
        assert ",".join(rows.columns) == (
            "model_a,model_b,pattern,layer,head,layer_b,head_b,score_a,score_b,difference,se,n,pairs,"
            "label_a,label_b,divergence,p,fdr,label_a_stays,label_b_stays,survives"
        )
        assert len(rows) == 8
        found = json.loads(run(*compare, "--format", "json").stdout)
        assert set(found["rank_correlation"]) == {pattern.id for pattern in PATTERNS} - {
            "predictive"
        }
        assert len(found["heads"]) == 8 * 6

    def test_some_heads_head_by_head(self, compare: tuple[str, ...]) -> None:
        lines = run(*compare, "--top", "1").stdout.splitlines()
        at = lines.index("Head by head; bold: the difference survives")
        assert lines[at + 1].split() == ["pattern", "head", "A", "B", "B", "−", "A", "±", "se"]
        assert lines[at + 8] == ""
        assert [line.split()[0] for line in lines[at + 2 : at + 8]] == list("NPIXDB")
        delimiter = (*compare, "-p", "delimiter", "--csv")
        header, *rows = run(*delimiter).stdout.splitlines()
        assert run(*delimiter, "--heads", "1-2,0-1").stdout.splitlines() == [
            header,
            rows[6],
            rows[1],
        ]
        greatest = max(rows, key=lambda row: abs(float(row.split(",")[9])))
        assert run(*delimiter, "--top", "1").stdout.splitlines() == [header, greatest]
        done = CliRunner().invoke(app, [*compare, "--heads", "9-9"])
        assert done.exit_code == 1
        assert "9-9: this model has layers 0 to 1" in done.stderr


@pytest.mark.usefixtures("each_run_once")
class TestSimilar:
    def test_the_screen_shows_groups_or_the_nearest_of_some(self, similar: tuple[str, ...]) -> None:
        text = run(*similar, "--within", "0.2", "--special", "in").stdout
        assert "1 group within 0.2 nats" in text
        assert "The closest two" in text
        lines = run(*similar, "--heads", "0-2", "--nearest", "2").stdout.splitlines()
        at = next(
            at
            for at, line in enumerate(lines)
            if line.split() == ["head", "nearest", "divergence", "±", "se"]
        )
        assert [line.split()[0] for line in lines[at + 1 : at + 3]] == ["0-2", "0-2"]

    def test_rows_of_heads_and_the_matrix(self, similar: tuple[str, ...]) -> None:
        """Of some heads, in the order they are named in, and as among all."""
        header, *rows = run(*similar, "--csv", "--nearest", "1").stdout.splitlines()
        assert header == "model,layer,head,label,group,x,y,nearest_1,divergence_1,se_1,label_stays"
        assert len(rows) == 72
        some = run(*similar, "--csv", "--nearest", "1", "--heads", "1-8,0-2").stdout.splitlines()
        assert some == [header, rows[12 + 8], rows[2]]
        header, *rows = run(*similar, "--csv", "--matrix").stdout.splitlines()
        assert run(*similar, "--csv", "--matrix", "--heads", "layer:5").stdout.splitlines() == [
            header,
            *rows[-12:],
        ]
        found = json.loads(run(*similar, "--matrix", "--format", "json").stdout)
        names = [f"{layer}-{head}" for layer, head in product(range(6), range(12))]
        matrix = np.array([itemgetter(*names)(row) for row in found["heads"]])
        assert_allclose(matrix, matrix.T)
        assert np.diag(matrix).max() == 0
        assert matrix.max() <= 0.6932
        assert found["queries"] == 6 + 3
        assert 0 < found["map_share"] <= 1


@pytest.mark.usefixtures("each_run_once")
class TestSyntax:
    def test_the_screen_fits_and_tells_the_planted_head(self, syntax: tuple[str, ...]) -> None:
        lines = run(*syntax).stdout.splitlines()
        assert len(lines) <= 45
        assert max(map(len, lines)) <= 80
        det = next(line.split() for line in lines if line.startswith("det → head"))
        assert det[3:5] == ["0-0", "1.00"]
        assert any("*" in cell for cell in det)
        assert any(line.split()[:3] == ["0", "F", "·"] for line in lines)
        text = " ".join(" ".join(lines).split())
        assert "1 head follows a relation" in text
        assert "F function word" in text
        assert "A small p is little by itself: " in text
        assert "guidelines decide what is a head." in text
        assert "no numbers" not in text

    def test_one_relation_and_all_rows(self, syntax: tuple[str, ...]) -> None:
        lines = run(*syntax, "--relation", "det", "--held", syntax[2]).stdout.splitlines()
        assert "det → head" in lines
        assert "head → det" in lines
        assert sum(line.startswith("0-0 ") for line in lines) == 2
        assert "in the second treebank, too" in " ".join(lines)
        assert run(*syntax, "--all").stdout.count("±") == 12

    def test_tables(self, syntax: tuple[str, ...]) -> None:
        rows = table(*syntax)
        assert len(rows) == 6 * 12
        assert ",".join(rows.columns) == (
            "model,layer,head,relation,direction,n,sentences,accuracy,weight,weight_among_words,chance,rule,"
            "rule_accuracy,gain,se,p_holm,holds,held_gain,held_p_holm,held_holds,stated,syntax_label,"
            "syntax_statement,letter,uuas,chain_uuas"
        )
        document = json.loads(
            run(*syntax, "--relation", "det", "--heads", "0-0", "-f", "json").stdout
        )
        assert document["signature"]["pairs_read"] == 288
        assert document["words_without_token"] == 0
        assert [row["direction"] for row in document["heads"]] == ["dep->head", "head->dep"]

    def test_links_are_read_in_its_place(self, syntax: tuple[str, ...], tmp_path: Path) -> None:
        _, _, treebank, *model = syntax
        path = written(tmp_path / "trees.jsonl", as_links(treebank))
        screen = run("syntax", "--links", path, "--held", treebank, *model).stdout
        lines = screen.splitlines()
        assert lines[0].startswith("links  ") and lines[1] == f"held  {treebank}"
        said = " ".join(screen.split())
        assert "288 inputs" in said and "Whoever made the links decided what is linked." in said
        assert "UUAS" not in screen and "in the second treebank, too" in said
        ours = table("syntax", "--links", path, *model).drop(columns=["uuas", "chain_uuas"])
        theirs = table(*syntax[:3], *model).drop(columns=["uuas", "chain_uuas"])
        assert ours.equals(theirs)

    def test_the_first_line_says_what_was_read(self, syntax: tuple[str, ...], place: Path) -> None:
        written(place / "a.jsonl", antecedents()[:2])
        line = run("syntax", "--links", "a.jsonl", *syntax[3:]).stdout.splitlines()[0]
        assert line == "links  a.jsonl (2 records, 14 links: 12 next, 2 coref)"

    def test_what_is_no_relation_of_the_treebank_is_refused(self, syntax: tuple[str, ...]) -> None:
        for relation, said in {
            "nsbj": "the treebank has no relation 'nsbj'; did you mean 'nsubj'?",
            "zzz": "the treebank has no relation 'zzz'; there are all, amod, conj",
        }.items():
            done = CliRunner().invoke(app, [*syntax, "--relation", relation])
            assert (done.exit_code, done.stdout) == (1, "")
            assert said in done.stderr

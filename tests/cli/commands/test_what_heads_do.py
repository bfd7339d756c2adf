"""`attnscan classify`, `heads`, `profile` and `predictive`, by what they print. Whole screens are
in the docs.
"""

import json
import re
from itertools import islice, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.command_line import COLUMNS, A, B, classify, misuse, run, table
from support.page_contents import Elements
from support.toy_bert import save_toy_bert
from typer.testing import CliRunner

import attnscan
from attnscan.cli.app import app
from attnscan.inputs.read import shipped_pairs
from attnscan.results.files import Format, render
from attnscan.results.habits import SPECIAL_CLASSES, WORD_CLASSES
from attnscan.scoring.patterns import PATTERNS

IDS = [pattern.id for pattern in PATTERNS]
BUNDLED = ("--model", "bundled")
OFF = ("--predictive", "off")
HEADS = ("heads", *BUNDLED)
ONE = (A, B, *BUNDLED)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few of the pairs that ship with attnscan."""
    first = [*islice(shipped_pairs(), 12)]
    monkeypatch.setattr("attnscan.inputs.read.shipped_pairs", lambda: iter(first))


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    path = tmp_path / "pairs.tsv"
    sentences = [
        "The cat sat on the mat.",
        "A dog ran to the store.",
        "I went home, and you did not.",
    ]
    rows = [f"{a}\t{b}" for a, b in product(sentences, repeat=2)]
    path.write_text("sentence_a\tsentence_b\n" + "\n".join(rows) + "\n")
    return str(path)


class TestClassify:
    @pytest.mark.usefixtures("each_run_once")
    def test_a_file_of_every_format_holds_what_is_printed(self, toy: str, tmp_path: Path) -> None:
        """What is read back of each: `tests/results/test_tables.py`. Screens in files:
        `tests/cli/test_output.py`.
        """
        on_toy = ("classify", "the cat sat", "a cat", "--model", toy)
        frame = attnscan.classify(a="the cat sat", b="a cat", model=toy).to_frame()
        kinds: tuple[Format, ...] = ("csv", "tsv", "json", "jsonl", "markdown", "parquet", "xlsx")
        for kind in kinds:
            path = tmp_path / f"heads.{'md' if kind == 'markdown' else kind}"
            assert run(*on_toy, "-o", str(path)).stdout == ""
            if kind == "json":
                document = json.loads(path.read_bytes())
                assert document.pop("options") and document.pop("columns"), "of files alone"
                assert document == json.loads(render(frame, kind))
            elif kind != "xlsx":  # which has options and columns beside the heads, too
                assert path.read_bytes() == render(frame, kind)
            if kind not in ("parquet", "xlsx"):
                assert run(*on_toy, "--format", kind).stdout == path.read_text(encoding="utf-8")

    def test_json_carries_the_signature_and_the_tokens(self) -> None:
        data = json.loads(classify("--format", "json").stdout)
        assert data["signature"]["model"] == "bundled"
        assert data["signature"]["device"] == "cpu"
        assert data["units"][:3] == ["[CLS]", "i", "went"]
        assert data["not_measured"] == {}
        assert "130 hidden sequences" in data["notes"][0]

    def test_chosen_patterns_rank_the_rows_and_top_cuts_them(self) -> None:
        whole = table("classify", *ONE, *OFF)
        assert len(whole) == 72
        assert whole["predictive"].isna().all()
        assert whole["delimiter"].notna().all()
        chosen = table(
            "classify", *ONE, *OFF, "--pattern", "delimiter", "-p", "next-word", "--top", "5"
        )
        assert chosen.columns[9:].tolist() == ["delimiter", "next-word", "entropy"]
        assert (
            chosen["delimiter"].tolist()
            == whole["delimiter"].sort_values(ascending=False)[:5].tolist()
        )


@pytest.mark.parametrize("command", ["classify", "heads"])
def test_heads_without_a_score_come_last_and_are_not_suggested(command: str, place: Path) -> None:
    save_toy_bert(place / "toy", 1, 3, {(0, 1): "previous-word"})
    (place / "one.csv").write_text("text\ncat sat on mat\ndog ran to store\n")
    inputs = ("cat sat on mat",) if command == "classify" else ("--pairs", "one.csv")
    part = (command, *inputs, "--model", "./toy", *OFF, "-p", "cross-sentence")
    screen = run(*part).stdout
    assert re.search(r"no word of (this input|these pairs) is eligible", screen)
    assert "Next:" not in screen
    assert table(*part)["head"].tolist() == [0, 1, 2]
    assert len(table(*part, "--top", "2")) == 0
    if command == "classify":
        assert table(*part, "-p", "previous-word")["head"][0] == 1
    else:  # the first pattern has no scores, and 0-0 is not the best by the second
        assert "Next: attnscan head 0-1" in run(*part, "-p", "P").stdout


class TestHeads:
    def test_a_ranking_of_the_pairs_that_ship_with_attnscan(self) -> None:
        ranked = table(*HEADS, "--pattern", "previous-word", "-p", "next-word")
        columns = "model,pattern,rank,layer,head,name,score,chance,above_chance,se,low,high,n,pairs"
        assert ranked.columns.tolist() == columns.split(",")
        assert len(ranked) == 2 * 72
        assert ranked["pairs"].min() > 80
        best = ranked.groupby("pattern").first()["name"]
        assert best.to_dict() == {"previous-word": "L0H2", "next-word": "L1H8"}

    @pytest.mark.usefixtures("few")
    def test_a_list_of_the_best_heads_is_as_long_as_asked_for(self) -> None:
        text = run(*HEADS, "--pattern", "next-word", "--top", "3").stdout
        assert len(re.findall(r"^\d+-\d+ ", text, re.MULTILINE)) == 3
        assert "3 of 72 heads; --top 72 for all." in text

    @pytest.mark.usefixtures("few", "each_run_once")
    def test_a_row_a_head_with_labels_or_the_best_of_each_pattern(self) -> None:
        quick = (*HEADS, *OFF)
        rows = table(*quick)
        assert rows.columns.tolist() == COLUMNS.split(",")
        assert len(rows) == 72
        assert rows["label_stays"].min() >= 0
        assert rows["label_stays"].max() == 1
        assert rows.loc[2, ["label", "among_words", "label_stays"]].tolist() == [
            "previous-word",
            "previous-word",
            1,
        ]
        best = table(*quick, "--best").pivot(index=["layer", "head"], columns="pattern")
        np.testing.assert_array_equal(rows[IDS].to_numpy(), best["score"][IDS].to_numpy())
        lists = run(*quick, "--best").stdout
        assert "95 % interval" in lists
        assert "5 of 72 heads; --top 72 for all." in lists
        assert "layers down" not in lists
        strict = table(*quick, "--threshold", "0.9")
        assert strict["among_words"].isin(IDS).sum() < rows["among_words"].isin(IDS).sum()

    @pytest.mark.usefixtures("few")
    def test_of_how_many_words_predictive_was_measured_is_told(self) -> None:
        options = ("--predictive-pairs", "3", "--predictive-words", "4")
        result = run(*HEADS, "--no-related", "-p", "predictive", *options, "--csv")
        assert re.search(
            r"predictive was measured on \d+ words of 3 pairs; --predictive-pairs N asks",
            result.stderr,
        )
        none = run(*HEADS, "--no-related", "--csv")  # so few pairs pay for none of theirs
        assert (
            "predictive was not measured: asking about a pair takes longer than all else"
            in none.stderr
        )

    def test_pairs_from_standard_input_and_bad_records(self, toy: str) -> None:
        options = ["heads", "--model", toy, "-p", "next-word", "--csv", "--pairs", "-"]
        pairs = (
            "sentence_a,sentence_b\n"
            "the cat sat on the mat,a cat ran\n"
            "he ran to a store,the store was red\n"
        )
        bad = pairs.replace("he ran", '"",b\nhe ran')
        stopped = CliRunner().invoke(app, options, input=bad)
        assert stopped.exit_code == 1
        assert stopped.stdout == ""
        assert ":3" in stopped.stderr
        skipped = run(*options, "--skip-bad", stdin=bad)
        assert skipped.stdout == run(*options, stdin=pairs).stdout
        assert ":3: sentence A is empty\nattnscan: 1 bad record was skipped" in skipped.stderr


class TestProfile:
    def test_a_line_a_head_or_one_head_in_full(self, pairs: str) -> None:
        lines = run("profile", *ONE).stdout
        assert len(re.findall(r"^\d+-\d+ ", lines, re.MULTILINE)) == 72
        assert re.search(r"^0-2 +previous 0\.8\d .*\| special tokens 0\.\d\d", lines, re.MULTILINE)
        screen = run("profile", "--pairs", pairs, *BUNDLED, "--heads", "1-8").stdout
        assert re.findall(r"^([a-z0-9-]+) +[01]\.\d{3} ", screen, re.MULTILINE) == [
            *WORD_CLASSES,
            *SPECIAL_CLASSES,
        ]

    def test_a_row_for_each_class_of_each_head(self, pairs: str) -> None:
        rows = table("profile", "--pairs", pairs, *BUNDLED)
        assert rows.columns.tolist() == [
            "model",
            "layer",
            "head",
            "name",
            "class",
            "share",
            "se",
            "chance",
            "average",
        ]
        assert rows["class"].tolist() == [*WORD_CLASSES, *SPECIAL_CLASSES] * 72
        assert rows["name"].iloc[0] == "L0H0"
        assert rows["se"].notna().all()
        among_words = (
            rows[rows["class"].isin(WORD_CLASSES)].groupby("name")[["share", "chance"]].sum()
        )
        assert np.allclose(among_words, 1, atol=2e-5)
        means = rows.groupby("class")["share"].mean()
        assert np.allclose(rows["average"], rows["class"].map(means), atol=2e-6)
        largest = rows.sort_values("share").groupby("name").tail(1).set_index("name")["class"]
        assert (largest["L0H2"], largest["L1H8"]) == ("previous", "next")
        of_one_input = table("profile", *ONE, "--heads", "0-2", "--top", "2")
        assert len(of_one_input) == 2
        assert of_one_input["se"].isna().all()
        assert of_one_input["class"][0] == "previous"

    def test_a_pattern_of_ones_own_stands_beside_the_classes(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.py"
        path.write_text(
            "def two_back(batch):\n    return (batch.offset == -2) & batch.same_sentence\n"
        )
        rows = table("profile", *ONE, "--pattern", f"{path}:two_back", "--heads", "0-2")
        shares = rows.set_index("class")["share"]
        assert shares.index.tolist() == [*WORD_CLASSES, "two-back", *SPECIAL_CLASSES]
        assert shares[list(WORD_CLASSES)].sum() == pytest.approx(1, abs=2e-5)
        assert 0 < shares["two-back"] < 1
        assert "is for patterns of your own" in misuse("profile", *ONE, "--pattern", "next-word")


def test_predictive_prints_which_words_predict_which() -> None:
    rows = table("predictive", *ONE)
    assert rows.columns.tolist() == [
        "model",
        "query",
        "query_token",
        "key",
        "key_token",
        "help",
        "target",
    ]
    assert len(rows) == 13 * 15  # words that are asked about x other words
    best = rows.loc[rows["query_token"] == "straw"].sort_values("help").iloc[-1]
    assert (best["key_token"], best["target"]) == ("##berries", 1)


def test_saved_weights_come_back_as_the_same_tables(tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    run("classify", *ONE, *OFF, "--save-weights", str(path))
    with np.load(path) as arrays:
        assert sorted(arrays) == ["attention", "segments", "special", "tokens"]
        assert arrays["attention"].shape == (6, 12, 19, 19)
    assert set(table("classify", "--weights", str(path))["model"]) == {"weights.npz"}
    for command, unrelated in (
        (["profile"], ["--no-related"]),
        (["show", "0-2", "--to-sentence", "B"], []),
    ):
        by_model = table(*command, *ONE, *unrelated)
        by_file = table(*command, "--weights", str(path))
        pd.testing.assert_frame_equal(
            by_file.drop(columns="model"), by_model.drop(columns="model"), atol=2e-6
        )


class TestSecondCorpus:
    """`--held`: a head that looks at punctuation, over pairs with punctuation and without."""

    @pytest.fixture(scope="class")
    def planted(self, tmp_path_factory: pytest.TempPathFactory) -> str:
        plan = {(0, 0): "next-word", (0, 1): "punctuation", (1, 2): "previous-word"}
        plan[1, 0] = "delimiter"
        return str(save_toy_bert(tmp_path_factory.mktemp("toys") / "toy", 2, 3, plan))

    @pytest.fixture
    def over(self, planted: str, place: Path) -> tuple[str, ...]:
        """Options: twelve pairs, of which eight are held without their punctuation."""
        nouns = product(("sat", "ran", "went", "bought", "to", "on"), ("the", "a"))
        rows = [
            f"the cat {verb} , on the mat .\ta dog {verb} to {x} , store ." for verb, x in nouns
        ]
        plain_rows = [row.replace(" ,", "").replace(" .", "") for row in rows[:8]]
        for name, lines in (("a.tsv", rows), ("b.tsv", plain_rows)):
            (place / name).write_text("\n".join(["sentence_a\tsentence_b", *lines]) + "\n")
        return "--model", planted, "--pairs", "a.tsv", "--held", "b.tsv", *OFF

    def test_table_has_label_and_share_of_the_held_pairs(self, over: tuple[str, ...]) -> None:
        rows = table("heads", *over, keep_default_na=False).set_index("name")
        alone = table("heads", *over[:2], "--pairs", "b.tsv", *OFF, keep_default_na=False)
        alone = alone.set_index("name")
        assert rows.columns[-2:].tolist() == ["held_label", "held_share"]
        assert rows["held_label"].tolist() == alone["label"].tolist()
        assert rows.loc["L0H1", ["label", "held_label"]].tolist() == ["punctuation", "even"]
        assert float(rows.loc["L0H1", "held_share"]) == 0  # there is none to look at
        assert float(rows.loc["L0H0", "held_share"]) == float(alone.loc["L0H0", "share"]) == 1
        assert rows.loc["L1H0", "held_share"] == ""  # it has no attention among words
        assert rows.loc["L1H0", ["label", "held_label"]].tolist() == ["delimiter", "delimiter"]

    def test_json_has_what_the_table_has(self, over: tuple[str, ...]) -> None:
        document = json.loads(run("heads", *over, "--format", "json").stdout)
        rows = {row["name"]: row for row in document["heads"]}
        assert rows["L0H1"]["held_label"] == "even"
        assert rows["L0H1"]["held_share"] == 0
        assert rows["L1H2"]["held_label"] == "previous-word"

    def test_screen_counts_what_is_the_same_and_marks_the_rest(self, over: tuple[str, ...]) -> None:
        lines = run("heads", *over).stdout.splitlines()
        assert "5 of 6 sure labels are the same on the 8 held pairs." in lines
        layers = [re.search(r" [01]  (\S+ +\S+ +\S+)$", line) for line in lines]
        assert [layer[1].split() for layer in layers if layer] == [
            ["N", "u≠", "e"],
            ["-'", "e", "P"],
        ]
        assert "≠ another label there" in " ".join(" ".join(lines).split())

    def test_card_says_what_the_head_does_there(self, over: tuple[str, ...]) -> None:
        text = run("head", "0-1", *over).stdout
        assert "On the 8 held pairs: another label, even; punctuation 0.00." in text
        text = run("head", "0-0", *over).stdout
        assert "On the 8 held pairs: the same label, next-word; the next word 1.00." in text

    def test_page_marks_changed_labels_and_has_the_columns(
        self, over: tuple[str, ...], place: Path
    ) -> None:
        run("report", *over, "-o", "page.html")
        facts = Elements((place / "page.html").read_text(encoding="utf-8")).facts
        rows = facts["rows"]["weight-words"]
        saved = [dict(zip(facts["columns"], row, strict=True)) for row in rows]
        assert [row["held_label"] for row in saved][1] == "even"
        assert facts["changed"]["weight-words"] == [0, 1, 0, 0, 0, 0]
        assert facts["held"][1].startswith("On the 8 held pairs: another label")

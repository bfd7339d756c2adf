"""`attnscan head`, `show` and `explain`, by what they print. Whole screens are in the docs."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from numpy.testing import assert_allclose
from support.command_line import A, B, run, table
from support.links import antecedents, written
from support.toy_bert import save_toy_bert
from support.treebanks import planted_file

from attnscan.results.attention import Attention

ONE = (A, B, "--model", "bundled")
TOKENS = 19  # of A and B


class TestHead:
    @pytest.fixture(scope="class")
    def carrying(self, tmp_path_factory: pytest.TempPathFactory) -> str:
        """A toy whose heads carry what they look at."""
        plan = {(0, 0): "next-word", (1, 1): "previous-word"}
        return str(save_toy_bert(tmp_path_factory.mktemp("toys") / "toy", 2, 3, plan, carries=True))

    @pytest.fixture
    def over(self, carrying: str, place: Path) -> tuple[str, ...]:
        verbs = ("sat", "ran", "went", "bought", "to", "on")
        rows = [f"the cat {verb} on the mat,a dog {verb} to the store" for verb in verbs]
        (place / "p.csv").write_text("\n".join(["sentence_a,sentence_b", *rows]) + "\n")
        return "--model", carrying, "--pairs", "p.csv"

    def test_a_row_a_head_and_all_of_it_as_json(self, over: tuple[str, ...]) -> None:
        assert table("head", "0-0,1-1", *over)["among_words"].tolist() == [
            "next-word",
            "previous-word",
        ]
        document = json.loads(run("head", "0-0", *over, "--format", "json").stdout)
        assert document["heads"][0]["patterns"]["next-word"]["score"] == pytest.approx(1, abs=1e-3)
        assert document["signature"]["pairs_read"] == 6

    def test_with_a_treebank_a_card_tells_the_heads_syntax(
        self, over: tuple[str, ...], tmp_path: Path
    ) -> None:
        trees = planted_file(tmp_path)
        lines = run("head", "1-1", *over, "--treebank", trees, "--ablate").stdout.splitlines()
        screen = " ".join(" ".join(lines).split())
        assert len(lines) <= 45
        assert lines[1].startswith("treebank  ")
        assert "Syntax: no relation beyond fixed rules." in screen
        assert "288 sentences" in screen
        assert "relation right rule gain" in screen
        document = json.loads(
            run("head", "1-1", *over, "--treebank", trees, "--format", "json").stdout
        )
        (card,) = document["heads"]
        alone = json.loads(
            run(
                "syntax", "--treebank", trees, *over[:2], "--heads", "1-1", "--format", "json"
            ).stdout
        )
        by_row = {(row["relation"], row["direction"]): row for row in alone["heads"]}
        assert len(card["syntax"]) == len(by_row) == 12
        assert all(row == by_row[row["relation"], row["direction"]] for row in card["syntax"])
        assert (card["uuas"], card["syntax_label"]) == (alone["heads"][0]["uuas"], None)
        assert document["treebank_signature"]["pairs_read"] == 288

    def test_with_links_a_card_tells_what_the_head_follows(
        self, over: tuple[str, ...], tmp_path: Path
    ) -> None:
        links = written(tmp_path / "coref.jsonl", antecedents())
        lines = run("head", "1-1", *over, "--links", links).stdout.splitlines()
        screen = " ".join(" ".join(lines).split())
        assert lines[1].startswith("links  ")
        assert "Links: no relation beyond fixed rules (96 inputs;" in screen
        assert "UUAS" not in screen
        document = json.loads(run("head", "1-1", *over, "--links", links, "-f", "json").stdout)
        assert document["links_signature"]["pairs_read"] == 96
        assert {row["relation"] for row in document["heads"][0]["syntax"]} == {
            "all",
            "coref",
            "next",
        }


def rows_of(heads: str, *options: str) -> pd.DataFrame:
    return table("show", heads, *ONE, *options, keep_default_na=False)


class TestShow:
    def test_rows_hold_weights_of_a_head_of_several_or_their_mean(
        self, attention: Attention
    ) -> None:
        rows = rows_of("0-2")
        assert list(rows) == [
            "model",
            "layer",
            "head",
            "query",
            "query_token",
            "key",
            "key_token",
            "weight",
        ]
        assert_allclose(
            rows["weight"].to_numpy().reshape(TOKENS, TOKENS), attention.weights[0, 2], atol=1e-6
        )
        row = rows[(rows["query"] == 5) & (rows["key"] == 4)].iloc[0]
        assert (row["query_token"], row["key_token"]) == ("store", "the")
        assert row["weight"] > 0.99
        two = rows_of("0-2,1-8")
        assert len(two) == 2 * TOKENS**2
        assert two["layer"].iloc[-1] == 1
        assert len(rows_of("layer:3")) == 12 * TOKENS**2
        mean = rows_of("0-2,1-8", "--average")
        expected = (attention.weights[0, 2] + attention.weights[1, 8]) / 2
        assert_allclose(mean["weight"].to_numpy().reshape(TOKENS, TOKENS), expected, atol=1e-6)
        assert set(mean["layer"]) == {""}

    @pytest.mark.parametrize(("queries", "keys"), [("A", "B"), ("B", "B")])
    def test_one_direction(self, attention: Attention, queries: str, keys: str) -> None:
        rows = rows_of("2-9", "--from-sentence", queries, "--to-sentence", keys)
        for name, sentence in (("query", queries), ("key", keys)):
            assert {"AB"[attention.segments[i]] for i in rows[name]} == {sentence}
        counts = {"A": 8, "B": 11}
        assert len(rows) == counts[queries] * counts[keys]

    def test_a_long_input_is_a_list_that_says_how_to_see_more(self) -> None:
        long = (" ".join(["the cat sat"] * 40), "--model", "bundled")
        text = run("show", "0-2", *long).stdout
        assert "The 20 strongest of 14,884 weights" in text
        assert "--token" in text
        match = re.search(r"--window 0-(\d+)", text)
        assert match
        window = run("show", "0-2", *long, *match[0].split()).stdout
        rows = [line for line in window.splitlines() if line[:3].strip().isdigit()]
        assert len(rows) == int(match[1]) + 1
        assert "strongest" not in window

    def test_weights_on_screen_are_those_of_the_rows(self) -> None:
        rows = rows_of("2-9", "--token", "5").sort_values("weight", ascending=False, kind="stable")
        lines = run("show", "2-9", *ONE, "--token", "5").stdout.splitlines()
        shown = [line.split() for line in lines if line.startswith("    ")]
        assert [int(cells[0]) for cells in shown] == rows["key"].tolist()
        assert_allclose([float(cells[2]) for cells in shown], rows["weight"], atol=6e-4)


class TestExplain:
    def test_the_screen_of_one_head_and_token(self) -> None:
        lines = run("explain", "0-2", *ONE, "--token", "store#2").stdout.splitlines()
        below = lines.index("0-2  store  token 10")
        assert lines[below + 2].split()[:3] == ["9", "the", "1.000"]
        assert lines[4].startswith("0-2 follows previous-word by position")

    @pytest.mark.usefixtures("each_run_once")
    def test_neurons_stand_beside_rotated_bases(self) -> None:
        def row_of(*options: str) -> dict[str, float]:
            (row,) = json.loads(run("explain", "1-8", *ONE, "--format", "json", *options).stdout)[
                "heads"
            ]
            return dict(row)

        row = row_of()
        other = row_of("--seed", "1")
        text = run("explain", "1-8", *ONE).stdout
        rotated = (
            f"{row['effective_neurons_rotated']:.2f} ± {row['effective_neurons_rotated_sd']:.2f}"
        )
        assert re.search(
            r"own basis +rotated bases\n"
            rf"effective neurons +{row['effective_neurons']:.2f}  ≈ {rotated}\n",
            text,
        )
        assert (
            f"shuffled  {row['positions_shuffled']:.3f} ± {row['positions_shuffled_se']:.3f}"
            in text
        )
        assert (
            row["positions_shuffled_fall_se"] == row["positions_shuffled_se"] > 0
        )  # over shuffles, of one input
        assert row["se"] is None
        assert row["segments_zeroed_se"] is None
        assert other["effective_neurons"] == row["effective_neurons"]
        assert other["effective_neurons_rotated"] != row["effective_neurons_rotated"]

    def test_every_head_is_a_row(self) -> None:
        rows = table("explain", "layer:0", *ONE)
        one = table("explain", "0-2", *ONE)
        assert ",".join(rows.columns) == (
            "model,layer,head,label,pattern,score,chance,above_chance,effective_neurons,stability,sign_agreement,"
            "positions_shuffled,segments_zeroed,segments_swapped,n,pairs,se,positions_shuffled_se,segments_zeroed_se,"
            "segments_swapped_se,positions_shuffled_fall_se,segments_zeroed_fall_se,segments_swapped_fall_se,"
            "effective_neurons_rotated,effective_neurons_rotated_sd,stability_rotated,stability_rotated_sd,"
            "sign_agreement_rotated,sign_agreement_rotated_sd,label_stays,by,conclusion"
        )
        assert rows["head"].tolist() == [*range(12)]
        pd.testing.assert_series_equal(rows.iloc[2], one.iloc[0], check_names=False)

    def test_a_tokens_keys_as_rows(self) -> None:
        rows = table("explain", "0-2", *ONE, "--token", "5")
        neurons = [f"neuron_{n}" for n in range(32)]
        columns = [
            "model",
            "layer",
            "head",
            "query",
            "query_token",
            "key",
            "key_token",
            "weight",
            "logit",
            *neurons,
        ]
        assert rows.columns.tolist() == columns
        assert len(rows) == TOKENS
        assert_allclose(rows["logit"], rows[neurons].sum(axis=1), atol=1e-4)

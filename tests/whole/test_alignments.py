"""Which words heads of cross attention link: measured against gold links, and written out."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from support import translator
from support.command_line import misuse, run, table
from support.reference_scores import Aligned, Links, alignment_error_rate, alignments_across
from support.translator import TRANSLATOR
from typer.testing import CliRunner

import attnscan
from attnscan.cli.app import app
from attnscan.cli.commands_table import COMMANDS
from attnscan.errors import OptionError, PairsError

pytestmark = pytest.mark.usefixtures("quiet")
MODEL = ("--model", str(TRANSLATOR))
PIECES = [
    ("the cat sat on the mat .", "the dog sat too", "0-0 1-1 2-2 3-3 5-3"),
    ("a cat ran", "dogs and mats", ""),
    ("strawberries it", "it", "0-0 1-0"),
]


@pytest.fixture(scope="module")
def random(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random T5, with a tokenizer that cuts words into pieces."""
    return translator.random_of("t5", tmp_path_factory.mktemp("random"))


def _gold(line: str) -> Links:
    links = (link.split("-") for link in line.split())
    return {(int(source), int(target)) for source, target in links}


def _rows(pairs: Sequence[tuple[str, str, str]], model: Path, **options: Any) -> pd.DataFrame:
    texts = [pair[:2] for pair in pairs]
    links = [pair[2] for pair in pairs]
    heads = attnscan.heads(texts, model=model, attention="cross", alignments=links, **options)
    return heads.to_frame().set_index(["layer", "head"])


def _error(parts: Sequence[float], wholes: Sequence[float]) -> float:
    """The standard error of a ratio of sums, clustered by pair."""
    ratio = sum(parts) / sum(wholes)
    clusters = sum(whole > 0 for whole in wholes)
    squares = sum((s - ratio * n) ** 2 for s, n in zip(parts, wholes, strict=True))
    return math.sqrt(clusters / (clusters - 1) * squares) / sum(wholes)


class TestMeasures:
    """Precision, recall, AER and coverage, by plain loops over eager attention."""

    @pytest.mark.parametrize("query", ["predicts", "reads"])
    @pytest.mark.parametrize("unit", ["token", "word"])
    @pytest.mark.parametrize("which", ["translator", "random"])
    def test_columns_are_those_of_plain_loops(
        self, which: str, unit: str, query: str, random: Path
    ) -> None:
        model, pairs = (
            (TRANSLATOR, translator.pairs(10)) if which == "translator" else (random, PIECES)
        )
        gold = [_gold(line) for *_, line in pairs]
        frame = _rows(pairs, model, unit=unit, query=query, related=False)
        expected = alignments_across(model, [pair[:2] for pair in pairs], query)
        assert len(expected) == len(frame)
        for place, aligned in expected.items():
            row = frame.loc[place]
            right = [len(one.links & links) for one, links in zip(aligned, gold, strict=True)]
            made = [len(one.links) for one in aligned]
            known = [len(links) for links in gold]
            both = [m + k for m, k in zip(made, known, strict=True)]
            wrong = [b - 2 * r for b, r in zip(both, right, strict=True)]
            measures = {"precision": (right, made), "recall": (right, known), "aer": (wrong, both)}
            for name, (parts, wholes) in measures.items():
                value = sum(parts) / sum(wholes)
                assert row[name] == pytest.approx(value, abs=1e-12)
                assert row[f"{name}_se"] == pytest.approx(_error(parts, wholes), abs=1e-12)
                assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"]
            if unit == "token":
                covered = sum(one.covered for one in aligned) / sum(
                    one.source_tokens for one in aligned
                )
                assert row["coverage"] == pytest.approx(covered, abs=1e-6)

    def test_the_rate_is_that_of_och_and_ney(self) -> None:
        """Over the whole corpus, as tools that read files of links count it."""
        pairs = translator.pairs(10)
        frame = _rows(pairs, TRANSLATOR)
        for place, aligned in alignments_across(TRANSLATOR, [pair[:2] for pair in pairs]).items():
            links, gold = _corpus(aligned, pairs)
            assert frame.loc[place, "aer"] == pytest.approx(alignment_error_rate(links, gold))

    def test_an_unaligned_target_word_costs_precision_alone(self) -> None:
        pairs = translator.pairs(12)
        fewer = [(a, b, line.partition(" ")[2]) for a, b, line in pairs]  # the first is unaligned
        whole: Any = _rows(pairs, TRANSLATOR).loc[(1, 1)]
        part: Any = _rows(fewer, TRANSLATOR).loc[(1, 1)]
        words = sum(len(b.split()) for _, b, _ in pairs)
        assert part["precision"] < whole["precision"] - 0.9 * len(pairs) / words
        assert part["recall"] > 0.95

    def test_gold_links_of_words_that_were_cut_are_missed(self, random: Path) -> None:
        long = ("the cat " * 300, "the dog sat", "0-0 599-2")
        frame = _rows([long], random, related=False)
        assert (frame["recall"] <= 0.5).all()

    def test_without_gold_links_there_is_coverage_alone(self) -> None:
        texts = [pair[:2] for pair in translator.pairs(12)]
        frame = attnscan.heads(texts, model=TRANSLATOR, attention="cross").to_frame()
        assert frame.columns[-2:].tolist() == ["entropy", "coverage"]
        assert frame["coverage"].between(0, 1).all()
        linked = _rows(translator.pairs(12), TRANSLATOR)
        assert_allclose(frame["coverage"], linked["coverage"], atol=1e-12)
        decoder = attnscan.heads(texts, model=TRANSLATOR, attention="decoder").to_frame()
        assert decoder.columns[-1] == "entropy"

    def test_one_pair_has_no_errors(self) -> None:
        source, target, line = translator.pairs(1)[0]
        result = attnscan.classify(
            source, target, model=TRANSLATOR, attention="cross", alignments=line
        )
        assert result.to_frame().columns[-4:].tolist() == ["coverage", "precision", "recall", "aer"]
        (one,) = alignments_across(TRANSLATOR, [(source, target)])[1, 1]
        rate = alignment_error_rate(one.links, _gold(line))
        assert result.to_frame()["aer"].iloc[5] == pytest.approx(rate)

    def test_pairs_given_twice_and_their_order_change_no_rate(self) -> None:
        pairs = translator.pairs(12)
        once = _rows(pairs, TRANSLATOR)
        again = _rows([*pairs[::-1], *pairs], TRANSLATOR)
        for name in ("precision", "recall", "aer", "aer_se", "aer_low"):
            assert_allclose(again[name], once[name], rtol=1e-12, err_msg=name)


def _corpus(aligned: Sequence[Aligned], pairs: Sequence[tuple[str, str, str]]) -> tuple[Any, Any]:
    """All links of a head and all gold links, each with the number of its pair."""
    links = {(k, *link) for k, one in enumerate(aligned) for link in one.links}
    gold = {(k, *link) for k, (*_, line) in enumerate(pairs) for link in _gold(line)}
    return links, gold


class TestScreen:
    """What `heads` says of alignment, below the map."""

    @pytest.fixture
    def options(self, tmp_path: Path) -> tuple[str, ...]:
        pairs, links = translator.write(tmp_path, 24)
        self.links = ("--alignments", links)
        return ("heads", "--pairs", pairs, "--attention", "cross", *MODEL)

    def test_heads_are_listed_by_their_error_rate(self, options: tuple[str, ...]) -> None:
        screen = run(*options, *self.links).stdout
        assert "AER: alignment error rate" in screen
        assert "no proof" not in screen
        rows = table(*options, *self.links).sort_values("aer", kind="stable")
        listed = screen.partition("head   AER")[2].splitlines()[1:6]
        names = [f"c{row.layer}-{row.head}" for row in rows.head(5).itertuples()]
        assert [line.split()[0] for line in listed] == names
        above = screen.partition("\nNext: ")[0]
        assert max(map(len, above.splitlines())) <= 80

    def test_without_gold_links_the_list_is_no_proof(self, options: tuple[str, ...]) -> None:
        screen = run(*options).stdout
        said = " ".join(screen.split())
        assert "That is no proof" in said
        assert "--alignments FILE" in said
        rows = table(*options)
        ranks = rows["entropy"].rank(method="min") + rows["coverage"].rank(
            method="min", ascending=False
        )
        best = rows.iloc[ranks.argmin()]
        listed = screen.partition("entropy, nats")[2].splitlines()[1]
        assert listed.split()[0] == f"c{best['layer']}-{best['head']}"


class TestLinks:
    """`show --format pharaoh` and `attnscan.show(pairs=...)`."""

    def test_lines_are_the_links_of_plain_loops(self, random: Path) -> None:
        texts = [pair[:2] for pair in PIECES]
        expected = alignments_across(random, texts)
        for place, aligned in expected.items():
            result = attnscan.show(f"c{place[0]}-{place[1]}", pairs=texts, model=random)
            assert [_gold(line) for line in result.lines] == [one.links for one in aligned]

    def test_what_is_written_is_read_back(self, tmp_path: Path) -> None:
        """As gold links, a head's own links make its error rate 0."""
        pairs, _ = translator.write(tmp_path, 24)
        links = str(tmp_path / "c1-1.txt")
        run("show", "c1-1", "--pairs", pairs, "--format", "pharaoh", "-o", links, *MODEL)
        frame = table(
            "heads", "--pairs", pairs, "--attention", "cross", "--alignments", links, *MODEL
        )
        rate = frame.set_index(["layer", "head"])["aer"]
        assert rate[1, 1] == 0
        assert (rate.drop((1, 1)) > 0).all()
        written = run("show", "c1-1", "--pairs", pairs, "--format", "pharaoh", *MODEL).stdout
        assert written == Path(links).read_text()
        assert len(written.splitlines()) == 24

    def test_more_than_half_of_the_heads_decide(self) -> None:
        texts = [pair[:2] for pair in translator.pairs(8)]
        single = [
            attnscan.show(name, pairs=texts, model=TRANSLATOR) for name in ("c0-0", "c0-2", "c1-3")
        ]
        for count in (2, 3):
            names = ",".join(links.heads[0].name for links in single[:count])
            voted = attnscan.show(names, pairs=texts, vote=True, model=TRANSLATOR)
            for number, line in enumerate(voted.lines):
                votes = Counter(
                    chain.from_iterable(links.lines[number].split() for links in single[:count])
                )
                wanted = {link for link, times in votes.items() if times > count / 2}
                assert set(line.split()) == wanted
        assert [links.lines for links in single] != [voted.lines] * 3  # a control

    def test_one_pair_is_a_line(self) -> None:
        source, target, line = translator.pairs(1)[0]
        written = run("show", "c1-1", source, target, "--format", "pharaoh", *MODEL).stdout
        assert set(written.split()) == set(line.split())
        assert written.endswith("\n")

    def test_a_record_that_is_skipped_has_an_empty_line(self, tmp_path: Path) -> None:
        (a, b, _), (c, d, _), *_ = translator.pairs(2)
        file = tmp_path / "pairs.tsv"
        file.write_text(f"source\ttarget\n\t{b}\n{a}\t{b}\n{a}\n{c}\t{d}\n{c}\t\n")
        links = tmp_path / "links"
        options = ("--pairs", str(file), "--skip-bad", *MODEL)
        run("show", "c1-1", *options, "--format", "pharaoh", "-o", str(links))
        lines = links.read_text().splitlines()
        assert [bool(line) for line in lines] == [False, True, False, True, False]
        read = run("heads", *options, "--attention", "cross", "--alignments", str(links), "--csv")
        assert read.stdout

    def test_a_pair_without_a_target_is_an_error_with_its_line(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("bado fela\n")
        with pytest.raises(PairsError, match=r"a\.txt:1: the pair has no target"):
            attnscan.show("c1-1", pairs=tmp_path / "a.txt", model=TRANSLATOR)

    def test_links_are_a_table(self) -> None:
        texts = [pair[:2] for pair in translator.pairs(3)]
        result = attnscan.show("c1-1", pairs=texts, model=TRANSLATOR)
        frame = result.to_frame()
        assert frame.columns.tolist() == ["model", "pair", "source", "target"]
        first = frame[frame["pair"] == 1]
        links = zip(first["source"], first["target"], strict=True)
        assert [f"{source}-{target}" for source, target in links] == result.lines[0].split()
        assert result.signature.pairs_read == 3
        assert result.to_pharaoh() == "".join(f"{line}\n" for line in result.lines)

    def test_links_by_what_heads_carry_differ(self, random: Path) -> None:
        texts = [pair[:2] for pair in PIECES]
        every_head = [f"c{layer}-{head}" for layer, head in np.ndindex(2, 4)]
        by_weight = [attnscan.show(name, pairs=texts, model=random).lines for name in every_head]
        carried = [
            attnscan.show(name, pairs=texts, model=random, by="carried").lines
            for name in every_head
        ]
        assert by_weight != carried


class TestAlignmentsInPython:
    """`alignments=` takes a line, lines, or a file."""

    def test_a_line_is_the_links_of_one_pair(self) -> None:
        source, target, line = translator.pairs(1)[0]
        options: dict[str, Any] = {"model": TRANSLATOR, "attention": "cross"}
        as_text = attnscan.classify(source, target, alignments=line, **options)
        as_list = attnscan.classify(source, target, alignments=[line], **options)
        assert as_text.links == as_list.links != ()

    def test_a_path_is_a_file_whatever_its_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source, target, line = translator.pairs(1)[0]
        monkeypatch.chdir(tmp_path)
        options: dict[str, Any] = {"model": TRANSLATOR, "attention": "cross"}
        Path("0-0").write_text(line)
        result = attnscan.classify(source, target, alignments=Path("0-0"), **options)
        assert len(result.links) == len(line.split())
        with pytest.raises(OptionError, match="a line of links, and a file here"):
            attnscan.classify(source, target, alignments="0-0", **options)
        with pytest.raises(PairsError, match="cannot read the alignments 0-0 x: No such file"):
            attnscan.classify(source, target, alignments="0-0 x", **options)


WITHOUT = [command.name for command in COMMANDS if command.has_table and command.name != "show"]
REFUSED = [
    ("c1-0,c1-1 a b --format pharaoh", "add --vote, or name one head"),
    ("c1-0 a b --format pharaoh --vote", "--vote is for the links of several heads"),
    ("c1-0,c1-1 a b --vote", "add --format pharaoh, or leave it out"),
    ("c1-0 --pairs p.tsv", "add --format pharaoh, or leave it out"),
    ("c1-0 --format pharaoh", "give source and target, or --pairs FILE"),
    ("c1-0 a b --format pharaoh --top 3", "--top is not for links"),
    ("c1-0 a b --format pharaoh --average", "--average is not for links"),
    ("c1-0 a b --format pharaoh --window 0-1", "--window is not for links"),
    ("c1-0 a b --format pharaoh -o x.csv", "contradict each other"),
    ("d1-0 a b --format pharaoh", "words are linked by heads of cross attention"),
    ("0-2 a b --format pharaoh", "words are linked by heads of cross attention"),
]


@pytest.mark.usefixtures("place")
class TestRefused:
    """What makes no links is refused in a line that says what to do."""

    @pytest.mark.parametrize("command", WITHOUT)
    def test_other_commands_do_not_take_the_format(self, command: str) -> None:
        line = misuse(command, "--format", "pharaoh")
        assert "attnscan show c1-0 A B --format pharaoh" in line

    @pytest.mark.parametrize(("typed", "why"), REFUSED, ids=[typed for typed, _ in REFUSED])
    def test_wrong_use_of_show_is_a_line(self, typed: str, why: str) -> None:
        Path("p.tsv").write_text("source\ttarget\nbado\tODAB\n")
        assert why in misuse("show", *typed.split(), *MODEL)

    def test_several_files_are_refused(self, tmp_path: Path) -> None:
        for name in ("p.tsv", "q.tsv"):
            (tmp_path / name).write_text("source\ttarget\nbado\tODAB\n")
        files = ["--pairs", str(tmp_path / "p.tsv"), "--pairs", str(tmp_path / "q.tsv")]
        result = CliRunner().invoke(app, ["show", "c1-0", *files, "-f", "pharaoh", *MODEL])
        assert result.exit_code == 1
        assert "give one file of pairs" in result.stderr

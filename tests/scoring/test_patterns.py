"""Patterns beyond their drawings: related words; patterns of a file, in every command; cross
attention.
"""

import io
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from support.command_line import A, B, run
from support.docstring_examples import check_examples
from support.frozen_classes import classes_that_can_change
from support.handwritten_inputs import batch_of, translations
from support.tiny_checkpoints import refusal
from typer.testing import CliRunner

from attnscan import scoring
from attnscan.cli.app import app
from attnscan.errors import OptionError
from attnscan.scoring.cross import (
    CROSS_PATTERNS,
    UNALIGNED_PATTERNS,
    aligned,
    cross_patterns,
    even,
    same_place,
)
from attnscan.scoring.patterns import (
    PATTERNS,
    Pattern,
    chosen,
    cross_sentence,
    identical,
    own_pattern,
    with_own,
)


@pytest.mark.parametrize("module", ["patterns", "cross", "relations"])
def test_examples_in_docstrings_are_real(module: str) -> None:
    """Among them the drawings of patterns."""
    check_examples(f"attnscan.scoring.{module}")


def test_every_pattern_with_a_function_is_drawn() -> None:
    for pattern in PATTERNS:
        lines = pattern.drawing.splitlines()
        if pattern.target is None:
            assert lines == []
        else:
            assert len(lines) == 8
            assert lines[0].strip().startswith("[CLS]   the   cat")
            assert lines[1].split()[0] == "the"
            assert len(lines[0]) == len(lines[7])


def test_an_own_pattern_without_a_drawing_has_none() -> None:
    def mine(batch: Any) -> Any:
        """Weight on what I like."""
        return batch.alike

    pattern = Pattern.of(mine)
    assert pattern.drawing == ""
    assert (pattern.id, pattern.letter, pattern.counts) == ("mine", "M", "weight on what I like")
    assert (pattern.group, pattern.even, pattern.excludes_self) == ("own", False, False)


def test_a_docstring_says_what_screens_show_of_a_pattern() -> None:
    def _looks_back(batch: Any) -> Any:
        """Weight on the word before.

        Queries: all words but the first.
        Keys: the word before.
        Head: looks back.
        Source: nobody.
        """
        return batch.offset == -1

    pattern = Pattern.of(_looks_back)
    assert pattern.id == "looks-back"
    assert (pattern.queries, pattern.keys) == ("all words but the first", "the word before")
    assert (pattern.clause, pattern.source) == ("looks back", "nobody")


def test_a_function_without_a_name_is_no_pattern() -> None:
    with pytest.raises(OptionError, match="a pattern's function has no name; define it with def"):
        Pattern.of(lambda batch: batch.alike)


def test_a_function_without_a_docstring_counts_weight_on_its_targets() -> None:
    def mine(batch: Any) -> Any:
        return batch.alike

    assert Pattern.of(mine).counts == "weight on the targets of mine"


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ("next-word", ["next-word"]),
        ("N", ["next-word"]),
        (["n", "D"], ["next-word", "delimiter"]),
        (PATTERNS[0], ["next-word"]),
        (iter(["i"]), ["identical"]),
    ],
)
def test_patterns_are_chosen_by_name_letter_or_themselves(patterns: Any, names: list[str]) -> None:
    assert [pattern.id for pattern in chosen(patterns)] == names


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ([], "there is no pattern to score by; leave `patterns` out for all"),
        ("nextword", "there is no pattern 'nextword'; did you mean 'next-word'?"),
        (["next-word", "N"], "two patterns are called 'next-word'; give each a name of its own"),
        ("induction", "there is no pattern 'induction'; there are next-word, "),
    ],
)
def test_patterns_that_are_not_there_are_refused(patterns: Any, message: str) -> None:
    assert refusal(lambda: chosen(patterns), OptionError).startswith(message)


def test_a_function_alone_is_a_pattern() -> None:
    def mine(batch: Any) -> Any:
        return batch.alike

    (pattern,) = chosen(mine)
    assert pattern.target is mine


def test_related_words_count_as_identical_ones_do() -> None:
    """No word has its like: the cat and the kitten are related, and each is then identical to
    itself too.
    """
    batch = batch_of("[CLS] a cat [SEP] one kitten [SEP]")
    related = torch.zeros(1, 7, 7, dtype=torch.bool)
    related[0, 2, 5] = related[0, 5, 2] = True
    batch = replace(batch, related=related)
    assert identical(batch)[0].nonzero().tolist() == [[2, 2], [2, 5], [5, 2], [5, 5]]
    assert cross_sentence(batch)[0].nonzero().tolist() == [[2, 5], [5, 2]]


CODE = '''
from beside import DISTANCE

def two_back(batch):
    """Each word looks at the word before the one before it."""
    return batch.same_sentence & (batch.offset == -DISTANCE)

def entropy(batch):
    return batch.same_sentence

def next_word(batch):
    return batch.same_sentence

def broken(batch):
    return batch.nothing_like_it

number = 5
'''
MODEL = ("--model", "bundled")
OFF = ("--predictive", "off")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "beside.py").write_text("DISTANCE = 2\n")
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    path = tmp_path / "mine.py"
    path.write_text(CODE)
    return path


def test_a_function_of_a_file_is_a_pattern(file: Path) -> None:
    path = list(sys.path)
    pattern = own_pattern("mine.py:two_back")
    assert (pattern.id, pattern.letter) == ("two-back", "T")
    assert pattern.counts == "each word looks at the word before the one before it"
    assert sys.path == path
    assert {path.name for path in file.parent.iterdir()} - {"__pycache__"} == {
        "beside.py",
        "mine.py",
    }


def test_another_file_gives_its_pattern_another_code(file: Path) -> None:
    pattern = own_pattern("mine.py:two_back")
    file.write_text(CODE + "# another line\n")
    again = own_pattern(f"{file}:two_back")
    assert again.id == pattern.id
    assert again.code != pattern.code


@pytest.mark.usefixtures("file")
def test_own_patterns_stand_behind_ours() -> None:
    names, every = with_own(["delimiter", "mine.py:two_back"])
    assert names == ["delimiter", "two-back"]
    assert [each.id for each in every] == [*(ours.id for ours in PATTERNS), "two-back"]


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mine.py", "'mine.py' names no function; name it as FILE.py:FUNCTION"),
        ("mine.py:", "'mine.py:' names no function"),
        ("none.py:two_back", "cannot read none.py: No such file or directory; check its path"),
        (".py:two_back", "cannot read .py: "),
        ("mine.py:two_bakc", "mine.py has no function 'two_bakc'; did you mean 'two_back'?"),
        ("mine.py:number", "mine.py has no function 'number'"),
        ("mine.py:entropy", "a pattern and a column of tables are called 'entropy'"),
        ("mine.py:next_word", "two patterns are called 'next-word'"),
    ],
)
def test_what_names_no_function(name: str, message: str) -> None:
    assert refusal(lambda: with_own([name]), OptionError).startswith(message)


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "x = 1\ndef mine(:\n",
            "SyntaxError in line 2: invalid syntax; see that `python faulty.py` runs",
        ),
        ("\nx = undefined\n", "NameError in line 2: name 'undefined' is not defined"),
        ("raise SystemExit(3)\n", "SystemExit in line 1: 3"),
        ("import no_such_module\n", "ModuleNotFoundError in line 1"),
        ("def fail():\n    raise ValueError('a\\nb')\nfail()\n", "ValueError in line 2"),
        ("x = '\0'\n", ""),
    ],
)
def test_a_file_that_cannot_be_run(code: str, message: str) -> None:
    Path("faulty.py").write_text(code)
    line = refusal(lambda: own_pattern("faulty.py:mine"), OptionError)
    assert line.startswith(f"faulty.py cannot be run: {message}")


def _table(*arguments: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(run(*arguments, *MODEL, "--csv").stdout))


@pytest.mark.usefixtures("file")
def test_commands_score_by_it() -> None:
    option = ("--pattern", "mine.py:two_back")
    one = _table("classify", A, B, *OFF, *option)
    assert list(one.columns[-2:]) == ["two-back", "entropy"]
    Path("pairs.csv").write_text(f'sentence_a,sentence_b\n"{A}","{B}"\n')
    many = _table("heads", "--pairs", "pairs.csv", *OFF, *option, "-p", "D")
    assert set(many["pattern"]) == {"two-back", "delimiter"}
    score = many[many["pattern"] == "two-back"].set_index(["layer", "head"])["score"]
    assert one.set_index(["layer", "head"])["two-back"].to_dict() == pytest.approx(
        score.to_dict(), abs=2e-6
    )
    assert set(_table("explain", "0-2", A, B, *option)["pattern"]) == {"two-back"}
    compared = run("compare", "bundled", "bundled", "--pairs", "pairs.csv", *option, "--csv").stdout
    assert set(pd.read_csv(io.StringIO(compared))["pattern"]) == {"two-back"}


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("classify", A, *OFF, "-p", "mine.py:broken"),
            "the function of pattern 'broken' fails: AttributeError: ",
        ),
        (
            ("profile", A, "-p", "mine.py:broken"),
            "the function of pattern 'broken' fails: AttributeError: ",
        ),
        (
            ("profile", A, "-p", "next-word"),
            "--pattern is for patterns of your own, FILE.py:FUNCTION",
        ),
    ],
)
def test_what_goes_wrong_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    done = CliRunner().invoke(app, [*arguments, *MODEL])
    assert done.exit_code == 2 and done.stdout == ""
    assert message in done.stderr and done.stderr.count("\n") == 1


def test_a_state_of_other_code_is_not_gone_on_with(file: Path) -> None:
    Path("pairs.csv").write_text(f'sentence_a,sentence_b\n"{A}","{B}"\n')
    scan = ("heads", "--pairs", "pairs.csv", *OFF, *MODEL, "--csv")
    line = (*scan, "-p", "mine.py:two_back", "--state", "state.json")
    first = CliRunner().invoke(app, line)
    assert first.exit_code == 0
    assert CliRunner().invoke(app, line).stdout == first.stdout
    file.write_text(CODE.replace("== -DISTANCE", "== -1"))
    again = CliRunner().invoke(app, line)
    assert again.exit_code == 1 and again.stdout == ""
    assert "state.json belongs to another run: its patterns is two-back " in again.stderr
    assert again.stderr.endswith("; give the same options, or another --state file\n")


@pytest.mark.parametrize(
    ("source", "target"), [(1, 1), (1, 4), (4, 1), (5, 2), (2, 5), (6, 6), (7, 4)]
)
def test_the_same_place_is_the_rounded_one(source: int, target: int) -> None:
    batch = translations((" ".join("a" * source) + " </s>", " ".join("b" * target) + " </s>", ""))
    cells = same_place(batch)[0].nonzero().tolist()
    places = [
        math.floor(q * (source - 1) / (target - 1) + 0.5) if target > 1 else 0
        for q in range(target)
    ]
    assert cells == [[source + 1 + query, place] for query, place in enumerate(places)]


def test_cells_of_a_shorter_pair_are_the_same_in_a_batch() -> None:
    written = ("a b c </s>", "x y </s>", "0-0 2-1"), ("a </s>", "x y z w </s>", "0-3")
    together = translations(*written)
    for row, pair in enumerate(written):
        alone = translations(pair)
        size = alone.word.shape[1]
        for function in (aligned, same_place, even):
            cells = function(together)[row]
            assert torch.equal(cells[:size, :size], function(alone)[0])
            assert not cells[size:].any()


def test_only_words_are_asked_and_only_delimiter_looks_at_others() -> None:
    batch = translations(("<s> a b </s>", "<s> a c </s>", "0-0"))
    visible = torch.zeros(1, 8, 8, dtype=torch.bool)
    visible[:, 4:, :4] = True
    under = batch.with_mask(visible)
    for pattern in CROSS_PATTERNS:
        assert pattern.target is not None
        cells = (pattern.target(under)[0] > 0) & visible[0]
        assert cells[5:7].any() == (pattern.id != "before-aligned")
        assert not cells[[0, 1, 2, 3, 4, 7]].any()
        assert bool(cells[:, [0, 3]].any()) == (pattern.id == "delimiter")


def test_what_is_told_by_links_needs_links() -> None:
    assert cross_patterns() == UNALIGNED_PATTERNS
    assert cross_patterns(["aligned"], aligned=True) == CROSS_PATTERNS
    with pytest.raises(OptionError, match="before-aligned needs gold alignments"):
        cross_patterns(["even", "before-aligned"])


def test_no_two_patterns_share_a_name_or_a_letter() -> None:
    every = {*PATTERNS, *CROSS_PATTERNS}
    assert len({pattern.id for pattern in every}) == len(every)
    assert len({pattern.letter for pattern in every}) == len(every)


def test_no_pattern_or_sum_changes_under_its_caller() -> None:
    assert classes_that_can_change(scoring) == []

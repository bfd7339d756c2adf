"""Where a result goes, what is never overwritten, what stands above and below a screen, how wide it
is, and the bar.
"""

import re
import shlex
import sys
from io import StringIO
from pathlib import Path
from typing import Any, get_args

import pytest
from rich.cells import cell_len
from support.command_line import command_named
from support.toy_bert import save_toy_bert
from typer.testing import CliRunner

from attnscan.cli.app import app
from attnscan.cli.commands_table import COMMAND_NAMES
from attnscan.cli.output import (
    READ,
    SUFFIXES,
    WRITTEN,
    Output,
    input_lines,
    next_command,
    output_of,
    running,
)
from attnscan.errors import OutputError
from attnscan.results.files import Format
from attnscan.scan.options import note, warn


def fill_options(**options: Any) -> dict[str, Any]:
    """What a command was given of where its result goes."""
    return {
        "format": None,
        "csv": False,
        "decimal_comma": False,
        "output": None,
        "signature": None,
        **options,
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (fill_options(), Output("table")),
        (fill_options(csv=True), Output("csv")),
        *(
            (fill_options(output=Path(f"x{suffix}")), Output(kind, Path(f"x{suffix}")))
            for suffix, kind in SUFFIXES.items()
        ),
        (fill_options(format="json", output=Path("x.JSON")), Output("json", Path("x.JSON"))),
        (fill_options(format="json", output=Path("x.log")), Output("json", Path("x.log"))),
        (fill_options(csv=True, output=Path("x")), Output("csv", Path("x"))),
    ],
)
@pytest.mark.usefixtures("place")
def test_where_the_result_goes(options: dict[str, Any], expected: Output) -> None:
    assert output_of(options) == expected == output_of(options, draws=True)


@pytest.mark.parametrize("name", ["heads", ".csv", "heads.csv.gz", "heads.svg"])
def test_another_suffix_is_an_error_that_lists_them(name: str) -> None:
    with pytest.raises(OutputError) as caught:
        output_of(fill_options(output=Path(name)))
    assert name in caught.value.what
    assert all(suffix in caught.value.remedy for suffix in SUFFIXES)


@pytest.mark.parametrize(
    ("format", "library", "extra"),
    [("parquet", "pyarrow", "parquet"), ("xlsx", "xlsxwriter", "excel")],
)
def test_what_cannot_be_written_is_refused_before_the_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, format: Format, library: str, extra: str
) -> None:
    """No text for a terminal, or a library that is missing."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with pytest.raises(
        OutputError, match=rf"no text for a terminal; name a file: -o heads\.{format}"
    ):
        Output(format)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    Output(format)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(
        OutputError, match=rf"needs {library}, .* run: pip install 'attnscan\[{extra}\]'"
    ):
        Output(format, tmp_path / "heads")


def test_every_option_that_names_a_file_has_a_role() -> None:
    """So that no command can forget to check."""
    for command in COMMAND_NAMES:
        for option in command_named(command).params:
            annotation = option.type_descriptor.annotation
            names_file = Path in (annotation, *get_args(annotation)) or "FILE" in str(
                option.metavar
            )
            assert not names_file or option.name in (*READ, *WRITTEN), f"{command}: {option.name}"


@pytest.mark.parametrize(
    "typed",
    [
        "heads --pairs pairs.csv -o pairs.csv",
        "heads --pairs pairs.csv -o to-pairs.json",
        "heads --pairs pairs.csv --state to-pairs.json",
        "heads --pairs pairs.csv --per-pair pairs.csv",
        "heads --pairs pairs.csv --signature pairs.csv",
        "heads --pairs more -o more/x.tsv",
        "heads --pairs 'm*/?.tsv' -o more/x.tsv",
        "heads --pairs file://{place}/pairs.csv -o pairs.csv",
        "heads --state new.csv -o new.csv",
        "heads -o new.parquet --per-pair ./new.parquet",
        "heads --pattern mine.py:two_back -o mine.py",
        "heads --pairs pairs.csv --alignments links.txt --attention cross -o links.txt",
        "syntax --treebank trees.conllu -o trees.conllu",
        "report --weights w.npz -o same.html",
        "classify --weights w.npz -o w.npz",
    ],
)
def test_no_file_is_overwritten_by_the_run_that_names_it(typed: str, place: Path) -> None:
    """The files are no weights or the like: nothing gets as far as to read them."""
    Path("more").mkdir()
    for name in ("pairs.csv", "trees.conllu", "w.npz", "links.txt", "mine.py", "more/x.tsv"):
        Path(name).write_text("of the user")
    Path("to-pairs.json").symlink_to("pairs.csv")
    Path("same.html").hardlink_to("w.npz")
    before = {path: path.lstat().st_ino for path in place.rglob("*")}
    done = CliRunner().invoke(app, shlex.split(typed.format(place=place)))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "is named twice, and would be overwritten" in done.stderr
    assert {path: path.lstat().st_ino for path in place.rglob("*")} == before
    assert all(path.read_text() == "of the user" for path in before if path.is_file())


TEXTS = "'the cat sat' 'the cat ran'"
MANY = "--pairs p.csv"
SCREENS = [  # a command, what stands above its screen, and the command that stands below
    (f"classify {TEXTS} --predictive off", "", "head"),
    (f"classify {TEXTS} --predictive off --all", "A  the cat sat\nB  the cat ran", "head"),
    (f"classify {TEXTS} --predictive off --all -p I", "A  the cat sat\nB  the cat ran", "head"),
    (f"heads {MANY} --predictive off", "6 pairs of p.csv · wide, 12 layers × 12 heads", "head"),
    (
        f"heads {MANY} --predictive off -p I",
        "6 pairs of p.csv · wide, 12 layers × 12 heads",
        "head",
    ),
    (f"head 11-11 {MANY}", "pairs  p.csv", ""),
    (f"head 0-0,0-2 {TEXTS}", "A  the cat sat\nB  the cat ran", ""),
    (f"show 0-2 {TEXTS}", "A  the cat sat\nB  the cat ran", ""),
    (f"show 11-11 {TEXTS} --token cat", "A  the cat sat\nB  the cat ran", ""),
    (f"explain 0-2 {TEXTS} --token sat", "A  the cat sat\nB  the cat ran", ""),
    (f"explain layer:11 {TEXTS}", "A  the cat sat\nB  the cat ran", ""),
    (f"explain 0-2 {MANY}", "pairs  p.csv", ""),
    (f"predictive {TEXTS}", "A  the cat sat\nB  the cat ran", ""),
    (f"ablate {MANY} --predictive off --draws 2 -p N -p X", "pairs  p.csv", ""),
    (f"ablate {MANY} --predictive off --draws 2 --heads 11-11,11-10 --each", "pairs  p.csv", ""),
    (f"similar {MANY}", "pairs  p.csv", ""),
    (f"compare ./wide ./wide {MANY}", "pairs  p.csv", ""),
    (f"profile {TEXTS} --heads 0-0,11-11", "A  the cat sat\nB  the cat ran", ""),
    (f"profile {TEXTS}", "A  the cat sat\nB  the cat ran", ""),
    (f"profile {TEXTS} --heads 11-11", "A  the cat sat\nB  the cat ran", ""),
    ("models ./wide", "", ""),
]


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a model of many heads, and pairs."""
    directory = tmp_path_factory.mktemp("screens")
    plan = {
        (0, 0): "next-word",
        (0, 2): "previous-word",
        (11, 10): "identical",
        (11, 11): "cross-sentence",
    }
    save_toy_bert(directory / "wide", 12, 12, plan)
    rows = [
        f"the cat {verb},the dog {verb} on" for verb in ("sat", "ran", "lay", "saw", "ate", "did")
    ]
    (directory / "p.csv").write_text("\n".join(["sentence_a,sentence_b", *rows]) + "\n")
    return directory


@pytest.mark.usefixtures("each_run_once")
@pytest.mark.parametrize(("command", "above", "then"), SCREENS)
def test_screens_name_their_input_and_fit_the_terminal(
    command: str, above: str, then: str, wide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first ones say where to go on by a command that can be run, and that is not in files."""
    monkeypatch.chdir(wide)
    for width in (40, 60, 100):
        runner = CliRunner(env={"COLUMNS": str(width), "ATTNSCAN_MODEL": "./wide"})
        result = runner.invoke(app, shlex.split(command))
        assert result.exit_code == 0, result.output
        screen, _, typed = result.stdout.partition("\nNext: attnscan ")
        lines = screen.splitlines()
        assert max(map(cell_len, lines)) <= width, (width, max(lines, key=cell_len))
        assert not re.search(r"[\d.]…", result.stdout), result.stdout
    assert screen.startswith(f"{above}\n" if above else "")
    assert typed.partition(" ")[0] == then
    assert not typed or runner.invoke(app, shlex.split(typed)).exit_code == 0
    runner.invoke(app, [*shlex.split(command), "-o", "screen.txt"])
    assert Path("screen.txt").read_text() == screen


def test_the_next_command_keeps_a_pattern_of_ones_own() -> None:
    params = {"a": "The cat sat.", "b": None, "pattern": ["mine.py:two_back"]}
    expected = ["explain", "0-1", "The cat sat.", "--pattern", "mine.py:two_back"]
    assert next_command(params, "explain", "0-1") == expected
    assert next_command(params, "head", "0-1") == ["head", "0-1", "The cat sat."]


def test_the_next_command_reads_pairs_as_this_one_did(toy: str, place: Path) -> None:
    (place / "p.tsv").write_text('gj04\t1\t"The cat" sat.\ngj04\t0\n')
    options = [
        "--pairs",
        "p.tsv",
        "--columns",
        "3",
        "--no-header",
        "--quoting",
        "none",
        "--skip-bad",
    ]
    runner = CliRunner(env={"COLUMNS": "140", "ATTNSCAN_MODEL": toy})
    last = runner.invoke(app, ["heads", "-p", "next-word", *options]).stdout.splitlines()[-1]
    words = shlex.split(last.removeprefix("Next: attnscan "))
    assert words[:1] == ["head"]
    assert words[2:4] == options[:2]
    assert set(words[4:]) == set(options[2:])
    assert runner.invoke(app, words).exit_code == 0


def test_an_address_is_shown_without_what_is_secret() -> None:
    address = "https://user:secret@host.example/p.csv?token=secret"
    assert input_lines({"pairs": [address, "-"]}) == [
        "pairs  https://host.example/p.csv, standard input"
    ]
    for gone in (address, "-"):
        assert next_command({"pairs": [gone], "skip_bad": True}, "head", "0-0") == []


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_the_bar_is_whole_at_any_width_and_obeys_nothing(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    terminal = StringIO()
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)

    def shown() -> str:
        """What was written, without what a terminal obeys, in one line."""
        return re.sub(r"\s+", " ", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue()))

    with running("labels: predictive words, 9 of [bold]3 pairs\x1b[2J: hidden sequences") as step:
        assert r"labels: predictive words, 9 of [bold]3 pairs\x1b[2J: hidden sequences" in shown()
        step("labels: predictive words", 3, 16)
        note("a note")  # which takes the place of the bar
    assert "3/16" in shown()
    assert re.search(r"\r\x1b\[2Kattnscan: a note *\r?\n", terminal.getvalue())


def test_without_a_terminal_there_are_notes_and_no_bar(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with running("loading") as step:
        assert step is None
        note("a note")
        warn("how a file is read")
    assert capsys.readouterr() == ("", "attnscan: a note\nattnscan: how a file is read\n")

"""An error is one line, its remedy works when it is followed, and hostile text does no harm on the
way out.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.command_line import misuse
from support.hostile.runs import readable, served_for_a_moment
from support.hostile.texts import NASTY
from support.toy_bert import save_toy_bert
from support.treebanks import planted_file
from typer.testing import CliRunner, Result

from attnscan.cli.app import app
from attnscan.cli.output import say

FULL = Path("/dev/full")
FORMATS = ["table", "csv", "tsv", "json", "jsonl", "markdown"]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def saved_weights(path: Path, tokens: list[str]) -> Path:
    """A file of even attention over these tokens."""
    n = len(tokens)
    np.savez(
        path,
        attention=np.full((1, 2, n, n), 1 / n),
        tokens=np.array(tokens),
        segments=np.zeros(n, int),
    )
    return path


REFUSED = [
    ("classify", 2, "give a sentence, or two, or --weights FILE.npz"),
    ("classify a '\u200b'", 1, "no word in sentence B"),
    (
        "classify a --model ./none -o no/x.csv",
        1,
        "cannot write no/x.csv: there is no directory",
    ),  # before the work
    (
        "classify a --pattern zzz",
        2,
        "there is no pattern 'zzz'; there are next-word, previous-word",
    ),
    ("classify a --format xml", 2, "'xml' is not one of 'table', 'csv', 'tsv', 'json', 'jsonl'"),
    ("patterns k", 2, "'k' is a habit, and not a pattern: the same few words"),
    ("head", 2, "Missing argument 'HEADS'; for example: attnscan head 0-2 "),
    ("report a", 2, "Missing option '--output' / '-o'; for example: attnscan report "),
    ("classify --weights w.npz --by carried", 2, "saved weights do not hold what heads carry"),
    ("classify --weights w.npz --save-weights v.npz", 2, "--save-weights is of one input"),
    (
        "predictive '. .'",
        1,
        "cannot be measured: the input is one word, or punctuation; give two words or more",
    ),
    ("show 2_0 'a b'", 1, "'2_0' names no head; name heads as 2-0"),
    ("show 0-0 a --from-sentence B", 1, "no token of sentence B"),
    ("show 0-2 'The cat sat.' --weights w.npz", 2, "several inputs were given"),
    ("explain 0-2 -p predictive", 2, "predictive is explained by one input"),
    ("profile 'a b' --state x.json", 2, "--state is for many pairs"),
    ("ablate -p predictive --predictive off", 2, "leaves no heads"),
    ("ablate --measure masked-lm --heads 0-0", 1, "masked-lm cannot be measured with bundled"),
    ("ablate --heads 0-0 -o x.gif", 1, "cannot tell the format"),
    (
        "syntax --treebank t.conllu --links l.jsonl",
        2,
        "--treebank and --links were both given; give one of them",
    ),
    ("syntax", 2, "there is no treebank, and there are no links; name a .conllu file with"),
    ("syntax --treebank t.conllu --heads 0-0", 2, "--heads is for tables"),
    ("serve --against ./nowhere", 1, "there is no directory ./nowhere"),
    ("plot 'A b.' -o a.svg.gz", 2, "there is no picture format 'gz'; give png, svg or pdf"),
    ("plot 'A b.' --pairs p.csv -o x.svg", 2, "several things were given"),
    ("report -o page.html --heads 0-2", 2, "are for one input's page"),
    (
        "report --treebank t.conllu --window 1-3 -o page.html",
        2,
        "--window, --no-neurons and --attention are for",
    ),
    (
        "report --treebank t.conllu --columns a,b -o page.html",
        2,
        "--columns is for --pairs; leave it out",
    ),
    ("plot --weights w.npz --columns a,b -o x.svg", 2, "--columns is for --pairs; leave it out"),
    (
        "report --sentences 3 -o page.html",
        2,
        "--sentences is for --treebank and --links; name one of them, or leave it out",
    ),
    ("patterns mine.py:verbs", 2, "there is no pattern 'mine.py:verbs'"),
    ("classify a --treshold 1", 2, "--threshold"),
    ("show 2-0 a --unit word", 2, "No such option: --unit"),
    (
        "classify a b zzz 'd e'",
        2,
        "Got unexpected extra argument(s) (zzz d e); put each sentence in quotes",
    ),
    (
        "heads 'd e'",
        2,
        "Got unexpected extra argument(s) (d e); "
        "a sentence is for classify, and a file of pairs for --pai",
    ),
    ("classify -5", 2, "No such option: -5; put -- before a sentence that begins with a dash"),
    ("heads --columns a,b", 2, "--columns is for --pairs; leave it out"),
    (
        "heads --pairs p.csv --header --no-header",
        2,
        "--header and --no-header contradict each other",
    ),
]


@pytest.mark.parametrize(("typed", "code", "said"), REFUSED, ids=[typed for typed, *_ in REFUSED])
def test_what_makes_no_sense_is_refused_in_a_line(
    typed: str, code: int, said: str, place: Path
) -> None:
    saved_weights(place / "w.npz", ["[CLS]", "the", "cat", "[SEP]"])
    with served_for_a_moment():
        done = CliRunner(env={"ATTNSCAN_MODEL": "bundled"}).invoke(
            app, shlex.split(typed), input="\n"
        )
    assert (done.exit_code, done.stdout) == (code, "")
    assert said in done.stderr
    assert done.stderr.startswith("attnscan: ")
    assert done.stderr.count("\n") == 1
    assert {path.name for path in place.iterdir()} == {"w.npz"}


ONE = '"the cat sat" --predictive off'
MANY = "--pairs p.csv --predictive off"
FOLLOWED = [  # a wrong command, words of its message, and what it says to do
    (
        f"classify {ONE} --unit word --words space",
        "'spaces'",
        f"classify {ONE} --unit word --words spaces",
    ),
    (
        f"classify {ONE} --words spaces",
        "give --unit word",
        f"classify {ONE} --words spaces --unit word",
    ),
    (
        f"classify {ONE} --pattern nextword",
        "did you mean 'next-word'",
        f"classify {ONE} --pattern next-word",
    ),
    (f"classify {ONE} --csv --format json", "contradict", f"classify {ONE} --format json"),
    (
        f"classify {ONE} --csv -o x.json",
        "name the file otherwise",
        f"classify {ONE} --csv -o x.csv",
    ),
    (f"classify {ONE} -o x.doc", "use one of .csv", f"classify {ONE} -o x.csv"),
    (f"classify {ONE} --decimal-comma", "add --csv", f"classify {ONE} --decimal-comma --csv"),
    (
        f"classify {ONE} --save-weights w.txt",
        "name it w.npz",
        f"classify {ONE} --save-weights w.npz",
    ),
    (
        f"classify {ONE} --by carried --save-weights w.npz",
        "leave --by and --weights out",
        f"classify {ONE} --save-weights w.npz",
    ),
    (f"heads {MANY} --alignments p.csv", "leave it out", f"heads {MANY}"),
    (f"classify {ONE} --query reads", "leave it out", f"classify {ONE}"),
    (f"classify {ONE} --max-target-tokens 9", "leave it out", f"classify {ONE}"),
    (
        f"classify {ONE} --on-long skip",
        "give truncate or error",
        f"classify {ONE} --on-long truncate",
    ),
    (f"show 9-0 {ONE}", "give a layer among these", f"show 1-0 {ONE}"),
    ("show 0-0", "give a sentence", f"show 0-0 {ONE}"),
    (f"show 0-0 {ONE} --window 4-2", "as 10-40", f"show 0-0 {ONE} --window 2-4"),
    ('predictive "the cat" --predictive off', "leave it out", 'predictive "the cat sat"'),
    (
        f"heads {MANY} --columns x",
        "name those to read with --columns",
        f"heads {MANY} --columns sentence_a",
    ),
    (f"heads {MANY} --id key", "--per-pair", f"heads {MANY} --id sentence_a --per-pair e.parquet"),
    (
        f"heads {MANY} -p next-word --threshold 0.1",
        "leave out --pattern",
        f"heads {MANY} --threshold 0.1",
    ),
    (
        f"heads {MANY} --state s --per-pair e.parquet",
        "leave out --state",
        f"heads {MANY} --per-pair e.parquet",
    ),
    (f"heads {MANY} --ray-workers 2", "leave them out", f"heads {MANY}"),
    (f"heads {MANY} -o p.csv", "would be overwritten", f"heads {MANY} -o q.csv"),
    ("explain 0-0 --token cat", "give its sentence", 'explain 0-0 "the cat sat" --token cat'),
    (f"explain 0-0 {ONE} --pairs p.csv", "but not both", "explain 0-0 --pairs p.csv"),
    (f"head 0-0 {ONE} --ablate", "name --pairs", f"head 0-0 {MANY}"),
    ("similar --matrix --pairs p.csv", "give --csv", "similar --matrix --pairs p.csv --csv"),
    (
        f"ablate {MANY} --heads 0-0 --top 2",
        "leave them out",
        f"ablate {MANY} --heads 0-0 --draws 2",
    ),
    (
        f"plot {ONE} --kind head -o x.svg",
        "as --heads 2-0",
        f"plot {ONE} --kind head --heads 1-0 -o x.svg",
    ),
    (f"plot {ONE} --lines -o x.svg", "leave them out", f"plot {ONE} -o x.svg"),
    (f"report {ONE} -o x.txt", "name it x.html", f"report {ONE} -o x.html"),
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("remedies")
    save_toy_bert(directory / "toy", 2, 3, {(0, 0): "next-word", (1, 1): "previous-word"})
    (directory / "p.csv").write_text(
        "sentence_a,sentence_b\n" + "the cat sat,a dog ran\na cat ran,the dog sat\n" * 3
    )
    planted_file(directory, "t.conllu")
    return directory


@pytest.mark.parametrize(("wrong", "words", "right"), FOLLOWED, ids=lambda value: value)
def test_a_remedy_works_when_it_is_followed(
    wrong: str, words: str, right: str, prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(prepared)
    for name in ("s", "e.parquet", "w.npz"):
        (prepared / name).unlink(missing_ok=True)
    runner = CliRunner(env={"ATTNSCAN_MODEL": "./toy", "COLUMNS": "80"})
    refused = runner.invoke(app, shlex.split(wrong))
    assert refused.exit_code in (1, 2), refused.stderr
    assert refused.stderr.count("\n") == 1, refused.stderr
    assert words in refused.stderr, refused.stderr
    done = runner.invoke(app, shlex.split(right))
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize("format", FORMATS)
def test_tokens_and_names_of_any_kind_are_shown(tmp_path: Path, format: str) -> None:
    tokens = ["[CLS]", *NASTY, "", "[SEP]"]
    path = saved_weights(tmp_path / "=[bold]\x1b[31m\n|\u202e.npz", tokens)
    for more in ([], ["--all"]):
        result = run("classify", "--weights", path, "--format", format, *more)
        assert result.exit_code == 0
        assert readable(result.stdout)
        assert readable(result.stderr)
    if format == "json":
        # numpy's strings end before their trailing NULs
        assert json.loads(result.stdout)["units"] == np.array(tokens).tolist()
    if format in ("csv", "tsv"):
        assert result.stdout.splitlines()[1].startswith('"=""=')


def test_a_complaint_does_not_obey_the_users_words() -> None:
    for arguments in (
        ["classify", "a", "--pattern", "\x1b[31m\u202e"],
        ["classify", "a", "--\x1b[2J"],
        ["classify", "a", "b", "c\x1b]0;title\x07\nd"],
        ["\x1b[31m\ud800"],
    ):
        assert readable(misuse(*arguments))


def test_a_note_obeys_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\x1b[2J.csv: its columns are read as separated by tabs")
    assert (
        capsys.readouterr().err
        == "attnscan: a\\x1b[2J.csv: its columns are read as separated by tabs\n"
    )


@pytest.mark.long
@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            [b"classify", b"caf\xe9", "--model", "bundled"],
            "sentence A is not valid Unicode: its character 4",
        ),
        (["patterns"], "No space left on device"),
    ],
)
def test_an_error_of_a_process_has_no_traceback(arguments: list[str | bytes], said: str) -> None:
    with FULL.open("wb") as full:
        command = [sys.executable, "-m", "attnscan", *arguments]
        done = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("attnscan: ")
    assert said in done.stderr


@pytest.mark.parametrize(
    "error",
    [MemoryError(), ImportError("libtorch_cpu.so: failed to map segment from shared object")],
    ids=str,
)
def test_memory_that_runs_out_anywhere_is_one_line(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr("attnscan.models", fail)
    result = run("models")
    assert isinstance(result.exception, SystemExit), result.exception
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert result.stderr.startswith("attnscan: ")
    assert "memory ran out; " in result.stderr

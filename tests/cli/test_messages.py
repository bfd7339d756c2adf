"""What a user gets wrong is answered in one line with a remedy, and hostile text does no harm on the way out."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import misuse
from devices import FULL
from hostile.runs import check, readable
from hostile.texts import NASTY
from toy import POSITIONS, save_toy_bert
from typer.testing import CliRunner, Result

from attnscan.cli import app as cli
from attnscan.cli.app import app

FORMATS = ["table", "csv", "tsv", "json", "jsonl", "markdown"]


def run(*arguments: object, **environment: str) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments], env=environment)


def refusal(*arguments: object, **environment: str) -> str:
    """The one line that a run ends with, exit code 1."""
    result = run(*arguments, **environment)
    assert isinstance(result.exception, SystemExit), result.exception
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("attnscan: ")
    assert line.isprintable()
    return line


def process(*arguments: object, **settings: Any) -> subprocess.CompletedProcess[bytes]:
    """A run of its own, as from a shell."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings}
    given = [each if isinstance(each, bytes) else str(each) for each in arguments]
    return subprocess.run([sys.executable, "-m", "attnscan", *given], check=False, **streams)


def one_line(done: subprocess.CompletedProcess[bytes]) -> str:
    assert (done.returncode, done.stdout or b"") == (1, b"")
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("attnscan: ")
    return line


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of one layer and two heads."""
    return save_toy_bert(tmp_path_factory.mktemp("toy") / "bert", 1, 2, {(0, 0): "next-word"})


def saved_weights(path: Path, tokens: list[str], /, **changes: Any) -> Path:
    """A file of even attention over these tokens."""
    n = len(tokens)
    arrays = {"attention": np.full((1, 2, n, n), 1 / n), "tokens": np.array(tokens), "segments": np.zeros(n, int)}
    np.savez(path, **{**arrays, **changes})
    return path


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return saved_weights(tmp_path / "weights.npz", ["[CLS]", "the", "cat", "[SEP]"])


@pytest.fixture
def nothing_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if the work begins, which takes long and is lost if its result cannot be written."""
    monkeypatch.setattr("attnscan.scan.scanner.load", lambda *_: pytest.fail("the model was loaded"))
    monkeypatch.setattr("attnscan.inputs.weights.read_weights", lambda *_: pytest.fail("the weights were read"))


def test_an_error_is_one_line_that_names_what_is_wrong(toy: Path, weights: Path) -> None:
    """Of models, sentences and saved weights; `tests/model` and `tests/inputs` hold what each of these says."""
    assert "there is no directory ./none" in refusal("classify", "the cat", "--model", "./none")
    assert "there is no directory ./none" in refusal("classify", "the cat", ATTNSCAN_MODEL="./none")
    assert "sentence B is empty" in refusal("classify", "the cat", " ", "--model", toy)
    assert "no word in sentence B" in refusal("classify", "the cat", "\u200b", "--model", toy)
    line = refusal("classify", "cat " * 40, "--model", toy)
    assert f"is 42 tokens long and the model reads at most {POSITIONS}" in line and "--on-long truncate" in line
    weights.write_bytes(b"PK\x03\x04nonsense")
    assert "not a valid .npz file" in refusal("classify", "--weights", weights)


def test_truncate_cuts_and_says_so(toy: Path) -> None:
    result = run("classify", "cat " * 40, "--model", toy, "--on-long", "truncate", "--format", "json")
    assert result.exit_code == 0
    assert result.stderr == f"attnscan: the input was cut to the {POSITIONS} tokens that the model reads\n"
    read = json.loads(result.stdout)
    assert len(read["units"]) == POSITIONS and read["signature"]["pairs_truncated"] == 1
    result = run("classify", "cat " * (POSITIONS - 2), "--model", toy, "--on-long", "truncate", "--csv")
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.usefixtures("nothing_loads")
class TestOutput:
    """All of it is found out before the work."""

    @pytest.mark.parametrize(("option", "suffix"), [("--output", ".csv"), ("--save-weights", ".npz")])
    def test_an_unwritable_place(self, toy: Path, tmp_path: Path, option: str, suffix: str) -> None:
        place = tmp_path / "missing" / f"out{suffix}"
        assert "there is no directory" in refusal("classify", "the cat", "--model", toy, option, place)
        assert list(tmp_path.iterdir()) == []

    def test_a_suffix_that_says_nothing(self, weights: Path, tmp_path: Path) -> None:
        line = refusal("classify", "--weights", weights, "-o", tmp_path / "heads.doc")
        assert ".parquet" in line
        assert "--format" in line


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["classify"], "give a sentence, or two, or --weights FILE.npz"),
            (["classify", "the cat", "--weights", "w.npz"], "and one of them"),
            (["classify", "a", "--pattern", "next-wrod"], "no pattern 'next-wrod': did you mean 'next-word'?"),
            (["classify", "a", "--pattern", "zzz"], "no pattern 'zzz': there are next-word, previous-word"),
            (["classify", "a", "--format", "xml"], "no format 'xml': there are table, csv, tsv, json, jsonl"),
            (["classify", "a", "--csv", "--format", "json"], "--csv and --format json contradict each other"),
            (["classify", "--weights", "w.npz", "--model", "bundled"], "--weights needs no model"),
            (["classify", "--weights", "w.npz", "--save-weights", "v.npz"], "needs a model"),
            (["classify", "a", "--csv", "-o", "a.svg"], "--csv and a.svg contradict each other"),
            (["predictive", "one two", "--predictive", "off"], "--predictive off measures nothing"),
            (["similar", "--within", "nan"], "--within"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_what_makes_no_sense_exits_with_2(
        self, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
    ) -> None:
        monkeypatch.setattr("attnscan.model.sources.choose", lambda _: pytest.fail("a model was chosen"))
        assert words in misuse(*arguments)

    def test_an_interruption_exits_with_130(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("attnscan.model.sources.choose", interrupt)
        result = run("classify", "the cat")
        assert (result.exit_code, result.stdout, result.stderr) == (130, "", "attnscan: interrupted\n")


class TestHostile:
    @pytest.mark.parametrize("format", FORMATS)
    def test_tokens_and_names_of_any_kind_are_shown(self, tmp_path: Path, format: str) -> None:
        tokens = ["[CLS]", *NASTY, "", "[SEP]"]
        path = saved_weights(tmp_path / "=[bold]\x1b[31m\n|\u202e.npz", tokens)
        for more in ([], ["--all"]):
            result = run("classify", "--weights", path, "--format", format, *more)
            assert result.exit_code == 0 and readable(result.stdout) and readable(result.stderr)
        if format == "json":
            # numpy's strings end before their trailing NULs
            assert json.loads(result.stdout)["units"] == np.array(tokens).tolist()
        if format in ("csv", "tsv"):
            assert result.stdout.splitlines()[1].startswith('"=""=')

    def test_a_sentence_of_any_kind_is_scored(self, toy: Path) -> None:
        texts = [word for word in NASTY if word.replace("\0", "").encode(errors="ignore")]
        for at, kind in enumerate(FORMATS * 2):
            words = " ".join(texts[at::12])
            assert check(run("classify", words, "a cat", "--model", toy, "--on-long", "truncate", "-f", kind)), words
        whole = " ".join(texts)
        assert check(run("classify", whole, whole, "--model", "bundled", "--no-related", "--predictive", "off"))

    @pytest.mark.parametrize("unit", ["token", "word"])
    def test_a_table_shows_markup_as_it_is_written(self, tmp_path: Path, unit: str) -> None:
        path = saved_weights(tmp_path / "w.npz", ["[CLS]", "[bold]", "[/]", ":smile:", "[SEP]"])
        assert "[bold] [/] :smile:" in run("classify", "--weights", path, "--unit", unit).stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["classify", "a", "--pattern", "\x1b[31m\u202e"],
        ["classify", "a", "--\x1b[2J"],
        ["classify", "a", "b", "c\x1b]0;title\x07\nd"],
        ["\x1b[31m\ud800"],
        ["classify", "a", "--top", "\x9b31m"],
    ],
    ids=["value", "option", "argument", "command", "number"],
)
def test_a_complaint_does_not_obey_the_users_words(arguments: list[str]) -> None:
    assert readable(misuse(*arguments))


@pytest.mark.long
class TestProcess:
    """What only a real process shows: exit codes, closed pipes, full disks, tracebacks."""

    def test_an_error_has_no_traceback_and_exits_with_1(self) -> None:
        line = one_line(process("classify", b"caf\xe9", "--model", "bundled"))
        assert "sentence A is not valid Unicode: its character 4" in line and "UTF-8" in line

    @pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
    def test_a_full_disk_is_one_line(self) -> None:
        with FULL.open("wb") as full:
            done = process("patterns", stdout=full)
        assert "No space left on device" in one_line(done)

    @pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
    def test_a_result_is_not_lost_where_nothing_can_be_told(self, toy: Path) -> None:
        arguments = ("classify", "cat " * 40, "--on-long", "truncate", "--predictive", "off", "--csv", "--model", toy)
        with FULL.open("wb") as full:
            done = process(*arguments, stderr=full)
        assert done.returncode == 0 and done.stdout.startswith(b"model,layer,head,")


def test_an_interrupt_before_a_command_begins_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(**_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)
    ignored: list[object] = []
    monkeypatch.setattr(signal, "signal", lambda *given: ignored.append(given))  # what tests start is to hear of Ctrl-C
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130 and ignored == [(signal.SIGINT, signal.SIG_IGN)]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("std::bad_alloc"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
        OSError(12, "Cannot allocate memory"),
    ],
    ids=str,
)
def test_memory_that_runs_out_anywhere_is_one_line(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr("attnscan.models", fail)
    assert "memory ran out; " in refusal("models")


def test_an_error_that_is_no_lack_of_memory_is_not_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control."""

    def fail(**_: object) -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr("attnscan.models", fail)
    assert isinstance(run("models").exception, RuntimeError)

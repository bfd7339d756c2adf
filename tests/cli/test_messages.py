"""What a user gets wrong is answered in one line with a remedy, and hostile text does no harm on the way out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from devices import FULL
from toy import POSITIONS, save_toy_bert
from typer.testing import CliRunner, Result

from attnscan.cli import app as cli
from attnscan.cli.app import app
from attnscan.cli.messages import undisturbed
from attnscan.model import sources
from attnscan.safe_text import plain

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


def misuse(*arguments: object) -> str:
    """The one line that a wrong use ends with, exit code 2."""
    result = run(*arguments)
    assert isinstance(result.exception, SystemExit), result.exception
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("attnscan: ") and line.endswith(" --help)")
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


class TestModel:
    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("./no-such-directory", "there is no directory ./no-such-directory"),
            ("no-such-model", "neither a directory nor in the local cache, and the hub does not answer"),
            ("org/no-such-model", "the hub does not answer"),
            ("", "has no config.json"),
            ("a b", "there is no directory a b"),
            ("a\x1b[31m\nb", r"there is no directory a\x1b[31m\nb"),
            ("\udcff", r"there is no directory \udcff"),
            ("a" * 300, "File name too long"),
            ("~no-such-user/model", "cannot read ~no-such-user/model"),
        ],
    )
    def test_one_that_does_not_exist(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert words in refusal("classify", "the cat", "--model", name)

    def test_one_that_the_environment_names(self) -> None:
        line = refusal("classify", "the cat", ATTNSCAN_MODEL="./no-such-directory")
        assert "there is no directory ./no-such-directory" in line

    @pytest.mark.parametrize(
        ("files", "words"),
        [
            ([], "has no config.json"),
            (["model.safetensors", "tokenizer.json"], "has no config.json"),
            (["config.json", "tokenizer.json"], "has no weights (model.safetensors)"),
            (["config.json", "model.safetensors"], "has no tokenizer"),
            (["config.json", "tokenizer.json", "pytorch_model.bin"], "convert it once: python -c"),
            (["config.json", "tokenizer.json", "model.safetensors"], "cannot load the model"),
        ],
    )
    def test_a_directory_that_lacks_something(self, tmp_path: Path, files: list[str], words: str) -> None:
        for name in files:
            (tmp_path / name).write_text("{}")
        line = refusal("classify", "the cat", "--model", tmp_path)
        assert words in line
        assert str(tmp_path) in line

    def test_none_at_all_lists_the_ways_to_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sources, "cached", lambda *_: None)
        monkeypatch.setattr(sources, "bundled_directory", lambda: None)
        line = refusal("classify", "the cat")
        assert "--model DIR" in line
        assert "pip install 'attnscan[bundled]'" in line

    def test_a_device_that_is_not_there(self, toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        line = refusal("classify", "the cat", "--model", toy, "--device", "cuda")
        assert "--device cuda" in line
        assert "--device auto" in line

    def test_a_number_format_that_the_device_does_not_have(self, toy: Path) -> None:
        line = refusal("classify", "the cat", "--model", toy, "--device", "cpu", "--dtype", "float16")
        assert "leave --dtype out" in line


class TestSentences:
    @pytest.mark.parametrize("text", ["", " ", " " * 100, "\n\t", "\u3000"])
    def test_an_empty_one(self, toy: Path, text: str) -> None:
        assert "sentence A is empty" in refusal("classify", text, "--model", toy)
        assert "sentence B is empty" in refusal("classify", "the cat", text, "--model", toy)

    @pytest.mark.parametrize("text", ["\u200b", "\x01\x02", "\x1b"])
    def test_one_without_a_word(self, toy: Path, text: str) -> None:
        assert "no word in sentence B" in refusal("classify", "the cat", text, "--model", toy)

    def test_one_that_is_too_long_names_its_length_the_limit_and_the_remedy(self, toy: Path) -> None:
        line = refusal("classify", "cat " * 40, "--model", toy)
        assert "is 42 tokens long" in line
        assert f"at most {POSITIONS}" in line
        assert "--truncate" in line

    def test_truncate_cuts_it_and_says_so(self, toy: Path) -> None:
        result = run("classify", "cat " * 40, "--model", toy, "--truncate", "--format", "json")
        assert result.exit_code == 0
        assert result.stderr == f"attnscan: the input was cut to the {POSITIONS} tokens that the model reads\n"
        read = json.loads(result.stdout)
        assert len(read["units"]) == POSITIONS
        assert read["signature"]["pairs_truncated"] == 1

    def test_one_that_just_fits_is_not_cut(self, toy: Path) -> None:
        result = run("classify", "cat " * (POSITIONS - 2), "--model", toy, "--truncate", "--csv")
        assert (result.exit_code, result.stderr) == (0, "")

    def test_one_that_is_no_unicode(self, toy: Path) -> None:
        assert "sentence A is not valid Unicode" in refusal("classify", "caf\udce9", "--model", toy)

    def test_one_that_is_no_utf8_in_a_shell(self) -> None:
        line = one_line(process("classify", b"caf\xe9", "--model", "bundled"))
        assert "sentence A is not valid Unicode: its character 4" in line
        assert "UTF-8" in line


class TestWeights:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"attention": np.ones((2, 4, 4))}, "without a batch axis"),
            ({"attention": np.ones((1, 2, 4, 4))}, "is not softmax weights"),
            ({"attention": np.full((1, 2, 4, 4), np.nan)}, "NaN or infinity"),
            ({"tokens": np.array(["a", "b"])}, "there are 2 tokens"),
            ({"tokens": np.array([["a"], {}], dtype=object)}, "pickled Python objects"),
            ({"segments": np.array([0, 1, 2, 3])}, "'segments' holds other numbers than 0 and 1"),
        ],
    )
    def test_a_malformed_file(self, tmp_path: Path, changes: dict[str, Any], words: str) -> None:
        path = saved_weights(tmp_path / "w.npz", ["[CLS]", "the", "cat", "[SEP]"], **changes)
        line = refusal("classify", "--weights", path)
        assert words in line
        assert str(path) in line

    @pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04nonsense"])
    def test_another_kind_of_file(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "w.npz").write_bytes(content)
        assert "not a sound .npz file" in refusal("classify", "--weights", tmp_path / "w.npz")

    def test_a_missing_file_and_a_directory(self, tmp_path: Path) -> None:
        assert "there is no file" in refusal("classify", "--weights", tmp_path / "none.npz")
        assert "Is a directory" in refusal("classify", "--weights", tmp_path)


@pytest.mark.usefixtures("nothing_loads")
class TestOutput:
    """All of it is found out before the work."""

    @pytest.mark.parametrize(("option", "suffix"), [("--output", ".csv"), ("--save-weights", ".npz")])
    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("missing/out", "there is no directory"),
            ("directory", "is a directory"),
            ("a" * 252, "File name too long"),
        ],
    )
    def test_an_unwritable_place(
        self, toy: Path, tmp_path: Path, option: str, suffix: str, name: str, words: str
    ) -> None:
        (tmp_path / f"directory{suffix}").mkdir()
        assert words in refusal("classify", "the cat", "--model", toy, option, tmp_path / (name + suffix))
        assert list(tmp_path.iterdir()) == [tmp_path / f"directory{suffix}"]

    def test_a_suffix_that_says_nothing(self, weights: Path, tmp_path: Path) -> None:
        line = refusal("classify", "--weights", weights, "-o", tmp_path / "heads.doc")
        assert ".parquet" in line
        assert "--format" in line


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ([], "give a sentence, or two, or --weights FILE.npz"),
            (["the cat", "--weights", "w.npz"], "but not both"),
            (["a", "b", "c"], "'c' is one argument too many: put each sentence in quotes"),
            (["a", "--pattern", "next-wrod"], "no pattern 'next-wrod': did you mean 'next-word'?"),
            (["a", "--pattern", "delimiters"], "did you mean 'delimiter'?"),
            (["a", "--pattern", "zzz"], "no pattern 'zzz': there are next-word, previous-word"),
            (["a", "--format", "xml"], "no format 'xml': there are table, csv, tsv, json, jsonl, markdown, parquet"),
            (["a", "--csv", "--format", "json"], "--csv and --format json contradict each other"),
            (["--weights", "w.npz", "--model", "bundled"], "--weights needs no model"),
            (["--weights", "w.npz", "--save-weights", "v.npz"], "has nothing to save"),
            (["a", "--unit", "letter"], "--unit takes token or word"),
            (["a", "--device", "tpu"], "--device takes auto, cpu, cuda or mps"),
            (["a", "--dtype", "int8"], "--dtype takes auto, float32"),
            (["a", "--top", "0"], "--top takes a whole number, 1 or more"),
            (["a", "--top", "many"], "--top takes a whole number, 1 or more"),
            (["a", "--top"], "--top lacks its value: it takes a whole number, 1 or more"),
            (["a", "--threshold", "2"], "--threshold takes a number from 0 to 1"),
            (["a", "--seed", "-1"], "--seed takes a whole number, 0 or more"),
            (["a", "--no-such-option"], "there is no option --no-such-option: look up which there are"),
            (["a", "--treshold", "1"], "there is no option --treshold: did you mean '--threshold'?"),
            (["a", "--csv=yes"], "--csv takes no value: leave it out"),
            (["a", "-o"], "-o lacks its value: it takes a file's name"),
            (["0-2,layer:1"], "'0-2,layer:1' names heads and is no sentence"),
            (["a", "--csv", "-o", "a.json"], "--csv and a.json contradict each other"),
            (["a", "-f", "tsv", "-o", "A.CSV"], "--format tsv and A.CSV contradict each other"),
            (["a", "--csv", "-o", "a.svg"], "--csv and a.svg contradict each other"),
        ],
    )
    def test_what_makes_no_sense_exits_with_2(
        self, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
    ) -> None:
        monkeypatch.setattr("attnscan.model.sources.choose", lambda _: pytest.fail("a model was chosen"))
        assert words in misuse("classify", *arguments)

    @pytest.mark.parametrize(
        "arguments",
        [
            ["heads", "--pairs", "a.csv", "-o", "./a.csv"],
            ["heads", "--state", "a.csv", "-o", "a.csv"],
            ["heads", "--state", "link.parquet", "--pairs", "a.csv"],
            ["explain", "0-0", "--pairs", "a.csv", "-o", "a.csv"],
            ["classify", "--weights", "a.csv", "-o", "a.csv"],
            ["classify", "a", "--save-weights", "new.csv", "-o", "new.csv"],
        ],
        ids=lambda arguments: " ".join(arguments),
    )
    def test_no_file_is_overwritten_by_another(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("a.csv").write_text("sentence_a,sentence_b\na,b\n")
        Path("link.parquet").symlink_to("a.csv")
        assert "is named twice, and would be overwritten" in misuse(*arguments)

    def test_an_unknown_command(self) -> None:
        assert "there is no command 'clasify': did you mean 'classify'?" in misuse("clasify", "the cat")
        assert "there is no command 'zzz': there are classify, heads, " in misuse("zzz")
        assert misuse("--modl", "x") == (
            "attnscan: there is no option --modl: look up which there are (attnscan --help)"
        )

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["show"], 'HEADS is missing: as in attnscan show 0-2 "I went to the store."'),
            (["show", "I went to the store."], 'HEADS is missing: as in attnscan show 0-2 "I went to the store."'),
            (
                ["show", "0-2"],
                'a sentence, or --weights FILE.npz, is missing: as in attnscan show 0-2 "I went to the store."',
            ),
            (["show", "0-2", "1-8"], "'1-8' names heads and is no sentence: HEADS come once"),
            (["explain", "I went to the store."], "HEADS is missing: give --all, or name some"),
            (["explain", "0-2", "--all"], "'0-2' names heads and is no sentence: give HEADS or --all"),
            (["predictive", "layer:1"], "'layer:1' names heads and is no sentence"),
            (["predictive", "one two", "--predictive", "off"], "--predictive off leaves nothing to ask"),
            (["profile", "0-2"], "'0-2' names heads and is no sentence: name heads by --heads"),
            (["report", "0-2", "-o", "a.html"], "name heads by --heads"),
            (["plot", "0-2", "-o", "a.svg"], "name heads by --kind head --heads, and give a sentence"),
            (["plot", "a"], "--output is missing: as in attnscan plot "),
            (["heads", "pairs.tsv"], "name files of pairs with --pairs pairs.tsv"),
            (["heads", "delimiter"], "name patterns with --pattern delimiter"),
            (["models", "a", "b"], "'b' is one argument too many: leave it out"),
            (["compare", "a"], "MODEL_B is missing: as in attnscan compare "),
            (["plot", "a", "--kind", "pie", "-o", "a.svg"], "--kind takes map, scores, head"),
            (["similar", "--within", "nan"], "--within takes a number from 0 to 0.7"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_what_is_missing_or_in_the_wrong_place_is_named(
        self, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
    ) -> None:
        monkeypatch.setattr("attnscan.model.sources.choose", lambda _: pytest.fail("a model was chosen"))
        line = misuse(*arguments)
        assert words in line and line.endswith(f"(attnscan {arguments[0]} --help)")

    @pytest.mark.parametrize("csv", [["--csv"], ["--format", "csv"], ["--csv", "--format", "csv"]])
    def test_csv_may_be_said_twice(self, weights: Path, csv: list[str]) -> None:
        result = run("classify", "--weights", weights, *csv)
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.startswith("model,layer,head,")

    def test_an_interruption_exits_with_130(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("attnscan.model.sources.choose", interrupt)
        result = run("classify", "the cat")
        assert (result.exit_code, result.stdout, result.stderr) == (130, "", "attnscan: interrupted\n")


HOSTILE = {
    "markup": "[bold]the[/bold] cat [/]",
    "control characters": "the\x07 cat\x08\x00\x7f sat\x85\x9b2J",
    "escape sequences": "the \x1b[2J\x1b]0;title\x07 cat \x1b[31m",
    "emoji": "the cat 👩\u200d🚀❤\ufe0f 😀",
    "right to left": "שלום the cat عالم",
    "bidi controls": "the \u202ecat\u202c \u2066sat\u2069 \u200fon",
    "spaces": "the" + " " * 100 + "cat",
    "lines": "the cat\r\nsat\u2028on\ttab",
    "formula": "=1+1 @SUM(A1) -cat +cat",
    "separators": 'the, "cat"; | \\ </script>',
    "combining": "z\u0351\u036f\u0321a\u0320l\u0345go the cat",
    "long word": "a" * 500,
}


def readable(text: str) -> bool:
    """Whether a terminal would show this and obey none of it."""
    inside = text.replace("\n", "").replace("\t", "")
    return "\x1b" not in inside and plain(inside) == inside


def calm(text: str) -> bool:
    """Whether nothing is said, but for words that the model does not know."""
    return readable(text) and all("unknown to the model" in line for line in text.splitlines())


class TestHostile:
    @pytest.mark.parametrize("format", ["table", "csv", "json"])
    @pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
    def test_a_sentence_of_any_kind_is_scored(self, toy: Path, text: str, format: str) -> None:
        result = run("classify", text, "the cat", "--model", toy, "--format", format)
        assert result.exit_code == 0 and calm(result.stderr)
        assert readable(result.stdout)
        if format == "json":
            assert json.loads(result.stdout)["units"][0] == "[CLS]"

    @pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
    def test_and_by_a_real_tokenizer(self, text: str) -> None:
        result = run("classify", text, text, "--model", "bundled", "--no-related", "--predictive", "off")
        assert result.exit_code == 0 and calm(result.stderr)
        assert readable(result.stdout)

    @pytest.mark.parametrize("format", FORMATS)
    def test_tokens_of_any_kind_are_shown(self, tmp_path: Path, format: str) -> None:
        tokens = ["[CLS]", *HOSTILE.values(), "", "\ud800", "[SEP]"]
        path = saved_weights(tmp_path / "w.npz", tokens)
        result = run("classify", "--weights", path, "--all", "--format", format)
        assert (result.exit_code, result.stderr) == (0, "")
        assert readable(result.stdout)
        result = run("classify", "--weights", path, "--format", format)
        assert (result.exit_code, result.stderr) == (0, "")
        assert readable(result.stdout)
        if format == "json":
            # numpy's strings end before their trailing NULs
            assert json.loads(result.stdout)["units"] == np.array(tokens).tolist()

    @pytest.mark.parametrize("unit", ["token", "word"])
    def test_a_table_shows_markup_as_it_is_written(self, tmp_path: Path, unit: str) -> None:
        path = saved_weights(tmp_path / "w.npz", ["[CLS]", "[bold]", "[/]", ":smile:", "[SEP]"])
        result = run("classify", "--weights", path, "--unit", unit)
        assert "[bold] [/] :smile:" in result.stdout

    @pytest.mark.parametrize("format", FORMATS)
    def test_a_files_name_of_any_kind_is_shown(self, tmp_path: Path, format: str) -> None:
        path = saved_weights(tmp_path / "=[bold]\x1b[31m\n|\u202e.npz", ["[CLS]", "a", "[SEP]"])
        result = run("classify", "--weights", path, "--format", format)
        assert (result.exit_code, result.stderr) == (0, "")
        assert readable(result.stdout)
        if format in ("csv", "tsv"):
            assert result.stdout.splitlines()[1].startswith('"=""=')


class TestUsersOwnWords:
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
    def test_a_complaint_does_not_obey_them(self, arguments: list[str]) -> None:
        assert readable(misuse(*arguments))


class TestProcess:
    """What only a real process shows: exit codes, closed pipes, full disks, tracebacks."""

    def test_an_error_has_no_traceback_and_exits_with_1(self) -> None:
        assert "there is no directory /no/such" in one_line(process("classify", "the cat", "--model", "/no/such"))

    def test_a_wrong_use_exits_with_2(self) -> None:
        done = process("classify", "the cat", "--pattern", "next-wrod")
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"did you mean 'next-word'?" in done.stderr
        assert b"Traceback" not in done.stderr

    def test_a_reader_that_has_gone_is_no_error(self) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        try:
            done = process("patterns", stdout=writer)
        finally:
            os.close(writer)
        assert (done.returncode, done.stderr) == (0, b"")

    def test_nor_is_one_that_goes_while_a_result_is_written(self, weights: Path) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        try:
            done = process("classify", "--weights", weights, "--csv", stdout=writer)
        finally:
            os.close(writer)
        assert (done.returncode, done.stderr) == (0, b"")

    @pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
    def test_a_full_disk_is_one_line(self) -> None:
        with FULL.open("wb") as full:
            done = process("patterns", stdout=full)
        assert "No space left on device" in one_line(done)

    @pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
    def test_a_result_is_not_lost_where_nothing_can_be_told(self, toy: Path) -> None:
        arguments = ("classify", "cat " * 40, "--truncate", "--predictive", "off", "--csv", "--model", toy)
        with FULL.open("wb") as full:
            done = process(*arguments, stderr=full)
        assert done.returncode == 0 and done.stdout.startswith(b"model,layer,head,")

    @pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
    def test_a_full_disk_by_name_is_one_line(self, weights: Path) -> None:
        line = refusal("classify", "--weights", weights, "--csv", "-o", FULL)
        assert "cannot write /dev/full: No space left on device" in line
        assert FULL.is_char_device()

    @pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
    def test_a_terminal_without_utf8_still_gets_every_line(self, encoding: str) -> None:
        done = process("patterns", env={**os.environ, "PYTHONIOENCODING": encoding})
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.decode(encoding).count("\n") > 20


def test_an_interrupt_before_a_command_begins_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(**_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)  # put back afterwards
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
@pytest.mark.parametrize("limit", [None, 2 * 10**9])
def test_memory_that_runs_out_anywhere_is_one_line(
    monkeypatch: pytest.MonkeyPatch, error: Exception, limit: int | None
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("attnscan.cli.commands.models._show_all", fail)
    monkeypatch.setattr("attnscan.model.surroundings.address_space", lambda: limit)
    line = refusal("models")
    assert "memory ran out; " in line and ("the limit of 2.00 GB (ulimit -v)" in line) == (limit is not None)


def test_an_error_that_is_no_lack_of_memory_is_not_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control."""

    def fail(*_: object) -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr("attnscan.cli.commands.models._show_all", fail)
    assert isinstance(run("models").exception, RuntimeError)


def test_an_interrupt_waits_until_what_belongs_together_is_done() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    done = []
    try:
        with pytest.raises(KeyboardInterrupt), undisturbed():
            signal.raise_signal(signal.SIGINT)
            done.append("all")
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with undisturbed():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done == ["all"]

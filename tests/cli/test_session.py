"""What commands share between parsing and printing: passes over pairs, the model, and what the user is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from toy import save_toy_bert
from typer.testing import CliRunner

from attnscan.cli.app import app
from attnscan.cli.messages import WITHOUT_TAP
from attnscan.cli.options import PairFiles
from attnscan.cli.session import Passes, chosen, opened, tell
from attnscan.errors import InputError, ModelError, PairsError
from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.pairs import Pair, shipped_pairs
from attnscan.model.sources import Source
from attnscan.results.grid import Grid
from attnscan.results.signature import Signature
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner

SIGNATURE = Signature(
    model="toy",
    revision=None,
    attnscan="0",
    torch="0",
    transformers=None,
    dtype="float32",
    device="cpu",
    unit="token",
    pattern_set="1",
    input_hash="",
    read_by="tap",
    predictive="off",
    pairs_read=9,
)


def _said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.removeprefix("attnscan: ") for line in capsys.readouterr().err.splitlines()]


@pytest.fixture
def bad(tmp_path: Path) -> str:
    """Five bad records among seven."""
    path = tmp_path / "bad.csv"
    path.write_text("text,label\na cat,yes\n" + " ,no\n" * 5 + "a dog,no\n")
    return str(path)


def test_bad_records_are_told_of_and_counted_once(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    passes = Passes(PairFiles([bad], skip_bad=True), 2, "")
    assert [record.pair.a for record in passes.read()] == ["a cat", "a dog"]
    assert passes.bad == 5
    said = _said(capsys)
    assert len(said) == 3 and all(line.startswith("skipped: ") for line in said)
    assert [record.label for record in passes.read(labelled=True)] == ["yes", "no"]
    assert (passes.bad, _said(capsys)) == (5, [])


def test_what_only_a_later_pass_finds_bad_is_told_of_too(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    passes = Passes(PairFiles([bad], skip_bad=True), 2)
    list(passes.read())
    list(passes.read())
    for _ in range(2):
        passes.on_bad(InputError("bad.csv:2: no word"))  # type: ignore[misc]
    assert passes.bad == 6 and len(_said(capsys)) == 3


def test_a_bad_record_stops_the_run_unless_it_is_to_be_skipped(bad: str) -> None:
    passes = Passes(PairFiles([bad]))
    assert passes.on_bad is None
    with pytest.raises(PairsError, match=r"bad\.csv:3"):
        list(passes.read())


def test_without_files_the_pairs_are_those_that_attnscan_ships() -> None:
    passes = Passes(PairFiles(), 5)
    assert list(passes.read()) == list(shipped_pairs())


def test_columns_are_named_by_an_option(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("p,q,r\n1,two,three\n")
    assert [record.pair.sentences for record in Passes(PairFiles([str(path)], "q,r")).read()] == [("two", "three")]


def test_what_can_be_read_once_is_not_read_twice() -> None:
    Passes(PairFiles(["-"]))
    with pytest.raises(PairsError, match="standard input can be read only once, and this takes 3 passes; name a file"):
        Passes(PairFiles(["-"]), 3, "name a file")
    with pytest.raises(PairsError, match="/dev/null can be read only once"):
        Passes(PairFiles(["/dev/null"]), 2, "name a file")


def test_the_note_of_a_model_is_said_when_it_is_chosen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = Source("toy", "/nowhere", None, None, "using another")
    monkeypatch.setattr("attnscan.model.sources.choose", lambda _: source)
    assert chosen(ScanOptions()) is source
    assert _said(capsys) == ["using another"]


def test_a_model_is_opened_by_its_name_or_as_it_was_chosen(tmp_path: Path) -> None:
    directory = str(save_toy_bert(tmp_path / "toy", 1, 2, {}))
    options = ScanOptions(model=directory, predictive="off")
    with opened(options) as scanner, opened(replace(options, model="not there"), chosen(options)) as other:
        assert scanner.grid() == other.grid() == Grid.square(1, 2)
    with pytest.raises(ModelError):
        opened(replace(options, model="./not/there"))


@pytest.mark.parametrize(
    ("changes", "bad", "length", "said"),
    [
        ({}, 0, None, []),
        ({"read_by": "file"}, 0, 5, []),
        ({"read_by": "output_attentions"}, 0, None, [WITHOUT_TAP]),
        ({"pairs_truncated": 1}, 0, 12, ["the input was cut to the 12 tokens that the model reads"]),
        ({"pairs_truncated": 2}, 0, None, ["2 of 9 inputs were cut to what the model reads"]),
        (
            {"pairs_truncated": 1, "pairs_skipped": 3},
            4,
            None,
            [
                "4 bad records were skipped",
                "1 of 9 inputs were cut to what the model reads",
                "3 of 9 inputs were skipped",
            ],
        ),
    ],
)
def test_what_is_told_of_the_inputs(
    changes: dict[str, object], bad: int, length: int | None, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    tell(replace(SIGNATURE, **changes), bad=bad, length=length)  # type: ignore[arg-type]
    assert _said(capsys) == said


def test_of_two_models_the_ones_without_a_tap_are_named_and_the_first_counts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    slow = replace(SIGNATURE, model="slow", read_by="output_attentions", pairs_skipped=2)
    tell(SIGNATURE, slow)
    assert _said(capsys) == [f"slow: {WITHOUT_TAP}"]
    tell(slow, SIGNATURE, bad=1)
    assert _said(capsys) == [f"slow: {WITHOUT_TAP}", "1 bad record was skipped", "2 of 9 inputs were skipped"]


@pytest.mark.parametrize(
    "arguments", [["classify"], ["classify", "--save-weights", "w.npz"], ["show", "0-2"], ["explain", "0-2"]]
)
def test_one_input_is_encoded_once(arguments: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    encoded: list[Pair] = []
    encode = Scanner.encode

    def counted(self: Scanner, pair: Pair, options: ScanOptions | None = None) -> EncodedInput:
        encoded.append(pair)
        return encode(self, pair, options)

    monkeypatch.setattr(Scanner, "encode", counted)
    monkeypatch.chdir(tmp_path)
    article = Pair("I went to the store.", "At the store, I bought fresh strawberries.")
    command = [*arguments, article.a, article.b, "--model", "bundled", "--predictive", "off"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert encoded.count(article) == 1


@pytest.mark.parametrize("command", [["heads"], ["ablate", "--heads", "0-0"], ["similar"], ["compare", "bundled"]])
def test_a_name_too_long_for_a_file_is_no_file(command: list[str]) -> None:
    model = ["bundled"] if command[0] == "compare" else ["--model", "bundled"]
    done = CliRunner().invoke(app, [*command, *model, "--pairs", "x" * 5000 + ".csv"])
    assert (done.exit_code, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("attnscan: ") and line.endswith("check the path")


@pytest.mark.parametrize("command", [["classify"], ["show", "0-2"], ["explain", "0-2"], ["profile"], ["predictive"]])
def test_words_that_the_model_does_not_know_are_told(command: list[str]) -> None:
    options = ["--model", "bundled", "--csv"]
    for sentence, said in (
        ("the ☃ cat and ☃ 𓀀", "3 words of the input are unknown to the model, which reads [UNK] instead: ☃, 𓀀"),
        ("the ☃ cat", "1 word of the input is unknown to the model, which reads [UNK] instead: ☃"),
    ):
        done = CliRunner().invoke(app, [*command, sentence, *options])
        assert (done.exit_code, done.stderr) == (0, f"attnscan: {said}\n")
    assert CliRunner().invoke(app, [*command, "the cat", *options]).stderr == ""


def test_of_many_unknown_words_some_are_named() -> None:
    sentence = " ".join(["the", *"☃𓀀𓀁𓀂𓀃𓀄𓀅"])
    done = CliRunner().invoke(app, ["show", "0-2", sentence, "--model", "bundled", "--csv"])
    assert done.stderr.endswith("instead: ☃, 𓀀, 𓀁, 𓀂, 𓀃 and 2 others\n") and "7 words" in done.stderr

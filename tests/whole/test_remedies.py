"""What a message says to do works: each case is a wrong command, words of its message, and what follows it."""

import shlex
from pathlib import Path

import pytest
from toy import save_toy_bert
from treebanks import planted_file
from typer.testing import CliRunner

from attnscan.cli.app import app

ONE, MANY = '"the cat sat" --predictive off', "--pairs p.csv --predictive off"
FOLLOWED = [
    (f"classify {ONE} --unit word --words space", "'spaces'", f"classify {ONE} --unit word --words spaces"),
    (f"classify {ONE} --words spaces", "give --unit word", f"classify {ONE} --words spaces --unit word"),
    (f"classify {ONE} --pattern nextword", "did you mean 'next-word'", f"classify {ONE} --pattern next-word"),
    (f"classify {ONE} --csv --format json", "contradict", f"classify {ONE} --format json"),
    (f"classify {ONE} --csv -o x.json", "name the file otherwise", f"classify {ONE} --csv -o x.csv"),
    (f"classify {ONE} -o x.doc", "use one of .csv", f"classify {ONE} -o x.csv"),
    (f"classify {ONE} --decimal-comma", "add --csv", f"classify {ONE} --decimal-comma --csv"),
    (f"classify {ONE} --save-weights w.txt", "name it w.npz", f"classify {ONE} --save-weights w.npz"),
    (
        f"classify {ONE} --by carried --save-weights w.npz",
        "leave --by and --weights out",
        f"classify {ONE} --save-weights w.npz",
    ),
    (f"heads {MANY} --alignments p.csv", "leave it out", f"heads {MANY}"),
    (f"classify {ONE} --query reads", "leave it out", f"classify {ONE}"),
    (f"classify {ONE} --max-target-tokens 9", "leave it out", f"classify {ONE}"),
    (f"classify {ONE} --on-long skip", "give truncate or error", f"classify {ONE} --on-long truncate"),
    (f"show 9-0 {ONE}", "give a layer among these", f"show 1-0 {ONE}"),
    ("show 0-0", "give a sentence", f"show 0-0 {ONE}"),
    (f"show 0-0 {ONE} --window 4-2", "as 10-40", f"show 0-0 {ONE} --window 2-4"),
    ('predictive "the cat" --predictive off', "leave it out", 'predictive "the cat sat"'),
    (f"heads {MANY} --columns x", "name those to read with --columns", f"heads {MANY} --columns sentence_a"),
    (f"heads {MANY} --id key", "--per-pair", f"heads {MANY} --id sentence_a --per-pair e.parquet"),
    (f"heads {MANY} -p next-word --threshold 0.1", "leave out --pattern", f"heads {MANY} --threshold 0.1"),
    (f"heads {MANY} --state s --per-pair e.parquet", "leave out --state", f"heads {MANY} --per-pair e.parquet"),
    (f"heads {MANY} --ray-workers 2", "leave them out", f"heads {MANY}"),
    (f"heads {MANY} -o p.csv", "would be overwritten", f"heads {MANY} -o q.csv"),
    ("explain 0-0 --token cat", "give its sentence", 'explain 0-0 "the cat sat" --token cat'),
    (f"explain 0-0 {ONE} --pairs p.csv", "but not both", "explain 0-0 --pairs p.csv"),
    (f"head 0-0 {ONE} --ablate", "name --pairs", f"head 0-0 {MANY}"),
    ("similar --matrix --pairs p.csv", "give --csv", "similar --matrix --pairs p.csv --csv"),
    (f"ablate {MANY} --heads 0-0 --top 2", "leave them out", f"ablate {MANY} --heads 0-0 --draws 2"),
    (f"plot {ONE} --kind head -o x.svg", "as --heads 2-0", f"plot {ONE} --kind head --heads 1-0 -o x.svg"),
    (f"plot {ONE} --lines -o x.svg", "leave them out", f"plot {ONE} -o x.svg"),
    (f"report {ONE} -o x.txt", "name it x.html", f"report {ONE} -o x.html"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("remedies")
    save_toy_bert(directory / "toy", 2, 3, {(0, 0): "next-word", (1, 1): "previous-word"})
    (directory / "p.csv").write_text("sentence_a,sentence_b\n" + "the cat sat,a dog ran\na cat ran,the dog sat\n" * 3)
    planted_file(directory, "t.conllu")
    return directory


@pytest.mark.parametrize(("wrong", "words", "right"), FOLLOWED, ids=lambda value: value)
def test_a_remedy_works_when_it_is_followed(
    wrong: str, words: str, right: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    for name in ("s", "e.parquet", "w.npz"):
        (place / name).unlink(missing_ok=True)
    runner = CliRunner(env={"ATTNSCAN_MODEL": "./toy", "COLUMNS": "80"})
    refused = runner.invoke(app, shlex.split(wrong))
    assert refused.exit_code in (1, 2) and refused.stderr.count("\n") == 1 and words in refused.stderr, refused.stderr
    done = runner.invoke(app, shlex.split(right))
    assert done.exit_code == 0, done.stderr

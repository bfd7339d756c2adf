"""Ctrl-C: what an earlier run wrote is untouched, and a state keeps what is done."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from attnscan.cli.app import COULD_KEEP as KEEPS
from attnscan.cli.app import app
from attnscan.scan import pair_scan, scanner
from attnscan.scan.state import ScanState

SENTENCES = [
    "the cat sat on the mat",
    "he ran to a store",
    "a dog ran",
    "the store was red",
    "cats sat",
    "dogs ran",
]
OLD = b"of an earlier run"
MANY = ["--pairs", "pairs.txt", "--model", "bundled"]


@pytest.fixture(autouse=True)
def place(place: Path) -> Path:
    (place / "pairs.txt").write_text("\n".join(SENTENCES))
    return place


def test_files_are_as_they_were_after_ctrl_c(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C once the second window's pairs are scored, and before it counts. Windows are of one
    batch.
    """
    whole = pair_scan.scan
    windows = list[ScanState]()

    def scan(*arguments: Any, keep: Callable[[ScanState], None], **named: Any) -> ScanState:
        def interrupt_the_second(state: ScanState) -> None:
            if windows:
                raise KeyboardInterrupt
            windows.append(state)
            keep(state)

        return whole(*arguments, keep=interrupt_the_second, **named)

    monkeypatch.setattr(pair_scan, "scan", scan)
    monkeypatch.setattr(pair_scan, "_BATCHES_IN_WINDOW", (1, 1))
    (place / "heads.csv").write_bytes(OLD)
    options = [
        "--predictive",
        "off",
        "--batch-tokens",
        "10",
        "--per-pair",
        "every.parquet",
        "--signature",
        "of.json",
    ]
    done = CliRunner().invoke(app, ["heads", *MANY, *options, "-o", "heads.csv"])
    assert (done.exit_code, done.stdout) == (130, "")
    assert (
        done.stderr
        == "attnscan: interrupted; with --state FILE the next run goes on from what is done\n"
    )
    assert (place / "heads.csv").read_bytes() == OLD
    assert {path.name for path in place.iterdir()} == {"pairs.txt", "heads.csv"}


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["classify", "the cat sat", "--model", "bundled"], "x.csv"),
        (["predictive", "the cat sat", "--model", "bundled"], "x.csv"),
        (["report", "the cat sat", "--model", "bundled"], "x.html"),
        (["heads", *MANY], "x.csv"),
        (["similar", *MANY, "--matrix"], "x.parquet"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value,
)
def test_every_command_leaves_what_is_there(
    place: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], name: str
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(scanner, "collate", interrupt)
    monkeypatch.setattr(scanner, "help_between_words", interrupt)
    (place / name).write_bytes(OLD)
    done = CliRunner().invoke(app, [*arguments, "-o", name])
    line = f"attnscan: interrupted{KEEPS if arguments[0] == 'heads' else ''}\n"
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", line)
    assert (place / name).read_bytes() == OLD
    assert {path.name for path in place.iterdir()} == {
        "pairs.txt",
        name,
    }

"""A scan that was stopped goes on to the same result; a state of anything else is refused."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from support.small_scans import PAIRS, assert_equal_sums, records_of, states_of
from typer.testing import CliRunner

from attnscan.cli.app import app
from attnscan.errors import StateError
from attnscan.inputs.sentence import Pair, Place, Record
from attnscan.scan import pair_scan as reading
from attnscan.scan.options import ScanOptions
from attnscan.scan.pair_scan import skip_seen
from attnscan.scan.scanner import open_scanner
from attnscan.scan.state import ScanProgress, draw_sample, load_state, save_state
from attnscan.scoring.patterns import PATTERNS
from attnscan.text import plain


@pytest.fixture
def saved(options: ScanOptions, tmp_path: Path) -> Path:
    """The state of a scan of four pairs."""
    path = tmp_path / "state.npz"
    with open_scanner(options) as scanner:
        save_state(path, states_of(scanner, records_of(PAIRS[:4]))[-1], scanner)
    return path


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_BATCHES_IN_WINDOW", (1, 1))


@pytest.mark.usefixtures("small_windows")
def test_a_run_that_is_gone_on_with_is_one_that_was_never_stopped(
    options: ScanOptions, tmp_path: Path
) -> None:
    """To the last bit: states lie between windows, so the same batches are run."""
    sampling = replace(options, predictive="distance", predictive_pairs=3, split=True)
    with open_scanner(sampling) as scanner:
        states = states_of(scanner, records_of(PAIRS))
        assert len(states) > 5
        for stop in (0, 2, len(states) - 1):
            path = tmp_path / f"{stop}.json"
            save_state(path, states[stop], scanner)
            state = load_state(path, scanner)
            assert state.seen == states[stop].seen
            rest = skip_seen(records_of(PAIRS), state.seen)
            after = [state, *states_of(scanner, rest, state)][-1]
            assert after.seen == states[-1].seen
            for name in ("scored", "grouped", "ranked"):
                assert_equal_sums(after.sums[name], states[-1].sums[name], 0)


@pytest.mark.usefixtures("small_windows")
def test_a_state_of_other_pairs_is_refused(options: ScanOptions) -> None:
    with open_scanner(options) as scanner:
        seen = states_of(scanner, records_of(PAIRS[:10]))[-1].seen
    for other in (PAIRS[1:11], PAIRS[:5], [*PAIRS[:9], Pair("the cat")], [*PAIRS[:9], PAIRS[8]]):
        with pytest.raises(StateError, match="other pairs"):
            list(skip_seen(records_of(other), seen))
    assert [record.pair for record in skip_seen(records_of(PAIRS[:12]), seen)] == PAIRS[10:12]


@pytest.mark.parametrize(
    "other",
    [
        {"unit": "word"},
        {"seed": 1},
        {"split": True},
        {"predictive_pairs": 5},
        {"patterns": PATTERNS[:2]},
        {"predictive": "distance"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_state_of_other_options_is_refused(
    options: ScanOptions, saved: Path, other: dict[str, Any]
) -> None:
    with (
        open_scanner(replace(options, **other)) as scanner,
        pytest.raises(StateError, match="another run: its"),
    ):
        load_state(saved, scanner)


@pytest.mark.loads_anew
@pytest.mark.parametrize(
    ("part", "words"),
    [("weights", "the model's weights differ"), ("tokenizer", "the model's tokenizer differ")],
)
def test_a_state_of_another_model_under_the_same_name_is_refused(
    toy: str, options: ScanOptions, tmp_path: Path, part: str, words: str
) -> None:
    """A fine-tuned checkpoint has the same name, header and sizes; one number of a weight tells."""
    directory = tmp_path / "model"
    path = tmp_path / "state.json"
    shutil.copytree(toy, directory)
    here = replace(options, model=str(directory))
    with open_scanner(here) as scanner:
        save_state(path, states_of(scanner, records_of(PAIRS[:4]))[-1], scanner)
    changed = directory / ("model.safetensors" if part == "weights" else "tokenizer.json")
    if part == "weights":
        weights = load_file(changed)
        weights["encoder.layer.1.attention.self.query.weight"][0, 0] += 1e-3
        save_file(weights, changed, {"format": "pt"})
    else:
        changed.write_text(changed.read_text().replace('"lowercase": true', '"lowercase": false'))
    with (
        open_scanner(here) as scanner,
        pytest.raises(StateError, match=f"begun with another model, .*: {words}"),
    ):
        load_state(path, scanner)


def test_a_state_of_another_layout_is_refused(options: ScanOptions, saved: Path) -> None:
    """Damage of its bytes is found by checksums: `tests/whole/test_hostile_files.py`."""
    whole = saved.read_bytes()
    about = json.loads(str(np.load(saved)["about"]))
    changes: list[tuple[str, Callable[[Any], Any], str]] = [
        (
            "about",
            lambda _: np.array(json.dumps({**about, "format": 1})),
            "written by another version of attnscan",
        ),
        ("scored.sums.every_key.n", lambda n: n[:-1], "not a valid state file"),
        ("scored.sums.every_key.n", lambda n: n * np.nan, "not a valid state file"),
    ]
    for missing in about:
        rest = json.dumps({name: value for name, value in about.items() if name != missing})
        changes.append(("about", lambda _, rest=rest: np.array(rest), "not a valid state file"))
    with open_scanner(options) as scanner:
        for name, change, message in changes:
            saved.write_bytes(whole)
            with np.load(saved) as file:
                arrays = dict(file)
            np.savez(saved, **{**arrays, name: change(arrays[name])})
            with pytest.raises(StateError, match=message):
                load_state(saved, scanner)


def test_terminal_codes_in_a_state_file_are_shown_and_not_obeyed(
    options: ScanOptions, saved: Path
) -> None:
    """Whoever writes a state file could otherwise clear the screen, or turn a line around."""
    with np.load(saved) as file:
        arrays = dict(file)
    about = json.loads(str(arrays["about"]))
    about["scan"]["special"] = "\x1b[2J\x1b]0;title\x07 \u202e 0"
    np.savez(saved, **{**arrays, "about": np.array(json.dumps(about))})
    pairs = saved.with_name("pairs.txt")
    pairs.write_text("the cat sat on the mat")
    command = ["heads", "--model", str(options.model), "--pairs", str(pairs)]
    result = CliRunner().invoke(app, [*command, "--state", str(saved), "--predictive", "off"])
    assert result.exit_code == 1
    assert r"\x1b[2J" in result.stderr
    assert plain(result.stderr.strip()) == result.stderr.strip()


def test_the_sample_does_not_depend_on_order() -> None:
    options = ScanOptions(predictive_pairs=4)

    def drawn(pairs: list[Pair], seed: int = 0) -> set[Pair]:
        seen = ScanProgress()
        for pair in pairs:
            seen = seen.add(Record(pair, ""), replace(options, seed=seed))
        return {pair for _, _, pair in seen.sample}

    assert drawn(PAIRS) == drawn(PAIRS[::-1]) == drawn(PAIRS * 2)
    assert len(drawn(PAIRS)) == 4 and drawn(PAIRS) != drawn(PAIRS, seed=1)


def test_of_a_pair_that_is_there_twice_the_first_place_counts() -> None:
    first = ("hash", Place("a.tsv", 4, "x"), Pair("the cat"))
    later = ("hash", Place("b.tsv", 2), Pair("the cat"))
    assert draw_sample([first, later], 5) == draw_sample([later, first], 5) == (first,)
    records = [Record(pair, "", place=place) for _, place, pair in (first, later)]
    for some in (records, records[::-1]):
        seen = ScanProgress()
        for record in some:
            seen = seen.add(record, ScanOptions())
        assert [place for _, place, _ in seen.sample] == [first[1]]

"""Decoders and cross attention over many pairs: states, pairs' own scores, shards and halves."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import translator
from command_line import run
from translator import TRANSLATOR
from typer.testing import CliRunner

import attnscan
from attnscan.api import many_pairs as ranking_runs
from attnscan.cli.app import app
from attnscan.errors import EngineError, PairsError
from attnscan.scan import local, stored

pytestmark = pytest.mark.usefixtures("quiet")
PAIRS = translator.pairs(24)
TEXTS, LINKS = [pair[:2] for pair in PAIRS], [links for *_, links in PAIRS]
KINDS = pytest.mark.parametrize("attention", ["decoder", "cross"])


class Killed(BaseException):
    """In place of a signal: nothing of the run goes on."""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    return translator.write(tmp_path, len(PAIRS))


def _options(attention: str, part: slice = slice(None)) -> dict[str, Any]:
    links = {"alignments": LINKS[part]} if attention == "cross" else {}
    return {"model": TRANSLATOR, "attention": attention, **links}


def _command(attention: str, files: tuple[str, str], *more: str) -> list[str]:
    links = ["--alignments", files[1]] if attention == "cross" else []
    return ["heads", "--pairs", files[0], "--model", str(TRANSLATOR), "--attention", attention, *links, *more]


@KINDS
def test_a_run_that_is_killed_and_gone_on_with_gives_the_same_bytes(
    attention: str, files: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(*_command(attention, files, "--csv")).stdout
    monkeypatch.setattr(local, "_TOKENS_IN_WINDOW", 60)
    monkeypatch.setattr(local, "_BATCHES_IN_WINDOW", (0, 16))
    monkeypatch.setattr(ranking_runs, "_SAVE_EVERY", -1.0)
    save, seen = stored.save_state, list[int]()

    def dying(path: Any, state: Any, scanner: Any) -> None:
        save(path, state, scanner)
        seen.append(state.seen.read)
        if len(seen) == 2:
            raise Killed

    monkeypatch.setattr(stored, "save_state", dying)
    command = _command(attention, files, "--csv", "--state", str(tmp_path / "state"))
    with pytest.raises(Killed):
        run(*command)
    assert 0 < seen[-1] < len(PAIRS)
    assert run(*command).stdout == whole and seen[-1] == len(PAIRS)


def test_a_state_of_another_kind_side_of_queries_or_links_is_refused(files: tuple[str, str], tmp_path: Path) -> None:
    state = ["--state", str(tmp_path / "state"), "--csv"]
    run(*_command("cross", files, *state))
    (tmp_path / "none").write_text("\n" * len(PAIRS))
    for other, said in (
        (_command("cross", files, "--query", "reads", *state), "its query is predicts, and here it is reads"),
        (_command("decoder", files, *state), "its attention is cross, and here it is decoder"),
        (_command("cross", files, "--max-target-tokens", "9", *state), "its max_target_tokens is 64, and here it is 9"),
        (_command("cross", (files[0], str(tmp_path / "none")), *state), "the state belongs to other pairs than these"),
    ):
        result = CliRunner().invoke(app, other)
        assert result.exit_code == 1 and said in result.stderr and len(result.stderr.splitlines()) == 1


@KINDS
def test_pairs_own_scores_say_the_kind(attention: str, files: tuple[str, str], tmp_path: Path) -> None:
    name = "same-place" if attention == "cross" else "previous-word"
    run(*_command(attention, files, "--pattern", name, "--csv", "--per-pair", rows := str(tmp_path / "rows.parquet")))
    table = pd.read_parquet(rows)
    assert list(table.columns)[:6] == ["file", "pair", "kind", "layer", "head", "pattern"]
    assert set(table["kind"]) == {attention}


@KINDS
def test_shards_add_to_the_table_of_one_run(attention: str) -> None:
    cuts = [slice(0, 7), slice(7, 8), slice(8, None)]
    shards = [pickle.loads(pickle.dumps(attnscan.shard(TEXTS[cut], **_options(attention, cut)))) for cut in cuts]
    added, expected = attnscan.finish(sum(shards[::-1])), attnscan.heads(TEXTS, **_options(attention))
    pd.testing.assert_frame_equal(added.to_frame(), expected.to_frame(), rtol=1e-6)
    assert added.signature.input_hash == expected.signature.input_hash
    with pytest.raises(EngineError, match=r"parts of one scan differ: .*attention (decoder|cross) and encoder"):
        _ = shards[0] + attnscan.shard(TEXTS[:1], model=TRANSLATOR)


def test_links_are_of_one_file_of_pairs_and_none_is_left_over(files: tuple[str, str], tmp_path: Path) -> None:
    """A second file has as many lines, which would be other pairs' links; a pair that is skipped may have a line."""
    (again := tmp_path / "again.tsv").write_text(Path(files[0]).read_text())
    with pytest.raises(PairsError, match="24 lines, and the pairs are in several files"):
        attnscan.heads([files[0], str(again)], model=TRANSLATOR, attention="cross", alignments=files[1])
    again.write_text(f"source\ttarget\n{chr(9).join(TEXTS[0])}\n\t\n")
    options, skipped = {**_options("cross"), "alignments": [LINKS[0], ""]}, list[Any]()
    assert attnscan.heads(str(again), **options, on_bad=skipped.append).signature.pairs_read == 1 == len(skipped)

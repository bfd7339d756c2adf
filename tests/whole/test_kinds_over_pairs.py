"""Decoders and cross attention over many pairs: states, pairs' own scores, shards, halves and clusters."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import translator
from command_line import run
from numpy.testing import assert_allclose
from typer.testing import CliRunner

import attnscan
from attnscan.api import many_pairs as ranking_runs
from attnscan.cli.app import app
from attnscan.errors import EngineError, PairsError
from attnscan.scan import local, stored

pytestmark = pytest.mark.usefixtures("quiet")
TRANSLATOR = str(Path(__file__).parents[1] / "data" / "translator")
PAIRS = translator.pairs(24)
TEXTS, LINKS = [pair[:2] for pair in PAIRS], [links for *_, links in PAIRS]
KINDS = pytest.mark.parametrize("attention", ["decoder", "cross"])


class Killed(BaseException):
    """In place of a signal: nothing of the run goes on."""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A file of pairs, and one of their links."""
    pairs, links = tmp_path / "pairs.tsv", tmp_path / "links.txt"
    pairs.write_text("source\ttarget\n" + "".join(f"{source}\t{target}\n" for source, target in TEXTS))
    links.write_text("".join(f"{line}\n" for line in LINKS))
    return str(pairs), str(links)


def _command(attention: str, files: tuple[str, str], *more: str) -> list[str]:
    links = ["--alignments", files[1]] if attention == "cross" else []
    return ["heads", "--pairs", files[0], "--model", TRANSLATOR, "--attention", attention, *links, *more]


def _refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 1, result.output
    (line,) = result.stderr.splitlines()
    return line


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
    assert run(*command).stdout == whole  # of a state that is whole already


def test_a_state_of_another_kind_or_side_of_queries_is_refused(files: tuple[str, str], tmp_path: Path) -> None:
    state = ["--state", str(tmp_path / "state"), "--csv"]
    run(*_command("cross", files, *state))
    for other, said in (
        (_command("cross", files, "--query", "reads", *state), "its query is predicts, and here it is reads"),
        (_command("decoder", files, *state), "its attention is cross, and here it is decoder"),
        (_command("encoder", files, *state), "its attention is cross, and here it is encoder"),
        (_command("cross", files, "--max-target-tokens", "9", *state), "its max_target_tokens is 64, and here it is 9"),
    ):
        assert said in _refused(*other)
    Path(files[1]).write_text("\n" * len(PAIRS))
    assert "the state belongs to other pairs than these" in _refused(*_command("cross", files, *state))


@KINDS
def test_pairs_own_scores_say_the_kind(attention: str, files: tuple[str, str], tmp_path: Path) -> None:
    name = "same-place" if attention == "cross" else "previous-word"
    rows, asked = str(tmp_path / "rows.parquet"), ["--pattern", name, "--csv"]
    run(*_command(attention, files, *asked, "--per-pair", rows))
    table = pd.read_parquet(rows)
    assert set(table["kind"]) == {attention} and list(table.columns)[:6] == [
        *("file", "pair", "kind", "layer", "head", "pattern")
    ]


@KINDS
def test_shards_add_to_the_table_of_one_run(attention: str) -> None:
    options: dict[str, Any] = {"model": TRANSLATOR, "attention": attention}

    def links(part: slice) -> dict[str, Any]:
        return options | ({"alignments": LINKS[part]} if attention == "cross" else {})

    cuts = [slice(0, 7), slice(7, 8), slice(8, None)]
    shards = [pickle.loads(pickle.dumps(attnscan.shard(TEXTS[cut], **links(cut)))) for cut in cuts]
    added, expected = attnscan.finish(sum(shards[::-1])), attnscan.heads(TEXTS, **links(slice(None)))
    pd.testing.assert_frame_equal(added.to_frame(), expected.to_frame(), rtol=1e-6)
    assert added.signature.input_hash == expected.signature.input_hash
    with pytest.raises(EngineError, match=r"parts of one scan differ: .*attention (decoder|cross) and encoder"):
        _ = shards[0] + attnscan.shard(TEXTS[:1], model=TRANSLATOR)


def test_one_half_of_the_pairs_chooses_heads_and_the_other_tells_their_scores() -> None:
    options: dict[str, Any] = {"model": TRANSLATOR, "attention": "cross", "alignments": LINKS, "pattern": "aligned"}
    halves, whole = attnscan.heads(TEXTS, split=True, **options), attnscan.heads(TEXTS, **options)
    assert halves.ranked_by is not None
    assert halves.ranked_by.grid == halves.scores.grid
    of_both = (halves.ranked_by, halves.scores)
    counts = [scores.every_key.n[0, 0, 0] for scores in of_both]
    score = sum(s.every_key.score * n for s, n in zip(of_both, counts, strict=True)) / sum(counts)
    assert_allclose(score, whole.scores.every_key.score, rtol=1e-6)


def test_links_are_of_one_file_of_pairs(files: tuple[str, str], tmp_path: Path) -> None:
    """The second file has as many lines, which would be other pairs' links."""
    (again := tmp_path / "again.tsv").write_text(Path(files[0]).read_text())
    with pytest.raises(PairsError, match="24 lines, and the pairs are in several files"):
        attnscan.heads([files[0], str(again)], model=TRANSLATOR, attention="cross", alignments=files[1])


def test_a_last_pair_that_is_skipped_may_have_a_line_of_links(tmp_path: Path) -> None:
    (file := tmp_path / "pairs.tsv").write_text(f"source\ttarget\n{chr(9).join(TEXTS[0])}\n\t\n")
    options: dict[str, Any] = {"model": TRANSLATOR, "attention": "cross", "alignments": [LINKS[0], ""]}
    skipped: list[Any] = []
    assert attnscan.heads(str(file), **options, on_bad=skipped.append).signature.pairs_read == 1 == len(skipped)

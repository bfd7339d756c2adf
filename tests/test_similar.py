"""Which heads are alike: constructed heads that are equal, divergences by a plain loop, groups, and the map."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from families import UNTAPPED, tiny_model
from numpy.testing import assert_allclose
from toy import _tokenizer, save_toy_bert
from typer.testing import CliRunner, Result

from attnscan.cli import app
from attnscan.errors import InputError, MemoryFullError
from attnscan.one_input import AttentionKeeper
from attnscan.options import ScanOptions
from attnscan.pairs import Pair, Record
from attnscan.scanner import Scanner
from attnscan.studies import divergence
from attnscan.studies.divergence import divergences, queries_of
from attnscan.studies.similar import similar
from attnscan.studies.similarity import DivergenceSums, Similarity, grouped, placed

PLAN = {(0, 0): "next-word", (0, 1): "delimiter", (1, 2): "next-word", (1, 0): "previous-word", (1, 3): "delimiter"}
PAIRS = [Pair("the cat sat on the mat", "a dog ran"), Pair("i went to the store ."), Pair("a cat", "the cat ran")]


def _records() -> Iterator[Record]:
    return iter([Record(pair, "here") for pair in PAIRS])


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scanner]:
    directory = str(save_toy_bert(tmp_path_factory.mktemp("alike"), 2, 4, PLAN))
    with Scanner(ScanOptions(model=directory, predictive="off")) as scanner:
        yield scanner


@pytest.fixture(scope="module")
def found(toy: Scanner) -> Similarity:
    return similar(toy, _records(), queries=100)


def _loop(scanner: Scanner) -> np.ndarray:
    """Every two heads, one query at a time. Shape: [head, head]."""
    total, n = np.zeros((8, 8)), 0
    for pair in PAIRS:
        encoded, keeper = scanner.encode(pair), AttentionKeeper()
        scanner.score([encoded], also=keeper)
        weights = keeper.attention(encoded).weights.reshape(8, len(encoded.tokens), -1).astype(float)
        for query in (place for place, sentence in enumerate(encoded.sentence) if sentence >= 0):
            n += 1
            for a in range(8):
                for b in range(8):
                    p, q = weights[a, query], weights[b, query]
                    mean = (p + q) / 2
                    total[a, b] += _entropy(mean) - (_entropy(p) + _entropy(q)) / 2
    return total / n


def _entropy(row: np.ndarray) -> float:
    return float(-sum(p * np.log(p) for p in row if p > 0))


def test_divergences_are_those_of_a_plain_loop(toy: Scanner, found: Similarity) -> None:
    assert_allclose(found.divergence, _loop(toy), atol=2e-6)
    assert found.queries == 9 + 6 + 5


def test_heads_made_equal_diverge_by_nothing_and_are_of_one_group(found: Similarity) -> None:
    number = {head: place for place, head in enumerate(found.heads)}
    assert found.divergence[number[0, 0], number[1, 2]] == pytest.approx(0, abs=1e-6)
    groups = [{found.heads[head] for head in group} for group in found.groups]
    assert {(0, 0), (1, 2)} in groups and {(0, 1), (1, 3)} in groups and {(1, 0)} in groups
    assert found.nearest(number[0, 0], 1) == [number[1, 2]]
    assert_allclose(found.map[number[0, 0]], found.map[number[1, 2]], atol=1e-3)
    assert found.label[number[0, 0]] == found.label[number[1, 2]] == "next-word"


def test_heads_that_share_no_key_are_as_far_apart_as_can_be(found: Similarity) -> None:
    """But for the first and last words, which have no neighbour to look at."""
    assert found.divergence[0, 4] > 0.5
    assert found.divergence.max() <= np.log(2) + 1e-6


@pytest.mark.parametrize("tile", [1, 500, 10**9])
def test_tiles_change_nothing(monkeypatch: pytest.MonkeyPatch, tile: int) -> None:
    torch.manual_seed(0)
    rows = torch.rand(7, 3, 11).softmax(-1).flatten(1)
    whole = divergences(rows)
    monkeypatch.setattr(divergence, "_TILE", tile)
    assert_allclose(divergences(rows), whole, atol=1e-6)
    assert torch.equal(whole, whole.T)


def test_queries_are_drawn_by_the_input_alone(toy: Scanner) -> None:
    one, other = (toy.encode(pair) for pair in PAIRS[:2])
    drawn = queries_of(one, 3, 0)
    assert len(drawn) == 3 and all(one.sentence[place] >= 0 for place in drawn)
    assert drawn == queries_of(one, 3, 0)
    assert len(queries_of(other, 100, 0)) == 6


@pytest.mark.parametrize("batch_tokens", [1, 10_000])
def test_batches_change_nothing(toy: Scanner, found: Similarity, batch_tokens: int) -> None:
    again = similar(toy.with_options(batch_tokens=batch_tokens), _records(), queries=100)
    assert_allclose(again.divergence, found.divergence, atol=1e-6)
    assert_allclose(again.se, found.se, atol=1e-6)


def test_a_batch_that_the_accelerator_has_no_room_for_is_halved(
    toy: Scanner, found: Similarity, of_little_memory: Any
) -> None:
    with of_little_memory(toy.loaded.model, 2) as sizes:
        again = similar(toy, _records(), queries=100)
    assert max(sizes) > 2 and again.queries == found.queries
    assert_allclose(again.divergence, found.divergence, atol=1e-6)
    with of_little_memory(toy.loaded.model, 0), pytest.raises(MemoryFullError, match="one input of 12 tokens"):
        similar(toy, _records(), queries=100)


def test_errors_are_clustered_by_pair() -> None:
    rng = np.random.default_rng(0)
    n = rng.integers(1, 9, 30)
    each = rng.random((30, 2, 2)) * n[:, None, None]
    sums = DivergenceSums.of(2)
    for found, count in zip(each, n, strict=True):
        sums.add(found, int(count))
    mean = each.sum(0) / n.sum()
    assert_allclose(sums.mean(), mean)
    assert_allclose(sums.se(), np.sqrt(((each - mean * n[:, None, None]) ** 2).sum(0)) / n.sum())
    one = DivergenceSums.of(2)
    one.add(each[0], 3)
    assert np.isnan(one.se()).all()


def test_the_map_shows_distances_of_a_plane_as_they_are() -> None:
    points = np.random.default_rng(0).random((6, 2))
    squared = ((points[:, None] - points[None]) ** 2).sum(-1)
    places, share = placed(squared)
    assert_allclose(((places[:, None] - places[None]) ** 2).sum(-1), squared, atol=1e-9)
    assert share == pytest.approx(1)
    assert np.isnan(placed(np.zeros((3, 3)))[1])


def test_average_linkage_by_hand() -> None:
    """0 and 1 join at 1; 2 is at (3 + 4) / 2 from them, and 3 far away."""
    apart = np.array([[0, 1, 3, 9], [1, 0, 4, 9], [3, 4, 0, 9], [9, 9, 9, 0]], dtype=float)
    assert grouped(apart, 3.4) == [[0, 1], [2], [3]]
    assert grouped(apart, 3.6) == [[0, 1, 2], [3]]
    assert grouped(apart, 100) == [[0, 1, 2, 3]]


def test_an_architecture_beside_the_tap(tmp_path: Path) -> None:
    tiny_model("mpnet", UNTAPPED["mpnet"]).save_pretrained(tmp_path)
    _tokenizer().save_pretrained(tmp_path)
    with Scanner(ScanOptions(model=str(tmp_path), predictive="off")) as scanner:
        found = similar(scanner, _records())
    assert found.divergence.shape == (12, 12) and 0 < found.divergence[0, 1] < np.log(2)


def test_no_pair_is_an_error(toy: Scanner) -> None:
    with pytest.raises(InputError, match="no pair"):
        similar(toy, [])


# The command


def _run(*arguments: str) -> Result:
    runner = CliRunner(env={"COLUMNS": "80", "ATTNSCAN_MODEL": "bundled"})
    return runner.invoke(
        app, ["similar", "--pairs", "-", *arguments], input="text\nthe cat sat on the mat\na dog ran\n"
    )


def test_the_screen_shows_groups_or_the_nearest_of_some() -> None:
    text = _run("--within", "0.2").stdout
    assert "groups within 0.2 nats" in text and "The closest two" in text
    lines = _run("--heads", "0-2", "--nearest", "2").stdout.splitlines()
    assert lines[2].split() == ["head", "nearest", "divergence", "±", "se"]
    assert [line.split()[0] for line in lines[3:5]] == ["0-2", "0-2"]
    assert all(len(line) <= 80 for line in [*text.splitlines(), *lines])


def test_rows_of_heads_and_the_matrix() -> None:
    header, *rows = _run("--csv", "--nearest", "1").stdout.splitlines()
    assert header == "model,layer,head,label,group,x,y,nearest_1,divergence_1,se_1" and len(rows) == 72
    found = json.loads(_run("--matrix", "--format", "json").stdout)
    matrix = np.array([[row[f"{layer}-{head}"] for layer in range(6) for head in range(12)] for row in found["heads"]])
    assert_allclose(matrix, matrix.T)
    assert np.diag(matrix).max() == 0 and matrix.max() <= 0.6932
    assert found["queries"] == 6 + 3 and 0 < found["map_share"] <= 1


def test_the_matrix_as_parquet(tmp_path: Path) -> None:
    import pandas as pd

    path = tmp_path / "d.parquet"
    assert _run("--matrix", "-o", str(path)).exit_code == 0
    assert pd.read_parquet(path).shape == (72, 7 + 72)


@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_the_map_as_a_picture(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"map.{suffix}"
    assert _run("-o", str(path)).exit_code == 0
    content = path.read_bytes()
    assert content.startswith(b"%PDF" if suffix == "pdf" else b"<?xml")
    assert suffix == "pdf" or b">1-8<" in content


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--matrix"], 2, "--matrix is for a file"),
        (["--heads", "7-0"], 1, "7-0: this model has layers 0 to 5"),
        (["--heads", "x"], 1, "'x' names no head"),
    ],
)
def test_what_cannot_be_compared(arguments: list[str], code: int, message: str) -> None:
    result = _run(*arguments)
    assert result.exit_code == code and message in " ".join(result.stderr.split())

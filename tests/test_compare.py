"""What sets two models apart: nothing, for one and the same; what was changed by construction; and in whose name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from toy import save_toy_bert
from typer.testing import CliRunner, Result

from attnscan.cli import app
from attnscan.errors import InputError, ModelError
from attnscan.options import Match, ScanOptions
from attnscan.pairs import Pair, Record
from attnscan.patterns import PATTERNS
from attnscan.scanner import Scanner
from attnscan.studies.compare import compare
from attnscan.studies.comparison import Comparison, ranked

PAIRS = [
    Pair("the cat sat on the mat", "a dog ran"),
    Pair("i went to the store .", "the store"),
    Pair("a cat", "the cat ran"),
    Pair("the dog sat , a cat ran", "the dog"),
]
BEFORE = {(0, 0): "next-word", (0, 1): "delimiter", (1, 2): "previous-word", (1, 3): "identical"}
AFTER = {(0, 0): "next-word", (0, 3): "delimiter", (1, 2): "delimiter", (1, 1): "previous-word", (1, 0): "identical"}


def _read(pairs: list[Pair] = PAIRS) -> Callable[[], Iterator[Record]]:
    return lambda: iter([Record(pair, "here") for pair in pairs])


def _options(model: Path | str) -> ScanOptions:
    measured = tuple(pattern for pattern in PATTERNS if pattern.target is not None)
    return ScanOptions(model=str(model), predictive="off", patterns=measured)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_toy_bert(tmp_path_factory.mktemp("before"), 2, 4, BEFORE)


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_toy_bert(tmp_path_factory.mktemp("after"), 2, 4, AFTER)


def _compared(one: Path, other: Path, match: Match = "place", pairs: list[Pair] = PAIRS) -> Comparison:
    with Scanner(_options(one)) as scanner, Scanner(_options(other)) as rival:
        return compare(scanner, rival, _read(pairs), match)


@pytest.mark.parametrize("match", ["place", "nearest"])
def test_a_model_differs_from_itself_by_exactly_nothing(bundled_dir: Path, match: Match) -> None:
    found = _compared(bundled_dir, bundled_dir, match)
    there = ~np.isnan(found.one.every_key.score)
    assert there.any() and (found.difference[there] == 0).all()
    assert (found.se[there & ~np.isnan(found.se)] == 0).all() and (~np.isnan(found.se)).any()
    assert not found.changed
    assert found.correlation("next-word") == pytest.approx(1)
    assert found.extremes("delimiter") == (None, None)
    if match == "nearest":
        assert_allclose(found.divergence, 0, atol=1e-6)


def test_what_was_changed_is_found_and_nothing_else(before: Path, after: Path) -> None:
    found = _compared(before, after)
    p = found.patterns.index("delimiter")
    assert found.difference[1, 2, p] > 0.5 and found.difference[0, 0, p] == 0
    assert found.extremes("delimiter")[0] in ((0, 3), (1, 2))
    assert found.extremes("delimiter")[1] == (0, 1)
    changed = {head for heads in found.changed.values() for head in heads}
    assert changed == {(0, 1), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)}
    assert (1, 2) in found.changed["previous-word", "delimiter"]


def test_heads_that_moved_are_found_by_what_they_attend_to(before: Path, after: Path) -> None:
    found = _compared(before, after, "nearest")
    matched = {head: tuple(found.matched[head].tolist()) for head in BEFORE}
    assert matched == {(0, 0): (0, 0), (0, 1): matched[0, 1], (1, 2): (1, 1), (1, 3): (1, 0)}
    assert matched[0, 1] in ((0, 3), (1, 2))  # two are equally near
    for head in BEFORE:
        assert found.divergence[head] == pytest.approx(0, abs=1e-6)
        assert_allclose(np.nan_to_num(found.difference[head]), 0, atol=1e-6)
    assert not found.changed


def test_differences_and_their_errors_are_those_of_a_plain_loop(before: Path, after: Path) -> None:
    found = _compared(before, after)
    sums: list[dict[int, dict[str, np.ndarray]]] = [{}, {}]
    for model, kept in zip((before, after), sums, strict=True):
        with Scanner(_options(model)) as scanner:
            for number, pair in enumerate(PAIRS):
                scanner.score([scanner.encode(pair)], on_pairs=lambda _, s, n=number, k=kept: k.update({n: dict(s)}))
    weight, n = (
        np.array([[kept[k][f"every_key.{name}"][0] for k in range(4)] for kept in sums]) for name in ("weight", "n")
    )
    with np.errstate(invalid="ignore"):
        scores = weight.sum(1) / n.sum(1)
        linear = (weight - scores[:, None] * n) / n.sum(1)[:, None]
        se = np.sqrt(((linear[1] - linear[0]) ** 2).sum(0))
    assert_allclose(found.difference, scores[1] - scores[0], atol=1e-9)
    enough = ~np.isnan(found.se)
    assert enough.any()
    assert_allclose(found.se[enough], se[enough], atol=1e-7)


def test_blocks_change_nothing(before: Path, after: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _compared(before, after)
    monkeypatch.setattr("attnscan.studies.compare._BLOCK", 1)
    parts = _compared(before, after)
    assert_allclose(parts.difference, whole.difference, atol=1e-12)
    assert_allclose(parts.se, whole.se, atol=1e-9)
    assert parts.signatures == whole.signatures


def test_ranks_as_spearman_has_them() -> None:
    assert ranked(np.array([3.0, 1, 3, 2, 3])).tolist() == [4, 1, 4, 2, 4]


def test_other_shapes_need_another_match(before: Path, tmp_path: Path) -> None:
    smaller = save_toy_bert(tmp_path, 1, 4, {(0, 2): "next-word"})
    with pytest.raises(ModelError, match="2 × 4 and 1 × 4 heads, which have no places in common; --match nearest"):
        _compared(before, smaller)
    found = _compared(before, smaller, "nearest")
    assert found.matched.shape == (2, 4, 2) and tuple(found.matched[0, 0]) == (0, 2)


def test_other_tokens_cannot_be_matched_by_weights(before: Path, bundled_dir: Path) -> None:
    with pytest.raises(ModelError, match="read other tokens"):
        _compared(before, bundled_dir, "nearest")


def test_no_pair_is_an_error(before: Path) -> None:
    for match in ("place", "nearest"):
        with pytest.raises(InputError, match="there is no pair"):
            _compared(before, before, match, [])  # type: ignore[arg-type]


# The command


def _run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, ["compare", *arguments])


@pytest.fixture(scope="module")
def files(before: Path, after: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    path.write_text("sentence_a\tsentence_b\n" + "".join(f"{pair.a}\t{pair.b}\n" for pair in PAIRS))
    return [str(before), str(after), "--pairs", str(path)]


def test_the_screen_answers_in_one_look(files: list[str]) -> None:
    text = _run(*files).stdout
    assert "4 pairs, 8 heads: heads of one place" in text
    assert "6 of 8 heads changed their label" in text and "P → D  1-2" in text
    assert len(text.splitlines()) < 30
    nearest = _run(*files, "--match", "nearest").stdout
    assert "of 8 heads are most like the head of their own place" in nearest


def test_rows_and_json(files: list[str]) -> None:
    header, *rows = _run(*files, "-p", "delimiter", "--csv").stdout.splitlines()
    assert header == (
        "model_a,model_b,pattern,layer,head,layer_b,head_b,score_a,score_b,difference,se,n,pairs,"
        "label_a,label_b,divergence"
    )
    assert len(rows) == 8
    found = json.loads(_run(*files, "--format", "json").stdout)
    assert set(found["rank_correlation"]) == {pattern.id for pattern in PATTERNS} - {"predictive"}
    assert len(found["heads"]) == 8 * 6


def test_the_picture(files: list[str], tmp_path: Path) -> None:
    path = tmp_path / "c.svg"
    assert _run(*files, "-o", str(path)).exit_code == 0
    assert b"B upwards" in path.read_bytes()


def test_predictive_is_not_compared(files: list[str]) -> None:
    result = _run(*files, "-p", "predictive")
    assert result.exit_code == 2 and "predictive is not compared" in result.stderr

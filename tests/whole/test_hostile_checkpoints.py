"""Checkpoints that are traps, contradict themselves or are damaged: refused in one line."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hostile.checkpoints import TRAPS, Change, copies, mutated, ruled, split_at
from hostile.runs import check, run, save_tiny_model


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


def _classified(model: Path, name: str) -> bool:
    """Whether a model was run."""
    done = check(run("classify", "the cat sat", "--model", model, "--predictive", "off", "--csv"))
    assert not (model / "sprung").exists(), f"{name}: its code was run"
    return done


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_is_refused(tiny: Path, tmp_path: Path, name: str, recwarn: pytest.WarningsRecorder) -> None:
    for _, model in copies(tiny, tmp_path, {name: TRAPS[name]}):
        assert not _classified(model, name)
    assert [each.category for each in recwarn if not issubclass(each.category, DeprecationWarning)] == []


def test_damage_is_refused_or_does_no_harm(tiny: Path, tmp_path: Path) -> None:
    draw = random.Random(0)
    changes: dict[str, Change] = {str(number): mutated(draw) for number in range(40)}
    done = [_classified(model, name) for name, model in copies(tiny, tmp_path, changes)]
    assert any(done) and not all(done)


def test_an_input_that_a_tokenizer_fails_on_is_a_bad_record(tiny: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(f"sentence_a\tsentence_b\nthe cat\ta mat\nthe {'a' * 60} cat\ta mat\nthe mat\ta cat\n")
    flags = ("--pairs", pairs, "--no-related", "--predictive", "off", "--pattern", "delimiter", "--csv")
    for _, model in copies(tiny, tmp_path, {"": ruled(pre_tokenizer=split_at("(?:a|a|a)*(?=[^ a])(?!c)|[ac]"))}):
        stopped = run("heads", "--model", model, *flags)
        assert not check(stopped) and "pairs.tsv:3: the tokenizer" in stopped.stderr
        assert "retry-limit" in stopped.stderr and "another tokenizer" in stopped.stderr
        skipped = run("heads", "--model", model, *flags, "--skip-bad")
        assert check(skipped) and "attnscan: 1 bad record was skipped" in skipped.stderr

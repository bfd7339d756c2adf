"""Sources and targets that are too long, empty, or of special tokens alone: a result, or one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import translator
from families import BART, tiny_writer
from numpy.testing import assert_allclose
from tokenizers_of_kinds import ending
from transformers import BartConfig, BartForConditionalGeneration

import attnscan
from attnscan.errors import InputError, TooLongError

pytestmark = pytest.mark.usefixtures("quiet")
POSITIONS = 24
LONG = "the cat sat on the mat . " * 10


def _bart(directory: Path, writes: str | None = None) -> Path:
    """A random BART; one that `writes` a token writes no other."""
    torch.manual_seed(0)
    tokenizer, ends = ending(), {"bos_token_id": 2, "decoder_start_token_id": 2, "eos_token_id": 3}
    sizes = BART | {
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "vocab_size": len(tokenizer),
        "max_position_embeddings": POSITIONS,
        **ends,
    }
    model = BartForConditionalGeneration(BartConfig(**sizes, forced_eos_token_id=None))
    if writes is not None:
        model.final_logits_bias[:] = -1e4
        model.final_logits_bias[0, tokenizer.convert_tokens_to_ids(writes)] = 1e4
    return translator.save(model, directory, tokenizer)


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {"model": _bart(tmp_path_factory.mktemp("bart")), "attention": "cross", "related": False}


@pytest.mark.parametrize("pair", [(LONG, "the cat"), ("the cat", LONG), (LONG, LONG), (LONG,)])
def test_what_is_too_long_is_one_line_or_cut(pair: tuple[str, ...], options: dict[str, Any]) -> None:
    with pytest.raises(TooLongError, match=f"tokens long and the model reads at most {POSITIONS}"):
        attnscan.classify(*pair, **options)
    cut = attnscan.classify(*pair, on_long="truncate", **options)
    attention = cut.kept_attention()
    assert cut.signature.pairs_truncated == 1
    assert max(attention.source, len(attention.tokens) - attention.source) <= POSITIONS


def test_pairs_are_cut_skipped_or_refused(options: dict[str, Any]) -> None:
    pairs = [("the cat", "the dog"), (LONG, "the cat"), ("the cat", LONG)]
    cut, skipped = (attnscan.heads(pairs, on_long=how, **options).signature for how in ("truncate", "skip"))
    assert (cut.pairs_read, cut.pairs_truncated, skipped.pairs_skipped) == (3, 2, 2)
    with pytest.raises(TooLongError, match=r"row 2: .* pass on_long='truncate' or skip"):
        attnscan.heads(pairs, on_long="error", **options)


def test_a_model_writes_no_more_than_it_reads(options: dict[str, Any], tmp_path: Path) -> None:
    model = _bart(tmp_path, writes="▁cat")
    result = attnscan.classify("the cat", max_target_tokens=500, **options | {"model": model})
    assert result.units[result.kept_attention().source :] == ("▁cat",) * (POSITIONS - 2) + ("</s>",)


def test_a_model_that_writes_nothing_and_an_empty_target_are_one_line(options: dict[str, Any], tmp_path: Path) -> None:
    silent, bad = options | {"model": _bart(tmp_path, writes="</s>")}, list[Any]()
    with pytest.raises(InputError, match="writes no word as the target; give the target as sentence B"):
        attnscan.classify("the cat", **silent)
    result = attnscan.heads([("the cat",), ("a cat", "a dog")], on_bad=bad.append, **silent)
    assert result.signature.pairs_skipped == 1 and "row 1: the model writes no word" in str(bad[0])
    with pytest.raises(InputError, match="sentence B is empty"):
        attnscan.classify("the cat", "", **options)


@pytest.mark.parametrize("attention", ["decoder", "cross"])
def test_a_special_token_that_is_typed_as_the_target_is_its_word(attention: Any, options: dict[str, Any]) -> None:
    result = attnscan.classify("the cat", "</s>", **options | {"attention": attention})
    assert result.sentence.count(1) == 1 and result.scores.every_key.n.max() == 1


@pytest.mark.parametrize("family", ["mvp", "led", "fsmt"])
def test_families_that_do_not_call_the_tap_are_read_and_saved(family: str, tmp_path: Path) -> None:
    """LED's and FSMT's encoders cannot be read, and are left out of a file."""
    model = translator.save(tiny_writer(family), tmp_path, ending())
    asked: Any = {"model": model, "attention": "cross", "related": False}
    theirs = attnscan.classify("it t", "a", save_weights=(path := tmp_path / "kinds.npz"), **asked)
    ours = attnscan.classify(weights=path, attention="cross")
    assert_allclose(ours.scores.every_key.score, theirs.scores.every_key.score, atol=1e-6)

"""From pairs to scores on real models: batches, options, saved weights, signatures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import reference
import torch
from numpy.testing import assert_allclose
from reference import Written
from toy import save_toy_bert

from attnscan.engine import scan_shard
from attnscan.one_input import classify, classify_and_keep, classify_weights
from attnscan.options import ScanOptions
from attnscan.pairs import Pair
from attnscan.patterns import PATTERNS, Pattern

ARTICLE = Pair("I went to the store.", "At the store, I bought fresh strawberries.")
PAIRS = [
    ARTICLE,
    Pair("The cat sat on the mat.", "The cat lay on the rug."),
    Pair("A single sentence, with the same word: word."),
    Pair("Yes.", "No, no, no, that is not what the old man had in mind when he asked for strawberries and cream."),
    Pair("Unbelievably, the transformers transformed."),
]
BUNDLED = ScanOptions(model="bundled")


def test_the_bundled_model_on_the_articles_pair_equals_output_attentions_and_plain_loops(bundled_dir: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(bundled_dir)
    model = AutoModel.from_pretrained(bundled_dir, attn_implementation="eager")
    inputs = tokenizer(ARTICLE.a, ARTICLE.b, return_tensors="pt")
    with torch.no_grad():
        attentions = [layer[0].double().numpy() for layer in model(**inputs, output_attentions=True).attentions]
    sentence = [-1 if s is None else s for s in inputs.sequence_ids(0)]
    written = Written(tokenizer.convert_ids_to_tokens(inputs["input_ids"][0]), sentence)
    result = classify(ARTICLE, replace(BUNDLED, related=False))
    for layer in (0, 2, 5):
        for head in range(12):
            expected = reference.scores([written], [attentions[layer][head]])
            for name, (score, chance, *_) in expected.items():
                p = result.scores.patterns.index(name)
                found = [result.scores.every_key.score[layer, head, p], result.scores.every_key.chance[layer, head, p]]
                assert_allclose(found, [score, chance], atol=1e-5, err_msg=f"{layer}-{head} {name}")


@pytest.mark.parametrize("unit", ["token", "word"])
def test_batches_of_any_size_and_order_give_the_same_scores(unit: str) -> None:
    options = replace(BUNDLED, unit=unit, predictive="off")  # type: ignore[arg-type]
    one_by_one = scan_shard(replace(options, batch_tokens=1), PAIRS).finish()
    for batch_tokens, pairs in ((60, PAIRS), (10_000, PAIRS), (10_000, PAIRS[::-1])):
        scores = scan_shard(replace(options, batch_tokens=batch_tokens), pairs).finish()
        for kind in ("every_key", "words_only"):
            for name in ("score", "chance", "n", "pairs"):
                found, expected = (getattr(getattr(each, kind), name) for each in (scores, one_by_one))
                assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=f"{kind} {name}")
        assert_allclose(scores.entropy, one_by_one.entropy, rtol=1e-9)


def test_saved_weights_score_as_the_model_did() -> None:
    options = replace(BUNDLED, related=False, predictive="off")
    result, attention = classify_and_keep(ARTICLE, options)
    saved = attention.saved()
    again = classify_weights(saved, "again", options)
    assert_allclose(again.scores.every_key.score, result.scores.every_key.score, atol=1e-6)
    assert_allclose(again.scores.words_only.score, result.scores.words_only.score, atol=1e-5)
    assert (again.label == result.label).all() and (again.content_label == result.content_label).all()
    assert again.units == result.units


def test_weights_are_saved_token_by_token_whatever_the_unit() -> None:
    result, attention = classify_and_keep(ARTICLE, replace(BUNDLED, unit="word"))
    saved = attention.saved()
    assert "strawberries" in result.units and "##berries" in saved.tokens
    assert saved.attention.shape == (6, 12, 19, 19)
    assert saved.segments == (0,) * 8 + (1,) * 11
    again = classify_weights(saved, "again", replace(BUNDLED, unit="word", related=False))
    assert again.units == result.units


def test_the_signature_says_what_was_run() -> None:
    signature = classify(ARTICLE, replace(BUNDLED, unit="word")).signature
    assert (signature.model, signature.unit, signature.dtype, signature.device) == ("bundled", "word", "float32", "cpu")
    assert (signature.read_by, signature.pairs_read, signature.pairs_truncated) == ("tap", 1, 0)
    other = classify(Pair(ARTICLE.a, "Another one."), BUNDLED).signature
    assert len(signature.input_hash) == 64 and signature.input_hash != other.input_hash


def test_a_pair_and_the_same_words_as_one_sentence_hash_differently() -> None:
    hashes = {classify(pair, BUNDLED).signature.input_hash for pair in (Pair("ab", "c"), Pair("a", "bc"), Pair("ab c"))}
    assert len(hashes) == 3


def test_truncated_inputs_are_counted() -> None:
    long = Pair("word " * 600, "the end")
    assert classify(long, replace(BUNDLED, on_long="truncate", predictive="off")).signature.pairs_truncated == 1


def test_related_words_change_identical_alone() -> None:
    pair = Pair("He bought a ship.", "She purchased an engine.")
    with_related, without = (classify(pair, replace(BUNDLED, related=related)) for related in (True, False))
    assert np.isnan(without.scores.every_key.score[..., 2:4]).all()
    assert not np.isnan(with_related.scores.every_key.score[..., 2:4]).any()
    others = [p for p, name in enumerate(without.scores.patterns) if name not in ("identical", "cross-sentence")]
    assert_allclose(
        with_related.scores.every_key.score[..., others], without.scores.every_key.score[..., others], atol=1e-6
    )


def test_a_users_own_pattern_is_scored_like_the_others(tmp_path: Path) -> None:
    directory = save_toy_bert(tmp_path, 2, 3, {(1, 2): "previous-word"})
    two_back = Pattern("two-back", "2", lambda batch: batch.same_sentence & (batch.offset == -2), "weight two back")
    back = Pattern("one-back", "1", lambda batch: batch.same_sentence & (batch.offset == -1), "weight one back")
    result = classify(
        Pair("the cat sat on the mat"), ScanOptions(model=str(directory), patterns=(*PATTERNS[:1], two_back, back))
    )
    assert result.scores.patterns == ("next-word", "two-back", "one-back")
    assert result.label[1, 2] == "one-back" and (result.label == "mixed").sum() == 5


def test_saved_causal_weights_are_judged_by_the_keys_they_may_see() -> None:
    """Three words, each spread evenly over itself and what is before it, are at chance, not above."""
    from attnscan.files.weights import SavedWeights

    even = np.tril(np.ones((4, 4), dtype=np.float32))
    even /= even.sum(-1, keepdims=True)
    saved = SavedWeights(even[None, None], ("the", "cat", "sat", "down"), (0,) * 4, (False,) * 4, (False,) * 4)
    scores = classify_weights(saved, "causal", ScanOptions()).scores
    previous = scores.patterns.index("previous-word")
    assert scores.every_key.score[0, 0, previous] == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3)
    assert scores.every_key.above_chance[0, 0, previous] == pytest.approx(0, abs=1e-6)
    assert np.isnan(scores.every_key.score[0, 0, scores.patterns.index("delimiter")])

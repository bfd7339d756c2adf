"""From one input to scores on real models: options, saved weights, which words help."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
import torch
from numpy.testing import assert_allclose
from one_run import classify, classify_and_keep, dependencies
from reference import Written
from scans import ARTICLE, BUNDLED
from tokenizers_of_kinds import KINDS, byte_level
from toy import save_toy_bert
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2Model

from attnscan.errors import ModelError
from attnscan.inputs.sentence import Pair
from attnscan.scan.one_input import classify_weights
from attnscan.scan.options import ScanOptions
from attnscan.scoring.patterns import PATTERNS, Pattern


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


def test_saved_weights_score_as_the_model_did() -> None:
    options = replace(BUNDLED, related=False, predictive="off")
    result, attention = classify_and_keep(ARTICLE, options)
    saved = attention.saved()
    again = classify_weights(saved, "again", options)
    assert_allclose(again.scores.every_key.score, result.scores.every_key.score, atol=1e-6)
    assert_allclose(again.scores.words_only.score, result.scores.words_only.score, atol=1e-5)
    assert (again.labels.follows == result.labels.follows).all() and (again.labels.rests == result.labels.rests).all()
    assert again.units == result.units


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
    assert result.label[1, 2] == "one-back" and result.labels.follows.sum() == 1


def test_saved_causal_weights_are_judged_by_the_keys_they_may_see() -> None:
    """Three words, each spread evenly over itself and what is before it, are at chance, not above."""
    from attnscan.inputs.weights import SavedWeights

    even = np.tril(np.ones((4, 4), dtype=np.float32))
    even /= even.sum(-1, keepdims=True)
    saved = SavedWeights(even[None, None], ("the", "cat", "sat", "down"), (0,) * 4, (False,) * 4, (False,) * 4)
    scores = classify_weights(saved, "causal", ScanOptions()).scores
    previous = scores.patterns.index("previous-word")
    assert scores.every_key.score[0, 0, previous] == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3)
    assert scores.every_key.above_chance[0, 0, previous] == pytest.approx(0, abs=1e-6)
    assert np.isnan(scores.every_key.score[0, 0, scores.patterns.index("delimiter")])


def _save(directory: Path, model: Any, tokenizer: Any) -> str:
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return str(directory)


def _tiny_bert(head: bool) -> Any:
    torch.manual_seed(0)
    config = BertConfig(vocab_size=80, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16)
    whole = BertForMaskedLM(config)
    return whole if head else whole.bert


def test_the_best_measure_that_the_checkpoint_allows(tmp_path: Path) -> None:
    wordpiece = KINDS["wordpiece"]()
    with_head = _save(tmp_path / "lm", _tiny_bert(head=True), wordpiece)
    bare = _save(tmp_path / "bare", _tiny_bert(head=False), wordpiece)
    pair = Pair("the cat sat", "a cat")
    for model, asked, used in (
        (with_head, "auto", "cpmi"),
        (with_head, "distance", "distance"),
        (with_head, "off", "off"),
        (bare, "auto", "distance"),
    ):
        result = classify(pair, ScanOptions(model=model, predictive=asked))  # type: ignore[arg-type]
        assert result.signature.predictive == used
        assert ("predictive" in result.not_measured) == (used == "off")
    with pytest.raises(ModelError, match=r"predictive='cpmi' .* no masked-LM head"):
        classify(pair, ScanOptions(model=bare, predictive="cpmi"))


def test_a_model_without_a_mask_token_says_why_its_column_is_empty(tmp_path: Path) -> None:
    tokenizer = byte_level()
    tokenizer.mask_token = None
    model = _save(tmp_path, GPT2Model(GPT2Config(vocab_size=340, n_embd=16, n_layer=2, n_head=2)), tokenizer)
    result = classify(Pair("the cat sat"), ScanOptions(model=model))
    assert result.not_measured == {"predictive": "the model has no mask token"}
    assert np.isnan(result.scores.every_key.score[..., result.scores.patterns.index("predictive")]).all()
    with pytest.raises(ModelError, match="no mask token"):
        dependencies(Pair("the cat sat"), ScanOptions(model=model))


def test_targets_are_kept_with_the_attention_and_scores_are_their_mean() -> None:
    options = replace(BUNDLED, predictive="off", unit="word")
    assert classify(ARTICLE, options).targets == ()
    result = classify(ARTICLE, options, keep=True)
    for kept in (
        result,
        classify_weights(result.kept_attention().saved(), "again", replace(options, related=False), keep=True),
    ):
        targets = kept.targets[1]
        assert len(kept.targets) == 6 and all(of_layer is targets for of_layer in kept.targets)
        assert targets.shape == (7, len(kept.units), len(kept.units))
        weights = kept.kept_attention().in_words(kept.units).weights[1, 8]
        for p, pattern in enumerate(PATTERNS):
            inside = np.minimum(weights, targets[p]) if pattern.even else weights * targets[p]
            rows = targets[p].any(-1)
            assert rows.any() == (pattern.id != "predictive")
            if rows.any():
                assert inside.sum(-1)[rows].mean() == pytest.approx(kept.scores.every_key.score[1, 8, p], abs=1e-5)


RELATED = Pair("The king went to war.", "The queen won the battle, and the war.")


def test_what_counted_as_related_is_listed() -> None:
    result = classify(RELATED, replace(BUNDLED, predictive="off"))
    king, war, queen, battle = (result.units.index(word) for word in ("king", "war", "queen", "battle"))
    again = result.units.index("war", battle)
    assert set(result.related) == {(king, queen), (war, battle), (battle, again)}
    assert result.notes == ("related words: king – queen, war – battle",)
    assert result.to_frame().attrs["related"] == [list(pair) for pair in result.related]
    without = classify(RELATED, replace(BUNDLED, predictive="off", related=False))
    assert without.related == () and without.notes == ()


def test_a_word_of_several_tokens_is_related_to_none() -> None:
    pair = Pair("He ate a strawberry.", "She bought berries and strawberries.")
    result = classify(pair, replace(BUNDLED, unit="word", predictive="off"))
    assert {tuple(result.units[place] for place in pair) for pair in result.related} == {("strawberry", "berries")}
    assert "strawberries" in result.units


def test_truncated_inputs_are_counted(toy: str) -> None:
    options = ScanOptions(model=toy, on_long="truncate", predictive="off")
    lengths = {"cat " * 60: 1, "the cat": 0}
    for text, cut in lengths.items():
        assert classify(Pair(text, "the mat"), options).signature.pairs_truncated == cut

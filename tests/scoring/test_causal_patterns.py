"""Induction, duplicate tokens, first token: planted heads, plain loops, and what TransformerLens
means by them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from by_loops import Input, Score, added, by_query
from numpy.testing import assert_allclose
from support.families import TAPPED, tiny_model
from support.reference_scores import Written
from support.tokenizers_of_kinds import whole_words, without_delimiters
from support.toy_decoder import save_induction_gpt2, tokenizer_of

import attnscan
from attnscan.errors import OptionError
from attnscan.scoring.patterns import CAUSAL_PATTERNS

NAMES = [pattern.id for pattern in CAUSAL_PATTERNS]
TEXTS = [
    "the cat sat , the dog sat , the the cat ran .",
    "a mat and a cat and a dog",
    "the cat ran",
    "cat",
]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_induction_gpt2(tmp_path_factory.mktemp("models") / "induction")


def test_the_planted_induction_circuit_is_found_and_nothing_else(planted: Path) -> None:
    frame = attnscan.heads("random", model=planted).to_frame().set_index("name")
    # Of a single sentence, chance of bag-of-words is 1
    others = dict.fromkeys(("L0H1", "L0H2", "L1H1", "L1H2"), "even")
    planned = {"L0H0": "previous-word", "L1H0": "induction"}
    assert frame["label"].to_dict() == planned | others


def test_the_induction_head_ranks_first(planted: Path) -> None:
    ranked = attnscan.heads("random", model=planted, pattern="induction").to_frame(["induction"])
    assert ranked.loc[0, "name"] == "L1H0"
    assert ranked.loc[0, "score"] > 0.999
    assert ranked.loc[0, ["n", "pairs"]].tolist() == [64 * 25, 64]
    assert (ranked.loc[1:, "above_chance"] < 0.01).all()


def test_random_sequences_are_drawn_by_the_seed(planted: Path) -> None:
    hashes = []
    for seed in (0, 0, 1):
        ranking = attnscan.heads("random", model=planted, pattern="induction", seed=seed)
        hashes.append(ranking.signature.input_hash)
    assert hashes[0] == hashes[1]
    assert hashes[0] != hashes[2]


def test_random_sequences_have_no_columns(planted: Path) -> None:
    with pytest.raises(OptionError, match="columns is for"):
        attnscan.heads("random", model=planted, columns="a")


SETTINGS = {
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "hidden_size": 24,
    "initializer_range": 1.0,
}


def model_of(family: str, tokenizer: Any) -> Any:
    """A random model of two layers and three heads."""
    return tiny_model(family, {**TAPPED[family], **SETTINGS, "vocab_size": len(tokenizer)})


def gpt2() -> tuple[Any, Any]:
    tokenizer = without_delimiters()
    return model_of("gpt2", tokenizer), tokenizer


def bert() -> tuple[Any, Any]:
    tokenizer = whole_words()
    return model_of("bert", tokenizer), tokenizer


def eager(model: Any, tokenizer: Any, text: str) -> tuple[list[int], list[int], np.ndarray]:
    """Token numbers, 0 for each that is a word and -1 for others, and weights [layer, head, query,
    key].
    """
    model.set_attn_implementation("eager")
    encoded = tokenizer(text, return_tensors="pt", return_special_tokens_mask=True)
    special = encoded.pop("special_tokens_mask")[0]
    with torch.no_grad():
        weights = model(**encoded, output_attentions=True).attentions
    return (
        encoded["input_ids"][0].tolist(),
        (-special).tolist(),
        torch.cat(weights).double().numpy(),
    )


def target(name: str, one: Input, i: int) -> list[int]:
    """The keys that word `i` should look at."""
    if name == "first-token":
        return [0] if i else []
    earlier = [j for j in one.words if j < i and one.text[j] == one.text[i]]
    if name == "duplicate-token":
        return earlier
    return [j + 1 for j in earlier[-1:] if j + 1 in one.words]


@pytest.mark.parametrize("make", [gpt2, bert])
@pytest.mark.parametrize("special", ["in", "out"])
def test_scores_are_those_of_plain_loops(make: Callable[[], tuple[Any, Any]], special: str) -> None:
    model, tokenizer = make()
    read = []
    for text in TEXTS:
        ids, sentence, weights = eager(model, tokenizer, text)
        tokens = [tokenizer.decode([number]).strip() for number in ids]
        visible = np.tri(len(ids), dtype=bool) if make is gpt2 else None
        read.append((Written(tokens, sentence).seeing(visible), weights))
    frame = attnscan.heads(
        TEXTS, model=model, tokenizer=tokenizer, pattern=NAMES, special=special
    ).to_frame(NAMES)
    numbers = frame.set_index(["pattern", "layer", "head"])
    for name in NAMES:
        for layer, head in np.ndindex(2, 3):
            keys = "in" if name == "first-token" else special
            sums = []
            for one, weights in read:
                rows = {name: {i: dict.fromkeys(target(name, one, i), 1.0) for i in one.words}}
                queries = by_query(one, weights[layer, head].tolist(), rows, keys)
                sums.append(added(list(queries[name].values())))
            score = Score(sums)
            row = numbers.loc[(name, layer, head)]
            assert row["n"] == score.n > 0
            expected = [score.mean(), score.mean("chance"), score.se]
            assert_allclose(row[["score", "chance", "se"]].astype(float), expected, atol=1e-6)


@pytest.mark.parametrize("name", ["induction", "duplicate-token", "previous-word"])
def test_transformer_lens_means_the_same(name: str) -> None:
    """Its `detect_head` gives the share of all tokens' attention that lies on a matrix of zeros and
    ones.

    That is our score times eligible queries over tokens, where no token occurs more than twice: for
    induction it counts all earlier occurrences, and we the last one. It compares numbers of tokens,
    and we their texts.
    """
    tokenizer = tokenizer_of(["the", "cat", "sat", "on", "a", "mat"])
    model = model_of("gpt2", tokenizer)
    text = "the cat sat on a mat the cat sat on a mat"
    ids, _, weights = eager(model, tokenizer, text)
    matrix = np.zeros((len(ids), len(ids)))
    for i, j in zip(*np.tril_indices(len(ids), -1), strict=True):
        if name == "previous-word":
            matrix[i, j] = j == i - 1
        elif ids[i] == ids[j]:
            matrix[i, j + (name == "induction")] = 1
    expected = (weights * matrix).sum((-1, -2)) / weights.sum((-1, -2))
    frame = attnscan.heads(
        [text], model=model, tokenizer=tokenizer, pattern=name, special="in"
    ).to_frame([name])
    ours = (frame["score"] * frame["n"] / len(ids)).to_numpy()
    order = frame["layer"] * 3 + frame["head"]
    assert_allclose(ours[np.argsort(order)], expected.ravel(), atol=1e-6)


def test_causal_models_are_scored_for_causal_patterns() -> None:
    model, tokenizer = gpt2()
    for result in (
        attnscan.heads(TEXTS, model=model, tokenizer=tokenizer),
        attnscan.classify(TEXTS[0], model=model, tokenizer=tokenizer),
    ):
        assert list(result.scores.patterns)[7:] == NAMES
        assert set(NAMES) < set(result.to_frame().columns)


def test_other_models_are_scored_for_causal_patterns_where_asked() -> None:
    model, tokenizer = bert()
    ranking = attnscan.heads(TEXTS, model=model, tokenizer=tokenizer)
    assert not set(ranking.scores.patterns) & set(NAMES)
    asked = attnscan.heads(TEXTS, model=model, tokenizer=tokenizer, pattern="induction")
    assert list(asked.scores.patterns) == ["induction"]


def test_cross_attention_has_no_causal_patterns() -> None:
    model, tokenizer = bert()
    options = {"pattern": "induction", "attention": "cross"}
    with pytest.raises(OptionError, match="there is no pattern 'induction'"):
        attnscan.heads(TEXTS, model=model, tokenizer=tokenizer, **options)


def test_a_head_that_looks_at_the_first_token_rests() -> None:
    model, tokenizer = gpt2()
    with torch.no_grad():  # keys of the first position point where all queries do
        for layer in model.h:
            layer.attn.c_attn.weight.zero_()
            layer.attn.c_attn.bias.zero_()
            layer.attn.c_attn.bias[:8] = 1
        model.wte.weight.zero_()
        model.wpe.weight.zero_()
        model.wpe.weight[0, 0] = 1
        model.wpe.weight[0, 1] = -1
        model.h[0].attn.c_attn.weight[0, 24:32] = 5
    frame: pd.DataFrame = (
        attnscan.heads(TEXTS, model=model, tokenizer=tokenizer).to_frame().set_index("name")
    )
    assert frame.loc["L0H0", "label"] == "first-token"
    assert frame.loc["L0H0", "first-token"] > 0.9
    assert frame.loc["L0H1", "label"] != "first-token"

"""The best ground truth there is: patterns and habits planted in constructed checkpoints are found,
and no others.
"""

import itertools
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from support.command_line import table
from support.toy_bert import ARTICLES, NOUNS, VERBS, Plan, save_toy_bert
from transformers import AutoTokenizer, BertConfig, BertModel

import attnscan

A = "the cat sat on the mat ."
B = "a cat ran to the store , i bought strawberries ."
OFF = ("--predictive", "off")
SMALL: Plan = {
    (0, 0): "next-word",
    (2, 9): "next-word",
    (3, 5): "previous-word",
    (4, 11): "identical",
    (10, 10): "cross-sentence",
    (11, 3): "delimiter",
    (1, 1): "bag-of-words",
}
LARGE: Plan = {
    (0, 15): "previous-word",
    (7, 2): "next-word",
    (12, 0): "identical",
    (13, 8): "cross-sentence",
    (20, 4): "delimiter",
    (23, 15): "bag-of-words",
    (23, 0): "delimiter",
}
HABITS: Plan = {
    (0, 1): "next three",
    (1, 0): "punctuation",
    (2, 2): "first two",
    (3, 3): "next-word",
    (3, 0): "previous-word",
    (1, 2): "identical",
}
STATED = {
    (0, 1): "next-3",
    (1, 0): "punctuation",
    (2, 2): "same-keys",
    (3, 3): "next-word",
    (3, 0): "previous-word",
}


def _table(directory: Path, *words: str) -> pd.DataFrame:
    return table(*words, "--model", str(directory)).set_index(["layer", "head"])


@pytest.fixture(
    scope="module",
    params=[(12, 12, SMALL), pytest.param((24, 16, LARGE), marks=pytest.mark.long)],
    ids=["12x12", "24x16"],
)
def planted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Plan]:
    layers, heads, plan = request.param
    return save_toy_bert(tmp_path_factory.mktemp("toy"), layers, heads, plan), plan


@pytest.mark.parametrize(
    "options", [(), ("--unit", "word"), ("--no-related",)], ids=["tokens", "words", "unrelated"]
)
def test_planted_heads_are_found_and_nothing_else(
    planted: tuple[Path, Plan], options: tuple[str, ...]
) -> None:
    directory, plan = planted
    extras = () if plan is SMALL and not options else OFF  # once, for it takes long
    heads = _table(directory, "classify", A, B, *options, *extras)
    found = {
        place: label for place, label in heads["among_words"].items() if label in plan.values()
    }
    assert found == {place: pattern for place, pattern in plan.items() if pattern != "delimiter"}
    resting = {place for place, pattern in plan.items() if pattern == "delimiter"}
    assert {place for place in heads.index if heads.loc[place, "label"] == "delimiter"} == resting
    for place, pattern in plan.items():
        # The file has six decimals; and the pieces of "strawberries" look at each other, or take
        # two shares.
        assert heads.loc[place, pattern] == pytest.approx(
            1, abs=0.05 if "word" in options else 2e-6
        )


def test_with_special_tokens_in_the_same_heads_are_found(planted: tuple[Path, Plan]) -> None:
    """And those that attend evenly are at chance."""
    directory, plan = planted
    result = attnscan.classify(A, B, model=str(directory), special="in", predictive="off")
    found = {
        place: str(label) for place, label in np.ndenumerate(result.label) if label in plan.values()
    }
    assert found == dict(plan)
    measured = [p for p, name in enumerate(result.scores.patterns) if name != "predictive"]
    for place in set(np.ndindex(2, 5)) - set(plan):
        assert result.scores.every_key.above_chance[place][measured] == pytest.approx(0, abs=1e-6)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> str:
    rng = random.Random(0)
    file = tmp_path_factory.mktemp("pairs") / "pairs.csv"

    def sentence() -> str:
        kinds = (ARTICLES, NOUNS, VERBS, ["to"], NOUNS)
        return " , ".join(" ".join(map(rng.choice, kinds)) for _ in range(rng.randint(1, 2))) + " ."

    file.write_text(
        "sentence_a,sentence_b\n" + "".join(f'"{sentence()}","{sentence()}"\n' for _ in range(40))
    )
    return str(file)


@pytest.fixture(scope="module")
def habitual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_toy_bert(tmp_path_factory.mktemp("habits"), 4, 4, HABITS, carries=True)


def test_planted_heads_have_their_habits(habitual: Path, pairs: str) -> None:
    of_pairs = attnscan.heads(pairs, model=str(habitual), predictive="off").labels
    sentences = (
        "the cat sat on the mat , and ran .",
        "a dog went to the store , i bought strawberries .",
    )
    of_one = attnscan.classify(*sentences, model=str(habitual), predictive="off").labels
    one_input = {**STATED, (2, 2): "frequent-words"}  # which the first two words of this input are
    for labels, expected in ((of_pairs, STATED), (of_one, one_input)):
        names = (*labels.habits.names, "")
        assert {head: names[labels.habits.winner[head]] for head in STATED} == expected
    statements = of_pairs.habits
    assert all(
        statements.share[(*head, statements.names.index(name))] > 0.6
        for head, name in STATED.items()
    )
    heads = _table(habitual, "heads", "--pairs", pairs, *OFF)
    even = [head for head in heads.index if head not in HABITS]
    assert (
        set(heads.loc[even, "among_words"]) == {"even"} and (heads.loc[even, "share"] > 0.999).all()
    )


def test_heads_that_are_all_alike_have_no_statement(pairs: str, tmp_path: Path) -> None:
    every_head: Plan = dict.fromkeys(itertools.product(range(2), range(4)), "next-word")
    heads = _table(
        save_toy_bert(tmp_path, 2, 4, every_head, carries=True), "heads", "--pairs", pairs, *OFF
    )
    assert (
        set(heads["among_words"]) == {"next-word"} and heads["share"].min() > 0.99
    )  # a pattern, which no habit is


def test_an_untrained_model_has_no_statement(pairs: str, tmp_path: Path, habitual: Path) -> None:
    """A BERT of the bundled model's shape with random weights, which reads the toy's words."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(habitual)
    sizes = {
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
    }
    for part in (BertModel(BertConfig(vocab_size=len(tokenizer), **sizes)), tokenizer):
        part.save_pretrained(tmp_path)
    heads = _table(tmp_path, "heads", "--pairs", pairs, *OFF)
    assert heads["among_words"].isna().all() and heads["share"].isna().all()

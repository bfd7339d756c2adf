"""The saved attention of published models (tests/golden) gets the scores of an independent loop."""

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.command_line import table

GOLDEN = Path(__file__).parents[1] / "golden"
ARTICLE = "bert-base-uncased.store-strawberries"
PUBLISHED = [ARTICLE, "distilbert-base-uncased.quick-brown-fox", "roberta-base.cat-mat-rug"]
SCORES = ["next-word", "previous-word", "identical", "cross-sentence", "delimiter", "bag-of-words"]


def _classified(name: str, *options: str) -> pd.DataFrame:
    return table("classify", "--weights", str(GOLDEN / f"{name}.npz"), *options)


@pytest.mark.parametrize("name", PUBLISHED)
def test_scores_agree_with_the_independent_ones(name: str) -> None:
    scores = _classified(name, "--special=in")
    expected = pd.read_csv(GOLDEN / f"{name}.scores.csv")
    ours = scores[["layer", "head", *SCORES]]
    pd.testing.assert_frame_equal(
        ours, expected, check_exact=False, atol=1e-5, rtol=0, check_dtype=False
    )
    assert scores["predictive"].isna().all()


def test_patterns_of_the_articles_pair_among_words() -> None:
    """As counted by hand-written loops; other heads have a habit or none."""
    labels = _classified(ARTICLE, "--special=out").set_index(["layer", "head"])
    counts = Counter(labels["among_words"])
    expected = {"next-word": 14, "previous-word": 13, "bag-of-words": 6}
    assert {name: counts[name] for name in expected} == expected
    follow = labels["among_words"].isin(["identical", "cross-sentence"]) & (
        labels["share"] == labels[["identical", "cross-sentence"]].max(axis=1)
    )
    assert follow.sum() >= 6
    assert labels.loc[(3, 2), "among_words"] != "identical"  # it looks at the word itself
    assert (labels["label"] == "delimiter").tolist() == (labels["delimiter"] > 0.5).tolist()


def test_without_delimiters_renormalises_over_words() -> None:
    with np.load(GOLDEN / f"{ARTICLE}.npz") as file:
        saved = dict(file)
    weights = saved["attention"][2, 0].astype(float)
    words = ~saved["special"]
    rows = weights[np.ix_(words, words)] / weights[np.ix_(words, words)].sum(-1, keepdims=True)
    following = [rows[i, i + 1] for i in range(15) if i != 5]  # word 5 ends sentence A
    table = _classified(ARTICLE, "--special=out").set_index(["layer", "head"])
    assert table.loc[(2, 0), "next-word"] == pytest.approx(np.mean(following), abs=1e-5)
    delimiter = weights[:, saved["special"]][words].sum(-1).mean()  # of all keys
    assert table.loc[(2, 0), "delimiter"] == pytest.approx(delimiter, abs=1e-5)

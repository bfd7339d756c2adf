"""Sentences by their numbers; and what words attend to most is what accuracies count."""

from pathlib import Path

import numpy as np
import pytest
from support.toy_bert import save_toy_bert
from support.treebanks import planted

import attnscan
import attnscan.api.pictures_and_pages  # it declares `report`, whose options `read_trees` takes
from attnscan.api.studies import read_trees
from attnscan.errors import OptionError
from attnscan.results.syntax import DEPENDENT, HEAD, Row, sentence_numbers

COUNT = 35


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("3", (3,)), (" 1-3 , 2,9", (1, 2, 3, 9)), ("50-99", tuple(range(50, 100)))],
)
def test_sentences_go_by_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert sentence_numbers(text) == numbers


@pytest.mark.parametrize(
    "text", ["", "0", "3-1", "1,", "-3", "a", "1-51", "1-999999999", "\u0663\ud800", "9" * 99]
)
def test_others_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"names no sentences|names more than 50"):
        sentence_numbers(text)


@pytest.mark.parametrize("by", ["weight", "carried"])
def test_accuracies_count_the_words_that_are_attended_to_most(by: str, tmp_path: Path) -> None:
    plan = {(0, 0): "articles to nouns", (0, 1): "previous-word"}
    model = str(save_toy_bert(tmp_path / "m", 2, 3, plan, carries=True))
    trees = tmp_path / "some.conllu"
    trees.write_text("\n\n".join(planted().split("\n\n")[:COUNT]) + "\n\n", encoding="utf-8")
    options = {"model": model, "by": by, "predictive": "off"}
    with pytest.warns(UserWarning, match="few"):
        read = read_trees(str(trees), f"1-{COUNT}", options)
    assert [tree.number for tree in read.sentences] == list(
        range(1, COUNT + 1)
    ) and read.syntax.sentences == COUNT
    with pytest.warns(UserWarning, match="few"):
        syntax = attnscan.syntax(str(trees), model=model, by=by)
    np.testing.assert_allclose(read.syntax.accuracy, syntax.accuracy)
    up = np.zeros((2, 3))
    down = np.zeros((2, 3))
    for tree in read.sentences:
        most = tree.most_attended(by)  # type: ignore[arg-type]
        (word,) = (
            at for at, relation in enumerate(tree.sentence.tags["deprel"]) if relation == "det"
        )
        head = int(tree.sentence.tags["head"][word])  # type: ignore[arg-type]
        up += most[..., word] == head
        down += most[..., head] == word
    for direction, hits in ((HEAD, up), (DEPENDENT, down)):
        np.testing.assert_allclose(
            syntax.accuracy[..., syntax.rows.index(Row("det", direction))], hits / COUNT
        )
    assert up[0, 0] == COUNT and 0 < up[1].sum() < 3 * COUNT

"""Patterns, words and tags of one's own, and what the library takes by name: functions in, errors
in a line.
"""

import itertools
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose
from support.toy_bert import save_toy_bert
from torch import Tensor

import attnscan
from attnscan import Sentence
from attnscan.errors import AttnscanError, InputError, OptionError
from attnscan.inputs.sentence import Pair
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import open_scanner
from attnscan.scoring.patterns import PATTERNS, Pattern

A = "i went to the store ."
B = "the cat , i bought straw##berries ."


def two_back(batch: attnscan.EncodedBatch) -> Tensor:
    """Each word looks at the word before the one before it.

    More lines are not shown.
    """
    return batch.same_sentence & (batch.offset == -2)


def next_again(batch: attnscan.EncodedBatch) -> Tensor:
    return batch.same_sentence & (batch.offset == 1)


def test_a_function_is_a_pattern() -> None:
    pattern = Pattern.of(two_back)
    assert (pattern.id, pattern.letter) == ("two-back", "T")
    assert pattern.counts == "each word looks at the word before the one before it"
    assert Pattern.of(next_again).counts == "weight on the targets of next-again"


def test_a_pattern_of_ones_own_scores_as_ours_does(toy: str) -> None:
    options: Any = {"model": toy, "predictive": "off", "special": "in"}
    result = attnscan.classify(A, B, pattern=[*PATTERNS, two_back, next_again], **options)
    frame = result.to_frame()
    entropy = frame.columns.get_loc("entropy")
    assert list(frame.columns[entropy - 2 : entropy]) == ["two-back", "next-again"]
    assert list(frame["next-again"]) == pytest.approx(list(frame["next-word"]))
    assert list(frame["delimiter"]) == pytest.approx(
        list(attnscan.classify(A, B, **options).to_frame()["delimiter"])
    )
    weights = result.kept_attention().weights
    sentence = result.sentence
    inside = [
        q for q in range(len(result.units)) if sentence[q - 2 : q + 1] in ((0, 0, 0), (1, 1, 1))
    ]
    assert frame["two-back"][3 + 2] == pytest.approx(
        np.mean([weights[1, 2, q, q - 2] for q in inside]), abs=1e-6
    )
    assert "two-back" in result._repr_html_()
    ranking = attnscan.heads([A, (A, B)], model=toy, pattern=["delimiter", two_back])
    assert ranking.scores.patterns == ("delimiter", "two-back")


def named(name: str, function: Any) -> Any:
    function.__name__ = name
    return function


REFUSED = {
    "no name": lambda batch: batch.word,
    r"'words' gives a target of shape \[1, 8\], not one of shape \[1, 8, 8\]": named(
        "words", lambda b: b.word
    ),
    r"'twos' gives numbers outside \[0, 1\]": named(
        "twos", lambda batch: batch.same_sentence * 2.0
    ),
    r"'nans' gives numbers outside \[0, 1\]": named(
        "nans", lambda batch: batch.same_sentence * float("nan")
    ),
    "'array' gives a ndarray": named("array", lambda batch: batch.same_sentence.numpy()),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_no_pattern_is_refused(toy: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        attnscan.classify(A, model=toy, pattern=[REFUSED[message]])


def test_characters_lead_to_units() -> None:
    text = "I bought fresh strawberries."
    for unit, expected in (("token", ["straw", "##berries"]), ("word", ["strawberries"])):
        with open_scanner(ScanOptions(model="bundled", unit=unit)) as scanner:  # type: ignore[arg-type]
            one = scanner.encode(Pair("I went.", text))
            start = text.index("strawberries")
            assert [one.units[i] for i in one.units_between(1, start, start + 3 + 9)] == expected
            assert one.units_between(1, start, start) == []
            assert [one.units[i] for i in one.units_between(0, 0, 1)] == ["i"]


def test_weights_score_from_arrays_as_from_a_file(toy: str, tmp_path: Path) -> None:
    saved = attnscan.classify(A, B, model=toy, predictive="off").kept_attention().saved()
    arrays: Any = {
        "attention": saved.attention,
        "tokens": list(saved.tokens),
        "segments": saved.segments,
    }
    np.savez(tmp_path / "w.npz", **arrays)
    by_file = attnscan.classify(weights=tmp_path / "w.npz")
    by_arrays = attnscan.classify(weights=arrays, name="jax")
    assert by_file.signature.model == "w.npz" and by_arrays.signature.model == "jax"
    columns = ["next-word", "delimiter", "entropy"]
    pd.testing.assert_frame_equal(by_file.to_frame()[columns], by_arrays.to_frame()[columns])
    expected = attnscan.classify(A, B, model=toy, predictive="off", related=False).to_frame()
    assert np.allclose(by_file.to_frame()[columns], expected[columns], atol=1e-6)

    def by_character(batch: attnscan.EncodedBatch) -> Tensor:
        batch.inputs[0].units_between(0, 0, 1)
        return batch.same_sentence

    with pytest.raises(InputError, match="characters of tokens"):
        attnscan.classify(weights=arrays, pattern=[by_character])
    with pytest.raises(AttnscanError, match="sentence A has no tag 'head'"):
        attnscan.classify(weights=arrays, pattern=governor)


def test_heads_are_explained_by_the_pattern_that_is_named(toy: str) -> None:
    over = attnscan.explain([(0, 0)], pairs=[(A, B), A], pattern="previous-word", model=toy)
    assert over[0, 0].pattern == "previous-word" and over[0, 0].pairs == 2
    predicting = attnscan.explain(
        "0-2", "I went home.", pattern="predictive", predictive="auto", model="bundled"
    )
    assert predicting[0, 2].n > 0


TEXTS = [
    "the cat sat on the mat .",
    "i bought a dog , i went to the store .",
    "a dog ran to the cat .",
]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> attnscan.LoadedModel:
    """A model whose head 1-1 looks two words on, and whose head 0-2 looks at the next word."""
    plan = {(1, 1): "two on", (0, 2): "next-word"}
    return attnscan.load(str(save_toy_bert(tmp_path_factory.mktemp("toy"), 2, 3, plan)))


def parsed(text: str, on: int = 2, words: str = r"\S+") -> Sentence:
    """A sentence in which every word's head is some words on, and the last ones have none."""
    spans = [match.span() for match in re.finditer(words, text)]
    heads = [number + on if 0 <= number + on < len(spans) else None for number in range(len(spans))]
    return Sentence(text, spans, {"head": heads})


def governor(batch: attnscan.EncodedBatch) -> Tensor:
    """Each word looks at its head."""
    numbers = np.array(batch.tags("head"), dtype=float)  # None becomes NaN
    heads = torch.from_numpy(np.nan_to_num(numbers, nan=-2).astype(int))
    return batch.same_sentence & (heads[:, :, None] == batch.word_number[:, None, :])


PARSED: dict[str, Any] = {"pattern": governor, "predictive": "off"}


@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize("b", [None, TEXTS[1]])
def test_a_relation_finds_the_planted_head(
    planted: attnscan.LoadedModel, b: str | None, unit: Any
) -> None:
    pair = parsed(TEXTS[0]), b and parsed(b)
    result = attnscan.classify(*pair, model=planted, unit=unit, **PARSED)
    scores = result.to_frame().set_index(["layer", "head"])["governor"]
    assert scores[1, 1] == pytest.approx(1, abs=1e-6) and scores.drop((1, 1)).max() < 0.2
    assert (result.label == "governor").nonzero() == ([1], [1])
    wrong = parsed(TEXTS[0], 3), b and parsed(b, 3)
    scores = attnscan.classify(*wrong, model=planted, unit=unit, **PARSED).to_frame()["governor"]
    assert scores.max() < 0.2  # the tags decide, and no longer fit


def test_given_words_are_scored_as_units(planted: attnscan.LoadedModel) -> None:
    """Of "the cat" as a word, half of the attention to the next word is the attention of "the" to
    "cat".
    """
    sentence = parsed("the cat sat .", words=r"the cat|\S+")
    result = attnscan.classify(sentence, model=planted, unit="word", predictive="off")
    assert result.units == ("[CLS]", "the cat", "sat", ".", "[SEP]")
    scores = result.to_frame().set_index(["layer", "head"])["next-word"]
    assert scores[0, 2] == pytest.approx((0.5 + 1) / 2, abs=1e-6)


def test_annotations_travel_with_pairs(planted: attnscan.LoadedModel) -> None:
    """Through lists, rows and shards; what was read is told apart from the plain texts."""
    pairs = [(parsed(a), parsed(b)) for a, b in itertools.product(TEXTS, TEXTS)]
    parts = [
        pickle.loads(pickle.dumps(attnscan.shard(pairs[i::2], model=planted, **PARSED)))
        for i in range(2)
    ]
    expected = attnscan.finish(parts[0] + parts[1])
    assert expected.scores.every_key.score[1, 1, -1] == pytest.approx(1, abs=1e-6)
    for inputs in (pairs, [{"sentence_a": a, "sentence_b": b} for a, b in pairs]):
        single = attnscan.finish(attnscan.shard(inputs, model=planted, **PARSED))
        assert_allclose(single.scores.every_key.score, expected.scores.every_key.score, rtol=1e-12)
        assert single.signature.input_hash == expected.signature.input_hash
    plain = attnscan.shard([(a.text, b.text) for a, b in pairs], model=planted, predictive="off")
    assert attnscan.finish(plain).signature.input_hash != expected.signature.input_hash


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([parsed(TEXTS[0]), TEXTS[1]], r"sentence A of pair 2 has no tag 'head'; give Sentence\("),
        (
            [Sentence(TEXTS[0], [(0, 3)], {"heads": [None]})],
            r"sentence A of pair 1 has no tag 'head'; did you mean 'h",
        ),
        (
            [Sentence(TEXTS[0], [(0, 3)], {"form": ["the"]})],
            "sentence A of pair 1 has no tag 'head'; its tags are form",
        ),
        ([(parsed(TEXTS[0]), TEXTS[1])], "sentence B of pair 1 has no tag 'head'"),
        (parsed(TEXTS[0]), "pairs is of the class Sentence, which holds no pairs"),
    ],
)
def test_a_tag_that_a_pattern_asks_for_must_be_there(
    planted: attnscan.LoadedModel, pairs: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message) as refused:
        attnscan.shard(pairs, model=planted, **PARSED)
    assert "\n" not in str(refused.value)


def test_every_function_takes_sentences_where_texts_stand(
    planted: attnscan.LoadedModel, tmp_path: Path
) -> None:
    a = parsed("the cat sat on the mat .", words=r"the cat|\S+")
    b = parsed(TEXTS[1])
    of_one: Any = {"model": planted, "predictive": "off", "unit": "word"}
    pairs = [(a, b), (b, a), a]
    of_many = {"model": planted, "predictive": "off"}
    assert "the cat" in attnscan.predictive(a, b, model=planted, unit="word").units
    assert [result.units[1] for result in attnscan.classify(pairs=pairs, **of_one)] == [
        "the cat",
        "i",
        "the cat",
    ]
    assert attnscan.show("0-2", a, model=planted).result.units[1:3] == ("the", "cat")
    assert attnscan.explain("0-2", a, b, model=planted).to_frame().shape[0] == 1
    assert (
        b"</svg>" in attnscan.plot(a, b, **of_one)
        and "</html>" in attnscan.report(a, b, **of_one).html
    )
    assert attnscan.profile(a, b, model=planted, unit="word").classes
    words = attnscan.heads(pairs, pattern="next-word", unit="word", **of_many)
    tokens = attnscan.heads(pairs, pattern="next-word", unit="token", **of_many)
    assert (
        words.scores.every_key.n[0, 0, 0] == tokens.scores.every_key.n[0, 0, 0] - 3
    )  # "the cat" has one word less
    for of_pairs in (
        attnscan.explain(pairs=pairs, model=planted),
        attnscan.similar(pairs, model=planted),
    ):
        assert of_pairs.signature.pairs_read == 3
    assert attnscan.compare(planted, planted, pairs).to_frame().shape[0]
    state = tmp_path / "state.json"
    runs = [attnscan.heads(pairs, state=state, **of_many).signature.input_hash for _ in range(2)]
    assert runs == [attnscan.heads(pairs, **of_many).signature.input_hash] * 2

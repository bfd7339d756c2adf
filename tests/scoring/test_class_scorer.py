"""Classes of keys against plain loops, and what must not change their sums: padding, order, blocks
of heads.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from by_loops import Input, class_of
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from support.handwritten_inputs import attend, input_of, random_weights
from support.hypothesis_draws import draws
from support.reference_scores import Written

from attnscan.inputs.batch import collate
from attnscan.inputs.vocabulary import WholeWords
from attnscan.results.habits import CLASSES, N_CLASS_SUMS
from attnscan.scoring.blocks import SumsByName
from attnscan.scoring.class_scorer import ClassScorer, class_of_cells
from attnscan.scoring.units import UnitBlock, Units

TOY = "[CLS] the cat sat . [SEP] a cat ran [SEP]"
DRAWN = """
the   S I N 2 2 M O O O E
cat   S P I N 2 M O X O E
sat   S p P I N M O O O E
.     S p p P I M O O O E
a     S O O O U M I N 2 E
cat   S O X O U M P I N E
ran   S O O O U M p P I E
"""
FREQUENT, RARE, EVEN, SAME_KEYS = range(len(CLASSES), N_CLASS_SUMS)
LETTERS = dict(zip("SMEI=XNP2pU48><O", CLASSES, strict=True))
VOCABULARY = WholeWords(
    {
        "the": 0,
        "cat": 1,
        **{f"{'zxy'[i % 3]}w{i}": i for i in range(2, 102)},
        "ran": 102,
        "sat": 103,
    },
    "##",
)
LAYERS = 2
HEADS = 3
MOST_OFF = {
    "on": 2e-5,
    "even": 1e-5,
    "special": 2e-5,
    "even_special": 2e-6,
}  # by rounding; counts are exact


def test_every_key_of_a_word_is_in_the_class_that_is_drawn() -> None:
    batch = collate([input_of(TOY)])
    rows = class_of_cells(batch.with_mask(torch.ones(1, 10, 10, dtype=torch.bool)))[0]
    lines = DRAWN.strip().splitlines()
    for row, line in zip(rows[batch.word[0]], lines, strict=True):
        word, *letters = line.split()
        drawn = [LETTERS[letter] for letter in letters]
        assert [CLASSES[number] for number in row] == drawn, word


def test_keys_of_special_tokens_are_in_no_class() -> None:
    batch = collate([input_of(TOY)])
    rows = class_of_cells(batch.with_mask(torch.ones(1, 10, 10, dtype=torch.bool)))[0]
    assert (rows[~batch.word[0]] == len(CLASSES)).all()


@st.composite
def texts(draw: st.DrawFn) -> list[str]:
    """Up to three inputs of one or two sentences of a small vocabulary, so that words repeat."""
    word = st.sampled_from(["a", "the", "cat", "Cat", "ran", "sat", ".", ","])
    sentences = st.lists(
        st.lists(word, min_size=1, max_size=12).map(" ".join), min_size=1, max_size=2
    )
    inputs = draw(st.lists(sentences, min_size=1, max_size=3))
    return ["[CLS] " + " [SEP] ".join(one) + " [SEP]" for one in inputs]


@settings(deadline=None, max_examples=draws(40))
@given(texts(), st.booleans(), st.booleans(), st.integers(1, HEADS))
def test_sums_equal_the_plain_loops(
    inputs: list[str], special: bool, causal: bool, heads_at_once: int
) -> None:
    weights = [_weights(text, seed, causal=causal) for seed, text in enumerate(inputs)]
    sums = _scored(inputs, weights, special=special, causal=causal, heads_at_once=heads_at_once)
    for number, (text, matrices) in enumerate(zip(inputs, weights, strict=True)):
        for place in np.ndindex(LAYERS, HEADS):
            matrix = matrices[place].double().numpy()
            expected = _by_loops(text, matrix, special=special, causal=causal)
            for name, values in expected.items():
                assert_allclose(
                    sums[name][(number, *place)], values, atol=MOST_OFF.get(name, 0), err_msg=name
                )


@pytest.mark.parametrize("queries", [3, 10])
def test_word_by_word_the_sums_are_those_of_the_input(
    monkeypatch: pytest.MonkeyPatch, queries: int
) -> None:
    """However many queries are measured at a time."""
    weights = [_weights(TOY, 0)]
    monkeypatch.setattr("attnscan.scoring.units.CELLS", queries * 10)
    whole = _scored([TOY], weights, special=False)
    words = _scored([TOY], weights, special=False, by_query=True)
    assert len(words["n"]) == 7
    for name, values in whole.items():
        assert_allclose(words[name].sum(0), values[0], atol=1e-5)


def test_a_long_input_is_taken_a_few_queries_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of tokens whole rows would take as much memory as the weights, several times."""
    monkeypatch.setattr("attnscan.scoring.units.CELLS", 3 * 10)
    taken: list[int] = []
    take = ClassScorer.take

    def count_queries(scorer: ClassScorer, parts: Sequence[UnitBlock]) -> None:
        taken.extend(part.weights.shape[2] for part in parts)
        take(scorer, parts)

    monkeypatch.setattr(ClassScorer, "take", count_queries)
    _scored([TOY], [_weights(TOY, 0)], special=False)
    assert taken == LAYERS * [3, 3, 3, 1]


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("by_query", [True, False])
def test_chance_of_what_is_carried_is_that_of_even_attention(special: bool, by_query: bool) -> None:
    """Heads that attend evenly have the shares of chance, each by the lengths of its own values."""
    lengths = torch.tensor(
        np.random.default_rng(1).gamma(1, 1, (LAYERS, HEADS, 10)), dtype=torch.float32
    )
    weights = (lengths / lengths.sum(-1, keepdim=True))[:, :, None].expand(-1, -1, 10, -1)
    sums = _scored([TOY], [weights], special=special, by_query=by_query, norms=[lengths])
    linear = [column for column in range(N_CLASS_SUMS) if column not in (EVEN, SAME_KEYS)]
    assert_allclose(sums["on"][..., linear], sums["even"][..., linear], atol=1e-5)
    assert not sums["even"][..., [EVEN, SAME_KEYS]].any()
    assert sums["even"].std(2).max() > 0.01  # a control: heads differ
    assert_allclose(sums["special"], sums["even_special"], atol=1e-5)


def _weights(text: str, seed: int, *, causal: bool = False) -> torch.Tensor:
    return random_weights(LAYERS, HEADS, len(text.split()), seed, causal=causal)


def _scored(
    inputs: list[str],
    weights: list[torch.Tensor],
    *,
    special: bool,
    by_query: bool = False,
    **attention: Any,
) -> SumsByName:
    """The sums of one batch."""
    batch = collate([input_of(text) for text in inputs], vocabulary=VOCABULARY)
    scorer = ClassScorer(Units(batch, by_query=by_query), special=special)
    attend(scorer, weights, **attention)
    return scorer.sums()


def _by_loops(text: str, matrix: np.ndarray, *, special: bool, causal: bool) -> dict[str, Any]:
    """One head's sums on one input; special tokens stand before, between and behind the words."""
    tokens = text.split()
    one = Written(tokens, input_of(text).sentence).seeing(
        np.tri(len(tokens), dtype=bool) if causal else None
    )
    rows = {}
    on = np.zeros(N_CLASS_SUMS)
    even = np.zeros(N_CLASS_SUMS)
    to_special = np.zeros(3)
    even_special = np.zeros(3)
    for i in one.words:
        seen = [j for j, visible in enumerate(one.visible[i]) if visible]
        keys = [j for j in seen if special or one.sentence[j] >= 0]
        left = sum(matrix[i][j] for j in keys)
        rows[i] = {j: matrix[i][j] / left for j in keys}
        for j in seen:
            if one.sentence[j] >= 0:
                continue
            place = ("start", "middle", "end").index(class_of(one, i, j))
            to_special[place] += matrix[i][j]
            even_special[place] += 1 / len(seen)
    for i, row in rows.items():
        for j, weight in row.items():
            for column in _columns(one, tokens, i, j):
                on[column] += weight
                even[column] += 1 / len(row)
        others = [other for k, other in rows.items() if k != i]
        for j, weight in row.items():
            mean = sum(other.get(j, 0.0) for other in others) / max(1, len(others))
            on[EVEN] += min(weight, 1 / len(row))
            on[SAME_KEYS] += min(weight, mean)
    counts = {"n": len(rows), "all_words": len(rows)}
    return {"on": on, "even": even, "special": to_special, "even_special": even_special, **counts}


def _columns(one: Input, tokens: list[str], i: int, j: int) -> Iterator[int]:
    """The columns that a cell is in: its class, and whether its key is a frequent or rare word."""
    yield CLASSES.index(class_of(one, i, j))
    if one.sentence[j] >= 0 and tokens[j] in ("the", "cat"):
        yield FREQUENT
    elif one.sentence[j] >= 0 and one.content[j]:
        yield RARE

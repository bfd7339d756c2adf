"""Sums over trees by plain loops, and the rule that they choose: random weights, sentences of many
shapes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from by_loops import merged
from numpy.testing import assert_allclose
from support.handwritten_inputs import attend, random_weights
from truth_of_syntax import RULES as THEIR_RULES
from truth_of_syntax import linked, pointed

from attnscan.errors import ModelError
from attnscan.inputs.batch import collate
from attnscan.inputs.links import links_in
from attnscan.inputs.sentence import EncodedInput, Pair, Sentence
from attnscan.results.syntax import DEPENDENT, HEAD, RULES, Row
from attnscan.scoring import units
from attnscan.scoring.blocks import add_sums
from attnscan.scoring.relations import (
    Item,
    RelationScorer,
    RelationSums,
    items_of,
    ordered,
    syntax_of,
)

LAYERS = 2
HEADS = 3


def sentence(
    heads: Sequence[int | None], relations: str, parts: str, letters: str = "abcdefgh"
) -> Sentence:
    """A letter a word."""
    words = [(2 * i, 2 * i + 1) for i in range(len(heads))]
    tags = {"head": list(heads), "deprel": relations.split(), "upos": parts.split()}
    return Sentence(" ".join(letters[: len(heads)]), words, tags)


def items(known: Sentence, **options: bool) -> list[Item]:
    return items_of(links_in(Pair(known)), **options)


CAT = sentence([1, 2, None, 2], "det nsubj root punct", "DET NOUN VERB PUNCT")
BIG = sentence(
    [2, 2, 3, None, 6, 6, 3, 3],
    "det nmod:poss nsubj root det det obj punct",
    "DET NOUN NOUN VERB DET DET NOUN PUNCT",
    "abdDeddb",
)
ONE = sentence([None], "root", "VERB")
SENTENCES = [CAT, BIG, ONE, sentence([None, 0, 1], "root obj det", "VERB NOUN DET")]


def test_items_are_heads_and_dependents_of_words() -> None:
    assert sorted(items(CAT)) == [
        (Row("all", HEAD), 0, (1,)),
        (Row("all", HEAD), 1, (2,)),
        (Row("all", DEPENDENT), 1, (0,)),
        (Row("all", DEPENDENT), 2, (1,)),
        (Row("det", HEAD), 0, (1,)),
        (Row("det", DEPENDENT), 1, (0,)),
        (Row("nsubj", HEAD), 1, (2,)),
        (Row("nsubj", DEPENDENT), 2, (1,)),
        (Row("punct", HEAD), 3, (2,)),
        (Row("punct", DEPENDENT), 2, (3,)),
    ]
    assert (Row("det", DEPENDENT), 6, (4, 5)) in items(BIG)


def test_subtypes_are_relations_of_their_own_where_asked() -> None:
    plain = {item.row.relation for item in items(BIG)}
    names = {item.row.relation for item in items(BIG, subtypes=True)}
    assert names == plain | {"nmod:poss"}
    assert "nmod" in plain


def test_later_words_are_no_targets_in_a_causal_model() -> None:
    causal = items(CAT, causal=True)
    assert len(causal) == 5
    for item in causal:
        assert max(item.targets) < item.query


def encoded(known: Sentence, place: int) -> EncodedInput:
    """Delimiters around; the second word of each sentence has two pieces, and the last one of BIG
    has none.
    """
    pieces = list(range(len(known.words or ())))
    if len(pieces) > 1:
        pieces.insert(1, 1)
    if known is BIG:
        pieces[-1] = -1
    words = [-1, *pieces, -1]
    unit = [0]
    for before, word in pairwise(words):
        unit.append(unit[-1] + (word != before or word == -1))
    return EncodedInput(
        tokens=("x",) * len(words),
        sentence=(-1, *(0 if word >= 0 else -1 for word in pieces), -1),
        unit=tuple(unit),
        punctuation=(False,) * len(words),
        pair=Pair(known),
        spans=tuple((0, 0) if word < 0 else (2 * word, 2 * word + 1) for word in words),
        words=tuple(words),
        number=place,
    )


INPUTS = [encoded(known, i) for i, known in enumerate(SENTENCES)]
HALVES = [0, 1, 0, 1]


def weights_of(inputs: Sequence[EncodedInput]) -> list[torch.Tensor]:
    """Of each input by itself, so that batches do not matter. Shape: [layer, head, query, key]."""
    return [random_weights(LAYERS, HEADS, len(one.tokens), one.number) for one in inputs]


def scored(
    inputs: Sequence[EncodedInput],
    weights: Sequence[torch.Tensor],
    halves: Sequence[int],
    *,
    among: bool = False,
    lengths: Sequence[torch.Tensor] | None = None,
) -> RelationSums:
    """By blocks of one layer and some heads of one input, as a tap shows them; `lengths` are of
    what heads carry.

    Shape: `lengths` [layer, head, key].
    """
    scorer = RelationScorer(collate(inputs), halves, among=among, subtypes=False)
    attend(scorer, weights, heads_at_once=2, norms=lengths, padded=False)
    return scorer.sums()


def by_loops(
    ours: RelationSums,
    inputs: Sequence[EncodedInput],
    weights: Sequence[torch.Tensor],
    halves: Sequence[int],
    *,
    among: bool,
) -> Mapping[str, Any]:
    """As the definitions say it, of heads without even attention."""
    names = "n", "rules", "hits", "weight", "on_words"
    sums = {name: np.zeros_like(_stacked(ours, name)) for name in names}
    sums["linked"] = np.zeros((LAYERS, HEADS))
    for one, whole, half in zip(inputs, weights, halves, strict=True):
        tags: Any = one.known_pair.sentences[0].tags
        count = max(one.words) + 1  # of words with a piece: the one without stands last
        pieces = [list(np.flatnonzero(np.array(one.words) == number)) for number in range(count)]
        letters = one.known_pair.sentences[0].text.split()
        eligible = []
        for row, query, targets in items(one.known_pair.sentences[0]):
            known = [word for word in targets if word < count]
            if query < count and known:
                eligible.append((rows_of(ours).index(row), query, known))
        for r, query, targets in eligible:
            sums["n"][r, half] += 1
            for number, rule in enumerate(THEIR_RULES):
                sums["rules"][r, half, number] += (
                    pointed(letters, tags["upos"], query, *rule) in targets
                )
        for layer, head in np.ndindex(LAYERS, HEADS):
            a = merged(whole[layer, head].tolist(), pieces)
            for r, query, targets in eligible:
                seen = max((k for k in range(count) if k != query), key=a[query].__getitem__)
                weight = sum(a[query][k] for k in targets)
                on_words = weight / sum(a[query])
                sums["weight"][r, layer, head] += on_words if among else weight
                sums["on_words"][r, layer, head] += on_words
                sums["hits"][r, layer, head] += seen in targets
            sums["linked"][layer, head] += linked(tags["upos"], tags["head"], a)[0]
    return sums


def rows_of(sums: RelationSums) -> tuple[Row, ...]:
    return ordered(
        Row(*name.split("\t")[1:]) for name in sums["whole"].sums if name.startswith("met\t")
    )


def _stacked(sums: RelationSums, name: str) -> np.ndarray[Any, Any]:
    """A sum of every row. Shape: [row, ...]; of one that rows do not have, [...]."""
    known = sums["documents" if name in ("n", "hits", "rules") else "whole"].sums
    if name in known:
        return known[name][0]
    return np.stack([known["\t".join((name, *row))].sum(0) for row in rows_of(sums)])


@pytest.mark.parametrize("among", [False, True])
def test_sums_are_those_of_plain_loops(among: bool) -> None:
    weights = weights_of(INPUTS)
    ours = scored(INPUTS, weights, HALVES, among=among)
    for name, values in by_loops(ours, INPUTS, weights, HALVES, among=among).items():
        assert_allclose(_stacked(ours, name), values, atol=1e-5, err_msg=name)
    assert _stacked(ours, "links").tolist() == [2 + 6 + 2, 2 + 3 + 2]
    assert _stacked(ours, "words").tolist() == [4 + 8 + 1 + 3, 1]
    punct = rows_of(ours).index(Row("punct", HEAD))
    assert _stacked(ours, "n")[punct].tolist() == [1, 0]  # the last word of BIG has no piece
    assert _stacked(ours, "rules").shape[-1] == len(RULES) == 20 + 2 * 17 + 3


@pytest.mark.parametrize("among", [False, True])
def test_chance_of_what_is_carried_is_that_of_even_attention(among: bool) -> None:
    """It is what a head would have that gives each key as much as its vector is long."""
    lengths = [torch.rand(LAYERS, HEADS, len(one.tokens)) * 3 + 0.1 for one in INPUTS]
    even = [
        norms[:, :, None].expand(-1, -1, norms.shape[-1], -1) / norms.sum(-1)[..., None, None]
        for norms in lengths
    ]
    ours = scored(INPUTS, weights_of(INPUTS), HALVES, among=among, lengths=lengths)
    expected = scored(INPUTS, even, HALVES, among=among)
    assert_allclose(_stacked(ours, "chance"), _stacked(expected, "weight"), atol=1e-5)
    assert_allclose(_stacked(ours, "chance_eligible"), _stacked(expected, "eligible"))
    plain = _stacked(scored(INPUTS, weights_of(INPUTS), HALVES, among=among), "chance")
    assert np.abs(_stacked(ours, "chance") - plain).max() > 0.1  # a control
    flat = [torch.full_like(weights, 1 / weights.shape[-1]) for weights in even]
    assert_allclose(plain, _stacked(scored(INPUTS, flat, HALVES, among=among), "weight"), atol=1e-5)


def test_batches_and_their_order_change_nothing() -> None:
    weights = weights_of(INPUTS)
    together = scored(INPUTS, weights, HALVES)
    alone = [
        scored([one], [tensor], [side])
        for one, tensor, side in zip(INPUTS, weights, HALVES, strict=True)
    ]
    assert len({rows_of(each) for each in alone}) > 2
    for order in ([0, 1, 2, 3], [3, 2, 0, 1]):
        total = reduce(add_sums, [alone[number] for number in order])
        assert rows_of(total) == rows_of(together)
        for kind in ("whole", "documents"):
            found = total[kind]
            expected = together[kind]
            assert found.keys.tolist() == expected.keys.tolist()
            for name, values in expected.sums.items():
                assert_allclose(found.sums[name], values, atol=1e-5, err_msg=name)


def test_a_long_sentence_is_compared_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree is spanned over all of its words; other scores are of a few queries at a time."""
    weights = weights_of(INPUTS)
    expected = scored(INPUTS, weights, HALVES)
    monkeypatch.setattr(units, "CELLS", 10)
    found = scored(INPUTS, weights, HALVES)
    for name in ("weight", "hits", "linked"):
        assert_allclose(_stacked(found, name), _stacked(expected, name), err_msg=name)


def sums_with(**changed: Any) -> RelationSums:
    """The sums of a sentence with some that are `changed`, the same for every relation."""
    sums = scored(INPUTS[3:], weights_of(INPUTS[3:]), [0])
    result = {}
    for kind, blocks in sums.items():
        changed_sums = {}
        for name, values in blocks.sums.items():
            new_values = changed.get(name.partition("\t")[0], values)
            changed_sums[name] = np.array(np.broadcast_to(new_values, values.shape), dtype=float)
        result[kind] = replace(blocks, sums=changed_sums)
    return result


@pytest.mark.parametrize(
    ("counts", "expected", "right"),
    [
        (  # each half by the choice of the other; told is that of more queries
            [(0, "2 before", 9), (0, "1 behind", 1), (1, "1 behind", 8), (1, "2 before", 3)],
            "2 before",
            1 + 3,
        ),
        # of equally good ones that before the query, then the nearest, and a distance before a part
        # of speech
        (
            [(0, "3 behind", 4), (0, "3 before", 4), (1, "3 before", 2), (1, "3 behind", 2)],
            "3 before",
            4 + 2,
        ),
        ([(0, "3 behind", 4), (0, "2 before", 4), (1, "2 before", 2)], "2 before", 4 + 2),
        ([(0, "10 behind", 5), (1, "10 behind", 5)], "10 behind", 10),
        (
            [
                (0, "10 behind", 5),
                (0, "NOUN behind", 6),
                (1, "10 behind", 5),
                (1, "NOUN behind", 6),
            ],
            "NOUN behind",
            12,
        ),
    ],
)
def test_the_rule_is_chosen_on_the_other_half(
    counts: list[tuple[int, str, int]], expected: str, right: int
) -> None:
    rules = np.zeros((2, len(RULES)))
    for half, rule, count in counts:
        rules[half, RULES.index(rule)] = count
    result = syntax_of(sums_with(rules=rules, n=rules.sum(-1), met=30), None, among=False)  # type: ignore[arg-type]
    assert set(result.rule) == {expected}
    assert result.rule_accuracy == pytest.approx(right / rules.sum())


def test_too_many_words_in_no_token_are_no_offsets() -> None:
    signature: Any = SimpleNamespace(model="mine")
    syntax_of(sums_with(words=[100, 50]), signature, among=False)
    with pytest.raises(ModelError, match=r"the tokenizer of mine .* 51 of 100"):
        syntax_of(sums_with(words=[100, 51]), signature, among=False)


def test_an_accuracy_is_a_share_of_queries() -> None:
    """Of six queries, three by either half, four are right, and the rule is right by two."""
    rules = np.zeros((2, len(RULES)))
    rules[:, 0] = 1
    sums = sums_with(hits=4, n=[3, 3], rules=rules, met=30)
    result = syntax_of(sums, None, among=False)  # type: ignore[arg-type]
    assert set(result.n) == {6}
    assert_allclose(result.accuracy, 4 / 6)
    assert_allclose(result.rule_accuracy, 2 / 6)
    assert_allclose(result.gain, 2 / 6)


def test_weights_are_means_over_queries() -> None:
    """With a row by the reading; among words, over those that have weight on words."""
    sums = sums_with(
        weight=3, on_words=2, eligible=5, chance=1, chance_eligible=4, n=[3, 3], met=30
    )
    result = syntax_of(sums, None, among=False)  # type: ignore[arg-type]
    assert_allclose(result.weight, 3 / 6)
    assert_allclose(result.chance, 1 / 6)
    assert_allclose(result.weight_among_words, 2 / 5)
    among = syntax_of(sums, None, among=True)  # type: ignore[arg-type]
    assert_allclose(among.weight, 3 / 5)
    assert_allclose(among.chance, 1 / 4)


@pytest.mark.parametrize(("met", "known"), [(30, True), (29, False)])
def test_a_relation_in_few_sentences_has_no_numbers(met: int, known: bool) -> None:
    sums = sums_with(met=met, hits=1, n=[2, 2], weight=1, eligible=2, chance=1, chance_eligible=2)
    result = syntax_of(sums, None, among=True)  # type: ignore[arg-type]
    for name in ("accuracy", "gain", "weight", "weight_among_words", "chance"):
        assert (~np.isnan(getattr(result, name)) == known).all(), name
    assert (~np.isnan(result.rule_accuracy) == known).all()
    assert set(result.met) == {met}


def test_trees_are_linked_beside_those_of_neighbours() -> None:
    result = syntax_of(sums_with(links=[8, 5], linked=6), None, among=False)  # type: ignore[arg-type]
    assert_allclose(result.uuas, 6 / 8)
    assert result.chain_uuas == 5 / 8


def test_errors_are_clustered_by_document() -> None:
    """Sentences without one are documents by themselves."""
    known = [replace(CAT, tags={**CAT.tags, "document": [name] * 4}) for name in "xxy"]
    inputs = [encoded(sentence, i) for i, sentence in enumerate([*known, BIG])]
    sums = scored(inputs, weights_of(inputs), [0, 1, 0, 1])
    assert len(sums["documents"].keys) == 3
    result = syntax_of(sums, None, among=False)  # type: ignore[arg-type]
    assert result.clusters == 3
    det = result.rows.index(Row("det", HEAD))
    nmod = result.rows.index(Row("nmod", HEAD))
    assert (result.row_clusters[det], result.row_clusters[nmod]) == (3, 1)


def test_a_sentence_of_one_word_has_no_items_and_no_links() -> None:
    sums = scored([encoded(ONE, 0), encoded(CAT, 1)], weights_of(INPUTS[2:3] + INPUTS[:1]), [0, 1])
    assert items(ONE) == []
    assert sums["whole"].sums["links"].tolist() == [[2, 2]]
    assert sums["whole"].sums["words"].tolist() == [[5, 0]]


def test_the_first_of_equally_attended_words_counts() -> None:
    """Of even attention; the second word, which has two pieces, has twice as much as others."""
    one = encoded(CAT, 0)
    even = torch.full((LAYERS, HEADS, len(one.tokens), len(one.tokens)), 1 / len(one.tokens))
    sums = scored([one], [even], [0])
    rows = [("det", HEAD), ("nsubj", HEAD), ("det", DEPENDENT), ("punct", DEPENDENT)]
    names = ["\t".join(("hits", *row)) for row in rows]
    hits = [sums["documents"].sums[name][0, 0, 0] for name in names]
    assert hits == [1, 0, 1, 0]


def test_all_relations_together_come_first_and_each_row_once() -> None:
    rows = [Row("det", HEAD), Row("all", DEPENDENT), Row("advmod", HEAD), Row("all", HEAD)]
    expected = (Row("all", HEAD), Row("all", DEPENDENT), Row("advmod", HEAD), Row("det", HEAD))
    assert ordered([*rows, rows[0]]) == expected

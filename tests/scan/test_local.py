"""Many pairs: sums that add whatever the batches, the order and the shards; memory that runs out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scans import (
    ARTICLE,
    PAIRS,
    assert_equal_sums,
    ranked,
    records_of,
    scan_shard,
    scores_of_shard,
    states_of,
)

from attnscan.errors import InputError, TooLongError
from attnscan.inputs.batch import EncodedBatch
from attnscan.inputs.sentence import Pair, Record
from attnscan.results.scores import Scores, best_first
from attnscan.scan.local import scan
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanState, half
from attnscan.scoring.patterns import PATTERNS, Pattern

OF_ALL_LENGTHS = [
    *PAIRS,
    ARTICLE,
    Pair("The cat sat on the mat.", "The cat lay on the rug."),
    Pair("A single sentence, with the same word: word."),
    Pair("Yes.", "No, no, no, that is not what the old man had in mind when he asked for strawberries and cream."),
    Pair("Unbelievably, the transformers transformed."),
]


@pytest.mark.parametrize("unit", ["token", "word"])
def test_batch_size_and_order_change_nothing(options: ScanOptions, unit: Any) -> None:

    def far(batch: EncodedBatch) -> torch.Tensor:
        return (batch.offset.abs() > 1) & batch.same_sentence

    own = Pattern("far", "F", far, "words of the same sentence, not beside it")
    options = replace(options, unit=unit, patterns=(*PATTERNS, own), on_long="truncate")
    expected = scan_shard(options, OF_ALL_LENGTHS)
    for batch_tokens, pairs in ((1, OF_ALL_LENGTHS), (50, OF_ALL_LENGTHS), (10_000, OF_ALL_LENGTHS[::-1])):
        assert_equal_sums(scan_shard(replace(options, batch_tokens=batch_tokens), pairs), expected, 1e-9)


LONG = Pair("the cat " * 40, "a mat")


def test_long_inputs_are_cut_skipped_or_refused_and_counted(options: ScanOptions) -> None:
    records = records_of([PAIRS[0], LONG, PAIRS[1]])
    for on_long, counts in (("truncate", (3, 1, 0)), ("skip", (3, 0, 1))):
        with Scanner(replace(options, on_long=on_long)) as scanner:  # type: ignore[arg-type]
            seen = states_of(scanner, records)[-1].seen
        assert (seen.read, seen.truncated, seen.skipped) == counts
    with Scanner(options) as scanner, pytest.raises(TooLongError, match=r"pairs.tsv:3: the input is \d+ tokens"):
        states_of(scanner, records)


def test_a_pair_that_the_tokenizer_cannot_read_is_placed_or_skipped(options: ScanOptions) -> None:
    records = records_of([PAIRS[0], Pair("\u200b", "a"), PAIRS[1]])
    with Scanner(options) as scanner:
        with pytest.raises(InputError, match=r"pairs\.tsv:3: the tokenizer finds no word in sentence A"):
            states_of(scanner, records)
        bad: list[InputError] = []
        seen = states_of(scanner, records, on_bad=bad.append)[-1].seen
    assert len(bad) == 1 and (seen.read, seen.skipped) == (3, 1)


def test_no_pair_is_an_error_as_well_as_none_that_is_not_skipped(options: ScanOptions) -> None:
    with Scanner(replace(options, on_long="skip")) as scanner:
        assert states_of(scanner, []) == []
        for state in (ScanState(scanner.options), states_of(scanner, records_of([LONG]))[-1]):
            with pytest.raises(InputError, match="there is no pair to score"):
                ranked(scanner, state)


def test_numbers_agree_with_a_plain_loop_over_the_model(bundled_dir: Path) -> None:
    import reference
    from reference import Written
    from transformers import AutoModel, AutoTokenizer

    pairs = PAIRS[:4]
    tokenizer = AutoTokenizer.from_pretrained(bundled_dir)
    model = AutoModel.from_pretrained(bundled_dir, attn_implementation="eager")
    written, weights = [], []
    for pair in pairs:
        inputs = tokenizer(pair.a, pair.b, return_tensors="pt")
        with torch.no_grad():
            weights.append(torch.cat(model(**inputs, output_attentions=True).attentions).double().numpy())
        sentence = [-1 if s is None else s for s in inputs.sequence_ids(0)]
        written.append(Written(tokenizer.convert_ids_to_tokens(inputs["input_ids"][0]), sentence))
    options = ScanOptions(model="bundled", related=False, predictive="off")
    table = scores_of_shard(options, scan_shard(options, pairs))
    for layer, head in ((0, 2), (1, 8), (5, 11)):
        expected = reference.scores(written, [matrix[layer, head] for matrix in weights])
        for name, numbers in expected.items():
            place = (layer, head, table.patterns.index(name))
            found = [getattr(table.every_key, e)[place] for e in ("score", "chance", "se", "n", "pairs")]
            assert_allclose(found, numbers[:-1], atol=1e-5, err_msg=name)
    assert np.isnan(table.every_key.score[..., table.patterns.index("predictive")]).all()


def test_heads_are_ranked_by_one_half_and_scored_by_the_other(options: ScanOptions) -> None:
    """Each half's numbers are those of a scan of that half alone, in any order; a doubled pair is in one."""
    pairs = [*PAIRS, *PAIRS[:4]]
    halves = [[pair for pair in pairs if half(pair, options.seed) == which] for which in (0, 1)]
    assert min(map(len, halves)) > 10
    with Scanner(replace(options, split=True)) as scanner:
        ranking = ranked(scanner, states_of(scanner, records_of(pairs[::-1]))[-1])
    assert ranking.ranked_by is not None
    for scores, own in zip((ranking.ranked_by, ranking.scores), halves, strict=True):
        alone = scores_of_shard(options, scan_shard(options, own))
        for name in ("score", "chance", "se", "n", "pairs"):
            found, expected = (getattr(each.every_key, name) for each in (scores, alone))
            assert_allclose(found, expected, rtol=1e-9, atol=1e-7, err_msg=name)
    p = ranking.scores.patterns.index("previous-word")
    assert ranking.order("previous-word").tolist() == best_first(ranking.ranked_by.every_key.score[..., p]).tolist()


def test_a_half_without_a_pair_is_an_error(options: ScanOptions) -> None:
    for which in (0, 1):
        one = next(pair for pair in PAIRS if half(pair, options.seed) == which)
        with Scanner(replace(options, split=True)) as scanner:
            state = states_of(scanner, records_of([one]))[-1]
            with pytest.raises(InputError, match="no pair in one of the two halves; give more pairs"):
                ranked(scanner, state)


def _scanned(options: ScanOptions, pairs: list[Pair]) -> Scores:
    with Scanner(options) as scanner:
        return ranked(scanner, scan(scanner, [Record(pair, "") for pair in pairs])).scores


def test_a_scan_measures_a_seeded_sample_and_leaves_the_other_patterns_alone() -> None:
    pairs = [Pair(f"the cat number {i} sat", "a cat") for i in range(5)]
    options = ScanOptions(model="bundled", predictive_pairs=3, predictive_words=4, related=False)
    scores = _scanned(options, pairs)
    without = _scanned(replace(options, predictive="off"), pairs)
    predictive = scores.patterns.index("predictive")
    assert (scores.every_key.pairs[..., predictive] == 3).all()
    assert np.isfinite(scores.every_key.se[..., predictive]).all()
    others = [p for p in range(len(scores.patterns)) if p != predictive]
    assert_allclose(scores.every_key.score[..., others], without.every_key.score[..., others], atol=1e-6)
    assert_allclose(scores.entropy, without.entropy, atol=1e-6)
    backwards = _scanned(options, pairs[::-1])
    assert_allclose(backwards.every_key.score, scores.every_key.score, atol=1e-6)
    other = _scanned(replace(options, seed=5), pairs)
    assert not np.allclose(other.every_key.score[..., predictive], scores.every_key.score[..., predictive])

"""One input and many pairs: sums add whatever the batches, order and threads; memory runs out."""

import json
import tracemalloc
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from threading import Barrier
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from numpy.testing import assert_allclose
from support.small_scans import (
    ARTICLE,
    BUNDLED,
    PAIRS,
    RECORDS,
    assert_equal_sums,
    classify,
    records_of,
    scan_shard,
    states_of,
)
from support.tiny_checkpoints import SMALL, save
from transformers import BertConfig, BertForMaskedLM

import attnscan
from attnscan.errors import InputError, MemoryFullError, ModelError, TooLongError
from attnscan.inputs.batch import EncodedBatch
from attnscan.inputs.sentence import EncodedInput, Pair, Record
from attnscan.model import memory
from attnscan.model import threads as side_by_side
from attnscan.model.threads import parallel_map
from attnscan.results.attention import Chosen
from attnscan.results.heads import HeadScores
from attnscan.results.scores import best_first
from attnscan.scan import pair_scan as reading
from attnscan.scan.one_input import classify_input
from attnscan.scan.options import ScanOptions
from attnscan.scan.pair_scan import finish_scan, read_batches, scan
from attnscan.scan.scanner import open_scanner
from attnscan.scan.state import ScanState, half
from attnscan.scan.weights import classify_weights
from attnscan.scoring.patterns import PATTERNS, Pattern

OF_ALL_LENGTHS = [
    *PAIRS,
    ARTICLE,
    Pair("The cat sat on the mat.", "The cat lay on the rug."),
    Pair("A single sentence, with the same word: word."),
    Pair(
        "Yes.",
        "No, no, no, that is not what the old man had in mind "
        "when he asked for strawberries and cream.",
    ),
    Pair("Unbelievably, the transformers transformed."),
]


@pytest.mark.parametrize("unit", ["token", "word"])
def test_batch_size_and_order_change_nothing(options: ScanOptions, unit: Any) -> None:

    def far(batch: EncodedBatch) -> torch.Tensor:
        return (batch.offset.abs() > 1) & batch.same_sentence

    pattern = Pattern("far", "F", far, "words of the same sentence, not beside it")
    options = replace(options, unit=unit, patterns=(*PATTERNS, pattern), on_long="truncate")
    expected = scan_shard(options, OF_ALL_LENGTHS)
    for batch_tokens, pairs in (
        (1, OF_ALL_LENGTHS),
        (50, OF_ALL_LENGTHS),
        (10_000, OF_ALL_LENGTHS[::-1]),
    ):
        assert_equal_sums(
            scan_shard(replace(options, batch_tokens=batch_tokens), pairs), expected, 1e-9
        )


LONG = Pair("the cat " * 40, "a mat")


def test_long_inputs_are_cut_skipped_or_refused_and_counted(options: ScanOptions) -> None:
    records = records_of([PAIRS[0], LONG, PAIRS[1]])
    for on_long, counts in (("truncate", (3, 1, 0)), ("skip", (3, 0, 1))):
        with open_scanner(replace(options, on_long=on_long)) as scanner:  # type: ignore[arg-type]
            seen = states_of(scanner, records)[-1].seen
        assert (seen.read, seen.truncated, seen.skipped) == counts
    with (
        open_scanner(options) as scanner,
        pytest.raises(TooLongError, match=r"pairs.tsv:3: the input is \d+ tokens"),
    ):
        states_of(scanner, records)


def test_a_pair_that_cannot_be_tokenized_is_placed_or_skipped(options: ScanOptions) -> None:
    records = records_of([PAIRS[0], Pair("\u200b", "a"), PAIRS[1]])
    with open_scanner(options) as scanner:
        with pytest.raises(
            InputError, match=r"pairs\.tsv:3: the tokenizer finds no word in sentence A"
        ):
            states_of(scanner, records)
        bad: list[InputError] = []
        seen = states_of(scanner, records, on_bad=bad.append)[-1].seen
    assert len(bad) == 1 and (seen.read, seen.skipped) == (3, 1)


def test_heads_are_ranked_by_one_half_and_scored_by_the_other(options: ScanOptions) -> None:
    """Each half's numbers are those of a scan of that half alone, in any order.

    A doubled pair is in one half.
    """
    pairs = [*PAIRS, *PAIRS[:4]]
    first = [pair for pair in pairs if half(pair, options.seed) == 0]
    second = [pair for pair in pairs if half(pair, options.seed) == 1]
    assert min(len(first), len(second)) > 10
    with open_scanner(replace(options, split=True)) as scanner:
        ranking = finish_scan(scanner, states_of(scanner, records_of(pairs[::-1]))[-1])
    assert ranking.ranked_by is not None
    for scores, subset in ((ranking.ranked_by, first), (ranking.scores, second)):
        with open_scanner(options) as scanner:
            alone = finish_scan(scanner, states_of(scanner, records_of(subset))[-1]).scores
        for name in ("score", "chance", "se", "n", "pairs"):
            values = getattr(scores.every_key, name)
            expected = getattr(alone.every_key, name)
            assert_allclose(values, expected, rtol=1e-9, atol=1e-7, err_msg=name)
    p = ranking.scores.patterns.index("previous-word")
    assert (
        ranking.order("previous-word").tolist()
        == best_first(ranking.ranked_by.every_key.score[..., p]).tolist()
    )


def test_a_half_without_a_pair_is_an_error(options: ScanOptions) -> None:
    for which in (0, 1):
        one = next(pair for pair in PAIRS if half(pair, options.seed) == which)
        with open_scanner(replace(options, split=True)) as scanner:
            state = states_of(scanner, records_of([one]))[-1]
            with pytest.raises(
                InputError, match="no pair in one of the two halves; give more pairs"
            ):
                finish_scan(scanner, state)


def _scanned(options: ScanOptions, pairs: list[Pair]) -> HeadScores:
    with open_scanner(options) as scanner:
        return finish_scan(scanner, states_of(scanner, records_of(pairs))[-1])


def test_a_sample_is_measured_and_other_patterns_are_left_alone() -> None:
    pairs = [Pair(f"the cat number {i} sat", "a cat") for i in range(5)]
    options = ScanOptions(model="bundled", predictive_pairs=3, predictive_words=4, related=False)
    scores = _scanned(options, pairs).scores
    without = _scanned(replace(options, predictive="off"), pairs).scores
    predictive = scores.patterns.index("predictive")
    assert (scores.every_key.pairs[..., predictive] == 3).all()
    assert np.isfinite(scores.every_key.se[..., predictive]).all()
    others = [p for p in range(len(scores.patterns)) if p != predictive]
    assert_allclose(
        scores.every_key.score[..., others], without.every_key.score[..., others], atol=1e-6
    )
    assert_allclose(scores.means["entropy"], without.means["entropy"], atol=1e-6)


@pytest.mark.parametrize(
    ("fits", "too_much", "watched"),
    [
        ((8000, None, 0), (8001, None, 0), False),
        ((3000, None, 1), (3600, None, 1), False),
        ((8000, range(1000), 1), (8000, range(1300), 1), False),
        (
            (3000, None, 0),
            (6000, None, 0),
            True,
        ),  # as of DeBERTa, which computes all heads of a layer together
    ],
)
def test_what_memory_does_not_hold_is_refused_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch, fits: Any, too_much: Any, watched: bool
) -> None:
    with open_scanner(BUNDLED) as scanner:
        grid = scanner.grid()
        needs = 150_000 * 8000
        kept = 0 if fits[2] == 0 and not watched else 4 * 72 * 3000**2
        monkeypatch.setattr(memory, "free_memory", lambda: needs + kept)
        monkeypatch.setattr(scanner.tap, "calls", replace(scanner.tap.calls, uses_tap=not watched))

        def check(tokens: int, rows: Any, copies: int) -> None:
            scanner.check_room(tokens, None if rows is None else Chosen(grid, tuple(rows)), copies)

        check(*fits)
        with pytest.raises(
            MemoryFullError, match=rf"{too_much[0]:,} tokens takes .* GB of memory are free"
        ):
            check(*too_much)


def _states(options: ScanOptions) -> tuple[list[ScanState], Any]:
    """All states, and the finished ranking with `predictive`."""
    with open_scanner(options) as scanner:
        states = states_of(scanner, RECORDS)
        return states, finish_scan(scanner, states[-1]).to_frame()


@pytest.mark.parametrize("unit", ["token", "word"])
def test_a_scan_is_the_same_to_the_last_bit(
    toy: str, unit: Any, threads: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker's products are those of one thread, and sums add in the order of the pairs."""
    monkeypatch.setattr(reading, "_BATCHES_IN_WINDOW", (4, 4))
    monkeypatch.setattr(reading, "_TOKENS_IN_WINDOW", 1)
    pool = Mock(wraps=ThreadPoolExecutor)
    monkeypatch.setattr(side_by_side, "ThreadPoolExecutor", pool)
    options = ScanOptions(
        model=toy, predictive="distance", predictive_pairs=3, batch_tokens=60, unit=unit
    )
    threads(1)
    states, frame = _states(options)
    assert len(states) > 2 and {call.args[0] for call in pool.call_args_list} == {1}
    pool.reset_mock()
    threads(4)
    others, other = _states(options)
    assert [call.args[0] for call in pool.call_args_list] == [4, 4]  # to score, and to ask
    assert [state.seen for state in others] == [state.seen for state in states]
    assert other.equals(frame)


def test_as_many_items_are_worked_on_at_once_as_there_are_threads() -> None:
    meeting = Barrier(3, timeout=60)  # which breaks where one works alone
    done = [item for item, _ in parallel_map(3, range(6), lambda _: meeting.wait())]
    assert done == list(range(6))


def test_pairs_of_their_own_come_in_order(toy: str, threads: Callable[[int], None]) -> None:

    class Rows:
        """An observer that notes where pairs stand in their file."""

        def __init__(self) -> None:
            self.rows: list[int] = []

        def consumers(self, _inputs: Sequence[EncodedInput]) -> tuple[()]:
            return ()

        def measure(self, inputs: Sequence[EncodedInput], *_: Any) -> list[int]:
            return [encoded.place.row for encoded in inputs]

        def take(self, measured: list[int]) -> None:
            self.rows += measured

    observers = (Rows(), Rows())
    for count, observer in zip((1, 3), observers, strict=True):
        threads(count)
        with open_scanner(ScanOptions(model=toy, predictive="off", batch_tokens=60)) as scanner:
            scan(scanner, RECORDS, observer=observer)
    first, second = observers
    assert first.rows == second.rows and sorted(first.rows) == list(range(1, 41))


def test_ctrl_c_leaves_the_model_and_the_threads_as_they_were(
    toy: str, threads: Callable[[int], None]
) -> None:
    threads(4)
    with open_scanner(ScanOptions(model=toy, predictive="distance", batch_tokens=60)) as scanner:
        model = scanner.loaded.model
        before = scanner.loaded.model.config._attn_implementation
        with pytest.raises(KeyboardInterrupt):
            scan(scanner, RECORDS, keep=Mock(side_effect=KeyboardInterrupt))
        assert model.config._attn_implementation == before
        assert not [
            module
            for module in model.modules()
            if module._forward_hooks or module._forward_pre_hooks
        ]
    assert (
        ThreadPoolExecutor(1).submit(torch.get_num_threads).result() == 4
    )  # a thread begins with what was set last


DIFFERENT = [
    Pair(f"the cat number {i} sat on {i % 7} mats", f"a cat ran {i} times to the store")
    for i in range(30)
]
LABELLED = replace(BUNDLED, labelled=True, predictive="off")


def test_of_one_pair_patterns_and_rest_are_those_of_classify() -> None:
    """Habits are not: of many pairs they must hold by a test."""
    labels = _scanned(LABELLED, DIFFERENT[:1]).labels
    with open_scanner(replace(LABELLED, labelled=False)) as scanner:
        alone = classify_input(scanner, DIFFERENT[0]).labels
    assert (
        (labels.follows == alone.follows).all()
        and (labels.rests == alone.rests).all()
        and labels.rests.any()
    )
    assert labels.among_words[labels.follows].tolist() == alone.among_words[alone.follows].tolist()
    assert labels.label_stability is not None and np.isnan(labels.label_stability).all()


TEXTS = [(pair.a, pair.b) for pair in PAIRS]


def test_the_rows_of_all_pairs_have_the_means_of_the_scan(tmp_path: Path) -> None:
    path = tmp_path / "pairs.parquet"
    names = [pattern.id for pattern in PATTERNS]
    how: Any = {"predictive_pairs": 3, "predictive_words": 4}
    ranking = attnscan.heads(TEXTS, model="bundled", per_pair=path, **how)
    table = pd.read_parquet(path)
    assert set(map(str, table.dtypes)) == {"category", "int64", "int32", "float32"}
    assert set(table.loc[table["pattern"] == "next-word", "pair"]) == set(range(1, 41))
    assert table.loc[table["pattern"] == "predictive", "pair"].nunique() == 3
    numbers = table.select_dtypes("number").astype(float)
    for prefix, kind in (("", ranking.scores.every_key), ("words_", ranking.scores.words_only)):
        for column, means in (
            ("score", kind.score),
            ("chance", kind.chance),
            ("self", kind.self_mass),
        ):
            parts = table[["pattern", "layer", "head"]].assign(
                n=numbers[f"{prefix}n"], sum=numbers[f"{prefix}{column}"] * numbers[f"{prefix}n"]
            )
            sums = parts[parts["n"] > 0].groupby(["pattern", "layer", "head"], observed=True).sum()
            for place, name in enumerate(names):
                found = (sums["sum"] / sums["n"]).loc[name].to_numpy().reshape(ranking.grid.shape)
                assert_allclose(
                    found, means[..., place], atol=1e-6, err_msg=f"{name} {prefix}{column}"
                )
    about = json.loads(pa.parquet.read_metadata(path).metadata[b"attnscan"])
    signature = {**asdict(ranking.signature), "layers": []}
    assert about == {"signature": signature, "patterns": names, "grid": list(ranking.grid.shape)}


def test_saved_causal_weights_are_judged_by_the_keys_they_may_see() -> None:
    """Words that spread evenly over themselves and what is before them are at chance, not above."""
    from attnscan.inputs.weights import SavedWeights

    even = np.tril(np.ones((4, 4), dtype=np.float32))
    even /= even.sum(-1, keepdims=True)
    saved = SavedWeights(
        even[None, None], ("the", "cat", "sat", "down"), (0,) * 4, (False,) * 4, (False,) * 4
    )
    scores = classify_weights(saved, "causal", ScanOptions()).scores
    previous = scores.patterns.index("previous-word")
    assert scores.every_key.score[0, 0, previous] == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3)
    assert scores.every_key.above_chance[0, 0, previous] == pytest.approx(0, abs=1e-6)
    assert np.isnan(scores.every_key.score[0, 0, scores.patterns.index("delimiter")])


def test_the_best_measure_that_the_checkpoint_allows(tmp_path: Path) -> None:
    torch.manual_seed(0)
    whole = BertForMaskedLM(BertConfig(**SMALL))
    with_head = str(save(tmp_path / "lm", whole))
    bare = str(save(tmp_path / "bare", whole.bert))
    pair = Pair("the cat sat", "the cat")
    for model, measure, used in (
        (with_head, "auto", "cpmi"),
        (with_head, "distance", "distance"),
        (with_head, "off", "off"),
        (bare, "auto", "distance"),
    ):
        result = classify(pair, ScanOptions(model=model, predictive=measure))  # type: ignore[arg-type]
        assert result.signature.predictive == used
        assert ("predictive" in result.not_measured) == (used == "off")
    with pytest.raises(ModelError, match=r"predictive='cpmi' .* no masked-LM head"):
        classify(pair, ScanOptions(model=bare, predictive="cpmi"))


def test_scores_are_the_mean_of_weights_on_kept_targets() -> None:
    options = replace(BUNDLED, predictive="off", unit="word")
    assert classify(ARTICLE, options).targets == ()
    result = classify(ARTICLE, options, keep=True)
    for kept in (
        result,
        classify_weights(
            result.kept_attention().saved(), "again", replace(options, related=False), keep=True
        ),
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
                assert inside.sum(-1)[rows].mean() == pytest.approx(
                    kept.scores.every_key.score[1, 8, p], abs=1e-5
                )


RELATED = Pair("The king went to war.", "The queen won the battle, and the war.")


def test_what_counted_as_related_is_listed() -> None:
    result = classify(RELATED, replace(BUNDLED, predictive="off"))
    king = result.units.index("king")
    war = result.units.index("war")
    queen = result.units.index("queen")
    battle = result.units.index("battle")
    again = result.units.index("war", battle)
    assert set(result.related) == {(king, queen), (war, battle), (battle, again)}
    assert result.notes == ("related words: king – queen, war – battle",)
    assert result.to_frame().attrs["related"] == [list(pair) for pair in result.related]
    without = classify(RELATED, replace(BUNDLED, predictive="off", related=False))
    assert without.related == () and without.notes == ()


def test_memory_does_not_grow_with_the_stream(toy: str) -> None:
    """Ten times as many records would take ten times as much if they were held."""

    def peak(count: int) -> int:
        records = (Record(Pair(f"the cat sat on mat {number}"), "") for number in range(count))
        tracemalloc.start()
        with open_scanner(ScanOptions(model=toy, predictive="off", batch_tokens=60)) as scanner:
            tracemalloc.reset_peak()
            for _ in read_batches(scanner, records):
                pass
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(300)  # what is made once
    assert peak(3000) < 3 * peak(300)

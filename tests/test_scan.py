"""Many pairs: sums that add whatever the batches, the order and the shards; stopping and going on."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from toy import save_toy_bert

from attnscan import windows as reading
from attnscan.batch import EncodedBatch
from attnscan.engine import ScanState, scan, scan_shard
from attnscan.errors import DeviceError, InputError, MemoryFullError, OutputError, StateError, TooLongError
from attnscan.files.lock import held
from attnscan.files.per_pair import PerPairWriter, finish_directory, rank_file
from attnscan.files.state import load_state, save_state
from attnscan.options import ScanOptions
from attnscan.pairs import Pair, Record
from attnscan.patterns import PATTERNS, Pattern
from attnscan.scanner import Scanner
from attnscan.sums import ScoreSums, Sums
from attnscan.windows import Seen, unseen, windows

PAIRS = [Pair(f"the cat sat on {i % 7} mats" + " ." * (i % 5), f"a cat ran {i} times to the store") for i in range(40)]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> str:
    plan = {(0, 0): "next-word", (1, 1): "previous-word", (1, 2): "cross-sentence"}
    return str(save_toy_bert(tmp_path_factory.mktemp("toy"), 2, 3, plan))


@pytest.fixture
def options(toy: str) -> ScanOptions:
    return ScanOptions(model=toy, predictive="off", batch_tokens=120)


def _records(pairs: list[Pair]) -> list[Record]:
    return [Record(pair, f"pairs.tsv:{line}") for line, pair in enumerate(pairs, 2)]


def _states(scanner: Scanner, records: Any, start: ScanState | None = None, **more: Any) -> list[ScanState]:
    return list(scan(scanner, records, start, **more))


def _equal(one: ScoreSums, other: ScoreSums, tolerance: float) -> None:
    for kind in ("every_key", "words_only"):
        for field in fields(Sums):
            found, expected = (getattr(getattr(sums, kind), field.name) for sums in (one, other))
            assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=f"{kind} {field.name}")
    assert_allclose(one.entropy, other.entropy, rtol=tolerance)
    assert one.words == other.words


def test_batch_size_and_order_change_nothing(options: ScanOptions) -> None:
    expected = scan_shard(options, PAIRS)
    for batch_tokens, pairs in ((1, PAIRS), (50, PAIRS), (10_000, PAIRS), (120, PAIRS[::-1])):
        _equal(scan_shard(replace(options, batch_tokens=batch_tokens), pairs), expected, 1e-9)


@pytest.mark.parametrize("shards", [2, 3, 7])
def test_shards_add_up(options: ScanOptions, shards: int) -> None:
    parts = [scan_shard(options, PAIRS[i::shards]) for i in range(shards)]
    _equal(reduce(add, parts), scan_shard(options, PAIRS), 1e-9)
    _equal(reduce(add, parts), reduce(add, reversed(parts)), 1e-12)


def test_planted_heads_lead_the_ranking(options: ScanOptions) -> None:
    with Scanner(options) as scanner:
        ranking = _states(scanner, _records(PAIRS))[-1].finish(scanner)
    table = ranking.to_frame().groupby("pattern").first()
    for pattern, place in (("next-word", (0, 0)), ("previous-word", (1, 1)), ("cross-sentence", (1, 2))):
        assert tuple(table.loc[pattern, ["layer", "head"]]) == place
        assert table.loc[pattern, "score"] == pytest.approx(1, abs=1e-5)
    assert ranking.signature.pairs_read == 40


def test_a_ranking_has_the_columns_of_the_contract(options: ScanOptions) -> None:
    with Scanner(options) as scanner:
        ranking = _states(scanner, _records(PAIRS))[-1].finish(scanner)
    frame = ranking.to_frame(["delimiter", "next-word"], 4)
    columns = ["model", "pattern", "rank", "layer", "head", "score", "chance", "above_chance", "se", "n", "pairs"]
    assert frame.columns.tolist() == columns
    assert frame["pattern"].tolist() == ["delimiter"] * 4 + ["next-word"] * 4
    assert frame["rank"].tolist() == [1, 2, 3, 4] * 2
    assert frame.groupby("pattern")["score"].is_monotonic_decreasing.all()


def test_only_what_is_asked_for_is_computed(options: ScanOptions) -> None:
    asked = replace(options, predictive="auto", patterns=(PATTERNS[0],))
    with Scanner(asked) as scanner:
        assert scanner.measure is None
        state = _states(scanner, _records(PAIRS))[-1]
        assert state.sums is not None and state.sums.patterns == ("next-word",)


def test_no_pair_is_an_error(options: ScanOptions) -> None:
    with pytest.raises(InputError, match="no pair"):
        scan_shard(options, [])
    with Scanner(options) as scanner, pytest.raises(InputError, match="no pair"):
        ScanState().finish(scanner)


LONG = Pair("the cat " * 40, "a mat")


def test_long_inputs_are_cut_skipped_or_refused_and_counted(options: ScanOptions) -> None:
    records = _records([PAIRS[0], LONG, PAIRS[1]])
    for on_long, counts in (("truncate", (3, 1, 0)), ("skip", (3, 0, 1))):
        with Scanner(replace(options, on_long=on_long)) as scanner:  # type: ignore[arg-type]
            seen = _states(scanner, records)[-1].seen
        assert (seen.read, seen.truncated, seen.skipped) == counts
    with Scanner(options) as scanner, pytest.raises(TooLongError, match=r"pairs.tsv:3: the input is \d+ tokens"):
        _states(scanner, records)


def test_a_pair_that_the_tokenizer_cannot_read_is_placed_or_skipped(options: ScanOptions) -> None:
    records = _records([PAIRS[0], Pair("\u200b", "a"), PAIRS[1]])
    with Scanner(options) as scanner:
        with pytest.raises(InputError, match=r"pairs\.tsv:3: the tokenizer finds no word in sentence A"):
            _states(scanner, records)
        bad: list[InputError] = []
        seen = _states(scanner, records, on_bad=bad.append)[-1].seen
    assert len(bad) == 1 and (seen.read, seen.skipped) == (3, 1)


def test_all_skipped_is_no_pair(options: ScanOptions) -> None:
    with Scanner(replace(options, on_long="skip")) as scanner:
        state = _states(scanner, _records([LONG]))[-1]
        with pytest.raises(InputError, match="no pair"):
            state.finish(scanner)


def test_a_window_to_sort_is_four_batches_or_sixteen_thousand_tokens(options: ScanOptions) -> None:
    """More batches than four where they are small, and no more than sixteen."""
    pairs = PAIRS * 100
    for batch_tokens, tokens in ((None, 16_384), (8192, 32_768), (2048, 16_384), (256, 4096)):
        with Scanner(replace(options, batch_tokens=batch_tokens)) as scanner:
            first, _ = next(windows(scanner, _records(pairs), Seen()))
        found = sum(len(one.tokens) for batch in first for one in batch)
        assert tokens <= found < tokens + 50


# Stopping and going on


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_BATCHES_IN_WINDOW", (1, 1))


@pytest.mark.usefixtures("small_windows")
def test_a_run_stopped_anywhere_and_gone_on_with_is_the_run_that_was_not(options: ScanOptions, tmp_path: Path) -> None:
    """To the last bit: states lie between windows, so the same batches are run."""
    sampling = replace(options, predictive="distance", predictive_pairs=3)
    with Scanner(sampling) as scanner:
        states = _states(scanner, _records(PAIRS))
        assert len(states) > 5
        for stop in (0, 2, len(states) - 1):
            path = tmp_path / f"{stop}.json"
            save_state(path, states[stop], scanner)
            state = load_state(path, scanner)
            assert state.seen == states[stop].seen
            rest = unseen(_records(PAIRS), state.seen, sampling)
            after = [state, *_states(scanner, rest, state)][-1]
            assert after.seen == states[-1].seen
            assert after.sums is not None and states[-1].sums is not None
            _equal(after.sums, states[-1].sums, 0)


@pytest.mark.usefixtures("small_windows")
def test_a_state_of_other_pairs_is_refused(options: ScanOptions) -> None:
    with Scanner(options) as scanner:
        seen = _states(scanner, _records(PAIRS[:10]))[-1].seen
    for other in (PAIRS[1:11], PAIRS[:5], [*PAIRS[:9], Pair("the cat")], PAIRS[9::-1]):
        with pytest.raises(StateError, match="other pairs"):
            list(unseen(_records(other), seen, options))
    assert [record.pair for record in unseen(_records(PAIRS[:12]), seen, options)] == PAIRS[10:12]


@pytest.mark.parametrize(
    "other",
    [
        {"unit": "word"},
        {"related": False},
        {"seed": 1},
        {"on_long": "skip"},
        {"patterns": PATTERNS[:2]},
        {"predictive": "distance"},
        {"model": "bundled"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_state_of_other_options_is_refused(options: ScanOptions, tmp_path: Path, other: dict[str, Any]) -> None:
    path = tmp_path / "state.json"
    with Scanner(options) as scanner:
        save_state(path, _states(scanner, _records(PAIRS[:4]))[-1], scanner)
    with Scanner(replace(options, **other)) as scanner, pytest.raises(StateError, match="another run: its"):
        load_state(path, scanner)


def test_a_damaged_state_is_refused_or_read_right(options: ScanOptions, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    with Scanner(options) as scanner:
        state = _states(scanner, _records(PAIRS[:4]))[-1]
        save_state(path, state, scanner)
        whole = path.read_bytes()
        for end in range(0, len(whole), 97):
            path.write_bytes(whole[:end])
            with pytest.raises(StateError):
                load_state(path, scanner)
        data = json.loads(whole)
        for damage in ("format", "seen", "sums", "fingerprint"):
            path.write_text(json.dumps({key: value for key, value in data.items() if key != damage}))
            with pytest.raises(StateError):
                load_state(path, scanner)
        for name, value in (("read", 3), ("digest", "x"), ("skipped", -1)):
            path.write_text(json.dumps({**data, "seen": {**data["seen"], name: value}}))
            with pytest.raises(StateError, match="not a sound state file"):
                load_state(path, scanner)
        data["sums"]["every_key"]["n"][0] = [[1.0]]
        path.write_text(json.dumps(data))
        with pytest.raises(StateError):
            load_state(path, scanner)


def test_one_run_at_a_time_holds_a_state_file(tmp_path: Path) -> None:
    path, link = tmp_path / "state.json", tmp_path / "link"
    link.symlink_to(path)
    with held(path):
        for name in (path, link):
            with pytest.raises(StateError, match="another run holds the state file"), held(name):
                pass
        with held(tmp_path / "another.json"):
            pass
    with held(link):
        pass
    assert list(tmp_path.iterdir()) == [link]


def test_the_sample_does_not_depend_on_order() -> None:
    options = ScanOptions(predictive_pairs=4)

    def sampled(pairs: list[Pair], seed: int = 0) -> set[Pair]:
        seen = Seen()
        for pair in pairs:
            seen = seen.and_then(pair, replace(options, seed=seed), truncated=False, skipped=False)
        return {pair for _, _, pair in seen.sample}

    assert sampled(PAIRS) == sampled(PAIRS[::-1]) == sampled(PAIRS * 2)
    assert len(sampled(PAIRS)) == 4 and sampled(PAIRS) != sampled(PAIRS, seed=1)


# An accelerator's memory


def test_a_batch_that_does_not_fit_is_halved(options: ScanOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = scan_shard(options, PAIRS)
    score, sizes = Scanner.score, []

    def small(self: Scanner, inputs: Any, *rest: Any, **more: Any) -> ScoreSums:
        if len(inputs) > 2:
            raise torch.OutOfMemoryError
        sizes.append(len(inputs))
        return score(self, inputs, *rest, **more)

    monkeypatch.setattr(Scanner, "score", small)
    _equal(scan_shard(options, PAIRS), expected, 1e-9)
    assert sum(sizes) == 40 and max(sizes) == 2


def test_a_batch_that_the_model_itself_has_no_room_for_is_halved(options: ScanOptions, of_little_memory: Any) -> None:
    expected = scan_shard(options, PAIRS)
    with Scanner(options) as scanner, of_little_memory(scanner.loaded.model, 2) as sizes:
        sums = _states(scanner, _records(PAIRS))[-1].sums
        assert sums is not None and max(sizes) > 2
        _equal(sums, expected, 1e-9)
        with pytest.raises(MemoryFullError, match="do not fit into the device's memory"):
            scanner.score([scanner.encode(Pair("the cat", "sat"))] * 3)


def test_batches_on_a_gpu_fit_the_memory_that_is_free(options: ScanOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the device: what is asked of it is how much memory is free."""
    with Scanner(options) as scanner:
        on_gpu = replace(scanner.loaded, device=torch.device("cuda"))
    sizes = []
    for free in (1 << 20, 1 << 30):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _, free=free: (free, 1 << 40))
        room = on_gpu.room(None)
        assert room.cells is not None and room.cells * 3 * 4 <= free / 2  # of three heads, in float32
        sizes.append(sum(room.holds(inputs, 512) for inputs in range(1, 200)))
    assert sizes[0] == 0 and 0 < sizes[1] < 128
    assert on_gpu.room(100).tokens == 100


def test_batches_on_a_cpu_are_smaller_for_wider_models(options: ScanOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    with Scanner(options) as scanner:
        for width in (32, 384, 768, 100_000):
            monkeypatch.setattr(scanner.loaded.model.config, "hidden_size", width)
            sizes.append(scanner.loaded.room(None).tokens)
        assert scanner.loaded.room(100).tokens == 100
    assert sizes == [4096, 2048, 1024, 256]


def test_one_input_that_does_not_fit_is_an_error(options: ScanOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any, **__: Any) -> ScoreSums:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(Scanner, "score", none)
    with pytest.raises(DeviceError, match="does not fit into the memory"):
        scan_shard(options, PAIRS[:3])


def test_the_memory_of_a_cpu_runs_out_too(options: ScanOptions) -> None:
    """Torch says so by an error without a class of its own."""

    def huge(*_: Any) -> None:
        torch.empty(1 << 50)

    with Scanner(options) as scanner:
        scanner.loaded.model.register_forward_pre_hook(huge)
        with pytest.raises(DeviceError, match=r"of the cpu; use shorter inputs$"):
            _states(scanner, _records(PAIRS[:3]))


# Every pair's own scores


def test_a_file_of_every_pair_ranks_as_the_scan_did(options: ScanOptions, tmp_path: Path) -> None:
    path = tmp_path / "pairs.parquet"
    sampling = replace(options, model="bundled", predictive="auto", predictive_pairs=3)
    with Scanner(sampling) as scanner, PerPairWriter(path, [p.id for p in PATTERNS]) as writer:
        state = _states(scanner, _records(PAIRS), on_pairs=writer.write)[-1]
        ranking = state.finish(scanner, on_pairs=writer.write)
        assert not path.exists()  # it gets its name when it is whole
        writer.finish(ranking.signature, ranking.scores.grid)
    again = rank_file(path)
    assert again.signature == ranking.signature
    for kind in ("every_key", "words_only"):
        for name in ("score", "chance", "se", "n", "pairs"):
            found, expected = (getattr(getattr(each.scores, kind), name) for each in (again, ranking))
            assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=f"{kind} {name}")
    import pandas as pd

    table = pd.read_parquet(path)
    assert set(table.loc[table["pattern"] == "next-word", "pair"]) == set(range(1, 41))
    assert table.loc[table["pattern"] == "predictive", "pair"].nunique() == 3
    assert table["score"].between(0, 1 + 1e-6).all()


def test_a_directory_of_files_of_pairs_ranks_as_one_file_does(options: ScanOptions, tmp_path: Path) -> None:
    directory, whole, names = tmp_path / "parts", tmp_path / "pairs.parquet", [pattern.id for pattern in PATTERNS]
    parts = ["000000-000000", "000000-000001"]
    with Scanner(options) as scanner, PerPairWriter(whole, names) as writer:
        ranking = _states(scanner, _records(PAIRS), on_pairs=writer.write)[-1].finish(scanner)
        writer.finish(ranking.signature, ranking.scores.grid)
        for part, some in zip(parts, (PAIRS[:15], PAIRS[15:]), strict=True):
            (directory / part).mkdir(parents=True)
            with PerPairWriter(directory / part / "any.parquet", names) as half:
                _states(scanner, _records(some), on_pairs=half.write)
                half.finish(ranking.signature, ranking.scores.grid)
    with pytest.raises(InputError, match="it has no _common_metadata"):
        rank_file(directory)
    finish_directory(directory, ranking.signature, names, ranking.scores.grid, parts)
    found, expected = rank_file(directory), rank_file(whole)
    assert found.signature == expected.signature
    for name in ("score", "chance", "se", "n", "pairs"):
        a, b = (getattr(each.scores.every_key, name) for each in (found, expected))
        assert_allclose(a, b, rtol=1e-12, atol=1e-12, err_msg=name)
    (directory / parts[1] / "any.parquet").unlink()
    with pytest.raises(InputError, match="its part 000000-000001 is not there"):
        rank_file(directory)
    with pytest.raises(OutputError, match="1 of 2 parts"):
        finish_directory(directory, ranking.signature, names, ranking.scores.grid, parts)
    finish_directory(directory, ranking.signature, names, ranking.scores.grid, [])
    assert (rank_file(directory).scores.every_key.n == 0).all()


def test_an_unfinished_file_of_pairs_leaves_nothing_behind(options: ScanOptions, tmp_path: Path) -> None:
    writing = PerPairWriter(tmp_path / "pairs.parquet", [p.id for p in PATTERNS])
    with pytest.raises(ZeroDivisionError), Scanner(options) as scanner, writing as writer:
        _states(scanner, _records(PAIRS[:5]), on_pairs=writer.write)
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_other_files_are_no_files_of_pairs(tmp_path: Path) -> None:
    import pandas as pd

    path = tmp_path / "other.parquet"
    pd.DataFrame({"a": [1]}).to_parquet(path)
    with pytest.raises(InputError, match="not a file that --per-pair wrote"):
        rank_file(path)
    path.write_bytes(b"PAR1" + bytes(100))
    with pytest.raises(InputError, match="not a file that --per-pair wrote"):
        rank_file(path)
    with pytest.raises(InputError, match="there is no file"):
        rank_file(tmp_path / "missing.parquet")


def test_numbers_agree_with_a_plain_loop_over_the_model(bundled_dir: Path) -> None:
    """One pair at a time, `output_attentions=True`, loops."""
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
    table = scan_shard(options, pairs).finish()
    for layer, head in ((0, 2), (1, 8), (5, 11)):
        expected = reference.scores(written, [matrix[layer, head] for matrix in weights])
        for name, (score, chance, se, n, count) in expected.items():
            place = (layer, head, table.patterns.index(name))
            found = [getattr(table.every_key, each)[place] for each in ("score", "chance", "se", "n", "pairs")]
            assert_allclose(found, [score, chance, se, n, count], atol=1e-5, err_msg=name)
    assert np.isnan(table.every_key.score[..., table.patterns.index("predictive")]).all()


def test_dense_patterns_of_ones_own_do_not_depend_on_the_batch_either(options: ScanOptions) -> None:
    def far(batch: EncodedBatch) -> torch.Tensor:
        return (batch.offset.abs() > 1) & batch.same_sentence

    own = replace(options, patterns=(*PATTERNS, Pattern("far", "F", far, "words of the same sentence, not beside it")))
    _equal(scan_shard(replace(own, batch_tokens=1), PAIRS), scan_shard(replace(own, batch_tokens=10_000), PAIRS), 1e-12)

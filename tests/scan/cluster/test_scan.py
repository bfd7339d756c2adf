"""The scan on a cluster: the same table as here, whatever dies on the way. One machine plays several."""

from __future__ import annotations

import os
import pickle
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose
from scans import assert_equal_profiles, ranked, states_of, write
from tiny_checkpoints import with_weights
from toy import ARTICLES, NOUNS, VERBS, save_toy_bert
from treebanks import planted_file
from typer.testing import CliRunner

import attnscan
from attnscan.cli.app import app
from attnscan.errors import AttnscanError, DeviceError, EngineError, OutputError, PairsError, TooLongError
from attnscan.inputs.batch import EncodedBatch
from attnscan.inputs.columns import FileReading
from attnscan.inputs.pairs import read_pairs
from attnscan.results.ranking import Ranking
from attnscan.scan.cluster import blocks as blocks_module
from attnscan.scan.cluster.blocks import Bad, Block, BlockFiles, row
from attnscan.scan.cluster.progress import ClusterProgress
from attnscan.scan.events import outcome
from attnscan.scan.local import finished, scan
from attnscan.scan.options import ClusterOptions, ScanOptions
from attnscan.scan.per_pair import PerPairWriter, rank_file
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanState
from attnscan.scoring.patterns import PATTERNS, Pattern

ray = pytest.importorskip("ray")
from attnscan.scan.cluster import pair_directory  # noqa: E402
from attnscan.scan.cluster import scan as engine_ray  # noqa: E402
from attnscan.scan.cluster.pair_directory import PairDirectory, write_rows  # noqa: E402
from attnscan.scan.cluster.progress import Asked, BlockResult, Totals  # noqa: E402
from attnscan.scan.cluster.scan import scan_on_ray  # noqa: E402
from attnscan.scan.cluster.worker import AskingActor, Plan, ScoringActor  # noqa: E402

ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not import tests

# Ray's own, when processes that it started end
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")


def on_cluster(test: Any) -> Any:
    """Mark what needs Ray's processes: it takes long, and shares one cluster."""
    return pytest.mark.long(pytest.mark.xdist_group("ray")(pytest.mark.usefixtures("cluster")(test)))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Four files of 300 pairs, one of them with a single pair, which another one has too."""
    directory, draw = tmp_path_factory.mktemp("pairs"), random.Random(0)
    words = [*ARTICLES, *NOUNS, *VERBS, "on", "."]
    lines = ["\t".join(" ".join(draw.choices(words, k=draw.randint(2, 9))) for _ in "AB") for _ in range(299)]
    paths = []
    for name, some in (("a", lines[:150]), ("b", lines[150:170]), ("c", lines[:1]), ("d", lines[170:])):
        path = directory / f"{name}.tsv"
        path.write_text("\n".join(["sentence_a\tsentence_b", *some]))
        paths.append(str(path))
    return paths


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A machine with a core, one that only leads, and what starts others."""
    from ray.cluster_utils import Cluster

    small = {"object_store_memory": 80 << 20}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **small})

    def another() -> Any:
        return made.add_node(num_cpus=1, **small)

    another()
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
    yield made, another
    ray.shutdown()
    made.shutdown()


@pytest.fixture(scope="module")
def with_head(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A toy checkpoint with a task head that no attention depends on."""
    toy = save_toy_bert(tmp_path_factory.mktemp("with") / "head", 2, 3, {(0, 0): "next-word"})
    return str(with_weights(toy, "classifier.weight"))


def told_of(model: str) -> str:
    """What the user is told of `with_head`."""
    return f"attention does not depend on these other parts of the checkpoint {model}: classifier"


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """Workers in this process set it too."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def rank_on_ray(*given: Any, **named: Any) -> tuple[Ranking, Bad]:
    """A scan on Ray that nobody listens to."""
    return outcome(scan_on_ray(*given, **named))


def local(options: ScanOptions, files: list[str], per_pair: Path) -> Ranking:
    """The one-machine engine's table, and every pair's scores in a file."""
    with Scanner(options) as scanner, PerPairWriter(per_pair, [pattern.id for pattern in options.patterns]) as writer:
        state = [ScanState(scanner.options), *states_of(scanner, read_pairs(files), writer=writer)][-1]
        result = outcome(finished(scanner, state), partial(write, writer))
        writer.finish(result.signature, result.scores.grid)
        return result


def assert_equal(found: Ranking, expected: Ranking, *, rtol: float = 1e-9, atol: float = 1e-12) -> None:
    """Every number of every head, and all that the signature says but the order of the input."""
    for kind in ("every_key", "words_only"):
        for field in fields(expected.scores.every_key):
            a, b = (getattr(getattr(each.scores, kind), field.name) for each in (found, expected))
            # A standard error of zero is the root of what rounding leaves
            near = max(1e-7, atol) if field.name in ("se", "se_between") else atol
            assert_allclose(a, b, rtol=rtol, atol=near, err_msg=f"{kind} {field.name}")
    assert_allclose(found.scores.entropy, expected.scores.entropy, rtol=rtol, atol=atol)
    assert replace(found.signature, input_hash="") == replace(expected.signature, input_hash="")


def assert_same_rows(directory: Path, file: Path, files: list[str]) -> None:
    """Every pair's scores are those of the one-machine engine, each once."""
    names = ["file", "pair", "layer", "head", "pattern"]
    found, expected = (
        pd.read_parquet(path).astype({"file": str, "pattern": str}).sort_values(names, ignore_index=True)
        for path in (directory, file)
    )
    assert set(expected["file"]) == set(files)
    pd.testing.assert_frame_equal(found, expected, rtol=1e-6, atol=1e-9)


def plan_of(toy: str, files: list[str], skip_bad: bool = False, block_pairs: int = 8, **other: Any) -> Plan:
    """What workers are told."""
    plan = Plan(
        ScanOptions(model=toy, on_long="truncate"),
        toy,
        BlockFiles(tuple(files), FileReading(), skip_bad, block_pairs),
        1,
    )
    return replace(plan, **other)


def blocks_of(plan: Plan, file: int) -> Iterator[Block]:
    """A file's blocks."""
    return plan.files.blocks(plan.files.parts({})[file])


def added(plan: Plan, blocks: list[Block]) -> Totals:
    """Blocks as one worker here scores them."""
    worker, totals = ScoringActor(plan), begun(plan.options)
    for block in blocks:
        totals.add(worker.score(block, []))
    return totals


def begun(options: ScanOptions) -> Totals:
    """The sums of nothing."""
    return Totals(ClusterProgress(ScanState(options)))


def ranking_of(totals: Totals) -> Ranking:
    made = totals.result()
    assert isinstance(made, Ranking)
    return made


def answered(plan: Plan, totals: Totals) -> Totals:
    """The same, and the sample as one worker here asks about it."""
    asker = AskingActor(plan)
    for number, drawn in enumerate(totals.state.seen.sample):
        totals.add_answer(asker.ask(number, drawn, []))
    return totals


# Without a cluster


def test_what_is_to_be_told_of_a_model_comes_with_every_block(with_head: str, files: list[str]) -> None:
    plan = plan_of(with_head, files, block_pairs=100)
    worker = ScoringActor(plan)
    for number, block in enumerate(blocks_of(plan, 0)):
        block = replace(block, notes=("of the file",)) if number else block
        assert worker.score(block, []).block.notes == ((), ("of the file",))[number] + (told_of(with_head),)


def test_machines_with_other_weights_under_one_name_are_told(toy: str, files: list[str], tmp_path: Path) -> None:
    """When blocks are scored, and when the sample is asked for predictive, by models that are loaded later."""
    other = save_toy_bert(tmp_path / "other", 2, 3, {(0, 1): "identical"})
    plan = plan_of(toy, files, options=ScanOptions(model=toy, predictive_pairs=2))
    elsewhere = replace(plan, options=replace(plan.options, model=str(other)))
    blocks = list(blocks_of(plan, 0))[:2]
    with pytest.raises(EngineError, match="parts of one scan differ: fingerprint "):
        added(plan, blocks[:1]).add(ScoringActor(elsewhere).score(blocks[1], []))
    with pytest.raises(EngineError, match="parts of one scan differ: fingerprint "):
        answered(elsewhere, added(plan, blocks))


@pytest.mark.parametrize("block_pairs", [1, 7, 20, 1000])
def test_blocks_hold_every_record_once_in_order_and_end(toy: str, files: list[str], block_pairs: int) -> None:
    plan = plan_of(toy, files, block_pairs=block_pairs)
    for file, name in enumerate(files):
        blocks = list(blocks_of(plan, file))
        assert [record for block in blocks for record in block.records] == list(read_pairs([name]))
        assert [(block.part, block.number) for block in blocks] == [(file, i) for i in range(len(blocks))]
        assert [block.last for block in blocks] == [False] * (len(blocks) - 1) + [True]
        assert blocks == list(blocks_of(plan, file))


def test_a_block_that_comes_twice_counts_once_and_one_that_is_missing_is_found_out(
    toy: str, files: list[str], tmp_path: Path
) -> None:
    options = ScanOptions(model=toy, on_long="truncate", predictive_pairs=2, predictive_words=4)
    plan = plan_of(toy, files, options=options, block_pairs=20)
    blocks = [block for file in range(len(files)) for block in blocks_of(plan, file)]
    once, twice = added(plan, blocks), added(plan, [*blocks, *blocks[:5]][::-1])
    assert once.state.seen.read == twice.state.seen.read == 300
    assert once.state.seen.digest == twice.state.seen.digest and len(once.state.seen.digest) == 64
    assert once.state.seen.sample == twice.state.seen.sample
    once.check(len(files))
    twice.check(len(files))
    with pytest.raises(EngineError, match="lost pairs"):
        once.result()
    assert_equal(ranking_of(answered(plan, twice)), local(plan.options, files, tmp_path / "local.parquet"))
    found = ScoringActor(plan).score(blocks[0], [])
    assert found.state is not None and found.state.signature is not None
    other = replace(found.state, signature=replace(found.state.signature, torch="1.0"))
    with pytest.raises(EngineError, match=r"differ: torch 1\.0 and .*; use the same"):
        added(plan, blocks[1:2]).add(replace(found, state=other))
    for some in (blocks[:3] + blocks[4:], [block for block in blocks if block.part]):
        with pytest.raises(EngineError, match="lost blocks"):
            added(plan, some).check(len(files))


def test_the_digest_tells_other_pairs_and_how_often_each_is_there(toy: str, files: list[str]) -> None:
    plan = plan_of(toy, files, block_pairs=150)
    (first, *_), (other, *_) = blocks_of(plan, 0), blocks_of(plan, 1)

    def digest(*blocks: Block) -> str:
        return added(plan, [replace(each, part=0, number=i) for i, each in enumerate(blocks)]).state.seen.digest

    digests = {digest(*blocks) for blocks in ([first], [other], [first, other], [first, first])}
    assert len(digests) == 4


def test_samples_of_shards_merge_into_the_sample_of_all(toy: str, files: list[str]) -> None:
    options = ScanOptions(model=toy, on_long="truncate", predictive_pairs=5)
    plan = plan_of(toy, files, options=options, block_pairs=20)
    blocks = [block for file in range(len(files)) for block in blocks_of(plan, file)]
    with Scanner(plan.options) as scanner:
        (*_, whole) = scan(scanner, read_pairs(files))
    assert added(plan, blocks[::-1]).state.seen.sample == whole.seen.sample


@pytest.mark.long
def test_the_sample_is_asked_a_pair_at_a_time(files: list[str], tmp_path: Path) -> None:
    """The toy's words do not help each other; those of a real model do."""
    options = ScanOptions(model="bundled", on_long="truncate", predictive_pairs=3, predictive_words=6, labelled=True)
    names = [str(tmp_path / "few.tsv"), files[2]]
    Path(names[0]).write_text("\n".join(Path(files[1]).read_text().splitlines()[:7]))
    plan = plan_of("bundled", names, per_pair=True, options=options, block_pairs=3)
    totals = added(plan, [block for file in range(2) for block in blocks_of(plan, file)])
    found, expected = ranking_of(answered(plan, totals)), local(options, names, tmp_path / "local.parquet")
    # One machine asks several pairs at once, and on some processors the model's numbers then differ in their last bits
    assert_equal(found, expected, rtol=0, atol=1e-6)
    pd.testing.assert_frame_equal(found.to_labels(), expected.to_labels(), atol=1e-6)
    sample, tables = totals.state.seen.sample, [list[Any]() for _ in range(3)]
    for number, drawn in enumerate(sample):
        assert AskingActor(plan).ask(number, drawn, tables[number]).rows == sum(map(len, tables[number])) > 0
    rows = pd.concat([table.to_pandas().astype({"file": str}) for several in tables for table in several])
    records = {name: list(read_pairs([name])) for name in names}
    rows_of = {records[file][number - 1].pair for file, number in zip(rows["file"], rows["pair"], strict=True)}
    assert set(rows["pattern"]) == {"predictive"} and rows_of == {pair for *_, pair in sample}


def test_heads_ranked_by_one_half_are_so_on_a_cluster(toy: str, files: list[str], tmp_path: Path) -> None:
    options = ScanOptions(model=toy, on_long="truncate", predictive="off", split=True)
    plan = plan_of(toy, files, options=options, block_pairs=30)
    totals = added(plan, [block for file in range(len(files)) for block in blocks_of(plan, file)])
    found, expected = ranking_of(totals), local(options, files, tmp_path / "pairs.parquet")
    assert_equal(found, expected)
    assert found.ranked_by is not None and expected.ranked_by is not None
    for name in ("score", "n", "pairs"):
        a, b = (getattr(ranked_by.every_key, name) for ranked_by in (found.ranked_by, expected.ranked_by))
        assert_allclose(a, b, rtol=1e-9, atol=1e-12)
        assert not np.array_equal(a, getattr(found.scores.every_key, name), equal_nan=True)


@pytest.mark.parametrize("predictive", ["off", "distance"])
def test_profiles_add_up_on_a_cluster(toy: str, files: list[str], predictive: Any) -> None:
    """Asked for `predictive` too, of every pair: nothing is left to ask of a sample."""
    options = ScanOptions(model=toy, on_long="truncate", predictive=predictive, predictive_words=3, profile=True)
    names = files[1:3] if predictive != "off" else files
    plan = plan_of(toy, names, options=options, block_pairs=20)
    blocks = [block for file in range(len(names)) for block in blocks_of(plan, file)]
    totals = added(plan, [*blocks, *blocks[:2]][::-1])
    assert not totals.state.asks
    with Scanner(options) as scanner:
        (*_, state) = scan(scanner, read_pairs(names))
        expected = ranked(scanner, state)
    assert_equal_profiles(totals.state.sums.profile, state.sums.profile, 1e-9)
    found = ranking_of(totals)
    assert_equal(found, expected)
    assert found.profile is not None and expected.profile is not None
    assert found.profile.parts == expected.profile.parts
    assert ("predictive" in found.profile.parts) == (predictive != "off")


def test_files_of_stores_are_not_looked_at_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    monkeypatch.setattr(blocks_module, "size_of", lambda file: looked_at.append(file) or 5)
    local, others = ["a.parquet", "b.pq"], ["c.csv", "d.parquet.gz", "s3://bucket/e.tsv"]
    stored = [f"s3://bucket/{number}.parquet" for number in range(300)]
    for some, expected in ((stored[:3], [*stored[:3], *local]), (stored, local)):
        looked_at.clear()
        assert block_files([*some, *local, *others], 8).cuts() == {} and sorted(looked_at) == sorted(expected)


def test_bad_records_are_counted_and_the_first_ones_told(toy: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.tsv"
    path.write_text("sentence_a\tsentence_b\n" + "the cat\tsat\nthe dog\n" * 6)
    plan = plan_of(toy, [str(path)], skip_bad=True, block_pairs=4)
    totals = added(plan, list(blocks_of(plan, 0)))
    assert (totals.state.seen.read, totals.progress.bad.count, len(totals.progress.bad.first)) == (6, 6, 3)
    assert str(totals.progress.bad.first[0]).startswith(f"{path}:3: ")


def test_errors_travel_as_they_are(toy: str, files: list[str], tmp_path: Path) -> None:
    for error in (PairsError("a", "b"), TooLongError("c", "d"), DeviceError("e")):
        block = pickle.loads(pickle.dumps(BlockResult(Block(0, 0, error=error)))).block
        with pytest.raises(type(error), match=str(error)):
            begun(ScanOptions()).add(BlockResult(block))
        with pytest.raises(type(error), match=str(error)):
            begun(ScanOptions()).add_answer(Asked(0, error=error))
    path = tmp_path / "long.txt"
    path.write_text("the cat\n" + "cat " * 60)
    for plan, where in (
        (plan_of(toy, [str(path)], options=ScanOptions(model=toy, on_long="error")), "long.txt:2: "),
        (plan_of(toy, files, options=ScanOptions(model=str(tmp_path))), str(tmp_path)),
        (plan_of(toy, [str(tmp_path / "none.tsv")]), "none.tsv"),
    ):
        with pytest.raises(AttnscanError, match=where):
            added(plan, list(blocks_of(plan, 0)))


def test_without_ray_one_line_says_how(monkeypatch: pytest.MonkeyPatch, files: list[str]) -> None:
    for name in ("attnscan.scan.cluster.scan", "attnscan.scan.cluster.connection"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)
    done = CliRunner().invoke(app, ["heads", "--pairs", files[0], "--engine", "ray"])
    expected = "attnscan: --engine ray needs Ray, which is not installed; run: pip install 'attnscan[ray]'\n"
    assert (done.exit_code, done.stderr) == (1, expected)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--engine", "ray"], "name them with --pairs"),
        (["--pairs", "p.tsv", "--engine", "ray", "--state", "s", "--per-pair", "d"], "cannot resume from --state"),
        (["--pairs", "-", "--engine", "ray"], "name files that all machines can read"),
        (["--pairs", "p.tsv", "--worker-cpus", "2"], "--worker-cpus is for --engine ray"),
        (["--ray-address", "auto"], "--ray-address is for --engine ray"),
        *(
            (["--pairs", "p.tsv", "--engine", "ray", "--workers", value], "or the least and the most such as 8-64")
            for value in ("0", "-1", "8-4", "0-4", "many", "1e3", "4-", "-4", "1.5", "", "9" * 20)
        ),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(app, ["heads", *arguments])
    assert done.exit_code == 2 and says in " ".join(done.stderr.replace("│", "").split())


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:99999", "ray://127.0.0.1:1", "[::1]:none"])
def test_no_cluster_at_an_address_is_one_line(files: list[str], toy: str, address: str) -> None:
    arguments = ["heads", "--pairs", files[0], "--model", toy, "--engine", "ray", "--ray-address", address]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1 and f"cannot reach a Ray cluster at {address}: " in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_directory_for_every_pairs_scores_is_new_and_whole(toy: str, files: list[str], tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(OutputError, match="is there already"):
        PairDirectory(tmp_path / "there")
    with pytest.raises(OutputError, match=r"cannot write .*No such file"):
        PairDirectory(tmp_path / "none" / "pairs")
    plan = plan_of(toy, files, block_pairs=300)
    ranking = ranking_of(answered(plan, added(plan, [block for file in range(4) for block in blocks_of(plan, file)])))
    with pytest.raises(OutputError, match=r"2 of 2 files .* all machines"), PairDirectory(tmp_path / "new") as made:
        made.parts |= {"000000-000000-000", "000001-000000-000"}
        made.finish(ranking, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


# With one


def watched(directory: Path, may_go_on: Callable[[int, int], bool] = lambda *_: True) -> tuple[Pattern, ...]:
    """The patterns; where the first is looked for, a process adds to a file of its number.

    It goes on when it may after so many looks by so many processes.
    """
    first, *others = PATTERNS
    look = first.target
    assert look is not None

    def target(batch: EncodedBatch) -> Any:
        with (directory / str(os.getpid())).open("a") as file:
            file.write("x")
        looks = looks_in(directory)
        until(lambda: may_go_on(looks, len(list(directory.iterdir()))))
        return look(batch)

    return (replace(first, target=target), *others)


def looks_in(directory: Path) -> int:
    """How often all processes together have looked for the first pattern."""
    return sum(path.stat().st_size for path in directory.iterdir())


def until(done: Callable[[], bool]) -> None:
    """Wait for other processes. Raises: AssertionError after minutes."""
    end = time.monotonic() + 300
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


def block_files(files: list[str], block_pairs: int) -> BlockFiles:
    """Files that are cut into blocks."""
    return BlockFiles(tuple(files), FileReading(), False, block_pairs)


@on_cluster
def test_trees_add_to_what_one_machine_says(tmp_path: Path) -> None:
    """In blocks with other relations each."""
    toy, bank = save_toy_bert(tmp_path / "toy", 2, 3, {(0, 0): "articles to nouns"}), planted_file(tmp_path)
    here = attnscan.syntax(bank, model=str(toy)).to_frame()
    there = attnscan.syntax(bank, model=str(toy), engine="ray", workers=1, block_pairs=50).to_frame()
    pd.testing.assert_frame_equal(here, there)
    assert here.attrs["signature"]["input_hash"] == there.attrs["signature"]["input_hash"]


@on_cluster
def test_whatever_dies_the_tables_are_the_local_engines(
    cluster: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    toy: str,
    files: list[str],
    tmp_path: Path,
) -> None:
    """Three workers and some twenty blocks: at the fifth a worker is killed, at the tenth a machine goes away.

    The fifth comes when all three are at work, the tenth when a fourth is, the thirteenth when the machine has gone.
    """
    (made, another), seen, rows, gone = cluster, tmp_path / "seen", tmp_path / "every pair", tmp_path / "gone"
    monkeypatch.setattr(engine_ray, "pieces_of_file", lambda _: 3)
    _, third = another(), another()
    seen.mkdir()

    def may_go_on(looks: int, processes: int) -> bool:
        return gone.exists() if looks > 12 else processes >= (3 if looks < 5 else 4)

    def harm() -> None:
        until(lambda: looks_in(seen) >= 5)
        os.kill(int(max(seen.iterdir(), key=lambda path: path.stat().st_mtime).name), signal.SIGKILL)
        until(lambda: looks_in(seen) >= 10)
        made.remove_node(third, allow_graceful=False)
        gone.touch()

    threading.Thread(target=harm, daemon=True).start()
    options = ScanOptions(model=toy, on_long="truncate", patterns=watched(seen, may_go_on), predictive_pairs=2)
    result, _ = rank_on_ray(options, block_files(files, 16), ClusterOptions(workers=3), per_pair=rows)
    assert gone.exists() and len(list(seen.iterdir())) >= 4  # three, and one in the place of the first
    told = capsys.readouterr()  # a table that goes to a file holds nothing of it
    assert "raylet" not in told.out and "raylet" in told.err
    assert_equal(result, local(replace(options, patterns=PATTERNS), files, tmp_path / "local.parquet"))
    assert_same_rows(rows, tmp_path / "local.parquet", files)
    again = rank_file(rows)
    assert again.signature == result.signature
    for name in ("score", "chance", "n", "pairs"):
        assert_allclose(getattr(again.scores.words_only, name), getattr(result.scores.words_only, name), rtol=1e-6)
    assert len(list(rows.glob("*.parquet"))) > 5  # and a few bytes that say what they are
    assert sorted(path.name for path in rows.iterdir() if path.suffix != ".parquet") == ["_common_metadata"]


@on_cluster
def test_a_driver_is_killed_in_the_middle_of_a_large_file_and_another_one_goes_on_to_the_same_bytes(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, toy: str, files: list[str], tmp_path: Path
) -> None:
    """The file is read by its row groups, those beside it whole; the driver dies by itself as it keeps its state."""
    monkeypatch.setattr(blocks_module, "PART_BYTES", 1500)
    large, text, small, state = (tmp_path / name for name in ("large.parquet", "large.csv", "small.parquet", "state"))
    sentences = [record.pair.a for record in read_pairs(files[:1])]
    frame = pd.DataFrame({"text1": sentences * 2, "text2": "the cat sat"})
    frame.to_parquet(large, row_group_size=20)
    frame[:60].to_csv(text, index=False)
    frame[:5].to_parquet(small)
    names = [str(large), str(text), str(small)]
    asked = block_files(names, 16)
    cuts = asked.cuts()
    parts = asked.parts(cuts)
    assert list(cuts) == [0] and len(parts) > 4 and {part.file for part in parts} == set(names)
    script = """
import itertools, os, signal
from attnscan.cli.app import app
from attnscan.scan.cluster import blocks, progress
saves, save = itertools.count(1), progress.save_progress
blocks.PART_BYTES, progress.SAVE_EVERY = 1500, 0

def saved(*given):
    save(*given)
    if next(saves) == 7:
        os.kill(os.getpid(), signal.SIGKILL)

progress.save_progress = saved
app()
"""
    heads = ["heads", "--model", toy, "--predictive-pairs", "2", *(f"--pairs={name}" for name in names)]
    scan = [*heads, "--engine", "ray", "--ray-address", cluster[0].address, "--workers", "1", "--block-pairs", "16"]
    here, wanted, again = (tmp_path / f"{name}.csv" for name in ("here", "wanted", "again"))
    rows, rows_here = tmp_path / "rows", tmp_path / "rows.parquet"

    assert CliRunner().invoke(app, [*heads, "-o", str(here), "--per-pair", str(rows_here)]).exit_code == 0
    assert CliRunner().invoke(app, [*scan, "-o", str(wanted), "--per-pair", str(rows)]).exit_code == 0
    pd.testing.assert_frame_equal(pd.read_csv(wanted), pd.read_csv(here), rtol=1e-5, atol=1e-5)
    assert_same_rows(rows, rows_here, names)
    killed = [sys.executable, "-c", script, *scan, "--state", str(state), "-o", str(tmp_path / "none.csv")]
    assert subprocess.run(killed, capture_output=True).returncode == -signal.SIGKILL
    assert state.exists() and not (tmp_path / "none.csv").exists()
    monkeypatch.setattr(BlockFiles, "cuts", None)  # what is gone on with is cut already
    last = CliRunner().invoke(app, [*scan, "--state", str(state), "-o", str(again)])
    assert last.exit_code == 0 and again.read_bytes() == wanted.read_bytes()
    assert 0 < int(re.findall(r"(\d+) pairs in ", last.stderr)[0]) < 300, last.stderr  # of 365


@on_cluster
def test_one_worker_loads_the_model_once_and_what_is_to_be_told_of_it_is_told_once(
    with_head: str, files: list[str], tmp_path: Path
) -> None:
    said, noted = list[str](), list[str]()
    options = ScanOptions(model=with_head, on_long="truncate", patterns=watched(tmp_path), predictive="off")
    result, bad = rank_on_ray(
        options, block_files(files, 40), ClusterOptions(workers=1), say=said.append, note=noted.append
    )
    assert len(list(tmp_path.iterdir())) == 1 and noted == [told_of(with_head)]
    assert_equal(result, local(replace(options, patterns=PATTERNS), files, tmp_path / "local.parquet"))
    assert bad == Bad() and said[-1].startswith("300 pairs in ") and said[-1].endswith(" by 1 workers")


@on_cluster
def test_profiles_of_a_cluster_are_the_local_ones(toy: str, files: list[str], tmp_path: Path) -> None:
    options = ScanOptions(model=toy, on_long="truncate", predictive="off", profile=True)
    result, _ = rank_on_ray(options, block_files(files, 40), ClusterOptions(workers=1))
    expected = local(options, files, tmp_path / "local.parquet")
    assert result.profile is not None and expected.profile is not None
    assert result.profile.parts == expected.profile.parts
    for field in fields(expected.profile.fit):
        ours, theirs = (getattr(ranking.profile.fit, field.name) for ranking in (result, expected))
        assert_allclose(ours, theirs, atol=1e-6, err_msg=field.name)


def test_rows_travel_in_pieces_and_are_written_once_however_often(
    toy: str, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five blocks, packed batch by batch, in files of four pieces; a task that is tried again changes nothing."""
    monkeypatch.setattr(pair_directory, "_PIECE", 1)
    plan = replace(plan_of(toy, files[:2], per_pair=True, block_pairs=50), heads="0-1,layer:1")
    plan = replace(plan, options=replace(plan.options, batch_tokens=200, predictive="off"))
    worker, blocks = ScoringActor(plan), [block for file in range(2) for block in blocks_of(plan, file)]
    handed = [worker(row("block", block)) for block in blocks]
    rows = {name: [cell for each in handed for cell in each[name]] for name in ("found", "rows", "name")}
    assert len(rows["name"]) == len(set(rows["name"])) > 12 and rows["name"][0] == "000000-000000-000"
    totals, made = begun(plan.options), PairDirectory(tmp_path / "new")
    (made.beside / ".000000-000000-000-half").write_bytes(b"of a task that was killed")
    for first in range(0, len(rows["name"]), 4):
        batch = {name: np.array(cells[first : first + 4], dtype=object) for name, cells in rows.items()}
        told = [write_rows(batch, str(made.beside)) for _ in range(2)]
        assert told[0]["part"] == told[1]["part"] == [batch["name"][0]] * len(told[0]["found"])
        made.parts.add(told[0]["part"][0])
        for cell in told[0]["found"]:
            if cell:
                totals.add(pickle.loads(cell))
    totals.check(2)
    made.finish(ranking_of(totals), totals.rows)
    found = pd.read_parquet(tmp_path / "new").astype({"file": str, "pattern": str})
    path = tmp_path / "local.parquet"
    with Scanner(plan.options) as scanner, PerPairWriter(path, [p.id for p in PATTERNS], heads=plan.heads) as writer:
        (*_, state) = states_of(scanner, read_pairs(files[:2]), writer=writer)
        writer.finish(scanner.signature(state.seen), scanner.grid())
    names = ["file", "pair", "layer", "head", "pattern"]
    found, expected = (
        each.sort_values(names, ignore_index=True)
        for each in (found, pd.read_parquet(path).astype({"file": str, "pattern": str}))
    )
    pd.testing.assert_frame_equal(found, expected, rtol=1e-6, atol=1e-9)
    assert len(found) == totals.rows and rank_file(tmp_path / "new").scores.every_key.pairs.max() == 170
    assert {path.name[0] for path in (tmp_path / "new").iterdir()} == {"0", "_"}


def test_a_file_takes_an_eighth_of_the_clusters_store_at_most() -> None:
    assert [pair_directory.pieces_of_file(store) for store in (0, 80 << 20, 1 << 30, 1 << 40)] == [1, 5, 64, 192]


def test_a_disk_that_takes_no_part_ends_the_run_in_one_line(toy: str, files: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    scored = ScoringActor(plan_of(toy, files, per_pair=True))(row("block", next(blocks_of(plan_of(toy, files), 0))))
    told = write_rows(scored, str(tmp_path / "file"))
    with pytest.raises(OutputError, match="cannot write in"):
        raise pickle.loads(told["found"][0])


@on_cluster
def test_every_pairs_rows_of_a_glob_have_their_file_row_and_id(toy: str, tmp_path: Path) -> None:
    names = [str(tmp_path / f"{name}.tsv") for name in ("one", "two")]
    for name in names:
        Path(name).write_text("key\tsentence_a\tsentence_b\n7\tthe cat\tsat\nbroken\n8\ta dog ran\tthe cat ran\n")
    options = ScanOptions(model=toy, on_long="truncate", predictive="distance", predictive_pairs=1)
    files = BlockFiles((str(tmp_path / "*.tsv"),), FileReading(id="key"), True, 1)
    rank_on_ray(options, files, ClusterOptions(workers=1), per_pair=tmp_path / "every")
    rows = pd.read_parquet(tmp_path / "every").astype({"file": str})
    places = set(rows[["file", "pair", "id"]].itertuples(index=False, name=None))
    assert places == {(name, row, key) for name in names for row, key in ((1, "7"), (3, "8"))}
    assert rank_file(tmp_path / "every").scores.every_key.pairs.max() == 4


@on_cluster
def test_what_ends_every_worker_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, toy: str, files: list[str], tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    seen.mkdir()

    def target(_: EncodedBatch) -> Any:
        import os

        (seen / str(os.getpid())).touch()
        os._exit(1)

    monkeypatch.setattr(engine_ray, "_LIVES", 2)
    options = ScanOptions(model=toy, patterns=(replace(PATTERNS[0], target=target),), predictive="off")
    with pytest.raises(
        EngineError, match=r"a worker of the cluster died, and 1 times the one in its place; .*smaller --block"
    ) as e:
        rank_on_ray(options, block_files(files[2:3], 40), ClusterOptions(workers=1), per_pair=tmp_path / "rows")
    assert len(str(e.value).splitlines()) == 1 and len(list(seen.iterdir())) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["seen"]


@on_cluster
def test_a_bad_record_is_named_in_one_line_and_nothing_is_left(toy: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("sentence_a,sentence_b\nthe cat,sat\nthe dog\n")
    arguments = ["heads", "--model", toy, "--pairs", str(tmp_path / "*.csv"), "--engine", "ray", "--workers", "1"]
    done = CliRunner().invoke(app, [*arguments, "--per-pair", str(tmp_path / "rows")])
    assert done.exit_code == 1 and done.stdout == ""
    assert done.stderr.splitlines() == [
        f"attnscan: {bad}:3: its number of fields is 1, and in the first line 2; "
        "correct it, or pass --skip-bad to go on without it"
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]

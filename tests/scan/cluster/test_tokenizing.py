"""Tokenizing ahead of workers: the same to the last bit, whoever does it."""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from toy import ARTICLES, NOUNS, VERBS

from attnscan.errors import AttnscanError, ModelError
from attnscan.inputs.columns import FileReading
from attnscan.model.loaded import LoadedModel
from attnscan.results.ranking import Ranking
from attnscan.scan import events, local
from attnscan.scan.cluster.blocks import Block, BlockFiles, row
from attnscan.scan.cluster.progress import ClusterProgress, Totals
from attnscan.scan.cluster.worker import Plan, ScoringActor, TokenizingActor
from attnscan.scan.options import ClusterOptions, ScanOptions
from attnscan.scan.state import ScanState
from attnscan.scan.stored import arrays_of

LONG = "cat " * 60


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """60 pairs; among them one that is too long, and two in which there is no word."""
    draw, words = random.Random(0), [*ARTICLES, *NOUNS, *VERBS, "on", "."]
    lines = ["\t".join(" ".join(draw.choices(words, k=draw.randint(2, 9))) for _ in "AB") for _ in range(57)]
    lines[10:10], lines[21:21], lines[32:32] = [f"the cat\t{LONG}"], ["\u200b\tsat"], ["the cat\t\u200b"]
    path = tmp_path_factory.mktemp("pairs") / "a.tsv"
    path.write_text("\n".join(["sentence_a\tsentence_b", *lines]))
    return str(path)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """Workers in this process set it too."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def plan_of(toy: str, file: str, *, skip_bad: bool = True, **options: Any) -> Plan:
    chosen = ScanOptions(model=toy, **{"on_long": "truncate", "predictive_pairs": 3, **options})
    return Plan(chosen, toy, BlockFiles((file,), FileReading(), skip_bad, 25), 1, per_pair=True)


def blocks_of(plan: Plan) -> Iterator[Block]:
    """The blocks of the file, which is in one part."""
    (part,) = plan.files.parts({})
    return plan.files.blocks(part)


def outcome(plan: Plan, block: Block) -> Any:
    """All that a worker finds in a block."""
    tables: list[Any] = []
    found = ScoringActor(plan).score(block, tables)
    if found.block.error is not None:
        return type(found.block.error), str(found.block.error)
    assert found.state is not None and found.block.records == () and found.block.inputs is None
    shard = found.state
    bad = found.bad.count, [str(error) for error in found.bad.first]
    return (
        {name: values.tobytes() for name, values in arrays_of(shard.sums).items()},
        shard.seen,
        shard.signature,
        bad,
        [repr(table.to_pylist()) for table in tables],
    )


@pytest.mark.parametrize(
    ("options", "ends"),
    [
        ({}, [False, False, False]),
        ({"unit": "word", "labelled": True}, [False, False, False]),
        ({"on_long": "skip", "split": True}, [False, False, False]),
        ({"on_long": "error"}, [True, False, False]),
        ({"profile": True, "predictive": "distance", "predictive_words": 2}, [False, False, False]),
        ({"by": "carried", "skip_bad": False}, [True, True, False]),
        ({"on_long": "error", "skip_bad": False, "related": False}, [True, True, False]),
    ],
)
def test_blocks_that_come_tokenized_add_what_the_others_add(
    toy: str, file: str, options: dict[str, Any], ends: list[bool]
) -> None:
    """Truncated, skipped and bad ones at the same places; where a pair ends the run, with the same words."""
    plan = plan_of(toy, file, **options)
    tokenizer, outcomes = TokenizingActor(plan), []
    for block in blocks_of(plan):
        handed = pickle.loads(tokenizer(row("block", block))["block"][0])
        assert handed.inputs is not None and len(handed.inputs) == len(block.records)
        assert replace(handed, inputs=None) == block
        outcomes.append(outcome(plan, block))
        assert outcome(plan, handed) == outcomes[-1]
    assert [isinstance(what[0], type) for what in outcomes] == ends


def test_workers_do_not_tokenize_what_comes_tokenized(toy: str, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(toy, file)
    block = next(blocks_of(plan))
    handed, worker = TokenizingActor(plan).tokenize(block), ScoringActor(plan)
    monkeypatch.setattr(LoadedModel, "encode_all", lambda *_, **__: pytest.fail("tokenized"))
    assert worker.score(handed, []).state is not None
    with pytest.raises(pytest.fail.Exception, match="tokenized"):  # a control
        worker.score(block, [])


def test_what_stops_a_tokenizer_is_met_behind_the_pairs_before_it(
    toy: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model has no row for the 31st pair's tokens; the 11th is too long, the 22nd has no word."""
    monkeypatch.setattr(local, "_TOGETHER", 8)
    check_ids, checked = LoadedModel.check_ids, list[int]()

    def check(self: LoadedModel, ids: list[int], rows: int | None = None) -> None:
        checked.append(len(ids))
        check_ids(self, ids, 3 if len(checked) == 29 else rows)

    monkeypatch.setattr(LoadedModel, "check_ids", check)
    said = []
    for on_long in ("error", "skip"):
        plan = plan_of(toy, file, on_long=on_long)
        plan = replace(plan, files=replace(plan.files, block_pairs=60))
        block = next(blocks_of(plan))
        checked.clear()
        handed = TokenizingActor(plan).tokenize(block)
        assert handed.inputs is not None and len(handed.inputs) == 31 and isinstance(handed.inputs[-1], ModelError)
        checked.clear()
        said.append(outcome(plan, block))
        assert outcome(plan, handed) == said[-1]
    assert "tokens long" in said[0][1] and said[1][0] is ModelError


def test_a_tokenizer_that_cannot_be_loaded_is_told_as_the_model_is(file: str, tmp_path: Path) -> None:
    plan = plan_of(str(tmp_path), file)
    block = next(blocks_of(plan))
    handed = TokenizingActor(plan).tokenize(block)
    assert handed.inputs is not None and isinstance(handed.inputs[0], AttnscanError)
    assert outcome(plan, handed) == outcome(plan, block)
    ended = replace(block, error=ModelError("a", "b"))
    assert TokenizingActor(plan).tokenize(ended) == ended and TokenizingActor(plan).tokenize(Block(0, 0)) == Block(0, 0)


@pytest.mark.long
@pytest.mark.xdist_group("ray-alone")
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
def test_on_a_cluster_with_gpus_tokenizers_feed_workers_that_share_one(
    toy: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine says that it has a GPU and four cores: two workers have half of it each, and leave two cores.

    The first tokenizer dies with its first block. The model runs on the CPU.
    """
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    from attnscan.scan.cluster import scan as engine_ray

    small, shares = {"object_store_memory": 80 << 20}, []
    shared = engine_ray.shared

    def on_cpu(*asked: Any) -> Any:
        shares.append(shared(*asked))
        return replace(shares[-1], device="cpu")

    class Mortal(TokenizingActor):
        def tokenize(self, block: Block) -> Block:
            died = tmp_path / "died"
            if not died.exists():
                died.touch()
                os._exit(1)
            (tmp_path / f"by-{os.getpid()}").touch()
            return super().tokenize(block)

    monkeypatch.setattr(engine_ray, "shared", on_cpu)
    monkeypatch.setattr(engine_ray, "TokenizingActor", Mortal)
    plan = plan_of(toy, file, labelled=True)
    files, options = replace(plan.files, block_pairs=4), replace(plan.options, predictive="off")
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **small})
    try:
        made.add_node(num_cpus=4, num_gpus=1, **small)
        ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
        found, bad = events.outcome(engine_ray.scan_on_ray(options, files, ClusterOptions(worker_gpus=0.5)))
        assert [(each.workers, each.gpus, each.device, each.tokenizers) for each in shares] == [(2, 0.5, "cuda", 2)]
        assert (tmp_path / "died").exists() and list(tmp_path.glob("by-*"))
    finally:
        ray.shutdown()
        made.shutdown()
    totals, worker = (
        Totals(ClusterProgress(ScanState(options))),
        ScoringActor(replace(plan, options=options, per_pair=False)),
    )
    for block in blocks_of(replace(plan, files=files)):
        totals.add(worker.score(block, []))
    expected = totals.result()
    assert isinstance(expected, Ranking)
    pd.testing.assert_frame_equal(found.to_frame(), expected.to_frame())
    pd.testing.assert_frame_equal(found.to_labels(), expected.to_labels())
    assert found.signature == expected.signature and bad.count == totals.progress.bad.count == 2

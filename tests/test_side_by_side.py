"""Work that several threads share: in order, errors in their place, on replicas that do not meddle with each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from families import TAPPED, Collected, tiny_inputs, tiny_model
from hypothesis import given
from hypothesis import strategies as st
from toy import save_toy_bert

from attnscan import predictive, side_by_side
from attnscan import windows as reading
from attnscan.capture import Tap
from attnscan.engine import ScanState, scan
from attnscan.models import LoadedModel
from attnscan.options import ScanOptions
from attnscan.pairs import Pair, Record
from attnscan.scanner import Scanner
from attnscan.sources import Source
from attnscan.studies.similar import similar

PAIRS = [Pair(f"the cat sat on {i % 7} mats" + " ." * (i % 5), f"a cat ran {i} times to the store") for i in range(40)]
RECORDS = [Record(pair, f"pair {number}") for number, pair in enumerate(PAIRS, 1)]


class Runner:
    """Something with a model, which does nothing."""

    def __init__(self, whole: torch.nn.Module | None = None) -> None:
        self.whole = torch.nn.Identity() if whole is None else whole


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Sets how many threads torch takes; as before afterwards."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """By what they do, scoring or asking, the names of the threads that have done it."""
    found: dict[str, set[str]] = {}

    def watch(kind: str, owner: Any, name: str) -> None:
        work, found[kind] = getattr(owner, name), set()

        def watched(*given: Any, **named: Any) -> Any:
            found[kind].add(threading.current_thread().name)
            return work(*given, **named)

        monkeypatch.setattr(owner, name, watched)

    watch("scoring", Scanner, "score")
    watch("asking", predictive._Asker, "answers")
    return found


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_toy_bert(tmp_path_factory.mktemp("toy"), 2, 3, {(0, 0): "next-word", (1, 1): "previous-word"})


@given(st.lists(st.integers(), max_size=30), st.integers(1, 4))
def test_results_come_in_order(items: list[int], workers: int) -> None:
    found = side_by_side.side_by_side([Runner() for _ in range(workers)], items, lambda _, item: item + 1)
    assert list(found) == [(item, item + 1) for item in items]


def test_workers_work_at_the_same_time_and_never_share() -> None:
    """Three meet at a gate that opens for three alone."""
    gate, used = threading.Barrier(3), set[int]()

    def work(worker: Runner, _item: int) -> None:
        assert id(worker) not in used
        used.add(id(worker))
        gate.wait(20)
        used.remove(id(worker))
        gate.wait(20)

    workers = [Runner() for _ in range(3)]
    assert len(list(side_by_side.side_by_side(workers, range(6), work))) == 6


def test_an_error_is_raised_in_its_items_place() -> None:
    def work(_worker: Runner, item: int) -> float:
        return 1 / item

    stream = side_by_side.side_by_side([Runner(), Runner()], [2, 1, 0, 4], work)
    assert [next(stream), next(stream)] == [(2, 0.5), (1, 1.0)]
    with pytest.raises(ZeroDivisionError):
        next(stream)
    assert list(stream) == []


def test_an_error_of_the_items_waits_for_those_before() -> None:
    def items() -> Iterator[int]:
        yield from (1, 2)
        raise ZeroDivisionError

    stream = side_by_side.side_by_side([Runner(), Runner()], items(), lambda _, item: item)
    assert [next(stream), next(stream)] == [(1, 1), (2, 2)]
    with pytest.raises(ZeroDivisionError):
        next(stream)


def test_closing_ends_work_inside_a_model_and_leaves_no_thread_and_no_hook(threads: Callable[[int], None]) -> None:
    threads(2)
    begun, go_on = threading.Event(), threading.Event()

    class Endless(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Identity()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            begun.set()
            while True:
                x = self.layer(x)
                go_on.wait(0.001)

    workers = [Runner(Endless()), Runner(Endless())]

    def work(worker: Runner, item: int) -> Any:
        return worker.whole(torch.zeros(1)) if item else item

    stream = side_by_side.side_by_side(workers, range(10**9), work)
    assert next(stream) == (0, 0)
    assert begun.wait(20)
    stream.close()
    for each in threading.enumerate():
        if each.name.startswith("attnscan-"):
            each.join(2)
    assert not [each for each in threading.enumerate() if each.name.startswith("attnscan-")]
    assert not [module for worker in workers for module in worker.whole.modules() if module._forward_pre_hooks]
    assert torch.get_num_threads() == 2


def test_items_are_taken_a_few_ahead() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    with closing(side_by_side.side_by_side([Runner(), Runner()], items(), lambda _, item: item)) as stream:
        next(stream)
        threading.Event().wait(0.3)
        assert len(taken) <= 1 + 2 + 1  # the one that came, those that wait, and the one being put


# Replicas


def _loaded(model: Any) -> LoadedModel:
    return LoadedModel(Source("tiny", ""), model, None, None, torch.device("cpu"), torch.float32, None)


@pytest.mark.parametrize("family", TAPPED)
def test_replicas_that_run_at_once_show_what_the_model_shows_alone(family: str) -> None:
    model, inputs = tiny_model(family, TAPPED[family]), tiny_inputs()
    crew = side_by_side.replicas(_loaded(model), 3)
    addresses = {each.data_ptr() for each in model.parameters()}
    for replica in crew[1:]:
        assert replica.model is not model and replica.model.config is not model.config
        assert {each.data_ptr() for each in replica.model.parameters()} == addresses
    gate = threading.Barrier(3)

    def work(tap: tuple[Tap, LoadedModel], row: int) -> list[torch.Tensor]:
        collected = Collected()

        def consume(block: Any) -> None:
            if (block.layer, block.inputs.start, block.heads.start) == (1, 0, 0):
                gate.wait(20)  # all are in the midst of their second layer
            collected(block)

        tap[0].run({name: values[[row % 2]] for name, values in inputs.items()}, consume)
        return [collected.layer(layer) for layer in sorted(collected.blocks)]

    with ExitStack() as stack:
        taps = [(stack.enter_context(Tap(each.model)), each) for each in crew]
        together = _run_at_once(taps, work)
        gate = threading.Barrier(1)
        for row, found in enumerate(together):
            torch.testing.assert_close(found, work(taps[0], row), atol=1e-6, rtol=0)


def _run_at_once(workers: list[Any], work: Callable[[Any, int], Any]) -> list[Any]:
    found: dict[int, Any] = {}

    def run(number: int) -> None:
        found[number] = work(workers[number], number)

    every = [threading.Thread(target=run, args=(number,)) for number in range(len(workers))]
    for each in every:
        each.start()
    for each in every:
        each.join()
    return [found[number] for number in range(len(workers))]


def test_a_replica_of_a_task_head_holds_the_replica_of_its_encoder() -> None:
    from transformers import BertConfig, BertForMaskedLM

    whole = BertForMaskedLM(BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8))
    replica = replace(_loaded(whole.base_model), masked_lm=whole).replica()
    assert replica.masked_lm.base_model is replica.model is not whole.base_model
    assert replica.masked_lm.get_output_embeddings().weight is whole.get_input_embeddings().weight


def test_what_cannot_be_copied_works_alone() -> None:
    class Uncopyable(torch.nn.Identity):
        def __deepcopy__(self, _memory: object) -> None:
            raise TypeError("no")

    loaded = _loaded(Uncopyable())
    assert side_by_side.replicas(loaded, 4) == [loaded]


def test_as_many_work_as_cores_and_memory_allow(toy: Path, threads: Callable[[int], None]) -> None:
    with Scanner(ScanOptions(model=str(toy), predictive="off")) as scanner:
        found = []
        for count, tokens in ((1, None), (2, None), (8, None), (64, None), (8, 20_000), (8, 10**9)):
            threads(count)
            found.append(side_by_side.most_workers(scanner.loaded, tokens, 512))
        threads(16)
        by_length = [side_by_side.most_workers(scanner.loaded, None, length) for length in (2048, 4096, 8192, 10**6)]
        on_gpu = replace(scanner.loaded, device=torch.device("cuda"))
        assert side_by_side.most_workers(on_gpu, None, 512) == 1
    assert found == [1, 2, 8, 16, 3, 1] and by_length == [16, 4, 1, 1]


def test_attention_that_comes_all_at_once_is_scanned_alone(tmp_path: Path, threads: Callable[[int], None]) -> None:
    """DeBERTa's weights of every layer are in memory together: one batch at a time is enough."""
    from transformers import AutoTokenizer, DebertaConfig, DebertaModel

    size = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 12}
    directory = save_toy_bert(tmp_path, 2, 3, {})
    tokenizer = AutoTokenizer.from_pretrained(directory)
    DebertaModel(DebertaConfig(vocab_size=len(tokenizer), **size)).save_pretrained(directory)
    threads(4)
    with Scanner(ScanOptions(model=str(directory), predictive="off", batch_tokens=120)) as scanner:
        with scanner.crew(4, 16) as crew:
            assert crew == [scanner]
        [*_, last] = scan(scanner, RECORDS)
        assert scanner.read_by == "output_attentions" and last.seen.read == 40


# The same results, however many threads


def _scanned(options: ScanOptions) -> tuple[list[ScanState], Any]:
    """All states, and the finished ranking with `predictive`."""
    with Scanner(options) as scanner:
        states = list(scan(scanner, RECORDS))
        return states, states[-1].finish(scanner).to_frame()


@pytest.mark.parametrize("unit", ["token", "word"])
def test_a_scan_is_the_same_to_the_last_bit(
    toy: Path,
    unit: Any,
    threads: Callable[[int], None],
    hands: dict[str, set[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each worker's products are those of one thread, and sums are added in the order of the pairs."""
    monkeypatch.setattr(reading, "_BATCHES_IN_WINDOW", (4, 4))
    monkeypatch.setattr(reading, "_TOKENS_IN_WINDOW", 1)
    options = ScanOptions(model=str(toy), predictive="distance", predictive_pairs=3, batch_tokens=60, unit=unit)
    threads(1)
    states, frame = _scanned(options)
    assert len(states) > 2 and hands == {"scoring": {"MainThread"}, "asking": {"MainThread"}}
    threads(4)
    others, other = _scanned(options)
    assert all(len(names) > 2 for names in hands.values())
    assert [state.seen for state in others] == [state.seen for state in states]
    assert other.equals(frame)


def test_inputs_that_turn_out_long_are_run_one_at_a_time(
    toy: Path, threads: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The crew was chosen by a window of short ones."""
    monkeypatch.setattr(reading, "_BATCHES_IN_WINDOW", (4, 4))
    monkeypatch.setattr(reading, "_TOKENS_IN_WINDOW", 1)
    monkeypatch.setattr(side_by_side, "_MOST_CELLS", 4 * 12**2)
    short = [Record(Pair("the cat", f"a mat {i}"), f"short {i}") for i in range(40)]
    score, running, most = Scanner.score, set[int](), [0]

    def counted(self: Scanner, inputs: Any, *rest: Any, **more: Any) -> Any:
        if len(inputs[0].tokens) > 12:
            running.add(id(self))
            most.append(len(running))
        try:
            return score(self, inputs, *rest, **more)
        finally:
            running.discard(id(self))

    monkeypatch.setattr(Scanner, "score", counted)
    threads(4)
    with Scanner(ScanOptions(model=str(toy), predictive="off", batch_tokens=60)) as scanner:
        [*_, last] = scan(scanner, [*short, *RECORDS])
    assert last.seen.read == 80 and len(most) > 10 and max(most) == 1


def test_pairs_of_their_own_come_in_order(toy: Path, threads: Callable[[int], None]) -> None:
    numbers: list[list[int]] = []
    for count in (1, 3):
        threads(count)
        numbers.append([])
        with Scanner(ScanOptions(model=str(toy), predictive="off", batch_tokens=60)) as scanner:
            list(scan(scanner, RECORDS, on_pairs=lambda some, _: numbers[-1].extend(some)))
    assert numbers[0] == numbers[1] and sorted(numbers[0]) == list(range(1, 41))


def test_likeness_is_the_same_to_the_last_bit(
    toy: Path, threads: Callable[[int], None], hands: dict[str, set[str]]
) -> None:
    found = []
    for count in (1, 4):
        threads(count)
        with Scanner(ScanOptions(model=str(toy), predictive="off", batch_tokens=60)) as scanner:
            found.append(similar(scanner, RECORDS))
    assert len(hands["scoring"]) > 2
    assert (found[0].divergence == found[1].divergence).all() and (found[0].se == found[1].se).all()


def test_the_model_is_as_it_was_after_a_scan(toy: Path, threads: Callable[[int], None]) -> None:
    threads(4)
    with Scanner(ScanOptions(model=str(toy), predictive="distance", batch_tokens=60)) as scanner:
        before = scanner.loaded.model.config._attn_implementation
        with closing(scan(scanner, RECORDS)) as states:
            next(states)
        assert scanner.loaded.model.config._attn_implementation == before
        assert not [module for module in scanner.loaded.model.modules() if module._forward_pre_hooks]
        assert torch.get_num_threads() == 4

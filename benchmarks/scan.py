"""What scoring costs: attnscan against a plain sdpa forward, which computes nothing from it, and
against a plain loop.

    python benchmarks/scan.py [--runs 3] [--tokens 1024]
    python benchmarks/scan.py --device cuda [--runs 7] [--tokens 32768]

Models have random weights (time does not depend on them); every pattern but `predictive` is scored.
Rivals run in turn in one process, and each line is printed when it is measured.

Without `--device`, this machine's processor is measured, in less than two minutes where it is idle:
a model of BERT base's shape, in batches as attnscan makes them. `run.py` measures the same with
8,192 tokens, and beside a loop, which is what a user writes today: one pair at a time,
`output_attentions=True`, numpy. A scan in bfloat16 is held against the forward in float32, where
the processor multiplies in it.

With `--device`, a GPU is: the shapes of BERT base and BERT large in float32 and bfloat16, one
batch, each run synchronized before the clock is read, in four minutes at most: rows that the time
does not reach have dashes. Before anything is timed there, the scores are held against those of
float32 on the CPU.
"""

import argparse
import copy
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial

import numpy as np
import torch
from sidebyside import HEAD, in_turn, machine, ratios, row
from transformers import AutoTokenizer, BertConfig, BertModel

from attnscan.inputs.batch import EncodedBatch, batches, collate
from attnscan.inputs.sentence import EncodedInput, Pair
from attnscan.model.sources import bundled
from attnscan.model.tap import AttentionTap
from attnscan.model.threads import parallel_map
from attnscan.scan.options import ScanOptions
from attnscan.scan.pair_scan import sum_batch
from attnscan.scan.scanner import Scanner, open_scanner
from attnscan.scoring.labels import scores_of
from attnscan.scoring.pattern_scorer import PatternScorer
from attnscan.scoring.patterns import PATTERNS
from attnscan.scoring.units import Targets

TOKENS = 8192
QUICK_TOKENS = 1024
QUICK_RUNS = 3
DEVICE_TOKENS = 32_768
DEVICE_RUNS = 7
DEVICE_SECONDS = 220  # of all lines of a GPU together
BOUNDS = {32: (0.95, 0.55), 128: (0.95, 0.55), 512: (1.05, 0.62)}
"""By the tokens of an input: of a scan, and of one in bfloat16, beside a forward in float32."""
SHAPES = {"base": (12, 12), "large": (24, 16)}
BOUND_ON_GPU = 1.2
MOST_OFF = {torch.float32: 1e-4, torch.bfloat16: 4e-2}
"""By a format of numbers, how far a score may be from that of float32 on a CPU."""


def inputs_of(length: int, count: int) -> list[EncodedInput]:
    """Pairs of that many tokens, of random words."""
    rng = np.random.default_rng(length)
    made = []
    nothing = (False,) * length
    for _ in range(count):
        ids = [101, *rng.integers(2000, 29000, length - 3).tolist()]
        ids = [*ids[: length // 2], 102, *ids[length // 2 :], 102]
        sentence = (-1, *[0] * (length // 2 - 1), -1, *[1] * (length - length // 2 - 2), -1)
        inputs = {
            "input_ids": ids,
            "attention_mask": [1] * length,
            "token_type_ids": [max(0, s) for s in sentence],
        }
        texts = tuple(f"w{id_ % 40}" for id_ in ids)  # so that words repeat
        made.append(
            EncodedInput(
                texts, sentence, tuple(range(length)), nothing, inputs, pair=Pair(" ".join(texts))
            )
        )
    return made


def random_bert(layers: int = 12, heads: int = 12) -> BertModel:
    """A random BERT with heads of 64 dimensions."""
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 64 * heads,
        "intermediate_size": 256 * heads,
        "attn_implementation": "sdpa",
    }
    config = BertConfig(num_hidden_layers=layers, num_attention_heads=heads, **sizes)
    return BertModel(config, add_pooling_layer=False).eval()


@contextmanager
def random_scanner() -> Iterator[Scanner]:
    """A random BERT ready to be scanned, in bfloat16 where the processor multiplies in it;
    `exact()` is in float32.
    """
    fast = any(map(torch.cpu.get_capabilities().get, ("avx512_bf16", "amx_bf16", "bf16")))
    with tempfile.TemporaryDirectory() as directory:
        random_bert().save_pretrained(directory)
        AutoTokenizer.from_pretrained(bundled().location).save_pretrained(directory)
        dtype = "bfloat16" if fast else "float32"
        options = ScanOptions(model=directory, device="cpu", dtype=dtype, predictive="off")
        with open_scanner(options) as scanner:
            yield scanner


def scan(scanner: Scanner, inputs: list[EncodedInput]) -> None:
    """What attnscan does, tokenizing apart."""
    pieces = list(batches(inputs, scanner.loaded.room(None)))
    workers = scanner.workers(len(pieces), max(len(one.tokens) for one in inputs))
    with closing(parallel_map(workers, pieces, partial(sum_batch, scanner))) as scored:
        for _ in scored:
            pass


@torch.inference_mode()
def plain(model: BertModel, batch: EncodedBatch) -> None:
    """A forward without attention."""
    model(**batch.model_inputs)


def plain_scan(scanner: Scanner, inputs: list[EncodedInput]) -> None:
    """Forwards without attention over attnscan's batches."""
    for batch in batches(inputs, scanner.loaded.room(None)):
        plain(scanner.loaded.model, collate(batch))


def loop(eager: BertModel, inputs: list[EncodedInput]) -> None:
    """What a user writes today."""
    for one in inputs:
        collated = collate([one])
        with torch.no_grad():
            layers = eager(**collated.model_inputs, output_attentions=True).attentions
        weights = torch.cat(layers).flatten(0, 1).numpy()
        for target in Targets(collated, PATTERNS).of(collated):
            matrix = target[0].float().numpy()
            eligible = matrix.any(-1)
            for head in weights:
                (head * matrix).sum(-1)[eligible].sum() / max(1, eligible.sum())


def rows(runs: int, tokens: int = TOKENS, *, with_loop: bool = True) -> Iterator[str]:
    """The lines for each length: against a plain forward and the loop, and in bfloat16."""
    forward = "a forward without attention (sdpa)"
    with random_scanner() as fast:
        scanner = fast.exact()
        eager = random_bert()
        eager.set_attn_implementation("eager")
        for length, (bound, bound_of_bfloat16) in BOUNDS.items():
            inputs = inputs_of(length, tokens // length)
            what = f"scan, {length} tokens"
            rivals = {
                "scan": partial(scan, scanner, inputs),
                "plain": partial(plain_scan, scanner, inputs),
            }
            if fast.loaded.scored is not fast.loaded.model:
                rivals["bfloat16"] = partial(scan, fast, inputs)
            if with_loop:
                rivals["loop"] = partial(loop, eager, inputs)
            costs = in_turn(rivals, runs)
            yield row(what, forward, costs["scan"], costs["plain"], bound)
            if "bfloat16" in costs:
                yield row(
                    f"{what}, --dtype bfloat16",
                    forward,
                    costs["bfloat16"],
                    costs["plain"],
                    bound_of_bfloat16,
                )
            if with_loop:
                yield row(what, "a plain loop", costs["scan"], costs["loop"])


def synchronize(device: torch.device, run: Callable[[], object]) -> None:
    """Run to the end on the device."""
    run()
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def score(tap: AttentionTap, batch: EncodedBatch) -> np.ndarray:
    """A batch's scores."""
    scorer = PatternScorer(Targets(batch, PATTERNS))
    tap.run(batch.model_inputs, scorer)
    return scores_of(scorer.sums(), [pattern.scored for pattern in PATTERNS]).every_key.score


def scores_on_cpu(model: BertModel, inputs: list[EncodedInput]) -> np.ndarray:
    """The scores of a model on a CPU."""
    with AttentionTap(model) as tap:
        return score(tap, collate(inputs))


def check(
    tap: AttentionTap, inputs: list[EncodedInput], expected: np.ndarray, device: torch.device
) -> None:
    """Raises: AssertionError if the scores differ from float32's on a CPU by more than the format
    explains.
    """
    dtype = tap.model.dtype
    found = score(tap, collate(inputs).to(device))
    off = float(np.nanmax(np.abs(found - expected)))
    assert off < MOST_OFF[dtype], f"scores in {dtype} are off by {off:.1e}"


def device_rows(device: torch.device, runs: int, tokens: int) -> Iterator[str]:
    """A line for each shape, length and format of numbers on a GPU; so many tokens a batch.

    All share the time that there is: slow ones are run less often, or not at all.
    """
    end = time.perf_counter() + DEVICE_SECONDS
    cases_left = len(SHAPES) * len(BOUNDS) * len(MOST_OFF)
    for shape, (layers, heads) in SHAPES.items():
        on_cpu = random_bert(layers, heads)
        for length in BOUNDS:
            inputs = inputs_of(length, max(1, tokens // length))
            expected = None
            for dtype in MOST_OFF:
                name = str(dtype).removeprefix("torch.")
                share = (end - time.perf_counter()) / cases_left
                cases_left -= 1
                figures = "– | –"
                if share > 0:
                    if expected is None:
                        expected = scores_on_cpu(on_cpu, inputs[:2])
                    model = copy.deepcopy(on_cpu).to(device, dtype)
                    with AttentionTap(model) as tap:
                        check(tap, inputs[:2], expected, device)
                        figures = device_figures(tap, inputs, device, runs, share)
                yield f"| {shape} | {length} | {name} | {figures} | {BOUND_ON_GPU:.2f} |"


def device_figures(
    tap: AttentionTap, inputs: list[EncodedInput], device: torch.device, runs: int, seconds: float
) -> str:
    """Pairs a second, and the time of a scan beside that of an sdpa forward; in so many seconds."""
    batch = collate(inputs).to(device)
    rivals: dict[str, Callable[[], object]] = {
        "scan": partial(score, tap, batch),
        "plain": partial(plain, tap.model, batch),
    }
    synchronized = {name: partial(synchronize, device, run) for name, run in rivals.items()}
    costs = in_turn(synchronized, 1)
    seconds_of_a_run = sum(measured[0].wall for measured in costs.values())
    affordable = int(seconds / seconds_of_a_run) - 3  # two have run, and one more is not counted
    if affordable > 1:
        costs = in_turn(synchronized, min(runs, affordable))
    speed = len(inputs) / statistics.median(cost.wall for cost in costs["scan"])
    ratio, _ = ratios(costs["scan"], costs["plain"])
    return f"{speed:,.0f} | {ratio:.2f}"


def main() -> None:
    """Measure this machine's processor, or a GPU, and print each line when it is measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int)
    parser.add_argument("--device", help="a GPU, such as cuda, in place of this processor")
    parser.add_argument("--tokens", type=int, help="of all inputs; on a GPU in one batch")
    options = parser.parse_args()
    if options.device is None:
        runs = options.runs or QUICK_RUNS
        tokens = options.tokens or QUICK_TOKENS
        chip = "no GPU"
        head = HEAD
        lines = rows(runs, tokens, with_loop=False)
    else:
        device = torch.device(options.device)
        runs = options.runs or DEVICE_RUNS
        tokens = options.tokens or DEVICE_TOKENS
        chip = torch.cuda.get_device_name(device) if device.type == "cuda" else "no GPU"
        columns = "| shape | tokens | format | pairs a second | scan / sdpa | bound |"
        head = f"{columns}\n| --- | ---: | --- | ---: | ---: | ---: |"
        lines = device_rows(device, runs, tokens)
    print(f"{machine()}, {chip}, torch {torch.__version__}; {tokens:,} tokens, {runs} runs\n")
    print(head)
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main()

"""What a scan asks of the host, with the model stubbed out: how many pairs a second one core can feed to a GPU.

    OMP_NUM_THREADS=1 taskset -c 0 python benchmarks/host.py [--pairs 2000] [--tokens 50] [--beside CHECKOUT]

The parts of a scan of a file of such pairs, for every pattern but `predictive`, in batches as large as on a GPU. In
place of the model stands one that shows 12 layers of 12 heads, all of them looking evenly at every token.

The host's share on a GPU is what is left when tensors are somebody else's: reading the file; tokenizing, with all that
is kept of each record; collating, with the look-up of related words; and sums over pairs, which are numpy's. What a GPU
does, and what is therefore shown apart and left out of the rate, is done by the consumer of attention: targets, how
they are laid out, and their products with weights. The Python that launches those is the host's again: it is the time
of the same for a batch of one pair, where tensors cost next to nothing, counted once for a batch. The product of word
embeddings, which a GPU would take as well, is left in, as part of one call.

Times are of the processor, of all threads, the median of several runs. `--beside` measures the package of another
checkout after it, in a process of its own. The bound is 3,000 pairs of 50 tokens a second on one core.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from sidebyside import machine

from attnscan.inputs.batch import EncodedBatch, EncodedInput
from attnscan.inputs.pairs import Record, read_pairs, shipped_pairs
from attnscan.model.tap import AttentionBlock, Consumer
from attnscan.results.grid import Grid
from attnscan.scan.local import Stream
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.targets import Targets

GRID = Grid.square(12, 12)
BATCH = 65_536
BOUND = 3000


class Stub(Scanner):
    """A scanner whose model attends evenly, at no cost."""

    def run(self, model_inputs: dict[str, torch.Tensor], consume: Consumer) -> None:
        """Show every layer."""
        layers, width = GRID.shape
        with torch.inference_mode():
            seen = model_inputs["attention_mask"].bool()
            visible = seen[:, None, :].expand(-1, seen.shape[1], -1).contiguous()
            weights = (visible / visible.sum(-1, keepdim=True))[:, None].expand(-1, width, -1, -1).contiguous()
            inputs, heads = slice(0, len(seen)), slice(0, width)
            for layer in range(layers):
                logits = torch.zeros_like(weights)
                consume(AttentionBlock(GRID, layer, inputs, heads, weights, visible, None, None, None, logits))


def write_pairs(path: Path, scanner: Scanner, count: int, tokens: int) -> None:
    """A file of pairs of the shipped sentences' words, so many tokens each, special ones included."""
    rng = random.Random(0)
    words = [word for record in shipped_pairs() for text in record.pair.texts for word in text.split()]
    vocabulary = scanner.loaded.tokenizer.get_vocab()
    words = [word for word in words if word.lower() in vocabulary]  # of one token each
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["sentence_a", "sentence_b"])
        for _ in range(count):
            chosen = rng.choices(words, k=tokens - 5)
            half = len(chosen) // 2
            rows.writerow([" ".join(chosen[:half]) + ".", " ".join(chosen[half:]) + "."])


def seconds(work: Callable[[], Iterable[object]]) -> float:
    """Processor time of some work, of all threads, until it has given all."""
    started = time.process_time()
    for _ in work():
        pass
    return time.process_time() - started


def scored(scanner: Stub, batch: EncodedBatch) -> Scorer:
    """What has scored a batch."""
    scorer = Scorer(Targets(batch, scanner.options.patterns))
    scanner.run(batch.model_inputs, scorer)
    return scorer


def measured(pairs: int, tokens: int, runs: int) -> dict[str, float]:
    """Microseconds a pair of each part, in medians."""
    torch.set_num_threads(1)
    options = ScanOptions(model="bundled", device="cpu", predictive="off", batch_tokens=BATCH)
    with Stub(options) as scanner, tempfile.TemporaryDirectory() as directory:
        write_pairs(path := Path(directory, "pairs.csv"), scanner, pairs, tokens)

        def read() -> Iterator[Record]:
            return read_pairs([str(path)])

        def windows() -> Iterator[list[list[EncodedInput]]]:
            return Stream(scanner, read()).windows()

        batches = [batch for window in windows() for batch in window]
        first, one = (scanner.collate(inputs) for inputs in (batches[0], batches[0][:1]))
        started = time.process_time()
        scorer = scored(scanner, first)
        tensors = time.process_time() - started
        works: dict[str, tuple[int, Callable[[], Iterable[object]]]] = {
            "reading": (pairs, read),
            "tokenizing": (pairs, windows),
            "collating": (pairs, lambda: map(scanner.collate, batches)),
            "sums": (len(first), lambda: [scorer.sums(products=True)]),
            "launches": (len(first), lambda: [scored(scanner, one)]),
        }
        rounds = [{name: seconds(work) / of * 1e6 for name, (of, work) in works.items()} for _ in range(runs + 1)][1:]
    found = {name: statistics.median(each[name] for each in rounds) for name in works}
    return {**found, "tokenizing": found["tokenizing"] - found["reading"], "tensors": tensors / len(first) * 1e6}


def main() -> None:
    """Print a line for each part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--tokens", type=int, default=50, help="of a pair, special ones included")
    parser.add_argument("--runs", type=int, default=3, help="counted, after one that is not")
    parser.add_argument("--beside", type=Path, help="another checkout of attnscan")
    parser.add_argument("--json", action="store_true", help="print the numbers alone")
    asked = parser.parse_args()
    if asked.json:
        print(json.dumps(measured(asked.pairs, asked.tokens, asked.runs)))
        return
    found = {}
    for place in [Path(__file__).parents[1], *([asked.beside] if asked.beside else [])]:
        numbers = [f"--{name}={getattr(asked, name)}" for name in ("pairs", "tokens", "runs")]
        environment = {**os.environ, "PYTHONPATH": str(place.resolve()), "HF_HUB_OFFLINE": "1"}
        command = [sys.executable, __file__, "--json", *numbers]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        found[place] = json.loads(done.stdout)
    print(f"{machine()}; {asked.pairs:,} pairs of {asked.tokens} tokens, {len(os.sched_getaffinity(0))} core(s)\n")
    rates = [sum(value for name, value in each.items() if name != "tensors") for each in found.values()]
    lines = {name: [each[name] for each in found.values()] for name in next(iter(found.values()))}
    apart = lines.pop("tensors")
    lines[f"**pairs a second on one core** (bound {BOUND:,})"] = [1e6 / rate for rate in rates]
    lines["apart: tensors, a GPU's"] = apart
    print("| processor time, microseconds a pair |" + "".join(f" {place} |" for place in found))
    print("| --- |" + " ---: |" * len(found))
    for name, values in lines.items():
        print(f"| {name} |" + "".join(f" {value:,.0f} |" for value in values))


if __name__ == "__main__":
    main()

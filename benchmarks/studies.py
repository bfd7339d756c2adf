"""What the studies over pairs cost: `similar` beside a scan, and `ablate` beside plain forwards, in turn.

    python benchmarks/studies.py [--runs 5] [--layers 12] [--heads 12] [--lengths 64 256] [--treebank FILE]

A model of BERT's shape (random weights: time does not depend on them), one batch of 2,048 tokens. `similar` is the
scan with 16 words of each input compared between all heads; `ablate` is one forward with a head of each layer switched
off, beside an sdpa forward of the same model. With a treebank, `syntax` of its first 300 sentences in the bundled model
beside scans of these without trees: of the seven patterns, and with labels, in seconds of all cores. Rivals run in turn
in one process; ratios are medians over neighbours.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import torch
from scan import inputs_of
from torch import Tensor
from transformers import BertConfig, BertModel

from attnscan.inputs.batch import collate
from attnscan.inputs.pairs import read_pairs
from attnscan.model.attention_block import AttentionBlock
from attnscan.model.output_tap import OutputTap
from attnscan.model.tap import Tap
from attnscan.results.terms import QUERIES
from attnscan.scan.events import outcome
from attnscan.scan.local import scanned
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scoring.patterns import PATTERNS
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.targets import Targets
from attnscan.studies.similarity import RowKeeper, divergences, queries_of

TOKENS = 2048


SENTENCES = 300


def seconds(run: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    """Print a line for each length."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each, after one that is not")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12, help="of 64 dimensions each")
    parser.add_argument("--lengths", type=int, nargs="*", default=[64, 256])
    parser.add_argument("--treebank", help="hold heads against it, and do nothing else")
    asked = parser.parse_args()
    if asked.treebank:
        beside_trees(asked.treebank, asked.runs)
        return
    torch.manual_seed(0)
    size = 64 * asked.heads
    config = BertConfig(
        hidden_size=size,
        intermediate_size=4 * size,
        num_hidden_layers=asked.layers,
        num_attention_heads=asked.heads,
        attn_implementation="sdpa",
    )
    model = BertModel(config, add_pooling_layer=False).eval()
    print(f"{asked.layers} × {asked.heads} heads, {torch.get_num_threads()} threads, {TOKENS} tokens")
    print(f"{'length':>6} {'scan':>8} {'similar':>8} {'ratio':>6} {'forward':>8} {'ablate':>8} {'ratio':>6}")
    for length in asked.lengths:
        inputs = inputs_of(length, TOKENS // length)
        batch, drawn = collate(inputs), [queries_of(one, QUERIES, 0) for one in inputs]

        def scan(also: RowKeeper | None = None, batch: object = batch) -> None:
            scorer = Scorer(Targets(batch, PATTERNS))

            def consume(block: AttentionBlock) -> None:
                scorer(block)
                if also is not None:
                    also(block)

            tap.run(batch.model_inputs, consume)
            scorer.sums()

        def similar(drawn: list[list[int]] = drawn, length: int = length) -> None:
            keeper = RowKeeper(drawn, [length] * len(drawn))
            scan(keeper)
            for rows in keeper.rows():
                divergences(rows)

        def plain(batch: object = batch) -> None:
            with torch.inference_mode():
                model(**batch.model_inputs)

        def ablate(batch: object = batch) -> None:
            def off(_layer: int, output: Tensor) -> None:
                output[:, :, 0] = 0

            outputs.run(batch.model_inputs, off)

        with Tap(model) as tap, OutputTap(model, model) as outputs:
            runs = [tuple(map(seconds, (scan, similar, plain, ablate))) for _ in range(asked.runs + 1)][1:]
        a, b, c, d = (statistics.median(times) for times in zip(*runs, strict=True))
        first, second = (statistics.median(run[i + 1] / run[i] for run in runs) for i in (0, 2))
        print(f"{length:>6} {a:7.2f}s {b:7.2f}s {first:5.2f}× {c:7.2f}s {d:7.2f}s {second:5.2f}×")
    print("bounds: similar 2 × a scan, ablate 1 forward for each set that is switched off")


def beside_trees(treebank: str, runs: int) -> None:
    """Print what `syntax` costs beside scans without trees."""
    records = list(islice(read_pairs([treebank]), SENTENCES))
    plain = ScanOptions(model="bundled", predictive="off")
    with Scanner(plain) as scanner:
        rivals = [
            scanner.with_options(),
            scanner.with_options(**vars(replace(plain, labelled=True))),
            scanner.with_options(**vars(plain.of_trees())).exact(),
        ]

        def run(rival: Scanner) -> float:
            start = time.process_time()
            outcome(scanned(rival, records))
            return time.process_time() - start

        times = [tuple(map(run, rivals)) for _ in range(runs + 1)][1:]
    patterns, labelled, syntax = (statistics.median(each) for each in zip(*times, strict=True))
    ratios = [statistics.median(run[2] / run[i] for run in times) for i in (0, 1)]
    print(f"{SENTENCES} sentences: patterns {patterns:.2f} s, labelled {labelled:.2f} s, syntax {syntax:.2f} s")
    print(f"syntax: {ratios[0]:.2f} × a scan of patterns, {ratios[1]:.2f} × one with labels; bound 1.5")


if __name__ == "__main__":
    main()

"""What scoring costs: attnscan against a plain sdpa forward over the same batches, and against a plain loop.

    python benchmarks/scan.py [--runs 5] [--layers 12] [--lengths 32 128 512] [--pairs FILE]

A model of BERT base's shape (random weights: time does not depend on them), every pattern but `predictive`,
batches of 4,096 tokens. The sdpa forward runs the whole encoder and computes nothing from it; the loop is what a
user writes today: one pair at a time, `output_attentions=True`, numpy. Rivals run in turn in one process; the
ratios are medians over neighbouring runs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from transformers import AutoTokenizer, BertConfig, BertModel

from attnscan.batch import EncodedInput, collate
from attnscan.capture import Tap
from attnscan.encode import encode_pair
from attnscan.pairs import read_pairs
from attnscan.patterns import PATTERNS
from attnscan.scanner import targets_of
from attnscan.score import Scorer
from attnscan.sources import bundled
from attnscan.stream import Room, batches

BATCH_TOKENS = 4096


def seconds(run: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def inputs_of(length: int, count: int) -> list[EncodedInput]:
    """Pairs of that many tokens, of random words."""
    rng = np.random.default_rng(length)
    made = []
    for _ in range(count):
        ids = [101, *rng.integers(2000, 29000, length - 3).tolist()]
        ids = [*ids[: length // 2], 102, *ids[length // 2 :], 102]
        sentence = [-1, *[0] * (length // 2 - 1), -1, *[1] * (length - length // 2 - 2), -1]
        inputs = {"input_ids": ids, "attention_mask": [1] * length, "token_type_ids": [max(0, s) for s in sentence]}
        texts = tuple(f"w{id_ % 40}" for id_ in ids)  # so that words repeat
        made.append(EncodedInput(texts, tuple(sentence), tuple(range(length)), (False,) * length, inputs))
    return made


def main() -> None:
    """Print a line for each length."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each, after one that is not")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--lengths", type=int, nargs="*", default=[32, 128, 512])
    parser.add_argument("--pairs", help="a file of pairs to measure as well")
    asked = parser.parse_args()
    torch.manual_seed(0)
    model = BertModel(BertConfig(num_hidden_layers=asked.layers), add_pooling_layer=False).eval()
    eager = BertModel(BertConfig(num_hidden_layers=asked.layers, attn_implementation="eager"), add_pooling_layer=False)
    eager.load_state_dict(model.state_dict())
    works = {str(length): inputs_of(length, max(1, BATCH_TOKENS // length)) for length in asked.lengths}
    if asked.pairs:
        tokenizer = AutoTokenizer.from_pretrained(bundled().location)
        pairs = (record.pair for record in read_pairs([asked.pairs]))
        works["pairs"] = [encode_pair(tokenizer, pair, "token", 512, truncate=True) for pair in pairs]
    print(f"{asked.layers} × 12 heads, {torch.get_num_threads()} threads, batches of {BATCH_TOKENS} tokens")
    print(f"{'tokens':>7} {'attnscan':>9} {'sdpa':>8} {'ratio':>7} {'loop':>8} {'ratio':>7}")
    with Tap(model) as tap:
        for name, inputs in works.items():

            def scan(inputs: list[EncodedInput] = inputs) -> None:
                for batch in batches(inputs, Room(BATCH_TOKENS)):
                    collated = collate(batch)
                    scorer = Scorer(collated, targets_of(collated, PATTERNS))
                    tap.run(collated.model_inputs, scorer)
                    scorer.sums()

            def plain(inputs: list[EncodedInput] = inputs) -> None:
                for batch in batches(inputs, Room(BATCH_TOKENS)):
                    with torch.inference_mode():
                        model(**collate(batch).model_inputs)

            def loop(inputs: list[EncodedInput] = inputs) -> None:
                for one in inputs:
                    collated = collate([one])
                    with torch.no_grad():
                        layers = eager(**collated.model_inputs, output_attentions=True).attentions
                    weights = torch.cat(layers).flatten(0, 1).numpy()
                    for target in targets_of(collated, PATTERNS):
                        matrix = target.matrix[0].numpy()
                        eligible = matrix.any(-1)
                        for head in weights:
                            (head * matrix).sum(-1)[eligible].sum() / max(1, eligible.sum())

            runs = [(seconds(scan), seconds(plain), seconds(loop)) for _ in range(asked.runs + 1)][1:]
            ours, sdpa, looped = (statistics.median(times) for times in zip(*runs, strict=True))
            ratio = statistics.median(a / b for a, b, _ in runs)
            faster = statistics.median(c / a for a, _, c in runs)
            print(f"{name:>7} {ours:8.2f}s {sdpa:7.2f}s {ratio:6.2f}× {looped:7.2f}s {faster:6.2f}×")


if __name__ == "__main__":
    main()

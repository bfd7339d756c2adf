"""What scoring costs: attnscan against a plain sdpa forward over the same batches, and against a plain loop.

    python benchmarks/scan.py [--runs 5] [--layers 12] [--lengths 32 128 512] [--pairs FILE]

A model of BERT base's shape (random weights: time does not depend on them), every pattern but `predictive`,
8,192 tokens in batches as attnscan makes them for that shape. The sdpa forward runs the whole encoder over the same
batches, and computes nothing from it. The loop is what a user writes today: one pair at a time,
`output_attentions=True`, numpy. A scan in bfloat16 is held against the forward in float32, where the processor
multiplies in it. Rivals run in turn in one process; the ratios are medians over neighbouring runs.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from copy import deepcopy
from functools import partial

import numpy as np
import torch
from sidebyside import Row, cost, in_turn, machine, row, show
from transformers import AutoTokenizer, BertConfig, BertModel

from attnscan.inputs.batch import EncodedInput, batches, collate
from attnscan.inputs.encode import encode_pairs
from attnscan.inputs.read import read_pairs
from attnscan.inputs.sentence import Pair
from attnscan.model.running import side_by_side
from attnscan.model.sources import Dtype, bundled
from attnscan.scan.local import summed
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scoring.patterns import PATTERNS
from attnscan.scoring.targets import Targets

TOKENS = 8192
BOUNDS = {"32 tokens": 0.95, "128 tokens": 0.95, "512 tokens": 1.05}
BFLOAT16_BOUNDS = {"32 tokens": 0.55, "128 tokens": 0.55, "512 tokens": 0.62}


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
        made.append(
            EncodedInput(
                texts,
                tuple(sentence),
                tuple(range(length)),
                (False,) * length,
                inputs,
                pair=Pair(" ".join(texts)),
            )
        )
    return made


@contextmanager
def random_model(layers: int, heads: int = 12) -> Iterator[Scanner]:
    """A random BERT with heads of 64 dimensions, ready to be scanned, in bfloat16 where the processor multiplies in it.

    Its `exact()` is one of float32.
    """
    torch.manual_seed(0)
    width = 64 * heads
    config = BertConfig(
        num_hidden_layers=layers, num_attention_heads=heads, hidden_size=width, intermediate_size=4 * width
    )
    with tempfile.TemporaryDirectory() as directory:
        BertModel(config, add_pooling_layer=False).save_pretrained(directory)
        AutoTokenizer.from_pretrained(bundled().location).save_pretrained(directory)
        dtype: Dtype = (
            "bfloat16" if any(map(torch.cpu.get_capabilities().get, ("avx512_bf16", "amx_bf16", "bf16"))) else "float32"
        )
        scanner = Scanner(ScanOptions(model=directory, device="cpu", dtype=dtype, predictive="off"))
    with scanner:
        yield scanner


def scan(scanner: Scanner, inputs: list[EncodedInput]) -> None:
    """What attnscan does, tokenizing apart."""
    pieces = list(batches(inputs, scanner.loaded.room(None)))
    longest = max(len(one.tokens) for one in inputs)
    workers, score = scanner.workers(len(pieces), longest), partial(summed, scanner)
    with closing(side_by_side(workers, pieces, score)) as scored:
        for _ in scored:
            pass


def plain(scanner: Scanner, inputs: list[EncodedInput]) -> None:
    """A forward without attention."""
    for batch in batches(inputs, scanner.loaded.room(None)):
        with torch.inference_mode():
            scanner.loaded.model(**collate(batch).model_inputs)


def loop(eager: BertModel, inputs: list[EncodedInput]) -> None:
    """What a user writes today."""
    for one in inputs:
        collated = collate([one])
        with torch.no_grad():
            layers = eager(**collated.model_inputs, output_attentions=True).attentions
        weights = torch.cat(layers).flatten(0, 1).numpy()
        visible = torch.ones_like(collated.same_sentence)
        for target in Targets(collated, PATTERNS).under(visible):
            matrix = target[0].float().numpy()
            eligible = matrix.any(-1)
            for head in weights:
                (head * matrix).sum(-1)[eligible].sum() / max(1, eligible.sum())


def rows(runs: int, layers: int, works: dict[str, list[EncodedInput]]) -> list[Row]:
    """The lines for each kind of work: against a plain forward and the loop, and in bfloat16."""
    found = []
    with random_model(layers) as fast:
        scanner = fast.exact()
        eager = BertModel(deepcopy(scanner.loaded.model.config), add_pooling_layer=False).eval()
        eager.set_attn_implementation("eager")
        eager.load_state_dict(scanner.loaded.model.state_dict())
        for name, inputs in works.items():
            rivals = {
                "scan": partial(scan, scanner, inputs),
                "plain": partial(plain, scanner, inputs),
                "bfloat16": partial(scan, fast, inputs),
                "loop": partial(loop, eager, inputs),
            }
            costs = in_turn({rival: partial(cost, run) for rival, run in rivals.items()}, runs)
            what, forward = f"scan, {name}", "a forward without attention (sdpa)"
            found.append(row(what, forward, costs["scan"], costs["plain"], BOUNDS.get(name)))
            if fast.loaded.scored is not fast.loaded.model:
                bound = BFLOAT16_BOUNDS.get(name)
                rival = "a forward in float32 (sdpa)"
                found.append(row(f"{what}, --dtype bfloat16", rival, costs["bfloat16"], costs["plain"], bound))
            found.append(row(what, "a plain loop", costs["scan"], costs["loop"], 0.5 if name == "pairs" else None))
    return found


def works_of(lengths: list[int]) -> dict[str, list[EncodedInput]]:
    """A batch of each length."""
    return {f"{length} tokens": inputs_of(length, max(1, TOKENS // length)) for length in lengths}


def main() -> None:
    """Print the lines for each length."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each, after one that is not")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--lengths", type=int, nargs="*", default=[32, 128, 512])
    parser.add_argument("--pairs", help="a file of pairs to measure as well")
    asked = parser.parse_args()
    works = works_of(asked.lengths)
    if asked.pairs:
        tokenizer = AutoTokenizer.from_pretrained(bundled().location)
        pairs = (record.pair for record in read_pairs([asked.pairs]))
        works["pairs"] = list(encode_pairs(tokenizer, list(pairs), "token", 512, truncate=True))
    print(f"{machine()}; {asked.layers} × 12 heads, {torch.get_num_threads()} threads")
    show(rows(asked.runs, asked.layers, works))


if __name__ == "__main__":
    main()

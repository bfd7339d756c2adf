"""How what a scan costs grows with tokens, heads and pairs, with the exponent that fits.

    python benchmarks/growth.py [--runs 3] [--pairs 100 1000 10000] [--tokens 16 32 64 128 256 512]
    python benchmarks/growth.py --long 512 2048 8192 [--layers 3]

Tokens: four layers of BERT base's width, as many tokens in all. Heads: models of 6 × 12, 12 × 12 and 24 × 16 heads of
64 dimensions, 512 tokens. Pairs: the bundled model on the pairs that come along, repeated. Costs are processor time,
divided by the table's first; an exponent of 1 is growth in proportion.

Long inputs: ModernBERT's shape with fewer layers, random weights, and words as frequent as Zipf has them. Every line is
a process of its own, which tells its processor time from the tokens on, beside that of an sdpa forward of the same
input, and its peak memory.
"""

from __future__ import annotations

import argparse
import itertools
import math
import resource
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import torch
from scan import inputs_of, random_model, scan
from sidebyside import Cost, cost, in_turn, machine
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import ModernBertConfig, ModernBertModel, PreTrainedTokenizerFast

from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.pairs import Pair, shipped_pairs
from attnscan.scan.events import outcome
from attnscan.scan.local import scan as scan_pairs
from attnscan.scan.local import summed
from attnscan.scan.one_input import classify
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner

TOKENS = 2048
SHAPES = {72: (6, 12), 144: (12, 12), 384: (24, 16)}
LONG = ("forward", "heads --pattern", "heads", "classify")
LONG_WORDS = 1900


def table(what: str, costs: dict[int, list[Cost]]) -> str:
    """The costs of some sizes beside the first's, and the exponent that fits best, by least squares of logarithms."""
    least = [min(each.cpu for each in runs) for runs in costs.values()]
    slope = np.polyfit(np.log(list(costs)), np.log(least), 1)[0] if len(costs) > 1 else math.nan
    lines = [f"| {what} | cost |", "| ---: | ---: |"]
    lines += [f"| {size:,} | {value / least[0]:.2f} |" for size, value in zip(costs, least, strict=True)]
    return "\n".join([*lines, "", f"Exponent: {slope:.2f}"])


def of_model(layers: int, heads: int, inputs: list[EncodedInput]) -> Cost:
    """One scan with a random model of that shape, made beforehand."""
    with random_model(layers, heads) as scanner:
        return cost(partial(scan, scanner.exact(), inputs))


def tables(runs: int, tokens: list[int], pairs: list[int]) -> list[str]:
    """One for tokens, one for heads, one for pairs."""
    by_tokens = {size: partial(of_model, 4, 12, inputs_of(size, max(1, TOKENS // size))) for size in tokens}
    some = inputs_of(128, 4)
    by_heads = {size: partial(of_model, *shape, some) for size, shape in SHAPES.items()}
    shipped = list(shipped_pairs())
    with Scanner(ScanOptions(model="bundled", predictive="off")) as scanner:

        def over(count: int) -> Cost:
            records = itertools.islice(itertools.cycle(shipped), count)
            return cost(lambda: [None for _ in scan_pairs(scanner, records)])

        over(pairs[0])  # not counted; of each size, one scan would be as long again
        return [
            table("tokens an input", in_turn(by_tokens, runs)),
            table("heads", in_turn(by_heads, runs)),
            table("pairs", {size: [over(size)] for size in pairs}),
        ]


def long_model(directory: Path, layers: int) -> None:
    """Save a random model of ModernBERT base's width and windows, with a tokenizer of so many words."""
    ids = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(LONG_WORDS))]
    config = ModernBertConfig(vocab_size=len(vocabulary), num_hidden_layers=layers, **ids)
    torch.manual_seed(0)
    ModernBertModel(config).save_pretrained(directory)
    words = Tokenizer(models.WordPiece({word: place for place, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=words, model_max_length=8192, **special).save_pretrained(directory)


def long_pair(tokens: int) -> Pair:
    """Two sentences of so many tokens together, special ones included."""
    chance = 1 / np.arange(1, LONG_WORDS + 1)
    drawn = np.random.default_rng(0).choice(LONG_WORDS, tokens - 3, p=chance / chance.sum())
    words = [f"w{number}" for number in drawn]
    return Pair(" ".join(words[: tokens // 2]), " ".join(words[tokens // 2 :]))


def measured(what: str, directory: str, tokens: int) -> None:
    """Do one of `LONG`, and print its processor time and the process's peak memory in MB."""
    options = ScanOptions(model=directory, device="cpu", dtype="float32", predictive="off", labelled=what == "heads")
    pair = long_pair(tokens)
    with Scanner(options) as scanner:
        encoded = scanner.encode(pair)
        batch = scanner.collate([encoded])

        def forward() -> None:
            with torch.inference_mode():
                scanner.loaded.model(**batch.model_inputs)

        def classified() -> None:
            result = outcome(classify(scanner, pair, encoded))
            for work in (*result.stated.values(), *result.fits.values()):
                if work is not None:
                    work()

        scanned = partial(summed, scanner, [encoded])
        works = {"forward": forward, "heads --pattern": scanned, "heads": scanned, "classify": classified}
        print(cost(works[what]).cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def long_table(tokens: list[int], layers: int) -> str:
    """What each of `LONG` costs beside the forward."""
    lines = ["| tokens | what | CPU time | of the forward's | peak |", "| ---: | --- | ---: | ---: | ---: |"]
    with tempfile.TemporaryDirectory() as directory:
        long_model(Path(directory), layers)
        for count in tokens:
            forward = math.nan
            for what in LONG:
                command = [sys.executable, __file__, "--measure", what, directory, str(count)]
                told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
                seconds, peak = map(float, told[-2:])
                forward = seconds if what == "forward" else forward
                lines.append(f"| {count:,} | {what} | {seconds:.1f} s | {seconds / forward:.2f} | {peak:,.0f} MB |")
    return "\n".join(lines)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tokens", type=int, nargs="+", default=[16, 32, 64, 128, 256, 512])
    parser.add_argument("--pairs", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--long", type=int, nargs="+", help="measure long inputs of so many tokens instead")
    parser.add_argument("--layers", type=int, default=3, help="of the model of long inputs")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        what, directory, tokens = asked.measure
        measured(what, directory, int(tokens))
        return
    print(machine())
    if asked.long:
        print(long_table(asked.long, asked.layers))
        return
    print("\n\n".join(tables(asked.runs, asked.tokens, asked.pairs)))


if __name__ == "__main__":
    main()

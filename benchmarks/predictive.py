"""What asking the model costs, and what it saves to have asked before.

    python benchmarks/predictive.py [--runs 7] [--commands 3] [--base DIR] [--pairs FILE]

Two tables:

- `predictive` against a plain forward of the same hidden sequences, in turn in one process: on the articles' pair with
  a model of BERT base's shape (random weights: time does not depend on them), with its masked-LM head (`cpmi`) and
  without (`distance`). The rival runs the encoder alone over the same sequences, batched the same way, and computes
  nothing from them. The bound is DESIGN.md's: 10 % more.
- `attnscan heads` with the bundled model, whole commands in turn: on the shipped pairs, whose answers are shipped, and
  on other pairs (16 shipped ones with their sentences swapped, or those of --pairs), for the first and the second time.
  Against the same without asking, against asking each time and, with --base, against another checkout of attnscan.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path

import torch
from sidebyside import Cost, in_turn, machine, process_cost, row, show
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

from attnscan.inputs.encode import encode_pair
from attnscan.inputs.pairs import Pair, shipped_pairs
from attnscan.model.loaded import LoadedModel
from attnscan.model.sources import bundled
from attnscan.results.terms import HelpMeasure
from attnscan.scoring.predictive import Questions, help_between_words

PAIR = Pair("I went to the store.", "At the store, I bought fresh strawberries.")
BATCH_TOKENS = 4096
HERE = Path(__file__).parents[1]


def seconds(run: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def against_a_forward(runs: int) -> None:
    """Print a line for each measure."""
    torch.manual_seed(0)
    whole = BertForMaskedLM(BertConfig()).eval()
    source, tokenizer = bundled(), AutoTokenizer.from_pretrained(bundled().location)
    loaded = LoadedModel(source, whole.bert, whole, tokenizer, torch.device("cpu"), torch.float32, None)
    encoded = encode_pair(tokenizer, PAIR, "token", 512, truncate=False)
    words = [unit for unit, sentence in enumerate(encoded.unit_sentence) if sentence >= 0]
    asked = {unit for unit in words if not encoded.punctuation[unit]}
    hidden = [(unit,) for unit in asked] + [pair for pair in combinations(words, 2) if asked & set(pair)]
    at_once = BATCH_TOKENS // len(encoded.tokens)

    def plain() -> None:
        """The encoder alone over as many sequences."""
        for start in range(0, len(hidden), at_once):
            count = len(hidden[start : start + at_once])
            inputs = {name: torch.tensor(values).repeat(count, 1) for name, values in encoded.model_inputs.items()}
            with torch.inference_mode():
                whole.bert(**inputs)

    print(f"{len(hidden)} hidden sequences of {len(encoded.tokens)} tokens, {torch.get_num_threads()} threads")
    measures: tuple[HelpMeasure, ...] = ("cpmi", "distance")
    for measure in measures:

        def ask(measure: HelpMeasure = measure) -> None:
            list(help_between_words(loaded, [Questions(encoded, 32)], measure, batch_tokens=BATCH_TOKENS))

        pairs = [(seconds(ask), seconds(plain)) for _ in range(runs + 1)][1:]
        ratio = statistics.median(a / b for a, b in pairs)
        ours, rival = (statistics.median(times) for times in zip(*pairs, strict=True))
        print(f"{measure:9} {ours:6.3f}s   plain forward {rival:6.3f}s   {ratio:5.2f}×   bound 1.10×")


def heads(base: Path, cache: str, *more: str) -> Cost:
    """One run of `attnscan heads` of a checkout, on one core."""
    settings = (f"PYTHONPATH={base}", f"ATTNSCAN_CACHE={cache}", "OMP_NUM_THREADS=1")
    command = (sys.executable, "-m", "attnscan", "heads", "--model", "bundled", "--csv", *more)
    return process_cost(["env", "-C", str(base), *settings, *command])


def first(*more: str) -> Cost:
    """One that has nothing kept yet."""
    with tempfile.TemporaryDirectory() as empty:
        return heads(HERE, empty, *more)


def commands(runs: int, base: Path | None, pairs: Path | None) -> None:
    """Print a table of what the command costs, the first time and the second."""
    with tempfile.TemporaryDirectory() as place:
        other = pairs or swapped(Path(place) / "other.csv")
        rows = []
        for what, more in (("shipped pairs", ()), ("other pairs", ("--pairs", str(other)))):
            kept = str(Path(place) / what.split()[0])
            rivals = {
                "first run": partial(first, *more),
                "second run": partial(heads, HERE, kept, *more),
                "`--predictive off`": partial(heads, HERE, kept, *more, "--predictive", "off"),
                "`ATTNSCAN_CACHE=off`": partial(heads, HERE, "off", *more),
            }
            if base is not None:
                rivals[f"{base.name}"] = partial(heads, base, "off", *more)
            costs = in_turn(rivals, runs)
            print(f"{what}, processor time:", {name: f"{each[-1].cpu:.1f} s" for name, each in costs.items()})
            rows += [
                row(f"heads, {what}, {name}", rival, costs[name], costs[rival], bound(name, rival))
                for name in list(rivals)[:2]
                for rival in list(rivals)[2:]
            ]
        show(rows)


def bound(name: str, rival: str) -> float | None:
    """What issue 25 asks for."""
    if rival == "`--predictive off`":
        return 1.3 if name == "second run" else None
    return 0.5


def swapped(path: Path) -> Path:
    """A file of pairs that nobody has asked about."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["sentence_a", "sentence_b"])
        writer.writerows(record.pair.texts[::-1] for record in list(shipped_pairs())[:16])
    return path


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7, help="counted runs of each measure, after one that is not")
    parser.add_argument("--commands", type=int, default=3, help="counted runs of each command, after one that is not")
    parser.add_argument("--base", type=Path, help="another checkout, whose command is run beside")
    parser.add_argument("--pairs", type=Path, help="other pairs than the shipped ones")
    given = parser.parse_args()
    print(machine())
    if given.runs:
        against_a_forward(given.runs)
    if given.commands:
        commands(given.commands, given.base, given.pairs)
    print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()

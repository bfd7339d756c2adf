"""What asking the model costs: `predictive` against a plain forward of the same hidden sequences, in turn.

    python benchmarks/predictive.py [--runs 7]

On the articles' pair with a model of BERT base's shape (random weights: time does not depend on them), with its
masked-LM head (`cpmi`) and without (`distance`). The rival runs the encoder alone over the same sequences, batched
the same way, and computes nothing from them. The bound is DESIGN.md's: 10 % more.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import combinations

import torch
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

from attnscan.inputs.encode import encode_pair
from attnscan.inputs.pairs import Pair
from attnscan.model.loading import LoadedModel
from attnscan.model.sources import bundled
from attnscan.results.terms import HelpMeasure
from attnscan.scoring.predictive import help_between_words

PAIR = Pair("I went to the store.", "At the store, I bought fresh strawberries.")
BATCH_TOKENS = 4096


def seconds(run: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    """Print a line for each measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7, help="counted runs of each, after one that is not")
    runs = parser.parse_args().runs
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
            list(help_between_words(loaded, [encoded], measure, most_words=32, batch_tokens=BATCH_TOKENS))

        pairs = [(seconds(ask), seconds(plain)) for _ in range(runs + 1)][1:]
        ratio = statistics.median(a / b for a, b in pairs)
        ours, rival = (statistics.median(times) for times in zip(*pairs, strict=True))
        print(f"{measure:9} {ours:6.3f}s   plain forward {rival:6.3f}s   {ratio:5.2f}×   bound 1.10×")


if __name__ == "__main__":
    main()

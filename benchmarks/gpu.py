"""What a scan costs on a GPU, against a plain sdpa forward.

    python benchmarks/gpu.py [--runs 7] [--device cuda] [--tokens 32768]

Models of BERT base's and BERT large's shape with random weights, every pattern but `predictive`, float16 and
bfloat16. Rivals run in turn in one process, each synchronized before the clock is read; the ratio is a median over
neighbouring runs. Before anything is timed, the scores are held against those of float32 on the CPU.
"""

import argparse
import statistics
from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
import torch
from scan import inputs_of, random_bert
from sidebyside import Cost, cost, in_turn, machine, ratios
from transformers import BertModel

from attnscan.inputs.batch import EncodedBatch, collate
from attnscan.inputs.sentence import EncodedInput
from attnscan.model.tap import Tap
from attnscan.scoring.labels import scores_of
from attnscan.scoring.patterns import PATTERNS
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.units import Targets

SHAPES = {"base": (12, 12), "large": (24, 16)}
BOUND = 1.2
MOST_OFF = {torch.float16: 5e-3, torch.bfloat16: 4e-2}  # of a score, against float32


def synchronized(device: torch.device, run: Callable[[], object]) -> Cost:
    """The cost of a run to its end on the device."""

    def whole() -> None:
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    return cost(whole)


def scored(tap: Tap, batch: EncodedBatch) -> np.ndarray:
    """A batch's scores."""
    scorer = Scorer(Targets(batch, PATTERNS))
    tap.run(batch.model_inputs, scorer)
    return scores_of(scorer.sums(), [pattern.scored for pattern in PATTERNS]).every_key.score


def plain(model: BertModel, batch: EncodedBatch) -> None:
    """A forward without attention."""
    with torch.inference_mode():
        model(**batch.model_inputs)


def check(model: BertModel, inputs: list[EncodedInput], device: torch.device, dtype: torch.dtype) -> None:
    """Raises: AssertionError if the scores differ from float32's on a CPU by more than the format explains."""
    with Tap(model.to("cpu", torch.float32)) as tap:
        expected = scored(tap, collate(inputs))
    with Tap(model.to(device, dtype)) as tap:
        found = scored(tap, collate(inputs).to(device))
    off = float(np.nanmax(np.abs(found - expected)))
    assert off < MOST_OFF.get(dtype, 1e-5), f"scores in {dtype} are off by {off:.1e}"


def main() -> None:
    """Print a line for each shape, length and format."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tokens", type=int, default=32_768, help="in a batch")
    asked = parser.parse_args()
    device = torch.device(asked.device)
    chip = torch.cuda.get_device_name(device) if device.type == "cuda" else "no GPU"
    print(f"{machine()}, {chip}, torch {torch.__version__}; {asked.tokens:,} tokens a batch, {asked.runs} runs\n")
    print(
        "| shape | tokens | format | pairs a second | scan / sdpa | bound |\n| --- | ---: | --- | ---: | ---: | ---: |"
    )
    for shape, length, dtype in product(SHAPES, (128, 512), MOST_OFF):
        model, inputs = random_bert(*SHAPES[shape]), inputs_of(length, max(1, asked.tokens // length))
        check(model, inputs[:2], device, dtype)
        batch = collate(inputs).to(device)
        with Tap(model) as tap:
            rivals = {"scan": partial(scored, tap, batch), "plain": partial(plain, model, batch)}
            costs = in_turn({name: partial(synchronized, device, run) for name, run in rivals.items()}, asked.runs)
        speed = len(inputs) / statistics.median(one.wall for one in costs["scan"])
        ratio, _ = ratios(costs["scan"], costs["plain"])
        print(f"| {shape} | {length} | {str(dtype)[6:]} | {speed:,.0f} | {ratio:.2f} | {BOUND:.2f} |", flush=True)


if __name__ == "__main__":
    main()

"""What `attnscan.TrainerCallback` costs: a small decoder is trained without it and with it.

    python benchmarks/training.py [--steps 500] [--every 500] [--layers 4] [--width 256]

Both train in one process, on the same random words, a step of 32 sequences of 64 words. The
callback labels heads by the pairs that ship, before the first step and then every so many steps;
what that costs beside the steps between two labellings is printed, too, for its default of 500.
Times are of the processor.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from sidebyside import machine
from transformers import (
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
)

import attnscan
from attnscan.model.sources import bundled

BATCH = 32
LENGTH = 64
DEFAULT_EVERY = 500
BOUND = 0.05


class RandomWords(torch.utils.data.Dataset):
    """Sequences of random words; the same for each number."""

    def __init__(self, vocabulary: int, steps: int) -> None:
        self.vocabulary = vocabulary
        self.steps = steps

    def __len__(self) -> int:
        return BATCH * self.steps

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        draw = torch.Generator().manual_seed(number)
        ids = torch.randint(1000, self.vocabulary, (LENGTH,), generator=draw)
        return {"input_ids": ids, "labels": ids}


def trainer_of(options: argparse.Namespace, directory: str) -> Trainer:
    """A trainer of an untrained decoder."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(bundled().location)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=512,
        n_embd=options.width,
        n_layer=options.layers,
        n_head=options.width // 32,
        bos_token_id=None,
        eos_token_id=None,
    )
    arguments = TrainingArguments(
        output_dir=directory,
        max_steps=options.steps,
        per_device_train_batch_size=BATCH,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        logging_strategy="no",
    )
    return Trainer(
        model=GPT2LMHeadModel(config),
        args=arguments,
        train_dataset=RandomWords(len(tokenizer), options.steps),
        processing_class=tokenizer,
    )


def seconds(run: Callable[[], Any]) -> float:
    """Processor time of a run."""
    start = time.process_time()
    run()
    return time.process_time() - start


def main() -> None:
    """Train twice, and print what the callback costs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--every", type=int, default=DEFAULT_EVERY)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    options = parser.parse_args()
    print(f"{machine()}, torch {torch.__version__}; {options}")
    with tempfile.TemporaryDirectory() as directory:
        plain = trainer_of(options, directory)
        without = seconds(plain.train)
        watched = trainer_of(options, directory)
        callback = attnscan.TrainerCallback(trainer=watched, every=options.every)
        watched.add_callback(callback)
        with_it = seconds(watched.train)
    labelled = len(callback.trace.checkpoints)
    step = without / options.steps
    once = (with_it - without) / labelled
    share = once / (DEFAULT_EVERY * step)
    print(f"{options.steps} steps: {without:.1f} s, with {labelled} labellings {with_it:.1f} s")
    print(f"a step {step:.3f} s, a labelling {once:.2f} s")
    print(f"every {DEFAULT_EVERY} steps: {share:.1%} of training time; at most {BOUND:.0%}")


if __name__ == "__main__":
    main()

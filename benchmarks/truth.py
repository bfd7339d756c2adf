"""Every number of attnscan's tables beside the same number by other code, and how often its
intervals hold the truth.

    python benchmarks/truth.py [--only classify heads ...] [--model bundled DIRECTORY ...]

attnscan runs as a command, with each model, on a few of the pairs that it ships; nothing of it is
imported, but in the forks that are the commands. `by_loops.py` works the same numbers out in plain
loops from transformers' own attention, and each is compared with what the command wrote; the other
`truth_of_*.py` do so for the rest. Where attnscan draws at random, its draw is made again, or a
draw of one's own is compared within its error. `coverage_of_intervals.py` draws pairs anew,
vectorised. A number that differs by more than its bound makes the exit status 1. Tables are made by
as many processes as there are cores.
"""

import argparse
import itertools
import json
import math
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path

import by_loops as loops
import coverage_of_intervals
import torch
import truth_of_studies as studies
from by_loops import PATTERNS, Checkpoint, Measures
from tally import (
    PAIR,
    ROOT,
    Pairs,
    Row,
    Tally,
    bundled,
    command,
    hash_of,
    head_of,
    over,
    shipped,
    written,
)
from transformers.utils import logging
from truth_of_labels import READINGS, labels
from truth_of_syntax import syntax

HEADS_PAIRS = 12
PREDICTIVE_PAIRS = 4
LONG = 12
"""Pairs that `heads` reads, those that `predictive` asks the model about, and those that make one
of related words.
"""


def classify(checkpoint: Checkpoint) -> Iterator[Tally]:
    """Scores and entropy of one input, among words and over all keys."""
    one = checkpoint.read(PAIR)
    target = loops.targets(one, loops.helps(checkpoint, one))
    weights = checkpoint.weights(one)
    for special in ("out", "in"):
        rows = command(
            "classify", *PAIR, *options_of(checkpoint), "--no-related", "--special", special
        )
        tally = Tally(f"classify, special {special}")
        expected = loops.every_head(one, weights, target, special)
        tally.same("heads", sorted(map(head_of, rows)), sorted(expected))
        for row in rows:
            layer, head = head_of(row)
            what = f"{layer}-{head}"
            tally.same(f"{what} name", row["name"], f"L{layer}H{head}")
            for pattern in PATTERNS:
                tally.compare(
                    f"{what} {pattern}",
                    row[pattern],
                    loops.Score([expected[layer, head][pattern]]).mean(),
                )
            tally.row(
                row,
                what,
                entropy=loops.mean_of([loops.entropy(weights[layer, head, i]) for i in one.words]),
            )
        yield tally


def options_of(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Options: the model, and `predictive` by distances of hidden states, also where the model has
    a head for words.
    """
    return ("--model", checkpoint.name, "--predictive", "distance")


def related_words(checkpoint: Checkpoint) -> Iterator[Tally]:
    """Which words of a long input are related, and the scores with them."""
    pair = [" ".join(texts) for texts in zip(*shipped(LONG), strict=True)]
    options = ("--model", checkpoint.name, "--predictive", "off", "--format", "json")
    result = json.loads(written("classify", *pair, *options, "--seed", "0"))
    of_seed_1 = json.loads(written("classify", *pair, *options, "--seed", "1"))
    one = checkpoint.read(pair)
    tally = Tally("classify, related words")
    alike = loops.related(checkpoint, one)
    tally.same(
        "related words",
        sorted(map(tuple, result["related"])),
        sorted((i, j) for i, j in alike if i < j),
    )
    tally.same("related words by another seed", of_seed_1["related"], result["related"])
    expected = loops.every_head(one, checkpoint.weights(one), loops.targets(one, alike=alike))
    for row in result["heads"]:
        for pattern in ("identical", "cross-sentence"):
            score = loops.Score([expected[head_of(row)][pattern]]).mean()
            tally.compare(f"{head_of(row)} {pattern}", str(row[pattern]), score)
    tally.table += f" ({len(alike) // 2} pairs)"
    yield tally


def predictive(checkpoint: Checkpoint) -> Iterator[Tally]:
    """How much each word helps to predict each other one."""
    one = checkpoint.read(PAIR)
    expected = loops.helps(checkpoint, one)
    target = loops.targets(one, expected)["predictive"]
    tally = Tally("predictive", 1e-4, "distances of float32 states, not shares")
    rows = command("predictive", *PAIR, *options_of(checkpoint))
    tally.same("rows", len(rows), sum(map(len, expected.values())))
    for row in rows:
        query = int(row["query"])
        key = int(row["key"])
        tally.row(
            row,
            f"{query} {key}",
            help=expected[query][key],
            target=target.get(query, {}).get(key, 0.0),
        )
    yield tally


def score_pairs(
    checkpoint: Checkpoint, pairs: Pairs, sample: Pairs, unit: str, special: str
) -> list[Measures]:
    """Every head's sums; of `predictive` for the pairs of `sample`."""
    measures = []
    for pair in pairs:
        one = checkpoint.read(pair, unit)
        target = loops.targets(one, loops.helps(checkpoint, one) if pair in sample else None)
        measures.append(loops.every_head(one, checkpoint.weights(one), target, special))
    return measures


def heads(checkpoint: Checkpoint) -> Iterator[Tally]:
    """The ranking over pairs: by token, by word, and ranked by one half and scored by the other.

    How much words help is asked for once: most of the time goes there.
    """
    pairs = shipped(HEADS_PAIRS)
    hashes = {
        pair: hash_of("0", *pair) for pair in pairs
    }  # samples are the first by it; its last bit is the half
    sample = sorted(pairs, key=hashes.__getitem__)[:PREDICTIVE_PAIRS]
    asked = (*options_of(checkpoint), "--predictive-pairs", str(PREDICTIVE_PAIRS))
    not_asked = ("--model", checkpoint.name, "--predictive", "off")
    tally = Tally("heads --predictive distance")
    measures = score_pairs(checkpoint, pairs, sample, "token", "out")
    _compare_ranking(tally, over(pairs, "heads", "--best", *asked), measures, measures)
    yield tally
    for unit, special in itertools.product(("token", "word"), ("out", "in")):
        measures = score_pairs(checkpoint, pairs, (), unit, special)
        reading = ("--unit", unit, "--special", special)
        tally = Tally(f"heads {' '.join(reading)}")
        rows = over(pairs, "heads", "--best", *not_asked, *reading)
        _compare_ranking(tally, rows, measures, measures)
        yield tally
    tally = Tally("heads --split")
    measures = score_pairs(checkpoint, pairs, (), "token", "out")
    halves: tuple[list[Measures], list[Measures]] = [], []
    for pair, of_pair in zip(pairs, measures, strict=True):
        halves[int(hashes[pair][-1], 16) & 1].append(of_pair)
    rows = over(pairs, "heads", "--best", *not_asked, "--split")
    _compare_ranking(tally, rows, halves[1], halves[0])
    yield tally


def _compare_ranking(
    tally: Tally, rows: list[Row], scored: list[Measures], ranked: list[Measures]
) -> None:
    """The rows of heads by their scores over some pairs, ranked by the same or others."""
    for pattern in PATTERNS:
        rows_of = [row for row in rows if row["pattern"] == pattern]
        order = [head_of(row) for row in rows_of]
        tally.same(f"{pattern} heads", sorted(order), sorted(scored[0]))
        scores = {}
        by = {}
        for head in order:
            scores[head] = loops.Score([measures[head][pattern] for measures in scored])
            by[head] = loops.Score([measures[head][pattern] for measures in ranked]).mean()
        have = sum(scores[head].n > 0 and not math.isnan(by[head]) for head in order)
        ranks = [str(place) if place <= have else "" for place in range(1, len(order) + 1)]
        tally.same(f"{pattern} ranks", [row["rank"] for row in rows_of], ranks)
        below = [by[b] - by[a] > 1e-7 for a, b in itertools.pairwise(order)]
        tally.same(f"{pattern} order", any(below), False)
        for head, row in zip(order, rows_of, strict=True):
            score = scores[head]
            low, high = score.interval
            expected = {name: getattr(score, name) for name in ("above_chance", "se", "n", "pairs")}
            expected |= {
                "score": score.mean(),
                "chance": score.mean("chance"),
                "low": low,
                "high": high,
            }
            tally.row(row, f"{pattern} {head}", **expected)


TABLES = {
    "classify": classify,
    "related": related_words,
    "predictive": predictive,
    "heads": heads,
    **{
        f"labels-{by}-{special}": partial(labels, by=by, special=special)
        for by, special in READINGS
    },
    "syntax": syntax,
    "similar": studies.similar,
    "compare": studies.compare,
    "ablate": studies.ablate,
    "explain": studies.explain,
}


@cache
def load(model: str) -> Checkpoint:
    """A model by its directory, or the one that attnscan ships."""
    return Checkpoint(bundled(), model) if model == "bundled" else Checkpoint(Path(model))


def prepare() -> None:
    """Each process has one core."""
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # of the commands that it runs
    logging.set_verbosity_error()
    logging.disable_progress_bar()


def make(model: str, name: str) -> list[Tally]:
    """One table of a model, or more."""
    return list(TABLES[name](load(model)))


def main() -> int:
    """Print a line for each table, then how often intervals hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", choices=[*TABLES, "coverage"], default=[*TABLES, "coverage"]
    )
    parser.add_argument(
        "--model", nargs="+", default=["bundled"], help="bundled, or directories of BERTs"
    )
    parser.add_argument(
        "--population",
        type=Path,
        default=ROOT / "examples" / "pairs.csv",
        help="pairs for coverage",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    options = parser.parse_args()
    start = time.perf_counter()
    print(f"{datetime.now(UTC):%Y-%m-%d}, torch {torch.__version__}", flush=True)
    failed = False
    names = [name for name in TABLES if name in options.only]
    processes = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, processes, initializer=prepare) as pool:
        made = {}
        for task in itertools.product(options.model, names):
            made[task] = pool.submit(make, *task)
        for model in options.model:
            print(Path(model).name, flush=True)
            for tally in itertools.chain.from_iterable(made[model, n].result() for n in names):
                print(tally, flush=True)
                failed |= bool(tally.wrong)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = f"{time.perf_counter() - start:.0f} s, {options.jobs} processes"
    print(f"{wall}, {used.ru_utime + used.ru_stime:.0f} s of CPU", flush=True)
    if "coverage" in options.only:
        for line in ("", *coverage_of_intervals.lines(options.model, options.population)):
            print(line, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

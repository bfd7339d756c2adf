"""What scoring costs: attnscan against a plain sdpa forward over the same batches, and against a plain loop.

    python benchmarks/scan.py [--runs 5] [--layers 12] [--lengths 32 128 512] [--pairs FILE]

A model of BERT base's shape (random weights: time does not depend on them), every pattern but `predictive`,
8,192 tokens in batches as attnscan makes them for that shape. The sdpa forward runs the whole encoder over the same
batches, on as many cores as torch takes, and computes nothing from it; beside it stands the same with a core to each
batch, as attnscan itself runs them, which is the best that a user could do. The loop is what a user writes today: one
pair at a time, `output_attentions=True`, numpy. Bare matrix products are as many operations as the scan's model takes,
and nothing else, a core to each: 1 divided by that ratio is the share of the machine's speed that the scan reaches. A
scan in bfloat16 is held against the forward in float32, where the processor multiplies in it. A scan of what heads
carry is held against one of weights, one that sums for profiles against one that does not, one that sums for statements
likewise, and one that labels heads, by weight and by what they carry. Rivals run in turn in one process; the ratios are
medians over neighbouring runs.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial

import numpy as np
import torch
from sidebyside import Row, cost, in_turn, machine, row, show
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoTokenizer, BertConfig, BertModel

from attnscan.inputs.batch import EncodedInput, batches, collate
from attnscan.inputs.encode import encode_pair
from attnscan.inputs.pairs import Pair, read_pairs
from attnscan.model.loaded import LoadedModel, multiplies_bfloat16
from attnscan.model.sources import Dtype, bundled
from attnscan.model.threads import most_workers, replicas, side_by_side
from attnscan.scan.local import summed
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scoring.classes import ClassScorer, class_sums
from attnscan.scoring.patterns import PATTERNS
from attnscan.scoring.targets import Targets

TOKENS = 8192
BOUNDS = {"32 tokens": 0.95, "128 tokens": 0.95, "512 tokens": 1.05}
BFLOAT16_BOUNDS = {"32 tokens": 0.55, "128 tokens": 0.55, "512 tokens": 0.62}
NORM_BOUND = 1.15
PROFILE_BOUND = 1.25
STATEMENT_BOUNDS = {"32 tokens": 1.15, "128 tokens": 1.15, "512 tokens": 1.3}


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
        dtype: Dtype = "bfloat16" if multiplies_bfloat16() else "float32"
        scanner = Scanner(ScanOptions(model=directory, device="cpu", dtype=dtype, predictive="off"))
    with scanner:
        yield scanner


def with_statements(scanner: Scanner, inputs: Sequence[EncodedInput]) -> None:
    """What a scan does with a batch, and beside it the sums that statements are made of."""
    classes: list[ClassScorer] = []

    def beside(targets: Targets) -> ClassScorer:
        classes.append(ClassScorer(targets.batch, special=False))
        return classes[0]

    scanner.score(inputs, also=beside, products=True)
    class_sums(classes[0].sums(), [encoded.known_pair.key for encoded in inputs])


def scan(scanner: Scanner, inputs: list[EncodedInput], work: Callable[..., object] = summed) -> None:
    """What attnscan does, tokenizing apart."""
    pieces = list(batches(inputs, scanner.loaded.room(None)))
    longest = max(len(one.tokens) for one in inputs)
    if scanner.options.reading.carried or scanner.options.labelled:
        _ = scanner.projections  # made once for all batches
    with scanner.crew(len(pieces), longest) as crew, closing(side_by_side(crew, pieces, work)) as scored:
        for _ in scored:
            pass


def plain(scanner: Scanner, inputs: list[EncodedInput]) -> None:
    """A forward without attention."""
    for batch in batches(inputs, scanner.loaded.room(None)):
        with torch.inference_mode():
            scanner.loaded.model(**collate(batch).model_inputs)


def plain_side_by_side(scanner: Scanner, inputs: list[EncodedInput]) -> None:
    """The same, a core to each batch."""
    pieces = list(batches(inputs, scanner.loaded.room(None)))

    def work(loaded: LoadedModel, batch: list[EncodedInput]) -> None:
        with torch.inference_mode():
            loaded.model(**collate(batch).model_inputs)

    most = most_workers(scanner.loaded, None, max(len(one.tokens) for one in inputs))
    crew = replicas(scanner.loaded, min(len(pieces), most))
    with closing(side_by_side(crew, pieces, work)) as done:
        for _ in done:
            pass


def operations(scanner: Scanner, inputs: list[EncodedInput]) -> int:
    """How many floating-point operations the model takes in a scan: those of its products, up to the last weights."""
    with FlopCounterMode(display=False) as counter:
        for batch in batches(inputs, scanner.loaded.room(None)):
            scanner.run(scanner.collate(batch).model_inputs, lambda _: None)
    return int(counter.get_total_flops())


def products(count: int) -> None:
    """Nothing but products of a batch with a feed-forward's weights, of that many operations in all, a core to each."""
    threads = torch.get_num_threads()
    left, right = torch.ones(1024, 768), torch.ones(768, 3072)

    def work(_: int) -> None:
        torch.set_num_threads(1)
        with torch.inference_mode():
            for _ in range(round(count / threads / (2 * 1024 * 768 * 3072))):
                torch.mm(left, right)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    torch.set_num_threads(threads)


def loop(eager: BertModel, inputs: list[EncodedInput]) -> None:
    """What a user writes today."""
    for one in inputs:
        collated = collate([one])
        with torch.no_grad():
            layers = eager(**collated.model_inputs, output_attentions=True).attentions
        weights = torch.cat(layers).flatten(0, 1).numpy()
        visible = torch.ones_like(collated.same_sentence)
        for target in Targets(collated, PATTERNS).under(visible):
            matrix = target.matrix[0].float().numpy()
            eligible = matrix.any(-1)
            for head in weights:
                (head * matrix).sum(-1)[eligible].sum() / max(1, eligible.sum())


def rows(runs: int, layers: int, works: dict[str, list[EncodedInput]]) -> list[Row]:
    """The lines for each kind of work: against plain forwards, bare products and the loop; in bfloat16; by --norm, with
    profiles and with labels against none of that.
    """
    found = []
    with random_model(layers) as fast:
        scanner = fast.exact()
        eager = BertModel(scanner.loaded.model.config, add_pooling_layer=False).eval()
        eager.set_attn_implementation("eager")
        eager.load_state_dict(scanner.loaded.model.state_dict())
        for name, inputs in works.items():
            count = operations(scanner, inputs)
            costs = in_turn(
                {
                    "scan": partial(cost, partial(scan, scanner, inputs)),
                    "plain": partial(cost, partial(plain, scanner, inputs)),
                    "side by side": partial(cost, partial(plain_side_by_side, scanner, inputs)),
                    "products": partial(cost, partial(products, count)),
                    "bfloat16": partial(cost, partial(scan, fast, inputs)),
                    "loop": partial(cost, partial(loop, eager, inputs)),
                    "norm": partial(cost, partial(scan, scanner.with_options(by="carried"), inputs)),
                    "profile": partial(cost, partial(scan, scanner.with_options(profile=True), inputs)),
                    "statements": partial(cost, partial(scan, scanner, inputs, with_statements)),
                    "labels": partial(cost, partial(scan, scanner.with_options(labelled=True), inputs)),
                },
                runs,
            )
            what = f"scan, {name}"
            found.append(
                row(what, "a forward without attention (sdpa)", costs["scan"], costs["plain"], BOUNDS.get(name))
            )
            found.append(row(what, "the same, a core to each batch", costs["scan"], costs["side by side"], None))
            found.append(row(what, "bare matrix products, as many operations", costs["scan"], costs["products"], None))
            if fast.loaded.fast is not None:
                bound = BFLOAT16_BOUNDS.get(name)
                rival = "a forward in float32 (sdpa)"
                found.append(row(f"{what}, --dtype bfloat16", rival, costs["bfloat16"], costs["plain"], bound))
            found.append(row(f"{what}, --norm", "one by weight", costs["norm"], costs["scan"], NORM_BOUND))
            found.append(row(f"{what}, with profiles", "one without", costs["profile"], costs["scan"], PROFILE_BOUND))
            bound = STATEMENT_BOUNDS.get(name)
            found.append(row(f"{what}, with statements", "one without", costs["statements"], costs["scan"], bound))
            found.append(row(f"{what}, with labels", "one without", costs["labels"], costs["scan"], None))
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
        works["pairs"] = [encode_pair(tokenizer, pair, "token", 512, truncate=True) for pair in pairs]
    print(f"{machine()}; {asked.layers} × 12 heads, {torch.get_num_threads()} threads")
    show(rows(asked.runs, asked.layers, works))


if __name__ == "__main__":
    main()

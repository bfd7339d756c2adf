"""What scoring costs: attnscan against a plain sdpa forward over the same batches, and against a plain loop.

A model of BERT base's shape (random weights: time does not depend on them), every pattern but `predictive`,
8,192 tokens in batches as attnscan makes them for that shape. The sdpa forward runs the whole encoder over the same
batches, and computes nothing from it. The loop is what a user writes today: one pair at a time,
`output_attentions=True`, numpy. A scan in bfloat16 is held against the forward in float32, where the processor
multiplies in it. Rivals run in turn in one process. `run.py` runs it.
"""

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from copy import deepcopy
from functools import partial

import numpy as np
import torch
from sidebyside import cost, in_turn, row
from transformers import AutoTokenizer, BertConfig, BertModel

from attnscan.inputs.batch import batches, collate
from attnscan.inputs.sentence import EncodedInput, Pair
from attnscan.model.running import side_by_side
from attnscan.model.sources import bundled
from attnscan.scan.local import sum_batch
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scoring.patterns import PATTERNS
from attnscan.scoring.units import Targets

TOKENS = 8192
BOUNDS = {32: (0.95, 0.55), 128: (0.95, 0.55), 512: (1.05, 0.62)}
"""By the tokens of an input: of a scan, and of one in bfloat16, beside a forward in float32."""


def inputs_of(length: int, count: int) -> list[EncodedInput]:
    """Pairs of that many tokens, of random words."""
    rng, made, nothing = np.random.default_rng(length), [], (False,) * length
    for _ in range(count):
        ids = [101, *rng.integers(2000, 29000, length - 3).tolist()]
        ids = [*ids[: length // 2], 102, *ids[length // 2 :], 102]
        sentence = (-1, *[0] * (length // 2 - 1), -1, *[1] * (length - length // 2 - 2), -1)
        inputs = {"input_ids": ids, "attention_mask": [1] * length, "token_type_ids": [max(0, s) for s in sentence]}
        texts = tuple(f"w{id_ % 40}" for id_ in ids)  # so that words repeat
        made.append(EncodedInput(texts, sentence, tuple(range(length)), nothing, inputs, pair=Pair(" ".join(texts))))
    return made


def random_bert(layers: int = 12, heads: int = 12) -> BertModel:
    """A random BERT with heads of 64 dimensions."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 64 * heads, "intermediate_size": 256 * heads, "attn_implementation": "sdpa"}
    config = BertConfig(num_hidden_layers=layers, num_attention_heads=heads, **sizes)
    return BertModel(config, add_pooling_layer=False).eval()


@contextmanager
def random_scanner() -> Iterator[Scanner]:
    """A random BERT ready to be scanned, in bfloat16 where the processor multiplies in it; `exact()` is in float32."""
    fast = any(map(torch.cpu.get_capabilities().get, ("avx512_bf16", "amx_bf16", "bf16")))
    with tempfile.TemporaryDirectory() as directory:
        random_bert().save_pretrained(directory)
        AutoTokenizer.from_pretrained(bundled().location).save_pretrained(directory)
        dtype = "bfloat16" if fast else "float32"
        scanner = Scanner(ScanOptions(model=directory, device="cpu", dtype=dtype, predictive="off"))
    with scanner:
        yield scanner


def scan(scanner: Scanner, inputs: list[EncodedInput]) -> None:
    """What attnscan does, tokenizing apart."""
    pieces = list(batches(inputs, scanner.loaded.room(None)))
    workers = scanner.workers(len(pieces), max(len(one.tokens) for one in inputs))
    with closing(side_by_side(workers, pieces, partial(sum_batch, scanner))) as scored:
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
        for target in Targets(collated, PATTERNS).of(collated):
            matrix = target[0].float().numpy()
            eligible = matrix.any(-1)
            for head in weights:
                (head * matrix).sum(-1)[eligible].sum() / max(1, eligible.sum())


def rows(runs: int) -> list[str]:
    """The lines for each length: against a plain forward and the loop, and in bfloat16."""
    found, forward = [], "a forward without attention (sdpa)"
    with random_scanner() as fast:
        scanner = fast.exact()
        eager = BertModel(deepcopy(scanner.loaded.model.config), add_pooling_layer=False).eval()
        eager.set_attn_implementation("eager")
        eager.load_state_dict(scanner.loaded.model.state_dict())
        for length, (bound, bound_of_bfloat16) in BOUNDS.items():
            inputs, what = inputs_of(length, TOKENS // length), f"scan, {length} tokens"
            rivals = {
                "scan": partial(scan, scanner, inputs),
                "plain": partial(plain, scanner, inputs),
                "bfloat16": partial(scan, fast, inputs),
                "loop": partial(loop, eager, inputs),
            }
            costs = in_turn({rival: partial(cost, run) for rival, run in rivals.items()}, runs)
            found.append(row(what, forward, costs["scan"], costs["plain"], bound))
            if fast.loaded.scored is not fast.loaded.model:
                named = f"{what}, --dtype bfloat16"
                found.append(row(named, forward, costs["bfloat16"], costs["plain"], bound_of_bfloat16))
            found.append(row(what, "a plain loop", costs["scan"], costs["loop"]))
    return found

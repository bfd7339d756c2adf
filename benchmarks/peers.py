"""What attnscan costs beside TransformerLens, its nearest peer, in one run on the same texts.

    python -m venv --system-site-packages /tmp/lens && /tmp/lens/bin/pip install transformer-lens
    /tmp/lens/bin/python benchmarks/peers.py [--runs 3] [--texts 16] [--layers 12]

(An environment on top of attnscan's: it brings much along.) A model of BERT base's shape with random weights
and the bundled tokenizer, on texts that come along. TransformerLens reads BERT through its bridge, one text at a time,
and looks for two patterns, previous and duplicate tokens, in one cached forward pass a text; attnscan for all but
`predictive`. The plain loop is in `scan.py`, BertViz's pages in `page.py`.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial

import torch
from sidebyside import Row, cost, in_turn, machine, row, show
from transformer_lens.head_detector import detect_head
from transformer_lens.model_bridge import TransformerBridge
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

from attnscan.inputs.pairs import Pair, Record, shipped_pairs
from attnscan.model.sources import bundled
from attnscan.scan.local import scan
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner


def rows(runs: int, texts: int, layers: int) -> list[Row]:
    """One line."""
    written = [" ".join(record.pair.texts) for record, _ in zip(shipped_pairs(), range(texts), strict=False)]
    records = [Record(Pair(text), f"text {number}") for number, text in enumerate(written, 1)]
    with tempfile.TemporaryDirectory() as directory:
        torch.manual_seed(0)
        tokenizer = AutoTokenizer.from_pretrained(bundled().location)
        BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), num_hidden_layers=layers)).save_pretrained(directory)
        tokenizer.save_pretrained(directory)
        bridge = TransformerBridge.boot_transformers(directory, device="cpu", dtype=torch.float32)

        def lens() -> None:
            for text in written:
                with torch.inference_mode():
                    _, cache = bridge.run_with_cache(bridge.to_tokens(text), remove_batch_dim=True)
                    for pattern in ("previous_token_head", "duplicate_token_head"):
                        detect_head(bridge, text, pattern, cache=cache)

        with Scanner(ScanOptions(model=directory, predictive="off")) as scanner:
            ours = partial(cost, lambda: list(scan(scanner, records)))
            costs = in_turn({"ours": ours, "lens": partial(cost, lens)}, runs)
    what, rival = f"six patterns in {texts} texts", "two patterns by TransformerLens"
    return [row(what, rival, costs["ours"], costs["lens"])]


def main() -> None:
    """Print the line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, usual in (("runs", 3), ("texts", 16), ("layers", 12)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    asked = parser.parse_args()
    print(machine())
    show(rows(asked.runs, asked.texts, asked.layers))


if __name__ == "__main__":
    main()

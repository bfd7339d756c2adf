"""What one input of 8,192 tokens costs: processor time beside a plain sdpa forward, and memory.

    python benchmarks/long_input.py TEXT [--layers 3] [--tokens 8192] [--only classify]

A ModernBERT of base size but for its layers, of which each third sees the whole input, reads one
pair of that many tokens of a real text. Its weights are random. Each function runs once, in a
process of its own, whose memory is measured at its peak.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModel, AutoTokenizer, ModernBertConfig, ModernBertModel

import attnscan
from attnscan.model.sources import bundled

MOST_TIMES = 5.0
MOST_GIB = 2.5


def save_model(directory: str, layers: int, tokens: int) -> None:
    """Save a random model with the bundled model's tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(bundled().location, model_max_length=tokens)
    tokenizer.save_pretrained(directory)
    torch.manual_seed(0)
    config = ModernBertConfig(
        vocab_size=len(tokenizer),
        num_hidden_layers=layers,
        max_position_embeddings=tokens,
        pad_token_id=0,
        bos_token_id=101,
        cls_token_id=101,
        eos_token_id=102,
        sep_token_id=102,
    )
    ModernBertModel(config).save_pretrained(directory)


def pair_of(path: str, tokens: int, tokenizer: Any) -> tuple[str, str]:
    """Two halves of a text's beginning, which have so many tokens with the special ones."""
    text = " ".join(Path(path).read_text(encoding="utf-8").split())
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ends = [end for _, end in encoded["offset_mapping"]]
    words = tokens - 3
    middle = ends[words // 2 - 1]
    return text[:middle], text[middle : ends[words - 1]]


def measure(function: str, directory: str, path: str, tokens: int) -> None:
    """Run a function once; print its processor time in seconds and the process' peak in GiB."""
    tokenizer = AutoTokenizer.from_pretrained(directory)
    pair = pair_of(path, tokens, tokenizer)
    if function == "forward":
        plain = AutoModel.from_pretrained(directory, attn_implementation="sdpa").eval()
        ids = tokenizer(*pair, return_tensors="pt")["input_ids"]
        assert ids.shape[1] == tokens
        start = processor_time()
        with torch.inference_mode():
            plain(input_ids=ids)
    else:
        model = attnscan.load(directory)
        start = processor_time()
        if function == "classify":
            attnscan.classify(*pair, model=model, predictive="off", keep_attention=False)
        else:
            attnscan.heads([pair], model=model, predictive="off")
    seconds = processor_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(seconds, peak)


def processor_time() -> float:
    """Of all threads of this process, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measure each function, and print a line of a table for it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", help="a file with enough text")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--only", default="classify,heads")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside is not None:
        measure(options.only, options.inside, options.text, options.tokens)
        return
    print("| function | CPU time | forwards | bound | peak | bound |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    forward = 0.0
    with tempfile.TemporaryDirectory() as directory:
        save_model(directory, options.layers, options.tokens)
        for function in ("forward", *options.only.split(",")):
            words = [options.text, "--tokens", str(options.tokens), "--only", function]
            command = [sys.executable, __file__, *words, "--inside", directory]
            printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            seconds, peak = map(float, printed.split())
            if function == "forward":
                forward = seconds
            times = seconds / forward
            print(
                f"| {function} | {seconds:.0f} s | {times:.1f} | {MOST_TIMES:.1f} "
                f"| {peak:.2f} GiB | {MOST_GIB:.2f} GiB |",
                flush=True,
            )


if __name__ == "__main__":
    main()

"""What someone waits for who types into the page of `attnscan serve`, beside a warm forward pass in the same process.

    pip install playwright && apt-get install chromium
    python benchmarks/serve.py [--model DIRECTORY] [--runs 15] [--edits 1200]

The model is BERT base's shape with random weights, unless one is named. An edit is a `POST /answer` from the request to
the last byte, over a socket: each is of a sentence that was not asked before, in one session that has gone on for a
while. What it stands beside is what the model alone takes for such an input, and the budgets are the project's own.

A second table says what `classify --server URL` would save: a whole process of `attnscan classify`, what is left of it
once a server runs the model (a process that starts, asks and prints), and the question by itself. A third one is of
Chromium: from a change in the box to the painted model view. A last one, with `--edits`, says how memory grows.
"""

from __future__ import annotations

import argparse
import gc
import http.client
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import torch
from playwright.sync_api import expect, sync_playwright
from sidebyside import Cost, cost, in_turn, machine, process_cost
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

from attnscan.inputs.pairs import Pair
from attnscan.model.running import forward
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.server.app import app_of, listening, served
from attnscan.server.question import Question
from attnscan.server.session import Loaded, Session

BUDGETS = {20: 0.150, 128: 0.500}  # seconds, by tokens
PAINTED_BUDGETS = {20: 0.150, 128: 0.450}  # seconds, painting included
EDIT = """async (text) => {
    const { dataset } = document.documentElement;
    const box = document.getElementById('sentence-a');
    const start = performance.now();
    box.value = text;
    box.dispatchEvent(new Event('input'));
    while (dataset.asking !== 'no' || dataset.settled !== 'yes') await new Promise((next) => setTimeout(next));
    await new Promise((next) => requestAnimationFrame(() => setTimeout(next)));
    return performance.now() - start;
}"""
"""Milliseconds from an edit until what it changes is painted."""
_LOOKS = 200  # milliseconds between what an edit changed and the next key: the browser is at rest then
TOKEN = "benchmark"
WORDS = ("the", "cat", "sat", "on", "mat", "and", "then", "it", "went", "to", "store", "for", "more", "red", "berries")
ATTNSCAN = [str(Path(sys.executable).with_name("attnscan"))]
ASKING = """
import http.client, json, sys
import typer, rich.console
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
body = json.dumps({"a": sys.argv[3], "client": "bench", "turn": 1})
connection.request("POST", sys.argv[2], body, {"Content-Type": "application/json"})
rich.console.Console().print(json.loads(connection.getresponse().read())["id"])
"""


def base_shape(directory: Path) -> Path:
    """A model of BERT base's shape with random weights, which reads the words of these inputs."""
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *WORDS, *map(str, range(10))]
    torch.manual_seed(0)
    BertForMaskedLM(BertConfig(vocab_size=30_522)).save_pretrained(directory)
    (directory / "vocab.txt").write_text("\n".join(vocabulary))
    BertTokenizerFast(vocab=str(directory / "vocab.txt")).save_pretrained(directory)
    return directory


def texts(tokens: int) -> Iterator[str]:
    """Sentences of so many tokens with [CLS] and [SEP], each another one."""
    for number in count():
        changed = f"{number:06}"
        words = [WORDS[(int(changed) // len(WORDS) ** (i % 4) + i) % len(WORDS)] for i in range(tokens - 2)]
        yield " ".join(words)


@contextmanager
def connected(session: Session) -> Iterator[tuple[http.client.HTTPConnection, int]]:
    """A server, and what connects to it."""
    with listening(None) as own:
        port = own.getsockname()[1]
        with served(app_of(session, TOKEN, port, lambda error: sys.exit(str(error))), own):
            connection = http.client.HTTPConnection("127.0.0.1", port)
            yield connection, port


def asked(connection: http.client.HTTPConnection, text: str, turn: int) -> bytes:
    """One edit."""
    body = json.dumps({"a": text, "client": "benchmark", "turn": turn})
    connection.request("POST", f"/{TOKEN}/answer", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    found = response.read()
    connection.close()  # as the server does with one that rests for five seconds
    assert response.status == 200, found
    return found


def edits(scanner: Scanner, connection: http.client.HTTPConnection, runs: int) -> None:
    """Print the first table."""
    print("| tokens | an edit | budget | a warm forward | edit's CPU / forward's | bytes |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    turns = count(1)
    for tokens, budget in BUDGETS.items():
        inputs, sizes = texts(tokens), []

        def edit(inputs: Iterator[str] = inputs, sizes: list[int] = sizes) -> Cost:
            text, turn = next(inputs), next(turns)
            return cost(lambda: sizes.append(len(asked(connection, text, turn))))

        def alone(inputs: Iterator[str] = inputs, tokens: int = tokens) -> Cost:
            encoded = scanner.encode(Pair(next(inputs)))
            assert len(encoded.tokens) == tokens
            batch = scanner.collate([encoded]).model_inputs
            return cost(lambda: forward(scanner.loaded.model, batch))

        rivals: dict[str, Callable[[], Cost]] = {"edit": edit, "forward": alone}
        found = in_turn(rivals, runs)
        wall = {name: statistics.median(each.wall for each in costs) for name, costs in found.items()}
        ratio = statistics.median(a.cpu / b.cpu for a, b in zip(found["edit"], found["forward"], strict=True))
        cells = (f"{wall['edit'] * 1e3:.0f} ms", f"{budget * 1e3:.0f} ms", f"{wall['forward'] * 1e3:.0f} ms")
        print(f"| {tokens} | {' | '.join(cells)} | {ratio:.2f} | {sizes[-1]:,} |")


def painted(port: int, runs: int) -> None:
    """Print the third table."""
    print("\n| tokens | an edit until it is painted | budget |\n| ---: | ---: | ---: |")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"http://127.0.0.1:{port}/{TOKEN}/")
        page.locator("html[data-settled=yes][data-asking=no]").wait_for(state="attached")
        for tokens, budget in PAINTED_BUDGETS.items():
            inputs, times = texts(tokens), []
            for _ in range(runs):
                times.append(page.evaluate(EDIT, text := f"{next(inputs)} ."))
                # What comes later is not of this edit, nor of the next one: once it is painted, the edit is remembered
                expect(page.locator("#past a").first).to_have_attribute("title", text, timeout=60_000)
                page.wait_for_timeout(_LOOKS)
            print(f"| {tokens} | {statistics.median(times):.0f} ms | {budget * 1e3:.0f} ms |")
        browser.close()


def processes(model: Path, connection: http.client.HTTPConnection, port: int, runs: int) -> None:
    """Print the second table."""
    text = next(texts(20))
    whole = [*ATTNSCAN, "classify", text, "--model", str(model), "--predictive", "off"]
    asking = [sys.executable, "-c", ASKING, str(port), f"/{TOKEN}/answer", text]
    turns, inputs = count(10_000), texts(20)
    found = in_turn(
        {
            "a whole `attnscan classify`": lambda: process_cost(whole),
            "a process that asks a server": lambda: process_cost(asking),
            "the question by itself": lambda: cost(lambda: asked(connection, next(inputs), next(turns))),
        },
        runs,
    )
    print("\n| one input of 20 tokens | wall time | CPU time |\n| --- | ---: | ---: |")
    for name, costs in found.items():
        wall, cpu = (statistics.median(getattr(each, kind) for each in costs) for kind in ("wall", "cpu"))
        print(f"| {name} | {wall:.2f} s | {cpu:.2f} s |")


def memory(connection: http.client.HTTPConnection, many: int) -> None:
    """Print the last table: what the process takes as inputs of many lengths are edited, one in fifty with its rest."""
    inputs = [texts(tokens) for tokens in range(8, 96, 4)]
    print("\n| edits | peak memory |\n| ---: | ---: |")
    for turn in range(many + 1):
        if turn % max(1, many // 6) == 0:
            print(f"| {turn:,} | {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10:,} MiB |", flush=True)
        answer = json.loads(asked(connection, next(inputs[turn % len(inputs)]), 20_000 + turn))
        if turn % 50 == 0:  # how sure labels are, profiles and statements take seconds
            connection.request("GET", f"/{TOKEN}/rest/{answer['id']}")
            assert connection.getresponse().read()
            connection.close()


def start(model: Path) -> float:
    """Seconds from a command to the address that it says."""
    began = time.perf_counter()
    with subprocess.Popen(
        [*ATTNSCAN, "serve", "--model", str(model)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline()
        taken = time.perf_counter() - began
        process.kill()
    assert urlsplit(url.strip()).port, "it did not begin"
    return taken


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--edits", type=int, default=0, help="how many to measure memory over")
    options = parser.parse_args()
    print(f"{machine()}, torch with {torch.get_num_threads()} threads, medians of {options.runs} runs\n")
    with tempfile.TemporaryDirectory() as place:
        model = options.model or base_shape(Path(place) / "base")
        with Scanner(ScanOptions(model=str(model), predictive="off")) as scanner:
            session = Session([Loaded.of(scanner)], Question(Pair("the cat sat on a mat")))
            session.signatures()
            gc.freeze()  # as the command does: no answer waits for a search among what stays
            with connected(session) as (connection, port):
                edits(scanner, connection, options.runs)
                processes(model, connection, port, max(3, options.runs // 3))
                painted(port, options.runs)
                if options.edits:
                    memory(connection, options.edits)
            session.worker.close()
        print(f"\nfrom `attnscan serve` to its address: {statistics.median(start(model) for _ in range(3)):.1f} s")
    assert threading.active_count() < 10


if __name__ == "__main__":
    main()

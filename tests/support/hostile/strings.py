"""Every string of every file that is read, and names of files, with each kind of thing that a terminal obeys in it."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hostile.runs import check, run

OBEYED = (
    "\x1b[2J",  # an empty screen
    "\x1b]0;mine\x07",  # a title
    "\x1b]8;;file:///etc/passwd\x1b\\",  # a link
    "\x1bP+q544e\x1b\\",  # a question that the terminal answers
    "\x9b31m",  # a colour, in one character less
    "\u202e",  # a line that runs backwards
    "\b\b\b",
    "\r",
    "\u2028",
)
FORMATS = ("table", "csv", "tsv", "json", "jsonl", "markdown")
Trial = Callable[[], bool]


def trials(model: Path, directory: Path, every: int = 1) -> Iterator[Trial]:
    """All kinds of files that are read: each string of each, or every so many, with one of `OBEYED` in it.

    Raises, each: AssertionError if what a terminal obeys comes out.
    """
    for family in (of_pairs, of_weights, of_checkpoints, of_names):
        place = directory / family.__name__
        place.mkdir()
        yield from islice(family(model, place), 0, None, every)


def of_pairs(model: Path, directory: Path) -> Iterator[Trial]:
    """Names of columns, sentences, and what stands beside them; read whole, skipped where bad, and refused."""
    for number, nasty in enumerate(OBEYED):
        columns = {
            "sentence_a": [f"the {nasty}cat", "the cat", ""],
            "sentence_b": [f"{nasty}a mat", f"sat{nasty}", nasty],
        }
        frame = pd.DataFrame({**columns, f"more{nasty}": [nasty, f"x{nasty}", ""]})
        path = directory / f"{number}{nasty.replace('/', '')}"
        frame.to_csv(f"{path}.csv", index=False)
        frame.to_json(f"{path}.jsonl", orient="records", lines=True)
        frame.to_parquet(f"{path}.parquet")
        for suffix, flags in product(
            (".csv", ".jsonl", ".parquet"),
            ((), ("--skip-bad",), ("--columns", f"more{nasty}"), ("--columns", f"{nasty},b")),
        ):
            yield _run("heads", *_scan(model), "--pairs", f"{path}{suffix}", "--format", FORMATS[number % 6], *flags)


def of_weights(_: Path, directory: Path) -> Iterator[Trial]:
    """The tokens of saved weights."""
    weights = np.random.default_rng(0).dirichlet(np.ones(5), (2, 2, 5))
    commands = (("classify",), ("classify", "--all"), ("show", "0-1"), ("show", "0-1", "--token", "1"), ("show", "9-9"))
    for number, nasty in enumerate(OBEYED):
        path = directory / f"{number}{nasty.replace('/', '')}.npz"
        tokens = ["[CLS]", f"the{nasty}", f"{nasty}cat", nasty, "[SEP]"]
        np.savez(path, attention=weights, tokens=np.array(tokens), segments=np.zeros(5, int))
        for command, form in product(commands, FORMATS):
            yield _run(*command, "--weights", path, "--format", form)
        yield _run("report", "--weights", path, "-o", "-")


def of_checkpoints(model: Path, directory: Path) -> Iterator[Trial]:
    """Config and tokenizer; of each string of these one of what there is, in turn."""
    own = directory / "model"
    shutil.copytree(model, own)

    def read(path: Path, content: str, arguments: tuple[object, ...]) -> bool:
        before = path.read_text()
        path.write_text(content)
        try:
            return _run(*arguments)()
        finally:
            path.write_text(before)

    for name in ("config.json", "tokenizer_config.json", "tokenizer.json"):
        for number, other in enumerate(_changed(json.loads((own / name).read_text()))):
            classify = ("classify", "the cat", *_scan(own)[:5], "--format", FORMATS[number % 6])
            for arguments in (("models", own), classify):
                yield partial(read, own / name, json.dumps(other), arguments)


def of_names(model: Path, directory: Path) -> Iterator[Trial]:
    """Names of models, pairs and results, of what is there and of what is not."""
    for number, nasty in enumerate(OBEYED):
        name = nasty.replace("/", "")
        own, pairs = directory / f"model{name}", directory / f"pairs{name}.csv"
        own.symlink_to(model)
        pairs.write_text("sentence_a,sentence_b\nthe cat sat,a cat\na mat,the mat\n")
        many = (*_scan(own), "--pairs", pairs)
        yield _run("models", own)
        yield _run("classify", "the cat", *_scan(own)[:5], "--format", FORMATS[number % 6])
        yield _run("heads", *many, "--state", directory / f"{name}.state")
        yield _run("heads", *many, "--per-pair", directory / f"{name}.parquet")
        for command in (("explain", "all", "-p", "next-word"), ("ablate",), ("similar",)):
            yield _run(*command, "--model", own, "--pairs", pairs)
        yield _run("compare", own, own, "--pairs", pairs)
        for option in ("--state", "--per-pair", "--pairs", "--model", "-o"):
            yield _run("heads", option, directory / name / name)


def _changed(data: Any) -> Iterator[Any]:
    """All of the data with one of its strings another, for each of them."""
    if isinstance(data, str):
        yield f"{OBEYED[len(data) % len(OBEYED)]}{data}"
    elif isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            for other in _changed(value):
                whole = copy.copy(data)
                whole[key] = other
                yield whole


def _run(*arguments: object) -> Trial:
    return lambda: check(run(*arguments))


def _scan(model: Path) -> tuple[object, ...]:
    return ("--model", model, "--predictive", "off", "--no-related", "-p", "next-word")

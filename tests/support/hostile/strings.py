"""Every string of every file that is read, and names of files, with each kind of thing that a terminal obeys in it."""

from __future__ import annotations

import copy
import csv
import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

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
    families = (of_pairs, of_weights, of_checkpoints, of_names)
    for family in families:
        place = directory / family.__name__
        place.mkdir()
        yield from islice(family(model, place), 0, None, every)


def of_pairs(model: Path, directory: Path) -> Iterator[Trial]:
    """Names of columns, sentences, and what stands beside them; read whole, skipped where bad, and refused."""
    for number, nasty in enumerate(OBEYED):
        rows = [
            {"sentence_a": f"the {nasty}cat", "sentence_b": f"{nasty}a mat", f"more{nasty}": nasty},
            {"sentence_a": "the cat", "sentence_b": f"sat{nasty}", f"more{nasty}": f"x{nasty}"},
            {"sentence_a": "", "sentence_b": nasty, f"more{nasty}": ""},
        ]
        for suffix in (".csv", ".tsv", ".jsonl", ".txt", ".parquet"):
            path = directory / f"{number}{nasty.replace('/', '')}{suffix}"
            _write_rows(path, rows)
            for flags in ((), ("--skip-bad",), ("--columns", f"more{nasty}"), ("--columns", f"{nasty},b")):
                arguments = ("heads", *_scan(model), "--pairs", path, "--format", FORMATS[number % 6], *flags)
                yield partial(_checked, arguments)


def of_weights(_: Path, directory: Path) -> Iterator[Trial]:
    """The tokens of saved weights."""
    weights = np.random.default_rng(0).dirichlet(np.ones(5), (2, 2, 5))
    commands = (("classify",), ("classify", "--all"), ("show", "0-1"), ("show", "0-1", "--token", "1"), ("show", "9-9"))
    for number, nasty in enumerate(OBEYED):
        path = directory / f"{number}{nasty.replace('/', '')}.npz"
        tokens = ["[CLS]", f"the{nasty}", f"{nasty}cat", nasty, "[SEP]"]
        np.savez(path, attention=weights, tokens=np.array(tokens), segments=np.zeros(5, int))
        for command in commands:
            for form in FORMATS:
                yield partial(_checked, (*command, "--weights", path, "--format", form))
        yield partial(_checked, ("report", "--weights", path, "-o", "-"))


def of_checkpoints(model: Path, directory: Path) -> Iterator[Trial]:
    """Config and tokenizer; of each string of these one of what there is, in turn."""

    def read(path: Path, content: str, arguments: tuple[object, ...]) -> bool:
        before = path.read_text()
        path.write_text(content)
        try:
            return _checked(arguments)
        finally:
            path.write_text(before)

    own = directory / "model"
    shutil.copytree(model, own)
    kept = ("--model", own, "--predictive", "off", "--no-related")
    for name in ("config.json", "tokenizer_config.json", "tokenizer.json"):
        data = json.loads((own / name).read_text())
        for number, other in enumerate(_changed(data)):
            form = FORMATS[number % 6]
            for arguments in (("models", own), ("classify", "the cat", "a mat", *kept, "--format", form)):
                yield partial(read, own / name, json.dumps(other), arguments)


def of_names(model: Path, directory: Path) -> Iterator[Trial]:
    """Names of models, pairs and results, of what is there and of what is not."""
    pairs = _plain_pairs(directory)
    for number, nasty in enumerate(OBEYED):
        form, name = ("--format", FORMATS[number % 6]), nasty.replace("/", "")
        own, strange = directory / f"model{name}", directory / f"pairs{name}.csv"
        own.symlink_to(model)
        shutil.copy(pairs, strange)
        many = (*_scan(own), "--pairs", strange)
        yield partial(_checked, ("models", own))
        yield partial(_checked, ("classify", "the cat", "a mat", "--model", own, "--predictive", "off", *form))
        yield partial(_checked, ("heads", *many, *form))
        yield partial(_checked, ("heads", *many, "--state", directory / f"{name}.state"))
        yield partial(_checked, ("heads", *many, "--per-pair", directory / f"{name}.parquet"))
        for command in (("explain", "all", "-p", "next-word"), ("ablate",), ("similar",)):
            yield partial(_checked, (*command, "--model", own, "--pairs", strange))
        yield partial(_checked, ("compare", own, own, "--pairs", strange))
        for option in ("--state", "--per-pair", "--pairs", "--model", "-o"):
            yield partial(_checked, ("heads", option, directory / name / name))


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


def _checked(arguments: tuple[object, ...]) -> bool:
    return check(run(*arguments))


def _scan(model: Path) -> tuple[object, ...]:
    return ("--model", model, "--predictive", "off", "--no-related", "-p", "next-word")


def _plain_pairs(directory: Path) -> Path:
    path = directory / "pairs.csv"
    path.write_text("sentence_a,sentence_b\nthe cat sat,a cat\na mat,the mat\n")
    return path


def _write_rows(path: Path, rows: list[dict[str, str]]) -> None:
    if path.suffix == ".parquet":
        table = pa.Table.from_pylist(rows)
        pa.parquet.write_table(table.replace_schema_metadata({rows[1]["sentence_b"]: rows[1]["sentence_b"]}), path)
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".jsonl":
            file.writelines(json.dumps(row) + "\n" for row in rows)
        elif path.suffix == ".txt":
            file.writelines(f"{row['sentence_b']}\n" for row in rows)
        else:
            writer = csv.DictWriter(file, list(rows[0]), delimiter="," if path.suffix == ".csv" else "\t")
            writer.writeheader()
            writer.writerows(rows)

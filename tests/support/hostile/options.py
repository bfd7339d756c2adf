"""Every option of every command at its extremes: a result, or one line; never a traceback or a
library's warning.

The options are those of the command line's own parser, so none can be forgotten.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
from support.command_line import command_named
from support.hostile.runs import check, run, served_for_a_moment
from support.treebanks import planted_file

NUMBERS = ("0", "-1", "1.5", str(2**63), "nan", "inf", "1e308")
TEXTS = (
    "",
    "x",
    "x" * 5000,
    "a\nb",
    "\x1b]0;mine\x07",
    "\ud800",
    "--",
    ",",
    "=1+1",
    "[bold]",
    "no.py:f",
)
PLACES = (*TEXTS, "no/such", ".", "/dev/null", "/dev/full", "file/x", "x" * 300 + ".csv")
OF_PAIRS = ("--pairs", "--columns", "--skip-bad", "--on-long", "--predictive-pairs")
"""Options that commands of one input take for many pairs."""


def prepared(directory: Path, model: Path) -> None:
    """The files that the commands' lines name, in a directory to run them in."""
    (directory / "pairs.csv").write_text(
        "sentence_a,sentence_b\nthe cat sat,a cat\na mat,the mat\n"
    )
    planted_file(directory, "trees.conllu")
    (directory / "file").write_text("a file")
    (directory / "model").symlink_to(model)
    weights = np.random.default_rng(0).dirichlet(np.ones(4), (2, 2, 4)).astype("f4")
    tokens = np.array(["[CLS]", "the", "cat", "[SEP]"])
    np.savez(directory / "weights.npz", attention=weights, tokens=tokens, segments=np.zeros(4, int))


def lines() -> dict[str, list[str]]:
    """What each command needs, to which an option is added."""
    model = ["--model", "model"]
    off = ["--predictive", "off"]
    one = ["the cat sat", *model]
    many = ["--pairs", "pairs.csv", *model]
    return {
        "classify": [*one, *off],
        "show": ["0-0", *one],
        "predictive": one,
        "report": [*one, *off, "-o", "page.html"],
        "serve": one,
        "plot": [*one, *off, "-o", "map.svg"],
        "explain": ["0-0", *one, *off],
        "heads": [*many, *off],
        "head": ["0-0", *many],
        "ablate": [*many, "--heads", "0-0", "--draws", "2"],
        "similar": many,
        "profile": many,
        "compare": ["model", "model", "--pairs", "pairs.csv"],
        "syntax": ["--treebank", "trees.conllu", *model],
        "trace": ["model", "--pairs", "pairs.csv"],
        "pairs": ["pairs.csv"],
        "patterns": [],
        "models": ["model"],
    }


def options() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Each command, each of its options as it is typed, or the place of an argument, and the values
    to try.
    """
    for name in lines():
        for option in command_named(name).params:
            if option.param_type_name == "argument":
                yield name, f"argument {option.name}", TEXTS
            elif getattr(option, "is_flag", False):
                yield name, option.opts[0], ()
            else:
                yield name, max(option.opts, key=len), _values(option)


def _values(option: Any) -> tuple[str, ...]:
    kinds = {annotation := option.type_descriptor.annotation, *get_args(annotation)}
    if kinds & {int, float}:
        return (*NUMBERS, "", "x", "١")
    if Path in kinds or option.name in (
        "pairs",
        "treebank",
        "links",
        "held",
        "model",
        "against",
        "state",
    ):
        return PLACES
    return (*TEXTS, *NUMBERS)


def trials(directory: Path) -> Iterator[Callable[[], bool]]:
    """What to run, where `prepared` was: whether it did its work.

    Raises, each: AssertionError.
    """
    for command, option, values in options():
        line = lines()[command]
        if command in ("plot", "report", "serve") and option in OF_PAIRS:
            place = [] if command == "serve" else line[-2:]
            line = ["--pairs", "pairs.csv", "--model", "model", "--predictive", "off", *place]
        for value in values or (None,):
            if option.startswith("argument "):
                arguments = ["--", value] if not line else [value, *line[1:]]
            else:  # the last one given counts, but some may be repeated
                name = "-o" if option == "--output" else option
                at = line.index(name) if name in line else len(line)
                arguments = [
                    *line[:at],
                    *line[at + 2 :],
                    option,
                    *([] if value is None else [value]),
                ]
            yield partial(_ran, directory, command, arguments)


def _ran(directory: Path, command: str, arguments: list[Any]) -> bool:
    before = set(directory.iterdir())
    with chdir(directory), served_for_a_moment(), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        result = run(command, *arguments)
    for path in set(directory.iterdir()) - before:
        path.unlink()
    messages = [
        each
        for each in warned
        if not issubclass(each.category, DeprecationWarning | ResourceWarning)
    ]
    assert not messages, [str(each.message) for each in messages]
    return check(result)

"""Suggest a command line that takes the words that were typed: `heads 3-4` becomes `head 3-4`.

A word is sorted by its looks: heads, a pattern, a file, a model, a sentence. The user's command is tried first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from inspect import signature
from typing import get_args

from typer.models import ArgumentInfo

from attnscan.cli.screen_frame import quoted
from attnscan.errors import PairsError
from attnscan.inputs.places.names import suffix_in
from attnscan.results.grid import are_heads
from attnscan.scoring.patterns import PATTERNS

KINDS = {
    "heads": "names heads",
    "pattern": "is a pattern",
    "weights": "is a file of weights",
    "pairs": "is a file of pairs",
    "model": "is a model",
    "sentence": "is a sentence",
    "word": "is a word",
}
"""What a word may be, by the option that takes it, and how that is said."""
ARGUMENTS = {"heads": "heads", "a": "sentence", "b": "sentence", "name": "pattern"} | dict.fromkeys(
    ("checkpoint", "model_a", "model_b"), "model"
)
"""What the arguments of all commands take."""
_PLAIN = ("head", "show", "heads", "classify")
_NEEDS_SENTENCE = ("show", "classify", "predictive")
_NEEDS_FILE = {"plot": ("-o", "heads.svg"), "report": ("-o", "page.html")}


def kind_of(word: str) -> str:
    """What a word looks like, one of `KINDS`; a file or a model need not be there.

    >>> [kind_of(word) for word in ("3-4", "next-word", "a.npz", "a.csv.gz", "bert-base-cased", "The cat.", "cat")]
    ['heads', 'pattern', 'weights', 'pairs', 'model', 'sentence', 'word']
    """
    if are_heads(word):
        return "heads"
    if word in [pattern.id for pattern in PATTERNS]:
        return "pattern"
    if word.endswith(".npz"):
        return "weights"
    if _is_file_of_pairs(word):
        return "pairs"
    if word.split()[1:]:
        return "sentence"
    if word == "bundled" or "/" in word or "bert" in word.lower():  # nearly all that can be read are called so
        return "model"
    return "word"


def suggestion(command: str | None, words: Sequence[str]) -> str:
    """A command line that takes these words, of the command itself or a plain one; empty if none does."""
    kinds: dict[str, list[str]] = {}
    for word in words:
        kinds.setdefault(kind_of(word), []).append(word)
    if loose := kinds.pop("word", []):
        if "sentence" in kinds or len(loose) == 1:
            return ""
        kinds["sentence"] = [" ".join(loose)]  # a sentence without quotes
    if "heads" in kinds:
        kinds["heads"] = [",".join(kinds["heads"])]
    for name in (command, *_PLAIN):
        typed = None if name is None else _typed(name, kinds, own=name == command)
        if typed is not None:
            return f"attnscan {name} {' '.join(map(quoted, typed))}"
    return ""


def _typed(command: str, kinds: Mapping[str, Sequence[str]], *, own: bool) -> list[str] | None:
    """The words as one command takes them, with examples for what it needs besides; None if it does not take all.

    A command that is not the user's `own` has to be given the heads that it needs.
    """
    takes = signature(getattr(import_module(f"attnscan.cli.commands.{command}"), command)).parameters
    arguments = [name for name, option in takes.items() if isinstance(get_args(option.annotation)[1], ArgumentInfo)]
    left = {kind: list(words) for kind, words in kinds.items()}
    is_alone = not left.keys() & {"pairs", "weights"}
    typed: list[str] = []
    for name in arguments:
        if words := left.get(ARGUMENTS[name]):
            typed.append(words.pop(0))
        elif name == "heads" and own:
            typed.append("0-2")
        elif name == "a" and is_alone and (command in _NEEDS_SENTENCE or (command in _NEEDS_FILE and "heads" in left)):
            typed.append("A sentence.")
        elif name in ("heads", "model_a", "model_b"):
            return None
    if command == "plot" and "heads" in left:
        typed += ["--kind", "head"]
    for kind, words in left.items():
        if words and (kind not in takes or kind in arguments):
            return None
        typed += [part for word in words for part in (f"--{kind}", word)]
    return [*typed, *_NEEDS_FILE.get(command, ())]


def _is_file_of_pairs(word: str) -> bool:
    try:
        return bool(suffix_in(word))
    except PairsError:
        return False

"""What a user typed, and what to type next: above and below a screen, and in place of a command line that is wrong.

`heads 3-4` becomes `head 3-4`. A word is sorted by its looks: heads, a pattern, a file, a model, a sentence. The user's
command is tried first.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from typer.models import ArgumentInfo

from attnscan.errors import PairsError
from attnscan.inputs.places.names import STDIN, shown, suffix_in
from attnscan.results.grid import are_heads
from attnscan.results.terms import counted
from attnscan.safe_text import plain
from attnscan.scoring.patterns import PATTERNS

if TYPE_CHECKING:
    from rich.text import Text


_LONGEST = 3  # lines of what to try next

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


@dataclass(frozen=True)
class ScreenFrame:
    """What stands above a screen, and the command below it that is to be tried next, in words."""

    above: tuple[str, ...] = ()
    """What was asked about, a line each."""
    command: tuple[str, ...] = ()
    """What to try next, in words without `attnscan`; empty for nothing."""
    sentences: tuple[str, ...] = ()
    """Those that the command goes on with."""
    options: tuple[str, ...] = ()
    """Those that stand at its end."""

    def over(self, width: int) -> Iterator[Text]:
        """What was asked about, each cut to a line."""
        from rich.text import Text

        for line in self.above:
            text = Text(plain(line))
            text.truncate(width, overflow="ellipsis")
            yield text

    def under(self, width: int) -> Iterator[Text]:
        """A blank line and what to try next, if that can be shown and typed."""
        from rich.text import Text

        if lines := self.next_lines(width):
            yield Text("")
            yield from (Text(line, style="dim") for line in lines)

    def next_lines(self, width: int) -> list[str]:
        """What to try next, as it runs when it is pasted into a shell; none if it would be long.

        A line ends in a backslash where the command goes on: shells read that as nothing, in double quotes as well.
        """
        words = [quoted(word) for word in (*self.command, *self.sentences, *self.options) if self.command]
        line = " ".join(("Next: attnscan", *words))
        if not words or plain(line) != line:
            return []
        if _columns(line) <= width:
            return [line]
        lines, rest = [""], re.findall(r"[^ ]+ *", line)
        for part in rest:
            if _columns(lines[-1] + part) >= width:
                lines.append("")
            lines[-1] += part
        typed = [*(f"{part}\\" for part in lines[:-1]), lines[-1]]
        fits = len(typed) <= _LONGEST and all(_columns(part) <= width for part in typed)
        return typed if fits and not any(word.startswith("'") for word in words) else []


def _columns(line: str) -> int:
    """How many columns a line takes on a terminal."""
    if line.isascii():
        return len(line)
    from rich.cells import cell_len

    return cell_len(line)


def about_input(a: str | None, b: str | None = None, weights: Path | None = None) -> tuple[str, ...]:
    """One input, as a screen says it above."""
    if weights is not None:
        return (f"weights  {weights.name}",)
    return tuple(f"{name}  {text}" for name, text in zip("AB", (a, b), strict=True) if text is not None)


def about_pairs(paths: Sequence[str], count: int) -> tuple[str, ...]:
    """Which pairs, as a screen says it above; `count` is how many were read."""
    if not paths:
        return (f"the {counted(count, 'pair')} that ship{'s' if count == 1 else ''} with attnscan",)
    return (f"pairs  {', '.join('standard input' if path == STDIN else shown(path) for path in paths)}",)


def options_of(model: str | None, pairs: Sequence[str] = (), weights: Path | None = None) -> tuple[str, ...]:
    """The options that let another command look at the same; `pairs` are those of files of pairs."""
    given = [("--model", model), ("--weights", weights)]
    return (*(str(word) for name, value in given if value is not None for word in (name, value)), *pairs)


def quoted(word: str) -> str:
    """A word as it is typed into a shell; double quotes where they do, as the documentation has them."""
    if shlex.quote(word) == word or set('"$`\\!') & set(word):
        return shlex.quote(word)
    return f'"{word}"'


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

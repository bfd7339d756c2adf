"""What stands above a screen, and the command below it that may be typed next."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnscan.inputs.read import STDIN, shown
from attnscan.results.grid import attention_named
from attnscan.results.terms import counted
from attnscan.safe_text import plain

if TYPE_CHECKING:
    from rich.text import Text


_LONGEST = 3  # lines of what to try next
_OF_PAIRS = ("columns", "header", "no_header", "quoting", "encoding", "skip_bad", "on_long")


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
        words = [_quoted(word) for word in (*self.command, *self.sentences, *self.options) if self.command]
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


def frame_of_input(given: Mapping[str, Any], *command: str, heads: str = "", links: bool = True) -> ScreenFrame:
    """The frame of a screen of one input; the command to try next, of some heads, is of the same input and model."""
    a, b, weights = given.get("a"), given.get("b"), given.get("weights")
    options = (*_typed(given, "model", "weights"), *typed_attention(given, heads, links=links))
    texts = tuple(text for text in (a, b) if text is not None)
    return ScreenFrame(about_input(a, b, weights), command, texts, options)


def frame_of_pairs(given: Mapping[str, Any], count: int, *command: str, heads: str = "") -> ScreenFrame:
    """The frame of a screen of `count` pairs; what to try next, of some heads, is of the same pairs and model."""
    options = (*_typed(given, "model"), *typed_pairs(given), *typed_attention(given, heads))
    return ScreenFrame(about_pairs(given.get("pairs") or (), count), command, options=options)


def typed_pairs(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The options as another command takes them; standard input is gone, and an address may hold what is secret."""
    paths = [path if shown(path) == path else "URI" for path in given.get("pairs") or () if path != STDIN]
    words = tuple(word for path in paths for word in ("--pairs", path))
    return (*words, *_typed(given, *_OF_PAIRS)) if paths else ()


def typed_attention(given: Mapping[str, Any], heads: str = "", *, links: bool = True) -> tuple[str, ...]:
    """The options of an encoder-decoder as another command takes them, of heads whose letters may say what is read.

    Without `links`, which are those of other pairs.
    """
    asked = given.get("attention")
    named = attention_named(heads)
    kind = named if asked in (None, "all") else asked
    languages = _typed(given, "source_language", "target_language")
    if kind == "encoder":
        return languages
    read = () if named == kind else ("--attention", kind)
    across = (("alignments",) if links else ()) + ("query",) if kind == "cross" else ()
    return (*read, *_typed(given, *across, "max_target_tokens"), *languages)


def _typed(given: Mapping[str, Any], *names: str) -> tuple[str, ...]:
    """Options as they are typed, if they were given."""
    words: list[str] = []
    for name in names:
        if (value := given.get(name)) not in (None, False):
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return tuple(words)


def _quoted(word: str) -> str:
    """A word as it is typed into a shell; double quotes where they do, as the documentation has them."""
    if shlex.quote(word) == word or set('"$`\\!') & set(word):
        return shlex.quote(word)
    return f'"{word}"'

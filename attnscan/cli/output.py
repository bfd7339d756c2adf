"""A result written: to standard output or a file, in the format that was asked for, whole or not at all.

Above a screen stands what was asked about, and below it a command that may be typed next.

No file that a run writes may overwrite one that it reads. Does not handle: redirections and files in stores.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import typer

from attnscan.cli.messages import running
from attnscan.errors import AttnscanError, OutputError, nearest, needs
from attnscan.inputs.read import STDIN, local_files, shown
from attnscan.results.files import (
    check_suffix,
    check_writable,
    growing_file,
    local_path,
    write_file,
)
from attnscan.results.grid import attention_named
from attnscan.results.tables import Format, check_library, render, render_object
from attnscan.results.terms import counted
from attnscan.safe_text import plain
from attnscan.views.pictures.look import Picture, PictureFile

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType
    from rich.text import Text

    from attnscan.results.grid import Head
    from attnscan.views.pictures.picture import Drawable


_NO_TERMINAL = 80  # columns of what is shown without looking at the terminal
FORMATS: tuple[Format, ...] = get_args(Format)
_BINARY = {"parquet": "Parquet", "xlsx": "an Excel workbook"}
PICTURES: tuple[Picture, ...] = get_args(Picture)
SUFFIXES: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".md": "markdown",
    ".parquet": "parquet",
    ".xlsx": "xlsx",
    ".txt": "table",
}
READ = ("pairs", "pattern", "weights", "treebank", "held", "alignments")
"""Options that name files to read."""
WRITTEN = ("output", "signature", "state", "per_pair", "save_weights")
"""Options that name files to write."""


def check_not_overwritten(given: Mapping[str, Any]) -> None:
    """Raises: typer.BadParameter if a command would write over a file that it reads, or write two files in one."""
    values = {name: value if isinstance(value, list | tuple) else [value] for name, value in given.items()}
    read = [str(value) for name in READ for value in values.get(name, ()) if value is not None]
    taken = [file for name in read for file in _files_read(name)]
    for path in filter(None, (_here(given, name) for name in WRITTEN)):
        if any(_is_same(path, other) for other in taken):
            raise typer.BadParameter(f"{path} is named twice, and would be overwritten")
        if str(path) != os.devnull:
            taken.append(path)


@contextmanager
def option_named(given: Mapping[str, Any]) -> Iterator[None]:
    """Add to the remedy for a file that cannot be written the option that named the file: "…, with --state"."""
    try:
        yield
    except OutputError as error:
        for name in WRITTEN:
            if error.place is not None and _here(given, name) == error.place:
                option = "-o" if name == "output" else f"--{name.replace('_', '-')}"
                raise OutputError(error.what, f"{error.remedy} with {option}", error.place) from None
        raise


def _here(given: Mapping[str, Any], name: str) -> Path | None:
    """The file on this machine that an option names to be written. Raises: OutputError."""
    if (value := given.get(name)) is None:
        return None
    return local_path(value) if name == "state" else Path(value)


def _files_read(name: str) -> list[Path]:
    """The files that a path, glob, directory or file URI stands for; of FILE.py:FUNCTION, the file."""
    with suppress(AttnscanError):  # what stands for no file that can be read is refused where it is read
        if (files := local_files([name])) is not None:
            return list(map(Path, files))
    file, suffix, _ = name.partition(".py:")
    return [Path(file + suffix.removesuffix(":"))]


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except (OSError, ValueError):  # one is not there, or can never be
        return path == other


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


@dataclass(frozen=True)
class Shown:
    """A result in all the ways in which it can be written."""

    frame: Callable[[], pd.DataFrame]
    """As a table; its `attrs` are the signature."""
    view: Callable[[int], RenderableType] | str
    """As a screen of some width; or plain text, which takes no library that draws."""
    surround: ScreenFrame = ScreenFrame()
    """What stands above a screen and, where it is not kept in a file, below it."""
    drawn: Drawable | None = None
    """What there is a picture of, if the command draws."""
    patterns: Sequence[str] | None = None
    """Those that the picture shows; None for all."""
    heads: Sequence[Head] = ()
    """Those that the picture shows; none for all."""
    document: Callable[[], dict[str, Any]] | None = None
    """What JSON holds in place of the table, if that is more."""


@dataclass(frozen=True)
class Destination:
    """A format and a place. Without a path, standard output; a picture needs a path.

    Raises: OutputError at once, not after the work, if nothing can be written there, or what writes it is missing.
    """

    format: Format | Picture
    path: Path | None = None
    decimal_comma: bool = False
    """Whether CSV and TSV have a comma in their numbers."""
    signature: Path | None = None
    """A file for what JSON says of a result beside its rows."""

    def __post_init__(self) -> None:
        if self.path is not None:
            check_writable(self.path)
        elif sys.stdout is None:  # the shell's `>&-`
            raise OutputError("standard output is closed", "name a file with -o")
        elif self.format in _BINARY and sys.stdout.isatty():
            raise OutputError(
                f"{_BINARY[self.format]} cannot be shown on a terminal", f"name a file: -o heads.{self.format}"
            )
        check_library(self.format)
        if self.signature is not None:
            check_writable(self.signature)

    @property
    def on_terminal(self) -> bool:
        """Whether the result is shown where bars are drawn."""
        return self.path is None and sys.stdout is not None and sys.stdout.isatty()

    def emit(self, shown: Shown) -> None:
        """Write a result.

        Raises: OutputError; BrokenPipeError if the reader of standard output has gone, who takes no signature away.
        """
        frame = cache(shown.frame)
        try:
            self.write(self.content(replace(shown, frame=frame)))
        except BrokenPipeError:
            self.write_signature(lambda: frame().attrs)
            raise
        self.write_signature(lambda: frame().attrs)

    def content(self, shown: Shown, *, first: bool = True) -> bytes:
        """A result in the format; only the `first` of several brings the names of columns along."""
        if self.format == "table":
            return self._screen(shown)
        if self.format in PICTURES:
            assert shown.drawn is not None  # only commands that draw are given such a format
            look = PictureFile(PICTURES[PICTURES.index(self.format)])
            with running("drawing"):
                from attnscan.views.pictures.picture import picture

                return picture(shown.drawn, look=look, patterns=shown.patterns, heads=shown.heads)
        if self.format == "json" and shown.document is not None:
            return render_object(shown.document())
        with running("writing the workbook") if self.format == "xlsx" else nullcontext():
            content = render(shown.frame(), FORMATS[FORMATS.index(self.format)], decimal_comma=self.decimal_comma)
        return content if first or self.format == "jsonl" else content.partition(b"\n")[2]

    def write(self, content: bytes) -> None:
        """Write a whole result. Raises: as `emit`."""
        if self.path is None:
            write_stdout(content)
        else:
            write_file(self.path, content)

    @contextmanager
    def growing(self) -> Iterator[Callable[[bytes], None]]:
        """What takes a result piece by piece. Raises: as `emit`."""
        if self.path is None:
            yield write_stdout
        else:
            with growing_file(self.path) as write:
                yield write

    def write_signature(self, about: Callable[[], Mapping[Any, Any]]) -> None:
        """Write what is known about a result, if that was asked for. Raises: OutputError."""
        if self.signature is not None:
            write_file(self.signature, render_object(about()))

    def _screen(self, shown: Shown) -> bytes:
        if isinstance(shown.view, str):
            last = "\n".join(shown.surround.next_lines(_NO_TERMINAL))
            return encoded(f"{shown.view}\n{last}\n") if self.path is None else shown.view.encode()
        from rich.console import Console, Group

        from attnscan.views.terminal.parts import render as rendered

        console = Console()  # knows the terminal's size and colours, COLUMNS and NO_COLOR
        width = max(console.width, 40)
        screen = Group(*shown.surround.over(width), shown.view(width))
        if self.path is not None:
            return rendered(screen, width).encode("utf-8")
        color = console.color_system if console.is_terminal else None
        return encoded(rendered(Group(screen, *shown.surround.under(width)), width, color, console.no_color))


def format_of(path: Path) -> Format:
    """The format that a file's suffix stands for. Raises: OutputError if it stands for none."""
    if (suffix := path.suffix.lower()) in SUFFIXES:
        return SUFFIXES[suffix]
    remedy = f"use one of {' '.join(SUFFIXES)}, or pass --format"
    raise OutputError(f"cannot tell the format of {path} from its suffix", remedy)


def picture_format_of(path: Path) -> Picture:
    """The kind of picture that a file's suffix stands for. Raises: OutputError if it stands for none."""
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in PICTURES:
        known = " ".join(f".{suffix_}" for suffix_ in PICTURES)
        raise OutputError(f"cannot tell the format of the picture {path} from its suffix", f"use one of {known}")
    return PICTURES[PICTURES.index(suffix)]


def check_pictures_can_be_drawn() -> None:
    """Raises: OutputError at once, not after the work, if there is nothing to draw with."""
    logging.getLogger("matplotlib").addFilter(_is_of_the_picture)
    with needs("pictures need matplotlib", "plot"):
        import matplotlib  # noqa: F401


def _is_of_the_picture(record: logging.LogRecord) -> bool:
    """Whether matplotlib speaks of more than where it keeps its settings: without a home it takes another place."""
    return not any(words in record.getMessage() for words in ("mkdir -p failed", "temporary cache directory"))


def encoded(text: str) -> bytes:
    """Text as standard output takes it; what its encoding does not have becomes an escape."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"  # there may be no standard output at all
    return text.encode(encoding, errors="backslashreplace")


def write_stdout(content: bytes) -> None:
    """Write bytes to standard output as they are.

    Raises: OutputError if it cannot take them; BrokenPipeError if its reader has gone.
    """
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write the result: {error.strerror or error}", "free some space") from None


def destination_of(given: Mapping[str, Any], *, draws: bool = False) -> Destination:
    """The place and format that a command was given; as a picture, if it draws, by the suffix.

    Raises: typer.BadParameter if they contradict each other; OutputError.
    """
    output, signature = given["output"], given.get("signature")
    if signature is not None:
        check_suffix(signature, ".json", "--signature")
    asked = _format_of(given["format"], output, csv=given["csv"], draws=draws)
    if given["decimal_comma"] and asked not in ("csv", "tsv"):
        raise typer.BadParameter("--decimal-comma is for --csv, or for TSV: add --csv, or leave it out")
    if asked in PICTURES:
        check_pictures_can_be_drawn()
    return Destination(asked, output, given["decimal_comma"], signature)


def _format_of(named: str | None, output: Path | None, *, csv: bool, draws: bool) -> Format | Picture:
    """Raises: as `destination_of`."""
    if named is not None and named not in FORMATS:
        hint = nearest(named, FORMATS, f"there are {', '.join(FORMATS)}")
        raise typer.BadParameter(f"no format '{named}': {hint}")
    if csv and named not in (None, "csv"):
        raise typer.BadParameter(f"--csv and --format {named} contradict each other")
    suffix = "" if output is None else output.suffix.lower()
    if (asked := "csv" if csv else named) is not None:
        if SUFFIXES.get(suffix, suffix[1:] if suffix[1:] in PICTURES else asked) != asked:
            how = "--csv" if csv else f"--format {asked}"
            raise typer.BadParameter(f"{how} and {output} contradict each other: leave {how} out, or rename the file")
        return FORMATS[FORMATS.index(asked)]
    if output is None:
        return "table"
    if draws and suffix.removeprefix(".") in PICTURES:
        return picture_format_of(output)
    return format_of(output)


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

"""A result written: to standard output or a file, in the format that was asked for, whole or not at all.

Above a screen stands what was asked about, and below it a command that may be typed next.
No file that a run writes may overwrite one that it reads.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import typer

from attnscan.cli.messages import running
from attnscan.errors import AttnscanError, OutputError, nearest, needs
from attnscan.inputs.files import STDIN, local_files, shown
from attnscan.inputs.read import RANDOM
from attnscan.results.files import check_suffix, check_writable, growing_file, local_path, write_file
from attnscan.results.grid import attention_named, parse_heads
from attnscan.results.tables import Format, check_library, render, render_object
from attnscan.results.terms import counted
from attnscan.safe_text import plain
from attnscan.views.pictures.look import Picture, PictureFile

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType


FORMATS: tuple[Format, ...] = get_args(Format)
PICTURES: tuple[Picture, ...] = get_args(Picture)
_BINARY = {"parquet": "Parquet", "xlsx": "an Excel workbook"}
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
_READING = ("columns", "header", "no_header", "quoting", "encoding", "skip_bad", "on_long")
_LONGEST = 3  # lines of the next command

View = Callable[[int], "RenderableType"] | str
"""A screen of some width; or plain text."""


def check_given(given: Mapping[str, Any]) -> None:
    """Check before a run what all commands have in common: how heads are named, and where files are written.

    Raises: SelectionError; typer.BadParameter if it would write over a file that it reads, or write two files in one.
    """
    if given.get("heads") is not None:
        parse_heads(given["heads"])
    read = [given.get(name) for name in READ]
    names = [str(name) for value in read if value for name in (value if isinstance(value, list) else [value])]
    taken = [file for name in names for file in _files_read(name)]
    for name in WRITTEN:
        if given.get(name) is None:
            continue
        path = local_path(given[name]) if name == "state" else Path(given[name])
        if any(_is_same(path, other) for other in taken):
            raise typer.BadParameter(f"{path} is named twice, and would be overwritten")
        if str(path) != os.devnull:
            taken.append(path)


def _files_read(name: str) -> list[Path]:
    """The files that a path, glob, directory or file URI stands for; of FILE.py:FUNCTION, the file."""
    with suppress(AttnscanError):  # what stands for no file that can be read is refused where it is read
        if (files := local_files([name])) is not None:
            return list(map(Path, files))
    return [Path(re.sub(r"\.py:.*", ".py", name))]


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except (OSError, ValueError):  # one is not there, or can never be
        return path == other


@dataclass(frozen=True)
class Output:
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
            what = _BINARY[self.format]
            raise OutputError(f"{what} cannot be shown on a terminal", f"name a file: -o heads.{self.format}")
        check_library(self.format)
        if self.format in PICTURES:
            check_pictures_can_be_drawn()
        if self.signature is not None:
            check_suffix(self.signature, ".json", "--signature")
            check_writable(self.signature)

    @property
    def on_terminal(self) -> bool:
        """Whether the result is shown where bars are drawn."""
        return self.path is None and sys.stdout is not None and sys.stdout.isatty()

    def write(
        self,
        frame: Callable[[], pd.DataFrame],
        view: View,
        *,
        above: Sequence[str] = (),
        then: Sequence[str] = (),
        draw: Callable[[PictureFile], bytes] | None = None,
        document: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        """Write a result: its table, its screen between some lines `above` and a command that may be typed next.

        `draw` makes a picture of it, and `document` is what JSON holds in place of the table.
        Raises: OutputError; BrokenPipeError if the reader of standard output has gone, who takes no signature away.
        """
        frame = cache(frame)
        if self.format in PICTURES:
            assert draw is not None  # only commands that draw are given such a format
            with running("drawing"):
                content = draw(PictureFile(PICTURES[PICTURES.index(self.format)]))
        elif self.format == "json" and document is not None:
            content = render_object(document())
        else:
            content = self.content(frame, view, above, then)
        try:
            with self.growing() as write:
                write(content)
        except BrokenPipeError:
            self.write_signature(frame().attrs if self.signature else {})
            raise
        self.write_signature(frame().attrs if self.signature else {})

    def content(
        self, frame: Callable[[], pd.DataFrame], view: View, above: Sequence[str] = (), then: Sequence[str] = ()
    ) -> bytes:
        """A result as a screen or a table; what to try next is left out of files."""
        if self.format != "table":
            return render(frame(), FORMATS[FORMATS.index(self.format)], decimal_comma=self.decimal_comma)
        then = () if self.path is not None else then
        if isinstance(view, str):
            text = "\n".join((view, *next_lines(then, 80)))
            return text.encode() if self.path is not None else encoded(f"{text}\n")
        from rich.console import Console, Group
        from rich.text import Text

        from attnscan.views.terminal.parts import render as rendered

        console = Console()  # knows the terminal's size and colours, COLUMNS and NO_COLOR
        width = max(console.width, 40)
        lines = [Text(plain(line)) for line in above]
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        typed = [Text(line, style="dim") for line in next_lines(then, width)]
        screen = Group(*lines, view(width), *([Text("")] if typed else []), *typed)
        if self.path is not None:
            return rendered(screen, width).encode()
        return encoded(rendered(screen, width, console.color_system if console.is_terminal else None, console.no_color))

    @contextmanager
    def growing(self) -> Iterator[Callable[[bytes], None]]:
        """What takes a result piece by piece. Raises: as `write`."""
        if self.path is None:
            yield write_stdout
        else:
            with growing_file(self.path) as write:
                yield write

    def write_signature(self, about: Mapping[Any, Any]) -> None:
        """Write what is known about a result, if that was asked for. Raises: OutputError."""
        if self.signature is not None:
            write_file(self.signature, render_object(about))


def output_of(given: Mapping[str, Any], *, draws: bool = False) -> Output:
    """The place and format that a command was given; as a picture, if it draws, by the suffix.

    Raises: typer.BadParameter if they contradict each other; OutputError.
    """
    named, path = given["format"], given["output"]
    if named is not None and named not in FORMATS:
        hint = nearest(named, FORMATS, f"there are {', '.join(FORMATS)}")
        raise typer.BadParameter(f"no format '{named}': {hint}")
    if given["csv"] and named not in (None, "csv"):
        raise typer.BadParameter(f"--csv and --format {named} contradict each other")
    pictures = {f".{name}": name for name in PICTURES}
    asked: Any = "csv" if given["csv"] else named
    suffix = "" if path is None else path.suffix.lower()
    if asked is not None and {**SUFFIXES, **pictures}.get(suffix, asked) != asked:
        how = "--csv" if given["csv"] else f"--format {asked}"
        raise typer.BadParameter(f"{how} and {path} contradict each other: leave {how} out, or rename the file")
    if asked is None:
        asked = "table" if path is None else pictures[suffix] if draws and suffix in pictures else format_of(path)
    if given["decimal_comma"] and asked not in ("csv", "tsv"):
        raise typer.BadParameter("--decimal-comma is for --csv, or for TSV: add --csv, or leave it out")
    return Output(asked, path, given["decimal_comma"], given.get("signature"))


def format_of(path: Path) -> Format:
    """The format that a file's suffix stands for. Raises: OutputError if it stands for none."""
    if (suffix := path.suffix.lower()) in SUFFIXES:
        return SUFFIXES[suffix]
    remedy = f"use one of {' '.join(SUFFIXES)}, or pass --format"
    raise OutputError(f"cannot tell the format of {path} from its suffix", remedy)


def check_pictures_can_be_drawn() -> None:
    """Raises: OutputError at once, not after the work, if there is nothing to draw with."""
    # Without a home, matplotlib says at length that it keeps its settings elsewhere
    logging.getLogger("matplotlib").addFilter(lambda record: "mkdir -p failed" not in record.getMessage())
    logging.getLogger("matplotlib").addFilter(lambda record: "temporary cache directory" not in record.getMessage())
    with needs("pictures need matplotlib", "plot"):
        import matplotlib  # noqa: F401


def encoded(text: str) -> bytes:
    """Text as standard output takes it; what its encoding does not have becomes an escape."""
    return text.encode(getattr(sys.stdout, "encoding", None) or "utf-8", errors="backslashreplace")


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


def about(given: Mapping[str, Any], count: int = 0) -> tuple[str, ...]:
    """What was asked about, a line each: the input, or which pairs; `count` is how many were read."""
    if given.get("weights") is not None:
        return (f"weights  {given['weights'].name}",)
    if given.get("a") is not None:
        return tuple(f"{name.upper()}  {given[name]}" for name in "ab" if given[name] is not None)
    if not given.get("pairs"):
        return (f"the {counted(count, 'pair')} that ship{'s' if count == 1 else ''} with attnscan",)
    if given["pairs"] == [RANDOM]:
        return ("pairs  random words, each sequence twice over",)
    return (f"pairs  {', '.join('standard input' if path == STDIN else shown(path) for path in given['pairs'])}",)


def next_command(
    given: Mapping[str, Any],
    *command: str,
    heads: str = "",
    texts: Sequence[str] | None = None,
    links: bool = True,
) -> tuple[str, ...]:
    """The words of a command to try next, on the same input or pairs by the same model; none without a `command`.

    `heads` are those that it names, whose letters may say which attention is read; `texts` are the sentences, if they
    are others than those given. Without `links`, which are those of other pairs.
    """
    if not command:
        return ()
    if texts is None:
        texts = [given[name] for name in ("a", "b") if given.get(name) is not None]
    words = [*command, *texts, *typed(given, "model", "weights")]
    # standard input is gone, and an address may hold what is secret
    if paths := [path if shown(path) == path else "URI" for path in given.get("pairs") or () if path != STDIN]:
        words += [word for path in paths for word in ("--pairs", path)] + typed(given, *_READING)
    named, asked = attention_named(heads), given.get("attention")
    kind = named if asked in (None, "all") else asked
    if kind != "encoder":
        words += [] if named == kind else ["--attention", str(kind)]
        words += typed(given, *(["alignments"] if links else []), "query") if kind == "cross" else []
        words += typed(given, "max_target_tokens")
    return (*words, *typed(given, "source_language", "target_language"))


def typed(given: Mapping[str, Any], *names: str) -> list[str]:
    """Options as they are typed, if they were given."""
    words: list[str] = []
    for name in names:
        if (value := given.get(name)) not in (None, False):
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return words


def next_lines(words: Sequence[str], width: int) -> list[str]:
    """A command as it runs when it is pasted into a shell, in at most three lines; none if it would be longer.

    A line ends in a backslash where the command goes on: shells read that as nothing, in double quotes as well.
    """
    from rich.cells import cell_len

    quoted = [shlex.quote(word) if set('"$`\\!') & set(word) else _in_double_quotes(word) for word in words]
    line = " ".join(("Next: attnscan", *quoted))
    if not words or plain(line) != line:
        return []
    if cell_len(line) <= width:
        return [line]
    lines = [""]
    for part in re.findall(r"[^ ]+ *", line):
        if cell_len(lines[-1] + part) >= width:
            lines.append("")
        lines[-1] += part
    pasted = [*(f"{part}\\" for part in lines[:-1]), lines[-1]]
    fits = len(pasted) <= _LONGEST and all(cell_len(part) <= width for part in pasted)
    return pasted if fits and not any(word.startswith("'") for word in quoted) else []


def _in_double_quotes(word: str) -> str:
    return word if shlex.quote(word) == word else f'"{word}"'

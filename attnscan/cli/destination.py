"""Where a result goes: standard output or a file, in the format that was asked for, whole or not at all."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from attnscan.cli.bars import working
from attnscan.cli.messages import warned
from attnscan.cli.screen_frame import ScreenFrame
from attnscan.errors import OutputError, needs
from attnscan.results.files import check_writable, descriptor, partial_of, write_file, written_by_and_by
from attnscan.results.tables import Format, check_library, render, render_object
from attnscan.views.pictures.look import Look, Picture

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from attnscan.results.grid import Head
    from attnscan.views.pictures.picture import Drawable

FORMATS: tuple[Format, ...] = get_args(Format)
BINARY = {"parquet": "Parquet", "xlsx": "an Excel workbook"}
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
            number = descriptor(self.path)
            to_terminal = number is not None and os.isatty(number)
        elif sys.stdout is None:  # the shell's `>&-`
            raise OutputError("standard output is closed", "name a file with -o")
        else:
            to_terminal = sys.stdout.isatty()
        if self.format in BINARY and to_terminal:
            raise OutputError(f"{BINARY[self.format]} is not for a terminal", f"name a file: -o heads.{self.format}")
        check_library(self.format)
        if self.signature is not None:
            check_writable(self.signature)

    @property
    def on_terminal(self) -> bool:
        """Whether the result is shown where bars are drawn."""
        return self.path is None and sys.stdout is not None and sys.stdout.isatty()

    def for_part(self) -> Destination:
        """Where what an interrupted run has goes: a file beside the one of the whole result; else the same place.

        Raises: OutputError.
        """
        path, signature = (None if whole is None else partial_of(whole) for whole in (self.path, self.signature))
        return replace(self, path=path, signature=signature)

    def emit(
        self,
        frame: Callable[[], pd.DataFrame],
        view: Callable[[int], RenderableType],
        drawn: Drawable | None = None,
        patterns: Sequence[str] | None = None,
        heads: Sequence[Head] = (),
        screen_frame: ScreenFrame = ScreenFrame(),  # noqa: B008 (it is frozen)
    ) -> None:
        """Write the result: as a screen of some width if the format is `table`, a picture, or else a data frame.

        `drawn` is what there is a picture of, `patterns` and `heads` are those that it shows. `screen_frame` is a
        screen's first lines and, where it is not kept in a file, its last.
        Raises: OutputError; BrokenPipeError if the reader of standard output has gone.
        """
        frame = cache(frame)
        with self._signed(frame):
            if self.format == "table":
                self._write(self._screen(view, screen_frame))
            elif self.format in PICTURES:
                assert drawn is not None  # only commands that draw are given such a format
                look = Look(PICTURES[PICTURES.index(self.format)])
                with warned(), working("drawing"):
                    from attnscan.views.pictures.picture import picture

                    content = picture(drawn, look=look, patterns=patterns, heads=heads)
                self._write(content)
            else:
                self.emit_frame(frame)

    def emit_frame(self, frame: Callable[[], pd.DataFrame]) -> None:
        """Write a result as a data frame, whose format it is. Raises: as `emit`."""
        self._write(self._rendered(frame()))

    def write_signature(self, about: Mapping[Any, Any]) -> None:
        """Write what is known about a result, if that was asked for. Raises: OutputError."""
        if self.signature is not None:
            write_file(self.signature, render_object(about))

    def emit_text(self, text: str, last: str) -> None:
        """Write a screen that is plain text, without the library that draws the others, `last` not into a file.

        Raises: as `emit`.
        """
        self._write(encoded(f"{text}\n{last}\n") if self.path is None else text.encode("utf-8"))

    def piece(self, frame: Callable[[], pd.DataFrame], view: Callable[[int], RenderableType], *, first: bool) -> bytes:
        """One of several results that are written one after another; the first brings the names of columns along."""
        if self.format == "table":
            return self._screen(view)
        content = self._rendered(frame())
        return content if first or self.format == "jsonl" else content.partition(b"\n")[2]

    @contextmanager
    def pieces(self) -> Iterator[Callable[[bytes], None]]:
        """What writes a result piece by piece; a file has its name when all is there, after Ctrl-C that of `for_part`.

        Raises: OutputError; BrokenPipeError if the reader of standard output has gone.
        """
        if self.path is None:
            yield write_stdout
        else:
            with written_by_and_by(self.path) as write:
                yield write

    def emit_object(self, made: Callable[[], dict[str, Any]], frame: Callable[[], pd.DataFrame]) -> None:
        """Write a result that no table holds, as JSON; `frame` is as much of it as one does.

        Raises: as `emit`.
        """
        with self._signed(frame):
            self._write(render_object(made()))

    @contextmanager
    def _signed(self, frame: Callable[[], pd.DataFrame]) -> Iterator[None]:
        """Around the writing of a result: its signature after it, also where a reader wants no more of it."""
        gone = None
        try:
            yield
        except BrokenPipeError as error:
            gone = error
        if self.signature is not None:
            self.write_signature(frame().attrs)
        if gone is not None:
            raise gone

    def _rendered(self, frame: pd.DataFrame) -> bytes:
        with working("writing the workbook") if self.format == "xlsx" else nullcontext():
            return render(frame, FORMATS[FORMATS.index(self.format)], decimal_comma=self.decimal_comma)

    def _write(self, content: bytes) -> None:
        if self.path is None:
            write_stdout(content)
        else:
            write_file(self.path, content)

    def _screen(self, view: Callable[[int], RenderableType], screen_frame: ScreenFrame = ScreenFrame()) -> bytes:  # noqa: B008
        from rich.console import Console, Group

        from attnscan.views.terminal.parts import render as rendered

        console = Console()  # knows the terminal's size and colours, COLUMNS and NO_COLOR
        width = max(console.width, 40)
        screen = Group(*screen_frame.over(width), view(width))
        if self.path is not None:
            return rendered(screen, width).encode("utf-8")
        color = console.color_system if console.is_terminal else None
        return encoded(rendered(Group(screen, *screen_frame.under(width)), width, color, console.no_color))


def format_of(path: Path) -> Format:
    """The format that a file's suffix stands for.

    Raises: OutputError if it stands for none.
    """
    if (suffix := path.suffix.lower()) not in SUFFIXES:
        known = " ".join(SUFFIXES)
        raise OutputError(f"cannot tell the format of {path} by its suffix", f"use one of {known}, or pass --format")
    return SUFFIXES[suffix]


def picture_format_of(path: Path) -> Picture:
    """The kind of picture that a file's suffix stands for.

    Raises: OutputError if it stands for none.
    """
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in PICTURES:
        known = " ".join(f".{each}" for each in PICTURES)
        raise OutputError(f"cannot tell what kind of picture {path} is to be by its suffix", f"use one of {known}")
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

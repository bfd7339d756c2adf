"""What a user sees: results on standard output or in files, lines and a bar on standard error.

A result is written whole or not at all. Above a screen stands its input, and below it a command to
try next.
No file that a run writes may overwrite one that it reads.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import typer

from attnscan.cli.commands_table import declared_tables
from attnscan.errors import AttnscanError, OutputError, needs
from attnscan.inputs.files import files_named, local_files, shown
from attnscan.inputs.report import FileReport, collect_reports
from attnscan.results.files import (
    Format,
    Picture,
    check_library,
    check_suffix,
    check_writable,
    explained,
    render,
    render_object,
    write_file,
)
from attnscan.text import counted, plain

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from attnscan.scan.options import OnProgress

PICTURES: tuple[Picture, ...] = get_args(Picture)
SUFFIXES: dict[str, Format] = {f".{kind}": kind for kind in get_args(Format)}
SUFFIXES |= {".md": SUFFIXES.pop(".markdown"), ".txt": SUFFIXES.pop(".table")}
READ = ("pairs", "files", "pattern", "weights", "treebank", "links", "held", "alignments")
"""Options that name files to read."""
WRITTEN = ("output", "signature", "state", "per_pair", "save_weights")
"""Options that name files to write."""
_OUTPUT_OPTIONS = ("output", "format", "csv", "decimal_comma", "signature", "state", "save_weights")
"""Options that say where and how results are written."""
_REPEATED = (
    "model",
    "weights",
    "columns",
    "header",
    "no_header",
    "quoting",
    "encoding",
    "skip_bad",
)
"""Options that the command to try next is given as well."""
_REPEATED_FOR_KIND = (
    "alignments",
    "query",
    "max_target_tokens",
    "source_language",
    "target_language",
)
"""Likewise, for one kind of an encoder-decoder's attention."""
_MOST_RELATIONS = 4  # that are named above a screen

_reports: list[FileReport] = []
"""How the files of the last call were read."""

View = Callable[[int], "RenderableType | Iterator[RenderableType]"]
"""A screen of some width, or its parts."""


def check_overwrites(params: Mapping[str, Any]) -> None:
    """Check that a run writes over no file that it reads, and writes no two files in one.

    Raises: typer.BadParameter if it would.
    """
    used = list(chain.from_iterable(map(_files_read, _names_read(params))))
    for option in WRITTEN:
        if params.get(option) is None:
            continue
        path = Path(params[option])
        if any(_is_same_file(path, other) for other in used):
            raise typer.BadParameter(f"{path} is named twice, and would be overwritten")
        if str(path) != os.devnull:
            used.append(path)


def _names_read(params: Mapping[str, Any]) -> Iterator[str]:
    """The names of files that a command was given to read."""
    for option in READ:
        value = params.get(option) or ()
        values = value if isinstance(value, list | tuple) else [value]
        yield from map(str, values)


def _is_same_file(path: Path, other: Path) -> bool:
    with suppress(OSError, ValueError):  # one is not there, or can never be
        return path == other or path.samefile(other)
    return False


def _files_read(name: str) -> list[Path]:
    """The files that a path, glob, directory or URI stands for; of FILE.py:FUNCTION, the file."""
    # what stands for no file that can be read is refused where it is read
    with suppress(AttnscanError):
        files = local_files([name])
        if files is not None:
            return list(map(Path, files))
    return [Path(re.sub(r"\.py:.*", ".py", name))]


@dataclass(frozen=True)
class Output:
    """A format and a place. Without a path, standard output; a picture needs a path.

    Raises: OutputError at once, not after the work, if nothing can be written there, or if a
    library that writes it is missing.
    """

    format: Format | Picture | Literal["pharaoh"]
    path: Path | None = None
    decimal_comma: bool = False
    """Whether CSV and TSV have a comma in their numbers."""
    signature: Path | None = None
    """A file for the signature of a result: model, versions, options and input hash."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What was typed, which JSON and workbooks repeat."""

    def __post_init__(self) -> None:
        if self.path is not None:
            check_writable(self.path)
        elif self.format in ("parquet", "xlsx") and sys.stdout.isatty():
            raise OutputError(
                f"{self.format} is no text for a terminal", f"name a file: -o heads.{self.format}"
            )
        check_library(self.format)
        if self.format in PICTURES:
            with needs("pictures need matplotlib", "plot"):
                import matplotlib  # noqa: F401
        if self.signature is not None:
            check_suffix(self.signature, ".json", "--signature")
            check_writable(self.signature)

    def write(
        self,
        frame: Callable[[], pd.DataFrame],
        view: View,
        *,
        above: Sequence[str] = (),
        suggestion: Sequence[str] = (),
        draw: Callable[[Any], bytes] | None = None,
        document: Callable[[], dict[str, Any]] | None = None,
        links: Callable[[], str] | None = None,
    ) -> None:
        """Write a result: its table, its screen, a picture of it, its `document`, or its `links`.

        A screen stands between some lines `above` and the `suggestion`, a command to try next.
        `draw` makes a picture, `document` is what JSON holds in place of the table, and `links` the
        text in Pharaoh's format.

        Raises: OutputError; BrokenPipeError if the reader of standard output has gone.
        """
        if self.signature is not None:
            write_file(self.signature, render_object(frame().attrs))
        if draw is not None and self.format in PICTURES:
            content = draw(self.format)
        elif document is not None and self.format == "json":
            content = self._render_document(document())
        elif links is not None and self.format == "pharaoh":
            content = links().encode()
        elif self.format == "table":
            content = self._screen(view, above, suggestion)
        else:
            content = self._render_table(frame())
        if self.path is None:
            write_stdout(content)
        else:
            write_file(self.path, content)

    def _render_table(self, table: pd.DataFrame) -> bytes:
        about = self._about(table.attrs["schema"], table.columns)
        kind: Any = self.format
        return render(table, kind, decimal_comma=self.decimal_comma, about=about)

    def _render_document(self, document: Mapping[str, Any]) -> bytes:
        about = self._about(document["schema"], document["heads"][0])
        return render_object({"schema": document["schema"], **about, **document})

    def _about(self, schema: str, columns: Iterable[str]) -> dict[str, Any]:
        """The options of a result, and what each of its columns is."""
        from attnscan.scoring.cross import ALL_PATTERNS

        patterns = {pattern.id: pattern.counts for pattern in ALL_PATTERNS}
        table = next(table for table in declared_tables() if table.id == schema)
        return {"options": self.options, "columns": table.definitions(columns, patterns)}

    def _screen(self, view: View, above: Sequence[str], suggestion: Sequence[str]) -> bytes:
        """Render a screen; files have no command to try next."""
        from rich.console import Console, Group
        from rich.text import Text

        from attnscan.views.terminal.parts import render as rendered

        console = Console()  # knows the terminal's size and colours, COLUMNS and NO_COLOR
        width = max(console.width, 40)
        lines = [Text(plain(line), no_wrap=True, overflow="ellipsis") for line in above]
        shown = view(width)
        parts = shown if isinstance(shown, Iterator) else [shown]
        screen = Group(*lines, *parts)
        if self.path is not None:
            return rendered(screen, width).encode()
        colors = console.color_system if console.is_terminal else None
        text = rendered(screen, width, colors, console.no_color)
        typed = shlex.join(["attnscan", *suggestion])
        if suggestion and plain(typed) == typed:
            # unbroken, so that it can be pasted from a terminal of any width
            text += f"\nNext: {typed}\n"
        return text.encode(sys.stdout.encoding or "utf-8", errors="backslashreplace")


def output_of(params: Mapping[str, Any], *, draws: bool = False) -> Output:
    """The place and format that a command was given; as a picture, if it draws, by the suffix.

    Raises: typer.BadParameter if they contradict each other; OutputError if a suffix stands for no
    format.
    """
    path: Path | None = params["output"]
    kind = _format_chosen(params)
    suffixes: dict[str, Any] = SUFFIXES | {f".{name}": name for name in PICTURES}
    by_suffix: Any = "table" if path is None else suffixes.get(path.suffix.lower())
    if kind == "pharaoh" and by_suffix == "table":
        by_suffix = None  # a file of links has any suffix, also that of texts
    if path is not None and kind and by_suffix not in (None, kind):
        raise typer.BadParameter(
            f"the format {kind} and {path} contradict each other: name the file otherwise"
        )
    kind = kind or by_suffix
    if kind is None or (kind in PICTURES and not draws):
        usable = suffixes if draws else SUFFIXES
        raise OutputError(
            f"cannot tell the format of {path} from its suffix",
            f"use one of {' '.join(usable)}, or pass --format",
        )
    if params["decimal_comma"] and kind not in ("csv", "tsv"):
        raise typer.BadParameter(
            "--decimal-comma is for --csv, or for TSV: add --csv, or leave it out"
        )
    return Output(
        format=kind,
        path=path,
        decimal_comma=params["decimal_comma"],
        signature=params.get("signature"),
        options=_options_typed(params),
    )


def _options_typed(params: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments and options of a command by their names, but for how its result is written.

    Addresses are without their secrets.
    """
    typed: dict[str, Any] = {}
    for name, value in params.items():
        if name in _OUTPUT_OPTIONS or value in (None, (), []) or value is False:
            continue
        if isinstance(value, list | tuple):
            typed[name] = [plain(shown(str(item))) for item in value]
        elif isinstance(value, str | Path):
            typed[name] = plain(shown(str(value)))
        else:
            typed[name] = value
    return typed


def _format_chosen(params: Mapping[str, Any]) -> Any:
    """The format that an option names, if one does."""
    if not params["csv"]:
        return params["format"]
    if params["format"] not in (None, "csv"):
        raise typer.BadParameter(f"--csv and --format {params['format']} contradict each other")
    return "csv"


def write_stdout(content: bytes) -> None:
    """Write bytes to standard output as they are.

    Raises: OutputError if it cannot take them; BrokenPipeError if its reader has gone.
    """
    with explained(Path("standard output")):
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()


def input_lines(params: Mapping[str, Any], count: int = 0) -> list[str]:
    """Name the input in lines above a screen: sentences, files, or pairs that ship with attnscan.

    `count` is how many pairs these are.
    """
    if params.get("weights") is not None:
        return [f"weights  {params['weights'].name}"]
    if params.get("a") is not None:
        return [f"{name.upper()}  {params[name]}" for name in "ab" if params[name] is not None]
    if params.get("pairs"):
        return [f"pairs  {_files_and_columns(params['pairs'])}"]
    verb = "ships" if count == 1 else "ship"
    return [f"the {counted(count, 'pair')} that {verb} with attnscan"]


def _files_and_columns(names: Sequence[str]) -> str:
    """Files as they were named, with the columns that hold their sentences."""
    listed = ", ".join(map(shown, names))
    files = {shown(file) for file in files_named(names)} if list(names) != ["random"] else set()
    columns = {r.file: ", ".join(r.columns) for r in _reports if r.file in files and r.columns}
    if len(set(columns.values())) == 1:
        return f"{listed} ({_columns_named(next(iter(columns.values())))})"
    described = [f"{file} ({_columns_named(names)})" for file, names in columns.items()]
    return ", ".join(described) or listed


def _columns_named(names: str) -> str:
    """Names of columns as they are; numbers of columns without a name as such."""
    if not all(name.isdecimal() for name in names.split(", ")):
        return names
    return f"column{'s' if ',' in names else ''} {names}"


def links_lines(option: str, names: Sequence[str]) -> list[str]:
    """Name files in a line above a screen; of files of links, what was read of them."""
    if not names:
        return []
    files = {shown(file) for file in files_named(names)}
    last = {report.file: report for report in _reports if report.file in files and report.links}
    if not last:
        return [f"{option}  {', '.join(map(shown, names))}"]
    links_by_relation: Counter[str] = Counter()
    for report in last.values():
        links_by_relation.update(report.links)
    records = counted(sum(report.records for report in last.values()), "record")
    links = counted(links_by_relation.total(), "link")
    most_common = links_by_relation.most_common(_MOST_RELATIONS)
    relations = [f"{number:,} {relation}" for relation, number in most_common]
    others = len(links_by_relation) - len(most_common)
    if others:
        relations.append(f"{others:,} more relations")
    source = ", ".join(map(shown, names))
    return [f"{option}  {source} ({records}, {links}: {', '.join(relations)})"]


def next_command(params: Mapping[str, Any], *words: str) -> list[str]:
    """The words of a command to try next, on the same input or pairs by the same model.

    Empty where standard input has been read, or an address holds a secret.
    """
    pairs = params.get("pairs") or ()
    if any(shown(path) != path for path in pairs):
        return []
    again = [*words, *filter(None, (params.get("a"), params.get("b")))]
    if words[0] == "explain":
        for name in params.get("pattern") or ():
            again += ["--pattern", name]
    for path in pairs:
        again += ["--pairs", path]
    for_kind = () if params.get("attention") == "all" else _REPEATED_FOR_KIND
    for name in (*_REPEATED, *for_kind):
        value = params.get(name)
        if value in (None, False):
            continue
        again.append(f"--{name.replace('_', '-')}")
        if value is not True:
            again.append(str(value))
    return again


def say(line: str) -> None:
    """Write a line to standard error; nothing if it is empty, or standard error takes no more."""
    if line and sys.stderr is not None:
        with suppress(OSError):  # a full disk or a closed pipe: no reason to lose the result
            # not by Typer, which writes into the bar
            print(f"attnscan: {plain(line)}", file=sys.stderr, flush=True)


@contextmanager
def running(doing: str = "") -> Iterator[OnProgress | None]:
    """Show a bar for the progress of a call, on a terminal; its notes and warnings are lines."""
    from attnscan.scan.options import LOG, Note

    has_bar = sys.stderr is not None and sys.stderr.isatty()
    handler = logging.Handler()
    level = LOG.level
    handler.emit = lambda record: say(record.getMessage())  # type: ignore[method-assign]
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        bar = _bar(doing) if has_bar else nullcontext()
        with collect_reports() as reports, warnings.catch_warnings(), bar as step:
            warnings.simplefilter("always", Note)
            warnings.showwarning = lambda message, *_: say(str(message))
            yield step
            _reports[:] = reports
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)


@contextmanager
def _bar(doing: str) -> Iterator[OnProgress]:
    """Show a bar from the first moment on, until the work is done."""
    from rich.console import Console
    from rich.progress import (
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    text = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1))
    columns = (
        SpinnerColumn("line"),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        text,
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(plain(doing), total=None)

        def step(doing: str, done: int | None = None, total: int | None = None) -> None:
            if plain(doing) != bar.tasks[0].description:
                bar.reset(task, description=plain(doing))
                bar.refresh()
            bar.update(task, completed=done or 0, total=total)

        yield step

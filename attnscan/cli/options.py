"""The options of the commands, each declared once, and what they are called where the library takes them.

An option that is not given is None or False, so that the library's own default counts.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import attnscan
from attnscan.api.arguments import READING, SCAN
from attnscan.api.pairs import Files
from attnscan.cli.messages import SKIPS, report_bad, running
from attnscan.errors import nearest
from attnscan.inputs.option import declared
from attnscan.inputs.read import FileReading
from attnscan.scan.options import ScanOptions
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.patterns import SHIPPED, called, is_own

_DECLARED = {**declared(FileReading), **declared(ScanOptions)}
_TABLES = ("table", "csv", "tsv", "json", "jsonl", "markdown", "parquet", "xlsx")


def completing(*names: str) -> Callable[[str], list[str]]:
    """What a shell offers where Tab is pressed: of these names, those that begin with what is typed."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def complete_models(incomplete: str) -> list[str]:
    """The models that can run now, without asking the hub; directories are the shell's own."""
    from attnscan.model.catalog import Catalog

    return completing(*Catalog.now(ask_hub=False).ready)(incomplete)


def pattern_name(name: str) -> str:
    """The name of the pattern that is meant by a name or a letter; what means a user's own stays as it is.

    Raises: typer.BadParameter if there is none.
    """
    return name if is_own(name) else shipped_pattern_name(name)


def shipped_pattern_name(name: str) -> str:
    """The name of the pattern that ships under a name or a letter. Raises: typer.BadParameter if there is none."""
    if (pattern := called(name, ALL_PATTERNS)) is None:
        known = [pattern.id for pattern in SHIPPED]
        hint = nearest(name, known, f"there are {', '.join(known)}")
        raise typer.BadParameter(f"no pattern '{name}': {hint}")
    return pattern.id


def _window(text: str | None) -> str | None:
    match = None if text is None else re.fullmatch(r"(\d{1,6})-(\d{1,6})", text)
    if text is not None and (match is None or int(match[1]) > int(match[2])):
        raise typer.BadParameter(f"'{text}' is not a window: give the first and the last index, as 10-40")
    return text


def heads_option(about: str) -> Any:
    """The option `--heads`, which names heads for what `about` says."""
    return typer.Option("--heads", metavar="HEADS", autocompletion=complete_heads, help=about)


def top_option(about: str) -> Any:
    """The option `--top`, which lists the first of what `about` says."""
    return typer.Option("--top", metavar="N", min=1, help=about)


complete_patterns = completing(*(pattern.id for pattern in SHIPPED))
complete_heads = completing("all", "layer:")  # single ones depend on the model

A = Annotated[str | None, typer.Argument(metavar="A", help="Sentence A.", show_default=False)]
B = Annotated[str | None, typer.Argument(metavar="B", help="Sentence B.", show_default=False)]
HeadsArgument = Annotated[
    str,
    typer.Argument(
        metavar="HEADS",
        autocompletion=complete_heads,
        help="One head or several: 2-0, 2-0,6-11, layer:2 or all.",
        show_default=False,
    ),
]
Pattern = Annotated[
    list[str] | None,
    typer.Option(
        "--pattern",
        "-p",
        metavar="PATTERN",
        callback=lambda names: list(dict.fromkeys(map(pattern_name, names or ()))),
        autocompletion=complete_patterns,
        help="Only this pattern, by name or letter, or your own FILE.py:FUNCTION. May repeat.",
    ),
]
Treebank = Annotated[
    list[str] | None,
    typer.Option("--treebank", metavar="FILE.conllu", help="Read sentences with trees, in CoNLL-U. May repeat."),
]
Held = Annotated[
    list[str] | None,
    typer.Option("--held", metavar="FILE.conllu", help="A second treebank, in which gains are tested again."),
]
Token = Annotated[
    str | None,
    typer.Option("--token", metavar="T", help="One query token: its text, its index, or store#2 for the second one."),
]
Window = Annotated[str | None, typer.Option("--window", metavar="I-J", callback=_window, help="Only tokens I to J.")]

_FILES = ("pairs", "columns", "header", "no_header", "quoting", "encoding", "skip_bad")
_TABLE = ("format", "csv", "decimal_comma", "output")
_OTHERS: dict[str, tuple[str, ...]] = {
    "classify": ("model", "weights", *_FILES, *_TABLE, "signature"),
    "heads": ("model", *_FILES, "id", "state", *_TABLE, "signature"),
    "profile": ("model", "weights", *_FILES, "state", *_TABLE, "signature"),
    "predictive": ("model", *_TABLE, "signature"),
    "head": ("model", *_FILES, *_TABLE, "signature"),
    "show": ("model", "weights", *_TABLE, "signature"),
    "explain": ("model", *_FILES, *_TABLE, "signature"),
    "ablate": ("model", *_FILES, *_TABLE, "signature"),
    "similar": ("model", *_FILES, *_TABLE, "signature"),
    "compare": (*_FILES, *_TABLE, "signature"),
    "syntax": ("model", "skip_bad", "state", *_TABLE, "signature"),
    "plot": ("model", "weights", *_FILES),
    "report": ("model", "weights", *_FILES),
    "serve": ("model",),
    "patterns": _TABLE,
    "models": _TABLE,
}
"""Beside the options of a scan that its function takes, what a command shares with others."""
_ALL_KINDS = ("classify", "heads", "report", "serve")  # commands that read all kinds of attention at once
_OFF = ("show", "explain", "head", "serve")  # commands that ask for no predictive words by themselves


def _shared(
    pairs: Annotated[
        list[str] | None,
        typer.Option(
            "--pairs",
            metavar="FILE",
            help="Read pairs: CSV, TSV, JSON, Parquet, Arrow, Excel; - is stdin; random is random words. May repeat.",
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option("--weights", metavar="FILE.npz", help="Read saved attention weights in place of a model's."),
    ] = None,
    header: Annotated[
        bool, typer.Option("--header", help="The first line names the columns. [default: detected]")
    ] = False,
    no_header: Annotated[bool, typer.Option("--no-header", help="The first line is data.")] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Report and count bad records instead of stopping.")
    ] = False,
    alignments: Annotated[
        Path | None,
        typer.Option(
            "--alignments", metavar="FILE", help="Gold alignments of the pairs' words: 0-0 1-2, a line a pair."
        ),
    ] = None,
    state: Annotated[
        str | None, typer.Option("--state", metavar="FILE", help="Save progress here, and resume from it.")
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            autocompletion=completing(*_TABLES),
            help="Print table, csv, tsv, json, jsonl, markdown, parquet or xlsx.",
        ),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV; short for --format csv.")] = False,
    decimal_comma: Annotated[
        bool,
        typer.Option("--decimal-comma", help="Write 0,5 for 0.5 in CSV and TSV; semicolons then separate CSV cells."),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to FILE, in the format of its suffix.")
    ] = None,
    signature: Annotated[
        Path | None,
        typer.Option("--signature", metavar="FILE.json", help="Also write model, versions, options and input hash."),
    ] = None,
) -> None:
    """Declares the options that commands share, but for those that are declared with the library's options."""


_ATTENTION = (
    "Of an encoder-decoder, which attention to read; B is the target, else the model writes it. "
    "[default: encoder, or by the letter of heads]"
)


def _declared_option(name: str, command: str) -> Parameter:
    """An option of a scan or of reading files, as it is declared there."""
    field, kind = _DECLARED[name], _DECLARED[name].kind
    option, default, flags, more = field.option, field.default, [f"--{name.replace('_', '-')}"], dict[str, Any]()
    about = option.off or option.about
    if name == "attention":
        about, default = _ATTENTION, None
        kind = Literal["encoder", "decoder", "cross", "all"] if command in _ALL_KINDS else kind
    elif name == "on_long":
        default = "cut pairs, refuse others"
    elif name == "predictive" and command in _OFF:
        default = "off"
    elif name == "model":
        flags, more = ["--model", "-m"], {"autocompletion": complete_models}
    if default not in (None, True, False) and "[default" not in about:
        about += f" [default: {default}]"
    more |= {name: bound for name, bound in (("min", option.least), ("max", option.most)) if bound is not None}
    if option.off:
        how = typer.Option(f"--no-{name}", help=about)
        return Parameter(f"no_{name}", Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, how])
    kind = str if name in ("columns", "id") else kind
    metavar = None if "Literal" in str(kind) else {"columns": "A[,B]", "id": "COLUMN"}.get(name, option.metavar)
    how = typer.Option(*flags, metavar=metavar, help=about, **more)
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, how])


def shared_params(command: str) -> list[Any]:
    """The options that a command shares with others, as Typer reads them."""
    names = [name for name in _DECLARED if name in (*SCAN.get(command, ()), *_OTHERS[command]) and name != "header"]
    others = (*_OTHERS[command], *(["alignments"] if "attention" in names else []))

    def declares(**_: Any) -> None:
        """Declares the options of scans and of reading files."""

    declares.__signature__ = Signature([_declared_option(name, command) for name in names])  # type: ignore[attr-defined]
    declares.__annotations__ = {}
    return [*(param for param in read(_shared).params if param.name in others), *read(declares).params]


def read(function: Callable[..., None]) -> Any:
    """A function as Typer reads it: what it takes, and what calls it."""
    alone = typer.Typer(add_completion=False)
    alone.command()(function)
    return typer.main.get_command(alone)


USUAL = ("pairs", "model", "csv", "output", "help", "help_all")
"""What most users need, which help names behind a command's own options."""
GROUPS: dict[str, tuple[str, ...]] = {
    "What to read": (
        *("weights", "window", "treebank", "held", "columns", "header", "no_header", "quoting", "encoding"),
        *("id", "skip_bad", "on_long"),
    ),
    "What to score": ("by", "special", "unit", "words", "no_related", "threshold", "split", "seed"),
    "Encoder-decoders": (
        *("attention", "query", "alignments", "max_target_tokens", "source_language", "target_language"),
    ),
    "Predictive words": ("predictive", "predictive_words", "predictive_pairs"),
    "Model": ("device", "dtype", "batch_tokens"),
    "Result": ("format", "decimal_comma", "signature"),
    "Long runs": ("state", "per_pair", "engine", "ray_address", "ray_workers"),
}
"""Options by their subjects, in the order of help; all others are a command's own."""
RARE = (
    *("header", "no_header", "quoting", "encoding", "words", "id", "threshold", "split", "no_related", "seed"),
    *("query", "alignments", "max_target_tokens", "source_language", "target_language"),
    *("predictive_words", "predictive_pairs"),
    *("dtype", "batch_tokens", "decimal_comma", "signature"),
    *("engine", "ray_address", "ray_workers"),
)
"""Options that `--help-all` names, and `--help` does not."""


def grouped(names: Sequence[str], required: Sequence[str] = ()) -> dict[str, list[str]]:
    """The options of a command under the headings of its help, those that are `required` under the first."""
    groups = {
        heading: [name for name in group if name in names and name not in required] for heading, group in GROUPS.items()
    }
    inside = {*USUAL, *(name for group in groups.values() for name in group)}
    own = [*(name for name in names if name not in inside), *(name for name in USUAL if name in names)]
    return {"Options": own} | {heading: group for heading, group in groups.items() if group}


def arguments_of(command: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a command was given, as its function of the library takes it; what was not given is left out.

    Raises: typer.BadParameter for options that contradict each other.
    """
    taken = (*signature(getattr(attnscan, command)).parameters, *SCAN[command], *READING)
    values = {name: given[name] for name in taken if given.get(name) is not None}
    arguments = {name: value for name, value in values.items() if value is not False and value not in ([], ())}
    arguments |= {name: False for name in ("related", "neurons", "header") if given.get(f"no_{name}")}
    if given.get("header") and given.get("no_header"):
        raise typer.BadParameter("--header and --no-header contradict each other")
    arguments |= {name: Files(arguments[name]) for name in ("pairs", "treebank", "held") if name in arguments}
    if "columns" in arguments:
        try:
            arguments["columns"] = next(csv.reader([given["columns"]]), [])
        except csv.Error:
            raise typer.BadParameter("--columns has a line end in it: name one column, or two with a comma") from None
    if "window" in arguments:
        arguments["window"] = tuple(map(int, given["window"].split("-")))
    if arguments.pop("skip_bad", False):
        arguments["on_bad"] = report_bad()
    return arguments


def call(command: str, given: Mapping[str, Any], **more: Any) -> Any:
    """Call a command's function of the library with what was given and `more`, under a bar."""
    arguments = arguments_of(command, given) | more
    with running(skips={} if command == "predictive" else SKIPS) as progress:
        return getattr(attnscan, command)(**arguments, progress=progress)


def drawing(result: Any, patterns: Sequence[str] | None = None) -> Callable[[Any], bytes]:
    """A function that draws a result as a picture in the format of a `PictureFile`."""

    def draw(look: Any) -> bytes:
        from attnscan.views.pictures.picture import picture

        return picture(result, look=look, patterns=patterns)

    return draw

"""The options of the commands, each declared once, and the arguments of the library that they become.

An option that is not given is None or False, so that the library's own default counts.
"""

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import attnscan
from attnscan.api.arguments import READING, SCAN, SHARED, Files
from attnscan.cli.output import Output, output_of, running
from attnscan.inputs.option import declared
from attnscan.inputs.records import FileReading
from attnscan.results.files import Format
from attnscan.scan.options import ScanOptions


def flag(name: str, about: str) -> Any:
    """An option without a value."""
    return typer.Option(name, help=about)


def option(about: str, metavar: str | None = None, **settings: Any) -> Any:
    """An option with a value, named as its parameter."""
    return typer.Option(metavar=metavar, help=about, **settings)


def argument(about: str, metavar: str, **settings: Any) -> Any:
    """A positional value."""
    return typer.Argument(metavar=metavar, help=about, show_default=False, **settings)


A = Annotated[str | None, argument("Sentence A.", "A")]
B = Annotated[str | None, argument("Sentence B.", "B")]
HeadsArgument = Annotated[
    str, argument("One head or several: 2-0, 2-0,6-11, layer:2 or all.", "HEADS")
]
_PATTERN = "Only this pattern, by name or letter, or your own FILE.py:FUNCTION. May repeat."
Pattern = Annotated[
    list[str] | None, typer.Option("--pattern", "-p", metavar="PATTERN", help=_PATTERN)
]
Treebank = Annotated[
    list[str] | None, option("Read sentences with trees, in CoNLL-U. May repeat.", "FILE.conllu")
]
Held = Annotated[
    list[str] | None, option("Say what heads do on this second file of pairs, too.", "FILE")
]
Token = Annotated[
    str | None, option("One query token: its text, its index, or store#2 for the second one.", "T")
]
Window = Annotated[str | None, option("Only tokens I to J.", "I-J")]

_DECLARED = {**declared(FileReading), **declared(ScanOptions)}
_OTHERS: dict[str, tuple[Any, str | None, str]] = {
    "pairs": (
        list[str],
        "FILE",
        "Read pairs: CSV, TSV, JSON, Parquet, Arrow, Excel; - is stdin, random draws words. May repeat.",
    ),
    "weights": (Path, "FILE.npz", "Read saved attention weights in place of a model's."),
    "header": (bool, None, "The first line names the columns. [default: detected]"),
    "no_header": (bool, None, "The first line is data."),
    "skip_bad": (bool, None, "Report and count bad records instead of stopping."),
    "alignments": (Path, "FILE", "Gold alignments of the pairs' words: 0-0 1-2, a line a pair."),
    "state": (str, "FILE", "Save progress here, and resume from it."),
    "format": (Format, None, "Print in this format; -o takes the format of FILE's suffix."),
    "csv": (bool, None, "Print CSV; short for --format csv."),
    "decimal_comma": (
        bool,
        None,
        "Write 0,5 for 0.5 in CSV and TSV; semicolons then separate CSV cells.",
    ),
    "output": (Path, "FILE", "Write to FILE, in the format of its suffix."),
    "signature": (Path, "FILE.json", "Also write model, versions, options and input hash."),
}
"""Options that commands share and the library does not declare: their type, metavar and help."""
_SHORT = {"model": "-m", "format": "-f", "output": "-o"}
_FILES = ("pairs", "columns", "header", "no_header", "quoting", "encoding", "skip_bad")
_PAIRED = "heads profile head explain ablate similar compare plot report"
_RUN = "classify heads profile predictive head show explain ablate similar syntax"
_COMMANDS: dict[str, str] = {
    **dict.fromkeys(_FILES, _PAIRED),
    "skip_bad": f"{_PAIRED} syntax",
    "id": "heads",
    "group": "heads head explain similar compare plot report",
    "weights": "classify profile show plot report",
    "state": "heads profile syntax",
    "model": f"{_RUN} plot report serve",
    "signature": f"{_RUN} compare",
    **dict.fromkeys(
        ("format", "csv", "decimal_comma", "output"), f"{_RUN} compare patterns models"
    ),
}
"""Options that are not of a scan, and the commands that have them."""
_ALL_KINDS = (
    "classify",
    "heads",
    "report",
    "serve",
)  # commands that read all kinds of attention at once
_OFF = (
    "show",
    "explain",
    "head",
    "serve",
)  # commands that ask for no predictive words by themselves
_ATTENTION = (
    "Which attention of an encoder-decoder to read; B is the target, else the model writes one. "
    "[default: encoder, or by the letter of heads]"
)


def _parameter(name: str, kind: Any, metavar: str | None, about: str, **settings: Any) -> Parameter:
    flags = [f"--{name.replace('_', '-')}", *filter(None, [_SHORT.get(name)])]
    option_info = typer.Option(*flags, metavar=metavar, help=about, **settings)
    is_flag, optional = kind is bool, kind if kind is bool else kind | None
    annotation: Any = Annotated[optional, option_info]
    return Parameter(
        name, Parameter.KEYWORD_ONLY, default=False if is_flag else None, annotation=annotation
    )


def _declared_option(name: str, command: str) -> Parameter:
    """An option of a scan or of reading files, as it is declared there."""
    field, kind, option = _DECLARED[name], _DECLARED[name].kind, _DECLARED[name].option
    default, about = field.default, option.off or option.about
    if option.off:
        return _parameter(f"no_{name}", bool, None, about)
    if name == "attention":
        about, default = _ATTENTION, None
        kind = Literal["encoder", "decoder", "cross", "all"] if command in _ALL_KINDS else kind
    elif name == "predictive" and command in _OFF:
        default = "off"
    if default not in (None, True, False) and "[default" not in about:
        about += f" [default: {default}]"
    bounds = {
        name: bound
        for name, bound in (("min", option.least), ("max", option.most))
        if bound is not None
    }
    kind = str if name in ("columns", "id", "group") else kind
    metavar = (
        None
        if "Literal" in str(kind)
        else {"columns": "A[,B]", "id": "COLUMN", "group": "COLUMN"}.get(name, option.metavar)
    )
    return _parameter(name, kind, metavar, about, **bounds)


def shared_params(command: str) -> list[Any]:
    """The options that a command shares with others, as Typer reads them."""
    names = [
        *SCAN.get(command, ()),
        *(name for name, commands in _COMMANDS.items() if command in commands.split()),
    ]
    names += ["alignments"] if "attention" in names else []
    parameters = [_parameter(name, *_OTHERS[name]) for name in _OTHERS if name in names]
    parameters += [
        _declared_option(name, command) for name in _DECLARED if name in names and name != "header"
    ]
    option_info = typer.Option(
        "--help-all", is_eager=True, callback=_show_all, help="Show all options and exit."
    )
    help_all = Parameter(
        "help_all", Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, option_info]
    )

    def declares(**_: Any) -> None:
        """Declares the options."""

    declares.__signature__ = Signature([*parameters, help_all])  # type: ignore[attr-defined]
    declares.__annotations__ = {}
    return list(make_command(declares).params)


def _show_all(ctx: Any, wanted: bool) -> None:
    """Show help with every option."""
    if wanted and not ctx.resilient_parsing:
        ctx.meta["help_all"] = True
        typer.echo(ctx.get_help(), color=ctx.color)
        raise typer.Exit


def make_command(function: Callable[..., None]) -> Any:
    """Make a command of Typer from a function."""
    single = typer.Typer(add_completion=False)
    single.command()(function)
    return typer.main.get_command(single)


USUAL = ("pairs", "model", "csv", "output", "help", "help_all")
"""Options that most users need; help names them behind a command's own."""
_SUBJECTS = {
    "What to read": (
        "weights window treebank held columns skip_bad on_long",
        "header no_header quoting encoding id group",
    ),
    "What to score": ("by special unit", "words no_related threshold split seed"),
    "Encoder-decoders": (
        "attention",
        "query alignments max_target_tokens source_language target_language",
    ),
    "Predictive words": ("predictive", "predictive_words predictive_pairs"),
    "Model": ("device", "dtype batch_tokens"),
    "Result": ("format", "decimal_comma signature"),
    "Long runs": ("state per_pair", "engine ray_address ray_workers"),
}
GROUPS = {heading: [*usual.split(), *rare.split()] for heading, (usual, rare) in _SUBJECTS.items()}
"""Options by their subjects, in the order of help; all others are a command's own."""
RARE = [name for _, rare in _SUBJECTS.values() for name in rare.split()]
"""Options that `--help-all` names, and `--help` does not."""


def grouped(names: Sequence[str], required: Sequence[str] = ()) -> dict[str, list[str]]:
    """The options of a command under the headings of its help, those that are `required` under the first."""
    groups = {
        heading: [name for name in group if name in names and name not in required]
        for heading, group in GROUPS.items()
    }
    inside = {*USUAL, *(name for group in groups.values() for name in group)}
    of_command = [
        *(name for name in names if name not in inside),
        *(name for name in USUAL if name in names),
    ]
    return {"Options": of_command} | {heading: group for heading, group in groups.items() if group}


def arguments_of(command: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Turn a command's parameters into arguments of its library function; those that were not given are left out."""
    names = (*signature(getattr(attnscan, command)).parameters, *SCAN[command], *READING, *SHARED)
    values = {
        name: value
        for name in names
        if (value := params.get(name)) not in (None, (), []) and value is not False
    }
    if params.get("header") and params.get("no_header"):
        raise typer.BadParameter("--header and --no-header contradict each other")
    values |= {name: False for name in ("related", "neurons", "header") if params.get(f"no_{name}")}
    values |= {
        name: Files(values[name]) for name in ("pairs", "treebank", "held") if name in values
    }
    if "columns" in values:
        values["columns"] = values["columns"].split(",")
    return values


def call(command: str, params: Mapping[str, Any], **extra: Any) -> Any:
    """Call a command's function of the library with its parameters and `extra` arguments, under a bar."""
    arguments = arguments_of(command, params) | extra
    with running() as progress:
        return getattr(attnscan, command)(**arguments, progress=progress)


def answer(context: typer.Context, *, draws: bool = False) -> tuple[Output, Any]:
    """Call a command's function; return where its result is to be written, and the result."""
    return output_of(context.params, draws=draws), call(str(context.info_name), context.params)


def drawing(result: Any, patterns: Sequence[str] | None = None) -> Callable[[Any], bytes]:
    """A function that draws a result as a picture in a format."""
    return lambda kind: call("plot", {}, a=result, pattern=patterns, format=kind)

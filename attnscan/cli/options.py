"""The options of the commands: those that the library declares, and those that write a result.

An option that is not given is None or False, so that the library's own default counts.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

import attnscan
from attnscan.api.option_groups import READING_NAMES
from attnscan.api.signatures import FunctionOptions, options_of
from attnscan.cli.commands_table import Command
from attnscan.cli.completion import completer
from attnscan.inputs.option import Declared, Option, words_of
from attnscan.results.files import Format

_TABLE: dict[str, Declared] = {
    "format": Declared(
        Format,
        None,
        Option("Print in this format; -o takes the format of FILE's suffix.", short="-f"),
    ),
    "csv": Declared(bool, False, Option("Print CSV; short for --format csv.")),
    "decimal_comma": Declared(
        bool,
        False,
        Option("Write 0,5 for 0.5 in CSV and TSV; semicolons then separate CSV cells."),
    ),
    "output": Declared(
        str | None,
        None,
        Option("Write to FILE, in the format of its suffix.", metavar="FILE", short="-o"),
    ),
}
"""How and where a table is written."""
_SIGNATURE = Declared(
    str | None,
    None,
    Option("Also write model, versions, options and input hash.", metavar="FILE.json"),
)
_HEADER = {
    "header": "The first line names the columns. [default: detected]",
    "no_header": "The first line is data.",
}
"""The two flags of an option that is detected if neither is given."""
_TEXT_PATHS = ("state",)
"""Options that name a file by a text, which may be an address."""


def flag(name: str, about: str) -> Any:
    """An option without a value."""
    return typer.Option(name, help=about)


def option(about: str, metavar: str | None = None, **settings: Any) -> Any:
    """An option with a value, named as its parameter."""
    return typer.Option(metavar=metavar, help=about, **settings)


def command_params(command: Command, own: Callable[..., None] | None) -> list[Any]:
    """All that a command takes, as Typer reads it.

    This is what its function of the library declares, what writes its result, and the parameters of
    its `own` function, if it has one.
    """
    getattr(attnscan, command.name)  # is imported, and so declares its options
    options = options_of(command.name)
    parameters = {}
    for name, declaration in _declared(command, options).items():
        for parameter in _parameters(name, declaration):
            parameters[parameter.name] = parameter
    if own is not None:
        evaluated = signature(own, eval_str=True).parameters
        for name in own_names(own):
            parameters[name] = evaluated[name].replace(kind=Parameter.KEYWORD_ONLY)
    parameters["help_all"] = _HELP_ALL
    return make_params(parameters.values())


def own_names(own: Callable[..., None]) -> list[str]:
    """The parameters of a command's own function."""
    return [name for name in signature(own).parameters if name != "context"]


def _declared(command: Command, options: FunctionOptions) -> dict[str, Declared]:
    """What a command's function of the library declares, and what writes its result."""
    declared = dict(options.declared)
    if "columns" in declared and not {"pairs", "files"} & declared.keys():
        for name in READING_NAMES:  # programs alone give pairs
            declared.pop(name, None)
    if command.has_table:
        declared |= _TABLE
    if command.other_formats:
        formats: Any = Literal[(*get_args(Format), *command.other_formats)]
        declared["format"] = declared["format"]._replace(kind=formats)
    if command.has_table and "on_long" in declared:  # it reads inputs
        declared["signature"] = _SIGNATURE
    return declared


def _parameters(name: str, declaration: Declared) -> Iterator[Parameter]:
    """An option as Typer reads it; one that is detected by default has a flag for each answer."""
    if name == "header":
        for flag_name, about in _HEADER.items():
            yield _parameter(flag_name, typer.Option(_flag_of(flag_name), help=about), bool)
        return
    option = declaration.option
    kind = _typed_kind(name, declaration)
    if option.off:
        name = f"no_{name}"
        yield _parameter(name, typer.Option(_flag_of(name), help=option.off), bool)
        return
    has_metavar = get_origin(kind) is not Literal and kind is not bool
    settings: dict[str, Any] = {
        "metavar": option.metavar if has_metavar else None,
        "help": _help(declaration),
        "autocompletion": completer(option.metavar),
    }
    if kind in (int, float):
        settings |= {"min": option.least, "max": option.most}
    if option.is_argument:
        is_optional = declaration.default is not Parameter.empty and not option.is_required
        argument: Any = typer.Argument(show_default=False, **settings)
        yield _parameter(name, argument, kind, is_required=not is_optional)
        return
    names = [_flag_of(name), *filter(None, [option.short])]
    is_required = declaration.default is Parameter.empty
    yield _parameter(name, typer.Option(*names, **settings), kind, is_required=is_required)


def _parameter(name: str, info: Any, kind: Any, *, is_required: bool = False) -> Parameter:
    """A parameter for Typer; one that is not given is None, or False if it is a flag."""
    if is_required:
        default: Any = Parameter.empty
    elif kind is bool:
        default = False
    else:
        kind = kind | None
        default = None
    annotation = Annotated[kind, info]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _flag_of(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _typed_kind(name: str, declaration: Declared) -> Any:
    """The type that the command line reads: words, a number, a flag, files or a text."""
    option = declaration.option
    if option.repeats:
        return list[str]
    words = words_of(declaration.kind)
    if words:
        return Literal[tuple(words)]
    kinds = {declaration.kind, *get_args(declaration.kind)} - {type(None)}
    for kind in (bool, int, float):
        if kind in kinds and str not in kinds:
            return kind
    if option.metavar.startswith("FILE") and name not in _TEXT_PATHS:
        return Path
    return str


def _help(declaration: Declared) -> str:
    """What an option does, and its default if that is not said and not empty."""
    about = declaration.option.about
    default = declaration.default
    is_said = "[default" in about or declaration.option.is_argument
    if is_said or default in (None, True, False, (), Parameter.empty):
        return about
    return f"{about} [default: {default}]"


def make_params(parameters: Iterable[Parameter]) -> list[Any]:
    """Make parameters of a command from those of a function."""

    def declares(**_: Any) -> None:
        """Declares the options."""

    declares.__signature__ = Signature(list(parameters))  # type: ignore[attr-defined]
    declares.__annotations__ = {}
    single = typer.Typer(add_completion=False)
    single.command()(declares)
    command: Any = typer.main.get_command(single)
    return list(command.params)


def _show_all(ctx: Any, wanted: bool) -> None:
    """Show help with every option."""
    if wanted and not ctx.resilient_parsing:
        ctx.meta["help_all"] = True
        typer.echo(ctx.get_help(), color=ctx.color)
        raise typer.Exit


_HELP_ALL = Parameter(
    "help_all",
    Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option(
            "--help-all", is_eager=True, callback=_show_all, help="Show all options and exit."
        ),
    ],
)

USUAL = ("pairs", "model", "csv", "output", "help", "help_all")
"""Options that most users need; help names them behind a command's own."""


@dataclass(frozen=True)
class OptionGroup:
    """Options of one subject, which stand under a heading of help."""

    heading: str
    usual: tuple[str, ...]
    rare: tuple[str, ...] = ()
    """Those that `--help-all` names, and `--help` does not."""

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return self.usual + self.rare


GROUPS = (
    OptionGroup(
        "What to read",
        usual=("weights", "window", "treebank", "links", "held", "columns", "skip_bad", "on_long"),
        rare=("header", "no_header", "quoting", "encoding", "id", "group"),
    ),
    OptionGroup(
        "What to score",
        usual=("by", "special", "unit"),
        rare=("words", "no_related", "threshold", "split", "seed"),
    ),
    OptionGroup(
        "Encoder-decoders",
        usual=("attention", "vote"),
        rare=("query", "alignments", "max_target_tokens", "source_language", "target_language"),
    ),
    OptionGroup(
        "Predictive words",
        usual=("predictive",),
        rare=("predictive_words", "predictive_pairs"),
    ),
    OptionGroup("Model", usual=("device",), rare=("dtype", "batch_tokens")),
    OptionGroup("Result", usual=("format",), rare=("decimal_comma", "signature")),
    OptionGroup(
        "Long runs",
        usual=("state", "per_pair"),
        rare=("engine", "ray_address", "ray_workers"),
    ),
)
"""Options by their subjects, in the order of help; all others are a command's own."""
RARE = frozenset(chain.from_iterable(group.rare for group in GROUPS))


def grouped(names: Sequence[str], required: Sequence[str] = ()) -> dict[str, list[str]]:
    """The options of a command under the headings of its help.

    A command's own stand under the first, with those that are `required` and the usual ones.
    """
    groups = {}
    for group in GROUPS:
        present = [name for name in group.names if name in names and name not in required]
        if present:
            groups[group.heading] = present
    in_groups = set(chain.from_iterable(groups.values()))
    own = [name for name in names if name not in in_groups and name not in USUAL]
    usual = [name for name in USUAL if name in names]
    return {"Options": [*own, *usual]} | groups

"""Options declared once, as fields of frozen classes.

The command line, the library, the docs and the checks all read the declaration.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from itertools import chain
from numbers import Integral, Real
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from attnscan.errors import OptionError, check_known

# The largest number that an option takes: counts in a tensor and seeds of every generator hold it
LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Option:
    """How users set a field of an options object."""

    about: str
    """What it does, as help says it."""
    off: str = ""
    """Of what is on by default: what `--no-NAME`, which switches it off, does."""
    metavar: str = "N"
    """What stands for its value in help, if that is not one of a few words."""
    least: float | None = None
    most: float | None = None
    short: str = ""
    """Its letter on the command line, with its dash."""
    repeats: bool = False
    """Whether it may be given several times on the command line."""
    is_argument: bool = False
    """Whether it stands on the command line without a name."""
    is_required: bool = False
    """Whether the command line wants it, though the library has a default."""


class Declared(NamedTuple):
    """A field of an options object that users can set."""

    kind: Any
    """Its type, without the `Option`."""
    default: Any
    option: Option


@cache
def declared(options: Any) -> Mapping[str, Declared]:
    """The fields of a class of options that users can set, by their names."""
    hints = get_type_hints(options, include_extras=True)
    by_name = {}
    for field in fields(options):
        hint = hints[field.name]
        if get_origin(hint) is Annotated:
            kind, option = get_args(hint)
            by_name[field.name] = Declared(kind, field.default, option)
    return by_name


def check_declared(options: Any) -> None:
    """Hold the fields of an options object to what they take. Raises: OptionError."""
    for name, declaration in declared(options.__class__).items():
        check_option(name, getattr(options, name), declaration)


def check_option(name: str, value: Any, declaration: Declared) -> None:
    """Check a value against what an option takes. Raises: OptionError."""
    kinds = {declaration.kind, *get_args(declaration.kind)}
    if value is None and type(None) in kinds:
        return
    words = words_of(declaration.kind)
    if words:
        check_known(name, value, words)
    elif bool in kinds:
        if not isinstance(value, bool):
            raise OptionError(f"{name} is {value!r:.60}", "give True or False")
    elif {int, float} & kinds and str not in kinds:
        check_within(name, value, declaration.option, whole=int in kinds)


def words_of(kind: Any) -> list[str]:
    """The words that a type consists of, in their order; none for other types."""
    parts = [kind, *get_args(kind)]
    literals = [get_args(part) for part in parts if get_origin(part) is Literal]
    return list(chain.from_iterable(literals))


def check_within(name: str, value: Any, option: Option, *, whole: bool) -> None:
    """Check a number against the bounds of its option. Raises: OptionError, also for no number."""
    least = option.least or 0
    most = LARGEST if option.most is None else option.most
    is_number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    if is_number and least <= value <= most:
        return
    kind = "a whole number" if whole else "a number"
    bound = "2**63" if option.most is None else f"{most:g}"
    raise OptionError(f"{name} is {value!r:.60}", f"give {kind}, from {least:g} to {bound}")

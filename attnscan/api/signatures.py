"""The signatures of the library's functions, which `help` shows.

The command line, the checks and the docs read the same declarations, by `options_of`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import Parameter, signature
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from attnscan.errors import nearest
from attnscan.inputs.option import Declared, Option, check_option, declared
from attnscan.inputs.records import FileReading
from attnscan.scan.options import ScanOptions

_DECLARED: Mapping[str, Declared] = {**declared(FileReading), **declared(ScanOptions)}
_DEPENDENT = {"on_long": None, "attention": None}
"""Options whose defaults depend on other arguments: on how many inputs there are, and on heads."""


@dataclass(frozen=True)
class FunctionOptions:
    """What a function of the library takes."""

    function: str
    names: tuple[str, ...]
    declared: Mapping[str, Declared]
    """All that a user can set, its own parameters among them; those of programs alone are not."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults that differ from those of other functions."""

    def check_names(self, options: Mapping[str, Any]) -> None:
        """Raises: TypeError, as Python does, for an option that the function does not take."""
        for name in options:
            if name not in self.names:
                listed = f"its options are {', '.join(self.names)}"
                hint = nearest(name, self.names, listed)
                raise TypeError(
                    f"{self.function}() got an unexpected keyword argument '{name}': {hint}"
                )

    def check_values(self, **values: Any) -> None:
        """Raises: OptionError for a value that a parameter of the function's own does not take."""
        for name, value in values.items():
            check_option(name, value, self.declared[name])


_FUNCTIONS: dict[str, FunctionOptions] = {}
F = TypeVar("F", bound=Callable[..., Any])


def library_function(**defaults: Any) -> Callable[[F], F]:
    """Give a function the signature of all that it takes; `defaults` are those that are its own.

    Its own parameters that a user can set are annotated with their `Option`, and its `**options`
    with a group of options.
    """

    def declare(function: F) -> F:
        written = signature(function)
        parameters = dict(written.parameters)
        group = parameters.pop("options", None)
        own = [_own_parameter(parameter, function) for parameter in parameters.values()]
        shared = [] if group is None else _group_parameters(_group_of(group, function), defaults)
        takes = [*own, *shared]
        _FUNCTIONS[function.__name__] = FunctionOptions(
            function=function.__name__,
            names=tuple(parameter.name for parameter, _ in takes),
            declared={parameter.name: option for parameter, option in takes if option is not None},
            defaults=defaults,
        )
        parameters_shown = [parameter for parameter, _ in takes]
        function.__signature__ = written.replace(parameters=parameters_shown)  # type: ignore[attr-defined]
        return function

    return declare


def options_of(function: str) -> FunctionOptions:
    """What a function of the library takes, once the module that defines it is imported."""
    return _FUNCTIONS[function]


_Taken = tuple[Parameter, Declared | None]
"""A parameter as `help` shows it, and what it declares if a user can set it."""


def _own_parameter(parameter: Parameter, function: Callable[..., Any]) -> _Taken:
    """A parameter that a function writes itself."""
    shown, kind, option = _read_annotation(parameter.annotation, function.__globals__)
    declaration = None if option is None else Declared(kind, parameter.default, option)
    return parameter.replace(annotation=shown), declaration


def _read_annotation(text: str, namespace: dict[str, Any]) -> tuple[Any, Any, Option | None]:
    """The type that `help` shows, the type itself, and the `Option` that an annotation declares.

    Words, numbers and flags are shown as they are; other types by the name that attnscan gives
    them, such as `Heads`.
    """
    option = None
    tree = ast.parse(text, mode="eval").body
    if isinstance(tree, ast.Subscript) and ast.unparse(tree.value) == "Annotated":
        assert isinstance(tree.slice, ast.Tuple)
        text, option_text = map(ast.unparse, tree.slice.elts)
        option = eval(option_text, namespace)
    try:
        kind = eval(text, namespace)
    except (NameError, TypeError):  # it names what is imported for type checkers alone
        return text, Any, option
    return kind if _is_plain(kind) else text, kind, option


def _is_plain(kind: Any) -> bool:
    """Whether a type consists of words, numbers or flags."""
    parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    plain = (Any, bool, int, float, str, type(None))
    return all(part in plain or get_origin(part) is Literal for part in parts)


def _group_of(parameter: Parameter, function: Callable[..., Any]) -> Any:
    """The group that a function's `**options: Unpack[...]` name."""
    (group,) = get_args(eval(parameter.annotation, function.__globals__))
    return group


def _group_parameters(group: Any, defaults: Mapping[str, Any]) -> list[_Taken]:
    """The options of a group, as parameters that are given by name."""
    parameters = []
    namespace = vars(sys.modules[group.__module__])
    for name in sorted(group.__annotations__, key=_place):
        annotation = group.__annotations__[name]
        text = getattr(annotation, "__forward_arg__", annotation)
        shown, kind, option = _read_annotation(text, namespace)
        default = False if kind is bool else None
        if name in _DECLARED:
            option = option or _DECLARED[name].option
            default = _DEPENDENT.get(name, _DECLARED[name].default)
        default = defaults.get(name, default)
        parameter = Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=shown)
        declaration = None if option is None else Declared(kind, default, option)
        parameters.append((parameter, declaration))
    return parameters


def _place(name: str) -> tuple[int, str]:
    """Where an option stands among others: the model first, then what decides a scan."""
    order = ["model", "tokenizer", *declared(ScanOptions), *declared(FileReading)]
    return (order.index(name) if name in order else len(order), name)

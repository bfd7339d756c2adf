"""What callers give, checked and made what the rooms below take: models, options, heads. Pairs are in source.py."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

import torch

from attnscan.errors import OptionError, nearest
from attnscan.model.in_memory import Model, Tokenizer
from attnscan.model.loaded import LoadedModel
from attnscan.run.requests import InMemory
from attnscan.scan.options import Choices, ScanOptions
from attnscan.scoring.patterns import PATTERNS, chosen

Taken = ParamSpec("Taken")
Returned = TypeVar("Returned")


def checked(function: Callable[Taken, Returned]) -> Callable[Taken, Returned]:
    """The function, which raises an OptionError for a parameter that it has not got, or that it lacks."""
    parameters = signature(function).parameters
    known = [name for name, parameter in parameters.items() if parameter.kind is not Parameter.VAR_KEYWORD]
    if len(known) < len(parameters):
        known += [name for name in Choices.__annotations__ if name not in known]

    @wraps(function)
    def call(*given: Taken.args, **named: Taken.kwargs) -> Returned:
        for name in named:
            if name not in known:
                hint = nearest(name, known, f"there are {', '.join(known)}")
                raise OptionError(f"{function.__name__} takes no {name}", hint)
        try:
            signature(function).bind(*given, **named)
        except TypeError as error:
            raise OptionError(f"{function.__name__}: {error}", f"see help(attnscan.{function.__name__})") from None
        with _without_autocast():
            return function(*given, **named)

    return call


@contextmanager
def _without_autocast() -> Iterator[None]:
    """Compute in the number format of the model's weights, whatever the caller's autocast asks of its own runs.

    A result's signature says in which format it was computed, and sums of many runs add. Under autocast, what runs in
    threads of ours would not be rounded, and the rest would be: autocast is a thread's own.
    """
    with ExitStack() as switched_off:
        for device in ("cpu", "cuda", "mps"):
            if torch.is_autocast_enabled(device):
                switched_off.enter_context(torch.autocast(device, enabled=False))
        yield


def memory_of(model: Model, tokenizer: Tokenizer, options: ScanOptions) -> InMemory | None:
    """The model that is in memory, with its tokenizer; None if options name one.

    Raises: OptionError for a device or number format beside a model in memory, which keeps its own.
    """
    is_loaded = isinstance(model, LoadedModel)
    if (is_name(model) or is_loaded) and tokenizer is not None:
        raise OptionError(
            "a tokenizer was given, and no model that is in memory",
            "leave it out: a model that is named comes with its own",
        )
    if is_name(model):
        return None
    for name in ("device", "dtype"):
        if getattr(options, name) != "auto":
            remedy = "give it to load()" if is_loaded else f"leave {name} out, and use model.to(...) before"
            raise OptionError(f"a model that is in memory keeps its own {name}", remedy)
    return InMemory(model, tokenizer)


def is_name(model: Model) -> bool:
    """Whether a model is named, by text or by path, or is the default."""
    return model is None or isinstance(model, str | os.PathLike)


def options_of(model: Model, options: Choices) -> ScanOptions:
    """Options by name, as one object, which names the model if that is not in memory.

    Raises: OptionError for a value that there is not.
    """
    patterns = chosen(options.get("patterns", PATTERNS))
    name = os.fspath(model) if isinstance(model, str | os.PathLike) else None
    return ScanOptions(**{**options, "model": name, "patterns": patterns})  # type: ignore[arg-type]


def without_norm(options: Choices, what: str) -> Choices:
    """The same options. Raises: OptionError if they ask for what heads carry, which says nothing of `what`."""
    if options.get("norm"):
        raise OptionError(f"{what} cannot go by what heads carry", "leave out norm")
    return options


def explained(model: Model, pattern: str | None, options: Choices) -> ScanOptions:
    """The options, if they score the pattern; without `predictive`, which would cost more than all else.

    Raises: OptionError if they do not.
    """
    result = options_of(
        model, {"predictive": "auto" if pattern == "predictive" else "off", **without_norm(options, "explanations")}
    )
    if pattern is not None:
        check_known("pattern", pattern, [known.id for known in result.patterns])
    return result


def check_known(what: str, value: object, known: Sequence[str]) -> None:
    """Raises: OptionError for a value that there is not."""
    if value not in known:
        hint = nearest(str(value), known, f"there are {', '.join(known)}")
        raise OptionError(f"there is no {what} {value!r}", hint)


def check_kind(what: str, value: object, *kinds: type) -> None:
    """Raises: OptionError for a value of another class."""
    if not isinstance(value, kinds):
        names = " or a ".join(kind.__name__ for kind in kinds)
        raise OptionError(f"{what} is of the class {type(value).__name__}", f"give a {names}")


def paths_of(paths: Any) -> list[str]:
    """One path, or several. Raises: OptionError for anything else."""
    if isinstance(paths, str | os.PathLike):
        return [os.fspath(paths)]
    several = paths if isinstance(paths, Iterable) and not isinstance(paths, bytes) else [paths]
    return listed("paths", [os.fspath(path) if isinstance(path, os.PathLike) else path for path in several])


def listed(what: str, values: str | Iterable[str]) -> list[str]:
    """Several texts, or one that stands alone. Raises: OptionError for anything else."""
    several = [values] if isinstance(values, str) else values
    if not isinstance(several, Iterable) or isinstance(several, bytes | Mapping):
        raise OptionError(f"{what} is of the class {type(values).__name__}", "give a list of texts")
    several = list(several)
    if others := [value for value in several if not isinstance(value, str)]:
        raise OptionError(f"{what} has a {type(others[0]).__name__} in it", "give a list of texts")
    return several


def columns_of(what: str, columns: Any) -> tuple[str, ...] | None:
    """Names or numbers of columns, or one that stands alone. Raises: OptionError for anything else."""
    if columns is None:
        return None
    several: Any = [columns] if isinstance(columns, int) else columns
    if isinstance(several, Iterable) and not isinstance(several, str | bytes | Mapping):
        several = [str(each) if type(each) is int else each for each in several]
    return tuple(listed(what, several))

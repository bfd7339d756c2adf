"""What callers give, checked and made what the rooms below take: models, options, heads, pairs. All checks are here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import Parameter, signature
from itertools import chain, repeat
from typing import Any, ParamSpec, TypeVar

from attnscan.errors import AttnscanError, InputError, OptionError, nearest
from attnscan.inputs.pairs import Pair, Place, Record
from attnscan.model.in_memory import Model, Tokenizer, adopted
from attnscan.scan.options import Choices, ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scoring.patterns import PATTERNS, chosen

Pairs = Iterable[str | tuple[str, str]]
"""Single sentences, and pairs of them."""
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
        return function(*given, **named)

    return call


def opened(model: Model, tokenizer: Tokenizer, options: ScanOptions) -> Scanner:
    """The model that is named, or that is in memory with its tokenizer, made ready. Use it in a `with`.

    Raises: ModelError; OptionError for a device or number format beside a model in memory, which keeps its own.
    """
    if is_name(model):
        if tokenizer is not None:
            raise OptionError(
                "a tokenizer was given, and no model that is in memory",
                "leave it out: a model that is named comes with its own",
            )
        return Scanner(options)
    for name in ("device", "dtype"):
        if getattr(options, name) != "auto":
            raise OptionError(
                f"a model that is in memory keeps its own {name}", f"leave {name} out, and use model.to(...) before"
            )
    return Scanner(options, adopted(model, tokenizer))


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


def pair_of(*sentences: object) -> Pair:
    """One sentence, or two; a B of None stands for none. Raises: InputError if they are no text, or cannot be read."""
    for name, sentence in zip("AB", sentences, strict=False):
        if not isinstance(sentence, str) and (sentence is not None or name == "A"):
            remedies: dict[type, str] = {
                bytes: "decode it: text.decode()",
                list: "give one text; rank_heads takes many inputs",
                tuple: "give A and B apart; rank_heads takes many inputs",
            }
            remedy = remedies.get(type(sentence), "give text")
            what = "None" if sentence is None else f"of the class {type(sentence).__name__}"
            raise InputError(f"sentence {name} is {what}, and not text", remedy)
    return Pair(*sentences)  # type: ignore[arg-type]


def records_of(pairs: Pairs, labels: Iterable[str] = ()) -> Iterator[Record]:
    """Pairs with their places, read one by one; `labels` say which class each is of, as far as they go.

    Raises: InputError if they are no pairs: at once, or later for one among them.
    """
    if isinstance(pairs, str | bytes | Mapping) or hasattr(pairs, "itertuples") or not isinstance(pairs, Iterable):
        remedy = "give a list of texts, or of (text, text)"
        if hasattr(pairs, "itertuples"):
            remedy = 'give its rows: frame[["a", "b"]].itertuples(index=False, name=None)'
        raise InputError(f"pairs is of the class {type(pairs).__name__}, which holds no pairs", remedy)
    classes: Iterator[str | None] = chain(labels, repeat(None))
    return (_record(number, pair, next(classes)) for number, pair in enumerate(pairs, 1))


def _record(number: int, pair: object, label: str | None) -> Record:
    where = f"pair {number}"
    if not isinstance(pair, str | tuple | list) or (not isinstance(pair, str) and len(pair) not in (1, 2)):
        kind = type(pair).__name__ + (f" of {len(pair)}" if isinstance(pair, tuple | list) else "")
        raise InputError(f"{where} is a {kind}", "give a text, or two in a tuple")
    try:
        return Record(pair_of(pair) if isinstance(pair, str) else pair_of(*pair), where, label, Place(row=number))
    except AttnscanError as error:
        raise type(error)(f"{where}: {error.what}", error.remedy) from None


def read_again(pairs: Pairs, labels: Iterable[str] = ()) -> Callable[[], Iterator[Record]]:
    """What begins to read pairs anew; an iterator, which can be read only once, is held in memory for it.

    Raises: as `records_of`.
    """
    pairs = list(pairs) if isinstance(pairs, Iterator) else pairs
    labels = list(labels) if isinstance(labels, Iterator) else listed("labels", labels)
    records_of(pairs)  # what are no pairs at all are refused before a model is loaded
    return lambda: records_of(pairs, labels)

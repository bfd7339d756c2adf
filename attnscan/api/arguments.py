"""What callers give by name, checked and made what requests take: options, models, patterns, texts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, get_args

from attnscan.errors import OptionError, nearest
from attnscan.inputs.alignments import Alignments
from attnscan.inputs.option import check_known, declared
from attnscan.inputs.sentence import Pair, Text
from attnscan.inputs.tokens import QuerySide
from attnscan.results.grid import attention_named
from attnscan.results.terms import AttentionName
from attnscan.run.reading import AlignedPairs, SourcePairs
from attnscan.run.reading import Pairs as ReadPairs
from attnscan.run.requests import InMemory
from attnscan.scan.options import ScanOptions
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.cross import patterns_of as ours_of
from attnscan.scoring.patterns import Pattern, PatternLike, with_own

if TYPE_CHECKING:
    from attnscan.model.in_memory import Model, Tokenizer

Patterns = PatternLike | Iterable[PatternLike]
Taken = ParamSpec("Taken")
Returned = TypeVar("Returned")


def library(
    *bundles: Any, without: Sequence[str] = (), shared: Any = None
) -> Callable[[Callable[Taken, Returned]], Callable[Taken, Returned]]:
    """A function of the library, which takes the general options of some bundles by name, as its `**options`.

    They reach it with the bundles' values where the caller gives none, and so do the fields of a class that is `shared`
    with other functions. It is called as it is declared, or raises an OptionError that says what it takes; and it
    computes in the number format of the model's weights.
    """
    taken = {
        name: (field.kind, getattr(bundle, name))
        for bundle in bundles
        for name, field in declared(bundle.__class__).items()
        if field.option.general and name not in without
    }
    taken |= {field.name: (field.type, field.default) for field in (fields(shared) if shared else ())}

    def decorate(function: Callable[Taken, Returned]) -> Callable[Taken, Returned]:
        own = [p for p in signature(function).parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
        names = {parameter.name for parameter in own}
        by_name = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in taken.items()
            if name not in names
        ]
        whole = signature(function).replace(parameters=[*own, *by_name])

        @wraps(function)
        def call(*given: Taken.args, **named: Taken.kwargs) -> Returned:
            for name in named:
                if name not in whole.parameters:
                    hint = nearest(name, whole.parameters, f"there are {', '.join(whole.parameters)}")
                    raise OptionError(f"{function.__name__} takes no {name}", hint)
            try:
                whole.bind(*given, **named)
            except TypeError as error:
                raise OptionError(f"{function.__name__}: {error}", f"see help(attnscan.{function.__name__})") from None
            defaults = {parameter.name: parameter.default for parameter in by_name}
            with _without_autocast():
                return function(*given, **{**defaults, **named})

        call.__signature__ = whole  # type: ignore[attr-defined]
        return call

    return decorate


@contextmanager
def _without_autocast() -> Iterator[None]:
    """Compute in the number format of the model's weights, whatever the caller's autocast asks of its own runs.

    A result's signature says in which format it was computed, and sums of many runs add. Under autocast, what runs in
    threads of ours would not be rounded, and the rest would be: autocast is a thread's own.
    """
    torch = sys.modules.get("torch")  # nobody has switched it on where torch is not imported yet
    with ExitStack() as switched_off:
        for device in ("cpu", "cuda", "mps"):
            if torch is not None and torch.is_autocast_enabled(device):
                switched_off.enter_context(torch.autocast(device, enabled=False))
        yield


@dataclass(frozen=True)
class OfAttention:
    """Which attention of an encoder-decoder is read, and how: what several functions take by name."""

    attention: AttentionName | Literal["all"] | None = None
    """None for that of the letters of heads, else the encoder's."""
    query: QuerySide = "predicts"
    alignments: str | os.PathLike[str] | Sequence[str] | None = None
    """Gold links such as "0-0 1-2", a line for each pair, or the file of these lines."""
    max_target_tokens: int = 64

    @classmethod
    def of(cls, options: Mapping[str, Any], heads: str | None = None, *, takes_all: bool = False) -> OfAttention:
        """What was given, with the attention that is read, perhaps that of some heads.

        Raises: OptionError for a value that there is not, or links without a meaning; SelectionError for heads of two
        kinds, or of another than the one asked for.
        """
        given = cls(**{field.name: options[field.name] for field in fields(cls)})
        if (asked := given.attention) is not None:
            check_known("attention", asked, (*get_args(AttentionName), *(["all"] if takes_all else [])))
        if asked == "all":
            return given
        read = (asked or "encoder") if heads is None else attention_named(heads, asked)
        given = replace(given, attention=read)
        if given.alignments is not None and read != "cross":
            raise OptionError("alignments are for cross attention", 'give attention="cross", or leave them out')
        return given

    def kinds(self) -> dict[AttentionName, OfAttention]:
        """Where all attention is read, the same for each kind; the encoder reads the source alone."""
        own: Any = {"query": "predicts", "alignments": None, "max_target_tokens": self.max_target_tokens}
        decoder = OfAttention("decoder", **own)
        return {"encoder": _OfSource("encoder", **own), "decoder": decoder, "cross": replace(self, attention="cross")}

    @property
    def scanned(self) -> dict[str, Any]:
        """What options of a scan say of it."""
        return {"attention": self.attention, "query": self.query, "max_target_tokens": self.max_target_tokens}

    def patterns(self, pattern: Patterns) -> tuple[list[str], tuple[Pattern, ...]]:
        """As `patterns_of`, of the attention that is read."""
        assert self.attention is not None and self.attention != "all"
        return patterns_of(pattern, self.attention, aligned=self.alignments is not None)

    def texts(self, a: Text | None, b: Text | None) -> tuple[Text | None, Text | None]:
        """What is read of a source and its target."""
        return a, b

    @property
    def links(self) -> str | Alignments | None:
        """The file of links, or these line by line. Raises: OptionError for what is neither."""
        given = self.alignments
        if given is None or isinstance(given, str | os.PathLike):
            return None if (path := file_of("alignments", given)) is None else str(path)
        return Alignments("alignments", tuple(listed("alignments", given)))

    def pair(self, given: Pair) -> Pair:
        """A pair with the links of its words, where these are given. Raises: PairsError; as `links`."""
        return given if (links := self.links) is None else Alignments.read(links).of_one(given)

    def pairs(self, given: ReadPairs) -> ReadPairs:
        """Pairs with the links of their words, where these are given. Raises: as `links`."""
        return given if (links := self.links) is None else AlignedPairs(given, links)


class _OfSource(OfAttention):
    """An encoder's attention beside the others', for which a pair is a source and its target."""

    def texts(self, a: Text | None, _: Text | None) -> tuple[Text | None, Text | None]:
        """The source alone."""
        return a, None

    def pairs(self, given: ReadPairs) -> ReadPairs:
        """The sources alone."""
        return SourcePairs(given)


def picked(bundle: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Of all options those that are fields of a bundle."""
    return {name: options[name] for name in declared(bundle) if name in options}


def scan_options(model: Model, options: Mapping[str, Any], **more: Any) -> ScanOptions:
    """What is computed, by the model that is named, if that is not in memory.

    Raises: OptionError for a value that there is not.
    """
    name = os.fspath(model) if isinstance(model, str | os.PathLike) else None
    return ScanOptions(**picked(ScanOptions, options) | {"model": name} | more)


def memory_of(model: Model, tokenizer: Tokenizer, options: ScanOptions) -> InMemory | None:
    """The model that is in memory, with its tokenizer; None if options name one.

    Raises: OptionError for a device or number format beside a model in memory, which keeps its own.
    """
    from attnscan.model.loaded import LoadedModel

    is_loaded = isinstance(model, LoadedModel)
    if (is_name(model) or is_loaded) and tokenizer is not None:
        raise OptionError(
            "a tokenizer goes with a model in memory alone",
            "leave it out: a named model has its own",
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


def patterns_of(
    pattern: Patterns, attention: AttentionName | None = "encoder", *, aligned: bool = False
) -> tuple[list[str], tuple[Pattern, ...]]:
    """The names of the patterns that are asked for, and ours with those of one's own that are among them.

    Ours are those of an attention, where gold links are known or not; None for those of all.
    Raises: OptionError for what is no pattern of it.
    """
    alone = isinstance(pattern, str | Pattern) or not isinstance(pattern, Iterable)
    asked: list[Any] = [pattern] if alone else list(pattern)  # type: ignore[arg-type]
    return with_own(asked, ALL_PATTERNS if attention is None else ours_of(attention, asked, aligned=aligned))


def check_kind(what: str, value: object, *kinds: type) -> None:
    """Raises: OptionError for a value of another class."""
    if not isinstance(value, kinds):
        names = " or a ".join(kind.__name__ for kind in kinds)
        raise OptionError(f"{what} is of the class {type(value).__name__}", f"give a {names}")


def file_of(what: str, path: object) -> Path | None:
    """A file's name as a path; None for none. Raises: OptionError for what is no name."""
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike) or not isinstance(name := os.fspath(path), str):
        raise OptionError(f"{what} is of the class {type(path).__name__}", "give the path of a file")
    return Path(name)


def text_of(what: str, text: object) -> str | None:
    """A text; None for none. Raises: OptionError for anything else."""
    if text is not None and not isinstance(text, str):
        raise OptionError(f"{what} is of the class {type(text).__name__}", "give a text")
    return text


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
        several = [str(column) if type(column) is int else column for column in several]
    return tuple(listed(what, several))

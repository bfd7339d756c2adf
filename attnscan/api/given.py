"""What callers give, made what the rooms below take: options, heads, pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat

from attnscan.errors import OptionError, nearest
from attnscan.inputs.pairs import Pair, Record
from attnscan.scan.options import Choices, ScanOptions
from attnscan.scoring.patterns import PATTERNS, chosen

Pairs = Iterable[str | tuple[str, str]]
"""Single sentences, and pairs of them."""


def options_of(model: str | None, options: Choices) -> ScanOptions:
    """Options by name, as one object.

    Raises: OptionError for a value that there is not; TypeError for an option that there is not.
    """
    patterns = chosen(options.get("patterns", PATTERNS))
    return ScanOptions(**{**options, "model": model, "patterns": patterns})  # type: ignore[arg-type]


def without_norm(options: Choices, what: str) -> Choices:
    """The same options. Raises: OptionError if they ask for what heads carry, which says nothing of `what`."""
    if options.get("norm"):
        raise OptionError(f"{what} by what heads carry cannot be had", "leave out norm")
    return options


def explained(model: str | None, pattern: str | None, options: Choices) -> ScanOptions:
    """The options, if they score the pattern; without `predictive`, which would cost more than all else.

    Raises: OptionError if they do not.
    """
    result = options_of(
        model, {"predictive": "auto" if pattern == "predictive" else "off", **without_norm(options, "explanations")}
    )
    names = [known.id for known in result.patterns]
    if pattern not in (None, *names):
        hint = nearest(str(pattern), names, f"there are {', '.join(names)}")
        raise OptionError(f"there is no pattern '{pattern}'", hint)
    return result


def check_known(what: str, value: str, known: Sequence[str]) -> None:
    """Raises: OptionError for a value that there is not."""
    if value not in known:
        hint = nearest(str(value), known, f"there are {', '.join(known)}")
        raise OptionError(f"there is no {what} '{value}'", hint)


def records_of(pairs: Pairs, labels: Iterable[str] = ()) -> Iterator[Record]:
    """Pairs with their places, read one by one; `labels` say which class each is of, as far as they go."""
    classes: Iterator[str | None] = chain(labels, repeat(None))
    for number, pair in enumerate(pairs, 1):
        yield Record(Pair(pair) if isinstance(pair, str) else Pair(*pair), f"pair {number}", next(classes))


def read_again(pairs: Pairs, labels: Iterable[str] = ()) -> Callable[[], Iterator[Record]]:
    """What begins to read pairs anew; an iterator, which can be read only once, is held in memory for it."""
    pairs = list(pairs) if isinstance(pairs, Iterator) else pairs
    labels = list(labels) if isinstance(labels, Iterator) else labels
    return lambda: records_of(pairs, labels)

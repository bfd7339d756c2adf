"""What `import attnscan` offers, for notebooks and programs. Options are those of `ScanOptions`, by name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from attnscan.errors import OptionError, nearest
from attnscan.inputs.pairs import Pair, Record
from attnscan.inputs.weights import read_weights, weights_of
from attnscan.results.attention import Attention
from attnscan.results.classification import Classification
from attnscan.results.explanation import Explanations
from attnscan.results.heads import Head, head_name, heads_named
from attnscan.results.ranking import Ranking
from attnscan.scan import one_input
from attnscan.scan.local import ScanState, scan
from attnscan.scan.options import Choices, ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scoring.patterns import PATTERNS, chosen
from attnscan.studies.explanation import explain as explain_records
from attnscan.studies.explanation import explain_input
from attnscan.views.notebook import classification_html, ranking_html

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def classify(a: str, b: str | None = None, *, model: str | None = None, **options: Unpack[Choices]) -> Classification:
    """What every head of a model does on one sentence, or on a pair. `to_frame()` is its table.

    A notebook shows its labels and scores, and below them the views of `attnscan report`, offline.

    `model` is a hub id, a directory or `bundled`, as on the command line. `patterns` may be
    `[*PATTERNS, my_pattern]`, where `my_pattern` is a function like those of `attnscan.scoring.patterns`.

    Raises: AttnscanError, which says what to do about it; TypeError for an option that there is not.
    """
    result, attention = one_input.classify_and_keep(Pair(a, b), _options(model, options))
    return replace(result, attention=attention, html=classification_html)


def classify_and_keep(
    a: str, b: str | None = None, *, model: str | None = None, **options: Unpack[Choices]
) -> tuple[Classification, Attention]:
    """The same, and the attention itself, token by token.

    Raises: as `classify`.
    """
    return one_input.classify_and_keep(Pair(a, b), _options(model, options))


def rank_heads(
    pairs: Iterable[str | tuple[str, str]], *, model: str | None = None, **options: Unpack[Choices]
) -> Ranking:
    """Every head's scores over many sentences or pairs of them, read one by one. `to_frame()` ranks the heads.

    Inputs that are longer than the model reads are cut, unless `on_long` says otherwise.

    Raises: as `classify`.
    """
    with Scanner(_options(model, {"on_long": "truncate", **options})) as scanner:
        state = ScanState()
        for after in scan(scanner, _records(pairs)):
            state = after
        return replace(state.finish(scanner), html=ranking_html)


def score_weights(
    weights: str | os.PathLike[str] | Mapping[str, ArrayLike],
    *,
    name: str | None = None,
    **options: Unpack[Choices],
) -> Classification:
    """What every head does by its weights alone, from anywhere: a file `.npz`, or the arrays that it would hold.

    Shape: `attention` [layer, head, query, key]; `tokens`, `segments` and perhaps `special`, one entry a token.
    `name` stands for the model in the result.
    Raises: WeightsError if they are no softmax weights of one input; OptionError.
    """
    if isinstance(weights, Mapping):
        saved, called = weights_of(weights), "weights"
    else:
        saved, called = read_weights(Path(weights)), Path(weights).name
    result, attention = one_input.classify_weights_and_keep(saved, name or called, _options(None, options))
    return replace(result, attention=attention, html=classification_html)


def explain(
    a: str,
    b: str | None = None,
    *,
    heads: str | Sequence[Head] = "all",
    pattern: str | None = None,
    model: str | None = None,
    **options: Unpack[Choices],
) -> Explanations:
    """How heads make their patterns, by one sentence or pair. `to_frame()` has a row a head, `[2, 0]` is one's.

    `heads` are `"2-0,6-11"`, `"layer:2"`, `"all"`, or (layer, head) each; `pattern` is what to explain, by
    default each head's own label.

    Raises: as `classify`; SelectionError for heads that the model has not got.
    """
    with Scanner(_explained(model, pattern, options)) as scanner:
        record = Record(Pair(a, b), "the input")
        return explain_input(scanner, record, _heads(heads, scanner.grid()), pattern)


def explain_over(
    pairs: Iterable[str | tuple[str, str]],
    *,
    heads: str | Sequence[Head] = "all",
    pattern: str | None = None,
    model: str | None = None,
    **options: Unpack[Choices],
) -> Explanations:
    """The same by many sentences or pairs, read one by one.

    Raises: as `explain`.
    """
    with Scanner(_explained(model, pattern, {"on_long": "truncate", **options})) as scanner:
        return explain_records(scanner, _records(pairs), _heads(heads, scanner.grid()), pattern)


def _options(model: str | None, options: Choices) -> ScanOptions:
    patterns = chosen(options.get("patterns", PATTERNS))
    return ScanOptions(**{**options, "model": model, "patterns": patterns})  # type: ignore[arg-type]


def _explained(model: str | None, pattern: str | None, options: Choices) -> ScanOptions:
    """The options, if they score the pattern; without `predictive`, which would cost more than all else."""
    result = _options(model, {"predictive": "auto" if pattern == "predictive" else "off", **options})
    names = [each.id for each in result.patterns]
    if pattern not in (None, *names):
        hint = nearest(str(pattern), names, f"there are {', '.join(names)}")
        raise OptionError(f"there is no pattern '{pattern}'", hint)
    return result


def _heads(heads: str | Sequence[Head], grid: tuple[int, int]) -> list[Head]:
    return heads_named(heads if isinstance(heads, str) else ",".join(map(head_name, heads)), grid)


def _records(pairs: Iterable[str | tuple[str, str]]) -> Iterator[Record]:
    for number, pair in enumerate(pairs, 1):
        yield Record(Pair(pair) if isinstance(pair, str) else Pair(*pair), f"pair {number}")

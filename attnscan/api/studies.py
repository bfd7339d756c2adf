"""What `import attnscan` offers to study heads by many pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Unpack, get_args

from attnscan.api.given import (
    check_known,
    checked,
    explained,
    listed,
    memory_of,
    options_of,
    without_norm,
)
from attnscan.api.source import Callbacks, OnProgress, Pairs, source_of
from attnscan.errors import OptionError
from attnscan.model.in_memory import Model, Tokenizer
from attnscan.results.ablation import Ablation
from attnscan.results.comparison import Comparison
from attnscan.results.explanation import Explanations
from attnscan.results.grid import Heads, heads_written
from attnscan.results.similarity import Similarity
from attnscan.results.terms import DRAWS, MEASURES, QUERIES, WITHIN, By, Match
from attnscan.run.requests import Ablate, Compare, Explain, Similar
from attnscan.scan.options import AblationRequest, Choices, asked_for_labels, check_number
from attnscan.scan.stream import OnBad
from attnscan.scoring.patterns import PATTERNS

Columns = Sequence[str | int] | str | int | None


@checked
def explain_over(
    pairs: Pairs,
    *,
    heads: Heads = "all",
    pattern: str | None = None,
    columns: Columns = None,
    on_bad: OnBad | None = None,
    on_progress: OnProgress | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Unpack[Choices],
) -> Explanations:
    """How heads make their patterns, as `explain` says it, by many sentences or pairs, read one by one.

    `pairs`, `columns`, `on_bad` and `on_progress` are those of `rank_heads`.

    Raises: as `explain`.
    """
    asked, told = explained(model, pattern, {"on_long": "truncate", **options}), Callbacks(on_bad, on_progress)
    source, named = source_of(pairs, columns, skip_bad=on_bad is not None), heads_written(heads)
    memory = memory_of(model, tokenizer, asked)
    result: Explanations = told.answer(Explain(source, asked, memory, named, pattern))
    return result


@checked
def ablate(
    pairs: Pairs,
    *,
    heads: Heads | None = None,
    singly: bool = False,
    top: int | None = None,
    by: By = "zero",
    draws: int = DRAWS,
    measures: Sequence[str] = (),
    labels: Iterable[str] = (),
    columns: Columns = None,
    on_bad: OnBad | None = None,
    on_progress: OnProgress | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Unpack[Choices],
) -> Ablation:
    """What a model loses without some heads, beside what it loses without others. `to_frame()` has a row a set.

    The sets are the heads that are labelled with each of `patterns` (or at most `top` that are most above chance),
    found by a scan of one half of the pairs and measured on the other; or `heads`, as one set, or with `singly`
    each of these or of all heads alone, measured on all pairs. A set's output is put at zero or at its mean, and
    compared with `draws` distinct sets of other heads of the same layers, or with all where fewer are possible.
    `predictive` is asked for, and competes for labels, where it is among `patterns`, or `predictive` says how.
    `measures` are some of `masked-lm`, `next-sentence`, `classifier`, `cls`, by default those that the checkpoint
    has heads for; `labels` say which class each pair is of, for `classifier`: by default a column `label` of rows does.
    `pairs`, `columns`, `on_bad` and `on_progress` are those of `rank_heads`; a bad pair is told of once.

    Raises: as `classify`; InputError if no pair is left to choose heads by, or to measure them on; SelectionError for
    heads that the model has not got; CaptureError if its heads cannot be switched off.
    """
    measures = listed("measures", measures)
    for name in measures:
        check_known("measure", name, MEASURES)
    check_known("by", by, get_args(By))
    check_number("draws", draws, 2)
    check_number("top", top, 1, optional=True)
    named = heads is not None or singly
    asked = options_of(
        model, {"on_long": "truncate", "predictive": "off" if named else "auto", **without_norm(options, "ablation")}
    )
    competing = (*PATTERNS, *(pattern for pattern in asked.patterns if pattern not in PATTERNS))
    request = AblationRequest(
        patterns=tuple(pattern.id for pattern in asked.patterns),
        heads=None if heads is None else heads_written(heads),
        singly=singly,
        top=top,
        by=by,
        draws=draws,
        measures=tuple(measures),
    )
    predictive = asked_for_labels(asked.predictive, request.patterns)
    told, source = Callbacks(on_bad, on_progress), source_of(pairs, columns, skip_bad=on_bad is not None, labels=labels)
    asked = replace(asked, patterns=competing, predictive=predictive)
    result: Ablation = told.answer(Ablate(source, asked, memory_of(model, tokenizer, asked), request))
    return result


@checked
def similar(
    pairs: Pairs,
    *,
    queries: int = QUERIES,
    within: float = WITHIN,
    columns: Columns = None,
    on_bad: OnBad | None = None,
    on_progress: OnProgress | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    **options: Unpack[Choices],
) -> Similarity:
    """Which heads attend alike over many sentences or pairs, read one by one, by at most `queries` words of each.

    Heads of one group are on average no farther apart than `within`, in nats. `to_frame()` has the nearest heads of
    each, `to_matrix()` every divergence. `pairs`, `columns`, `on_bad` and `on_progress` are those of `rank_heads`.

    Raises: as `classify`; OutputError if scikit-learn, which groups the heads, is not installed.
    """
    check_number("queries", queries, 1)
    if not isinstance(within, int | float) or not within >= 0:
        raise OptionError(f"within is {within!r}", "give 0 or more, in nats")
    told, source = Callbacks(on_bad, on_progress), source_of(pairs, columns, skip_bad=on_bad is not None)
    asked = options_of(model, {"on_long": "truncate", "predictive": "off", **options})
    result: Similarity = told.answer(Similar(source, asked, memory_of(model, tokenizer, asked), queries, within))
    return result


@checked
def compare(
    model_a: Model,
    model_b: Model,
    pairs: Pairs,
    *,
    match: Match = "place",
    columns: Columns = None,
    on_bad: OnBad | None = None,
    on_progress: OnProgress | None = None,
    tokenizer_a: Tokenizer = None,
    tokenizer_b: Tokenizer = None,
    **options: Unpack[Choices],
) -> Comparison:
    """What sets the heads of two models apart over the same sentences or pairs. `to_frame()` has a row a head.

    With `match="nearest"` a head is held against the one that attends most alike in place of that of its own place,
    and the pairs are read twice. `predictive` is not compared: each model has its own idea of it. Words are related
    where the embeddings of both models say so, and identical words alone count where the models read other tokens.
    `pairs`, `columns`, `on_bad` and `on_progress` are those of `rank_heads`; a bad pair is told of once.

    Raises: as `classify`; ModelError if the models' heads cannot be matched.
    """
    check_known("match", match, get_args(Match))
    if options.get("predictive", "off") != "off":
        raise OptionError("predictive is not compared: each model has its own idea of what it is", "leave it out")
    drawn = [pattern for pattern in PATTERNS if pattern.target is not None]
    choices: Choices = {"on_long": "truncate", "patterns": drawn, **options, "predictive": "off"}
    a, b = (options_of(model, choices) for model in (model_a, model_b))
    memory = memory_of(model_a, tokenizer_a, a), memory_of(model_b, tokenizer_b, b)
    told, source = Callbacks(on_bad, on_progress), source_of(pairs, columns, skip_bad=on_bad is not None)
    result: Comparison = told.answer(Compare(source, (a, b), memory, match))
    return result

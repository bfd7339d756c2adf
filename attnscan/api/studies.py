"""Python functions that study heads: their worth, which are alike, how two models differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from attnscan.api.open_model import LibraryCall, call_input, library_call, open_models
from attnscan.api.option_groups import (
    PAIRS,
    PATTERN,
    AblateOptions,
    CompareOptions,
    Patterns,
    SimilarOptions,
)
from attnscan.api.pairs_input import Pairs, list_texts
from attnscan.api.signatures import library_function, options_of
from attnscan.errors import OptionError, check_known
from attnscan.inputs.option import Option
from attnscan.results.choices import (
    MAX_DIVERGENCE,
    MEASURES,
    MIN_DIFFERENCE,
    N_CONTROL_SETS,
    QUERIES,
    TARGET_MEASURE,
    Match,
    Replacement,
)
from attnscan.results.grid import Heads
from attnscan.scan.options import AblationRequest

if TYPE_CHECKING:
    from attnscan.results.ablation import Ablation
    from attnscan.results.comparison import Comparison, Similarity
    from attnscan.scan.scanner import Scanner


@library_function()
def ablate(  # noqa: PLR0913  # a user of the library names them
    pairs: Annotated[Pairs, PAIRS] = None,
    *,
    pattern: Annotated[Patterns, PATTERN] = (),
    heads: Annotated[
        Heads | None, Option("Switch off these heads: 2-0,6-11 or layer:2.", metavar="HEADS")
    ] = None,
    each: Annotated[bool, Option("Switch off one head at a time: of --heads, or all.")] = False,
    top: Annotated[
        int | None, Option("Switch off the N best heads of each pattern.", least=1)
    ] = None,
    replace: Annotated[
        Replacement, Option("Replace a head's output by zero, or by its mean over words.")
    ] = "zero",
    draws: Annotated[
        int, Option("Compare with at most N sets of other heads.", least=2)
    ] = N_CONTROL_SETS,
    measure: Annotated[
        Sequence[str],
        Option(
            "masked-lm, next-sentence, classifier, cls or target. May repeat. "
            "[default: by the model's task]",
            metavar="MEASURE",
            repeats=True,
        ),
    ] = (),
    labels: Iterable[str] = (),
    **options: Unpack[AblateOptions],
) -> Ablation:
    """What a model loses without some heads, beside what it loses without others.

    `to_frame()` has a row a set. The sets are the heads that are labelled with each `pattern` (or
    at most `top` that are most above chance), found by a scan of one half of the pairs and measured
    on the other; or `heads`, as one set, or with `each` each of these or of all alone. Their output
    is put at zero or at its mean. `draws` sets of other heads of the same layers stand beside.
    `measure` is one or some of `masked-lm`, `next-sentence`, `classifier`, `cls`, or `target`, by
    default what the checkpoint has heads for; `labels`, or a column `label`, are the pairs' classes
    for `classifier`.

    Raises: as `heads`; InputError if no pair is left; CaptureError if heads cannot be switched off.
    """
    measures = tuple(dict.fromkeys(list_texts("measure", measure)))
    for name in measures:
        check_known("measure", name, (*MEASURES, TARGET_MEASURE))
    options_of("ablate").check_values(each=each, top=top, replace=replace, draws=draws)
    inputs = call_input(options, pairs=pairs, labels=labels)
    call = library_call("ablate", options, inputs, pattern=pattern, heads=heads)
    sets = AblationRequest(
        patterns=tuple(call.names),
        heads=call.heads,
        each=each,
        top=top,
        replace=replace,
        draws=draws,
        measures=measures,
    )
    if sets.names_heads and (sets.patterns or top is not None):
        raise OptionError(
            "``pattern`` and ``top`` choose heads by a scan",
            "leave them out, or ``heads`` and ``each``",
        )
    if "predictive" in sets.patterns and call.options.predictive == "off":
        raise OptionError(
            "``predictive=off`` leaves no heads for ``pattern=predictive``", "leave it out"
        )
    call = call.with_options(predictive=_predictive_of_sets(call, sets))
    with call.open_model(1 + (not sets.names_heads) + (replace == "mean")) as scanner:
        return ablate_sets(scanner, call, sets)


def _predictive_of_sets(call: LibraryCall, sets: AblationRequest) -> Any:
    """How predictive words are found where heads are chosen by a scan.

    It takes longest: by `auto` it is asked only where heads for it are wanted.
    """
    if sets.names_heads or call.options.attention != "encoder":
        return "off"
    predictive = call.options.predictive
    if predictive == "auto" and sets.patterns and "predictive" not in sets.patterns:
        return "off"
    return predictive


def ablate_sets(scanner: Scanner, call: LibraryCall, sets: AblationRequest) -> Ablation:
    from attnscan.studies import ablation

    result = ablation.ablate(scanner, call.pairs.read, sets, call.pairs.skips)
    call.note(scanner, result.signature)
    return result


@library_function()
def similar(
    pairs: Annotated[Pairs, PAIRS] = None,
    *,
    heads: Annotated[
        Heads | None,
        Option("List the nearest heads of these: 2-0,6-11 or layer:2.", metavar="HEADS"),
    ] = None,
    within: Annotated[
        float,
        Option("Largest mean divergence within a group, in nats.", metavar="X", least=0, most=0.7),
    ] = MAX_DIVERGENCE,
    queries: Annotated[
        int, Option("Compare attention from N words of each input.", least=1)
    ] = QUERIES,
    **options: Unpack[SimilarOptions],
) -> Similarity:
    """Which heads attend alike over many sentences or pairs, by at most `queries` words of each.

    Heads of one group are on average no farther apart than `within`, in nats. `to_frame()` has the
    nearest heads of each, `to_matrix()` every divergence. `heads` are those that will be looked up,
    and have to be there.

    Raises: as `heads`.
    """
    options_of("similar").check_values(queries=queries, within=within)
    call = library_call(
        "similar", options, call_input(options, pairs=pairs), heads=heads, predictive="off"
    )
    with call.open_model() as scanner:
        scanner.tell("comparing heads by pairs")
        from attnscan.studies import comparison

        result = comparison.similar(scanner, call.pairs.read(), queries, within, call.pairs.skips)
        call.note(scanner, result.signature)
    return result


@library_function()
def compare(  # noqa: PLR0913  # a user of the library names them
    model_a: Annotated[
        Any, Option("A hub id, a directory, or 'bundled'.", metavar="MODEL_A", is_argument=True)
    ],
    model_b: Annotated[
        Any,
        Option(
            "The model to compare with, such as A fine-tuned.",
            metavar="MODEL_B",
            is_argument=True,
        ),
    ],
    pairs: Annotated[Pairs, PAIRS] = None,
    *,
    match: Annotated[
        Match, Option("Compare heads of the same place, or each with the most similar one.")
    ] = "place",
    least: Annotated[
        float,
        Option("Least difference of scores that survives.", metavar="X", least=0, most=1),
    ] = MIN_DIFFERENCE,
    pattern: Annotated[Patterns, PATTERN] = (),
    heads: Annotated[
        Heads | None,
        Option("List the differences of these heads: 2-0,6-11 or layer:2.", metavar="HEADS"),
    ] = None,
    tokenizer_a: Any = None,
    tokenizer_b: Any = None,
    **options: Unpack[CompareOptions],
) -> Comparison:
    """What sets the heads of two models apart over the same sentences or pairs.

    `to_frame()` has a row a head. With `match="nearest"` a head is held against the one that
    attends most alike in place of that of its own place. A difference survives if it is beyond
    chance, and `least` or more. `predictive` is not compared: each model has its own idea of it.
    `heads` are those that will be looked up, and have to be there.

    Raises: as `heads`; ModelError if the models' heads cannot be matched.
    """
    options_of("compare").check_values(match=match, least=least)
    inputs = call_input(options, pairs=pairs)
    calls = []
    for model, tokenizer in ((model_a, tokenizer_a), (model_b, tokenizer_b)):
        call = library_call(
            "compare", options, inputs, pattern=pattern, heads=heads, predictive="off"
        )
        calls.append(_without_predictive(call.with_model(model, tokenizer)))
    first, second = calls
    first.pairs.ready()
    with open_models([first.request, second.request], first.step) as (scanner_a, scanner_b):
        if first.heads is not None:
            scanner_a.grid().select(first.heads)
        scanner_a.tell("comparing models by pairs")
        from attnscan.studies import comparison

        result = comparison.compare(
            scanner_a, scanner_b, first.pairs.read(), match, first.pairs.skips, least
        )
        first.note(scanner_a, result.signatures[0])
    return result


def _without_predictive(call: LibraryCall) -> LibraryCall:
    """The call with the patterns that can be compared. Raises: OptionError."""
    if "predictive" in call.names:
        raise OptionError(
            "predictive cannot be compared: "
            "each model is asked by itself which words predict which",
            "choose another ``pattern``",
        )
    compared = [pattern for pattern in call.options.patterns if pattern.target is not None]
    return call.with_options(patterns=tuple(compared))

"""Python functions of one head, or some: how it makes its pattern, and everything about it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from attnscan.api.many_pairs import rank_pairs_with
from attnscan.api.open_model import LibraryCall, call_input, held_input, library_call
from attnscan.api.option_groups import (
    HEADS,
    HELD,
    LINKS,
    PAIRS,
    SENTENCE_A,
    SENTENCE_B,
    TOKEN,
    TREEBANK,
    ExplainOptions,
    HeadOptions,
)
from attnscan.api.pairs_input import LinkRecords, Pairs
from attnscan.api.signatures import library_function
from attnscan.api.studies import ablate_sets
from attnscan.api.syntax import compare_with_links, linked_inputs
from attnscan.errors import OptionError
from attnscan.inputs.option import Option
from attnscan.inputs.sentence import Record, Text
from attnscan.inputs.spelling import token_named
from attnscan.results.grid import Heads
from attnscan.scan.options import AblationRequest
from attnscan.scoring.patterns import PatternLike

if TYPE_CHECKING:
    from attnscan.results.card import Cards
    from attnscan.results.explanation import Explanations
    from attnscan.results.heads import HeadScores
    from attnscan.scan.scanner import Scanner
    from attnscan.studies.card import HeadWatcher


@library_function(predictive="off")
def explain(
    heads: Annotated[Heads, HEADS] = "all",
    a: Annotated[Text | None, SENTENCE_A] = None,
    b: Annotated[Text | None, SENTENCE_B] = None,
    *,
    pairs: Annotated[Pairs, PAIRS] = None,
    token: Annotated[str | int | None, TOKEN] = None,
    pattern: Annotated[
        PatternLike | None,
        Option(
            "Explain this pattern: name, letter or FILE.py:FUNCTION. [default: each head's]",
            metavar="PATTERN",
            short="-p",
        ),
    ] = None,
    **options: Unpack[ExplainOptions],
) -> Explanations:
    """How heads make their patterns, by one sentence or pair, or by many pairs.

    `to_frame()` has a row a head. `heads` are `"2-0,6-11"`, `"layer:2"`, `"all"`, or several heads;
    `["2-0"]` of the result is one's. By default each head's own label is the `pattern` that is
    explained. With a `token` of one input, `to_frame()` has every key's part.

    Raises: as `heads`; SelectionError for heads or a token that do not exist.
    """
    inputs = call_input(options, a, b, pairs)
    wanted = () if pattern is None else (pattern,)
    call = library_call("explain", options, inputs, heads=heads, pattern=wanted)
    over_pairs = a is None
    if token is not None and over_pairs:
        raise OptionError("``token`` is a token of one input", "give its sentence")
    name = call.names[0] if call.names else None
    if name == "predictive":
        _check_predictive_explained(call, over_pairs=over_pairs)
    if over_pairs:
        return _explain_pairs(call.with_options(predictive="off"), name)
    return _explain_input(call, name, token)


def _check_predictive_explained(call: LibraryCall, *, over_pairs: bool) -> None:
    """Raises: OptionError unless one input of an encoder is asked for predictive words."""
    is_measured = call.options.predictive != "off"
    if over_pairs or call.options.attention != "encoder" or not is_measured:
        raise OptionError(
            "predictive is explained by one input, of an encoder's attention",
            "give a sentence and ``predictive=auto``, or another ``pattern``",
        )


def _explain_pairs(call: LibraryCall, pattern: str | None) -> Explanations:
    """Explain heads by many pairs."""
    with call.open_model() as scanner:
        scanner.tell("explaining heads by pairs")
        from attnscan.studies import explanation

        selected = scanner.grid().select(str(call.heads))
        result = explanation.explain(
            scanner, call.pairs.read(), selected, pattern, call.pairs.skips
        )
        call.note(scanner, result.signature)
        return result


def _explain_input(call: LibraryCall, pattern: str | None, token: str | int | None) -> Explanations:
    """Explain heads by one input; a `token` is the query whose keys are shown."""
    pair = call.pairs.single
    assert pair is not None
    with call.open_model() as scanner:
        scanner.tell("explaining heads")
        from attnscan.studies import explanation

        selected = scanner.grid().select(str(call.heads))
        encoded = scanner.encode(pair)
        query = None
        if token is not None:
            asking = encoded.tokens[encoded.source :]
            query = encoded.source + token_named(str(token), asking)
        record = Record(pair, "the input")
        result = explanation.explain_input(scanner, record, encoded, selected, pattern)
        call.note(scanner, result.signature, encoded)
        return replace(result, query=query)


@library_function(predictive="off")
def head(  # noqa: PLR0913  # a user of the library names them
    heads: Annotated[Heads, HEADS],
    a: Annotated[Text | None, SENTENCE_A] = None,
    b: Annotated[Text | None, SENTENCE_B] = None,
    *,
    pairs: Annotated[Pairs, PAIRS] = None,
    ablate: Annotated[
        bool, Option("Also switch each head off, and measure what the model loses.")
    ] = False,
    treebank: Annotated[Pairs, TREEBANK] = None,
    links: Annotated[LinkRecords, LINKS] = None,
    held: Annotated[Pairs, HELD] = None,
    **options: Unpack[HeadOptions],
) -> Cards:
    """Everything about a head, or several, by one input or many pairs. `to_frame()` has a row a
    head.

    `["3-4"]` of the result is one's card. With `ablate`, each head is also switched off, and what
    the model loses is measured over the pairs. With a `treebank`, or `links`, as `syntax` takes
    them, each is held against these: `["3-4"].syntax`. `held` is a second corpus of pairs, and the
    card says whether the head does the same there.

    Raises: as `heads` and `syntax`; SelectionError for heads that do not exist.
    """
    inputs = call_input(options, a, b, pairs)
    call = library_call("head", options, inputs, heads=heads, labelled=True)
    call = call.with_held(held_input(options, inputs, held))
    if a is not None and ablate:
        raise OptionError(
            "``ablate`` needs more than one input", "name ``pairs``, or leave out the sentences"
        )
    linked = None
    if treebank is not None or links is not None:
        _check_can_be_linked(call, "``treebank``" if links is None else "``links``")
        linked = linked_inputs(treebank, links, options)
    with call.open_model(2 + ablate) as scanner:
        selected = scanner.grid().select(str(call.heads))
        from attnscan.results.card import Cards
        from attnscan.studies.card import HeadWatcher, cards, look_at

        watcher = HeadWatcher(scanner, selected)
        ranking = _score_all_heads(scanner, call, watcher)
        if not watcher.pairs:
            look_at(scanner, call.pairs.read(), watcher, call.pairs.skips)
        head_cards = cards(scanner, ranking, watcher)
        if ablate:
            head_cards = tuple(_with_ablation(scanner, call, card) for card in head_cards)
        syntax = None if linked is None else compare_with_links(scanner, linked)
    return Cards(tuple(replace(card, syntax=syntax) for card in head_cards))


def _check_can_be_linked(call: LibraryCall, option: str) -> None:
    """Raises: OptionError unless heads of an encoder are compared with a treebank, or links."""
    if call.options.attention != "encoder":
        raise OptionError(
            f"{option} is of an encoder's attention, and {call.heads} is of another",
            "leave it out",
        )


def _with_ablation(scanner: Scanner, call: LibraryCall, card: Any) -> Any:
    """A card of a head that was also switched off."""
    lost = ablate_sets(scanner, call, AblationRequest(heads=card.head.name))
    return replace(card, ablation=lost)


def _score_all_heads(scanner: Scanner, call: LibraryCall, watcher: HeadWatcher) -> HeadScores:
    """Every head's scores, labels and habits; of one input by its words, as `classify` has them.

    The watcher looks on where pairs are scored by this process, in the weights' number format.
    """
    pair = call.pairs.single
    if pair is None:
        is_exact = scanner.tap is scanner.exact_tap
        looks_on = is_exact and scanner.options.engine == "local"
        return rank_pairs_with(scanner, call, observer=watcher if looks_on else None)
    from attnscan.results.heads import HeadScores
    from attnscan.scan.one_input import classify_input

    encoded = scanner.encode(pair)
    result = classify_input(scanner, pair, encoded)
    call.note(scanner, result.signature, encoded)
    return HeadScores(result.signature, result.scores_by, {result.reading: result.labels})

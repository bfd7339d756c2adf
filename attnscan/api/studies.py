"""What `import attnscan` offers to study heads.

How they make their patterns, what they are worth, which are alike. Lists to look things up in stand
here, too: the patterns, the models that can run now, and what a checkpoint is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from attnscan.api.many_pairs import rank_pairs_with, run_scan, state_file
from attnscan.api.open_model import (
    LibraryCall,
    ModelRequest,
    call_input,
    held_input,
    library_call,
    open_models,
)
from attnscan.api.option_groups import (
    DEVICE,
    HEADS,
    HELD,
    LINKS,
    PAIRS,
    PATTERN,
    READING_NAMES,
    SENTENCE_A,
    SENTENCE_B,
    SOURCE_LANGUAGE,
    STATE,
    TOKEN,
    TREEBANK,
    AblateOptions,
    CompareOptions,
    ExplainOptions,
    File,
    HeadOptions,
    Patterns,
    SimilarOptions,
    SyntaxOptions,
)
from attnscan.api.options import scan_options
from attnscan.api.pairs_input import (
    LinkRecords,
    Pairs,
    PairsInput,
    check_no_reading,
    holds_links,
    links_input,
    list_texts,
    pairs_input,
)
from attnscan.api.signatures import library_function, options_of
from attnscan.errors import OptionError, SelectionError, check_known
from attnscan.inputs.option import Option
from attnscan.inputs.sentence import Record, Text
from attnscan.inputs.spelling import token_named
from attnscan.model.sources import Catalog, Device
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
from attnscan.results.lazy import pd
from attnscan.results.schemas import TABLES
from attnscan.scan.options import AblationRequest, OnProgress, note_inputs, progress_of, warn
from attnscan.scoring.patterns import SHIPPED, PatternLike, chosen
from attnscan.text import counted
from attnscan.views.palette import check_no_habits

if TYPE_CHECKING:
    from attnscan.results.ablation import Ablation
    from attnscan.results.card import Cards, Checkpoint
    from attnscan.results.comparison import Comparison, Similarity
    from attnscan.results.explanation import Explanations
    from attnscan.results.heads import HeadScores
    from attnscan.results.syntax import InputsRead, ReadInput, Syntax
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
        if call.options.attention != "encoder":
            option = "``treebank``" if links is None else "``links``"
            raise OptionError(
                f"{option} is of an encoder's attention, and {call.heads} is of another",
                "leave it out",
            )
        linked = _linked_inputs(treebank, links, options)
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
        syntax = None if linked is None else _against_links(scanner, linked)
    return Cards(tuple(replace(card, syntax=syntax) for card in head_cards))


def _with_ablation(scanner: Scanner, call: LibraryCall, card: Any) -> Any:
    """A card of a head that was also switched off."""
    lost = _ablate(scanner, call, AblationRequest(heads=card.head.name))
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
        return _ablate(scanner, call, sets)


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


def _ablate(scanner: Scanner, call: LibraryCall, sets: AblationRequest) -> Ablation:
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


@library_function(on_long="error")
def syntax(
    treebank: Annotated[Pairs, TREEBANK] = None,
    *,
    links: Annotated[LinkRecords, LINKS] = None,
    held: Annotated[
        Pairs,
        Option(
            "A second treebank, or second links, in which gains are tested again.",
            metavar="FILE",
            repeats=True,
        ),
    ] = None,
    relation: Annotated[
        str | None, Option("Rank all heads for this relation: obj, det, all.", metavar="R")
    ] = None,
    subtypes: Annotated[bool, Option("Keep subtypes, such as nsubj:pass.")] = False,
    state: Annotated[File | None, STATE] = None,
    **options: Unpack[SyntaxOptions],
) -> Syntax:
    """Which heads follow which relations of a treebank, or of other links, beside fixed rules.

    `to_frame()` has all numbers. A treebank is a file in CoNLL-U, or several; or `Sentence`s with
    words and the tags `upos`, `head` and `deprel`. `links` between any words are, in its place, a
    file of JSON lines, or several; or records such as `{"text": ..., "links": [["coref", 5, 1]]}`.
    `held` is a second one, of either kind, in which gains are tested again. With `subtypes`,
    relations such as `nsubj:pass` have rows of their own. A `relation` is one that will be looked
    up, and has to be there. `state` keeps the sums of `treebank` or `links`.

    Raises: as `heads`; InputError if no sentence is left; ModelError if the tokenizer does not tell
    where tokens stand.
    """
    if treebank is None and links is None:
        raise OptionError(
            "there is no treebank, and there are no links",
            "name a .conllu file with ``treebank``, or a .jsonl file with ``links``",
        )
    call = library_call("syntax", options, call_input({}), predictive="off")
    call = call.with_relations(subtypes=subtypes)
    path = state_file(state)
    linked = _linked_inputs(treebank, links, options, relation, subtypes=subtypes)
    held_linked = None
    if held is not None:
        held_linked = _held_inputs(held, options, subtypes=subtypes)
    with call.open_model() as scanner:
        result = _against_links(scanner, linked, path)
        if held_linked is None:
            return result
        return replace(result, held=_against_links(scanner, held_linked))


@dataclass(frozen=True)
class _LinkedInputs:
    """A treebank, or links, that was read once and found to be valid."""

    pairs: PairsInput
    count: int
    is_treebank: bool


def _linked_inputs(
    treebank: Pairs,
    links: LinkRecords,
    options: Mapping[str, Any],
    relation: str | None = None,
    *,
    subtypes: bool = False,
) -> _LinkedInputs:
    """Read a treebank, or links, before a model is loaded in vain.

    Raises: as `syntax`.
    """
    if treebank is not None and links is not None:
        raise OptionError("``treebank`` and ``links`` were both given", "give one of them")
    if links is None:
        return _check_inputs(_treebank_input(treebank, options), relation, options, subtypes)
    pairs = links_input(
        links, skip_bad=options.get("skip_bad", False), on_bad=options.get("on_bad")
    )
    return _check_inputs(pairs, relation, options, subtypes, is_treebank=False)


def _held_inputs(held: Pairs, options: Mapping[str, Any], *, subtypes: bool) -> _LinkedInputs:
    """Read a second treebank, or second links, whichever it is. Raises: as `syntax`."""
    if isinstance(held, Iterator):
        held = list(held)
    if not holds_links(held):
        return _check_inputs(_treebank_input(held, options), None, options, subtypes)
    pairs = links_input(
        held,
        skip_bad=options.get("skip_bad", False),
        on_bad=options.get("on_bad"),
        with_treebanks=True,
    )
    return _check_inputs(pairs, None, options, subtypes, is_treebank=False)


def _treebank_input(treebank: Pairs, options: Mapping[str, Any]) -> PairsInput:
    skipping = {"skip_bad": options.get("skip_bad", False)}
    return pairs_input(treebank, skipping, on_bad=options.get("on_bad"))


def _check_inputs(
    pairs: PairsInput,
    relation: str | None,
    options: Mapping[str, Any],
    subtypes: bool,
    *,
    is_treebank: bool = True,
) -> _LinkedInputs:
    """Read inputs with links once. Raises: as `syntax`."""
    from attnscan.results.syntax import check_relation
    from attnscan.scan.pair_scan import check_links

    pairs.ready(3)
    progress = progress_of(options.get("progress"))
    count, relations = check_links(pairs.read(), progress, subtypes=subtypes, are_trees=is_treebank)
    if relation is not None:
        check_relation(relation, relations, is_treebank=is_treebank)
    return _LinkedInputs(pairs, count, is_treebank)


def _against_links(scanner: Scanner, linked: _LinkedInputs, state: Path | None = None) -> Syntax:
    """Compare every head with one treebank, or with links. Raises: as `syntax`."""
    from attnscan.results.syntax import FEW_SENTENCES

    if scanner.options.relations is None:
        scanner = scanner.with_options(**vars(scanner.options.with_relations())).exact()
    doing = "comparing heads with trees" if linked.is_treebank else "comparing heads with links"
    reached = run_scan(scanner, linked.pairs, state, doing=doing, total=linked.count)
    result = reached.syntax()
    note_inputs([result.signature], bad=linked.pairs.bad, dtype=scanner.options.dtype)
    if result.sentences < FEW_SENTENCES:
        few = f"{result.count_inputs()} {'is' if result.sentences == 1 else 'are'} few"
        warn(f"{few}: below {FEW_SENTENCES}, results may not hold in other texts")
    return result


def read_linked(
    treebank: Pairs,
    links: LinkRecords,
    sentences: str | None,
    options: Mapping[str, Any],
) -> InputsRead:
    """Score every head on sentences of a treebank, or of links, and compare it with all.

    Raises: as `syntax`; SelectionError.
    """
    from attnscan.results.syntax import USUAL_SENTENCES, InputsRead, sentence_numbers

    reading = {name: options[name] for name in READING_NAMES if name in options}
    check_no_reading({name: reading[name] for name in reading if name != "skip_bad"})
    call = library_call("report", options, call_input({}), many=False)
    numbers = () if sentences is None else sentence_numbers(sentences)
    linked = _linked_inputs(treebank, links, options)
    count = linked.count
    numbers = numbers or tuple(range(1, min(USUAL_SENTENCES, count) + 1))
    last = max(numbers)
    if last > count:
        have = "the treebank has" if linked.is_treebank else "the links have"
        raise SelectionError(
            f"there is no sentence {last:,}", f"{have} {counted(count, 'sentence')}"
        )
    read: dict[int, ReadInput] = {}
    with call.open_model() as scanner:
        syntax = _against_links(scanner, linked)
        for number, record in enumerate(linked.pairs.read(), 1):
            if number in numbers:
                scanner.tell("reading sentences", len(read), len(numbers))
                read[number] = _read_input(scanner, number, record)
    return InputsRead(tuple(read[number] for number in numbers), syntax)


def _read_input(scanner: Scanner, number: int, record: Record) -> ReadInput:
    """Score every head on one sentence, or pair, with its links."""
    from attnscan.inputs.links import token_words
    from attnscan.results.attention import Selection
    from attnscan.results.syntax import ReadInput
    from attnscan.scan.one_input import classify_input

    encoded = scanner.encode(record.pair)
    result = classify_input(
        scanner, record.pair, encoded, keep=Selection(is_drawn=True, every_reading=True)
    )
    return ReadInput(
        number=number,
        pair=record.pair,
        owners=token_words(encoded),
        result=result,
    )


@library_function()
def patterns(
    name: Annotated[
        str | None, Option("Show this one.", metavar="PATTERN", is_argument=True)
    ] = None,
) -> pd.DataFrame:
    """The patterns, a row each, or one of them by its name or letter.

    A row says what a pattern counts, and of which queries and keys.

    Raises: OptionError if there is no such pattern.
    """
    check_no_habits([name])
    shown = SHIPPED if name is None else chosen(name, SHIPPED)
    columns = ["letter", "id", "counts", "queries", "keys", "source"]
    frame = pd.DataFrame(map(vars, shown))[columns].rename(columns={"id": "pattern"})
    frame.attrs["schema"] = TABLES["patterns"].id
    return frame


@library_function()
def models(
    checkpoint: Annotated[
        str | None,
        Option(
            "Examine this model: a hub id, a directory, or 'bundled'.",
            metavar="CHECKPOINT",
            is_argument=True,
        ),
    ] = None,
    *,
    device: Annotated[Device, DEVICE] = "auto",
    source_language: Annotated[str | None, SOURCE_LANGUAGE] = None,
    progress: OnProgress | None = None,
) -> Catalog | Checkpoint:
    """The models that can run now, or what a `checkpoint` is and what can be scored in it.

    Both have `to_frame()`.

    Raises: ModelError if the checkpoint cannot be loaded.
    """
    if checkpoint is None:
        progress_of(progress)("looking for models", None, None)
        return Catalog.now()
    named = {"model": checkpoint, "device": device, "source_language": source_language}
    _, checked = scan_options("models", named, many=True)
    request = ModelRequest(checkpoint, None, checked)
    with open_models([request], progress_of(progress)) as (scanner,):
        from attnscan.studies.checkpoint import examine

        scanner.tell("trying it on two sentences")
        return examine(scanner)

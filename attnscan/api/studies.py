"""What `import attnscan` offers to study heads: how they make their patterns, what they are worth, which are alike.

Lists to look things up in stand here, too: the patterns, the models that can run now, and what a checkpoint is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from attnscan.api.arguments import (
    READING,
    File,
    LibraryCall,
    Pairs,
    PairsInput,
    Patterns,
    check_no_reading,
    list_texts,
    open_models,
    pairs_input,
)
from attnscan.api.many_pairs import rank_pairs_with, run_scan, state_file
from attnscan.errors import OptionError, SelectionError, check_known
from attnscan.inputs.option import Option, check_within
from attnscan.inputs.sentence import Record, Text
from attnscan.inputs.spelling import token_named
from attnscan.model.sources import Catalog, Device
from attnscan.results.ablation import Ablation
from attnscan.results.attention import Selection
from attnscan.results.card import Cards, Checkpoint
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
from attnscan.results.comparison import Comparison, Similarity
from attnscan.results.explanation import Explanations
from attnscan.results.grid import Heads
from attnscan.results.heads import HeadScores
from attnscan.results.lazy import pd
from attnscan.results.syntax import (
    FEW_SENTENCES,
    USUAL_SENTENCES,
    ReadTree,
    Syntax,
    TreesRead,
    check_relation,
    sentence_numbers,
)
from attnscan.scan.options import AblationRequest, OnProgress, note_inputs, progress_of, warn
from attnscan.scoring.patterns import SHIPPED, PatternLike, chosen
from attnscan.text import counted
from attnscan.views.notebook import cards_html

if TYPE_CHECKING:
    from attnscan.scan.one_input import classify_input
    from attnscan.scan.scanner import Scanner


def explain(
    heads: Heads = "all",
    a: Text | None = None,
    b: Text | None = None,
    *,
    pairs: Pairs = None,
    token: str | int | None = None,
    pattern: PatternLike | None = None,
    model: Any = None,
    tokenizer: Any = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> Explanations:
    """How heads make their patterns, by one sentence or pair, or by many pairs. `to_frame()` has a row a head.

    `heads` are `"2-0,6-11"`, `"layer:2"`, `"all"`, or several heads; `["2-0"]` of the result is one's. By default each
    head's own label is the `pattern` that is explained. With a `token` of one input, `to_frame()` has every key's part.

    Raises: as `heads`; SelectionError for heads or a token that do not exist.
    """
    options |= {"model": model, "tokenizer": tokenizer, "progress": progress}
    wanted, over_pairs = () if pattern is None else (pattern,), a is None
    call = LibraryCall(
        "explain", {"predictive": "off", **options}, a, b, pairs, heads=heads, pattern=wanted
    )
    name, pair = call.names[0] if call.names else None, call.pairs.single
    if token is not None and over_pairs:
        raise OptionError("--token is a token of one input", "give its sentence")
    if name == "predictive" and (
        over_pairs or call.options.attention != "encoder" or call.options.predictive == "off"
    ):
        raise OptionError(
            "predictive is explained by one input, of an encoder's attention",
            "give a sentence and --predictive auto, or another --pattern",
        )
    if over_pairs:
        call.with_options(predictive="off")
    with call.open_model() as scanner:
        scanner.tell("explaining heads by pairs" if over_pairs else "explaining heads")
        from attnscan.studies import explanation

        selected = scanner.grid().select(str(call.heads))
        if pair is None:
            result = explanation.explain(
                scanner, call.pairs.read(), selected, name, call.pairs.skips
            )
            call.note(scanner, result.signature)
            return result
        encoded = scanner.encode(pair)
        query = (
            None
            if token is None
            else encoded.source + token_named(str(token), encoded.tokens[encoded.source :])
        )
        result = explanation.explain_input(
            scanner, Record(pair, "the input"), encoded, selected, name
        )
        call.note(scanner, result.signature, encoded)
        return replace(result, query=query)


def head(
    heads: Heads,
    a: Text | None = None,
    b: Text | None = None,
    *,
    pairs: Pairs = None,
    ablate: bool = False,
    treebank: Pairs = None,
    held: Pairs = None,
    model: Any = None,
    tokenizer: Any = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> Cards:
    """Everything about a head, or several, by one input or many pairs. `to_frame()` has a row a head.

    `["3-4"]` of the result is one's card. With `ablate`, each head is also switched off, and what the model loses is
    measured over the pairs. With a `treebank`, as `syntax` takes it, each is held against its trees: `["3-4"].syntax`.
    `held` is a second corpus of pairs, and the card says whether the head does the same there.

    Raises: as `heads` and `syntax`; SelectionError for heads that do not exist.
    """
    options |= {"model": model, "tokenizer": tokenizer, "progress": progress}
    call = LibraryCall(
        "head", {"predictive": "off", **options}, a, b, pairs, heads=heads, held=held, labelled=True
    )
    if a is not None and ablate:
        raise OptionError(
            "--ablate needs more than one input", "name --pairs, or leave out the sentences"
        )
    if treebank is not None and call.options.attention != "encoder":
        raise OptionError(
            f"--treebank is of an encoder's attention, and {call.heads} is of another",
            "leave it out",
        )
    trees = None if treebank is None else _trees(treebank, options)
    with call.open_model(2 + ablate) as scanner:
        selected = scanner.grid().select(str(call.heads))
        ranking = _of_all_heads(scanner, call)
        from attnscan.studies.card import cards

        head_cards = cards(scanner, call.pairs.read(), ranking, selected, call.pairs.skips)
        if ablate:
            losses = (
                _ablated(scanner, call, AblationRequest(heads=card.head.name))
                for card in head_cards
            )
            head_cards = tuple(
                replace(card, ablation=lost) for card, lost in zip(head_cards, losses, strict=True)
            )
        syntax = None if trees is None else _against_trees(scanner, *trees)
    return Cards(tuple(replace(card, syntax=syntax) for card in head_cards), html=cards_html)


def _of_all_heads(scanner: Scanner, call: LibraryCall) -> HeadScores:
    """Every head's scores, labels and statements; of one input by its words, as `classify` has them."""
    pair = call.pairs.single
    if pair is None:
        return rank_pairs_with(scanner, call)
    encoded = scanner.encode(pair)
    result = classify_input(scanner, pair, encoded)
    call.note(scanner, result.signature, encoded)
    return HeadScores(result.signature, result.scores_by, {result.reading: result.labels})


def ablate(
    pairs: Pairs = None,
    *,
    pattern: Patterns = (),
    heads: Heads | None = None,
    each: bool = False,
    top: int | None = None,
    replace: Replacement = "zero",
    draws: int = N_CONTROL_SETS,
    measure: Sequence[str] = (),
    labels: Iterable[str] = (),
    model: Any = None,
    tokenizer: Any = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> Ablation:
    """What a model loses without some heads, beside what it loses without others. `to_frame()` has a row a set.

    The sets are the heads that are labelled with each `pattern` (or at most `top` that are most above chance), found by
    a scan of one half of the pairs and measured on the other; or `heads`, as one set, or with `each` each of these or
    of all alone. Their output is put at zero or at its mean. `draws` sets of other heads of the same layers stand
    beside. `measure` is one or some of `masked-lm`, `next-sentence`, `classifier`, `cls`, or `target`, by default what
    the checkpoint has heads for; `labels`, or a column `label`, are the pairs' classes for `classifier`.

    Raises: as `heads`; InputError if no pair is left; CaptureError if heads cannot be switched off.
    """
    options |= {"model": model, "tokenizer": tokenizer, "progress": progress}
    for name in (measures := tuple(dict.fromkeys(list_texts("measure", measure)))):
        check_known("measure", name, (*MEASURES, TARGET_MEASURE))
    call = LibraryCall(
        "ablate", options, pairs=pairs, pattern=pattern, heads=heads, reading={"labels": labels}
    )
    sets = AblationRequest(tuple(call.names), call.heads, each, top, replace, draws, measures)
    if sets.names_heads and (sets.patterns or top is not None):
        raise OptionError(
            "--pattern and --top choose heads by a scan", "leave them out, or --heads and --each"
        )
    if "predictive" in sets.patterns and call.options.predictive == "off":
        raise OptionError(
            "--predictive off leaves no heads for --pattern predictive", "leave it out"
        )
    predictive = (
        call.options.predictive
    )  # it takes longest: by `auto` it is asked only where heads for it are wanted
    is_idle = predictive == "auto" and sets.patterns and "predictive" not in sets.patterns
    by_scan = not sets.names_heads and call.options.attention == "encoder"
    call.with_options(predictive=predictive if by_scan and not is_idle else "off")
    with call.open_model(1 + (not sets.names_heads) + (replace == "mean")) as scanner:
        return _ablated(scanner, call, sets)


def _ablated(scanner: Scanner, call: LibraryCall, sets: AblationRequest) -> Ablation:
    from attnscan.studies import ablation

    result = ablation.ablate(scanner, call.pairs.read, sets, call.pairs.skips)
    call.note(scanner, result.signature)
    return result


def similar(
    pairs: Pairs = None,
    *,
    heads: Heads | None = None,
    queries: int = QUERIES,
    within: float = MAX_DIVERGENCE,
    model: Any = None,
    tokenizer: Any = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> Similarity:
    """Which heads attend alike over many sentences or pairs, by at most `queries` words of each.

    Heads of one group are on average no farther apart than `within`, in nats. `to_frame()` has the nearest heads of
    each, `to_matrix()` every divergence. `heads` are those that will be looked up, and have to be there.

    Raises: as `heads`.
    """
    options |= {"model": model, "tokenizer": tokenizer, "progress": progress}
    check_within("queries", queries, Option("", least=1), whole=True)
    check_within("within", within, Option("in nats"), whole=False)
    call = LibraryCall("similar", options, pairs=pairs, heads=heads, predictive="off")
    with call.open_model() as scanner:
        scanner.tell("comparing heads by pairs")
        from attnscan.studies import comparison

        result = comparison.similar(scanner, call.pairs.read(), queries, within, call.pairs.skips)
        call.note(scanner, result.signature)
    return result


def compare(
    model_a: Any,
    model_b: Any,
    pairs: Pairs = None,
    *,
    match: Match = "place",
    least: float = MIN_DIFFERENCE,
    pattern: Patterns = (),
    heads: Heads | None = None,
    tokenizer_a: Any = None,
    tokenizer_b: Any = None,
    **options: Any,
) -> Comparison:
    """What sets the heads of two models apart over the same sentences or pairs. `to_frame()` has a row a head.

    With `match="nearest"` a head is held against the one that attends most alike in place of that of its own place. A
    difference survives if it is beyond chance, and `least` or more. `predictive` is not compared: each model has its
    own idea of it. `heads` are those that will be looked up, and have to be there.

    Raises: as `heads`; ModelError if the models' heads cannot be matched.
    """
    check_known("match", match, get_args(Match))
    check_within("least", least, Option("a difference of scores"), whole=False)
    shared: dict[str, Any] = {"pattern": pattern, "heads": heads, "predictive": "off"}
    models = [
        {"model": model_a, "tokenizer": tokenizer_a},
        {"model": model_b, "tokenizer": tokenizer_b},
    ]
    first, second = calls = [
        LibraryCall("compare", {**options, **model}, pairs=pairs, **shared) for model in models
    ]
    if "predictive" in first.names:
        raise OptionError(
            "predictive cannot be compared: each model is asked by itself which words predict which",
            "choose another --pattern",
        )
    for call in calls:
        call.with_options(
            patterns=tuple(
                candidate for candidate in call.options.patterns if candidate.target is not None
            )
        )
    first.pairs.ready()
    with open_models(first, second) as (scanner_a, scanner_b):
        if first.heads is not None:
            scanner_a.grid().select(first.heads)
        scanner_a.tell("comparing models by pairs")
        from attnscan.studies import comparison

        result = comparison.compare(
            scanner_a, scanner_b, first.pairs.read(), match, first.pairs.skips, least
        )
        first.note(scanner_a, result.signatures[0])
    return result


def syntax(
    treebank: Pairs,
    *,
    held: Pairs = None,
    relation: str | None = None,
    subtypes: bool = False,
    state: File | None = None,
    model: Any = None,
    tokenizer: Any = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> Syntax:
    """Which heads follow which relations of a treebank, beside rules of distance. `to_frame()` has all numbers.

    A treebank is a file in CoNLL-U, or several; or `Sentence`s with words and the tags `upos`, `head` and `deprel`.
    `held` is a second one, in which gains are tested again. With `subtypes`, relations such as `nsubj:pass` have rows
    of their own. A `relation` is one that will be looked up, and has to be there. `state` keeps the sums of `treebank`.

    Raises: as `heads`; InputError if no sentence is left; ModelError if the tokenizer does not tell where tokens stand.
    """
    options |= {"model": model, "tokenizer": tokenizer, "progress": progress}
    if treebank is None:
        raise OptionError("there is no treebank", "name a .conllu file")
    call = LibraryCall("syntax", {"on_long": "error", **options}, predictive="off")
    call.options, keeping = call.options.with_trees(subtypes=subtypes), state_file(state)
    trees = _trees(treebank, options, relation, subtypes=subtypes)
    held_trees = None if held is None else _trees(held, options, subtypes=subtypes)
    with call.open_model() as scanner:
        result = _against_trees(scanner, *trees, keeping)
        return (
            result
            if held_trees is None
            else replace(result, held=_against_trees(scanner, *held_trees))
        )


def _trees(
    treebank: Pairs,
    options: Mapping[str, Any],
    relation: str | None = None,
    *,
    subtypes: bool = False,
) -> tuple[PairsInput, int]:
    """Read a treebank before a model is loaded in vain; return it and its number of sentences. Raises: as `syntax`."""
    from attnscan.scan.pair_scan import check_trees

    pairs = pairs_input(
        treebank, {"skip_bad": options.get("skip_bad", False)}, on_bad=options.get("on_bad")
    ).ready(3)
    count, relations = check_trees(
        pairs.read(), progress_of(options.get("progress")), subtypes=subtypes
    )
    if relation is not None:
        check_relation(relation, relations)
    return pairs, count


def _against_trees(
    scanner: Scanner, pairs: PairsInput, count: int, state: Path | None = None
) -> Syntax:
    """Compare every head with one treebank. Raises: as `syntax`."""
    if scanner.options.relations is None:
        scanner = scanner.with_options(**vars(scanner.options.with_trees())).exact()
    result = run_scan(
        scanner, pairs, state, doing="comparing heads with trees", total=count
    ).syntax()
    note_inputs([result.signature], bad=pairs.bad, dtype=scanner.options.dtype)
    if result.sentences < FEW_SENTENCES:
        subject = counted(result.sentences, "sentence is", "sentences are")
        warn(f"{subject} few: below {FEW_SENTENCES}, results may not hold in other texts")
    return result


def read_trees(treebank: Pairs, sentences: str | None, options: Mapping[str, Any]) -> TreesRead:
    """Score every head on sentences of a treebank, and compare it with all. Raises: as `syntax`; SelectionError."""
    check_no_reading(
        {name: options[name] for name in READING if name in options and name != "skip_bad"}
    )
    call = LibraryCall("report", options, many=False)
    numbers = () if sentences is None else sentence_numbers(sentences)
    bank, exists = _trees(treebank, options)
    numbers = numbers or tuple(range(1, min(USUAL_SENTENCES, exists) + 1))
    if (last := max(numbers)) > exists:
        raise SelectionError(
            f"there is no sentence {last:,}", f"the treebank has {counted(exists, 'sentence')}"
        )
    trees: dict[int, ReadTree] = {}
    with call.open_model() as scanner:
        syntax = _against_trees(scanner, bank, exists)
        for number, record in enumerate(bank.read(), 1):
            if number in numbers:
                scanner.tell("reading sentences", len(trees), len(numbers))
                encoded = scanner.encode(record.pair)
                result = classify_input(
                    scanner, record.pair, encoded, keep=Selection(is_drawn=True)
                )
                trees[number] = ReadTree(number, record.pair.sentences[0], encoded.words, result)
    return TreesRead(tuple(trees[number] for number in numbers), syntax)


def patterns(name: str | None = None) -> pd.DataFrame:
    """The patterns, a row each, or one of them by its name or letter: what it counts, of which queries and keys.

    Raises: OptionError if there is no such pattern.
    """
    frame = pd.DataFrame(map(vars, SHIPPED if name is None else chosen(name, SHIPPED)))
    return frame[["letter", "id", "counts", "queries", "keys", "source"]].rename(
        columns={"id": "pattern"}
    )


def models(
    checkpoint: str | None = None,
    *,
    device: Device = "auto",
    source_language: str | None = None,
    progress: OnProgress | None = None,
) -> Catalog | Checkpoint:
    """The models that can run now, or what a `checkpoint` is and what can be scored in it; both have `to_frame()`.

    Raises: ModelError if the checkpoint cannot be loaded.
    """
    if checkpoint is None:
        progress_of(progress)("looking for models", None, None)
        return Catalog.now()
    options = {
        "model": checkpoint,
        "device": device,
        "source_language": source_language,
        "progress": progress,
    }
    with LibraryCall("models", options).open_model() as scanner:
        from attnscan.studies.checkpoint import examine

        scanner.tell("trying it on two sentences")
        return examine(scanner)

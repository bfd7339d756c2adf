"""What `import attnscan` offers to study heads: how they make their patterns, what they are worth, which are alike.

What it offers to look up stands here, too: the patterns, the models that can run now, and what a checkpoint is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, get_args

from attnscan.api.arguments import (
    Patterns,
    listed,
    note_words,
    opened,
    opened_all,
    reading_of,
    scan_options,
)
from attnscan.api.many_pairs import File, ranked_by, scanned, state_file
from attnscan.api.pairs import Links, OnBad, Pairs, PairsInput, input_of, pairs_input
from attnscan.errors import OptionError, SelectionError, TooLongError
from attnscan.inputs.option import Option, check_known, check_within
from attnscan.inputs.sentence import Record, Text
from attnscan.inputs.tokens import token_named
from attnscan.model.catalog import Catalog
from attnscan.model.sources import Device
from attnscan.results.ablation import Ablation
from attnscan.results.card import Card, Cards, measure_of
from attnscan.results.checkpoint import Checkpoint
from attnscan.results.comparison import Comparison
from attnscan.results.explanation import Explanations
from attnscan.results.grid import Head, Heads, heads_written, parse_heads
from attnscan.results.head_weights import Selection
from attnscan.results.heads import HeadScores
from attnscan.results.similarity import Similarity, check_heads_can_be_grouped
from attnscan.results.syntax import FEW, Syntax, check_relation
from attnscan.results.terms import DRAWS, LEAST, MEASURES, OF_TARGETS, QUERIES, WITHIN, Match, Replacement, counted
from attnscan.results.trees import USUAL, ReadTree, TreesRead
from attnscan.scan.options import (
    AblationRequest,
    OnProgress,
    ScanOptions,
    asked_for_labels,
    note_inputs,
    progress_of,
    warn,
)
from attnscan.scoring.patterns import SHIPPED, PatternLike, chosen, pattern_frame
from attnscan.views.notebook import cards_html

if TYPE_CHECKING:
    import pandas as pd

    from attnscan.model.in_memory import Model, Tokenizer
    from attnscan.scan.scanner import Scanner
    from attnscan.scan.state import ScanState


def explain(
    heads: Heads = "all",
    a: Text | None = None,
    b: Text | None = None,
    *,
    pairs: Pairs = None,
    token: str | None = None,
    pattern: PatternLike | None = None,
    alignments: Links = None,
    on_bad: OnBad | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> Explanations:
    """How heads make their patterns, by one sentence or pair, or by many pairs. `to_frame()` has a row a head.

    `heads` are `"2-0,6-11"`, `"layer:2"`, `"all"`, or several heads; `["2-0"]` of the result is one's. `pattern` is
    what to explain, by default each head's own label. With a `token` of one input, `to_frame()` has what the heads make
    of every key at that query. Without a sentence, `pairs` and the arguments below them are those of `heads`.

    Raises: as `heads`; SelectionError for heads or a token that are not there.
    """
    reading = reading_of("explain", options)
    options, named = {"predictive": "off", **options}, heads_written(heads)
    parse_heads(named)
    given = input_of(a, b, pairs, reading, seed=options.get("seed", 0), on_bad=on_bad)
    is_single, patterns = given.single is not None, () if pattern is None else (pattern,)
    if token is not None and not is_single:
        raise OptionError("--token is a token of one input", "give its sentence")
    names, asked = scan_options(model, options, patterns, many=not is_single, heads=named, alignments=alignments)
    if names == ["predictive"] and asked.attention != "encoder":
        raise OptionError("predictive is explained of an encoder's attention", "choose another --pattern")
    if names == ["predictive"] and (not is_single or asked.predictive == "off"):
        raise OptionError("predictive is explained by one input", "give its sentence, and --predictive auto")
    if not is_single:
        asked = replace(asked, predictive="off")
    name, given = names[0] if names else None, given.aligned(alignments).ready()
    records = given.read()
    with opened(asked, model, tokenizer, given.counted_by(progress)) as scanner:
        scanner.tell("explaining heads" if is_single else "explaining heads by pairs")
        from attnscan.studies import explanation

        selected = scanner.grid().select(named)
        if given.single is None:
            result = explanation.explain(scanner, records, selected, name, given.skips)
            note_inputs([result.signature], bad=given.bad, dtype=asked.dtype)
            return result
        encoded = scanner.encode(given.single)
        asks = encoded.tokens[encoded.source :]
        query = None if token is None else encoded.source + token_named(token, asks)
        result = explanation.explain_input(scanner, Record(given.single, "the input"), selected, name, encoded)
        note_inputs([result.signature], length=len(encoded.tokens), dtype=asked.dtype)
        note_words(scanner, [encoded], single=True)
        return replace(result, query=query)


def head(
    heads: Heads,
    a: Text | None = None,
    b: Text | None = None,
    *,
    pairs: Pairs = None,
    ablate: bool = False,
    treebank: Pairs = None,
    alignments: Links = None,
    on_bad: OnBad | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> Cards:
    """Everything about a head, or several, by one input or many pairs. `to_frame()` has a row a head.

    `["3-4"]` of the result is one's card. With `ablate`, each head is also switched off, and what the model loses is
    measured over the pairs. With a `treebank`, as `syntax` takes it, each is held against its trees: `["3-4"].syntax`.
    Without a sentence, `pairs` and the arguments below them are those of `heads`.

    Raises: as `heads` and `syntax`; SelectionError for heads that are not there.
    """
    reading = reading_of("head", options)
    options, named = {"predictive": "off", **options}, heads_written(heads)
    parse_heads(named)
    given = input_of(a, b, pairs, reading, seed=options.get("seed", 0), on_bad=on_bad)
    if given.single is not None and ablate:
        raise OptionError("--ablate needs more than one input", "name --pairs, or leave out the sentences")
    how: dict[str, Any] = {"many": given.single is None, "heads": named, "alignments": alignments}
    _, asked = scan_options(model, options, labelled=True, **how)
    if treebank is not None and asked.attention != "encoder":
        raise OptionError(f"--treebank is of an encoder's attention, and {named} is of another", "leave it out")
    given = given.aligned(alignments).ready(2 + ablate)
    trees, count = None, 0
    if treebank is not None:
        trees = _treebank(treebank, reading, on_bad).ready(2)
        count = _check_trees(trees, progress)
    with opened(asked, model, tokenizer, given.counted_by(progress)) as scanner:
        selected = scanner.grid().select(named)
        ranking = _of_all_heads(scanner, given)
        from attnscan.studies.card import looks

        measures = {own: measure_of(ranking, own) for own in selected}
        of_heads = looks(scanner, given.read(), measures, given.skips)
        lost: dict[Head, Ablation] = {}
        for own in selected if ablate else ():
            lost[own] = _ablated(scanner, given, AblationRequest(heads=own.name))
        syntax = None
        if trees is not None:
            syntax = _against_trees(_tree_reader(scanner), trees, count)
        cards = tuple(Card(own, ranking, of_heads[own], lost.get(own), syntax) for own in selected)
    return Cards(cards, html=cards_html)


def _of_all_heads(scanner: Scanner, pairs: PairsInput) -> HeadScores:
    """Every head's scores, labels and statements; of one input by its words, as `classify` has them."""
    if pairs.single is None:
        return ranked_by(scanner, pairs, pairs.read())
    from attnscan.scan import one_input as single

    encoded = scanner.encode(pairs.single)
    result = single.classify(scanner, pairs.single, encoded)
    note_inputs([result.signature], length=scanner.loaded.limit)
    note_words(scanner, [encoded], single=True)
    return HeadScores(result.signature, result.scores_by, {result.reading: result.labels})


def ablate(
    pairs: Pairs = None,
    *,
    pattern: Patterns = (),
    heads: Heads | None = None,
    each: bool = False,
    top: int | None = None,
    replace: Replacement = "zero",
    draws: int = DRAWS,
    measure: Sequence[str] = (),
    labels: Iterable[str] = (),
    alignments: Links = None,
    on_bad: OnBad | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> Ablation:
    """What a model loses without some heads, beside what it loses without others. `to_frame()` has a row a set.

    The sets are the heads that are labelled with each `pattern` (or at most `top` that are most above chance), found by
    a scan of one half of the pairs and measured on the other; or `heads`, as one set, or with `each` each of these or
    of all heads alone, measured on all pairs. A set's output is put at zero or at its mean, and compared with `draws`
    distinct sets of other heads of the same layers, or with all where fewer are possible. `predictive` is asked for,
    and competes for labels, where it is a `pattern`, or `predictive` says how.
    `measure` is one or some of `masked-lm`, `next-sentence`, `classifier`, `cls`, by default those that the checkpoint
    has heads for; of decoder and cross attention it is `target`. `labels` say which class each pair is of, for
    `classifier`: by default a column `label` does.
    `pairs` and the arguments below them are those of `heads`; a bad pair is told once.

    Raises: as `heads`; InputError if no pair is left to choose heads by, or to measure them on; SelectionError for
    heads that the model has not got; CaptureError if its heads cannot be switched off.
    """
    reading = reading_of("ablate", options)
    for name in (measures := tuple(dict.fromkeys(listed("measure", measure)))):
        check_known("measure", name, (*MEASURES, OF_TARGETS))
    named = None if heads is None else heads_written(heads)
    if named is not None:
        parse_heads(named)
    names, asked = scan_options(model, options, pattern, many=True, heads=named, alignments=alignments)
    sets = AblationRequest(tuple(names), named, each, top, replace, draws, measures)
    if sets.names_heads and (names or top is not None):
        raise OptionError("--pattern and --top choose heads by a scan", "leave them out, or --heads and --each")
    if "predictive" in names and asked.predictive == "off":
        raise OptionError("--predictive off leaves no heads for --pattern predictive", "leave it out")
    by_scan = not sets.names_heads and asked.attention == "encoder"
    asked = _with(asked, predictive=asked_for_labels(asked.predictive, names) if by_scan else "off")
    given = pairs_input(pairs, reading, seed=options.get("seed", 0), on_bad=on_bad, labels=labels).aligned(alignments)
    given = given.ready(1 + (not sets.names_heads) + (replace == "mean"))
    with opened(asked, model, tokenizer, given.counted_by(progress)) as scanner:
        return _ablated(scanner, given, sets)


def _with(options: ScanOptions, **changes: Any) -> ScanOptions:
    """Other options; where `replace` is an argument."""
    return replace(options, **changes)


def _ablated(scanner: Scanner, pairs: PairsInput, sets: AblationRequest) -> Ablation:
    from attnscan.studies import ablation

    result = ablation.ablate(scanner, pairs.read, sets, pairs.skips)
    note_inputs([result.signature], bad=pairs.bad, dtype=scanner.options.dtype)
    return result


def similar(
    pairs: Pairs = None,
    *,
    heads: Heads | None = None,
    queries: int = QUERIES,
    within: float = WITHIN,
    alignments: Links = None,
    on_bad: OnBad | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> Similarity:
    """Which heads attend alike over many sentences or pairs, by at most `queries` words of each.

    Heads of one group are on average no farther apart than `within`, in nats. `to_frame()` has the nearest heads of
    each, `to_matrix()` every divergence. `heads` are those that will be looked up, and have to be there; the result has
    all. `pairs` and the arguments below them are those of `heads`.

    Raises: as `heads`; OutputError if scikit-learn, which groups the heads, is not installed.
    """
    reading = reading_of("similar", options)
    check_within("queries", queries, Option("", least=1), whole=True)
    check_within("within", within, Option("in nats"), whole=False)
    named = None if heads is None else heads_written(heads)
    _, asked = scan_options(model, options, many=True, heads=named, alignments=alignments, predictive="off")
    check_heads_can_be_grouped()
    given = pairs_input(pairs, reading, seed=options.get("seed", 0), on_bad=on_bad).aligned(alignments).ready()
    with opened(asked, model, tokenizer, given.counted_by(progress)) as scanner:
        if named is not None:
            scanner.grid().select(named)  # before the work, and not when it is shown
        scanner.tell("comparing heads by pairs")
        from attnscan.studies import similarity

        result = similarity.similar(scanner, given.read(), queries, within, given.skips)
        note_inputs([result.signature], bad=given.bad, dtype=asked.dtype)
    return result


def compare(
    model_a: Model,
    model_b: Model,
    pairs: Pairs = None,
    *,
    match: Match = "place",
    least: float = LEAST,
    pattern: Patterns = (),
    heads: Heads | None = None,
    alignments: Links = None,
    on_bad: OnBad | None = None,
    tokenizer_a: Tokenizer = None,
    tokenizer_b: Tokenizer = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> Comparison:
    """What sets the heads of two models apart over the same sentences or pairs. `to_frame()` has a row a head.

    With `match="nearest"` a head is held against the one that attends most alike in place of that of its own place,
    and the pairs are read twice. A difference survives if it is beyond chance, and `least` or more. A `pattern` of
    your own is compared as well; `predictive` is not: each model has its own idea of it. Words are
    related where the embeddings of both models say so, and identical words alone count where the models read other
    tokens. `heads` are those that will be looked up, and have to be there; the result has all.
    `pairs` and the arguments below them are those of `heads`; a bad pair is told once.

    Raises: as `heads`; ModelError if the models' heads cannot be matched.
    """
    reading = reading_of("compare", options)
    check_known("match", match, get_args(Match))
    check_within("least", least, Option("a difference of scores"), whole=False)
    named = None if heads is None else heads_written(heads)
    given, choices = (
        pairs_input(pairs, reading, seed=options.get("seed", 0), on_bad=on_bad).aligned(alignments),
        list[ScanOptions](),
    )
    for model in (model_a, model_b):
        names, asked = scan_options(
            model, options, pattern, many=True, heads=named, alignments=alignments, predictive="off"
        )
        if "predictive" in names:
            why = "predictive cannot be compared: each model is asked by itself which words predict which"
            raise OptionError(why, "choose another --pattern")
        compared = tuple(known for known in asked.patterns if known.target is not None)
        choices.append(replace(asked, patterns=compared))
    given = given.ready(1 + (match == "nearest"), "name a file, or leave out --match nearest")
    step = given.counted_by(progress)
    with opened_all(choices, [model_a, model_b], [tokenizer_a, tokenizer_b], step) as (scanner_a, scanner_b):
        if named is not None:
            scanner_a.grid().select(named)
        scanner_a.tell("comparing models by pairs")
        from attnscan.studies import comparison

        result = comparison.compare(scanner_a, scanner_b, given.read, match, given.skips, least)
        note_inputs(result.signatures, bad=given.bad, dtype=choices[0].dtype)
    return result


def syntax(
    treebank: Pairs | ScanState,
    *,
    held: Pairs | ScanState = None,
    relation: str | None = None,
    subtypes: bool = False,
    state: File | None = None,
    on_bad: OnBad | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    progress: OnProgress | None = None,
    **options: Any,
) -> Syntax:
    """Which heads follow which relations of a treebank, beside rules of distance. `to_frame()` has all numbers.

    A treebank is a file in CoNLL-U, or several; or `Sentence`s with words and the tags `upos`, `head` and `deprel`.
    `held` is a second one, in which gains are tested again. With `subtypes`, relations such as `nsubj:pass` have rows
    of their own. `best()` has the best head of each relation, `statements` says what heads do. A `relation` is one
    that will be looked up, and has to be there.

    `state` keeps the sums of `treebank`, and `engine` is that of `heads`. Treebanks may also be shards, which
    `shard(..., relations="universal")` makes and `+` adds.

    Raises: as `heads`; InputError if no sentence is left; ModelError if the tokenizer does not tell where its tokens
    stand in the text.
    """
    reading = reading_of("syntax", options)
    if _is_shard(treebank):
        if model is not None or state is not None:
            raise OptionError("a shard is of its own model, and holds the sums", "leave out model and state")
        if held is not None and not _is_shard(held):
            raise OptionError("the treebank is a shard, and the second one is none", "give shards of both")
        return replace(treebank.syntax(), held=None if held is None else held.syntax())  # type: ignore[union-attr]
    if treebank is None or _is_shard(held):
        what = "a treebank, and a second one that is a shard" if treebank is not None else "no treebank"
        raise OptionError(f"there is {what}", "name a .conllu file, or give shards of both")
    _, asked = scan_options(model, {"on_long": "error", **options}, many=True, predictive="off")
    keeping = state_file(state)
    given = [treebank, *([] if held is None else [held])]
    banks = [_treebank(own, reading, on_bad).ready(2) for own in given]  # type: ignore[arg-type]
    counts = [_check_trees(banks[0], progress, relation, subtypes=subtypes)]
    counts += [_check_trees(bank, progress, subtypes=subtypes) for bank in banks[1:]]
    results: list[Syntax] = []
    with opened(asked.of_trees(subtypes=subtypes), model, tokenizer, progress) as scanner:
        for number, (bank, count) in enumerate(zip(banks, counts, strict=True)):
            results.append(_against_trees(scanner, bank, count, None if number else keeping))
    return replace(results[0], held=results[1] if held is not None else None)


def _is_shard(treebank: object) -> bool:
    if type(treebank).__name__ != "ScanState":  # without importing torch
        return False
    from attnscan.scan.state import ScanState

    return isinstance(treebank, ScanState)


def _treebank(treebank: Pairs, reading: Mapping[str, Any], on_bad: OnBad | None) -> PairsInput:
    """Sentences with trees. Raises: as `pairs_input`."""
    return pairs_input(treebank, {"skip_bad": reading.get("skip_bad", False)}, on_bad=on_bad)


def _check_trees(
    bank: PairsInput, progress: OnProgress | None, relation: str | None = None, *, subtypes: bool = False
) -> int:
    """Read a treebank before a model is loaded in vain; how many sentences it has. Raises: as `syntax`."""
    from attnscan.scan.trees import trees_read

    trees = trees_read(bank.read(), progress_of(progress), subtypes=subtypes)
    if relation is not None:
        check_relation(relation, trees.relations)
    return trees.sentences


def _tree_reader(scanner: Scanner) -> Scanner:
    return scanner.with_options(**vars(scanner.options.of_trees())).exact()


def _against_trees(scanner: Scanner, bank: PairsInput, count: int, state: Any = None) -> Syntax:
    """Every head held against one treebank. Raises: as `syntax`."""
    from attnscan.scan.local import with_signature

    doing = "comparing heads with trees"
    result = with_signature(scanner, scanned(scanner, bank, bank.read(), state, doing=doing, total=count)).syntax()
    note_inputs([result.signature], bad=bank.bad, dtype=scanner.options.dtype)
    if result.sentences < FEW:
        few = counted(result.sentences, "sentence is", "sentences are")
        warn(f"{few} few: below {FEW}, results may not hold in other texts")
    return result


def read_trees(
    treebank: Pairs,
    reading: Mapping[str, Any],
    numbers: Sequence[int],
    options: ScanOptions,
    *,
    on_bad: OnBad | None = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    progress: OnProgress | None = None,
) -> TreesRead:
    """Some sentences of a treebank as the model reads them, and every head held against all.

    Raises: SelectionError for a sentence that is not there; as `syntax`.
    """
    bank = _treebank(treebank, reading, on_bad).ready(3)
    exists = _check_trees(bank, progress)
    numbers = numbers or range(1, min(USUAL, exists) + 1)
    if (last := max(numbers)) > exists:
        raise SelectionError(f"there is no sentence {last:,}", f"the treebank has {counted(exists, 'sentence')}")
    trees: dict[int, ReadTree] = {}
    with opened(options, model, tokenizer, progress) as scanner:
        syntax = _against_trees(_tree_reader(scanner), bank, exists)
        from attnscan.scan import one_input as single

        for number, record in enumerate(islice(bank.read(), last), 1):
            if number not in numbers:
                continue
            scanner.tell("reading sentences", len(trees), len(numbers))
            try:
                encoded = scanner.encode(record.pair)
            except TooLongError as error:
                remedy = "choose other sentences, or pass --on-long truncate"
                raise TooLongError(f"{record.where}: {error.what}", remedy) from None
            result = single.classify(scanner, record.pair, encoded, keep=Selection(is_drawn=True))
            trees[number] = ReadTree(number, record.pair.sentences[0], encoded.words, result)
    return TreesRead(tuple(trees[number] for number in numbers), syntax)


def patterns(name: str | None = None) -> pd.DataFrame:
    """The patterns, a row each, or one of them by its name or letter: what it counts, of which queries and keys.

    Raises: OptionError if there is no such pattern.
    """
    return pattern_frame(SHIPPED if name is None else chosen(name, SHIPPED))


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
    step = progress_of(progress)
    if checkpoint is None:
        step("looking for models", None, None)
        return Catalog.now()
    _, asked = scan_options(checkpoint, {"device": device, "source_language": source_language}, many=False)
    with opened(asked, checkpoint, None, step) as scanner:
        from attnscan.studies.checkpoint import examine

        scanner.tell("trying it on two sentences")
        return examine(scanner)

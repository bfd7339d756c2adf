"""Studies of heads: how they make their patterns, what they are worth, which are alike, and what a checkpoint is."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from attnscan.errors import SelectionError, TooLongError
from attnscan.inputs.sentence import Pair, Record
from attnscan.inputs.tokens import token_named
from attnscan.results.terms import counted
from attnscan.run.events import Loading, Note, Progress, Work
from attnscan.run.ranking import check_holds_state, rank, scanned_here
from attnscan.run.reading import Ledger, OnePair, Pairs, on_bad_of
from attnscan.run.requests import (
    Ablate,
    Classify,
    Compare,
    Examine,
    Explain,
    HoldAgainst,
    LookAt,
    Rank,
    ReadTrees,
    Similar,
)
from attnscan.run.running import Running, classify, notes_of_inputs, notes_of_unknown_words, opened, opened_all
from attnscan.scan.options import AblationRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from attnscan.results.ablation import Ablation
    from attnscan.results.card import Cards
    from attnscan.results.checkpoint import Checkpoint
    from attnscan.results.comparison import Comparison
    from attnscan.results.explanation import Explanations
    from attnscan.results.grid import Head
    from attnscan.results.ranking import Ranking
    from attnscan.results.similarity import Similarity
    from attnscan.results.syntax import Syntax
    from attnscan.results.trees import TreesRead
    from attnscan.scan.scanner import Scanner


def explain(request: Explain, running: Running) -> Work[Explanations]:
    """How heads make their patterns. Raises: SelectionError for heads or a token that are not there; InputError."""
    if not isinstance(request.input, Pair):
        return (yield from _explain_pairs(request, request.input, running))
    record = Record(request.input, "the input")
    scanner = yield from opened(running, request.options, request.memory)
    yield Progress("explaining heads")
    from attnscan.studies.explanation import explain_input

    encoded = scanner.encode(record.pair)
    asks = encoded.tokens[encoded.source :]
    query = None if request.token is None else encoded.source + token_named(request.token, asks)
    heads = scanner.grid().select(request.heads)
    result = yield from explain_input(scanner, record, heads, request.pattern, encoded)
    yield from notes_of_inputs(result.signature, length=len(encoded.tokens), dtype=request.options.dtype)
    yield from notes_of_unknown_words(scanner, encoded)
    return replace(result, query=query)


def _explain_pairs(request: Explain, pairs: Pairs, running: Running) -> Work[Explanations]:
    pairs, ledger = pairs.ready(running.ledger), running.ledger
    records = pairs.read(ledger)
    scanner = yield from opened(running, request.options, request.memory)
    yield Progress("explaining heads by pairs")
    from attnscan.studies.explanation import explain as explain_pairs

    heads = scanner.grid().select(request.heads)
    result = yield from explain_pairs(scanner, records, heads, request.pattern, on_bad_of(pairs, ledger))
    yield from notes_of_inputs(result.signature, bad=ledger.bad, dtype=request.options.dtype)
    return result


def ablate(request: Ablate, running: Running) -> Work[Ablation]:
    """What a model loses without some heads. Raises: as the study."""
    sets, ledger = request.sets, running.ledger
    pairs = request.pairs.ready(ledger, 1 + (not sets.names_heads) + (sets.replace == "mean"), "name a file")
    scanner = yield from opened(running, request.options, request.memory)
    yield Progress("trying whether heads can be switched off")
    from attnscan.studies import ablation

    read = partial(pairs.read, ledger)
    result = yield from ablation.ablate(scanner, read, sets, on_bad_of(pairs, ledger))
    yield from notes_of_inputs(result.signature, bad=ledger.bad, dtype=request.options.dtype)
    return result


def look_at(request: LookAt, running: Running) -> Work[Cards]:
    """Everything about some heads. Raises: SelectionError for heads that are not there; as a scan and an ablation."""
    ledger = running.ledger
    pairs = request.pairs.ready(ledger, 2 + request.ablate, "name a file")
    trees = None if request.treebank is None else request.treebank.ready(ledger, 2, "name a file")
    counts = yield from _checked([] if trees is None else [trees], ledger)
    scanner = yield from opened(running, request.options, request.memory)
    heads = scanner.grid().select(request.heads)
    open_already = Running(scanner, running.stack, ledger)
    ranking = yield from _of_all_heads(pairs, request, open_already)
    from attnscan.results.card import Card, Cards, measure_of
    from attnscan.studies.card import looks

    measures = {head: measure_of(ranking, head) for head in heads}
    of_heads = yield from looks(scanner, pairs.read(ledger), measures, on_bad_of(pairs, ledger))
    lost: dict[Head, Ablation] = {}
    for head in heads if request.ablate else ():
        sets = AblationRequest(heads=head.name)
        lost[head] = yield from ablate(Ablate(pairs, request.options, None, sets), open_already)
    syntax: Syntax | None = None
    if trees is not None:
        options = request.options.of_trees()
        reader = scanner.with_options(**vars(options)).exact()
        syntax = yield from _against_trees(HoldAgainst(trees, options), reader, open_already, counts[0])
        yield from _notes_of_few(syntax)
    return Cards(tuple(Card(head, ranking, of_heads[head], lost.get(head), syntax) for head in heads))


def _of_all_heads(pairs: Pairs, request: LookAt, running: Running) -> Work[Ranking]:
    """Every head's scores, labels and statements; of one input by its words, as `classify` has them."""
    if not isinstance(pairs, OnePair):
        return (yield from rank(Rank(pairs, request.options), running))
    result = yield from classify(Classify(pairs.pair, request.options), running)
    from attnscan.results.ranking import Ranking

    return Ranking(result.scores, result.signature, labels=result.labels)


def similar(request: Similar, running: Running) -> Work[Similarity]:
    """Which heads attend alike. Raises: OutputError if scikit-learn is not installed; as the study."""
    from attnscan.results.similarity import check_heads_can_be_grouped

    check_heads_can_be_grouped()
    pairs, ledger = request.pairs.ready(running.ledger), running.ledger
    scanner = yield from opened(running, request.options, request.memory)
    _check_heads(request.heads, scanner)
    yield Progress("comparing heads by pairs")
    from attnscan.studies import similarity

    result = yield from similarity.similar(
        scanner, pairs.read(ledger), request.queries, request.within, on_bad_of(pairs, ledger)
    )
    yield from notes_of_inputs(result.signature, bad=ledger.bad, dtype=request.options.dtype)
    return result


def hold_against(request: HoldAgainst, running: Running) -> Work[Syntax]:
    """Every head held against trees.

    Raises: SelectionError for a relation that is not there; as `rank`.
    """
    request = replace(request, options=request.options.of_trees(subtypes=request.subtypes))
    banks = [request, *([replace(request, pairs=request.held, state=None)] if request.held is not None else [])]
    results = yield from _held_here(banks, running)
    for result in results:
        yield from _notes_of_few(result)
    return replace(results[0], held=results[1]) if len(results) > 1 else results[0]


def _held_here(banks: Sequence[HoldAgainst], running: Running) -> Work[list[Syntax]]:
    """Every head held against each treebank in turn."""
    ledger, request = running.ledger, banks[0]
    banks = [replace(bank, pairs=bank.pairs.ready(ledger, 2, "name a file")) for bank in banks]
    treebanks = [bank.pairs for bank in banks]
    counts = yield from _checked(treebanks, ledger, request.relation, subtypes=request.subtypes)
    if request.state is not None:
        check_holds_state(request.state)
    scanner = yield from opened(running, request.options, request.memory)
    results: list[Syntax] = []
    for bank, count in zip(banks, counts, strict=True):
        results += [(yield from _against_trees(bank, scanner, running, count))]
    return results


def _checked(
    treebanks: Sequence[Pairs], ledger: Ledger, relation: str | None = None, *, subtypes: bool = False
) -> Work[list[int]]:
    """Read treebanks before a model is loaded in vain; how many sentences each has. Raises: as `hold_against`."""
    from attnscan.results.syntax import check_relation
    from attnscan.scan.trees import trees_read

    counts: list[int] = []
    for pairs in treebanks:
        trees = yield from trees_read(pairs.read(ledger), subtypes=subtypes)
        if relation is not None and not counts:
            check_relation(relation, trees.relations)
        counts.append(trees.sentences)
    return counts


def _against_trees(request: HoldAgainst, scanner: Scanner, running: Running, count: int) -> Work[Syntax]:
    """Every head held against one treebank. Raises: as `hold_against`."""
    from attnscan.scan.local import with_signature

    state = yield from scanned_here(request, request.pairs.read(running.ledger), running, scanner, total=count)
    result = with_signature(scanner, state).syntax()
    yield from notes_of_inputs(result.signature, bad=running.ledger.bad, dtype=request.options.dtype)
    return result


def _notes_of_few(result: Syntax) -> Iterator[Note]:
    """That a treebank is small, where it is."""
    from attnscan.results.syntax import FEW

    if result.sentences < FEW:
        few = counted(result.sentences, "sentence is", "sentences are")
        yield Note(f"{few} few: below {FEW}, results may not hold in other texts", True)


def read_trees(request: ReadTrees, running: Running) -> Work[TreesRead]:
    """Some sentences of a treebank as the model reads them, and every head held against all.

    Raises: SelectionError for a sentence that is not there; as the study.
    """
    ledger, pairs = running.ledger, request.pairs.ready(running.ledger, 3, "name a file")
    from attnscan.results.trees import USUAL, ReadTree, TreesRead

    (there,) = yield from _checked([pairs], ledger)
    numbers = request.numbers or range(1, min(USUAL, there) + 1)
    if (last := max(numbers)) > there:
        raise SelectionError(f"there is no sentence {last:,}", f"the treebank has {counted(there, 'sentence')}")
    scanner = yield from opened(running, request.options, request.memory)
    options, open_already = request.options.of_trees(), Running(scanner, running.stack, ledger)
    reader = scanner.with_options(**vars(options)).exact()
    syntax = yield from _against_trees(HoldAgainst(pairs, options), reader, open_already, there)
    yield from _notes_of_few(syntax)
    from attnscan.results.head_weights import Selection
    from attnscan.scan import one_input

    trees: dict[int, ReadTree] = {}
    for number, record in enumerate(islice(pairs.read(ledger), last), 1):
        if number in numbers:
            yield Progress("reading sentences", len(trees), len(numbers))
            try:
                encoded = scanner.encode(record.pair)
            except TooLongError as error:
                remedy = "choose other sentences, or pass --on-long truncate"
                raise TooLongError(f"{record.where}: {error.what}", remedy) from None
            result = yield from one_input.classify(scanner, record.pair, encoded, keep=Selection(is_drawn=True))
            trees[number] = ReadTree(number, record.pair.sentences[0], encoded.words, result)
    return TreesRead(tuple(trees[number] for number in numbers), syntax)


def compare(request: Compare, running: Running) -> Work[Comparison]:
    """What sets two models apart. Raises: ModelError if their heads cannot be matched; as the study."""
    ledger, remedy = running.ledger, "name a file, or leave out --match nearest"
    pairs = request.pairs.ready(ledger, 1 + (request.match == "nearest"), remedy)
    a, b = yield from opened_all(running, request.options, request.memory)
    _check_heads(request.heads, a)
    yield Progress("comparing models by pairs")
    from attnscan.studies import comparison

    read = partial(pairs.read, ledger)
    result = yield from comparison.compare(a, b, read, request.match, on_bad_of(pairs, ledger))
    yield from notes_of_inputs(*result.signatures, bad=ledger.bad, dtype=request.options[0].dtype)
    return result


def _check_heads(heads: str | None, scanner: Scanner) -> None:
    """Raises: SelectionError for heads that are not there; so before the work, and not when it is shown."""
    if heads is not None:
        scanner.grid().select(heads)


def examine(request: Examine, running: Running) -> Work[Checkpoint]:
    """What a checkpoint is, by running it on two sentences. Raises: as the study."""
    from attnscan.model.sources import choose

    source = choose(request.options.model)
    yield Loading(f"{source.name} and trying it on two sentences")
    from attnscan.studies.checkpoint import examine as examined

    return examined((yield from opened(running, request.options, source=source)))

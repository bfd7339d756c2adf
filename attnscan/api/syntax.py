"""Python functions that hold heads against links between words: of a treebank, or of one's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from attnscan.api.many_pairs import run_scan, state_file
from attnscan.api.open_model import call_input, library_call
from attnscan.api.option_groups import LINKS, READING_NAMES, STATE, TREEBANK, File, SyntaxOptions
from attnscan.api.pairs_input import (
    LinkRecords,
    Pairs,
    PairsInput,
    check_no_reading,
    holds_links,
    links_input,
    pairs_input,
)
from attnscan.api.signatures import library_function
from attnscan.errors import OptionError, SelectionError
from attnscan.inputs.option import Option
from attnscan.inputs.sentence import Record
from attnscan.scan.options import note_inputs, progress_of, warn
from attnscan.text import counted

if TYPE_CHECKING:
    from attnscan.results.syntax import InputsRead, ReadInput, Syntax
    from attnscan.scan.scanner import Scanner


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
    `held` is a second treebank, or a second file of links: gains that hold in the first are tested
    again in it. With `subtypes`, relations such as `nsubj:pass` have rows of their own. `relation`
    names one that has to be in the treebank or the links. `state` is a file that keeps their sums.

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
    linked = linked_inputs(treebank, links, options, relation, subtypes=subtypes)
    held_linked = None
    if held is not None:
        held_linked = _held_inputs(held, options, subtypes=subtypes)
    with call.open_model() as scanner:
        result = compare_with_links(scanner, linked, path)
        if held_linked is None:
            return result
        return replace(result, held=compare_with_links(scanner, held_linked))


@dataclass(frozen=True)
class LinkedInputs:
    """A treebank, or links, that was read once and found to be valid."""

    pairs: PairsInput
    count: int
    is_treebank: bool


def linked_inputs(
    treebank: Pairs,
    links: LinkRecords,
    options: Mapping[str, Any],
    relation: str | None = None,
    *,
    subtypes: bool = False,
) -> LinkedInputs:
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


def _held_inputs(held: Pairs, options: Mapping[str, Any], *, subtypes: bool) -> LinkedInputs:
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
) -> LinkedInputs:
    """Read inputs with links once. Raises: as `syntax`."""
    from attnscan.results.syntax import check_relation
    from attnscan.scan.pair_scan import check_links

    pairs.ready(3)
    progress = progress_of(options.get("progress"))
    count, relations = check_links(pairs.read(), progress, subtypes=subtypes, are_trees=is_treebank)
    if relation is not None:
        check_relation(relation, relations, is_treebank=is_treebank)
    return LinkedInputs(pairs, count, is_treebank)


def compare_with_links(scanner: Scanner, linked: LinkedInputs, state: Path | None = None) -> Syntax:
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
    linked = linked_inputs(treebank, links, options)
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
        syntax = compare_with_links(scanner, linked)
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

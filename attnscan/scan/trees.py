"""Sentences with trees: checked before a scan, and summed batch by batch in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from attnscan.errors import InputError
from attnscan.inputs.batch import SPECIAL, EncodedInput
from attnscan.inputs.sentence import Pair, Record
from attnscan.scan.options import OnProgress, silent
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import half
from attnscan.scoring.relation_sums import RelationSums, offsets_are_not_told
from attnscan.scoring.relations import RelationScorer, items_of

_TOLD_EVERY = 100  # sentences


class Trees(NamedTuple):
    """What a treebank holds."""

    sentences: int
    relations: list[str]
    """Sorted; those that a model's heads can be asked for."""


def trees_read(records: Iterable[Record], progress: OnProgress = silent, *, subtypes: bool = False) -> Trees:
    """Read a treebank to its end, so that what is wrong in it is told before a model is loaded.

    Raises: InputError if there is no sentence, or one without a tree.
    """
    count, relations = 0, set[str]()
    for record in records:
        check_tree(record.pair, record.where)
        relations.update(item.row.relation for item in items_of(record.pair.sentences[0], subtypes=subtypes))
        count += 1
        if count % _TOLD_EVERY == 0:
            progress("reading trees", count, None)
    if not count:
        raise InputError("there is no sentence in the treebank", "name a .conllu file with at least one")
    return Trees(count, sorted(relations))


def check_tree(pair: Pair, where: str) -> None:
    """Raises: InputError if it is not one sentence with a tree."""
    sentence, *more = pair.sentences
    if more or sentence.words is None or not {"head", "deprel", "upos"} <= set(sentence.tags):
        raise InputError(f"{where}: a sentence without a tree", "name a treebank in CoNLL-U, a .conllu file")


def tree_sums(scanner: Scanner, inputs: Sequence[EncodedInput]) -> RelationSums:
    """The sums of some sentences with trees.

    Raises: InputError for one without; ModelError if the tokenizer does not tell which characters a token stands for.
    """
    for encoded in inputs:
        check_tree(encoded.known_pair, f"sentence {encoded.number}")
        for sentence, (first, last) in zip(encoded.sentence, encoded.spans, strict=True):
            if sentence != SPECIAL and first >= last:
                why = f"a token of sentence {encoded.number} has no character of it"
                raise offsets_are_not_told(scanner.loaded.source.name, why)
    scanner.check_room(max(len(encoded.tokens) for encoded in inputs))
    options, batch = scanner.options, scanner.collate(inputs)
    scorer = RelationScorer(
        batch,
        [half(encoded.known_pair, options.seed) for encoded in inputs],
        among=options.reading.among_words,
        subtypes=options.relations == "subtypes",
        causal=scanner.is_causal,
    )
    scanner.run(batch.model_inputs, scorer)
    return scorer.sums()

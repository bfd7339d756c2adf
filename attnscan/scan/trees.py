"""Sentences with trees: checked before a scan, and summed batch by batch in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attnscan.errors import InputError
from attnscan.inputs.sentence import SPECIAL, EncodedInput, Record
from attnscan.scan.options import OnProgress, silent
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import Sums, half
from attnscan.scoring.relations import RelationScorer, items_of, offsets_are_not_told


def trees_read(
    records: Iterable[Record], progress: OnProgress = silent, *, subtypes: bool = False
) -> tuple[int, list[str]]:
    """Read a treebank, so that what is wrong in it is told before a model is loaded: its sentences, its relations.

    Raises: InputError if there is no sentence, or one without a tree.
    """
    count, relations = 0, set[str]()
    for count, record in enumerate(records, 1):
        sentence, *more = record.pair.sentences
        if more or sentence.words is None or not {"head", "deprel", "upos"} <= set(sentence.tags):
            raise InputError(f"{record.where}: a sentence without a tree", "name a treebank in CoNLL-U, a .conllu file")
        relations.update(item.row.relation for item in items_of(sentence, subtypes=subtypes))
        if count % 100 == 0:
            progress("reading trees", count, None)
    if not count:
        raise InputError("there is no sentence in the treebank", "name a .conllu file with at least one")
    return count, sorted(relations)


def tree_sums(scanner: Scanner, inputs: Sequence[EncodedInput]) -> Sums:
    """The sums of some sentences with trees, as `RelationSums` has them.

    Raises: ModelError if the tokenizer does not tell which characters a token stands for.
    """
    for encoded in inputs:
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

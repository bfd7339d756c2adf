"""The words that heads of cross attention link, over many pairs, in the order of their records."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain

from attnscan.errors import InputError, PairsError
from attnscan.inputs.annotations import pharaoh_line, words_to_link
from attnscan.inputs.sentence import EncodedInput, Record
from attnscan.results.grid import Head
from attnscan.results.word_links import WordLinks
from attnscan.scan.pair_scan import OnBad, process_batches
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import ScanProgress, no_pair
from attnscan.scoring.units import Units
from attnscan.scoring.word_links import LinkReader

Begin = Callable[[OnBad | None], Iterator[Record]]
"""Begins a pass over pairs, and hands bad records to a function, or raises them."""


class _RecordReader:
    """Reads pairs with the words to link, and counts all records: each has a line of its own."""

    def __init__(self, begin: Begin, on_bad: OnBad | None) -> None:
        self.count = 0
        self._begin = begin
        self._on_bad = on_bad

    def _skip(self, error: InputError) -> None:
        assert self._on_bad is not None
        self.count += 1
        self._on_bad(error)

    def records(self) -> Iterator[Record]:
        """The records that can be read. Raises: PairsError."""
        files: set[str] = set()
        for record in self._begin(None if self._on_bad is None else self._skip):
            self.count += 1
            files.add(record.place.file)
            if len(files) > 1:
                raise PairsError(
                    "pairs are in several files, and links are a line for each pair of one",
                    "give one file of pairs",
                )
            try:
                pair = words_to_link(record.pair)
            except InputError as error:
                self._refuse(PairsError(f"{record.where}: {error.what}", error.remedy))
            else:
                yield replace(record, pair=pair)

    def _refuse(self, error: PairsError) -> None:
        if self._on_bad is None:
            raise error
        self._on_bad(error)


def read_word_links(
    scanner: Scanner, begin: Begin, heads: Sequence[Head], on_bad: OnBad | None = None
) -> WordLinks:
    """The links that a head makes, or that more than half of several heads make.

    Records that are skipped have an empty line.
    Raises: as `pair_scan.scan`; PairsError for several files, or a pair without a target.
    """
    reader = _RecordReader(begin, on_bad)
    lines: dict[int, str] = {}
    seen = ScanProgress()
    on_count = partial(scanner.tell, "linking words")
    work = partial(_link_batch, scanner, heads)
    results = process_batches(scanner, reader.records(), work, on_count, on_bad)
    with closing(results):
        for _, lines_of_batch, now in results:
            lines |= lines_of_batch or {}
            seen = now or seen
    if not lines:
        raise no_pair("whose words could be linked")
    signature = scanner.signature(**seen.signature_fields)
    count = max(reader.count, *lines)
    return WordLinks(
        heads=tuple(heads),
        lines=tuple(lines.get(number, "") for number in range(1, count + 1)),
        signature=signature,
    )


def _link_batch(
    scanner: Scanner, heads: Sequence[Head], inputs: Sequence[EncodedInput]
) -> dict[int, str]:
    """The lines of some inputs, by the numbers of their records."""
    scanner.check_room(max(len(encoded.tokens) for encoded in inputs))
    batch = scanner.collate(inputs)
    reader = LinkReader(Units(batch), heads)
    scanner.run(batch.model_inputs, reader)
    lines = {}
    for number, encoded in enumerate(inputs):
        links_of_heads = [reader.links(number, head) for head in heads]
        votes = Counter(chain.from_iterable(links_of_heads))
        links = [link for link, count in votes.items() if 2 * count > len(heads)]
        lines[encoded.place.row] = pharaoh_line(links)
    return lines

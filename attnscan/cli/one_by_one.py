"""Several inputs for `classify`: the model loaded once, each input scored by itself and written before the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from attnscan.cli.bars import working
from attnscan.cli.destination import Destination
from attnscan.cli.options import PairFiles
from attnscan.cli.session import Passes, asking, opened, tell
from attnscan.errors import InputError
from attnscan.results.signature import hashed
from attnscan.scan.options import ScanOptions

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from attnscan.inputs.pairs import Record
    from attnscan.results.classification import Classification
    from attnscan.results.terms import OnStep

STREAMED = ("table", "csv", "tsv", "jsonl")


class Lines(Passes):
    """Standard input, an input a line."""

    def __init__(self, files: PairFiles) -> None:
        super().__init__(PairFiles(skip_bad=files.skip_bad))

    def read(self, *, labelled: bool = False) -> Iterator[Record]:  # noqa: ARG002 (they have none)
        """The lines, as they come."""
        from attnscan.inputs.pairs import lines_of_stdin

        return lines_of_stdin(self.on_bad)

    def how_many(self) -> int | None:
        """Nobody knows."""
        return None


def check_streamed(destination: Destination) -> None:
    """Raises: typer.BadParameter for a format that cannot be written by and by."""
    if destination.format not in STREAMED:
        known = f"{', '.join(STREAMED[:-1])} or {STREAMED[-1]}"
        raise typer.BadParameter(
            f"several inputs are written as they are done, not as {destination.format}: use {known}"
        )


def classify_each(
    passes: Passes,
    options: ScanOptions,
    destination: Destination,
    frame: Callable[[Classification], pd.DataFrame],
    view: Callable[[int, Classification, int], RenderableType],
) -> None:
    """Score inputs one by one, and write each when it is done; Ctrl-C leaves what is.

    `frame` makes the rows of one result, `view` its screen, given its number and the width.
    Raises: InputError for an input that cannot be read, with its place, or if there is none.
    """
    records, signature, cut = passes.read(), None, 0
    about, digest = dict[str, Any](), ""  # a hash of all inputs, as of a scan's
    with (
        _signed(destination, about),
        opened(options) as scanner,
        destination.pieces() as write,
        _bar(destination, passes) as step,
    ):
        from attnscan.scan.one_input import classify
        from attnscan.scan.seen import no_pair

        number = 0
        for record in records:
            try:
                result = classify(scanner, record.pair, asking(step))
            except InputError as error:
                placed = type(error)(f"{record.where}: {error.what}", error.remedy)
                if passes.on_bad is None:
                    raise placed from None
                passes.on_bad(placed)
                continue
            number += 1
            cut += result.signature.pairs_truncated
            digest = hashed(digest.encode(), *(sentence.encode() for sentence in record.pair.sentences))
            signature = replace(result.signature, pairs_read=number, pairs_truncated=cut, input_hash=digest)
            about["signature"] = asdict(signature)
            rows = partial(_rows, frame, result, record)
            write(destination.piece(rows, partial(view, number, result), first=number == 1))
            step("scoring inputs", number)
        if signature is None:
            raise no_pair("to score")
    tell(signature, bad=passes.bad)


@contextmanager
def _signed(destination: Destination, about: Mapping[str, Any]) -> Iterator[None]:
    """Around the writing of inputs: what is then known `about` them is written, also after Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        if destination.signature is None or not about:
            raise
        part = destination.for_part()
        part.write_signature(about)
        raise KeyboardInterrupt(*stopped.args, part.signature) from None
    except BrokenPipeError:  # the reader of standard output has what it wanted
        destination.write_signature(about)
        raise
    destination.write_signature(about)


def _bar(destination: Destination, passes: Passes) -> AbstractContextManager[OnStep]:
    """A bar, but none on a terminal that results come to: each would be written into it."""
    if destination.on_terminal:
        return nullcontext(lambda _doing, _done, _total=None: None)
    return working("scoring inputs", passes.how_many)


def _rows(frame: Callable[[Classification], pd.DataFrame], result: Classification, record: Record) -> pd.DataFrame:
    """A result's rows, behind the file and the row of it that the input was, and its sentences."""
    rows = frame(result)
    rows.insert(0, "file", record.place.file)
    rows.insert(1, "input", record.place.row)
    rows.insert(2, "sentence_a", record.pair.a)
    rows.insert(3, "sentence_b", record.pair.b or "")
    return rows

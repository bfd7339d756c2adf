"""What commands do between parsing and printing: read pairs, open a model, and tell what the user should know."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscan.cli.bars import working
from attnscan.cli.imports import importing
from attnscan.cli.messages import WITHOUT_TAP, say
from attnscan.cli.options import OneInput, PairFiles
from attnscan.errors import InputError, PairsError, WeightsError
from attnscan.model import sources
from attnscan.model.surroundings import check_address_space
from attnscan.results.terms import MOST_PROFILED, counted
from attnscan.scan.options import ScanOptions

if TYPE_CHECKING:
    from attnscan.inputs.batch import EncodedInput
    from attnscan.inputs.pairs import Record
    from attnscan.model.sources import Dtype, Source
    from attnscan.results.classification import Classification
    from attnscan.results.profile import Profile
    from attnscan.results.signature import Signature
    from attnscan.results.terms import OnStep
    from attnscan.scan.scanner import Scanner
    from attnscan.scan.stream import OnBad
    from attnscan.scoring.predictive import Report


_NAMED = 5  # unknown words, at most


class Passes:
    """Files of pairs that are read once or several times; what is bad in them is told and counted once.

    Raises: PairsError if something among them can be read only once, and that is not enough.
    """

    def __init__(self, files: PairFiles, count: int = 1, remedy: str = "") -> None:
        self.bad = 0
        """How many records were skipped."""
        self._files = files
        self._told: set[int] = set()  # hashes of errors; each says where its record stands
        once = [path for path in files.paths if path == "-" or _is_no_file(path)]
        if once and count > 1:
            name = "standard input" if once[0] == "-" else once[0]
            raise PairsError(f"{name} can be read only once, and this takes {count} passes", remedy)
        if files.paths and os.path.isfile(files.paths[0]):  # noqa: PTH113
            next(self.read(), None)  # what is wrong with the first is said before torch and a model are loaded

    def read(self, *, labelled: bool = False) -> Iterator[Record]:
        """Begin a pass over all pairs; `labelled`, with what a column `label` says."""
        from attnscan.inputs.pairs import read_pairs, shipped_pairs

        if not self._files.paths:
            return shipped_pairs()
        return read_pairs(self._files.paths, self._files.reading(labelled=labelled), self.on_bad, self._note)

    @property
    def with_ids(self) -> bool:
        """Whether a column of ids was named."""
        return self._files.reading().id is not None

    def how_many(self) -> int | None:
        """About how many pairs there are, if that can be told."""
        from attnscan.inputs.pairs import about_how_many

        return about_how_many(self._files.paths)

    @property
    def on_bad(self) -> OnBad | None:
        """What a bad record is handed to; without it, it stops the run."""
        return self._skip if self._files.skip_bad else None

    def _note(self, text: str) -> None:
        if (key := hash(text)) not in self._told:
            self._told.add(key)
            say(text)

    def _skip(self, error: InputError) -> None:
        if (key := hash(str(error))) not in self._told:
            self._told.add(key)
            self.bad += 1
            if self.bad <= 3:
                say(f"skipped: {error}")


def _is_no_file(path: str) -> bool:
    """Whether it is there and is neither a file nor a directory; a name that is too long for one is not there."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)  # noqa: PTH110, PTH112, PTH113


class OnePair(Passes):
    """A sentence or a pair from the command line, in place of files."""

    def __init__(self, a: str, b: str | None) -> None:
        super().__init__(PairFiles())
        from attnscan.inputs.pairs import Pair

        self.pair = Pair(a, b)

    def read(self, *, labelled: bool = False) -> Iterator[Record]:  # noqa: ARG002 (it has no label)
        """It alone."""
        from attnscan.inputs.pairs import Record

        return iter([Record(self.pair, "the input")])

    def how_many(self) -> int | None:
        """One."""
        return 1


def chosen(options: ScanOptions) -> Source:
    """The model that was asked for, before torch is imported: a wrong name is answered at once."""
    with working("looking for a model"):
        source = sources.choose(options.model)
    say(source.note)
    return source


def opened(options: ScanOptions, source: Source | None = None) -> Scanner:
    """The model that was asked for, or a `source` that was chosen before, made ready. Use it in a `with`."""
    source = source or chosen(options)
    with working(f"loading {source.name}"), importing():
        from attnscan.scan.scanner import Scanner

        return Scanner(options, source)


def classified(given: OneInput, options: ScanOptions, *, keep: bool) -> Classification:
    """Score saved weights, or else one input; with `keep`, the result carries the attention."""
    if given.weights is not None:
        check_address_space()
        from attnscan.inputs.weights import read_weights

        saved = read_weights(given.weights)  # before torch: a bad file is answered at once
        with working(f"scoring {given.weights.name}"):
            with importing():
                from attnscan.scan.one_input import classify_weights
            return classify_weights(saved, given.weights.name, options, keep=keep)
    from attnscan.inputs.pairs import Pair

    pair = Pair(str(given.a), given.b)
    with opened(options) as scanner, working("scoring every head") as step:
        from attnscan.scan.one_input import classify

        encoded = scanner.encode(pair)
        result = classify(scanner, pair, asking(step), keep=keep, encoded=encoded)
    tell(result.signature, length=scanner.loaded.limit)
    tell_unknown(scanner, encoded)
    return result


def asking(step: OnStep) -> Report:
    """What tells a bar of the sequences of one input with hidden words."""
    return lambda done, total: step("predictive words: hidden sequences", done, total)


def profile_of(result: Classification) -> Profile:
    """One input's profiles. Raises: WeightsError if there are too many heads."""
    if result.profile is None:
        raise WeightsError("so many heads are too many to be profiled", f"give {MOST_PROFILED} at most")
    return result.profile


def tell(*signatures: Signature, bad: int = 0, length: int | None = None, dtype: Dtype = "auto") -> None:
    """Tell how inputs were read: without a tap, cut, or not at all. Of two models on the same pairs, the first counts.

    `bad` records were skipped; `length` is that of an input that is alone, as the model read it; `dtype` was asked for.
    """
    for signature in signatures:
        if signature.read_by == "output_attentions":
            say(f"{signature.model}: {WITHOUT_TAP}" if len(signatures) > 1 else WITHOUT_TAP)
    first = signatures[0]
    if dtype not in ("auto", first.dtype):
        say(f"computed in {first.dtype}: on a CPU, {dtype} is for scores alone")
    if bad:
        say(f"{counted(bad, 'bad record')} {'was' if bad == 1 else 'were'} skipped")
    if first.pairs_truncated and length is not None:
        say(f"the input was cut to the {length} tokens that the model reads")
    elif first.pairs_truncated:
        say(f"{first.pairs_truncated} of {first.pairs_read} inputs were cut to what the model reads")
    if first.pairs_skipped:
        say(f"{first.pairs_skipped} of {first.pairs_read} inputs were skipped")


def tell_unknown(scanner: Scanner, encoded: EncodedInput) -> None:
    """Tell which words of one input the model cannot see for what they are."""
    from attnscan.inputs.encode import unknown_words

    if words := unknown_words(scanner.loaded.tokenizer, encoded):
        named = dict.fromkeys(words)
        more = f" and {counted(len(named) - _NAMED, 'other')}" if len(named) > _NAMED else ""
        how = f"{counted(len(words), 'word')} of the input {'is' if len(words) == 1 else 'are'} unknown to the model"
        say(f"{how}, which reads {scanner.loaded.tokenizer.unk_token} instead: {', '.join(list(named)[:_NAMED])}{more}")

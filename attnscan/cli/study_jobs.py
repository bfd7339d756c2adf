"""What the studies over pairs do between parsing and printing: read as often as it takes, run, tell what to know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from attnscan.cli.messages import WITHOUT_TAP, counter, say
from attnscan.cli.pair_jobs import BadRecords, PairFiles, report_counts
from attnscan.errors import InputError, PairsError
from attnscan.results.terms import By, Match
from attnscan.scan.options import ScanOptions

if TYPE_CHECKING:
    from attnscan.inputs.pairs import Record
    from attnscan.results.ablation import Ablation, HeadSet
    from attnscan.results.comparison import Comparison
    from attnscan.results.similarity import Similarity
    from attnscan.scan.scanner import Scanner
    from attnscan.scan.stream import OnBad


class Passes:
    """Files that are read several times; what is bad in them is told of in the first pass alone.

    Raises: PairsError if something among them can be read only once.
    """

    def __init__(self, files: PairFiles, count: int, remedy: str) -> None:
        self._files = files
        self._begun = 0
        self.bad = BadRecords()
        once = [path for path in files.paths if path == "-" or (Path(path).exists() and not Path(path).is_file())]
        if once and count > 1:
            name = "standard input" if once[0] == "-" else once[0]
            raise PairsError(f"{name} can be read only once, and this takes {count} passes", remedy)

    def read(self, *, labelled: bool = False) -> Iterator[Record]:
        """Begin a pass."""
        self._begun += 1
        return self._files.records(self._hear, labelled=labelled)

    @property
    def on_bad(self) -> OnBad | None:
        """What a bad record is handed to; without it, it stops the run."""
        return self._files.on_bad(self._hear)

    def _hear(self, error: InputError) -> None:
        if self._begun == 1:
            self.bad(error)


@dataclass(frozen=True)
class AblationRequest:
    """What is to be switched off, and how its worth is measured."""

    patterns: tuple[str, ...]
    """Whose heads are switched off, pattern by pattern, where no heads are named."""
    heads: str | None
    each: bool
    """Each head in turn: of those that are named, or all."""
    top: int | None
    by: By
    draws: int
    measures: tuple[str, ...]


def ablate_pairs(options: ScanOptions, files: PairFiles, asked: AblationRequest) -> Ablation:
    """What heads are worth over all pairs."""
    from attnscan.model.sources import choose

    by_pattern = asked.heads is None and not asked.each
    passes = Passes(files, 1 + by_pattern + (asked.by == "mean"), "name a file")
    source = choose(options.model)
    say(source.note)
    from attnscan.scan.scanner import Scanner
    from attnscan.studies.ablation import AblationOptions, ablate, check_switchable

    with Scanner(options, source) as scanner:
        check_switchable(scanner)
        sets, chosen_by = _of_patterns(scanner, files, passes, asked) if by_pattern else _named(scanner, asked)
        ablation = AblationOptions(tuple(sets), chosen_by, asked.by, asked.draws, asked.measures)
        with counter("pairs", files.how_many) as count:
            found = ablate(scanner, lambda: passes.read(labelled=True), ablation, passes.on_bad, count)
    report_counts(found.signature, passes.bad.count)
    return found


def _named(scanner: Scanner, asked: AblationRequest) -> tuple[list[HeadSet], str]:
    """The sets of heads that were named, or of each alone."""
    from attnscan.results.heads import heads_named
    from attnscan.studies.head_sets import each_alone, named_sets

    grid = scanner.grid()
    heads = heads_named(asked.heads or "all", grid)
    named = each_alone(heads) if asked.each else {asked.heads or "all": heads}
    return named_sets(named, grid[1], asked.draws, scanner.options.seed), "by name"


def _of_patterns(
    scanner: Scanner, files: PairFiles, passes: Passes, asked: AblationRequest
) -> tuple[list[HeadSet], str]:
    """The sets of heads that follow each pattern, by a scan of the same pairs."""
    from attnscan.scan.local import ScanState, scan
    from attnscan.studies.head_sets import heads_of_patterns, named_sets

    state, options = ScanState(), scanner.options
    with counter("pairs", files.how_many) as count:
        for after in scan(scanner, passes.read(), on_bad=passes.on_bad, on_batch=count):
            state = after
    scores = state.finish(scanner).scores
    sets = heads_of_patterns(scores, asked.patterns, options.threshold, asked.top)
    how = f"label, {options.threshold:g} above chance" if asked.top is None else f"the {asked.top} most above chance"
    return named_sets(sets, scores.grid[1], asked.draws, options.seed), how


def similar_pairs(options: ScanOptions, files: PairFiles, queries: int, within: float) -> Similarity:
    """Which heads are alike over all pairs."""
    from attnscan.model.sources import choose
    from attnscan.results.similarity import check_heads_can_be_grouped

    check_heads_can_be_grouped()
    passes = Passes(files, 1, "")
    source = choose(options.model)
    say(source.note)
    from attnscan.scan.scanner import Scanner
    from attnscan.studies.similarity import similar

    with Scanner(options, source) as scanner, counter("pairs", files.how_many) as count:
        found = similar(scanner, passes.read(), queries, within, passes.on_bad, count)
        if scanner.read_by == "output_attentions":
            say(WITHOUT_TAP)
    report_counts(found.signature, passes.bad.count)
    return found


def compare_pairs(models: tuple[str, str], options: ScanOptions, files: PairFiles, match: Match) -> Comparison:
    """What sets two models apart over all pairs."""
    from attnscan.model.sources import choose

    passes = Passes(files, 1 + (match == "nearest"), "name a file, or leave out --match nearest")
    sources = [choose(model) for model in models]
    from attnscan.scan.scanner import Scanner
    from attnscan.studies.comparison import compare

    one, other = (replace(options, model=model) for model in models)
    with Scanner(one, sources[0]) as scanner, Scanner(other, sources[1]) as rival:
        with counter("pairs", files.how_many) as count:
            found = compare(scanner, rival, passes.read, match, passes.on_bad, count)
        for each in (scanner, rival):
            if each.read_by == "output_attentions":
                say(f"{each.loaded.source.name}: {WITHOUT_TAP}")
    report_counts(found.signatures[0], passes.bad.count)
    return found

"""What the commands do between parsing and printing: choose the model, run, tell the user what to know."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attnscan.errors import AttnscanError
from attnscan.messages import counter, progress, say
from attnscan.options import ScanOptions
from attnscan.output import check_writable, write_file

if TYPE_CHECKING:
    from attnscan.attention import Attention
    from attnscan.per_pair import PerPairWriter
    from attnscan.results import Classification, Dependencies, Ranking, Signature

_SAVE_EVERY = 5.0  # seconds between two states of a scan
_WITHOUT_TAP = "this architecture has no tap: read by output_attentions, with the weights of all layers in memory"


@dataclass(frozen=True)
class ScanFiles:
    """The files of a scan: what to read, and what to keep."""

    pairs: list[str]
    columns: list[str] | None
    skip_bad: bool
    state: Path | None
    per_pair: Path | None


def scan_files(options: ScanOptions, files: ScanFiles) -> tuple[Ranking, bool]:
    """Scan all pairs, or those up to Ctrl-C. Returns the ranking, and whether it was interrupted."""
    from attnscan.pairs import about_how_many, read_pairs, shipped_pairs
    from attnscan.sources import choose

    bad = 0

    def note_bad(error: AttnscanError) -> None:
        nonlocal bad
        bad += 1
        if bad <= 3:
            say(f"skipped: {error}")

    on_bad = note_bad if files.skip_bad else None
    records = read_pairs(files.pairs, files.columns, on_bad) if files.pairs else shipped_pairs()
    source = choose(options.model)
    say(source.note)
    from attnscan.engine import ScanState, scan, unseen
    from attnscan.scanner import Scanner
    from attnscan.state import load_state, save_state

    with Scanner(options, source) as scanner, _per_pair(files.per_pair, options) as writer:
        state, interrupted, saved = ScanState(), False, time.monotonic()
        on_pairs = None if writer is None else writer.write
        try:
            if files.state is not None and files.state.exists():
                state = load_state(files.state, scanner)
            rest = unseen(records, state.seen, options)
            with counter("pairs", lambda: about_how_many(files.pairs)) as count:
                for after in scan(scanner, rest, state, on_bad, on_pairs, count):
                    state = after
                    if files.state is not None and time.monotonic() - saved > _SAVE_EVERY:
                        save_state(files.state, state, scanner)
                        saved = time.monotonic()
        except KeyboardInterrupt:
            if state.sums is None:
                raise
            interrupted = True
            how = "the same command goes on from there" if files.state else "--state FILE would keep what is done"
            say(f"interrupted after {state.seen.read} pairs; {how}")
        if files.state is not None and state.sums is not None:
            save_state(files.state, state, scanner)
        with progress("pairs asked for predictive words") as report:
            result = state.finish(scanner, report, on_pairs, predictive=not interrupted)
        if writer is not None:
            writer.finish(result.signature, result.scores.grid)
        if scanner.read_by == "output_attentions":
            say(_WITHOUT_TAP)
    _report_counts(result.signature, bad)
    return result, interrupted


def _per_pair(path: Path | None, options: ScanOptions) -> AbstractContextManager[PerPairWriter | None]:
    if path is None:
        return nullcontext()
    from attnscan.per_pair import PerPairWriter

    return PerPairWriter(path, [pattern.id for pattern in options.patterns])


def _report_counts(signature: Signature, bad: int) -> None:
    if bad:
        say(f"{bad} bad records were skipped")
    if signature.pairs_truncated:
        say(f"{signature.pairs_truncated} of {signature.pairs_read} inputs were cut to what the model reads")
    if signature.pairs_skipped:
        say(f"{signature.pairs_skipped} of {signature.pairs_read} inputs were skipped")


def score_file(path: Path, options: ScanOptions) -> tuple[Classification, Attention]:
    """Score saved weights. Returns the attention as well."""
    from attnscan.weights import read_weights

    saved = read_weights(path)  # before torch: a bad file is answered at once
    from attnscan.one_input import classify_weights_and_keep

    return classify_weights_and_keep(saved, path.name, options)


def score_pair(
    a: str, b: str | None, options: ScanOptions, save_to: Path | None = None
) -> tuple[Classification, Attention]:
    """Score one input, and save its weights if there is a place for them. Returns the attention as well."""
    from attnscan.pairs import Pair
    from attnscan.sources import choose

    pair = Pair(a, b)
    if save_to is not None:
        check_writable(save_to)
    source = choose(options.model)
    say(source.note)
    from attnscan.one_input import classify_and_keep

    with progress("hidden sequences") as report:
        result, attention = classify_and_keep(pair, options, source, report)
    say_if_cut(result.signature, len(attention.tokens))
    if result.signature.read_by == "output_attentions":
        say(_WITHOUT_TAP)
    if save_to is not None:
        from attnscan.weights import write_weights

        write_file(save_to, write_weights(attention.saved()))
    return result, attention


def say_if_cut(signature: Signature, length: int) -> None:
    """Tell the user that an input was cut."""
    if signature.pairs_truncated:
        say(f"the input was cut to the {length} tokens that the model reads")


def ask_dependencies(a: str, b: str | None, options: ScanOptions) -> Dependencies:
    """Ask the model which words of one input help to predict which."""
    from attnscan.pairs import Pair
    from attnscan.sources import choose

    pair, source = Pair(a, b), choose(options.model)
    say(source.note)
    from attnscan.one_input import dependencies

    with progress("hidden sequences") as report:
        result = dependencies(pair, options, source, report)
    say_if_cut(result.signature, len(result.units))
    return result

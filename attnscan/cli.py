"""The command line: parse, call, print. Nothing is computed here, and torch is imported only to compute."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import attnscan
from attnscan.errors import AttnscanError
from attnscan.options import THRESHOLD, Device, Dtype, OnLong, Predictive, ScanOptions, Unit
from attnscan.output import FORMATS, Destination, check_writable, encoded, format_of, write_file, write_stdout
from attnscan.patterns import PATTERNS

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType
    from rich.progress import TaskID

    from attnscan.per_pair import PerPairWriter
    from attnscan.results import Classification, Ranking, Signature

_SAVE_EVERY = 5.0  # seconds between two states of a scan
_WITHOUT_TAP = "this architecture has no tap: read by output_attentions, with the weights of all layers in memory"

app = typer.Typer(
    name="attnscan",
    help="Find out which attention head of a BERT-family model does what.",
    epilog='Example: attnscan classify "I went to the store." "At the store, I bought fresh strawberries."',
    no_args_is_help=True,
    rich_markup_mode=None,  # its import takes longer than everything else that --help does
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without UTF-8 still gets every line
    app(prog_name="attnscan")


def _version(wanted: bool | None) -> None:
    if wanted:
        typer.echo(f"attnscan {attnscan.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    # None, not False: a value to check would make Typer import pydantic, which takes longer than `patterns` itself
    version: Annotated[
        bool | None, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = None,
) -> None:
    pass


def _pattern_names(names: list[str] | None) -> list[str]:
    known = [pattern.id for pattern in PATTERNS]
    for name in names or ():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}"
            raise typer.BadParameter(f"no pattern '{name}': {hint}")
    return list(dict.fromkeys(names or ()))


Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        help="A hub id, a directory, or 'bundled'. "
        "[default: $ATTNSCAN_MODEL, else bert-base-uncased, else the bundled model]",
    ),
]
Patterns = Annotated[
    list[str] | None,
    typer.Option(
        "--pattern", "-p", metavar="PATTERN", callback=_pattern_names, help="Show this pattern only. May be repeated."
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", "-f", metavar="FORMAT", help="table, csv, tsv, json, jsonl, markdown or parquet."),
]
SentenceA = Annotated[str | None, typer.Argument(metavar="A", help="Sentence A.", show_default=False)]
SentenceB = Annotated[str | None, typer.Argument(metavar="[B]", help="Sentence B.", show_default=False)]
UnitOption = Annotated[Unit, typer.Option("--unit", help="Score tokens, or words with their pieces merged.")]
NoRelated = Annotated[bool, typer.Option("--no-related", help="Count identical words only, not related ones.")]
WithoutDelimiters = Annotated[
    bool, typer.Option("--without-delimiters", help="Leave weights on special tokens out of the scores.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="For everything drawn at random.")]
Truncate = Annotated[bool, typer.Option("--truncate", help="Cut an input that is too long for the model.")]
DeviceOption = Annotated[Device, typer.Option("--device", help="Where to run the model.")]
DtypeOption = Annotated[Dtype, typer.Option("--dtype", help="Number format of the model; float32 on a CPU.")]
PredictiveOption = Annotated[
    Predictive,
    typer.Option("--predictive", help="How to ask which words predict a word: as best the model allows."),
]
PredictiveWords = Annotated[
    int, typer.Option("--predictive-words", metavar="N", min=2, help="How many words to ask it about, at most.")
]
BatchTokens = Annotated[int, typer.Option("--batch-tokens", metavar="N", min=1, help="How many tokens to run at once.")]
Csv = Annotated[bool, typer.Option("--csv", help="Short for --format csv.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to FILE, in the format of its suffix.")
]


@app.command(epilog='Example: attnscan classify "The cat sat on the mat." "The cat lay on the rug." --csv > heads.csv')
def classify(
    a: SentenceA = None,
    b: SentenceB = None,
    model: Model = None,
    weights: Annotated[
        Path | None,
        typer.Option("--weights", metavar="FILE.npz", help="Score saved attention weights instead of a model."),
    ] = None,
    pattern: Patterns = None,
    all_heads: Annotated[bool, typer.Option("--all", help="Rank every head.")] = False,
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="N", min=1, help="How many heads to show. [default: those that fit a line]"),
    ] = None,
    threshold: Annotated[
        float, typer.Option(metavar="X", min=0, max=1, help="How far above chance a label's pattern must be.")
    ] = THRESHOLD,
    without_delimiters: WithoutDelimiters = False,
    unit: UnitOption = "token",
    no_related: NoRelated = False,
    truncate: Truncate = False,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    predictive: PredictiveOption = "auto",
    predictive_words: PredictiveWords = 32,
    batch_tokens: BatchTokens = 4096,
    seed: Seed = 0,
    format: FormatOption = None,
    csv: Csv = False,
    output: Output = None,
    save_weights: Annotated[
        Path | None, typer.Option("--save-weights", metavar="FILE.npz", help="Save the attention weights as well.")
    ] = None,
) -> None:
    """Say what every head does on one input: one sentence, or a pair."""
    with _reported():
        if (a is None) == (weights is None):
            raise typer.BadParameter("give a sentence, or two, or --weights FILE.npz, but not both")
        if weights is not None and (save_weights is not None or model is not None):
            raise typer.BadParameter("--weights needs no model and has nothing to save")
        if output is not None and output == save_weights:
            raise typer.BadParameter("-o and --save-weights name the same file")
        destination = _destination(format, csv, output)
        options = ScanOptions(
            model=model,
            device=device,
            dtype=dtype,
            unit=unit,
            related=not no_related,
            on_long="truncate" if truncate else "error",
            threshold=threshold,
            predictive=predictive,
            predictive_words=predictive_words,
            batch_tokens=batch_tokens,
            seed=seed,
        )
        result = _score_file(weights, options) if weights else _score_pair(str(a), b, options, save_weights)
        chosen = pattern or list(result.scores.patterns)
        order = result.ranking(pattern[0] if pattern else None, without_delimiters=without_delimiters)

        def frame() -> pd.DataFrame:
            every_head = result.to_frame(chosen, without_delimiters=without_delimiters)
            return every_head.iloc[order].head(top or len(order)) if all_heads or pattern or top else every_head

        def view(width: int) -> RenderableType:
            from attnscan.views import terminal

            if all_heads:
                return terminal.all_heads_view(result, chosen, order[:top], width, without_delimiters)
            return terminal.classification_view(result, chosen, width, top, without_delimiters)

        destination.emit(frame, view)


@app.command(epilog="Example: attnscan heads --pattern next-word --pairs pairs.tsv --csv > heads.csv")
def heads(
    pattern: Patterns = None,
    pairs: Annotated[
        list[str] | None,
        typer.Option("--pairs", metavar="FILE", help="CSV, TSV, JSONL or Parquet, '-' for stdin; may be repeated."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="A[,B]", help="The columns that hold the sentences.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Count and report bad records, do not stop.")] = False,
    on_long: Annotated[OnLong, typer.Option("--on-long", help="What to do with inputs too long to read.")] = "truncate",
    top: Annotated[
        int | None, typer.Option("--top", metavar="N", min=1, help="How many heads of each pattern. [default: 10 or 5]")
    ] = None,
    without_delimiters: WithoutDelimiters = False,
    model: Model = None,
    unit: UnitOption = "token",
    no_related: NoRelated = False,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    predictive: PredictiveOption = "auto",
    predictive_words: PredictiveWords = 32,
    predictive_pairs: Annotated[
        int, typer.Option("--predictive-pairs", metavar="N", min=1, help="How many pairs to ask it about.")
    ] = 16,
    batch_tokens: BatchTokens = 4096,
    seed: Seed = 0,
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FILE", help="Keep the sums here, and go on from them.")
    ] = None,
    per_pair: Annotated[
        Path | None, typer.Option("--per-pair", metavar="FILE.parquet", help="Write every pair's scores as well.")
    ] = None,
    from_file: Annotated[
        Path | None, typer.Option("--from", metavar="FILE.parquet", help="Rank by what --per-pair wrote.")
    ] = None,
    format: FormatOption = None,
    csv: Csv = False,
    output: Output = None,
) -> None:
    """Rank heads for patterns over many pairs; without --pairs, over those that come along."""
    with _reported():
        if from_file is not None and (pairs or model or state or per_pair):
            raise typer.BadParameter("--from needs no pairs and no model, and has nothing to keep")
        if per_pair is not None and state is not None:
            raise typer.BadParameter("--per-pair is written whole, and so cannot go on from a --state")
        destination = _destination(format, csv, output)
        chosen = [each for each in PATTERNS if not pattern or each.id in pattern]
        options = ScanOptions(
            model=model,
            device=device,
            dtype=dtype,
            unit=unit,
            related=not no_related,
            on_long=on_long,
            batch_tokens=batch_tokens,
            predictive=predictive,
            predictive_words=predictive_words,
            predictive_pairs=predictive_pairs,
            seed=seed,
            patterns=tuple(chosen),
        )
        for path in (state, per_pair):
            if path is not None:
                check_writable(path)
        if from_file is not None:
            from attnscan.per_pair import rank_file

            result, interrupted = rank_file(from_file), False
        else:
            files = _Files(pairs or [], columns.split(",") if columns else None, skip_bad, state, per_pair)
            result, interrupted = _scan(options, files)
        names = [name for name in pattern or [each.id for each in chosen] if name in result.scores.patterns]
        shown = top or (10 if pattern else 5)

        def view(width: int) -> RenderableType:
            from attnscan.views.terminal import ranking_view

            return ranking_view(result, names, shown, width, without_delimiters)

        destination.emit(lambda: result.to_frame(names, top, without_delimiters=without_delimiters), view)
        if interrupted:
            raise typer.Exit(130)


@app.command(epilog='Example: attnscan predictive "I went to the store." --csv > predictive.csv')
def predictive(
    a: Annotated[str, typer.Argument(metavar="A", help="Sentence A.")],
    b: SentenceB = None,
    model: Model = None,
    unit: UnitOption = "token",
    truncate: Truncate = False,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    measure: PredictiveOption = "auto",
    words: PredictiveWords = 32,
    batch_tokens: BatchTokens = 4096,
    format: FormatOption = None,
    csv: Csv = False,
    output: Output = None,
) -> None:
    """Say which words of one input help the model to predict which."""
    with _reported():
        from attnscan.pairs import Pair
        from attnscan.sources import choose

        destination = _destination(format, csv, output)
        options = ScanOptions(
            model=model,
            unit=unit,
            on_long="truncate" if truncate else "error",
            device=device,
            dtype=dtype,
            predictive=measure,
            predictive_words=words,
            batch_tokens=batch_tokens,
        )
        pair, source = Pair(a, b), choose(model)
        _say(source.note)
        from attnscan.classify import dependencies
        from attnscan.views.terminal import dependencies_view

        with _progress("hidden sequences") as report:
            result = dependencies(pair, options, source, report)
        _say_if_cut(result.signature, len(result.units))
        destination.emit(result.to_frame, lambda width: dependencies_view(result, width))


@app.command()
def patterns() -> None:
    """Show the seven patterns and what each counts. No model is needed."""
    with _reported():
        from attnscan.views.text import patterns_text

        write_stdout(encoded(patterns_text()))


@app.command()
def models(format: FormatOption = None, csv: Csv = False, output: Output = None) -> None:
    """Show which models can run now: bundled, cached, reachable."""
    with _reported():
        from attnscan.catalog import Catalog
        from attnscan.views.terminal import models_view

        catalog = Catalog.now()

        def frame() -> pd.DataFrame:
            import pandas as pd

            entries = pd.DataFrame([asdict(entry) for entry in catalog.entries])
            return entries.astype({"layers": "Int64", "heads": "Int64"})  # whole numbers, even where one is unknown

        _destination(format, csv, output).emit(frame, lambda _: models_view(catalog))


@dataclass(frozen=True)
class _Files:
    """The files of a scan: what to read, and what to keep."""

    pairs: list[str]
    columns: list[str] | None
    skip_bad: bool
    state: Path | None
    per_pair: Path | None


def _scan(options: ScanOptions, files: _Files) -> tuple[Ranking, bool]:
    """Scan all pairs, or those up to Ctrl-C. Returns the ranking, and whether it was interrupted."""
    from attnscan.pairs import read_pairs, shipped_pairs
    from attnscan.sources import choose

    bad = 0

    def note_bad(error: AttnscanError) -> None:
        nonlocal bad
        bad += 1
        if bad <= 3:
            _say(f"skipped: {error}")

    on_bad = note_bad if files.skip_bad else None
    records = read_pairs(files.pairs, files.columns, on_bad) if files.pairs else shipped_pairs()
    source = choose(options.model)
    _say(source.note)
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
            with _counter("pairs") as count:
                for after in scan(scanner, rest, state, on_bad, on_pairs):
                    state = after
                    count(state.seen.read)
                    if files.state is not None and time.monotonic() - saved > _SAVE_EVERY:
                        save_state(files.state, state, scanner)
                        saved = time.monotonic()
        except KeyboardInterrupt:
            interrupted = True
            how = "the same command goes on from there" if files.state else "--state FILE would keep what is done"
            _say(f"interrupted after {state.seen.read} pairs; {how}")
        if files.state is not None:
            save_state(files.state, state, scanner)
        with _progress("pairs asked for predictive words") as report:
            result = state.finish(scanner, report, on_pairs, predictive=not interrupted)
        if writer is not None:
            writer.finish(result.signature, result.scores.grid)
        if scanner.read_by == "output_attentions":
            _say(_WITHOUT_TAP)
    _report_counts(result.signature, bad)
    return result, interrupted


def _per_pair(path: Path | None, options: ScanOptions) -> AbstractContextManager[PerPairWriter | None]:
    if path is None:
        return nullcontext()
    from attnscan.per_pair import PerPairWriter

    return PerPairWriter(path, [pattern.id for pattern in options.patterns])


def _report_counts(signature: Signature, bad: int) -> None:
    if bad:
        _say(f"{bad} bad records were skipped")
    if signature.pairs_truncated:
        _say(f"{signature.pairs_truncated} of {signature.pairs_read} inputs were cut to what the model reads")
    if signature.pairs_skipped:
        _say(f"{signature.pairs_skipped} of {signature.pairs_read} inputs were skipped")


def _score_file(path: Path, options: ScanOptions) -> Classification:
    from attnscan.weights import read_weights

    saved = read_weights(path)  # before torch: a bad file is answered at once
    from attnscan.classify import classify_weights

    return classify_weights(saved, path.name, options)


def _score_pair(a: str, b: str | None, options: ScanOptions, save_to: Path | None) -> Classification:
    from attnscan.pairs import Pair
    from attnscan.sources import choose

    pair = Pair(a, b)
    if save_to is not None:
        check_writable(save_to)
    source = choose(options.model)
    _say(source.note)
    from attnscan.classify import classify_and_keep

    with _progress("hidden sequences") as report:
        result, saved = classify_and_keep(pair, options, source, report)
    _say_if_cut(result.signature, len(saved.tokens))
    if result.signature.read_by == "output_attentions":
        _say(_WITHOUT_TAP)
    if save_to is not None:
        from attnscan.weights import write_weights

        write_file(save_to, write_weights(saved))
    return result


def _say_if_cut(signature: Signature, length: int) -> None:
    if signature.pairs_truncated:
        _say(f"the input was cut to the {length} tokens that the model reads")


def _destination(format: str | None, csv: bool, output: Path | None) -> Destination:
    if format is not None and format not in FORMATS:
        raise typer.BadParameter(f"no format '{format}': there are {', '.join(FORMATS)}")
    if csv and format not in (None, "csv"):
        raise typer.BadParameter(f"--csv and --format {format} contradict each other")
    asked = "csv" if csv else format
    return Destination(asked if asked else format_of(output) if output else "table", output)


@contextmanager
def _reported() -> Iterator[None]:
    """Errors that a user can mend become one line on standard error and exit code 1."""
    try:
        yield
    except AttnscanError as error:
        _say(str(error))
        raise typer.Exit(1) from None
    except BrokenPipeError:
        # The reader has what it wanted. Standard output must not be flushed once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        _say("interrupted")
        raise typer.Exit(130) from None


@contextmanager
def _counter(what: str) -> Iterator[Callable[[int], None]]:
    """How many are done and how fast, on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.status import Status

    start = time.monotonic()
    with Status(f"reading {what}", console=Console(stderr=True)) as status:

        def count(done: int) -> None:
            status.update(f"{done:,} {what}, {done / (time.monotonic() - start):,.1f} a second")

        yield count


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on standard error if that is a terminal; it comes with the first report, which says how much there is."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        tasks: list[TaskID] = []

        def report(done: int, total: int) -> None:
            if not tasks:
                tasks.append(bar.add_task(f"{total} {what}", total=total))
            bar.update(tasks[0], completed=done)

        yield report


def _say(line: str) -> None:
    if line:
        typer.echo(f"attnscan: {line}", err=True)

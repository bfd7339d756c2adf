"""The command line: parse, call, print. Nothing is computed here, and torch is imported only to compute."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import attnscan
from attnscan.errors import AttnscanError
from attnscan.options import THRESHOLD, Device, Dtype, Predictive, ScanOptions, Unit
from attnscan.output import FORMATS, Destination, check_writable, format_of, write_file, write_stdout
from attnscan.patterns import PATTERNS

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType
    from rich.progress import TaskID

    from attnscan.results import Classification, Signature

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
    without_delimiters: Annotated[
        bool, typer.Option("--without-delimiters", help="Leave weights on special tokens out of the scores.")
    ] = False,
    unit: UnitOption = "token",
    no_related: Annotated[
        bool, typer.Option("--no-related", help="Count identical words only, not related ones.")
    ] = False,
    truncate: Truncate = False,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    predictive: PredictiveOption = "auto",
    predictive_words: PredictiveWords = 32,
    batch_tokens: BatchTokens = 4096,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="For everything drawn at random.")] = 0,
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
        destination = _destination(format, csv, output)
        options = ScanOptions(
            model=model,
            device=device,
            dtype=dtype,
            unit=unit,
            related=not no_related,
            truncate=truncate,
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
            truncate=truncate,
            device=device,
            dtype=dtype,
            predictive=measure,
            predictive_words=words,
            batch_tokens=batch_tokens,
        )
        pair, source = Pair(a, b), choose(model)
        _say(source.note)
        from attnscan.engine import dependencies
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

        write_stdout(patterns_text().encode(sys.stdout.encoding or "utf-8", errors="backslashreplace"))


@app.command()
def models(format: FormatOption = None, csv: Csv = False, output: Output = None) -> None:
    """Show which models can run now: bundled, cached, reachable."""
    with _reported():
        from attnscan.catalog import Catalog
        from attnscan.views.terminal import models_view

        catalog = Catalog.now()

        def frame() -> pd.DataFrame:
            import pandas as pd

            return pd.DataFrame([asdict(entry) for entry in catalog.entries])

        _destination(format, csv, output).emit(frame, lambda _: models_view(catalog))


def _score_file(path: Path, options: ScanOptions) -> Classification:
    from attnscan.weights import read_weights

    saved = read_weights(path)  # before torch: a bad file is answered at once
    from attnscan.engine import classify_weights

    return classify_weights(saved, path.name, options)


def _score_pair(a: str, b: str | None, options: ScanOptions, save_to: Path | None) -> Classification:
    from attnscan.pairs import Pair
    from attnscan.sources import choose

    pair = Pair(a, b)
    if save_to is not None:
        check_writable(save_to)
    source = choose(options.model)
    _say(source.note)
    from attnscan.engine import classify_and_keep

    with _progress("hidden sequences") as report:
        result, saved = classify_and_keep(pair, options, source, report)
    _say_if_cut(result.signature, len(saved.tokens))
    if result.signature.read_by == "output_attentions":
        _say("this architecture has no tap: read by output_attentions, with the weights of all layers in memory")
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

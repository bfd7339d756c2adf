"""The command line: parse, call, print. Nothing is computed here, and torch is imported only to compute."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import attnscan
from attnscan.errors import AttnscanError
from attnscan.options import THRESHOLD, Device, Dtype, ScanOptions, Unit
from attnscan.output import FORMATS, Destination, check_writable, format_of, write_file, write_stdout
from attnscan.patterns import PATTERNS

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from attnscan.results import Classification

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
Csv = Annotated[bool, typer.Option("--csv", help="Short for --format csv.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to FILE, in the format of its suffix.")
]


@app.command(epilog='Example: attnscan classify "The cat sat on the mat." "The cat lay on the rug." --csv > heads.csv')
def classify(
    a: Annotated[str | None, typer.Argument(metavar="A", help="Sentence A.", show_default=False)] = None,
    b: Annotated[str | None, typer.Argument(metavar="[B]", help="Sentence B.", show_default=False)] = None,
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
    unit: Annotated[Unit, typer.Option(help="Score tokens, or words with their pieces merged.")] = "token",
    no_related: Annotated[
        bool, typer.Option("--no-related", help="Count identical words only, not related ones.")
    ] = False,
    truncate: Annotated[bool, typer.Option("--truncate", help="Cut an input that is too long for the model.")] = False,
    device: Annotated[Device, typer.Option(help="Where to run the model.")] = "auto",
    dtype: Annotated[Dtype, typer.Option(help="Number format of the model; float32 on a CPU.")] = "auto",
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

    result, saved = classify_and_keep(pair, options, source)
    if result.signature.pairs_truncated:
        _say(f"the input was cut to the {len(saved.tokens)} tokens that the model reads")
    if result.signature.read_by == "output_attentions":
        _say("this architecture has no tap: read by output_attentions, with the weights of all layers in memory")
    if save_to is not None:
        from attnscan.weights import write_weights

        write_file(save_to, write_weights(saved))
    return result


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


def _say(line: str) -> None:
    if line:
        typer.echo(f"attnscan: {line}", err=True)

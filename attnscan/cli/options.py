"""What the commands take: the options that several share, each named, typed and explained once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from attnscan.cli import completion
from attnscan.cli.destination import (
    FORMATS,
    PICTURES,
    Destination,
    check_pictures_can_be_drawn,
    format_of,
    picture_format_of,
)
from attnscan.errors import nearest
from attnscan.inputs.tokens import Unit
from attnscan.model.sources import Device, Dtype
from attnscan.scan.options import ClusterOptions, Engine, OnLong, Predictive
from attnscan.scoring.patterns import PATTERNS


def _pattern_name(name: str | None) -> str | None:
    return None if name is None else _pattern_names([name])[0]


def _pattern_names(names: list[str] | None) -> list[str]:
    known = [pattern.id for pattern in PATTERNS]
    for name in names or ():
        if name not in known:
            hint = nearest(name, known, f"there are {', '.join(known)}")
            raise typer.BadParameter(f"no pattern '{name}': {hint}")
    return list(dict.fromkeys(names or ()))


Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME",
        autocompletion=completion.models,
        help="A hub id, a directory, or 'bundled'. "
        "[default: $ATTNSCAN_MODEL, else bert-base-uncased, else the bundled model]",
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option("--weights", metavar="FILE.npz", help="Take saved attention weights instead of a model's."),
]
Patterns = Annotated[
    list[str] | None,
    typer.Option(
        "--pattern",
        "-p",
        metavar="PATTERN",
        callback=_pattern_names,
        autocompletion=completion.patterns,
        help="Show this pattern only. May be repeated.",
    ),
]
OnePattern = Annotated[
    str | None,
    typer.Option(
        "--pattern",
        "-p",
        metavar="PATTERN",
        callback=_pattern_name,
        autocompletion=completion.patterns,
        help="Explain this one. [default: each head's own]",
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        autocompletion=completion.formats,
        help="table, csv, tsv, json, jsonl, markdown or parquet.",
    ),
]
SentenceA = Annotated[str | None, typer.Argument(metavar="A", help="Sentence A.", show_default=False)]
SentenceB = Annotated[str | None, typer.Argument(metavar="B", help="Sentence B.", show_default=False)]
UnitOption = Annotated[Unit, typer.Option("--unit", help="Score tokens, or words with their pieces merged.")]
NoRelated = Annotated[bool, typer.Option("--no-related", help="Count identical words only, not related ones.")]
WithoutDelimiters = Annotated[
    bool, typer.Option("--without-delimiters", help="Leave weights on special tokens out of the scores.")
]
Threshold = Annotated[
    float,
    typer.Option("--threshold", metavar="X", min=0, max=1, help="How far above chance a label's pattern must be."),
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
BatchTokens = Annotated[
    int | None,
    typer.Option(
        "--batch-tokens", metavar="N", min=1, help="How many tokens a batch may hold. [default: by device and memory]"
    ),
]
Pairs = Annotated[
    list[str] | None,
    typer.Option("--pairs", metavar="FILE", help="CSV, TSV, JSONL or Parquet, '-' for stdin; may be repeated."),
]
Columns = Annotated[str | None, typer.Option("--columns", metavar="A[,B]", help="The columns that hold the sentences.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Count and report bad records, do not stop.")]
OnLongOption = Annotated[OnLong, typer.Option("--on-long", help="What to do with inputs too long to read.")]
Token = Annotated[
    str | None,
    typer.Option("--token", metavar="T", help="One query: a token's text, store#2 for the second, or its index."),
]
Queries = Annotated[
    int, typer.Option("--queries", metavar="N", min=1, help="How many words of an input to compare attention by.")
]
EngineOption = Annotated[Engine, typer.Option("--engine", help="Run here, or on the machines of a Ray cluster.")]
RayAddress = Annotated[
    str | None,
    typer.Option("--ray-address", metavar="ADDRESS", help="Of the cluster, or 'auto'. [default: one started here]"),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", min=1, help="Of the cluster's. [default: one a GPU or a share of CPUs]"),
]
WorkerCpus = Annotated[
    int | None, typer.Option("--worker-cpus", metavar="N", min=1, help="CPU cores of a worker. [default: 1]")
]
BlockPairs = Annotated[
    int | None,
    typer.Option("--block-pairs", metavar="N", min=1, help="Pairs a worker takes at a time. [default: 1024]"),
]
Csv = Annotated[bool, typer.Option("--csv", help="Short for --format csv.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to FILE, in the format of its suffix.")
]


def cluster_of(
    engine: Engine, address: str | None, workers: int | None, worker_cpus: int | None, block_pairs: int | None
) -> ClusterOptions | None:
    """The cluster to run on; None for this machine alone. Raises: typer.BadParameter if one is described in vain."""
    asked = {"address": address, "workers": workers, "worker_cpus": worker_cpus, "block_pairs": block_pairs}
    given = {name: value for name, value in asked.items() if value is not None}
    if engine == "ray":
        return ClusterOptions(**given)  # type: ignore[arg-type]
    if given:
        name = "ray-address" if "address" in given else next(iter(given)).replace("_", "-")
        raise typer.BadParameter(f"--{name} is for --engine ray")
    return None


def check_input(a: str | None, weights: Path | None, model: str | None) -> None:
    """Raises: typer.BadParameter if the input is not either a sentence or a file of saved weights."""
    if (a is None) == (weights is None):
        raise typer.BadParameter("give a sentence, or two, or --weights FILE.npz, but not both")
    if weights is not None and model is not None:
        raise typer.BadParameter("--weights needs no model")


def check_apart(written: Sequence[Path | None], read: Sequence[Path | str | None] = ()) -> None:
    """Raises: typer.BadParameter if a file that is to be written is named for something else, too."""
    others = [os.path.realpath(path) for path in read if path is not None]
    for path in written:
        if path is not None and (place := os.path.realpath(path)) != os.path.realpath(os.devnull):
            if place in others:
                raise typer.BadParameter(f"{path} is named twice, and would be overwritten")
            others.append(place)


def destination_of(format: str | None, csv: bool, output: Path | None, *, draws: bool = False) -> Destination:
    """Where the result goes, by --format, --csv and --output; as a picture, if the command draws, by its suffix.

    Raises: typer.BadParameter if they contradict each other; OutputError.
    """
    if format is not None and format not in FORMATS:
        hint = nearest(format, FORMATS, f"there are {', '.join(FORMATS)}")
        raise typer.BadParameter(f"no format '{format}': {hint}")
    if csv and format not in (None, "csv"):
        raise typer.BadParameter(f"--csv and --format {format} contradict each other")
    asked = "csv" if csv else format
    if draws and asked is None and output is not None and output.suffix.lower().removeprefix(".") in PICTURES:
        check_pictures_can_be_drawn()
        return Destination(picture_format_of(output), output)
    return Destination(asked if asked else format_of(output) if output else "table", output)

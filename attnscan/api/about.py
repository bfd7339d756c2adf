"""Python functions to look things up: patterns, models that can run, what a checkpoint is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from attnscan.api.open_model import ModelRequest, open_models
from attnscan.api.option_groups import DEVICE, SOURCE_LANGUAGE
from attnscan.api.options import scan_options
from attnscan.api.signatures import library_function
from attnscan.inputs.option import Option
from attnscan.model.sources import Catalog, Device
from attnscan.results.lazy import pd
from attnscan.results.schemas import Column, Table
from attnscan.scan.options import OnProgress, progress_of
from attnscan.scoring.patterns import SHIPPED, chosen
from attnscan.views.palette import check_no_habits

if TYPE_CHECKING:
    from attnscan.results.card import Checkpoint


PATTERNS_TABLE = Table(
    "patterns",
    "a pattern",
    (
        Column("letter", "its letter on maps", "text", is_key=True),
        Column("pattern", "its name", "text", is_key=True),
        Column("counts", "what the score counts", "text"),
        Column("queries", "which words are asked", "text"),
        Column("keys", "which tokens they should look at", "text"),
        Column("source", "where the pattern comes from", "text"),
    ),
    is_signed=False,
)


@library_function()
def patterns(
    name: Annotated[
        str | None, Option("Show this one.", metavar="PATTERN", is_argument=True)
    ] = None,
) -> pd.DataFrame:
    """The patterns, a row each, or one of them by its name or letter.

    A row says what a pattern counts, and of which queries and keys.

    Raises: OptionError if there is no such pattern.
    """
    check_no_habits([name])
    shown = SHIPPED if name is None else chosen(name, SHIPPED)
    columns = ["letter", "id", "counts", "queries", "keys", "source"]
    frame = pd.DataFrame(map(vars, shown))[columns].rename(columns={"id": "pattern"})
    frame.attrs["schema"] = PATTERNS_TABLE.id
    return frame


@library_function()
def models(
    checkpoint: Annotated[
        str | None,
        Option(
            "Examine this model: a hub id, a directory, or 'bundled'.",
            metavar="CHECKPOINT",
            is_argument=True,
        ),
    ] = None,
    *,
    device: Annotated[Device, DEVICE] = "auto",
    source_language: Annotated[str | None, SOURCE_LANGUAGE] = None,
    progress: OnProgress | None = None,
) -> Catalog | Checkpoint:
    """The models that can run now, or what a `checkpoint` is and what can be scored in it.

    Both have `to_frame()`.

    Raises: ModelError if the checkpoint cannot be loaded.
    """
    if checkpoint is None:
        progress_of(progress)("looking for models", None, None)
        return Catalog.now()
    named = {"model": checkpoint, "device": device, "source_language": source_language}
    _, checked = scan_options("models", named, many=True)
    request = ModelRequest(checkpoint, None, checked)
    with open_models([request], progress_of(progress)) as (scanner,):
        from attnscan.studies.checkpoint import examine

        scanner.tell("trying it on two sentences")
        return examine(scanner)

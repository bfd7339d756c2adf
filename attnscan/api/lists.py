"""What `import attnscan` offers to look up: the patterns, the models that can run now, and what a checkpoint is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnscan.api.arguments import library, scan_options
from attnscan.api.pairs import Callbacks
from attnscan.model.catalog import Catalog
from attnscan.model.sources import Device
from attnscan.results.checkpoint import Checkpoint
from attnscan.run.requests import Examine
from attnscan.scoring.patterns import PATTERNS, chosen, pattern_frame

if TYPE_CHECKING:
    import pandas as pd


@library()
def patterns(name: str | None = None) -> pd.DataFrame:
    """The seven patterns, a row each, or one of them by its name or letter: what it counts, of which queries and keys.

    Raises: OptionError if there is no such pattern.
    """
    return pattern_frame(PATTERNS if name is None else chosen(name))


@library()
def models(checkpoint: str | None = None, *, device: Device = "auto") -> Catalog | Checkpoint:
    """The models that can run now, or what a `checkpoint` is and what can be scored in it; both have `to_frame()`.

    Raises: ModelError if the checkpoint cannot be loaded.
    """
    if checkpoint is None:
        return Catalog.now()
    return Callbacks().answer(Examine(scan_options(checkpoint, {}, device=device)), Checkpoint)

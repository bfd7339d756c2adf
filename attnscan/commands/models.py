"""The command `attnscan models`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from attnscan.arguments import Csv, FormatOption, Output, destination_of
from attnscan.messages import reported

if TYPE_CHECKING:
    import pandas as pd


def models(format: FormatOption = None, csv: Csv = False, output: Output = None) -> None:
    """Show which models can run now: bundled, cached, reachable."""
    with reported():
        from attnscan.catalog import Catalog
        from attnscan.views.catalog import models_view

        catalog = Catalog.now()

        def frame() -> pd.DataFrame:
            import pandas as pd

            entries = pd.DataFrame([asdict(entry) for entry in catalog.entries])
            return entries.astype({"layers": "Int64", "heads": "Int64"})  # whole numbers, even where one is unknown

        destination_of(format, csv, output).emit(frame, lambda _: models_view(catalog))

"""Every pair's own scores as a cluster writes them: a directory, a part for each block, by Ray's own writer.

It is written beside its place, on a disk that all machines share, and gets its name when it is whole.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Any

from attnscan.errors import OutputError
from attnscan.results.ranking import Ranking
from attnscan.scan.cluster.blocks import row
from attnscan.scan.per_pair import finish_directory


class PairDirectory:
    """The directory, from the driver's side.

    Raises: OutputError if there is something by its name, or it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.expanduser().absolute()
        if os.path.lexists(self._path):
            raise OutputError(f"{path} is there already", "name a new directory for --per-pair")
        try:
            self.beside = Path(tempfile.mkdtemp(prefix=".attnscan-", dir=self._path.parent))
            """Where its parts are written."""
        except OSError as error:
            raise self._refused(error) from None

    def __enter__(self) -> PairDirectory:
        return self

    def finish(self, ranking: Ranking, parts: Collection[str]) -> None:
        """Add what the directory has to say of itself, and give it its name.

        Raises: OutputError.
        """
        try:
            finish_directory(self.beside, ranking, sorted(parts))
            self.beside.chmod(0o755)
            self.beside.rename(self._path)
        except OSError as error:
            raise self._refused(error) from None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        shutil.rmtree(self.beside, ignore_errors=True)

    def _refused(self, error: OSError) -> OutputError:
        return OutputError(f"cannot write {self._path}: {error.strerror or error}", "choose another place")


def write_part(batch: dict[str, Any], directory: str) -> dict[str, Any]:
    """Write one block's rows, and hand on the rest: rows of `found`, `part` and `tables` become rows of `found`.

    Runs on the machines of the cluster. Where the rows cannot be written, an OutputError stands in the place of what
    was found.
    """
    if part := str(batch["part"][0]):
        import pyarrow
        import ray.data

        ray.data.DataContext.get_current().enable_progress_bars = False
        rows = pyarrow.concat_tables(pickle.loads(batch["tables"][0]))
        try:
            # A part that is written again, after its machine died, takes the place of what there is of it
            ray.data.from_arrow(rows).write_parquet(
                f"{directory}/{part}", mode=ray.data.SaveMode.OVERWRITE, ray_remote_args={"num_cpus": 0}
            )
        except OSError as error:
            why = str(error).splitlines()[-1][:200]
            return row("found", OutputError(f"cannot write in {Path(directory).parent}: {why}", "free some space"))
    return {"found": batch["found"]}

"""Every pair's own scores as a cluster writes them: a directory, a part for each block, by Ray's own writer.

It is written beside its place, on a disk that all machines share, and gets its name when it is whole.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
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
            self._beside = Path(tempfile.mkdtemp(prefix=".attnscan-", dir=self._path.parent))
        except OSError as error:
            raise self._refused(error) from None
        self.parts = Parts(str(self._beside))

    def __enter__(self) -> PairDirectory:
        return self

    def finish(self, ranking: Ranking, parts: Collection[str]) -> None:
        """Add what the directory has to say of itself, and give it its name.

        Raises: OutputError.
        """
        scores = ranking.scores
        try:
            finish_directory(self._beside, ranking.signature, scores.patterns, scores.grid, sorted(parts))
            self._beside.chmod(0o755)
            self._beside.rename(self._path)
        except OSError as error:
            raise self._refused(error) from None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        shutil.rmtree(self._beside, ignore_errors=True)

    def _refused(self, error: OSError) -> OutputError:
        return OutputError(f"cannot write {self._path}: {error.strerror or error}", "choose another place")


@dataclass(frozen=True)
class Parts:
    """The same from the side of the machines that write it."""

    directory: str

    def write(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Write one block's rows, and hand on the rest: rows of `found`, `part` and `tables` become rows of `found`.

        Where they cannot be written, an OutputError stands in the place of what was found.
        """
        try:
            self._write(str(batch["part"][0]), pickle.loads(batch["tables"][0]))
        except OSError as error:
            why = str(error).splitlines()[-1][:200]
            return row("found", OutputError(f"cannot write in {Path(self.directory).parent}: {why}", "free some space"))
        return {"found": batch["found"]}

    def _write(self, part: str, tables: Sequence[Any]) -> None:
        if not part:
            return
        import pyarrow
        import ray.data

        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        # A part that is written again, after its machine died, takes the place of what there is of it
        ray.data.from_arrow(pyarrow.concat_tables(tables)).write_parquet(
            f"{self.directory}/{part}", mode=ray.data.SaveMode.OVERWRITE, ray_remote_args={"num_cpus": 0}
        )

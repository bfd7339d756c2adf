"""What a model has said of predictive words before, so that it is not asked again.

An answer is found by a hash of all that decides it: weights and config as they are now, and what was asked. A model in
memory is asked each time, as is one that was loaded by its name and then given other modules or hooks. Answers are kept
in the user's cache, without any text.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import torch

from attnscan.errors import OutputError
from attnscan.hashing import hashed
from attnscan.model.fingerprint import fingerprint, of_modules
from attnscan.model.loaded import LoadedModel
from attnscan.results.dependencies import Help
from attnscan.results.files import write_file
from attnscan.results.terms import HelpMeasure
from attnscan.scoring.predictive import Questions

VERSION = 1
"""Of what the numbers mean, and of how they are found: raise it when either changes."""
_WORTH = 1 << 15  # tokens: to ask fewer takes a GPU less time than to hash the model
_OFF = ("off", "0", "no", "false")


@dataclass(frozen=True)
class Answers:
    """What a model has said, by one measure: a file for each answer. Any number of processes may share them."""

    origin: str = ""
    """A hash of the model, the measure and what computes: versions, the device, how products are rounded."""
    place: Path | None = None
    """Their directory, made when something is kept; None to keep nothing."""
    most_bytes: int = 64 << 20
    """How much it may hold once it is pruned; what was used last stays."""

    @classmethod
    def of(cls, loaded: LoadedModel, measure: HelpMeasure) -> Answers:
        """The answers of a model as it is now; none if $ATTNSCAN_CACHE is `off`."""
        import transformers

        if (place := cache_directory()) is None or not _is_as_loaded(loaded):
            return cls()
        parts = (
            *(str(VERSION), str(fingerprint(loaded.whole, loaded.tokenizer)), measure),
            *(str(torch.__version__), str(transformers.__version__)),
            *(loaded.device.type, torch.get_float32_matmul_precision()),
        )
        return cls(hashed(*(part.encode() for part in parts)), place / "predictive")

    def get(self, questions: Questions, measure: HelpMeasure) -> Help | None:
        """What was said to these questions; None if they have to be asked."""
        if self.place is None:
            return None
        path = self._path(questions)
        values = np.full((cells := questions.cells).shape, np.nan)
        with suppress(Exception):  # of many kinds, by what is damaged
            with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as arrays:  # which checks a CRC
                values[cells] = numbers = arrays[path.stem]
            if np.isfinite(numbers).all():
                os.utime(path)
                return questions.help(values, measure)
        return None

    def put(self, questions: Questions, answer: Help) -> None:
        """Keep an answer if it can be kept: a file appears whole, or not at all."""
        if self.place is None or not questions.count:
            return
        path = self._path(questions)
        np.savez(content := BytesIO(), allow_pickle=False, **{path.stem: answer.values[questions.cells]})
        with suppress(OSError, ValueError, OutputError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_file(path, content.getvalue())

    def prune(self) -> None:
        """Remove what has not been used for longest, as far as it is too much. Files of others stay."""
        kept: list[tuple[float, int, Path]] = []
        with suppress(OSError, ValueError):  # of a place that cannot be
            for path in self.place.glob("?" * 64 + ".npz") if self.place is not None else ():
                with suppress(OSError):  # another process has removed it
                    kept.append(((about := path.stat()).st_mtime, about.st_size, path))
        total = sum(size for _, size, _ in kept)
        for _, size, path in sorted(kept):
            if total > self.most_bytes:
                with suppress(OSError):
                    path.unlink()
                total -= size

    def _path(self, questions: Questions) -> Path:
        assert self.place is not None
        return self.place / f"{hashed(self.origin.encode(), questions.digest.encode())}.npz"


def _is_as_loaded(loaded: LoadedModel) -> bool:
    """Whether a model was loaded by its name, and nobody has since given it modules, functions or hooks."""
    return (
        loaded.given is None
        and of_modules(loaded.whole) == loaded.modules
        and not torch.nn.modules.module._has_any_global_hook()  # type: ignore[no-untyped-call]
        and all(_runs_its_own_code(module) for module in loaded.whole.modules())
    )


def _runs_its_own_code(module: torch.nn.Module) -> bool:
    """Whether a module is in evaluation mode, with its class's `forward` and no hooks but transformers' own."""
    hooks = (*module._forward_pre_hooks.values(), *module._forward_hooks.values())
    own = all(str(getattr(hook, "__module__", "")).startswith("transformers.") for hook in hooks)
    return own and not module.training and "forward" not in vars(module)


def worth_keeping(loaded: LoadedModel, inputs: Sequence[Questions]) -> bool:
    """Whether it takes longer to ask than to look up."""
    return loaded.device.type == "cpu" or sum(questions.count * questions.length for questions in inputs) >= _WORTH


def cache_directory(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path | None:
    """Where attnscan keeps what it found: $ATTNSCAN_CACHE, or `attnscan` in the system's place for caches.

    None if $ATTNSCAN_CACHE is `off`, or there is no home directory.
    """
    asked = environment.get("ATTNSCAN_CACHE", "")
    if asked.lower() in _OFF:
        return None
    if asked:
        return Path(asked)
    xdg = environment.get("XDG_CACHE_HOME", "")
    if Path(xdg).is_absolute():  # the standard tells to ignore any other
        return Path(xdg) / "attnscan"
    try:
        if platform == "win32":
            return Path(environment.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "attnscan" / "cache"
        return Path.home() / ("Library/Caches" if platform == "darwin" else ".cache") / "attnscan"
    except RuntimeError:
        return None

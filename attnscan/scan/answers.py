"""What a model has said of predictive words before, so that it is not asked again.

An answer is found by a hash of all that decides it: the model as it is now, and what was asked. A model in memory is
asked each time. Answers are kept in the user's cache, without any text.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from torch import nn

from attnscan.errors import OutputError
from attnscan.hashing import hashed
from attnscan.model.fingerprint import fingerprint, short
from attnscan.model.loaded import LoadedModel
from attnscan.results.dependencies import Help
from attnscan.results.files import write_file
from attnscan.results.terms import HelpMeasure
from attnscan.scoring.predictive import Questions

VERSION = 1
"""Of what the numbers mean, and of how they are found: raise it when either changes."""


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
        """The answers of a model as it is now; none of one that a program holds or changed, or without a cache."""
        import transformers

        if (place := cache_directory()) is None or loaded.given is not None or _runs_other_code(loaded.whole):
            return cls()
        parts = (
            *(str(VERSION), short(fingerprint(loaded.whole, loaded.tokenizer)), measure),
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
        if self.place is None or not questions.hidden:
            return
        path = self._path(questions)
        np.savez(content := BytesIO(), allow_pickle=False, **{path.stem: answer.values[questions.cells]})
        with suppress(OSError, ValueError, OutputError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_file(path, content.getvalue())

    def prune(self) -> None:
        """Remove what has not been used for longest, as far as it is too much. Files of others stay."""
        with suppress(OSError, ValueError):  # of a place that cannot be; another process may have removed a file
            files = [] if self.place is None else [*self.place.glob("?" * 64 + ".npz")]
            kept = [((about := path.stat()).st_mtime, about.st_size, path) for path in files]
            total = sum(size for _, size, _ in kept)
            for _, size, path in sorted(kept):
                if total > self.most_bytes:
                    path.unlink(missing_ok=True)
                    total -= size

    def _path(self, questions: Questions) -> Path:
        assert self.place is not None
        return self.place / f"{hashed(self.origin.encode(), questions.digest.encode())}.npz"


def _runs_other_code(model: nn.Module) -> bool:
    """Whether somebody gave a loaded model's modules hooks or another `forward`, which no fingerprint sees."""
    hooks = [
        hook
        for module in model.modules()
        for hook in (*module._forward_hooks.values(), *module._forward_pre_hooks.values())
    ]
    given = any(not (getattr(hook, "__module__", None) or "").startswith("transformers.") for hook in hooks)
    return given or any("forward" in vars(module) for module in model.modules())


def cache_directory(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path | None:
    """Where attnscan keeps what it found: $ATTNSCAN_CACHE, or `attnscan` in the system's place for caches.

    None if $ATTNSCAN_CACHE is `off`, or there is no home directory.
    """
    asked, xdg = environment.get("ATTNSCAN_CACHE", ""), environment.get("XDG_CACHE_HOME", "")
    if asked:
        return None if asked.lower() == "off" else Path(asked)
    if Path(xdg).is_absolute():  # the standard tells to ignore any other
        return Path(xdg) / "attnscan"
    with suppress(RuntimeError):
        if platform == "win32":
            return Path(environment.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "attnscan" / "cache"
        return Path.home() / ("Library/Caches" if platform == "darwin" else ".cache") / "attnscan"
    return None

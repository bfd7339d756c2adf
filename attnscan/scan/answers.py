"""What a model has said of predictive words before, so that it is not asked again.

An answer is found by a hash of all that decides it: weights and config as they are now, and what was asked. A model in
memory is asked each time, as is one that was loaded by its name and then given other modules or hooks. Answers are kept
in the user's cache, without any text.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from attnscan.hashing import hashed
from attnscan.model.fingerprint import of_modules, of_numbers
from attnscan.model.loaded import LoadedModel
from attnscan.results.dependencies import Help
from attnscan.results.files import begun, settle
from attnscan.results.terms import HelpMeasure
from attnscan.scoring.predictive import Questions

VERSION = 1
"""Of what the numbers mean, and of how they are found: raise it when either changes."""
_WORTH = 1 << 15  # tokens: to ask fewer takes a GPU less time than to hash the model
_OFF = ("off", "0", "no", "false")
_NAME = re.compile(r"[0-9a-f]{64}\.npz$|\.[0-9a-f]{50}\.")  # of a file that is whole, or was begun


@dataclass(frozen=True)
class Answers:
    """What a model has said, by one measure."""

    origin: str | None
    """A hash of the model and the measure; None if nothing may be kept of it."""
    computed_by: str = ""
    """What else decides the numbers: versions, the device, how products are rounded."""
    cache: Cache = field(default_factory=lambda: Cache(None))

    @classmethod
    def of(cls, loaded: LoadedModel, measure: HelpMeasure) -> Answers:
        """The answers of a model as it is now; none if $ATTNSCAN_CACHE is `off`."""
        import transformers

        if switched_off() or not _is_as_loaded(loaded):
            return cls(None)
        device, place, precision = loaded.device.type, cache_directory(), torch.get_float32_matmul_precision()
        parts = str(VERSION), of_numbers(loaded.whole), measure, str(loaded.tokenizer.mask_token_id)
        return cls(
            hashed(*(part.encode() for part in parts)),
            " ".join((str(torch.__version__), str(transformers.__version__), device, precision)),
            cache=Cache(place and place / "predictive"),
        )

    def get(self, questions: Questions, measure: HelpMeasure) -> Help | None:
        """What was said to these questions; None if they have to be asked."""
        if self.origin is None:
            return None
        cells = questions.cells
        numbers = self.cache.get(self._key(questions), int(cells.sum()))
        if numbers is None:
            return None
        values = np.full(cells.shape, np.nan)
        values[cells] = numbers
        return questions.help(values, measure)

    def put(self, questions: Questions, answer: Help) -> None:
        """Keep an answer."""
        if self.origin is not None and questions.count:
            self.cache.put(self._key(questions), answer.values[questions.cells])

    def _key(self, questions: Questions) -> str:
        return hashed(str(self.origin).encode(), self.computed_by.encode(), questions.digest.encode())


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


@dataclass(frozen=True)
class Cache:
    """Arrays of numbers, a file each, found by a hash. Any number of processes may share it."""

    place: Path | None
    """Its directory, made when something is kept; None to keep nothing."""
    most_bytes: int = 64 << 20
    """How much it may hold once it is pruned; what was used last stays."""

    def get(self, key: str, count: int) -> NDArray[np.float64] | None:
        """So many finite numbers that were kept under a key, a hash in hexadecimal; None if there are no such."""
        if self.place is None:
            return None
        path = self.place / f"{key}.npz"
        with suppress(Exception):  # of many kinds, by what is damaged
            if not path.is_file():  # a pipe would keep a reader waiting
                return None
            with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as arrays:  # which checks a CRC
                numbers: NDArray[np.float64] = arrays[key]
            if numbers.dtype == np.float64 and numbers.shape == (count,) and np.isfinite(numbers).all():
                os.utime(path)
                return numbers
        return None

    def put(self, key: str, numbers: NDArray[np.float64]) -> None:
        """Keep numbers under a key if they can be kept: a file appears whole, or not at all."""
        if self.place is None:
            return
        np.savez(content := BytesIO(), allow_pickle=False, **{key: numbers})
        with suppress(OSError, ValueError):
            self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
            beside = begun(path := self.place / f"{key}.npz")
            try:
                beside.write_bytes(content.getvalue())
                settle(beside, path)
            finally:
                beside.unlink(missing_ok=True)

    def prune(self) -> None:
        """Remove what has not been used for longest, as far as it is too much, also what was begun and never ended.

        Files that the cache has not made stay.
        """
        kept: list[tuple[float, int, Path]] = []
        with suppress(OSError, ValueError):
            for path in self.place.iterdir() if self.place else ():
                with suppress(OSError):
                    if _NAME.match(path.name):
                        kept.append(((about := path.lstat()).st_mtime, about.st_size, path))
        total = sum(size for _, size, _ in kept)
        for _, size, path in sorted(kept):
            if total <= self.most_bytes:
                return
            with suppress(OSError):
                path.unlink()
            total -= size


def switched_off(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether $ATTNSCAN_CACHE says that nothing is to be kept or looked up."""
    return environment.get("ATTNSCAN_CACHE", "").lower() in _OFF


def cache_directory(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path | None:
    """Where attnscan keeps what it found: $ATTNSCAN_CACHE, or `attnscan` in the system's place for caches.

    None if that is switched off, or there is no home directory.
    """
    if switched_off(environment):
        return None
    if asked := environment.get("ATTNSCAN_CACHE"):
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

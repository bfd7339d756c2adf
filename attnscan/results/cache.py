"""What is kept from run to run in the user's cache directory: numbers by a hash of all that decides them.

Nothing rests on it: the directory may be deleted at any time, and where it cannot be written nothing is kept. What is
read counts only if it is whole; whatever else lies there is as good as nothing, and is written anew.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_OFF = ("off", "0", "no", "false")
_NUMBERS = np.dtype("<f8")
_DIGEST = hashlib.sha256().digest_size
_NAME = re.compile(r"[0-9a-f]{64}\.numbers")
_BEGUN = re.compile(r"begun-.*\.numbers")
_ABANDONED = 3600.0  # seconds: a file that was begun before that will not be ended


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
        path = self.place / f"{key}.numbers"
        with suppress(OSError, ValueError):
            content = _read(path, _DIGEST + count * _NUMBERS.itemsize)
            if content is not None and content[:_DIGEST] == _digest(key, content[_DIGEST:]):
                numbers = np.frombuffer(content[_DIGEST:], _NUMBERS).astype(np.float64)
                if np.isfinite(numbers).all():
                    with suppress(OSError):
                        os.utime(path)
                    return numbers
        return None

    def put(self, key: str, numbers: NDArray[np.float64]) -> None:
        """Keep numbers under a key if they can be kept: a file appears whole, or not at all."""
        if self.place is None:
            return
        import tempfile

        content = numbers.astype(_NUMBERS).tobytes()
        with suppress(OSError, ValueError, RuntimeError):
            self.place.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, beside = tempfile.mkstemp(".numbers", "begun-", self.place)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_digest(key, content) + content)
                Path(beside).replace(self.place / f"{key}.numbers")  # a link there is replaced, not followed
            finally:
                Path(beside).unlink(missing_ok=True)

    def prune(self) -> None:
        """Remove what has not been used for longest, as far as it is too much, and what was never ended.

        Files that the cache has not made stay.
        """
        if self.place is None:
            return
        kept: list[tuple[float, int, str]] = []
        with suppress(OSError, ValueError), os.scandir(self.place) as entries:
            for entry in entries:
                with suppress(OSError):
                    about = entry.stat(follow_symlinks=False)
                    if _NAME.fullmatch(entry.name):
                        kept.append((about.st_mtime, about.st_size, entry.path))
                    elif _BEGUN.fullmatch(entry.name) and time.time() - about.st_mtime > _ABANDONED:
                        Path(entry.path).unlink()
        total = sum(size for _, size, _ in kept)
        for _, size, path in sorted(kept):
            if total <= self.most_bytes:
                return
            with suppress(OSError):
                Path(path).unlink()
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


def _read(path: Path, size: int) -> bytes | None:
    """A file's content if it is a plain file of that size; what would keep a reader waiting is not opened."""
    flags = (getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_CLOEXEC"))
    handle = os.open(path, os.O_RDONLY | sum(flags))
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(handle)
        return file.read(size) if stat.S_ISREG(about.st_mode) and about.st_size == size else None


def _digest(key: str, content: bytes) -> bytes:
    return hashlib.sha256(key.encode() + content).digest()

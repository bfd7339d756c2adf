"""Recognise names of open descriptors, such as `/dev/stdin`, which the shell opened for `< pairs.tsv`."""

from __future__ import annotations

import os
import re
from pathlib import Path

_MAX_LINKS = 40  # as many as the system itself follows
_OPEN_FILES = re.compile(r"/proc/\d+(/task/\d+)?/fd")


def open_file(path: Path) -> Path | None:
    """The entry among a process's open files that a path stands for, such as `/proc/12/fd/0`; None for all others.

    `/dev/fd/7` is a link to the file that descriptor 7 was opened on, and so does not stand for itself.
    Raises: OSError, RuntimeError if it cannot be looked at.
    """
    for _ in range(_MAX_LINKS):
        parent = os.path.realpath(path.parent)
        is_listed = _OPEN_FILES.fullmatch(parent) or parent == os.path.realpath("/dev/fd")  # the second without /proc
        if is_listed and path.name.isdecimal():
            return Path(parent, path.name)
        if not path.is_symlink():
            return None
        path = Path(parent, path.readlink())
    return None

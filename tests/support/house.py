"""Counts what the house is made of, by the import graph and by tracing; docs/code.md says what for.

python tests/support/house.py                     modules with one importer
python tests/support/house.py classify A B ...    modules of which a command runs a function, without its own output
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from contextlib import redirect_stdout, suppress
from pathlib import Path
from types import FrameType

import attnscan

ROOT = f"{Path(attnscan.__file__).parent}{os.sep}"


def one_importer(arrows: Mapping[str, set[str]]) -> dict[str, str]:
    """The modules that exactly one other imports, with that one; `arrows` are what each module imports."""
    importers: dict[str, set[str]] = {}
    for name, imported in arrows.items():
        for other in imported:
            importers.setdefault(other, set()).add(name)
    return {name: next(iter(users)) for name, users in sorted(importers.items()) if len(users) == 1}


def modules_run(*words: str) -> set[str]:
    """The modules of which a command runs a function; bodies of modules, and what these call, do not count."""
    ran: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(ROOT) or code.co_filename in ran:
            return
        caller: FrameType | None = frame
        while caller is not None:
            if caller.f_code.co_name == "<module>" and caller.f_code.co_filename.startswith(ROOT):
                return
            caller = caller.f_back
        if code.co_flags & 0x2:  # CO_NEWLOCALS: a function, and no body of a class
            ran.add(code.co_filename)

    from attnscan.cli import app

    before, sys.argv = sys.argv, ["attnscan", *words]
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        with suppress(SystemExit):
            app.app(prog_name="attnscan")
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        sys.argv = before
    return {name.removeprefix(ROOT) for name in ran}


if __name__ == "__main__":
    if sys.argv[1:]:
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
            modules = sorted(modules_run(*sys.argv[1:]))
    else:
        sys.path.insert(0, str(Path(__file__).parents[1]))
        from test_layers import arrows

        modules = [f"{name} <- {user}" for name, user in one_importer(arrows()).items()]
    print(*modules, len(modules), sep="\n")

"""Counts what the house is made of, by the import graph."""

from __future__ import annotations

from collections.abc import Mapping


def one_importer(arrows: Mapping[str, set[str]]) -> dict[str, str]:
    """The modules that exactly one other imports, with that one; `arrows` are what each module imports."""
    importers: dict[str, set[str]] = {}
    for name, imported in arrows.items():
        for other in imported:
            importers.setdefault(other, set()).add(name)
    return {name: next(iter(users)) for name, users in sorted(importers.items()) if len(users) == 1}

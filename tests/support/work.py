"""Scans and studies, and what they tell meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from attnscan.scan.scanner import Scanner
from attnscan.studies.ablation import ablate as ablate
from attnscan.studies.ablation import requested_sets as requested_sets
from attnscan.studies.comparison import compare as compare
from attnscan.studies.comparison import similar as similar
from attnscan.studies.explanation import explain as explain
from attnscan.studies.explanation import explain_input as explain_input

Found = TypeVar("Found")
Told = tuple[str, int | None, int | None]


def heard(scanner: Scanner, work: Callable[[Scanner], Found]) -> tuple[Found, list[Told]]:
    """What work comes to, and how far it said that it was."""
    told: list[Told] = []
    return work(scanner.changed(progress=lambda *step: told.append(step))), told

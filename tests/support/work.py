"""Scans and studies done at once, for tests that do not listen to what they tell."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from attnscan.scan import one_input
from attnscan.scan.events import Progress, outcome
from attnscan.studies import ablation, comparison, explanation, similarity

Taken = ParamSpec("Taken")
Found = TypeVar("Found")


def _done(work: Callable[Taken, Generator[Any, None, Found]]) -> Callable[Taken, Found]:
    @wraps(work)
    def do(*given: Taken.args, **named: Taken.kwargs) -> Found:
        return outcome(work(*given, **named))

    return do


ablate, compare, similar = _done(ablation.ablate), _done(comparison.compare), _done(similarity.similar)
explain, explain_input = _done(explanation.explain), _done(explanation.explain_input)
requested_sets = _done(ablation.requested_sets)
classify, dependencies = _done(one_input.classify), _done(one_input.dependencies)


def heard(work: Generator[Any, None, Found]) -> tuple[Found, list[Progress]]:
    """What work comes to, and how far it said that it was."""
    told: list[Any] = []
    found = outcome(work, told.append)
    return found, [event for event in told if isinstance(event, Progress)]

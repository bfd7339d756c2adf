"""Models in memory, changed in ways that their weights do not show: read as they are, or refused in one line."""

from __future__ import annotations

import pytest
from draws import draws
from hostile.model_changes import CHANGES, REFUSED
from hostile.models import trials, tried

pytestmark = pytest.mark.usefixtures("quiet")
TRIALS = list(trials(draws(100)))
COMBINED = [(kind, names) for kind, names in TRIALS if len(names) > 1]


SLOW = {"compiled in place": pytest.mark.long}  # which compiles


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, ())) for name in (*CHANGES, *REFUSED)])
def test_a_changed_bert_is_read_as_it_is_or_refused(name: str) -> None:
    assert tried("BertForMaskedLM", [name], 0) == (name in CHANGES)


@pytest.mark.parametrize("number", range(len(COMBINED)))
def test_changes_at_once_are_read_or_refused(number: int) -> None:
    tried(*COMBINED[number], number)

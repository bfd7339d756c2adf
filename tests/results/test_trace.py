"""What heads come to do over a run's checkpoints: since when, how many, and as a table."""

from dataclasses import replace

import numpy as np
import pytest
from support.small_results import HABITS, SIGNATURE, labels_of

from attnscan.errors import OptionError
from attnscan.results.grid import Head
from attnscan.results.heads import HeadScores
from attnscan.results.signature import DEFAULT_VIEW
from attnscan.results.trace import Trace, TracedCheckpoint

N_HEADS = 5
NONE = [0.0, 0.0, 0.0, 0.0]
RESTS = [0.0, 0.0, 0.0, 0.5]


def result_of(
    habits: list[str], stability: list[float] | None = None, resting: int | None = None
) -> HeadScores:
    """Heads of one layer with these habits, and one that rests on delimiters, if any does."""
    above = [NONE] * N_HEADS
    if resting is not None:
        above[resting] = RESTS
    winners = [HABITS.index(name) if name else -1 for name in habits]
    labels = labels_of(above, winners, stability or [1.0] * N_HEADS)
    return HeadScores(SIGNATURE, {"weight": labels.scores}, {DEFAULT_VIEW: labels})


CHECKPOINTS = (
    TracedCheckpoint("checkpoint-0", 0, result_of(["next-3", "", "next-3", "", "even"])),
    TracedCheckpoint("checkpoint-500", 500, result_of(["next-3", "even", "even", "", "even"])),
    TracedCheckpoint(
        "checkpoint-1000",
        1000,
        result_of(["next-3", "even", "next-3", "", "even"], [1.0, 1.0, 0.95, np.nan, 0.94]),
    ),
)
TRACE = Trace(CHECKPOINTS)


def test_a_head_has_its_label_since_it_keeps_it() -> None:
    """The third one lost it in between, the fourth has none, and that of the last is unsure."""
    assert TRACE.since.tolist() == [[0, 1, 2, -1, -1]]


def test_heads_are_listed_by_since_when_they_keep_a_label() -> None:
    assert [TRACE.heads_since(place) for place in range(3)] == [
        [Head(0, 0)],
        [Head(0, 1)],
        [Head(0, 2)],
    ]


def test_the_last_checkpoint_is_the_result_of_a_run() -> None:
    assert TRACE.last is CHECKPOINTS[-1].result
    assert TRACE.signature == SIGNATURE
    assert len(TRACE.grid) == N_HEADS


def test_kinds_are_counted_at_each_checkpoint() -> None:
    counts = TRACE.kind_counts()
    assert counts.loc[(False, "next-3")].tolist() == [2, 1, 2]
    assert counts.loc[(False, "even")].tolist() == [1, 3, 2]
    assert counts.loc[(False, "")].tolist() == [2, 1, 1]
    assert counts.dtypes.tolist() == [int, int, int]


def test_heads_that_rest_are_counted_apart() -> None:
    resting = result_of(["next-3", "", "", "", ""], resting=0)
    counts = Trace((TracedCheckpoint("a", 1, resting),)).kind_counts()[0]
    assert counts.to_dict() == {(False, "next-3"): 1, (True, "delimiter"): 1, (False, ""): 4}


def test_a_table_has_a_row_for_each_head_of_each_checkpoint() -> None:
    frame = TRACE.to_frame()
    assert frame["model"].tolist() == np.repeat([c.name for c in CHECKPOINTS], N_HEADS).tolist()
    assert frame["step"].tolist() == np.repeat([0, 500, 1000], N_HEADS).tolist()
    assert frame["head"].tolist() == list(range(N_HEADS)) * 3
    first = frame["since"][:N_HEADS]
    assert first.astype(object).where(first.notna(), None).tolist() == [0, 500, 1000, None, None]
    assert frame["since"].dtype == frame["step"].dtype == "Int64"


def test_a_table_has_since_behind_share_and_patterns_behind_it() -> None:
    columns = TRACE.to_frame(["identical"]).columns.tolist()
    assert columns[:6] == ["model", "step", "layer", "head", "name", "label"]
    assert columns[columns.index("share") + 1] == "since"
    assert columns[-3:] == ["average", "identical", "entropy"]


def test_where_a_step_is_not_known_since_is_a_name() -> None:
    first = replace(CHECKPOINTS[0], step=None)
    frame = Trace((first, *CHECKPOINTS[1:])).to_frame()
    assert frame["since"][:3].tolist() == ["checkpoint-0", "checkpoint-500", "checkpoint-1000"]


def test_a_checkpoint_is_titled_by_its_step_or_name() -> None:
    assert CHECKPOINTS[2].title == "1,000"
    assert replace(CHECKPOINTS[2], step=None).title == "checkpoint-1000"


def test_a_trace_counts_its_checkpoints() -> None:
    assert repr(TRACE).endswith(", 3 checkpoints")
    assert repr(Trace(CHECKPOINTS[:1])).endswith(", 1 checkpoint")


def test_a_trace_needs_a_checkpoint() -> None:
    with pytest.raises(OptionError, match="there is no checkpoint to trace"):
        Trace(())

"""The screen and the picture of `attnscan trace`, for few checkpoints and for many."""

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from support.small_results import SIGNATURE, equal_scores

import attnscan
from attnscan.results.heads import HeadScores
from attnscan.results.label_rules import Scored
from attnscan.results.scores import Habits, Labels, ScoreTable
from attnscan.results.signature import DEFAULT_VIEW
from attnscan.results.trace import Trace, TracedCheckpoint
from attnscan.scoring.labels import habits_of
from attnscan.views.terminal.parts import render
from attnscan.views.terminal.trace import trace_view

KINDS = ("next-word", "previous-3", "even")


def result_of(names: NDArray[np.str_]) -> HeadScores:
    """Heads with these habits, all of them sure. Shape: [layer, head]."""
    habits, _ = habits_of()
    score = np.full((*names.shape, 1), 0.2)
    counts = np.full(score.shape, 5)
    table = ScoreTable(
        score=score,
        chance=score,
        se=score * np.nan,
        n=counts,
        pairs=counts,
        clusters=counts,
        effective_pairs=counts.astype(float),
        share=np.ones(score.shape),
        self_mass=np.zeros(score.shape),
    )
    scores = equal_scores((Scored("next-word"),), table)
    winner = [habits.index(name) if name else -1 for name in names.flat]
    labels = Labels(
        scores,
        DEFAULT_VIEW,
        habits=Habits(
            names=habits,
            share=np.full((*names.shape, len(habits)), 0.4),
            chance=np.zeros((*names.shape, len(habits))),
            average=np.full(len(habits), 0.1),
            winner=np.reshape(winner, names.shape),
        ),
        label_stability=np.where(names == "", np.nan, 1.0),
        units=9,
    )
    signature = replace(SIGNATURE, pairs_read=9)
    return HeadScores(signature, {"weight": scores}, {DEFAULT_VIEW: labels})


def trace_of(count: int, layers: int = 2, heads: int = 3) -> Trace:
    """Heads that come to do something one after the other, and keep it."""
    last = np.random.default_rng(0).choice(KINDS, (layers, heads))
    numbers = np.arange(layers * heads).reshape(layers, heads)
    checkpoints = []
    for place in range(count):
        so_far = round(place / max(1, count - 1) * layers * heads)
        result = result_of(np.where(numbers < so_far, last, ""))
        checkpoints.append(TracedCheckpoint(f"checkpoint-{100 * place}", 100 * place, result))
    return Trace(tuple(checkpoints))


def screen_of(trace: Trace, width: int) -> str:
    return render(trace_view(trace, width), width)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("count", [1, 4, 154])
def test_no_line_is_wider_than_the_screen(count: int, width: int) -> None:
    lines = screen_of(trace_of(count, 12, 12), width).splitlines()
    assert max(map(len, lines)) <= width and len(lines) < 70


def test_few_checkpoints_are_all_shown() -> None:
    screen = screen_of(trace_of(4), 80)
    heading = next(line for line in screen.splitlines() if line.split()[:1] == ["0"])
    assert heading.split() == ["0", "100", "200", "300"]
    assert "are shown" not in screen


def test_many_checkpoints_are_chosen_and_it_says_so() -> None:
    screen = screen_of(trace_of(154), 80)
    heading = next(line for line in screen.splitlines() if line.split()[:1] == ["0"])
    assert heading.split()[-1] == "15,300"  # the last one is always there
    assert f"{len(heading.split())} of 154 checkpoints are shown" in screen


def test_counts_are_those_of_the_checkpoints() -> None:
    trace = trace_of(3)
    screen = screen_of(trace, 80)
    for name, start in (("", "- no distinct habit"), ("next-word", "N the next word")):
        line = next(line for line in screen.splitlines() if line.startswith(start))
        expected = []
        for checkpoint in trace.checkpoints:
            expected.append(checkpoint.result.among_words.ravel().tolist().count(name))
        assert line.split()[-3:] == [str(count or "·") for count in expected]


def test_heads_stand_where_their_label_began() -> None:
    trace = trace_of(4)
    screen = screen_of(trace, 80).partition("at the end. The")[2]
    listed = re.findall(r"\b\d-\d\b", screen)
    assert len(listed) == len(set(listed)) == int((trace.since >= 0).sum())


@pytest.mark.parametrize(("layers", "heads", "count"), [(2, 3, 4), (12, 12, 100)])
def test_the_picture_has_a_cell_for_each_head_and_checkpoint(
    layers: int, heads: int, count: int
) -> None:
    svg = attnscan.plot(trace_of(count, layers, heads), format="svg").decode()
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    assert {"checkpoint", "head", "N  the next word"} <= set(texts)
    assert f"{layers - 1}-0" in texts


def test_a_trace_says_what_it_is() -> None:
    trace = trace_of(3)
    assert "3 checkpoints" in repr(trace)
    assert trace.to_frame().columns[:9].tolist() == [
        *("model", "step", "layer", "head", "name"),
        *("label", "label_stays", "among_words", "share"),
    ]
    assert trace.to_frame().columns[9] == "since"

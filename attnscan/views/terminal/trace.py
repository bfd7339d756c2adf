"""The screen of `attnscan trace`: kinds of heads down, checkpoints across; and since when."""

from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Group
from rich.text import Text

from attnscan.results.trace import Trace
from attnscan.text import counted, plain
from attnscan.views.behaviour import summary
from attnscan.views.palette import GROUPS, letter, style_of, words
from attnscan.views.terminal.heads import title_of
from attnscan.views.terminal.parts import color_of, flowed, wrapped

_KIND = 38  # columns of a kind's letter and words, at most
_LEAST_COLUMN = 5  # of a count
_SHORT = {"same-keys": "the same few words", "cross-sentence": "same words, other sentence"}


def trace_view(trace: Trace, width: int) -> Group:
    """How many heads of each kind there are at each checkpoint, and since when heads are so."""
    names = [f"{letter(name)} {_words(name)}" for _, name in trace.kind_counts().index]
    room = width - min(_KIND, max(map(len, names)))
    titles = [checkpoint.title for checkpoint in trace.checkpoints]
    column = max(_LEAST_COLUMN, max(map(len, titles)) + 2)
    shown = _spread(len(titles), max(2, room // column))
    first, last = titles[0], titles[-1]
    about = f"{counted(len(titles), 'checkpoint')}, {first} to {last}"
    lines: list[Text] = [*wrapped(title_of(trace.last, about).plain, width, style=""), Text()]
    lines += [*wrapped(f"At the end, {summary(trace.last)}", width, style=""), Text()]
    lines += _counts(trace, shown, width - column * len(shown), column)
    if len(shown) < len(titles):
        text = f"{len(shown)} of {len(titles)} checkpoints are shown; the table has all of them."
        lines += wrapped(text, width)
    lines += [Text(), *_beginnings(trace, shown, width)]
    for fault in trace.skipped:
        lines += wrapped(plain(fault), width)
    return Group(*lines)


def _spread(count: int, most: int) -> list[int]:
    """The places of checkpoints to show: all, or so many from the first to the last."""
    return sorted(set(np.linspace(0, count - 1, min(count, most)).round().astype(int).tolist()))


def _words(name: str) -> str:
    return _SHORT.get(name, words(name))


def _counts(trace: Trace, shown: Sequence[int], kind_width: int, column: int) -> Iterator[Text]:
    """A line for each kind, by groups; heads that rest stand last, and are counted above, too."""
    counts = trace.kind_counts()
    order = [*GROUPS, "own"]

    def place(index: tuple[bool, str]) -> tuple[bool, bool, int]:
        rests, name = index
        return rests, name == "", order.index(style_of(name).group) if name else 0

    heading = Text(" " * kind_width, style="bold")
    for checkpoint in shown:
        heading.append(trace.checkpoints[checkpoint].title.rjust(column))
    yield heading
    for index in sorted(counts.index, key=place):
        rests, name = index
        text = f"{letter(name)} {'rests on ' if rests else ''}{_words(name)}"
        line = Text(text[:kind_width].ljust(kind_width), style="dim" if rests else color_of(name))
        for checkpoint in shown:
            number = int(counts.loc[index, checkpoint])
            line.append(str(number or "·").rjust(column), "dim" if rests else "")
        yield line


def _beginnings(trace: Trace, shown: Sequence[int], width: int) -> Iterator[Text]:
    """The heads whose label is sure at the end, by the checkpoint from which they keep it."""
    n_sure = int((trace.since >= 0).sum())
    sure = f"{n_sure} of {counted(len(trace.grid), 'head')}"
    if not n_sure:
        yield from wrapped("No head's label is sure at the end.", width, style="")
        return
    text = f"{sure} have a sure label at the end. The checkpoint from which they keep it:"
    yield from wrapped(text, width, style="")
    indent = max(len(checkpoint.title) for checkpoint in trace.checkpoints) + 2
    before = -1
    for place in shown:
        entries = []
        for earlier in range(before + 1, place + 1):
            for head in trace.heads_since(earlier):
                label = str(trace.last.label[head.place])
                entries.append(Text(f"{letter(label)} {head.name}", style=color_of(label)))
        before = place
        if not entries:
            continue
        title = trace.checkpoints[place].title.rjust(indent - 2)
        for number, line in enumerate(flowed(entries, width - indent)):
            start = f"{title if number == 0 else '':{indent}}"
            yield Text.assemble((start, "bold"), line)

"""The screens of `heads` and `classify`: kinds of behaviour with a map, the best heads of patterns, one input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.behaviour import Behaviours, Kind
from attnscan.results.classification import Classification
from attnscan.results.grid import Head
from attnscan.results.ranking import Leads, Ranking
from attnscan.results.terms import THRESHOLD, counted
from attnscan.safe_text import plain
from attnscan.views.behaviour import (
    legend,
    none_does,
    ranked_by,
    reading,
    remarks,
    summary,
    token_lines,
    told_apart,
    why_unscored,
    words,
    worth,
)
from attnscan.views.palette import letter
from attnscan.views.terminal.parts import (
    color_of,
    columns,
    fitted,
    flowed,
    model_line,
    named,
    number,
    some_of,
    with_bars,
    wrapped,
)

_ROWS = 12  # kinds that have a line of their own, at most; the others share lines
_MOST = 33  # lines of a screen, beside one for each layer: 39 for 6 layers, 45 for 12
_BELOW = 4  # of them, below a screen: a blank line and three of what to try next
_LEAST_BESIDE = 64  # columns that kinds need if the map is to stand beside them
_FEW_STRONGEST = 20  # columns: below, the average head's share goes, and not the strongest heads
_RULER = 6  # columns of layer numbers on the map
_DROPPED = "pairs", "chance", "self", "n", "lead"  # where the screen is narrow

_FEW = 5  # patterns: beside fewer there is room for more columns
_LINES_EACH = 2  # of the screen for a sentence or a note, at most


def behaviours_view(
    result: Classification | Ranking, width: int, *, mapped: bool = True, taken: int = 2
) -> Iterator[RenderableType]:
    """What the heads of a model do, in a sentence, by kinds and, if `mapped`, head by head.

    Of the screen's lines, `taken` are other ones: so many kinds share lines that there is room for all.
    """
    behaviours = result.behaviours
    said, noted = list(wrapped(summary(result), width, style="")), list(wrapped(" ".join(remarks(result)), width))
    lines = list(_map(behaviours, width)) if mapped else []
    explained = list(wrapped(legend(behaviours), width)) if mapped else []
    left = _MOST + behaviours.grid.shape[0] - _BELOW - taken - 2 - len((*said, *noted, *explained))
    room = width - max((line.cell_len for line in lines), default=width) - 2
    yield Group("", *said, "")
    if room >= _LEAST_BESIDE:
        both = Table.grid(padding=(0, 2, 0, 0))
        both.add_row(Group(*_kinds(behaviours, room, left)), Text("\n").join(lines))
        yield both
        yield from noted
    else:
        yield from _kinds(behaviours, width, left - len(lines) - bool(lines))
        yield from noted
        yield Group(*[""] * bool(lines), *lines)
    yield from explained


def _kinds(behaviours: Behaviours, width: int, lines: int) -> Iterator[RenderableType]:
    """A line a kind that some head shows, patterns first; the rarest share as few lines as there is room for."""
    kinds = [kind for kind in behaviours.kinds if kind.heads]
    short = [
        Text(" ").join([_named(kind), *(_strength(behaviours, head) for head in kind.heads[:1])]) for kind in kinds
    ]
    for count in range(min(_ROWS, len(kinds)), -1, -1):
        shared = list(flowed(short[count:], width)) if short[count:] else []
        if bool(count) + count + len(shared) <= lines:
            break
    else:
        shared = list(flowed(map(_named, kinds), width))
    rows = kinds[:count]
    room = width - max((_named(kind).cell_len for kind in rows), default=0) - len("  heads  average  ")
    if room < _FEW_STRONGEST:
        room += len("  average")
    grid = columns(("kind",), ("heads", "average"), ("strongest heads",), header="bold")
    for kind in rows:
        strongest = next(flowed((_strength(behaviours, head) for head in kind.heads), room))
        grid.add_row(_named(kind), str(len(kind.heads)), number(kind.average), strongest)
    if rows:
        yield fitted(grid, width, "average", "strongest heads")
    yield from shared


def _named(kind: Kind) -> Text:
    return Text(f"{letter(kind.name)} {words(kind)}", style=color_of(kind.name))


def _strength(behaviours: Behaviours, head: Head) -> Text:
    """A head with its score or share; `?` if what it does is not sure."""
    asked = "?" if behaviours.unsure[head.place] else ""
    return Text(f"{head.name}{asked} {number(behaviours.strength[head.place])}")


def _map(behaviours: Behaviours, width: int) -> Iterator[Text]:
    """Every head's letter, and `?` where it is unsure; that alone where there is room for no more."""
    layers, heads = behaviours.grid.shape
    cell = next((size for size in (3, 2) if _RULER + size * heads <= width), 1)
    every = 1 if cell == 3 else 5
    ruler = "".join((f"{head:>2}" if head % every == 0 else "").ljust(cell) for head in range(heads))
    yield Text(" " * (_RULER - 1) + (ruler if cell > 1 else f" 0 to {heads - 1}"), style="dim")
    for layer in range(layers):
        line = Text.assemble((f"{layer:>{_RULER - 2}}  ", "dim"))
        for head in range(heads):
            kind, asked = str(behaviours.kind[layer, head]), "?" if behaviours.unsure[layer, head] else ""
            text = (asked or letter(kind)) if cell == 1 else letter(kind) + asked
            line.append(text.ljust(cell), style=f"bold {color_of(kind)}" if behaviours.own[layer, head] else "dim")
        line.rstrip()
        yield line


def ranking_view(result: Ranking, width: int) -> RenderableType:
    """What every head does over many pairs. Raises: OptionError if the ranking has no labels."""
    title = list(_title(result, width))
    return Group(*title, *behaviours_view(result, width, taken=1 + len(title)))


def best_heads_view(result: Ranking, patterns: Sequence[str], top: int, width: int) -> RenderableType:
    """The best heads of each pattern, with what a score is worth, and which of them cannot be told apart."""
    table = result.table
    blocks: list[RenderableType] = list(_title(result, width))
    threshold = THRESHOLD if result.labels is None else result.labels.threshold
    ranked = 0
    for pattern in patterns:
        blocks += ["", named(pattern)]
        why = why_unscored(result, pattern)
        blocks += [Text(why, style="dim")] if why else []
        if not len(order := result.order(pattern)):
            continue
        ranked = max(ranked, len(order))
        blocks += wrapped(none_does(table, result.scores.patterns.index(pattern), threshold), width)
        blocks += [_table(result, pattern, top, width)]
        blocks += wrapped(told_apart(result, pattern), width)
    blocks += ["", *_notes(width)] if ranked else []
    blocks += [Text(some_of(top, ranked), style="dim")] if ranked > top else []
    return Group(*blocks)


def _title(result: Ranking, width: int) -> Iterator[RenderableType]:
    yield model_line(result.signature, f"  {result.signature.counts}")
    yield from wrapped(ranked_by(result), width)


def _table(result: Ranking, pattern: str, top: int, width: int) -> RenderableType:
    table, p = result.table, result.scores.patterns.index(pattern)
    of_others = result.scores.scored[p].of_others
    numbers = ("score", "95 % interval", "lead", *(["self"] if of_others else []), "chance", "above", "n", "pairs")
    grid = columns(("head",), numbers, apart=1)
    bars = []
    leads = result.leads(pattern)
    for rank, head_number in enumerate(result.order(pattern)[:top]):
        head = result.scores.grid[head_number]
        place = (*head.place, p)
        row = worth(table, place)
        sure = table.interval[0][place] > table.chance[place]  # false for NaN
        bars.append((float(table.above_chance[place]) if sure else 0.0, Text("█", style=color_of(pattern))))
        grid.add_row(
            head.name,
            row["score"],
            row["interval"],
            _lead(leads, rank) if rank < len(leads.sure) else "",
            *([row["itself"]] if of_others else []),
            *(row[name] for name in ("chance", "above_chance", "n", "pairs")),
        )
    return with_bars(fitted(grid, width, *_DROPPED), "above chance", bars, width)


def _lead(leads: Leads, rank: int) -> str:
    """By how much a head is above the next one; marked where they cannot be told apart, empty where nobody knows."""
    return "" if np.isnan(leads.se[rank]) else f"{'' if leads.sure[rank] else '≈ '}{leads.difference[rank]:.3f}"


def _notes(width: int) -> Iterator[Text]:
    yield from wrapped(
        "lead: how far above the next head; ≈: no further than its 95 % interval. above, bars: 0 at chance, 1 at "
        "perfect; no bar: the score's interval reaches chance.",
        width,
    )


def classification_view(result: Classification, width: int, nth: int | None = None) -> RenderableType:
    """One input at a glance: its tokens, kinds of behaviour, the map of all heads.

    One of several inputs has its number in front, and no map and notes.
    """
    tokens, notes = list(_tokens(result, width)), list(_input_notes(result, width)) if nth is None else [Text("")]
    taken = 1 + len(tokens) + len(notes)
    return Group(
        _input_title(result, nth), *tokens, *behaviours_view(result, width, mapped=nth is None, taken=taken), *notes
    )


def all_heads_view(
    result: Classification,
    patterns: Sequence[str],
    order: Sequence[Head],
    width: int,
    top: int | None = None,
    nth: int | None = None,
) -> RenderableType:
    """Heads with their labels and scores, in the given order; and why there are no scores, where that is so."""
    scores = result.scores
    table = result.table
    roomy = width >= 84 + 6 * max(0, len(patterns) - 7) + 15
    labels = {"label": result.label}
    labels |= {"runner-up": result.runner_up, "among words": result.content_label} if roomy else {}
    unsure = {"label": result.labels.questioned(result.reading.special), "among words": result.labels.content_unsure}
    behaviours = result.behaviours
    numbers = {"nats": scores.entropy}
    if result.output is not None and (roomy or len(patterns) < _FEW):
        numbers["out"] = result.output
    of_others = [known.id for known in scores.scored if known.of_others and known.id in patterns]
    of_others = of_others if roomy or len(patterns) < _FEW else []
    selves = [f"{letter(pattern)} self" for pattern in of_others]
    grid = columns(("head", "does", *labels), (*map(letter, patterns), *selves, *numbers), header="bold", apart=1)
    for head in order[:top]:
        grid.add_row(
            head.name,
            _marked(str(behaviours.kind[head.place]), bool(behaviours.unsure[head.place])),
            *(
                _marked(str(label[head.place]), name in unsure and bool(unsure[name][head.place]))
                for name, label in labels.items()
            ),
            *(number(table.score[(*head.place, scores.patterns.index(pattern))]) for pattern in patterns),
            *(number(table.itself[(*head.place, scores.patterns.index(pattern))]) for pattern in of_others),
            *(number(values[head.place]) for values in numbers.values()),
        )
    grid = fitted(grid, width, "nats", *selves, "out", "runner-up", "among words", "label", "does")
    there = {str(column.header) for column in grid.columns}
    entries = ["Columns:", *(f"{letter(p)} {plain(p)}" for p in patterns)]
    entries += [f"{name} of this, the word itself" for name in selves if name in there]
    entries += ["nats entropy of a row"] if "nats" in there else []
    equal = f"{1 / scores.grid.shape[1]:.2f} an equal part"
    entries += [f"out share of its layer's output, {equal}"] if "out" in there else []
    entries += ["? changed in over 5 % of resamples"] if behaviours.labels.stability is not None else []
    legend = flowed((Text(entry, style="dim") for entry in entries), width)
    listed = [grid] if grid.row_count else []
    why = [line for why in _why_unscored(result, patterns) for line in wrapped(why, width)]
    if nth is not None:
        return Group(_input_title(result, nth), *_tokens(result, width), *listed, *why, "")
    explained: list[RenderableType] = ["", *legend] if listed else []
    does = [f"does: what each head does, by {reading(result)}."] if "does" in there else []
    if top is not None and top < len(order):
        explained.append(Text(some_of(top, len(order)), style="dim"))
    read = (line for text in does for line in wrapped(text, width))
    return Group(_input_title(result), "", *listed, *why, *explained, *read, *_input_notes(result, width))


def _why_unscored(result: Classification, patterns: Sequence[str]) -> Iterator[str]:
    """Why heads have no score, a line for the patterns of which the same is true."""
    of_patterns: dict[str, list[str]] = {}
    for pattern in patterns:
        of_patterns.setdefault(why_unscored(result, pattern), []).append(pattern)
    for why, unscored in of_patterns.items():
        if why:
            yield f"{', '.join(map(plain, unscored))}: {why}"


def _marked(kind: str, unsure: bool) -> Text:
    """A label or a statement by its letter and its name in tables, questioned if it would not stay."""
    return Text(f"{letter(kind)} {plain(kind)}{'?' * unsure}", style=color_of(kind))


def _input_title(result: Classification, nth: int | None = None) -> Text:
    if nth is not None:
        return Text(f"input {nth}", style="bold")
    grid = result.scores.grid
    return model_line(result.signature, f"  {grid} = {counted(len(grid), 'head')}")


def _tokens(result: Classification, width: int) -> Iterator[Text]:
    """The units of each sentence on two lines of their own, at most; a closing delimiter goes with its sentence."""
    for name, tokens in token_lines(result).items():
        line = Text(" ").join(Text(text, style="dim" if special else "") for text, special in tokens)
        shown = line.wrap(Console(width=width), width - 2)
        if len(shown) > _LINES_EACH:
            more = Text(f" … {len(tokens)} tokens in all", style="dim")
            shown[_LINES_EACH - 1].truncate(width - 2 - more.cell_len)
            shown[_LINES_EACH - 1].append_text(more)
        for place, part in enumerate(shown[:_LINES_EACH]):
            yield Text.assemble("  " if place else (f"{name} ", "bold"), part)


def _input_notes(result: Classification, width: int) -> Iterator[Text]:
    """What else there is to know, each cut to two lines: words of a long input have many that are related."""
    for note in result.notes:
        shown = list(wrapped(plain(note), width))
        yield from shown[: _LINES_EACH - 1]
        for rest in shown[_LINES_EACH - 1 : _LINES_EACH]:
            cut = rest.plain if len(shown) == _LINES_EACH else f"{rest.plain[: width - 2].rstrip(' ,')} …"
            yield Text(cut, style="dim")

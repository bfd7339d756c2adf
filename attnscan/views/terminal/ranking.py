"""The screens of `heads` and `classify`: kinds of heads by groups with a map, the best heads of patterns, one input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.behaviour import Kind, Labels
from attnscan.results.grid import Head
from attnscan.results.heads import HeadScores, Leads
from attnscan.results.signature import Signature
from attnscan.results.terms import THRESHOLD
from attnscan.safe_text import plain
from attnscan.views.behaviour import (
    by_reading,
    kinds_of,
    none_does,
    ranked_by,
    summary,
    token_lines,
    told_apart,
    why_unscored,
    worth,
)
from attnscan.views.palette import letter, words
from attnscan.views.terminal.parts import (
    color_of,
    columns,
    fitted,
    flowed,
    named,
    number,
    some_of,
    with_bars,
    wrapped,
)

_LEAST_BESIDE = 66  # columns that kinds need if the map is to stand beside them
_GROUP = 11  # columns of a group's name
_STRONGEST, _LEAST_STRONGEST = 30, 18  # columns for the strongest heads, at most, and with the average beside them
_RULER = 4  # columns of layer numbers on the map
_DROPPED = "pairs", "chance", "self", "n", "lead"  # where the screen is narrow
_SHORT = {"cross-sentence": "… in the other sentence", "same-keys": "the same few words"}  # behind their group's name
_FEW = 5  # patterns: beside fewer there is room for more columns
_LINES_EACH = 2  # of the screen for a sentence or a note, at most


def lines_of(layers: int) -> int:
    """How long a first screen may be: 34 lines for 6 layers, 42 for 12."""
    return 26 + -(-4 * layers // 3)


def title_of(result: HeadScores, about: str = "") -> Text:
    """A screen's first line: what was read, the model, its heads and, if it is not the usual one, the reading."""
    signature: Signature = result.signature
    grid = result.scores.grid
    layers, heads = grid.shape
    kind = f" of {grid[0].kind.word} attention" if grid[0].kind.letter else ""
    cut = signature.counts.partition(", ")[2] if about else ""
    rest = "".join(f" · {part}" for part in (cut, by_reading(result.reading)) if part)
    name = signature.model if signature.model == "bundled" else signature.title
    before = f"{plain(about)} · " if about else ""
    return Text.assemble(before, (plain(name), "bold"), f", {layers} layers × {heads} heads{kind}{rest}")


def first_screen(
    result: HeadScores, above: Sequence[Text], width: int, *, mapped: bool = True, below: int = 2
) -> Iterator[RenderableType]:
    """What the heads of a model do, in two sentences, by kinds and, if `mapped`, head by head, below some lines.

    So many of the rarest kinds share lines that the screen is no longer than `lines_of`, with the lines `below` it.
    """
    labels = result.labels
    said = list(wrapped(summary(result), width, style=""))
    lines = list(_map(labels, width)) if mapped else []
    legend = list(wrapped(_legend(labels), width)) if mapped else []
    left = lines_of(labels.grid.shape[0]) - len([*above, *said, *legend]) - below - 2
    room = width - max((line.cell_len for line in lines), default=width) - 3
    yield Group(*above, "", *said, "")
    if room >= _LEAST_BESIDE:
        both = Table.grid(padding=(0, 3, 0, 0))
        both.add_row(Group(*_kinds(labels, room, left)), Text("\n").join(lines))
        yield both
        yield Group("", *legend)
    else:
        yield from _kinds(labels, width, left - len(lines) - bool(lines))
        yield Group(*[""] * bool(lines), *lines, *legend)


def _legend(labels: Labels) -> str:
    entries = ["layers down, heads across"]
    entries += [f"{letter('')} no distinct habit" if labels.statements else f"{letter('')} none"]
    entries += ["grey: rests"] if labels.rests.any() else []
    entries += ["? not sure"] if labels.unsure.any() else []
    return " · ".join(entries)


def _kinds(labels: Labels, width: int, lines: int) -> Iterator[RenderableType]:
    """A line a kind, by groups; where there are more than lines, the rarest share the last ones."""
    kinds = kinds_of(labels)
    rarest = sorted((entry for entry in kinds if entry[0] != "rest"), key=lambda entry: len(entry[1].heads))
    shared: list[Text] = []
    for count in range(len(rarest) + 1):
        shared = list(flowed((_shared(kind) for _, kind in rarest[:count]), width)) if count else []
        if 1 + len(kinds) - count + len(shared) <= lines:
            break
    merged = {kind.name for _, kind in rarest[:count]}
    rows = [entry for entry in kinds if entry[0] == "rest" or entry[1].name not in merged]
    names = [_named(group, kind) for group, kind in rows]
    wide = _GROUP + max((name.cell_len for name in names), default=0) + 4  # to the end of the numbers of heads
    averages = width - wide - 11 >= _LEAST_STRONGEST
    room = min(_STRONGEST, width - wide - (11 if averages else 2))
    header = _heading(labels, width - wide - (11 if averages else 2))
    if rows:
        yield Text(f"{'heads':>{wide}}{'  average' if averages else ''}  {header}", style="bold")
    before = ""
    for (group, kind), name in zip(rows, names, strict=True):
        line = Text("" if group == before else group).append_text(Text(" " * _GROUP))[:_GROUP]
        line.append_text(name).append(" " * (wide - 4 - line.cell_len)).append(f"{len(kind.heads):>4}")
        line.append(f"{number(kind.average):>9}" if averages else "").append("  ")
        yield line.append_text(next(flowed((_strength(labels, kind, head) for head in kind.heads), room)))
        before = group
    yield from shared


def _heading(labels: Labels, width: int) -> str:
    """What stands above the strongest heads, as far as there is room."""
    among = " among words" if labels.reading.among_words else ""
    what = "what is carried" if labels.reading.carried else "attention"
    texts = (f"strongest: {what}{among}", f"strongest{among}", "strongest")
    return next((text for text in texts if len(text) <= width), "")


def _named(group: str, kind: Kind) -> Text:
    text = f"{letter(kind.name)} {_SHORT.get(kind.name, words(kind.name))}"
    return Text(text, style="dim" if group == "rest" else color_of(kind.name))


def _shared(kind: Kind) -> Text:
    """A kind in a line with others: it, and how many heads have it."""
    return Text(f"{letter(kind.name)} {words(kind.name)} {len(kind.heads)}", style=color_of(kind.name))


def _strength(labels: Labels, kind: Kind, head: Head) -> Text:
    """A head with its number; `?` if its label is not sure."""
    share = number(labels.numbers(kind.name, head).share)
    return Text(f"{head.name}{'?' * bool(labels.unsure[head.place])} {share}")


def _map(labels: Labels, width: int) -> Iterator[Text]:
    """Every head's letter, and `?` where it is unsure; that alone where there is room for no more."""
    heads = labels.grid.shape[1]
    cell = next((size for size in (3, 2) if _RULER + size * heads <= width), 1)
    every = 1 if cell == 3 else 5
    ruler = "".join((f"{head:>2}" if head % every == 0 else "").ljust(cell) for head in range(heads))
    yield Text(" " * (_RULER - 1) + (ruler.rstrip() if cell > 1 else f" 0 to {heads - 1}"), style="dim")
    for layer, layer_number in enumerate(labels.grid.numbers):
        line = Text.assemble((f"{layer_number:>{_RULER - 2}}  ", "dim"))
        for head in range(heads):
            kind, asked = str(labels.among_words[layer, head]), "?" if labels.unsure[layer, head] else ""
            text = (asked or letter(kind)) if cell == 1 else letter(kind) + asked
            line.append(text.ljust(cell), style="dim" if labels.rests[layer, head] or not kind else color_of(kind))
        line.rstrip()
        yield line


def ranking_view(result: HeadScores, width: int, about: str = "") -> RenderableType:
    """What every head does over many pairs. Raises: OptionError if the ranking has no labels."""
    above = [*wrapped(title_of(result, about).plain, width, style=""), *wrapped(ranked_by(result), width)]
    return Group(*first_screen(result, above, width))


def best_heads_view(
    result: HeadScores, patterns: Sequence[str], top: int, width: int, about: str = ""
) -> RenderableType:
    """The best heads of each pattern, with what a score is worth, and which of them cannot be told apart."""
    table = result.table
    blocks: list[RenderableType] = [title_of(result, about), *wrapped(ranked_by(result), width)]
    threshold = result.labels.threshold if result.has_labels else THRESHOLD
    ranked = 0
    for pattern in patterns:
        blocks += ["", named(pattern)]
        why = why_unscored(result, pattern)
        blocks += [Text(why, style="dim")] if why else []
        if not len(order := result.order(pattern)):
            continue
        ranked = max(ranked, len(order))
        blocks += wrapped(none_does(table, result.scores.grid, result.scores.patterns.index(pattern), threshold), width)
        blocks += [_table(result, pattern, top, width)]
        blocks += wrapped(told_apart(result, pattern), width)
    blocks += ["", *_notes(width)] if ranked else []
    blocks += [Text(some_of(top, ranked), style="dim")] if ranked > top else []
    return Group(*blocks)


def _table(result: HeadScores, pattern: str, top: int, width: int) -> RenderableType:
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


def classification_view(result: HeadScores, width: int, nth: int | None = None) -> RenderableType:
    """One input at a glance: its tokens, kinds of heads, the map of all heads.

    One of several inputs has its number in front, and no map.
    """
    above = [_input_title(result, nth), *_tokens(result, width)]
    return Group(*first_screen(result, above, width, mapped=nth is None, below=4), *([""] if nth is not None else []))


def all_heads_view(
    result: HeadScores,
    patterns: Sequence[str],
    order: Sequence[Head],
    width: int,
    top: int | None = None,
    nth: int | None = None,
) -> RenderableType:
    """Heads with what they do and their scores, in the given order; and why there are no scores, where that is so."""
    table, labels = result.table, result.labels
    numbers = ("share", *map(letter, patterns), "nats")
    grid = columns(("head", "label", "among words"), numbers, header="bold", apart=1)
    for head in order[:top]:
        grid.add_row(
            head.name,
            _marked(str(labels.label[head.place]), unsure=bool(labels.unsure[head.place])),
            _marked(str(labels.among_words[head.place])),
            number(labels.share[head.place]),
            *(number(table.score[(*head.place, result.scores.patterns.index(pattern))]) for pattern in patterns),
            number(result.scores.entropy[head.place]),
        )
    grid = fitted(grid, width, "nats", "among words", "share", "label")
    there = {str(column.header) for column in grid.columns}
    entries = ["share: of what it does among words"] if "share" in there else []
    entries += [f"{letter(p)} {plain(p)}" for p in patterns]
    entries += ["nats: entropy of a row"] if "nats" in there else []
    entries += ["? not sure"] if labels.unsure.any() else []
    legend = flowed((Text(entry, style="dim") for entry in entries), width)
    listed = [grid] if grid.row_count else []
    why = [line for why in _why_unscored(result, patterns) for line in wrapped(why, width)]
    if nth is not None:
        return Group(_input_title(result, nth), *_tokens(result, width), *listed, *why, "")
    explained: list[RenderableType] = ["", *legend] if listed else []
    if top is not None and top < len(order):
        explained.append(Text(some_of(top, len(order)), style="dim"))
    return Group(_input_title(result), "", *listed, *why, *explained)


def _why_unscored(result: HeadScores, patterns: Sequence[str]) -> Iterator[str]:
    """Why heads have no score, a line for the patterns of which the same is true."""
    of_patterns: dict[str, list[str]] = {}
    for pattern in patterns:
        of_patterns.setdefault(why_unscored(result, pattern), []).append(pattern)
    for why, unscored in of_patterns.items():
        if why:
            yield f"{', '.join(map(plain, unscored))}: {why}"


def _marked(kind: str, *, unsure: bool = False) -> Text:
    """A label by its letter and its name in tables, questioned if it would not stay."""
    return Text(f"{letter(kind)} {plain(kind)}{'?' * unsure}", style=color_of(kind) if kind else "dim")


def _input_title(result: HeadScores, nth: int | None = None) -> Text:
    return title_of(result) if nth is None else Text(f"input {nth}", style="bold")


def _tokens(result: HeadScores, width: int) -> Iterator[Text]:
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

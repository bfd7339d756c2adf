"""The screens of `heads`, `classify` and `profile`.

They show kinds of heads with a map, the best heads, and where attention goes.
"""

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.columns import HEAD_COLUMNS, TableColumn
from attnscan.results.grid import AttentionKind, Head
from attnscan.results.habits import SPECIAL_CLASSES
from attnscan.results.heads import HeadScores, Profile
from attnscan.results.label_rules import THRESHOLD
from attnscan.results.scores import HeadKind, Labels
from attnscan.text import counted, plain
from attnscan.views.behaviour import (
    attention_phrase,
    held_summary,
    kinds_of,
    none_does,
    ranked_by,
    summary,
    why_unscored,
)
from attnscan.views.palette import RESTS, letter, why_even_is_not, words
from attnscan.views.terminal.alignment import alignment_view
from attnscan.views.terminal.parts import (
    Column,
    color_of,
    flowed,
    marked,
    model_line,
    named,
    number,
    table_of,
    wrapped,
)

_LEAST_BESIDE = 66  # columns that kinds need if the map is to stand beside them
_GROUP = 11  # columns of a group's name
_NUMBERS = 15  # of two numbers
_STRONGEST = 30  # of the strongest heads, at most
_RULER = 4  # columns of layer numbers on the map
_SHORT = {
    "cross-sentence": "… in the other sentence",
    "same-keys": "the same few words",
}  # behind their group's name
_LINES_EACH = 2  # of the screen for a sentence, at most
_WORTH = (
    "lead: how far above the next head; ≈: no further than its 95 % interval. above, bars: 0 at "
    "chance, 1 at perfect; no bar: the score's interval reaches chance."
)
_LEAST_SHARE = 0.05  # of a head's attention that a line names
_BAR = 20  # columns of a share of 1
_CLASSES = (
    "Shares are of a word's attention, on average over words. Every key is of one class, the first "
    "that fits: next and previous are neighbours, next-2-3 the words two and three places ahead, "
    "later and earlier the words beyond eight places, elsewhere the rest of {}. Shares of words "
    "sum to 1{}; start, middle and end are shares of all attention on special tokens. The scores "
    "next-word and previous-word of attnscan heads are of the words that have such a neighbour, "
    "whatever else it is, and so are larger than next and previous here."
)
_IN_FULL = "even: the share under even attention; average: that of the average head."


def title_of(result: HeadScores, about: str = "") -> Text:
    """A screen's first line: what was read, the model, and its heads.

    It says the reading, too, if that is not the usual one.
    """
    signature = result.signature
    grid = result.grid
    name = signature.model if signature.model == "bundled" else signature.title
    layers, heads = grid.shape
    parts = [f", {layers} layers × {heads} heads{attention_phrase(grid)}"]
    cut = signature.counts.partition(", ")[2]
    if about and cut:
        parts.append(cut)
    if result.reading.carried:
        parts.append("by what heads carry")
    if not result.reading.words_only:
        parts.append("special tokens in")
    title = Text(f"{plain(about)} · " if about else "")
    return title.append(plain(name), "bold").append(" · ".join(parts))


def first_screen(result: HeadScores, width: int, about: str = "") -> RenderableType:
    """What heads do: in a sentence, by kinds, head by head; in 34 lines for 6 layers, 42 for 12.

    Raises: OptionError if the result has no labels.
    """
    labels = result.labels
    title = title_of(result, about)
    above: list[RenderableType] = [title, *_tokens(result, width)]
    if not result.is_one_input:
        above = [*wrapped(title.plain, width, style=""), *wrapped(ranked_by(result), width)]
    above += ["", *wrapped(summary(result), width, style="")]
    above += [*wrapped(held_summary(result), width, style=""), ""]
    head_map = list(_map(result, width))
    below = list(wrapped(" · ".join(_legend(result)), width))
    height = 24 + math.ceil(4 * labels.grid.shape[0] / 3)
    if result.is_one_input:
        height -= 2  # for a note or two below
    lines = height - len(above) - len(below)
    room = width - max(line.cell_len for line in head_map) - 3
    if room < _LEAST_BESIDE:
        kinds: list[RenderableType] = [*_kinds(labels, width, lines - len(head_map) - 1)]
        if kinds:
            kinds.append("")
        return Group(*above, *kinds, *head_map, *below, *alignment_view(result, width))
    columns = Table.grid(padding=(0, 3, 0, 0))
    columns.add_row(Group(*_kinds(labels, room, lines)), Text("\n").join(head_map))
    return Group(*above, columns, "", *below, *alignment_view(result, width))


def _legend(result: HeadScores) -> Iterator[str]:
    """What the marks of the map mean, other than letters of kinds."""
    labels = result.labels
    yield "layers down, heads across"
    yield "- no distinct habit" if labels.habits else "- none"
    if labels.rests.any():
        yield f"{RESTS}, grey: rests"
    if labels.unsure.any():
        yield "? not sure"
    if result.changed.any():
        yield "≠ another label there"
    if labels.resampled == "pairs" and not labels.groups:
        is_mixed = bool(labels.unsure.any())
        yield "without ?: sure of this corpus" if is_mixed else "sure of this corpus"


def _kinds(labels: Labels, width: int, lines: int) -> Iterator[Text]:
    """A line a kind, by groups; where there are more than lines, the rarest share the last ones."""
    kinds = kinds_of(labels)
    common, shared = _share_last_lines(kinds, width, lines)
    names = []
    for group, kind in common:
        kind_mark = RESTS if group == "rest" else letter(kind.name)
        names.append(f"{kind_mark} {_SHORT.get(kind.name, words(kind.name))}")
    before = _GROUP + max(map(len, names), default=0)  # the numbers
    room = min(_STRONGEST, max(width - before - _NUMBERS, 1))
    if common:
        title = _strongest_title(labels, width - before - _NUMBERS)
        heading = Text(f"{'heads':>{before + 4}}{'average':>9}  {title}", style="bold")
        heading.truncate(width)
        yield heading
    above = ""
    for (group, kind), name in zip(common, names, strict=True):
        line = Text(f"{'' if group == above else group:<{_GROUP}}")
        line.append(name.ljust(before - _GROUP), "dim" if group == "rest" else color_of(kind.name))
        line.append(f"{len(kind.heads):>4}{number(kind.average):>9}  ")
        line.append_text(next(flowed(_strongest(labels, kind), room)))
        line.truncate(width)
        yield line
        above = group
    yield from shared


def _share_last_lines(
    kinds: Sequence[tuple[str, HeadKind]], width: int, lines: int
) -> tuple[list[tuple[str, HeadKind]], list[Text]]:
    """The kinds with a line each, and the lines that the rarest share, where they are too many."""
    among_words = [kind for group, kind in kinds if group != "rest"]
    rarest = sorted(among_words, key=lambda kind: len(kind.heads))
    merged = 0
    shared: list[Text] = []
    while 1 + len(kinds) - merged + len(shared) > lines and merged < len(rarest):
        merged += 1
        shared = list(flowed((_count(kind) for kind in rarest[:merged]), width))
    common = [(group, kind) for group, kind in kinds if kind not in rarest[:merged]]
    return common, shared


def _count(kind: HeadKind) -> Text:
    """A kind in a line that others share."""
    text = f"{letter(kind.name)} {words(kind.name)} {len(kind.heads)}"
    return Text(text, style=color_of(kind.name))


def _strongest_title(labels: Labels, room: int) -> str:
    """The title above the strongest heads of each kind, with what their numbers are of."""
    measure = "what is carried" if labels.reading.carried else "attention"
    among = " among words" if labels.reading.words_only else ""
    title = f"strongest: {measure}{among}"
    return title if len(title) <= room else "strongest"


def _strongest(labels: Labels, kind: HeadKind) -> Iterator[Text]:
    """A kind's heads with their shares, strongest first."""
    for head in kind.heads:
        doubt = "?" if labels.unsure[head.place] else ""
        yield Text(f"{head.name}{doubt} {number(labels.numbers(kind.name, head).share)}")


def _map(result: HeadScores, width: int) -> Iterator[Text]:
    """Every head's letter, and `?` where it is unsure; `?` alone where there is no more room.

    `≠` stands where a sure label is another one in a second corpus.
    """
    labels = result.labels
    heads = labels.grid.shape[1]
    longest = 4 if (labels.rests & (labels.unsure | result.changed)).any() else 3
    cell = next((size for size in (longest, 3, 2) if _RULER + size * heads <= width), 1)
    ruler = f" 0 to {heads - 1}"
    if cell > 1:
        step = 1 if cell >= 3 else 5
        marks = (f"{head:>2}" if head % step == 0 else "" for head in range(heads))
        ruler = "".join(mark.ljust(cell) for mark in marks).rstrip()
    yield Text(" " * (_RULER - 1) + ruler, style="dim")
    for layer in labels.grid.numbers:
        line = Text.assemble((f"{layer:>{_RULER - 2}}  ", "dim"))
        for head in labels.grid.layer_of(Head(layer, 0)):
            is_changed = bool(result.changed[head.place])
            mark = marked(labels, head, with_name=False, changed=is_changed)
            line.append_text(_in_cell(mark, cell))
        line.rstrip()
        yield line


def _in_cell(mark: Text, cell: int) -> Text:
    """A mark in a cell of the map; where it has no room, without `'`, and then `?` alone."""
    text = mark.plain
    if len(text) > cell:
        text = text.removesuffix(RESTS)[-cell:]
    return Text(text.ljust(cell), style=mark.style)


def best_heads_view(
    result: HeadScores, patterns: Sequence[str], top: int, width: int, about: str = ""
) -> RenderableType:
    """The best heads of each pattern, with what a score is worth."""
    blocks: list[RenderableType] = [title_of(result, about), *wrapped(ranked_by(result), width)]
    threshold = result.labels.threshold if result.has_labels else THRESHOLD
    ranked = max(len(result.order(pattern)) for pattern in patterns)
    for pattern in patterns:
        blocks += ["", named(pattern), *wrapped(why_unscored(result, pattern), width)]
        if len(result.order(pattern)):
            blocks += wrapped(none_does(result, pattern, threshold), width)
            blocks += wrapped(why_even_is_not(pattern), width)
            blocks.append(_best_heads(result, pattern, top, width))
    blocks += ["", *wrapped(_WORTH, width)] if ranked else []
    if ranked > top:
        blocks.append(
            Text(f"{top} of {counted(ranked, 'head')}; --top {ranked} for all.", style="dim")
        )
    return Group(*blocks)


def _best_heads(result: HeadScores, pattern: str, top: int, width: int) -> Table:
    """The best heads of a pattern of many pairs, with what their scores are worth."""
    p = result.scores.place_of(pattern)
    order = result.order(pattern)[:top]
    excludes_self = result.scores.scored[p].excludes_self
    itself = result.table.self_mass[..., p].ravel()
    columns = [
        Column("head"),
        Column("score", ">.3f"),
        Column("95 % interval", ">"),
        Column("lead", ">", 1),
    ]
    if excludes_self:
        columns.append(Column("self", ">.3f", 3))
    columns += [
        Column("chance", ">.3f", 4),
        Column("above", ">.3f"),
        Column("n", ">,", 2),
        Column("pairs", ">,", 5),
        Column("above chance", "bar"),
    ]
    ranked = result.to_frame([pattern], top).to_dict("records")
    leads = result.leads(pattern).reindex(range(top)).to_dict("records")
    rows: list[list[Any]] = []
    for head, row, lead in zip(order, ranked, leads, strict=False):
        interval = "" if np.isnan(row["low"]) else f"{row['low']:.3f}–{row['high']:.3f}"
        cells = [result.grid[head].name, row["score"], interval, _lead(lead)]
        if excludes_self:
            cells.append(itself[head])
        cells += [row[name] for name in ("chance", "above_chance", "n", "pairs")]
        bar = max(0.0, row["above_chance"]) if row["low"] > row["chance"] else 0.0
        rows.append([*cells, (bar, color_of(pattern))])
    return table_of(columns, rows, width, apart=1)


def _lead(lead: Mapping[Hashable, Any]) -> str:
    """How far a head is above the next one; nothing where that is not known."""
    if np.isnan(lead["se"]):
        return ""
    doubt = "" if lead["sure"] else "≈ "
    return f"{doubt}{lead['difference']:.3f}"


def all_heads_view(
    result: HeadScores,
    patterns: Sequence[str],
    order: Sequence[Head],
    width: int,
    top: int | None = None,
) -> RenderableType:
    """Heads with what they do and their scores, in the given order.

    Where there are no scores, it says why.
    """
    listed = order[:top]
    blocks: list[RenderableType] = [title_of(result), ""]
    if listed:
        blocks.append(_heads_table(result, patterns, listed, width))
    unscored: dict[str, list[str]] = {}  # a line for the patterns of which the same is true
    for pattern in patterns:
        unscored.setdefault(why_unscored(result, pattern), []).append(plain(pattern))
    for reason, names in unscored.items():
        if reason:
            blocks += wrapped(f"{', '.join(names)}: {reason}", width)
    if listed:
        legend = [f"{column.title}: {column.about}" for column in _on_screen(HEAD_COLUMNS)]
        legend += [f"{letter(pattern)} {plain(pattern)}" for pattern in patterns]
        behind = _on_screen(result.labels.columns_behind)
        legend += [f"{column.title}: {column.about}" for column in behind]
        if result.labels.unsure.any():
            legend.append("? not sure")
        if result.labels.rests.any():
            legend.append(f"{RESTS} rests")
        blocks += ["", *flowed((Text(entry, style="dim") for entry in legend), width)]
    if top is not None and top < len(order):
        note = f"{top} of {counted(len(order), 'head')}; --top {len(order)} for all."
        blocks.append(Text(note, style="dim"))
    return Group(*blocks)


def _heads_table(
    result: HeadScores, patterns: Sequence[str], heads: Sequence[Head], width: int
) -> Table:
    """A row for each head, with a column for each pattern's score."""
    labels = result.labels
    columns = [
        Column("head"),
        Column("among words", drop=1),
        *_number_columns(HEAD_COLUMNS),
        Column("label", drop=3),
        *(Column(letter(pattern), ">.2f") for pattern in patterns),
        *_number_columns(labels.columns_behind),
    ]
    before = [column.values(labels) for column in _on_screen(HEAD_COLUMNS)]
    behind = [column.values(labels) for column in _on_screen(labels.columns_behind)]
    places = [result.scores.place_of(pattern) for pattern in patterns]
    rows: list[list[Any]] = []
    for head in heads:
        scores = result.table.score[head.place][places]
        row = [head.name, marked(labels, head)]
        row += [values[head.place] for values in before]
        row.append(str(labels.label[head.place]))
        row += [*scores, *(values[head.place] for values in behind)]
        rows.append(row)
    return table_of(columns, rows, width, apart=1, header="bold")


def _on_screen(columns: Sequence[TableColumn]) -> list[TableColumn]:
    """Those that stand on the screen of all heads."""
    return [column for column in columns if column.title]


def _number_columns(columns: Sequence[TableColumn]) -> list[Column]:
    """How columns of numbers read on the screen of all heads."""
    return [
        Column(column.title, f">.{column.decimals}f", column.drop) for column in _on_screen(columns)
    ]


def _tokens(result: HeadScores, width: int) -> Iterator[Text]:
    """The units of each sentence on two lines of their own, at most.

    A closing delimiter goes with its sentence.
    """
    lines = {"A": Text(), "B": Text()}
    current = 0
    for text, sentence in zip(result.units, result.sentence, strict=True):
        current = max(current, sentence)
        unit = plain(text.strip()) or "␣"
        lines["AB"[current]].append(unit, "dim" if sentence < 0 else "").append(" ")
    for name, line in lines.items():
        rows = line.wrap(Console(width=width), width - 2)
        if len(rows) > _LINES_EACH:
            ending = Text(f" … {len(line.plain.split())} tokens in all", style="dim")
            rows[_LINES_EACH - 1].truncate(width - 2 - ending.cell_len)
            rows[_LINES_EACH - 1].append_text(ending)
        for place, part in enumerate(rows[:_LINES_EACH] if line else ()):
            yield Text.assemble("  " if place else (f"{name} ", "bold"), part)


def profile_view(
    result: Profile, width: int, heads: Sequence[Head] | None, top: int | None
) -> RenderableType:
    """A line a head; one head that is asked for alone, in full."""
    signature = result.signature
    title = model_line(signature, f"  {signature.counts}" if signature.pairs_read > 1 else "")
    if heads is not None and len(heads) == 1:
        table = _in_full(result, heads[0], width)
    else:
        table = Table.grid(padding=(0, 2, 0, 0))
        for head in result.grid if heads is None else heads:
            shares = Text("\n").join(flowed(_shares(result, head, top), width - 7))
            table.add_row(Text(head.name, style="bold"), shares)
    remainder = "the other sentence"
    if result.grid.kind is AttentionKind.CROSS:
        remainder = "the source"
    special = " together with special tokens"
    if signature.reading.words_only:
        special = " with special tokens removed"
    meaning = list(wrapped(_CLASSES.format(remainder, special), width))
    if heads is not None and len(heads) == 1:
        meaning += wrapped(_IN_FULL, width)
    return Group(title, "", table, "", *meaning)


def _shares(result: Profile, head: Head, top: int | None) -> list[Text]:
    """A head's largest shares, and how much of all its attention is on special tokens."""
    classes = result.strongest(head)
    if top is not None:
        largest = classes[:top]
    else:
        largest = [entry for entry in classes if entry[1] >= _LEAST_SHARE] or classes[:1]
    entries = [
        Text.assemble(f"{plain(name)} ", (f"{share:.2f}", "bold")) for name, share in largest
    ]
    special = result.share[head.place][-len(SPECIAL_CLASSES) :].sum()
    if np.isfinite(special):
        entries.append(Text(f"| special tokens {special:.2f}", style="dim"))
    return entries or [Text("no attention", style="dim")]


def _in_full(result: Profile, head: Head, width: int) -> Table:
    """All classes of a head with errors, beside even attention and the average head."""
    frame = result.to_frame(head)[["class", "share", "se", "chance", "average"]]
    rows = []
    for row, share in zip(frame.itertuples(index=False), frame["share"], strict=True):
        bar = "" if np.isnan(share) else "█" * round(_BAR * share)
        rows.append([*row, bar])
    columns = [
        Column(head.name),
        Column("share", ">.3f"),
        Column("± se", ">.3f"),
        Column("even", ">.3f", 1),
        Column("average", ">.3f", 2),
        Column(""),
    ]
    return table_of(columns, rows, width)

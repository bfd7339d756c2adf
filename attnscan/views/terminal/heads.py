"""The screens of `heads`, `classify` and `profile`: kinds of heads with a map, the best heads, where attention goes."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.grid import AttentionKind, Head
from attnscan.results.heads import HeadScores, Profile
from attnscan.results.label_rules import THRESHOLD
from attnscan.results.scores import SPECIAL_CLASSES, Labels
from attnscan.text import counted, plain
from attnscan.views.behaviour import (
    kinds_of,
    none_does,
    of_attention,
    ranked_by,
    summary,
    why_unscored,
)
from attnscan.views.palette import letter, words
from attnscan.views.terminal.parts import (
    Column,
    color_of,
    flowed,
    model_line,
    named,
    number,
    table_of,
    wrapped,
)

_LEAST_BESIDE = 66  # columns that kinds need if the map is to stand beside them
_GROUP, _NUMBERS, _STRONGEST = (
    11,
    15,
    30,
)  # columns of a group's name, of two numbers, of the strongest heads at most
_RULER = 4  # columns of layer numbers on the map
_SHORT = {
    "cross-sentence": "… in the other sentence",
    "same-keys": "the same few words",
}  # behind their group's name
_LINES_EACH = 2  # of the screen for a sentence, at most
_WORTH = (
    "lead: how far above the next head; ≈: no further than its 95 % interval. above, bars: 0 at chance, 1 at perfect; "
    "no bar: the score's interval reaches chance."
)
_LEAST_SHARE = 0.05  # of a head's attention that a line names
_BAR = 20  # columns of a share of 1
_CLASSES = (
    "Shares are of a word's attention, on average over words. Every key is of one class, the first that fits: "
    "next and previous are neighbours, next-2-3 the words two and three places ahead, later and earlier the words "
    "beyond eight places, elsewhere the rest of {}. Shares of words sum to 1{}; start, middle and end are shares of "
    "all attention on special tokens."
)


def title_of(result: HeadScores, about: str = "") -> Text:
    """A screen's first line: what was read, the model, its heads and, if it is not the usual one, the reading."""
    signature, grid, reading = result.signature, result.grid, result.reading
    cut = signature.counts.partition(", ")[2] if about else ""
    unusual = (
        "by what heads carry" * reading.carried,
        "special tokens in" * (not reading.words_only),
    )
    ending = "".join(f" · {part}" for part in (cut, *unusual) if part)
    name = signature.model if signature.model == "bundled" else signature.title
    return Text.assemble(
        f"{plain(about)} · " if about else "",
        (plain(name), "bold"),
        f", {grid.shape[0]} layers × {grid.shape[1]} heads{of_attention(grid)}{ending}",
    )


def first_screen(result: HeadScores, width: int, about: str = "") -> RenderableType:
    """What heads do: in a sentence, by kinds, head by head; in 34 lines for 6 layers, 42 for 12.

    Raises: OptionError if the result has no labels.
    """
    labels, title = result.labels, title_of(result, about)
    above: list[RenderableType] = [title, *_tokens(result, width)]
    if not result.is_one_input:
        above = [*wrapped(title.plain, width, style=""), *wrapped(ranked_by(result), width)]
    above += ["", *wrapped(summary(result), width, style=""), ""]
    head_map = list(_map(labels, width))
    legend = [
        "layers down, heads across",
        f"- {'no distinct habit' if labels.habits else 'none'}",
    ]
    legend += ["grey: rests"] * bool(labels.rests.any()) + ["? not sure"] * bool(
        labels.unsure.any()
    )
    below = list(wrapped(" · ".join(legend), width))
    height = (
        24 + -(-4 * labels.grid.shape[0] // 3) - 2 * result.is_one_input
    )  # which has a note or two below
    lines, room = (
        height - len(above) - len(below),
        width - max(line.cell_len for line in head_map) - 3,
    )
    if room < _LEAST_BESIDE:
        return Group(
            *above, *_kinds(labels, width, lines - len(head_map) - 1), "", *head_map, *below
        )
    columns = Table.grid(padding=(0, 3, 0, 0))
    columns.add_row(Group(*_kinds(labels, room, lines)), Text("\n").join(head_map))
    return Group(*above, columns, "", *below)


def _kinds(labels: Labels, width: int, lines: int) -> Iterator[Text]:
    """A line a kind, by groups; where there are more than lines, the rarest share the last ones."""
    kinds, shared = kinds_of(labels), list[Text]()
    rarest = sorted(
        (kind for group, kind in kinds if group != "rest"), key=lambda kind: len(kind.heads)
    )
    merged = 0
    while 1 + len(kinds) - merged + len(shared) > lines and merged < len(rarest):
        merged += 1
        counts = (
            (kind.name, f"{letter(kind.name)} {words(kind.name)} {len(kind.heads)}")
            for kind in rarest[:merged]
        )
        shared = list(flowed((Text(count, style=color_of(name)) for name, count in counts), width))
    rows = [(group, kind) for group, kind in kinds if kind not in rarest[:merged]]
    names = [f"{letter(kind.name)} {_SHORT.get(kind.name, words(kind.name))}" for _, kind in rows]
    before = _GROUP + max(map(len, names), default=0)  # the numbers
    room = min(_STRONGEST, max(width - before - _NUMBERS, 1))
    measure = "what is carried" if labels.reading.carried else "attention"
    title = f"strongest: {measure}{' among words' if labels.reading.words_only else ''}"
    title = title if before + _NUMBERS + len(title) <= width else "strongest"
    drawn = [Text(f"{'heads':>{before + 4}}{'average':>9}  {title}", style="bold")] if rows else []
    above = ""
    for (group, kind), name in zip(rows, names, strict=True):
        shares = [(head, number(labels.numbers(kind.name, head).share)) for head in kind.heads]
        strongest = (
            Text(f"{head.name}{'?' * bool(labels.unsure[head.place])} {share}")
            for head, share in shares
        )
        line = Text(f"{'' if group == above else group:<{_GROUP}}")
        line.append(name.ljust(before - _GROUP), "dim" if group == "rest" else color_of(kind.name))
        line.append(f"{len(kind.heads):>4}{number(kind.average):>9}  ").append_text(
            next(flowed(strongest, room))
        )
        drawn.append(line)
        above = group
    for line in drawn:
        line.truncate(width)
    yield from (*drawn, *shared)


def _map(labels: Labels, width: int) -> Iterator[Text]:
    """Every head's letter, and `?` where it is unsure; that alone where there is room for no more."""
    heads = labels.grid.shape[1]
    cell = next((size for size in (3, 2) if _RULER + size * heads <= width), 1)
    step = 1 if cell == 3 else 5
    ruler = "".join((f"{head:>2}" if head % step == 0 else "").ljust(cell) for head in range(heads))
    yield Text(
        " " * (_RULER - 1) + (ruler.rstrip() if cell > 1 else f" 0 to {heads - 1}"), style="dim"
    )
    for layer in labels.grid.numbers:
        line = Text.assemble((f"{layer:>{_RULER - 2}}  ", "dim"))
        for head in labels.grid.layer_of(Head(layer, 0)):
            kind, doubt = str(labels.among_words[head.place]), "?" * bool(labels.unsure[head.place])
            text = (doubt or letter(kind)) if cell == 1 else letter(kind) + doubt
            line.append(
                text.ljust(cell),
                style="dim" if labels.rests[head.place] or not kind else color_of(kind),
            )
        line.rstrip()
        yield line


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
            blocks.append(_best_heads(result, pattern, top, width))
    blocks += ["", *wrapped(_WORTH, width)] if ranked else []
    if ranked > top:
        blocks.append(
            Text(f"{top} of {counted(ranked, 'head')}; --top {ranked} for all.", style="dim")
        )
    return Group(*blocks)


def _best_heads(result: HeadScores, pattern: str, top: int, width: int) -> Table:
    """The best heads of a pattern of many pairs, with what their scores are worth."""
    p, order = result.scores.place_of(pattern), result.order(pattern)[:top]
    excludes_self, itself = (
        result.scores.scored[p].excludes_self,
        result.table.self_mass[..., p].ravel(),
    )
    columns = [
        Column("head"),
        Column("score", ">.3f"),
        Column("95 % interval", ">"),
        Column("lead", ">", 1),
    ]
    columns += [Column("self", ">.3f", 3)] * excludes_self
    columns += [
        Column("chance", ">.3f", 4),
        Column("above", ">.3f"),
        Column("n", ">,", 2),
        Column("pairs", ">,", 5),
    ]
    ranked, leads = result.to_frame([pattern], top), result.leads(pattern).reindex(range(top))
    rows: list[list[Any]] = []
    for head, row, lead in zip(
        order, ranked.to_dict("records"), leads.to_dict("records"), strict=False
    ):
        interval = "" if np.isnan(row["low"]) else f"{row['low']:.3f}–{row['high']:.3f}"
        difference = (
            ""
            if np.isnan(lead["se"])
            else f"{'' if lead['sure'] else '≈ '}{lead['difference']:.3f}"
        )
        bar = max(0.0, row["above_chance"]) if row["low"] > row["chance"] else 0.0
        cells = [
            result.grid[head].name,
            row["score"],
            interval,
            difference,
            *[itself[head]] * excludes_self,
        ]
        numbers = [row[name] for name in ("chance", "above_chance", "n", "pairs")]
        rows.append([*cells, *numbers, (bar, color_of(pattern))])
    return table_of([*columns, Column("above chance", "bar")], rows, width, apart=1)


def all_heads_view(
    result: HeadScores,
    patterns: Sequence[str],
    order: Sequence[Head],
    width: int,
    top: int | None = None,
) -> RenderableType:
    """Heads with what they do and their scores, in the given order; and why there are no scores, where that is so."""
    labels = result.labels
    columns = [
        Column("head"),
        Column("label", drop=1),
        Column("among words", drop=3),
        Column("share", ">.2f", 2),
    ]
    columns += [Column(letter(pattern), ">.2f") for pattern in patterns] + [
        Column("nats", ">.2f", 4)
    ]
    places, rows = [result.scores.place_of(pattern) for pattern in patterns], []
    for head in order[:top]:
        does = str(labels.label[head.place]), str(labels.among_words[head.place])
        label, among_words = (
            Text(f"{letter(name)} {plain(name)}", style=color_of(name)) for name in does
        )
        label.append("?" * bool(labels.unsure[head.place]))
        numbers = [
            labels.share[head.place],
            *result.table.score[head.place][places],
            result.scores.entropy[head.place],
        ]
        rows.append([head.name, label, among_words, *numbers])
    blocks: list[RenderableType] = [title_of(result), ""]
    blocks += [table_of(columns, rows, width, apart=1, header="bold")] if rows else []
    unscored: dict[str, list[str]] = {}  # a line for the patterns of which the same is true
    for pattern in patterns:
        unscored.setdefault(why_unscored(result, pattern), []).append(plain(pattern))
    for reason, names in unscored.items():
        blocks += wrapped(f"{', '.join(names)}: {reason}", width) if reason else []
    legend = [
        "share: of what it does among words",
        *(f"{letter(pattern)} {plain(pattern)}" for pattern in patterns),
    ]
    legend += ["nats: entropy of a row", *["? not sure"] * bool(labels.unsure.any())]
    blocks += ["", *flowed((Text(entry, style="dim") for entry in legend), width)] if rows else []
    if top is not None and top < len(order):
        blocks.append(
            Text(
                f"{top} of {counted(len(order), 'head')}; --top {len(order)} for all.", style="dim"
            )
        )
    return Group(*blocks)


def _tokens(result: HeadScores, width: int) -> Iterator[Text]:
    """The units of each sentence on two lines of their own, at most; a closing delimiter goes with its sentence."""
    lines, current = {"A": Text(), "B": Text()}, 0
    for text, sentence in zip(result.units, result.sentence, strict=True):
        current = max(current, sentence)
        lines["AB"[current]].append(
            plain(text.strip()) or "␣", "dim" if sentence < 0 else ""
        ).append(" ")
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
    remainder = "the source" if result.grid.kind is AttentionKind.CROSS else "the other sentence"
    special = (
        " with special tokens removed"
        if signature.reading.words_only
        else " together with special tokens"
    )
    meaning = wrapped(_CLASSES.format(remainder, special), width)
    if heads is not None and len(heads) == 1:
        return Group(title, "", _in_full(result, heads[0], width), "", *meaning)
    grid = Table.grid(padding=(0, 2, 0, 0))
    for head in result.grid if heads is None else heads:
        grid.add_row(
            Text(head.name, style="bold"),
            Text("\n").join(flowed(_shares(result, head, top), width - 7)),
        )
    return Group(title, "", grid, "", *meaning)


def _shares(result: Profile, head: Head, top: int | None) -> list[Text]:
    """A head's largest shares, and how much of all its attention is on special tokens."""
    classes = result.strongest(head)
    largest = (
        classes[:top]
        if top is not None
        else [entry for entry in classes if entry[1] >= _LEAST_SHARE] or classes[:1]
    )
    entries = [
        Text.assemble(f"{plain(name)} ", (f"{share:.2f}", "bold")) for name, share in largest
    ]
    if np.isfinite(special := result.share[head.place][-len(SPECIAL_CLASSES) :].sum()):
        entries.append(Text(f"| special tokens {special:.2f}", style="dim"))
    return entries or [Text("no attention", style="dim")]


def _in_full(result: Profile, head: Head, width: int) -> Table:
    """All classes of a head with errors, beside even attention and the average head."""
    frame = result.to_frame(head)[["class", "share", "se", "chance", "average"]]
    rows = [
        [*row, "" if np.isnan(row[1]) else "█" * round(_BAR * row[1])]
        for row in frame.itertuples(index=False)
    ]
    columns = [
        Column("share", ">.3f"),
        Column("± se", ">.3f"),
        Column("even", ">.3f", 1),
        Column("average", ">.3f", 2),
    ]
    return table_of([Column(head.name), *columns, Column("")], rows, width)

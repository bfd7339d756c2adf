"""The screens of `heads` and `classify`: kinds of heads by groups with a map, the best heads of patterns, one input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from attnscan.results.heads import HeadScores
from attnscan.results.scores import Kind, Labels
from attnscan.results.terms import THRESHOLD, Head
from attnscan.text import counted, plain
from attnscan.views.behaviour import best_heads, kinds_of, none_does, ranked_by, summary, why_unscored
from attnscan.views.palette import letter, words
from attnscan.views.table import Column, Table
from attnscan.views.terminal.parts import color_of, flowed, named, number, wrapped

_LEAST_BESIDE = 66  # columns that kinds need if the map is to stand beside them
_GROUP, _AVERAGE, _STRONGEST = 11, 9, 30  # columns of a group's name, the average head's number, the strongest heads
_RULER = 4  # columns of layer numbers on the map
_SHORT = {"cross-sentence": "… in the other sentence", "same-keys": "the same few words"}  # behind their group's name
_LINES_EACH = 2  # of the screen for a sentence, at most
_WORTH = (
    "lead: how far above the next head; ≈: no further than its 95 % interval. above, bars: 0 at chance, 1 at perfect; "
    "no bar: the score's interval reaches chance."
)


def title_of(result: HeadScores, about: str = "") -> Text:
    """A screen's first line: what was read, the model, its heads and, if it is not the usual one, the reading."""
    signature, grid, reading = result.signature, result.grid, result.reading
    kind = f" of {grid.kind.word} attention" if grid.kind.letter else ""
    cut = signature.counts.partition(", ")[2] if about else ""
    unusual = ("by what heads carry" * reading.carried, "special tokens in" * (not reading.among_words))
    rest = "".join(f" · {part}" for part in (cut, *unusual) if part)
    name = signature.model if signature.model == "bundled" else signature.title
    before = f"{plain(about)} · " if about else ""
    return Text.assemble(before, (plain(name), "bold"), f", {grid.shape[0]} layers × {grid.shape[1]} heads{kind}{rest}")


def first_screen(result: HeadScores, width: int, about: str = "") -> RenderableType:
    """What heads do: in a sentence, by kinds, head by head; in 34 lines for 6 layers, 42 for 12.

    Raises: OptionError if the result has no labels.
    """
    labels, title = result.labels, title_of(result, about)
    above = [title, *_tokens(result, width)]
    if not result.of_input:
        above = [*wrapped(title.plain, width, style=""), *wrapped(ranked_by(result), width)]
    said, drawn = list(wrapped(summary(result), width, style="")), list(_map(labels, width))
    legend = ["layers down, heads across", f"- {'no distinct habit' if labels.statements else 'none'}"]
    legend += ["grey: rests"] * bool(labels.rests.any()) + ["? not sure"] * bool(labels.unsure.any())
    explained = list(wrapped(" · ".join(legend), width))
    most = 22 + -(-4 * labels.grid.shape[0] // 3) - 2 * result.of_input  # which has a note or two below
    left, room = most - len([*above, *said, *explained]), width - max(line.cell_len for line in drawn) - 3
    if room < _LEAST_BESIDE:
        return Group(*above, "", *said, "", *_kinds(labels, width, left - len(drawn) - 1), "", *drawn, *explained)
    both = RichTable.grid(padding=(0, 3, 0, 0))
    both.add_row(Group(*_kinds(labels, room, left)), Text("\n").join(drawn))
    return Group(*above, "", *said, "", both, "", *explained)


def _kinds(labels: Labels, width: int, lines: int) -> Iterator[Text]:
    """A line a kind, by groups; where there are more than lines, the rarest share the last ones."""
    kinds = kinds_of(labels)
    rarest = sorted((kind for group, kind in kinds if group != "rest"), key=lambda kind: len(kind.heads))
    for count in range(len(rarest) + 1):
        merged = rarest[:count]
        counts = [Text(f"{_marked(kind)} {len(kind.heads)}", style=color_of(kind.name)) for kind in merged]
        shared = list(flowed(counts, width)) if merged else []
        if 1 + len(kinds) - count + len(shared) <= lines:
            break
    rows = [(group, kind, _marked(kind, short=True)) for group, kind in kinds if kind not in merged]
    wide = _GROUP + max((len(name) for *_, name in rows), default=0) + 4  # to the end of the numbers of heads
    left = min(_STRONGEST, max(width - wide - _AVERAGE - 2, 1))
    what = "what is carried" if labels.reading.carried else "attention"
    title = f"strongest: {what}{' among words' if labels.reading.among_words else ''}"
    title = title if wide + _AVERAGE + 2 + len(title) <= width else "strongest"
    drawn = [Text(f"{'heads':>{wide}}{'average':>{_AVERAGE}}  {title}", style="bold")] if rows else []
    before = ""
    for group, kind, name in rows:
        shares = [(head, number(labels.numbers(kind.name, head).share)) for head in kind.heads]
        strongest = (Text(f"{head.name}{'?' * bool(labels.unsure[head.place])} {share}") for head, share in shares)
        of_kind = (name.ljust(wide - _GROUP - 4), "dim" if group == "rest" else color_of(kind.name))
        numbers = f"{len(kind.heads):>4}{number(kind.average):>{_AVERAGE}}  "
        title = "" if group == before else group
        drawn.append(Text.assemble(f"{title:<{_GROUP}}", of_kind, numbers, next(flowed(strongest, left))))
        before = group
    for line in drawn:
        line.truncate(width)
    yield from (*drawn, *shared)


def _marked(kind: Kind, *, short: bool = False) -> str:
    """A kind's letter and words; shorter behind its group's name."""
    return f"{letter(kind.name)} {_SHORT.get(kind.name, words(kind.name)) if short else words(kind.name)}"


def _map(labels: Labels, width: int) -> Iterator[Text]:
    """Every head's letter, and `?` where it is unsure; that alone where there is room for no more."""
    heads = labels.grid.shape[1]
    cell = next((size for size in (3, 2) if _RULER + size * heads <= width), 1)
    every = 1 if cell == 3 else 5
    ruler = "".join((f"{head:>2}" if head % every == 0 else "").ljust(cell) for head in range(heads))
    yield Text(" " * (_RULER - 1) + (ruler.rstrip() if cell > 1 else f" 0 to {heads - 1}"), style="dim")
    for row, layer in enumerate(labels.grid.numbers):
        line = Text.assemble((f"{layer:>{_RULER - 2}}  ", "dim"))
        for place in ((row, head) for head in range(heads)):
            kind, asked = str(labels.among_words[place]), "?" if labels.unsure[place] else ""
            text = (asked or letter(kind)) if cell == 1 else letter(kind) + asked
            line.append(text.ljust(cell), style="dim" if labels.rests[place] or not kind else color_of(kind))
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
            blocks += [best_heads(result, pattern, top).screen(width, apart=1)]
    blocks += ["", *wrapped(_WORTH, width)] if ranked else []
    if ranked > top:
        blocks.append(Text(f"{top} of {counted(ranked, 'head')}; --top {ranked} for all.", style="dim"))
    return Group(*blocks)


def all_heads_view(
    result: HeadScores, patterns: Sequence[str], order: Sequence[Head], width: int, top: int | None = None
) -> RenderableType:
    """Heads with what they do and their scores, in the given order; and why there are no scores, where that is so."""
    labels = result.labels
    columns = [Column("head"), Column("label", drop=1), Column("among words", drop=3), Column("share", ">.2f", 2)]
    columns += [Column(letter(pattern), ">.2f") for pattern in patterns] + [Column("nats", ">.2f", 4)]
    places, rows = [result.scores.place_of(pattern) for pattern in patterns], []
    for head in order[:top]:
        both = str(labels.label[head.place]), str(labels.among_words[head.place])
        does = [Text(f"{letter(name)} {plain(name)}", style=color_of(name)) for name in both]
        does[0].append("?" * bool(labels.unsure[head.place]))
        scores = result.table.score[head.place][places]
        rows.append([head.name, *does, labels.share[head.place], *scores, result.scores.entropy[head.place]])
    blocks: list[RenderableType] = [title_of(result), ""]
    blocks += [Table(columns, rows).screen(width, apart=1, header="bold")] if rows else []
    unscored: dict[str, list[str]] = {}  # a line for the patterns of which the same is true
    for pattern in patterns:
        unscored.setdefault(why_unscored(result, pattern), []).append(plain(pattern))
    for why, names in unscored.items():
        blocks += wrapped(f"{', '.join(names)}: {why}", width) if why else []
    legend = ["share: of what it does among words", *(f"{letter(pattern)} {plain(pattern)}" for pattern in patterns)]
    legend += ["nats: entropy of a row", *["? not sure"] * bool(labels.unsure.any())]
    blocks += ["", *flowed((Text(entry, style="dim") for entry in legend), width)] if rows else []
    if top is not None and top < len(order):
        blocks.append(Text(f"{top} of {counted(len(order), 'head')}; --top {len(order)} for all.", style="dim"))
    return Group(*blocks)


def _tokens(result: HeadScores, width: int) -> Iterator[Text]:
    """The units of each sentence on two lines of their own, at most; a closing delimiter goes with its sentence."""
    lines, current = {"A": Text(), "B": Text()}, 0
    for text, sentence in zip(result.units, result.sentence, strict=True):
        current = max(current, sentence)
        lines["AB"[current]].append(plain(text.strip()) or "␣", "dim" if sentence < 0 else "").append(" ")
    for name, line in lines.items():
        shown = line.wrap(Console(width=width), width - 2)
        if len(shown) > _LINES_EACH:
            more = Text(f" … {len(line.plain.split())} tokens in all", style="dim")
            shown[_LINES_EACH - 1].truncate(width - 2 - more.cell_len)
            shown[_LINES_EACH - 1].append_text(more)
        for place, part in enumerate(shown[:_LINES_EACH] if line else ()):
            yield Text.assemble("  " if place else (f"{name} ", "bold"), part)

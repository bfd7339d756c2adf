"""The screens of `show`, one head's weights, and of `predictive`, which words of an input help to predict which."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.text import Text

from attnscan.results.grid import Head
from attnscan.results.heads import HeadWeights
from attnscan.results.predictions import Dependencies
from attnscan.text import counted, plain
from attnscan.views.palette import COLORS
from attnscan.views.terminal.parts import flowed, model_line, named, number

_LABEL = 12  # columns of a token's text, at most
_BEST = 20  # columns beside a row, for its strongest key
_LEVELS = ((0.6, "██"), (0.3, "▓▓"), (0.1, "▒▒"), (0.02, "░░"))
_MARK = COLORS["next-word"]
_LINKED = "+"  # behind a weight between words that gold links align
_EDGES = 20
_SHADES = ("·", "░░", "▒▒", "▓▓", "██")
_SHADE_WIDTH = 3


def head_view(shown: HeadWeights, width: int, top: int | None = None) -> RenderableType:
    """Each head with its scores on top, then its weights; with `top`, as a list of that many."""
    names = [plain(token).strip() or "␣" for token in shown.attention.tokens]
    label = min(_LABEL, max(cell_len(names[query]) for query in shown.queries))
    rows = [_labelled(shown.number(query), names[query], label) for query in shown.queries]
    room, single = width - rows[0].cell_len, len(rows) == 1
    fits = 2 * len(shown.keys) + _BEST <= room
    blocks: list[RenderableType] = [model_line(shown.result.signature)]
    for heads, matrix in shown.matrices():
        blocks += ["", *_title(shown, heads, width)]
        drawn = fits and top is None and not single
        blocks += (
            _map(shown, matrix, rows, names)
            if drawn
            else _edges(shown, matrix, rows, names, width, top)
        )
    if shown.attention.source:
        gold = f", {_LINKED} behind gold links" if shown.result.links else ""
        blocks.append(
            Text(f"Queries are the target's words, keys the source's{gold}.", style="dim")
        )
    if not single and not fits:
        first, count = shown.keys[0], max(4, (room - _BEST) // 2)
        part = f"--window {first}-{first + count - 1} shows a part, --token one row"
        blocks.append(
            Text(
                f"A map of {len(shown.keys)} tokens is wider than the screen: {part}.", style="dim"
            )
        )
    return Group(*blocks)


def _labelled(place: int, name: str, width: int) -> Text:
    """A row's number and word, filled to a width."""
    return Text.assemble((f"{place:>3} ", "dim"), _fit(name, width) + " ")


def _title(shown: HeadWeights, heads: Sequence[Head], width: int) -> Iterator[Text]:
    """What a head does, and its scores; of a mean, which heads it is of."""
    if len(heads) > 1:
        line = Text(
            f"mean of {len(heads)} heads: {', '.join(head.name for head in heads)}", style="bold"
        )
        line.truncate(width, overflow="ellipsis")
        yield line
        return
    labels, head = shown.result.labels, heads[0]
    label, among_words = str(labels.label[head.place]), str(labels.among_words[head.place])
    also = () if label == among_words else (("   among words: ", "dim"), named(among_words))
    yield Text.assemble(
        (f"{head.name}  ", "bold"), named(label, unsure=bool(labels.unsure[head.place])), *also
    )
    scores = zip(labels.scores.patterns, labels.table.score[head.place], strict=True)
    entries = [
        named(pattern).append(f" {score:.2f}") for pattern, score in scores if not np.isnan(score)
    ]
    entropy = number(labels.scores.entropy[head.place])
    yield from flowed(
        [*entries, Text(f"entropy {entropy} nats" if entropy else "carries nothing", style="dim")],
        width,
    )


def _map(
    shown: HeadWeights, matrix: NDArray[np.float32], rows: list[Text], names: list[str]
) -> Iterator[Text]:
    """Queries downwards, keys across, each key's text on end above its column, the strongest key beside the row."""
    links, keys = set(shown.result.links), [names[key][:_LABEL] for key in shown.keys]
    height = max(map(len, keys))
    yield Text("")
    for place in range(height):
        yield Text(
            " " * rows[0].cell_len + "".join(_fit(key.rjust(height)[place], 2) for key in keys),
            style="dim",
        )
    for query, row, weights in zip(shown.queries, rows, matrix, strict=True):
        line, best = row.copy(), int(weights.argmax())
        for key, weight in zip(shown.keys, weights, strict=True):
            mark = next((mark for level, mark in _LEVELS if weight >= level), "· ")
            mark = mark[0] + _LINKED if (query, key) in links else mark
            line.append(mark, _MARK if weight >= _LEVELS[-1][0] else "dim")
        line.append(f" {weights[best]:.2f} ").append(
            keys[best], "bold" if weights[best] >= _LEVELS[1][0] else "dim"
        )
        yield line
    legend = "  ".join(f"{mark} {level:g}" for level, mark in reversed(_LEVELS))
    yield Text(f"Queries down, keys across. From a weight of:  {legend}", style="dim")


def _edges(
    shown: HeadWeights,
    matrix: NDArray[np.float32],
    rows: list[Text],
    names: list[str],
    width: int,
    top: int | None,
) -> Iterator[Text]:
    """The strongest weights of all, or one query's strongest keys."""
    count, single, links = top or _EDGES, len(rows) == 1, set(shown.result.links)
    strongest = Text(
        f"The {min(count, matrix.size)} strongest of {counted(matrix.size, 'weight')}", style="dim"
    )
    yield rows[0].copy().append(" attends to", "dim") if single else strongest
    for place in np.argsort(-matrix, axis=None, kind="stable")[
        :count
    ].tolist():  # of equal ones the first
        row, column = divmod(place, len(shown.keys))
        key, weight = shown.keys[column], float(matrix[row, column])
        line = Text("    ") if single else rows[row].copy().append(" → ", "dim")
        linked = _LINKED if (shown.queries[row], key) in links else " "
        line.append(f"{key:>3} ", "dim").append(_fit(names[key], _LABEL)).append(
            f" {weight:.3f}{linked}"
        )
        yield line.append("█" * round(weight * max(0, width - line.cell_len)), _MARK)
    if single and matrix.size > count:
        yield Text(f"and {matrix.size - count} more; --top {matrix.size} shows all.", style="dim")


def _fit(text: str, width: int) -> str:
    """A text cut or filled to a number of columns, some letters being two wide."""
    fitted = Text(text)
    fitted.truncate(width, overflow="ellipsis", pad=True)
    return fitted.plain


def dependencies_view(result: Dependencies, width: int) -> RenderableType:
    """Which words help to predict which: a row for each word, shaded where it is helped, its best helpers beside it."""
    measured, shares, places = ~np.isnan(result.help.values), result.help.shares, result.help.places
    queries, keys = (np.flatnonzero(measured.any(axis)).tolist() for axis in (1, 0))
    label = min(_LABEL, max(cell_len(plain(unit)) for unit in result.units))
    left, ruler = 5 + label, "".join(str(places[key]).rjust(_SHADE_WIDTH) for key in keys)
    helpers = {query: _helpers(result, query) for query in queries}
    shaded = left + len(ruler) + 1 + max(best[0].cell_len for best in helpers.values()) <= width
    lines = [Text(" " * left + ruler, style="dim")] if shaded else []
    for query in queries:
        line = _labelled(places[query], plain(result.units[places[query]]).strip(), label)
        for key in keys if shaded else ():  # how much of the row's best helper
            level = (
                int(np.ceil(shares[query, key] * (len(_SHADES) - 1))) if measured[query, key] else 0
            )
            line.append(
                (_SHADES[level] if measured[query, key] else "").rjust(_SHADE_WIDTH),
                _MARK if level else "dim",
            )
        lines.append(
            line.append(" ").append_text(next(flowed(helpers[query], width - line.cell_len - 1)))
        )
    unit = "nats" if result.help.measure == "cpmi" else "distance"
    title = Text(
        f"How much each other word helps to predict the word of the row, in {unit}", style="bold"
    )
    return Group(
        model_line(result.signature), "", title, *lines, Text(result.help.description, style="dim")
    )


def _helpers(result: Dependencies, query: int) -> list[Text]:
    """The best helpers of a word, each with its number among those asked about."""
    if not result.help.shares[query].any():
        return [Text("nothing helps enough")]
    row, places = result.help.values[query], result.help.places
    best = [int(key) for key in np.argsort(-np.nan_to_num(row, nan=-np.inf))[:5] if row[key] > 0]
    return [
        Text(f"{plain(result.units[places[key]]).strip()}#{places[key]} {row[key]:.2f}")
        for key in best
    ]

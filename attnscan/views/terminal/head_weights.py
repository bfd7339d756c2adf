"""The screens of `show`, one head's weights, and of `predictive`, which words of an input help to predict which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.text import Text

from attnscan.results.dependencies import Dependencies
from attnscan.results.grid import Head
from attnscan.results.head_weights import HeadWeights, strongest
from attnscan.results.terms import counted
from attnscan.safe_text import plain
from attnscan.views.palette import COLORS
from attnscan.views.terminal.parts import flowed, model_line, named, number

_LABEL = 12  # columns of a token's text, at most
_BEST = 20  # columns beside a row, for its strongest key
_LEVELS = ((0.6, "██"), (0.3, "▓▓"), (0.1, "▒▒"), (0.02, "░░"))
_MARK = COLORS["next-word"]
_LINKED = "+"  # behind a weight between words that gold links align
_EDGES = 20
_SHADES = " ░▒▓█"
_SHADE_WIDTH = 3
_HELPER_WIDTH = 19


def head_view(shown: HeadWeights, width: int, top: int | None = None) -> RenderableType:
    """Each head with its scores on top, then its weights; with `top`, as a list of that many."""
    blocks: list[RenderableType] = [model_line(shown.result.signature)]
    fits = _left(shown) + 2 * len(shown.keys) + _BEST <= width
    for heads, matrix in shown.matrices():
        blocks += ["", *_title(shown, heads, width)]
        if len(shown.queries) == 1:
            blocks += _row(shown, matrix[0], width, top)
        elif fits and top is None:
            blocks += _map(shown, matrix)
        else:
            blocks += _list(shown, matrix, width, top or _EDGES)
    if shown.attention.source:
        gold = f", {_LINKED} behind gold links" if shown.result.links else ""
        blocks.append(Text(f"Queries are the target's words, keys the source's{gold}.", style="dim"))
    if len(shown.queries) > 1 and not fits:
        room = max(4, (width - _left(shown) - _BEST) // 2)
        first = shown.keys[0]
        more = f"A map of {len(shown.keys)} tokens is wider than the screen: "
        blocks.append(Text(f"{more}--window {first}-{first + room - 1} shows a part, --token one row.", style="dim"))
    return Group(*blocks)


def _title(shown: HeadWeights, heads: Sequence[Head], width: int) -> Iterator[Text]:
    scores = shown.result.scores
    if len(heads) > 1:
        line = Text(f"mean of {len(heads)} heads: {', '.join(head.name for head in heads)}", style="bold")
        line.truncate(width, overflow="ellipsis")
        yield line
        return
    head = heads[0]
    labels = shown.result.labels
    label, among_words = str(labels.label[head.place]), str(labels.among_words[head.place])
    also = () if label == among_words else (("   among words: ", "dim"), named(among_words))
    yield Text.assemble((f"{head.name}  ", "bold"), named(label, unsure=bool(labels.unsure[head.place])), *also)
    entries = []
    for p, pattern in enumerate(scores.patterns):
        score = shown.result.table.score[(*head.place, p)]
        if not np.isnan(score):
            entries.append(named(pattern).append(f" {score:.2f}"))
    entropy = number(scores.entropy[head.place])
    entries.append(Text(f"entropy {entropy} nats" if entropy else "carries nothing", style="dim"))
    yield from flowed(entries, width)


def _map(shown: HeadWeights, matrix: NDArray[np.float32]) -> Iterator[RenderableType]:
    """Queries downwards, keys across, each key's text on end above its column."""
    names, links = [_name(shown, key) for key in shown.keys], set(shown.result.links)
    height = min(_LABEL, max(map(len, names)))
    left = _left(shown)
    yield Text("")
    for row in range(height):
        letters = "".join(_fit(name[:height].rjust(height)[row], 2) for name in names)
        yield Text(" " * left + letters, style="dim")
    for query, weights in zip(shown.queries, matrix, strict=True):
        line = _query(shown, query)
        for key, weight in zip(shown.keys, weights, strict=True):
            mark = next((mark for level, mark in _LEVELS if weight >= level), "· ")
            mark = mark[0] + _LINKED if (query, key) in links else mark
            line.append(mark, _MARK if weight >= _LEVELS[-1][0] else "dim")
        yield line.append(" ").append_text(_best(shown, weights))
    legend = "  ".join(f"{mark} {level:g}" for level, mark in reversed(_LEVELS))
    yield Text(f"Queries down, keys across. From a weight of:  {legend}", style="dim")


def _best(shown: HeadWeights, weights: NDArray[np.float32]) -> Text:
    best = int(weights.argmax())
    name = _fit(f"{_name(shown, shown.keys[best])}", _BEST - 8).rstrip()
    return Text.assemble(f"{weights[best]:.2f} ", (name, "bold" if weights[best] >= _LEVELS[1][0] else "dim"))


def _row(shown: HeadWeights, weights: NDArray[np.float32], width: int, top: int | None) -> Iterator[RenderableType]:
    """One query's keys, the strongest first."""
    yield _query(shown, shown.queries[0]).append(" attends to", "dim")
    for _, column in strongest(weights[None], top or _EDGES):
        yield _edge(shown, shown.queries[0], shown.keys[column], float(weights[column]), width)
    if len(weights) > (top or _EDGES):
        rest = len(weights) - (top or _EDGES)
        yield Text(f"and {rest} more; --top {len(weights)} shows all.", style="dim")


def _list(shown: HeadWeights, matrix: NDArray[np.float32], width: int, count: int) -> Iterator[RenderableType]:
    """The strongest weights of all."""
    yield Text(f"The {min(count, matrix.size)} strongest of {counted(matrix.size, 'weight')}", style="dim")
    for row, column in strongest(matrix, count):
        yield _edge(shown, shown.queries[row], shown.keys[column], float(matrix[row, column]), width)


def _edge(shown: HeadWeights, query: int, key: int, weight: float, width: int) -> Text:
    line = Text("    ") if len(shown.queries) == 1 else _query(shown, query).append(" → ", "dim")
    linked = _LINKED if (query, key) in shown.result.links else " "
    line.append(f"{key:>3} ", "dim").append(_fit(_name(shown, key), _LABEL)).append(f" {weight:.3f}{linked}")
    return line.append("█" * round(weight * max(0, width - line.cell_len)), _MARK)


def _query(shown: HeadWeights, query: int) -> Text:
    return Text.assemble((f"{shown.number(query):>3} ", "dim"), _fit(_name(shown, query), _left(shown) - 5) + " ")


def _left(shown: HeadWeights) -> int:
    """Columns before the first cell: the query's index and text."""
    return 5 + min(_LABEL, max(cell_len(_name(shown, query)) for query in shown.queries))


def _name(shown: HeadWeights, token: int) -> str:
    return plain(shown.attention.tokens[token]).strip() or "␣"


def _fit(text: str, width: int) -> str:
    """A text cut or filled to a number of columns, some letters being two wide."""
    fitted = Text(text)
    fitted.truncate(width, overflow="ellipsis", pad=True)
    return fitted.plain


def dependencies_view(result: Dependencies, width: int) -> RenderableType:
    """Which words help to predict which: a row for each word, shaded where it is helped, its best helpers beside it."""
    measured, shares, places = ~np.isnan(result.help.values), result.help.shares, result.help.places
    queries, keys = np.flatnonzero(measured.any(axis=1)), np.flatnonzero(measured.any(axis=0))
    label = min(14, max(len(plain(unit)) for unit in result.units))
    left = 4 + label
    shaded = left + _SHADE_WIDTH * len(keys) + _HELPER_WIDTH <= width
    if shaded:
        left += _SHADE_WIDTH * len(keys)
    lines = (
        [Text("".join(str(places[key]).rjust(_SHADE_WIDTH) for key in keys).rjust(left), style="dim")] if shaded else []
    )
    for query in queries:
        line = Text.assemble(
            (f"{places[query]:>3} ", "dim"), plain(result.units[places[query]]).strip()[:label].ljust(label)
        )
        if shaded:
            cells = (_shade(float(shares[query, key]), known=bool(measured[query, key])) for key in keys)
            line.append_text(Text("").join(cells))
        lines.append(line.append("  ").append_text(_helpers(result, int(query), width - left - 2)))
    unit = "nats" if result.help.measure == "cpmi" else "distance"
    return Group(
        model_line(result.signature),
        "",
        Text(f"How much each other word helps to predict the word of the row, in {unit}", style="bold"),
        *lines,
        Text(result.help.description, style="dim"),
    )


def _shade(share: float, known: bool) -> Text:
    """A cell of the matrix. Shape: `share` of the row's best, in [0, 1]."""
    if not known:
        return Text(" " * _SHADE_WIDTH)
    level = int(np.ceil(share * (len(_SHADES) - 1)))
    return Text("  ·", style="dim") if level == 0 else Text(f" {_SHADES[level] * 2}", style=COLORS["next-word"])


def _helpers(result: Dependencies, query: int, width: int) -> Text:
    """The best helpers of a word, by its number among those asked about, as many as fit."""
    if not result.help.shares[query].any():
        return Text("nothing helps enough"[:width], style="dim")
    row, places = result.help.values[query], result.help.places
    best = [int(key) for key in np.argsort(-np.nan_to_num(row, nan=-np.inf))[:5] if row[key] > 0]
    entries = [Text(f"{plain(result.units[places[key]]).strip()}#{places[key]} {row[key]:.2f}") for key in best]
    first = next(flowed(entries, width))
    first.truncate(width, overflow="ellipsis")
    return first

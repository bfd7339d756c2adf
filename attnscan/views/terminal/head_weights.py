"""The screens of `show`, one head's weights, and `predictive`, which words help predict which."""

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
from attnscan.views.palette import COLORS, RESTS, words
from attnscan.views.terminal.parts import flowed, marked, model_line, named, number, wrapped

_LABEL = 12  # columns of a token's text, at most
_BEST = 20  # columns beside a row, for its strongest key
_LEVELS = ((0.6, "██"), (0.3, "▓▓"), (0.1, "▒▒"), (0.02, "░░"))
_MARK = COLORS["next-word"]
_LINKED = "+"  # behind a weight between words that gold links align
_EDGES = 20
_SHADES = ("·", "░░", "▒▒", "▓▓", "██")
_SHADE_WIDTH = 3
_HELPERS = 5  # of a word, at most


def head_view(shown: HeadWeights, width: int, top: int | None = None) -> RenderableType:
    """Each head with its scores on top, then its weights; with `top`, as a list of that many."""
    names = [plain(token).strip() or "␣" for token in shown.attention.tokens]
    label = min(_LABEL, max(cell_len(names[query]) for query in shown.queries))
    rows = [_labelled(shown.number(query), names[query], label) for query in shown.queries]
    room = width - rows[0].cell_len
    single = len(rows) == 1
    fits = 2 * len(shown.keys) + _BEST <= room
    blocks: list[RenderableType] = [model_line(shown.result.signature)]
    for heads, matrix in shown.matrices():
        blocks += ["", *_title(shown, heads, width)]
        if fits and top is None and not single:
            blocks += _map(shown, matrix, rows, names)
        else:
            blocks += _edges(shown, matrix, rows, names, width, top)
    if shown.attention.source:
        gold = f", {_LINKED} behind gold links" if shown.result.links else ""
        note = f"Queries are the target's words, keys the source's{gold}."
        blocks.append(Text(note, style="dim"))
    if not single and not fits:
        first = shown.keys[0]
        count = max(4, (room - _BEST) // 2)
        part = f"--window {first}-{first + count - 1} shows a part, --token one row"
        note = f"A map of {len(shown.keys)} tokens is wider than the screen: {part}."
        blocks.append(Text(note, style="dim"))
    return Group(*blocks)


def _labelled(place: int, name: str, width: int) -> Text:
    """A row's number and word, filled to a width."""
    return Text.assemble((f"{place:>3} ", "dim"), _fit(name, width) + " ")


def _title(shown: HeadWeights, heads: Sequence[Head], width: int) -> Iterator[Text]:
    """What a head does, and its scores; of a mean, which heads it is of."""
    if len(heads) > 1:
        names = ", ".join(head.name for head in heads)
        line = Text(f"mean of {len(heads)} heads: {names}", style="bold")
        line.truncate(width, overflow="ellipsis")
        yield line
        return
    labels = shown.result.labels
    head = heads[0]
    title = Text.assemble((f"{head.name}  ", "bold"), marked(labels, head))
    if labels.rests[head.place]:
        title.append(f"   {RESTS} rests on {words(str(labels.label[head.place]))}", "dim")
    yield title
    scores = zip(labels.scores.patterns, labels.table.score[head.place], strict=True)
    entries = [
        named(pattern).append(f" {score:.2f}") for pattern, score in scores if not np.isnan(score)
    ]
    entropy = number(labels.scores.means["entropy"][head.place])
    spread = f"entropy {entropy} nats" if entropy else "carries nothing"
    yield from flowed([*entries, Text(spread, style="dim")], width)


def _map(
    shown: HeadWeights, matrix: NDArray[np.float32], rows: list[Text], names: list[str]
) -> Iterator[Text]:
    """Queries downwards, keys across, each key's text on end above its column.

    The strongest key stands beside the row.
    """
    links = set(shown.result.links)
    keys = [names[key][:_LABEL] for key in shown.keys]
    height = max(map(len, keys))
    yield Text("")
    margin = " " * rows[0].cell_len
    for line in zip(*(key.rjust(height) for key in keys), strict=True):
        letters = "".join(_fit(letter, 2) for letter in line)
        yield Text(margin + letters, style="dim")
    for query, row, weights in zip(shown.queries, rows, matrix, strict=True):
        line_of_query = row.copy()
        for key, weight in zip(shown.keys, weights, strict=True):
            mark = next((mark for level, mark in _LEVELS if weight >= level), "· ")
            if (query, key) in links:
                mark = mark[0] + _LINKED
            line_of_query.append(mark, _MARK if weight >= _LEVELS[-1][0] else "dim")
        best = int(weights.argmax())
        is_strong = weights[best] >= _LEVELS[1][0]
        line_of_query.append(f" {weights[best]:.2f} ")
        yield line_of_query.append(keys[best], "bold" if is_strong else "dim")
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
    count = top or _EDGES
    single = len(rows) == 1
    links = set(shown.result.links)
    if single:
        yield rows[0].copy().append(" attends to", "dim")
    else:
        weights = counted(matrix.size, "weight")
        yield Text(f"The {min(count, matrix.size)} strongest of {weights}", style="dim")
    order = np.argsort(-matrix, axis=None, kind="stable")  # of equal ones the first
    for place in order[:count].tolist():
        row, column = divmod(place, len(shown.keys))
        key = shown.keys[column]
        weight = float(matrix[row, column])
        mark = _LINKED if (shown.queries[row], key) in links else " "
        line = Text("    ") if single else rows[row].copy().append(" → ", "dim")
        line.append(f"{key:>3} ", "dim").append(_fit(names[key], _LABEL))
        line.append(f" {weight:.3f}{mark}")
        yield line.append("█" * round(weight * max(0, width - line.cell_len)), _MARK)
    if single and matrix.size > count:
        yield Text(f"and {matrix.size - count} more; --top {matrix.size} shows all.", style="dim")


def _fit(text: str, width: int) -> str:
    """A text cut or filled to a number of columns, some letters being two wide."""
    fitted = Text(text)
    fitted.truncate(width, overflow="ellipsis", pad=True)
    return fitted.plain


def dependencies_view(result: Dependencies, width: int) -> RenderableType:
    """Which words help to predict which.

    A row for each word, shaded where it is helped, its best helpers beside it.
    """
    measured = ~np.isnan(result.help.values)
    places = result.help.places
    queries = np.flatnonzero(measured.any(1)).tolist()
    keys = np.flatnonzero(measured.any(0)).tolist()
    label = min(_LABEL, max(cell_len(plain(unit)) for unit in result.units))
    left = 5 + label
    ruler = "".join(str(places[key]).rjust(_SHADE_WIDTH) for key in keys)
    helpers = {query: _helpers(result, query) for query in queries}
    widest = max(best[0].cell_len for best in helpers.values())
    shaded = left + len(ruler) + 1 + widest <= width
    lines = [Text(" " * left + ruler, style="dim")] if shaded else []
    for query in queries:
        line = _labelled(places[query], plain(result.units[places[query]]).strip(), label)
        if shaded:
            line.append_text(_shades(result, query, keys))
        room = width - line.cell_len - 1
        lines.append(line.append(" ").append_text(next(flowed(helpers[query], room))))
    unit = "nats" if result.help.measure == "cpmi" else "distance"
    title = f"How much each other word helps to predict the word of the row, in {unit}"
    blocks: list[RenderableType] = [model_line(result.signature), "", Text(title, style="bold")]
    legend = " ".join(_dependencies_legend(result, shaded=shaded))
    blocks += [*lines, *wrapped(legend, width), *wrapped(result.help.description, width)]
    return Group(*blocks)


def _dependencies_legend(result: Dependencies, *, shaded: bool) -> Iterator[str]:
    """What numbers, shades and names on the screen of `predictive` mean."""
    if result.help.measure == "cpmi":
        yield (
            "nats: how much likelier the masked-LM head finds the word if the other one is not "
            "hidden, too."
        )
    else:
        yield (
            "distance: how far the word's vector in the last layer moves when the other word is "
            "hidden, too. Words that move every vector, and vectors that every word moves, count "
            "for less."
        )
    if shaded:
        quarter, half, three_quarters, whole = _SHADES[1:]
        yield (
            f"Shades, beside the row's best helper: {quarter} up to a quarter, {half} half, "
            f"{three_quarters} three quarters, {whole} more; · helps next to nothing."
        )
    place = result.help.places[0]
    unit = "word" if result.signature.unit == "word" else "token"
    name = f"{plain(result.units[place]).strip()}#{place}"
    yield f"{name}: {unit} {place} of the input, counted from 0."


def _shades(result: Dependencies, query: int, keys: Sequence[int]) -> Text:
    """How much each key helps to predict the word, as a part of what its best helper does."""
    line = Text()
    for key in keys:
        if np.isnan(result.help.values[query, key]):
            line.append(" " * _SHADE_WIDTH, "dim")
            continue
        level = int(np.ceil(result.help.shares[query, key] * (len(_SHADES) - 1)))
        line.append(_SHADES[level].rjust(_SHADE_WIDTH), _MARK if level else "dim")
    return line


def _helpers(result: Dependencies, query: int) -> list[Text]:
    """The best helpers of a word, each with its number among those asked about."""
    if not result.help.shares[query].any():
        return [Text("nothing helps enough")]
    row = result.help.values[query]
    order = np.argsort(-np.nan_to_num(row, nan=-np.inf))[:_HELPERS]
    entries = []
    for key in order.tolist():
        if row[key] > 0:
            place = result.help.places[key]
            unit = plain(result.units[place]).strip()
            entries.append(Text(f"{unit}#{place} {row[key]:.2f}"))
    return entries

"""Results for a terminal. Everything is readable without colour: letters carry what colours carry."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.patterns import PATTERNS
from attnscan.plain import plain
from attnscan.results import MIXED, Classification, Dependencies, Ranking, ScoreTable, Signature

if TYPE_CHECKING:
    from attnscan.catalog import Catalog

# Colours after Okabe and Ito, told apart by colour-blind readers, on dark and on light ground.
_COLORS = {
    "next-word": "#3d8fd6",
    "previous-word": "#e69f00",
    "identical": "#009e73",
    "cross-sentence": "#cc79a7",
    "predictive": "#a6761d",
    "delimiter": "#8a8a8a",
    "bag-of-words": "#d55e00",
}
_LETTERS = {pattern.id: pattern.letter for pattern in PATTERNS} | {MIXED: "·"}
_PARKS = 0.5  # from this score on `delimiter`, a head is shown as one that rests there
_TOKEN_LINES = 6  # of each sentence, at most
_ENTRY = len("11-11 0.00") + 2
_SHADES = " ░▒▓█"
_SHADE_WIDTH = 3
_HELPER_WIDTH = 19
_BESIDE = 38  # columns of the pattern table that stand before its list of heads


def render(content: RenderableType, width: int, color_system: str | None = None, no_color: bool = False) -> str:
    """What a terminal of that width would get, as text."""
    file = io.StringIO()
    console = Console(
        file=file,
        width=width,
        color_system=color_system,  # type: ignore[arg-type]
        force_terminal=color_system is not None,
        no_color=no_color,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(content)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def classification_view(
    result: Classification,
    patterns: Sequence[str],
    width: int,
    top: int | None = None,
    without_delimiters: bool = False,
) -> RenderableType:
    """One input at a glance: its tokens, the heads of each pattern, the map of all heads."""
    table = result.scores.words_only if without_delimiters else result.scores.every_key
    beside = width - _BESIDE
    shown = top or max(3, (beside + 2) // _ENTRY)
    return Group(
        _title(result),
        "",
        *_tokens(result, width),
        "",
        _pattern_table(result, table, patterns, shown, beside),
        *_table_notes(result, without_delimiters),
        "",
        *_map(result, width),
    )


def all_heads_view(
    result: Classification, patterns: Sequence[str], order: Iterable[int], width: int, without_delimiters: bool
) -> RenderableType:
    """Every head with its labels and scores, in the given order of heads counted layer by layer."""
    scores = result.scores
    table = scores.words_only if without_delimiters else scores.every_key
    roomy = width >= 84 + 6 * max(0, len(patterns) - 7) + 15
    grid = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", show_edge=False)
    for name in ("head", "label", *(["runner-up"] if roomy else []), "on words"):
        grid.add_column(name, no_wrap=True)
    for pattern in patterns:
        grid.add_column(_letter(pattern), justify="right", no_wrap=True)
    grid.add_column("nats", justify="right", no_wrap=True)
    for flat in order:
        layer, head = divmod(int(flat), scores.grid[1])
        labels = [result.label, *([result.runner_up] if roomy else []), result.content_label]
        grid.add_row(
            f"{layer}-{head}",
            *(_named(str(label[layer, head])) for label in labels),
            *(_number(table.score[layer, head, scores.patterns.index(pattern)]) for pattern in patterns),
            _number(scores.entropy[layer, head]),
        )
    columns = "  ".join(f"{_letter(p)} {p}" for p in patterns)
    notes = f"Columns: {columns}  nats entropy of a row"
    return Group(_title(result), "", grid, "", Text(notes, style="dim"), *_table_notes(result, without_delimiters))


def ranking_view(
    result: Ranking, patterns: Sequence[str], top: int, width: int, without_delimiters: bool
) -> RenderableType:
    """The best heads of each pattern, with what a score is worth: chance, standard error, how much it rests on."""
    table = result.table(without_delimiters)
    signature = result.signature
    counts = [f"{signature.pairs_read:,} pairs"]
    counts += [f"{signature.pairs_truncated:,} cut"] if signature.pairs_truncated else []
    counts += [f"{signature.pairs_skipped:,} skipped"] if signature.pairs_skipped else []
    blocks: list[RenderableType] = [_model_line(signature, "  " + ", ".join(counts))]
    for pattern in patterns:
        p = result.scores.patterns.index(pattern)
        grid = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
        for name in ("head", "score", "± se", "chance", "above chance", "n", "pairs"):
            grid.add_column(name, justify="left" if name == "head" else "right", no_wrap=True)
        grid.add_column("", no_wrap=True)
        for flat in result.order(pattern, without_delimiters=without_delimiters)[:top]:
            place = (*divmod(int(flat), result.scores.grid[1]), p)
            score = float(table.score[place])
            grid.add_row(
                f"{place[0]}-{place[1]}",
                *(_decimals(getattr(table, name)[place]) for name in ("score", "se", "chance", "above_chance")),
                f"{table.n[place]:,}",
                f"{table.pairs[place]:,}",
                Text("█" * round(max(0, width - 62) * score) if score == score else "", style=_color(pattern)),
            )
        measured = bool((table.n[..., p] > 0).any())
        blocks += [
            "",
            _named(pattern),
            grid if measured else Text("no word was eligible, or none was asked", style="dim"),
        ]
    return Group(*blocks, *([Text("Scores on words: weights on delimiters removed.")] if without_delimiters else []))


def _decimals(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.3f}"


def dependencies_view(result: Dependencies, width: int) -> RenderableType:
    """Which words help to predict which: a row for each word, shaded where it is helped, its best helpers beside it."""
    measured, target = ~np.isnan(result.help.matrix), result.help.target
    queries, keys = np.flatnonzero(measured.any(axis=1)), np.flatnonzero(measured.any(axis=0))
    label = min(14, max(len(plain(unit)) for unit in result.units))
    left = 4 + label
    shaded = left + _SHADE_WIDTH * len(keys) + _HELPER_WIDTH <= width
    if shaded:
        left += _SHADE_WIDTH * len(keys)
    lines = [Text("".join(str(key).rjust(_SHADE_WIDTH) for key in keys).rjust(left), style="dim")] if shaded else []
    for query in queries:
        line = Text.assemble((f"{query:>3} ", "dim"), plain(result.units[query]).strip()[:label].ljust(label))
        if shaded:
            cells = (_shade(float(target[query, key]), known=bool(measured[query, key])) for key in keys)
            line.append_text(Text("").join(cells))
        lines.append(line.append("  ").append_text(_helpers(result, int(query), width - left - 2)))
    unit = "nats" if result.help.measure == "cpmi" else "distance"
    return Group(
        _model_line(result.signature),
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
    return Text("  ·", style="dim") if level == 0 else Text(f" {_SHADES[level] * 2}", style=_COLORS["next-word"])


def _helpers(result: Dependencies, query: int, width: int) -> Text:
    """The best helpers of a word, as many as fit."""
    if not result.help.target[query].any():
        return Text("nothing helps enough"[:width], style="dim")
    row = result.help.matrix[query]
    best = [int(key) for key in np.argsort(-np.nan_to_num(row, nan=-np.inf))[:5] if row[key] > 0]
    entries = [Text(f"{plain(result.units[key]).strip()}#{key} {row[key]:.2f}") for key in best]
    first = next(_flowed(entries, width))
    first.truncate(width, overflow="ellipsis")
    return first


def models_view(catalog: Catalog) -> RenderableType:
    """A line for each model that can run now, and what a run without --model takes."""
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    for name in ("--model", "family", "heads", "state", "where"):
        grid.add_column(name)
    for entry in catalog.entries:
        size = f"{entry.layers or '?'} × {entry.heads or '?'}"
        cells = (entry.model, entry.family, size, entry.state, entry.where)
        grid.add_row(*(Text(plain(cell)) for cell in cells))
    hub = (
        "answers: --model can be any id of it"
        if catalog.hub
        else "does not answer: only the models above, and directories"
    )
    return Group(grid, "", Text(plain(f"Without --model: {catalog.default}")), Text(f"The model hub {hub}"))


def _title(result: Classification) -> Text:
    layers, heads = result.scores.grid
    return _model_line(result.signature, f"  {layers} × {heads} = {layers * heads} heads")


def _model_line(signature: Signature, more: str = "") -> Text:
    return Text.assemble((plain(signature.model), "bold"), more, (f"  {signature.device} {signature.dtype}", "dim"))


def _tokens(result: Classification, width: int) -> Iterator[RenderableType]:
    """The units of each sentence on lines of their own; a sentence's closing delimiter goes with it."""
    lines: dict[int, list[Text]] = {}
    current = 0
    for text, sentence in zip(result.units, result.sentence, strict=True):
        current = max(current, sentence)
        lines.setdefault(current, []).append(Text(plain(text.strip()) or "␣", style="dim" if sentence < 0 else ""))
    for number, texts in lines.items():
        line = Text(" ").join(texts)
        wrapped = line.wrap(Console(width=width), width - 4)
        shown = wrapped[:_TOKEN_LINES]
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_row(Text("AB"[number], style="bold"), Text("\n").join(shown))
        yield grid
        if len(wrapped) > len(shown):
            yield Text(f"  … {len(texts)} tokens in all", style="dim")


def _pattern_table(
    result: Classification, table: ScoreTable, patterns: Sequence[str], top: int, beside: int
) -> RenderableType:
    grid = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    grid.add_column("pattern", no_wrap=True)
    grid.add_column("heads", justify="right", no_wrap=True)
    grid.add_column("on words", justify="right", no_wrap=True)
    grid.add_column("strongest heads", no_wrap=True)
    for pattern in (*patterns, MIXED):
        counts = [str(int((labels == pattern).sum())) for labels in (result.label, result.content_label)]
        if pattern in result.not_measured:
            counts = ["", ""]
        elif pattern == "delimiter":
            counts[1] = "–"
        grid.add_row(_named(pattern), *counts, _strongest(result, table, pattern, top, beside))
    return grid


def _strongest(result: Classification, table: ScoreTable, pattern: str, top: int, width: int) -> Text:
    """The best heads of a pattern, bold where that is their label."""
    if pattern == MIXED:
        return Text("no pattern is far enough above chance", style="dim")
    if pattern in result.not_measured:
        return Text(f"not measured: {result.not_measured[pattern]}", style="dim")
    p = result.scores.patterns.index(pattern)
    score = table.score[..., p]
    if np.isnan(score).all():
        return Text("no word of this input is eligible", style="dim")
    entries = []
    for flat in result.ranking(pattern, without_delimiters=table is result.scores.words_only)[:top]:
        layer, head = divmod(int(flat), score.shape[1])
        own = result.label[layer, head] == pattern
        entry = f"{layer}-{head} {score[layer, head]:.2f}".ljust(_ENTRY - 2)
        entries.append(Text(entry, style="bold" if own else ""))
    return Text("\n").join(_flowed(entries, width))


def _flowed(entries: Iterable[Text], width: int) -> Iterator[Text]:
    """Lines of entries two spaces apart; no entry is broken, as a text wrapped by words would be."""
    line = Text()
    for entry in entries:
        if line and line.cell_len + 2 + entry.cell_len > width:
            yield line
            line = Text()
        line = Text("  ").join([line, entry]) if line else entry.copy()
    yield line


def _table_notes(result: Classification, without_delimiters: bool) -> Iterator[Text]:
    if without_delimiters:
        yield Text("Scores on words: weights on delimiters removed, rows renormalised.", style="dim")
    yield Text(
        f"heads: by label, {result.threshold:g} above chance or more. on words: delimiters left out.",
        style="dim",
    )
    for note in result.notes:
        yield Text(note, style="dim")


def _map(result: Classification, width: int) -> Iterator[RenderableType]:
    """The layer x head grid of what each head does on words, subdued where it mostly rests on delimiters."""
    layers, heads = result.scores.grid
    parking = _parking(result)
    cell = next((size for size in (3, 2) if 7 + size * heads <= width), 1)
    yield Text("Map: what each head does on words; layers down, heads across", style="bold")
    every = 1 if cell == 3 else 5
    ruler = "".join(str(head).rjust(cell) if head % every == 0 else " " * cell for head in range(heads))
    yield Text(f"       {ruler if cell > 1 else f'0 to {heads - 1}'}", style="dim")
    for layer in range(layers):
        line = Text.assemble((f"{layer:>5}  ", "dim"))
        for head in range(heads):
            mark = _mark(str(result.content_label[layer, head]), float(parking[layer, head]))
            line.append(" " * (cell - 1)).append_text(mark)
        yield line
    shown = [name for name in (*result.scores.patterns, MIXED) if (result.content_label == name).any()]
    yield from _flowed((_named(name) for name in shown), width)
    yield Text("Small letter: half of the head's weight or more rests on delimiters.", style="dim")


def _parking(result: Classification) -> NDArray[np.float64]:
    """How much each head rests on delimiters. Shape: [layer, head]; 0 where the input has none."""
    scores = result.scores
    if "delimiter" not in scores.patterns:
        return np.zeros(scores.grid)
    return np.nan_to_num(scores.every_key.score[..., scores.patterns.index("delimiter")])


def _mark(label: str, parking: float) -> Text:
    letter, color = _letter(label), _color(label)
    if parking >= _PARKS:
        return Text(letter.lower(), style=f"{color} dim" if parking >= 0.9 else color)
    return Text(letter, style=f"bold {color}")


def _named(pattern: str) -> Text:
    return Text(f"{_letter(pattern)} {plain(pattern)}", style=_color(pattern))


def _color(pattern: str) -> str:
    return _COLORS.get(pattern, "default")


def _letter(pattern: str) -> str:
    return _LETTERS.get(pattern) or pattern[:1].upper()  # a user's own pattern


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.2f}"

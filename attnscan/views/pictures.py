"""Pictures of a result, for papers and slides: results to the bytes of a PNG, SVG or PDF file.

matplotlib lays out every figure; nothing of it that is global is touched: no pyplot, no settings of
the user's. Lengths are in inches.
"""

import io
import json
import math
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

import matplotlib.style
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.patches import Patch
from numpy.typing import NDArray

from attnscan.errors import OptionError, SelectionError, check_known
from attnscan.results.ablation import Ablation, Effect
from attnscan.results.comparison import FALSE_DISCOVERIES, Comparison, Similarity
from attnscan.results.files import Picture
from attnscan.results.grid import AttentionKind, Grid, Heads
from attnscan.results.heads import HeadScores, Profile
from attnscan.results.scores import Labels
from attnscan.results.signature import Signature
from attnscan.results.syntax import FEW_SENTENCES, Syntax
from attnscan.results.trace import Trace
from attnscan.text import counted, plain
from attnscan.views import palette
from attnscan.views.behaviour import (
    attention_phrase,
    kinds_of,
    why_unscored,
    why_unsure,
)
from attnscan.views.palette import (
    PICTURE_WIDTH,
    letter,
    mark_of,
    on_white,
    paper_color,
    why_even_is_not,
    words,
)

Drawable = HeadScores | Profile | Ablation | Similarity | Comparison | Syntax | Trace
PictureKind = Literal[
    "map",
    "scores",
    "layers",
    "profile",
    "head",
    "ablation",
    "similarity",
    "comparison",
    "syntax",
    "trace",
]

_LETTER = 0.053  # the width of a letter of palette.PAPER_SIZE, on average
_CELL = 0.3  # a head's cell at the most
_LONGEST = 9.0  # all panels together, since a page is no longer
_NAMED = 0.117  # the least pitch of rows with a name
_NUMBERED = 0.17  # the least pitch of columns with a number
_MOST_CELLS = 6000  # drawn as shapes; more become an image, so that the file stays small
_MOST_LINES = 2000  # of one head: the strongest
_LEAST_LINE = 0.01  # and no weaker ones
_RAMP = LinearSegmentedColormap.from_list("attnscan", palette.RAMP)
_FAINT = "#666666"
_GOLD = "#d55e00"
_CONTROL = "#a8a8a8"
_TICKS = (0, 0.5, 1)
_TICK_LABELS = ("0", "0.5", "1")
_NO_BREAK = "\N{NO-BREAK SPACE}"
_SURVIVES = 0.85  # opacity of a difference that survives
_PALE = 0.25  # and of any other
_SCRIPTS = {
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
}


def picture(
    result: Drawable,
    kind: PictureKind | None = None,
    format: Picture = "svg",
    width: float = PICTURE_WIDTH,
    **options: Any,
) -> bytes:
    """Draw what `attnscan.plot` says, as a file's content: the same bytes for the same result.

    Options are `heads` and `lines` of the kind `head`, and `patterns` of a comparison. Warns of
    letters without a font.
    Raises: OptionError if the result has no such picture, or the picture no such option;
    SelectionError for heads that are not there, or too many for the width.
    """
    subject = f"picture of a {type(result).__name__}"
    figures = {name: draw for name, (drawn, draw) in _FIGURES.items() if isinstance(result, drawn)}
    if not figures:
        raise OptionError(f"there is no {subject}", "give what a command of attnscan returns")
    chosen: str = kind or next(iter(figures))
    check_known(subject, chosen, list(figures))
    options = {option: value for option, value in options.items() if value}
    for option in options:
        drawn_by = _PICTURE_WITH_OPTION[option]
        if drawn_by != chosen:
            reason = f"the picture '{chosen}' has no {option}"
            raise OptionError(reason, f"{option} is for {drawn_by}")
    signature = result.signatures[0] if isinstance(result, Comparison) else result.signature
    metadata = _metadata(signature, chosen, format)
    scripts = sorted(_SCRIPTS & {*fontManager.get_font_names()})
    style = palette.PAPER_STYLE | {"font.family": ["DejaVu Sans", *scripts]}
    file = io.BytesIO()
    with (
        warnings.catch_warnings(record=True) as caught,
        matplotlib.style.context(style, after_reset=True),
    ):
        warnings.simplefilter("always")
        figure = figures[chosen](result, width, **options)
        figure.savefig(file, format=format, dpi=300, metadata=metadata)
    messages = " ".join(str(warning.message) for warning in caught)
    missing = {chr(int(code)) for code in re.findall(r"Glyph (\d+)", messages)}
    if missing:
        letters = " ".join(sorted(missing)[:12])
        warnings.warn(
            f"no font here has {letters}: install one, as Noto Sans is for most scripts",
            stacklevel=3,
        )
    return file.getvalue()


def _metadata(signature: Signature, kind: str, format: Picture) -> dict[str, str | None]:
    """What a file says of itself: how it was made, and no date, so that its bytes are the same."""
    subject = "Subject" if format == "pdf" else "Description"
    metadata: dict[str, str | None] = {
        "Title": plain(f"attnscan plot --kind {kind}: {signature.title}"),
        subject: json.dumps(asdict(signature)),
    }
    if format == "svg":
        metadata["Date"] = None
    if format == "pdf":
        metadata["CreationDate"] = None
    return metadata


def draw_map(result: HeadScores, width: float) -> Figure:
    """What each head does, by the screen's letter in its colour.

    It is pale where the head rests on special tokens.
    """
    labels = result.labels
    names = labels.among_words.ravel().tolist()
    marks = [mark_of(labels, head) for head in result.grid]
    colors = _colors(labels)
    legend = {}
    for group, kind in kinds_of(labels):
        if group != "rest":  # which have the colours of what they do among words, paler
            entry = f"{letter(kind.name)}  {words(kind.name)}{_NO_BREAK}({len(kind.heads)})"
            legend[entry] = paper_color(kind.name)
    if "" in names:
        legend[f"{letter('')}  {words('')}{_NO_BREAK}({names.count('')})"] = paper_color("")
    resting = " or ".join(words(kind.name) for kind in labels.resting)
    heads = counted(int(labels.rests.sum()), "head rests", "heads rest")
    captions = (
        f"Map{attention_phrase(result.grid)}: what each head does, {labels.reading}.",
        f"Pale, {palette.RESTS}: {heads}, with more than half of the attention on {resting}."
        if resting
        else "",
        f"?: {why_unsure(labels)}." if labels.unsure.any() else "",
    )
    return _draw_letters(result.grid, marks, colors, legend, width, *captions)


def _colors(labels: Labels) -> list[str]:
    """The colour of every head by what it does among words; pale if it rests."""
    colors = []
    for name, rests in zip(labels.among_words.ravel().tolist(), labels.rests.flat, strict=True):
        opacity = palette.RESTING_OPACITY if rests else 1
        colors.append(on_white(paper_color(name), opacity))
    return colors


def draw_scores(result: HeadScores, width: float) -> Figure:
    """How far every head is above chance for each pattern."""
    above = result.table.above_chance
    titles = _titles(result)
    caption = _reading_of(result)
    if "bag-of-words" in result.scores.patterns:
        caption += f" {why_even_is_not('bag-of-words').replace('This pattern', 'B')}"
    return _draw_grids(titles, above, result.grid, width, "above chance", caption)


def draw_profile(result: Profile | HeadScores, width: float) -> Figure:
    """The share of words' attention that every head gives to each class of keys."""
    profile = result if isinstance(result, Profile) else result.profile
    reading = profile.signature.reading
    caption = f"Where words' attention goes{attention_phrase(profile.grid)}, {reading}."
    if reading.words_only:
        caption += " Start, middle, end: special tokens, of all attention."
    label = "share of attention"
    return _draw_grids(profile.classes, profile.share, profile.grid, width, label, caption)


def draw_layers(result: HeadScores, width: float) -> Figure:
    """How far heads are above chance, by layer for each pattern: the best head, and the mean.

    The best head of all is named.
    """
    table = result.table
    grid = result.grid
    layers = np.arange(grid.shape[0])
    figure, axes, across = _panels(_titles(result), width, "layer", "above chance")
    low, high = ((np.stack(table.interval) - table.chance) / (1 - table.chance)).clip(0, 1)
    above = table.above_chance.clip(0)
    best = np.nan_to_num(above, nan=-1).argmax(1)  # [layer, pattern]
    for p, (pattern, ax) in enumerate(zip(result.scores.patterns, axes, strict=True)):
        color = paper_color(pattern)
        best_heads = (layers, best[:, p], p)
        score = above[best_heads]
        end = high[best_heads]
        ax.plot(layers, np.nanmean(above[..., p], 1), "--", color=color)
        ax.plot(layers, score, "-o", color=color, markersize=2)
        ax.vlines(layers, low[best_heads], end, color=color, linewidth=0.9)
        top = int(np.nan_to_num(score).argmax())
        if score[top] > 0:
            name = grid[top * grid.shape[1] + int(best[top, p])].name
            side = ("left", "center", "right")[3 * top // len(layers)]
            point = (top, np.fmax(score, end)[top])
            ax.annotate(name, point, (0, 2), textcoords="offset points", ha=side)
        _name(ax.xaxis, grid.numbers, across / len(layers), _NUMBERED)
        ax.set(xlim=(-0.5, len(layers) - 0.5), ylim=(0, 1.2))
        ax.set(yticks=_TICKS, yticklabels=_TICK_LABELS)
        ax.grid(axis="y")
    caption = "Dots: the best head; dashed: the mean."
    if not np.isnan(table.se).all():
        caption += " Upright: 95 % intervals of the best heads over pairs."
    return _finish(figure, 1.02, _reading_of(result), caption)


def draw_weights(
    result: HeadScores, width: float, heads: Heads = (), lines: bool = False
) -> Figure:
    """Weights of heads on one scale: heat maps, queries downwards and keys across, or lines.

    Lines lead from queries to keys. Gold links are outlined, or dotted.
    Raises: SelectionError for no heads, or too many for the width.
    """
    attention = result.shown_attention
    chosen = result.grid.select(heads)
    queries = attention.query_tokens
    keys = attention.key_tokens
    tokens = _short_tokens(attention.tokens, width)
    rows = [tokens[query] for query in queries]
    columns = [tokens[key] for key in keys]
    abreast, pitch = _layout(rows, columns, len(chosen), result.grid.shape[1], width, lines)
    weights = [attention.rows_of(head, queries)[:, keys] for head in chosen]
    top = max(np.ceil(20 * np.max(weights)) / 20, 0.05)
    links = [(queries.index(query), keys.index(key)) for query, key in result.links]
    gold = np.array(links).reshape(-1, 2).T
    y, x = ("target", "source") if attention.kind is AttentionKind.CROSS else ("query", "key")
    figure, axes, _ = _panels([head.name for head in chosen], width, "" if lines else x, y, abreast)
    for ax, matrix in zip(axes, weights, strict=True):
        step = _name(ax.yaxis, rows, pitch)
        if lines:
            right = _draw_lines(ax, matrix, top, gold)
            _name(right.yaxis, columns, pitch)
            right.set(ylabel=x)
        else:
            cells = _draw_cells(ax, matrix, cmap=_RAMP, vmin=0, vmax=top)
            frame: Any = {"markerfacecolor": "none", "markeredgecolor": _GOLD}
            ax.plot(*gold[::-1], "s", markersize=65 * pitch, **frame)
            _name(ax.xaxis, columns, pitch)
            ax.tick_params(axis="x", rotation=90)
            ax.set(aspect="equal", anchor="NW")
    if not lines:
        _add_color_bar(axes, cells, "weight")
    longest = max(len(rows), len(columns)) if lines else len(rows)
    return _finish(figure, pitch * longest, *_weights_captions(result, lines, top, step))


def _short_tokens(tokens: Sequence[str], width: float) -> list[str]:
    """Tokens as a picture writes them: cut where they would take more than a fifth of its width."""
    most = int(0.2 * width / _LETTER)  # letters
    written = [plain(token).strip() or "␣" for token in tokens]
    return [token if len(token) <= most else f"{token[: most - 1]}…" for token in written]


def _draw_lines(ax: Any, matrix: NDArray[np.float32], top: float, gold: NDArray[Any]) -> Any:
    """Draw a head's weights as lines from queries to keys, and return the axes of the keys."""
    weakest = max(_LEAST_LINE, np.sort(matrix, None)[-_MOST_LINES:][0])
    strong = np.argwhere(matrix >= weakest)
    strength = matrix[*strong.T] / top
    segments = [((0, query), (1, key)) for query, key in strong]
    look: Any = {
        "alpha": strength,
        "linewidths": 0.3 + 1.2 * strength,
        "colors": palette.RAMP[6],
    }
    ax.add_collection(LineCollection(segments, **look))
    ax.plot((0, 1), gold, ":", color=_GOLD)
    right = ax.twinx()
    right.set(xlim=(0, 1), ylim=(max(matrix.shape) - 0.5, -0.5), xticks=())
    ax.set_ylim(right.get_ylim())
    ax.tick_params(labelleft=True)
    return right


def _weights_captions(result: HeadScores, lines: bool, top: float, step: int) -> Iterator[str]:
    """What weights are of, which lines are drawn, and which tokens are named."""
    kind = result.shown_attention.kind
    attention = "attention" if kind is AttentionKind.ONLY else f"{kind.word} attention"
    caption = f"{attention.capitalize()}, {result.shown}."
    if result.links:
        caption += " Gold links are dotted." if lines else " Gold links are outlined."
    yield caption
    if lines:
        most = f"at most the {_MOST_LINES} strongest of a head"
        yield f"Weights from {_LEAST_LINE} to {top:.2g} are drawn, {most}."
    if step > 1:
        yield f"One token in {step} is named."


def _layout(
    rows: list[str], keys: list[str], count: int, layer: int, width: float, lines: bool
) -> tuple[int, float]:
    """How many heads stand side by side, so that most tokens are named, and how high a token is."""
    left, right = (_LETTER * max(map(len, side)) for side in (rows, keys))
    largest, least = (0.146, 0.15) if lines else (0.22, 0.32)  # of a token, and of a panel
    best = (0.0, 0, 0.0)
    for columns in range(1, count + 1):
        if count % layer == 0 and layer % columns:
            continue  # whole layers, of so many heads, stand in whole rows
        high = _LONGEST / math.ceil(count / columns) - 0.2
        if lines and width / columns - left - right <= 1:
            pitch = 0.0
        elif lines:
            pitch = high / max(len(rows), len(keys))
        else:
            pitch = min(high / len(rows), ((width - left - 0.3) / columns - 0.05) / len(keys))
        if pitch >= min(largest, least / len(keys)):
            best = max(best, (min(pitch, _NAMED), columns, min(pitch, largest)))
    _, columns, pitch = best
    if not columns:
        reason = f"{count} heads have no room in a picture {width:g} inches wide"
        raise SelectionError(reason, "name fewer of them, or give a larger --width")
    return columns, pitch


def draw_ablation(ablation: Ablation, width: float) -> Figure:
    """A panel for each quantity: a row for each set with its controls.

    Of single heads, a panel is the layer x head grid.
    """
    if ablation.alone:
        return _draw_worth(ablation, width)
    by_quantity = ablation.by_quantity
    names = []
    for effect in next(iter(by_quantity.values())):
        name = effect.set.name
        title = f"{letter(name)} {name}" if name in palette.COLORS else name
        names.append(_wrapped(title, 0.4 * width))
    figure, axes, _ = _panels([""] * len(by_quantity), width, columns=1)
    for ax, (quantity, effects) in zip(axes, by_quantity.items(), strict=True):
        sense = "less is a loss" if quantity.larger_is_better else "more is a loss"
        title = f"{quantity.name}: effect in {quantity.unit}, ± 95 % ({sense})"
        ax.set_title(_wrapped(title, 0.55 * width))
        for row, effect in enumerate(effects):
            _draw_effect(ax, row, effect)
        ax.axvline(0, color=_FAINT, linewidth=0.5)
        ax.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5))
        ax.margins(x=0.1)
        ax.locator_params(axis="x", nbins=3)
        ax.tick_params(labelbottom=True)
        ax.grid(axis="x")
    high = 0.07 + 0.13 * max(name.count("\n") + 1 for name in names)
    return _finish(figure, high * len(names), "Grey: the controls, less their mean.")


def _draw_effect(ax: Any, row: int, effect: Effect) -> None:
    """Draw a set's effect with its interval, and its controls as ticks."""
    if np.isnan(effect.effect):
        why = " not measured" if effect.set.heads else " no head"
        ax.text(0, row, why, va="center", color=_FAINT)
    controls = np.array(effect.others) - effect.control
    ax.plot(controls, [row] * len(controls), "|", color=_CONTROL)
    color = palette.COLORS.get(effect.set.name, _GOLD)
    half = np.nan_to_num(effect.interval)
    ax.errorbar(effect.effect, row, xerr=half, fmt="s", color=color, markersize=3.5, elinewidth=0.8)


def _draw_worth(ablation: Ablation, width: float) -> Figure:
    """What each head is worth, as a share of the most that one is.

    It is 0 where another head of its layer costs as much.
    """
    worth = np.full((*ablation.grid.shape, len(ablation.by_quantity)), np.nan)
    titles = []
    for place, (quantity, effects) in enumerate(ablation.by_quantity.items()):
        for effect in effects:
            worth[(*effect.set.heads[0].place, place)] = effect.leads * np.maximum(effect.loss, 0)
        top = float(np.nanmax(worth[..., place], initial=0))
        most = f"up to {top:.2g} ({quantity.unit})"
        titles.append(f"{quantity.name}: what each head is worth, {most}")
        worth[..., place] /= top or 1
    caption = "Worth more than other heads. Palest: another head of its layer costs as much."
    return _draw_grids(titles, worth, ablation.grid, width, "share of the most", caption)


def draw_similarity(similarity: Similarity, width: float) -> Figure:
    """Each head at its place, in its colour on the map, with its name."""
    labels = similarity.labels
    names = labels.among_words.ravel().tolist()
    places, share = similarity.map
    figure, (ax,), _ = _panels([""], width)
    ax.scatter(*places.T, s=9, color=_colors(labels), marker="s", linewidth=0)
    # one scale: distances are what it shows
    ax.set(xticks=(), yticks=(), aspect="equal", adjustable="datalim")
    ax.margins(0.1)
    style = {"textcoords": "offset points", "va": "center", "fontsize": 4, "in_layout": False}
    for head, place in zip(similarity.grid, places, strict=True):
        ax.annotate(head.name, place, (2.5, 0), color=_FAINT, **style)
    legend = {}
    for name in sorted({*names}):
        entry = f"{letter(name)}  {name or words(name)}{_NO_BREAK}({names.count(name)})"
        legend[entry] = paper_color(name)
    _add_legend(figure, legend)
    caption = (
        f"{share:.0%} of all squared distances between heads are in this map; near heads attend "
        "alike."
    )
    resting = " or ".join(words(kind.name) for kind in labels.resting)
    pale = f"Pale: more than half of the attention is on {resting}." if resting else ""
    return _finish(figure, None, caption, pale)


def draw_comparison(comparison: Comparison, width: float, patterns: Sequence[str] = ()) -> Figure:
    """A square panel for each pattern, A across and B upwards.

    A head that did not change lies on the diagonal.
    """
    patterns = patterns or comparison.patterns
    for name in patterns:
        check_known("pattern", name, comparison.patterns)
    titles = []
    for name in patterns:
        correlation = comparison.correlation(name)
        rank = "" if np.isnan(correlation) else f" rank {correlation:.2f}"
        titles.append(f"{letter(name)} {name}{rank}")
    figure, axes, _ = _panels(titles, width, "A", "B")
    for name, ax in zip(patterns, axes, strict=True):
        rows = comparison.of(name)
        look: Any = {
            "s": 5,
            "c": paper_color(name),
            "alpha": np.where(rows["survives"], _SURVIVES, _PALE),
            "linewidth": 0,
            "clip_on": False,
        }
        ax.axline((0, 0), (1, 1), color=palette.RULE, linewidth=0.5)
        ax.scatter(rows["score_a"], rows["score_b"], **look)
        ax.set(xlim=(0, 1), xticks=_TICKS, xticklabels=_TICK_LABELS)
        ax.set(ylim=(0, 1), yticks=_TICKS, yticklabels=_TICK_LABELS)
        ax.grid()
    a, b = comparison.signatures
    models = (a.title, b.title)
    if a.title == b.title:  # checkpoints of a run: by directories
        models = (a.model, b.model)
    rate = f"a false discovery rate of {FALSE_DISCOVERIES:.0%}"
    pale = f"Pale: the difference does not survive {rate}, or is smaller than {comparison.least:g}."
    return _finish(figure, None, f"A: {models[0]}", f"B: {models[1]}", pale)


def draw_syntax(result: Syntax, width: float) -> Figure:
    """The map of heads by what they follow."""
    marks = [result.letter(head) for head in result.grid]
    color_by_mark = {}
    for mark in marks:
        opacity = 0.5 if mark.islower() else 1
        color_by_mark[mark] = on_white(palette.SYNTAX_COLORS[mark.upper()], opacity)
    legend = {}
    for entry in result.legend():
        mark = entry[0]
        if mark in color_by_mark:
            legend[f"{mark}  {entry[2:]} ({marks.count(mark)})"] = color_by_mark[mark]
    sentences = counted(result.sentences, "sentence")
    captions = [f"Map: what heads follow in {sentences}, {result.signature.reading}."]
    if result.sentences < FEW_SENTENCES:
        captions.append(f"Below {FEW_SENTENCES} sentences, results may not hold in other texts.")
    colors = [color_by_mark[mark] for mark in marks]
    return _draw_letters(result.grid, marks, colors, legend, width, *captions)


def draw_trace(trace: Trace, width: float) -> Figure:
    """Heads down and checkpoints across, in the colours of the map; pale where a head rests."""
    figure, (ax,), across = _panels([""], width, "checkpoint", "head")
    n_heads = len(trace.grid)
    n_checkpoints = len(trace.checkpoints)
    pitch = min(_NAMED, _LONGEST / n_heads)
    colors = []
    for checkpoint in trace.checkpoints:
        labels = checkpoint.result.labels
        for name, rests in zip(labels.among_words.flat, labels.rests.flat, strict=True):
            opacity = palette.RESTING_OPACITY if rests else 1
            colors.append(on_white(paper_color(str(name)), opacity))
    rgba = to_rgba_array(colors).reshape(n_checkpoints, n_heads, 4).transpose(1, 0, 2)
    _draw_cells(ax, rgba)
    titles = [checkpoint.title for checkpoint in trace.checkpoints]
    longest = max(map(len, titles))
    _name(ax.xaxis, titles, across / n_checkpoints, max(_NUMBERED, (longest + 1) * _LETTER))
    layer_size = trace.grid.shape[1]
    if pitch < _NAMED:
        firsts = range(0, n_heads, layer_size)
        ax.set_yticks(firsts, [trace.grid[first].name for first in firsts])
    else:
        _name(ax.yaxis, [head.name for head in trace.grid], pitch)
    for row in range(layer_size, n_heads, layer_size):
        ax.axhline(row - 0.5, color="white", linewidth=0.6)
    legend = {}
    for name in dict.fromkeys(name for rests, name in trace.kind_counts().index if not rests):
        legend[f"{letter(name)}  {words(name)}"] = paper_color(name)
    _add_legend(figure, legend)
    captions = [f"What each head does, checkpoint by checkpoint, {trace.signature.reading}."]
    if any(checkpoint.result.labels.rests.any() for checkpoint in trace.checkpoints):
        captions.append("Pale: more than half of its attention is on special tokens.")
    return _finish(figure, n_heads * pitch, *captions)


_FIGURES: dict[str, tuple[Any, Callable[..., Figure]]] = {
    "map": (HeadScores, draw_map),
    "scores": (HeadScores, draw_scores),
    "layers": (HeadScores, draw_layers),
    "profile": (HeadScores | Profile, draw_profile),
    "head": (HeadScores, draw_weights),
    "ablation": (Ablation, draw_ablation),
    "similarity": (Similarity, draw_similarity),
    "comparison": (Comparison, draw_comparison),
    "syntax": (Syntax, draw_syntax),
    "trace": (Trace, draw_trace),
}
"""By kind: of which results there is such a picture, and the function that draws it."""
_PICTURE_WITH_OPTION = {"heads": "head", "lines": "head", "patterns": "comparison"}


def _titles(result: HeadScores) -> list[str]:
    """The patterns, and why a panel is empty."""
    titles = []
    for pattern in result.scores.patterns:
        title = f"{letter(pattern)} {pattern}"
        above = result.table.above_chance[..., result.scores.place_of(pattern)]
        if not len(result.order(pattern)):
            title += f": {why_unscored(result, pattern).partition(':')[0]}"
        elif not (above > 0).any():
            title += ": no head is above chance"
        titles.append(title)
    return titles


def _reading_of(result: HeadScores) -> str:
    text = f"Scores{attention_phrase(result.grid)} {result.reading}."
    if result.reading.words_only:
        text += " Special tokens are removed, and rows renormalised."
    return text


def _wrapped(text: str, width: float) -> str:
    """A text in lines of about a width."""
    letters = max(1, int(width / _LETTER))
    return "\n".join(textwrap.wrap(plain(text), letters, break_on_hyphens=False))


def _panels(
    titles: Sequence[str], width: float, x: str = "", y: str = "", columns: int = 0
) -> tuple[Figure, list[Any], float]:
    """Equal panels, two abreast or four in a wide picture, and about how wide each is.

    Axes are named at the edges.
    """
    count = len(titles)
    columns = min(count, columns or (4 if width >= 5 else 2))
    across = (width - 0.4) / columns
    figure = Figure(figsize=(width, _LONGEST + 3), layout="constrained")
    axes = list(figure.subplots(math.ceil(count / columns), columns, squeeze=False).flat)
    for place, (ax, title) in enumerate(zip(axes, titles, strict=False)):
        is_last = place + columns >= count
        is_first = place % columns == 0
        ax.set_title(_wrapped(title, across))
        ax.set(xlabel=x if is_last else "", ylabel=y if is_first else "")
        ax.tick_params(labelbottom=is_last, labelleft=is_first)
    for ax in axes[count:]:
        ax.remove()
    return figure, axes[:count], across


def _finish(figure: Figure, height: float | None, *captions: str) -> Figure:
    """Say above everything what the picture is of, and make its panels so high.

    Panels are square, where no height is given.
    """
    width = figure.get_figwidth()
    ax = figure.axes[0]
    engine = figure.get_layout_engine()
    rows: int = ax.get_gridspec().nrows  # type: ignore[union-attr]
    title = "\n".join(_wrapped(text, width - 0.1) for text in captions if text)
    figure.suptitle(title, x=0.04 / width, ha="left")
    for _ in range(3):  # what stands around a panel moves a little with its height
        engine.execute(figure)  # type: ignore[union-attr]
        total = figure.get_figheight()
        box = ax.get_position(original=True)
        wanted = height or box.width * width
        figure.set_figheight(total + rows * (wanted - box.height * total))
    return figure


def _add_legend(figure: Figure, colors: Mapping[str, str]) -> None:
    """Explain the colours of some entries beneath everything, in columns; long entries break."""
    columns = max(1, min(len(colors), int(figure.get_figwidth() / 1.6)))
    room = figure.get_figwidth() / columns - 0.25
    handles = [Patch(color=color, label=_wrapped(text, room)) for text, color in colors.items()]
    figure.legend(handles=handles, loc="outside lower left", ncols=columns)


def _add_color_bar(axes: Sequence[Any], cells: Any, label: str) -> None:
    """Explain the shades of grids and heat maps, beneath their panels."""
    place: Any = {
        "ax": list(axes),
        "location": "bottom",
        "shrink": 0.6,
        "aspect": 30,
        "pad": 0.01,
        "panchor": False,
    }
    ticks = np.linspace(0, cells.get_clim()[1], 3)
    bar: Any = axes[0].figure.colorbar(cells, label=label, ticks=ticks, format="%.2g", **place)
    bar.solids.set(rasterized=False, edgecolor="face", linewidth=0.25)  # shapes, not an image


def _draw_grids(
    titles: Sequence[str], values: NDArray[Any], grid: Grid, width: float, label: str, caption: str
) -> Figure:
    """A small layer x head grid for each title.

    Shape: `values` [layer, head, title], in [0, 1]; NaN is hatched.
    """
    figure, axes, across = _panels(titles, width, "head", "layer")
    cell = across / grid.shape[1]
    rows = axes[0].get_gridspec().nrows
    down = min(_CELL, cell, (_LONGEST / rows - 0.35) / grid.shape[0])
    for place, ax in enumerate(axes):
        cells = _draw_cells(ax, values[..., place], cmap=_RAMP, vmin=0, vmax=1)
        _name(ax.xaxis, range(grid.shape[1]), cell, _NUMBERED)
        _name(ax.yaxis, grid.numbers, down)
    _add_color_bar(axes, cells, label)
    if np.isnan(values).any():
        caption += " Hatched: no value."
    return _finish(figure, grid.shape[0] * down, caption)


def _draw_letters(
    grid: Grid,
    marks: Sequence[str],
    colors: Sequence[str],
    legend: Mapping[str, str],
    width: float,
    *captions: str,
) -> Figure:
    """Draw every head's mark on its colour in square cells.

    There are no marks where they would be too small to read.
    """
    figure, (ax,), across = _panels([""], width, "head", "layer")
    layers, heads = grid.shape
    cell = min(_CELL, across / heads, _LONGEST / layers)
    rgba = to_rgba_array(colors).reshape(layers, heads, 4)
    _draw_cells(ax, rgba, edgecolors="white", linewidth=min(1.5, 7 * cell))
    _name(ax.xaxis, range(heads), cell, _NUMBERED)
    _name(ax.yaxis, grid.numbers, cell)
    ax.set(aspect="equal", anchor="NW")
    _add_legend(figure, legend)
    size = min(palette.PAPER_SIZE, 45 * cell)
    if size < 4:  # points
        return _finish(figure, layers * cell, *captions, "No room for letters: --width gives more.")
    style = {"fontsize": size, "ha": "center", "va": "center_baseline", "in_layout": False}
    for head, mark, color in zip(grid, marks, colors, strict=True):
        ax.text(head.head, head.row, mark, color=palette.readable_on(color), **style)
    return _finish(figure, layers * cell, *captions)


def _draw_cells(ax: Any, values: NDArray[Any], **options: Any) -> Any:
    """Draw numbers or colours, cell (0, 0) at the upper left; NaN is hatched.

    Shape: [row, column, ...].
    """
    count = len(ax.figure.axes)
    rows, columns = values.shape[:2]
    ax.patch.set(facecolor="#ededed", edgecolor="#b5b5b5", hatch="//////", linewidth=0)
    look = {
        "edgecolors": "face",
        "linewidth": 0.25,
        "rasterized": count * rows * columns > _MOST_CELLS,
        **options,
    }
    x = np.arange(columns + 1) - 0.5
    y = np.arange(rows + 1) - 0.5
    cells = ax.pcolormesh(x, y, np.ma.masked_invalid(values), **look)
    ax.set_ylim(rows - 0.5, -0.5)
    return cells


def _name(axis: Any, names: Sequence[Any], pitch: float, needed: float = _NAMED) -> int:
    """Name rows or columns of a pitch, and return every how many of them have room for a name."""
    step = math.ceil(needed / pitch)
    axis.set_ticks(range(0, len(names), step), list(map(str, names[::step])))
    return step

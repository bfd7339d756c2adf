"""Pictures of a result, for papers and slides: results to the bytes of a PNG, SVG or PDF file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from attnscan.errors import OptionError, SelectionError
from attnscan.results.ablation import Ablation
from attnscan.results.comparison import FALSE_DISCOVERIES, Comparison, Similarity
from attnscan.results.heads import HeadScores, Profile
from attnscan.results.syntax import FEW, Syntax
from attnscan.results.terms import AttentionKind, Grid, Heads
from attnscan.text import counted
from attnscan.views import palette
from attnscan.views.behaviour import kinds_of, why_unscored, why_unsure
from attnscan.views.palette import letter, on_white, paper_color, words
from attnscan.views.pictures import figure as shared
from attnscan.views.pictures.look import COLUMN, Picture, check_file, check_known

Drawable = HeadScores | Profile | Ablation | Similarity | Comparison | Syntax
Kind = Literal["map", "scores", "layers", "profile", "head", "ablation", "similarity", "comparison", "syntax"]
_MOST_LINES, _LEAST_LINE = 2000, 0.01  # of one head: the strongest, and no weaker ones
_GOLD = "#d55e00"


def draw_map(result: HeadScores, width: float) -> Figure:
    """What each head does, by the screen's letter in its colour; pale where the head rests on special tokens."""
    labels, pale = result.labels, palette.RESTING_OPACITY
    heads = list(zip(labels.among_words.ravel().tolist(), labels.unsure.flat, labels.rests.flat, strict=True))
    colors = [on_white(paper_color(name), pale if rests else 1) for name, _, rests in heads]
    marks = [letter(name) + "?" * bool(unsure) for name, unsure, _ in heads]
    figure, height, note = shared.draw_letters(result.grid, marks, colors, width)
    kinds = [(kind.name, len(kind.heads), pale if group == "rest" else 1) for group, kind in kinds_of(labels)]
    kinds += [("", int((labels.among_words == "").sum()), 1)]
    text = "{}  {} ({})".format
    entries = {text(letter(name), words(name), n): on_white(paper_color(name), part) for name, n, part in kinds if n}
    shared.legend(figure, entries)
    resting = " or ".join(words(kind.name) for kind in labels.resting)
    return shared.finish(
        figure,
        height,
        f"Map{_of_kind(result.grid)}: what each head does, {labels.reading}.",
        f"Pale: more than half of its attention is on {resting}." * bool(resting),
        note or f"?: {why_unsure(labels)}." * bool(labels.unsure.any()),
    )


def draw_scores(result: HeadScores, width: float) -> Figure:
    """How far every head is above chance for each pattern: small layer x head grids, all on one scale from 0 to 1."""
    above, caption = result.table.above_chance, _reading(result)
    return _draw_grids(_titles(result), above, result.grid, width, "above chance", caption)


def draw_profile(profile: Profile, width: float) -> Figure:
    """The share of words' attention that every head gives to each class of keys, on one scale from 0 to 1."""
    reading = profile.signature.reading
    caption = f"Where words' attention goes{_of_kind(profile.grid)}, {reading}."
    caption += " Start, middle, end: special tokens, of all attention." * reading.among_words
    return _draw_grids(profile.classes, profile.share, profile.grid, width, "share of attention", caption)


def _draw_grids(
    titles: Sequence[str], values: NDArray[Any], grid: Grid, width: float, label: str, caption: str
) -> Figure:
    """A layer x head grid for each title. Shape: `values` [layer, head, title], in [0, 1]; NaN is hatched."""
    figure, axes, across = shared.panels(titles, width, "head", "layer")
    cell, rows = across / grid.shape[1], axes[0].get_gridspec().nrows
    down = min(shared.CELL, cell, (shared.LONGEST / rows - 0.35) / grid.shape[0])
    for place, ax in enumerate(axes):
        shown = shared.draw_cells(ax, values[..., place], cmap=shared.COLORS, vmin=0, vmax=1)
        shared.number(ax, grid, cell, down)
    shared.color_bar(figure, axes, shown, label)
    return shared.finish(figure, grid.shape[0] * down, caption + " Hatched: no value." * bool(np.isnan(values).any()))


def draw_layers(result: HeadScores, width: float) -> Figure:
    """By layer for each pattern, how far above chance: the best head, named where it is best of all, and the mean."""
    table, grid, layers = result.table, result.grid, np.arange(result.grid.shape[0])
    figure, axes, across = shared.panels(_titles(result), width, "layer", "above chance")
    ends, chance = np.broadcast_arrays(np.stack(table.interval), table.chance)
    low, high = ((ends - chance) / (1 - chance)).clip(0, 1)
    above = table.above_chance.clip(0)
    best = np.nan_to_num(above, nan=-1).argmax(1)  # [layer, pattern]
    for p, ax in enumerate(axes):
        color, of_best = paper_color(result.scores.patterns[p]), (layers, best[:, p], p)
        ax.plot(layers, np.nanmean(above[..., p], 1), "--", color=color)
        ax.plot(layers, above[of_best], "-o", color=color, markersize=2)
        ax.vlines(layers, low[of_best], high[of_best], color=color, linewidth=0.9)
        top = int(np.nan_to_num(above[of_best]).argmax())
        if above[of_best][top] > 0:
            where = {"textcoords": "offset points", "ha": ("left", "center", "right")[3 * top // len(layers)]}
            at = top, np.fmax(above[of_best], high[of_best])[top]
            ax.annotate(grid[top * grid.shape[1] + int(best[top, p])].name, at, (0, 2), **where)
        shared.name(ax.xaxis, list(map(str, grid.numbers)), across / len(layers), 0.17)
        ax.set(xlim=(-0.5, len(layers) - 0.5), ylim=(0, 1.2))
        ax.set_yticks(*shared.ZERO_TO_ONE)
        ax.grid(axis="y")
    intervals = "Upright: 95 % intervals of the best heads over pairs." * (not np.isnan(table.se).all())
    return shared.finish(figure, 1.02, _reading(result), f"Dots: the best head; dashed: the mean. {intervals}")


def _titles(result: HeadScores) -> list[str]:
    """The patterns, and why some have no score."""
    whys = {name: why_unscored(result, name).partition(":")[0] for name in result.scores.patterns}
    return [f"{letter(n)} {n}" + f": {why}" * (len(result.order(n)) == 0) for n, why in whys.items()]


def _reading(result: HeadScores) -> str:
    without = " Special tokens are removed, and rows renormalised." * result.reading.among_words
    return f"Scores{_of_kind(result.grid)} {result.reading}.{without}"


def _of_kind(grid: Grid) -> str:
    """Of which attention of an encoder-decoder heads are; nothing of other models."""
    return "" if grid.kind is AttentionKind.ONLY else f" of {grid.kind.word} attention"


def draw_weights(result: HeadScores, width: float, heads: Heads = (), lines: bool = False) -> Figure:
    """Weights of heads on one scale: heat maps, queries downwards and keys across, or lines from queries to keys.

    Gold links are outlined, or dotted. Raises: SelectionError for no heads, or too many for the width.
    """
    attention, chosen = result.shown_attention, result.grid.select(heads)
    queries, keys = attention.asking, attention.asked
    rows, columns = ([shared.shortened(attention.tokens[i], 0.2 * width) for i in side] for side in (queries, keys))
    beside, pitch = _layout(rows, columns, len(chosen), result.grid.shape[1], width, lines)
    weights = [attention.rows_of(head, queries)[:, keys] for head in chosen]
    top = max(np.ceil(20 * np.max(weights)) / 20, 0.05)
    gold = np.array([(queries.index(query), keys.index(key)) for query, key in result.links]).reshape(-1, 2).T
    y, x = ("target", "source") if attention.kind is AttentionKind.CROSS else ("query", "key")
    figure, axes, _ = shared.panels([head.name for head in chosen], width, "" if lines else x, y, beside)
    for ax, own in zip(axes, weights, strict=True):
        step = shared.name(ax.yaxis, rows, pitch)
        if lines:
            least = max(_LEAST_LINE, np.sort(own, None)[-_MOST_LINES:][0])
            for query, key in np.argwhere(own >= least):
                strength = float(own[query, key] / top)
                look = {"alpha": strength, "linewidth": 0.3 + 1.2 * strength, "zorder": 2 + strength}
                ax.plot((0, 1), (query, key), color=palette.RAMP[6], **look)
            ax.plot((0, 1), gold, ":", color=_GOLD, zorder=4)
            right = ax.twinx()
            shared.name(right.yaxis, columns, pitch)
            ends = max(own.shape) - 0.5, -0.5
            ax.set(xlim=(0, 1), ylim=ends, xticks=())
            ax.tick_params(labelleft=True)
            right.set(ylim=ends, ylabel=x)
        else:
            shown = shared.draw_cells(ax, own, cmap=shared.COLORS, vmin=0, vmax=top)
            shared.name(ax.xaxis, columns, pitch)
            ax.tick_params(axis="x", rotation=90)
            ax.plot(*gold[::-1], "s", markersize=65 * pitch, markerfacecolor="none", markeredgecolor=_GOLD)
            ax.set(aspect="equal", anchor="NW")
    if not lines:
        shared.color_bar(figure, axes, shown, "weight")
    kind = "A" if attention.kind is AttentionKind.ONLY else f"{attention.kind.word.capitalize()} a"
    drawn = f"Weights from {_LEAST_LINE} to {top:.2g} are drawn, at most the {_MOST_LINES} strongest of a head."
    links = f" Gold links are {'dotted' if lines else 'outlined'}." * bool(result.links)
    named = f"One token in {step} is named." * (step > 1)
    height = pitch * max(len(rows), len(columns) * lines)
    return shared.finish(figure, height, f"{kind}ttention, {result.shown}.{links}", drawn * lines, named)


def _layout(
    rows: list[str], keys: list[str], count: int, of_layer: int, width: float, lines: bool
) -> tuple[int, float]:
    """How many heads stand side by side, so that most tokens are named, and how high a token is."""
    left, right = (shared.LETTER * max(map(len, side)) for side in (rows, keys))
    columns = np.array([c for c in range(1, count + 1) if count % of_layer or of_layer % c == 0])  # whole layers
    high = shared.LONGEST / np.ceil(count / columns) - 0.2
    if lines:
        pitch = np.fmin(0.146, high / max(len(rows), len(keys))) * (width / columns - left - right > 1)
    else:
        pitch = np.fmin(np.fmin(0.22, high / len(rows)), ((width - left - 0.3) / columns - 0.05) / len(keys))
        pitch *= pitch >= min(0.22, 0.32 / len(keys))
    if not (pitch > 0).any():
        what = f"{count} heads have no room in a picture {width:g} inches wide"
        raise SelectionError(what, "name fewer of them, or give a larger --width")
    best = np.lexsort((columns, np.fmin(pitch, shared.NAMED)))[-1]
    return int(columns[best]), float(pitch[best])


def draw_ablation(ablation: Ablation, width: float) -> Figure:
    """A panel for each quantity: a row for each set with its controls or, of single heads, the layer x head grid."""
    if ablation.alone:
        return _draw_worth(ablation, width)
    by_quantity = ablation.by_quantity
    sets = [effect.set.name for effect in next(iter(by_quantity.values()))]
    names = [shared.wrapped(f"{letter(s)} {s}" if s in palette.COLORS else s, 0.4 * width) for s in sets]
    figure, axes, _ = shared.panels([""] * len(by_quantity), width, columns=1)
    for ax, (quantity, effects) in zip(axes, by_quantity.items(), strict=True):
        sense = "less is a loss" if quantity.larger_is_better else "more is a loss"
        ax.set_title(shared.wrapped(f"{quantity.name}: effect in {quantity.unit}, ± 95 % ({sense})", 0.55 * width))
        for row, effect in enumerate(effects):
            if np.isnan(effect.effect):
                ax.text(0, row, " not measured" if effect.set.heads else " no head", va="center", color=shared.FAINT)
            ax.plot(np.array(effect.others) - effect.control, [row] * len(effect.others), "|", color="#a8a8a8")
            color, half = palette.COLORS.get(effect.set.name, _GOLD), np.nan_to_num(effect.interval)
            ax.errorbar(effect.effect, row, None, half, "s", color=color, markersize=3.5, elinewidth=0.8)
        ax.axvline(0, color=shared.FAINT, linewidth=0.5)
        ax.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5))
        ax.margins(x=0.1)
        ax.locator_params(axis="x", nbins=3)
        ax.tick_params(labelbottom=True)
        ax.grid(axis="x")
    high = 0.07 + 0.13 * max(name.count("\n") + 1 for name in names)
    return shared.finish(figure, high * len(names), "Grey: the controls, less their mean.")


def _draw_worth(ablation: Ablation, width: float) -> Figure:
    """What each head is worth, as a share of the most that one is: 0 where another of its layer costs as much."""
    worth = np.full((*ablation.grid.shape, len(ablation.by_quantity)), np.nan)
    titles = []
    for place, (quantity, effects) in enumerate(ablation.by_quantity.items()):
        for effect in effects:
            worth[(*effect.set.heads[0].place, place)] = max(0.0, effect.loss) if effect.leads else 0 * effect.loss
        top = float(np.nanmax(worth[..., place], initial=0))
        titles.append(f"{quantity.name}: what each head is worth, up to {top:.2g} ({quantity.unit})")
        worth[..., place] /= top or 1
    caption = "Worth more than other heads. Palest: another head of its layer costs as much."
    return _draw_grids(titles, worth, ablation.grid, width, "share of the most", caption)


def draw_similarity(similarity: Similarity, width: float) -> Figure:
    """Each head at its place, in its label's colour, with its name."""
    labels, (places, share) = similarity.labels.label.ravel().tolist(), similarity.map
    figure, (ax,), _ = shared.panels([""], width)
    ax.scatter(*places.T, s=9, color=[paper_color(label) for label in labels], marker="s", linewidth=0)
    ax.set(xticks=(), yticks=(), aspect="equal", adjustable="datalim")  # one scale: distances are what it shows
    ax.margins(0.1)
    where = {"textcoords": "offset points", "va": "center", "fontsize": 4, "in_layout": False}
    for head, place in zip(similarity.grid, places, strict=True):
        ax.annotate(head.name, place, (2.5, 0), color=shared.FAINT, **where)
    names = {name: f"{letter(name)}  {name or words(name)} ({labels.count(name)})" for name in sorted({*labels})}
    shared.legend(figure, {text: paper_color(name) for name, text in names.items()})
    shown = f"{share:.0%} of all squared distances between heads are in this map; near heads attend alike."
    return shared.finish(figure, None, shown)


def draw_comparison(comparison: Comparison, width: float, patterns: Sequence[str] = ()) -> Figure:
    """A square panel for each pattern, A across and B upwards; a head that did not change lies on the diagonal."""
    names = patterns or comparison.patterns
    for name in names:
        check_known("pattern", name, comparison.patterns)
    ranks = [f" rank {comparison.correlation(name):.2f}".replace(" rank nan", "") for name in names]
    titles = [f"{letter(name)} {name}{rank}" for name, rank in zip(names, ranks, strict=True)]
    figure, axes, _ = shared.panels(titles, width, "A", "B")
    for name, ax in zip(names, axes, strict=True):
        rows = comparison.of(name)
        look = {"alpha": np.where(rows["survives"], 0.85, 0.25), "linewidth": 0, "clip_on": False}
        ax.axline((0, 0), (1, 1), color=shared.RULE, linewidth=0.5)
        ax.scatter(rows["score_a"], rows["score_b"], 5, paper_color(name), **look)
        ax.set(xlim=(0, 1), ylim=(0, 1))
        ax.set_xticks(*shared.ZERO_TO_ONE)
        ax.set_yticks(*shared.ZERO_TO_ONE)
        ax.grid()
    models = [signature.title for signature in comparison.signatures]
    if models[0] == models[1]:  # two checkpoints of a run may differ by their directories alone
        models = [signature.model for signature in comparison.signatures]
    pale = f"Pale: the difference does not survive a false discovery rate of {FALSE_DISCOVERIES:.0%}, "
    pale += f"or is smaller than {comparison.least:g}."
    return shared.finish(figure, None, f"A: {models[0]}", f"B: {models[1]}", pale)


def draw_syntax(result: Syntax, width: float) -> Figure:
    """The map of heads by what they follow."""
    marks = [result.letter(head) for head in result.grid]
    colors = {m: on_white(palette.SYNTAX_COLORS[m.upper()], 0.5 if m.islower() else 1) for m in {*marks}}
    figure, height, note = shared.draw_letters(result.grid, marks, [colors[mark] for mark in marks], width)
    said = {text[0]: f"{text[0]}  {text[2:]} ({marks.count(text[0])})" for text in result.legend()}
    shared.legend(figure, {text: colors[mark] for mark, text in said.items() if mark in marks})
    caption = f"Map: what heads follow in {counted(result.sentences, 'sentence')}, {result.signature.reading}."
    few = f"Below {FEW} sentences, results may not hold in other texts." * (result.sentences < FEW)
    return shared.finish(figure, height, caption, note, few)


_FIGURES: dict[type, dict[str, Callable[..., Figure]]] = {
    HeadScores: {
        "map": draw_map,
        "scores": draw_scores,
        "layers": draw_layers,
        "profile": lambda result, width: draw_profile(result.profile, width),
        "head": draw_weights,
    },
    Profile: {"profile": draw_profile},
    Ablation: {"ablation": draw_ablation},
    Similarity: {"similarity": draw_similarity},
    Comparison: {"comparison": draw_comparison},
    Syntax: {"syntax": draw_syntax},
}
_OF_KIND = {"heads": "head", "lines": "head", "patterns": "comparison"}


def picture(
    result: Drawable, kind: Kind | None = None, format: Picture = "svg", width: float = COLUMN, **options: Any
) -> bytes:
    """What `attnscan.plot` says, as a file's content: the same bytes for the same result.

    Options are `heads` and `lines` of the kind `head`, and `patterns` of a comparison. Warns of letters without a font.
    Raises: OptionError if the result has no such picture, or the picture no such option; SelectionError for heads that
    are not there, or too many for the width.
    """
    check_file(format, width)
    name, figures = type(result).__name__, _FIGURES.get(type(result), {})
    if not figures:
        raise OptionError(f"there is no picture of a {name}", "give what a command of attnscan returns")
    chosen: str = kind or next(iter(figures))
    check_known(f"picture of a {name}", chosen, list(figures))
    given = {option: value for option, value in options.items() if value}
    for option in given:
        if _OF_KIND[option] != chosen:
            raise OptionError(f"the picture '{chosen}' has no {option}", f"{option} is for {_OF_KIND[option]}")
    signature = result.signatures[0] if isinstance(result, Comparison) else result.signature
    with shared.drawing():
        return shared.to_bytes(figures[chosen](result, width, **given), format, signature, chosen)

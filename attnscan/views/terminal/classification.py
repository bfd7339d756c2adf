"""The screens of `classify`: one input at a glance, and every head in a list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from attnscan.results.classification import Classification
from attnscan.results.grid import Head
from attnscan.results.terms import counted
from attnscan.safe_text import plain
from attnscan.views.behaviour import reading
from attnscan.views.palette import letter
from attnscan.views.summary import token_lines, why_unscored
from attnscan.views.terminal.parts import color_of, columns, fitted, flowed, model_line, number, some_of, wrapped
from attnscan.views.terminal.ranking import behaviours_view

_FEW = 5  # patterns: beside fewer there is room for more columns
_LINES_EACH = 2  # of the screen for a sentence or a note, at most


def classification_view(result: Classification, width: int, nth: int | None = None) -> RenderableType:
    """One input at a glance: its tokens, kinds of behaviour, the map of all heads.

    One of several inputs has its number in front, and no map and notes.
    """
    tokens, notes = list(_tokens(result, width)), list(_notes(result, width)) if nth is None else [Text("")]
    taken = 1 + len(tokens) + len(notes)
    return Group(_title(result, nth), *tokens, *behaviours_view(result, width, mapped=nth is None, taken=taken), *notes)


def all_heads_view(
    result: Classification,
    patterns: Sequence[str],
    order: Sequence[Head],
    width: int,
    top: int | None = None,
    nth: int | None = None,
) -> RenderableType:
    """Heads with their labels and scores, in the given order; and why there are no scores, where that is so."""
    scores = result.scores
    table = result.table
    roomy = width >= 84 + 6 * max(0, len(patterns) - 7) + 15
    labels = {"label": result.label}
    labels |= {"runner-up": result.runner_up, "among words": result.content_label} if roomy else {}
    unsure = {"label": result.labels.questioned(result.reading.special), "among words": result.labels.content_unsure}
    behaviours = result.behaviours
    numbers = {"nats": scores.entropy}
    if result.output is not None and (roomy or len(patterns) < _FEW):
        numbers["out"] = result.output
    of_others = [known.id for known in scores.scored if known.of_others and known.id in patterns]
    of_others = of_others if roomy or len(patterns) < _FEW else []
    selves = [f"{letter(pattern)} self" for pattern in of_others]
    grid = columns(("head", "does", *labels), (*map(letter, patterns), *selves, *numbers), header="bold", apart=1)
    for head in order[:top]:
        grid.add_row(
            head.name,
            _marked(str(behaviours.kind[head.place]), bool(behaviours.unsure[head.place])),
            *(
                _marked(str(label[head.place]), name in unsure and bool(unsure[name][head.place]))
                for name, label in labels.items()
            ),
            *(number(table.score[(*head.place, scores.patterns.index(pattern))]) for pattern in patterns),
            *(number(table.itself[(*head.place, scores.patterns.index(pattern))]) for pattern in of_others),
            *(number(values[head.place]) for values in numbers.values()),
        )
    grid = fitted(grid, width, "nats", *selves, "out", "runner-up", "among words", "label", "does")
    there = {str(column.header) for column in grid.columns}
    entries = ["Columns:", *(f"{letter(p)} {plain(p)}" for p in patterns)]
    entries += [f"{name} of this, the word itself" for name in selves if name in there]
    entries += ["nats entropy of a row"] if "nats" in there else []
    equal = f"{1 / scores.grid.shape[1]:.2f} an equal part"
    entries += [f"out share of its layer's output, {equal}"] if "out" in there else []
    entries += ["? changed in over 5 % of resamples"] if behaviours.labels.stability is not None else []
    legend = flowed((Text(entry, style="dim") for entry in entries), width)
    listed = [grid] if grid.row_count else []
    why = [line for why in _why_unscored(result, patterns) for line in wrapped(why, width)]
    if nth is not None:
        return Group(_title(result, nth), *_tokens(result, width), *listed, *why, "")
    explained: list[RenderableType] = ["", *legend] if listed else []
    does = [f"does: what each head does, by {reading(result)}."] if "does" in there else []
    if top is not None and top < len(order):
        explained.append(Text(some_of(top, len(order)), style="dim"))
    read = (line for text in does for line in wrapped(text, width))
    return Group(_title(result), "", *listed, *why, *explained, *read, *_notes(result, width))


def _why_unscored(result: Classification, patterns: Sequence[str]) -> Iterator[str]:
    """Why heads have no score, a line for the patterns of which the same is true."""
    of_patterns: dict[str, list[str]] = {}
    for pattern in patterns:
        of_patterns.setdefault(why_unscored(result, pattern), []).append(pattern)
    for why, unscored in of_patterns.items():
        if why:
            yield f"{', '.join(map(plain, unscored))}: {why}"


def _marked(kind: str, unsure: bool) -> Text:
    """A label or a statement by its letter and its name in tables, questioned if it would not stay."""
    return Text(f"{letter(kind)} {plain(kind)}{'?' * unsure}", style=color_of(kind))


def _title(result: Classification, nth: int | None = None) -> Text:
    if nth is not None:
        return Text(f"input {nth}", style="bold")
    grid = result.scores.grid
    return model_line(result.signature, f"  {grid} = {counted(len(grid), 'head')}")


def _tokens(result: Classification, width: int) -> Iterator[Text]:
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


def _notes(result: Classification, width: int) -> Iterator[Text]:
    """What else there is to know, each cut to two lines: words of a long input have many that are related."""
    for note in result.notes:
        shown = list(wrapped(plain(note), width))
        yield from shown[: _LINES_EACH - 1]
        for rest in shown[_LINES_EACH - 1 : _LINES_EACH]:
            cut = rest.plain if len(shown) == _LINES_EACH else f"{rest.plain[: width - 2].rstrip(' ,')} …"
            yield Text(cut, style="dim")

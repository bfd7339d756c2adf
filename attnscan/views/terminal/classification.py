"""The screens of `classify`: one input at a glance, and every head in a list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnscan.results.classification import Classification
from attnscan.results.grid import Head
from attnscan.results.scores import MIXED
from attnscan.results.terms import counted
from attnscan.safe_text import plain
from attnscan.views.palette import letter
from attnscan.views.summary import (
    PatternRow,
    count_names,
    leading_part,
    notes,
    pattern_rows,
    strongest_by,
    token_lines,
    why_unscored,
)
from attnscan.views.terminal.map import map_view
from attnscan.views.terminal.parts import columns, fitted, flowed, model_line, named, number, wrapped

_FEW = 5  # patterns: beside fewer there is room for more columns
_TOKEN_LINES = 6  # of each sentence, at most
_ENTRY = len("11-11 0.00") + 2
_PATTERN = 20  # columns of the pattern table that stand before its counts


def classification_view(
    result: Classification,
    patterns: Sequence[str],
    width: int,
    top: int | None = None,
    without_delimiters: bool = False,
    nth: int | None = None,
) -> RenderableType:
    """One input at a glance: its tokens, the heads of each pattern, the map of all heads.

    One of several inputs has its number in front, and no map and notes.
    """
    names = count_names(result)
    beside = max(width - _PATTERN - sum(len(name) + 2 for name in names), _ENTRY)
    shown = top or max(3, (beside + 2) // _ENTRY)
    best_by = strongest_by(result) if beside > _ENTRY else "strongest"
    grid = columns(("pattern",), names, (best_by,), header="bold")
    for row in pattern_rows(result, patterns, shown, without_delimiters=without_delimiters):
        why_none = Text("\n").join(wrapped(row.why_none, beside))
        strongest = [] if not row.strongest else [_strongest(result, row, beside)]
        grid.add_row(
            named(row.pattern), *row.counts, Text("\n").join([why_none, *strongest] if row.why_none else strongest)
        )
    if nth is not None:
        return Group(_title(result, nth), *_tokens(result, width), fitted(grid, width, *reversed(names[1:])), "")
    return Group(
        _title(result),
        "",
        *_tokens(result, width),
        "",
        fitted(grid, width, *reversed(names[1:])),
        *_table_notes(result, without_delimiters),
        "",
        *map_view(result.mapped.labels, width),
    )


def all_heads_view(
    result: Classification,
    patterns: Sequence[str],
    order: Iterable[Head],
    width: int,
    without_delimiters: bool,
    nth: int | None = None,
) -> RenderableType:
    """Heads with their labels and scores, in the given order; and why there are no scores, where that is so."""
    scores = result.scores
    table = scores.table(without_delimiters)
    carries = result.carried is not None and not result.signature.norm
    roomy = width >= 84 + 6 * max(0, len(patterns) - 7) + 15 + (21 if carries else 0)
    labels = {"label": result.label}
    labels |= {"runner-up": result.runner_up} if roomy else {}
    labels |= {"on words": result.content_label} if roomy or not carries else {}
    labels |= {"carries": result.carried_label} if carries else {}
    readings = dict.fromkeys(labels, result) | {"carries": result.mapped}
    numbers = {"nats": scores.entropy}
    if result.carried is not None and (roomy or len(patterns) < _FEW):
        numbers["out"] = result.carried.output
    of_others = [known.id for known in scores.scored if known.of_others and known.id in patterns]
    of_others = of_others if roomy or len(patterns) < _FEW else []
    selves = [f"{letter(pattern)} self" for pattern in of_others]
    grid = columns(("head", *labels), (*map(letter, patterns), *selves, *numbers), header="bold", apart=1)
    for head in order:
        grid.add_row(
            head.name,
            *(_label(readings[name], name, str(label[head.place]), head) for name, label in labels.items()),
            *(number(table.score[(*head.place, scores.patterns.index(pattern))]) for pattern in patterns),
            *(number(table.itself[(*head.place, scores.patterns.index(pattern))]) for pattern in of_others),
            *(number(values[head.place]) for values in numbers.values()),
        )
    grid = fitted(grid, width, "nats", *selves, "out", "runner-up", "carries", "on words", "label")
    there = {str(column.header) for column in grid.columns}
    entries = ["Columns:", *(f"{letter(p)} {plain(p)}" for p in patterns)]
    entries += [f"{name} of this, the word itself" for name in selves if name in there]
    entries += ["nats entropy of a row"] if "nats" in there else []
    labelled = bool(there & labels.keys())
    entries += ["? would not stay"] if labelled and result.labels.stability is not None else []
    entries += ["· a mixed head's largest part (attnscan profile)"] if labelled and result.profile is not None else []
    equal = f"{1 / scores.grid.shape[1]:.2f} an equal part"
    entries += [f"out share of its layer's output, {equal}"] if "out" in there else []
    legend = flowed((Text(entry, style="dim") for entry in entries), width)
    listed = [grid] if grid.row_count else []
    why = [line for why in _why_unscored(result, patterns, without_delimiters) for line in wrapped(why, width)]
    if nth is not None:
        return Group(_title(result, nth), *_tokens(result, width), *listed, *why, "")
    explained: list[RenderableType] = ["", *legend] if listed else []
    return Group(_title(result), "", *listed, *why, *explained, *_table_notes(result, without_delimiters))


def _why_unscored(result: Classification, patterns: Sequence[str], without_delimiters: bool) -> Iterator[str]:
    """Why heads have no score, a line for the patterns of which the same is true."""
    of_patterns: dict[str, list[str]] = {}
    for pattern in patterns:
        of_patterns.setdefault(why_unscored(result, pattern, without_delimiters=without_delimiters), []).append(pattern)
    for why, unscored in of_patterns.items():
        if why:
            yield f"{', '.join(map(plain, unscored))}: {why}"


def _label(result: Classification, kind: str, label: str, head: Head) -> Text:
    """A label, questioned if it would not stay, or, of a mixed head, what leads its profile."""
    leading = leading_part(result, head) if label == MIXED else ""
    if leading:
        return Text(f"{letter(MIXED)} {plain(leading)}", style="dim")
    labels = result.labels
    unsure = labels.content_unsure if kind == "on words" else labels.unsure
    return named(label, unsure=kind != "runner-up" and bool(unsure[head.place]))


def _title(result: Classification, nth: int | None = None) -> Text:
    if nth is not None:
        return Text(f"input {nth}", style="bold")
    grid = result.scores.grid
    return model_line(result.signature, f"  {grid} = {counted(len(grid), 'head')}")


def _tokens(result: Classification, width: int) -> Iterator[RenderableType]:
    """The units of each sentence on lines of their own; a sentence's closing delimiter goes with it."""
    for name, tokens in token_lines(result).items():
        line = Text(" ").join(Text(text, style="dim" if special else "") for text, special in tokens)
        wrapped = line.wrap(Console(width=width), width - 4)
        shown = wrapped[:_TOKEN_LINES]
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_row(Text(name, style="bold"), Text("\n").join(shown))
        yield grid
        if len(wrapped) > len(shown):
            yield Text(f"  … {len(tokens)} tokens in all", style="dim")


def _strongest(result: Classification, row: PatternRow, width: int) -> Text:
    """The best heads of a pattern, bold where that is their label by the same."""
    entries = (
        Text(
            f"{head.name} {score:.2f}".ljust(_ENTRY - 2),
            style="bold" if result.label[head.place] == row.pattern else "",
        )
        for head, score in row.strongest
    )
    return Text("\n").join(flowed(entries, width))


def _table_notes(result: Classification, without_delimiters: bool) -> Iterator[Text]:
    if without_delimiters:
        yield Text("Scores on words: weights on delimiters removed, rows renormalised.", style="dim")
    yield from (Text(note, style="dim") for note in notes(result))

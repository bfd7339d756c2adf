"""Which heads are switched off together, and with which others they are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attnscan.inputs.pairs import Record
from attnscan.results.ablation import HeadSet
from attnscan.results.heads import Head, head_name, heads_named
from attnscan.results.scores import Scores
from attnscan.results.terms import DRAWS, By
from attnscan.scan.local import ScanState, scan
from attnscan.scan.scanner import Scanner
from attnscan.scan.stream import OnBad


@dataclass(frozen=True)
class AblationRequest:
    """What is to be switched off, and how its worth is measured."""

    patterns: tuple[str, ...] = ()
    """Whose heads are switched off, pattern by pattern, where no heads are named; none for all that are scored."""
    heads: str | None = None
    singly: bool = False
    """Each head in turn: of those that are named, or all."""
    top: int | None = None
    """Of each pattern so many heads, those most above chance; None for those that it labels."""
    by: By = "zero"
    draws: int = DRAWS
    measures: tuple[str, ...] = ()
    """None for what the checkpoint has heads for."""


def requested_sets(
    scanner: Scanner,
    read: Callable[[], Iterator[Record]],
    request: AblationRequest,
    on_bad: OnBad | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> tuple[list[HeadSet], str]:
    """The sets of heads that a request describes, and how they were chosen, in a few words.

    Heads that are named are taken as they are; those that follow patterns are found by a scan of all pairs.
    Raises: SelectionError if a head is not there; InputError if there is no pair to scan.
    """
    options = scanner.options
    if request.heads is not None or request.singly:
        grid = scanner.grid()
        heads = heads_named(request.heads or "all", grid)
        named = each_alone(heads) if request.singly else {request.heads or "all": heads}
        return named_sets(named, grid[1], request.draws, options.seed), "by name"
    state = ScanState()
    for after in scan(scanner, read(), on_bad=on_bad, on_batch=on_batch):
        state = after
    scores = state.finish(scanner).scores
    measured = [known.id for known in options.patterns if known.target is not None or options.predictive != "off"]
    patterns = [name for name in measured if not request.patterns or name in request.patterns]
    sets = heads_of_patterns(scores, patterns, options.threshold, request.top)
    how = (
        f"label, {options.threshold:g} above chance" if request.top is None else f"the {request.top} most above chance"
    )
    return named_sets(sets, scores.grid[1], request.draws, options.seed), how


def with_controls(name: str, heads: Sequence[Head], width: int, draws: int, seed: int) -> HeadSet:
    """A set of heads of a model with `width` heads a layer, and its controls.

    Of each layer as many heads are drawn as the set has there, without repetition, from the layer's other
    heads. Where a layer has too few others, all of them are taken, and the rest drawn from the set itself.

    >>> with_controls("x", [(1, 0)], 2, 2, 0).controls
    (((1, 1),), ((1, 1),))
    """
    chosen = tuple(sorted(heads))
    rng = np.random.default_rng([seed, *(number for head in chosen for number in head)])
    counts = Counter(layer for layer, _ in chosen)
    if all(count == width for count in counts.values()):
        return HeadSet(name, chosen)
    controls = []
    for _ in range(draws):
        drawn: list[Head] = []
        for layer, count in counts.items():
            own = [head for at, head in chosen if at == layer]
            others = [head for head in range(width) if head not in own]
            picked = [*rng.permutation(others)[:count], *rng.permutation(own)[: max(0, count - len(others))]]
            drawn += [(layer, int(head)) for head in picked]
        controls.append(tuple(sorted(drawn)))
    return HeadSet(name, chosen, tuple(controls))


def heads_of_patterns(
    scores: Scores, patterns: Sequence[str], threshold: float, top: int | None
) -> dict[str, list[Head]]:
    """The heads that follow each pattern: those with its label or, with `top`, so many that are most above chance."""
    table = scores.every_key
    if top is None:
        labels = scores.ranked_labels(table, 0, threshold)
        return {pattern: [_head(place) for place in np.argwhere(labels == pattern)] for pattern in patterns}
    found = {}
    for pattern in patterns:
        above = table.above_chance[..., scores.patterns.index(pattern)]
        best = np.argsort(-np.nan_to_num(above, nan=-np.inf), axis=None, kind="stable")[:top]
        places = np.stack(np.unravel_index(best, above.shape), -1)
        found[pattern] = [_head(place) for place in places if not np.isnan(above[tuple(place)])]
    return found


def named_sets(sets: dict[str, list[Head]], width: int, draws: int, seed: int) -> list[HeadSet]:
    """The same as sets with controls; one without heads stays without."""
    return [
        with_controls(name, heads, width, draws, seed) if heads else HeadSet(name, ()) for name, heads in sets.items()
    ]


def each_alone(heads: Sequence[Head]) -> dict[str, list[Head]]:
    """Each head as a set of its own, by its name."""
    return {head_name(head): [head] for head in heads}


def _head(place: np.ndarray) -> Head:
    return int(place[0]), int(place[1])

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
        grid, text, how = scanner.grid(), request.heads or "all", "by name"
        heads = heads_named(text, grid)
        sets = {head_name(head): [head] for head in heads} if request.singly else {text: heads}
    else:
        state, chance = ScanState(), f"{options.threshold:g} above chance"
        for after in scan(scanner, read(), on_bad=on_bad, on_batch=on_batch):
            state = after
        scores = state.finish(scanner).scores
        measured = [known.id for known in options.patterns if known.target is not None or options.predictive != "off"]
        patterns = [name for name in measured if not request.patterns or name in request.patterns]
        sets, grid = heads_of_patterns(scores, patterns, options.threshold, request.top), scores.grid
        how = f"label, {chance}" if request.top is None else f"the {request.top} most above chance"
    return [with_controls(name, heads, grid[1], request.draws, options.seed) for name, heads in sets.items()], how


def with_controls(name: str, heads: Sequence[Head], width: int, draws: int, seed: int) -> HeadSet:
    """A set of heads of a model with `width` heads a layer, and its controls; one without heads has none.

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
    labels = scores.ranked_labels(scores.every_key, 0, threshold)
    found = {}
    for pattern in patterns:
        if top is None:
            places = np.flatnonzero(labels == pattern)
        else:
            above = scores.every_key.above_chance[..., scores.patterns.index(pattern)].ravel()
            best = np.argsort(-above, kind="stable")[:top]  # NaN comes last
            places = best[~np.isnan(above[best])]
        found[pattern] = [divmod(int(place), scores.grid[1]) for place in places]
    return found

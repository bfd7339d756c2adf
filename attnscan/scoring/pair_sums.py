"""Each pair's sums from one run of a batch: for scores and, if heads are labelled, for habits."""

from collections.abc import Callable, Sequence

from attnscan.model.attention_block import AttentionBlock, Consumer
from attnscan.results.scores import FloatArray
from attnscan.results.signature import AttentionView
from attnscan.scoring.class_scorer import ClassScorer
from attnscan.scoring.pattern_scorer import PatternScorer
from attnscan.scoring.units import Targets, show_units
from attnscan.scoring.word_links import AlignmentScorer


def pair_sums(
    targets: Targets,
    labelled: AttentionView | None,
    run: Callable[[Consumer], object],
    observers: Sequence[Consumer] = (),
) -> dict[str, FloatArray]:
    """Each pair's sums for scores and, if `labelled` by a reading, for habits and alignment.

    `observers` see the run, too.
    """
    scorers: list[PatternScorer | ClassScorer | AlignmentScorer] = [PatternScorer(targets)]
    if labelled is not None:
        scorers.append(ClassScorer(targets.units, special=not labelled.words_only))
        if targets.batch.is_query is not None:
            scorers.append(AlignmentScorer(targets.units))

    def show(block: AttentionBlock) -> None:
        show_units(targets.units, scorers, block)
        for observer in observers:
            observer(block)

    run(show)
    sums: dict[str, FloatArray] = {}
    for scorer in scorers:
        sums |= scorer.sums()
    return sums

"""How heads make their patterns: neurons of queries and keys, and what happens when the model reads something else.

Every change is a run of the model over the same batch, scored against the same targets; all heads at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.sentence import Record
from attnscan.model.attention_block import AttentionKeeper, Consumer
from attnscan.results.attention import Attention, Chosen
from attnscan.results.explanation import CAUSES, Explanations, NeuronTable
from attnscan.results.grid import Head
from attnscan.results.signature import USUAL
from attnscan.results.terms import SHUFFLES, THRESHOLD
from attnscan.scan.local import OnBad, each
from attnscan.scan.options import silent
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import Seen, no_pair
from attnscan.scoring.blocks import Blocks, PairSums
from attnscan.scoring.classes import ClassScorer
from attnscan.scoring.labels import labels_of, scores_of, units_of
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.targets import Targets
from attnscan.studies.interventions import (
    SEGMENTS,
    SHUFFLED,
    Positions,
    cause_sums,
    positions_of,
    scores_after,
    shuffled,
    under_changes,
    why_not_changed,
)
from attnscan.studies.neurons import NeuronScorer, neuron_table
from attnscan.studies.passes import sums_over


def explain(
    scanner: Scanner,
    records: Iterable[Record],
    heads: Sequence[Head] | None = None,
    pattern: str | None = None,
    on_bad: OnBad | None = None,
) -> Explanations:
    """Explain heads (all, by default) by a stream of pairs, for one pattern or for each head's own.

    Raises: InputError if there is no pair, or one cannot be read.
    """
    scanner = scanner.exact()
    study = _Study(positions_of(scanner), heads, pattern)
    work = partial(_measure, study, scanner.changed(progress=silent))
    sums, seen = sums_over(scanner, records, work, "explaining heads by pairs", on_bad)
    if sums is None:
        raise no_pair("to explain by")
    return _finish(study, scanner, sums, seen)


def explain_input(
    scanner: Scanner,
    record: Record,
    heads: Sequence[Head] | None = None,
    pattern: str | None = None,
    encoded: EncodedInput | None = None,
) -> Explanations:
    """Explain heads by one input, of which their attention is kept; `encoded` if the scanner has encoded it already.

    Raises: InputError if it cannot be read.
    """
    scanner = scanner.exact()
    encoded = encoded or scanner.encode(record.pair)
    chosen = None
    if heads is not None:
        chosen = Chosen(scanner.grid(), tuple(range(len(encoded.tokens))), tuple(heads))
    scanner.check_room(len(encoded.tokens), chosen, copies=1)
    study, keeper = _Study(positions_of(scanner), heads, pattern), AttentionKeeper(chosen=chosen)
    sums = _measure(study, scanner, [encoded], keeper)
    seen = Seen.of(record.pair, truncated=encoded.truncated)
    return _finish(study, scanner, sums, seen, keeper.attention(encoded))


@dataclass(frozen=True)
class _Study:
    """What is explained, and by what."""

    positions: Positions | str
    """The way to the model's positions; or why there is none."""
    heads: Sequence[Head] | None
    pattern: str | None


def _measure(
    study: _Study, scanner: Scanner, inputs: Sequence[EncodedInput], keeper: AttentionKeeper | None = None
) -> dict[str, Any]:
    """Score a batch as it is, and with everything changed that can be: sums that add.

    With a `keeper` of its one input, labels are told to be sure by words in place of pairs.
    """
    batch, seed, single = scanner.collate(inputs), scanner.options.seed, keeper is not None
    targets = Targets(batch, scanner.options.patterns, scanner.helps(inputs), by_query=single)
    scorer, classes = Scorer(targets), ClassScorer(targets.units, special=False)
    neurons = NeuronScorer(targets, seed, study.heads, study.pattern)
    consumers: list[Consumer] = [classes, scorer, neurons]
    scanner.tell("neurons of queries and keys")
    scanner.run(batch.model_inputs, partial(each, consumers if keeper is None else [*consumers, keeper]))

    def measure_again(run: Callable[[Consumer], None]) -> PairSums:
        again = Scorer(targets)
        run(again)
        return again.sums()

    scanner.tell("positions and segments changed")
    keys, width = [encoded.known_pair.key for encoded in inputs], batch.word.shape[1]
    unchanged = scorer.sums()
    changed = under_changes(scanner, batch, study.positions, SHUFFLES, measure_again)
    orders = (shuffled(inputs, width, seed, number) for number in range(len(changed.get(SHUFFLED, ()))))
    sums = {
        "pairs": Blocks.of(keys, unchanged | ({} if single else classes.sums())),
        "neurons": neurons.sums(),
        "causes": {name: cause_sums(keys, unchanged, drawn) for name, drawn in changed.items()},
        "moved": sum(bool((order != torch.arange(width)).any()) for order in orders),
    }
    return sums | ({"words": units_of(scorer.word_sums() | classes.sums(), USUAL)} if single else {})


def _finish(
    study: _Study, scanner: Scanner, sums: dict[str, Any], seen: Seen, attention: Attention | None = None
) -> Explanations:
    """What all batches together say."""
    scored, pairs = [pattern.scored for pattern in scanner.options.patterns], sums["pairs"].sums
    scores = scores_of(pairs, scored, scanner.options.kind, scanner.grid().layers)
    causes = {name: scores_after(blocks.sums, scored) for name, blocks in sums["causes"].items()}
    fixed = why_not_changed(scanner, study.positions)
    not_available = {
        cause: why for what, why in fixed.items() for cause in (SEGMENTS if what == "segments" else [SHUFFLED])
    }
    if SHUFFLED in causes and not sums["moved"]:
        del causes[SHUFFLED]
        not_available[SHUFFLED] = "there are no two words to shuffle"
    if sums["neurons"] is None:
        not_available["neurons"] = "this architecture shows no queries and keys"
    words, seed = sums.get("words"), scanner.options.seed
    shape = (2, *scores.grid.shape, len(scores.patterns))
    return Explanations(
        labels=labels_of(scores, words or units_of(pairs, USUAL), USUAL, THRESHOLD, seed, of_pairs=words is None),
        neurons=NeuronTable.unknown(shape) if sums["neurons"] is None else neuron_table(sums["neurons"]),
        causes={name: causes[name][0] for name in CAUSES if name in causes},
        fall_se={name: causes[name][1] for name in CAUSES if name in causes},
        not_available=not_available,
        signature=scanner.signature(seen),
        heads=tuple(study.heads or scores.grid),
        pattern=study.pattern,
        attention=attention,
    )

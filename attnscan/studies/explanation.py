"""How heads make their patterns: neurons of queries and keys, and what happens when the model reads something else.

A *neuron* is one of the d dimensions of a head. What it adds to the logit of a key is q_n k_n scaled. The
*contrast* of a query is what each neuron adds to its target keys beyond what it adds to the others. All of it is
measured in the basis that the checkpoint has and in rotated ones, which change no weight.

Every change is a run of the model over the same batch, scored against the same targets; all heads at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields
from threading import Lock

import numpy as np
import torch
from torch import Tensor

from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.sentence import Record
from attnscan.model.attention_block import AttentionBlock, AttentionKeeper, Consumer
from attnscan.results.attention import Attention, Chosen
from attnscan.results.explanation import Explanations
from attnscan.results.grid import AttentionKind, Grid, Head
from attnscan.results.head_explanation import CAUSES, NeuronTable
from attnscan.results.scores import FloatArray
from attnscan.results.signature import USUAL
from attnscan.results.terms import SHUFFLES, THRESHOLD
from attnscan.scan.local import OnBad, Stream
from attnscan.scan.options import silent
from attnscan.scan.scanner import Scanner
from attnscan.scan.state import Seen, no_pair
from attnscan.scoring.blocks import Adding, Blocks, PairSums, added
from attnscan.scoring.classes import ClassScorer
from attnscan.scoring.labels import Units, labels_of, scores_of, units_of
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
)
from attnscan.studies.passes import generator

_STRONGEST = 4
_TOGETHER = 1 << 20  # numbers of a basis that are worked on at once: more fall out of the cache
_MOST_QUERIES = 1024  # of an input: what two have in common is counted for every two
_SILENT = 1e-4  # of the strongest neuron's contrast: one with less takes no part
ROTATIONS = 8


class Rotations:
    """Random orthogonal matrices of every head, drawn once for all inputs, so that sums over inputs add.

    They depend on the seed, the layer and the head alone.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._drawn: dict[tuple[int, int, int], Tensor] = {}

    def of(self, layer: int, heads: Sequence[int], size: int) -> Tensor:
        """Of some heads of a layer. Shape: [rotation, head, size, size], float32."""
        return torch.stack([self._of_head(layer, head, size) for head in heads], 1)

    def _of_head(self, layer: int, head: int, size: int) -> Tensor:
        key = (layer, head, size)
        if key not in self._drawn:
            turns = orthogonal(generator(self._seed, layer, head), ROTATIONS, size)
            self._drawn[key] = torch.from_numpy(turns).float()
        return self._drawn[key]


def orthogonal(rng: np.random.Generator, count: int, size: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Orthogonal matrices, every one as probable as any other. Shape: [count, size, size].

    Q of a Gaussian matrix's QR is so only if R's diagonal is positive, which the algorithm leaves open.
    Source: Mezzadri, "How to Generate Random Matrices from the Classical Compact Groups", Notices of the AMS 54 (2007).
    """
    q, r = np.linalg.qr(rng.standard_normal((count, size, size)))
    turned: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = q * np.sign(np.einsum("rii->ri", r))[:, None, :]
    return turned


@dataclass(frozen=True)
class NeuronSums(Adding):
    """Sums over queries. Shape: each [basis, layer, head, pattern], float64; the first basis is the own. They add."""

    effective: FloatArray
    """Of each query's effective neurons."""
    queries: FloatArray
    """Eligible queries that any neuron tells their targets for."""
    overlap: FloatArray
    """Of the Jaccard overlap of two queries' strongest neurons, over all twos of one input."""
    twos: FloatArray
    agree: FloatArray
    """Of 1 for each query whose strongest neurons agree in sign inside its sentence and differ across."""
    with_both: FloatArray
    """Queries with words in their own and in the other sentence."""

    def finish(self) -> NeuronTable:
        """The means; NaN where there was nothing to take one of."""
        with np.errstate(invalid="ignore", divide="ignore"):
            means = self.effective / self.queries, self.overlap / self.twos, self.agree / self.with_both
        return NeuronTable(*(mean[0] for mean in means), *(mean[1:] for mean in means))


_SUMS = tuple(f.name for f in fields(NeuronSums))


class NeuronScorer:
    """A consumer that measures the neurons of one batch, of all heads and patterns or of some."""

    def __init__(
        self,
        targets: Targets,
        rotations: Rotations,
        only: Sequence[Head] | None = None,
        pattern: str | None = None,
    ) -> None:
        self._batch, self._targets, self._rotations = targets.batch, targets, rotations
        self._chosen = [p for p, known in enumerate(targets.patterns) if pattern in (None, known.id)]
        self._only = None if only is None else {head.place for head in only}
        self._kept: dict[tuple[int, int, int], tuple[list[int], list[int], FloatArray]] = {}
        """By layer, first head and first input of a block: its heads, its patterns, and their sums over its inputs."""
        self._grid: Grid | None = None
        self._parts: dict[tuple[int, int, int, int], _InputPart] = {}

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block; of models that show no queries there is nothing to take."""
        if block.query is None or block.key is None or block.scaling is None:
            self._kept.clear()  # all blocks come once more, and these have none
            return
        first, last, _ = block.heads.indices(block.grid.shape[1])
        heads = [h for h in range(first, last) if self._only is None or (block.layer, h) in self._only]
        if not heads:
            return
        self._grid = block.grid
        start, stop, _ = block.inputs.indices(len(self._batch))
        chosen = [h - first for h in heads]
        rows = _asked(block.query.shape[2])
        query, key = block.query[:, chosen][:, :, rows].float() * block.scaling, block.key[:, chosen].float()
        turns = self._rotations.of(block.layer, heads, query.shape[-1]).to(query.device)
        part = self._part(start, stop, block)
        sums = _measured(query, key, part, turns).cpu().double().sum(2).numpy()
        self._kept[block.layer, first, start] = heads, list(part.questions), sums

    def sums(self) -> NeuronSums | None:
        """The batch's sums; None if the model showed no queries."""
        if not self._kept or self._grid is None:
            return None
        total = np.zeros((len(_SUMS), 1 + ROTATIONS, *self._grid.shape, len(self._targets.patterns)))
        for (layer, _, _), (heads, patterns, sums) in self._kept.items():
            total[:, :, layer, np.array(heads)[:, None], patterns] += sums
        return NeuronSums(*total)

    def _part(self, start: int, stop: int, block: AttentionBlock) -> _InputPart:
        """What some inputs of one length are measured by, made once for all layers of one mask."""
        length = block.query.shape[2] if block.query is not None else 0
        key = (start, stop, length, id(block.visible))
        if key not in self._parts:
            inputs, across, asked = slice(start, stop), block.kind is AttentionKind.CROSS, _asked(length)
            rows, columns = (block.rows, block.columns) if across else (slice(length), slice(length))
            visible = block.visible[inputs, rows, columns][:, asked]
            same = self._batch.same_sentence[inputs, rows, columns][:, asked]
            word = self._batch.word[inputs]
            # Across, all keys are of the other text, and no query has words of its own sentence beside them
            other = word[:, rows, None][:, asked] & word[:, None, columns] & ~same & (not across)
            seen = self._batch.of_range(inputs, rows, columns, block.visible[inputs, rows, columns])
            matrices = [target.matrix[:, asked] for target in self._targets.of(seen)]
            questions = {p: _Queries.of(matrices[p].float(), visible) for p in self._chosen}
            self._parts[key] = _InputPart(
                visible=block.visible,
                questions={p: question for p, question in questions.items() if question.counted.any()},
                inside=_mean(same.float()),
                outside=_mean(other.float()),
                both=same.any(-1) & other.any(-1),
            )
        return self._parts[key]


def _asked(length: int) -> slice:
    """Which queries are measured: all or, of a long input, some that are spread evenly."""
    return slice(0, length, -(-length // _MOST_QUERIES))


@dataclass(frozen=True)
class _Queries:
    """One pattern's eligible queries of some inputs, those of an input in a row, and what tells their targets."""

    queries: Tensor
    """Their numbers; behind an input's last one, any. Shape: [batch, eligible]."""
    counted: Tensor
    """Whether there is one. Shape: [batch, eligible], bool."""
    contrast: Tensor
    """The mean over target keys less the mean over the other keys that are visible. Shape: [batch, eligible, key]."""

    @classmethod
    def of(cls, matrix: Tensor, visible: Tensor) -> _Queries:
        """Shape: each [batch, query, key]."""
        others = visible & (matrix == 0)
        eligible = matrix.any(-1) & others.any(-1)
        most = int(eligible.sum(-1).max())
        counted, queries = torch.sort(eligible.int(), dim=-1, descending=True, stable=True)
        counted, queries = counted[:, :most].bool(), queries[:, :most]
        rows = _mean(matrix) - _mean(others.float())
        return cls(queries, counted, rows.gather(1, queries[..., None].expand(-1, -1, rows.shape[-1])))


@dataclass(frozen=True)
class _InputPart:
    """What some inputs of one length are measured by."""

    visible: Tensor
    """Kept alive, so that its id stays its own."""
    questions: dict[int, _Queries]
    """By the number of the pattern; those that any query is eligible for."""
    inside: Tensor
    """The mean over words of the query's sentence. Shape: [batch, query, key]."""
    outside: Tensor
    """The mean over words of the other sentence; zero where there is none. Shape: [batch, query, key]."""
    both: Tensor
    """Which queries have words in both. Shape: [batch, query], bool."""


def _measured(query: Tensor, key: Tensor, part: _InputPart, turns: Tensor) -> Tensor:
    """The sums of all patterns in all bases; means over keys are taken once, and rotated in place of the keys.

    Shape: `query`, scaled, and `key` are [batch, head, token, neuron], `turns` [rotation, head, neuron, neuron];
    -> [sum, basis, batch, head, pattern].
    """
    means = [part.inside[:, None] @ key, part.outside[:, None] @ key]
    contrasts = [question.contrast[:, None] @ key for question in part.questions.values()]
    own = torch.eye(query.shape[-1], device=query.device).expand(1, *turns.shape[1:])
    rows = query[..., 0].numel() * max(query.shape[-2:])
    some = []
    for bases in torch.split(torch.cat([own, turns]), max(1, _TOGETHER // rows)):
        turned, inside, outside, *told = (values @ bases[:, None] for values in (query, *means, *contrasts))
        signs = [turned * inside, turned * outside] if part.both.any() else []
        sums = [
            _measure(turned, contrast, question, part.both, signs)
            for question, contrast in zip(part.questions.values(), told, strict=True)
        ]
        some.append(torch.stack(sums, -1) if sums else turned.new_zeros(len(_SUMS), *turned.shape[:3], 0))
    return torch.cat(some, 1)


def _measure(query: Tensor, keys: Tensor, question: _Queries, both: Tensor, signs: Sequence[Tensor]) -> Tensor:
    """The sums of one pattern in some bases, as `NeuronSums` names them.

    Shape: `query` is [basis, batch, head, token, neuron], `keys`, those of targets less others, likewise for eligible
    queries; `signs`, what every neuron adds inside the sentence and across, each that of `query`;
    -> [sum, basis, batch, head].
    """
    chosen = question.queries[:, None, :, None]
    contrast = query.gather(3, chosen.expand(keys.shape)) * keys
    size = contrast.abs()
    strength = contrast.square().sum(-1)
    counted = (question.counted[:, None] & (strength > 0)).float()
    effective = size.sum(-1).square() / strength.clip(torch.finfo(torch.float32).tiny) * counted

    best, which = size.topk(min(_STRONGEST, size.shape[-1]), dim=-1)
    takes_part = (best > _SILENT * best[..., :1]).float() * counted[..., None]
    strong = torch.zeros_like(size).scatter_(-1, which, takes_part)  # [basis, batch, head, eligible, neuron]
    shared, members = strong @ strong.transpose(-1, -2), strong.sum(-1)
    union = members[..., :, None] + members[..., None, :] - shared
    overlap = (shared / union.clip(1)).sum((-1, -2))
    number = counted.sum(-1)

    agree = with_both = torch.zeros_like(number)
    if signs:
        places = (chosen * size.shape[-1] + which).flatten(3)  # among an input's tokens and neurons
        inside, outside = (
            (signed.flatten(3).gather(3, places).view_as(which) * takes_part).sum(-1) for signed in signs
        )
        of_both = both.gather(1, question.queries)[:, None] * counted
        agree, with_both = (((inside > 0) & (outside < 0)) * of_both).sum(-1), of_both.sum(-1)
    # every query overlaps with itself by 1
    return torch.stack([effective.sum(-1), number, (overlap - number) / 2, number * (number - 1) / 2, agree, with_both])


def _mean(mask: Tensor) -> Tensor:
    """A row of weights that takes the mean over a mask's keys, by their values; zero where there are none."""
    return mask / mask.sum(-1, keepdim=True).clip(torch.finfo(torch.float32).tiny)


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
    explainer, sums = _Explainer(scanner, heads, pattern), _Measured()
    stream = Stream(scanner, records, on_bad)
    with closing(stream.worked(explainer.look)) as looks:
        for of_batches, _ in looks:
            for of_batch in of_batches:
                sums += of_batch
            scanner.tell("explaining heads by pairs", stream.done)
    return explainer.finish(sums, stream.seen)


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
    explainer = _Explainer(scanner, heads, pattern)
    encoded = encoded or scanner.encode(record.pair)
    chosen = None
    if heads is not None:
        chosen = Chosen(scanner.grid(), tuple(range(len(encoded.tokens))), tuple(heads))
    scanner.check_room(len(encoded.tokens), chosen, copies=1)
    sums = explainer.looking(scanner, [encoded], AttentionKeeper(chosen=chosen))
    seen = Seen.of(record.pair, truncated=encoded.truncated)
    return explainer.finish(sums, seen)


@dataclass(frozen=True)
class _Measured:
    """What was measured of some batches. They add."""

    pairs: Blocks | None = None
    """Of scores and, but for the one input that is kept, of labels."""
    neurons: NeuronSums | None = None
    """None if the model shows no queries."""
    causes: Mapping[str, Blocks] = field(default_factory=dict)
    not_available: Mapping[str, str] = field(default_factory=dict)
    moved: bool = False
    """Whether any word stood elsewhere when positions were shuffled."""
    words: Units | None = None
    """Of the one input that is kept: what labels are told to be sure by, in place of pairs."""
    attention: Attention | None = None
    """Of the one input that is kept."""

    def __add__(self, other: _Measured) -> _Measured:
        return _Measured(
            added(self.pairs, other.pairs),
            added(self.neurons, other.neurons),
            added(self.causes, other.causes),
            {**other.not_available, **self.not_available},
            self.moved or other.moved,
            self.words or other.words,
            self.attention or other.attention,
        )


class _Explainer:
    """Looks at batches, and finishes what was found into explanations."""

    def __init__(self, scanner: Scanner, heads: Sequence[Head] | None, pattern: str | None) -> None:
        self._scanner, self._heads, self._pattern = scanner, heads, pattern
        self._positions: Positions | str | None = None
        """The way to the model's positions; or why there is none."""
        self._looked = Lock()
        self._rotations = Rotations(scanner.options.seed)

    def look(self, inputs: Sequence[EncodedInput]) -> _Measured:
        """Score a batch as it is, and with everything changed that can be."""
        return self.looking(self._scanner.with_progress(silent), inputs)

    def looking(
        self, scanner: Scanner, inputs: Sequence[EncodedInput], keeper: AttentionKeeper | None = None
    ) -> _Measured:
        """Score a batch and tell what is being measured; a `keeper` keeps its one input."""
        batch = scanner.collate(inputs)
        helps = scanner.asking(inputs)
        targets = Targets(batch, scanner.options.patterns, helps)
        scorer = Scorer(targets)
        words = None if keeper is None else Scorer(targets, by_query=True)
        classes = ClassScorer(batch, special=False, by_query=keeper is not None, units=targets.units)
        neurons = NeuronScorer(targets, self._rotations, self._heads, self._pattern)

        def consume(block: AttentionBlock) -> None:
            classes(block)
            scorer(block)
            neurons(block)
            for consumer in (keeper, words):
                if consumer is not None:
                    consumer(block)

        scanner.tell("neurons of queries and keys")
        scanner.run(batch.model_inputs, consume)
        keys = [encoded.known_pair.key for encoded in inputs]
        sums = _Measured(
            pairs=Blocks.of(keys, scorer.sums() | ({} if words else classes.sums())),
            neurons=neurons.sums(),
            words=None if words is None else units_of(words.word_sums() | classes.sums(), USUAL),
            attention=None if keeper is None else keeper.attention(inputs[0]),
        )
        return sums + self._changed(scanner, scorer.sums(), targets)

    def _changed(self, scanner: Scanner, unchanged: PairSums, targets: Targets) -> _Measured:
        """Score a batch with everything changed that can be."""
        batch = targets.batch
        seed, width, keys = scanner.options.seed, batch.word.shape[1], [own.known_pair.key for own in batch.inputs]

        def measure(run: Callable[[Consumer], None]) -> PairSums:
            again = Scorer(targets)
            run(again)
            return again.sums()

        scanner.tell("positions and segments changed")
        measured, why = under_changes(scanner, batch, self._positions_of(), SHUFFLES, measure)
        causes = {"positions": [SHUFFLED], "segments": [*SEGMENTS]}
        orders = (shuffled(batch.inputs, width, seed, n) for n in range(len(measured.get(SHUFFLED, ()))))
        return _Measured(
            causes={name: cause_sums(keys, unchanged, sums) for name, sums in measured.items()},
            not_available={cause: why[what] for what in why for cause in causes[what]},
            moved=any(bool((order != torch.arange(width)).any()) for order in orders),
        )

    def _positions_of(self) -> Positions | str:
        """The way to the model's positions, looked for once; or why there is none."""
        with self._looked:
            if self._positions is None:
                self._positions = positions_of(self._scanner)
        return self._positions

    def finish(self, sums_of_all: _Measured, seen: Seen) -> Explanations:
        """What all batches together say. Raises: InputError if there was none."""
        if sums_of_all.pairs is None:
            raise no_pair("to explain by")
        pairs, scored = sums_of_all.pairs.sums, [pattern.scored for pattern in self._scanner.options.patterns]
        scores = scores_of(pairs, scored, self._scanner.options.kind, self._scanner.grid().layers)
        not_available = dict(sums_of_all.not_available)
        causes = {name: scores_after(sums.sums, scored) for name, sums in sums_of_all.causes.items()}
        if SHUFFLED in causes and not sums_of_all.moved:
            del causes[SHUFFLED]
            not_available[SHUFFLED] = "there are no two words to shuffle"
        if sums_of_all.neurons is None:
            not_available["neurons"] = "this architecture shows no queries and keys"
        shape = (*scores.grid.shape, len(scores.patterns))
        words, seed = sums_of_all.words, self._scanner.options.seed
        return Explanations(
            labels=labels_of(scores, words or units_of(pairs, USUAL), USUAL, THRESHOLD, seed, of_pairs=words is None),
            neurons=NeuronTable.unknown(shape) if sums_of_all.neurons is None else sums_of_all.neurons.finish(),
            causes={name: causes[name][0] for name in CAUSES if name in causes},
            fall_se={name: causes[name][1] for name in CAUSES if name in causes},
            not_available=not_available,
            signature=self._scanner.signature(seen),
            heads=tuple(self._heads or scores.grid),
            pattern=self._pattern,
            attention=sums_of_all.attention,
        )

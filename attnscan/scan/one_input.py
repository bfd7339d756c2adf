"""One input: what every head does on it, and which of its words help to predict which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from attnscan.errors import InputError, ModelError, OptionError
from attnscan.inputs.batch import EncodedInput, collate
from attnscan.inputs.encode import encode_tokens
from attnscan.inputs.pairs import Pair
from attnscan.inputs.tokens import bare
from attnscan.inputs.weights import SavedWeights
from attnscan.model.attention_block import AttentionBlock
from attnscan.model.carried import OutputProjections
from attnscan.model.keeper import AttentionKeeper
from attnscan.model.masks import same_or, visible_keys
from attnscan.results.attention import Attention
from attnscan.results.classification import Carried, Classification
from attnscan.results.dependencies import Dependencies, Help
from attnscan.results.profile import Fit
from attnscan.results.signature import Signature, hashed
from attnscan.results.terms import MOST_PROFILED
from attnscan.scan.options import ScanOptions
from attnscan.scan.seen import Seen
from attnscan.scan.signing import signed
from attnscan.scoring.profile import Profiler
from attnscan.scoring.resampling import stability
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.sums import PairSums
from attnscan.scoring.targets import Targets

if TYPE_CHECKING:  # saved weights are scored without transformers, and these import it
    from attnscan.scan.scanner import Scanner
    from attnscan.scoring.predictive import Report


def classify(
    scanner: Scanner,
    pair: Pair,
    report: Report | None = None,
    *,
    keep: bool = False,
    encoded: EncodedInput | None = None,
) -> Classification:
    """What every head of the model does on one input.

    `report` is told how far `predictive` is. With `keep`, the result carries the attention of all layers, token by
    token whatever the unit; without, no more than one layer's weights exist at a time. `encoded` is the pair if the
    scanner has encoded it already.

    Raises: InputError, ModelError if the model cannot read the input.
    """
    encoded = encoded or scanner.encode(pair)
    help_of_words = scanner.help(encoded, report)
    batch = scanner.collate([encoded])
    targets = Targets(batch, scanner.options.patterns, [] if help_of_words is None else [help_of_words])
    carrying = scanner.carrying
    projections = None if isinstance(carrying, str) else carrying
    keeper = AttentionKeeper(projections) if keep else None
    by_weight, carried = _Scorers(targets), None if projections is None else _CarriedScorers(targets, projections)
    consumers = [consumer for consumer in (by_weight, carried, keeper) if consumer is not None]

    def consume(block: AttentionBlock) -> None:
        for consumer in consumers:
            consumer(block)

    scanner.with_options(norm=False).run(batch.model_inputs, consume)
    signature = scanner.signature(_seen(pair, encoded))
    why_no_measure = scanner.why_no_measure
    result = _classification(encoded, by_weight, signature, scanner.options, why_no_measure, help_of_words, carried)
    (related,) = batch.related_pairs
    why_not_carried = [carrying] if isinstance(carrying, str) else []
    notes = (*result.notes, *why_not_carried, *_named(related, encoded.units))
    attention = None if keeper is None else keeper.attention(encoded)
    return replace(result, related=related, notes=notes, attention=attention)


def dependencies(
    scanner: Scanner, pair: Pair, report: Report | None = None, encoded: EncodedInput | None = None
) -> Dependencies:
    """Which words of one input help to predict which, without looking at any head; `encoded` as for `classify`.

    Raises: InputError; ModelError if the model cannot be asked.
    """
    scanner = scanner.exact()
    encoded = encoded or scanner.encode(pair)
    help_of_words = scanner.help(encoded, report)
    if help_of_words is None:
        raise ModelError(
            f"predictive words cannot be measured with {scanner.loaded.source.name}: {scanner.why_no_measure}",
            "use a model that was trained with a mask token, such as BERT or RoBERTa",
        )
    if np.isnan(help_of_words.matrix).all():
        raise InputError("nothing can be asked: no word of the input has another beside it", "give two words or more")
    signature = scanner.signature(_seen(pair, encoded))
    return Dependencies(encoded.units, encoded.unit_sentence, help_of_words, signature)


def classify_weights(saved: SavedWeights, name: str, options: ScanOptions, *, keep: bool = False) -> Classification:
    """What every head does by its saved weights alone. Without a model no words count as related.

    `name` stands for the model in the result. With `keep`, the result carries the weights.

    Raises: OptionError for what needs more than weights.
    """
    if options.norm:
        raise OptionError("saved weights do not tell what heads carry", "leave out --norm, or name a model")
    encoded = encode_tokens(saved.tokens, saved.segments, saved.special, saved.padding, options.unit)
    batch = collate([encoded])
    grid = (saved.attention.shape[0], saved.attention.shape[1])
    scorers = _Scorers(Targets(batch, options.patterns))
    everything = slice(None)
    seen = torch.tensor(~np.array(saved.padding) | saved.attention.any(axis=(0, 1, 2)))[None]
    visible = torch.zeros(0)
    for layer, weights in enumerate(torch.from_numpy(saved.attention)[:, None]):
        visible = same_or(visible, visible_keys(weights, seen))
        scorers(AttentionBlock(grid, layer, everything, everything, weights, visible, None, None, None, None))
    signature = signed(
        options,
        model=name,
        revision=None,
        transformers=None,
        dtype=str(saved.attention.dtype),
        device="cpu",
        input_hash=hashed(saved.attention.tobytes(), *(token.encode(errors="replace") for token in saved.tokens)),
        read_by="file",
        predictive="off",
        pairs_read=1,
    )
    result = _classification(encoded, scorers, signature, options, "there is no model to ask")
    return replace(result, attention=Attention.of(saved, encoded.sentence, encoded.unit) if keep else None)


class _Scorers:
    """A consumer of the attention of one input: its scores, and beside them each word's own."""

    def __init__(self, targets: Targets) -> None:
        self.whole, self._by_query = Scorer(targets), Scorer(targets, by_query=True)
        self.profiler = Profiler(targets.batch, targets.patterns, targets.helps)

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        for consumer in (self.whole, self._by_query, self.profiler):
            consumer(block)

    @property
    def fit(self) -> Callable[[], Fit] | None:
        """What fits every head's profile; None if there are too many heads to be quick."""
        sums = self.profiler.sums(blocks=1)
        return sums.finish if sums.squares.size <= MOST_PROFILED else None

    @property
    def words(self) -> PairSums:
        """What each word adds to the sums, as `Scorer.pair_sums` names it. Shape: each [word, layer, head, pattern]."""
        return self._by_query.word_sums()


class _CarriedScorers(_Scorers):
    """The same of what heads carry; and how much they put out."""

    def __init__(self, targets: Targets, projections: OutputProjections) -> None:
        super().__init__(targets)
        self._projections = projections
        self._outputs = torch.zeros(0)

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        super().__call__(self._projections.carried(block))
        outputs = self._projections.outputs(block)[0]
        if self._outputs.shape[:2] != block.grid:
            self._outputs = outputs.new_empty(*block.grid, outputs.shape[-1])
        self._outputs[block.layer, block.heads] = outputs

    def found(self, encoded: EncodedInput, options: ScanOptions) -> Carried:
        """All of it, once every block has come; what a word puts out is the mean of what its pieces do."""
        unit, of_word = np.array(encoded.unit), np.array(encoded.sentence) >= 0
        lengths = self._outputs.cpu().numpy().astype(np.float64)
        together = (lengths * (of_word / np.bincount(unit)[unit])).sum(-1)
        with np.errstate(invalid="ignore"):
            output = together / together.sum(-1, keepdims=True)
        scores = self.whole.sums().finish()
        return Carried(scores, output, stability(scores, self.words, options.threshold, options.seed), self.fit)


def _classification(
    encoded: EncodedInput,
    scorers: _Scorers,
    signature: Signature,
    options: ScanOptions,
    why_no_measure: str,
    help_of_words: Help | None = None,
    carried: _CarriedScorers | None = None,
) -> Classification:
    unmeasured = [pattern.id for pattern in options.patterns if pattern.target is None and help_of_words is None]
    by_weight = scorers.whole.sums().finish()
    return Classification(
        units=encoded.units,
        sentence=encoded.unit_sentence,
        by_weight=by_weight,
        signature=signature,
        not_measured=dict.fromkeys(unmeasured, why_no_measure),
        notes=() if help_of_words is None else (help_of_words.description,),
        threshold=options.threshold,
        carried=None if carried is None else carried.found(encoded, options),
        stability_by_weight=stability(by_weight, scorers.words, options.threshold, options.seed),
        parts=scorers.profiler.parts,
        fit_by_weight=scorers.fit,
    )


def _named(related: Sequence[tuple[int, int]], units: Sequence[str]) -> list[str]:
    """A line that lists related words, each pair once; none if there is no pair."""
    texts = (tuple(bare(units[place]) for place in pair) for pair in related)
    pairs: dict[frozenset[str], tuple[str, ...]] = {}
    for words in texts:
        pairs.setdefault(frozenset(words), words)
    return [f"related words: {', '.join(map(' – '.join, pairs.values()))}"] if pairs else []


def _seen(pair: Pair, encoded: EncodedInput) -> Seen:
    digest = hashed(*(sentence.encode() for sentence in pair.sentences))
    return Seen(read=1, truncated=int(encoded.truncated), digest=digest)

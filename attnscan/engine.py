"""The one-machine engine: pairs in, scores out."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, reduce
from operator import add
from types import TracebackType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import attnscan
from attnscan.batch import EncodedBatch, EncodedInput, collate
from attnscan.capture import AttentionBlock, Tap, visible_keys
from attnscan.encode import encode_pair, encode_tokens
from attnscan.errors import ModelError
from attnscan.models import load
from attnscan.options import Measure, ScanOptions
from attnscan.pairs import Pair
from attnscan.patterns import PATTERN_SET_VERSION, Pattern
from attnscan.predictive import Report, help_between_words, measure_of
from attnscan.related import Relatedness
from attnscan.results import Classification, Dependencies, Help, Signature
from attnscan.score import Scorer, ScoreSums, Target
from attnscan.sources import Source, choose
from attnscan.weights import SavedWeights


class Scanner:
    """A loaded model, tapped, and ready for any number of pairs. Close it, or use it in a `with`.

    Raises: ModelError, DeviceError if the model cannot be had on the device.
    """

    def __init__(self, options: ScanOptions, source: Source | None = None) -> None:
        self.options = options
        self.loaded = load(source or choose(options.model), options.device, options.dtype)
        self.measure: Measure | None
        self.measure, self.why_no_measure = measure_of(self.loaded, options.predictive)
        if all(pattern.target is not None for pattern in options.patterns):
            self.measure, self.why_no_measure = None, "not asked for"
        elif self.measure is None and options.predictive not in ("auto", "off"):
            raise ModelError(
                f"--predictive {options.predictive} cannot be measured with {self.loaded.source.name}: "
                f"{self.why_no_measure}",
                "leave the option out",
            )
        self._tap = Tap(self.loaded.model)

    def __enter__(self) -> Scanner:
        self._tap.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._tap.__exit__(kind, error, at)

    def encode(self, pair: Pair) -> EncodedInput:
        """Tokenize one pair.

        Raises: InputError, ModelError if the model cannot read it.
        """
        loaded, options = self.loaded, self.options
        encoded = encode_pair(loaded.tokenizer, pair, options.unit, loaded.limit, options.truncate)
        loaded.check_ids(encoded.model_inputs["input_ids"])
        return encoded

    def help(self, encoded: EncodedInput, report: Report | None = None) -> Help | None:
        """Which words of an input help to predict which; None if that is not measured."""
        if self.measure is None:
            return None
        return help_between_words(
            self.loaded,
            encoded,
            self.measure,
            most_words=self.options.predictive_words,
            batch_tokens=self.options.batch_tokens,
            report=report,
        )

    def score(
        self, inputs: Sequence[EncodedInput], helps: Sequence[Help] = (), keeper: WeightKeeper | None = None
    ) -> ScoreSums:
        """Run one batch and score every head on it; on `predictive` too, given each input's help."""
        batch = collate(inputs, self.loaded.pad_id, self._relatedness).to(self.loaded.device)
        scorer = Scorer(batch, targets_of(batch, self.options.patterns, helps))

        def consume(block: AttentionBlock) -> None:
            scorer(block)
            if keeper is not None:
                keeper(block)

        self._tap.run(batch.model_inputs, consume)
        return scorer.sums()

    def scan(self, pairs: Iterable[Pair]) -> ScoreSums:
        """Score every head on any number of pairs; on `predictive`, on a sample of them drawn with the seed."""
        sample = _Sample(self.options.predictive_pairs if self.measure else 0, self.options.seed)
        batches = _filled(sample.watched(map(self.encode, pairs)), self.options.batch_tokens)
        sums = reduce(add, (self.score(inputs) for inputs in batches))
        for encoded in sample.kept:
            found = self.help(encoded)
            assert found is not None
            sums += self.score([encoded], [found]).of_patterns(["predictive"])
        return sums

    def signature(self, pair: Pair, encoded: EncodedInput) -> Signature:
        """What a result on one pair has to say of where it comes from."""
        return _signature(
            self.options,
            model=self.loaded.source.name,
            revision=self.loaded.revision,
            transformers=_transformers_version(),
            dtype=str(self.loaded.dtype).removeprefix("torch."),
            device=self.loaded.device.type,
            input_hash=_hash(*(sentence.encode() for sentence in pair.sentences)),
            truncated=encoded.truncated,
            read_by=self.read_by,
            predictive=self.measure or "off",
        )

    @property
    def read_by(self) -> str:
        """How this model's attention is read: `tap`, or `output_attentions` at the price of memory."""
        return "tap" if self._tap.works else "output_attentions"

    @cached_property
    def _relatedness(self) -> Relatedness | None:
        return Relatedness.of(self.loaded.embedding, self.options.seed) if self.options.related else None


class _Sample:
    """A uniform sample of a stream of unknown length (reservoir sampling)."""

    def __init__(self, size: int, seed: int) -> None:
        self.kept: list[EncodedInput] = []
        self._size = size
        self._random = random.Random(seed)

    def watched(self, inputs: Iterable[EncodedInput]) -> Iterator[EncodedInput]:
        """The same stream, sampled as it passes."""
        for count, one in enumerate(inputs):
            if len(self.kept) < self._size:
                self.kept.append(one)
            elif (place := self._random.randrange(count + 1)) < self._size:
                self.kept[place] = one
            yield one


class WeightKeeper:
    """A consumer that keeps the weights of a single input."""

    attention: NDArray[np.float32]
    """Shape: [layer, head, query, key]."""

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        if block.layer == 0 and (block.heads.start or 0) == 0:
            self.attention = np.empty((*block.grid, *block.weights.shape[2:]), dtype=np.float32)
        self.attention[block.layer, block.heads] = block.weights[0].cpu().numpy()


def scan_shard(options: ScanOptions, pairs: Iterable[Pair]) -> ScoreSums:
    """Load the model, score every head on `pairs`, and return the sums, which add to other shards'."""
    with Scanner(options) as scanner:
        return scanner.scan(pairs)


def classify(
    pair: Pair, options: ScanOptions, source: Source | None = None, report: Report | None = None
) -> Classification:
    """What every head of the model does on one input.

    `source` is the model, if it is chosen already; `report` is told how far `predictive` is.
    """
    return _classify(pair, options, source, report, keep=False)[0]


def classify_and_keep(
    pair: Pair, options: ScanOptions, source: Source | None = None, report: Report | None = None
) -> tuple[Classification, SavedWeights]:
    """The same, and the attention weights themselves, token by token whatever the unit."""
    result, saved = _classify(pair, options, source, report, keep=True)
    assert saved is not None
    return result, saved


def _classify(
    pair: Pair, options: ScanOptions, source: Source | None, report: Report | None, keep: bool
) -> tuple[Classification, SavedWeights | None]:
    with Scanner(options, source) as scanner:
        encoded = scanner.encode(pair)
        keeper = WeightKeeper() if keep else None
        found = scanner.help(encoded, report)
        sums = scanner.score([encoded], [] if found is None else [found], keeper)
        signature = scanner.signature(pair, encoded)
    saved = None if keeper is None else _saved(encoded, keeper)
    return _classification(encoded, sums, signature, options, scanner.why_no_measure, found), saved


def dependencies(
    pair: Pair, options: ScanOptions, source: Source | None = None, report: Report | None = None
) -> Dependencies:
    """Which words of one input help to predict which, without looking at any head.

    Raises: ModelError if the model cannot be asked.
    """
    with Scanner(options, source) as scanner:
        encoded = scanner.encode(pair)
        found = scanner.help(encoded, report)
        if found is None:
            raise ModelError(
                f"predictive words cannot be measured with {scanner.loaded.source.name}: {scanner.why_no_measure}",
                "use a model that was trained with a mask token, such as BERT or RoBERTa",
            )
        return Dependencies(encoded.units, encoded.unit_sentence, found, scanner.signature(pair, encoded))


def classify_weights(saved: SavedWeights, name: str, options: ScanOptions) -> Classification:
    """What every head does by its saved weights alone. Without a model no words count as related.

    `name` stands for the model in the result.
    """
    encoded = encode_tokens(saved.tokens, saved.segments, saved.special, saved.padding, options.unit)
    batch = collate([encoded])
    grid = (saved.attention.shape[0], saved.attention.shape[1])
    scorer = Scorer(batch, targets_of(batch, options.patterns))
    everything = slice(None)
    seen = torch.tensor(~np.array(saved.padding) | saved.attention.any(axis=(0, 1, 2)))[None]
    for layer, weights in enumerate(torch.from_numpy(saved.attention)[:, None]):
        visible = visible_keys(weights, seen)
        scorer(AttentionBlock(grid, layer, everything, everything, weights, visible, None, None))
    signature = _signature(
        options,
        model=name,
        revision=None,
        transformers=None,
        dtype=str(saved.attention.dtype),
        device="cpu",
        input_hash=_hash(saved.attention.tobytes(), *(token.encode(errors="replace") for token in saved.tokens)),
        truncated=False,
        read_by="file",
        predictive="off",
    )
    return _classification(encoded, scorer.sums(), signature, options, "there is no model to ask")


def targets_of(batch: EncodedBatch, patterns: Sequence[Pattern], helps: Sequence[Help] = ()) -> list[Target]:
    """The targets of one batch. For the pattern that only the model can tell, no query is eligible without `helps`."""
    asked = torch.zeros_like(batch.same_sentence, dtype=torch.float32)
    for row, found in zip(asked, helps, strict=False):
        target = torch.from_numpy(found.target).to(row)
        row[: len(target), : len(target)] = target
    return [Target(p.id, asked if p.target is None else p.target(batch).float(), p.even, p.part_of) for p in patterns]


def _classification(
    encoded: EncodedInput,
    sums: ScoreSums,
    signature: Signature,
    options: ScanOptions,
    why_no_measure: str,
    found: Help | None = None,
) -> Classification:
    unmeasured = [pattern.id for pattern in options.patterns if pattern.target is None and found is None]
    return Classification(
        units=encoded.units,
        sentence=encoded.unit_sentence,
        scores=sums.finish(),
        signature=signature,
        not_measured=dict.fromkeys(unmeasured, why_no_measure),
        notes=() if found is None else (found.description,),
        threshold=options.threshold,
    )


def _saved(encoded: EncodedInput, keeper: WeightKeeper) -> SavedWeights:
    special = tuple(sentence < 0 for sentence in encoded.sentence)
    return SavedWeights(keeper.attention, encoded.tokens, encoded.segments, special, (False,) * len(special))


def _filled(inputs: Iterable[EncodedInput], batch_tokens: int) -> Iterator[list[EncodedInput]]:
    """Batches, filled by tokens rather than by count."""
    batch: list[EncodedInput] = []
    longest = 0
    for one in inputs:
        longest = max(longest, len(one.tokens))
        if batch and longest * (len(batch) + 1) > batch_tokens:
            yield batch
            batch, longest = [], len(one.tokens)
        batch.append(one)
    if batch:
        yield batch


def _signature(options: ScanOptions, *, truncated: bool, **about: Any) -> Signature:
    return Signature(
        **about,
        attnscan=attnscan.__version__,
        torch=torch.__version__,
        unit=options.unit,
        pattern_set=PATTERN_SET_VERSION,
        pairs_read=1,
        pairs_truncated=int(truncated),
    )


def _transformers_version() -> str:
    import transformers

    return str(transformers.__version__)


def _hash(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()

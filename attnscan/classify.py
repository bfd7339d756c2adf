"""One input: what every head does on it, and which of its words help to predict which."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from attnscan.batch import EncodedInput, collate
from attnscan.capture import AttentionBlock, visible_keys
from attnscan.encode import encode_tokens
from attnscan.errors import ModelError
from attnscan.options import ScanOptions
from attnscan.pairs import Pair
from attnscan.predictive import Report
from attnscan.results import Classification, Dependencies, Help, Signature
from attnscan.scanner import Scanner, hashed, signed, targets_of
from attnscan.score import Scorer
from attnscan.sources import Source
from attnscan.sums import ScoreSums
from attnscan.weights import SavedWeights


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
        keeper = _WeightKeeper() if keep else None
        found = scanner.help(encoded, report)
        sums = scanner.score([encoded], [] if found is None else [found], keeper)
        signature = scanner.signature(_hash_of(pair), truncated=int(encoded.truncated))
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
        signature = scanner.signature(_hash_of(pair), truncated=int(encoded.truncated))
        return Dependencies(encoded.units, encoded.unit_sentence, found, signature)


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
    return _classification(encoded, scorer.sums(), signature, options, "there is no model to ask")


class _WeightKeeper:
    """A consumer that keeps the weights of a single input."""

    attention: NDArray[np.float32]
    """Shape: [layer, head, query, key]."""

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        if block.layer == 0 and (block.heads.start or 0) == 0:
            self.attention = np.empty((*block.grid, *block.weights.shape[2:]), dtype=np.float32)
        self.attention[block.layer, block.heads] = block.weights[0].cpu().numpy()


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


def _hash_of(pair: Pair) -> str:
    return hashed(*(sentence.encode() for sentence in pair.sentences))


def _saved(encoded: EncodedInput, keeper: _WeightKeeper) -> SavedWeights:
    special = tuple(sentence < 0 for sentence in encoded.sentence)
    return SavedWeights(keeper.attention, encoded.tokens, encoded.segments, special, (False,) * len(special))

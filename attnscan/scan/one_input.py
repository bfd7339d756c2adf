"""One input: what every head does on it, and which of its words help to predict which."""

from __future__ import annotations

import numpy as np
import torch

from attnscan.errors import ModelError
from attnscan.inputs.batch import EncodedInput, collate
from attnscan.inputs.encode import encode_tokens
from attnscan.inputs.pairs import Pair
from attnscan.inputs.weights import SavedWeights
from attnscan.model.keeper import AttentionKeeper
from attnscan.model.masks import visible_keys
from attnscan.model.sources import Source
from attnscan.model.tap import AttentionBlock, Consumer
from attnscan.results.attention import Attention
from attnscan.results.classification import Classification
from attnscan.results.dependencies import Dependencies, Help
from attnscan.results.signature import Signature, hashed
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner, signed
from attnscan.scoring.predictive import Report
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.sums import ScoreSums
from attnscan.scoring.targets import targets_of


def classify(
    pair: Pair, options: ScanOptions, source: Source | None = None, report: Report | None = None
) -> Classification:
    """What every head of the model does on one input.

    `source` is the model, if it is chosen already; `report` is told how far `predictive` is.
    """
    with Scanner(options, source) as scanner:
        return classify_with(scanner, pair, report)


def classify_and_keep(
    pair: Pair, options: ScanOptions, source: Source | None = None, report: Report | None = None
) -> tuple[Classification, Attention]:
    """The same, and the attention itself, token by token whatever the unit."""
    with Scanner(options, source) as scanner:
        keeper = AttentionKeeper()
        result = classify_with(scanner, pair, report, keeper)
        return result, keeper.attention(scanner.encode(pair))


def classify_with(
    scanner: Scanner, pair: Pair, report: Report | None = None, also: Consumer | None = None
) -> Classification:
    """The same with a model that is there already; `also` is shown every block of attention."""
    encoded = scanner.encode(pair)
    found = scanner.help(encoded, report)
    sums = scanner.score([encoded], [] if found is None else [found], also)
    signature = scanner.signature(_hash_of(pair), truncated=int(encoded.truncated))
    return _classification(encoded, sums, signature, scanner.options, scanner.why_no_measure, found)


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
        scorer(AttentionBlock(grid, layer, everything, everything, weights, visible, None, None, None, None))
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


def classify_weights_and_keep(saved: SavedWeights, name: str, options: ScanOptions) -> tuple[Classification, Attention]:
    """The same, and the attention itself, token by token whatever the unit."""
    tokens = encode_tokens(saved.tokens, saved.segments, saved.special, saved.padding, "token")
    return classify_weights(saved, name, options), Attention.of(saved, tokens.sentence)


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

"""One input: what every head does on it, and which of its words help to predict which."""

from __future__ import annotations

import numpy as np
import torch

from attnscan.attention import Attention
from attnscan.batch import EncodedInput, collate
from attnscan.capture import AttentionBlock, Consumer
from attnscan.encode import encode_tokens
from attnscan.errors import ModelError
from attnscan.files.weights import SavedWeights
from attnscan.masks import visible_keys
from attnscan.options import ScanOptions
from attnscan.pairs import Pair
from attnscan.predictive import Report
from attnscan.results import Classification, Dependencies, Help, Signature
from attnscan.scanner import Scanner, hashed, signed, targets_of
from attnscan.score import Scorer
from attnscan.sources import Source
from attnscan.sums import ScoreSums


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


class AttentionKeeper:
    """A consumer that keeps the attention of a single input."""

    def __init__(self) -> None:
        self._grid = (0, 0)

    def _start(self, block: AttentionBlock) -> None:
        """Make room for every layer and head."""
        self._grid = block.grid
        self._weights = np.empty((*block.grid, *block.weights.shape[2:]), dtype=np.float32)
        self._visible = np.empty((block.grid[0], *block.weights.shape[2:]), dtype=np.bool_)
        self._neurons = None
        if block.query is not None:
            self._neurons = np.empty((2, *block.grid, *block.query.shape[2:]), dtype=np.float32)
        self._scaling = [0.0] * block.grid[0]

    def __call__(self, block: AttentionBlock) -> None:
        """Take one block."""
        if block.grid != self._grid or (block.query is None) != (self._neurons is None):
            self._start(block)
        place, length = (block.layer, block.heads), block.weights.shape[-1]
        self._weights[place] = block.weights[0].cpu().numpy()
        self._visible[block.layer] = block.visible[0, :length, :length].cpu().numpy()
        if block.query is not None and block.key is not None and block.scaling is not None:
            assert self._neurons is not None
            for kept, neurons in zip(self._neurons, (block.query, block.key), strict=True):
                kept[place] = neurons[0].float().cpu().numpy()
            self._scaling[block.layer] = block.scaling

    def attention(self, encoded: EncodedInput) -> Attention:
        """All of it, once every block has come."""
        query, key = (None, None) if self._neurons is None else self._neurons
        return Attention(
            tokens=encoded.tokens,
            sentence=encoded.sentence,
            segments=encoded.segments,
            weights=self._weights,
            visible=self._visible,
            query=query,
            key=key,
            scaling=() if query is None else tuple(self._scaling),
        )


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

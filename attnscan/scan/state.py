"""The state of a scan: the sums and the pairs that a run or a shard has seen.

States are made anywhere, add in any order, and are ranked once. What must be the same for them to add is what their
numbers hang on: the model by its fingerprint, the options, the versions of what computes, and on what.

A state file is an .npz with one array for each sum, to the last bit, and JSON in `about` for all that is no sum. It is
replaced whole, so that a kill at any moment leaves the last one or the one before; zip keeps a CRC of every array.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnscan.errors import EngineError, InputError, OptionError, StateError
from attnscan.inputs.batch import EncodedBatch
from attnscan.inputs.sentence import Pair, Place, Record, Sentence
from attnscan.results.files import write_file
from attnscan.results.heads import HeadScores
from attnscan.results.scores import Labels, Scores
from attnscan.results.syntax import Syntax
from attnscan.results.terms import Signature
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scoring.blocks import PairSums, SumsByName, add_sums
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.labels import labels_of, scores_of
from attnscan.scoring.relations import syntax_of

_DIGESTS = 1 << 256
_FORMAT = 22  # of state files
Sums = Mapping[str, PairSums]
"""Sums over pairs by name: `scored`, of which scores and labels are made; with `split`, `ranked`, which heads are
ranked by; of sentences with trees instead of both, those of `RelationSums`."""
Drawn = tuple[str, Place, Pair]
"""A pair of a sample: the hash that it is drawn by, its place, and itself."""


@dataclass(frozen=True)
class ScanProgress:
    """The records that a scan has read so far, counted, hashed and sampled."""

    read: int = 0  # records, those that were skipped included
    truncated: int = 0
    skipped: int = 0
    tokens: int = 0  # of the pairs that were scored, as the model reads them
    digest: str = ""  # the sum of the hashes of all records, the same in any order: 64 hexadecimal digits, or none
    sample: tuple[Drawn, ...] = ()  # the pairs that `predictive` asks about

    @property
    def signature_fields(self) -> dict[str, Any]:
        """The fields of a signature that count records."""
        return {
            "input_hash": self.digest,
            "pairs_read": self.read,
            "pairs_truncated": self.truncated,
            "pairs_skipped": self.skipped,
        }

    def add(
        self,
        record: Record,
        options: ScanOptions,
        *,
        truncated: bool = False,
        skipped: bool = False,
        tokens: int = 0,
    ) -> ScanProgress:
        """Add one record."""
        pair = record.pair
        drawn = () if skipped else ((pair.key_after(str(options.seed)), record.place, pair),)
        return self.merge(
            ScanProgress(1, int(truncated), int(skipped), tokens, pair.key, drawn),
            options.sampled_pairs,
        )

    def merge(self, other: ScanProgress, most: int) -> ScanProgress:
        """Add the records of another scan; the sample keeps `most` pairs at most."""
        sample = self.sample
        if other.sample and (len(sample) < most or other.sample[0][0] <= sample[-1][0]):
            sample = draw_sample((*sample, *other.sample), most)
        return ScanProgress(
            read=self.read + other.read,
            truncated=self.truncated + other.truncated,
            skipped=self.skipped + other.skipped,
            tokens=self.tokens + other.tokens,
            digest=f"{(int(self.digest or '0', 16) + int(other.digest or '0', 16)) % _DIGESTS:064x}",
            sample=sample,
        )


def draw_sample(drawn: Iterable[Drawn], most: int) -> tuple[Drawn, ...]:
    """The pairs with the smallest hashes, at most so many: a uniform sample, whatever the order and the sharding.

    Of a pair that is there twice, the first place counts.
    """
    first = {pair[0]: pair for pair in sorted(drawn, key=lambda pair: pair[:2], reverse=True)}
    return tuple(first[key] for key in sorted(first)[:most])


def half(pair: Pair, seed: int) -> int:
    """The half of all pairs that a pair is in, by a hash of its sentences and a seed: 0 chooses heads, 1 measures them.

    What is measured on other pairs than chose it owes nothing to luck; a pair that is there twice is in one half.
    """
    return (
        int(pair.key_after(str(seed))[-1], 16) & 1
    )  # the last bit: samples are drawn by the first ones


def no_pair(purpose: str) -> InputError:
    """The error to raise at the end of a stream without pairs for that purpose."""
    return InputError(
        f"there is no pair {purpose}", "give a file with at least one pair that is not skipped"
    )


def scores_by(sums: SumsByName, options: ScanOptions, layers: Sequence[int]) -> Scores:
    """The scores of every head of layers with these numbers, by sums of pairs."""
    return scores_of(
        sums, [pattern.scored for pattern in options.patterns], options.kind, tuple(layers)
    )


def labels_by(sums: SumsByName, options: ScanOptions, layers: Sequence[int]) -> Labels:
    """The labels of every head, with its scores, by sums of pairs."""
    return labels_of(
        scores_by(sums, options, layers), sums, options.reading, options.threshold, options.seed
    )


@dataclass(frozen=True)
class ScanState:
    """The sums of a scan, and the pairs it has seen; a state of no pairs adds nothing."""

    options: ScanOptions  # what is computed; `model` is a name that any machine finds, or None for a model in memory
    seen: ScanProgress = field(default_factory=ScanProgress)
    sums: Sums = field(default_factory=dict)
    signature: Signature | None = (
        None  # of the model as it ran; None until that is asked for, or without a pair
    )

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without own functions, which another process need not find; ranking needs their names alone."""
        patterns = [
            pattern if pattern in ALL_PATTERNS else replace(pattern, target=_no_target)
            for pattern in self.options.patterns
        ]
        return {**vars(self), "options": replace(self.options, patterns=tuple(patterns))}

    def __add__(self, other: ScanState) -> ScanState:
        """Both together. Raises: EngineError if they are not of the same model and options."""
        if not isinstance(other, ScanState):
            return NotImplemented
        _check_same(self.options.deciding, other.options.deciding)
        if other.signature is not None:
            self.check(other.signature)
        seen = self.seen.merge(other.seen, self.options.sampled_pairs)
        return ScanState(
            self.options, seen, add_sums(self.sums, other.sums), self.signature or other.signature
        )

    def __radd__(self, other: int) -> ScanState:
        """Let `sum` begin with 0."""
        return self if other == 0 else NotImplemented

    @property
    def asks(self) -> bool:
        """Whether `predictive` has yet to be asked of the sample."""
        return (
            self.signature is not None
            and self.signature.predictive != "off"
            and len(self.seen.sample) > 0
        )

    def check(self, signature: Signature) -> None:
        """Raises: EngineError if it is of another model, of other versions or of another device."""
        if self.signature is not None:
            anywhere = {
                "model": "",
                "revision": None,
            }  # the fingerprint tells the model, whatever its name and place
            _check_same(asdict(self.signature) | anywhere, asdict(signature) | anywhere)

    def syntax(self) -> Syntax:
        """Every head against the trees that were read.

        Raises: OptionError if the sums are of patterns; InputError if no sentence was scored; ModelError if the
        tokenizer does not tell where its tokens stand in the text.
        """
        if self.options.relations is None:
            raise OptionError(
                "the shard is of patterns", "give it to `finish`, or make one with `relations`"
            )
        if self.signature is None or not self.sums:
            raise InputError(
                "no sentence of the treebank is left",
                "choose what happens to long ones with --on-long",
            )
        signature = replace(self.signature, **self.seen.signature_fields)
        return syntax_of(self.sums, signature, among=self.options.reading.among_words)

    def ranking(self, predictive_sums: Sums | None = None) -> HeadScores:
        """Every head ranked, with the `predictive_sums` added.

        Raises: OptionError if the sums are of trees; InputError if no pair was scored, or none in one of two halves.
        """
        options, sums = self.options, add_sums(self.sums, predictive_sums)
        if options.relations is not None:
            raise OptionError("the shard is of a treebank", "give it to `syntax`")
        if self.signature is None or not sums:
            raise no_pair("to score")
        if len(sums) < 1 + options.split:
            raise InputError(
                "--split found no pair in one of the two halves", "give more pairs, or leave it out"
            )
        signature = replace(self.signature, **self.seen.signature_fields)
        scoring_sums, layers = sums["scored"].sums, signature.layers
        labels = (
            {options.reading: labels_by(scoring_sums, options, layers)} if options.labelled else {}
        )
        scores = (
            labels[options.reading].scores if labels else scores_by(scoring_sums, options, layers)
        )
        ranked = scores_by(sums["ranked"].sums, options, layers) if options.split else None
        return HeadScores(signature, {options.reading.by: scores}, labels, ranked)


def _no_target(batch: EncodedBatch) -> Tensor:
    """Stand in for a function that was not pickled; from then on `predictive` alone is scored."""
    return torch.zeros_like(batch.same_sentence)


def _check_same(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    if unlike := [
        f"{name} {ours[name]} and {theirs[name]}" for name in ours if ours[name] != theirs[name]
    ]:
        raise EngineError(
            f"parts of one scan differ: {'; '.join(unlike)}",
            "use the same model, options and versions on all machines",
        )


def save_state(path: Path, state: ScanState, scanner: Scanner) -> None:
    """Write what `load_state` reads, whole or not at all. Raises: OutputError."""
    assert state.signature is not None
    parts = {
        name: {"most": blocks.most, "bits": blocks.bits} for name, blocks in state.sums.items()
    }
    about = {"format": _FORMAT, "scan": _about(scanner), "seen": asdict(state.seen), "parts": parts}
    arrays: dict[str, Any] = {
        "about": np.array(json.dumps(about | {"signature": asdict(state.signature)}))
    }
    for part, blocks in state.sums.items():
        arrays[f"{part}.keys"] = blocks.keys
        arrays |= {f"{part}.sums.{name}": values for name, values in blocks.sums.items()}
    np.savez(file := BytesIO(), allow_pickle=False, **arrays)
    write_file(path, file.getvalue())


def load_state(path: Path, scanner: Scanner) -> ScanState:
    """Read a state that was written by the same model with the same options.

    Raises: StateError if it was not, is of another format, or is damaged.
    """
    try:
        with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as file:
            arrays = dict(file)
        about = json.loads(str(arrays["about"]))
        if about["format"] != _FORMAT:
            raise StateError(
                f"{path} was written by another version of attnscan", "remove it to start anew"
            )
        _check_about(path, about["scan"], _about(scanner))
        signature = Signature(
            **about["signature"] | {"layers": tuple(about["signature"]["layers"])}
        )
        sample = tuple(
            (key, Place(**place), Pair(*(Sentence(**text) for text in pair["sentences"])))
            for key, place, pair in about["seen"].pop("sample")
        )
        sums = {part: _blocks(arrays, part, limits) for part, limits in about["parts"].items()}
        return ScanState(
            scanner.options, ScanProgress(**about["seen"], sample=sample), sums, signature
        )
    except StateError:
        raise
    except OSError as error:
        raise StateError(
            f"cannot read {path}: {error.strerror or error}", "check the path"
        ) from None
    except Exception:  # parsing a damaged file fails in any way
        raise StateError(f"{path} is not a valid state file", "remove it to start anew") from None


def _blocks(arrays: Mapping[str, Any], part: str, limits: Mapping[str, int]) -> PairSums:
    """The sums of a part of a state. Raises: ValueError if they are damaged."""
    keys, start = arrays[f"{part}.keys"], f"{part}.sums."
    sums = {
        name.removeprefix(start): values
        for name, values in arrays.items()
        if name.startswith(start)
    }
    if any(len(values) != len(keys) or not np.isfinite(values).all() for values in sums.values()):
        raise ValueError(f"{part} is damaged")
    return PairSums(keys, sums, **limits)


def _about(scanner: Scanner) -> dict[str, Any]:
    """List what must be equal for sums to be added to; the model counts by its files, not by its name and place."""
    signature = asdict(scanner.signature())
    about = {name: signature[name] for name in ("attnscan", "dtype", "pattern_set")}
    about |= {f"model's {part}": digest for part, digest in scanner.loaded.fingerprint.items()}
    return scanner.options.deciding | {"predictive": scanner.measure} | about


def _check_about(path: Path, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Raises: StateError for what is not equal."""
    for name in (name for name, value in ours.items() if theirs.get(name) != value):
        if name.startswith("model's "):
            raise StateError(
                f"{path} was begun with another model, or other modules of transformers: the {name} differ",
                "name the model that it was begun with, or another --state file",
            )
        raise StateError(
            f"{path} belongs to another run: its {name} is {theirs.get(name)}, and here it is {ours[name]}",
            "give the same options, or another --state file",
        )

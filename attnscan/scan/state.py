"""The state of a scan: the sums and the pairs that a run or a shard has seen.

States are made anywhere, add in any order, and are ranked once. What must be the same for them to
add is what their numbers hang on: the model by its fingerprint, the options, the versions of what
computes, and on what.

A state file is an .npz with one array for each sum, to the last bit, and JSON in `about` for all
that is no sum. It is replaced whole, so that a kill at any moment leaves the last one or the one
before; zip keeps a CRC of every array.
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
from attnscan.inputs.sentence import EncodedInput, Pair, Place, Record, Sentence
from attnscan.results.files import write_file
from attnscan.results.heads import HeadScores
from attnscan.results.scores import Labels, Scores
from attnscan.results.signature import Signature
from attnscan.results.syntax import Syntax
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scoring.blocks import PairSums, SumsByName, add_sums, grouped_key
from attnscan.scoring.cross import ALL_PATTERNS
from attnscan.scoring.labels import labels_of, scores_of
from attnscan.scoring.relations import syntax_of

_DIGESTS = 1 << 256
_FORMAT = 24  # of state files
Sums = Mapping[str, PairSums]
"""Sums over pairs by name: `scored`, of which scores are made; `grouped`, the same in blocks by
group, of which labels are made; with `split`, `ranked`, which heads are ranked by; of inputs
with links instead of these, those of `RelationSums`."""
Drawn = tuple[str, Place, Pair]
"""A pair of a sample: the hash that it is drawn by, its place, and itself."""


@dataclass(frozen=True)
class ScanProgress:
    """The records that a scan has read so far, counted, hashed and sampled."""

    read: int = 0
    """Records, those that were skipped included."""
    truncated: int = 0
    skipped: int = 0
    tokens: int = 0
    """Of the pairs that were scored, as the model reads them."""
    digest: str = ""
    """The sum of the hashes of all records, in 64 hexadecimal digits: the same in any order."""
    sample: tuple[Drawn, ...] = ()
    """The pairs that `predictive` asks about."""

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
        drawn: Drawn = (pair.key_after(str(options.seed)), record.place, pair)
        one = ScanProgress(
            read=1,
            truncated=int(truncated),
            skipped=int(skipped),
            tokens=tokens,
            digest=record.key,
            sample=() if skipped else (drawn,),
        )
        return self.merge(one, options.sampled_pairs)

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
            digest=_add_digests(self.digest, other.digest),
            sample=sample,
        )


def _add_digests(digest: str, other: str) -> str:
    """Add two hashes, whatever their order; an empty one is 0."""
    total = int(digest or "0", 16) + int(other or "0", 16)
    return f"{total % _DIGESTS:064x}"


def draw_sample(drawn: Iterable[Drawn], most: int) -> tuple[Drawn, ...]:
    """The pairs with the smallest hashes, at most so many.

    That is a uniform sample, whatever the order and the sharding. Of a pair that is there twice,
    the first place counts.
    """
    last_first = sorted(drawn, key=lambda pair: pair[:2], reverse=True)
    first = {pair[0]: pair for pair in last_first}
    return tuple(first[key] for key in sorted(first)[:most])


def half(pair: Pair, seed: int) -> int:
    """The half of all pairs that a pair is in: 0 chooses heads, 1 measures them.

    It is drawn by a hash of the pair's sentences and a seed. What is measured on other pairs than
    chose it owes nothing to luck; a pair that is there twice is in one half.
    """
    return _half_by_key(pair.key_after(str(seed)))


def half_of_texts(pair: Pair, seed: int) -> int:
    """The half that a pair is in by its texts alone, however its words and links are written."""
    return _half_by_key(pair.text_key_after(str(seed)))


def _half_by_key(key: str) -> int:
    return int(key[-1], 16) & 1  # samples are drawn by the first digits


def no_pair(purpose: str) -> InputError:
    """The error to raise at the end of a stream without pairs for that purpose."""
    return InputError(
        f"there is no pair {purpose}", "give a file with at least one pair that is not skipped"
    )


def sums_by_group(inputs: Sequence[EncodedInput], pair_sums: SumsByName) -> Sums:
    """The sums of some inputs in blocks of pairs, `scored`, and in blocks by group, `grouped`.

    Where pairs are in no group, they are grouped by their length.
    """
    keys: list[str] = []
    grouped_keys: list[str] = []
    for encoded in inputs:
        key = encoded.known_pair.key
        words = sum(sentence >= 0 for sentence in encoded.unit_sentence)
        keys.append(key)
        grouped_keys.append(grouped_key(key, encoded.place.group, words))
    return {
        "scored": PairSums.of(keys, pair_sums),
        "grouped": PairSums.of(grouped_keys, pair_sums),
    }


def scores_from_sums(
    sums: Sums, options: ScanOptions, layers: Sequence[int], part: str = "scored"
) -> Scores:
    """The scores of every head of layers with these numbers, by a part of the sums over pairs."""
    scored = [pattern.scored for pattern in options.patterns]
    grouped = sums["grouped"] if part == "scored" else None
    return scores_of(sums[part].sums, scored, options.kind, tuple(layers), grouped)


def labels_from_sums(sums: Sums, options: ScanOptions, layers: Sequence[int]) -> Labels:
    """The labels of every head, with its scores, by sums over pairs."""
    return labels_of(
        scores_from_sums(sums, options, layers),
        sums["scored"].sums,
        options.reading,
        options.threshold,
        options.seed,
        grouped=sums["grouped"],
    )


@dataclass(frozen=True)
class ScanState:
    """The sums of a scan, and the pairs it has seen; a state of no pairs adds nothing."""

    options: ScanOptions
    """What is computed; `model` is a name that any machine finds, or None for a model in memory."""
    seen: ScanProgress = field(default_factory=ScanProgress)
    sums: Sums = field(default_factory=dict)
    signature: Signature | None = None
    """Of the model as it ran; None until that is asked for, or without a pair."""

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without own functions, which another process need not find.

        Ranking needs their names alone.
        """
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
        return ScanState(
            options=self.options,
            seen=self.seen.merge(other.seen, self.options.sampled_pairs),
            sums=add_sums(self.sums, other.sums),
            signature=self.signature or other.signature,
        )

    def __radd__(self, other: int) -> ScanState:
        """Let `sum` begin with 0."""
        return self if other == 0 else NotImplemented

    @property
    def lacks_predictive(self) -> bool:
        """Whether `predictive` has yet to be asked of the sample."""
        if self.signature is None or self.signature.predictive == "off":
            return False
        return len(self.seen.sample) > 0

    def check(self, signature: Signature) -> None:
        """Raises: EngineError if it is of another model, of other versions or of another device."""
        if self.signature is None:
            return
        # The fingerprint tells the model, whatever its name and place
        anywhere = {"model": "", "revision": None}
        _check_same(asdict(self.signature) | anywhere, asdict(signature) | anywhere)

    def syntax(self) -> Syntax:
        """Every head against the links that were read.

        Raises: OptionError if the sums are of patterns; InputError if no sentence was scored;
        ModelError if the tokenizer does not tell where its tokens stand in the text.
        """
        if self.options.relations is None:
            raise OptionError(
                "the shard is of patterns", "give it to `finish`, or make one with `relations`"
            )
        if self.signature is None or not self.sums:
            raise InputError(
                "no sentence of the treebank, or of the links, is left",
                "choose what happens to long ones with ``on_long``",
            )
        signature = replace(self.signature, **self.seen.signature_fields)
        return syntax_of(self.sums, signature, among=self.options.reading.words_only)

    def ranking(self, predictive_sums: Sums | None = None) -> HeadScores:
        """Every head ranked, with the `predictive_sums` added.

        Raises: OptionError if the sums are of links; InputError if no pair was scored, or none in
        one of two halves.
        """
        options = self.options
        sums = add_sums(self.sums, predictive_sums)
        if options.relations is not None:
            raise OptionError("the shard is of a treebank, or of links", "give it to `syntax`")
        if self.signature is None or not sums:
            raise no_pair("to score")
        if options.split and not {"scored", "ranked"} <= set(sums):
            raise InputError(
                "``split`` found no pair in one of the two halves",
                "give more pairs, or leave it out",
            )
        signature = replace(self.signature, **self.seen.signature_fields)
        labels: dict[Any, Labels] = {}
        if options.labelled:
            labels[options.reading] = labels_from_sums(sums, options, signature.layers)
            scores = labels[options.reading].scores
        else:
            scores = scores_from_sums(sums, options, signature.layers)
        ranked = None
        if options.split:
            ranked = scores_from_sums(sums, options, signature.layers, "ranked")
        return HeadScores(
            signature=signature,
            scores_by={options.reading.by: scores},
            labels_by=labels,
            ranked_by=ranked,
        )


def _no_target(batch: EncodedBatch) -> Tensor:
    """Stand in for a function that was not pickled; from then on `predictive` alone is scored."""
    return torch.zeros_like(batch.same_sentence)


def _check_same(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    unlike = [
        f"{name} {ours[name]} and {theirs[name]}" for name in ours if ours[name] != theirs[name]
    ]
    if unlike:
        raise EngineError(
            f"parts of one scan differ: {'; '.join(unlike)}",
            "use the same model, options and versions on all machines",
        )


def save_state(path: Path, state: ScanState, scanner: Scanner) -> None:
    """Write what `load_state` reads, whole or not at all. Raises: OutputError."""
    assert state.signature is not None
    parts: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for part, blocks in state.sums.items():
        parts[part] = {"most": blocks.most, "bits": blocks.bits}
        arrays[f"{part}.keys"] = blocks.keys
        for name, values in blocks.sums.items():
            arrays[f"{part}.sums.{name}"] = values
    about = {
        "format": _FORMAT,
        "scan": _describe_scan(scanner),
        "seen": asdict(state.seen),
        "parts": parts,
        "signature": asdict(state.signature),
    }
    file = BytesIO()
    np.savez(file, allow_pickle=False, about=np.array(json.dumps(about)), **arrays)
    write_file(path, file.getvalue())


def load_state(path: Path, scanner: Scanner) -> ScanState:
    """Read a state that was written by the same model with the same options.

    Raises: StateError if it was not, is of another format, or is damaged.
    """
    try:
        return _read_state(path, scanner)
    except StateError:
        raise
    except OSError as error:
        raise StateError(
            f"cannot read {path}: {error.strerror or error}", "check the path"
        ) from None
    except Exception:  # parsing a damaged file fails in any way
        raise StateError(f"{path} is not a valid state file", "remove it to start anew") from None


def _read_state(path: Path, scanner: Scanner) -> ScanState:
    """Read a state. Raises: as `load_state`, and anything at all for a damaged file."""
    with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as file:
        arrays = dict(file)
    about = json.loads(str(arrays["about"]))
    if about["format"] != _FORMAT:
        raise StateError(
            f"{path} was written by another version of attnscan", "remove it to start anew"
        )
    _check_scan(path, about["scan"], _describe_scan(scanner))
    signature = about["signature"]
    signature["layers"] = tuple(signature["layers"])
    seen = about["seen"]
    seen["sample"] = tuple(_read_drawn(*drawn) for drawn in seen["sample"])
    return ScanState(
        options=scanner.options,
        seen=ScanProgress(**seen),
        sums={part: _read_sums(arrays, part, limits) for part, limits in about["parts"].items()},
        signature=Signature(**signature),
    )


def _read_drawn(key: str, place: Mapping[str, Any], pair: Mapping[str, Any]) -> Drawn:
    sentences = [Sentence(**sentence) for sentence in pair["sentences"]]
    return key, Place(**place), Pair(*sentences, links=pair["links"])


def _read_sums(arrays: Mapping[str, Any], part: str, limits: Mapping[str, int]) -> PairSums:
    """The sums of a part of a state. Raises: ValueError if they are damaged."""
    keys = arrays[f"{part}.keys"]
    start = f"{part}.sums."
    sums = {
        name.removeprefix(start): values
        for name, values in arrays.items()
        if name.startswith(start)
    }
    for values in sums.values():
        if len(values) != len(keys) or not np.isfinite(values).all():
            raise ValueError(f"{part} is damaged")
    return PairSums(keys, sums, **limits)


def _describe_scan(scanner: Scanner) -> dict[str, Any]:
    """List what must be equal for sums to be added to.

    The model counts by its files, not by its name and place.
    """
    about = {**scanner.options.deciding, "predictive": scanner.measure}
    signature = asdict(scanner.signature())
    for name in ("attnscan", "dtype", "pattern_set"):
        about[name] = signature[name]
    for part, digest in scanner.loaded.fingerprint.items():
        about[f"model's {part}"] = digest
    return about


def _given(value: Any) -> str:
    """A value of a state or a run, as an error says it."""
    return "not given" if value is None else str(value)


def _check_scan(path: Path, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    """Raises: StateError for what is not equal."""
    for name, value in ours.items():
        if theirs.get(name) == value:
            continue
        if name.startswith("model's "):
            raise StateError(
                f"{path} was begun with another model, or other modules of transformers: "
                f"the {name} differ",
                "name the model that it was begun with, or another ``state`` file",
            )
        raise StateError(
            f"{path} belongs to another run: its {name} is {_given(theirs.get(name))}, "
            f"and here it is {_given(value)}",
            "give the same options, or another ``state`` file",
        )

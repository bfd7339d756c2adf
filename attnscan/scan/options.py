"""What a scan is asked to compute: one object, built by the command line and by the Python API alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal, TypedDict, get_args

from attnscan.errors import OptionError, nearest
from attnscan.inputs.tokens import Unit
from attnscan.model.sources import Device, Dtype
from attnscan.results.terms import DRAWS, THRESHOLD, By
from attnscan.scoring.pattern import Pattern
from attnscan.scoring.patterns import PATTERNS, PatternLike

Predictive = Literal["auto", "cpmi", "distance", "off"]
OnLong = Literal["truncate", "skip", "error"]
Engine = Literal["local", "ray"]
LARGEST = 2**63 - 1
"""The largest number that an option takes: what counts in a tensor, and seeds of every generator hold it."""

SMALLEST_SHARE = 0.01
"""Of a GPU, for a worker."""


@dataclass(frozen=True)
class ScanOptions:
    """Everything that decides what a scan computes."""

    model: str | None = None
    """A hub id, a directory or `bundled`; None for the default."""
    device: Device = "auto"
    """Where to run the model: `auto`, `cpu`, `cuda` or `mps`."""
    dtype: Dtype = "auto"
    """The model's number format: `auto`, `float32`, `float16` or `bfloat16`. On a CPU it is float32, or for scores
    alone bfloat16 where the processor multiplies in it."""
    unit: Unit = "token"
    """Score tokens, or words with their pieces merged."""
    norm: bool = False
    """Whether heads are scored by what they carry, weight times the norm of the transformed value, not by weight."""
    related: bool = True
    """Whether related words count as identical ones do."""
    on_long: OnLong = "error"
    """What to do with an input that is longer than the model reads: cut it, leave it out, or stop."""
    threshold: float = THRESHOLD
    """How far above chance a pattern must be to give a head its label, in [0, 1]."""
    batch_tokens: int | None = None
    """The most tokens in a batch, padding included; None for what suits the device and its free memory."""
    predictive: Predictive = "auto"
    """How to find the words that predict a word: by the masked-LM head (`cpmi`), by how far the last hidden
    state moves (`distance`), not at all (`off`), or the first of these that the checkpoint allows."""
    predictive_words: int = 32
    """The most words of an input that are hidden for `predictive`."""
    predictive_pairs: int = 16
    """Of many inputs, how many are asked for `predictive`: a sample drawn with `seed`."""
    seed: int = 0
    """For everything that is drawn at random."""
    profile: bool = False
    """Whether every head's profile is fitted, too. With `predictive`, all pairs are asked for it, not a sample."""
    predictive_part: bool = True
    """Whether `predictive` is a part of profiles, for which all pairs are asked; else a sample is, for scores alone."""
    split: bool = False
    """Of many pairs: rank heads by one half of them, drawn with `seed`, and score them by the other."""
    labelled: bool = False
    """Of many pairs: whether heads are labelled, by weight and by what they carry, and how sure that is."""
    patterns: tuple[Pattern, ...] = PATTERNS
    """What heads are scored for: patterns, their names, or functions of one's own."""

    @property
    def asks_every_pair(self) -> bool:
        """Whether `predictive`, if it can be measured, is asked of every pair and not of a sample."""
        return self.profile and self.predictive_part

    def __post_init__(self) -> None:
        """Raises: OptionError for a value that there is not."""
        for name, values in _CHOICES.items():
            value, known = getattr(self, name), get_args(values)
            if value not in known:
                either = f"give {', '.join(known[:-1])} or {known[-1]}"
                raise OptionError(f"there is no {name} {value!r}", nearest(str(value), known, either))
        for name, least in _LEAST.items():
            check_number(name, getattr(self, name), least, optional=name == "batch_tokens")
        if not isinstance(self.threshold, Real) or not 0 <= self.threshold <= 1:
            raise OptionError(f"threshold is {self.threshold!r}", "give 0 to 1")
        for name in ("norm", "related", "labelled", "profile", "split"):
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"{name} is {getattr(self, name)!r}", "give True or False")
        if self.profile:
            self._check_profile()

    def _check_profile(self) -> None:
        """Raises: OptionError for what profiles are not fitted with."""
        from attnscan.results.profile import parts_of  # which loads numpy, and help is told without

        if self.split:
            raise OptionError("profiles are fitted to all pairs, and split leaves half of them out", "leave split out")
        taken = parts_of(["predictive"])
        for name in (pattern.id for pattern in self.patterns if pattern not in PATTERNS):
            if name in taken:
                raise OptionError(
                    f"a pattern is called '{name}', as a part of every profile is", "give it another name"
                )


def asked_for_labels(asked: Predictive, wanted: Sequence[str]) -> Predictive:
    """How to ask which words predict a word where heads are labelled to choose those of `wanted` patterns, or of all.

    It takes longer than all the rest, so that by `auto` it is done only where `predictive` is wanted itself; elsewhere
    the other patterns alone compete for labels.
    """
    return "off" if asked == "auto" and wanted and "predictive" not in wanted else asked


def check_number(name: str, value: int | None, least: int, *, optional: bool = False) -> None:
    """Hold an option that counts something, or a seed, to whole numbers that the machine holds; None may be for none.

    Raises: OptionError.
    """
    if value is None and optional:
        return
    if not isinstance(value, Integral) or isinstance(value, bool) or value > LARGEST:
        raise OptionError(f"{name} is {value!r:.60}", f"give a whole number from {least} to {LARGEST}")
    if value < least:
        raise OptionError(f"{name} is {value}", f"give {least} or more")


_CHOICES = {
    "device": Device,
    "dtype": Dtype,
    "unit": Unit,
    "on_long": OnLong,
    "predictive": Predictive,
}
_LEAST = {"batch_tokens": 1, "predictive_words": 2, "predictive_pairs": 1, "seed": 0}


class Choices(TypedDict, total=False):
    """What the functions of `import attnscan` take by name: the fields of ScanOptions but the model.

    `patterns` may also be functions of one's own, and names.
    """

    device: Device
    dtype: Dtype
    unit: Unit
    norm: bool
    related: bool
    on_long: OnLong
    threshold: float
    batch_tokens: int | None
    predictive: Predictive
    predictive_words: int
    predictive_pairs: int
    seed: int
    profile: bool
    predictive_part: bool
    split: bool
    labelled: bool
    patterns: Sequence[PatternLike]


@dataclass(frozen=True)
class ClusterOptions:
    """Where and how a scan is spread over machines; it changes nothing in what is computed."""

    address: str | None = None
    """Of a Ray cluster; None for $RAY_ADDRESS, else one that is started on this machine."""
    workers: int | None = None
    """Each holds the model once; None for as many as the cluster has GPUs or CPUs for."""
    most_workers: int | None = None
    """As many Ray may start in time, as far as there is room; None for no more."""
    worker_cpus: int = 1
    """CPU cores of a worker."""
    worker_gpus: float | None = None
    """A worker's share of a GPU, and of its memory, in [0.01, 1]; None for a whole one, where there are any."""
    block_pairs: int = 1024
    """The pairs that a worker scores at a time, and that are scored again where one dies."""

    def __post_init__(self) -> None:
        """Raises: OptionError for a value that there is not."""
        for name in ("workers", "most_workers", "worker_cpus", "block_pairs"):
            check_number(name, getattr(self, name), 1, optional=name.endswith("workers"))
        share = self.worker_gpus
        if share is not None and (not isinstance(share, Real) or not SMALLEST_SHARE <= share <= 1):
            raise OptionError(f"worker_gpus is {share!r}", f"give {SMALLEST_SHARE} to 1, as 0.25 for four on a GPU")
        if self.workers is not None and self.most_workers is not None and self.most_workers < self.workers:
            raise OptionError(
                f"most_workers is {self.most_workers}, and workers {self.workers}", "give as many, or more"
            )


@dataclass(frozen=True)
class AblationRequest:
    """What is to be switched off, and how its worth is measured."""

    patterns: tuple[str, ...] = ()
    """Whose heads are switched off, pattern by pattern, where no heads are named; none for all that are scored."""
    heads: str | None = None
    singly: bool = False
    """Each head in turn: of those that are named, or all."""
    top: int | None = None
    """Of each pattern at most so many heads, those most above chance; None for those that it labels."""
    by: By = "zero"
    draws: int = DRAWS
    """The most controls of a set; fewer where fewer are possible."""
    measures: tuple[str, ...] = ()
    """None for what the checkpoint has heads for."""

    @property
    def names_heads(self) -> bool:
        """Whether the sets are named, and not chosen by a scan."""
        return self.heads is not None or self.singly

"""What a scan or an ablation computes, for the command line and the library; what users are told.

A user of the library passes `progress`, sees warnings, and finds notes in the log `attnscan`; the
command line shows all three on standard error.
"""

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from attnscan.__version__ import __version__
from attnscan.errors import OptionError
from attnscan.inputs.option import Option, check_declared
from attnscan.inputs.sentence import QuerySide, Unit, Words
from attnscan.model.sources import Device, Dtype
from attnscan.results.choices import N_CONTROL_SETS, Replacement
from attnscan.results.grid import AttentionKind, AttentionName
from attnscan.results.label_rules import THRESHOLD
from attnscan.results.signature import AttentionView, By, Signature, Special
from attnscan.scoring.patterns import PATTERN_SET_VERSION, PATTERNS, SHIPPED, Pattern
from attnscan.text import counted

Predictive = Literal["auto", "cpmi", "distance", "off"]
OnLong = Literal["truncate", "skip", "error"]
Relations = Literal["universal", "subtypes"]
Engine = Literal["local", "ray"]
_DEFAULT_SAMPLE = 128
"""Pairs drawn for `predictive`, of which as many are asked as their cost allows."""
_SAMPLE_BY_WORDS = 16
"""Pairs drawn for `predictive` where `predictive_words` says how many words of each are asked."""
_TARGET_TOKENS = 64
_PATTERN_SETS = {"encoder": "", "decoder": ", decoder", "cross": ", cross ({})"}
_DECIDES_NOTHING = frozenset(
    {"model", "device", "dtype", "batch_tokens", "engine", "ray_address", "ray_workers", "write"}
)
"""Options of where and how fast numbers are computed; a state tells the model by its files."""


@dataclass(frozen=True)
class ScanOptions:
    """Everything that decides what a scan computes."""

    model: Annotated[
        str | None,
        Option(
            "A hub id, a directory, or 'bundled'. "
            "[default: $ATTNSCAN_MODEL, else bert-base-uncased, else bundled]",
            metavar="NAME",
            short="-m",
        ),
    ] = None
    unit: Annotated[Unit, Option("Score tokens, or words with their word pieces merged.")] = "token"
    words: Annotated[
        Words, Option("With --unit word, end words where the tokenizer does, or at spaces.")
    ] = "tokenizer"
    by: Annotated[
        By | None,
        Option("Read weights, or what heads carry: weight × value norm. [default: weight]"),
    ] = None
    special: Annotated[
        Special | None, Option("Special tokens in, or out and rows renormalised. [default: out]")
    ] = None
    related: Annotated[
        bool,
        Option(
            "Count related words as identical ones.",
            off="Count identical words only, not related ones.",
        ),
    ] = True
    on_long: Annotated[
        OnLong, Option("Cut, skip or refuse too long inputs. [default: cut many, refuse one]")
    ] = "error"
    device: Annotated[Device, Option("Run the model on this device.")] = "auto"
    dtype: Annotated[
        Dtype,
        Option(
            "Number format of the model. CPUs take float32, and bfloat16 if they multiply in it."
        ),
    ] = "auto"
    predictive: Annotated[
        Predictive,
        Option(
            "Find predictive words by the masked-LM head (cpmi), "
            "by hidden states (distance), or not."
        ),
    ] = "auto"
    predictive_words: Annotated[
        int | None,
        Option(
            "Ask about at most N words of an input. [default: 32, fewer of long or many inputs]",
            least=2,
        ),
    ] = None
    predictive_pairs: Annotated[
        int | None,
        Option(
            "Ask about N pairs. [default: as many as make the run three times as long]", least=1
        ),
    ] = None
    batch_tokens: Annotated[
        int | None,
        Option("Tokens in a batch, padding included. [default: by device and memory]", least=1),
    ] = None
    seed: Annotated[int, Option("Seed of everything drawn at random.", least=0)] = 0
    threshold: Annotated[
        float, Option("Margin above chance for a label.", metavar="X", least=0, most=1)
    ] = THRESHOLD
    attention: Annotated[
        AttentionName,
        Option(
            "Of an encoder-decoder, with target B: its encoder's attention, decoder's, or across."
        ),
    ] = "encoder"
    query: Annotated[
        QuerySide,
        Option(
            "Of cross attention: name queries by the word that they predict, or that they read."
        ),
    ] = "predicts"
    max_target_tokens: Annotated[
        int, Option("Let the model write at most N tokens where B is missing.", least=1)
    ] = _TARGET_TOKENS
    write: Annotated[
        int | None,
        Option("Let the model write sentence B: at most N tokens, greedily.", least=1),
    ] = None
    source_language: Annotated[
        str | None,
        Option(
            "Of a multilingual translator: the language of A, as its tokenizer names it.",
            metavar="L",
        ),
    ] = None
    target_language: Annotated[
        str | None,
        Option(
            "Of a multilingual translator: the language of B, or of what the model writes.",
            metavar="L",
        ),
    ] = None
    split: Annotated[
        bool, Option("Rank heads by one half of the pairs, and score them by the other.")
    ] = False
    labelled: Annotated[
        bool, Option("Of many pairs: say what every head does, and how sure that is.")
    ] = False
    engine: Annotated[Engine, Option("Run on this machine, or on a cluster by Ray.")] = "local"
    ray_address: Annotated[
        str | None,
        Option(
            "The Ray cluster. [default: $RAY_ADDRESS, else one started here]", metavar="ADDRESS"
        ),
    ] = None
    ray_workers: Annotated[
        int | None,
        Option(
            "Copies of the model on the cluster. [default: one for each GPU, or machine]", least=1
        ),
    ] = None
    patterns: tuple[Pattern, ...] = PATTERNS
    """The patterns that heads are scored for."""
    relations: Relations | None = None
    """By which relations heads are compared with links; None to score them for patterns."""

    @property
    def kind(self) -> AttentionKind:
        """Of which attention heads are; encoders and models of a single kind are read alike."""
        if self.attention == "encoder":
            return AttentionKind.ONLY
        return AttentionKind[self.attention.upper()]

    @property
    def reading(self) -> AttentionView:
        """By what heads are scored and drawn: as asked for, else by weight among words."""
        return AttentionView(self.by or "weight", self.special or "out")

    @property
    def shown(self) -> AttentionView:
        """By what weights are shown: as asked for, else as they are, special tokens included."""
        return AttentionView(self.by or "weight", self.special or "in")

    @property
    def sampled_pairs(self) -> int:
        """The most pairs that are drawn to be asked for `predictive`."""
        if self.predictive_pairs is not None:
            return self.predictive_pairs
        return _DEFAULT_SAMPLE if self.predictive_words is None else _SAMPLE_BY_WORDS

    def make_signature(self, *, model: str, **fields: Any) -> Signature:
        """The signature of a result of these options; `fields` has its other fields."""
        import torch

        pattern_set = PATTERN_SET_VERSION + _PATTERN_SETS[self.attention].format(self.query)
        if self.words == "spaces":
            pattern_set += ", words between spaces"
        return Signature(
            model=model.encode(errors="backslashreplace").decode(),  # a file name need not be UTF-8
            attnscan=__version__,
            torch=str(torch.__version__),
            unit=self.unit,
            pattern_set=pattern_set,
            **asdict(self.reading),
            **fields,
        )

    def with_relations(self, *, subtypes: bool = False) -> Self:
        """These options for inputs with links, whose words are given with them."""
        return replace(
            self,
            unit="word",
            related=False,
            predictive="off",
            labelled=False,
            relations="subtypes" if subtypes else "universal",
        )

    def with_causal_patterns(self, *, causal: bool) -> Self:
        """These options with the patterns of causal models, if attention is causal.

        A decoder's attention is always causal. Where some patterns were chosen, these
        stay as they are.
        """
        has_all = self.patterns[: len(PATTERNS)] == PATTERNS
        is_causal = causal or self.kind is AttentionKind.DECODER
        if not is_causal or not has_all or self.relations is not None:
            return self
        return replace(self, patterns=tuple(dict.fromkeys((*SHIPPED, *self.patterns))))

    @property
    def deciding(self) -> dict[str, Any]:
        """The options that decide numbers, None where they decide none.

        Patterns of one's own are told by their names and files.
        """
        deciding = {
            name: value for name, value in vars(self).items() if name not in _DECIDES_NOTHING
        }
        names = [f"{pattern.id} {pattern.code[:12]}".strip() for pattern in self.patterns]
        uses_special = self.labelled or self.relations is not None
        deciding["by"] = self.reading.by
        deciding["special"] = self.reading.special if uses_special else None
        deciding["threshold"] = self.threshold if self.labelled else None
        deciding["patterns"] = ", ".join(names)
        return deciding

    def __post_init__(self) -> None:
        """Raises: OptionError for an invalid value, or an option without meaning beside another."""
        check_declared(self)
        if self.attention != "cross" and self.query != "predicts":
            raise OptionError(
                "``query`` is for cross attention", "add ``attention=cross``, or leave it out"
            )
        if self.write is not None and self.kind is not AttentionKind.ONLY:
            object.__setattr__(self, "max_target_tokens", self.write)
        if self.attention == "encoder" and self.max_target_tokens != _TARGET_TOKENS:
            raise OptionError(
                "``max_target_tokens`` is for ``attention=decoder``, cross or all",
                "leave it out: no target is read",
            )
        if self.engine == "local" and (
            self.ray_address is not None or self.ray_workers is not None
        ):
            raise OptionError(
                "``ray_address`` and ``ray_workers`` are for a cluster",
                "add ``engine=ray``, or leave them out",
            )
        if self.words == "spaces" and self.unit == "token":
            raise OptionError("``words=spaces`` is for units of words", "give ``unit=word``, too")


@dataclass(frozen=True)
class AblationRequest:
    """The heads to switch off, and how their worth is measured."""

    patterns: tuple[str, ...] = ()
    """Whose heads are switched off, where no heads are named; none for all that are scored."""
    heads: str | None = None
    each: bool = False
    """Whether heads are switched off one at a time: those named, or all."""
    top: int | None = None
    """How many of the best heads of each pattern are switched off."""
    replace: Replacement = "zero"
    draws: int = N_CONTROL_SETS
    """The most sets of other heads to compare with."""
    measures: tuple[str, ...] = ()
    """None for what the checkpoint has heads for."""

    @property
    def names_heads(self) -> bool:
        """Whether the sets are named, and not chosen by a scan."""
        return self.heads is not None or self.each


OnProgress = Callable[[str, int | None, int | None], object]
"""Called with what runs now, how much of it is done, and how much there is; None if not known."""
LOG = logging.getLogger("attnscan")
_INSIDE = (f"{Path(__file__).parents[1]}{os.sep}", contextlib.__file__)


class Note(UserWarning):
    """A warning of how a file or a checkpoint was read, where a guess could be wrong."""


def silent(_doing: str, _done: int | None = None, _total: int | None = None) -> None:
    """Tell nobody."""


def progress_of(progress: OnProgress | None) -> OnProgress:
    """The function to call with progress; a caller's may be false, as an empty list is."""
    return silent if progress is None else progress


def warn(text: str) -> None:
    """Warn of how a file or checkpoint is read, at the line outside attnscan that asked for it."""
    if not text:
        return
    frame = sys._getframe()
    level = 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame = frame.f_back
        level += 1
    warnings.warn(text, Note, stacklevel=level)


def note(text: str) -> None:
    """Say what the user should know, and a program need not."""
    if text:
        LOG.info(text)


def note_inputs(
    signatures: Sequence[Signature], *, bad: int = 0, length: int | None = None, dtype: str = "auto"
) -> None:
    """Say how inputs were read, of two models by the first.

    `bad` records were skipped; `length` is that of a single input.
    """
    first = signatures[0]
    if dtype not in ("auto", first.dtype):
        note(f"computed in {first.dtype}: on a CPU, {dtype} is for scores alone")
    if bad:
        note(f"{counted(bad, 'bad record')} {'was' if bad == 1 else 'were'} skipped")
    if first.pairs_truncated and length is not None:
        note(f"the input was cut to the {length} tokens that the model reads")
    elif first.pairs_truncated:
        cut = f"{first.pairs_truncated} of {first.pairs_read}"
        note(f"{cut} inputs were cut to what the model reads")
    if first.pairs_skipped:
        note(f"{first.pairs_skipped} of {first.pairs_read} inputs were skipped")

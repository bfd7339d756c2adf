"""What the commands take: options that several share, in frozen bundles."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import typer

from attnscan.cli.bundles import completing
from attnscan.cli.destination import (
    FORMATS,
    PICTURES,
    SUFFIXES,
    Destination,
    FileRole,
    check_pictures_can_be_drawn,
    format_of,
    picture_format_of,
)
from attnscan.cli.screen_frame import ScreenFrame, about_pairs, options_of
from attnscan.errors import nearest
from attnscan.inputs.option import declared
from attnscan.inputs.read import STDIN, FileReading, Quoting, shown
from attnscan.inputs.tokens import QuerySide
from attnscan.model.sources import Device
from attnscan.results.files import check_suffix
from attnscan.results.grid import attention_named
from attnscan.results.tables import Format
from attnscan.results.terms import AttentionName
from attnscan.run.reading import AlignedPairs, FilePairs, Pairs, SourcePairs
from attnscan.run.requests import Classify, HoldAgainst, Rank, WeightsInput
from attnscan.scan.options import Engine, OnLong, ScanOptions
from attnscan.scoring.cross import ALL_PATTERNS, patterns_of
from attnscan.scoring.patterns import PATTERNS, called, is_own, with_own
from attnscan.views.pictures.look import Picture

if TYPE_CHECKING:
    from attnscan.inputs.sentence import Pair
    from attnscan.results.head_weights import Selection


def pattern_name(name: str) -> str:
    """The name of the pattern that is meant by a name or a letter; what means a user's own stays as it is.

    Raises: typer.BadParameter if there is none.
    """
    return name if is_own(name) else shipped_pattern_name(name)


def shipped_pattern_name(name: str) -> str:
    """The name of the pattern that ships under a name or a letter. Raises: typer.BadParameter if there is none."""
    if (pattern := called(name, ALL_PATTERNS)) is None:
        known = [pattern.id for pattern in PATTERNS]
        hint = nearest(name, known, f"there are {', '.join(known)}")
        raise typer.BadParameter(f"no pattern '{name}': {hint}")
    return pattern.id


complete_patterns = completing(*(pattern.id for pattern in PATTERNS))
_complete_heads = completing("all", "layer:")  # single ones depend on the model
_SCAN, _READING = declared(ScanOptions), declared(FileReading)
Model = Annotated[str | None, _SCAN["model"].option]
DeviceOption = Annotated[Device, _SCAN["device"].option]
Split = Annotated[bool, _SCAN["split"].option]
OnLongOption = Annotated[OnLong | None, replace(_SCAN["on_long"].option, general=True)]
EngineOption = Annotated[Engine, typer.Option("--engine", help="Run on this machine; ray is being rebuilt.")]
Patterns = Annotated[
    list[str] | None,
    typer.Option(
        "--pattern",
        "-p",
        metavar="PATTERN",
        callback=lambda names: list(dict.fromkeys(map(pattern_name, names or ()))),
        autocompletion=complete_patterns,
        help="Only this pattern, by name or letter, or your own FILE.py:FUNCTION. May repeat.",
    ),
    FileRole.READ,
]
SentenceA = Annotated[str | None, typer.Argument(metavar="A", help="Sentence A.", show_default=False)]
SentenceB = Annotated[str | None, typer.Argument(metavar="B", help="Sentence B.", show_default=False)]
HeadsArgument = typer.Argument(
    metavar="HEADS",
    autocompletion=_complete_heads,
    help="One head or several: 2-0, 2-0,6-11, layer:2 or all.",
    show_default=False,
)


def heads_option(about: str) -> Any:
    """The option `--heads`, which names heads for what `about` says."""
    return typer.Option("--heads", metavar="HEADS", autocompletion=_complete_heads, help=about)


State = Annotated[
    str | None,
    typer.Option("--state", metavar="FILE", help="Save progress here, and resume from it."),
    FileRole.WRITTEN,
]
Held = Annotated[
    list[str] | None,
    typer.Option("--held", metavar="FILE.conllu", help="A second treebank, in which gains are tested again."),
    FileRole.READ,
]
Token = Annotated[
    str | None,
    typer.Option("--token", metavar="T", help="One query token: its text, its index, or store#2 for the second one."),
]


def _window(text: str | None) -> str | None:
    match = None if text is None else re.fullmatch(r"(\d{1,6})-(\d{1,6})", text)
    if text is not None and (match is None or int(match[1]) > int(match[2])):
        raise typer.BadParameter(f"'{text}' is not a window: give the first and the last index, as 10-40")
    return text


Window = Annotated[str | None, typer.Option("--window", metavar="I-J", callback=_window, help="Only tokens I to J.")]


def window_of(text: str | None) -> tuple[int, int] | None:
    """The first and the last index of a window, if there is any."""
    if text is None:
        return None
    first, last = map(int, text.split("-"))
    return first, last


USUAL = ("pairs", "model", "csv", "output", "help")
"""What most users need, which help names behind a command's own options."""
GROUPS: dict[str, tuple[str, ...]] = {
    "What to read": (
        *("weights", "window", "treebank", "held", "columns", "header", "no_header", "quoting", "encoding", "id"),
        *("skip_bad", "on_long"),
    ),
    "What to score": ("by", "special", "unit", "words", "no_related", "threshold", "split", "seed"),
    "Encoder-decoders": ("attention", "query", "alignments", "max_target_tokens"),
    "Predictive words": ("predictive", "predictive_words", "predictive_pairs"),
    "Model": ("device", "dtype", "batch_tokens"),
    "Result": ("format", "decimal_comma", "signature"),
    "Long runs": ("state", "per_pair", "engine"),
}
"""Options by their subjects, in the order of help; all others are a command's own."""


def grouped(names: Sequence[str], required: Sequence[str] = ()) -> dict[str, list[str]]:
    """The options of a command under the headings of its help, those that are `required` under the first."""
    groups = {
        heading: [name for name in group if name in names and name not in required] for heading, group in GROUPS.items()
    }
    inside = {*USUAL, *(name for group in groups.values() for name in group)}
    own = [*(name for name in names if name not in inside), *(name for name in USUAL if name in names)]
    return {"Options": own} | {heading: group for heading, group in groups.items() if group}


KEEPS = "; with --state FILE the next run goes on from what is done"
"""What the commands that have it say at Ctrl-C where it was not given."""


@dataclass(frozen=True)
class OneInput:
    """One input: sentences for a model to read, or saved weights."""

    a: SentenceA = None
    b: SentenceB = None
    model: Model = None
    weights: Annotated[
        Path | None,
        typer.Option("--weights", metavar="FILE.npz", help="Read saved attention weights in place of a model's."),
        FileRole.READ,
    ] = None

    @property
    def sentences(self) -> tuple[str, ...]:
        """None, one or two."""
        return tuple(text for text in (self.a, self.b) if text is not None)

    @property
    def input(self) -> Pair | WeightsInput:
        """What is read. Raises: InputError for a sentence that cannot be."""
        if self.weights is not None:
            return WeightsInput(self.weights, self.weights.name)
        from attnscan.inputs.sentence import Pair

        return Pair(*self.sentences)

    def check(self) -> None:
        """Raises: typer.BadParameter if it is not either a sentence or a file of saved weights."""
        if (self.a is None) == (self.weights is None):
            raise typer.BadParameter("give a sentence, or two, or --weights FILE.npz, but not both")
        if self.weights is not None and self.model is not None:
            raise typer.BadParameter("--weights needs no model")


@dataclass(frozen=True)
class PairFiles:
    """Files of pairs, and how to read them; the pairs that attnscan ships if none is named."""

    pairs: Annotated[
        list[str] | None,
        typer.Option(
            "--pairs",
            metavar="FILE",
            help="Read pairs: CSV, TSV, JSON, Parquet, Arrow, Excel; - is stdin. May repeat.",
        ),
        FileRole.READ,
    ] = None
    columns: Annotated[str | None, _READING["columns"].option] = None
    header: Annotated[bool, typer.Option("--header", help="The first line names the columns. [default: detected]")] = (
        False
    )
    no_header: Annotated[bool, typer.Option("--no-header", help="The first line is data.")] = False
    quoting: Annotated[Quoting, _READING["quoting"].option] = "auto"
    encoding: Annotated[str | None, _READING["encoding"].option] = None
    skip_bad: Annotated[bool, declared(FilePairs)["skip_bad"].option] = False
    on_long: OnLongOption = None

    @property
    def paths(self) -> list[str]:
        """Of the files; empty for the pairs that attnscan ships."""
        return self.pairs or []

    def source(self, *, labelled: bool = False) -> FilePairs:
        """The pairs of the files; `labelled`, with what a column `label` says. Raises: as `reading`."""
        return FilePairs(tuple(self.paths), replace(self.reading(), labelled=labelled), self.skip_bad)

    def reading(self) -> FileReading:
        """How the files are to be read. Raises: PairsError; typer.BadParameter."""
        if self.header and self.no_header:
            raise typer.BadParameter("--header and --no-header contradict each other")
        try:
            columns = next(csv.reader([self.columns]), []) if self.columns else None
        except csv.Error:
            raise typer.BadParameter("--columns has a line end in it: name one column, or two with a comma") from None
        header = True if self.header else False if self.no_header else None
        return FileReading(None if columns is None else tuple(columns), header, self.quoting, self.encoding)

    def typed(self) -> tuple[str, ...]:
        """The options as another command takes them; standard input is gone, and an address may hold what is secret."""
        paths = [path if shown(path) == path else "URI" for path in self.paths if path != STDIN]
        words = [word for path in paths for word in ("--pairs", path)]
        for name in (option for option in self.chosen() if paths and option != "--id"):  # few commands have that
            value = getattr(self, name[2:].replace("-", "_"))
            words += [name] if value is True else [name, str(value)]
        return tuple(words)

    def frame(self, count: int, model: str | None, *command: str, more: Sequence[str] = ()) -> ScreenFrame:
        """The frame of a screen of `count` pairs; the command to try next is of the same pairs, model and `more`."""
        return ScreenFrame(about_pairs(self.paths, count), command, options=options_of(model, (*self.typed(), *more)))

    def when_long(self, *, many: bool = True) -> OnLong:
        """What to do with inputs that are too long. Raises: as `on_long_of`."""
        return on_long_of(self.on_long, many=many)

    def check_unused(self, instead: str = "") -> None:
        """Raises: typer.BadParameter if an option says how to read files, where none are read."""
        if unused := [option for option in self.chosen() if option != "--on-long"]:
            raise typer.BadParameter(f"{unused[0]} is for --pairs{instead}")

    def chosen(self) -> list[str]:
        """The options, other than --pairs itself, that were given."""
        usual = type(self)()
        changed = [option.name for option in fields(self) if getattr(self, option.name) != getattr(usual, option.name)]
        return [f"--{name.replace('_', '-')}" for name in changed if name != "pairs"]


@dataclass(frozen=True)
class PairFilesWithIds(PairFiles):
    """How files of pairs are read by commands that write what they find of every pair."""

    id: Annotated[str | None, replace(_READING["id"].option, general=True)] = None

    def reading(self) -> FileReading:
        """How the files are to be read. Raises: PairsError."""
        return replace(super().reading(), id=self.id)


TREEBANK = typer.Option("--treebank", metavar="FILE.conllu", help="Read sentences with trees, in CoNLL-U. May repeat.")


@dataclass(frozen=True)
class Treebanks:
    """Files of sentences with trees, for commands that can do without."""

    treebank: Annotated[list[str] | None, TREEBANK, FileRole.READ] = None
    held: Held = None

    def request(self, given: OneInput, files: PairFiles, scan: ScanOptions) -> HoldAgainst:
        """Every head held against the first of them, and against the second.

        Raises: typer.BadParameter if there is something else to read.
        """
        unused = [option for option in files.chosen() if option not in ("--on-long", "--skip-bad")]
        check_usage(
            {
                "give a sentence, or --treebank, but not both": bool(given.sentences),
                "give --weights or --treebank, but not both": given.weights is not None,
                "give --pairs or --treebank, but not both": bool(files.pairs),
                f"{''.join(unused[:1])} is for --pairs": bool(unused),
            }
        )
        options = replace(scan, model=given.model, on_long=files.on_long or "error")
        trees = FilePairs(tuple(self.treebank or ()), skip_bad=files.skip_bad)
        others = FilePairs(tuple(self.held), skip_bad=files.skip_bad) if self.held else None
        return HoldAgainst(trees, options, None, others)


@dataclass(frozen=True)
class OfAttention:
    """Which attention of an encoder-decoder is read, and what its queries and targets are."""

    attention: Annotated[
        Literal["encoder", "decoder", "cross", "all"] | None,
        typer.Option(
            "--attention",
            help="Of an encoder-decoder, which attention to read; B is the target, else the model writes it. "
            "[default: encoder, or by the letter of heads]",
        ),
    ] = None
    query: Annotated[QuerySide, replace(_SCAN["query"].option, general=True)] = "predicts"
    alignments: Annotated[
        Path | None,
        typer.Option(
            "--alignments", metavar="FILE", help="Gold alignments of the pairs' words: 0-0 1-2, a line a pair."
        ),
        FileRole.READ,
    ] = None
    max_target_tokens: Annotated[int, replace(_SCAN["max_target_tokens"].option, general=True)] = 64

    def resolved(self, heads: str | None = None) -> Self:
        """These with the attention that is read: the one asked for, else that of the letters of some heads.

        Raises: SelectionError for heads of two kinds, or of another; typer.BadParameter for options that say nothing of
        the attention that is read.
        """
        if heads is not None and self.attention != "all":
            of = replace(self, attention=attention_named(heads, self.attention))
        else:
            of = replace(self, attention=self.attention or "encoder")
        across, usual = of.attention in ("cross", "all"), type(self).max_target_tokens
        remedy = "is for cross attention; add --attention cross, or leave it out"
        check_usage(
            {
                f"--query {remedy}": not across and of.query != "predicts",
                f"--alignments {remedy}": not across and of.alignments is not None,
                "--max-target-tokens is for --attention decoder, cross or all; leave it out: no target is read": (
                    of.attention == "encoder" and of.max_target_tokens != usual
                ),
            }
        )
        return of

    @property
    def kinds(self) -> tuple[AttentionName, ...]:
        """Those that are read, one after the other."""
        return ("encoder", "decoder", "cross") if self.attention == "all" else (self.attention or "encoder",)

    def typed(self, heads: str = "", *, links: bool = True) -> tuple[str, ...]:
        """The options as another command takes them, of heads that it names or of all; letters say what is read.

        Without `links`, which are those of other pairs.
        """
        kind = attention_named(heads) if self.attention == "all" else self.kinds[0]
        if kind == "encoder":
            return ()
        read = () if attention_named(heads) == kind else ("--attention", kind)
        across = kind == "cross"
        aligned = ("--alignments", str(self.alignments)) if self.alignments and links and across else ()
        query = ("--query", self.query) if self.query != "predicts" and across else ()
        usual = self.max_target_tokens == type(self).max_target_tokens
        return (*read, *aligned, *query, *(() if usual else ("--max-target-tokens", str(self.max_target_tokens))))

    def options(
        self, scan: ScanOptions, kind: AttentionName, asked: Sequence[str] | None
    ) -> tuple[list[str], ScanOptions]:
        """The names of the patterns that are asked for, and what is computed of one of the kinds.

        Raises: OptionError for a pattern that it is not scored for.
        """
        aligned = self.alignments is not None
        names, patterns = with_own(asked or (), patterns_of(kind, asked or (), aligned=aligned))
        query: QuerySide = self.query if kind == "cross" else "predicts"
        most = self.max_target_tokens
        return names, replace(scan, attention=kind, query=query, max_target_tokens=most, patterns=patterns)

    def pairs(self, pairs: Pairs, kind: AttentionName) -> Pairs:
        """Pairs with the links of their words, where these are read; beside other kinds, an encoder reads sources."""
        if kind == "encoder" and self.attention == "all":
            return SourcePairs(pairs)
        return AlignedPairs(pairs, str(self.alignments)) if self.alignments is not None and kind == "cross" else pairs

    def input(self, given: OneInput, kind: AttentionName) -> Pair | WeightsInput:
        """One input, with the links of its words, where these are read. Raises: InputError, PairsError."""
        read = given.input
        if isinstance(read, WeightsInput):
            check_usage(
                {"--alignments are of words, and --weights has tokens alone: leave it out": bool(self.alignments)}
            )
            return read
        if kind == "encoder" and self.attention == "all":
            return read.source
        return self.pair(read, kind)

    def pair(self, pair: Pair, kind: AttentionName) -> Pair:
        """A pair with the links of its words, where these are read. Raises: PairsError."""
        if self.alignments is None or kind != "cross":
            return pair
        from attnscan.inputs.alignments import Alignments

        return Alignments.read(self.alignments).of_one(pair)


@dataclass(frozen=True)
class OfOneAttention(OfAttention):
    """Which attention of an encoder-decoder is read, for commands that read one kind at a time."""

    attention: Annotated[
        AttentionName | None,
        typer.Option(
            "--attention",
            help="Of an encoder-decoder, which attention to read; B is the target, else the model writes it. "
            "[default: encoder, or by the letter of heads]",
        ),
    ] = None


def check_usage(wrong: Mapping[str, bool]) -> None:
    """Raises: typer.BadParameter with the first message whose condition holds."""
    for message, holds in wrong.items():
        if holds:
            raise typer.BadParameter(message)


def request_of(
    given: OneInput, files: PairFiles, scan: ScanOptions, *, keep: bool | Selection, **many: Any
) -> Classify | Rank:
    """The request of a command for one input, or for many pairs with the options `many`.

    Raises: as `check_one_or_many` and `on_long_of`.
    """
    if check_one_or_many(given, files):
        return Rank(files.source(), replace(scan, model=given.model, on_long=files.when_long(), **many))
    options = replace(scan, model=given.model, on_long=files.when_long(many=False))
    return Classify(given.input, options, keep=keep)


def check_one_or_many(given: OneInput, files: PairFiles) -> bool:
    """Whether the command is for many pairs: those of files or, where there is no input either, those shipped.

    Raises: typer.BadParameter if it is for both, or an option is for the other of the two.
    """
    if given.a is None and given.weights is None:
        return True
    if files.pairs:
        raise typer.BadParameter("give a sentence, or two, or --pairs, but not both")
    files.check_unused()
    given.check()
    return False


def on_long_of(given: OnLong | None, *, many: bool) -> OnLong:
    """What to do with inputs that are too long: by default pairs are cut, and a single input is an error.

    Raises: typer.BadParameter if a single input would be skipped.
    """
    if given == "skip" and not many:
        raise typer.BadParameter("--on-long skip is for scans of pairs: give truncate or error")
    return given or ("truncate" if many else "error")


@dataclass(frozen=True)
class Where:
    """Where the result goes, and in which format."""

    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            autocompletion=completing(*FORMATS),
            help="Print table, csv, tsv, json, jsonl, markdown, parquet or xlsx.",
        ),
    ] = None
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV; short for --format csv.")] = False
    decimal_comma: Annotated[
        bool,
        typer.Option("--decimal-comma", help="Write 0,5 for 0.5 in CSV and TSV; semicolons then separate CSV cells."),
    ] = False
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write to FILE, in the format of its suffix.",
        ),
        FileRole.WRITTEN,
    ] = None
    signature: Annotated[
        Path | None,
        typer.Option("--signature", metavar="FILE.json", help="Also write model, versions, options and input hash."),
        FileRole.WRITTEN,
    ] = None

    def destination(self, *, draws: bool = False) -> Destination:
        """The place and format; as a picture, if the command draws, by the suffix.

        Raises: typer.BadParameter if they contradict each other; OutputError.
        """
        if self.signature is not None:
            check_suffix(self.signature, ".json", "--signature")
        asked = self._format(draws=draws)
        if self.decimal_comma and asked not in ("csv", "tsv"):
            raise typer.BadParameter("--decimal-comma is for --csv, or for TSV: add --csv, or leave it out")
        if asked in PICTURES:
            check_pictures_can_be_drawn()
        return Destination(asked, self.output, self.decimal_comma, self.signature)

    def _format(self, *, draws: bool) -> Format | Picture:
        """Raises: as `destination`."""
        if self.format is not None and self.format not in FORMATS:
            hint = nearest(self.format, FORMATS, f"there are {', '.join(FORMATS)}")
            raise typer.BadParameter(f"no format '{self.format}': {hint}")
        if self.csv and self.format not in (None, "csv"):
            raise typer.BadParameter(f"--csv and --format {self.format} contradict each other")
        if (asked := "csv" if self.csv else self.format) is not None:
            self._check_suffix(asked)
            return FORMATS[FORMATS.index(asked)]
        if self.output is None:
            return "table"
        if draws and self.output.suffix.lower().removeprefix(".") in PICTURES:
            return picture_format_of(self.output)
        return format_of(self.output)

    def _check_suffix(self, asked: str) -> None:
        """Raises: typer.BadParameter if the file's suffix stands for another format than the one asked for."""
        suffix = "" if self.output is None else self.output.suffix.lower()
        if SUFFIXES.get(suffix, suffix[1:] if suffix[1:] in PICTURES else asked) != asked:
            how = "--csv" if self.csv else f"--format {asked}"
            raise typer.BadParameter(
                f"{how} and {self.output} contradict each other: leave {how} out, or rename the file"
            )

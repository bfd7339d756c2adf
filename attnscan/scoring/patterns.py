"""What a pattern is; those of Vig, "Deconstructing BERT" (2018/19), of causal models, and own ones.

A pattern is a pure function from a batch of inputs to its *target*: for every query the keys that a
head following the pattern would look at. The drawings below are those functions run on one toy
pair, "the cat sat." / "a cat ran": rows are queries, columns are keys, a dot is 0.

    Shape: EncodedBatch -> [batch, query, key], bool or float in [0, 1]. A query whose row is all
    zero is not eligible: it is left out of the score.

A function's docstring says what its pattern counts, and below it stands how screens show it. A
user's own come from a Python file, `FILE.py:FUNCTION`, whose code is run. This module imports no
tensor library.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, NoReturn

from attnscan.errors import OptionError, nearest, out_of_memory
from attnscan.results.columns import reserved_names
from attnscan.results.label_rules import Scored
from attnscan.text import hashed

if TYPE_CHECKING:
    from torch import Tensor

    from attnscan.inputs.batch import EncodedBatch

TargetFunction = Callable[["EncodedBatch"], "Tensor"]
"""A pattern's function."""

PATTERN_SET_VERSION = "5"
"""Rises whenever the meaning of a pattern or a label changes, so that old and new results are not
compared."""

_VIG = 'Jesse Vig, "Deconstructing BERT" (2018/19)'


@dataclass(frozen=True)
class Pattern:
    """One pattern: its name, its target, how weights are measured, and how screens show it."""

    id: str
    """The name on the command line and in every table, such as `next-word`."""
    letter: str
    """Its mark in maps and narrow tables."""
    target: TargetFunction | None
    """None if only the model itself can tell (`predictive`)."""
    counts: str
    """What the score counts, in a few words."""
    even: bool = False
    """Whether target keys share the weight evenly: weight beyond a key's share does not count."""
    part_of: str | None = None
    """The wider pattern that this is a part of: the two take one label between them."""
    excludes_self: bool = False
    """Whether a head that looks at the word itself, a target, too, does not follow it."""
    code: str = ""
    """The hash of the file that it was read from: sums by other code do not add to its own."""
    words: str = ""
    """What words attend to by it, as screens say it; empty for its name."""
    group: str = "own"
    """Of which kinds it is on screens, such as `ahead` or `same`."""
    color: str = ""
    """`#rrggbb`, after Okabe and Ito, whose colours colour-blind readers tell apart; empty of one's
    own."""
    clause: str = ""
    """What a head that follows it does, in explanations; empty for `follows` and its name."""
    queries: str = ""
    """Which words are asked where they look: the eligible ones."""
    keys: str = ""
    """Which tokens they should look at."""
    source: str = ""
    """Where the pattern comes from."""

    @classmethod
    def of(cls, function: TargetFunction, **attributes: Any) -> Pattern:
        """A pattern called after its function, with what the docstring says of it.

        `subject_verb` is `subject-verb`. The docstring begins with what the score counts. Further
        lines may tell `Queries:` and `Keys:`, what a `Head:` does that follows it, and its
        `Source:`.
        Raises: OptionError if the function has no name to go by.
        """
        name = getattr(function, "__name__", "<nameless>").strip("_").replace("_", "-")
        if "<" in name:
            raise OptionError(
                "a pattern's function has no name",
                "define it with def, or give Pattern(id=..., ...)",
            )
        first_line, *lines = (function.__doc__ or "").strip().split("\n")
        first_line = first_line[:1].lower() + first_line[1:].rstrip(".")
        fields = {"Queries": "queries", "Keys": "keys", "Head": "clause", "Source": "source"}
        for line in lines:
            key, _, text = line.strip().partition(": ")
            if key in fields:
                attributes[fields[key]] = text.rstrip(".")
        return cls(
            id=name,
            letter=attributes.pop("letter", name[:1].upper()),
            target=function,
            counts=first_line or f"weight on the targets of {name}",
            **attributes,
        )

    @property
    def scored(self) -> Scored:
        """How results call it, and how it takes part in labels."""
        return Scored(self.id, self.part_of, self.excludes_self)

    @property
    def drawing(self) -> str:
        """The target on the toy pair, as its docstring draws it; empty if it has none."""
        _, _, drawn = ((self.target and self.target.__doc__) or "").partition(">>> show(")
        return "\n".join(line.removeprefix("    ") for line in drawn.rstrip().splitlines()[1:])


def shipped(
    function: TargetFunction, letter: str, color: str, group: str, words: str, **attributes: Any
) -> Pattern:
    """A pattern of ours: what its function's docstring says of it, and how screens show it."""
    return Pattern.of(
        function,
        source=_VIG,
        letter=letter,
        color=color,
        group=group,
        words=words,
        **attributes,
    )


def next_word(batch: EncodedBatch) -> Tensor:
    """Weight on the next word of the sentence.

    Queries: words that are followed by a word of the same sentence.
    Keys: that next word.
    Head: finds the next word.

    >>> show(next_word)
          [CLS]   the   cat   sat     . [SEP]     a   cat   ran [SEP]
      the     ·     ·     1     ·     ·     ·     ·     ·     ·     ·
      cat     ·     ·     ·     1     ·     ·     ·     ·     ·     ·
      sat     ·     ·     ·     ·     1     ·     ·     ·     ·     ·
        .     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
        a     ·     ·     ·     ·     ·     ·     ·     1     ·     ·
      cat     ·     ·     ·     ·     ·     ·     ·     ·     1     ·
      ran     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
    """
    return batch.same_sentence & (batch.offset == 1)


def previous_word(batch: EncodedBatch) -> Tensor:
    """Weight on the previous word of the sentence.

    Queries: words that come after a word of the same sentence.
    Keys: that previous word.
    Head: finds the previous word.

    >>> show(previous_word)
          [CLS]   the   cat   sat     . [SEP]     a   cat   ran [SEP]
      the     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
      cat     ·     1     ·     ·     ·     ·     ·     ·     ·     ·
      sat     ·     ·     1     ·     ·     ·     ·     ·     ·     ·
        .     ·     ·     ·     1     ·     ·     ·     ·     ·     ·
        a     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
      cat     ·     ·     ·     ·     ·     ·     1     ·     ·     ·
      ran     ·     ·     ·     ·     ·     ·     ·     1     ·     ·
    """
    return batch.same_sentence & (batch.offset == -1)


def identical(batch: EncodedBatch) -> Tensor:
    """Weight on identical or related words, the word itself included.

    Queries: words, not punctuation, that have another identical or related word anywhere.
    Keys: those words, and the word itself.
    Head: finds identical words.

    >>> show(identical)
          [CLS]   the   cat   sat     . [SEP]     a   cat   ran [SEP]
      the     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
      cat     ·     ·     1     ·     ·     ·     ·     1     ·     ·
      sat     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
        .     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
        a     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
      cat     ·     ·     1     ·     ·     ·     ·     1     ·     ·
      ran     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
    """
    return batch.alike & batch.recurs[..., None]


def cross_sentence(batch: EncodedBatch) -> Tensor:
    """Weight on identical or related words of the other sentence.

    Queries: words, not punctuation, that have an identical or related word in the other sentence.
    Keys: those words.
    Head: finds identical words in the other sentence.

    >>> show(cross_sentence)
          [CLS]   the   cat   sat     . [SEP]     a   cat   ran [SEP]
      the     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
      cat     ·     ·     ·     ·     ·     ·     ·     1     ·     ·
      sat     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
        .     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
        a     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
      cat     ·     ·     1     ·     ·     ·     ·     ·     ·     ·
      ran     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
    """
    return batch.alike & ~batch.same_sentence


def delimiter(batch: EncodedBatch) -> Tensor:
    """Weight on special tokens such as [CLS] and [SEP].

    Queries: all words.
    Keys: all special tokens that the tokenizer inserted.
    Head: attends to special tokens.

    >>> show(delimiter)
          [CLS]   the   cat   sat     . [SEP]     a   cat   ran [SEP]
      the     1     ·     ·     ·     ·     1     ·     ·     ·     1
      cat     1     ·     ·     ·     ·     1     ·     ·     ·     1
      sat     1     ·     ·     ·     ·     1     ·     ·     ·     1
        .     1     ·     ·     ·     ·     1     ·     ·     ·     1
        a     1     ·     ·     ·     ·     1     ·     ·     ·     1
      cat     1     ·     ·     ·     ·     1     ·     ·     ·     1
      ran     1     ·     ·     ·     ·     1     ·     ·     ·     1
    """
    return batch.word[:, batch.queries, None] & batch.special[:, None, batch.keys]


def bag_of_words(batch: EncodedBatch) -> Tensor:
    """How evenly weight spreads over the words of the sentence.

    Queries: all words.
    Keys: all words of the same sentence, itself included, evenly: what a key gets beyond that does not count.
    Head: spreads over its own sentence.

    >>> show(bag_of_words)
          [CLS]   the   cat   sat     . [SEP]     a   cat   ran [SEP]
      the     ·   .25   .25   .25   .25     ·     ·     ·     ·     ·
      cat     ·   .25   .25   .25   .25     ·     ·     ·     ·     ·
      sat     ·   .25   .25   .25   .25     ·     ·     ·     ·     ·
        .     ·   .25   .25   .25   .25     ·     ·     ·     ·     ·
        a     ·     ·     ·     ·     ·     ·   .33   .33   .33     ·
      cat     ·     ·     ·     ·     ·     ·   .33   .33   .33     ·
      ran     ·     ·     ·     ·     ·     ·   .33   .33   .33     ·
    """  # noqa: E501 (an entry of a docstring is one line)
    inside = batch.same_sentence
    return inside / inside.sum(-1)[..., None].clip(1)


def induction(batch: EncodedBatch) -> Tensor:
    """Weight on the word that followed the word's last earlier occurrence.

    Queries: words whose text occurred before, where a word followed.
    Keys: the word after the last earlier occurrence.
    Head: finds what followed the same word before.
    Source: Elhage et al., A Mathematical Framework for Transformer Circuits (2021); Olsson et al. (2022).

    >>> show(induction)
          [CLS]   the   cat   sat     . [SEP]     a   cat   ran [SEP]
      the     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
      cat     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
      sat     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
        .     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
        a     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
      cat     ·     ·     ·     1     ·     ·     ·     ·     ·     ·
      ran     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
    """  # noqa: E501 (an entry of a docstring is one line)
    earlier = duplicate_token(batch)
    last = earlier & (earlier.flip(-1).cumsum(-1).flip(-1) == 1)
    is_behind_another = batch.offset != batch.offset[..., :1]
    return last.roll(1, -1) & is_behind_another & batch.word[:, None, batch.keys]


def duplicate_token(batch: EncodedBatch) -> Tensor:
    """Weight on earlier occurrences of the word.

    Queries: words whose text occurred before.
    Keys: all earlier occurrences.
    Head: finds the same word before.
    Source: Wang et al., Interpretability in the Wild (2022).

    >>> show(duplicate_token)
          [CLS]   the   cat   sat     . [SEP]     a   cat   ran [SEP]
      the     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
      cat     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
      sat     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
        .     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
        a     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
      cat     ·     ·     1     ·     ·     ·     ·     ·     ·     ·
      ran     ·     ·     ·     ·     ·     ·     ·     ·     ·     ·
    """
    same_text = batch.text_id[:, batch.queries, None] == batch.text_id[:, None, batch.keys]
    earlier = (
        same_text
        & batch.word[:, batch.queries, None]
        & batch.word[:, None, batch.keys]
        & (batch.offset < 0)
    )
    return earlier if batch.visible is None else earlier & batch.visible


def first_token(batch: EncodedBatch) -> Tensor:
    """Weight on the first token of the input.

    Queries: all words but the first token itself.
    Keys: the first token, whatever it is.
    Head: attends to the first token.
    Source: Xiao et al., Efficient Streaming Language Models with Attention Sinks (2023).

    >>> show(first_token)
          [CLS]   the   cat   sat     . [SEP]     a   cat   ran [SEP]
      the     1     ·     ·     ·     ·     ·     ·     ·     ·     ·
      cat     1     ·     ·     ·     ·     ·     ·     ·     ·     ·
      sat     1     ·     ·     ·     ·     ·     ·     ·     ·     ·
        .     1     ·     ·     ·     ·     ·     ·     ·     ·     ·
        a     1     ·     ·     ·     ·     ·     ·     ·     ·     ·
      cat     1     ·     ·     ·     ·     ·     ·     ·     ·     ·
      ran     1     ·     ·     ·     ·     ·     ·     ·     ·     ·
    """
    return batch.word[:, batch.queries, None] & batch.first_key & (batch.offset != 0)


IDENTICAL = shipped(identical, "I", "#009e73", "same", "the same words", excludes_self=True)
DELIMITER = shipped(delimiter, "D", "#8a8a8a", "rest", "special tokens")
PATTERNS = (
    shipped(next_word, "N", "#3d8fd6", "ahead", "the next word"),
    shipped(previous_word, "P", "#e69f00", "back", "the previous word"),
    IDENTICAL,
    shipped(
        cross_sentence,
        "X",
        "#cc79a7",
        "same",
        "the same words in the other sentence",
        part_of="identical",
    ),
    Pattern(
        id="predictive",
        letter="W",
        target=None,  # `model/predictive.py` asks the model itself
        counts="weight on the words that help to predict the word",
        words="the words that predict it",
        group="predicts",
        color="#a6761d",
        clause="finds the words that predict a word",
        queries="words, not punctuation, that some other word helps to predict",
        keys="the words that help, each weighted by how much, the best one at 1",
        source=(
            f"{_VIG}; measured as Hoover et al. (2021) do or, without a masked-LM head, "
            "Wu et al. (2020)"
        ),
    ),
    DELIMITER,
    shipped(bag_of_words, "B", "#d55e00", "everywhere", "its own sentence evenly", even=True),
)
"""The patterns that every model is scored for, in the order of every table."""
INDUCTION = shipped(induction, "J", "#0072b2", "same", "what followed the same word before")
CAUSAL_PATTERNS = (
    INDUCTION,
    shipped(duplicate_token, "T", "#56b4e9", "same", "the same word before"),
    shipped(first_token, "F", "#4d4d4d", "rest", "the first token"),
)
"""Those that heads of causal models are scored for besides, and others where they are asked for."""
SHIPPED = (*PATTERNS, *CAUSAL_PATTERNS)

PatternLike = Pattern | TargetFunction | str
"""A pattern, one's own function that gives its target, or the name or letter of one of ours."""


def pattern_list(patterns: Iterable[PatternLike] | PatternLike) -> list[PatternLike]:
    """Some patterns as a list; one may stand alone."""
    if isinstance(patterns, str | Pattern) or not isinstance(patterns, Iterable):
        return [patterns]
    return list(patterns)


def chosen(
    patterns: Iterable[PatternLike] | PatternLike, ours: Sequence[Pattern] = PATTERNS
) -> tuple[Pattern, ...]:
    """Resolve patterns; one may stand alone. Names are those of `ours`.

    Raises: OptionError if there is none, none of such a name, or there are two of one name.
    """
    result: list[Pattern] = []
    for wanted in pattern_list(patterns):
        pattern = called(wanted, ours) if isinstance(wanted, str) else wanted
        if pattern is None:
            valid_names = [pattern.id for pattern in ours]
            remedy = nearest(str(wanted), valid_names, f"there are {', '.join(valid_names)}")
            raise OptionError(f"there is no pattern '{wanted}'", remedy)
        result.append(pattern if isinstance(pattern, Pattern) else Pattern.of(pattern))
    if not result:
        raise OptionError("there is no pattern to score by", "leave `patterns` out for all")
    names = [pattern.id for pattern in result]
    for pattern in result:
        if names.count(pattern.id) > 1:
            _refuse(f"two patterns are called '{pattern.id}'")
        if pattern not in (*ours, *SHIPPED):
            _check_is_free(pattern.id)
    return tuple(result)


def _check_is_free(name: str) -> None:
    """Raises: OptionError if a pattern of ours, a column, a class of keys or a habit has a name."""
    if name in [pattern.id for pattern in SHIPPED]:
        _refuse(f"two patterns are called '{name}'")
    for reserved, thing in reserved_names().items():
        if name.casefold() == reserved.casefold():
            _refuse(f"a pattern and {thing} are called '{name}'")


def _refuse(message: str) -> NoReturn:
    raise OptionError(message, "give each a name of its own")


def called(name: str, ours: Sequence[Pattern] = PATTERNS) -> Pattern | None:
    """Find the pattern among `ours` by its name or letter, in capitals or not; else None.

    >>> called("D").id, called("next-word") is called("n"), called("delimiters")
    ('delimiter', True, None)
    """
    folded = name.casefold()
    return next(
        (pattern for pattern in ours if folded in (pattern.id, pattern.letter.casefold())), None
    )


def is_own(name: str) -> bool:
    """Whether a name is that of a file's function, and not a pattern's name or letter.

    >>> is_own("mine.py:two_back"), is_own("mine.py"), is_own("next-word")
    (True, True, False)
    """
    return name.endswith(".py") or name.rpartition(":")[0].endswith(".py")


def with_own(
    requested: Sequence[PatternLike],
    ours: Sequence[Pattern] = PATTERNS,
    extra: Sequence[Pattern] = (),
) -> tuple[list[str], tuple[Pattern, ...]]:
    """The names of some patterns, each once, and `ours` with those that are not of these.

    The others are of `extra`, or of one's own.
    Raises: OptionError for anything but a pattern, or if two patterns have one name.
    """
    patterns: dict[Pattern, None] = {}
    for item in requested:
        if isinstance(item, str) and is_own(item):
            item = own_pattern(item)
        patterns |= dict.fromkeys(chosen([item], (*ours, *extra)))
    others = [pattern for pattern in patterns if pattern not in ours]
    return [pattern.id for pattern in patterns], chosen([*ours, *others], ours)


def own_pattern(name: str) -> Pattern:
    """Load the pattern that a file's function defines, with a hash of the file.

    It may import files beside it.
    Raises: OptionError if the file cannot be read or run, or has no such function.
    """
    file, _, function = name.rpartition(":")
    if not file.endswith(".py") or not function:
        raise OptionError(f"'{name}' names no function", "name it as FILE.py:FUNCTION")
    try:
        code = Path(file).read_bytes()
    except OSError as error:
        raise OptionError(
            f"cannot read {file}: {error.strerror or error}", "check its path"
        ) from None
    defined = _run_file(file)
    if not callable(defined.get(function)):
        names = [
            key
            for key, value in defined.items()
            if getattr(value, "__module__", None) == defined["__name__"]
        ]
        otherwise = f"there are {', '.join(names)}" if names else "define it with def"
        raise OptionError(
            f"{file} has no function '{function}'", nearest(function, names, otherwise)
        )
    (pattern,) = chosen([defined[function]])
    return replace(pattern, code=hashed(code))


def _run_file(file: str) -> dict[str, Any]:
    """Run a Python file; return what it defines. Raises: OptionError."""
    sys.path.insert(0, str(Path(file).absolute().parent))
    try:
        return runpy.run_path(file, run_name=f"attnscan_own_{hashed(file.encode())[:16]}")
    except (Exception, SystemExit) as error:
        if out_of_memory(error):
            raise
        raise OptionError(
            f"{file} cannot be run: {_reason(error, file)}", f"see that `python {file}` runs"
        ) from error
    finally:
        sys.path.pop(0)


def _reason(error: BaseException, file: str) -> str:
    """The kind of an error, the line of the file that it comes from, and what it says."""
    lines = [
        number for frame, number in walk_tb(error.__traceback__) if frame.f_code.co_filename == file
    ]
    line = getattr(error, "lineno", None) or (lines[-1] if lines else None)
    kind = type(error).__name__
    if line:
        kind += f" in line {line}"
    text = " ".join(str(getattr(error, "msg", error)).split())[:200]
    return f"{kind}: {text}" if text else kind

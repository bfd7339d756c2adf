"""What tokenizers make of inputs: one by one, or many at once where they can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from attnscan.errors import InputError, TooLongError
from attnscan.inputs.batch import SPECIAL
from attnscan.inputs.pairs import Pair
from attnscan.inputs.sentence import Sentence
from attnscan.inputs.tokenizer_calls import TokenizerFailed, asked, called

# Of a text far longer than the model reads, only the start is tokenized: a token takes half a kilobyte, and a
# fast tokenizer pairs every piece that it cuts off one sentence with every piece that it cuts off the other.
_CHARACTERS = 256  # at most that many for each token that the model reads
_TOKENS = 4  # ... and that many tokens, where the text is to be cut


@dataclass(frozen=True)
class Tokenized:
    """What a tokenizer makes of one input."""

    model_inputs: dict[str, list[int]]
    """`input_ids` and whatever else it gives the model."""
    fast: Any | None
    """What a fast tokenizer tells of the tokens; None of one that is written in Python."""

    @property
    def ids(self) -> list[int]:
        """The tokens' numbers."""
        return self.model_inputs["input_ids"]

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Which characters of its sentence each token stands for; empty where that is not told."""
        return () if self.fast is None else tuple(self.fast.offsets)


def tokenized(tokenizer: Any, pair: Pair, max_length: int | None) -> Tokenized:
    """One input; a cut takes from the longer sentence first. Raises: as `called`."""
    encoding = called(tokenizer, pair.a, pair.b, **_cut(max_length))
    inputs = {name: list(encoding[name]) for name in encoding}
    return Tokenized(inputs, encoding.encodings[0] if encoding.is_fast else None)


def tokenized_together(tokenizer: Any, pairs: Sequence[Pair], limit: int, truncate: bool) -> list[Tokenized | None]:
    """Some inputs in one call; None in place of each that is to be read by itself.

    That is all of them where the call fails, so that only what cannot be read is an error; if the tokenizer is written
    in Python; and inputs that are far too long.
    """
    found: list[Tokenized | None] = [None] * len(pairs)
    if len(pairs) < 2 or not getattr(tokenizer, "is_fast", False):
        return found
    short = [i for i, pair in enumerate(pairs) if max(map(len, pair.texts)) <= _TOKENS * limit]
    for places in ([i for i in short if pairs[i].b], [i for i in short if not pairs[i].b]):
        if not places:
            continue
        a, b = ([getattr(pairs[i], name) for i in places] for name in ("a", "b"))
        try:
            encoding = called(tokenizer, a, b if b[0] else None, **_cut(limit if truncate else None))
        except TokenizerFailed:
            continue
        if len(encoding.encodings) == len(places):
            for row, place in enumerate(places):
                inputs = {name: encoding[name][row] for name in encoding}
                found[place] = Tokenized(inputs, encoding.encodings[row])
    return found


def _cut(max_length: int | None) -> dict[str, Any]:
    return {"truncation": "longest_first" if max_length else False, "max_length": max_length}


def start_of(tokenizer: Any, pair: Pair, limit: int, truncate: bool) -> Pair:
    """A pair without most of what is to be cut off, if it is far too long. Raises: TooLongError if it must not be."""
    longest = max(map(len, pair.texts))
    if longest > _CHARACTERS * limit and not truncate:
        raise TooLongError(
            f"a sentence is {longest} characters long and the model reads at most {limit} tokens",
            "shorten it, or pass --on-long truncate to cut it",
        )
    if longest <= _TOKENS * limit or not truncate:
        return pair
    return Pair(*(_start(tokenizer, known.start(_CHARACTERS * limit), _TOKENS * limit) for known in pair.sentences))


def _start(tokenizer: Any, sentence: Sentence, tokens: int) -> Sentence:
    encoding = called(tokenizer, sentence.text, add_special_tokens=False)
    if not encoding.is_fast or len(encoding["input_ids"]) <= tokens:
        return sentence
    return sentence.start(max(end for _, end in encoding.encodings[0].offsets[:tokens]))


def sentences_of(tokenizer: Any, read: Tokenized, pair: Pair) -> list[int]:
    """Each token's sentence. Never by token_type_ids, which RoBERTa does not have."""
    if read.fast is not None:
        return [SPECIAL if sequence is None else sequence for sequence in read.fast.sequence_ids]
    # A tokenizer written in Python knows no sequence ids, and in its mask of special tokens an unknown word counts as
    # special: what tells is where each sentence's own tokens are.
    ids = read.ids
    a, b = (
        [] if text is None else called(tokenizer, text, add_special_tokens=False)["input_ids"]
        for text in (pair.a, pair.b)
    )
    whole = len(a) + len(b) + asked(tokenizer.num_special_tokens_to_add, pair=pair.b is not None)
    if whole > len(ids):
        cut = {"num_tokens_to_remove": whole - len(ids), "truncation_strategy": "longest_first"}
        a, b, _ = asked(tokenizer.truncate_sequences, a, b if pair.b is not None else None, **cut)
    sentence, start = [SPECIAL] * len(ids), 0
    for number, own in enumerate((a, b or [])):
        at = next((i for i in range(start, len(ids)) if ids[i : i + len(own)] == own), None)
        if at is None:
            raise InputError(
                f"the tokenizer {type(tokenizer).__name__} writes sentence {'AB'[number]} otherwise within a pair",
                "use a model with a fast tokenizer (tokenizer.json)",
            )
        start = at + len(own)
        sentence[at:start] = [number] * len(own)
    return sentence

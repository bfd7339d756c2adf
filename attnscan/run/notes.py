"""What a user should know beside a result, a line each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscan.results.terms import counted
from attnscan.run.events import Note

if TYPE_CHECKING:
    from attnscan.inputs.batch import EncodedInput
    from attnscan.model.sources import Dtype
    from attnscan.results.signature import Signature
    from attnscan.scan.scanner import Scanner

WITHOUT_TAP = "this architecture has no tap: read by output_attentions, with the weights of all layers in memory"
_NAMED = 5  # unknown words, at most


def of_inputs(*signatures: Signature, bad: int = 0, length: int | None = None, dtype: Dtype = "auto") -> Iterator[Note]:
    """How inputs were read: without a tap, cut, or not at all. Of two models on the same pairs, the first counts.

    `bad` records were skipped; `length` is that of an input that is alone, as the model read it; `dtype` was asked for.
    """
    for signature in signatures:
        if signature.read_by == "output_attentions":
            yield Note(f"{signature.model}: {WITHOUT_TAP}" if len(signatures) > 1 else WITHOUT_TAP)
    first = signatures[0]
    if dtype not in ("auto", first.dtype):
        yield Note(f"computed in {first.dtype}: on a CPU, {dtype} is for scores alone")
    if bad:
        yield Note(f"{counted(bad, 'bad record')} {'was' if bad == 1 else 'were'} skipped")
    if first.pairs_truncated and length is not None:
        yield Note(f"the input was cut to the {length} tokens that the model reads")
    elif first.pairs_truncated:
        yield Note(f"{first.pairs_truncated} of {first.pairs_read} inputs were cut to what the model reads")
    if first.pairs_skipped:
        yield Note(f"{first.pairs_skipped} of {first.pairs_read} inputs were skipped")


def of_unknown_words(scanner: Scanner, encoded: EncodedInput) -> Iterator[Note]:
    """Which words of one input the model cannot see for what they are."""
    from attnscan.inputs.encode import unknown_words

    if words := unknown_words(scanner.loaded.tokenizer, encoded):
        named = dict.fromkeys(words)
        more = f" and {counted(len(named) - _NAMED, 'other')}" if len(named) > _NAMED else ""
        how = f"{counted(len(words), 'word')} of the input {'is' if len(words) == 1 else 'are'} unknown to the model"
        unknown = scanner.loaded.tokenizer.unk_token
        yield Note(f"{how}, which reads {unknown} instead: {', '.join(list(named)[:_NAMED])}{more}")

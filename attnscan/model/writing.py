"""Sources and targets of encoder-decoders: what the encoder is given, what the decoder reads.

A position of the decoder reads a token of the target and predicts the next: the decoder is given
the start token and all target tokens but the last. The target of a source that has none is written
by the model, greedily.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from attnscan.errors import InputError, ModelError
from attnscan.inputs.encode import encode_pairs, tokenize
from attnscan.inputs.sentence import NO_WORD, SPECIAL, EncodedInput, Pair, QuerySide, Sentence, Unit
from attnscan.inputs.spelling import token_texts
from attnscan.model.forward import model_failure, quiet_transformers


def shift_right(model: Any, ids: list[int]) -> list[int]:
    """The token ids that the decoder reads of a target's: a start token, and all but the last."""
    shift = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    if shift is None:  # M2M100, NLLB-MoE and Blenderbot do this where they are given labels
        return [model.config.decoder_start_token_id, *ids[:-1]]
    return list(shift(labels=torch.tensor([ids], device=model.device))[0].tolist())


def write_target(
    model: Any, tokenizer: Any, pair: Pair, most: int, limit: int
) -> Pair | InputError:
    """A source with the target that the model writes greedily, of at most so many tokens.

    Both are cut to its limit.
    """
    encoding = tokenize(
        tokenizer, pair.a, return_tensors="pt", truncation=True, max_length=limit
    ).to(model.device)
    inputs = {name: encoding[name] for name in ("input_ids", "attention_mask") if name in encoding}
    if getattr(tokenizer, "tgt_lang", None):
        beginning = [_beginning(model, tokenizer)]
        inputs["decoder_input_ids"] = torch.tensor(beginning, device=model.device)
    try:
        with torch.inference_mode(), quiet_transformers():
            written = model.generate(
                **inputs, do_sample=False, num_beams=1, max_new_tokens=max(1, min(most, limit - 2))
            )
    except Exception as error:
        raise model_failure(model, error) from error
    text = tokenizer.decode(written[0].tolist(), skip_special_tokens=True)
    if not text.strip():
        return InputError("the model writes no word as the target", "give the target as sentence B")
    return Pair(pair.sentences[0], Sentence(text))


def _beginning(model: Any, tokenizer: Any) -> list[int]:
    """What the decoder reads before the first word: the start, and what says the language."""
    with _writing_targets(tokenizer):
        empty = tokenize(tokenizer, "")["input_ids"]
        text = tokenize(tokenizer, "a b")["input_ids"]
    length = 0
    while empty[length] == text[length]:
        length += 1
    return shift_right(model, text)[: length + 1]


def encode_translations(
    tokenizer: Any,
    pairs: Sequence[Pair],
    unit: Unit,
    limit: int,
    truncate: bool,
    shift: Callable[[list[int]], list[int]],
    query: QuerySide | None,
) -> Iterator[EncodedInput | InputError]:
    """Tokenize sources and targets for cross attention.

    Without a `query` these are targets as the decoder reads them. For cross attention, the target's
    tokens stand behind the source's: those that its positions predict, or read. `shift` makes of a
    target's token ids what the decoder reads.
    Raises: ModelError if the decoder is not given a target's tokens one place later.
    """
    source_pairs = [pair.source for pair in pairs]
    target_pairs = [Pair(pair.sentences[1]) for pair in pairs]
    sources = encode_pairs(tokenizer, source_pairs, unit, limit, truncate)
    with _writing_targets(tokenizer):
        targets = list(encode_pairs(tokenizer, target_pairs, unit, limit, truncate))
    for pair, source, target in zip(pairs, sources, targets, strict=True):
        if isinstance(source, InputError):
            yield source
        elif isinstance(target, InputError):
            yield type(target)(target.what.replace("sentence A", "sentence B"), target.remedy)
        else:
            read = shift(target.model_inputs["input_ids"])
            target = _as_sentence_b(target)
            if query != "predicts":
                target = _read_by_decoder(tokenizer, target, read)
            inputs = {
                **source.model_inputs,
                "decoder_input_ids": read,
                "decoder_attention_mask": [1] * len(read),
            }
            inputs.pop("token_type_ids", None)
            encoded = target if query is None else _behind(source, target)
            yield replace(
                encoded,
                model_inputs=inputs,
                pair=pair,
                truncated=source.truncated or target.truncated,
            )


def _as_sentence_b(target: EncodedInput) -> EncodedInput:
    sentence = tuple(1 if side >= 0 else side for side in target.sentence)
    return replace(target, sentence=sentence)


def _behind(source: EncodedInput, target: EncodedInput) -> EncodedInput:
    """The target's tokens behind the source's. What is not known of both is known of neither."""
    joined: dict[str, Any] = {}
    for name in ("tokens", "sentence", "punctuation", "units", "spans", "words"):
        first = getattr(source, name)
        second = getattr(target, name)
        joined[name] = first + second if first and second else ()
    next_unit = source.unit[-1] + 1
    unit = source.unit + tuple(next_unit + number for number in target.unit)
    return EncodedInput(**joined, unit=unit, source=len(source.tokens))


def _read_by_decoder(tokenizer: Any, target: EncodedInput, read: list[int]) -> EncodedInput:
    """A target one place later: a start token, and all tokens but the last."""
    if read[1:] != target.model_inputs["input_ids"][:-1]:
        raise ModelError(
            "the decoder is not given the target's tokens one place later, "
            "so what it reads has no words",
            'give ``query=predicts`` with ``attention=cross`` (query="predicts")',
        )
    start = token_texts(tokenizer, read[:1])[0]
    unit = (0, *(number + 1 for number in target.unit[:-1]))
    start_values = {
        "tokens": start,
        "sentence": SPECIAL,
        "punctuation": False,
        "spans": (0, 0),
        "words": NO_WORD,
    }
    moved: dict[str, Any] = {}
    for name, value in start_values.items():
        values = getattr(target, name)
        if values:
            moved[name] = (value, *values[:-1])
    units = (start, *target.units)[: unit[-1] + 1]
    return replace(target, **moved, unit=unit, units=units)


@contextmanager
def _writing_targets(tokenizer: Any) -> Iterator[None]:
    """Let a tokenizer write texts as it writes targets, as `text_target` does for one.

    Marian's and NLLB's differ.
    """
    if not hasattr(tokenizer, "_switch_to_target_mode"):
        yield
        return
    tokenizer._switch_to_target_mode()
    tokenizer._in_target_context_manager = True
    try:
        yield
    finally:
        tokenizer._in_target_context_manager = False
        tokenizer._switch_to_input_mode()

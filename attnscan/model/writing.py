"""Sources and targets of encoder-decoders: what the encoder is given, what the decoder reads and writes; languages.

A position of the decoder reads a token of the target and predicts the next: the decoder is given the start token and
all target tokens but the last. The target of a source that has none is written by the model, greedily.
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


def writes_text(model: Any) -> bool:
    """Whether a model is an encoder-decoder that reads and writes text."""
    if not model.config.is_encoder_decoder or model.main_input_name != "input_ids":
        return False
    return hasattr(model, "prepare_decoder_input_ids_from_labels") or bool(model.can_generate())


def shift_right(model: Any, ids: list[int]) -> list[int]:
    """The token ids that the decoder reads of a target's: a start token, and all but the last."""
    shift = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    if shift is None:  # M2M100, NLLB-MoE and Blenderbot do this where they are given labels
        return [model.config.decoder_start_token_id, *ids[:-1]]
    return list(shift(labels=torch.tensor([ids], device=model.device))[0].tolist())


def write_target(
    model: Any, tokenizer: Any, pair: Pair, most: int, limit: int
) -> Pair | InputError:
    """A source with the target that the model writes greedily, of at most so many tokens; both are cut to its limit."""
    encoding = tokenize(
        tokenizer, pair.a, return_tensors="pt", truncation=True, max_length=limit
    ).to(model.device)
    inputs = {name: encoding[name] for name in ("input_ids", "attention_mask") if name in encoding}
    if getattr(tokenizer, "tgt_lang", None):
        inputs["decoder_input_ids"] = torch.tensor(
            [_beginning(model, tokenizer)], device=model.device
        )
    try:
        with torch.inference_mode(), quiet_transformers():
            ids = model.generate(
                **inputs, do_sample=False, num_beams=1, max_new_tokens=max(1, min(most, limit - 2))
            )[0]
    except Exception as error:
        raise model_failure(model, error) from error
    text = tokenizer.decode(ids.tolist(), skip_special_tokens=True)
    if not text.strip():
        return InputError("the model writes no word as the target", "give the target as sentence B")
    return Pair(pair.sentences[0], Sentence(text))


def _beginning(model: Any, tokenizer: Any) -> list[int]:
    """What the decoder reads before the first word of a target: the start, and what says which language it is of."""
    with _writing_targets(tokenizer):
        empty, text = (tokenize(tokenizer, text)["input_ids"] for text in ("", "a b"))
    before = next(
        place
        for place, (first, second) in enumerate(zip(empty, text, strict=False))
        if first != second
    )
    return shift_right(model, text)[: before + 1]


def encode_translations(
    tokenizer: Any,
    pairs: Sequence[Pair],
    unit: Unit,
    limit: int,
    truncate: bool,
    shift: Callable[[list[int]], list[int]],
    query: QuerySide | None,
) -> Iterator[EncodedInput | InputError]:
    """Tokenize sources and targets for cross attention or, without a `query`, targets as the decoder reads them.

    For cross attention, the target's tokens stand behind the source's: those that its positions predict, or read.
    `shift` makes of a target's token ids what the decoder reads.
    Raises: ModelError if the decoder is not given a target's tokens one place later.
    """
    sources = encode_pairs(tokenizer, [pair.source for pair in pairs], unit, limit, truncate)
    with _writing_targets(tokenizer):
        targets = list(
            encode_pairs(
                tokenizer, [Pair(pair.sentences[1]) for pair in pairs], unit, limit, truncate
            )
        )
    for pair, source, target in zip(pairs, sources, targets, strict=True):
        if isinstance(source, InputError):
            yield source
        elif isinstance(target, InputError):
            yield type(target)(target.what.replace("sentence A", "sentence B"), target.remedy)
        else:
            read = shift(target.model_inputs["input_ids"])
            target = replace(
                target, sentence=tuple(1 if side >= 0 else side for side in target.sentence)
            )
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


def _behind(source: EncodedInput, target: EncodedInput) -> EncodedInput:
    """The target's tokens behind the source's. What is not known of both is known of neither."""
    joined: dict[str, Any] = {
        name: first + second
        if (first := getattr(source, name)) and (second := getattr(target, name))
        else ()
        for name in ("tokens", "sentence", "punctuation", "units", "spans", "words")
    }
    unit = source.unit + tuple(source.unit[-1] + 1 + unit for unit in target.unit)
    return EncodedInput(**joined, unit=unit, source=len(source.tokens))


def _read_by_decoder(tokenizer: Any, target: EncodedInput, read: list[int]) -> EncodedInput:
    """A target one place later: a start token, and all tokens but the last."""
    if read[1:] != target.model_inputs["input_ids"][:-1]:
        raise ModelError(
            "the decoder is not given the target's tokens one place later, so what it reads has no words",
            'give --query predicts with --attention cross (query="predicts")',
        )
    start, unit = (
        token_texts(tokenizer, read[:1])[0],
        (0, *(number + 1 for number in target.unit[:-1])),
    )
    first = {
        "tokens": start,
        "sentence": SPECIAL,
        "punctuation": False,
        "spans": (0, 0),
        "words": NO_WORD,
    }
    moved: dict[str, Any] = {
        name: (value, *values[:-1])
        for name, value in first.items()
        if (values := getattr(target, name))
    }
    return replace(target, **moved, unit=unit, units=(start, *target.units)[: unit[-1] + 1])


@contextmanager
def _writing_targets(tokenizer: Any) -> Iterator[None]:
    """Let a tokenizer write texts as it writes targets, which `text_target` does for one: Marian and NLLB differ."""
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

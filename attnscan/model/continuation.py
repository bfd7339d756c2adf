"""A decoder goes on from a text, greedily: what it writes is sentence B."""

from dataclasses import replace
from typing import Any

import torch

from attnscan.errors import InputError, ModelError
from attnscan.inputs.sentence import NO_WORD, SPECIAL, EncodedInput, Pair, Sentence
from attnscan.inputs.spelling import is_punctuation, spelled_units, token_texts
from attnscan.model.forward import model_failure, quiet_transformers
from attnscan.model.loading import LoadedModel
from attnscan.model.task_heads import task_head


def write_continuation(loaded: LoadedModel, encoded: EncodedInput, most: int) -> EncodedInput:
    """An input with the tokens that the model writes behind it, at most so many, as sentence B.

    The tokens are those that the model wrote, and are not tokenized again.
    Raises: ModelError if the model does not write; InputError if there is no room, or it writes
    nothing.
    """
    model = task_head(loaded, "causal-lm")
    if isinstance(model, str):
        raise ModelError(
            f"{loaded.source.name} cannot write sentence B: {model}",
            "give sentence B, or a model that was trained to write",
        )
    read = encoded.model_inputs["input_ids"]
    room = loaded.limit - len(read)
    if room < 1 or encoded.truncated:
        raise InputError(
            f"sentence A fills the model's {loaded.limit:,} tokens", "give a shorter sentence A"
        )
    written = _generate(model, loaded, read, min(most, room))
    if not written:
        raise InputError("the model writes nothing behind sentence A", "give sentence B")
    return _with_written(loaded.tokenizer, encoded, written)


def _generate(model: Any, loaded: LoadedModel, read: list[int], most: int) -> list[int]:
    """The token ids that the model writes; what ends a text is not among them."""
    ids = torch.tensor([read], device=loaded.device)
    try:
        with torch.inference_mode(), quiet_transformers():
            output = model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                num_beams=1,
                max_new_tokens=most,
                pad_token_id=loaded.pad_id,
            )
    except Exception as error:
        raise model_failure(model, error) from error
    written: list[int] = output[0, len(read) :].tolist()
    special = set(loaded.tokenizer.all_special_ids)
    while written and written[-1] in special:
        written.pop()
    return written


def _with_written(tokenizer: Any, encoded: EncodedInput, written: list[int]) -> EncodedInput:
    """An input with written tokens behind it, whose words are told by their spelling."""
    special = set(tokenizer.all_special_ids)
    tokens = encoded.tokens + token_texts(tokenizer, written)
    sides = tuple(SPECIAL if number in special else 1 for number in written)
    sentence = encoded.sentence + sides
    unit = tuple(range(len(tokens)))
    if len(set(encoded.unit)) < len(encoded.unit):
        first = encoded.unit[-1] + 1
        own_units = spelled_units(sides, tokens[len(encoded.tokens) :])
        unit = encoded.unit + tuple(first + number for number in own_units)
    length = len(written)
    inputs = {}
    for name, values in encoded.model_inputs.items():
        inputs[name] = values + (written if name == "input_ids" else [values[-1]] * length)
    text = tokenizer.decode(written)
    return replace(
        encoded,
        tokens=tokens,
        sentence=sentence,
        unit=unit,
        units=(),
        punctuation=encoded.punctuation + tuple(map(is_punctuation, tokens[-length:])),
        model_inputs=inputs,
        pair=Pair(encoded.known_pair.sentences[0], Sentence(text)),
        spans=(),
        words=encoded.words and encoded.words + (NO_WORD,) * length,
    )

"""Models in memory, each changed in a way that its weights do not show, held to what they say themselves.

What attnscan reads of such a model is what its own eager attention shows, or the model is refused in one line.
"""

from __future__ import annotations

import functools
import itertools
import random
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import transformers
from families import TAPPED, UNTAPPED
from tokenizers_of_kinds import whole_words

import attnscan
from attnscan.errors import AttnscanError
from attnscan.model.in_memory import adopted
from attnscan.model.running import accepted
from hostile.model_changes import CHANGES, REFUSED, Change

A, B = "the cat sat on the mat .", "the cat ran to the store ."
KINDS = {
    "BertForMaskedLM": "bert",
    "DistilBertForMaskedLM": "distilbert",
    "AlbertForMaskedLM": "albert",
    "ModernBertForMaskedLM": "modernbert",
    "DebertaV2ForMaskedLM": "deberta-v2",
    "GPT2Model": "gpt2",
    "LlamaModel": "llama",
    "T5EncoderModel": "t5",
}
"""Classes of transformers, and the families that they are of: with the tap and without it, encoders and decoders."""


_tokenizer = functools.cache(whole_words)


def made(kind: str) -> Any:
    """A model in evaluation mode and under eager attention, whose weights are far from even attention."""
    torch.manual_seed(0)
    settings = {**TAPPED, **UNTAPPED}[KINDS[kind]] | {"vocab_size": len(_tokenizer()), "pad_token_id": 0}
    config = transformers.AutoConfig.for_model(KINDS[kind], **settings)
    model = getattr(transformers, kind)._from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(0.2 * torch.randn_like(weights))
    return model.eval()


def own(model: Any) -> Any:
    """What a model itself puts out in evaluation mode; it is left as it was."""
    training = [module for module in model.modules() if module.training]
    inputs = accepted(model, dict(_tokenizer()(A, B, return_tensors="pt")))
    try:
        model.eval()
        with torch.no_grad(), warnings.catch_warnings(action="ignore"):
            return model(**inputs, output_attentions=True)
    finally:
        for module in training:
            module.training = True


def attention(output: Any) -> torch.Tensor:
    """What a model shows as its attention. Shape: [layer, head, query, key]."""
    return torch.stack([layer[0].float() for layer in output.attentions])


def holds(kind: str, changes: list[Change], draw: random.Random) -> str:
    """Change a model, and hold what attnscan reads to what the model shows. Returns the line of a refusal, or nothing.

    Raises: AssertionError if it is neither.
    """
    model = made(kind)
    given = model
    for change in changes:
        with warnings.catch_warnings(action="ignore"):
            changed = change(given, draw)
        given = given if changed is None else changed
    try:
        result = attnscan.classify(A, B, model=given, tokenizer=_tokenizer(), predictive="off", related=False)
    except AttnscanError as error:
        line = str(error)
        assert line and error.remedy and "\n" not in line, line
        return line
    try:
        output = own(given)
    except RuntimeError:  # the model fails by itself, as some of mixed number formats do
        return ""
    expected = attention(output)
    assert result.attention is not None
    weights, near = torch.from_numpy(result.attention.weights), max(NEAR[values.dtype] for values in given.parameters())
    near *= 4 if kind.startswith("T5") else 1  # whose logits are not scaled, so that half precision rounds them more
    assert weights.shape == expected.shape, (weights.shape, expected.shape)
    assert torch.allclose(weights, expected, atol=near, rtol=0), float((weights - expected).abs().max())
    whole = adopted(given, _tokenizer()).masked_lm
    assert (whole is None) == ("logits" not in output), "a masked-LM head is lost"
    if whole is not None:
        logits, predicted = own(whole).logits.float(), output.logits.float()
        assert torch.allclose(logits, predicted, atol=30 * near, rtol=30 * near), "it predicts otherwise"
    return ""


NEAR = {torch.float64: 1e-6, torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 1e-1}
"""How far what is read may be from what the model shows, which is rounded to its own number format."""


def trials(count: int) -> Iterator[tuple[str, list[str]]]:
    """Every change of every kind of model, and so many of two or three changes at once."""
    for kind, name in itertools.product(KINDS, (*CHANGES, *REFUSED)):
        if (kind, name) != ("GPT2Model", "quantized"):  # of its modules none is, and so it is taken
            yield kind, [name]
    draw = random.Random(0)
    for _ in range(count):
        kind, names = draw.choice(list(KINDS)), draw.sample(list(CHANGES), draw.choice((2, 3)))
        adapters = [name for name in names if "oRA" in name]  # peft adapts a plain model, once
        yield kind, adapters[:1] + [name for name in names if name not in adapters]


def tried(kind: str, names: list[str], seed: int) -> bool:
    """One trial; whether the model was taken. Raises: AssertionError."""
    changes = [CHANGES[name] if name in CHANGES else REFUSED[name][0] for name in names]
    line = holds(kind, changes, random.Random(seed))
    said = [REFUSED[name][1] for name in names if name in REFUSED]
    assert not said or said[0] in line, line or "it was taken"
    return not line

"""A masked LM of which one head alone carries the answer, so that what it is worth is known
beforehand.

It speaks one chain of words. Head 0-0 looks at the previous token and copies it into a part of the
state that nothing else writes to; the masked-LM head reads that part, and gives the word that
follows a logit of `GAP` above all others. Without the head there is nothing to read, and every word
of the vocabulary is as likely as any other.
"""

import math
from pathlib import Path

import torch
from support.tokenizers_of_kinds import BERT
from support.toy_bert import _FEATURES, _WORD, HEAD_SIZE, VOCABULARY, WORDS, _install, save_toy_bert
from transformers import BertForMaskedLM

from attnscan.results.grid import Head

GAP = 5.0
CARRIER = Head(0, 0)
LOSS = math.log(1 + (len(VOCABULARY) - 1) * math.exp(-GAP))
"""Of every hidden word, in nats."""
LOSS_WITHOUT = math.log(len(VOCABULARY))
HEADS = 4
_SIZE = HEADS * HEAD_SIZE


def sentence(words: int) -> str:
    """The first words of the chain."""
    return " ".join(WORDS[:words])


def save_toy_mlm(directory: Path) -> Path:
    """Save the checkpoint, and its tokenizer."""
    save_toy_bert(directory, 2, HEADS, {CARRIER.place: "previous-word", (1, 1): "next-word"})
    model = BertForMaskedLM.from_pretrained(directory, tie_word_embeddings=False).eval()
    with torch.no_grad():
        for parameter in model.cls.parameters():
            parameter.zero_()
        attention = model.bert.encoder.layer[0].attention
        value = torch.zeros(HEAD_SIZE, _FEATURES)
        value[: len(VOCABULARY), _WORD : _WORD + len(VOCABULARY)] = torch.eye(len(VOCABULARY))
        _install(attention.self.value, 0, value)
        carried = torch.arange(len(VOCABULARY))
        attention.output.dense.weight[_FEATURES + carried, carried] = 10
        head = model.cls.predictions
        head.transform.dense.weight[carried, _FEATURES + carried] = 10
        head.transform.dense.bias[
            :
        ] = -20  # far below zero, where the activation is flat, but for what was carried
        head.transform.LayerNorm.weight.fill_(1)
        # after that norm one of many is at √(n - 1), the others at -1/√(n - 1)
        scale = GAP / ((_SIZE - 1) ** 0.5 + (_SIZE - 1) ** -0.5)
        before = [
            VOCABULARY.index(word) for word in ("[CLS]", *WORDS[:-1], *[WORDS[-1]] * len(BERT))
        ]
        after = [
            VOCABULARY.index(word) for word in (*WORDS, *BERT)
        ]  # special ones follow what never comes before
        head.decoder.weight[after, before] = scale
    model.save_pretrained(directory)
    return directory

"""A BERT whose weights are constructed, so that chosen heads follow chosen patterns exactly.

Every token's embedding is three ones: its word, its position, its segment. Attention outputs and
feed-forward layers are zero, so every layer reads these embeddings unchanged. A head's queries and keys
then pick out what its pattern needs; a head that is given no pattern has zero queries and spreads evenly.
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ARTICLES, NOUNS, VERBS = ["the", "a", "i"], ["cat", "dog", "mat", "store"], ["sat", "ran", "went", "bought"]
WORDS = [*ARTICLES, *NOUNS, *VERBS, "on", "to", ".", ",", "straw", "##berries"]
VOCABULARY = [*SPECIALS, *WORDS]
POSITIONS = 28
HEAD_SIZE = 32
SHARP = 40.0  # the gap between the logits of what a head looks at and of all else

Plan = dict[tuple[int, int], str]
"""(layer, head) -> pattern, or one of the other ways that are constructed below."""


def save_toy_bert(directory: Path, layers: int, heads: int, plan: Plan, *, carries: bool = False) -> Path:
    """Save a checkpoint whose heads follow `plan`, and a tokenizer that knows VOCABULARY.

    Values are zero, and heads carry nothing; with `carries`, every token has as much to give, next to nothing, so that
    what heads carry is what they look at.
    """
    size = heads * HEAD_SIZE
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=8,
        max_position_embeddings=POSITIONS,
        pad_token_id=0,
    )
    model = BertModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for module in model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.weight.fill_(1)
        _one_hot(model.embeddings.word_embeddings.weight, _WORD)
        _one_hot(model.embeddings.position_embeddings.weight, _POSITION)
        _one_hot(model.embeddings.token_type_embeddings.weight, _SEGMENT)
        for layer in model.encoder.layer if carries else ():
            layer.attention.self.value.bias.fill_(1)
            layer.attention.output.dense.weight.fill_(1e-9)
        for (layer, head), pattern in plan.items():
            attention = model.encoder.layer[layer].attention.self
            query, key = _QUERIES_AND_KEYS[pattern]()
            _install(attention.query, head, query * SHARP * HEAD_SIZE**0.5)
            _install(attention.key, head, key)
    model.save_pretrained(directory)
    _tokenizer().save_pretrained(directory)
    return directory


_WORD = 0
_POSITION = len(VOCABULARY)
_SEGMENT = _POSITION + POSITIONS
_FEATURES = _SEGMENT + 2


def _one_hot(weight: torch.Tensor, start: int) -> None:
    for row in range(len(weight)):
        weight[row, start + row] = 1


def _install(linear: torch.nn.Linear, head: int, matrix: torch.Tensor) -> None:
    """Undo the layer norm of three ones among `size` zeros, then apply `matrix` to the features."""
    size = linear.weight.shape[1]
    mean = 3 / size
    spread = (mean - mean**2) ** 0.5
    rows = slice(head * HEAD_SIZE, (head + 1) * HEAD_SIZE)
    linear.weight[rows, :_FEATURES] = matrix * spread
    linear.bias[rows] = matrix.sum(1) * mean


def _blank() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(HEAD_SIZE, _FEATURES), torch.zeros(HEAD_SIZE, _FEATURES)


def _shifted(by: int) -> tuple[torch.Tensor, torch.Tensor]:
    query, key = _blank()
    for position in range(POSITIONS):
        key[position, _POSITION + position] = 1
        if 0 <= position + by < POSITIONS:
            query[position + by, _POSITION + position] = 1
    return query, key


def _next_three() -> tuple[torch.Tensor, torch.Tensor]:
    shifted = [_shifted(by) for by in (1, 2, 3)]
    return sum((query for query, _ in shifted), torch.zeros(HEAD_SIZE, _FEATURES)), shifted[0][1]


def _words(*texts: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Every token looks at some words, wherever they stand."""
    query, key = _blank()
    query[0, _POSITION:_SEGMENT] = 1  # every token has one position
    for text in texts:
        key[0, _WORD + VOCABULARY.index(text)] = 1
    return query, key


def _articles_to_nouns() -> tuple[torch.Tensor, torch.Tensor]:
    """Articles look at nouns, wherever they stand; other words look at all alike."""
    query, key = _blank()
    for texts, into in ((ARTICLES, query), (NOUNS, key)):
        for text in texts:
            into[0, _WORD + VOCABULARY.index(text)] = 1
    return query, key


def _first_two() -> tuple[torch.Tensor, torch.Tensor]:
    query, key = _blank()
    query[0, _POSITION:_SEGMENT] = 1
    key[0, _POSITION + 1 : _POSITION + 3] = 1  # behind [CLS]
    return query, key


def _delimiter() -> tuple[torch.Tensor, torch.Tensor]:
    return _words("[CLS]", "[SEP]")


def _delimiter_by_three_neurons() -> tuple[torch.Tensor, torch.Tensor]:
    query, key = _blank()
    query[:3, _POSITION:_SEGMENT] = 1 / 3
    for special in ("[CLS]", "[SEP]"):
        key[:3, _WORD + VOCABULARY.index(special)] = 1
    return query, key


def _identical() -> tuple[torch.Tensor, torch.Tensor]:
    query, key = _blank()
    for word in range(len(VOCABULARY)):
        query[word, _WORD + word] = key[word, _WORD + word] = 1
    return query, key


def _cross_sentence() -> tuple[torch.Tensor, torch.Tensor]:
    query, key = _identical()
    for segment in (0, 1):
        query[len(VOCABULARY) + segment, _SEGMENT + 1 - segment] = 1
        key[len(VOCABULARY) + segment, _SEGMENT + segment] = 1
    return query, key


def _bag_of_words() -> tuple[torch.Tensor, torch.Tensor]:
    query, key = _blank()
    for segment in (0, 1):
        query[segment, _SEGMENT + segment] = key[segment, _SEGMENT + segment] = 1
        for special in ("[CLS]", "[SEP]"):
            key[segment, _WORD + VOCABULARY.index(special)] = -1
    return query, key


def _bag_of_first_sentence() -> tuple[torch.Tensor, torch.Tensor]:
    """What `bag-of-words` is for sentence A; words of B look at delimiters."""
    query, key = _blank()
    query[0, _SEGMENT] = key[0, _SEGMENT] = query[1, _SEGMENT + 1] = 1
    for special in ("[CLS]", "[SEP]"):
        key[0, _WORD + VOCABULARY.index(special)] = -1
        key[1, _WORD + VOCABULARY.index(special)] = 1
    return query, key


_QUERIES_AND_KEYS = {
    "next-word": lambda: _shifted(1),
    "previous-word": lambda: _shifted(-1),
    "identical": _identical,
    "cross-sentence": _cross_sentence,
    "delimiter": _delimiter,
    "bag-of-words": _bag_of_words,
    "delimiter by three neurons": _delimiter_by_three_neurons,
    "bag of first sentence": _bag_of_first_sentence,
    "next three": _next_three,
    "punctuation": lambda: _words(".", ","),
    "first two": _first_two,
    "articles to nouns": _articles_to_nouns,
    "two on": lambda: _shifted(2),
}


def _tokenizer() -> PreTrainedTokenizerFast:
    numbers = {token: i for i, token in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, numbers[token]) for token in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )

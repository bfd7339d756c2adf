"""A BERT whose weights are constructed, so that chosen heads follow chosen patterns exactly.

Every token's embedding is three ones: its word, its position, its segment. Attention outputs and
feed-forward layers are zero, so every layer reads these embeddings unchanged. A head's queries and
keys then pick out what its pattern needs; a head that is given no pattern has zero queries and
spreads evenly.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from support.tokenizers_of_kinds import BERT, wordpiece_of
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from attnscan.inputs.sentence import Pair

DELIMITERS = ["[CLS]", "[SEP]"]
ARTICLES = ["the", "a", "i"]
NOUNS = ["cat", "dog", "mat", "store"]
VERBS = ["sat", "ran", "went", "bought"]
WORDS = [*ARTICLES, *NOUNS, *VERBS, "on", "to", ".", ",", "straw", "##berries"]
VOCABULARY = [*BERT, *WORDS]
POSITIONS = 28
HEAD_SIZE = 32
SHARP = 40.0  # the gap between the logits of what a head looks at and of all else

Plan = dict[tuple[int, int], str]
"""(layer, head) -> pattern, or one of the other ways that are constructed below."""
BEFORE: Plan = {
    (0, 0): "next-word",
    (0, 1): "delimiter",
    (1, 2): "previous-word",
    (1, 3): "identical",
}
AFTER: Plan = {
    (0, 0): "next-word",
    (0, 3): "delimiter",
    (1, 2): "delimiter",
    (1, 1): "previous-word",
    (1, 0): "identical",
}
"""Two models that differ by construction, to be compared on these pairs."""
PAIRS = [
    Pair("the cat sat on the mat", "a dog ran"),
    Pair("i went to the store .", "the store"),
    Pair("a cat", "the cat ran"),
    Pair("the dog sat , a cat ran", "the dog"),
]


def save_toy_bert(
    directory: Path, layers: int, heads: int, plan: Plan, *, carries: bool = False
) -> Path:
    """Save a checkpoint whose heads follow `plan`, and a tokenizer that knows VOCABULARY.

    Values are zero, and heads carry nothing; with `carries`, every token has as much to give, next
    to nothing, so that what heads carry is what they look at.
    """
    sizes = {
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 8,
        "pad_token_id": 0,
    }
    words = {
        "vocab_size": len(VOCABULARY),
        "hidden_size": heads * HEAD_SIZE,
        "max_position_embeddings": POSITIONS,
    }
    model = BertModel(BertConfig(**sizes, **words)).eval()
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
    toy_tokenizer().save_pretrained(directory)
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


Matrices = tuple[torch.Tensor, torch.Tensor]
"""What queries and keys pick out. Shape: each [HEAD_SIZE, _FEATURES]."""


def _blank() -> Matrices:
    return torch.zeros(HEAD_SIZE, _FEATURES), torch.zeros(HEAD_SIZE, _FEATURES)


def _of(texts: Sequence[str]) -> list[int]:
    """The features of some words."""
    return [_WORD + VOCABULARY.index(text) for text in texts]


def _shifted(*steps: int) -> Matrices:
    """Every token looks at those so many places on."""
    query, key = _blank()
    for position in range(POSITIONS):
        key[position, _POSITION + position] = 1
        for by in steps:
            if 0 <= position + by < POSITIONS:
                query[position + by, _POSITION + position] = 1
    return query, key


def _looking_at(features: Sequence[int], neurons: int = 1) -> Matrices:
    """Every token, which has one position, looks at those with some features."""
    query, key = _blank()
    query[:neurons, _POSITION:_SEGMENT] = 1 / neurons
    key[:neurons, list(features)] = 1
    return query, key


def _articles_to_nouns() -> Matrices:
    """Articles look at nouns, wherever they stand; other words look at all alike."""
    query, key = _blank()
    query[0, _of(ARTICLES)] = key[0, _of(NOUNS)] = 1
    return query, key


def _identical() -> Matrices:
    query, key = _blank()
    for word in range(len(VOCABULARY)):
        query[word, _WORD + word] = key[word, _WORD + word] = 1
    return query, key


def _cross_sentence() -> Matrices:
    query, key = _identical()
    for segment in (0, 1):
        query[len(VOCABULARY) + segment, _SEGMENT + 1 - segment] = 1
        key[len(VOCABULARY) + segment, _SEGMENT + segment] = 1
    return query, key


def _bag_of_words() -> Matrices:
    query, key = _blank()
    for segment in (0, 1):
        query[segment, _SEGMENT + segment] = key[segment, _SEGMENT + segment] = 1
        key[segment, _of(DELIMITERS)] = -1
    return query, key


def _bag_of_first_sentence() -> Matrices:
    """What `bag-of-words` is for sentence A; words of B look at delimiters."""
    query, key = _blank()
    query[0, _SEGMENT] = key[0, _SEGMENT] = query[1, _SEGMENT + 1] = 1
    key[0, _of(DELIMITERS)] = -1
    key[1, _of(DELIMITERS)] = 1
    return query, key


_QUERIES_AND_KEYS: dict[str, Callable[[], Matrices]] = {
    "next-word": lambda: _shifted(1),
    "previous-word": lambda: _shifted(-1),
    "identical": _identical,
    "cross-sentence": _cross_sentence,
    "delimiter": lambda: _looking_at(_of(DELIMITERS)),
    "bag-of-words": _bag_of_words,
    "delimiter by three neurons": lambda: _looking_at(_of(DELIMITERS), 3),
    "bag of first sentence": _bag_of_first_sentence,
    "next three": lambda: _shifted(1, 2, 3),
    "punctuation": lambda: _looking_at(_of([".", ","])),
    "first two": lambda: _looking_at([_POSITION + 1, _POSITION + 2]),  # behind [CLS]
    "articles to nouns": _articles_to_nouns,
    "two on": lambda: _shifted(2),
}


def toy_tokenizer() -> PreTrainedTokenizerFast:
    """As BERT's, with segments."""
    return wordpiece_of(VOCABULARY, "token_type_ids")

"""A small tokenizer of each kind in use, trained on the spot."""

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PhobertTokenizer, PreTrainedTokenizerFast

from attnscan.errors import InputError
from attnscan.inputs.encode import encode_pairs
from attnscan.inputs.sentence import EncodedInput, Pair, Unit

BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_INPUTS = ["input_ids", "attention_mask"]
CORPUS = [
    "the cat sat on the mat .",
    "a cat ran to the store , and i bought fresh strawberries !",
    "The dog sat too; it's the cat's mat .",
    "strawberries and mats and stores and dogs",
] * 4


def encode_pair(tokenizer: Any, pair: Pair, unit: Unit, limit: int, truncate: bool) -> EncodedInput:
    """One input, tokenized by itself. Raises: InputError, TooLongError."""
    (encoded,) = encode_pairs(tokenizer, [pair], unit, limit, truncate)
    if isinstance(encoded, InputError):
        raise encoded
    return encoded


def wordpiece(model: Any = None, *more: str) -> PreTrainedTokenizerFast:
    """As BERT's: lower case, `##` before pieces, [CLS] A [SEP] B [SEP]; trained unless a model is
    given.
    """
    tokenizer = Tokenizer(model or models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if model is None:
        trainer = trainers.WordPieceTrainer(vocab_size=80, special_tokens=BERT, show_progress=False)
        tokenizer.train_from_iterator(CORPUS, trainer)
    return _wrapped(tokenizer, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", BERT, *more)


def wordpiece_of(vocabulary: Sequence[str], *more: str) -> PreTrainedTokenizerFast:
    """As BERT's with this vocabulary; `more` are inputs beside ids and mask, such as
    `token_type_ids`.
    """
    numbers = {token: number for number, token in enumerate(vocabulary)}
    return wordpiece(models.WordPiece(numbers, unk_token="[UNK]"), *more)


def whole_words() -> PreTrainedTokenizerFast:
    """A token for each word, [CLS] A [SEP] B [SEP]: the same in every process, as what is trained
    is not.
    """
    words = sorted(set(" ".join(CORPUS).lower().split()))
    vocabulary = {word: number for number, word in enumerate([*BERT, *words])}
    return wordpiece(models.WordLevel(vocabulary, unk_token="[UNK]"))


def _of_bytes(special: list[str], size: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trained = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet(), "show_progress": False}
    tokenizer.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=size, special_tokens=special, **trained)
    )
    return tokenizer


def byte_level() -> PreTrainedTokenizerFast:
    """As RoBERTa's: cased, `Ġ` before words, <s> A </s></s> B </s>, no segments."""
    special = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
    return _wrapped(_of_bytes(special, 340), "<s> $A </s>", "<s> $A </s> </s> $B </s>", special)


def without_delimiters() -> PreTrainedTokenizerFast:
    """As GPT-2's: byte-level, and what it calls its special token is in no template; nothing to pad
    or mask with.
    """
    end = "<|endoftext|>"
    tokenizer = _of_bytes([end], 320)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    names = dict.fromkeys(("bos_token", "eos_token", "unk_token"), end)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_input_names=_INPUTS, **names)


def prefix_space(knows: bool = True) -> PreTrainedTokenizerFast:
    """As RoBERTa's with a space before the text, of which offsets may not know."""
    special = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
    tokenizer = _of_bytes(special, 340)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    wrapped = _wrapped(tokenizer, "<s> $A </s>", "<s> $A </s> </s> $B </s>", special)
    ends = [(token, tokenizer.token_to_id(token)) for token in ("</s>", "<s>")]
    wrapped.backend_tokenizer.post_processor = processors.RobertaProcessing(
        *ends, trim_offsets=True, add_prefix_space=knows
    )
    return wrapped


def end_of_word() -> PreTrainedTokenizerFast:
    """As CLIP's and XLM's: lower case, `</w>` behind the piece that ends a word."""
    special = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=90, special_tokens=special, end_of_word_suffix="</w>", show_progress=False
        ),
    )
    return _wrapped(tokenizer, "<s> $A </s>", "<s> $A </s> $B </s>", special)


def compatible_characters() -> PreTrainedTokenizerFast:
    """As XLM-R's: letters of one meaning are one (NFKC), as are spaces; `▁` before words."""
    tokenizer = _unigram("<s> $A </s>", "<s> $A </s> </s> $B </s>")
    tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    return tokenizer


def characters() -> PreTrainedTokenizerFast:
    """A token for each character, spaces too, as CANINE's and ByT5's."""
    special = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
    alphabet = sorted(set("".join(CORPUS)) | {" "})
    vocabulary = {token: number for number, token in enumerate([*special, *alphabet])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    return _wrapped(tokenizer, "$A </s>", "$A </s> $B </s>", special)


def words_at_spaces() -> PreTrainedTokenizerFast:
    """A token for each word between spaces, case and punctuation kept; one was added later."""
    special = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
    words = sorted(set(" ".join(CORPUS).split()))
    vocabulary = {token: number for number, token in enumerate([*special, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    wrapped = _wrapped(tokenizer, "<s> $A </s>", "<s> $A </s> $B </s>", special)
    wrapped.add_tokens(["the cat"])
    return wrapped


def beginning_alone() -> PreTrainedTokenizerFast:
    """As Llama's: `▁` before words, one delimiter at the beginning, none between sentences."""
    return _unigram("<s> $A", "<s> $A $B:1")


def ending() -> PreTrainedTokenizerFast:
    """As T5's: `▁` before words, a delimiter behind each sentence."""
    return _unigram("$A </s>", "$A </s> $B </s>")


def unigram() -> PreTrainedTokenizerFast:
    """As XLNet's: SentencePiece, `▁` before words, delimiters at the end."""
    return _unigram("$A <sep> <cls>", "$A <sep> $B:1 <sep>:1 <cls>:2", sep="<sep>", cls="<cls>")


def written_in_python(directory: Path) -> PhobertTokenizer:
    """As PhoBERT's and BERTweet's: no tokenizer.json, `@@` behind a piece that goes on, <s> A
    </s></s> B </s>.
    """
    words = ["the", "cat", "dog", "sat", "a", "and", "straw@@", "berries", "mat", "."]
    (directory / "vocab.txt").write_text("".join(f"{word} 1\n" for word in words), encoding="utf-8")
    merges = "t h|th e</w>|c a|ca t</w>|d o|do g</w>|s a|sa t</w>|a n|an d</w>|m a|ma t</w>"
    merges += "|s t|st r|str a|stra w"
    merges += "|b e|be r|ber r|berr i|berri e|berrie s</w>"
    (directory / "bpe.codes").write_text(
        "".join(f"{merge} 1\n" for merge in merges.split("|")), encoding="utf-8"
    )
    return PhobertTokenizer(str(directory / "vocab.txt"), str(directory / "bpe.codes"))


def marian(directory: Path) -> Any:
    """As Marian's: SentencePiece by its own library, with a model for sources and another one for
    targets.
    """
    sentencepiece = pytest.importorskip("sentencepiece")
    from transformers import MarianTokenizer

    (directory / "corpus.txt").write_text("\n".join(CORPUS * 20), encoding="utf-8")
    pieces = ["</s>", "<unk>"]
    for name, size in (("source", 60), ("target", 50)):
        where = {"input": str(directory / "corpus.txt"), "model_prefix": str(directory / name)}
        sentencepiece.SentencePieceTrainer.train(
            **where, vocab_size=size, hard_vocab_limit=False, minloglevel=2
        )
        model = sentencepiece.SentencePieceProcessor(model_file=str(directory / f"{name}.model"))
        pieces += map(model.id_to_piece, range(len(model)))
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys([*pieces, "<pad>"]))}
    (directory / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    paths = (str(directory / name) for name in ("source.model", "target.model", "vocab.json"))
    with warnings.catch_warnings(action="ignore"):  # it recommends a package of its own
        return MarianTokenizer(*paths)


KINDS = {"wordpiece": wordpiece, "byte-level": byte_level, "unigram": unigram}


def _unigram(
    single: str, pair: str, sep: str = "</s>", cls: str = "<s>"
) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<pad>", "<unk>", cls, sep, "<mask>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=90, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return _wrapped(tokenizer, single, pair, special)


def _wrapped(
    tokenizer: Tokenizer, single: str, pair: str, special: list[str], *more: str
) -> PreTrainedTokenizerFast:
    numbers = [(token, tokenizer.token_to_id(token)) for token in special]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=numbers
    )
    names = dict(
        zip(
            ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True
        )
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_input_names=[*_INPUTS, *more], **names
    )

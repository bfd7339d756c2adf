"""A tiny T5 that was trained to translate a toy language word by word in reversed order: the right
links are known.

`tests/data/translator` has it, and says how it was trained. A word of the source occurs once in a
sentence, so that each word of the target has one link. Beside it, random ones of several families,
and what transformers itself gives.
"""

from pathlib import Path
from typing import Any

import torch
from support.families import ENCODER_DECODERS
from support.tokenizers_of_kinds import ending
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

TRANSLATOR = Path(__file__).parents[1] / "data" / "translator"
SOURCE = (
    "bado",
    "fela",
    "gumi",
    "hora",
    "jiku",
    "kepo",
    "lani",
    "mosu",
    "nitu",
    "pavi",
    "rezo",
    "tulu",
)
TARGET = tuple(word[::-1].upper() for word in SOURCE)
_SPECIAL = ("<pad>", "</s>", "<unk>")
_VOCABULARY = (*_SPECIAL, *SOURCE, *TARGET)
_CONFIG = T5Config(
    vocab_size=len(_VOCABULARY),
    d_model=48,
    d_kv=12,
    d_ff=64,
    num_layers=2,
    num_decoder_layers=2,
    num_heads=4,
    relative_attention_num_buckets=16,
    relative_attention_max_distance=16,
    dropout_rate=0.0,
    decoder_start_token_id=0,
    pad_token_id=0,
    eos_token_id=1,
)


def tokenizer() -> PreTrainedTokenizerFast:
    """Words between spaces, and `</s>` at the end, as T5's."""
    words = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(_VOCABULARY)}, unk_token="<unk>")
    )
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    inputs = ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=words, model_input_names=inputs, **names)


def sentences(count: int, seed: int) -> list[list[int]]:
    """Three to eight words of the source by their numbers, none twice in a sentence."""
    rng = torch.Generator().manual_seed(seed)
    lengths = torch.randint(3, 9, (count,), generator=rng).tolist()
    return [torch.randperm(len(SOURCE), generator=rng)[:length].tolist() for length in lengths]


def pairs(count: int) -> list[tuple[str, str, str]]:
    """Sources, targets and the links of their words, as Pharaoh writes them."""
    made = []
    for words in sentences(count, seed=1):
        links = " ".join(f"{len(words) - 1 - place}-{place}" for place in range(len(words)))
        target = " ".join(TARGET[word] for word in reversed(words))
        made.append((" ".join(SOURCE[word] for word in words), target, links))
    return made


def write(directory: Path, count: int) -> tuple[str, str]:
    """Write a file of pairs and one of their links."""
    files = directory / "p.tsv", directory / "links"
    files[0].write_text(
        "source\ttarget\n" + "".join(f"{source}\t{target}\n" for source, target, _ in pairs(count))
    )
    files[1].write_text("".join(f"{links}\n" for *_, links in pairs(count)))
    return str(files[0]), str(files[1])


def untrained() -> T5ForConditionalGeneration:
    """A model of the same shape, of random numbers."""
    torch.manual_seed(0)
    return T5ForConditionalGeneration(_CONFIG).eval()


def save(model: Any, directory: Path, tokens: PreTrainedTokenizerFast | None = None) -> Path:
    """Save a model with its tokenizer."""
    model.save_pretrained(directory)
    (tokens or tokenizer()).save_pretrained(directory)
    return directory


def random_of(family: str, directory: Path) -> Path:
    """Save a random checkpoint of a family; BART's kin have 4 heads in the encoder and 2 in the
    decoder.
    """
    tokens = ending()
    end, pad = tokens.convert_tokens_to_ids(["</s>", "<pad>"])
    ids = {
        "vocab_size": len(tokens),
        "pad_token_id": pad,
        "eos_token_id": end,
        "decoder_start_token_id": pad,
    }
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        family, **ENCODER_DECODERS[family][0] | ids, forced_eos_token_id=None
    )
    return save(AutoModelForSeq2SeqLM.from_config(config), directory, tokens)


def eager(checkpoint: Path, source: str, target: str) -> Any:
    """What transformers gives of a pair: attention weights of all kinds, and logits, by the
    target's labels.
    """
    tokens = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModelForSeq2SeqLM.from_pretrained(checkpoint, attn_implementation="eager").eval()
    labels = tokens(text_target=target, return_tensors="pt").input_ids
    with torch.no_grad():
        return model(**tokens(source, return_tensors="pt"), labels=labels, output_attentions=True)

"""Languages of multilingual translators: the tokens that begin or end each text are those that were asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_checkpoints import SMALL, refusal, save
from torch import Tensor
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertModel,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MBart50Tokenizer,
    MBartConfig,
    MBartForConditionalGeneration,
    MBartTokenizer,
    NllbTokenizer,
)

import attnscan
from attnscan.errors import OptionError
from attnscan.model.loading import load
from attnscan.model.sources import Source
from attnscan.model.writing import _beginning

GERMAN, FRENCH = "Der Hund schlaeft", "Le chien dort"
PIECES = ["▁", *sorted(set(f"{GERMAN}{FRENCH}") - {" "})]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
NAMES = {"nllb": ("deu_Latn", "fra_Latn"), "mbart": ("de_DE", "fr_XX"), "mbart50": ("de_DE", "fr_XX")}


def _tokenizer(family: str) -> Any:
    if family == "nllb":
        made = NllbTokenizer(vocab={piece: i for i, piece in enumerate([*SPECIAL, *PIECES])}, merges=[])
    else:
        kind = MBartTokenizer if family == "mbart" else MBart50Tokenizer
        made = kind(vocab=[(piece, 0.0) for piece in [*SPECIAL, *PIECES]])
    made.model_max_length = 64
    return made


@pytest.fixture(scope="module", params=list(NAMES))
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def translator(family: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random model with a tokenizer that was saved without languages."""
    directory, tokenizer = tmp_path_factory.mktemp(family), _tokenizer(family)
    sizes = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "max_position_embeddings": 64}
    sizes |= {f"{part}_attention_heads": 4 for part in ("encoder", "decoder")}
    sizes |= {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
    torch.manual_seed(0)
    model = (
        M2M100ForConditionalGeneration(M2M100Config(vocab_size=len(tokenizer), init_std=0.5, **sizes))
        if family == "nllb"
        else MBartForConditionalGeneration(MBartConfig(vocab_size=len(tokenizer), init_std=0.5, **sizes))
    )
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return str(directory)


def _reference(translator: str, family: str, source: str, target: str) -> Tensor:
    """Cross attention as transformers gives it in these languages. Shape: [layer, head, target, source]."""
    kind = M2M100ForConditionalGeneration if family == "nllb" else MBartForConditionalGeneration
    tokenizer = AutoTokenizer.from_pretrained(translator, src_lang=source, tgt_lang=target)
    model = kind.from_pretrained(translator, attn_implementation="eager").eval()
    given = tokenizer(GERMAN, text_target=FRENCH, return_tensors="pt")
    with torch.no_grad():
        read = model.prepare_decoder_input_ids_from_labels(given.labels) if family != "nllb" else None
        if read is None:
            read = torch.cat([torch.tensor([[2]]), given.labels[:, :-1]], 1)
        inputs = {"input_ids": given.input_ids, "attention_mask": given.attention_mask, "decoder_input_ids": read}
        shown = model(**inputs, output_attentions=True).cross_attentions
    return torch.cat(shown)


def test_weights_are_those_of_the_languages_asked_for(translator: str, family: str) -> None:
    source, target = NAMES[family]
    languages = {"source_language": source, "target_language": target}
    result = attnscan.classify(GERMAN, FRENCH, model=translator, attention="cross", predictive="off", **languages)
    attention, expected = result.attention, _reference(translator, family, source, target).numpy()
    assert attention is not None
    keys = attention.source
    np.testing.assert_allclose(attention.weights[..., keys:, :keys], expected, atol=1e-5)
    assert source in attention.tokens[:keys] and target in attention.tokens[keys:]
    of_others = _reference(translator, family, target, source).numpy()
    assert abs(attention.weights[..., keys:, :keys] - of_others).max() > 1e-3, "the control: languages matter"


def test_what_is_written_begins_with_the_targets_language(
    translator: str, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load(Source("tiny", translator), attention="cross", languages=NAMES[family])
    tokens = loaded.tokenizer.convert_ids_to_tokens(_beginning(loaded.model, loaded.tokenizer))
    assert tokens == (["fr_XX"] if family == "mbart" else ["</s>", NAMES[family][1]])
    begun: list[list[int]] = []
    generate = type(loaded.model).generate
    monkeypatch.setattr(
        type(loaded.model),
        "generate",
        lambda self, **given: (begun.append(given["decoder_input_ids"][0].tolist()), generate(self, **given))[1],
    )
    languages = dict(zip(("source_language", "target_language"), NAMES[family], strict=True))
    refused = {"max_target_tokens": 3, "attention": "cross", "predictive": "off"}
    try:
        attnscan.classify(GERMAN, model=translator, **refused, **languages)
    except attnscan.AttnscanError as error:  # a random model may write no word
        assert "writes no word" in str(error)
    assert begun == [_beginning(loaded.model, loaded.tokenizer)]


def test_languages_are_never_guessed(translator: str, family: str) -> None:
    source, target = NAMES[family]
    place = Source("tiny", translator)
    line = refusal(lambda: load(place, attention="cross"))
    assert "it is not said which these are" in line and "source_language and target_language" in line
    line = refusal(lambda: load(place, attention="cross", languages=(source, None)))
    assert "give target_language;" in line
    assert "give source_language;" in refusal(lambda: load(place))
    assert load(place, languages=(source, None)).tokenizer.src_lang == source
    line = refusal(lambda: load(place, languages=(f"{source}x", target)))
    assert f"has no language '{source}x'" in line and f"did you mean '{source}'?" in line


def test_a_tokenizer_without_languages_takes_none(tmp_path: Path) -> None:
    path = save(tmp_path / "bert", BertModel(BertConfig(**SMALL)))
    assert "has no languages" in refusal(lambda: load(Source("tiny", str(path)), languages=("en", None)))
    held = attnscan.load(str(path))
    with pytest.raises(OptionError, match="a loaded model keeps its own tokenizer and languages"):
        attnscan.classify("the cat", model=held, source_language="en")

"""What a translator reads and writes: tokens of its languages, and targets shifted as labels."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.families import (
    ENCODER_DECODERS,
    TAPPED,
    tiny_encoder_decoder,
    tiny_model,
    tiny_writer,
)
from support.tiny_checkpoints import SMALL, refusal, save
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    BertConfig,
    BertModel,
    GenerationMixin,
    MBart50Tokenizer,
    MBartTokenizer,
    NllbTokenizer,
)

import attnscan
from attnscan.errors import OptionError
from attnscan.model.architecture import writes_text
from attnscan.model.loading import load
from attnscan.model.sources import Source
from attnscan.model.writing import shift_right

pytestmark = pytest.mark.usefixtures("quiet")
GERMAN = "Der Hund schlaeft"
FRENCH = "Le chien dort"
PIECES = ["▁", *sorted(set(f"{GERMAN}{FRENCH}") - {" "})]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
NAMES = {
    "nllb": ("deu_Latn", "fra_Latn"),
    "mbart": ("de_DE", "fr_XX"),
    "mbart50": ("de_DE", "fr_XX"),
}


def _tokenizer(family: str) -> Any:
    if family == "nllb":
        made = NllbTokenizer(
            vocab={piece: i for i, piece in enumerate([*SPECIAL, *PIECES])}, merges=[]
        )
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
    directory = tmp_path_factory.mktemp(family)
    tokenizer = _tokenizer(family)
    sizes = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "max_position_embeddings": 64}
    sizes |= {f"{part}_attention_heads": 4 for part in ("encoder", "decoder")}
    sizes |= {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
    torch.manual_seed(0)
    config = AutoConfig.for_model("m2m_100" if family == "nllb" else "mbart", **sizes, init_std=0.5)
    config.vocab_size = len(tokenizer)
    AutoModelForSeq2SeqLM.from_config(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return str(directory)


def _reference(translator: str, family: str, source: str, target: str) -> Tensor:
    """Cross attention as transformers gives it in these languages.

    Shape: [layer, head, target, source].
    """
    tokenizer = AutoTokenizer.from_pretrained(translator, src_lang=source, tgt_lang=target)
    model = AutoModelForSeq2SeqLM.from_pretrained(translator, attn_implementation="eager").eval()
    encoding = tokenizer(GERMAN, text_target=FRENCH, return_tensors="pt")
    with torch.no_grad():
        if family == "nllb":
            read = torch.cat([torch.tensor([[2]]), encoding.labels[:, :-1]], 1)
        else:
            read = model.prepare_decoder_input_ids_from_labels(encoding.labels)
        inputs = {
            "input_ids": encoding.input_ids,
            "attention_mask": encoding.attention_mask,
            "decoder_input_ids": read,
        }
        return torch.cat(model(**inputs, output_attentions=True).cross_attentions)


def test_weights_are_those_of_the_languages_asked_for(translator: str, family: str) -> None:
    source, target = NAMES[family]
    languages = {"source_language": source, "target_language": target}
    result = attnscan.classify(
        GERMAN, FRENCH, model=translator, attention="cross", predictive="off", **languages
    )
    attention = result.attention
    expected = _reference(translator, family, source, target).numpy()
    assert attention is not None
    keys = attention.source
    np.testing.assert_allclose(attention.weights[..., keys:, :keys], expected, atol=1e-5)
    assert source in attention.tokens[:keys] and target in attention.tokens[keys:]
    swapped = _reference(translator, family, target, source).numpy()
    assert abs(attention.weights[..., keys:, :keys] - swapped).max() > 1e-3, (
        "the control: languages matter"
    )


def test_what_is_written_begins_with_the_targets_language(
    translator: str, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = NAMES[family]
    begun: list[list[int]] = []

    def generate(_: Any, decoder_input_ids: Tensor, **_options: Any) -> None:
        begun.append(decoder_input_ids[0].tolist())
        raise KeyboardInterrupt

    monkeypatch.setattr(GenerationMixin, "generate", generate)
    languages = {"source_language": source, "target_language": target}
    with pytest.raises(KeyboardInterrupt):
        attnscan.classify(
            GERMAN, model=translator, attention="cross", predictive="off", **languages
        )
    tokens = AutoTokenizer.from_pretrained(translator).convert_ids_to_tokens(begun[0])
    assert tokens == ([target] if family == "mbart" else ["</s>", target])


def test_languages_are_never_guessed(translator: str, family: str) -> None:
    source, target = NAMES[family]
    place = Source("tiny", translator)
    line = refusal(lambda: load(place, attention="cross"))
    assert (
        "it is not said which these are" in line and "source_language and target_language" in line
    )
    line = refusal(lambda: load(place, attention="cross", languages=(source, None)))
    assert "give target_language;" in line
    assert "give source_language;" in refusal(lambda: load(place))
    assert load(place, languages=(source, None)).tokenizer.src_lang == source
    line = refusal(lambda: load(place, languages=(f"{source}x", target)))
    assert f"has no language '{source}x'" in line and f"did you mean '{source}'?" in line


def test_a_tokenizer_without_languages_takes_none(tmp_path: Path) -> None:
    path = save(tmp_path / "bert", BertModel(BertConfig(**SMALL)))
    assert "has no languages" in refusal(
        lambda: load(Source("tiny", str(path)), languages=("en", None))
    )
    held = attnscan.load(str(path))
    with pytest.raises(OptionError, match="a loaded model keeps its own tokenizer and languages"):
        attnscan.classify("the cat", model=held, source_language="en")


LABELS = [7, 8, 9, 2]


@pytest.mark.filterwarnings("ignore:Version v4.12.0")
@pytest.mark.parametrize("family", ENCODER_DECODERS)
def test_targets_are_shifted_as_the_model_shifts_labels(family: str) -> None:
    model = tiny_writer(family)
    read = []
    assert writes_text(model)
    if (
        family == "fsmt"
    ):  # which shifts the source in place of the labels, and has a method for them
        assert shift_right(model, LABELS) == [LABELS[-1], *LABELS[:-1]]
        return

    def note(_module: Any, _positional: Any, named: dict[str, Any]) -> None:
        read.append(named["input_ids"][0].tolist())

    model.get_decoder().register_forward_pre_hook(note, with_kwargs=True)
    with torch.no_grad():
        model(input_ids=torch.tensor([[5, 6, 7, 2]]), labels=torch.tensor([LABELS]))
    assert shift_right(model, LABELS) == read[0]


def test_what_does_not_write_is_known() -> None:
    assert not writes_text(tiny_model("bert", TAPPED["bert"]))
    assert not writes_text(tiny_encoder_decoder("bart"))  # without the head that predicts words
    assert not writes_text(tiny_encoder_decoder("bart").get_encoder())

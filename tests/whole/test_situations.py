"""Situations that users told of in public, each tried whole: checkpoints, treebanks and data sets as they are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_checkpoints import SMALL, save
from transformers import AutoModel, AutoTokenizer, BertConfig, BertForSequenceClassification, BertModel
from treebanks import line

import attnscan
from attnscan.errors import AttnscanError, ModelError

A, B = "The cat sat.", "The cats sat on the mat."
PAIRS = [(A, B), ("On the mat.", "The cat."), ("Cat, sat.", "On the cat."), ("The mat sat.", "Mats.")]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    return save(tmp_path_factory.mktemp("tiny") / "tiny", BertModel(BertConfig(**SMALL)))


def scores(model: Path) -> Any:
    options = {"predictive": "off", "related": False}
    return attnscan.classify(A, B, model=str(model), **options).to_frame().drop(columns="model")


def with_more_tokens(checkpoint: Path, directory: Path, padding: int | None = None) -> Path:
    """The checkpoint with a token more; its embeddings are resized unless `padding`, the rows more, is None."""
    model, tokenizer = AutoModel.from_pretrained(checkpoint), AutoTokenizer.from_pretrained(checkpoint)
    tokenizer.add_tokens(["dog"])
    if padding is not None:
        model.resize_token_embeddings(len(tokenizer) + padding, mean_resizing=False)
    for part in (model, tokenizer):
        part.save_pretrained(directory)
    return directory


def test_a_sharded_checkpoint_in_half_precision_is_read_in_float32(checkpoint: Path, tmp_path: Path) -> None:
    half = AutoModel.from_pretrained(checkpoint, dtype=torch.float16)
    half.save_pretrained(tmp_path / "half", max_shard_size="2KB")
    AutoTokenizer.from_pretrained(checkpoint).save_pretrained(tmp_path / "half")
    assert len(list((tmp_path / "half").glob("*.safetensors"))) > 2
    assert scores(tmp_path / "half").equals(scores(save(tmp_path / "whole", half.float())))


def test_embeddings_that_were_resized_for_new_tokens_are_read(checkpoint: Path, tmp_path: Path) -> None:
    resized = with_more_tokens(checkpoint, tmp_path / "resized", 3)  # padded, as for a GPU
    assert "dog" in attnscan.classify("The dog sat.", model=str(resized)).units
    ours, theirs = (scores(path).select_dtypes("number") for path in (resized, checkpoint))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    with pytest.raises(AttnscanError, match="tokenizer"):
        attnscan.classify("The dog sat.", model=str(with_more_tokens(checkpoint, tmp_path / "unfit")))


def test_models_of_different_tokenizers_are_compared_by_place(checkpoint: Path, tmp_path: Path) -> None:
    """Where their heads have no places in common either, no remedy leads to the other."""
    for match in ("place", "nearest"):
        with pytest.raises(ModelError, match="of one tokenizer"):
            attnscan.compare(str(checkpoint), "bundled", PAIRS, match=match)
    told = str(checkpoint), str(with_more_tokens(checkpoint, tmp_path / "more", 0))
    with pytest.raises(ModelError, match="leave out match='nearest'"):
        attnscan.compare(*told, PAIRS, match="nearest")
    assert len(attnscan.compare(*told, PAIRS).to_frame())


def test_a_wrapped_checkpoint_is_refused_with_a_remedy(checkpoint: Path, tmp_path: Path) -> None:
    wrapped = with_more_tokens(checkpoint, tmp_path, 0) / "model.safetensors"
    save_file({f"module.{name}": value for name, value in load_file(wrapped).items()}, wrapped, {"format": "pt"})
    with pytest.raises(ModelError, match=r"module\."):
        scores(tmp_path)


def test_special_tokens_that_are_typed_are_words(checkpoint: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "attnscan")
    result = attnscan.classify("The cat [SEP] sat.", model=str(checkpoint))
    delimiters = [unit for unit, sentence in zip(result.units, result.sentence, strict=True) if sentence < 0]
    assert delimiters == ["[CLS]", "[SEP]"] and "[SEP]" in caplog.text


def test_pairs_that_nobody_agreed_on_have_no_label(tmp_path: Path) -> None:
    """SNLI writes `-` where its annotators disagree."""
    config = BertConfig(**SMALL, num_labels=2, id2label={0: "yes", 1: "no"}, label2id={"yes": 0, "no": 1})
    directory, file = save(tmp_path / "classifier", BertForSequenceClassification(config)), tmp_path / "pairs.tsv"
    rows = [f"{label}\t{a}\t{b}" for (a, b), label in zip(PAIRS, ("yes", "-", "no", "yes"), strict=True)]
    file.write_text("\n".join(["label\tsentence_a\tsentence_b", *rows]) + "\n")
    result = attnscan.ablate(file, heads="0-0", measure="classifier", model=str(directory), draws=2)
    assert result.signature.pairs_read == 4


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_treebank_may_have_empty_nodes_and_any_line_ends(end: str, tmp_path: Path) -> None:
    text = ["# text = the cat sat", line(1, "the", "DET", 2, "det"), line(2, "cat", "NOUN", 3, "nsubj")]
    text += [line("2.1", "sat", "VERB", "_", "_"), line(3, "sat", "VERB", 0, "root"), "", ""]
    (bank := tmp_path / "bank.conllu").write_bytes(end.join(text * 40).encode())
    with pytest.warns(UserWarning, match="40 sentences"):
        result = attnscan.syntax(bank, model="bundled")
    assert result.sentences == 40 and {row.relation for row in result.rows} >= {"det", "nsubj"}

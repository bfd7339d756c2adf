"""A model of shapes: it tokenizes for the one with weights, and holds none."""

from __future__ import annotations

from pathlib import Path

import pytest
from families import TAPPED, UNTAPPED, tiny_model
from tiny_checkpoints import loaded, refusal, save

from attnscan.errors import InputError
from attnscan.inputs.batch import EncodedInput
from attnscan.inputs.sentence import Pair
from attnscan.model.loading import load_to_tokenize
from attnscan.model.sources import Source, choose

FAMILIES = {**TAPPED, **UNTAPPED}
PAIRS = [Pair("the cat sat on the mat .", "the cats"), Pair("on", "mat"), Pair("the"), Pair("cat " * 70, "sat")]


def told(encoded: EncodedInput | InputError) -> object:
    """Errors are equal by their words."""
    return str(encoded) if isinstance(encoded, InputError) else encoded


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "gpt2", "electra", "deberta-v2"])
def test_it_reads_as_the_model_with_weights_does(family: str, tmp_path: Path) -> None:
    path = save(tmp_path / "model", tiny_model(family, FAMILIES[family]))
    whole, shapes = loaded(path), load_to_tokenize(Source("tiny", str(path)))
    assert (shapes.limit, len(shapes.embedding)) == (whole.limit, len(whole.embedding))
    assert {part.device.type for part in shapes.model.parameters()} == {"meta"}
    for truncate in (False, True):
        told_of_shapes, expected = (
            [*map(told, model.encode_all(PAIRS, "word", truncate=truncate))] for model in (shapes, whole)
        )
        assert told_of_shapes == expected and len(told_of_shapes) == 4


def test_the_bundled_model_is_read_with_weights_and_without(tmp_path: Path) -> None:
    shapes = load_to_tokenize(choose("bundled"))
    (encoded,) = shapes.encode_all([Pair("The cat sat.", "It purred.")], "token", truncate=False)
    assert shapes.limit == 512 and isinstance(encoded, EncodedInput) and encoded.tokens[:3] == ("[CLS]", "the", "cat")
    assert "cannot load the model" in refusal(lambda: load_to_tokenize(Source("none", str(tmp_path))))

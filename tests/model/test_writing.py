"""What a decoder reads of a target is what the model makes of labels itself, in every family that writes text."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from families import ENCODER_DECODERS, tiny_encoder_decoder, tiny_model, tiny_writer

from attnscan.model.writing import shifted, writes_text

pytestmark = pytest.mark.usefixtures("quiet")
LABELS = [7, 8, 9, 2]


@pytest.mark.filterwarnings("ignore:Version v4.12.0")
@pytest.mark.parametrize("family", ENCODER_DECODERS)
def test_targets_are_shifted_as_the_model_shifts_labels(family: str) -> None:
    model, read = tiny_writer(family), []
    assert writes_text(model)
    if family == "fsmt":  # which shifts the source in place of the labels, and has a method for them
        assert shifted(model, LABELS) == [LABELS[-1], *LABELS[:-1]]
        return

    def note(_module: Any, _positional: Any, named: dict[str, Any]) -> None:
        read.append(named["input_ids"][0].tolist())

    model.get_decoder().register_forward_pre_hook(note, with_kwargs=True)
    with torch.no_grad():
        model(input_ids=torch.tensor([[5, 6, 7, 2]]), labels=torch.tensor([LABELS]))
    assert shifted(model, LABELS) == read[0]


def test_what_does_not_write_is_known() -> None:
    assert not writes_text(tiny_model("bert", {"vocab_size": 60}))
    assert not writes_text(tiny_encoder_decoder("bart"))  # without the head that predicts words
    assert not writes_text(tiny_encoder_decoder("bart").get_encoder())

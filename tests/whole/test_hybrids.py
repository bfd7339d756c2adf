"""Models in which only some layers have attention: their layers keep the numbers that they have in the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from families import GROUPED
from tiny_checkpoints import SIZE, refusal, save
from transformers import JambaConfig, JambaModel

import attnscan
from attnscan.errors import SelectionError
from attnscan.results.change import Change
from attnscan.results.grid import Grid
from attnscan.studies.trial import _switch_off

TEXT = "the cat sat on the mat."


@pytest.fixture(scope="module")
def jamba(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Layers 1 and 3 of 4 have attention."""
    torch.manual_seed(0)
    attention = {"num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1}
    experts = {"expert_layer_period": 9, "expert_layer_offset": 8, "num_experts": 1}
    sizes = GROUPED | attention | experts | {"vocab_size": SIZE, "mamba_d_state": 4, "mamba_dt_rank": 4}
    return str(save(tmp_path_factory.mktemp("jamba"), JambaModel(JambaConfig(**sizes))))


def test_heads_are_named_by_the_layers_of_the_model(jamba: str, tmp_path: Path) -> None:
    result = attnscan.classify(TEXT, model=jamba, predictive="off")
    names = [f"L{layer}H{head}" for layer in (1, 3) for head in range(4)]
    assert result.to_frame()["name"].tolist() == names
    assert result.kept_attention().rows_of("3-1", [0]).shape == (1, 9)
    for _ in range(2):  # by the model, and by what was kept
        kept = {"model": jamba, "predictive": "off", "state": tmp_path / "state.npz"}
        ranking = attnscan.heads([TEXT, "the mat"], **kept)
        assert sorted(ranking.to_frame()["layer"].unique()) == [1, 3]
    assert attnscan.profile(TEXT, model=jamba).to_frame()["layer"].unique().tolist() == [1, 3]
    line = refusal(lambda: attnscan.explain("0-1", TEXT, model=jamba), SelectionError)
    assert line.startswith("0-1: this model has layers 1, 3")


def test_the_head_that_is_named_is_the_one_that_is_switched_off() -> None:
    """The layer 3 is the second that has attention, and the second that a tap shows."""
    named = Grid.of(np.zeros((2, 4)), layers=(1, 3)).select("3-1")
    for layer, off in enumerate(([], [1])):
        _switch_off(Change(off=tuple(named)), layer, output := torch.ones(1, 5, 4, 8))
        assert [head for head in range(4) if not output[:, :, head].any()] == off


def test_models_says_which_layers_have_attention(jamba: str) -> None:
    checkpoint = attnscan.models(jamba)
    assert checkpoint.facts["attention_in"] == (1, 3) and np.isin("attention_in", checkpoint.to_frame()["key"])

"""One check for every family: its attention is what eager attention gives, and its scores are the plain loop's.

Two inputs run as one padded batch, and are held against each of them alone under eager attention, so
that padding is proved to change nothing.
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
import torch
from families import REFUSED, TAPPED, UNTAPPED, Collected, eager_attention, tiny_inputs, tiny_model
from reference import Written, check_head
from written import encoded_tokens

from attnscan.errors import CaptureError
from attnscan.inputs.batch import collate
from attnscan.inputs.sentence import EncodedInput
from attnscan.model.tap import AttentionBlock, Tap
from attnscan.results.scores import Scores
from attnscan.scoring.labels import scores_of
from attnscan.scoring.patterns import PATTERNS
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.units import Targets

pytestmark = pytest.mark.usefixtures("quiet")
FAMILIES = {**TAPPED, **UNTAPPED}
LAYERS, HEADS = 3, {"convbert": 2}  # of the 4 heads in its config


def _written(ids: list[int]) -> Written:
    """Two sentences with delimiters around them; words of few kinds, so that they repeat."""
    middle, last = len(ids) // 2, len(ids) - 1
    tokens = [f"w{number % 3}" for number in ids]
    sentence = [-1 if i in (0, middle, last) else int(i > middle) for i in range(len(ids))]
    return Written(tokens, sentence)


def _encoded(ids: list[int]) -> EncodedInput:
    one = _written(ids)
    special = [sentence < 0 for sentence in one.sentence]
    encoded = encoded_tokens(one.tokens, np.clip(one.sentence, 0, 1).tolist(), special, [False] * len(ids), "token")
    return replace(encoded, model_inputs={"input_ids": ids, "attention_mask": [1] * len(ids)})


@dataclass(frozen=True)
class Outcome:
    """One family's attention, by attnscan in a batch and by transformers for each input alone."""

    read_by_tap: bool
    tapped: list[torch.Tensor]
    """Of each layer. Shape: [batch, head, query, key]."""
    visible: list[torch.Tensor]
    """Of each layer. Shape: [batch, query, key], bool."""
    alone: list[torch.Tensor]
    """Of each input. Shape: [layer, head, query, key]."""
    written: list[Written]
    scores: Scores


@cache
def outcome(family: str) -> Outcome:
    """Run a family once for all tests."""
    model, inputs = tiny_model(family, FAMILIES[family]), tiny_inputs()
    ids = [row[present.bool()].tolist() for row, present in zip(*inputs.values(), strict=True)]
    alone = [torch.cat(eager_attention(model, _single(one))) for one in ids]
    batch = collate([_encoded(one) for one in ids])
    scorer, collected = Scorer(Targets(batch, PATTERNS)), Collected()

    def consume(block: AttentionBlock) -> None:
        assert block.grid.shape == (LAYERS, HEADS.get(family, 4))
        scorer(block)
        collected(block)

    with Tap(model) as tap:
        tap.run(batch.model_inputs, consume)
    layers = sorted(collected.blocks)
    assert layers == [*range(LAYERS)]
    return Outcome(
        read_by_tap=tap.calls.tapped,
        tapped=[collected.layer(layer) for layer in layers],
        visible=[collected.visible(layer) for layer in layers],
        alone=alone,
        written=[_written(one) for one in ids],
        scores=scores_of(scorer.sums(), [pattern.scored for pattern in PATTERNS]),
    )


def _single(ids: list[int]) -> dict[str, torch.Tensor]:
    return {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.int64)}


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_in_a_batch_equal_eager_attention_alone(family: str) -> None:
    """And lie on no padding; a query may see what it gives weight, as random weights leave out no other key."""
    found = outcome(family)
    assert found.read_by_tap == (family in TAPPED) and len(found.alone[0]) == LAYERS
    exact = family in ("t5", "mt5", "umt5", "switch_transformers")  # a position bias leaves weights as exact
    for layer, (weights, visible) in enumerate(zip(found.tapped, found.visible, strict=True)):
        for row, alone in enumerate(found.alone):
            length = alone.shape[-1]
            own = weights[row, :, :length, :length]
            torch.testing.assert_close(own, alone[layer], atol=5e-7 if exact else 1e-5, rtol=0)
            torch.testing.assert_close(own.sum(-1), torch.ones(own.shape[:2]))
            assert torch.equal(visible[row, :length, :length], (alone[layer] > 0).any(0))
            assert not weights[row, :, :length, length:].any() and not visible[row, :length, length:].any()


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_equal_the_plain_loop(family: str) -> None:
    found = outcome(family)
    for head in found.scores.grid:
        visible = [(alone[head.layer] > 0).any(0).numpy() for alone in found.alone]
        weights = [alone[head.place].double().numpy() for alone in found.alone]
        check_head(found.scores, head, found.written, weights, visible=visible)


@pytest.mark.parametrize("family", TAPPED)
def test_weights_follow_from_queries_keys_and_visible_keys(family: str) -> None:
    """From whatever attention transformers would load the model with; T5 and its like add a bias by distance."""
    model, inputs, collected = tiny_model(family, FAMILIES[family], None), tiny_inputs(), Collected()
    with Tap(model) as tap:
        tap.run(inputs, collected)
    for layer, blocks in collected.blocks.items():
        scores = collected.layer(layer, "query") @ collected.layer(layer, "key").transpose(2, 3) * blocks[0].scaling
        scores += _position_bias(model, layer)
        weights = scores.masked_fill(~collected.visible(layer)[:, None], -torch.inf).softmax(-1)
        real = inputs["attention_mask"].bool()[:, None, :].expand(weights.shape[:3])
        torch.testing.assert_close(weights[real], collected.layer(layer)[real], atol=1e-5, rtol=0)


def _position_bias(model: torch.nn.Module, layer: int) -> torch.Tensor | float:
    """What T5's kind of model adds to the logits of 12 tokens in a layer; 0 of others."""
    attention = [module for module in model.modules() if hasattr(module, "compute_bias")]
    if not attention:
        return 0.0
    own = attention[layer] if attention[layer].has_relative_attention_bias else attention[0]
    bias: torch.Tensor = own.compute_bias(12, 12).detach()
    return bias


OFFSET = torch.arange(12)[None, :] - torch.arange(12)[:, None]
EVERYWHERE, BACK, NEAR = OFFSET.abs() < 12, OFFSET <= 0, OFFSET.abs() <= 2
SEEN = dict.fromkeys(("gpt2", "llama", "bloom", "falcon"), [BACK] * LAYERS)
SEEN |= dict.fromkeys(("mistral", "starcoder2"), [BACK & (OFFSET > -4)] * LAYERS)
SEEN["modernbert"] = [EVERYWHERE, NEAR, EVERYWHERE]


@pytest.mark.parametrize("family", SEEN)
def test_decoders_see_no_later_key_and_local_layers_none_outside_their_window(family: str) -> None:
    for visible, expected in zip(outcome(family).visible, SEEN[family], strict=True):
        assert torch.equal(visible[0], expected)


@pytest.mark.parametrize("family", REFUSED)
def test_what_yields_no_attention_is_refused_by_name(family: str) -> None:
    settings, why = REFUSED[family]
    model = tiny_model(family, settings)
    with pytest.raises(CaptureError, match=rf"{type(model).__name__} .*{why}") as caught, Tap(model) as tap:
        tap.run(tiny_inputs(), lambda _: None)
    assert "\n" not in str(caught.value) and caught.value.remedy

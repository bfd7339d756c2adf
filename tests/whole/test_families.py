"""One check for every family: its attention is what eager attention gives, and its scores are the plain loop's.

Two inputs run as one padded batch, and are held against each of them alone under eager attention, so
that padding is proved to change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
import reference
import torch
from families import NAMES, REFUSED, TAPPED, UNTAPPED, Collected, eager_attention, tiny_inputs, tiny_model
from numpy.testing import assert_allclose
from reference import Written
from written import encoded_tokens

from attnscan.errors import CaptureError
from attnscan.inputs.batch import EncodedInput, collate
from attnscan.model.attention_block import AttentionBlock
from attnscan.model.tap import Tap
from attnscan.results.scores import Scores, ScoreTable
from attnscan.scoring.labels import scores_of
from attnscan.scoring.patterns import PATTERNS
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.targets import Targets

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
    grids: set[tuple[int, int]]
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
        scorer(block)
        collected(block)

    with Tap(model) as tap:
        tap.run(batch.model_inputs, consume)
    blocks = [collected.blocks[layer] for layer in sorted(collected.blocks)]
    return Outcome(
        read_by_tap=tap.calls.tapped,
        tapped=[collected.layer(layer) for layer in sorted(collected.blocks)],
        visible=[collected.visible(layer) for layer in sorted(collected.blocks)],
        grids={block.grid.shape for layer in blocks for block in layer},
        alone=alone,
        written=[_written(one) for one in ids],
        scores=scores_of(scorer.sums(), [pattern.scored for pattern in PATTERNS]),
    )


def _single(ids: list[int]) -> dict[str, torch.Tensor]:
    return {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.int64)}


def test_the_two_inputs_try_something() -> None:
    """A control: words repeat within and across sentences, and one input is shorter."""
    ids = [row[present.bool()].tolist() for row, present in zip(*tiny_inputs().values(), strict=True)]
    assert [len(one) for one in ids] == [12, 8]
    for one in map(_written, ids):
        assert any(one.keys("identical", i, one.words) for i in one.words) and any(
            one.keys("cross-sentence", i, one.words) for i in one.words
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_layers_and_heads_are_those_of_the_model(family: str) -> None:
    found = outcome(family)
    assert found.read_by_tap == (family in TAPPED)
    assert found.grids == {(LAYERS, HEADS.get(family, 4))}
    assert len(found.tapped) == LAYERS == len(found.alone[0])


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_in_a_batch_equal_eager_attention_alone(family: str) -> None:
    found = outcome(family)
    for layer, weights in enumerate(found.tapped):
        for row, alone in enumerate(found.alone):
            own = weights[row, :, : alone.shape[-1], : alone.shape[-1]]
            torch.testing.assert_close(own, alone[layer], atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_sum_to_one_and_nothing_lies_on_padding(family: str) -> None:
    for weights in outcome(family).tapped:
        for row, length in enumerate((12, 8)):
            torch.testing.assert_close(weights[row, :, :length].sum(-1), torch.ones(weights.shape[1], length))
            assert (weights[row, :, :length, length:] == 0).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_query_may_see_is_what_it_gives_weight(family: str) -> None:
    """Random weights leave out no key but those that are hidden: later ones, ones outside the window, padding."""
    found = outcome(family)
    for layer, visible in enumerate(found.visible):
        for row, alone in enumerate(found.alone):
            length = alone.shape[-1]
            assert torch.equal(visible[row, :length, :length], (alone[layer] > 0).any(0))
            assert not visible[row, :length, length:].any()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("words_only", [False, True])
def test_scores_equal_the_plain_loop(family: str, words_only: bool) -> None:
    found = outcome(family)
    scores = found.scores
    table: ScoreTable = scores.words_only if words_only else scores.every_key
    for layer in range(LAYERS):
        visible = [(alone[layer] > 0).any(0).numpy() for alone in found.alone]
        for head in range(scores.grid.shape[1]):
            matrices = [alone[layer, head].double().numpy() for alone in found.alone]
            expected = reference.scores(found.written, matrices, words_only=words_only, visible=visible)
            for pattern, numbers in expected.items():
                place = (layer, head, scores.patterns.index(pattern))
                ours = [getattr(table, name)[place] for name in ("score", "chance", "se", "n", "pairs")]
                assert_allclose(ours, numbers[:-1], atol=1e-5, err_msg=f"{pattern} of {layer}-{head}")
            if not words_only:
                entropy = reference.entropy(found.written, matrices)
                assert_allclose(scores.entropy[layer, head], entropy, atol=1e-5)


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


@pytest.mark.parametrize("family", ["t5", "mt5", "umt5", "switch_transformers"])
def test_a_position_bias_leaves_weights_as_exact_as_eager_attention(family: str) -> None:
    for layer, weights in enumerate((tried := outcome(family)).tapped):
        for row, alone in enumerate(tried.alone):
            own = weights[row, :, : alone.shape[-1], : alone.shape[-1]]
            torch.testing.assert_close(own, alone[layer], atol=5e-7, rtol=0)


@pytest.mark.parametrize(
    ("family", "window"),
    [("gpt2", 12), ("llama", 12), ("mistral", 4), ("starcoder2", 4), ("bloom", 12), ("falcon", 12)],
)
def test_decoders_see_no_later_key_and_none_outside_the_window(family: str, window: int) -> None:
    places = torch.arange(12)
    offset = places[None, :] - places[:, None]
    for visible in outcome(family).visible:
        assert torch.equal(visible[0], (offset <= 0) & (offset > -window))


def test_local_layers_see_their_window() -> None:
    """Of ModernBERT every second layer looks two tokens to either side, others everywhere."""
    places = torch.arange(12)
    near = (places[None, :] - places[:, None]).abs() <= 2
    for layer, visible in enumerate(outcome("modernbert").visible):
        assert torch.equal(visible[0], near if layer % 2 else torch.ones_like(near))


@pytest.mark.parametrize("family", REFUSED)
def test_what_yields_no_attention_is_refused_by_name(family: str) -> None:
    settings, why = REFUSED[family]
    model = tiny_model(family, settings)
    with pytest.raises(CaptureError, match=rf"{type(model).__name__} .*{why}") as caught, Tap(model) as tap:
        tap.run(tiny_inputs(), lambda _: None)
    assert "\n" not in str(caught.value) and caught.value.remedy


def test_every_family_has_a_name() -> None:
    assert set(NAMES) == {*TAPPED, *UNTAPPED, *REFUSED}
    assert len(set(NAMES.values())) == len(NAMES)

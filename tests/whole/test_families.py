"""One check for every family: its attention is what eager attention gives, and its scores are the
plain loop's.

Two inputs run as one padded batch, and are held against each of them alone under eager attention,
so that padding is proved to change nothing. Below, the same of saved checkpoints with every kind of
template.
"""

from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from support.checkpoints_of_kinds import CASES, saved
from support.command_line import run, table
from support.families import (
    REFUSED,
    TAPPED,
    UNTAPPED,
    Collected,
    eager_attention,
    tiny_inputs,
    tiny_model,
)
from support.handwritten_inputs import encoded_tokens
from support.reference_scores import Written, check_head
from transformers import AutoModel, AutoTokenizer

from attnscan.errors import CaptureError
from attnscan.inputs.batch import collate
from attnscan.inputs.sentence import EncodedInput, Pair
from attnscan.model.attention_block import AttentionBlock
from attnscan.model.keeper import AttentionKeeper
from attnscan.model.tap import AttentionTap
from attnscan.results.scores import Scores
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import open_scanner
from attnscan.scoring.blocks import PairSums
from attnscan.scoring.labels import scores_of
from attnscan.scoring.pattern_scorer import PatternScorer
from attnscan.scoring.patterns import PATTERNS
from attnscan.scoring.units import Targets

pytestmark = pytest.mark.usefixtures("quiet")
FAMILIES = {**TAPPED, **UNTAPPED}
# of the 4 heads in its config
LAYERS = 3
HEADS = {"convbert": 2}


def _written(ids: list[int]) -> Written:
    """Two sentences with delimiters around them; words of few kinds, so that they repeat."""
    middle = len(ids) // 2
    last = len(ids) - 1
    tokens = [f"w{number % 3}" for number in ids]
    sentence = [-1 if i in (0, middle, last) else int(i > middle) for i in range(len(ids))]
    return Written(tokens, sentence)


def _encoded(ids: list[int]) -> EncodedInput:
    one = _written(ids)
    special = [sentence < 0 for sentence in one.sentence]
    encoded = encoded_tokens(
        one.tokens, np.clip(one.sentence, 0, 1).tolist(), special, [False] * len(ids), "token"
    )
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
    model = tiny_model(family, FAMILIES[family])
    inputs = tiny_inputs()
    ids = [row[present.bool()].tolist() for row, present in zip(*inputs.values(), strict=True)]
    alone = [torch.cat(eager_attention(model, _single(one))) for one in ids]
    batch = collate([_encoded(one) for one in ids])
    scorer = PatternScorer(Targets(batch, PATTERNS))
    collected = Collected()

    def consume(block: AttentionBlock) -> None:
        assert block.grid.shape == (LAYERS, HEADS.get(family, 4))
        scorer(block)
        collected(block)

    with AttentionTap(model) as tap:
        tap.run(batch.model_inputs, consume)
    layers = sorted(collected.blocks)
    assert layers == [*range(LAYERS)]
    return Outcome(
        read_by_tap=tap.calls.uses_tap,
        tapped=[collected.layer(layer) for layer in layers],
        visible=[collected.visible(layer) for layer in layers],
        alone=alone,
        written=[_written(one) for one in ids],
        scores=scores_of(scorer.sums(), [pattern.scored for pattern in PATTERNS]),
    )


def _single(ids: list[int]) -> dict[str, torch.Tensor]:
    return {
        "input_ids": torch.tensor([ids]),
        "attention_mask": torch.ones(1, len(ids), dtype=torch.int64),
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_in_a_batch_equal_eager_attention_alone(family: str) -> None:
    """And lie on no padding; a query may see what it gives weight, as random weights leave out no
    other key.
    """
    found = outcome(family)
    assert found.read_by_tap == (family in TAPPED) and len(found.alone[0]) == LAYERS
    exact = family in (
        "t5",
        "mt5",
        "umt5",
        "switch_transformers",
    )  # a position bias leaves weights as exact
    for layer, (weights, visible) in enumerate(zip(found.tapped, found.visible, strict=True)):
        for row, alone in enumerate(found.alone):
            length = alone.shape[-1]
            unpadded = weights[row, :, :length, :length]
            torch.testing.assert_close(unpadded, alone[layer], atol=5e-7 if exact else 1e-5, rtol=0)
            torch.testing.assert_close(unpadded.sum(-1), torch.ones(unpadded.shape[:2]))
            assert torch.equal(visible[row, :length, :length], (alone[layer] > 0).any(0))
            assert (
                not weights[row, :, :length, length:].any()
                and not visible[row, :length, length:].any()
            )


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_equal_the_plain_loop(family: str) -> None:
    found = outcome(family)
    for head in found.scores.grid:
        visible = [(alone[head.layer] > 0).any(0).numpy() for alone in found.alone]
        weights = [alone[head.place].double().numpy() for alone in found.alone]
        check_head(found.scores, head, found.written, weights, visible=visible)


@pytest.mark.parametrize("family", TAPPED)
def test_weights_follow_from_queries_keys_and_visible_keys(family: str) -> None:
    """From whatever attention transformers would load the model with; T5 and its like add a bias by
    distance.
    """
    model = tiny_model(family, FAMILIES[family], None)
    inputs = tiny_inputs()
    collected = Collected()
    with AttentionTap(model) as tap:
        tap.run(inputs, collected)
        tap.run({name: values[:1] for name, values in inputs.items()}, AttentionKeeper())
    for layer, blocks in collected.blocks.items():
        scores = (
            collected.layer(layer, "query")
            @ collected.layer(layer, "key").transpose(2, 3)
            * blocks[0].scaling
        )
        scores += _position_bias(model, layer)
        weights = scores.masked_fill(~collected.visible(layer)[:, None], -torch.inf).softmax(-1)
        real = inputs["attention_mask"].bool()[:, None, :].expand(weights.shape[:3])
        torch.testing.assert_close(weights[real], collected.layer(layer)[real], atol=1e-5, rtol=0)


def _position_bias(model: torch.nn.Module, layer: int) -> torch.Tensor | float:
    """What T5's kind of model adds to the logits of 12 tokens in a layer; 0 of others."""
    attention = [module for module in model.modules() if hasattr(module, "compute_bias")]
    if not attention:
        return 0.0
    bias: torch.Tensor = attention[
        layer if attention[layer].has_relative_attention_bias else 0
    ].compute_bias(12, 12)
    return bias.detach()


OFFSET = torch.arange(12)[None, :] - torch.arange(12)[:, None]
EVERYWHERE = OFFSET.abs() < 12
BACK = OFFSET <= 0
NEAR = OFFSET.abs() <= 2
SEEN = dict.fromkeys(("gpt2", "llama", "bloom", "falcon"), [BACK] * LAYERS)
SEEN |= dict.fromkeys(("mistral", "starcoder2"), [BACK & (OFFSET > -4)] * LAYERS)
SEEN["modernbert"] = [EVERYWHERE, NEAR, EVERYWHERE]


@pytest.mark.parametrize("family", SEEN)
def test_no_key_is_seen_behind_a_query_or_outside_a_window(family: str) -> None:
    for visible, expected in zip(outcome(family).visible, SEEN[family], strict=True):
        assert torch.equal(visible[0], expected)


@pytest.mark.parametrize("family", REFUSED)
def test_what_yields_no_attention_is_refused_by_name(family: str) -> None:
    settings, why = REFUSED[family]
    model = tiny_model(family, settings)
    with (
        pytest.raises(CaptureError, match=rf"{type(model).__name__} .*{why}") as caught,
        AttentionTap(model) as tap,
    ):
        tap.run(tiny_inputs(), lambda _: None)
    assert "\n" not in str(caught.value) and caught.value.remedy


PAIRS = [
    Pair("the cat sat on the mat .", "a cat ran to the store"),
    Pair("strawberries"),
    Pair("the dog sat", "a mat and a dog and the store , on the mat !"),
]


def _plainly(directory: Path) -> tuple[list[Written], list[torch.Tensor]]:
    """Each pair alone, by transformers alone: its tokens, and its weights [layer, head, query,
    key].
    """
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    model = model.get_encoder() if model.config.is_encoder_decoder else model
    names = [
        "input_ids",
        "attention_mask",
        *["token_type_ids"] * (getattr(model.config, "type_vocab_size", 0) > 1),
    ]
    written = []
    weights = []
    for pair in PAIRS:
        inputs = tokenizer(pair.a, pair.b, return_tensors="pt")
        sentence = [-1 if s is None else s for s in inputs.sequence_ids(0)]
        tokens = [
            token.strip("Ġ▁") for token in tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
        ]
        written.append(Written(tokens, sentence))
        taken = {name: inputs[name] for name in names if name in inputs}
        weights.append(torch.cat(eager_attention(model, taken)))
    return written, weights


@pytest.mark.parametrize("name", CASES)
def test_scores_of_a_checkpoint_are_the_plain_loops_in_any_batch(name: str, tmp_path: Path) -> None:
    """Without delimiters, their score is NaN, not zero; the beginning alone is a delimiter too."""
    case = CASES[name]
    checkpoint = saved(CASES[name], tmp_path)
    written, weights = _plainly(checkpoint)
    options = ScanOptions(model=str(checkpoint), related=False, predictive="off")
    found = []
    with open_scanner(options) as scanner:
        encoded = [scanner.encode(pair) for pair in PAIRS]

        def sums_of(batch: list[int]) -> PairSums:
            sums = scanner.score([encoded[i] for i in batch])
            return PairSums.of([PAIRS[i].key for i in batch], sums)

        for batches in ([[0, 1, 2]], [[0], [1], [2]], [[2, 1], [0]]):
            first, *rest = [sums_of(batch) for batch in batches]
            found.append(
                scores_of(
                    sum(rest, start=first).sums, [pattern.scored for pattern in options.patterns]
                )
            )
    for scores, head in product(found, found[0].grid):
        visible = [(one[head.layer] > 0).any(0).numpy() for one in weights]
        assert all(np.triu(seen, 1).any() != case.causal for seen in visible if len(seen) > 1)
        check_head(
            scores,
            head,
            written,
            [one[head.place].double().numpy() for one in weights],
            visible=visible,
        )
        delimiter = scores.every_key.score[(*head.place, scores.patterns.index("delimiter"))]
        assert np.isnan(delimiter) == (case.template == "A B")


def test_the_screen_and_table_of_a_decoder_say_what_it_has_not(tmp_path: Path) -> None:
    command = (
        "classify",
        "the cat sat",
        "a cat ran",
        "--model",
        str(saved(CASES["decoder without delimiters"], tmp_path)),
    )
    result = run(*command)
    rows = table(*command)
    assert "delimiter: no word of this input is eligible" in result.stderr
    assert "predictive: not measured: the model has no mask token" in result.stderr
    text = " ".join(result.stdout.split())
    assert "3 layers × 4 heads" in text and "rest" not in text
    assert (
        rows[["delimiter", "predictive", "next-word"]].isna().all(axis=None)
    )  # no key behind a query is seen
    assert (rows["previous-word"] > 0).all()

"""Blocks of some queries add up to the whole; keys may be of another text than queries; what heads carry is true."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from draws import draws
from families import TAPPED, UNTAPPED, Collected, tiny_inputs, tiny_model
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import Embedding, LayerNorm, Linear, Sequential
from written import input_of

from attnscan.errors import CaptureError
from attnscan.inputs.batch import EncodedBatch, collate
from attnscan.inputs.tokens import Unit, WholeWords
from attnscan.model.attention_block import AttentionBlock, OutputProjections, output_projections
from attnscan.model.keeper import AttentionKeeper
from attnscan.model.tap import Tap
from attnscan.results.grid import AttentionKind, Grid
from attnscan.results.terms import Scored
from attnscan.scoring.classes import ClassScorer
from attnscan.scoring.merging import Units, View
from attnscan.scoring.patterns import PATTERNS, Pattern
from attnscan.scoring.scorer import Scorer
from attnscan.scoring.targets import Rows, Target, Targets

LAYERS, HEADS = 2, 3
VOCABULARY = WholeWords.of({5: "the", 6: "cat", 7: "ran", 8: "straw"})


def nearer_more(batch: EncodedBatch) -> Tensor:
    """Each word looks at everything, at what is near the most."""
    return (1 / (1 + batch.offset.abs())).expand_as(batch.same_sentence)


EVERY = (*PATTERNS, Pattern.of(nearer_more))
Sums = dict[str, NDArray[np.float64]]


def of_scores(batch: EncodedBatch) -> tuple[Scorer, Callable[[Scorer], Sums]]:
    return Scorer(Targets(batch, EVERY)), lambda scorer: {
        **scorer.pair_sums(),
        **vars_of(scorer.sums(), "entropy words"),
    }


def of_words(batch: EncodedBatch) -> tuple[Scorer, Callable[[Scorer], Sums]]:
    return Scorer(Targets(batch, EVERY), by_query=True), Scorer.word_sums


def of_classes(batch: EncodedBatch) -> tuple[ClassScorer, Callable[[ClassScorer], Sums]]:
    return ClassScorer(batch, special=True), ClassScorer.sums


def of_classes_of_words(batch: EncodedBatch) -> tuple[ClassScorer, Callable[[ClassScorer], Sums]]:
    return ClassScorer(batch, special=False, by_query=True), ClassScorer.sums


def vars_of(sums: Any, names: str) -> Sums:
    return {name: getattr(sums, name) for name in names.split()}


@dataclass(frozen=True)
class Case:
    """Some inputs with random attention, and where their queries and heads are cut."""

    batch: EncodedBatch
    weights: Tensor
    """Shape: [layer, batch, head, query, key], float64."""
    visible: Tensor
    idle: Tensor | None
    with_logits: bool
    queries: list[int]
    heads: list[int]
    borders: list[int]
    """Of words, behind the first."""

    def blocks(self, *, cut: bool) -> Iterator[AttentionBlock]:
        """As a tap would show them; heads are cut alike, so that nothing else differs."""
        ends = self.queries if cut else [0, self.weights.shape[-1]]
        for layer in range(LAYERS):
            for heads in (slice(*ends_of_heads) for ends_of_heads in pairwise(self.heads)):
                for preview in (True, False) if cut else (False,):
                    for start, stop in pairwise(ends):
                        yield self.block(layer, heads, slice(start, stop) if cut else slice(None), preview)

    def block(self, layer: int, heads: slice, queries: slice, preview: bool) -> AttentionBlock:
        """Some rows; of a range of queries, with no more keys than these may see and borders of words allow."""
        keys, weights = slice(None), self.weights[layer]
        if queries != slice(None):
            seen = self.visible[:, queries].any((0, 1)).nonzero()
            stop = next(border for border in [*self.borders, weights.shape[-1]] if border > int(seen[-1]))
            keys = slice(max(border for border in [0, *self.borders] if border <= int(seen[0])), stop)
        rows = weights[:, heads, queries, keys]
        logits = rows.clip(1e-30).log() if self.with_logits else None
        idle = None if self.idle is None else self.idle[:, heads, queries]
        given = (rows, self.visible, None, None, None, logits, None, idle)
        block = AttentionBlock(Grid.square(LAYERS, HEADS), layer, slice(0, len(weights)), heads, *given)
        return replace(block, queries=queries, keys=keys, length=weights.shape[-1], preview=preview)


@st.composite
def cases(draw: st.DrawFn, unit: Unit, most: int) -> Case:
    word = st.sampled_from(["the", "cat", "Cat", "ran", "straw", "##berries", ".", ","])
    sentence = st.lists(word, min_size=1, max_size=9).map(" ".join)
    texts = draw(st.lists(st.lists(sentence, min_size=1, max_size=2).map(" [SEP] ".join), min_size=1, max_size=most))
    inputs = [input_of(f"[CLS] {text} [SEP]", unit) for text in texts]
    batch, lengths = collate(inputs, vocabulary=VOCABULARY), [len(one.tokens) for one in inputs]
    width, causal, window = max(lengths), draw(st.booleans()), draw(st.integers(1, 20))
    near = (torch.arange(width) - torch.arange(width)[:, None]).abs() <= window
    visible = torch.zeros(len(texts), width, width, dtype=torch.bool)
    for row, length in enumerate(lengths):
        visible[row, :length, :length] = torch.ones(length, length).tril().bool() if causal else True
    visible &= near
    logits = np.random.default_rng(draw(st.integers(0, 99))).normal(0, 2, (LAYERS, len(texts), HEADS, width, width))
    weights = torch.tensor(np.exp(logits)) * visible[None, :, None]
    weights /= weights.sum(-1, keepdim=True).clip(1e-9)
    idle = None
    if draw(st.booleans()):
        idle = torch.zeros(*weights.shape[1:4], dtype=torch.bool)
        idle[:, 1, draw(st.integers(0, width - 1))] = True
        weights = weights.masked_fill(idle[None, ..., None], 0)
    borders = list(inputs[0].first_tokens)[1:] if unit == "word" else list(range(1, width))
    cuts = sorted(draw(st.sets(st.sampled_from(borders), max_size=4))) if borders else []
    heads = [0, *sorted(draw(st.sets(st.integers(1, HEADS - 1)))), HEADS]
    return Case(batch, weights, visible, idle, draw(st.booleans()), [0, *cuts, width], heads, borders)


@pytest.mark.parametrize("unit", ["token", "word"])
@pytest.mark.parametrize(
    ("consumer_of", "most", "dtype"),
    [
        (of_scores, 3, torch.float64),  # else the order in which ranges are added would be seen
        (of_words, 1, torch.float64),
        (of_classes, 3, torch.float32),
        (of_classes_of_words, 1, torch.float32),
    ],
)
@settings(deadline=None, max_examples=draws(24))
@given(data=st.data())
def test_ranges_of_queries_add_up_to_the_whole(
    consumer_of: Any, most: int, dtype: torch.dtype, unit: Unit, data: st.DataObject
) -> None:
    """Whatever came before: a model that turns out not to call the tap shows all blocks once more."""
    case = data.draw(cases(unit, most=1 if unit == "word" else most))
    case = replace(case, weights=case.weights.to(dtype))
    found = []
    for cut in (False, True):
        consumer, sums_of = consumer_of(case.batch)
        for block in case.blocks(cut=True) if data.draw(st.booleans()) else ():
            consumer(replace(block, weights=block.weights * 0.7))
        for block in case.blocks(cut=cut):
            consumer(block)
        found.append(sums_of(consumer))
    whole, ranges = found
    assert whole.keys() == ranges.keys()
    for name, values in whole.items():
        assert_allclose(ranges[name], values, rtol=1e-6, atol=1e-6, err_msg=name)


def test_ranges_of_queries_are_kept_at_their_places() -> None:
    weights = torch.rand(LAYERS, 1, HEADS, 5, 5)
    neurons = torch.rand(1, HEADS, 5, 4)
    keeper = AttentionKeeper()
    for layer in range(LAYERS):
        for start, stop in ((0, 2), (2, 5)):
            rows, given = (
                slice(start, stop),
                (torch.ones(1, 5, 5, dtype=torch.bool), neurons[:, :, start:stop], neurons),
            )
            block = AttentionBlock(
                Grid.square(LAYERS, HEADS),
                layer,
                slice(0, 1),
                slice(0, HEADS),
                weights[layer, :, :, rows],
                *given,
                0.5,
                None,
            )
            keeper(replace(block, queries=rows))
    kept = keeper.attention(input_of("[CLS] the cat ran [SEP]"))
    assert_allclose(kept.weights, weights[:, 0])
    assert kept.query is not None and kept.key is not None
    assert_allclose(kept.query[1], neurons[0])
    assert_allclose(kept.key[1], neurons[0])


@dataclass(frozen=True)
class BetweenTexts:
    """Targets from the words of one text to those of another, as they are given."""

    batch: EncodedBatch
    is_word: tuple[Tensor, Tensor]
    targets: list[Target]
    units: Units

    @property
    def scored(self) -> tuple[Scored, ...]:
        return tuple(Scored(target.id, target.part_of) for target in self.targets)

    def of_rows(self, _: AttentionBlock, block: AttentionBlock) -> Rows:
        own = (block.inputs, block.rows, slice(None))
        targets = [replace(target, matrix=(target.matrix[own] * block.visible[own])) for target in self.targets]
        return Rows(targets, View(self.batch, own, block.columns, self.batch))


@settings(deadline=None, max_examples=draws(40))
@given(queries=st.integers(1, 9), keys=st.integers(1, 9), seed=st.integers(0, 999), cut=st.integers(0, 8))
def test_keys_of_another_text_are_scored_as_plain_loops_do(queries: int, keys: int, seed: int, cut: int) -> None:
    rng = np.random.default_rng(seed)
    few = rng.random((queries, keys)) < 0.2
    matrices = {
        "wide": few | (rng.random((queries, keys)) < 0.3),
        "part": few,
        "even": np.full((queries, keys), 1 / keys),
    }
    matrices["many"] = rng.random((queries, keys)) * (rng.random((queries, 1)) < 0.7)
    visible, is_key = rng.random((queries, keys)) < 0.8, rng.random(keys) < 0.7
    weights = rng.random((HEADS, queries, keys)) ** 3 * visible
    weights /= weights.sum(-1, keepdims=True).clip(1e-9)
    part_of = {"part": "wide"}
    targets = [
        Target(name, torch.tensor(matrix)[None], name == "even", part_of.get(name)) for name, matrix in matrices.items()
    ]
    batch = collate([input_of(" ".join(["[CLS]", *["cat"] * (queries - 1)]))])
    given_targets: Any = BetweenTexts(batch, (batch.word, torch.tensor(is_key)[None]), targets, Units(batch))
    scorer = Scorer(given_targets)
    for start, stop in pairwise(sorted({0, min(cut, queries), queries})):
        rows, given = slice(start, stop), (torch.tensor(visible)[None], None, None, None, None)
        block = AttentionBlock(
            Grid.square(1, HEADS), 0, slice(0, 1), slice(0, HEADS), torch.tensor(weights)[None, :, rows], *given
        )
        scorer(replace(block, queries=rows, kind=AttentionKind.CROSS))
    sums = scorer.pair_sums()
    for kind, mask in (("every_key", np.ones(keys)), ("words_only", is_key)):
        for head, p in np.ndindex(HEADS, len(targets)):
            seen = targets[p].matrix[0].numpy() * visible
            expected = by_loops(weights[head], seen, visible, mask, even=targets[p].even)
            found = [sums[f"{kind}.{name}"][0, 0, head, p] for name in ("weight", "n", "chance", "itself")]
            assert_allclose(found, [*expected, 0], atol=1e-6, err_msg=targets[p].id)


def by_loops(
    weights: NDArray[Any], target: NDArray[Any], visible: NDArray[Any], mask: NDArray[Any], *, even: bool
) -> tuple[float, int, float]:
    """The weight on a target, how many queries are eligible, and their weight by chance."""
    on, n, chance = 0.0, 0, 0.0
    of_words = not mask.all() or mask.dtype == bool
    for row, goal, sees in zip(weights, target, visible, strict=True):
        left = row @ mask
        goal = goal * mask
        if not goal.any() or (of_words and left < 1e-6):
            continue
        by_chance = sees / max(sees.sum(), 1) * mask
        if of_words:
            row, by_chance = row * mask / left, by_chance / max(by_chance.sum(), 1e-6)
        n += 1
        on += np.minimum(row, goal).sum() if even else row @ goal
        chance += np.minimum(by_chance, goal).sum() if even else by_chance @ goal
    return on, n, chance


_LENGTHS = (12, 8)  # of the inputs, without padding


def _blocks(model: Any) -> dict[int, list[AttentionBlock]]:
    collected = Collected()
    with Tap(model) as tap:
        tap.run(tiny_inputs(), collected)
    return collected.blocks


def _projected(model: Any) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Of each linear module that was run: its weight [in, out], its bias, and what it put out [2, 12, out]."""
    ran: list[tuple[Tensor, Tensor, Tensor]] = []

    def note(module: Any, _arguments: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.numel() == 24 * output.shape[-1]:
            weight = module.weight.detach()
            if isinstance(module, Embedding):
                return
            weight = weight if type(module).__name__ == "Conv1D" else weight.T
            bias = torch.zeros(output.shape[-1]) if getattr(module, "bias", None) is None else module.bias.detach()
            ran.append((weight, bias, output.detach().reshape(2, 12, -1)))

    hooks = [m.register_forward_hook(note) for m in model.modules() if getattr(m, "weight", torch.zeros(0)).ndim == 2]
    with torch.inference_mode():
        model(**tiny_inputs())
    for hook in hooks:
        hook.remove()
    return ran


@pytest.mark.parametrize("family", TAPPED)
def test_what_heads_put_out_adds_up_to_what_the_projection_does(family: str) -> None:
    model = tiny_model(family, TAPPED[family])
    projections, blocks, ran = output_projections(model, tiny_inputs()), _blocks(model), _projected(model)
    assert len(blocks) == len(projections.triangles)
    for layer, parts in blocks.items():
        errors = []
        for weight, bias, output in ran:
            heads = parts[0].grid.shape[1]
            if weight.shape[0] % heads or any(part.value.shape[-1] != weight.shape[0] // heads for part in parts):  # type: ignore[union-attr]
                continue
            slices = weight.reshape(heads, -1, weight.shape[1])
            found = torch.zeros_like(output) + bias
            norms_error = 0.0
            for part in parts:
                assert part.value is not None
                length = part.weights.shape[-1]
                transformed = part.value @ slices[part.heads]
                found[part.inputs, :length] += (part.weights @ transformed).sum(1)
                norms = projections.norms(layer, part.heads, part.value)
                norms_error = max(norms_error, float((norms - transformed.norm(dim=-1)).abs().max() / norms.max()))
            off = max(float((found - output)[i, :n].abs().max()) for i, n in enumerate(_LENGTHS))
            errors.append((off / float(output.abs().max()), norms_error))
        assert min(errors) < (1e-5, 1e-5), f"no module of {family} puts out layer {layer}'s heads"


@pytest.mark.parametrize("family", UNTAPPED)
def test_a_family_that_does_not_show_it_is_refused_by_name(family: str) -> None:
    model = tiny_model(family, UNTAPPED[family])
    with pytest.raises(CaptureError, match=f"{type(model).__name__} carry cannot be computed") as refused:
        output_projections(model, tiny_inputs())
    assert "\n" not in str(refused.value)


class _Gated(torch.nn.Module):
    """A projection of what heads put out, times a gate that sees the same."""

    def __init__(self, dense: Linear) -> None:
        super().__init__()
        self.dense, self.gate = dense, Linear(dense.in_features, dense.out_features)

    def forward(self, states: Tensor) -> Tensor:
        projected: Tensor = self.dense(states) * self.gate(states).sigmoid()
        return projected


class _Doubled(Linear):
    """A module that looks linear and is not."""

    def forward(self, states: Tensor) -> Tensor:
        return super().forward(states).relu()


def _put_between(model: Any, kind: str) -> None:
    output = model.encoder.layer[1].attention.output
    if kind == "norm":
        output.dense = Sequential(LayerNorm(32), output.dense)
    elif kind == "gate":
        output.dense = _Gated(output.dense)
    else:
        output.dense = _Doubled(32, 32)


@pytest.mark.parametrize("kind", ["norm", "gate", "not linear"])
def test_what_stands_between_the_heads_and_their_projection_is_refused(kind: str) -> None:
    model = tiny_model("bert", TAPPED["bert"])
    _put_between(model, kind)
    with pytest.raises(CaptureError, match=r"(in|of) layer 1"):
        output_projections(model.eval(), tiny_inputs())


def test_the_model_is_left_as_it_was() -> None:
    model = tiny_model("bert", TAPPED["bert"], "sdpa")
    before = model.config._attn_implementation
    output_projections(model, tiny_inputs())
    assert model.config._attn_implementation == before
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_a_shared_layer_is_factored_once() -> None:
    triangles = output_projections(tiny_model("albert", TAPPED["albert"]), tiny_inputs()).triangles
    assert all(each is triangles[0] for each in triangles)


@pytest.mark.parametrize("family", ["bert", "gpt2", "qwen3", "modernbert"])
def test_carried_rows_are_weights_times_norms(family: str) -> None:
    model = tiny_model(family, TAPPED[family])
    projections = output_projections(model, tiny_inputs())
    for layer, parts in _blocks(model).items():
        for part in parts:
            assert part.value is not None
            norms = projections.norms(layer, part.heads, part.value)
            expected = part.weights.double() * norms.double()[:, :, None]
            expected /= expected.sum(-1, keepdim=True)
            carried = projections.carried(part)
            assert carried.idle is None
            torch.testing.assert_close(carried.weights.double(), expected, atol=1e-6, rtol=1e-5)


def test_what_is_put_out_is_the_length_of_the_sum() -> None:
    model = tiny_model("bert", TAPPED["bert"])
    projections, dense = output_projections(model, tiny_inputs()), model.encoder.layer[0].attention.output.dense
    slices = dense.weight.T.detach().reshape(4, 8, 32)
    for part in _blocks(model)[0]:
        assert part.value is not None
        expected = (part.weights @ (part.value @ slices[part.heads])).norm(dim=-1)
        torch.testing.assert_close(projections.outputs(part), expected, atol=1e-6, rtol=1e-5)


def _block(weights: Tensor, value: Tensor) -> AttentionBlock:
    """One head's block, with the logits that make its weights."""
    every, length = slice(None), weights.shape[-1]
    visible = torch.ones(1, length, length, dtype=torch.bool)
    logits = weights.log().clip(torch.finfo(torch.float32).min)[None, None]
    return AttentionBlock(
        Grid.square(1, 1), 0, every, every, weights[None, None], visible, None, None, 1.0, logits, value[None, None]
    )


def test_a_key_without_a_value_is_not_carried_and_a_row_of_them_is_idle() -> None:
    projections = OutputProjections((torch.eye(2)[None],))
    value = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 2.0]])
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.8, 0.1, 0.1]])
    carried = projections.carried(_block(weights, value))
    assert carried.idle is not None and carried.idle[0, 0].tolist() == [True, False, False]
    torch.testing.assert_close(carried.weights[0, 0], torch.tensor([[0, 0, 0], [0, 1, 0], [0, 5 / 7, 2 / 7]]))
    assert carried.logits is not None and carried.logits.isfinite().all()


def test_a_head_that_is_wider_than_the_hidden_state_has_the_same_norms() -> None:
    torch.manual_seed(0)
    slices, values = torch.randn(2, 8, 3), torch.randn(1, 2, 5, 8)
    triangle = torch.linalg.qr(slices.mT, mode="r").R.mT
    norms = OutputProjections((triangle,)).norms(0, slice(None), values)
    torch.testing.assert_close(norms, (values @ slices).norm(dim=-1))


def test_half_precision_is_told_apart_from_what_is_not_linear() -> None:
    model = tiny_model("bert", TAPPED["bert"]).to(torch.bfloat16)
    assert len(output_projections(model, tiny_inputs()).triangles) == 3

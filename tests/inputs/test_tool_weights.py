"""Attention of `generate` and of TransformerLens' caches, beside one run over the same tokens."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration

import attnscan
from attnscan.errors import AttnscanError, WeightsError
from attnscan.inputs.tool_weights import join_steps, plain_arrays, segments_from
from attnscan.inputs.weights import weights_of

PROMPT = torch.tensor([[5, 6, 7, 8]])
WRITTEN = 5
GREEDY: dict[str, Any] = {
    "max_new_tokens": WRITTEN,
    "do_sample": False,
    "output_attentions": True,
    "return_dict_in_generate": True,
    "eos_token_id": None,
    "pad_token_id": 0,
}


@pytest.fixture(scope="module")
def decoder() -> Any:
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32}
    model = GPT2LMHeadModel(GPT2Config(**sizes, attn_implementation="eager")).eval()
    with torch.no_grad():  # so that rows differ from even ones
        for layer in model.transformer.h:
            layer.attn.c_attn.weight *= 30
    return model


@pytest.fixture(scope="module")
def generated(decoder: Any) -> Any:
    mask = torch.ones_like(PROMPT)
    return decoder.generate(PROMPT, attention_mask=mask, **GREEDY)


@pytest.fixture(scope="module")
def tokens(generated: Any) -> list[str]:
    return [f"w{number}" for number in generated.sequences[0].tolist()]


def one_run(model: Any, ids: torch.Tensor) -> np.ndarray:
    """Shape: [layer, head, query, key]."""
    with torch.inference_mode():
        return torch.cat(model(ids, output_attentions=True).attentions).numpy()


def test_steps_joined_are_one_run_over_what_was_read(decoder: Any, generated: Any) -> None:
    expected = one_run(decoder, generated.sequences[:, :-1])
    assert expected.std() > 0.1  # a control: rows are not even
    np.testing.assert_allclose(join_steps(generated.attentions), expected, atol=1e-6)


def test_a_cache_of_fixed_size_gives_the_same(decoder: Any, generated: Any) -> None:
    mask = torch.ones_like(PROMPT)
    options = {**GREEDY, "cache_implementation": "static"}
    fixed = decoder.generate(PROMPT, attention_mask=mask, **options)
    np.testing.assert_allclose(
        join_steps(fixed.attentions), join_steps(generated.attentions), atol=1e-6
    )


def test_classify_scores_what_generate_returns(
    decoder: Any, generated: Any, tokens: list[str]
) -> None:
    ours = attnscan.classify(weights=generated.attentions, tokens=tokens)
    expected = attnscan.classify(
        weights=one_run(decoder, generated.sequences[:, :-1]), tokens=tokens[:-1]
    )
    assert len(ours.units) == len(tokens) - 1  # the last token was written, and never read
    for pattern in ("next-word", "previous-word"):
        np.testing.assert_allclose(
            ours.to_frame()[pattern], expected.to_frame()[pattern], atol=1e-6
        )


def test_previous_word_of_generate_by_plain_loops(generated: Any, tokens: list[str]) -> None:
    table = attnscan.classify(weights=generated.attentions, tokens=tokens, special="in").to_frame()
    rows = list[dict[int, np.ndarray]]()  # of each layer, by query. Shape: [head, key]
    for layer in range(2):
        rows.append({})
        for step in generated.attentions:
            part = step[layer][0].numpy()
            for row in range(part.shape[1]):
                rows[layer][len(rows[layer])] = part[:, row]
    for place, (layer, head) in enumerate(np.ndindex(2, 4)):
        on_previous = [rows[layer][query][head, query - 1] for query in range(1, len(tokens) - 1)]
        assert table["previous-word"][place] == pytest.approx(np.mean(on_previous), abs=1e-6)


@pytest.fixture(scope="module")
def translator() -> Any:
    torch.manual_seed(1)
    config = T5Config(
        vocab_size=50,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        attn_implementation="eager",
    )
    return T5ForConditionalGeneration(config).eval()


@pytest.mark.parametrize("kind", ["decoder", "cross"])
def test_steps_of_an_encoder_decoder(translator: Any, kind: str) -> None:
    written = translator.generate(PROMPT, **GREEDY)
    with torch.inference_mode():
        expected = translator(
            input_ids=PROMPT, decoder_input_ids=written.sequences[:, :-1], output_attentions=True
        )
    names = {"decoder": "decoder_attentions", "cross": "cross_attentions"}
    joined = join_steps(written[names[kind]])
    np.testing.assert_allclose(joined, torch.cat(expected[names[kind]]).numpy(), atol=1e-6)


def test_the_written_token_without_a_row_is_predicted(translator: Any) -> None:
    written = translator.generate(PROMPT, **GREEDY)
    target = ["<pad>", *"abcde"]
    arrays = {
        "cross_attention": written.cross_attentions,
        "encoder_tokens": list("wxyz"),
        "decoder_tokens": target,
    }
    saved = weights_of(arrays, "cross", "predicts")
    assert saved.tokens == (*"wxyz", *"abcde") and saved.attention.shape == (2, 4, 5, 4)


class Cache:
    """As TransformerLens' ActivationCache: names and values, but no mapping."""

    def __init__(self, layers: dict[int, Any]) -> None:
        self._values = {"hook_embed": torch.zeros(1, 9, 8)}
        for number, layer in layers.items():
            self._values[f"blocks.{number}.attn.hook_pattern"] = layer
            self._values[f"blocks.{number}.attn.hook_attn_scores"] = layer.log()

    def keys(self) -> Any:
        return self._values.keys()

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values.values())


@pytest.fixture
def layers(decoder: Any) -> dict[int, Any]:
    """Twelve layers, so that 10 comes behind 9 and not behind 1."""
    weights = torch.from_numpy(one_run(decoder, PROMPT))
    return {number: weights[number % 2 : number % 2 + 1] ** 1 for number in range(12)}


@pytest.mark.parametrize("as_dict", [False, True], ids=["cache", "dict"])
def test_a_cache_has_its_layers_in_order(layers: dict[int, Any], as_dict: bool) -> None:
    shuffled = {number: layers[number] for number in sorted(layers, key=str)}
    cache: Any = Cache(shuffled)
    if as_dict:
        cache = {f"blocks.{number}.attn.hook_pattern": shuffled[number] for number in shuffled}
    result = attnscan.classify(weights=cache, tokens=list("abcd"))
    kept = result.kept_attention().weights
    for number, layer in layers.items():
        np.testing.assert_allclose(kept[number], layer[0].numpy(), atol=1e-6)


def test_a_cache_without_a_layer_is_refused(layers: dict[int, Any]) -> None:
    del layers[3]
    with pytest.raises(WeightsError, match=r"no 'blocks\.3\.attn\.hook_pattern'"):
        attnscan.classify(weights=Cache(layers), tokens=list("abcd"))


def test_several_sequences_at_once_are_refused(decoder: Any) -> None:
    prompts = PROMPT.repeat(2, 1)
    both = decoder.generate(prompts, attention_mask=torch.ones_like(prompts), **GREEDY)
    with pytest.raises(WeightsError, match="2 sequences at once"):
        attnscan.classify(weights=both.attentions, tokens=list("abcdefghi"))


def test_a_missing_step_is_refused(generated: Any, tokens: list[str]) -> None:
    steps = generated.attentions[:2] + generated.attentions[3:]
    with pytest.raises(WeightsError, match="step 2 of generate sees 7 tokens in place of 6"):
        attnscan.classify(weights=steps, tokens=tokens)


def test_segments_begin_at_sentence_b() -> None:
    assert segments_from(3, 5) == [0, 0, 0, 1, 1]
    assert segments_from(torch.tensor(3), 5) == [0, 0, 0, 1, 1]  # type: ignore[arg-type]
    for start in (0, 5, -1, None, "3"):
        with pytest.raises(WeightsError, match=f"sentence_b_start is {start!r}, and there are 5"):
            segments_from(start, 5)  # type: ignore[arg-type]


def test_sentence_b_start_stands_for_segments(tmp_path: Path) -> None:
    tokens = ["[CLS]", "the", "cat", "a", "cat"]
    attention = torch.rand(2, 1, 3, 5, 5)
    attention /= attention.sum(-1, keepdim=True)
    given: dict[str, Any] = {"weights": tuple(attention), "tokens": tokens, "sentence_b_start": 3}
    ours = attnscan.classify(**given)
    assert ours.sentence == (-1, 0, 0, 1, 1)
    arrays = {"attention": attention[:, 0].numpy(), "tokens": tokens, "segments": [0, 0, 0, 1, 1]}
    expected = attnscan.classify(weights=arrays)
    pd.testing.assert_frame_equal(ours.to_frame(), expected.to_frame())
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"weights": tmp_path / "w.npz", "tokens": None}, "is for weights in memory"),
        ({"weights": arrays}, "leave out sentence_b_start"),
        ({"weights": {"cross_attention": attention}, "tokens": None}, "there are no 'tokens'"),
        ({"weights": None}, "b is the sentence B"),
        ({"sentence_b_start": 5}, "there are 5 tokens"),
    ]
    for changes, why in wrong:
        with pytest.raises(AttnscanError, match=why):
            attnscan.classify(**given | changes)


@pytest.mark.parametrize(
    "steps",
    [
        [[np.ones((1, 2, 1, 1))], [np.ones((1, 3, 1, 2))]],
        [[np.ones((1, 2, 1, 1))], [np.ones((1, 2, 1, 2))] * 2],
        [[np.ones((1, 2, 1, 1))], [np.ones((2, 2, 1, 2))]],
        [[], []],
    ],
    ids=["heads", "layers", "sequences", "none"],
)
def test_steps_of_different_models_are_refused(steps: Any) -> None:
    with pytest.raises(WeightsError, match="the steps of generate differ in layers, heads or seq"):
        join_steps(steps)


def test_a_single_step_is_the_prompt_alone() -> None:
    """As of `generate(max_new_tokens=1)`."""
    step = [np.tril(np.ones((1, 2, 3, 3))), np.zeros((1, 2, 3, 3))]
    joined = join_steps([step])
    np.testing.assert_array_equal(joined, np.concatenate(step))


@pytest.mark.parametrize("extra", [0, 1])
def test_flags_of_the_token_that_was_not_read_go_with_it(extra: int) -> None:
    """`generate` gives one token more than it has rows."""
    steps = [[np.tril(np.ones((1, 1, 2, 2)))], [np.ones((1, 1, 1, 3))]]
    arrays = {
        "attention": steps,
        "tokens": list("abcd")[: 3 + extra],
        "segments": [0, 0, 1, 1][: 3 + extra],
        "special": [1, 0, 0, 1][: 3 + extra],
    }
    plain = plain_arrays(arrays)
    assert plain["attention"].shape == (1, 1, 3, 3)
    assert plain["tokens"] == list("abc")
    assert (plain["segments"], plain["special"]) == ([0, 0, 1], [1, 0, 0])

"""Which words help to predict which: analytic values, symmetry, real models, what is refused."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from by_loops import Checkpoint, helps
from numpy.testing import assert_allclose
from support.families import TAPPED, UNTAPPED
from support.handwritten_inputs import input_of
from support.tokenizers_of_kinds import encode_pair
from torch.nn.functional import pad
from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoConfig, AutoModelForMaskedLM
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput

from attnscan.errors import CaptureError
from attnscan.inputs.batch import collate
from attnscan.inputs.sentence import EncodedInput, Pair, Unit
from attnscan.model.device_memory import BatchLimit
from attnscan.model.loading import LoadedModel, load
from attnscan.model.predictive import (
    MaskedQueries,
    _usual_words,
    help_between_words,
    help_of,
    shares_of_best,
    spread,
    within_budget,
)
from attnscan.model.sources import Source, choose
from attnscan.results.predictions import HelpMeasure, WordDependencies
from attnscan.scoring.patterns import chosen
from attnscan.scoring.units import Targets

ARTICLE = Pair("I went to the store.", "At the store, I bought fresh strawberries.")
VOCABULARY = 50


def _help(
    loaded: LoadedModel, encoded: EncodedInput, measure: HelpMeasure, batch_tokens: int = 4096
) -> WordDependencies:
    (found,) = help_between_words(
        loaded,
        [MaskedQueries(encoded, 32)],
        measure,
        batch_tokens=batch_tokens,
        limit=_limit(loaded),
    )
    return found


def _limit(loaded: LoadedModel) -> BatchLimit:
    return BatchLimit(loaded.device, memory_of_input=lambda tokens: tokens, note=print)


def _read(loaded: LoadedModel, pair: Pair, unit: Unit = "token") -> EncodedInput:
    return encode_pair(loaded.tokenizer, pair, unit, loaded.limit, truncate=False)


def _matrix(found: WordDependencies) -> np.ndarray[Any, Any]:
    """Values among all units, NaN where nothing was measured."""
    matrix = np.full((found.places[-1] + 1,) * 2, np.nan)
    matrix[np.ix_(found.places, found.places)] = found.values
    return matrix


def _target(
    found: WordDependencies, encoded: EncodedInput, queries: slice = slice(None)
) -> list[list[float]]:
    """The pattern's target of an input without padding, of some rows of it."""
    batch = collate([encoded])
    (predictive,) = chosen(["predictive"])
    sees = torch.ones(1, *batch.word.shape[1:] * 2, dtype=torch.bool)
    part = batch.with_mask(sees[:, queries], slice(0, 1), queries, slice(0, len(encoded.tokens)))
    (target,) = Targets(batch, [predictive], [found]).of(part)
    rows: list[list[float]] = target[0].tolist()
    return rows


class SummingEncoder(torch.nn.Module):
    """An encoder that is constructed: the hidden state at a position is the true word's logit, in
    that word's place.

    Token i stands at position i, and its logit is the sum of what every visible token says of it.
    """

    config: Any = type("Config", (), {})()

    def __init__(self, influence: torch.Tensor) -> None:
        super().__init__()
        self.influence = influence  # [query, key], in nats

    def forward(self, input_ids: torch.Tensor, **_: object) -> BaseModelOutput:
        visible = (input_ids != VOCABULARY - 1).float()
        states = torch.diag_embed(visible @ self.influence.T)
        return BaseModelOutput(last_hidden_state=pad(states, (0, VOCABULARY - states.shape[-1])))


class SummingLM(torch.nn.Module):
    """Its head takes hidden states for logits."""

    config = SummingEncoder.config

    def __init__(self, encoder: SummingEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: torch.Tensor, **_: object) -> MaskedLMOutput:
        return MaskedLMOutput(logits=self.encoder(input_ids=input_ids).last_hidden_state)


def _loaded(encoder: Any, whole: Any, mask: int) -> LoadedModel:
    tokenizer: Any = type("Tokenizer", (), {"mask_token_id": mask})()
    fields = (encoder, whole, tokenizer, torch.device("cpu"), torch.float32, None, encoder)
    return LoadedModel(Source("constructed", ""), *fields)


def _of_ids(ids: list[int]) -> EncodedInput:
    """One sentence of tokens with these numbers, the first and the last of them special."""
    words = " ".join("w" for _ in ids[2:])
    return replace(
        input_of(f"[CLS] {words} [SEP]"),
        model_inputs={"input_ids": ids, "attention_mask": [1] * len(ids)},
    )


def _constructed(influence: torch.Tensor) -> tuple[LoadedModel, EncodedInput]:
    encoder = SummingEncoder(influence)
    return _loaded(encoder, SummingLM(encoder), VOCABULARY - 1), _of_ids(
        list(range(len(influence)))
    )


def _log_p(logit: float) -> float:
    """Of a word with that logit among VOCABULARY - 1 others at 0."""
    return logit - np.log(np.exp(logit) + VOCABULARY - 1)


def test_known_dependencies_have_their_analytic_values() -> None:
    influence = torch.zeros(8, 8)
    influence[2, 5] = 3.0
    influence[2, 3] = 1.5
    influence[4, 6] = 2.0
    loaded, encoded = _constructed(influence)
    found = _help(loaded, encoded, "cpmi", batch_tokens=40)
    assert _matrix(found)[2, 5] == pytest.approx(_log_p(4.5) - _log_p(1.5), abs=1e-5)
    assert _matrix(found)[2, 3] == pytest.approx(_log_p(4.5) - _log_p(3.0), abs=1e-5)
    assert _matrix(found)[4, 6] == pytest.approx(_log_p(2.0) - _log_p(0.0), abs=1e-5)
    others = [pair for pair in itertools.permutations(range(1, 7), 2) if not influence[pair]]
    assert_allclose([_matrix(found)[place] for place in others], 0, atol=1e-5)
    target = np.array(_target(found, encoded))
    assert target[2, 5] == 1
    assert 0 < target[2, 3] < 1
    # words that depend on nothing are not eligible
    assert np.flatnonzero(target.any(axis=1)).tolist() == [2, 4]


def test_a_word_is_as_likely_as_all_of_its_pieces_together() -> None:
    """Tokens 2 and 3 are one word, and token 5 helps both of them."""
    influence = torch.zeros(8, 8)
    influence[2, 5] = 3.0
    influence[3, 5] = 1.0
    loaded, encoded = _constructed(influence)
    words = replace(encoded, unit=(0, 1, 2, 2, 3, 4, 5, 6))
    matrix = _matrix(_help(loaded, words, "cpmi", batch_tokens=40))
    assert matrix[2, 4] == pytest.approx(_log_p(3.0) + _log_p(1.0) - 2 * _log_p(0.0), abs=1e-5)
    assert matrix[4, 2] == pytest.approx(0, abs=1e-5)


def test_help_by_distance_is_that_of_plain_loops(bundled_dir: Path) -> None:
    loaded = load(choose("bundled"))
    assert loaded.masked_lm is None
    encoded = _read(loaded, ARTICLE)
    checkpoint = Checkpoint(bundled_dir)
    matrix = _matrix(_help(loaded, encoded, "distance"))
    expected = helps(checkpoint, checkpoint.read(ARTICLE.texts))
    assert [*expected] == np.flatnonzero(~np.isnan(matrix).all(1)).tolist()
    for query, of_key in expected.items():
        assert_allclose(matrix[query, list(of_key)], list(of_key.values()), atol=1e-4)
        assert np.isnan(matrix[query]).sum() == len(matrix) - len(of_key)
    straw = encoded.units.index("straw")
    berries = encoded.units.index("##berries")
    assert np.nanargmax(matrix[straw]) == berries
    assert np.nanargmax(matrix[berries]) == straw


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("measure", "words"), [("distance", "hidden states"), ("cpmi", "log-probabilities")]
)
def test_answers_that_are_not_finite_are_refused(measure: str, words: str, value: float) -> None:
    """They would read as words that nothing helps to predict."""
    influence = torch.zeros(7, 7)
    influence[3] = value
    loaded, encoded = _constructed(influence)
    with pytest.raises(CaptureError, match=rf"{words} are not finite; .*float16' overflows"):
        _help(loaded, encoded, measure)


@pytest.mark.parametrize(
    ("count", "most"),
    [(5, 8), (8, 8), (9, 8), (100, 32), (33, 2), (500, 7), (10, 4), (12, 11), (9, 9)],
)
def test_sampled_words_are_runs_of_neighbours(count: int, most: int) -> None:
    words = spread(range(count), most)
    assert len(words) == len(set(words)) <= most
    assert words == sorted(words)
    assert words[0] == 0 and (most < 8 or words[-1] == count - 1)
    if count <= most:
        assert len(words) == count
    else:
        assert len(words) > most - 4


@pytest.mark.parametrize(
    ("tokens", "words"), [(1024, 32), (1025, 31), (2048, 22), (8192, 11), (10**6, 2)]
)
def test_of_more_than_1024_tokens_fewer_words_are_asked_about(tokens: int, words: int) -> None:
    assert _usual_words(tokens) == words


class TestLongInput:
    """An input of 4,096 tokens, of which few words are asked about."""

    LONG = _of_ids(list(range(4096)))

    def test_it_costs_no_more_than_1024_tokens_do(self) -> None:
        questions = MaskedQueries(self.LONG)
        assert len(questions.chosen) == 15
        assert len(questions.hidden) * questions.length <= 528 * 1024

    def test_its_answer_is_as_small_as_what_is_asked(self) -> None:
        answer = help_of(MaskedQueries(self.LONG), torch.zeros(2000, 1), "distance")
        assert answer.values.shape == (15, 15)

    def test_it_is_said_how_more_words_are_asked_about(self) -> None:
        hint = "(--predictive-words asks about more)"
        assert hint in MaskedQueries(self.LONG).describe("distance")
        assert hint not in MaskedQueries(_of_ids(list(range(45)))).describe("distance")
        assert hint not in MaskedQueries(self.LONG, 15).describe("distance")

    def test_as_many_words_are_asked_about_as_the_user_says(self) -> None:
        assert len(MaskedQueries(self.LONG, 40).chosen) == 40


def test_the_target_scales_rows_to_their_best_and_needs_half_a_nat() -> None:
    matrix = np.array([[np.nan, 2.0, 1.0], [0.4, np.nan, -3.0], [0.5, -1.0, np.nan]])
    shares = shares_of_best(matrix, "cpmi")
    assert shares.tolist() == [[0, 1, 0.5], [0, 0, 0], [1, 0, 0]]
    assert shares_of_best(matrix, "distance")[1].tolist() == [1, 0, 0]
    # among all units, and their rows alone, it stands where its words do
    _, encoded = _constructed(torch.zeros(6, 6))
    answer = WordDependencies(matrix, shares, (1, 3, 4), "cpmi", "")
    target = _target(answer, encoded)
    assert target == [[0] * 6, [0, 0, 0, 1, 0.5, 0], [0] * 6, [0] * 6, [0, 1, 0, 0, 0, 0], [0] * 6]
    assert _target(answer, encoded, slice(1, 4)) == target[1:4]
    assert np.isnan(_matrix(answer)).sum() == 25 - 6


def _has_head(family: str) -> bool:
    config = AutoConfig.for_model(family)
    return type(config) in MODEL_FOR_MASKED_LM_MAPPING and not config.is_encoder_decoder


MASKED_LMS = [family for family in (*TAPPED, *UNTAPPED) if _has_head(family)]


@pytest.mark.parametrize("family", MASKED_LMS)
def test_in_every_family_the_head_sees_hidden_positions_alone(
    family: str,
) -> None:
    torch.manual_seed(0)
    settings = {**TAPPED, **UNTAPPED}[family]
    config = AutoConfig.for_model(family, **settings)
    whole = AutoModelForMaskedLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in whole.parameters():  # random logits that differ from position to position
            parameter.add_(0.3 * torch.randn_like(parameter))
    ids = [2, 10, 20, 30, 40, 3]
    loaded = _loaded(whole.base_model, whole, 4)
    encoded = _of_ids(ids)
    widths: list[int] = []
    with whole.register_forward_hook(
        lambda _module, _arguments, output: widths.append(output.logits.shape[1])
    ):
        found = _help(loaded, encoded, "cpmi", batch_tokens=12)
    assert max(widths) == 4  # two sequences at once, at most two hidden words in each

    def log_p(at: int, *hidden: int) -> float:
        changed = torch.tensor([ids])
        changed[0, list(hidden)] = 4
        with torch.no_grad():
            logits = whole(input_ids=changed, attention_mask=torch.ones_like(changed)).logits
        return float(logits[0, at].log_softmax(-1)[ids[at]])

    for query, key in ((1, 2), (2, 1), (4, 1), (1, 4)):
        assert _matrix(found)[query, key] == pytest.approx(
            log_p(query, query) - log_p(query, query, key), abs=1e-4
        )
    assert not whole.base_model._forward_hooks


# Several inputs at once


MANY = [
    Pair("the cat sat on a mat", "a cat ran"),
    Pair("dogs bark", "."),
    Pair("it rained in the north", "we stayed"),
    Pair("the dog sat on a mat", "a dog ran ."),  # filled up beside the first
    Pair("."),
]


@pytest.fixture(scope="module", params=["bundled", "models/minilm-l6-mlm"])
def single_answers(
    shared: Path, request: pytest.FixtureRequest
) -> tuple[LoadedModel, HelpMeasure, list[WordDependencies]]:
    """A model, how it is asked, and what it says of each of MANY by itself."""
    loaded = load(
        choose(request.param if request.param == "bundled" else str(shared / request.param))
    )
    measure: HelpMeasure = "distance" if loaded.masked_lm is None else "cpmi"
    return loaded, measure, [_help(loaded, _read(loaded, pair), measure) for pair in MANY]


@pytest.mark.parametrize(("batch_tokens", "threads_taken"), [(30, 1), (5000, 1), (30, 2)])
def test_inputs_asked_together_are_answered_as_each_by_itself(
    single_answers: tuple[LoadedModel, HelpMeasure, list[WordDependencies]],
    threads: Any,
    batch_tokens: int,
    threads_taken: int,
) -> None:
    loaded, measure, alone = single_answers
    inputs = [MaskedQueries(_read(loaded, pair), 32) for pair in MANY]
    threads(threads_taken)
    reports: list[tuple[int, int]] = []
    found = help_between_words(
        loaded,
        inputs,
        measure,
        batch_tokens=batch_tokens,
        limit=_limit(loaded),
        tell=lambda *counts: reports.append(counts),
    )
    for result, expected in zip(found, alone, strict=True):
        assert_allclose(result.values, expected.values, atol=1e-4)
        assert_allclose(result.shares, expected.shares, atol=1e-4)
        assert (result.places, result.description) == (expected.places, expected.description)
    total = sum(len(questions.hidden) for questions in inputs)
    assert reports[0] == (0, total) and reports[-1] == (total, total)


# Of many pairs: what is asked costs about twice what scoring costs


def _sample(lengths: list[int]) -> list[EncodedInput]:
    """Inputs of so many words between two special tokens."""
    return [_of_ids(list(range(length + 2))) for length in lengths]


@pytest.mark.parametrize("measure", ["cpmi", "distance"])
@pytest.mark.parametrize("scored_tokens", [0, 3_000, 10_000, 10**6])
def test_asking_about_many_pairs_keeps_to_its_budget(
    measure: HelpMeasure, scored_tokens: int
) -> None:
    inputs = _sample([3, 40, 12, 1, 300, 7, 25])
    sample = within_budget(inputs, ["5" * 8] * 7, measure, scored_tokens=scored_tokens)
    costs = [len(questions.hidden) * questions.length for questions in sample]
    assert 0 < sum(costs) <= max(4096, 2 * scored_tokens)
    order = [inputs.index(questions.encoded) for questions in sample]
    assert order == sorted(order)
    if scored_tokens == 10**6:  # all that can be asked about
        assert len(sample) == len(inputs)


def test_the_masked_lm_head_is_asked_about_eight_neighbours() -> None:
    inputs = _sample([30] * 3 + [5])
    keys = [f"{number:x}" for number in (0, 22, 23, 4)]
    sample = within_budget(inputs, keys, "cpmi", scored_tokens=10**6)
    windows = [(questions.chosen[0], len(questions.chosen)) for questions in sample]
    assert windows == [(1, 8), (23, 8), (1, 8), (1, 5)]
    assert len(sample[0].hidden) == 8 + 28
    known = help_of(sample[0], torch.zeros(100), "cpmi")
    assert len(known.places) == 8
    assert (
        known.description
        == "predictive: nats by the masked-LM head, 8 of 30 words, 36 hidden sequences."
    )


def test_by_distance_pairs_are_asked_about_in_whole_where_they_fit() -> None:
    sample = within_budget(_sample([40, 6, 40, 9]), list("abcd"), "distance", scored_tokens=0)
    assert [len(questions.chosen) for questions in sample] == [6, 9]


def test_whole_words_are_hidden_as_one() -> None:
    loaded = load(choose("bundled"))
    encoded = _read(loaded, ARTICLE, "word")
    found = _help(loaded, encoded, "distance")
    assert "strawberries" in encoded.units
    assert len(found.places) == 15
    assert found.description.endswith(f" {12 + 12 * 11 // 2 + 12 * 3} hidden sequences.")

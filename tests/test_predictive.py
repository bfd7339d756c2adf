"""Which words help to predict which: analytic values, symmetry, real models, what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from families import TAPPED, UNTAPPED
from numpy.testing import assert_allclose
from tokenizers_of_kinds import KINDS, byte_level
from toy import save_toy_bert
from transformers import (
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoConfig,
    AutoModelForMaskedLM,
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2Model,
)

from attnscan.batch import EncodedInput
from attnscan.encode import encode_pair
from attnscan.engine import ScanState, scan
from attnscan.errors import ModelError
from attnscan.models import LoadedModel, load
from attnscan.one_input import classify, dependencies
from attnscan.options import ScanOptions
from attnscan.pairs import Pair, Record
from attnscan.predictive import average_product_corrected, help_between_words, spread
from attnscan.results import Help, Scores
from attnscan.scanner import Scanner
from attnscan.sources import Source, choose

ARTICLE = Pair("I went to the store.", "At the store, I bought fresh strawberries.")


def _ask(
    loaded: LoadedModel, pair: Pair, measure: Any = "cpmi", unit: Any = "token", **options: Any
) -> tuple[Help, EncodedInput]:
    encoded = encode_pair(loaded.tokenizer, pair, unit, loaded.limit, truncate=False)
    settings = {"most_words": 32, "batch_tokens": 4096, **options}
    return _help(loaded, encoded, measure, **settings), encoded


def _help(loaded: LoadedModel, encoded: EncodedInput, measure: Any, **settings: Any) -> Help:
    [found] = help_between_words(loaded, [encoded], measure, **settings)
    return found


# A masked LM that is constructed. Token i stands at position i, and the logit of the true word at a position is
# the sum of what every visible token says of it.


class _Output(dict[str, torch.Tensor]):
    """Enough of a ModelOutput."""

    def __getattr__(self, name: str) -> torch.Tensor:
        return self[name]

    def __setattr__(self, name: str, value: torch.Tensor) -> None:
        self[name] = value


class SummingEncoder(torch.nn.Module):
    """Its hidden state at a position is the true word's logit, in that word's place."""

    config: Any = type("Config", (), {})()

    def __init__(self, influence: torch.Tensor) -> None:
        super().__init__()
        self.influence = influence  # [query, key], in nats

    def forward(self, input_ids: torch.Tensor) -> _Output:
        visible = (input_ids != VOCABULARY - 1).float()
        states = torch.diag_embed(visible @ self.influence.T)
        return _Output(last_hidden_state=torch.nn.functional.pad(states, (0, VOCABULARY - states.shape[-1])))


class SummingLM(torch.nn.Module):
    """Its head takes hidden states for logits."""

    config = SummingEncoder.config

    def __init__(self, encoder: SummingEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: torch.Tensor) -> _Output:
        return _Output(logits=self.encoder(input_ids=input_ids).last_hidden_state)


VOCABULARY = 50


def _constructed(influence: torch.Tensor) -> tuple[LoadedModel, EncodedInput]:
    length = len(influence)
    encoder = SummingEncoder(influence)
    tokenizer: Any = type("Tokenizer", (), {"mask_token_id": VOCABULARY - 1})()
    loaded = LoadedModel(
        Source("constructed", ""), encoder, SummingLM(encoder), tokenizer, torch.device("cpu"), torch.float32, None
    )
    encoded = EncodedInput(
        tokens=tuple(f"w{i}" for i in range(length)),
        sentence=(-1, *[0] * (length - 2), -1),
        unit=tuple(range(length)),
        punctuation=(False,) * length,
        model_inputs={"input_ids": list(range(length))},
    )
    return loaded, encoded


def _log_p(logit: float) -> float:
    """Of a word with that logit among VOCABULARY - 1 others at 0."""
    return logit - np.log(np.exp(logit) + VOCABULARY - 1)


def test_known_dependencies_come_out_with_their_analytic_values_and_order() -> None:
    influence = torch.zeros(8, 8)
    influence[2, 5], influence[2, 3], influence[4, 6] = 3.0, 1.5, 2.0
    loaded, encoded = _constructed(influence)
    found = _help(loaded, encoded, "cpmi", most_words=32, batch_tokens=40)
    assert found.matrix[2, 5] == pytest.approx(_log_p(4.5) - _log_p(1.5), abs=1e-5)
    assert found.matrix[2, 3] == pytest.approx(_log_p(4.5) - _log_p(3.0), abs=1e-5)
    assert found.matrix[4, 6] == pytest.approx(_log_p(2.0) - _log_p(0.0), abs=1e-5)
    others = [(q, k) for q in range(1, 7) for k in range(1, 7) if q != k and not influence[q, k]]
    assert_allclose([found.matrix[place] for place in others], 0, atol=1e-5)
    assert found.target[2, 5] == 1 and 0 < found.target[2, 3] < 1
    assert set(np.flatnonzero(found.target.any(axis=1))) == {2, 4}  # words that depend on nothing are not eligible


def test_special_tokens_are_neither_hidden_nor_asked() -> None:
    loaded, encoded = _constructed(torch.ones(6, 6))
    matrix = _help(loaded, encoded, "cpmi", most_words=32, batch_tokens=4096).matrix
    for special in (0, 5):
        assert np.isnan(matrix[special]).all() and np.isnan(matrix[:, special]).all()
    assert np.isnan(np.diag(matrix)).all()


def test_one_sequence_with_both_hidden_serves_both_directions(shared: Path) -> None:
    """Against the two-sided computation: every ordered pair hidden and read by itself."""
    loaded = load(choose(str(shared / "models" / "minilm-l6-mlm")))
    found, encoded = _ask(loaded, Pair("the cat sat on", "a mat"))
    ids = torch.tensor(encoded.model_inputs["input_ids"])

    def log_p(at: int, hidden: set[int]) -> float:
        changed = ids.clone()
        changed[list(hidden)] = loaded.tokenizer.mask_token_id
        inputs = {k: torch.tensor(v)[None] for k, v in encoded.model_inputs.items()} | {"input_ids": changed[None]}
        with torch.no_grad():
            return float(loaded.masked_lm(**inputs).logits[0, at].log_softmax(-1)[ids[at]])

    measured = np.argwhere(~np.isnan(found.matrix))
    assert len(measured) == 6 * 5
    for query, key in measured:
        assert found.matrix[query, key] == pytest.approx(log_p(query, {query}) - log_p(query, {query, key}), abs=2e-4)


def test_the_articles_pair_in_a_real_masked_lm(shared: Path) -> None:
    loaded = load(choose(str(shared / "models" / "minilm-l6-mlm")))
    found, encoded = _ask(loaded, ARTICLE)
    words = list(encoded.units)
    first_i, second_i = words.index("i"), words.index("i", 5)
    went, to, bought = words.index("went"), words.index("to"), words.index("bought")
    assert found.matrix[went, to] == pytest.approx(1.7, abs=0.05)
    assert found.matrix[to, went] == pytest.approx(2.2, abs=0.05)
    assert found.matrix[first_i, second_i] == pytest.approx(3.1, abs=0.05)
    assert found.matrix[second_i, bought] == pytest.approx(5.6, abs=0.05)
    assert found.sequences <= 136 and (found.words, found.words_in_all) == (16, 16)


def test_straw_and_berries_are_each_others_strongest_helpers_by_distance() -> None:
    loaded = load(choose("bundled"))
    assert loaded.masked_lm is None
    found, encoded = _ask(loaded, ARTICLE, "distance")
    straw, berries = encoded.units.index("straw"), encoded.units.index("##berries")
    assert np.nanargmax(found.matrix[straw]) == berries
    assert np.nanargmax(found.matrix[berries]) == straw
    assert np.nanmin(found.matrix) == 0


def test_whole_words_are_hidden_as_one() -> None:
    loaded = load(choose("bundled"))
    found, encoded = _ask(loaded, ARTICLE, "distance", "word")
    assert "strawberries" in encoded.units
    assert found.words == 15 and found.sequences == 12 + 12 * 11 // 2 + 12 * 3


@pytest.mark.parametrize("batch_tokens", [1, 50, 10_000])
def test_the_batch_size_changes_nothing(batch_tokens: int) -> None:
    loaded = load(choose("bundled"))
    pair = Pair("the cat sat on a mat", "a cat ran")
    found, _ = _ask(loaded, pair, "distance", batch_tokens=batch_tokens)
    expected, _ = _ask(loaded, pair, "distance")
    assert_allclose(found.matrix, expected.matrix, atol=1e-4)


@pytest.mark.parametrize("measure", ["distance", "cpmi"])
def test_a_batch_that_the_accelerator_has_no_room_for_is_halved(
    shared: Path, of_little_memory: Any, measure: str
) -> None:
    loaded = load(choose(str(shared / "models/minilm-l6-mlm")))
    pair = Pair("the cat sat on a mat", "a cat ran")
    expected, _ = _ask(loaded, pair, measure)
    with of_little_memory(loaded.model, 5) as sizes:
        found, _ = _ask(loaded, pair, measure)
    assert max(sizes) > 5
    assert_allclose(found.matrix, expected.matrix, atol=1e-4)


def test_what_it_costs_is_said_before_it_is_paid() -> None:
    loaded, encoded = _constructed(torch.zeros(7, 7))
    reports: list[tuple[int, int]] = []
    paid: list[int] = []
    loaded.model.register_forward_pre_hook(lambda *_: paid.append(len(reports)))
    _help(loaded, encoded, "cpmi", most_words=32, batch_tokens=21, report=lambda *r: reports.append(r))
    assert min(paid) == 1
    total = 5 + 5 * 4 // 2
    assert reports[0] == (0, total) and reports[-1] == (total, total)
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)


@pytest.mark.parametrize(("count", "most"), [(5, 8), (8, 8), (9, 8), (100, 32), (33, 2), (500, 7), (10, 4), (12, 11)])
def test_sampled_words_are_runs_of_neighbours_spread_over_the_input(count: int, most: int) -> None:
    chosen = spread(range(count), most)
    assert len(chosen) == len(set(chosen)) <= most
    assert chosen == sorted(chosen)
    assert chosen[0] == 0 and (most < 8 or chosen[-1] == count - 1)
    if count > most:
        assert len(chosen) > most - 4


def test_a_bound_on_words_bounds_the_sequences() -> None:
    loaded, encoded = _constructed(torch.zeros(45, 45))
    found = _help(loaded, encoded, "cpmi", most_words=8, batch_tokens=4096)
    assert (found.words, found.words_in_all, found.sequences) == (8, 43, 8 + 28)


def test_average_product_correction_by_hand() -> None:
    distances = np.array([[np.nan, 4.0, 2.0], [2.0, np.nan, 1.0], [3.0, 3.0, np.nan]])
    rows, columns, overall = [3, 1.5, 3], [2.5, 3.5, 1.5], 2.5
    expected = [[max(0, distances[q, k] - rows[q] * columns[k] / overall) for k in range(3)] for q in range(3)]
    corrected = average_product_corrected(distances)
    assert np.isnan(np.diag(corrected)).all()
    off_diagonal = ~np.eye(3, dtype=bool)
    assert_allclose(corrected[off_diagonal], np.array(expected)[off_diagonal])


def test_the_target_scales_rows_to_their_best_and_needs_half_a_nat() -> None:
    matrix = np.array([[np.nan, 2.0, 1.0], [0.4, np.nan, -3.0], [0.5, -1.0, np.nan]])
    assert Help(matrix, "cpmi", 0, 3, 3).target.tolist() == [[0, 1, 0.5], [0, 0, 0], [1, 0, 0]]
    assert Help(matrix, "distance", 0, 3, 3).target[1].tolist() == [1, 0, 0]


def _has_head(family: str) -> bool:
    config = AutoConfig.for_model(family)
    return type(config) in MODEL_FOR_MASKED_LM_MAPPING and not config.is_encoder_decoder


MASKED_LMS = [family for family in (*TAPPED, *UNTAPPED) if _has_head(family)]


@pytest.mark.parametrize("family", MASKED_LMS)
def test_the_head_sees_hidden_positions_alone_and_says_the_same_in_every_family(family: str) -> None:
    torch.manual_seed(0)
    settings = {**TAPPED, **UNTAPPED}[family]
    config = AutoConfig.for_model(family, **settings)
    whole = AutoModelForMaskedLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in whole.parameters():  # random logits that differ from position to position
            parameter.add_(0.3 * torch.randn_like(parameter))
    tokenizer: Any = type("Tokenizer", (), {"mask_token_id": 4})()
    loaded = LoadedModel(
        Source(family, ""), whole.base_model, whole, tokenizer, torch.device("cpu"), torch.float32, None
    )
    ids = [2, 10, 20, 30, 40, 3]
    encoded = EncodedInput(
        tokens=tuple("abcdef"),
        sentence=(-1, 0, 0, 0, 0, -1),
        unit=tuple(range(6)),
        punctuation=(False,) * 6,
        model_inputs={"input_ids": ids, "attention_mask": [1] * 6},
    )
    widths: list[int] = []
    with whole.register_forward_hook(lambda _module, _arguments, output: widths.append(output.logits.shape[1])):
        found = _help(loaded, encoded, "cpmi", most_words=32, batch_tokens=12)
    assert max(widths) == 4  # two sequences at once, at most two hidden words in each

    def log_p(at: int, *hidden: int) -> float:
        changed = torch.tensor([ids])
        changed[0, list(hidden)] = 4
        with torch.no_grad():
            logits = whole(input_ids=changed, attention_mask=torch.ones_like(changed)).logits
        return float(logits[0, at].log_softmax(-1)[ids[at]])

    for query, key in ((1, 2), (2, 1), (4, 1), (1, 4)):
        assert found.matrix[query, key] == pytest.approx(log_p(query, query) - log_p(query, query, key), abs=1e-4)
    assert not whole.base_model._forward_hooks


# On real checkpoints, through the engine


def _save(directory: Path, model: Any, tokenizer: Any) -> str:
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return str(directory)


def _tiny_bert(head: bool) -> Any:
    torch.manual_seed(0)
    config = BertConfig(vocab_size=80, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16)
    whole = BertForMaskedLM(config)
    return whole if head else whole.bert


def test_the_best_measure_that_the_checkpoint_allows(tmp_path: Path) -> None:
    wordpiece = KINDS["wordpiece"]()
    with_head = _save(tmp_path / "lm", _tiny_bert(head=True), wordpiece)
    bare = _save(tmp_path / "bare", _tiny_bert(head=False), wordpiece)
    pair = Pair("the cat sat", "a cat")
    for model, asked, used in (
        (with_head, "auto", "cpmi"),
        (with_head, "distance", "distance"),
        (with_head, "off", "off"),
        (bare, "auto", "distance"),
    ):
        result = classify(pair, ScanOptions(model=model, predictive=asked))  # type: ignore[arg-type]
        assert result.signature.predictive == used
        assert ("predictive" in result.not_measured) == (used == "off")
    with pytest.raises(ModelError, match=r"--predictive cpmi .* no masked-LM head"):
        classify(pair, ScanOptions(model=bare, predictive="cpmi"))


def test_a_model_without_a_mask_token_says_why_its_column_is_empty(tmp_path: Path) -> None:
    tokenizer = byte_level()
    tokenizer.mask_token = None
    model = _save(tmp_path, GPT2Model(GPT2Config(vocab_size=340, n_embd=16, n_layer=2, n_head=2)), tokenizer)
    result = classify(Pair("the cat sat"), ScanOptions(model=model))
    assert result.not_measured == {"predictive": "the model has no mask token"}
    assert np.isnan(result.scores.every_key.score[..., result.scores.patterns.index("predictive")]).all()
    with pytest.raises(ModelError, match="no mask token"):
        dependencies(Pair("the cat sat"), ScanOptions(model=model))


def test_a_model_whose_words_do_not_depend_on_each_other_has_no_eligible_word(tmp_path: Path) -> None:
    directory = save_toy_bert(tmp_path, 2, 3, {(0, 0): "next-word"})
    result = classify(Pair("the cat sat on the mat"), ScanOptions(model=str(directory)))
    assert "predictive" not in result.not_measured
    assert (result.scores.every_key.n[..., result.scores.patterns.index("predictive")] == 0).all()


def _scanned(options: ScanOptions, pairs: list[Pair]) -> Scores:
    with Scanner(options) as scanner:
        state = ScanState()
        for after in scan(scanner, [Record(pair, "") for pair in pairs]):
            state = after
        return state.finish(scanner).scores


def test_a_scan_measures_a_seeded_sample_and_leaves_the_other_patterns_alone() -> None:
    pairs = [Pair(f"the cat number {i} sat", "a cat") for i in range(6)]
    options = ScanOptions(model="bundled", predictive_pairs=3)
    scores = _scanned(options, pairs)
    without = _scanned(replace(options, predictive="off"), pairs)
    predictive = scores.patterns.index("predictive")
    assert (scores.every_key.pairs[..., predictive] == 3).all()
    assert np.isfinite(scores.every_key.se[..., predictive]).all()
    others = [p for p in range(len(scores.patterns)) if p != predictive]
    assert_allclose(scores.every_key.score[..., others], without.every_key.score[..., others], atol=1e-6)
    assert_allclose(scores.entropy, without.entropy, atol=1e-6)
    backwards = _scanned(options, pairs[::-1])
    assert_allclose(backwards.every_key.score, scores.every_key.score, atol=1e-6)
    other = _scanned(replace(options, seed=5), pairs)
    assert not np.allclose(other.every_key.score[..., predictive], scores.every_key.score[..., predictive])


def test_the_models_attention_is_its_own_while_it_is_asked() -> None:
    """The tap is for scoring alone: hidden sequences run on the model's fast attention."""
    with Scanner(ScanOptions(model="bundled")) as scanner:
        seen: list[str] = []
        scanner.loaded.model.register_forward_pre_hook(
            lambda module, _: seen.append(module.config._attn_implementation)
        )
        scanner.help(scanner.encode(Pair("the cat sat")))
        assert set(seen) == {"sdpa"}

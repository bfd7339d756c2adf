"""Which words count as related, on embeddings made for it."""

from __future__ import annotations

from pathlib import Path

import torch

from attnscan.inputs.related import Relatedness

IDS = torch.arange(6)


def _planted() -> torch.Tensor:
    """2,000 random directions, of which 0 and 1 are nearly the same."""
    torch.manual_seed(0)
    rows = torch.randn(2000, 64)
    rows[1] = rows[0] + 0.1 * torch.randn(64)
    return rows


def test_near_tokens_are_related_and_random_ones_are_not() -> None:
    related = Relatedness.of(_planted(), seed=0).related(IDS, IDS)
    assert related.tolist() == [[i == j or {i, j} == {0, 1} for j in range(6)] for i in range(6)]


def test_the_threshold_is_the_percentile_of_random_pairs_of_different_tokens() -> None:
    rows = torch.nn.functional.normalize(_planted()[:1000], dim=-1)
    cosines = (rows @ rows.T)[~torch.eye(1000, dtype=torch.bool)]
    expected = cosines.quantile(0.999).item()
    assert abs(Relatedness.of(_planted()[:1000], seed=0).threshold - expected) < 0.02


def test_the_seed_decides() -> None:
    thresholds = [Relatedness.of(_planted(), seed=seed).threshold for seed in (0, 0, 1)]
    assert thresholds[0] == thresholds[1] != thresholds[2]


def test_where_no_pair_stands_out_none_is_related() -> None:
    """Rows all alike, or all orthogonal: every pair is at the percentile, and that says nothing."""
    for rows in (torch.eye(50), torch.ones(50, 8), torch.zeros(50, 8), torch.ones(1, 8)):
        related = Relatedness.of(rows, seed=0).related(IDS[:1], IDS[:1])
        assert not related.any()


def test_a_word_of_several_tokens_is_the_mean_of_their_directions() -> None:
    rows = torch.nn.functional.normalize(_planted(), dim=-1)
    aside = 4 * (rows[9] - (rows[9] @ rows[0]) * rows[0])
    rows[2], rows[3] = rows[0] + aside, rows[0] - aside  # neither points where 0 does, and both together do
    relatedness = Relatedness.of(rows, seed=0)
    ids = torch.tensor([0, 2, 3])
    assert not relatedness.related(ids, torch.tensor([0, 1, 2]))[0, 1:].any()
    assert relatedness.related(ids, torch.tensor([0, 1, 1]))[0, 1]


def test_the_bundled_model_relates_words_of_like_meaning(bundled_dir: Path) -> None:
    from safetensors.torch import load_file
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(bundled_dir)
    rows = load_file(bundled_dir / "model.safetensors")["embeddings.word_embeddings.weight"]
    ids = torch.tensor(tokenizer.convert_tokens_to_ids(["bought", "purchased", "a", "an", "went", "the"]))
    related = Relatedness.of(rows, seed=0).related(ids, torch.arange(6))
    pairs = {(i, j) for i, j in related.nonzero().tolist() if i < j}
    assert pairs == {(0, 1), (2, 3)}

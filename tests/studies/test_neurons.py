"""Which neurons a head rests on, from neurons by hand."""

from __future__ import annotations

import torch
from numpy.testing import assert_allclose
from written import input_of


def test_sign_agreement_of_a_head_whose_neurons_tell_sentences_apart() -> None:
    """Neurons by hand: one is positive in A and negative in B, on both sides; the other has one sign throughout."""
    from attnscan.inputs.batch import collate
    from attnscan.model.tap import AttentionBlock
    from attnscan.scoring.patterns import PATTERNS
    from attnscan.scoring.targets import Targets
    from attnscan.studies.neurons import NeuronScorer

    batch = collate([input_of("[CLS] a b [SEP] c d [SEP]")])
    signs = torch.tensor([0.0, 1, 1, 0, -1, -1, 0])
    telling = torch.stack([signs, torch.zeros(7)], -1)
    alike = torch.stack([torch.where(signs != 0, 1.0, 0), torch.zeros(7)], -1)
    neurons = torch.stack([telling, alike])[None]
    visible = torch.ones(1, 7, 7, dtype=torch.bool)
    scorer = NeuronScorer(Targets(batch, PATTERNS))
    every = slice(None)
    weights = torch.full((1, 2, 7, 7), 1 / 7)
    scorer(AttentionBlock((1, 2), 0, every, every, weights, visible, neurons, neurons, 1.0, None))
    sums = scorer.sums()
    assert sums is not None
    bag = [pattern.id for pattern in PATTERNS].index("bag-of-words")
    table = sums.finish()
    assert table.sign_agreement[0, :, bag].tolist() == [1, 0]
    assert_allclose(table.effective[0, :, bag], [1, 1], atol=1e-6)

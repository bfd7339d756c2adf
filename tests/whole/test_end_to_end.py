"""From two sentences to scores, on saved checkpoints of every kind of template: the plain loop's numbers each time."""

import csv
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints_of_kinds import CASES, Case, saved
from command_line import run
from families import eager_attention
from reference import Written, check_head
from transformers import AutoModel, AutoTokenizer

from attnscan.inputs.sentence import Pair
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner
from attnscan.scoring.blocks import Blocks
from attnscan.scoring.labels import scores_of

PAIRS = [
    Pair("the cat sat on the mat .", "a cat ran to the store"),
    Pair("strawberries"),
    Pair("the dog sat", "a mat and a dog and the store , on the mat !"),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda name: name.replace(" ", "-"))
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture(scope="module")
def checkpoint(case: Case, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory as users have it."""
    return saved(case, tmp_path_factory.mktemp("checkpoint"))


def _plainly(directory: Path) -> tuple[list[Written], list[torch.Tensor]]:
    """Each pair alone, by transformers alone: its tokens, and its weights [layer, head, query, key]."""
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    model = model.get_encoder() if model.config.is_encoder_decoder else model
    names = ["input_ids", "attention_mask", *["token_type_ids"] * (getattr(model.config, "type_vocab_size", 0) > 1)]
    written, weights = [], []
    for pair in PAIRS:
        inputs = tokenizer(pair.a, pair.b, return_tensors="pt")
        sentence = [-1 if s is None else s for s in inputs.sequence_ids(0)]
        tokens = [token.strip("Ġ▁") for token in tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])]
        written.append(Written(tokens, sentence))
        taken = {name: inputs[name] for name in names if name in inputs}
        weights.append(torch.cat(eager_attention(model, taken)))
    return written, weights


def test_sentences_and_delimiters_are_the_tokenizers_own(case: Case, checkpoint: Path) -> None:
    with Scanner(ScanOptions(model=str(checkpoint), predictive="off")) as scanner:
        encoded = scanner.encode(PAIRS[0])
    parts = ["AB"[s] if s >= 0 else token for token, s in zip(encoded.tokens, encoded.sentence, strict=True)]
    runs = [part for i, part in enumerate(parts) if part not in "AB" or i == 0 or parts[i - 1] != part]
    assert " ".join(runs) == case.template


def test_scores_are_the_plain_loops_in_any_batch(case: Case, checkpoint: Path) -> None:
    """Without delimiters, their score is NaN, not zero; the beginning alone is a delimiter too."""
    written, weights = _plainly(checkpoint)
    options = ScanOptions(model=str(checkpoint), related=False, predictive="off")
    found = []
    with Scanner(options) as scanner:
        encoded = [scanner.encode(pair) for pair in PAIRS]
        for batches in ([[0, 1, 2]], [[0], [1], [2]], [[2, 1], [0]]):
            first, *rest = [
                Blocks.of([PAIRS[i].key for i in batch], scanner.score([encoded[i] for i in batch]))
                for batch in batches
            ]
            found.append(scores_of(sum(rest, start=first).sums, [pattern.scored for pattern in options.patterns]))
    for scores, head in product(found, found[0].grid):
        visible = [(one[head.layer] > 0).any(0).numpy() for one in weights]
        assert all(np.triu(seen, 1).any() != case.causal for seen in visible if len(seen) > 1)
        check_head(scores, head, written, [one[head.place].double().numpy() for one in weights], visible=visible)
        delimiter = scores.every_key.score[(*head.place, scores.patterns.index("delimiter"))]
        assert np.isnan(delimiter) == (case.template == "A B")


def test_the_screen_and_table_of_a_decoder_say_what_it_has_not(tmp_path: Path) -> None:
    model = saved(CASES["decoder without delimiters"], tmp_path)
    asked: Any = ("classify", "the cat sat", "a cat ran", "--model", str(model))
    result = run(*asked)
    assert "delimiter: no word of this input is eligible" in result.stderr
    assert "predictive: not measured: the model has no mask token" in result.stderr
    text = " ".join(result.stdout.split())
    assert "3 layers × 4 heads" in text and "rest" not in text
    for cells in csv.DictReader(run(*asked, "--csv").stdout.splitlines()):
        assert cells["delimiter"] == cells["predictive"] == ""
        assert cells["next-word"] == "", "no key behind a query is seen"
        assert float(cells["previous-word"]) > 0

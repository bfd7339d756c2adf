"""A model made ready: what it signs, and what it runs while it is asked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from one_run import classify
from scans import ARTICLE, BUNDLED

from attnscan.inputs.pairs import Pair
from attnscan.scan.options import ScanOptions
from attnscan.scan.scanner import Scanner


def test_the_signature_says_what_was_run() -> None:
    signature = classify(ARTICLE, replace(BUNDLED, unit="word")).signature
    assert (signature.model, signature.unit, signature.dtype, signature.device) == ("bundled", "word", "float32", "cpu")
    assert (signature.read_by, signature.pairs_read, signature.pairs_truncated) == ("tap", 1, 0)
    other = classify(Pair(ARTICLE.a, "Another one."), BUNDLED).signature
    assert len(signature.input_hash) == 64 and signature.input_hash != other.input_hash


def test_a_pair_and_the_same_words_as_one_sentence_hash_differently() -> None:
    hashes = {classify(pair, BUNDLED).signature.input_hash for pair in (Pair("ab", "c"), Pair("a", "bc"), Pair("ab c"))}
    assert len(hashes) == 3


@pytest.mark.loads_anew
def test_the_models_attention_is_its_own_while_it_is_asked() -> None:
    """The tap is for scoring alone: hidden sequences run on the model's fast attention."""
    with Scanner(ScanOptions(model="bundled")) as scanner:
        seen: list[str] = []
        scanner.loaded.model.register_forward_pre_hook(
            lambda module, _: seen.append(module.config._attn_implementation)
        )
        scanner.helps([scanner.encode(Pair("the cat sat"))])
        assert set(seen) == {"sdpa"}

"""Saved weights come back as they were, and a file that is malformed or hostile is refused in one line."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import attnscan
from attnscan.errors import AttnscanError, WeightsError
from attnscan.inputs.weights import (
    Kind,
    SavedWeights,
    check_saved,
    read_weights,
    weights_of,
    write_weights,
)

TOKENS = ("[CLS]", "the", "cat", "[SEP]")
N = len(TOKENS)
Parts = dict[str, Any]


def softmax_rows(layers: int, heads: int, tokens: int, seed: int = 0) -> NDArray[np.float32]:
    """Random attention. Shape: [layer, head, query, key]."""
    weights = np.random.default_rng(seed).random((layers, heads, tokens, tokens)) + 0.01
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


ATTENTION = softmax_rows(2, 3, N)
GOOD: Parts = {
    "attention": ATTENTION,
    "tokens": np.array(TOKENS),
    "segments": np.array([0, 0, 0, 0]),
    "special": np.array([True, False, False, True]),
}


def changed(place: tuple[int, ...], value: float) -> NDArray[np.float32]:
    """The good attention but for one number."""
    attention = ATTENTION.copy()
    attention[place] = value
    return attention


def saved_at(path: Path, **changes: Any) -> Path:
    """A file of the good arrays but for some; None leaves one out."""
    arrays = {name: array for name, array in {**GOOD, **changes}.items() if array is not None}
    np.savez(path, **arrays)
    return path


def refusal(path: Path, kind: Kind = "encoder") -> str:
    """The line that says why a file is refused."""
    with pytest.raises(WeightsError) as caught:
        read_weights(path, kind)
    line = str(caught.value)
    assert str(path) in line
    assert len(line.splitlines()) == 1
    assert caught.value.remedy
    return line


def same(a: SavedWeights, b: SavedWeights) -> bool:
    return bool(
        np.array_equal(a.attention, b.attention)
        and (a.tokens, a.segments, a.special, a.padding) == (b.tokens, b.segments, b.special, b.padding)
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "weights.npz"


class TestRoundTrip:
    @settings(deadline=None, max_examples=draws(50))
    @given(
        layers=st.integers(1, 3),
        heads=st.integers(1, 3),
        words=st.lists(
            st.tuples(
                st.text(st.characters(codec="utf-8", exclude_characters="\0")).filter(lambda t: "pad" not in t.lower()),
                st.integers(0, 1),
                st.booleans(),
            ),
            max_size=5,
        ),
        seed=st.integers(0, 99),
    )
    def test_what_is_written_is_read(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        layers: int,
        heads: int,
        words: list[tuple[str, int, bool]],
        seed: int,
    ) -> None:
        tokens, segments, special = zip(*words, ("word", 1, False), strict=True)
        attention = softmax_rows(layers, heads, len(tokens), seed)
        before = SavedWeights(attention, tokens, segments, special, (False,) * len(tokens))
        path = tmp_path_factory.mktemp("round") / "w.npz"
        path.write_bytes(write_weights(before))
        assert same(read_weights(path), before)


class TestAccepted:
    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4"])
    def test_every_float_becomes_float32(self, file: Path, dtype: str) -> None:
        saved = read_weights(saved_at(file, attention=ATTENTION.astype(dtype)))
        assert saved.attention.dtype == np.float32
        np.testing.assert_allclose(saved.attention, ATTENTION, atol=1e-3)

    @pytest.mark.parametrize(("written", "read"), [("naïve".encode(), "naïve"), (b"\xff", "\ufffd")])
    def test_tokens_may_be_bytes_of_utf8_or_not(self, file: Path, written: bytes, read: str) -> None:
        saved = read_weights(saved_at(file, tokens=np.array([b"[CLS]", written, b"cat", b"[SEP]"])))
        assert saved.tokens == ("[CLS]", read, "cat", "[SEP]")

    @pytest.mark.parametrize(
        ("tokens", "special"),
        [
            (["[CLS]", "a", "b", "[SEP]"], [1, 0, 0, 1]),
            (["<s>", "a", "b", "</s>"], [1, 0, 0, 1]),
            (["<|endoftext|>", "a", "[MASK]", "[UNK]"], [1, 0, 0, 0]),
            (["a", "b", "c", "d"], [0, 0, 0, 0]),
            (["[cls]", "a", "b", "CLS"], [0, 0, 0, 0]),
            (["[CLS]", "a", "[SEP]", "[PAD]"], [1, 0, 1, 0]),
            (["[CLS]", "a", "[SEP]", "<pad>"], [1, 0, 1, 0]),
        ],
    )
    def test_without_special_the_spelling_decides(self, file: Path, tokens: list[str], special: list[int]) -> None:
        saved = read_weights(saved_at(file, tokens=np.array(tokens), special=None))
        assert saved.special == tuple(map(bool, special))
        assert saved.padding == tuple("pad" in token.lower() for token in tokens)


MALFORMED: dict[str, tuple[Parts, str]] = {
    "no axes": ({"attention": np.array(1.0)}, "shape []"),
    "one layer only": ({"attention": ATTENTION[0]}, "shape [3, 4, 4]"),
    "batch of three": ({"attention": ATTENTION[:, :, None]}, "a batch of 3 inputs; give one"),
    "empty": ({"attention": np.zeros(0)}, "sdpa shows no attention; load the model with attn_implementation='eager'"),
    "not square": ({"attention": ATTENTION[:, :, :3]}, "3 queries and 4 keys"),
    "fewer tokens than keys": ({"tokens": np.array(TOKENS[:3])}, "there are 3 tokens"),
    "logits": ({"attention": ATTENTION * 3}, "is not softmax weights"),
    "dropout": ({"attention": changed((0, 1, 2, 0), 0.0)}, "layer 0, head 1, query 2 sums to"),
    "NaN": ({"attention": changed((1, 0, 0, 0), np.nan)}, "NaN or infinity in layer 1"),
    "infinity": ({"attention": changed((0, 0, 0, 0), np.inf)}, "NaN or infinity in layer 0"),
    "beyond float32": ({"attention": np.full((1, 1, N, N), 1e300)}, "NaN or infinity in layer 0"),
    "negative": ({"attention": np.tile([1.5, -0.5, 0.0, 0.0], (1, 1, N, 1))}, "negative numbers in layer 0"),
    "integers": ({"attention": np.ones((1, 1, N, N), int)}, "type int64"),
    "no attention": ({"attention": None}, "no array 'attention'"),
    "nothing": (dict.fromkeys(GOOD), "no array 'attention' and no array 'tokens'"),
    "ids for tokens": ({"tokens": np.arange(N)}, "'tokens' is of type int64"),
    "segment 2": ({"segments": np.array([0, 1, 2, 1])}, "'segments' holds other numbers than 0 and 1"),
    "all special": ({"special": np.ones(N, bool)}, "every token is special"),
    "special or padding": (
        {"tokens": np.array(["[CLS]", "[SEP]", "[PAD]", "[PAD]"]), "special": None},
        "every token is special",
    ),
}


@pytest.mark.parametrize(("parts", "words"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_file_is_refused(file: Path, parts: Parts, words: str) -> None:
    assert words in refusal(saved_at(file, **parts))


CROSS = np.full((2, 1, 2, N), 1 / N, np.float32)
KINDS: Parts = {
    "cross_attention": CROSS,
    "decoder_attention": softmax_rows(2, 1, 2),
    "encoder_tokens": np.array(TOKENS),
    "decoder_tokens": np.array(["<pad>", "le"]),
    "predicted_tokens": np.array(["le", "</s>"]),
}
BAD_KINDS: dict[str, tuple[Parts, str]] = {
    "no source": ({"encoder_tokens": None}, "no array 'encoder_tokens'; save it with numpy.savez(file, cross_"),
    "square": ({"cross_attention": ATTENTION}, "4 queries and 4 keys, and there are 2 of the target, 4 of the source"),
    "turned round": ({"cross_attention": np.full((1, 1, N, 2), 0.5)}, "'cross_attention' is over 4 queries and 2 keys"),
    "ids for tokens": ({"decoder_tokens": np.arange(2)}, "'decoder_tokens' is of type int64"),
    "special": ({"encoder_special": np.array([1, 0])}, "'encoder_special' has 2 entries, and 'encoder_tokens' has 4"),
    "no word": ({"predicted_tokens": np.array(["</s>", "</s>"])}, "every token is special"),
    "no word of the source": ({"encoder_special": np.ones(N)}, "every token is special"),
    "nothing of it": ({"cross_attention": None}, "no array 'cross_attention'; give attention='decoder'"),
    "one kind": ({**dict.fromkeys(KINDS), **GOOD}, "no array 'cross_attention'; leave out attention,"),
}


@pytest.mark.parametrize(("parts", "words"), BAD_KINDS.values(), ids=BAD_KINDS.keys())
def test_malformed_kinds_are_refused(file: Path, parts: Parts, words: str) -> None:
    arrays = {name: array for name, array in {**KINDS, **parts}.items() if array is not None}
    np.savez(file, **arrays)
    line = refusal(file, "cross")
    assert words in line
    with pytest.raises(WeightsError) as caught:
        weights_of(arrays, "cross")
    assert str(caught.value) == line.removeprefix(f"{file}: ")


@pytest.mark.parametrize(
    ("tokens", "segments"),
    [
        ("[CLS] a cat [SEP] the dog [SEP]", "0000111"),
        ("<s> a cat </s> </s> the dog </s>", "00001111"),
        ("[CLS] a cat [SEP]", "0000"),
        ("a cat", "00"),
        ("[CLS] a [SEP] the [SEP] dog [SEP]", "0001111"),
    ],
)
def test_without_segments_the_first_special_token_behind_words_ends_the_first(tokens: str, segments: str) -> None:
    names = tokens.split()
    saved = weights_of({"attention": softmax_rows(1, 1, len(names)), "tokens": names})
    assert "".join(map(str, saved.segments)) == segments


class TestKinds:
    def test_queries_are_what_is_predicted_or_read_behind_the_source(self, file: Path) -> None:
        np.savez(file, **KINDS)
        saved = read_weights(file, "cross")
        assert saved.tokens == (*TOKENS, "le", "</s>") and saved.source == N
        assert saved.special == (True, False, False, True, False, True) and not any(saved.padding)
        assert read_weights(file, "cross", "reads").tokens[N:] == ("<pad>", "le")
        assert read_weights(file, "decoder").segments == (1, 1)

    def test_padding_behind_a_target_is_no_token_that_a_decoder_starts_with(self) -> None:
        tokens = ["<pad>", "le", "<pad>"]
        saved = weights_of({"decoder_attention": softmax_rows(1, 1, 3), "decoder_tokens": tokens}, "decoder")
        assert saved.special == (True, False, False) and saved.padding == (False, False, True)

    def test_layers_of_several_shapes_are_refused(self) -> None:
        layers = [torch.ones(1, 1, 2, 2), torch.ones(1, 1, 3, 3)]
        with pytest.raises(WeightsError, match="the parts of 'decoder_attention' differ in shape"):
            weights_of({"decoder_attention": layers, "decoder_tokens": ["a", "b"]}, "decoder")


class Bomb:
    """What touches a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = str(marker)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.marker,)


@pytest.mark.parametrize("name", GOOD)
def test_a_pickled_array_is_never_loaded(file: Path, tmp_path: Path, name: str) -> None:
    marker = tmp_path / "marker"
    np.savez(file, **{**GOOD, name: np.array([Bomb(marker)], dtype=object)})  # type: ignore[arg-type]
    assert "Object arrays cannot be loaded when allow_pickle=False" in refusal(file)
    np.savez(file, **GOOD, extra=np.array([Bomb(marker)], dtype=object))  # type: ignore[arg-type]
    assert read_weights(file).tokens == TOKENS
    assert not marker.exists()
    np.load(file, allow_pickle=True)["extra"]
    assert marker.exists(), "the control: whoever unpickles it runs it"


def npy(array: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array)
    return file.getvalue()


class TestNoArchive:
    @pytest.mark.parametrize(
        ("name", "words"), [("none", "there is no file"), ("", "Is a directory"), ("a" * 300, "File name too long")]
    )
    def test_what_is_no_file(self, tmp_path: Path, name: str, words: str) -> None:
        assert words in refusal(tmp_path / name)

    @pytest.mark.parametrize(
        "content",
        [b"", b"layer,head\n0,0\n", "καλημέρα".encode(), b"PK", b"PK\x03\x04" + b"\0" * 60, npy(ATTENTION)],
        ids=["empty", "csv", "text", "two letters", "zeros", "npy"],
    )
    def test_another_kind_of_file(self, file: Path, content: bytes) -> None:
        file.write_bytes(content)
        assert "not a valid .npz file" in refusal(file)

    def test_an_archive_of_other_things(self, file: Path) -> None:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("../../escape.npy", "x")
            archive.writestr("readme.txt", "x")
        assert "no array 'attention'" in refusal(file)
        assert not (file.parents[2] / "escape.npy").exists()


def test_the_largest_size_is_said(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnscan.inputs.weights.MAX_BYTES", 100)
    assert "its arrays take more than" in refusal(saved_at(file))


def test_what_could_not_be_read_again_is_not_saved() -> None:
    check_saved(384, 1600)
    with pytest.raises(WeightsError, match=r"36 heads on 8,192 tokens take more than 4 GiB, .* 5,461 tokens"):
        check_saved(36, 8192)


def test_classify_takes_what_transformers_shows() -> None:
    shown = tuple(torch.tensor(layer[None]) for layer in ATTENTION)
    result = attnscan.classify(weights=shown, tokens=TOKENS)
    expected = attnscan.classify(weights={name: GOOD[name] for name in ("attention", "tokens", "segments")})
    pd.testing.assert_frame_equal(result.to_frame(), expected.to_frame())
    for weights, tokens, why in (
        ((), TOKENS, "attn_implementation='eager'"),
        (None, TOKENS, "attn_implementation='eager'"),
        (shown, None, "give tokens="),
    ):
        with pytest.raises(AttnscanError, match=why):
            attnscan.classify(weights=weights, tokens=tokens)


@pytest.mark.parametrize("empty", [(), [], (None, None), np.zeros(0, np.float32)], ids=repr)
def test_a_model_that_shows_no_attention_is_to_be_loaded_eager(empty: Any) -> None:
    with pytest.raises(WeightsError, match="sdpa shows no attention; load the model with attn_implementation='eager'"):
        weights_of({"attention": empty, "tokens": TOKENS})

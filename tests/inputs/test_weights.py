"""Saved weights come back as they were; a malformed or hostile file is refused in one line."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.handwritten_inputs import random_weights
from support.hostile.runs import Trap
from support.hypothesis_draws import draws

import attnscan
from attnscan.errors import AttnscanError, WeightsError
from attnscan.inputs.weights import SavedKind, SavedWeights, read_weights, weights_of, write_weights

TOKENS = ("[CLS]", "the", "cat", "[SEP]")
N = len(TOKENS)
Parts = dict[str, Any]


ATTENTION = random_weights(2, 3, N, 0).numpy()
GOOD: Parts = {
    "attention": ATTENTION,
    "tokens": np.array(TOKENS),
    "segments": np.array([0, 0, 0, 0]),
    "special": np.array([True, False, False, True]),
}
KINDS: Parts = {
    "cross_attention": np.full((2, 1, 2, N), 1 / N, np.float32),
    "decoder_attention": random_weights(2, 1, 2, 0).numpy(),
    "encoder_tokens": np.array(TOKENS),
    "decoder_tokens": np.array(["<pad>", "le"]),
    "predicted_tokens": np.array(["le", "</s>"]),
}


def saved_at(path: Path, start: Parts = GOOD, **changes: Any) -> Path:
    """A file of the arrays but for some; None leaves one out."""
    np.savez(
        path, **{name: array for name, array in {**start, **changes}.items() if array is not None}
    )
    return path


def refusal(path: Path, kind: SavedKind = "encoder") -> str:
    """The line that says why a file is refused."""
    with pytest.raises(WeightsError) as caught:
        read_weights(path, kind)
    line = str(caught.value)
    assert str(path) in line and len(line.splitlines()) == 1 and caught.value.remedy
    return line


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "weights.npz"


@settings(deadline=None, max_examples=draws(50))
@given(
    layers=st.integers(1, 3),
    words=st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8", exclude_characters="\0")).filter(
                lambda t: "pad" not in t.lower()
            ),
            st.integers(0, 1),
            st.booleans(),
        ),
        max_size=5,
    ),
)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, layers: int, words: list[tuple[str, int, bool]]
) -> None:
    tokens, segments, special = zip(*words, ("word", 1, False), strict=True)
    before = SavedWeights(
        random_weights(layers, 2, len(tokens), 0).numpy(),
        tokens,
        segments,
        special,
        (False,) * len(tokens),
    )
    path = tmp_path_factory.mktemp("round") / "w.npz"
    path.write_bytes(write_weights(before))
    after = read_weights(path)
    assert np.array_equal(after.attention, before.attention)
    for name in ("tokens", "segments", "special", "padding"):
        assert getattr(after, name) == getattr(before, name)


@pytest.mark.parametrize("dtype", ["float16", "float64", ">f4"])
def test_every_float_becomes_float32(file: Path, dtype: str) -> None:
    saved = read_weights(saved_at(file, attention=ATTENTION.astype(dtype)))
    assert saved.attention.dtype == np.float32
    np.testing.assert_allclose(saved.attention, ATTENTION, atol=1e-3)


@pytest.mark.parametrize(
    ("tokens", "special", "segments"),
    [
        ("[CLS] a cat [SEP] the dog [SEP]", "1001001", "0000111"),
        ("<s> a cat </s> </s> the dog </s>", "10011001", "00001111"),
        ("<|endoftext|> a [MASK] [UNK]", "1000", "0000"),
        ("a cat", "00", "00"),
        ("[CLS] a [SEP] the [SEP] dog [SEP]", "1010101", "0001111"),
        ("[cls] a b CLS", "0000", "0000"),
        ("[CLS] a [SEP] [PAD]", "1010", "0001"),
    ],
)
def test_without_special_and_segments_the_spelling_decides(
    tokens: str, special: str, segments: str
) -> None:
    names = tokens.split()
    saved = weights_of({"attention": random_weights(1, 1, len(names), 0).numpy(), "tokens": names})
    assert "".join(str(int(extra)) for extra in saved.special) == special
    assert "".join(map(str, saved.segments)) == segments
    assert saved.padding == tuple(token == "[PAD]" for token in names)


def _pad(real: np.ndarray[Any, Any], left: int, right: int) -> np.ndarray[Any, Any]:
    """Weights over padding as well, whose own rows spread evenly over all that they may see."""
    size = left + real.shape[-1] + right
    padded = np.zeros((*real.shape[:2], size, size), np.float32)
    inside = slice(left, size - right)
    padded[..., :left, :] = 1 / size
    padded[..., inside, inside] = real
    padded[..., size - right :, inside] = 1 / real.shape[-1]
    return padded


@pytest.mark.parametrize(
    ("left", "right", "name"),
    [
        (3, 0, "[PAD]"),
        (0, 3, "<|finetune_right_pad_id|>"),
        (0, 2, "<|padding|>"),
        (2, 0, "<|endoftext|>"),
        (0, 2, "filling"),
        (1, 1, "<PAD>"),
    ],
)
def test_padding_is_left_out_on_either_side(left: int, right: int, name: str) -> None:
    words = ["[CLS]", "a", "cat", "[SEP]"]
    real = random_weights(2, 2, 4, 0).numpy()
    expected = weights_of({"attention": real, "tokens": words})
    tokens = [name] * left + words + [name] * right
    saved = weights_of({"attention": _pad(real, left, right), "tokens": tokens})
    assert saved.tokens == expected.tokens
    assert saved.special == expected.special
    assert saved.segments == expected.segments
    assert saved.left_out == left + right
    np.testing.assert_array_equal(saved.attention, expected.attention)


def test_tokens_that_look_at_themselves_alone_are_no_padding() -> None:
    eye = np.eye(3, dtype=np.float32)[None, None]
    saved = weights_of({"attention": eye, "tokens": ["a", "b", "c"]})
    assert saved.tokens == ("a", "b", "c")
    assert saved.left_out == 0


def test_segments_are_those_of_the_tokens_that_are_kept() -> None:
    real = random_weights(1, 1, 3, 0).numpy()
    arrays = {
        "attention": _pad(real, 2, 0),
        "tokens": ["[PAD]", "[PAD]", "a", "[SEP]", "b"],
        "segments": [0, 0, 0, 0, 1],
    }
    assert weights_of(arrays).segments == (0, 0, 1)


MALFORMED: dict[str, tuple[Parts, str]] = {
    "no axes": ({"attention": np.array(1.0)}, "shape []"),
    "batch of three": (
        {"attention": ATTENTION[:, :, None]},
        "it must be [layer, head, query, key], of one input",
    ),
    "empty": (
        {"attention": np.zeros(0)},
        "sdpa shows no attention; load the model with attn_implementation='eager'",
    ),
    "not square": ({"attention": ATTENTION[:, :, :3]}, "3 queries and 4 keys"),
    "fewer tokens than keys": (
        {"tokens": TOKENS[:3], "special": None, "segments": None},
        "there are 3 tokens",
    ),
    "logits": ({"attention": ATTENTION * 3}, "is not softmax weights"),
    "NaN": (
        {"attention": ATTENTION * [[[[1]]], [[[np.nan]]]]},
        "layer 1, head 0, query 0 sums to nan",
    ),
    "beyond float32": ({"attention": np.full((1, 1, N, N), 1e300)}, "sums to inf"),
    "negative": (
        {"attention": np.tile([1.5, -0.5, 0.0, 0.0], (1, 1, N, 1))},
        "layer 0, head 0, query 0 sums to 1, and its least is -0.5",
    ),
    "integers": ({"attention": np.ones((1, 1, N, N), int)}, "type int64"),
    "nothing": (
        dict.fromkeys(GOOD),
        "no array 'attention'; save it with numpy.savez(file, attention=..., tokens=...)",
    ),
    "ids for tokens": ({"tokens": np.arange(N)}, "'tokens' is of type int64"),
    "segment 2": ({"segments": np.array([0, 1, 2, 1])}, "has other numbers than 0 and 1"),
    "segments of others": ({"segments": np.array([0, 1])}, "save one 0 or 1 for each of the 4"),
    "all special": ({"special": np.ones(N, bool)}, "every token is special"),
}
BAD_KINDS: dict[str, tuple[Parts, str]] = {
    "no source": ({"encoder_tokens": None}, "save it, too: numpy.savez(file, encoder_tokens=...)"),
    "square": ({"cross_attention": ATTENTION}, "4 queries and 4 keys, and there are 4 + 2 tokens"),
    "turned round": (
        {"cross_attention": np.full((1, 1, N, 2), 0.5)},
        "'cross_attention' is over 4 queries and 2 keys",
    ),
    "special": (
        {"encoder_special": np.array([1, 0])},
        "'encoder_special' is of type int64 and shape [2]",
    ),
    "no word of the source": ({"encoder_special": np.ones(N)}, "every token is special"),
    "nothing of it": (
        {"cross_attention": None},
        "no array 'cross_attention'; give attention='decoder'",
    ),
    "two others": (
        {"cross_attention": None, "encoder_attention": ATTENTION},
        "give attention='encoder' or decoder",
    ),
    "one kind": (
        {**dict.fromkeys(KINDS), **GOOD},
        "no array 'cross_attention'; leave out attention",
    ),
}


@pytest.mark.parametrize(
    ("start", "kind", "parts", "words"),
    [
        *(pytest.param(GOOD, "encoder", *case, id=name) for name, case in MALFORMED.items()),
        *(
            pytest.param(KINDS, "cross", *case, id=f"kinds, {name}")
            for name, case in BAD_KINDS.items()
        ),
    ],
)
def test_a_malformed_file_is_refused(
    file: Path, start: Parts, kind: SavedKind, parts: Parts, words: str
) -> None:
    assert words in refusal(saved_at(file, start, **parts), kind)


def test_queries_are_what_is_predicted_or_read_behind_the_source(file: Path) -> None:
    saved = read_weights(saved_at(file, KINDS), "cross")
    assert saved.tokens == (*TOKENS, "le", "</s>") and saved.source == N
    assert saved.special == (True, False, False, True, False, True) and not any(saved.padding)
    assert read_weights(file, "cross", "reads").tokens[N:] == ("<pad>", "le")
    assert read_weights(file, "decoder").segments == (1, 1)


@pytest.mark.parametrize("name", GOOD)
def test_a_pickled_array_is_never_loaded(file: Path, tmp_path: Path, name: str) -> None:
    marker = tmp_path / "marker"
    bomb = np.array([Trap(marker)], dtype=object)
    assert "Object arrays cannot be loaded when allow_pickle=False" in refusal(
        saved_at(file, **{name: bomb})
    )
    assert read_weights(saved_at(file, extra=bomb)).tokens == TOKENS
    assert not marker.exists()
    np.load(file, allow_pickle=True)["extra"]
    assert marker.exists(), "the control: whoever unpickles it runs it"


def test_an_array_that_is_not_there_takes_no_memory(file: Path) -> None:
    array = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (4, 4, 25_000, 25_000)}  # 80 GB
    np.lib.format.write_array_header_1_0(array, header)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("attention.npy", array.getvalue())
        archive.writestr("../../escape.npy", "x")
    assert "is not a valid .npz file: " in refusal(file)


def test_classify_takes_what_transformers_shows() -> None:
    shown = tuple(torch.tensor(layer[None]) for layer in ATTENTION)
    result = attnscan.classify(weights=shown, tokens=TOKENS)
    expected = attnscan.classify(
        weights={name: GOOD[name] for name in ("attention", "tokens", "segments")}
    )
    pd.testing.assert_frame_equal(result.to_frame(), expected.to_frame())
    several = [torch.ones(1, 1, 2, 2), torch.ones(1, 1, 3, 3)]
    for weights, tokens, why in (
        (None, TOKENS, "attn_implementation='eager'"),
        ((None, None), TOKENS, "attn_implementation='eager'"),
        (shown, None, "give classify tokens="),
        (several, TOKENS, "the parts of 'attention' differ in shape"),
    ):
        with pytest.raises(AttnscanError, match=why):
            attnscan.classify(weights=weights, tokens=tokens)


KIND_NAMES: list[SavedKind] = ["encoder", "decoder", "cross"]


def test_all_kinds_of_an_encoder_decoder_are_written_and_read(tmp_path: Path) -> None:
    path = saved_at(tmp_path / "kinds.npz", {**KINDS, "encoder_attention": ATTENTION})
    before = {kind: read_weights(path, kind) for kind in KIND_NAMES}
    again = tmp_path / "again.npz"
    again.write_bytes(write_weights(before["cross"], before["encoder"], before["decoder"]))
    for kind, saved in before.items():
        after = read_weights(again, kind)
        assert np.array_equal(after.attention, saved.attention)
        assert (after.tokens, after.special) == (saved.tokens, saved.special)
        assert (after.segments, after.source) == (saved.segments, saved.source)


def test_a_targets_tokens_are_written_once_where_they_are_read(tmp_path: Path) -> None:
    path = saved_at(tmp_path / "kinds.npz", KINDS)
    read = read_weights(path, "cross", "reads")
    written = np.load(io.BytesIO(write_weights(read, read_weights(path, "decoder"))))
    assert "predicted_tokens" not in written
    assert written["decoder_tokens"].tolist() == ["<pad>", "le"]


def test_without_predicted_tokens_the_last_one_is_unknown(file: Path) -> None:
    saved = read_weights(saved_at(file, KINDS, predicted_tokens=None), "cross")
    assert saved.tokens[N:] == ("le", "[?]")
    assert saved.special[N:] == (False, True)


def test_padding_alone_is_kept() -> None:
    even = np.full((1, 1, 2, 2), 0.5, np.float32)
    with pytest.raises(WeightsError, match="every token is special"):
        weights_of({"attention": even, "tokens": ["[PAD]", "[PAD]"]})


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.npz", None, "cannot read {path}: it is not a file; check the path"),
        ("text.npz", b"text", "{path} is not a valid .npz file: it is no archive of arrays; save"),
    ],
)
def test_what_is_no_file_of_arrays_is_refused(
    tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert refusal(path).startswith(said.format(path=path))

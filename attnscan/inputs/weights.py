"""Attention weights in an `.npz` file: from other tools, other frameworks, or an earlier run.

The file is not trusted: pickled objects are never loaded.
"""

from __future__ import annotations

import io
import math
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import WeightsError
from attnscan.inputs.tokens import DELIMITERS, PADDING, QuerySide

MAX_BYTES = 4 << 30
"""The largest file of weights that is read, uncompressed: 384 heads at 1,600 tokens in float32."""

_ROW_TOLERANCE = 2e-3  # float16 rounds a row's sum by up to 5e-4
_REMEDY = "save it with numpy.savez(file, attention=..., tokens=...)"
_UNKNOWN = "[?]"  # what the last position of a target predicts, where a file has only what positions read

Kind = Literal["encoder", "decoder", "cross"]
_TEXTS: dict[Kind, tuple[str, ...]] = {
    "encoder": ("encoder",),
    "decoder": ("decoder",),
    "cross": ("encoder", "decoder"),
}
"""Of which texts a kind of attention has tokens; those of its queries are last."""


@dataclass(frozen=True)
class SavedWeights:
    """The attention of one input, of one kind.

    Raises: WeightsError if the parts do not fit together, or the rows are not softmax weights.
    """

    attention: NDArray[np.float32]
    """Shape: [layer, head, query, key]; every row sums to 1."""
    tokens: tuple[str, ...]
    segments: tuple[int, ...]
    """0 or 1 for every token."""
    special: tuple[bool, ...]
    """Which tokens are delimiters."""
    padding: tuple[bool, ...]
    """Which tokens only fill up."""
    source: int = 0
    """Of cross attention, how many tokens are the source's, which are keys; the target's behind them are queries."""
    array: str = "attention"
    """What files call it."""

    def __post_init__(self) -> None:
        shape, length = self.attention.shape, len(self.tokens)
        if len(shape) != 4 or 0 in shape:
            what = f"'{self.array}' has shape {list(shape)}"
            raise WeightsError(what, "it must be [layer, head, query, key], without a batch axis")
        if shape[2:] != (length - self.source, self.source or length):
            tokens = f"{length - self.source} of the target, {self.source} of the source" if self.source else length
            what = f"'{self.array}' is over {shape[2]} queries and {shape[3]} keys, and there are {tokens} tokens"
            raise WeightsError(what, "save the weights of one input with all of its tokens")
        for name in ("segments", "special"):
            if (entries := len(getattr(self, name))) != length:
                what = f"'{name}' has {entries} entries, and there are {length} tokens"
                raise WeightsError(what, "give one for each token")
        is_word = ~np.logical_or(self.special, self.padding)
        if not is_word[self.source :].any() or (self.source and not is_word[: self.source].any()):
            raise WeightsError("every token is special, so there is no word to score", "mark words in 'special' as 0")
        remedy = "save weights after the softmax, not before, and without dropout"
        for layer, weights in enumerate(self.attention):
            if not np.isfinite(weights).all() or (weights < 0).any():
                raise WeightsError(f"'{self.array}' has NaN, infinity or negative numbers in layer {layer}", remedy)
            sums = weights.sum(-1, dtype=np.float64)
            if (off := np.abs(sums - 1)).max() > _ROW_TOLERANCE:
                head, query = np.unravel_index(off.argmax(), off.shape)
                row = f"the row of layer {layer}, head {head}, query {query} sums to {sums[head, query]:.6g}"
                raise WeightsError(f"'{self.array}' is not softmax weights: {row}", remedy)


def check_saved(heads: int, tokens: int) -> None:
    """Check that so many heads' weights can be saved, before they are made.

    Raises: WeightsError if `read_weights` would refuse the file for its size.
    """
    of_a_token = heads * np.dtype(np.float32).itemsize
    if of_a_token * tokens**2 > MAX_BYTES:
        size = f"{heads:,} heads on {tokens:,} tokens take more than {MAX_BYTES >> 30} GiB"
        what = f"the weights of {size}, as a file may: {math.isqrt(MAX_BYTES // of_a_token):,} tokens would fit"
        raise WeightsError(what, "save a shorter input, or some weights by `show HEADS --window I-J --csv`")


def write_weights(*kinds: SavedWeights) -> bytes:
    """The bytes of a file that `read_weights` reads: of one attention, or of the kinds of an encoder-decoder.

    Of cross attention that has its queries by what they predict, the decoder's own says what they read.
    """
    arrays: dict[str, Any] = {}
    if len(kinds) == 1 and kinds[0].array == "attention":
        arrays = {name: getattr(kinds[0], name) for name in ("attention", "tokens", "segments", "special")}
        kinds = ()
    for saved in sorted(kinds, key=lambda saved: saved.source):  # cross attention last
        array = "encoder_attention" if saved.array == "attention" else saved.array
        text, tokens, special = array.removesuffix("_attention"), saved.tokens, saved.special
        arrays[array] = saved.attention
        if text == "cross":
            arrays |= {"encoder_tokens": tokens[: saved.source], "encoder_special": special[: saved.source]}
            text, tokens, special = "predicted", tokens[saved.source :], special[saved.source :]
        if text != "predicted" or tokens != arrays.get("decoder_tokens"):
            arrays |= {f"{text}_tokens": tokens, f"{text}_special": special}
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **{name: np.array(values) for name, values in arrays.items()})
    return file.getvalue()


def read_weights(path: Path, kind: Kind = "encoder", query: QuerySide = "predicts") -> SavedWeights:
    """Read a kind of attention from a file of what `weights_of` takes.

    Raises: WeightsError, which names the file, if it is anything else.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():  # a device may have no end
            raise WeightsError("is not a regular file", "save the weights into one")
        quiet = warnings.catch_warnings(action="ignore"), np.errstate(all="ignore")  # a file speaks through us only
        with quiet[0], quiet[1], zipfile.ZipFile(path) as archive:
            sizes = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            names = _wanted(sizes, kind)
            if sum(sizes[name].file_size for name in names) > MAX_BYTES:
                raise WeightsError(f"its arrays take more than {MAX_BYTES >> 30} GiB", "save fewer layers or tokens")
            arrays = {name: _read_array(archive, sizes[name]) for name in names}
            return weights_of(arrays, kind, query)
    except WeightsError as error:
        raise WeightsError(f"{path}: {error.what}", error.remedy) from None
    except OSError as error:
        raise WeightsError(f"cannot read {path}: {error.strerror or error}", "check the path") from None
    except MemoryError:
        raise WeightsError(f"{path} does not fit into memory", "save fewer layers or tokens") from None
    except Exception as error:  # zipfile, its decompressors and numpy's header parser raise whatever their parts raise
        why = str(error)[:200] or type(error).__name__
        raise WeightsError(f"{path} is not a valid .npz file: {why}", _REMEDY) from None


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Raises: WeightsError if the header claims more bytes than there are, so that no memory is asked for them."""
    with archive.open(member) as file:
        is_old = np.lib.format.read_magic(file) == (1, 0)
        read_header = np.lib.format.read_array_header_1_0 if is_old else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(file)
        if math.prod(shape) * dtype.itemsize > member.file_size:
            raise WeightsError(f"'{member.filename}' is cut off: its header has shape {list(shape)}", _REMEDY)
    with archive.open(member) as file:
        array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        return array


def weights_of(arrays: Mapping[str, Any], kind: Kind = "encoder", query: QuerySide = "predicts") -> SavedWeights:
    """Saved weights from the arrays of such a file: `attention`, `tokens` and perhaps `segments` and `special`.

    Of an encoder-decoder they are `encoder_attention`, `decoder_attention` and `cross_attention`, or the `kind` that is
    read; `encoder_tokens`, and `decoder_tokens`, which positions read; perhaps `predicted_tokens`; and for each of
    these lists perhaps which are special, such as `decoder_special`.
    Shape: attention is [layer, head, query, key], or a list of [1, head, query, key] for each layer, as transformers
    shows it; the others have an entry for each token.
    Raises: WeightsError if they are anything else.
    """
    parts = {name: _as_array(name, arrays[name]) for name in _wanted(arrays, kind)}
    array = f"{kind}_attention" if f"{kind}_attention" in parts else "attention"
    names = ["tokens"] if array == "attention" else [f"{text}_tokens" for text in _TEXTS[kind]]
    if missing := [name for name in (array, *names) if name not in parts]:
        remedy = _REMEDY.replace("attention=..., tokens", f"{array}=..., {'=..., '.join(names)}")
        raise WeightsError(f"has no array {' and no array '.join(map(repr, missing))}", remedy)
    attention = _attention(parts[array], array)
    texts = [_tokens(parts, name) for name in names]
    if kind == "cross" and query == "predicts":
        tokens, special = texts[-1]
        later = (*tokens[1:], _UNKNOWN), (*special[1:], True)
        texts[-1] = _tokens(parts, "predicted_tokens") if "predicted_tokens" in parts else later
    source = len(texts[0][0]) if kind == "cross" else 0
    tokens, special = (sum(values, ()) for values in zip(*texts, strict=True))
    if array != "attention":
        segments = (0,) * source + (int(kind != "encoder"),) * (len(tokens) - source)
    elif "segments" in parts:
        segments = tuple(map(int, _zeros_and_ones(parts, "segments")))
    else:
        segments = _segments(special)
    padding = tuple(token in PADDING and not extra for token, extra in zip(tokens, special, strict=False))
    return SavedWeights(attention, tokens, segments, special, padding, source, array)


def _wanted(names: Iterable[str], kind: Kind) -> list[str]:
    """Which arrays are read, of those that are there. Raises: WeightsError if the kind is not among them."""
    there = [known for known in _TEXTS if f"{known}_attention" in names]
    wanted = ["attention", "tokens", "segments", "special"]
    if kind in there and not (kind == "encoder" and "attention" in names):
        of_texts = [f"{text}_{what}" for text in (*_TEXTS[kind], "predicted") for what in ("tokens", "special")]
        wanted = [f"{kind}_attention", *of_texts]
    elif kind != "encoder" or (there and "attention" not in names):
        remedy = f"give --attention {' or '.join(there)}" if there else "leave out --attention"
        raise WeightsError(f"has no array '{kind}_attention'", f"{remedy}, or save it, too")
    return [name for name in wanted if name in names]


def _as_array(name: str, values: Any) -> NDArray[Any]:
    """An array of numbers or texts, or of a tensor for each layer. Raises: WeightsError if it is none."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        return np.asarray(values.float() if values.is_floating_point() else values)
    if isinstance(values, list | tuple):
        is_empty = all(layer is None for layer in values)
        values = [] if is_empty else [_as_array(name, layer) if hasattr(layer, "detach") else layer for layer in values]
    try:
        return np.asarray(values)
    except ValueError:
        raise WeightsError(f"the parts of '{name}' differ in shape", "give layers of one shape") from None


def _attention(values: NDArray[Any], name: str) -> NDArray[np.float32]:
    if values.shape == (0,):
        what = f"'{name}' is empty: sdpa shows no attention"
        raise WeightsError(what, "load the model with attn_implementation='eager'")
    if values.dtype.kind != "f":
        raise WeightsError(f"'{name}' is of type {values.dtype}", "save float16, float32 or float64")
    if values.ndim == 5:  # a batch in each layer, as transformers shows it
        if values.shape[1] != 1:
            what = f"'{name}' is of a batch of {values.shape[1]} inputs"
            raise WeightsError(what, "give one: [a[:1] for a in attentions]")
        values = values[:, 0]
    return values.astype(np.float32, copy=False)


def _tokens(parts: Mapping[str, NDArray[Any]], name: str) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """The tokens of a text, and which are special: as an array says or, if there is none, by spelling."""
    array = parts[name]
    if array.ndim != 1 or array.dtype.kind not in "US":
        what = f"'{name}' is of type {array.dtype} and shape {list(array.shape)}"
        raise WeightsError(what, "save a plain list of strings")
    tokens = tuple(token.decode(errors="replace") if isinstance(token, bytes) else token for token in array.tolist())
    special_name = name.replace("tokens", "special")
    if special_name in parts:
        special = tuple(map(bool, _zeros_and_ones(parts, special_name)))
        if len(special) != len(tokens):
            what = f"'{special_name}' has {len(special)} entries, and '{name}' has {len(tokens)}"
            raise WeightsError(what, "give one for each token")
        return tokens, special
    # a decoder may start with what others pad with
    return tokens, tuple(
        token in DELIMITERS or (at == 0 and name != "tokens" and token in PADDING) for at, token in enumerate(tokens)
    )


def _zeros_and_ones(parts: Mapping[str, NDArray[Any]], name: str) -> list[float]:
    values = parts[name]
    if values.ndim != 1 or values.dtype.kind not in "biuf" or not np.isin(values, (0, 1)).all():
        what = f"'{name}' is of type {values.dtype} and shape {list(values.shape)}, or has other numbers than 0 and 1"
        raise WeightsError(what, "save one 0 or 1 for each token")
    return list(values.tolist())


def _segments(special: Iterable[bool]) -> tuple[int, ...]:
    """A segment for each token: the second one begins behind the special token that closes the first words."""
    segments, words, closed = [], False, False
    for extra in special:
        segments.append(int(closed))
        closed = closed or (extra and words)
        words = words or not extra
    return tuple(segments)

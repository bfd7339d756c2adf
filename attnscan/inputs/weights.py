"""Attention weights in an `.npz` file: from other tools, other frameworks, or an earlier run.

The file is not trusted. Its arrays are described in headers, which are read and checked before any
array is, so that a small file cannot ask for a large memory; and pickled objects are never loaded.
"""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnscan.errors import WeightsError
from attnscan.inputs.tokens import DELIMITERS, PADDING

MAX_BYTES = 4 << 30
"""The largest file of weights that is read, uncompressed: 384 heads at 1,600 tokens in float32."""
MAX_TOKENS = 1 << 16
"""More entries than any array with one for each token can have: the weights would not fit into MAX_BYTES."""
MAX_HEADS = 1 << 16
"""The largest known models have 16,128 heads."""

_ROW_TOLERANCE = 2e-3  # float16 rounds a row's sum by up to 5e-4
_REMEDY = "save it with numpy.savez(file, attention=..., tokens=..., segments=...)"


@dataclass(frozen=True)
class SavedWeights:
    """The attention of one input.

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

    def __post_init__(self) -> None:
        shape, length = self.attention.shape, len(self.tokens)
        if len(shape) != 4 or 0 in shape:
            raise WeightsError(
                f"'attention' has shape {list(shape)}", "it must be [layer, head, query, key], without a batch axis"
            )
        if shape[0] * shape[1] > MAX_HEADS:
            raise WeightsError(f"'attention' is of {shape[0] * shape[1]} heads", f"save at most {MAX_HEADS}")
        if shape[2] != shape[3] or shape[2] != length:
            raise WeightsError(
                f"'attention' is over {shape[2]} queries and {shape[3]} keys, and there are {length} tokens",
                "save the weights of one input with all of its tokens",
            )
        for name in ("segments", "special"):
            if len(getattr(self, name)) != length:
                raise WeightsError(
                    f"'{name}' has {len(getattr(self, name))} entries, and there are {length} tokens",
                    "give one for each token",
                )
        if not any(not extra and not pad for extra, pad in zip(self.special, self.padding, strict=True)):
            raise WeightsError("every token is special, so there is no word to score", "mark words in 'special' as 0")
        self._check_rows()

    def _check_rows(self) -> None:
        for layer, weights in enumerate(self.attention):
            if not np.isfinite(weights).all():
                raise WeightsError(f"'attention' has NaN or infinity in layer {layer}", "save the softmax weights")
            if (weights < 0).any():
                raise WeightsError(
                    f"'attention' has negative numbers in layer {layer}", "save weights after the softmax, not before"
                )
            off = np.abs(weights.sum(-1, dtype=np.float64) - 1)
            if off.max() > _ROW_TOLERANCE:
                head, query = np.unravel_index(off.argmax(), off.shape)
                raise WeightsError(
                    f"'attention' is not softmax weights: the row of layer {layer}, head {head}, query {query} "
                    f"sums to {weights[head, query].sum(dtype=np.float64):.6g}",
                    "save weights after the softmax, without dropout",
                )


def read_weights(path: Path) -> SavedWeights:
    """Read a file with `attention`, `tokens`, `segments` and perhaps `special`.

    Raises: WeightsError, which names the file, if it is anything else.
    """
    try:
        with (
            warnings.catch_warnings(action="ignore"),
            np.errstate(all="ignore"),
        ):  # a hostile file speaks through us only
            return _saved(_read_arrays(path))
    except WeightsError as error:
        raise WeightsError(f"{path}: {error.what}", error.remedy) from None
    except FileNotFoundError:
        raise WeightsError(f"there is no file {path}", "check the path") from None
    except OSError as error:
        raise WeightsError(f"cannot read {path}: {error.strerror or error}", "check the path") from None
    except MemoryError:
        raise WeightsError(f"{path} does not fit into memory", "save fewer layers or tokens") from None
    except Exception as error:  # zipfile, its decompressors and numpy's header parser raise whatever their parts raise
        why = str(error)[:200] or type(error).__name__
        raise WeightsError(f"{path} is not a valid .npz file: {why}", _REMEDY) from None


def check_saved(heads: int, tokens: int) -> None:
    """Check that so many heads' weights can be saved, before they are made.

    Raises: WeightsError if `read_weights` would refuse the file for its size.
    """
    of_a_token = heads * np.dtype(np.float32).itemsize
    if of_a_token * tokens**2 > MAX_BYTES:
        raise WeightsError(
            f"the weights of {heads:,} heads on {tokens:,} tokens take more than {MAX_BYTES >> 30} GiB, as large "
            f"as a file of weights may be: {isqrt(MAX_BYTES // of_a_token):,} tokens would fit",
            "save a shorter input, or some weights by `show HEADS --window I-J --csv`",
        )


def write_weights(saved: SavedWeights) -> bytes:
    """The bytes of a file that `read_weights` reads."""
    file = io.BytesIO()
    np.savez_compressed(
        file,
        attention=saved.attention,
        tokens=np.array(saved.tokens),
        segments=np.array(saved.segments),
        special=np.array(saved.special),
    )
    return file.getvalue()


def weights_of(arrays: Mapping[str, ArrayLike]) -> SavedWeights:
    """Saved weights from the arrays of such a file: `attention`, `tokens`, `segments` and perhaps `special`.

    Shape: `attention` is [layer, head, query, key], the others have an entry for each token.
    Raises: WeightsError if they are anything else.
    """
    return _saved({name: np.asarray(array) for name, array in arrays.items()})


def _saved(arrays: dict[str, NDArray[Any]]) -> SavedWeights:
    missing = [name for name in ("attention", "tokens", "segments") if name not in arrays]
    if missing:
        raise WeightsError(f"has no array {' and no array '.join(map(repr, missing))}", _REMEDY)
    attention, tokens = arrays["attention"], _texts(arrays["tokens"])
    if attention.dtype.kind != "f":
        raise WeightsError(f"'attention' is of type {attention.dtype}", "save float16, float32 or float64")
    if "special" in arrays:
        special = tuple(map(bool, _numbers(arrays["special"], "special")))
    else:
        special = tuple(token in DELIMITERS for token in tokens)
    return SavedWeights(
        attention=attention.astype(np.float32, copy=False),
        tokens=tokens,
        segments=tuple(int(segment) for segment in _numbers(arrays["segments"], "segments")),
        special=special,
        padding=tuple(token in PADDING and not extra for token, extra in zip(tokens, special, strict=False)),
    )


def _texts(tokens: NDArray[Any]) -> tuple[str, ...]:
    if tokens.ndim != 1 or tokens.dtype.kind not in "US":
        raise WeightsError(
            f"'tokens' is of type {tokens.dtype} and shape {list(tokens.shape)}", "save a plain list of strings"
        )
    if tokens.dtype.kind == "S":
        return tuple(token.decode("utf-8", errors="replace") for token in tokens.tolist())
    return tuple(tokens.tolist())


def _numbers(values: NDArray[Any], name: str) -> list[float]:
    if values.ndim != 1 or values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        raise WeightsError(
            f"'{name}' is of type {values.dtype} and shape {list(values.shape)}", "save one 0 or 1 for each token"
        )
    if not np.isin(values, (0, 1)).all():
        raise WeightsError(f"'{name}' holds other numbers than 0 and 1", "save one 0 or 1 for each token")
    return list(values.tolist())


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    if path.exists() and not path.is_file() and not path.is_dir():  # a device may have no end, nor a pipe a beginning
        raise WeightsError("is not a regular file", "save the weights into one")
    wanted = ("attention", "tokens", "segments", "special")
    with zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        present = [name for name in wanted if name in members]
        if sum(members[name].file_size for name in present) > MAX_BYTES:
            raise WeightsError(f"its arrays take more than {MAX_BYTES >> 30} GiB", "save fewer layers or tokens")
        arrays = {}
        for name in present:
            with archive.open(members[name]) as member:
                _check_header(member, name, members[name].file_size)
            with archive.open(members[name]) as member:
                arrays[name] = np.lib.format.read_array(member, allow_pickle=False)
        return arrays


def _check_header(member: IO[bytes], name: str, size: int) -> None:
    """The header must describe exactly the bytes that follow it."""
    version = np.lib.format.read_magic(member)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(member)
    if dtype.hasobject:
        raise WeightsError(
            f"'{name}' holds pickled Python objects, which are never loaded", "save arrays of numbers and strings"
        )
    entries = int(np.prod(shape, dtype=object))
    if name != "attention" and entries > MAX_TOKENS:
        raise WeightsError(f"'{name}' has {entries} entries", "save the weights of one input, one entry for each token")
    if entries * dtype.itemsize != size - member.tell():
        raise WeightsError(f"the header of '{name}' does not fit its {size} bytes", _REMEDY)

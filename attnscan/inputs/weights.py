"""Attention weights in an `.npz` file, from other tools or an earlier run. Pickled objects are never loaded."""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attnscan.errors import WeightsError
from attnscan.inputs.encode import is_punctuation, spelled_units
from attnscan.inputs.sentence import PADDING, SPECIAL, EncodedInput, QuerySide, Unit

DELIMITERS = frozenset(
    (
        *("[CLS]", "[SEP]", "[BOS]", "[EOS]", "<cls>", "<sep>", "<bos>", "<eos>", "<s>", "</s>"),
        *("<|endoftext|>", "<|begin_of_text|>", "<|end_of_text|>"),
    )
)
"""Special tokens by spelling, for saved weights that do not say which tokens are special."""
PADDING_TOKENS = frozenset(("[PAD]", "<pad>", "<|pad|>"))
_ROW_TOLERANCE = 2e-3  # float16 rounds a row's sum by up to 5e-4
_REMEDY = "save it with numpy.savez(file, attention=..., tokens=...)"
_UNKNOWN = (
    "[?]"  # what the last position of a target predicts, where a file has only what positions read
)

SavedKind = Literal["encoder", "decoder", "cross"]
_TEXTS = {"encoder": ("encoder",), "decoder": ("decoder",), "cross": ("encoder", "decoder")}
"""Of which texts a kind of attention has tokens; those of its queries are last."""


@dataclass(frozen=True)
class SavedWeights:
    """The attention of one input, of one kind. Raises: WeightsError for what does not fit, or is no softmax."""

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
            raise WeightsError(
                f"'{self.array}' has shape {list(shape)}",
                "it must be [layer, head, query, key], of one input without a batch axis",
            )
        if shape[2:] != (length - self.source, self.source or length):
            tokens = f"{self.source} + {length - self.source}" if self.source else length
            raise WeightsError(
                f"'{self.array}' is over {shape[2]} queries and {shape[3]} keys, and there are {tokens} tokens",
                "save the weights of one input with all of its tokens",
            )
        is_word = ~np.logical_or(self.special, self.padding)
        if not is_word[self.source :].any() or (self.source and not is_word[: self.source].any()):
            raise WeightsError(
                "every token is special, so there is no word to score",
                "mark words in 'special' as 0",
            )
        sums = self.attention.sum(-1, dtype=np.float64)
        wrong = np.argwhere(
            ~(np.abs(sums - 1) <= _ROW_TOLERANCE) | (self.attention < 0).any(-1)
        )  # NaN is wrong, too
        for layer, head, query in wrong[:1]:
            least, total = self.attention[layer, head, query].min(), sums[layer, head, query]
            row = f"layer {layer}, head {head}, query {query} sums to {total:.6g}, and its least is {least:.6g}"
            raise WeightsError(
                f"'{self.array}' is not softmax weights: the row of {row}",
                "save weights after the softmax, not before, and without dropout",
            )


def write_weights(*kinds: SavedWeights) -> bytes:
    """The bytes of a file that `read_weights` reads: of one attention, or of the kinds of an encoder-decoder."""
    arrays: dict[str, Any] = {}
    if len(kinds) == 1 and kinds[0].array == "attention":
        arrays = {
            name: getattr(kinds[0], name) for name in ("attention", "tokens", "segments", "special")
        }
        kinds = ()
    for saved in sorted(kinds, key=lambda saved: saved.source):  # cross attention last
        array = "encoder_attention" if saved.array == "attention" else saved.array
        arrays[array] = saved.attention
        parts = {array.removesuffix("_attention"): slice(None)}
        if saved.source:
            parts = {"encoder": slice(saved.source), "predicted": slice(saved.source, None)}
        for text, part in parts.items():
            if text != "predicted" or saved.tokens[part] != arrays.get("decoder_tokens"):
                arrays |= {
                    f"{text}_tokens": saved.tokens[part],
                    f"{text}_special": saved.special[part],
                }
    file = io.BytesIO()
    np.savez_compressed(
        file, allow_pickle=False, **{name: np.array(values) for name, values in arrays.items()}
    )
    return file.getvalue()


def read_weights(
    path: Path, kind: SavedKind = "encoder", query: QuerySide = "predicts"
) -> SavedWeights:
    """Read a kind of attention from a file of what `weights_of` takes. Raises: WeightsError, which names the file."""
    try:
        if not path.is_file():  # a pipe or a device may have no end
            raise OSError("it is not a file")
        if not zipfile.is_zipfile(path):
            raise ValueError("it is no archive of arrays")
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return weights_of(arrays, kind, query)
    except WeightsError as error:
        raise WeightsError(f"{path}: {error.what}", error.remedy) from None
    except OSError as error:
        raise WeightsError(
            f"cannot read {path}: {error.strerror or error}", "check the path"
        ) from None
    except Exception as error:  # zipfile, its decompressors and numpy's header parser raise whatever their parts raise
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise WeightsError(f"{path} is not a valid .npz file: {reason}", _REMEDY) from None


def weights_of(
    arrays: Mapping[str, Any], kind: SavedKind = "encoder", query: QuerySide = "predicts"
) -> SavedWeights:
    """Saved weights from the arrays of such a file: `attention`, `tokens` and perhaps `segments` and `special`.

    Of an encoder-decoder they are `encoder_attention`, `decoder_attention` or `cross_attention`; `encoder_tokens`, and
    `decoder_tokens`, which positions read, perhaps `predicted_tokens`; for each perhaps `decoder_special` and so on.
    Shape: [layer, head, query, key], or [1, head, query, key] for each layer; an entry for each token. Raises:
    WeightsError.
    """
    array = f"{kind}_attention"
    if kind == "encoder" and ("attention" in arrays or array not in arrays):
        array = "attention"
    if array not in arrays:
        kinds = " or ".join(text for text in _TEXTS if f"{text}_attention" in arrays)
        remedy = "leave out --attention" if "attention" in arrays else _REMEDY
        raise WeightsError(
            f"has no array '{array}'", f"give --attention {kinds}" if kinds else remedy
        )
    attention = _attention(arrays, array)
    texts = [_text(arrays, "" if array == "attention" else f"{text}_") for text in _TEXTS[kind]]
    if kind == "cross" and query == "predicts":
        (_, *read), (_, *delimiters) = texts[-1]
        later = (*read, _UNKNOWN), (*delimiters, True)
        texts[-1] = _text(arrays, "predicted_") if "predicted_tokens" in arrays else later
    source = len(texts[0][0]) if kind == "cross" else 0
    tokens, special = (sum(values, ()) for values in zip(*texts, strict=True))
    if array != "attention":
        segments = (0,) * source + (int(kind != "encoder"),) * (len(tokens) - source)
    elif "segments" in arrays:
        segments = tuple(map(int, _flags(arrays, "segments", len(tokens))))
    else:  # the second segment begins behind the special token that closes the first words
        closing = (*special, True).index(True, (*special, False).index(False))
        segments = tuple(int(at > closing) for at in range(len(tokens)))
    padding = tuple(
        token in PADDING_TOKENS and not extra for token, extra in zip(tokens, special, strict=True)
    )
    return SavedWeights(attention, tokens, segments, special, padding, source, array)


def _array(arrays: Mapping[str, Any], name: str) -> NDArray[Any]:
    """An array of numbers or texts, or of a tensor for each layer. Raises: WeightsError if it is none."""
    if name not in arrays:
        raise WeightsError(f"has no array '{name}'", f"save it, too: numpy.savez(file, {name}=...)")
    values = arrays[name]
    is_list = isinstance(values, list | tuple)
    parts = [part for part in (values if is_list else [values]) if part is not None]
    parts = [
        part.detach().cpu().float().numpy() if hasattr(part, "detach") else part for part in parts
    ]
    try:
        return np.asarray(parts if is_list or not parts else parts[0])
    except ValueError:
        raise WeightsError(
            f"the parts of '{name}' differ in shape", "give layers of one shape"
        ) from None


def _attention(arrays: Mapping[str, Any], name: str) -> NDArray[np.float32]:
    values = _array(arrays, name)
    if values.shape == (0,):
        raise WeightsError(
            f"'{name}' is empty: sdpa shows no attention",
            "load the model with attn_implementation='eager'",
        )
    if values.dtype.kind != "f":
        raise WeightsError(
            f"'{name}' is of type {values.dtype}", "save float16, float32 or float64"
        )
    if values.ndim == 5 and values.shape[1] == 1:  # a batch in each layer, as transformers shows it
        values = values[:, 0]
    with np.errstate(over="ignore"):  # infinity is refused later
        return values.astype(np.float32, copy=False)


def _text(arrays: Mapping[str, Any], side: str) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """The tokens of a text, and which are special: as an array says or, if there is none, by spelling."""
    array = _array(arrays, f"{side}tokens")
    if array.ndim != 1 or array.dtype.kind != "U":
        raise WeightsError(
            f"'{side}tokens' is of type {array.dtype} and shape {list(array.shape)}",
            "save a plain list of strings",
        )
    tokens = tuple(array.tolist())
    if f"{side}special" in arrays:
        return tokens, _flags(arrays, f"{side}special", len(tokens))
    starts = PADDING_TOKENS if side else ()  # a decoder may start with what others pad with
    return tokens, tuple(
        token in DELIMITERS or (at == 0 and token in starts) for at, token in enumerate(tokens)
    )


def _flags(arrays: Mapping[str, Any], name: str, length: int) -> tuple[bool, ...]:
    values = _array(arrays, name)
    if (
        values.shape != (length,)
        or values.dtype.kind not in "biuf"
        or not np.isin(values, (0, 1)).all()
    ):
        raise WeightsError(
            f"'{name}' is of type {values.dtype} and shape {list(values.shape)}, or has other numbers than 0 and 1",
            f"save one 0 or 1 for each of the {length} tokens",
        )
    return tuple(values.astype(bool).tolist())


def encode_tokens(saved: SavedWeights, unit: Unit) -> EncodedInput:
    """An input whose tokens are known and whose tokenizer is not."""
    parts = zip(saved.segments, saved.special, saved.padding, strict=True)
    sentence = tuple(
        PADDING if pad else SPECIAL if extra else int(segment) for segment, extra, pad in parts
    )
    return EncodedInput(
        tokens=saved.tokens,
        sentence=sentence,
        unit=spelled_units(sentence, saved.tokens)
        if unit == "word"
        else tuple(range(len(saved.tokens))),
        punctuation=tuple(map(is_punctuation, saved.tokens)),
        source=saved.source,
    )
